//! The pool's books: free + held + posted = total, every address once, everything at rest as it should be.

use crate::{Header, Mempool, PoolCounts, pool::PoolInner};
use linerate_mem::with_lanes_frozen;
use std::sync::atomic::Ordering::Relaxed;
use thiserror::Error;

/// The result of a clean audit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Audit {
    /// The counts that were found.
    pub counts: PoolCounts,
    /// Free buffers whose address and state were checked.
    pub checked: u32,
    /// Free buffers in caches of other live threads: counted, not looked at.
    pub unchecked: u32,
}

/// What is wrong in a pool.
#[derive(Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuditError {
    /// A buffer is free twice.
    #[error("pool {pool}: buffer {index} is free twice")]
    Twice {
        /// The pool's name.
        pool: String,
        /// Number of the buffer.
        index: u32,
    },
    /// An address in the pool is not a buffer of it.
    #[error("pool {pool}: {address:#x} is free in it but not one of its buffers")]
    Foreign {
        /// The pool's name.
        pool: String,
        /// The address.
        address: usize,
    },
    /// A free buffer is not in the state that allocation relies on.
    #[error("pool {pool}: free buffer {index} has {what}")]
    Dirty {
        /// The pool's name.
        pool: String,
        /// Number of the buffer.
        index: u32,
        /// What is not as it should be.
        what: &'static str,
    },
    /// More buffers are accounted for than there are.
    #[error("pool {pool}: {free} free and {posted} posted of {total}")]
    TooMany {
        /// The pool's name.
        pool: String,
        /// Free buffers.
        free: u32,
        /// Buffers that holders answer for.
        posted: u32,
        /// Buffers in the pool.
        total: u32,
    },
}

impl Mempool {
    /// Checks the books: every free buffer is one of ours, free once, and in the state that allocation relies
    /// on; what is free and posted does not exceed the total.
    ///
    /// For a pool at rest: buffers of the back end are taken out and put back meanwhile, so an allocation on
    /// another thread may find none, threads cannot start or end, and the counts are a snapshot. Caches of other
    /// *live* threads cannot be looked into and are reported as unchecked.
    ///
    /// # Errors
    ///
    /// [`AuditError`]: the first thing found wrong.
    pub fn audit(&self) -> Result<Audit, AuditError> {
        let pool = self.inner();
        let counts = self.counts();
        let mut free: Vec<*mut Header> = Vec::with_capacity(pool.buffers as usize + 1);
        let mut unchecked = 0;
        // All looking is done while the lanes are frozen: a lane that is free now could be somebody's a moment
        // later, and the buffers in it allocated and written.
        let result = with_lanes_frozen(|lanes| {
            for (i, lane) in (0..).zip(&pool.lanes) {
                if lanes.is_readable(i) {
                    // SAFETY: the lane is ours or nobody's, and stays so while the lanes are frozen.
                    free.extend(unsafe { lane.contents() });
                } else {
                    unchecked += lane.counts().len;
                }
            }
            let in_caches = free.len();
            take_all(pool, &mut free);
            let result = check(self, &free);
            // SAFETY: exactly those taken out above, in their order.
            unsafe { pool.backend.put(free.as_ptr().add(in_caches), (free.len() - in_caches) as u32) };
            result
        });
        result?;
        let posted = counts.posted.iter().fold(0u32, |sum, (_, n)| sum.saturating_add(*n));
        if counts.free.saturating_add(posted) > counts.total {
            let (free, total) = (counts.free, counts.total);
            return Err(AuditError::TooMany { pool: self.name().into(), free, posted, total });
        }
        Ok(Audit { counts, checked: free.len() as u32, unchecked })
    }
}

/// Takes everything out of the back end: in one call, so that it can go back in the same order, as far as others
/// leave that possible.
fn take_all(pool: &PoolInner, free: &mut Vec<*mut Header>) {
    let n = pool.backend.len();
    free.reserve(n as usize + 1);
    // SAFETY: room was just made for `n`, which are filled if the call succeeds.
    unsafe {
        if pool.backend.get(free.as_mut_ptr().add(free.len()), n) {
            free.set_len(free.len() + n as usize);
        }
    }
    let mut one = core::ptr::null_mut();
    // SAFETY: room for one.
    while unsafe { pool.backend.get(&mut one, 1) } {
        free.push(one);
    }
}

fn check(mp: &Mempool, free: &[*mut Header]) -> Result<(), AuditError> {
    let pool = mp.inner();
    let name = || mp.name().to_string();
    let mut seen = vec![false; pool.buffers as usize];
    for &h in free {
        let Some(index) = pool.index_of(h) else {
            return Err(AuditError::Foreign { pool: name(), address: h as usize });
        };
        if std::mem::replace(&mut seen[index as usize], true) {
            return Err(AuditError::Twice { pool: name(), index });
        }
        // SAFETY: one of our headers, free and so not written by anyone else.
        let h = unsafe { &*h };
        let what = if h.refcnt.load(Relaxed) != 1 {
            "a reference count other than 1"
        } else if h.nb_segs != 1 {
            "a segment count other than 1"
        } else if h.seg_flags != 0 {
            "segment flags"
        } else if !h.next.is_null() {
            "a next segment"
        } else if !h.owner.is_null() {
            "an owner of its bytes"
        } else if h.buf_addr != pool.own_memory(index) || h.buf_len != pool.buf_len {
            "memory that is not its own"
        } else if !std::ptr::eq(h.pool, pool) {
            "another pool's address"
        } else {
            continue;
        };
        return Err(AuditError::Dirty { pool: name(), index, what });
    }
    Ok(())
}
