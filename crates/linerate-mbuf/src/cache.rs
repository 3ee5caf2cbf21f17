//! The per-core cache in front of a pool's back end.
//!
//! Rules (those of DPDK since 26.07; bug case 7): the cache never holds more than its size; a put that would
//! overflow it first hands the *coldest* objects to the back end in one call, down to half; a get that finds
//! too few refills so that half is left afterwards (and takes no more than it needs when more than half a cache is
//! missing). Reaching the size exactly flushes nothing. The objects put last come back first.
//!
//! A cache belongs to a [lane](linerate_mem::current_lane): a number that one live thread holds alone. That is
//! what makes the plain loads and stores here sound; the length is atomic only so that others may count.
//!
//! ```text
//!   the lane's thread, giving back          whoever counts a pool without handles (pool.rs)
//!   flush: store len, lowered      a
//!          objects to the back end R ─────► back end's length, then fence        A
//!   put:   store len, raised       R' ────► load len                             A'
//! ```
//!
//! * R pairs with A (in the ring its tail store, in the stack the unlock): who sees flushed objects in the back
//!   end also sees `a`, and does not count them in the cache as well. A pool would otherwise be freed too early.
//! * R' pairs with A': a pool whose buffers are all home has been left alone by all threads, and may be freed.

use crate::{header::Header, pool::PoolInner};
use core::{cell::UnsafeCell, ptr};
use std::sync::atomic::{
    AtomicU32, AtomicU64,
    Ordering::{Acquire, Relaxed, Release},
};

/// Largest cache a pool may have.
pub(crate) const MAX_CACHE: u32 = 512;

/// One lane's cache. All-zero bytes are an empty one that has not been used yet.
///
/// Of the same size in every pool, so that its place is the pool's address and the lane alone: one load less
/// between a buffer and the slot it goes to. Pages of lanes never used are never touched.
#[repr(C, align(128))]
pub(crate) struct Lane {
    len: AtomicU32,
    /// Slots in use, or 0 before the first slow call and in pools without caches: every call is slow then.
    size: AtomicU32,
    /// Bulk hand-overs from and to the back end.
    refills: AtomicU64,
    flushes: AtomicU64,
    /// Gets that found too few objects anywhere.
    failures: AtomicU64,
    _pad: [u64; 4],
    slots: [UnsafeCell<*mut Header>; MAX_CACHE as usize],
}

// SAFETY: the slots are touched only by the thread that holds the lane (callers of the unsafe methods keep
// that), everything else is atomic.
unsafe impl Sync for Lane {}

/// What one lane's cache has seen.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct CacheCounts {
    pub len: u32,
    pub refills: u64,
    pub flushes: u64,
    pub failures: u64,
}

/// Raises a counter that only the lane's thread writes.
fn bump(counter: &AtomicU64) {
    counter.store(counter.load(Relaxed) + 1, Relaxed);
}

impl Lane {
    #[inline(always)]
    fn slot(&self, i: u32) -> *mut *mut Header {
        self.slots.as_ptr().wrapping_add(i as usize).cast::<*mut Header>().cast_mut()
    }

    /// Takes `n` objects to `out`; false, with nothing taken, if there are too few.
    ///
    /// # Safety
    ///
    /// The caller holds this lane of `pool`; `out` has room for `n`.
    #[inline(always)]
    pub(crate) unsafe fn get(&self, pool: &PoolInner, out: *mut *mut Header, n: u32) -> bool {
        let len = self.len.load(Relaxed);
        if len >= n {
            let rest = len - n;
            // SAFETY: `len` slots are filled; `out` has room.
            unsafe { copy(self.slot(rest), out, n) };
            self.len.store(rest, Release);
            return true;
        }
        // SAFETY: as the caller promises.
        unsafe { self.get_slow(pool, out, n) }
    }

    /// Pools without caches come here on every call, so it must cost them next to nothing.
    #[cold]
    #[inline(never)]
    unsafe fn get_slow(&self, pool: &PoolInner, out: *mut *mut Header, n: u32) -> bool {
        // SAFETY: as the caller promises.
        unsafe { if pool.cache_size == 0 { pool.get_uncached(out, n) } else { self.get_cold(pool, out, n) } }
    }

    #[cold]
    #[inline(never)]
    unsafe fn get_cold(&self, pool: &PoolInner, out: *mut *mut Header, n: u32) -> bool {
        let len = self.len.load(Relaxed);
        let size = pool.cache_size;
        let missing = n - len;
        let spare = size / 2;
        // What is here goes out first; it still counts as here until the back end has given the rest.
        // SAFETY: `len` slots are filled; `out` has room for `n` = len + missing.
        unsafe { copy(self.slot(0), out, len) };
        // SAFETY: `len < n`.
        let out = unsafe { out.add(len as usize) };
        // Half of the cache is taken beyond the request, to be left behind.
        // SAFETY: missing + spare <= size: they fit the cache, over what has gone out.
        if spare > 0 && missing + spare <= size && unsafe { fetch(pool, self.slot(0), missing + spare) } {
            // SAFETY: `out` has room for `missing`, which lie above those that stay.
            unsafe { copy(self.slot(spare), out, missing) };
            bump(&self.refills);
            self.len.store(spare, Release);
            return true;
        }
        // More than half a cache is missing, or the back end is short: take exactly that.
        // SAFETY: `out` has room for `missing`.
        if !unsafe { fetch(pool, out, missing) } {
            bump(&self.failures);
            return false;
        }
        self.len.store(0, Release);
        true
    }

    /// Puts `n` objects back.
    ///
    /// # Safety
    ///
    /// The caller holds this lane of `pool`; `objs` holds `n` objects of this pool, owned by the caller and in
    /// the in-pool state.
    #[inline(always)]
    pub(crate) unsafe fn put(&self, pool: &PoolInner, objs: *const *mut Header, n: u32) {
        let len = self.len.load(Relaxed);
        // Never wraps: a pool has at most 2^28 objects.
        if len + n <= self.size.load(Relaxed) {
            // SAFETY: len + n <= size.
            unsafe { copy(objs, self.slot(len), n) };
            self.len.store(len + n, Release); // R'
            return;
        }
        // SAFETY: as the caller promises.
        unsafe { self.put_slow(pool, objs, n) }
    }

    /// As [`get_slow`](Self::get_slow).
    #[cold]
    #[inline(never)]
    unsafe fn put_slow(&self, pool: &PoolInner, objs: *const *mut Header, n: u32) {
        // SAFETY: as the caller promises.
        unsafe {
            if pool.cache_size == 0 { pool.put_uncached(objs, n) } else { self.put_cold(pool, objs, n) }
        }
    }

    #[cold]
    #[inline(never)]
    unsafe fn put_cold(&self, pool: &PoolInner, objs: *const *mut Header, n: u32) {
        let size = pool.cache_size;
        self.size.store(size, Relaxed);
        if n > size {
            bump(&self.flushes);
            // SAFETY: `objs` holds `n` objects.
            unsafe { pool.backend.put(objs, n) };
            return;
        }
        let len = self.len.load(Relaxed);
        let keep = if len + n <= size { len } else { len.min(size / 2).min(size - n) };
        let flush = len - keep;
        if flush > 0 {
            bump(&self.flushes);
            // a: lowered before the objects can be seen in the back end, so that nobody counts them twice.
            self.len.store(keep, Release);
            // SAFETY: the `flush` coldest lie at the bottom; what stays moves down.
            unsafe {
                pool.backend.put(self.slot(0), flush); // R
                ptr::copy(self.slot(flush), self.slot(0), keep as usize);
            }
        }
        // SAFETY: keep + n <= size.
        unsafe { copy(objs, self.slot(keep), n) };
        self.len.store(keep + n, Release); // R'
    }

    /// Takes one object, or null.
    ///
    /// # Safety
    ///
    /// The caller holds this lane of `pool`.
    #[inline(always)]
    pub(crate) unsafe fn get_one(&self, pool: &PoolInner) -> *mut Header {
        let len = self.len.load(Relaxed);
        if len > 0 {
            self.len.store(len - 1, Release);
            // SAFETY: `len` slots are filled.
            return unsafe { self.slot(len - 1).read() };
        }
        // SAFETY: as the caller promises.
        unsafe { self.get_one_slow(pool) }
    }

    /// Out of line, so that the hot path needs no slot in memory for the result.
    #[cold]
    #[inline(never)]
    unsafe fn get_one_slow(&self, pool: &PoolInner) -> *mut Header {
        let mut one = ptr::null_mut();
        // SAFETY: room for one; as the caller promises.
        unsafe { self.get_slow(pool, &mut one, 1) };
        one
    }

    /// Puts one object back.
    ///
    /// # Safety
    ///
    /// As for [`put`](Self::put).
    #[inline(always)]
    pub(crate) unsafe fn put_one(&self, pool: &PoolInner, obj: *mut Header) {
        let len = self.len.load(Relaxed);
        if len < self.size.load(Relaxed) {
            // SAFETY: len < size.
            unsafe { self.slot(len).write(obj) };
            self.len.store(len + 1, Release); // R'
            return;
        }
        // SAFETY: as the caller promises.
        unsafe { self.put_one_slow(pool, obj) }
    }

    #[cold]
    #[inline(never)]
    unsafe fn put_one_slow(&self, pool: &PoolInner, obj: *mut Header) {
        // SAFETY: as the caller promises.
        unsafe { self.put_slow(pool, &obj, 1) }
    }

    /// What the cache has seen; exact only if its thread is not at work.
    pub(crate) fn counts(&self) -> CacheCounts {
        CacheCounts {
            len: self.len.load(Acquire), // A'
            refills: self.refills.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
            failures: self.failures.load(Relaxed),
        }
    }

    /// The objects in the cache, coldest first.
    ///
    /// # Safety
    ///
    /// No other thread uses this lane's cache during the call.
    pub(crate) unsafe fn contents(&self) -> Vec<*mut Header> {
        let len = self.len.load(Relaxed);
        // SAFETY: the first `len` slots are filled, and the caller keeps everyone out.
        (0..len).map(|i| unsafe { self.slot(i).read() }).collect()
    }
}

/// Bulk from the back end, once for both calls above; writes nothing if there are too few.
///
/// # Safety
///
/// `out` has room for `n`.
#[inline(never)]
unsafe fn fetch(pool: &PoolInner, out: *mut *mut Header, n: u32) -> bool {
    // SAFETY: as the caller promises.
    unsafe { pool.backend.get(out, n) }
}

/// From this number of pointers on, a call of the platform's `memcpy` beats plain moves.
const CALL_FROM: u32 = 16;

/// Copies `n` pointers; short runs without a call.
///
/// # Safety
///
/// `from` is readable and `to` writable for `n` pointers, and they do not overlap.
#[inline(always)]
unsafe fn copy(from: *const *mut Header, to: *mut *mut Header, n: u32) {
    if n >= CALL_FROM {
        // SAFETY: the caller's promise.
        return unsafe { ptr::copy_nonoverlapping(from, to, n as usize) };
    }
    let mut i = 0;
    macro_rules! step {
        ($k:literal) => {
            if n & $k != 0 {
                // SAFETY: the steps taken add up to n; the caller vouches for n.
                unsafe { ptr::copy_nonoverlapping(from.add(i), to.add(i), $k) };
                i += $k;
            }
        };
    }
    step!(8);
    step!(4);
    step!(2);
    if n & 1 != 0 {
        // SAFETY: as above; the last one.
        unsafe { ptr::copy_nonoverlapping(from.add(i), to.add(i), 1) };
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use crate::{BackendKind, Mempool, backend::Backend};
    use std::{
        thread,
        time::{Duration, Instant},
    };

    /// `a` before R: while a flush waits for the back end, the cache no longer counts what it hands over.
    #[test]
    fn a_flush_counts_nothing_twice() {
        let pool = Mempool::builder("flush", 64).cache(8).backend(BackendKind::Stack).build().unwrap();
        let nine: Vec<_> = (0..9).map(|_| pool.alloc().unwrap()).collect();
        let Backend::Stack(stack, _) = &pool.inner().backend else { unreachable!("asked for a stack") };
        let cached = || pool.inner().lanes.iter().map(|l| l.counts().len).sum::<u32>();
        let flushes = || pool.inner().lanes.iter().map(|l| l.counts().flushes).sum::<u64>();
        let before = cached();
        let held = stack.lock().unwrap();
        // On a lane of its own eight fill the cache; the ninth flushes four, and waits for the stack.
        let flusher = thread::spawn(move || drop(nine));
        let deadline = Instant::now() + Duration::from_secs(20);
        while (flushes(), cached()) != (1, before + 4) {
            assert!(Instant::now() < deadline, "still {} in the caches", cached() - before);
            thread::yield_now();
        }
        drop(held);
        flusher.join().unwrap();
        assert_eq!((cached(), pool.counts().free), (before + 5, 64));
    }
}

#[cfg(all(loom, test))]
mod loom_model {
    //! The drawing at the top of this file, with an orphaned pool's end as the check: the pool's memory is a cell
    //! that the lane's thread reads until its last store, and that whoever counts everything home writes.

    use loom::{
        cell::UnsafeCell,
        sync::{
            Arc,
            atomic::{AtomicU32, Ordering, fence},
        },
        thread,
    };

    #[derive(Clone, Copy)]
    struct Orders {
        lowered_first: bool,
        backend: Ordering,  // R
        fence: Ordering,    // A
        raised: Ordering,   // R'
        len_load: Ordering, // A'
    }

    const ORDERS: Orders = Orders {
        lowered_first: true,
        backend: Ordering::Release,
        fence: Ordering::Acquire,
        raised: Ordering::Release,
        len_load: Ordering::Acquire,
    };

    struct Pool {
        backend: AtomicU32,
        len: AtomicU32,
        memory: UnsafeCell<u32>,
    }

    /// A pool of 3 with 2 in a cache of size 2, and the third coming home: one is flushed, two are kept.
    fn last_buffer_home(o: Orders) {
        loom::model(move || {
            let p = Arc::new(Pool {
                backend: AtomicU32::new(0),
                len: AtomicU32::new(2),
                memory: UnsafeCell::new(0),
            });
            let lane = {
                let p = p.clone();
                thread::spawn(move || {
                    // SAFETY: what the model is about.
                    let touch = || p.memory.with(|m| unsafe { *m });
                    if o.lowered_first {
                        p.len.store(1, Ordering::Release); // a
                    }
                    p.backend.store(1, o.backend); // R
                    touch();
                    p.len.store(2, o.raised); // R'
                })
            };
            for _ in 0..2 {
                let backend = p.backend.load(Ordering::Relaxed);
                if o.fence != Ordering::Relaxed {
                    fence(o.fence); // A
                }
                if backend + p.len.load(o.len_load) == 3 {
                    // SAFETY: what the model is about.
                    p.memory.with_mut(|m| unsafe { *m = 1 });
                    break;
                }
                thread::yield_now();
            }
            lane.join().unwrap();
        });
    }

    fn fails(o: Orders) -> bool {
        std::panic::catch_unwind(|| last_buffer_home(o)).is_err()
    }

    #[test]
    fn loom_a_pool_is_whole_only_when_it_is() {
        last_buffer_home(ORDERS);
    }

    #[test]
    fn loom_every_weaker_count_of_a_pool_is_caught() {
        assert!(fails(Orders { lowered_first: false, ..ORDERS }), "a behind R");
        assert!(fails(Orders { backend: Ordering::Relaxed, ..ORDERS }), "R");
        assert!(fails(Orders { fence: Ordering::Relaxed, ..ORDERS }), "A");
        assert!(fails(Orders { raised: Ordering::Relaxed, ..ORDERS }), "R'");
        assert!(fails(Orders { len_load: Ordering::Relaxed, ..ORDERS }), "A'");
    }
}
