//! From a description to queues that can be polled, in one call.

use crate::{Error, open_port};
use linerate_mbuf::Mempool;
use linerate_port::{
    ETHER_OVERHEAD, Limits, Port, PortConfig, PortStats, QueueId, RssConfig, RxOffloads, RxQueue,
    RxQueueConfig, TxOffloads, TxQueue, TxQueueConfig,
};

/// What a core's cache of a pool keeps, and what a loop has in its hands.
const CACHE: u32 = 256;
const IN_HAND: u64 = 2 * 64;
/// Least data room of a buffer: a frame of the usual MTU, and what drivers like as a size.
const LEAST_ROOM: u32 = 2048;

/// A port as it is wanted: opens it, configures it, gives it queues with a pool that suffices, starts it.
///
/// ```
/// let mut port = linerate::PortBuilder::new("null:size=64").queues(2).start()?;
/// let mut burst = linerate::mbuf::Burst::new();
/// assert_eq!(port.rx[1].rx_burst(&mut burst, 32), 32);
/// assert_eq!(port.tx[0].tx_burst(&mut burst), 32);
/// assert_eq!(port.stop()?.tx_packets, 32);
/// # Ok::<(), linerate::Error>(())
/// ```
#[derive(Clone, Debug)]
#[must_use = "nothing is opened before start"]
pub struct PortBuilder {
    spec: String,
    config: PortConfig,
    descriptors: (u16, u16),
    spare: u32,
    pool: Option<Mempool>,
}

impl PortBuilder {
    /// A port by its description, such as `xsk:eth0` or `pcap:rx_pcap=in.pcap`, with one queue each way, the port's
    /// own number of descriptors and an MTU of 1500. Nothing is read before [`start`](Self::start).
    pub fn new(spec: impl Into<String>) -> Self {
        PortBuilder {
            spec: spec.into(),
            config: PortConfig::default(),
            descriptors: (0, 0),
            spare: 0,
            pool: None,
        }
    }

    /// So many queues each way.
    pub fn queues(self, n: u16) -> Self {
        self.rx_queues(n).tx_queues(n)
    }

    /// So many receive queues; 0 = only sends.
    pub fn rx_queues(mut self, n: u16) -> Self {
        self.config.rx_queues = n;
        self
    }

    /// So many transmit queues; 0 = only receives.
    pub fn tx_queues(mut self, n: u16) -> Self {
        self.config.tx_queues = n;
        self
    }

    /// Descriptors of each receive and transmit queue; 0 = the port's default. Rounded to what the port can do.
    pub fn descriptors(mut self, rx: u16, tx: u16) -> Self {
        self.descriptors = (rx, tx);
        self
    }

    /// MTU in bytes. Buffers are made large enough for it.
    pub fn mtu(mut self, bytes: u32) -> Self {
        self.config.mtu = bytes;
        self
    }

    /// Offloads of all queues. A port that lacks one refuses.
    pub fn offloads(mut self, rx: RxOffloads, tx: TxOffloads) -> Self {
        (self.config.rx_offloads, self.config.tx_offloads) = (rx, tx);
        self
    }

    /// How packets are spread over the receive queues.
    pub fn rss(mut self, rss: RssConfig) -> Self {
        self.config.rss = Some(rss);
        self
    }

    /// Buffers beyond what queues, caches and bursts need: for a program that keeps packets.
    pub fn spare_buffers(mut self, n: u32) -> Self {
        self.spare = n;
        self
    }

    /// Receives into this pool instead of one of its own.
    pub fn pool(mut self, pool: &Mempool) -> Self {
        self.pool = Some(pool.clone());
        self
    }

    /// Opens, configures and starts it.
    ///
    /// # Errors
    ///
    /// The description is wrong, the driver refuses something, or there is no memory. Nothing is left open.
    pub fn start(self) -> Result<StartedPort, Error> {
        let port = Opened::new(self)?;
        let pool = port.wish.pool.clone().map_or_else(|| pool_for(std::slice::from_ref(&port)), Ok)?;
        port.start(&pool)?.take()
    }

    /// Buffers that a port with these limits can hold.
    fn need(&self, limits: &Limits) -> u64 {
        let rounded = |wanted: u16, default: u16, (min, max, align): (u16, u16, u16)| {
            let wanted = u64::from(if wanted == 0 { default } else { wanted });
            wanted.next_multiple_of(align.max(1).into()).clamp(min.into(), max.into())
        };
        let rx = rounded(self.descriptors.0, limits.default_descriptors.0, limits.rx_descriptors);
        let tx = rounded(self.descriptors.1, limits.default_descriptors.1, limits.tx_descriptors);
        let (rxq, txq) = (u64::from(self.config.rx_queues), u64::from(self.config.tx_queues));
        // At most a thread for each queue, and each has a cache.
        rx * rxq + tx * txq + rxq.max(txq) * (u64::from(CACHE) + IN_HAND) + u64::from(self.spare)
    }

    /// Bytes of data that its buffers need room for.
    fn room(&self) -> u16 {
        // A MTU that no buffer has room for is refused by the port, with its limits.
        (self.config.mtu.saturating_add(ETHER_OVERHEAD)).clamp(LEAST_ROOM, u16::MAX.into()) as u16
    }
}

/// Starts several ports with one pool between them, so that a packet can be received by one and sent by any other
/// without any port running out of buffers. Ports that name each other as peers find each other.
///
/// ```
/// use linerate::prelude::*;
/// let mut ports = start_ports([PortBuilder::new("null"), PortBuilder::new("ring:out")])?;
/// let mut burst = Burst::new();
/// ports[0].rx[0].rx_burst(&mut burst, 32);
/// assert_eq!(ports[1].tx[0].tx_burst(&mut burst), 32);
/// # Ok::<(), linerate::Error>(())
/// ```
///
/// # Errors
///
/// The first port that is refused; none is left open.
pub fn start_ports(wishes: impl IntoIterator<Item = PortBuilder>) -> Result<Vec<StartedPort>, Error> {
    let opened = wishes.into_iter().map(Opened::new).collect::<Result<Vec<_>, _>>()?;
    let own: Vec<_> = opened.iter().map(|o| o.wish.pool.clone()).collect();
    let shared = if own.iter().any(Option::is_none) { Some(pool_for(&opened)?) } else { None };
    let mut started = Vec::new();
    for (port, own) in opened.into_iter().zip(own) {
        if let Some(pool) = own.as_ref().or(shared.as_ref()) {
            started.push(port.start(pool)?);
        }
    }
    started.into_iter().map(Running::take).collect()
}

/// A pool that suffices for all of these ports together.
fn pool_for(ports: &[Opened]) -> Result<Mempool, Error> {
    let need: u64 = ports.iter().map(|p| p.wish.need(&p.port.info().limits)).sum();
    let room = ports.iter().map(|p| p.wish.room()).max().unwrap_or(LEAST_ROOM as u16);
    let name = ports.first().map_or_else(|| "ports".into(), |p| p.port.info().name.clone());
    // One more cache: of the thread that starts and stops the ports.
    let mut pool = Mempool::builder(name, need + u64::from(CACHE)).cache(CACHE).data_room(room);
    if let Some(node) = ports.first().and_then(|p| p.port.info().node) {
        pool = pool.node(linerate_mem::NumaNode(node.into()));
    }
    Ok(pool.build()?)
}

/// Opened and configured, without queues.
struct Opened {
    wish: PortBuilder,
    port: Port,
}

impl Opened {
    fn new(wish: PortBuilder) -> Result<Self, Error> {
        let mut port = open_port(&wish.spec)?;
        port.configure(wish.config.clone())?;
        Ok(Opened { wish, port })
    }

    fn start(mut self, pool: &Mempool) -> Result<Running, Error> {
        let (rx, tx) = self.wish.descriptors;
        for q in 0..self.wish.config.rx_queues {
            let config = RxQueueConfig { descriptors: rx, ..RxQueueConfig::new(pool) };
            self.port.rx_queue_setup(QueueId(q), config)?;
        }
        for q in 0..self.wish.config.tx_queues {
            self.port.tx_queue_setup(QueueId(q), TxQueueConfig { descriptors: tx, ..Default::default() })?;
        }
        self.port.start()?;
        Ok(Running { port: self.port, pool: pool.clone() })
    }
}

/// Started, with its queues at home.
struct Running {
    port: Port,
    pool: Mempool,
}

impl Running {
    fn take(self) -> Result<StartedPort, Error> {
        let Running { mut port, pool } = self;
        let (rxq, txq) = (port.config().rx_queues, port.config().tx_queues);
        let rx = (0..rxq).map(|q| port.take_rx(QueueId(q))).collect::<Result<_, _>>()?;
        let tx = (0..txq).map(|q| port.take_tx(QueueId(q))).collect::<Result<_, _>>()?;
        Ok(StartedPort { rx, tx, port, pool })
    }
}

/// A port that runs, with its queues in hand. Dropping it stops and closes the port.
#[derive(Debug)]
// The order matters when it is dropped: the queues go home, then the port is stopped.
pub struct StartedPort {
    /// Its receive queues, in order.
    pub rx: Vec<RxQueue>,
    /// Its transmit queues, in order.
    pub tx: Vec<TxQueue>,
    /// Its control side.
    pub port: Port,
    /// Where its receive queues have their buffers from.
    pub pool: Mempool,
}

impl StartedPort {
    /// Takes it apart, to give each queue to a thread of its own. The port must outlive none of them: it is stopped
    /// once they are dropped.
    ///
    /// ```
    /// let (mut port, mut rx, tx) = linerate::PortBuilder::new("null").queues(2).start()?.split();
    /// let one = rx.remove(1);
    /// let received = std::thread::spawn(move || {
    ///     let (mut one, mut burst) = (one, linerate::mbuf::Burst::new());
    ///     one.rx_burst(&mut burst, 8)
    /// });
    /// assert_eq!(received.join().unwrap(), 8);
    /// drop((rx, tx));
    /// port.stop()?;
    /// # Ok::<(), linerate::Error>(())
    /// ```
    pub fn split(self) -> (Port, Vec<RxQueue>, Vec<TxQueue>) {
        (self.port, self.rx, self.tx)
    }

    /// Whether the input of all its receive queues has ended and was delivered: captures that are read to their end.
    pub fn is_exhausted(&mut self) -> bool {
        self.rx.iter_mut().all(RxQueue::is_exhausted)
    }

    /// Stops and closes it; what it counted.
    ///
    /// # Errors
    ///
    /// The port refuses, for instance since its device is gone.
    pub fn stop(self) -> Result<PortStats, Error> {
        let StartedPort { rx, tx, mut port, pool: _ } = self;
        drop((rx, tx));
        port.stop()?;
        let stats = port.stats();
        port.close()?;
        Ok(stats)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_mbuf::Burst;

    #[test]
    fn the_pool_suffices_for_full_queues_and_no_more_than_megabytes() {
        let wish = PortBuilder::new("null").queues(2).descriptors(100, 0).spare_buffers(7);
        let limits = Limits { rx_descriptors: (64, 4096, 32), ..Limits::SOFTWARE };
        assert_eq!(wish.need(&limits), 2 * 128 + 2 * 512 + 2 * 384 + 7);
        // Bug case 37: nothing wraps at the most descriptors that can be asked for.
        assert_eq!(PortBuilder::new("null").descriptors(65535, 1).need(&limits), 4096 + 1 + 384);
        assert_eq!(
            (wish.room(), wish.clone().mtu(9000).room(), wish.mtu(u32::MAX).room()),
            (2048, 9022, 65535)
        );
    }

    #[test]
    fn buffers_come_back_and_each_port_is_closed() {
        let mut ports = start_ports([PortBuilder::new("null"), PortBuilder::new("ring:builder-a")]).unwrap();
        assert!(ports[0].pool.same_pool(&ports[1].pool));
        let (pool, mut burst) = (ports[0].pool.clone(), Burst::new());
        // Far more than the ring port holds: what it refuses stays ours.
        for _ in 0..100 {
            assert_eq!(ports[0].rx[0].rx_burst(&mut burst, 32), 32);
            ports[1].tx[0].tx_burst(&mut burst);
            burst.free_all();
        }
        let stats: Vec<_> = ports.into_iter().map(|p| p.stop().unwrap()).collect();
        assert_eq!(stats[0].rx_packets, 3200);
        assert!(stats[1].tx_packets >= 512, "{stats:?}");
        assert_eq!(pool.counts().held, 0);
        // Its name is free again.
        PortBuilder::new("ring:builder-a").start().unwrap();
    }

    #[test]
    fn what_is_refused_is_told_by_the_port_and_leaves_nothing_open() {
        for (wish, word) in [
            (PortBuilder::new("nul"), "did you mean `null`"),
            (PortBuilder::new("null").queues(0), ""),
            (PortBuilder::new("null").mtu(0), ""),
            (PortBuilder::new("null").offloads(RxOffloads::TIMESTAMP, TxOffloads::empty()), ""),
        ] {
            let e = start_ports([PortBuilder::new("ring:builder-b"), wish]).unwrap_err();
            assert!(!e.to_string().is_empty() && !e.hint().is_empty() && e.hint().contains(word), "{e}");
            PortBuilder::new("ring:builder-b").start().unwrap();
        }
    }
}
