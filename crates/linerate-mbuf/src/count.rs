//! The reference count's orders, apart from the buffers so that a model can check them.
//!
//! ```text
//!   a holder                              another holder
//!   reads the bytes
//!   drop: fetch_sub      R ───────┐
//!                                 └────►  drop: fetch_sub sees 1, then
//!                                          fence acquire   A
//!                                          restores the header, frees: the next owner writes the bytes
//! ```
//!
//! * R: release, pairs with A — what a holder did with the bytes happens before they are written again. A
//!   relaxed decrement would let the last holder's write overtake another holder's read.
//! * A: acquire, pairs with R, taken only by the last one.
//! * The increment is relaxed: whoever increments already holds a reference, so nothing can be freed meanwhile.
//! * A count of 1 seen by a holder is its own: no other holder exists that could change it, so it may be
//!   written with a plain store. The load that sees it is acquire (A again): the last other holder may have
//!   dropped just before.

#[cfg(all(loom, test))]
use loom::sync::atomic::{AtomicU16, Ordering, fence};
#[cfg(not(all(loom, test)))]
use std::sync::atomic::{AtomicU16, Ordering, fence};

/// Most references one buffer may have; beyond it a clone panics instead of wrapping.
pub(crate) const MAX_REFS: u16 = u16::MAX / 2;

/// The two edges of the drawing, as a table that the model can weaken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orders {
    /// R: the decrement.
    pub release: Ordering,
    /// A: the fence after the last decrement, and the load that sees 1.
    pub acquire: Ordering,
}

pub(crate) const ORDERS: Orders = Orders { release: Ordering::Release, acquire: Ordering::Acquire };

/// Takes one more reference.
///
/// Only a holder may call it, and not two threads through one handle: that is what makes the plain store sound.
///
/// # Panics
///
/// Beyond [`MAX_REFS`] references.
#[inline(always)]
pub(crate) fn increment(count: &AtomicU16) {
    let now = count.load(Ordering::Relaxed);
    if now == 1 {
        count.store(2, Ordering::Relaxed);
    } else {
        if now >= MAX_REFS {
            too_many();
        }
        count.fetch_add(1, Ordering::Relaxed);
    }
}

/// Takes one more reference where another thread may be doing the same: always a read-modify-write.
///
/// # Panics
///
/// Beyond [`MAX_REFS`] references.
#[inline]
pub(crate) fn increment_shared(count: &AtomicU16) {
    if count.fetch_add(1, Ordering::Relaxed) >= MAX_REFS {
        too_many();
    }
}

/// Gives one reference back; true for the last holder, with the count back at 1 as a pool wants it.
#[inline(always)]
pub(crate) fn decrement(count: &AtomicU16, orders: Orders) -> bool {
    if count.load(orders.acquire) == 1 {
        return true;
    }
    // R
    if count.fetch_sub(1, orders.release) != 1 {
        return false;
    }
    if orders.acquire != Ordering::Relaxed {
        fence(orders.acquire); // A
    }
    count.store(1, Ordering::Relaxed);
    true
}

/// Whether the caller is the only holder; A, so that it may then write the bytes.
#[inline(always)]
pub(crate) fn is_last(count: &AtomicU16) -> bool {
    count.load(ORDERS.acquire) == 1
}

#[cold]
#[inline(never)]
fn too_many() -> ! {
    panic!("more than {MAX_REFS} references to one buffer");
}

#[cfg(all(loom, test))]
mod loom_model {
    use super::*;
    use loom::{cell::UnsafeCell, sync::Arc, thread};

    struct Buffer {
        count: AtomicU16,
        bytes: UnsafeCell<u32>,
    }

    /// Three holders read the bytes and drop; whoever is last writes them, as the next owner would.
    fn life(orders: Orders) {
        loom::model(move || {
            let b = Arc::new(Buffer { count: AtomicU16::new(1), bytes: UnsafeCell::new(7) });
            increment(&b.count);
            increment(&b.count);
            let read_and_drop = move |b: &Buffer| {
                b.bytes.with(|p| assert_eq!(unsafe { *p }, 7));
                if decrement(&b.count, orders) {
                    b.bytes.with_mut(|p| unsafe { *p = 7 });
                    assert_eq!(b.count.load(Ordering::Relaxed), 1);
                }
            };
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let b = b.clone();
                    thread::spawn(move || read_and_drop(&b))
                })
                .collect();
            read_and_drop(&b);
            for t in others {
                t.join().unwrap();
            }
        });
    }

    fn fails(orders: Orders) -> bool {
        std::panic::catch_unwind(|| life(orders)).is_err()
    }

    #[test]
    fn loom_count_is_sound() {
        life(ORDERS);
    }

    #[test]
    fn loom_relaxed_decrement_is_caught() {
        assert!(fails(Orders { release: Ordering::Relaxed, ..ORDERS }));
    }

    #[test]
    fn loom_missing_acquire_is_caught() {
        assert!(fails(Orders { acquire: Ordering::Relaxed, ..ORDERS }));
    }
}
