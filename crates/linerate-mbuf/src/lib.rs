//! Packet buffers and the pools they live in.
//!
//! A [`Mempool`] owns a fixed number of buffers in one piece of memory. [`Mempool::alloc`] hands out an
//! [`Mbuf`]: unique, writable, freed by dropping it. [`Mbuf::share`] turns it into a [`SharedMbuf`]: counted
//! and read-only, which [`SharedMbuf::attach`] can give further headers of their own. A [`Burst`] carries up
//! to [`BURST_MAX`] of either kind between ports; what is left in it is freed in bulk when it is dropped.
//!
//! Who owns a buffer is a matter of types, so that a double free, a use after send or a write to a shared
//! buffer does not compile:
//!
//! ```compile_fail
//! # fn f(m: linerate_mbuf::Mbuf) {
//! drop(m);
//! drop(m); // a second free: use of moved value
//! # }
//! ```
//!
//! # One line a packet
//!
//! All that receive, forward, transmit and free of a one-segment packet touch is in the first 64 bytes of the
//! [header](Header); the second line is for chains, attached and external buffers, timestamps and dynamic
//! fields. Freeing reads one byte of flags and the pool's address, and writes nothing.

mod audit;
mod backend;
mod builder;
mod burst;
mod cache;
mod chain;
mod copy;
mod count;
mod counts;
mod dynfield;
mod error;
mod ext;
mod free;
mod header;
mod mbuf;
mod offload;
mod pool;
mod raw;
mod sanity;
mod segments;
mod shared;

pub use audit::{Audit, AuditError};
pub use backend::BackendKind;
pub use builder::{DEFAULT_DATA_ROOM, DEFAULT_HEADROOM, MempoolBuilder};
pub use burst::{BURST_MAX, Burst, Drain, Packet};
pub use chain::MAX_SEGMENTS;
pub use counts::{Holder, PoolCounts};
pub use dynfield::{DynField, DynFieldError, DynFlag, DynRegistry};
pub use error::{PoolError, SegmentError};
pub use ext::{ExtBuf, ExtSlice, FreeExt};
pub use header::{HEADER_BYTES, Header, PORT_NONE};
pub use mbuf::Mbuf;
pub use offload::{OlFlags, PacketType, TxOffload, TxOffloadError};
pub use pool::Mempool;
pub use raw::{RawMbuf, RxTemplate};
pub use sanity::SanityError;
pub use segments::Segments;
pub use shared::SharedMbuf;
