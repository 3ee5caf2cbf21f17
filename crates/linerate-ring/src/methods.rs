//! The calls of producers and consumers, written once for every type that has them.
//!
//! A type offers `put` or `take` (raw pointer, count, [`Want`](crate::Want)); the macros make the public
//! methods from it, with `&self` where a side may be shared and `&mut self` where it may not.

macro_rules! producer_methods {
    ($self:ident, $($recv:tt)+) => {
        /// Adds one element.
        ///
        /// # Errors
        /// Gives the element back when the ring is full.
        #[inline]
        pub fn enqueue($($recv)+, value: T) -> Result<(), T> {
            let value = core::mem::ManuallyDrop::new(value);
            // SAFETY: valid for one read; given up when it was taken.
            match unsafe { $self.put::<false>(&raw const *value, 1, $crate::Want::Bulk) }.count {
                0 => Err(core::mem::ManuallyDrop::into_inner(value)),
                _ => Ok(()),
            }
        }

        /// Adds all of `values` or none; says how many (all or 0).
        #[inline]
        pub fn enqueue_bulk($($recv)+, values: &[T]) -> usize
        where
            T: Copy,
        {
            // SAFETY: a slice is valid for its length, and `Copy` values may be given up twice.
            unsafe { $self.put::<false>(values.as_ptr(), values.len(), $crate::Want::Bulk) }.count
        }

        /// Adds as many of `values`, from the first on, as fit; says how many.
        #[inline]
        pub fn enqueue_burst($($recv)+, values: &[T]) -> usize
        where
            T: Copy,
        {
            // SAFETY: as in `enqueue_bulk`.
            unsafe { $self.put::<false>(values.as_ptr(), values.len(), $crate::Want::Burst) }.count
        }

        /// [`enqueue_bulk`](Self::enqueue_bulk) or [`enqueue_burst`](Self::enqueue_burst), and the free slots
        /// that are left.
        #[inline]
        pub fn enqueue_counted($($recv)+, values: &[T], want: $crate::Want) -> $crate::Moved
        where
            T: Copy,
        {
            // SAFETY: as in `enqueue_bulk`.
            unsafe { $self.put::<true>(values.as_ptr(), values.len(), want) }
        }

        /// Moves all elements of the vector into the ring, which leaves it empty, or none; says how many.
        #[inline]
        pub fn enqueue_bulk_from($($recv)+, values: &mut Vec<T>) -> usize {
            // SAFETY: a vector is valid for its length.
            let n = unsafe { $self.put::<false>(values.as_ptr(), values.len(), $crate::Want::Bulk) }.count;
            if n != 0 {
                // SAFETY: all were moved away.
                unsafe { values.set_len(0) };
            }
            n
        }

        /// Moves as many elements, from the first on, as fit out of the vector into the ring; the others
        /// stay, in order. Says how many were moved.
        #[inline]
        pub fn enqueue_burst_from($($recv)+, values: &mut Vec<T>) -> usize {
            let len = values.len();
            // SAFETY: a vector is valid for its length.
            let n = unsafe { $self.put::<false>(values.as_ptr(), len, $crate::Want::Burst) }.count;
            // SAFETY: the first n were moved away; the others move up and make up the new length.
            unsafe {
                values.set_len(0);
                let p = values.as_mut_ptr();
                p.copy_from(p.add(n), len - n);
                values.set_len(len - n);
            }
            n
        }

        /// Moves all elements of an array into the ring, or none.
        ///
        /// # Errors
        /// Gives the array back when it does not fit.
        #[inline]
        pub fn enqueue_array<const N: usize>($($recv)+, values: [T; N]) -> Result<(), [T; N]> {
            let values = core::mem::ManuallyDrop::new(values);
            // SAFETY: valid for N reads; given up when they were taken.
            let n = unsafe { $self.put::<false>((&raw const *values).cast(), N, $crate::Want::Bulk) }.count;
            if n == N { Ok(()) } else { Err(core::mem::ManuallyDrop::into_inner(values)) }
        }

        /// Adds elements of the iterator, one by one, until it ends or the ring is full; says how many, and
        /// gives back the one that no longer fitted.
        pub fn enqueue_iter($($recv)+, values: impl IntoIterator<Item = T>) -> (usize, Option<T>) {
            let mut n = 0;
            for value in values {
                match $self.enqueue(value) {
                    Ok(()) => n += 1,
                    Err(value) => return (n, Some(value)),
                }
            }
            (n, None)
        }

        /// Moves all of the `n` values at `src` into the ring or none; says how many (n or 0).
        ///
        /// # Safety
        /// `src` is valid for `n` reads, and the caller gives up the values that were moved.
        #[inline]
        pub unsafe fn enqueue_bulk_raw($($recv)+, src: *const T, n: usize) -> usize {
            // SAFETY: passed on.
            unsafe { $self.put::<false>(src, n, $crate::Want::Bulk) }.count
        }

        /// Moves as many of the `n` values at `src`, from the first on, as fit; says how many.
        ///
        /// # Safety
        /// As [`enqueue_bulk_raw`](Self::enqueue_bulk_raw).
        #[inline]
        pub unsafe fn enqueue_burst_raw($($recv)+, src: *const T, n: usize) -> usize {
            // SAFETY: passed on.
            unsafe { $self.put::<false>(src, n, $crate::Want::Burst) }.count
        }

        /// [`enqueue_counted`](Self::enqueue_counted) from a raw pointer.
        ///
        /// # Safety
        /// As [`enqueue_bulk_raw`](Self::enqueue_bulk_raw).
        #[inline]
        pub unsafe fn enqueue_counted_raw(
            $($recv)+,
            src: *const T,
            n: usize,
            want: $crate::Want,
        ) -> $crate::Moved {
            // SAFETY: passed on.
            unsafe { $self.put::<true>(src, n, want) }
        }
    };
}

macro_rules! consumer_methods {
    ($self:ident, $($recv:tt)+) => {
        /// Takes the oldest element; none when the ring is empty.
        #[inline]
        pub fn dequeue($($recv)+) -> Option<T> {
            let mut value = core::mem::MaybeUninit::<T>::uninit();
            // SAFETY: valid for one write.
            match unsafe { $self.take::<false>(value.as_mut_ptr(), 1, $crate::Want::Bulk) }.count {
                0 => None,
                // SAFETY: one was written.
                _ => Some(unsafe { value.assume_init() }),
            }
        }

        /// Fills all of `out` or none of it; says how many (all or 0).
        #[inline]
        pub fn dequeue_bulk($($recv)+, out: &mut [T]) -> usize
        where
            T: Copy,
        {
            // SAFETY: a slice is valid for its length; `Copy` values may be overwritten.
            unsafe { $self.take::<false>(out.as_mut_ptr(), out.len(), $crate::Want::Bulk) }.count
        }

        /// Fills as much of `out`, from the first on, as there is; says how many.
        #[inline]
        pub fn dequeue_burst($($recv)+, out: &mut [T]) -> usize
        where
            T: Copy,
        {
            // SAFETY: as in `dequeue_bulk`.
            unsafe { $self.take::<false>(out.as_mut_ptr(), out.len(), $crate::Want::Burst) }.count
        }

        /// [`dequeue_bulk`](Self::dequeue_bulk) or [`dequeue_burst`](Self::dequeue_burst), and the elements
        /// that are left.
        #[inline]
        pub fn dequeue_counted($($recv)+, out: &mut [T], want: $crate::Want) -> $crate::Moved
        where
            T: Copy,
        {
            // SAFETY: as in `dequeue_bulk`.
            unsafe { $self.take::<true>(out.as_mut_ptr(), out.len(), want) }
        }

        /// As [`dequeue_bulk`](Self::dequeue_bulk), for elements of any type: the first so many of `out` hold
        /// values afterwards, and it is the caller who must drop them.
        #[inline]
        pub fn dequeue_bulk_uninit($($recv)+, out: &mut [core::mem::MaybeUninit<T>]) -> usize {
            // SAFETY: a slice is valid for its length.
            unsafe { $self.take::<false>(out.as_mut_ptr().cast(), out.len(), $crate::Want::Bulk) }.count
        }

        /// As [`dequeue_burst`](Self::dequeue_burst), for elements of any type; see
        /// [`dequeue_bulk_uninit`](Self::dequeue_bulk_uninit).
        #[inline]
        pub fn dequeue_burst_uninit($($recv)+, out: &mut [core::mem::MaybeUninit<T>]) -> usize {
            // SAFETY: a slice is valid for its length.
            unsafe { $self.take::<false>(out.as_mut_ptr().cast(), out.len(), $crate::Want::Burst) }.count
        }

        /// Moves `n` elements, or none, to the end of the vector; says how many.
        #[inline]
        pub fn dequeue_bulk_into($($recv)+, out: &mut Vec<T>, n: usize) -> usize {
            if n > $self.capacity() {
                return 0; // Cannot be, so do not reserve memory for it.
            }
            out.reserve(n);
            // SAFETY: room for n is reserved.
            let k = unsafe {
                $self.take::<false>(out.as_mut_ptr().add(out.len()), n, $crate::Want::Bulk)
            }
            .count;
            // SAFETY: k more elements were written.
            unsafe { out.set_len(out.len() + k) };
            k
        }

        /// Moves at most `max` elements to the end of the vector; says how many.
        #[inline]
        pub fn dequeue_burst_into($($recv)+, out: &mut Vec<T>, max: usize) -> usize {
            let max = max.min($self.capacity());
            out.reserve(max);
            // SAFETY: room for max is reserved.
            let k = unsafe {
                $self.take::<false>(out.as_mut_ptr().add(out.len()), max, $crate::Want::Burst)
            }
            .count;
            // SAFETY: k more elements were written.
            unsafe { out.set_len(out.len() + k) };
            k
        }

        /// Takes elements one by one until the ring is empty.
        pub fn drain($($recv)+) -> impl Iterator<Item = T> {
            core::iter::from_fn(move || $self.dequeue())
        }

        /// Moves `n` elements, or none, to `dst`; says how many (n or 0).
        ///
        /// # Safety
        /// `dst` is valid for `n` writes. What was written belongs to the caller.
        #[inline]
        pub unsafe fn dequeue_bulk_raw($($recv)+, dst: *mut T, n: usize) -> usize {
            // SAFETY: passed on.
            unsafe { $self.take::<false>(dst, n, $crate::Want::Bulk) }.count
        }

        /// Moves at most `n` elements to `dst`; says how many.
        ///
        /// # Safety
        /// As [`dequeue_bulk_raw`](Self::dequeue_bulk_raw).
        #[inline]
        pub unsafe fn dequeue_burst_raw($($recv)+, dst: *mut T, n: usize) -> usize {
            // SAFETY: passed on.
            unsafe { $self.take::<false>(dst, n, $crate::Want::Burst) }.count
        }

        /// [`dequeue_counted`](Self::dequeue_counted) to a raw pointer.
        ///
        /// # Safety
        /// As [`dequeue_bulk_raw`](Self::dequeue_bulk_raw).
        #[inline]
        pub unsafe fn dequeue_counted_raw(
            $($recv)+,
            dst: *mut T,
            n: usize,
            want: $crate::Want,
        ) -> $crate::Moved {
            // SAFETY: passed on.
            unsafe { $self.take::<true>(dst, n, want) }
        }
    };
}

pub(crate) use {consumer_methods, producer_methods};
