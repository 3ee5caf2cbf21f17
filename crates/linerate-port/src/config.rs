//! How a port and its queues are wanted.

use crate::{RssConfig, RxOffloads, TxOffloads};
use linerate_mbuf::Mempool;

/// Bytes of a frame that the MTU does not count: the Ethernet header and two VLAN tags. Frames are counted
/// without their check sequence.
pub const ETHER_OVERHEAD: u32 = 14 + 2 * 4;

/// How a port is wanted.
#[derive(Clone, Debug)]
pub struct PortConfig {
    /// Receive queues.
    pub rx_queues: u16,
    /// Transmit queues.
    pub tx_queues: u16,
    /// MTU in bytes.
    pub mtu: u32,
    /// Receive offloads for all queues.
    pub rx_offloads: RxOffloads,
    /// Transmit offloads for all queues.
    pub tx_offloads: TxOffloads,
    /// Receive-side scaling; `None` = all to queue 0 (or as the device likes).
    pub rss: Option<RssConfig>,
}

impl Default for PortConfig {
    fn default() -> Self {
        PortConfig {
            rx_queues: 1,
            tx_queues: 1,
            mtu: 1500,
            rx_offloads: RxOffloads::empty(),
            tx_offloads: TxOffloads::empty(),
            rss: None,
        }
    }
}

/// How a receive queue is wanted.
#[derive(Clone, Debug)]
pub struct RxQueueConfig {
    /// Descriptors; 0 = the port's default. Rounded up to what the port can do, within its limits.
    pub descriptors: u16,
    /// Where its buffers come from.
    pub pool: Mempool,
    /// Leave it stopped when the port starts.
    pub deferred_start: bool,
}

impl RxQueueConfig {
    /// A queue with the port's default size.
    pub fn new(pool: &Mempool) -> Self {
        RxQueueConfig { descriptors: 0, pool: pool.clone(), deferred_start: false }
    }
}

/// How a transmit queue is wanted.
#[derive(Clone, Debug, Default)]
pub struct TxQueueConfig {
    /// Descriptors; 0 = the port's default. Rounded up to what the port can do, within its limits.
    pub descriptors: u16,
    /// Leave it stopped when the port starts.
    pub deferred_start: bool,
}
