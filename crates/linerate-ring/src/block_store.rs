//! The memory of a ring of blocks: two cache lines a block, the word that says how far it is filled at the end.
//!
//! Two lines are 15 elements of 8 bytes and the word, or 7 of 16. While the first of them is written, the
//! consumer looks at the second, so the writer keeps what it writes to; with the word in front, or with one
//! line a block, elements that cross one by one between far cores cost twice as much. An element that does not
//! fit two lines has a block of its own.
//
// UNSAFETY: raw memory. Invariant: `base` points to `blocks` blocks whose words are initialised and which live
// as long as the `BlockStore`; which places hold a value, and who may touch them, is the business of `blocks.rs`.

use core::ptr::NonNull;

use crate::size::{RingError, RingSize};
use crate::sync::AtomicU32;

/// What a block takes up if it can, in bytes.
#[cfg(not(loom))]
const LINES: usize = 128;

/// A borrowed view of the blocks, copied into each end.
pub(crate) struct BlockView<T> {
    base: NonNull<Memory<T>>,
    blocks: u32,
}

impl<T> Clone for BlockView<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for BlockView<T> {}

// SAFETY: a view is an address; every access to a value is an unsafe call whose caller owns the place.
unsafe impl<T: Send> Send for BlockView<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for BlockView<T> {}

/// The owner of the blocks. Does not drop values: it cannot know which are there.
pub(crate) struct BlockStore<T> {
    view: BlockView<T>,
    #[cfg(not(loom))]
    layout: core::alloc::Layout,
}

impl<T> BlockView<T> {
    /// The block after `block`.
    #[inline(always)]
    pub(crate) fn after(self, block: u32) -> u32 {
        if block + 1 == self.blocks { 0 } else { block + 1 }
    }

    /// The block `hops`, at most their number, after `block`.
    #[inline(always)]
    pub(crate) fn ahead(self, block: u32, hops: u32) -> u32 {
        let b = block + hops;
        if b >= self.blocks { b - self.blocks } else { b }
    }

    /// How many blocks a ring of `capacity` needs, so that the producer, at most a capacity ahead, never
    /// enters a block of which the consumer has yet to read something. At most 2^30 + 1.
    fn needed(capacity: u32) -> u32 {
        (capacity + 2 * Self::HOLDS - 2) / Self::HOLDS
    }
}

impl<T> BlockStore<T> {
    pub(crate) fn view(&self) -> BlockView<T> {
        self.view
    }
}

#[cfg(not(loom))]
type Memory<T> = T; // The first block's address, of which the rest is computed; `T` for the variance alone.

#[cfg(not(loom))]
impl<T> BlockView<T> {
    /// How many elements a block holds.
    pub(crate) const HOLDS: u32 = {
        let room = LINES - size_of::<AtomicU32>();
        let n = if size_of::<T>() == 0 { room } else { room / size_of::<T>() };
        if n == 0 { 1 } else { n as u32 } // No cut: at most 124.
    };
    const ALIGN: usize = if align_of::<T>() > LINES { align_of::<T>() } else { LINES };
    /// The size of a block in bytes.
    const BYTES: usize =
        (Self::HOLDS as usize * size_of::<T>() + size_of::<AtomicU32>()).next_multiple_of(Self::ALIGN);
    /// Where the word is, in bytes.
    const WORD: usize = Self::BYTES - size_of::<AtomicU32>();

    #[inline(always)]
    fn block(self, block: u32) -> *mut u8 {
        self.base.as_ptr().cast::<u8>().wrapping_add(block as usize * Self::BYTES)
    }

    /// The position up to which `block` is filled.
    #[inline(always)]
    pub(crate) fn end(&self, block: u32) -> &AtomicU32 {
        debug_assert!(block < self.blocks);
        // SAFETY: a block's last four bytes, aligned and initialised in `new`; only accessed as this atomic.
        unsafe { &*self.block(block).wrapping_add(Self::WORD).cast::<AtomicU32>() }
    }

    #[inline(always)]
    fn place(self, block: u32, at: u32) -> *mut T {
        self.block(block).wrapping_add(at as usize * size_of::<T>()).cast()
    }

    /// Moves `n` values from `src` into the places of `block` from `at` on.
    ///
    /// # Safety
    /// The caller owns these places of one block, `src` is valid for `n` reads.
    #[inline(always)]
    pub(crate) unsafe fn put(self, block: u32, at: u32, src: *const T, n: u32) {
        // SAFETY: inside the block; the rest is the caller's promise.
        unsafe { crate::copy::move_elems(src, self.place(block, at), n as usize) };
    }

    /// Moves `n` values out of the places of `block` from `at` on to `dst`.
    ///
    /// # Safety
    /// The caller owns these places of one block and they hold values, `dst` is valid for `n` writes.
    #[inline(always)]
    pub(crate) unsafe fn take(self, block: u32, at: u32, dst: *mut T, n: u32) {
        // SAFETY: inside the block; the rest is the caller's promise.
        unsafe { crate::copy::move_elems(self.place(block, at), dst, n as usize) };
    }
}

#[cfg(not(loom))]
impl<T> BlockStore<T> {
    pub(crate) fn new(size: RingSize) -> Result<Self, RingError> {
        let blocks = BlockView::<T>::needed(size.capacity32());
        let too_many = RingError::TooManyBytes { count: size.capacity(), elem_bytes: size_of::<T>() };
        let bytes = (blocks as usize).checked_mul(BlockView::<T>::BYTES).ok_or(too_many)?;
        let layout =
            core::alloc::Layout::from_size_align(bytes, BlockView::<T>::ALIGN).map_err(|_| too_many)?;
        // SAFETY: not of size zero: there is a block at least, and it has a word.
        let base = unsafe { std::alloc::alloc(layout) };
        let base = NonNull::new(base.cast()).ok_or(RingError::NoMemory { bytes })?;
        let view = BlockView { base, blocks };
        for b in 0..blocks {
            let word = view.block(b).wrapping_add(BlockView::<T>::WORD).cast::<AtomicU32>();
            // SAFETY: the last bytes of each block of the allocation, aligned.
            unsafe { word.write(AtomicU32::new(size.start())) };
        }
        Ok(Self { view, layout })
    }
}

impl<T> Drop for BlockStore<T> {
    #[cfg(not(loom))]
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout, and not freed before.
        unsafe { std::alloc::dealloc(self.view.base.as_ptr().cast(), self.layout) };
    }

    #[cfg(loom)]
    fn drop(&mut self) {
        let all = core::ptr::slice_from_raw_parts_mut(self.view.base.as_ptr(), self.view.blocks as usize);
        // SAFETY: leaked in `new`, freed once.
        drop(unsafe { Box::from_raw(all) });
    }
}

// Under loom every place is a tracked cell, and a block holds two, so that small rings have several.
#[cfg(loom)]
pub(crate) struct Memory<T> {
    end: AtomicU32,
    places: [crate::sync::UnsafeCell<core::mem::MaybeUninit<T>>; 2],
}

#[cfg(loom)]
impl<T> BlockView<T> {
    pub(crate) const HOLDS: u32 = 2;

    fn block(&self, block: u32) -> &Memory<T> {
        assert!(block < self.blocks);
        // SAFETY: in bounds, and alive as long as the store.
        unsafe { &*self.base.as_ptr().add(block as usize) }
    }

    pub(crate) fn end(&self, block: u32) -> &AtomicU32 {
        &self.block(block).end
    }

    pub(crate) unsafe fn put(self, block: u32, at: u32, src: *const T, n: u32) {
        for i in 0..n {
            // SAFETY: the caller owns the places and vouches for src.
            self.block(block).places[(at + i) as usize].with_mut(|p| unsafe {
                p.cast::<T>().copy_from_nonoverlapping(src.add(i as usize), 1);
            });
        }
    }

    pub(crate) unsafe fn take(self, block: u32, at: u32, dst: *mut T, n: u32) {
        for i in 0..n {
            // SAFETY: the caller owns the places and vouches for dst. Counts as a write: the value is gone.
            self.block(block).places[(at + i) as usize].with_mut(|p| unsafe {
                dst.add(i as usize).copy_from_nonoverlapping(p.cast::<T>(), 1);
            });
        }
    }
}

#[cfg(loom)]
impl<T> BlockStore<T> {
    pub(crate) fn new(size: RingSize) -> Result<Self, RingError> {
        let blocks = BlockView::<T>::needed(size.capacity32());
        let cell = || crate::sync::UnsafeCell::new(core::mem::MaybeUninit::uninit());
        let one = |_| Memory { end: AtomicU32::new(size.start()), places: [cell(), cell()] };
        let all: Box<[Memory<T>]> = (0..blocks).map(one).collect();
        Ok(Self { view: BlockView { base: NonNull::from(Box::leak(all)).cast(), blocks } })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_two_lines_or_as_many_as_one_element_needs() {
        #[repr(align(256))]
        struct Wide(#[allow(dead_code)] u8);
        fn shape<T>() -> (u32, usize, usize) {
            (BlockView::<T>::HOLDS, BlockView::<T>::WORD, BlockView::<T>::BYTES)
        }
        assert_eq!(shape::<u64>(), (15, 124, 128));
        assert_eq!(shape::<[u64; 2]>(), (7, 124, 128));
        assert_eq!(shape::<[u8; 3]>(), (41, 124, 128));
        assert_eq!(shape::<[u64; 16]>(), (1, 252, 256));
        assert_eq!(shape::<Wide>(), (1, 508, 512));
        assert_eq!(shape::<()>(), (124, 124, 128));
    }

    #[test]
    fn the_producer_never_laps_a_block_that_is_still_read() {
        // A window of a capacity that begins at the last place of a block must not come round to that block.
        for capacity in (1..200).chain([1 << 30]) {
            let (k, n) = (BlockView::<u64>::HOLDS, BlockView::<u64>::needed(capacity));
            assert!(u64::from(n) * u64::from(k) >= u64::from(capacity) + u64::from(k) - 1);
        }
    }
}
