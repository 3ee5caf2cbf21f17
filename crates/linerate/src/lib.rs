//! Linerate: a userspace packet data plane.
//!
//! The façade: what a program needs to open ports and move packets, from one crate. The parts are crates of
//! their own, re-exported here by their room's name.
//!
//! ```
//! use linerate::prelude::*;
//!
//! let pool = Mempool::builder("demo", 2048).build()?;
//! let mut port = linerate::open_port("null:size=64")?;
//! port.configure(PortConfig::default())?;
//! port.rx_queue_setup(QueueId(0), RxQueueConfig::new(&pool))?;
//! port.tx_queue_setup(QueueId(0), TxQueueConfig::default())?;
//! port.start()?;
//! let (mut rx, mut tx) = (port.take_rx(QueueId(0))?, port.take_tx(QueueId(0))?);
//! let mut burst = Burst::new();
//! assert_eq!(rx.rx_burst(&mut burst, 32), 32);
//! assert_eq!(tx.tx_burst(&mut burst), 32);
//! drop((rx, tx));
//! port.stop()?;
//! assert_eq!(port.stats().tx_packets, 32);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub use linerate_drivers as drivers;
pub use linerate_mbuf as mbuf;
pub use linerate_mem as mem;
pub use linerate_net as net;
pub use linerate_port as port;
pub use linerate_ring as ring;

use linerate_port::{Port, PortError, PortId, PortSpec};
use std::sync::atomic::{AtomicU16, Ordering};

/// Opens a port from its description, by the real clock, with the next free number.
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
}
