//! A small correct driver over a device in memory, and the ways in which it can be broken on purpose.
//!
//! The device has descriptor rings as a NIC has: buffers are posted to it, frames come into the oldest posted
//! ones, and what is sent stays posted until the device has taken it, a few frames a step.

use super::{Harness, Input, Output, Rig};
use crate::{
    Capabilities, DriverContext, EventSink, FlowId, FlowRule, Limits, LinkCause, MacAddress, Port,
    PortConfig, PortDriver, PortError, PortId, PortInfo, QueueId, RssConfig, RssTypes, RxContext, RxDriver,
    RxOffloads, RxProgram, SoftStage, TxContext, TxDriver, TxOffloads,
    stats::{SharedRx, SharedTx},
};
use linerate_mbuf::{Burst, Mbuf, Mempool, RawMbuf, SharedMbuf};
use linerate_mem::Clock;
use std::{
    collections::VecDeque,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// What is broken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Bug {
    /// Nothing.
    None,
    /// A stop forgets one posted receive buffer.
    LeaksOnStop,
    /// A sent buffer is freed twice.
    FreesTwice,
    /// Receive gives one packet more than was asked for.
    ExceedsMax,
    /// Receive drops the last packet of a long burst.
    DropsTail,
    /// The receive ring is refilled only after a packet was received (bug case 29).
    RefillsAfterReceive,
    /// Bytes are those of the first segment (bug case 16).
    CountsFirstSegment,
    /// A request for fewer than four packets gets none (bug case 31).
    StallsSmall,
    /// Sent buffers are freed only in groups of 32 (bug case 31).
    FreesInGroups,
    /// Transmit is dead after a restart (bug case 35).
    DeadAfterRestart,
    /// Transmit says that it took all, and frees what did not fit.
    SaysAllTaken,
    /// Transmit empties the burst and says that it took less.
    EmptiesBurst,
    /// Two packets are exchanged.
    Reorders,
    /// A frame longer than the buffer is cut and delivered (bug case 26).
    CutsLong,
    /// The link goes down and up again at each start.
    FlapsLink,
    /// A program is taken and never asked.
    IgnoresProgram,
    /// Shared packets are kept after they were sent, until the port closes.
    KeepsShared,
    /// Frames for which there is no descriptor are lost without being counted.
    MissesSilently,
    /// Descriptors that the driver was given are forgotten: it posts one buffer.
    OneDescriptor,
    /// What was received before a stop is received after the next start.
    KeepsWaiting,
    /// All frames come in on queue 0.
    OneQueue,
}

/// What the driver and the tests see of the device.
#[derive(Debug, Default)]
pub(crate) struct World {
    inbound: Vec<VecDeque<Vec<u8>>>,
    outbound: Vec<VecDeque<Vec<u8>>>,
    /// The calls of the driver, by name.
    pub(crate) calls: Vec<&'static str>,
    /// The call that fails next.
    pub(crate) fail: Option<&'static str>,
    /// Descriptors of the queues that were set up last: receive, transmit.
    pub(crate) descriptors: (u16, u16),
    /// The device is gone.
    pub(crate) gone: bool,
}

pub(crate) type SharedWorld = Arc<Mutex<World>>;

fn lock(w: &SharedWorld) -> MutexGuard<'_, World> {
    w.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Notes the call, and fails it if the test wants that.
fn called(w: &SharedWorld, port: PortId, name: &'static str) -> Result<(), PortError> {
    let mut w = lock(w);
    w.calls.push(name);
    if w.fail == Some(name) {
        w.fail = None;
        let source = std::io::Error::other("as the test wants");
        return Err(PortError::System { port, what: name.into(), source, hint: "none".into() });
    }
    Ok(())
}

pub(crate) struct Script {
    context: DriverContext,
    bug: Bug,
    world: SharedWorld,
}

impl Script {
    pub(crate) fn open(bug: Bug, world: SharedWorld, clock: Clock) -> Result<Port, PortError> {
        Port::open(PortId(2), clock, |context| Ok(Box::new(Script { context, bug, world })))
    }

    fn called(&self, name: &'static str) -> Result<(), PortError> {
        called(&self.world, self.context.port, name)
    }
}

impl PortDriver for Script {
    fn info(&self) -> PortInfo {
        PortInfo {
            name: "script".into(),
            driver: "script",
            mac: MacAddress::peer(2),
            node: None,
            capabilities: Capabilities::all() - Capabilities::LOOPBACK - Capabilities::FINITE_INPUT,
            rx_offloads: RxOffloads::SCATTER,
            tx_offloads: TxOffloads::MULTI_SEGS,
            rss_types: RssTypes::IPV4 | RssTypes::IPV4_UDP,
            limits: Limits {
                max_rx_queues: 4,
                max_tx_queues: 4,
                rx_descriptors: (64, 4096, 32),
                tx_descriptors: (64, 4096, 32),
                max_mtu: 9000,
                max_mac_addresses: 2,
                reta_size: 128,
                rss_key_len: 40,
                ..Limits::SOFTWARE
            },
        }
    }
    fn configure(&mut self, config: &PortConfig) -> Result<(), PortError> {
        self.called("configure")?;
        let mut w = lock(&self.world);
        w.inbound = vec![VecDeque::new(); config.rx_queues.into()];
        w.outbound.resize(config.tx_queues.into(), VecDeque::new());
        Ok(())
    }
    fn rx_queue(&mut self, c: RxContext) -> Result<Box<dyn RxDriver>, PortError> {
        self.called("rx_queue")?;
        lock(&self.world).descriptors.0 = c.rx.descriptors;
        Ok(Box::new(ScriptRx {
            bug: self.bug,
            world: self.world.clone(),
            descriptors: if self.bug == Bug::OneDescriptor { 1 } else { c.rx.descriptors.into() },
            posted: VecDeque::new(),
            done: VecDeque::new(),
            received: true,
            scatter: c.config.rx_offloads.contains(RxOffloads::SCATTER),
            pool: c.rx.pool,
            port: c.port,
            queue: c.queue,
            counters: c.counters,
            stage: SoftStage::new(c.program),
        }))
    }
    fn tx_queue(&mut self, c: TxContext) -> Result<Box<dyn TxDriver>, PortError> {
        self.called("tx_queue")?;
        lock(&self.world).descriptors.1 = c.tx.descriptors;
        Ok(Box::new(ScriptTx {
            bug: self.bug,
            world: self.world.clone(),
            descriptors: c.tx.descriptors.into(),
            posted: VecDeque::new(),
            done: Vec::new(),
            kept: Vec::new(),
            starts: 0,
            port: c.port,
            queue: c.queue,
            counters: c.counters,
        }))
    }
    fn start(&mut self) -> Result<(), PortError> {
        self.called("start")?;
        let events: &EventSink = &self.context.events;
        if self.bug == Bug::FlapsLink {
            events.link(true, Some(1000), LinkCause::Started);
            events.link(false, Some(1000), LinkCause::Carrier);
        }
        events.link(true, Some(1000), LinkCause::Started);
        Ok(())
    }
    fn stop(&mut self) {
        lock(&self.world).calls.push("stop");
        self.context.events.link(false, Some(1000), LinkCause::Stopped);
    }
    fn close(&mut self) {
        lock(&self.world).calls.push("close");
    }
    fn poll_events(&mut self) {
        if lock(&self.world).gone {
            self.context.events.removed();
        }
    }
    fn set_mtu(&mut self, _mtu: u32) -> Result<(), PortError> {
        self.called("set_mtu")
    }
    fn set_link(&mut self, up: bool) -> Result<(), PortError> {
        self.called("set_link")?;
        self.context.events.link(up, Some(1000), LinkCause::Admin);
        Ok(())
    }
    fn set_rss(&mut self, _rss: &RssConfig) -> Result<(), PortError> {
        self.called("set_rss")
    }
    fn create_flow(&mut self, _id: FlowId, _rule: &FlowRule) -> Result<(), PortError> {
        self.called("create_flow")
    }
    fn reset(&mut self) -> Result<(), PortError> {
        self.called("reset")
    }
}

struct ScriptRx {
    bug: Bug,
    world: SharedWorld,
    descriptors: usize,
    /// Buffers that the device may fill.
    posted: VecDeque<Mbuf>,
    /// Filled and not delivered yet.
    done: VecDeque<Mbuf>,
    /// A packet was received since the last refill.
    received: bool,
    scatter: bool,
    pool: Mempool,
    port: PortId,
    queue: QueueId,
    counters: SharedRx,
    stage: SoftStage,
}

impl ScriptRx {
    fn refill(&mut self) {
        if self.bug == Bug::RefillsAfterReceive && !std::mem::take(&mut self.received) {
            return;
        }
        while self.posted.len() < self.descriptors {
            let Some(m) = self.pool.alloc() else {
                self.counters.nombuf.add(1);
                return;
            };
            self.posted.push_back(m);
        }
    }

    /// The device: frames that wait come into posted buffers, or are missed.
    fn device(&mut self) {
        let queue = if self.bug == Bug::OneQueue { 0 } else { self.queue.index() };
        let mut frames = Vec::new();
        if let Some(q) = lock(&self.world).inbound.get_mut(queue) {
            frames.extend(q.drain(..));
        }
        let (mut shown, bug) = (Vec::new(), self.bug);
        if bug == Bug::IgnoresProgram {
            shown = frames;
        } else {
            self.stage.run(frames.iter().map(Vec::as_slice), |_, f| shown.push(f.to_vec()));
        }
        for f in shown {
            self.land(&f);
        }
    }

    fn land(&mut self, f: &[u8]) {
        let room = usize::from(self.pool.data_room());
        let need = f.len().div_ceil(room);
        if need > 1 && !self.scatter && self.bug != Bug::CutsLong {
            self.counters.errors.add(1);
            return;
        }
        let need = if self.scatter { need } else { 1 };
        if self.posted.len() < need {
            self.counters.missed.add(u64::from(self.bug != Bug::MissesSilently));
            return;
        }
        let mut packet: Option<Mbuf> = None;
        for (piece, mut m) in f.chunks(room).zip(self.posted.drain(..need)) {
            m.append(piece.len()).expect("a chunk has the size of a buffer").copy_from_slice(piece);
            match &mut packet {
                None => packet = Some(m),
                Some(p) => p.chain(m).expect("few segments"),
            }
        }
        self.done.extend(packet);
    }
}

impl RxDriver for ScriptRx {
    fn start(&mut self) -> Result<(), PortError> {
        called(&self.world, self.port, "rx start")?;
        self.received = true;
        self.refill();
        Ok(())
    }

    fn stop(&mut self) {
        lock(&self.world).calls.push("rx stop");
        if self.bug == Bug::LeaksOnStop {
            std::mem::forget(self.posted.pop_front());
        }
        self.posted.clear();
        if self.bug != Bug::KeepsWaiting
            && let Some(q) = lock(&self.world).inbound.get_mut(self.queue.index())
        {
            q.clear();
        }
        self.done.clear();
    }

    fn rx_burst(&mut self, burst: &mut Burst, max: usize) -> usize {
        self.refill();
        self.device();
        let mut n = max.min(burst.room()).min(self.done.len());
        match self.bug {
            Bug::ExceedsMax if max > 0 => n = (max + 1).min(burst.room()).min(self.done.len()),
            Bug::StallsSmall if max < 4 => n = 0,
            Bug::Reorders if self.done.len() > 2 => self.done.swap(0, 1),
            _ => {}
        }
        let mut bytes = 0;
        for m in self.done.drain(..n) {
            bytes += u64::from(m.len());
            assert!(burst.push(m).is_ok(), "there is room");
        }
        if self.bug == Bug::DropsTail && n > 20 {
            let last = burst.pop().expect("more than 20");
            bytes -= u64::from(last.len());
            n -= 1;
        }
        self.received |= n > 0;
        self.counters.packets.add(n as u64);
        self.counters.bytes.add(bytes);
        n
    }

    fn set_program(&mut self, program: Option<Box<dyn RxProgram>>) -> Result<(), Box<dyn RxProgram>> {
        self.stage.set(program);
        Ok(())
    }
}

/// A packet posted to the device.
enum Sent {
    Unique(Mbuf),
    Shared(SharedMbuf),
}

impl Sent {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Sent::Unique(m) => m.segments().flatten().copied().collect(),
            Sent::Shared(m) => m.segments().flatten().copied().collect(),
        }
    }
}

struct ScriptTx {
    bug: Bug,
    world: SharedWorld,
    descriptors: usize,
    posted: VecDeque<Sent>,
    /// Taken by the device, not freed yet.
    done: Vec<Sent>,
    kept: Vec<SharedMbuf>,
    starts: u32,
    port: PortId,
    queue: QueueId,
    counters: SharedTx,
}

impl ScriptTx {
    /// The device takes up to `n` posted packets, and what it took is freed.
    fn device(&mut self, n: usize) {
        let n = n.min(self.posted.len());
        for p in self.posted.drain(..n) {
            if let Some(q) = lock(&self.world).outbound.get_mut(self.queue.index()) {
                q.push_back(p.bytes());
            }
            self.done.push(p);
        }
        if self.bug == Bug::FreesInGroups && self.done.len() < 32 {
            return;
        }
        for p in self.done.drain(..) {
            match (self.bug, p) {
                (Bug::FreesTwice, Sent::Unique(m)) => {
                    let raw = RawMbuf::from_mbuf(m);
                    // SAFETY: there is none, this is the bug: the pool gets a buffer that it has already. It
                    // only stores the address, and the audit that follows finds it there twice.
                    let (a, b) = unsafe { (std::ptr::read(&raw).into_mbuf(), raw.into_mbuf()) };
                    drop(a);
                    drop(b);
                }
                (Bug::KeepsShared, Sent::Shared(m)) => self.kept.push(m),
                (_, p) => drop(p),
            }
        }
    }

    fn count(&self, packets: usize, bytes: u64) {
        self.counters.packets.add(packets as u64);
        self.counters.bytes.add(bytes);
    }
}

impl TxDriver for ScriptTx {
    fn start(&mut self) -> Result<(), PortError> {
        called(&self.world, self.port, "tx start")?;
        self.starts += 1;
        Ok(())
    }

    fn stop(&mut self) {
        lock(&self.world).calls.push("tx stop");
        self.device(usize::MAX);
        self.done.clear();
    }

    fn tx_burst(&mut self, burst: &mut Burst<Mbuf>) -> usize {
        self.device(8);
        if self.bug == Bug::DeadAfterRestart && self.starts > 1 {
            return 0;
        }
        let before = burst.len();
        let n = before.min(self.descriptors - self.posted.len());
        let mut rest = Burst::new();
        let mut bytes = 0;
        for (i, m) in burst.drain().enumerate() {
            if i < n {
                bytes +=
                    if self.bug == Bug::CountsFirstSegment { m.data().len() as u64 } else { m.len().into() };
                self.posted.push_back(Sent::Unique(m));
            } else {
                assert!(rest.push(m).is_ok(), "it came out of a burst");
            }
        }
        self.count(n, bytes);
        match self.bug {
            Bug::SaysAllTaken => return before,
            Bug::EmptiesBurst => return n,
            _ => burst.append(&mut rest),
        }
        n
    }

    fn tx_burst_shared(&mut self, burst: &mut Burst<SharedMbuf>) -> usize {
        self.device(8);
        let n = burst.len().min(self.descriptors - self.posted.len());
        let mut rest = Burst::new();
        let mut bytes = 0;
        for (i, m) in burst.drain().enumerate() {
            if i < n {
                bytes += u64::from(m.len());
                self.posted.push_back(Sent::Shared(m));
            } else {
                assert!(rest.push(m).is_ok(), "it came out of a burst");
            }
        }
        burst.append(&mut rest);
        self.count(n, bytes);
        n
    }

    fn has_end_of_poll(&self) -> bool {
        true
    }

    fn end_of_poll(&mut self) {
        self.device(usize::MAX);
    }

    fn reclaim(&mut self) -> usize {
        self.device(usize::MAX);
        self.posted.len() + self.done.len()
    }
}

/// Opens ports of the script.
pub(crate) struct ScriptHarness(pub(crate) Bug);

impl Harness for ScriptHarness {
    fn name(&self) -> String {
        format!("script, {:?}", self.0)
    }

    fn open(&self, clock: Clock, _queues: u16) -> Result<Box<dyn Rig>, PortError> {
        let world = SharedWorld::default();
        Ok(Box::new(ScriptRig { port: Script::open(self.0, world.clone(), clock)?, world }))
    }
}

struct ScriptRig {
    port: Port,
    world: SharedWorld,
}

impl Rig for ScriptRig {
    fn port(&mut self) -> &mut Port {
        &mut self.port
    }
    fn input(&self) -> Input {
        Input::Injected
    }
    fn output(&self) -> Output {
        Output::Collected
    }
    fn inject(&mut self, queue: QueueId, frames: &[Vec<u8>]) -> usize {
        let mut w = lock(&self.world);
        let Some(q) = w.inbound.get_mut(queue.index()) else { return 0 };
        q.extend(frames.iter().cloned());
        frames.len()
    }
    fn collect(&mut self, queue: QueueId) -> Vec<Vec<u8>> {
        let mut w = lock(&self.world);
        w.outbound.get_mut(queue.index()).map(|q| q.drain(..).collect()).unwrap_or_default()
    }
}
