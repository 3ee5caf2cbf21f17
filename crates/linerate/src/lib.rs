//! Linerate: a userspace packet data plane.
//!
//! The façade: what a program needs to open ports and move packets, from one crate. The parts are crates of
//! their own, re-exported here by their room's name.
//!
//! ```
//! use linerate::prelude::*;
//!
//! let mut port = PortBuilder::new("null:size=64").start()?;
//! let mut burst = Burst::new();
//! for _ in 0..1000 {
//!     port.rx[0].rx_burst(&mut burst, 32);
//!     port.tx[0].tx_burst(&mut burst); // what is not taken stays in the burst
//! }
//! assert_eq!(port.stop()?.tx_packets, 32_000);
//! # Ok::<(), linerate::Error>(())
//! ```
//!
//! [`PortBuilder`] does what most programs want; a [`Port`] from [`open_port`] can be configured step by step. A
//! driver's options are keys of its description or fields of its [`DriverConfig`].

mod builder;
mod error;
mod stop;
mod typed;

pub use builder::{PortBuilder, StartedPort, start_ports};
pub use error::Error;
pub use linerate_drivers as drivers;
pub use linerate_mbuf as mbuf;
pub use linerate_mem as mem;
pub use linerate_net as net;
pub use linerate_port as port;
pub use linerate_ring as ring;
pub use stop::{StopSignal, run};
pub use typed::{
    DriverConfig, NullConfig, PacketConfig, PcapConfig, RingConfig, TapConfig, XskConfig, XskMode,
};

use linerate_port::{Port, PortError, PortId, PortSpec};
use std::sync::atomic::{AtomicU16, Ordering};

/// Opens a port from its description, by the real clock, with the next free number.
///
/// ```
/// let port = linerate::open_port("null:size=128")?;
/// assert_eq!(port.info().driver, "null");
/// # Ok::<(), linerate::port::PortError>(())
/// ```
///
/// # Errors
///
/// The description is wrong (the error points at the place), or the driver refuses.
pub fn open_port(spec: &str) -> Result<Port, PortError> {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    let spec: PortSpec = spec.parse()?;
    drivers::open(&spec, PortId(NEXT.fetch_add(1, Ordering::Relaxed)), mem::Clock::real())
}

/// What a forwarding program uses.
pub mod prelude {
    pub use crate::mbuf::{Burst, Mbuf, Mempool, OlFlags, SharedMbuf};
    pub use crate::port::{
        Port, PortConfig, PortError, QueueId, RxQueue, RxQueueConfig, TxQueue, TxQueueConfig,
    };
    pub use crate::{DriverConfig, PortBuilder, StartedPort, StopSignal, start_ports};
}
