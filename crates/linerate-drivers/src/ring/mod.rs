//! The ring port: what it sends it receives, or its peer does, or a tester in the same process.
//!
//! Packets move as pointers through lock-free rings, a queue each and a direction; nobody looks into them, so
//! they keep what they carry (also the port they were received by first). As DPDK's `net_ring`, with more ways
//! to be connected:
//!
//! | description | what is sent |
//! |---|---|
//! | `ring:r0` | is received by the same port, queue by queue |
//! | `ring:a,peer=b` with `ring:b,peer=a` | is received by the other port, queue by queue |
//! | `ring:r0,far=1` | goes to whoever holds the [`far_end`] of that queue, who can also send |
//!
//! A packet stays where it was sent to until it is received; stopping the receiving queue frees what waits
//! there. Bytes are counted only when asked for (`bytes=1`): counting them would touch every packet.

mod error;
mod far;
mod line;
mod port;
mod queue;
mod registry;
#[cfg(test)]
mod tests;

pub use error::RingPortError;
pub use far::{FarReceiver, FarSender, far_end};
pub use port::ENTRY;
