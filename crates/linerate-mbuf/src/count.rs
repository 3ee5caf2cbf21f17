//! The reference count's orders, apart from the buffers so that a model can check them.
//!
//! ```text
//!   a holder                              another holder
//!   reads the bytes
//!   drop: fetch_sub      R ───────┐
//!                                 ├────►  drop: fetch_sub sees 1, then fence  A
//!                                 │        restores the header, frees: the next owner writes the bytes
//!                                 ├────►  drop, try_unique: load sees 1       A
//!                                 │        the same without a read-modify-write
//!                                 └────►  clone: load sees 1                  A
//!                                          stores 2, and passes the new handle on
//! ```
//!
//! * R: release, pairs with A — what a holder did with the bytes happens before they are written again. A
//!   relaxed decrement would let the last holder's write overtake another holder's read.
//! * A: acquire, pairs with R, taken by whoever finds itself the only holder. The clone needs it too: its plain
//!   store of 2 ends the release sequence that R began, so whatever R published must be passed on by the
//!   cloning thread itself, whose own R comes later.
//! * Every other increment is a relaxed read-modify-write: whoever increments already holds a reference, so
//!   nothing can be freed meanwhile, and it continues the release sequence.
//! * A count of 1 seen by a holder is its own: no other holder exists that could change it, so it may be
//!   written with a plain store. This holds for a count that *this handle* stands for. The segments behind a
//!   packet's first are held by the packet, which several threads may have: they take [`increment_shared`].
//!
//! The same code counts the headers on a buffer (16 bits) and the users of an external buffer (32 bits).

use std::sync::atomic::Ordering;

/// The atomic integers that count: core's, and loom's in the model.
pub(crate) trait Counter {
    /// Most references that are given out; the counter itself reaches at least twice as far.
    const MAX: u32;
    fn load(&self, order: Ordering) -> u32;
    fn store(&self, value: u32, order: Ordering);
    fn fetch_add(&self, order: Ordering) -> u32;
    fn fetch_sub(&self, order: Ordering) -> u32;
    fn fence(order: Ordering);
}

macro_rules! counter {
    ($atomic:ty, $int:ty, $fence:path) => {
        impl Counter for $atomic {
            const MAX: u32 = (<$int>::MAX / 2) as u32;
            #[inline(always)]
            fn load(&self, order: Ordering) -> u32 {
                <$atomic>::load(self, order).into()
            }
            #[inline(always)]
            fn store(&self, value: u32, order: Ordering) {
                <$atomic>::store(self, value as $int, order);
            }
            #[inline(always)]
            fn fetch_add(&self, order: Ordering) -> u32 {
                <$atomic>::fetch_add(self, 1, order).into()
            }
            #[inline(always)]
            fn fetch_sub(&self, order: Ordering) -> u32 {
                <$atomic>::fetch_sub(self, 1, order).into()
            }
            #[inline(always)]
            fn fence(order: Ordering) {
                $fence(order);
            }
        }
    };
}
counter!(std::sync::atomic::AtomicU16, u16, std::sync::atomic::fence);
counter!(std::sync::atomic::AtomicU32, u32, std::sync::atomic::fence);

/// The edges of the drawing, as a table that the model can weaken.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Orders {
    /// R: the decrement.
    pub release: Ordering,
    /// A: the fence after the last decrement.
    pub acquire_last: Ordering,
    /// A: the load that sees 1 before the bytes are written or freed.
    pub acquire_alone: Ordering,
    /// A: the load that sees 1 before a clone stores 2.
    pub acquire_clone: Ordering,
}

pub(crate) const ORDERS: Orders = Orders {
    release: Ordering::Release,
    acquire_last: Ordering::Acquire,
    acquire_alone: Ordering::Acquire,
    acquire_clone: Ordering::Acquire,
};

/// Takes one more reference through the one handle that the count of 1 would stand for.
///
/// # Panics
///
/// Beyond [`Counter::MAX`] references; the count is then as it was.
#[inline(always)]
pub(crate) fn increment<C: Counter>(count: &C, orders: Orders) {
    // A
    if count.load(orders.acquire_clone) == 1 {
        count.store(2, Ordering::Relaxed);
    } else {
        increment_shared(count);
    }
}

/// Takes one more reference where another thread may be doing the same: always a read-modify-write.
///
/// # Panics
///
/// Beyond [`Counter::MAX`] references; the count is then as it was.
#[inline(always)]
pub(crate) fn increment_shared<C: Counter>(count: &C) {
    // Looked at before: the threads between the look and the addition are far fewer than the numbers from MAX
    // to the counter's wrap.
    if count.load(Ordering::Relaxed) >= C::MAX {
        too_many(C::MAX);
    }
    count.fetch_add(Ordering::Relaxed);
}

/// Gives one reference back; true for the last holder, with the count back at 1 as a pool wants it.
#[inline(always)]
pub(crate) fn decrement<C: Counter>(count: &C, orders: Orders) -> bool {
    // A
    if count.load(orders.acquire_alone) == 1 {
        return true;
    }
    // R
    if count.fetch_sub(orders.release) != 1 {
        return false;
    }
    last(count, orders)
}

/// Out of line: two holders that drop at the same moment are rare.
#[cold]
fn last<C: Counter>(count: &C, orders: Orders) -> bool {
    if orders.acquire_last != Ordering::Relaxed {
        C::fence(orders.acquire_last); // A
    }
    count.store(1, Ordering::Relaxed);
    true
}

/// Whether the caller is the only holder; A, so that it may then write the bytes.
#[inline(always)]
pub(crate) fn is_last<C: Counter>(count: &C) -> bool {
    count.load(ORDERS.acquire_alone) == 1
}

#[cold]
#[inline(never)]
fn too_many(max: u32) -> ! {
    panic!("more than {max} references to one buffer");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU16, AtomicU32};

    #[test]
    fn too_many_references_panic_and_leave_the_count() {
        let c = AtomicU16::new(32_766);
        increment(&c, ORDERS);
        for _ in 0..3 {
            assert!(std::panic::catch_unwind(|| increment(&c, ORDERS)).is_err());
            assert!(std::panic::catch_unwind(|| increment_shared(&c)).is_err());
        }
        assert_eq!(c.load(Ordering::Relaxed), 32_767);
        assert!(!decrement(&c, ORDERS));
    }

    #[test]
    fn the_last_one_leaves_the_count_at_one() {
        let c = AtomicU32::new(1);
        increment(&c, ORDERS);
        increment_shared(&c);
        assert_eq!(c.load(Ordering::Relaxed), 3);
        assert!(!decrement(&c, ORDERS));
        assert!(!decrement(&c, ORDERS));
        assert!(is_last(&c));
        assert!(decrement(&c, ORDERS));
        assert_eq!(c.load(Ordering::Relaxed), 1);
    }
}

#[cfg(all(loom, test))]
mod loom_model {
    use super::*;
    use loom::{
        cell::UnsafeCell,
        sync::{
            Arc, Mutex,
            atomic::{AtomicU16, AtomicU32},
        },
        thread,
    };

    counter!(AtomicU16, u16, loom::sync::atomic::fence);
    counter!(AtomicU32, u32, loom::sync::atomic::fence);

    struct Buffer<C> {
        count: C,
        bytes: UnsafeCell<u32>,
    }

    impl<C: Counter> Buffer<C> {
        fn read(&self) {
            // SAFETY: a holder reads; loom reports whoever writes meanwhile.
            self.bytes.with(|p| assert_eq!(unsafe { *p }, 7));
        }
        fn write(&self) {
            // SAFETY: whoever is alone writes; loom reports everybody who is not.
            self.bytes.with_mut(|p| unsafe { *p = 7 });
        }
        fn read_and_drop(&self, orders: Orders) {
            self.read();
            if decrement(&self.count, orders) {
                self.write();
                assert_eq!(self.count.load(Ordering::Relaxed), 1);
            }
        }
    }

    /// Three holders read the bytes and drop; whoever is last writes them, as the next owner would.
    fn life<C: Counter + Send + Sync + 'static>(new: fn() -> C, orders: Orders) {
        loom::model(move || {
            let b = Arc::new(Buffer { count: new(), bytes: UnsafeCell::new(7) });
            increment(&b.count, orders);
            increment(&b.count, orders);
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let b = b.clone();
                    thread::spawn(move || b.read_and_drop(orders))
                })
                .collect();
            b.read_and_drop(orders);
            for t in others {
                t.join().unwrap();
            }
        });
    }

    /// A holder that finds itself alone clones (a plain store) and hands the clone to a third thread. It waits to be
    /// alone with relaxed loads, which order nothing: left to itself, loom does not come to that schedule.
    fn clone_when_alone(orders: Orders) {
        loom::model(move || {
            let b = Arc::new(Buffer { count: AtomicU16::new(1), bytes: UnsafeCell::new(7) });
            increment(&b.count, orders);
            let first = {
                let b = b.clone();
                thread::spawn(move || b.read_and_drop(orders))
            };
            while b.count.load(Ordering::Relaxed) != 1 {
                thread::yield_now();
            }
            increment(&b.count, orders);
            let second = {
                let b = b.clone();
                thread::spawn(move || b.read_and_drop(orders))
            };
            b.read_and_drop(orders);
            first.join().unwrap();
            second.join().unwrap();
        });
    }

    /// Two threads hold the packet and attach to a segment behind its first, whose count of 1 neither stands for.
    fn attach_to_rest(take: fn(&AtomicU16)) {
        loom::model(move || {
            let b = Arc::new(Buffer { count: AtomicU16::new(1), bytes: UnsafeCell::new(7) });
            let other = {
                let b = b.clone();
                thread::spawn(move || take(&b.count))
            };
            take(&b.count);
            other.join().unwrap();
            assert_eq!(b.count.load(Ordering::Relaxed), 3, "both attached and the packet itself");
        });
    }

    /// The pool's part: the last drop recycles the buffer through a back end, whoever takes it out writes the
    /// header without atomics (a re-arm) and the bytes, shares it, and the life begins again.
    fn recycle(orders: Orders) {
        loom::model(move || {
            let b = Arc::new(Buffer { count: AtomicU16::new(1), bytes: UnsafeCell::new(7) });
            let pool = Arc::new(Mutex::new(0u32));
            increment(&b.count, orders);
            let drop_to_pool = move |b: &Buffer<AtomicU16>, pool: &Mutex<u32>| {
                b.read();
                if decrement(&b.count, orders) {
                    *pool.lock().unwrap() += 1;
                }
            };
            let others: Vec<_> = (0..2)
                .map(|_| {
                    let (b, pool) = (b.clone(), pool.clone());
                    thread::spawn(move || drop_to_pool(&b, &pool))
                })
                .collect();
            // The next owner: takes it if it is there yet.
            let mut free = pool.lock().unwrap();
            assert!(*free <= 1, "freed twice");
            if *free == 1 {
                *free = 0;
                drop(free);
                b.write();
                b.count.store(1, Ordering::Relaxed);
            } else {
                drop(free);
            }
            for t in others {
                t.join().unwrap();
            }
        });
    }

    fn fails(model: impl FnOnce()) -> bool {
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(model)).is_err()
    }

    #[test]
    fn loom_count_is_sound() {
        life(|| AtomicU16::new(1), ORDERS);
        life(|| AtomicU32::new(1), ORDERS);
    }

    #[test]
    fn loom_clone_when_alone_is_sound() {
        clone_when_alone(ORDERS);
    }

    #[test]
    fn loom_recycling_is_sound() {
        recycle(ORDERS);
    }

    #[test]
    fn loom_attach_to_rest_counts_everyone() {
        attach_to_rest(increment_shared);
        assert!(fails(|| attach_to_rest(|c| increment(c, ORDERS))), "a plain store loses one");
    }

    #[test]
    fn loom_relaxed_decrement_is_caught() {
        let weak = Orders { release: Ordering::Relaxed, ..ORDERS };
        assert!(fails(|| life(|| AtomicU16::new(1), weak)));
        assert!(fails(|| life(|| AtomicU32::new(1), weak)));
        assert!(fails(|| recycle(weak)));
    }

    #[test]
    fn loom_missing_fence_of_the_last_is_caught() {
        assert!(fails(|| life(|| AtomicU16::new(1), Orders { acquire_last: Ordering::Relaxed, ..ORDERS })));
    }

    #[test]
    fn loom_relaxed_look_before_the_drop_is_caught() {
        let weak = Orders { acquire_alone: Ordering::Relaxed, ..ORDERS };
        assert!(fails(|| life(|| AtomicU16::new(1), weak)));
        assert!(fails(|| recycle(weak)));
    }

    #[test]
    fn loom_relaxed_look_before_the_clone_is_caught() {
        assert!(fails(|| clone_when_alone(Orders { acquire_clone: Ordering::Relaxed, ..ORDERS })));
    }
}
