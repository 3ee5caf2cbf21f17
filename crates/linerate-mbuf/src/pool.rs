//! The pool: a fixed number of buffers in one piece of memory, taken and given back without a system call.

use crate::{
    BackendKind, Burst, Holder, Mbuf, MempoolBuilder, PoolCounts, RxTemplate,
    backend::Backend,
    builder::Geometry,
    cache::{CacheCounts, Lane},
    counts::HolderInner,
    header::Header,
};
use core::{
    fmt,
    panic::{RefUnwindSafe, UnwindSafe},
    ptr,
    ptr::NonNull,
};
use linerate_mem::{MAX_LANES, Pages, current_lane};
use std::sync::{
    Arc, Mutex, PoisonError, Weak,
    atomic::{
        AtomicU32, AtomicU64,
        Ordering::{Acquire, Relaxed},
        fence,
    },
};

/// The shared part of a pool; every header points to it.
#[repr(C)]
pub(crate) struct PoolInner {
    // The first line is all that allocation and free read, beside the lane.
    /// Data offset, reference count 1, one segment, no port; no flags: the second sixteen bytes of a header.
    pub(crate) rearm: [u64; 2],
    pub(crate) buf_len: u16,
    pub(crate) headroom: u16,
    pub(crate) private: u16,
    pub(crate) kind: BackendKind,
    /// Slots in each lane's cache; 0 = no caches.
    pub(crate) cache_size: u32,
    pub(crate) buffers: u32,
    /// Bytes from a header to its own memory; 0 if that lies in memory given from outside.
    pub(crate) data_offset: u32,
    /// Failed gets of threads without a lane, and of pools without caches.
    pub(crate) failures: AtomicU64,
    pub(crate) lanes: [Lane; MAX_LANES],
    pub(crate) geometry: Geometry,
    pub(crate) backend: Backend,
    pub(crate) holders: Mutex<Vec<Weak<HolderInner>>>,
    pub(crate) name: String,
    pub(crate) pages: Pages,
    pub(crate) data: Option<Pages>,
}

impl PoolInner {
    /// Header number `i`.
    pub(crate) fn header(&self, i: u32) -> *mut Header {
        debug_assert!(i < self.buffers);
        // SAFETY: the mapping holds `buffers` strides.
        unsafe { self.pages.base().as_ptr().add(i as usize * self.geometry.stride).cast() }
    }

    /// Number of a header, if it is one of this pool's.
    pub(crate) fn index_of(&self, h: *const Header) -> Option<u32> {
        let off = (h as usize).checked_sub(self.pages.base().as_ptr() as usize)?;
        let i = off / self.geometry.stride;
        (off % self.geometry.stride == 0 && i < self.buffers as usize).then_some(i as u32)
    }

    /// Start of buffer `i`'s own memory.
    pub(crate) fn own_memory(&self, i: u32) -> *mut u8 {
        match &self.data {
            // SAFETY: `build` checked that the memory holds `buffers` strides.
            Some(d) => unsafe { d.base().as_ptr().add(i as usize * self.geometry.data_stride) },
            // SAFETY: within the header's stride.
            None => unsafe { self.header(i).cast::<u8>().add(self.data_offset as usize) },
        }
    }

    /// Start of a header's own memory: without a division where the two lie together.
    ///
    /// # Safety
    ///
    /// `h` is one of this pool's.
    #[inline(always)]
    pub(crate) unsafe fn memory_of(&self, h: *mut Header) -> *mut u8 {
        if self.data_offset != 0 {
            // SAFETY: within the header's stride.
            return unsafe { h.cast::<u8>().add(self.data_offset as usize) };
        }
        self.outside_memory_of(h)
    }

    #[cold]
    #[inline(never)]
    fn outside_memory_of(&self, h: *mut Header) -> *mut u8 {
        self.own_memory(self.index_of(h).expect("a header lies in its own pool"))
    }

    /// The calling thread's cache, if it has a lane.
    #[inline(always)]
    fn my_lane(&self) -> Option<&Lane> {
        self.lanes.get(current_lane() as usize)
    }

    /// Takes `n` headers, still in the in-pool state; false with nothing taken if there are too few.
    ///
    /// # Safety
    ///
    /// `out` has room for `n`.
    #[inline(always)]
    pub(crate) unsafe fn get(&self, out: *mut *mut Header, n: u32) -> bool {
        match self.my_lane() {
            // SAFETY: our own lane; room as the caller promises.
            Some(lane) => unsafe { lane.get(self, out, n) },
            // SAFETY: room as the caller promises.
            None => unsafe { self.get_uncached(out, n) },
        }
    }

    /// The back end alone. One buffer has a body of its own, which saves no registers and copies no runs.
    #[inline(never)]
    pub(crate) unsafe fn get_uncached(&self, out: *mut *mut Header, n: u32) -> bool {
        if n == 1 {
            // SAFETY: as the caller promises.
            return unsafe { self.get_uncached_one(out) };
        }
        // SAFETY: as the caller promises.
        unsafe { self.backend.get(out, n) || self.failed() }
    }

    #[inline(never)]
    unsafe fn get_uncached_one(&self, out: *mut *mut Header) -> bool {
        // SAFETY: as the caller promises.
        unsafe { self.backend.get(out, 1) || self.failed() }
    }

    #[cold]
    #[inline(never)]
    fn failed(&self) -> bool {
        self.failures.fetch_add(1, Relaxed);
        false
    }

    /// Takes one header or null.
    #[inline(always)]
    pub(crate) fn get_one(&self) -> *mut Header {
        match self.my_lane() {
            // SAFETY: our own lane.
            Some(lane) => unsafe { lane.get_one(self) },
            None => self.get_one_uncached(),
        }
    }

    #[cold]
    #[inline(never)]
    fn get_one_uncached(&self) -> *mut Header {
        let mut one = ptr::null_mut();
        // SAFETY: room for one.
        unsafe { self.get_uncached(&mut one, 1) };
        one
    }

    /// Gives `n` headers back.
    ///
    /// # Safety
    ///
    /// They are this pool's, owned by the caller, and in the in-pool state.
    #[inline(always)]
    pub(crate) unsafe fn put(&self, objs: *const *mut Header, n: u32) {
        match self.my_lane() {
            // SAFETY: our own lane; objects as the caller promises.
            Some(lane) => unsafe { lane.put(self, objs, n) },
            // SAFETY: objects as the caller promises.
            None => unsafe { self.put_uncached(objs, n) },
        }
    }

    #[inline(never)]
    pub(crate) unsafe fn put_uncached(&self, objs: *const *mut Header, n: u32) {
        if n == 1 {
            // SAFETY: as the caller promises.
            return unsafe { self.put_uncached_one(objs) };
        }
        // SAFETY: objects as the caller promises.
        unsafe { self.backend.put(objs, n) }
    }

    #[inline(never)]
    unsafe fn put_uncached_one(&self, objs: *const *mut Header) {
        // SAFETY: object as the caller promises.
        unsafe { self.backend.put(objs, 1) }
    }

    /// Gives one header back.
    ///
    /// # Safety
    ///
    /// As for [`put`](Self::put).
    #[inline(always)]
    pub(crate) unsafe fn put_one(&self, obj: *mut Header) {
        match self.my_lane() {
            // SAFETY: our own lane; object as the caller promises.
            Some(lane) => unsafe { lane.put_one(self, obj) },
            None => {
                let one = obj;
                // SAFETY: object as the caller promises.
                unsafe { self.put_uncached(&one, 1) }
            }
        }
    }

    /// Sums over all lanes, after the back end was looked at: see the drawing in `cache.rs`.
    fn counts(&self) -> PoolCounts {
        let backend = self.backend.len();
        fence(Acquire); // A
        let mut sum = CacheCounts::default();
        for c in self.lanes.iter().map(Lane::counts) {
            sum.len += c.len;
            sum.failures += c.failures;
            sum.refills += c.refills;
            sum.flushes += c.flushes;
        }
        let holders = self.holders.lock().unwrap_or_else(PoisonError::into_inner);
        let posted = holders
            .iter()
            .filter_map(Weak::upgrade)
            .map(|h| (h.name.clone(), h.count.load(Relaxed)))
            .collect::<Vec<_>>();
        let free = (backend + sum.len).min(self.buffers);
        PoolCounts {
            total: self.buffers,
            free,
            backend,
            cached: sum.len,
            held: self.buffers - free,
            posted,
            failures: sum.failures + self.failures.load(Relaxed),
            refills: sum.refills,
            flushes: sum.flushes,
        }
    }

    /// Whether every buffer is home. Only for a pool that nobody can take from any more: then buffers move from
    /// outside to a cache or the back end, and from a cache to the back end, and the order in which the two are
    /// read (and `a` in `cache.rs`) never counts one twice.
    fn all_home(&self) -> bool {
        let c = self.counts();
        c.backend + c.cached == c.total
    }
}

/// A pool of packet buffers. Clones are handles to the same pool; allocation works from any thread.
///
/// The memory stays as long as a handle or a buffer lives: a pool whose last handle goes while buffers are
/// still out is kept until they have come home (looked at whenever a pool is made or dropped).
#[derive(Clone)]
pub struct Mempool {
    pub(crate) inner: NonNull<PoolInner>,
    pub(crate) _owner: Arc<Owner>,
}

// SAFETY: everything behind the pointer is Sync: caches are per lane, the back end is concurrent.
unsafe impl Send for Mempool {}
// SAFETY: as for Send.
unsafe impl Sync for Mempool {}
// No call runs foreign code between two states of the pool, so a panic cannot leave it torn.
impl UnwindSafe for Mempool {}
impl RefUnwindSafe for Mempool {}

impl Mempool {
    /// Starts describing a pool of `buffers` buffers.
    ///
    /// ```
    /// use linerate_mbuf::Mempool;
    ///
    /// let pool = Mempool::builder("demo", 1024).cache(64).build()?;
    /// let mut m = pool.alloc().expect("1024 are free");
    /// m.append(4).expect("2048 bytes of room").copy_from_slice(b"ping");
    /// assert_eq!(pool.counts().held, 1);
    /// drop(m);
    /// assert_eq!(pool.counts().held, 0);
    /// # Ok::<(), linerate_mbuf::PoolError>(())
    /// ```
    pub fn builder(name: impl Into<String>, buffers: u64) -> MempoolBuilder {
        MempoolBuilder::new(name.into(), buffers)
    }

    /// Takes one buffer: empty, with the pool's headroom; `None` if none is free.
    #[inline(always)]
    pub fn alloc(&self) -> Option<Mbuf> {
        let h = NonNull::new(self.inner().get_one())?;
        // SAFETY: fresh from the pool and ours alone.
        unsafe {
            RxTemplate::blank(&self.inner().rearm).apply(h.as_ptr());
            Some(Mbuf::from_header(h))
        }
    }

    /// Appends `n` empty buffers to `burst`; false, with none taken, if so many are not free or do not fit.
    #[inline]
    pub fn alloc_bulk(&self, burst: &mut Burst, n: usize) -> bool {
        self.alloc_rx(&RxTemplate::blank(&self.inner().rearm), burst, n)
    }

    /// Appends `n` buffers, each set up as `template` says, to `burst`; false, with none taken, if so many are
    /// not free or do not fit. This is the receive path of a driver: one pass, two stores a buffer.
    ///
    /// # Panics
    ///
    /// If the template's headroom and length do not fit this pool's buffers: it was made for another pool.
    #[inline(always)]
    pub fn alloc_rx(&self, template: &RxTemplate, burst: &mut Burst, n: usize) -> bool {
        if n == 0 {
            return true;
        }
        if n > burst.room() {
            return false;
        }
        if template.end() > self.inner().buf_len.into() {
            template.misfit(self);
        }
        // SAFETY: the burst has room for `n`; the headers are ours alone once taken.
        unsafe {
            let out = burst.spare();
            if !self.inner().get(out, n as u32) {
                return false;
            }
            for i in 0..n {
                template.apply(*out.add(i));
            }
            burst.grow(n);
        }
        true
    }

    /// Takes `n` buffers as bare headers, without setting them up: what a driver does that writes every field
    /// itself, and what the pool alone costs. False, with nothing taken, if so many are not free.
    ///
    /// # Safety
    ///
    /// `out` has room for `n`. A header taken must be given back with [`put_raw`](Self::put_raw) to this very
    /// pool, or made a packet of, or it is lost.
    #[inline(always)]
    pub unsafe fn get_raw(&self, out: *mut *mut Header, n: usize) -> bool {
        // SAFETY: as the caller promises. A request beyond 2^32 is beyond any pool too.
        n <= u32::MAX as usize && unsafe { self.inner().get(out, n as u32) }
    }

    /// Gives back `n` headers that [`get_raw`](Self::get_raw) took.
    ///
    /// # Safety
    ///
    /// `headers` holds `n` headers taken from this pool, as they came, each given back once.
    #[inline(always)]
    pub unsafe fn put_raw(&self, headers: *const *mut Header, n: usize) {
        // SAFETY: as the caller promises; a pool has at most 2^28 buffers.
        unsafe { self.inner().put(headers, n as u32) }
    }

    /// The pool's name.
    pub fn name(&self) -> &str {
        &self.inner().name
    }

    /// Buffers in the pool.
    pub fn buffers(&self) -> u32 {
        self.inner().buffers
    }

    /// Cache slots per core.
    pub fn cache_size(&self) -> u32 {
        self.inner().cache_size
    }

    /// Bytes of headroom of a fresh buffer.
    pub fn headroom(&self) -> u16 {
        self.inner().headroom
    }

    /// Bytes of data a fresh buffer has room for behind its headroom.
    pub fn data_room(&self) -> u16 {
        self.inner().buf_len - self.inner().headroom
    }

    /// Bytes of user area in each buffer.
    pub fn user_area(&self) -> u16 {
        self.inner().private
    }

    /// The kind of back end.
    pub fn backend(&self) -> BackendKind {
        self.inner().kind
    }

    /// Whether the buffers' data lies in memory given from outside.
    pub fn is_pinned_external(&self) -> bool {
        self.inner().data.is_some()
    }

    /// One line: which memory was taken, and what it costs.
    pub fn memory_report(&self) -> String {
        self.inner().pages.report()
    }

    /// The memory of headers and (unless external) data, for a device that maps it.
    pub fn pages(&self) -> &Pages {
        &self.inner().pages
    }

    /// The external memory of the data, if there is one.
    pub fn external_pages(&self) -> Option<&Pages> {
        self.inner().data.as_ref()
    }

    /// Who holds how many buffers; exact when no thread is allocating or freeing.
    pub fn counts(&self) -> PoolCounts {
        self.inner().counts()
    }

    /// Registers a holder of buffers (a receive queue, say), so that [`counts`](Self::counts) can name it.
    pub fn holder(&self, name: impl Into<String>) -> Holder {
        let inner = Arc::new(HolderInner { name: name.into(), count: AtomicU32::new(0) });
        let mut holders = self.inner().holders.lock().unwrap_or_else(PoisonError::into_inner);
        holders.retain(|h| h.strong_count() > 0);
        holders.push(Arc::downgrade(&inner));
        Holder(inner)
    }

    /// Whether both are handles to one pool.
    pub fn same_pool(&self, other: &Mempool) -> bool {
        self.inner == other.inner
    }

    #[inline(always)]
    pub(crate) fn inner(&self) -> &PoolInner {
        // SAFETY: the owner that we hold keeps it alive.
        unsafe { self.inner.as_ref() }
    }
}

impl fmt::Debug for Mempool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mempool").field("name", &self.name()).field("counts", &self.counts()).finish()
    }
}

/// Frees the pool when the last handle goes, or leaves it to [`reap_orphans`].
pub(crate) struct Owner(pub(crate) NonNull<PoolInner>);

// SAFETY: the pool behind it is Send and Sync.
unsafe impl Send for Owner {}
// SAFETY: the pool behind it is Send and Sync.
unsafe impl Sync for Owner {}

impl Drop for Owner {
    fn drop(&mut self) {
        reap_orphans();
        let orphan = Orphan(self.0);
        if !orphan.free_if_all_home() {
            ORPHANS.lock().unwrap_or_else(PoisonError::into_inner).push(orphan);
        }
    }
}

/// A pool without a handle.
struct Orphan(NonNull<PoolInner>);

// SAFETY: the pool behind it is Send and Sync.
unsafe impl Send for Orphan {}

/// Pools without a handle whose buffers were not all home when last looked at.
static ORPHANS: Mutex<Vec<Orphan>> = Mutex::new(Vec::new());

impl Orphan {
    /// Frees the pool if every buffer is home; it must not be used again then. Without handles nothing can be
    /// taken any more, so once all are home they stay there.
    fn free_if_all_home(&self) -> bool {
        // SAFETY: alive until the Box below is dropped, after which the caller forgets us.
        if !unsafe { self.0.as_ref() }.all_home() {
            return false;
        }
        // SAFETY: made by `PoolInner::boxed`, from a Box; no handle and no buffer refers to it any more, and whoever
        // gave the last one back does not touch the pool after the store that made it count.
        drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        true
    }
}

/// Frees the pools whose last buffer has come home since their last handle went.
pub(crate) fn reap_orphans() {
    ORPHANS.lock().unwrap_or_else(PoisonError::into_inner).retain(|o| !o.free_if_all_home());
}
