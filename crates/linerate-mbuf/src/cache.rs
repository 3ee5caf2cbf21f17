//! The per-core cache in front of a pool's back end.
//!
//! Rules (those of DPDK since 26.07; bug case 7): the cache never holds more than its size; a put that would
//! overflow it first hands the *coldest* objects to the back end in one call, down to half; a get that finds
//! too few refills so that half is left afterwards. Reaching the size exactly flushes nothing. The objects put
//! last come back first.
//!
//! A cache belongs to a [lane](linerate_mem::current_lane): a number that one live thread holds alone. That is
//! what makes the plain loads and stores here sound; the length is atomic only so that others may count. It is
//! stored with release as the last thing a put does, and read with acquire by whoever counts: a pool whose
//! buffers are all home may then be freed.

use crate::{backend::Backend, header::Header};
use core::{
    alloc::Layout,
    ptr::{self, NonNull},
};
use linerate_mem::MAX_LANES;
use std::{
    alloc::{alloc_zeroed, dealloc, handle_alloc_error},
    sync::atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed, Release},
    },
};

/// Largest cache a pool may have.
pub(crate) const MAX_CACHE: u32 = 512;

/// Bytes in front of a cache's slots: its length, and counters of the slow path.
const HEAD: usize = 64;

/// One lane's cache, followed in memory by its slots.
#[repr(C, align(64))]
struct LaneCache {
    len: AtomicU32,
    _pad: u32,
    /// Bulk hand-overs from and to the back end.
    refills: AtomicU64,
    flushes: AtomicU64,
    /// Gets that found too few objects anywhere.
    failures: AtomicU64,
}

const _: () = assert!(size_of::<LaneCache>() <= HEAD);

/// All lanes' caches of one pool.
pub(crate) struct Caches {
    base: NonNull<u8>,
    stride: usize,
    /// Slots in each; 0 = no cache.
    pub(crate) size: u32,
    layout: Layout,
}

// SAFETY: the memory is owned; a lane's slots are touched only by the thread that holds the lane (callers of
// the unsafe methods keep that), everything else is atomic.
unsafe impl Send for Caches {}
// SAFETY: as for Send.
unsafe impl Sync for Caches {}

/// What one lane's cache has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CacheCounts {
    pub len: u32,
    pub refills: u64,
    pub flushes: u64,
    pub failures: u64,
}

impl Caches {
    /// Caches of `size` slots for every lane; untouched ones cost no memory, since the pages are zero.
    pub(crate) fn new(size: u32) -> Self {
        assert!(size <= MAX_CACHE);
        let stride = (HEAD + size as usize * size_of::<*mut Header>()).next_multiple_of(128);
        let layout = Layout::from_size_align(stride * MAX_LANES, 128).expect("a few hundred kilobytes");
        // SAFETY: the layout is not empty.
        let base = unsafe { alloc_zeroed(layout) };
        let base = NonNull::new(base).unwrap_or_else(|| handle_alloc_error(layout));
        Caches { base, stride, size, layout }
    }

    /// The cache of a lane.
    ///
    /// # Safety
    ///
    /// `lane < MAX_LANES`.
    #[inline(always)]
    unsafe fn lane(&self, lane: u32) -> &LaneCache {
        // SAFETY: the allocation has MAX_LANES strides; all-zero bytes are a valid, empty LaneCache.
        unsafe { self.base.add(lane as usize * self.stride).cast().as_ref() }
    }

    /// The slots of a lane.
    ///
    /// # Safety
    ///
    /// `lane < MAX_LANES`.
    #[inline(always)]
    unsafe fn slots(&self, lane: u32) -> *mut *mut Header {
        // SAFETY: within the lane's stride.
        unsafe { self.base.add(lane as usize * self.stride + HEAD).cast().as_ptr() }
    }

    /// Takes `n` objects to `out`; false, with nothing taken, if there are too few.
    ///
    /// # Safety
    ///
    /// The caller holds `lane`, which is below `MAX_LANES`; `out` has room for `n`.
    #[inline(always)]
    pub(crate) unsafe fn get(&self, backend: &Backend, lane: u32, out: *mut *mut Header, n: u32) -> bool {
        // SAFETY: the caller's lane.
        let (cache, slots) = unsafe { (self.lane(lane), self.slots(lane)) };
        let len = cache.len.load(Relaxed);
        if len >= n {
            let rest = len - n;
            // SAFETY: `len` slots are filled; `out` has room.
            unsafe { copy(slots.add(rest as usize), out, n) };
            cache.len.store(rest, Release);
            return true;
        }
        // SAFETY: as the caller promises.
        unsafe { self.get_cold(backend, lane, out, n) }
    }

    #[cold]
    #[inline(never)]
    unsafe fn get_cold(&self, backend: &Backend, lane: u32, out: *mut *mut Header, n: u32) -> bool {
        // SAFETY: the caller's lane.
        let (cache, slots) = unsafe { (self.lane(lane), self.slots(lane)) };
        let len = cache.len.load(Relaxed);
        let missing = n - len;
        // Refill first, so that half is left behind once the request is served. The new ones are colder than
        // what is here, so they go beneath it.
        let spare = (self.size / 2).min(self.size - len);
        if n <= self.size && spare > 0 && missing + spare <= self.size - len {
            let fresh = missing + spare;
            let mut tmp = [ptr::null_mut(); MAX_CACHE as usize];
            // SAFETY: `tmp` has room for MAX_CACHE.
            if unsafe { backend.get(tmp.as_mut_ptr(), fresh) } {
                // SAFETY: len + fresh <= size; the regions are shifted with memmove semantics.
                unsafe {
                    ptr::copy(slots, slots.add(fresh as usize), len as usize);
                    ptr::copy_nonoverlapping(tmp.as_ptr(), slots, fresh as usize);
                    copy(slots.add(spare as usize), out, n);
                }
                cache.refills.store(cache.refills.load(Relaxed) + 1, Relaxed);
                cache.len.store(spare, Release);
                return true;
            }
        }
        // Larger than the cache, or the back end is short: take exactly what is missing.
        // SAFETY: `out` has room for `n` = len + missing.
        unsafe {
            if !backend.get(out.add(len as usize), missing) {
                cache.failures.store(cache.failures.load(Relaxed) + 1, Relaxed);
                return false;
            }
            copy(slots, out, len);
        }
        cache.len.store(0, Release);
        true
    }

    /// Puts `n` objects back.
    ///
    /// # Safety
    ///
    /// The caller holds `lane`, which is below `MAX_LANES`; `objs` holds `n` objects of this pool, owned by the
    /// caller and in the in-pool state.
    #[inline(always)]
    pub(crate) unsafe fn put(&self, backend: &Backend, lane: u32, objs: *const *mut Header, n: u32) {
        // SAFETY: the caller's lane.
        let (cache, slots) = unsafe { (self.lane(lane), self.slots(lane)) };
        let len = cache.len.load(Relaxed);
        if n <= self.size - len {
            // SAFETY: len + n <= size.
            unsafe { copy(objs, slots.add(len as usize), n) };
            cache.len.store(len + n, Release);
            return;
        }
        // SAFETY: as the caller promises.
        unsafe { self.put_cold(backend, lane, objs, n) }
    }

    #[cold]
    #[inline(never)]
    unsafe fn put_cold(&self, backend: &Backend, lane: u32, objs: *const *mut Header, n: u32) {
        // SAFETY: the caller's lane.
        let (cache, slots) = unsafe { (self.lane(lane), self.slots(lane)) };
        if n > self.size {
            cache.flushes.store(cache.flushes.load(Relaxed) + 1, Relaxed);
            // SAFETY: `objs` holds `n` objects.
            unsafe { backend.put(objs, n) };
            return;
        }
        let len = cache.len.load(Relaxed);
        let keep = len.min(self.size / 2).min(self.size - n);
        let flush = len - keep;
        // SAFETY: the `flush` coldest lie at the bottom; what stays moves down, the new ones go on top, and
        // keep + n <= size.
        unsafe {
            backend.put(slots, flush);
            ptr::copy(slots.add(flush as usize), slots, keep as usize);
            ptr::copy_nonoverlapping(objs, slots.add(keep as usize), n as usize);
        }
        cache.flushes.store(cache.flushes.load(Relaxed) + 1, Relaxed);
        cache.len.store(keep + n, Release);
    }

    /// Takes one object, or null.
    ///
    /// # Safety
    ///
    /// The caller holds `lane`, which is below `MAX_LANES`.
    #[inline(always)]
    pub(crate) unsafe fn get_one(&self, backend: &Backend, lane: u32) -> *mut Header {
        // SAFETY: the caller's lane.
        let (cache, slots) = unsafe { (self.lane(lane), self.slots(lane)) };
        let len = cache.len.load(Relaxed);
        if len > 0 {
            cache.len.store(len - 1, Release);
            // SAFETY: `len` slots are filled.
            return unsafe { slots.add(len as usize - 1).read() };
        }
        // SAFETY: as the caller promises.
        unsafe { self.get_one_cold(backend, lane) }
    }

    /// Out of line, so that the hot path needs no slot in memory for the result.
    #[cold]
    #[inline(never)]
    unsafe fn get_one_cold(&self, backend: &Backend, lane: u32) -> *mut Header {
        let mut one = ptr::null_mut();
        // SAFETY: room for one; as the caller promises.
        unsafe { self.get_cold(backend, lane, &mut one, 1) };
        one
    }

    /// Puts one object back.
    ///
    /// # Safety
    ///
    /// As for [`put`](Self::put).
    #[inline(always)]
    pub(crate) unsafe fn put_one(&self, backend: &Backend, lane: u32, obj: *mut Header) {
        // SAFETY: the caller's lane.
        let (cache, slots) = unsafe { (self.lane(lane), self.slots(lane)) };
        let len = cache.len.load(Relaxed);
        if len < self.size {
            // SAFETY: len < size.
            unsafe { slots.add(len as usize).write(obj) };
            cache.len.store(len + 1, Release);
            return;
        }
        // SAFETY: as the caller promises.
        unsafe { self.put_one_cold(backend, lane, obj) }
    }

    #[cold]
    #[inline(never)]
    unsafe fn put_one_cold(&self, backend: &Backend, lane: u32, obj: *mut Header) {
        // SAFETY: as the caller promises.
        unsafe { self.put_cold(backend, lane, &obj, 1) }
    }

    /// What a lane's cache has seen; exact only if its thread is not at work.
    pub(crate) fn counts(&self, lane: u32) -> CacheCounts {
        assert!((lane as usize) < MAX_LANES);
        // SAFETY: lane < MAX_LANES.
        let c = unsafe { self.lane(lane) };
        CacheCounts {
            len: c.len.load(Acquire),
            refills: c.refills.load(Relaxed),
            flushes: c.flushes.load(Relaxed),
            failures: c.failures.load(Relaxed),
        }
    }

    /// The objects in a lane's cache.
    ///
    /// # Safety
    ///
    /// `lane < MAX_LANES`, and no thread uses that lane's cache during the call.
    pub(crate) unsafe fn contents(&self, lane: u32) -> Vec<*mut Header> {
        // SAFETY: the caller keeps everyone out.
        unsafe {
            let len = self.lane(lane).len.load(Relaxed);
            core::slice::from_raw_parts(self.slots(lane), len as usize).to_vec()
        }
    }
}

impl Drop for Caches {
    fn drop(&mut self) {
        // SAFETY: allocated in `new` with this layout.
        unsafe { dealloc(self.base.as_ptr(), self.layout) }
    }
}

/// Copies `n` pointers; short runs without a call.
///
/// # Safety
///
/// `from` is readable and `to` writable for `n` pointers, and they do not overlap.
#[inline(always)]
unsafe fn copy(from: *const *mut Header, to: *mut *mut Header, n: u32) {
    // SAFETY: the caller's promise.
    unsafe { ptr::copy_nonoverlapping(from, to, n as usize) }
}
