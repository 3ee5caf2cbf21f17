//! The two ends of a ring as values: who holds one may use that end.

use core::fmt;

use crate::Ring;
use crate::side::{Moved, Shared, Side, Want};
use crate::single::Single;
use crate::storage::View;
use crate::sync::Arc;

/// The end that elements go in. With a [`Single`] side it can be sent to another thread but neither cloned
/// nor shared, and its methods take `&mut self`; with a shared side it can, and they take `&self`.
pub struct Producer<T, P: Side = Single, C: Side = P> {
    pub(crate) local: P::Local,
    /// The ring's slots, one step nearer than through the ring.
    view: View<T>,
    pub(crate) ring: Arc<Ring<T, P, C>>,
}

/// The end that elements come out of; see [`Producer`] for what may be shared.
pub struct Consumer<T, P: Side = Single, C: Side = P> {
    pub(crate) local: C::Local,
    /// The ring's slots, one step nearer than through the ring.
    view: View<T>,
    pub(crate) ring: Arc<Ring<T, P, C>>,
}

macro_rules! common {
    ($name:ident, $side:ident) => {
        impl<T, P: Side, C: Side> $name<T, P, C> {
            pub(crate) fn new(ring: Arc<Ring<T, P, C>>, local: $side::Local) -> Self {
                Self { local, view: ring.view(), ring }
            }

            /// The ring that this is an end of, for its counts.
            #[inline]
            #[must_use]
            pub fn ring(&self) -> &Ring<T, P, C> {
                &self.ring
            }

            /// How many elements fit.
            #[inline]
            #[must_use]
            pub fn capacity(&self) -> usize {
                self.ring.capacity()
            }

            /// How many elements are there; see [`Ring::len`].
            #[inline]
            #[must_use]
            pub fn len(&self) -> usize {
                self.ring.len()
            }

            /// How many more elements fit, as a snapshot.
            #[inline]
            #[must_use]
            pub fn free(&self) -> usize {
                self.ring.free()
            }

            /// Whether nothing is there, as a snapshot.
            #[inline]
            #[must_use]
            pub fn is_empty(&self) -> bool {
                self.ring.is_empty()
            }

            /// Whether nothing more fits, as a snapshot.
            #[inline]
            #[must_use]
            pub fn is_full(&self) -> bool {
                self.ring.is_full()
            }
        }

        impl<T, P: Side, C: Side> fmt::Debug for $name<T, P, C> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_tuple(stringify!($name)).field(&*self.ring).finish()
            }
        }
    };
}
common!(Producer, P);
common!(Consumer, C);

impl<T, P: Shared, C: Side> Clone for Producer<T, P, C> {
    fn clone(&self) -> Self {
        Self { local: (), view: self.view, ring: Arc::clone(&self.ring) }
    }
}

impl<T, P: Side, C: Shared> Clone for Consumer<T, P, C> {
    fn clone(&self) -> Self {
        Self { local: (), view: self.view, ring: Arc::clone(&self.ring) }
    }
}

impl<T, C: Side> Producer<T, Single, C> {
    /// How many spin-wait hints the first call that finds no room after one that moved something waits
    /// before it returns; 0 at first. A thread that is as fast as its opposite looks for every single element
    /// otherwise, and each look takes the line away from the opposite in the middle of its work: with 4, calls
    /// of one element between two near cores cost 15 to 27 % less, between far ones the same (`ring_probe`, rows `linger=4`). Wrong for a
    /// thread that serves many rings, or both ends of one.
    pub fn set_linger(&mut self, pauses: u32) {
        self.local.set_linger(pauses);
    }

    /// # Safety
    /// As `Ring::put_with`.
    #[inline(always)]
    unsafe fn put<const EXACT: bool>(&mut self, src: *const T, n: usize, want: Want) -> Moved {
        // SAFETY: the view is the ring's since `new`; the rest is passed on.
        unsafe { self.ring.put_with::<EXACT>(self.view, &mut self.local, src, n, want) }
    }

    crate::methods::producer_methods!(self, &mut self);
}

impl<T, P: Shared, C: Side> Producer<T, P, C> {
    /// # Safety
    /// As `Ring::put_with`.
    #[inline(always)]
    unsafe fn put<const EXACT: bool>(&self, src: *const T, n: usize, want: Want) -> Moved {
        // SAFETY: the view is the ring's since `new`; the rest is passed on.
        unsafe { self.ring.put_with::<EXACT>(self.view, &mut (), src, n, want) }
    }

    crate::methods::producer_methods!(self, &self);
}

impl<T, P: Side> Consumer<T, P, Single> {
    /// How many spin-wait hints the first call that finds too little after one that moved something waits
    /// before it returns; 0 at first. A thread that is as fast as its opposite looks for every single element
    /// otherwise, and each look takes the line away from the opposite in the middle of its work: with 4, calls
    /// of one element between two near cores cost 15 to 27 % less, between far ones the same (`ring_probe`, rows `linger=4`). Wrong for a
    /// thread that serves many rings, or both ends of one.
    pub fn set_linger(&mut self, pauses: u32) {
        self.local.set_linger(pauses);
    }

    /// # Safety
    /// As `Ring::take_with`.
    #[inline(always)]
    unsafe fn take<const EXACT: bool>(&mut self, dst: *mut T, n: usize, want: Want) -> Moved {
        // SAFETY: the view is the ring's since `new`; the rest is passed on.
        unsafe { self.ring.take_with::<EXACT>(self.view, &mut self.local, dst, n, want) }
    }

    crate::methods::consumer_methods!(self, &mut self);
}

impl<T, P: Side, C: Shared> Consumer<T, P, C> {
    /// # Safety
    /// As `Ring::take_with`.
    #[inline(always)]
    unsafe fn take<const EXACT: bool>(&self, dst: *mut T, n: usize, want: Want) -> Moved {
        // SAFETY: the view is the ring's since `new`; the rest is passed on.
        unsafe { self.ring.take_with::<EXACT>(self.view, &mut (), dst, n, want) }
    }

    crate::methods::consumer_methods!(self, &self);
}
