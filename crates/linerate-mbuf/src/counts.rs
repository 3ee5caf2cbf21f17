//! Who holds a pool's buffers: counts that anyone may read at any time.

use std::sync::{
    Arc,
    atomic::{AtomicU32, Ordering::Relaxed},
};

/// Who holds how many buffers of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PoolCounts {
    /// Buffers in the pool.
    pub total: u32,
    /// Free ones: in the back end or in a core's cache.
    pub free: u32,
    /// Free ones in the back end.
    pub backend: u32,
    /// Free ones in the caches of all cores.
    pub cached: u32,
    /// All others: held by the application or posted to a device.
    pub held: u32,
    /// Of the held ones, those that a [`Holder`] answers for, by its name.
    pub posted: Vec<(String, u32)>,
    /// Requests that found too few buffers.
    pub failures: u64,
    /// Times a cache was filled from the back end.
    pub refills: u64,
    /// Times a cache handed buffers to the back end.
    pub flushes: u64,
}

#[derive(Debug)]
pub(crate) struct HolderInner {
    pub(crate) name: String,
    pub(crate) count: AtomicU32,
}

/// A named holder of a pool's buffers, such as a receive queue with buffers posted to its device. It has one
/// writer; the pool reads it for its [counts](crate::Mempool::counts). Dropping it takes the name off the list.
#[derive(Debug)]
pub struct Holder(pub(crate) Arc<HolderInner>);

impl Holder {
    /// Says how many buffers it holds now.
    #[inline]
    pub fn set(&self, buffers: u32) {
        self.0.count.store(buffers, Relaxed);
    }

    /// How many it last said.
    pub fn get(&self) -> u32 {
        self.0.count.load(Relaxed)
    }
}
