//! Reserve and commit: write into the slots of a ring and read from them, without a copy in between.
//!
//! After `rte_ring_peek_zc.h`; for [`Single`](crate::Single) and [`Hts`](crate::Hts) sides. While an HTS side
//! is reserved, the other threads of that side wait for the commit.

use crate::hold::{SlotHold, ValueHold, nothing};
use crate::side::{Serial, Shared, Side, Want};
use crate::single::Single;
use crate::{Consumer, Producer, Ring};

/// Reserved slots that are being filled in order. [`commit`](Self::commit) hands over what was written;
/// dropping it instead drops what was written and gives the slots back.
#[derive(Debug)]
#[must_use = "without a commit nothing is added"]
pub struct WriteSlots<'a, T, P: Serial, C: Side> {
    hold: SlotHold<'a, T, P, C>,
    written: u32,
}

impl<T, P: Serial, C: Side> WriteSlots<'_, T, P, C> {
    /// How many slots were reserved; at least 1.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.hold.n as usize
    }

    /// How many of them are still to be written.
    #[inline]
    #[must_use]
    pub fn unwritten(&self) -> usize {
        (self.hold.n - self.written) as usize
    }

    /// Writes the next slot.
    ///
    /// # Errors
    /// Gives the value back when all reserved slots are written.
    #[inline]
    pub fn write(&mut self, value: T) -> Result<(), T> {
        if self.written == self.hold.n {
            return Err(value);
        }
        let value = core::mem::ManuallyDrop::new(value);
        // SAFETY: a held slot that is not written yet; the value is given up.
        unsafe { self.hold.view().put(self.hold.pos.wrapping_add(self.written), &raw const *value, 1) };
        self.written += 1;
        Ok(())
    }

    /// The slots that are still to be written, in two parts as the ring may wrap between them. What is
    /// written here counts after [`assume_written`](Self::assume_written).
    #[cfg(not(loom))]
    #[inline]
    pub fn as_uninit(&mut self) -> (&mut [core::mem::MaybeUninit<T>], &mut [core::mem::MaybeUninit<T>]) {
        let (view, pos) = (self.hold.view(), self.hold.pos.wrapping_add(self.written));
        let n = self.hold.n - self.written;
        let first = view.before_wrap(pos, n);
        // SAFETY: held slots up to the end of the storage, ours as long as `self` is borrowed.
        let a = unsafe { core::slice::from_raw_parts_mut(view.ptr(pos).cast(), first as usize) };
        // SAFETY: held slots from its beginning on, distinct from the others.
        let b = unsafe {
            core::slice::from_raw_parts_mut(view.ptr(pos.wrapping_add(first)).cast(), (n - first) as usize)
        };
        (a, b)
    }

    /// Counts the next `n` slots as written.
    ///
    /// # Panics
    /// When `n` is more than [`unwritten`](Self::unwritten).
    ///
    /// # Safety
    /// These slots, the first `n` of [`as_uninit`](Self::as_uninit), hold values.
    #[inline]
    pub unsafe fn assume_written(&mut self, n: usize) {
        assert!(n <= self.unwritten(), "{n} slots written of {}", self.unwritten());
        self.written += n as u32;
    }

    /// Hands over what was written; says how many. Slots that were not written become free again.
    #[inline]
    pub fn commit(mut self) -> usize {
        let n = core::mem::take(&mut self.written);
        self.hold.publish(n);
        n as usize
    }
}

impl<T, P: Serial, C: Side> Drop for WriteSlots<'_, T, P, C> {
    #[inline]
    fn drop(&mut self) {
        if core::mem::needs_drop::<T>() {
            for i in 0..self.written {
                drop(take_one(self.hold.view(), self.hold.pos.wrapping_add(i)));
            }
        }
    }
}

/// Elements at the front of a ring, read where they are. [`commit`](Self::commit) takes as many of them as
/// one wants out of the ring; dropping it leaves all of them.
///
/// Values are only moved out by calls that consume this: if it could be leaked half-way, the ring would hand
/// the same values out again.
#[derive(Debug)]
#[must_use = "dropped at once it takes nothing"]
pub struct ReadSlots<'a, T, P: Side, C: Serial> {
    hold: ValueHold<'a, T, P, C>,
    taken: u32,
}

impl<T, P: Side, C: Serial> ReadSlots<'_, T, P, C> {
    /// How many elements are at hand; at least 1.
    #[inline]
    #[must_use]
    #[allow(clippy::len_without_is_empty)] // never empty
    pub fn len(&self) -> usize {
        self.hold.n as usize
    }

    /// The elements, in two parts as the ring may wrap between them.
    #[cfg(not(loom))]
    #[inline]
    #[must_use]
    pub fn as_slices(&self) -> (&[T], &[T]) {
        let (view, pos, n) = (self.hold.view(), self.hold.pos, self.hold.n);
        let first = view.before_wrap(pos, n);
        // SAFETY: held values up to the end of the storage, ours as long as `self` is borrowed.
        let a = unsafe { core::slice::from_raw_parts(view.ptr(pos), first as usize) };
        // SAFETY: held values from its beginning on.
        let b =
            unsafe { core::slice::from_raw_parts(view.ptr(pos.wrapping_add(first)), (n - first) as usize) };
        (a, b)
    }

    /// Takes the first `n` elements out of the ring and drops them where they are: for those who have read
    /// them through [`as_slices`](Self::as_slices).
    ///
    /// # Panics
    /// When `n` is more than [`len`](Self::len).
    #[inline]
    pub fn commit(mut self, n: usize) {
        if core::mem::needs_drop::<T>() {
            self.commit_with(n, drop);
        } else {
            assert!(n <= self.len(), "{n} elements taken of {}", self.len());
            self.taken = n as u32;
        }
    }

    /// Moves the first `n` elements out of the ring, one by one, into `each`. Should it panic, the elements
    /// it was given are taken and the others stay.
    ///
    /// # Panics
    /// When `n` is more than [`len`](Self::len).
    #[inline]
    pub fn commit_with(mut self, n: usize, mut each: impl FnMut(T)) {
        assert!(n <= self.len(), "{n} elements taken of {}", self.len());
        for i in 0..n as u32 {
            let value = take_one(self.hold.view(), self.hold.pos.wrapping_add(i));
            self.taken = i + 1;
            each(value);
        }
    }
}

impl<T, P: Side, C: Serial> Drop for ReadSlots<'_, T, P, C> {
    #[inline]
    fn drop(&mut self) {
        self.hold.publish(self.taken);
    }
}

/// Moves the value of a held slot out. Private: only for slots that hold one and are held.
#[inline(always)]
fn take_one<T>(view: crate::storage::View<T>, pos: u32) -> T {
    let mut value = core::mem::MaybeUninit::uninit();
    // SAFETY: both callers pass positions that they hold and that have a value, each once.
    unsafe { view.take(pos, value.as_mut_ptr(), 1) };
    // SAFETY: just written.
    unsafe { value.assume_init() }
}

macro_rules! reserve {
    ($self:ident, [$($recv:tt)+], $ring:expr, $local:expr, $p:ty, $c:ty, producer) => {
        /// Reserves `n` slots (or, as a burst, as many of them as are free) to write into.
        #[inline]
        pub fn write_slots($($recv)+, n: usize, want: Want) -> Option<WriteSlots<'_, T, $p, $c>> {
            SlotHold::start($ring, $local, n, want).map(|hold| WriteSlots { hold, written: 0 })
        }
    };
    ($self:ident, [$($recv:tt)+], $ring:expr, $local:expr, $p:ty, $c:ty, consumer) => {
        /// Opens the `n` elements at the front (or, as a burst, as many of them as there are) for reading.
        #[inline]
        pub fn read_slots($($recv)+, n: usize, want: Want) -> Option<ReadSlots<'_, T, $p, $c>> {
            ValueHold::start($ring, $local, n, want).map(|hold| ReadSlots { hold, taken: 0 })
        }
    };
}

impl<T, C: Side> Producer<T, Single, C> {
    reserve!(self, [&mut self], &self.ring, &mut self.local, Single, C, producer);
}
impl<T, P: Shared + Serial, C: Side> Producer<T, P, C> {
    reserve!(self, [&self], &self.ring, nothing(), P, C, producer);
}
impl<T, P: Shared + Serial, C: Side> Ring<T, P, C> {
    reserve!(self, [&self], self, nothing(), P, C, producer);
}
impl<T, P: Side> Consumer<T, P, Single> {
    reserve!(self, [&mut self], &self.ring, &mut self.local, P, Single, consumer);
}
impl<T, P: Side, C: Shared + Serial> Consumer<T, P, C> {
    reserve!(self, [&self], &self.ring, nothing(), P, C, consumer);
}
impl<T, P: Side, C: Shared + Serial> Ring<T, P, C> {
    reserve!(self, [&self], self, nothing(), P, C, consumer);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::mem::MaybeUninit;
    use std::sync::Arc;

    use crate::{RingSize, Want};

    macro_rules! zc_tests {
        ($($mode:ident)+) => { $(
            #[test]
            #[allow(unused_mut)]
            fn $mode() {
                let size = RingSize::power_of_two(8).unwrap().starting_at(u32::MAX - 2);
                let (mut p, mut c) = crate::$mode::<Arc<u32>>(size).unwrap();
                let one = Arc::new(1);
                let mut w = p.write_slots(5, Want::Bulk).unwrap();
                assert_eq!((w.len(), w.unwritten()), (5, 5));
                w.write(one.clone()).unwrap();
                // The indexes wrap behind the third slot, and so does the storage.
                let (a, b) = w.as_uninit();
                assert_eq!((a.len(), b.len()), (2, 2));
                a[0] = MaybeUninit::new(one.clone());
                a[1] = MaybeUninit::new(one.clone());
                b[0] = MaybeUninit::new(one.clone());
                // SAFETY: three were written.
                unsafe { w.assume_written(3) };
                assert_eq!(w.commit(), 4);
                assert_eq!((p.len(), Arc::strong_count(&one)), (4, 5));
                // Not committed: dropped, and the slots are free.
                let mut w = p.write_slots(100, Want::Burst).unwrap();
                for _ in 0..4 {
                    w.write(one.clone()).unwrap();
                }
                assert!(w.write(one.clone()).is_err());
                drop(w);
                assert_eq!((p.len(), Arc::strong_count(&one)), (4, 5));

                let r = c.read_slots(4, Want::Bulk).unwrap();
                let (a, b) = r.as_slices();
                assert_eq!((a.len(), b.len(), **b.last().unwrap()), (3, 1, 1));
                r.commit(2);
                assert_eq!((c.len(), Arc::strong_count(&one)), (2, 3));
                assert!(c.read_slots(3, Want::Bulk).is_none());
                drop(c.read_slots(2, Want::Bulk).unwrap());
                let mut got = Vec::new();
                c.read_slots(3, Want::Burst).unwrap().commit_with(1, |v| got.push(v));
                assert_eq!((got.len(), c.len()), (1, 1));
                // A reader that panics keeps what it was given, no more.
                p.enqueue(one.clone()).unwrap();
                let r = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    c.read_slots(2, Want::Bulk).unwrap().commit_with(2, |_| panic!("reader"));
                }));
                assert!(r.is_err());
                assert_eq!((c.len(), Arc::strong_count(&one)), (1, 3));
                drop((got, c.dequeue()));
                assert_eq!(Arc::strong_count(&one), 1);
            }
        )+ };
    }
    zc_tests!(spsc hts);
}
