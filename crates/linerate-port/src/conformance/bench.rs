//! A port on the bench: set up, fed, drained and compared with what went in.

use super::{Harness, Input, Output, Rig};
use crate::{
    Capabilities, Port, PortConfig, PortError, QueueId, RxQueue, RxQueueConfig, TxOffloads, TxQueue,
    TxQueueConfig,
};
use linerate_mbuf::{Burst, Mbuf, Mempool};
use linerate_mem::Clock;
use std::cell::RefCell;

/// Why a case ends early.
#[derive(Debug)]
pub(super) enum Stop {
    /// The driver is wrong.
    Failed(String),
    /// There is nothing to test.
    Inapplicable(String),
}

impl From<PortError> for Stop {
    fn from(e: PortError) -> Self {
        Stop::Failed(format!("{e} ({})", e.hint()))
    }
}

pub(super) fn failed<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Failed(why.into()))
}

pub(super) fn inapplicable<T>(why: &str) -> Result<T, Stop> {
    Err(Stop::Inapplicable(why.into()))
}

/// Ends a case unless the condition holds.
macro_rules! ensure {
    ($cond:expr, $($why:tt)+) => {
        if !$cond {
            return $crate::conformance::bench::failed(format!($($why)+));
        }
    };
}
pub(super) use ensure;

/// Polls without a packet after which nothing more is expected.
const IDLE: usize = 300;
/// The port's first queue.
pub(super) const Q0: QueueId = QueueId(0);

/// What a case works with: the harness, and the pools it made.
pub(super) struct Lab<'h> {
    harness: &'h dyn Harness,
    case: &'static str,
    pools: RefCell<Vec<Mempool>>,
}

impl<'h> Lab<'h> {
    pub(super) fn new(harness: &'h dyn Harness, case: &'static str) -> Self {
        Lab { harness, case, pools: RefCell::default() }
    }

    /// A pool without caches, so that its books are exact at once and an audit sees every buffer.
    pub(super) fn pool(&self, buffers: u64, data_room: u16) -> Mempool {
        let name = format!("{}-{}", self.case, self.pools.borrow().len());
        let pool = Mempool::builder(name, buffers).cache(0).data_room(data_room).build();
        let pool = pool.unwrap_or_else(|e| panic!("no pool for the suite: {e}"));
        self.pools.borrow_mut().push(pool.clone());
        pool
    }

    /// A port as opened.
    pub(super) fn opened(&self, queues: u16, pool: Mempool) -> Result<Bench, Stop> {
        let mut rig = self.harness.open(Clock::real(), queues)?;
        self.pools.borrow_mut().extend(rig.pools());
        let (input, output) = (rig.input(), rig.output());
        let limits = rig.port().info().limits;
        let queues = queues.min(limits.max_rx_queues).min(limits.max_tx_queues);
        let sender = self.pool(4096, 2048);
        let lanes = (0..queues).map(|_| Lane::default()).collect();
        Ok(Bench { rx: Vec::new(), tx: Vec::new(), rig, pool, sender, input, output, lanes, queues, next: 0 })
    }

    /// A port with queues, started, its queues taken.
    pub(super) fn started(&self, queues: u16) -> Result<Bench, Stop> {
        let pool = self.pool(4096, 2048);
        let mut bench = self.opened(queues, pool)?;
        bench.configure(bench.config())?;
        bench.start()?;
        Ok(bench)
    }

    /// Every buffer of every pool is home, once, and in order.
    pub(super) fn all_home(&self, when: &str) -> Result<(), Stop> {
        for pool in &*self.pools.borrow() {
            whole(pool, 0, when)?;
        }
        Ok(())
    }
}

/// A pool's books are right, and `held` of its buffers are out.
pub(super) fn whole(pool: &Mempool, held: u32, when: &str) -> Result<(), Stop> {
    let audit = pool.audit().map_err(|e| Stop::Failed(format!("{when}: {e}")))?;
    let out = audit.counts.held;
    ensure!(out == held, "{when}: {out} buffers of pool {} are out, {held} should be", pool.name());
    Ok(())
}

/// What a queue pair has seen.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) rx_packets: u64,
    pub(super) rx_bytes: u64,
    pub(super) tx_packets: u64,
    pub(super) tx_bytes: u64,
    /// Frames of a finite input received since the start.
    taken: usize,
    /// Sent and not compared yet.
    unseen: Vec<Vec<u8>>,
    /// Collected and not compared yet.
    collected: Vec<Vec<u8>>,
}

impl Lane {
    /// Its receive queue was started: a finite input begins anew.
    pub(super) fn restarted(&mut self) {
        self.taken = 0;
    }

    /// Counts from 0 again.
    pub(super) fn count_anew(&mut self) {
        (self.rx_packets, self.rx_bytes, self.tx_packets, self.tx_bytes) = (0, 0, 0, 0);
    }

    /// Says what was sent without the bench.
    pub(super) fn unseen_are(&mut self, frames: &[Vec<u8>]) {
        self.unseen = frames.to_vec();
    }
}

/// A port under test with its queues, and the books of what it was given.
pub(super) struct Bench {
    // Dropped first: queues go home before the port goes.
    pub(super) rx: Vec<RxQueue>,
    pub(super) tx: Vec<TxQueue>,
    pub(super) rig: Box<dyn Rig>,
    /// Where the receive queues have their buffers from.
    pub(super) pool: Mempool,
    /// Where what is sent comes from.
    pub(super) sender: Mempool,
    pub(super) input: Input,
    pub(super) output: Output,
    pub(super) lanes: Vec<Lane>,
    pub(super) queues: u16,
    next: u32,
}

/// A frame with a number in it, of at least 60 bytes.
pub(super) fn frame(number: u32, len: usize) -> Vec<u8> {
    let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x88, 0xb5];
    f.extend(number.to_be_bytes());
    let fill = (f.len()..len.max(60)).map(|i| (number as usize).wrapping_mul(31).wrapping_add(i) as u8);
    f.extend(fill);
    f
}

/// All bytes of a packet.
pub(super) fn bytes(m: &Mbuf) -> Vec<u8> {
    m.segments().flatten().copied().collect()
}

/// Compares what came with what was expected, and says where they part.
pub(super) fn same(what: &str, got: &[Vec<u8>], want: &[Vec<u8>]) -> Result<(), Stop> {
    if let Some(i) = got.iter().zip(want).position(|(a, b)| a != b) {
        let number = |f: &Vec<u8>| f.get(14..18).map(|n| u32::from_be_bytes([n[0], n[1], n[2], n[3]]));
        let (g, w) = (&got[i], &want[i]);
        return failed(format!(
            "{what}: frame {i} is number {:?} of {} bytes, it should be number {:?} of {} bytes",
            number(g),
            g.len(),
            number(w),
            w.len()
        ));
    }
    ensure!(got.len() == want.len(), "{what}: {} frames came, {} should have", got.len(), want.len());
    Ok(())
}

impl Bench {
    pub(super) fn port(&mut self) -> &mut Port {
        self.rig.port()
    }

    pub(super) fn can(&mut self, what: Capabilities) -> bool {
        self.port().info().capabilities.contains(what)
    }

    /// The plainest configuration.
    pub(super) fn config(&self) -> PortConfig {
        PortConfig { rx_queues: self.queues, tx_queues: self.queues, ..Default::default() }
    }

    /// Configures the port and sets its queues up.
    pub(super) fn configure(&mut self, config: PortConfig) -> Result<(), PortError> {
        let (rx, tx, pool) = (config.rx_queues, config.tx_queues, self.pool.clone());
        self.port().configure(config)?;
        for q in 0..rx {
            self.port().rx_queue_setup(QueueId(q), RxQueueConfig::new(&pool))?;
        }
        for q in 0..tx {
            self.port().tx_queue_setup(QueueId(q), TxQueueConfig::default())?;
        }
        Ok(())
    }

    /// Starts the port and takes all its queues.
    pub(super) fn start(&mut self) -> Result<(), PortError> {
        self.port().start()?;
        for lane in &mut self.lanes {
            lane.taken = 0;
        }
        for q in 0..self.queues {
            let (rx, tx) = (self.port().take_rx(QueueId(q))?, self.port().take_tx(QueueId(q))?);
            self.rx.push(rx);
            self.tx.push(tx);
        }
        Ok(())
    }

    /// Brings the queues home, stops the port and looks at what it had sent; nothing may be out afterwards but
    /// what the case holds itself: `held` of the receive pool.
    pub(super) fn stop(&mut self, held: u32) -> Result<(), Stop> {
        self.rx.clear();
        self.tx.clear();
        self.port().stop()?;
        for q in 0..self.queues {
            self.seen(QueueId(q))?;
        }
        whole(&self.pool.clone(), held, "after stop, receive pool")?;
        whole(&self.sender.clone(), 0, "after stop, send pool")?;
        for pool in self.rig.pools() {
            whole(&pool, 0, "after stop, the rig's pool")?;
        }
        Ok(())
    }

    /// Collects what was sent, and compares.
    fn seen(&mut self, queue: QueueId) -> Result<(), Stop> {
        if !matches!(self.output, Output::Collected | Output::CollectedAtStop) {
            return Ok(());
        }
        let lane = &mut self.lanes[queue.index()];
        let want = std::mem::take(&mut lane.unseen);
        let mut got = std::mem::take(&mut lane.collected);
        got.extend(self.rig.collect(queue));
        for _ in 0..IDLE {
            if got.len() >= want.len() {
                break;
            }
            self.rig.settle();
            got.extend(self.rig.collect(queue));
        }
        same("sent", &got, &want)
    }

    /// Frames with new numbers and these lengths.
    pub(super) fn frames(&mut self, lengths: impl IntoIterator<Item = usize>) -> Vec<Vec<u8>> {
        let numbered = lengths.into_iter().map(|len| {
            self.next += 1;
            frame(self.next, len)
        });
        numbered.collect()
    }

    /// `n` frames of various lengths.
    pub(super) fn some_frames(&mut self, n: usize) -> Vec<Vec<u8>> {
        self.frames((0..n).map(|i| [60, 64, 65, 128, 594, 1514][i % 6]))
    }

    /// Packets with these bytes.
    pub(super) fn packets(&self, frames: &[Vec<u8>]) -> Result<Burst, Stop> {
        let mut burst = Burst::new();
        for f in frames {
            let Some(m) = self.sender.alloc_filled(f) else { return failed("the send pool is empty") };
            ensure!(burst.push(m).is_ok(), "more frames than a burst holds");
        }
        Ok(burst)
    }

    /// One call of transmit, checked: it takes from the front, leaves the rest in order, and says how many.
    pub(super) fn send_once(&mut self, queue: QueueId, burst: &mut Burst) -> Result<usize, Stop> {
        let before: Vec<_> = burst.as_slice().iter().map(bytes).collect();
        let n = self.tx[queue.index()].tx_burst(burst);
        let after: Vec<_> = burst.as_slice().iter().map(bytes).collect();
        let left = after.len();
        ensure!(n + left == before.len(), "transmit took {n} of {} packets and left {left}", before.len());
        same("left by transmit", &after, &before[n..])?;
        let lane = &mut self.lanes[queue.index()];
        lane.tx_packets += n as u64;
        lane.tx_bytes += before[..n].iter().map(|f| f.len() as u64).sum::<u64>();
        lane.unseen.extend(before.into_iter().take(n));
        Ok(n)
    }

    /// Sends all, with as many calls as it takes.
    pub(super) fn send(&mut self, queue: QueueId, burst: &mut Burst) -> Result<(), Stop> {
        let mut idle = 0;
        while !burst.is_empty() {
            idle = if self.send_once(queue, burst)? == 0 { idle + 1 } else { 0 };
            ensure!(idle < IDLE, "{} packets are never taken", burst.len());
            self.tx[queue.index()].end_of_poll();
            if idle > 0 {
                self.make_room(queue);
            }
        }
        Ok(())
    }

    /// Takes what was sent off the wire, so that more can be sent.
    pub(super) fn make_room(&mut self, queue: QueueId) {
        self.rig.settle();
        if self.output == Output::Collected {
            let more = self.rig.collect(queue);
            self.lanes[queue.index()].collected.extend(more);
        }
    }

    /// One call of receive, checked: it appends, no more than asked for, and says how many.
    pub(super) fn poll(&mut self, queue: QueueId, burst: &mut Burst, max: usize) -> Result<usize, Stop> {
        let before = burst.len();
        let n = self.rx[queue.index()].rx_burst(burst, max);
        let grown = burst.len().wrapping_sub(before);
        ensure!(n == grown, "receive says {n} packets and appended {grown}");
        ensure!(n <= max, "receive gave {n} packets, {max} were asked for");
        let lane = &mut self.lanes[queue.index()];
        lane.rx_packets += n as u64;
        lane.rx_bytes += burst.as_slice()[before..].iter().map(|m| u64::from(m.len())).sum::<u64>();
        lane.taken += n;
        Ok(n)
    }

    /// Receives `want` frames, `max` at a time, or as many as come.
    pub(super) fn receive(&mut self, queue: QueueId, want: usize, max: usize) -> Result<Vec<Vec<u8>>, Stop> {
        let (mut got, mut idle) = (Vec::new(), 0);
        let mut burst = Burst::new();
        while got.len() < want && idle < IDLE {
            match self.poll(queue, &mut burst, max.min(want - got.len()))? {
                0 => {
                    idle += 1;
                    self.rig.settle();
                }
                _ => idle = 0,
            }
            got.extend(burst.as_slice().iter().map(bytes));
            burst.free_all();
        }
        Ok(got)
    }

    /// Makes frames wait to be received; those that will come, or `None` if nobody knows them.
    pub(super) fn offer(&mut self, queue: QueueId, n: usize) -> Result<Option<Vec<Vec<u8>>>, Stop> {
        let mut frames = self.some_frames(n);
        match self.input {
            Input::Loopback => {
                let mut burst = self.packets(&frames)?;
                let sent = self.send_once(queue, &mut burst)?;
                frames.truncate(sent);
                self.lanes[queue.index()].unseen.clear();
                Ok(Some(frames))
            }
            Input::Injected => {
                let took = self.rig.inject(queue, &frames);
                frames.truncate(took);
                Ok(Some(frames))
            }
            Input::Nothing => Ok(Some(Vec::new())),
            Input::Endless | Input::Finite(_) => Ok(None),
        }
    }

    /// How many of `n` frames can come now from an input whose frames nobody knows.
    pub(super) fn coming(&self, queue: QueueId, n: usize) -> usize {
        match self.input {
            Input::Finite(all) => n.min(all.saturating_sub(self.lanes[queue.index()].taken)),
            Input::Nothing => 0,
            _ => n,
        }
    }

    /// Receives what was offered and compares.
    pub(super) fn take_offered(
        &mut self,
        queue: QueueId,
        offered: Option<Vec<Vec<u8>>>,
        n: usize,
        max: usize,
    ) -> Result<(), Stop> {
        match offered {
            Some(want) => {
                let got = self.receive(queue, want.len(), max)?;
                same("received", &got, &want)
            }
            None => {
                let want = self.coming(queue, n);
                let got = self.receive(queue, want, max)?.len();
                ensure!(got == want, "{got} frames came, {want} should have");
                Ok(())
            }
        }
    }

    /// Traffic in both directions, `n` frames each, compared as far as anybody can see them.
    pub(super) fn flow(&mut self, queue: QueueId, n: usize) -> Result<(), Stop> {
        let offered = self.offer(queue, n)?;
        ensure!(
            offered.as_ref().is_none_or(|o| self.input == Input::Nothing || !o.is_empty()),
            "nothing goes in"
        );
        self.take_offered(queue, offered, n, 32)?;
        if self.output != Output::Loopback {
            let frames = self.some_frames(n);
            let mut burst = self.packets(&frames)?;
            self.send(queue, &mut burst)?;
            if self.output == Output::Collected {
                self.seen(queue)?;
            }
        }
        Ok(())
    }

    /// Sends packets that the case made itself, and compares what comes out with `want`.
    pub(super) fn pass(&mut self, queue: QueueId, burst: &mut Burst, want: &[Vec<u8>]) -> Result<(), Stop> {
        if self.output != Output::Loopback {
            self.send(queue, burst)?;
        }
        match self.output {
            Output::Loopback => {
                // Its ring may be smaller than the burst.
                let (mut got, mut idle) = (Vec::new(), 0);
                while got.len() < want.len() && idle < IDLE {
                    let sent = self.send_once(queue, burst)?;
                    let came = self.receive(queue, want.len() - got.len(), 32)?;
                    idle = if sent + came.len() == 0 { idle + 1 } else { 0 };
                    got.extend(came);
                }
                self.lanes[queue.index()].unseen.clear();
                same("received", &got, want)
            }
            Output::Collected => self.seen(queue),
            Output::Dropped | Output::CollectedAtStop => Ok(()),
        }
    }

    /// A configuration with everything on that lets packets of several segments through.
    pub(super) fn segments_config(&mut self) -> PortConfig {
        let mut config = self.config();
        let info = self.port().info();
        config.tx_offloads = info.tx_offloads & TxOffloads::MULTI_SEGS;
        config.rx_offloads = info.rx_offloads & crate::RxOffloads::SCATTER;
        config
    }
}
