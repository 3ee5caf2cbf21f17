//! One producer, one consumer, and how far it is filled stands in each block beside the elements.
//!
//! With an index in a line of its own, an element that crosses between cores one at a time costs two lines: the
//! index and the slot. Here the word and the elements it speaks of come over together, one transfer for a block
//! of several. The way back is rare, once round the ring, and is an index as in `single.rs`.
//!
//! ```text
//!   producer                                   consumer
//!   --------                                   --------
//!   load  cons       (A) <-------------------- store cons          (T)   places are free again
//!   write places of a block                    read  places
//!   store end of it  (S) --------------------> load  end of a block (Q)   places hold values, and all before
//! ```
//! S are in order, so Q of the block where the last wanted element lies covers all of the blocks before. A is
//! only done when the last seen value does not suffice, Q only when what the last one showed is used up. The
//! producer's own index is published as well, relaxed, for counts; no place is touched on the strength of it.
//
// UNSAFETY: values live in raw places. Invariant: the places of the positions from `cons` up to the producer's
// index hold values; the consumer touches those below a seen end, the producer those a capacity above a seen
// `cons`. Each end has one owner, as the types see to.

use core::cell::Cell;
use core::fmt;
use core::marker::PhantomData;

use crossbeam_utils::CachePadded;

use crate::block_store::{BlockStore, BlockView};
#[cfg(not(loom))]
use crate::orders::TABLE;
use crate::orders::Table;
use crate::side::{Moved, Want};
use crate::size::{RingError, RingSize};
use crate::sync::{Arc, AtomicU32, AtomicU64, Ordering, protocol_assert};

struct Shared<T> {
    store: BlockStore<T>,
    #[cfg(loom)]
    table: Table,
    /// Up to where it is written: for counts, and for `drop`.
    prod: CachePadded<AtomicU32>,
    /// Up to where it is read.
    cons: CachePadded<AtomicU32>,
    /// Block and place of `cons`, left behind by the consumer when it goes.
    left_at: AtomicU64,
}

impl<T> Shared<T> {
    #[cfg(not(loom))]
    #[inline(always)]
    fn table(&self) -> &Table {
        &TABLE
    }
    #[cfg(loom)]
    fn table(&self) -> &Table {
        &self.table
    }
}

/// A place in the blocks, and its position.
#[derive(Clone, Copy, Debug)]
struct Spot {
    pos: u32,
    block: u32,
    /// May be one past the last place: the next block is only entered when something moves there.
    at: u32,
}

impl Spot {
    /// Enters the next block if this one is through; says how many of `n` are in the block at hand.
    #[inline(always)]
    fn enter<T>(&mut self, view: BlockView<T>, n: u32) -> u32 {
        if self.at == BlockView::<T>::HOLDS {
            self.block = view.after(self.block);
            self.at = 0;
        }
        n.min(BlockView::<T>::HOLDS - self.at)
    }

    #[inline(always)]
    fn pass(&mut self, n: u32) {
        self.at += n;
        self.pos = self.pos.wrapping_add(n);
    }
}

/// The end of a ring of [`spsc_blocks`] that elements go in: can be sent, but neither cloned nor shared.
#[repr(align(64))]
pub struct BlockProducer<T> {
    spot: Spot,
    /// Where the room ends, by the consumer's index as last seen.
    limit: u32,
    capacity: u32,
    view: BlockView<T>,
    ring: Arc<Shared<T>>,
    not_sync: PhantomData<Cell<()>>,
}

/// The end of a ring of [`spsc_blocks`] that elements come out of: can be sent, but neither cloned nor shared.
#[repr(align(64))]
pub struct BlockConsumer<T> {
    spot: Spot,
    /// Where what is known to be there ends.
    seen: u32,
    capacity: u32,
    view: BlockView<T>,
    ring: Arc<Shared<T>>,
    not_sync: PhantomData<Cell<()>>,
}

/// The two ends of a ring of blocks, or why it could not be made.
pub type BlockEnds<T> = Result<(BlockProducer<T>, BlockConsumer<T>), RingError>;

/// One producer, one consumer, for elements that cross between cores one at a time, as messages from thread to
/// thread do. `linerate perf ring` on a Zen 4 core pair, TSC cycles for an element of 8 bytes, one a call:
/// 15 instead of [`spsc`](crate::spsc)'s 21 between cores that share a cache, 30 instead of 85 between cores that
/// do not. From 8 elements a call, and through one core, `spsc` is as good or better; it also has peek and
/// zero-copy, which this ring does not.
///
/// A bulk call takes effect block by block: the consumer may see its first elements before the last.
///
/// # Errors
/// [`RingError::TooManyBytes`] or [`RingError::NoMemory`].
pub fn spsc_blocks<T>(size: RingSize) -> BlockEnds<T> {
    let (start, capacity) = (size.start(), size.capacity32());
    let ring = Arc::new(Shared {
        store: BlockStore::new(size)?,
        #[cfg(loom)]
        table: crate::orders::model::current(),
        prod: CachePadded::new(AtomicU32::new(start)),
        cons: CachePadded::new(AtomicU32::new(start)),
        left_at: AtomicU64::new(0),
    });
    let (view, spot) = (ring.store.view(), Spot { pos: start, block: 0, at: 0 });
    let limit = start.wrapping_add(capacity);
    let p = BlockProducer { spot, limit, capacity, view, ring: Arc::clone(&ring), not_sync: PhantomData };
    Ok((p, BlockConsumer { spot, seen: start, capacity, view, ring, not_sync: PhantomData }))
}

macro_rules! common {
    ($name:ident) => {
        impl<T> $name<T> {
            /// How many elements fit.
            #[inline]
            #[must_use]
            pub fn capacity(&self) -> usize {
                self.capacity as usize
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
        }

        impl<T> fmt::Debug for $name<T> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.debug_struct(stringify!($name))
                    .field("capacity", &self.capacity())
                    .field("len", &self.len())
                    .finish_non_exhaustive()
            }
        }
    };
}
common!(BlockProducer);
common!(BlockConsumer);

impl<T> BlockProducer<T> {
    /// How many elements are there. A snapshot: it may be fewer by now.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        // Relaxed: no place is touched on the strength of it.
        self.spot.pos.wrapping_sub(self.ring.cons.load(Ordering::Relaxed)) as usize
    }

    /// How many of `n` > 0 elements there is room for, in the manner of `want`.
    #[inline(always)]
    fn room(&mut self, n: usize, want: Want) -> u32 {
        let mut room = self.limit.wrapping_sub(self.spot.pos);
        if (room as usize) < n {
            // A: pairs with T.
            let cons = self.ring.cons.load(self.ring.table().prod.opposite_tail);
            self.limit = cons.wrapping_add(self.capacity);
            room = self.limit.wrapping_sub(self.spot.pos);
        }
        protocol_assert!(room <= self.capacity, "room {room} of {}", self.capacity);
        match want {
            _ if room as usize >= n => n as u32, // No cut: not above `room`.
            Want::Bulk => 0,
            Want::Burst => room,
        }
    }

    /// Puts as many of `n` as the block at hand has places for; says how many.
    ///
    /// # Safety
    /// There is room for `n`, `src` is valid for `n` reads, and the caller gives up what was put.
    #[inline(always)]
    unsafe fn put_in_block(&mut self, src: *const T, n: u32) -> u32 {
        let k = self.spot.enter(self.view, n);
        // SAFETY: these places are below the limit and hold nothing; src is the caller's promise.
        unsafe { self.view.put(self.spot.block, self.spot.at, src, k) };
        self.spot.pass(k);
        // S: pairs with Q.
        self.view.end(self.spot.block).store(self.spot.pos, self.ring.table().prod.seq_store);
        k
    }

    /// # Safety
    /// As [`Self::put_in_block`]; all are put.
    #[inline(never)]
    unsafe fn put_rest(&mut self, mut src: *const T, mut n: u32) {
        while n != 0 {
            // SAFETY: passed on.
            let k = unsafe { self.put_in_block(src, n) };
            src = src.wrapping_add(k as usize);
            n -= k;
        }
    }

    /// # Safety
    /// `src` is valid for `n` reads, and the caller gives up as many of the values as the answer counts.
    #[inline(always)]
    unsafe fn put<const EXACT: bool>(&mut self, src: *const T, n: usize, want: Want) -> Moved {
        let count = if n == 0 { 0 } else { self.room(n, want) };
        if count != 0 {
            // SAFETY: there is room for `count` <= n; src is the caller's promise.
            let k = unsafe { self.put_in_block(src, count) };
            if k != count {
                // SAFETY: as above, for those that are left.
                unsafe { self.put_rest(src.wrapping_add(k as usize), count - k) };
            }
            // Relaxed: for counts alone.
            self.ring.prod.store(self.spot.pos, Ordering::Relaxed);
        }
        Moved { count: count as usize, left: if EXACT { self.free() } else { 0 } }
    }

    crate::methods::producer_methods!(self, &mut self);
}

impl<T> BlockConsumer<T> {
    /// How many elements are there. A snapshot: it may be more by now.
    #[inline]
    #[must_use]
    pub fn len(&self) -> usize {
        // Relaxed: no place is touched on the strength of it. It may be older than the end of a block that was
        // seen: it is written after it.
        let prod = self.ring.prod.load(Ordering::Relaxed);
        let there = (prod.wrapping_sub(self.spot.pos) as i32).max(self.known() as i32);
        (there as usize).min(self.capacity())
    }

    #[inline(always)]
    fn known(&self) -> u32 {
        self.seen.wrapping_sub(self.spot.pos)
    }

    /// How many of `n` > 0 elements there are, in the manner of `want`.
    #[inline(always)]
    fn there(&mut self, n: usize, want: Want) -> u32 {
        if self.known() as usize >= n {
            return n as u32; // No cut: not above what is known.
        }
        if n > self.capacity() && want == Want::Bulk {
            return 0;
        }
        let n = n.min(self.capacity()) as u32;
        let block = self.view.ahead(self.spot.block, (self.spot.at + n - 1) / BlockView::<T>::HOLDS);
        // Q: pairs with S. What is left there of an earlier lap is below our position.
        let end = self.view.end(block).load(self.ring.table().cons.seq_load);
        if end.wrapping_sub(self.spot.pos) as i32 >= n as i32 {
            self.seen = end;
            protocol_assert!(self.known() <= self.capacity, "{} of {}", self.known(), self.capacity);
            return n;
        }
        match want {
            Want::Bulk => 0,
            Want::Burst => self.fewer(n),
        }
    }

    /// The same block by block, for when not all of the `n` are there.
    fn fewer(&mut self, n: u32) -> u32 {
        let mut spot = self.spot;
        loop {
            let in_block = spot.enter(self.view, BlockView::<T>::HOLDS);
            // Q: pairs with S.
            let end = self.view.end(spot.block).load(self.ring.table().cons.seq_load);
            spot.pass(in_block);
            let there = end.wrapping_sub(self.spot.pos) as i32;
            if there > self.known() as i32 {
                self.seen = end;
            }
            if end != spot.pos || self.known() >= n {
                protocol_assert!(self.known() <= self.capacity, "{} of {}", self.known(), self.capacity);
                return self.known().min(n);
            }
        }
    }

    /// Takes as many of `n` as the block at hand has; says how many.
    ///
    /// # Safety
    /// `n` are known to be there, `dst` is valid for `n` writes.
    #[inline(always)]
    unsafe fn take_from_block(&mut self, dst: *mut T, n: u32) -> u32 {
        let k = self.spot.enter(self.view, n);
        // SAFETY: these places are below a seen end and hold values; dst is the caller's promise.
        unsafe { self.view.take(self.spot.block, self.spot.at, dst, k) };
        self.spot.pass(k);
        k
    }

    /// # Safety
    /// As [`Self::take_from_block`]; all are taken.
    #[inline(never)]
    unsafe fn take_rest(&mut self, mut dst: *mut T, mut n: u32) {
        while n != 0 {
            // SAFETY: passed on.
            let k = unsafe { self.take_from_block(dst, n) };
            dst = dst.wrapping_add(k as usize);
            n -= k;
        }
    }

    /// # Safety
    /// `dst` is valid for `n` writes.
    #[inline(always)]
    unsafe fn take<const EXACT: bool>(&mut self, dst: *mut T, n: usize, want: Want) -> Moved {
        let count = if n == 0 { 0 } else { self.there(n, want) };
        if count != 0 {
            // SAFETY: `count` <= n are known to be there; dst is the caller's promise.
            let k = unsafe { self.take_from_block(dst, count) };
            if k != count {
                // SAFETY: as above, for those that are left.
                unsafe { self.take_rest(dst.wrapping_add(k as usize), count - k) };
            }
            // T: pairs with A.
            self.ring.cons.store(self.spot.pos, self.ring.table().cons.tail_store);
        }
        Moved { count: count as usize, left: if EXACT { self.len() } else { 0 } }
    }

    crate::methods::consumer_methods!(self, &mut self);
}

impl<T> Drop for BlockConsumer<T> {
    fn drop(&mut self) {
        let spot = u64::from(self.spot.block) << 32 | u64::from(self.spot.at);
        // Relaxed: read when the last end goes, which the counted pointer orders.
        self.ring.left_at.store(spot, Ordering::Relaxed);
    }
}

impl<T> Drop for Shared<T> {
    fn drop(&mut self) {
        if !core::mem::needs_drop::<T>() {
            return;
        }
        // Relaxed: both ends are gone. No cut: two halves of 32 bits.
        let at = self.left_at.load(Ordering::Relaxed);
        let mut spot =
            Spot { pos: self.cons.load(Ordering::Relaxed), block: (at >> 32) as u32, at: at as u32 };
        let view = self.store.view();
        while spot.pos != self.prod.load(Ordering::Relaxed) {
            spot.enter(view, 1);
            let mut value = core::mem::MaybeUninit::<T>::uninit();
            // SAFETY: written and not read, and no one else has the ring.
            unsafe { view.take(spot.block, spot.at, value.as_mut_ptr(), 1) };
            spot.pass(1);
            // SAFETY: just moved in; dropped once, since the spot has moved on.
            unsafe { value.assume_init_drop() };
        }
    }
}
