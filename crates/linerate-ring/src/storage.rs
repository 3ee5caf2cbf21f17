//! The slots of a ring: one allocation, aligned to a cache line, that knows nothing of who owns which slot.
//
// UNSAFETY: raw memory. Invariant: `base` points to `mask + 1` slots that live as long as the `Storage`;
// which of them hold a value, and who may touch them, is the business of the indexes (`ring.rs`).

use core::mem::MaybeUninit;
use core::ptr::NonNull;

use crate::size::{RingError, RingSize};
use crate::sync::UnsafeCell;

pub(crate) type Slot<T> = UnsafeCell<MaybeUninit<T>>;

/// A borrowed view of the slots; copied into every handle so that the hot path follows one pointer less.
pub(crate) struct View<T> {
    base: NonNull<Slot<T>>,
    mask: u32,
}

impl<T> Clone for View<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for View<T> {}

// SAFETY: a view is an address; every access through it is an unsafe call whose caller owns the slots.
unsafe impl<T: Send> Send for View<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Sync for View<T> {}

/// The owner of the slots. Does not drop values: it cannot know which are there.
pub(crate) struct Storage<T> {
    view: View<T>,
    #[cfg(not(loom))]
    layout: core::alloc::Layout,
}

impl<T> Storage<T> {
    #[cfg(not(loom))]
    pub(crate) fn new(size: RingSize) -> Result<Self, RingError> {
        let layout = size.layout::<Slot<T>>()?;
        let base = if layout.size() == 0 {
            NonNull::dangling()
        } else {
            // SAFETY: the layout is not of size zero.
            let p = unsafe { std::alloc::alloc(layout) };
            NonNull::new(p.cast()).ok_or(RingError::NoMemory { bytes: layout.size() })?
        };
        Ok(Self { view: View { base, mask: size.mask() }, layout })
    }

    #[cfg(loom)]
    pub(crate) fn new(size: RingSize) -> Result<Self, RingError> {
        let slots: Box<[Slot<T>]> =
            (0..size.storage()).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect();
        let base = NonNull::from(Box::leak(slots)).cast();
        Ok(Self { view: View { base, mask: size.mask() } })
    }

    pub(crate) fn view(&self) -> View<T> {
        self.view
    }
}

impl<T> Drop for Storage<T> {
    #[cfg(not(loom))]
    fn drop(&mut self) {
        if self.layout.size() != 0 {
            // SAFETY: allocated in `new` with this layout, and not freed before.
            unsafe { std::alloc::dealloc(self.view.base.as_ptr().cast(), self.layout) };
        }
    }

    #[cfg(loom)]
    fn drop(&mut self) {
        let slots = core::ptr::slice_from_raw_parts_mut(self.view.base.as_ptr(), self.view.mask as usize + 1);
        // SAFETY: leaked from a box of that length in `new`, and not freed before.
        drop(unsafe { Box::from_raw(slots) });
    }
}

impl<T> View<T> {
    #[inline(always)]
    fn slot(self, pos: u32) -> *mut Slot<T> {
        // SAFETY: the mask keeps the offset inside the allocation.
        unsafe { self.base.as_ptr().add((pos & self.mask) as usize) }
    }

    #[cfg(not(loom))]
    /// How many of `n` slots from `pos` on lie before the end of the storage.
    #[inline(always)]
    pub(crate) fn before_wrap(self, pos: u32, n: u32) -> u32 {
        n.min(self.mask + 1 - (pos & self.mask))
    }
}

#[cfg(not(loom))]
impl<T> View<T> {
    /// The address of the slot of `pos`.
    #[inline(always)]
    pub(crate) fn ptr(self, pos: u32) -> *mut T {
        self.slot(pos).cast()
    }

    /// Whether `n` slots from `pos` on lie before the end of the storage. No wrap: both are below 2^31.
    #[inline(always)]
    fn fits(self, pos: u32, n: u32) -> bool {
        n == 1 || (pos & self.mask) + n <= self.mask + 1
    }

    /// Moves `n` values from `src` into the slots from `pos` on.
    ///
    /// # Safety
    /// The caller owns these slots, `n` is at most the storage, `src` is valid for `n` reads.
    #[inline(always)]
    pub(crate) unsafe fn put(self, pos: u32, src: *const T, n: u32) {
        if self.fits(pos, n) {
            // SAFETY: n slots follow without a wrap; ownership is the caller's promise.
            unsafe { crate::copy::move_elems(src, self.ptr(pos), n as usize) };
        } else {
            // SAFETY: passed on.
            unsafe { self.put_wrapped(pos, src, n) };
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn put_wrapped(self, pos: u32, src: *const T, n: u32) {
        let first = self.before_wrap(pos, n) as usize;
        // SAFETY: `first` slots up to the end, the others from the beginning on.
        unsafe { self.ptr(pos).copy_from_nonoverlapping(src, first) };
        // SAFETY: as above.
        unsafe { self.ptr(0).copy_from_nonoverlapping(src.add(first), n as usize - first) };
    }

    /// Moves `n` values out of the slots from `pos` on to `dst`.
    ///
    /// # Safety
    /// The caller owns these slots and they hold values, `dst` is valid for `n` writes.
    #[inline(always)]
    pub(crate) unsafe fn take(self, pos: u32, dst: *mut T, n: u32) {
        if self.fits(pos, n) {
            // SAFETY: n slots follow without a wrap; ownership is the caller's promise.
            unsafe { crate::copy::move_elems(self.ptr(pos), dst, n as usize) };
        } else {
            // SAFETY: passed on.
            unsafe { self.take_wrapped(pos, dst, n) };
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn take_wrapped(self, pos: u32, dst: *mut T, n: u32) {
        let first = self.before_wrap(pos, n) as usize;
        // SAFETY: `first` slots up to the end, the others from the beginning on.
        unsafe { dst.copy_from_nonoverlapping(self.ptr(pos), first) };
        // SAFETY: as above.
        unsafe { dst.add(first).copy_from_nonoverlapping(self.ptr(0), n as usize - first) };
    }

    /// A reference to the value in the slot of `pos`.
    ///
    /// # Safety
    /// The slot holds a value, and nobody writes it for the lifetime `'a`.
    #[inline(always)]
    pub(crate) unsafe fn peek<'a>(self, pos: u32) -> &'a T {
        // SAFETY: the caller's promise.
        unsafe { &*self.ptr(pos) }
    }
}

// Under loom every slot is a tracked cell: an unordered access is found by the checker.
#[cfg(loom)]
impl<T> View<T> {
    pub(crate) unsafe fn put(self, pos: u32, src: *const T, n: u32) {
        for i in 0..n {
            // SAFETY: the caller owns the slots and vouches for src.
            unsafe {
                (*self.slot(pos.wrapping_add(i)))
                    .with_mut(|p| p.cast::<T>().copy_from_nonoverlapping(src.add(i as usize), 1));
            }
        }
    }

    pub(crate) unsafe fn take(self, pos: u32, dst: *mut T, n: u32) {
        for i in 0..n {
            // SAFETY: the caller owns the slots and vouches for dst. A taken slot counts as written: whoever
            // still reads it races with us.
            unsafe {
                (*self.slot(pos.wrapping_add(i)))
                    .with_mut(|p| dst.add(i as usize).copy_from_nonoverlapping(p.cast::<T>(), 1));
            }
        }
    }

    pub(crate) unsafe fn peek<'a>(self, pos: u32) -> &'a T {
        // SAFETY: the caller's promise; loom checks the moment of the borrow.
        unsafe { (*self.slot(pos)).with(|p| &*p.cast::<T>()) }
    }
}
