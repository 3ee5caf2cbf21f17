//! Making a pool: sizes checked, memory taken, every header written once.

use crate::{
    BackendKind, Mempool, OlFlags, PoolError,
    backend::Backend,
    cache::MAX_CACHE,
    header::{HEADER_BYTES, Header, PORT_NONE},
    pool::{Owner, PoolInner, reap_orphans},
};
use core::{alloc::Layout, ptr::NonNull};
use linerate_mem::{NumaNode, PagePreference, PageRequest, Pages};
use std::{
    alloc::alloc_zeroed,
    sync::{Arc, Mutex, atomic::AtomicU64},
};

/// Bytes in front of the data of a fresh buffer, for headers to be prepended.
pub const DEFAULT_HEADROOM: u16 = 128;
/// Bytes of data that a fresh buffer has room for behind its headroom.
pub const DEFAULT_DATA_ROOM: u16 = 2048;
/// Buffers are this many bytes apart, or a multiple of it.
const LINE: usize = 64;
/// Most buffers in a pool.
const MAX_BUFFERS: u64 = 1 << 28;

/// How a pool is to be made; start with [`Mempool::builder`].
#[derive(Debug)]
pub struct MempoolBuilder {
    name: String,
    buffers: u64,
    cache: u32,
    headroom: u16,
    data_room: u16,
    private: u16,
    backend: BackendKind,
    pages: PagePreference,
    node: Option<NumaNode>,
    data: Option<Pages>,
}

impl MempoolBuilder {
    pub(crate) fn new(name: String, buffers: u64) -> Self {
        MempoolBuilder {
            name,
            buffers,
            cache: buffers.min(256) as u32,
            headroom: DEFAULT_HEADROOM,
            data_room: DEFAULT_DATA_ROOM,
            private: 0,
            backend: BackendKind::Ring,
            pages: PagePreference::Auto,
            node: None,
            data: None,
        }
    }

    /// Buffers that each core may keep for itself (0 = none, at most 512). Default 256.
    #[must_use]
    pub fn cache(mut self, per_core: u32) -> Self {
        self.cache = per_core;
        self
    }

    /// Bytes kept free in front of received data. Default [`DEFAULT_HEADROOM`].
    #[must_use]
    pub fn headroom(mut self, bytes: u16) -> Self {
        self.headroom = bytes;
        self
    }

    /// Bytes of data a buffer has room for behind its headroom. Default [`DEFAULT_DATA_ROOM`].
    #[must_use]
    pub fn data_room(mut self, bytes: u16) -> Self {
        self.data_room = bytes;
        self
    }

    /// Bytes of [user area](crate::Mbuf::user_area) in each buffer. Default 0.
    #[must_use]
    pub fn user_area(mut self, bytes: u16) -> Self {
        self.private = bytes;
        self
    }

    /// Where buffers lie that no cache holds. Default [`BackendKind::Ring`].
    #[must_use]
    pub fn backend(mut self, kind: BackendKind) -> Self {
        self.backend = kind;
        self
    }

    /// Which pages to take. Default: huge ones when there are any.
    #[must_use]
    pub fn pages(mut self, preference: PagePreference) -> Self {
        self.pages = preference;
        self
    }

    /// The NUMA node of the memory. Default: wherever the calling thread is.
    #[must_use]
    pub fn node(mut self, node: NumaNode) -> Self {
        self.node = Some(node);
        self
    }

    /// Puts the data of all buffers into this memory, apart from the headers (DPDK's pinned external buffers).
    #[must_use]
    pub fn pinned_external(mut self, data: Pages) -> Self {
        self.data = Some(data);
        self
    }

    /// Makes the pool.
    ///
    /// # Errors
    ///
    /// [`PoolError`]: a size out of range, or no memory; nothing is left behind.
    pub fn build(self) -> Result<Mempool, PoolError> {
        reap_orphans();
        let b = self;
        if b.buffers == 0 || b.buffers > MAX_BUFFERS {
            return Err(PoolError::Count { name: b.name, wanted: b.buffers, max: MAX_BUFFERS });
        }
        let buffers = b.buffers as u32;
        let max_cache = MAX_CACHE.min(buffers);
        if b.cache > max_cache {
            return Err(PoolError::Cache { name: b.name, wanted: b.cache, max: max_cache, buffers });
        }
        let (headroom, data_room) = (u32::from(b.headroom), u32::from(b.data_room));
        if data_room == 0 || headroom + data_room > u32::from(u16::MAX) {
            let max = u16::MAX.into();
            return Err(PoolError::Room { name: b.name, headroom, data_room, max });
        }
        let buf_len = headroom + data_room;
        let geometry = Geometry::new(b.private, buf_len, b.data.is_some());
        if let Some(data) = &b.data {
            let need = geometry.data_stride * buffers as usize;
            if data.len() < need {
                return Err(PoolError::Memory { name: b.name, have: data.len(), need });
            }
        }
        let mut request = PageRequest::new(geometry.stride * buffers as usize).prefer(b.pages);
        if let Some(node) = b.node {
            request = request.on_node(node);
        }
        let pages = request.allocate().map_err(|source| PoolError::Pages { name: b.name.clone(), source })?;
        let backend = Backend::new(b.backend, buffers)
            .map_err(|bytes| PoolError::NoMemory { name: b.name.clone(), bytes })?;
        let parts = Parts { geometry, backend, pages };
        let inner = PoolInner::boxed(b, buf_len as u16, parts)?;
        // SAFETY: just made, nobody else has it.
        unsafe { populate(inner) };
        Ok(Mempool { inner, _owner: Arc::new(Owner(inner)) })
    }
}

/// What `build` has made before the pool itself.
struct Parts {
    geometry: Geometry,
    backend: Backend,
    pages: Pages,
}

impl PoolInner {
    /// The pool on the heap. Its lanes are half a megabyte that must neither pass over the stack nor be touched,
    /// so it is put together in place, from zeroed memory; to be freed as a `Box`.
    fn boxed(b: MempoolBuilder, buf_len: u16, parts: Parts) -> Result<NonNull<PoolInner>, PoolError> {
        let layout = Layout::new::<PoolInner>();
        // SAFETY: the layout is not empty.
        let p = unsafe { alloc_zeroed(layout) }.cast::<PoolInner>();
        let Some(inner) = NonNull::new(p) else {
            return Err(PoolError::NoMemory { name: b.name, bytes: layout.size() });
        };
        let rearm =
            [u64::from(b.headroom) | 1 << 16 | 1 << 32 | u64::from(PORT_NONE) << 48, OlFlags::empty().bits()];
        // SAFETY: every field but `lanes` is written, and all-zero lanes are valid; nobody else has the memory.
        unsafe {
            (&raw mut (*p).rearm).write(rearm);
            (&raw mut (*p).buf_len).write(buf_len);
            (&raw mut (*p).headroom).write(b.headroom);
            (&raw mut (*p).private).write(b.private);
            (&raw mut (*p).kind).write(b.backend);
            (&raw mut (*p).cache_size).write(b.cache);
            (&raw mut (*p).buffers).write(b.buffers as u32);
            (&raw mut (*p).data_offset).write(parts.geometry.data_offset as u32);
            (&raw mut (*p).failures).write(AtomicU64::new(0));
            (&raw mut (*p).geometry).write(parts.geometry);
            (&raw mut (*p).backend).write(parts.backend);
            (&raw mut (*p).holders).write(Mutex::default());
            (&raw mut (*p).name).write(b.name);
            (&raw mut (*p).pages).write(parts.pages);
            (&raw mut (*p).data).write(b.data);
        }
        Ok(inner)
    }
}

/// Where the parts of a buffer lie.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    /// Bytes from one header to the next.
    pub stride: usize,
    /// Bytes from a header to its own memory; 0 with external data.
    pub data_offset: usize,
    /// Bytes from one buffer's external memory to the next one's.
    pub data_stride: usize,
}

impl Geometry {
    fn new(private: u16, buf_len: u32, external: bool) -> Self {
        let head = HEADER_BYTES + usize::from(private).next_multiple_of(LINE);
        let data_stride = (buf_len as usize).next_multiple_of(LINE);
        let bytes = if external { head } else { head + data_stride };
        // An odd number of lines spreads headers over all cache sets; an even one would use a part of them.
        let lines = (bytes / LINE) | 1;
        Geometry { stride: lines * LINE, data_offset: if external { 0 } else { head }, data_stride }
    }
}

/// Writes every header and hands all buffers to the back end.
///
/// # Safety
///
/// `inner` is a live pool that nobody else uses yet.
unsafe fn populate(inner: NonNull<PoolInner>) {
    // SAFETY: live for the call.
    let pool = unsafe { inner.as_ref() };
    for i in 0..pool.buffers {
        let h = pool.header(i);
        // SAFETY: the header lies inside the pool's own mapping, which is writable and nobody's else.
        unsafe { h.write(Header::in_pool(pool.own_memory(i), pool.buf_len, inner.as_ptr())) };
        // SAFETY: ours and in the in-pool state.
        unsafe { pool.backend.put(&h, 1) };
    }
}
