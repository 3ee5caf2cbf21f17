//! The far end of a ring port: what a tester in the same process holds.

use super::{
    RingPortError,
    line::{Line, receive, send},
    registry,
};
use linerate_mbuf::{Burst, Mempool};
use linerate_ring::{Consumer, Producer};
use std::sync::Arc;

/// Takes the far end of a queue of the port `ring:NAME,far=1` of this process: what is sent into the one is
/// received by the port, and what the port sends comes out of the other.
///
/// It may be taken before the port is configured or started, and outlives the port; dropping it brings it back.
///
/// # Errors
///
/// [`RingPortError::NotOpen`], [`NoFarEnd`](RingPortError::NoFarEnd), [`NoQueue`](RingPortError::NoQueue) or
/// [`EndTaken`](RingPortError::EndTaken).
///
/// ```
/// use linerate_drivers::{open, ring::far_end};
/// use linerate_mbuf::{Burst, Mempool};
/// use linerate_mem::Clock;
/// use linerate_port::{PortConfig, PortId, QueueId, RxQueueConfig, TxQueueConfig};
///
/// let pool = Mempool::builder("doc", 64).build()?;
/// let mut port = open(&"ring:doc,far=1".parse()?, PortId(0), Clock::real())?;
/// let (mut to_port, mut from_port) = far_end("doc", 0)?;
/// port.configure(PortConfig::default())?;
/// port.rx_queue_setup(QueueId(0), RxQueueConfig::new(&pool))?;
/// port.tx_queue_setup(QueueId(0), TxQueueConfig::default())?;
/// port.start()?;
/// let (mut rx, mut tx) = (port.take_rx(QueueId(0))?, port.take_tx(QueueId(0))?);
/// let mut burst = Burst::new();
/// assert!(pool.alloc_bulk(&mut burst, 3));
/// assert_eq!(to_port.send(&mut burst), 3);
/// assert_eq!(rx.rx_burst(&mut burst, 32), 3);
/// assert_eq!(tx.tx_burst(&mut burst), 3);
/// assert_eq!(from_port.receive(&mut burst, 32), 3);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn far_end(name: &str, queue: u16) -> Result<(FarSender, FarReceiver), RingPortError> {
    let (to_port, from_port) = registry::far_lines(name)?;
    // If the second end is taken, the first one goes home by its drop.
    let sender = FarSender { ring: Some(to_port.take_sender(queue)?), line: to_port, queue };
    let receiver = FarReceiver { ring: Some(from_port.take_receiver(queue)?), line: from_port, queue };
    Ok((sender, receiver))
}

/// Sends to a ring port's receive queue. One owner, who may be on another thread than the port.
#[derive(Debug)]
pub struct FarSender {
    // There until drop; `Option` so that drop can move it out.
    ring: Option<Producer<linerate_mbuf::Mbuf>>,
    line: Arc<Line>,
    queue: u16,
}

impl FarSender {
    /// Sends packets from the front of the burst, as many as fit, and says how many; the others stay in it.
    #[inline]
    pub fn send(&mut self, burst: &mut Burst) -> usize {
        let n = burst.len();
        self.ring.as_mut().map_or(0, |ring| send::<Self>(ring, burst, n))
    }

    /// How many more fit at least: only this end fills it.
    #[inline]
    pub fn free(&self) -> usize {
        self.ring.as_ref().map_or(0, Producer::free)
    }

    /// How many wait for the port.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.ring.as_ref().map_or(0, Producer::len)
    }
}

impl Drop for FarSender {
    fn drop(&mut self) {
        if let Some(ring) = self.ring.take() {
            self.line.put_sender(self.queue, ring);
        }
    }
}

/// Receives what a ring port's transmit queue sends. Dropping it frees what waits there.
#[derive(Debug)]
pub struct FarReceiver {
    // There until drop; `Option` so that drop can move it out.
    ring: Option<Consumer<linerate_mbuf::Mbuf>>,
    line: Arc<Line>,
    queue: u16,
}

impl FarReceiver {
    /// Appends up to `max` packets that the port sent, and says how many.
    #[inline]
    pub fn receive(&mut self, burst: &mut Burst, max: usize) -> usize {
        self.ring.as_mut().map_or(0, |ring| receive::<Self>(ring, burst, max))
    }

    /// How many wait at least: only this end takes them out.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.ring.as_ref().map_or(0, Consumer::len)
    }

    /// Gives the pool from which copies are made of shared packets that the port sends.
    pub fn set_pool(&mut self, pool: &Mempool) {
        self.line.set_pool(self.queue, Some(pool.clone()));
    }
}

impl Drop for FarReceiver {
    fn drop(&mut self) {
        if let Some(ring) = self.ring.take() {
            self.line.put_receiver(self.queue, ring);
        }
    }
}
