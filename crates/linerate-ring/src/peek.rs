//! Start, look, finish: take from a ring only what one wants after having seen it, or fill only part of what
//! was reserved. After `rte_ring_peek.h`; for [`Single`](crate::Single) and [`Hts`](crate::Hts) sides.
//!
//! While an operation of an HTS side is started, the other threads of that side wait for it to finish.

use crate::hold::{SlotHold, ValueHold, nothing};
use crate::side::{Serial, Shared, Side, Want};
use crate::single::Single;
use crate::{Consumer, Producer, Ring};

/// Elements at the front of a ring that were looked at but not taken yet. Dropping it leaves all of them.
#[derive(Debug)]
#[must_use = "dropped at once it takes nothing"]
pub struct DequeueStart<'a, T, P: Side, C: Serial> {
    hold: ValueHold<'a, T, P, C>,
}

impl<T, P: Side, C: Serial> DequeueStart<'_, T, P, C> {
    /// How many elements are at hand; at least 1.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.hold.n as usize
    }

    /// The element `i` places behind the front.
    #[inline]
    #[must_use]
    pub fn get(&self, i: usize) -> Option<&T> {
        // SAFETY: held values; nobody writes them while the hold lives, and `self` is borrowed for as long.
        (i < self.len()).then(|| unsafe { self.hold.view().peek(self.hold.pos.wrapping_add(i as u32)) })
    }

    /// The elements, from the front on.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        (0..self.len()).filter_map(|i| self.get(i))
    }

    /// Moves the first `n` elements to the end of the vector; the others stay at the front of the ring.
    ///
    /// # Panics
    /// When `n` is more than [`len`](Self::len).
    #[inline]
    pub fn finish_into(self, out: &mut Vec<T>, n: usize) {
        assert!(n <= self.len(), "finish of {n} of {} elements", self.len());
        out.reserve(n);
        // SAFETY: room for n is reserved.
        unsafe { self.finish_raw(out.as_mut_ptr().add(out.len()), n) };
        // SAFETY: n more were written.
        unsafe { out.set_len(out.len() + n) };
    }

    /// Copies the first `out.len()` elements and takes them out of the ring.
    ///
    /// # Panics
    /// When `out` is longer than [`len`](Self::len).
    #[inline]
    pub fn finish_copy(self, out: &mut [T])
    where
        T: Copy,
    {
        // SAFETY: a slice is valid for its length.
        unsafe { self.finish_raw(out.as_mut_ptr(), out.len()) };
    }

    /// Moves the first `n` elements to `dst`.
    ///
    /// # Panics
    /// When `n` is more than [`len`](Self::len).
    ///
    /// # Safety
    /// `dst` is valid for `n` writes. What was written belongs to the caller.
    #[inline]
    pub unsafe fn finish_raw(mut self, dst: *mut T, n: usize) {
        assert!(n <= self.len(), "finish of {n} of {} elements", self.len());
        // SAFETY: n held values; dst is the caller's promise.
        unsafe { self.hold.view().take(self.hold.pos, dst, n as u32) };
        self.hold.publish(n as u32);
    }
}

/// Slots that were reserved but not filled yet. Dropping it gives all of them back.
#[derive(Debug)]
#[must_use = "dropped at once it adds nothing"]
pub struct EnqueueStart<'a, T, P: Serial, C: Side> {
    hold: SlotHold<'a, T, P, C>,
}

impl<T, P: Serial, C: Side> EnqueueStart<'_, T, P, C> {
    /// How many slots were reserved; at least 1.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.hold.n as usize
    }

    /// Adds `values`, as many as were reserved or fewer; the other slots become free again.
    ///
    /// # Panics
    /// When there are more than [`len`](Self::len).
    #[inline]
    pub fn finish_copy(self, values: &[T])
    where
        T: Copy,
    {
        // SAFETY: a slice is valid for its length, and `Copy` values may be given up twice.
        unsafe { self.finish_raw(values.as_ptr(), values.len()) };
    }

    /// Moves all elements out of the vector into the ring.
    ///
    /// # Panics
    /// When there are more than [`len`](Self::len); the vector keeps them.
    #[inline]
    pub fn finish_from(self, values: &mut Vec<T>) {
        // SAFETY: a vector is valid for its length.
        unsafe { self.finish_raw(values.as_ptr(), values.len()) };
        // SAFETY: all were moved away.
        unsafe { values.set_len(0) };
    }

    /// Moves the `n` values at `src` into the ring.
    ///
    /// # Panics
    /// When `n` is more than [`len`](Self::len); nothing was moved then.
    ///
    /// # Safety
    /// `src` is valid for `n` reads, and the caller gives up these values.
    #[inline]
    pub unsafe fn finish_raw(mut self, src: *const T, n: usize) {
        assert!(n <= self.len(), "finish of {n} of {} elements", self.len());
        // SAFETY: n held slots; src is the caller's promise.
        unsafe { self.hold.view().put(self.hold.pos, src, n as u32) };
        self.hold.publish(n as u32);
    }
}

macro_rules! start {
    ($self:ident, [$($recv:tt)+], $ring:expr, $local:expr, $p:ty, $c:ty, producer) => {
        /// Reserves `n` slots (or, as a burst, as many of them as are free), to be filled at the end.
        #[inline]
        pub fn enqueue_start($($recv)+, n: usize, want: Want) -> Option<EnqueueStart<'_, T, $p, $c>> {
            SlotHold::start($ring, $local, n, want).map(|hold| EnqueueStart { hold })
        }
    };
    ($self:ident, [$($recv:tt)+], $ring:expr, $local:expr, $p:ty, $c:ty, consumer) => {
        /// Shows the `n` elements at the front (or, as a burst, as many of them as there are).
        #[inline]
        pub fn dequeue_start($($recv)+, n: usize, want: Want) -> Option<DequeueStart<'_, T, $p, $c>> {
            ValueHold::start($ring, $local, n, want).map(|hold| DequeueStart { hold })
        }
    };
}

impl<T, C: Side> Producer<T, Single, C> {
    start!(self, [&mut self], &self.ring, &mut self.local, Single, C, producer);
}
impl<T, P: Shared + Serial, C: Side> Producer<T, P, C> {
    start!(self, [&self], &self.ring, nothing(), P, C, producer);
}
impl<T, P: Shared + Serial, C: Side> Ring<T, P, C> {
    start!(self, [&self], self, nothing(), P, C, producer);
}
impl<T, P: Side> Consumer<T, P, Single> {
    start!(self, [&mut self], &self.ring, &mut self.local, P, Single, consumer);
}
impl<T, P: Side, C: Shared + Serial> Consumer<T, P, C> {
    start!(self, [&self], &self.ring, nothing(), P, C, consumer);
}
impl<T, P: Side, C: Shared + Serial> Ring<T, P, C> {
    start!(self, [&self], self, nothing(), P, C, consumer);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::{RingSize, Want};

    macro_rules! peek_tests {
        ($($mode:ident)+) => { $(
            #[test]
            #[allow(unused_mut)]
            fn $mode() {
                let size = RingSize::power_of_two(8).unwrap().starting_at(u32::MAX - 2);
                let (mut p, mut c) = crate::$mode::<String>(size).unwrap();
                assert!(c.dequeue_start(1, Want::Burst).is_none());
                // Reserved 6, filled 2, the others free again.
                let start = p.enqueue_start(6, Want::Bulk).unwrap();
                assert_eq!(start.len(), 6);
                start.finish_from(&mut vec!["a".into(), "b".into()]);
                assert_eq!((p.len(), p.free()), (2, 6));
                drop(p.enqueue_start(9, Want::Burst).unwrap());
                assert!(p.enqueue_start(7, Want::Bulk).is_none());
                assert!(p.enqueue_start(0, Want::Burst).is_none());
                assert_eq!(p.len(), 2);
                p.enqueue_bulk_from(&mut ["c", "d", "e", "f", "g", "h"].map(String::from).to_vec());
                // Looked at all, took three, then none, then one.
                let look = c.dequeue_start(100, Want::Burst).unwrap();
                assert_eq!(look.iter().map(String::as_str).collect::<String>(), "abcdefgh");
                assert!(look.get(8).is_none());
                let mut out = Vec::new();
                look.finish_into(&mut out, 3);
                drop(c.dequeue_start(2, Want::Bulk).unwrap());
                assert!(c.dequeue_start(6, Want::Bulk).is_none());
                c.dequeue_start(2, Want::Bulk).unwrap().finish_into(&mut out, 1);
                assert_eq!(out.concat(), "abcd");
                assert_eq!(c.drain().collect::<String>(), "efgh");
            }
        )+ };
    }
    peek_tests!(spsc hts);

    #[test]
    fn finish_of_more_than_was_started_is_refused_and_gives_back() {
        let (mut p, mut c) = crate::spsc::<u8>(RingSize::exact(4).unwrap()).unwrap();
        p.enqueue_bulk(&[1, 2]);
        let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            c.dequeue_start(2, Want::Bulk).unwrap().finish_copy(&mut [0; 3]);
        }));
        assert!(r.is_err());
        assert_eq!(c.drain().collect::<Vec<_>>(), [1, 2]);

        let (p, c) = crate::hts::<u8>(RingSize::exact(4).unwrap()).unwrap();
        let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            p.enqueue_start(1, Want::Bulk).unwrap().finish_copy(&[0; 3]);
        }));
        assert!(r.is_err());
        assert_eq!(p.enqueue_bulk(&[5, 6]), 2);
        assert_eq!(c.drain().collect::<Vec<_>>(), [5, 6]);
    }
}
