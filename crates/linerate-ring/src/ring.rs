//! The ring itself: slots, two sides, and the one body that every kind of call goes through.
//!
//! ```text
//!            cons.tail     cons.head        prod.tail     prod.head
//!   free ...... | taken by .... | filled ...... | being written | ...... free
//!               | consumers     |               | by producers  |
//! ```
//! Indexes run freely modulo 2^32 and always in this order, at most `capacity` apart. A side owns the slots
//! between its tail and its head; it reserves by moving its head, and hands them over by moving its tail.
//! The orders that make this true are drawn in `single.rs`, `multi.rs`, `rts.rs` and `hts.rs`.
//
// UNSAFETY: values live in raw slots. Invariant: exactly the positions between cons.tail and prod.tail hold
// values when nobody is in the middle of a call, and a slot is touched only by whom `reserve` granted it.

use core::fmt;

use crossbeam_utils::CachePadded;

use crate::handle::{Consumer, Producer};
use crate::multi::Multi;
#[cfg(not(loom))]
use crate::orders::TABLE;
use crate::orders::Table;
use crate::side::{Ask, Grant, Moved, Shared, Side, Want};
use crate::size::{RingError, RingSize};
use crate::storage::{Storage, View};
use crate::sync::{Arc, Ordering};

/// A FIFO ring of at most `capacity` elements, with sides of kind `P` and `C`.
///
/// With shared sides ([`Multi`], [`Rts`](crate::Rts), [`Hts`](crate::Hts)) it is used in place, through
/// `&self`; [`Ring::split`] gives the two ends as handles, which is the only way to use a
/// [`Single`](crate::Single) side. Dropping the ring, or the last handle, drops what is in it.
pub struct Ring<T, P: Side = Multi, C: Side = P> {
    storage: Storage<T>,
    capacity: u32,
    start: u32,
    #[cfg(loom)]
    table: Table,
    pub(crate) prod: CachePadded<P::State>,
    pub(crate) cons: CachePadded<C::State>,
}

/// A ring for any number of producers and consumers.
pub type MpmcRing<T> = Ring<T, Multi, Multi>;
/// A ring whose threads may be preempted, relaxed tail sync on both sides.
pub type RtsRing<T> = Ring<T, crate::Rts, crate::Rts>;
/// A ring whose threads may be preempted, head-tail sync on both sides; can peek.
pub type HtsRing<T> = Ring<T, crate::Hts, crate::Hts>;

// SAFETY: values only move through the ring from one thread to another, never are they shared by it; the
// protocol of the sides gives each slot to one thread at a time.
unsafe impl<T: Send, P: Side, C: Side> Sync for Ring<T, P, C> {}
// SAFETY: as above.
unsafe impl<T: Send, P: Side, C: Side> Send for Ring<T, P, C> {}

impl<T, P: Side, C: Side> Ring<T, P, C> {
    /// Makes a ring.
    ///
    /// # Errors
    /// [`RingError::TooManyBytes`] or [`RingError::NoMemory`].
    pub fn new(size: RingSize) -> Result<Self, RingError> {
        Ok(Self {
            storage: Storage::new(size)?,
            capacity: size.capacity32(),
            start: size.start(),
            #[cfg(loom)]
            table: crate::orders::model::current(),
            prod: CachePadded::new(P::state(size)),
            cons: CachePadded::new(C::state(size)),
        })
    }

    /// The two ends as handles; for shared sides further ones come from cloning.
    #[must_use]
    pub fn split(self) -> (Producer<T, P, C>, Consumer<T, P, C>) {
        let start = self.start;
        let ring = Arc::new(self);
        let (p, c) = (P::local(start, ring.capacity), C::local(start, 0));
        (Producer::new(Arc::clone(&ring), p), Consumer::new(ring, c))
    }

    /// How many elements fit.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// How many elements are there, counted from tail to tail: what is being written does not count yet,
    /// what is being read still does. A snapshot; never above the capacity.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        // Relaxed: no slot is touched on the strength of it. The two loads are not one, so bound the result.
        let cons = C::published(&self.cons, Ordering::Relaxed);
        let prod = P::published(&self.prod, Ordering::Relaxed);
        let n = prod.wrapping_sub(cons) as i32;
        n.clamp(0, self.capacity as i32) as usize
    }

    /// How many more elements fit, as a snapshot.
    #[inline]
    #[must_use]
    pub fn free(&self) -> usize {
        self.capacity() - self.len()
    }

    /// Whether nothing is there, as a snapshot.
    #[inline]
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether nothing more fits, as a snapshot.
    #[inline]
    #[must_use]
    pub fn is_full(&self) -> bool {
        self.len() == self.capacity()
    }

    /// Visits what is in the ring, oldest first. No other thread can be in the middle of a call, since the
    /// ring is borrowed uniquely.
    pub fn for_each(&mut self, mut visit: impl FnMut(&T)) {
        let mut pos = C::published(&self.cons, Ordering::Relaxed);
        let end = P::published(&self.prod, Ordering::Relaxed);
        while pos != end {
            // SAFETY: between the tails, and no one else has the ring.
            visit(unsafe { self.view().peek(pos) });
            pos = pos.wrapping_add(1);
        }
    }

    #[inline(always)]
    pub(crate) fn view(&self) -> View<T> {
        self.storage.view()
    }

    #[cfg(not(loom))]
    #[inline(always)]
    pub(crate) fn table(&self) -> &Table {
        &TABLE
    }
    #[cfg(loom)]
    pub(crate) fn table(&self) -> &Table {
        &self.table
    }

    /// Reserves up to `n` slots for writing.
    #[inline(always)]
    pub(crate) fn reserve_slots<const EXACT: bool>(
        &self,
        local: &mut P::Local,
        n: usize,
        want: Want,
    ) -> Grant {
        let capacity = self.capacity;
        let ask = Ask { n, want, base: capacity, capacity, exact: EXACT };
        P::reserve::<C>(&self.prod, local, &self.cons, ask, &self.table().prod)
    }

    /// Reserves up to `n` values for reading.
    #[inline(always)]
    pub(crate) fn reserve_values<const EXACT: bool>(
        &self,
        local: &mut C::Local,
        n: usize,
        want: Want,
    ) -> Grant {
        let ask = Ask { n, want, base: 0, capacity: self.capacity, exact: EXACT };
        C::reserve::<P>(&self.cons, local, &self.prod, ask, &self.table().cons)
    }

    /// Moves up to `n` values from `src` into the ring.
    ///
    /// # Safety
    /// `view` is this ring's, `src` is valid for `n` reads, and the caller gives up as many of the values as
    /// the answer counts.
    #[inline(always)]
    pub(crate) unsafe fn put_with<const EXACT: bool>(
        &self,
        view: View<T>,
        local: &mut P::Local,
        src: *const T,
        n: usize,
        want: Want,
    ) -> Moved {
        if n == 0 {
            // Touches no index and never waits.
            return Moved { count: 0, left: if EXACT { self.free() } else { 0 } };
        }
        let g = self.reserve_slots::<EXACT>(local, n, want);
        if g.n != 0 {
            // SAFETY: the slots were granted to us; src is the caller's promise.
            unsafe { view.put(g.pos, src, g.n) };
            P::publish(&self.prod, local, g.pos, g.n, &self.table().prod);
        }
        Moved { count: g.n as usize, left: (g.room - g.n) as usize }
    }

    /// Moves up to `n` values out of the ring to `dst`.
    ///
    /// # Safety
    /// `view` is this ring's, and `dst` is valid for `n` writes.
    #[inline(always)]
    pub(crate) unsafe fn take_with<const EXACT: bool>(
        &self,
        view: View<T>,
        local: &mut C::Local,
        dst: *mut T,
        n: usize,
        want: Want,
    ) -> Moved {
        if n == 0 {
            // Touches no index and never waits.
            return Moved { count: 0, left: if EXACT { self.len() } else { 0 } };
        }
        let g = self.reserve_values::<EXACT>(local, n, want);
        if g.n != 0 {
            // SAFETY: the values were granted to us; dst is the caller's promise.
            unsafe { view.take(g.pos, dst, g.n) };
            C::publish(&self.cons, local, g.pos, g.n, &self.table().cons);
        }
        Moved { count: g.n as usize, left: (g.room - g.n) as usize }
    }
}

impl<T, P: Shared, C: Side> Ring<T, P, C> {
    /// # Safety
    /// As [`Ring::put_with`].
    #[inline(always)]
    unsafe fn put<const EXACT: bool>(&self, src: *const T, n: usize, want: Want) -> Moved {
        // SAFETY: passed on.
        unsafe { self.put_with::<EXACT>(self.view(), &mut (), src, n, want) }
    }

    crate::methods::producer_methods!(self, &self);
}

impl<T, P: Side, C: Shared> Ring<T, P, C> {
    /// # Safety
    /// As [`Ring::take_with`].
    #[inline(always)]
    unsafe fn take<const EXACT: bool>(&self, dst: *mut T, n: usize, want: Want) -> Moved {
        // SAFETY: passed on.
        unsafe { self.take_with::<EXACT>(self.view(), &mut (), dst, n, want) }
    }

    crate::methods::consumer_methods!(self, &self);
}

impl<T, P: Side, C: Side> Drop for Ring<T, P, C> {
    fn drop(&mut self) {
        if !core::mem::needs_drop::<T>() {
            return;
        }
        let mut pos = C::published(&self.cons, Ordering::Relaxed);
        let end = P::published(&self.prod, Ordering::Relaxed);
        while pos != end {
            let mut value = core::mem::MaybeUninit::<T>::uninit();
            // SAFETY: between the tails, and no one else has the ring.
            unsafe { self.view().take(pos, value.as_mut_ptr(), 1) };
            pos = pos.wrapping_add(1);
            // SAFETY: just moved in; dropped once, since pos has moved on.
            unsafe { value.assume_init_drop() };
        }
    }
}

impl<T, P: Side, C: Side> fmt::Debug for Ring<T, P, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ring")
            .field("capacity", &self.capacity())
            .field("len", &self.len())
            .field("first_index", &self.start)
            .finish_non_exhaustive()
    }
}
