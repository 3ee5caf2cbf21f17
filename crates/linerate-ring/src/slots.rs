//! A ring with a sequence number per slot: producers and consumers meet at the slot and nowhere else.
//!
//! After D. Vyukov's bounded queue. There is no common tail, so nobody waits for a predecessor and a call of
//! one element costs the line of its slot alone; the price is a word per slot and a look at every slot.
//!
//! ```text
//!   slot of position p (storage = number of slots)
//!   producer                                   consumer
//!   --------                                   --------
//!   load  seq == p        (Q) <--------------- store seq = p (a lap before: p' + storage)   (S)
//!   cas   enq p -> p+1    relaxed
//!   write value
//!   store seq = p+1       (S) ---------------> load  seq == p+1                             (Q)
//!                                              cas   deq p -> p+1  relaxed
//!                                              read  value
//! ```
//! The compare-and-swaps only decide who gets the position; all data passes over S -> Q of the slot.
//! A ring whose capacity is below its storage looks at one slot more: position p is free once the element
//! `capacity` before it is gone.
//
// UNSAFETY: values live in raw slots. Invariant: a slot whose sequence is p+1 holds the value of position p;
// a position is written or read only by who moved `enq` or `deq` over it.

use core::fmt;
use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crossbeam_utils::CachePadded;

use crate::orders::Edges;
#[cfg(not(loom))]
use crate::orders::TABLE;
use crate::orders::Table;
use crate::side::{Moved, Want};
use crate::size::{RingError, RingSize};
use crate::sync::{AtomicU32, Ordering, UnsafeCell};

struct Cell<T> {
    seq: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

/// A FIFO ring for any number of producers and consumers, used through `&self` (share it in an `Arc` or by
/// reference). Faster than [`MpmcRing`](crate::MpmcRing) where few elements a call pass between cores.
pub struct SlotRing<T> {
    cells: NonNull<Cell<T>>,
    mask: u32,
    capacity: u32,
    size: RingSize,
    #[cfg(loom)]
    table: Table,
    enq: CachePadded<AtomicU32>,
    deq: CachePadded<AtomicU32>,
}

// SAFETY: values only move through the ring from one thread to another; each position has one owner.
unsafe impl<T: Send> Sync for SlotRing<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for SlotRing<T> {}

impl<T> SlotRing<T> {
    /// Makes a ring. The storage is at least two slots, since with one a full slot and a free one of the next
    /// lap would have the same number.
    ///
    /// # Errors
    /// [`RingError::TooManyBytes`] or [`RingError::NoMemory`].
    pub fn new(size: RingSize) -> Result<Self, RingError> {
        let size = size.at_least(2);
        let layout = size.layout::<Cell<T>>()?;
        // SAFETY: not of size zero, as every cell has a sequence number.
        let p = unsafe { std::alloc::alloc(layout) }.cast::<Cell<T>>();
        let cells = NonNull::new(p).ok_or(RingError::NoMemory { bytes: layout.size() })?;
        for i in 0..size.storage() as u32 {
            let pos = size.start().wrapping_add(i);
            let cell = Cell { seq: AtomicU32::new(pos), value: UnsafeCell::new(MaybeUninit::uninit()) };
            // SAFETY: inside the allocation, each slot once.
            unsafe { cells.as_ptr().add((pos & size.mask()) as usize).write(cell) };
        }
        Ok(Self {
            cells,
            mask: size.mask(),
            capacity: size.capacity32(),
            size,
            #[cfg(loom)]
            table: crate::orders::model::current(),
            enq: CachePadded::new(AtomicU32::new(size.start())),
            deq: CachePadded::new(AtomicU32::new(size.start())),
        })
    }

    /// How many elements fit.
    #[inline]
    #[must_use]
    pub fn capacity(&self) -> usize {
        self.capacity as usize
    }

    /// How many positions are taken: elements being written count already, those being read no longer.
    /// A snapshot.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        // Relaxed: no slot is touched on the strength of it. The two loads are not one, so bound the result.
        let deq = self.deq.load(Ordering::Relaxed);
        let enq = self.enq.load(Ordering::Relaxed);
        (enq.wrapping_sub(deq) as i32).clamp(0, self.capacity as i32) as usize
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

    #[cfg(not(loom))]
    #[inline(always)]
    fn table(&self) -> &Table {
        &TABLE
    }
    #[cfg(loom)]
    fn table(&self) -> &Table {
        &self.table
    }

    #[inline(always)]
    fn cell(&self, pos: u32) -> &Cell<T> {
        // SAFETY: the mask keeps the offset inside the allocation, whose cells are all initialised.
        unsafe { &*self.cells.as_ptr().add((pos & self.mask) as usize) }
    }

    /// How far the sequence of the slot of `pos` is from `expected`: 0 when it is our turn, negative when the
    /// other side has not come there yet, positive when `pos` is already history.
    #[inline(always)]
    fn turn(&self, pos: u32, expected: u32, e: &Edges) -> i32 {
        // Q: pairs with S of the opposite side.
        self.cell(pos).seq.load(e.seq_load).wrapping_sub(expected) as i32
    }

    #[inline(always)]
    fn writable(&self, pos: u32, e: &Edges) -> i32 {
        let own = self.turn(pos, pos, e);
        if own != 0 || self.capacity > self.mask {
            return own;
        }
        let oldest = pos.wrapping_sub(self.capacity);
        self.turn(oldest, oldest.wrapping_add(self.mask + 1), e).min(0)
    }

    /// Moves `index` over up to `n` positions whose turn it is. `ready` tells of a position as `turn` does.
    #[inline(always)]
    fn claim(&self, index: &AtomicU32, n: u32, want: Want, ready: impl Fn(u32) -> i32) -> (u32, u32) {
        let n = n.min(self.capacity);
        // Relaxed: an old value fails the compare-and-swap or finds its slots gone by.
        let mut pos = index.load(Ordering::Relaxed);
        'again: loop {
            let mut k = 0;
            while k < n {
                let d = ready(pos.wrapping_add(k));
                if d != 0 {
                    if d > 0 {
                        pos = index.load(Ordering::Relaxed);
                        crate::sync::spin_model();
                        continue 'again;
                    }
                    break;
                }
                k += 1;
            }
            if k == 0 || (k < n && want == Want::Bulk) {
                return (pos, 0);
            }
            // Relaxed: decides who gets the positions, passes no data.
            match index.compare_exchange_weak(pos, pos.wrapping_add(k), Ordering::Relaxed, Ordering::Relaxed)
            {
                Ok(_) => return (pos, k),
                Err(newer) => pos = newer,
            }
        }
    }

    /// # Safety
    /// `src` is valid for `n` reads, and the caller gives up as many of the values as the answer counts.
    #[inline(always)]
    unsafe fn put<const EXACT: bool>(&self, src: *const T, n: usize, want: Want) -> Moved {
        let e = &self.table().prod;
        let mut count = 0;
        if n != 0 && (n <= self.capacity as usize || want == Want::Burst) {
            let ask = n.min(self.capacity as usize) as u32;
            let (pos, k) = self.claim(&self.enq, ask, want, |p| self.writable(p, e));
            for i in 0..k {
                let p = pos.wrapping_add(i);
                let cell = self.cell(p);
                write(&cell.value, src.wrapping_add(i as usize));
                // S: pairs with Q of the consumers.
                cell.seq.store(p.wrapping_add(1), e.seq_store);
            }
            count = k as usize;
        }
        Moved { count, left: if EXACT { self.free() } else { 0 } }
    }

    /// # Safety
    /// `dst` is valid for `n` writes.
    #[inline(always)]
    unsafe fn take<const EXACT: bool>(&self, dst: *mut T, n: usize, want: Want) -> Moved {
        let e = &self.table().cons;
        let mut count = 0;
        if n != 0 && (n <= self.capacity as usize || want == Want::Burst) {
            let ask = n.min(self.capacity as usize) as u32;
            let (pos, k) = self.claim(&self.deq, ask, want, |p| self.turn(p, p.wrapping_add(1), e));
            for i in 0..k {
                let p = pos.wrapping_add(i);
                let cell = self.cell(p);
                read(&cell.value, dst.wrapping_add(i as usize));
                // S: pairs with Q of the producers, a lap later.
                cell.seq.store(p.wrapping_add(self.mask + 1), e.seq_store);
            }
            count = k as usize;
        }
        Moved { count, left: if EXACT { self.len() } else { 0 } }
    }

    crate::methods::producer_methods!(self, &self);
    crate::methods::consumer_methods!(self, &self);
}

#[cfg(not(loom))]
#[inline(always)]
fn write<T>(value: &UnsafeCell<MaybeUninit<T>>, src: *const T) {
    // SAFETY: called for claimed positions and valid sources only (`put`).
    unsafe { value.get().cast::<T>().copy_from_nonoverlapping(src, 1) };
}
#[cfg(not(loom))]
#[inline(always)]
fn read<T>(value: &UnsafeCell<MaybeUninit<T>>, dst: *mut T) {
    // SAFETY: called for claimed positions and valid targets only (`take`).
    unsafe { dst.copy_from_nonoverlapping(value.get().cast::<T>(), 1) };
}
#[cfg(loom)]
fn write<T>(value: &UnsafeCell<MaybeUninit<T>>, src: *const T) {
    // SAFETY: as above; loom watches the cell.
    value.with_mut(|p| unsafe { p.cast::<T>().copy_from_nonoverlapping(src, 1) });
}
#[cfg(loom)]
fn read<T>(value: &UnsafeCell<MaybeUninit<T>>, dst: *mut T) {
    // SAFETY: as above; counts as a write, since the value is gone afterwards.
    value.with_mut(|p| unsafe { dst.copy_from_nonoverlapping(p.cast::<T>(), 1) });
}

impl<T> Drop for SlotRing<T> {
    fn drop(&mut self) {
        if core::mem::needs_drop::<T>() {
            while let Some(value) = self.dequeue() {
                drop(value);
            }
        }
        for i in 0..=self.mask {
            // SAFETY: all cells were initialised; a loom cell has something to drop.
            unsafe { self.cells.as_ptr().add(i as usize).drop_in_place() };
        }
        if let Ok(layout) = self.size.layout::<Cell<T>>() {
            // SAFETY: allocated in `new` with this layout, and not freed before.
            unsafe { std::alloc::dealloc(self.cells.as_ptr().cast(), layout) };
        }
    }
}

impl<T> fmt::Debug for SlotRing<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SlotRing")
            .field("capacity", &self.capacity())
            .field("len", &self.len())
            .finish_non_exhaustive()
    }
}
