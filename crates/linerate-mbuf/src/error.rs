//! What can go wrong with a pool or a segment, with the facts and the way out.

use thiserror::Error;

/// Why a pool could not be made.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum PoolError {
    /// The number of buffers is 0 or more than a pool can count.
    #[error("pool {name}: {wanted} buffers; allowed are 1 to {max}")]
    Count {
        /// The pool's name.
        name: String,
        /// Buffers asked for.
        wanted: u64,
        /// The most a pool may hold.
        max: u64,
    },
    /// The cache is larger than allowed or than the pool can feed.
    #[error("pool {name}: a cache of {wanted} per core; with {buffers} buffers at most {max} is allowed")]
    Cache {
        /// The pool's name.
        name: String,
        /// Cache size asked for.
        wanted: u32,
        /// Largest size allowed here.
        max: u32,
        /// Buffers in the pool.
        buffers: u32,
    },
    /// Headroom, data room and private area do not fit a buffer.
    #[error(
        "pool {name}: headroom {headroom} + data room {data_room} = {} bytes; a buffer holds 1 to {max}",
        *headroom as u64 + *data_room as u64
    )]
    Room {
        /// The pool's name.
        name: String,
        /// Headroom in bytes.
        headroom: u32,
        /// Data room in bytes.
        data_room: u32,
        /// Largest sum.
        max: u32,
    },
    /// The memory given for the buffers is too small.
    #[error("pool {name}: {have} bytes of memory were given, {need} are needed")]
    Memory {
        /// The pool's name.
        name: String,
        /// Bytes given.
        have: usize,
        /// Bytes needed.
        need: usize,
    },
    /// No memory for the pool's own books.
    #[error("pool {name}: no memory for {bytes} bytes of bookkeeping")]
    NoMemory {
        /// The pool's name.
        name: String,
        /// Bytes wanted.
        bytes: usize,
    },
    /// No memory to be had for the buffers.
    #[error("pool {name}: {source}")]
    Pages {
        /// The pool's name.
        name: String,
        /// What the system said.
        source: linerate_mem::MemError,
    },
}

impl PoolError {
    /// What to change so that it works.
    pub fn hint(&self) -> String {
        match self {
            PoolError::Count { max, .. } => format!("ask for 1 to {max} buffers"),
            PoolError::Cache { max, .. } => format!("set the cache to at most {max}, or add buffers"),
            PoolError::Room { max, .. } => format!("keep headroom and data room together within {max} bytes"),
            PoolError::Memory { need, .. } => format!("give at least {need} bytes"),
            PoolError::NoMemory { .. } => {
                "ask for fewer buffers, or free memory (`free -h` shows what is left)".into()
            }
            PoolError::Pages { source, .. } => source.hint(),
        }
    }
}

/// Why a change to a packet's segments was refused; the packet is as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum SegmentError {
    /// Joining two packets would give more segments than a packet may have.
    #[error("{wanted} segments; a packet has at most {max}")]
    TooManySegments {
        /// Segments the joined packet would have.
        wanted: u32,
        /// Most a packet may have.
        max: u32,
    },
    /// Joining two packets would give a length over 2^32-1.
    #[error("the joined packet would be longer than 4294967295 bytes")]
    TooLong,
    /// The first segment has no room for the whole packet.
    #[error("the first segment has {have} bytes of tailroom, {need} are needed")]
    NoTailroom {
        /// Bytes free behind the data of the first segment.
        have: u32,
        /// Bytes of the other segments.
        need: u32,
    },
    /// The position is not a segment boundary inside the packet.
    #[error("cannot cut before segment {at}: the packet has {segments}")]
    NoSuchSegment {
        /// Segment asked for.
        at: u32,
        /// Segments there are.
        segments: u32,
    },
}
