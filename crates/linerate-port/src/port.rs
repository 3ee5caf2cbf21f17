//! The port: a driver behind the checks that every port needs. Here is its life; what can be changed meanwhile
//! is in `control`, what it counts in `counters`.

mod control;
mod counters;
#[cfg(test)]
mod tests;

use crate::{
    Capabilities, DriverContext, ETHER_OVERHEAD, EventSink, FilterState, FlowId, FlowRule, PortConfig,
    PortDriver, PortError, PortId, PortInfo, PortStats, ProgramCounters, QueueId, RssConfig, RxContext,
    RxOffloads, RxQueue, RxQueueConfig, TxContext, TxDriver, TxQueue, TxQueueConfig,
    classify::{Classifier, MAX_QUEUES, NoDevice, StageBooks},
    queue::{Home, QueueGate, RxParts, Switch, at_home},
    state::{PortState, PortStep},
    stats::{SharedRx, SharedTx},
};
use core::fmt;
use linerate_mbuf::Mempool;
use linerate_mem::Clock;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// A queue as the port keeps it.
struct Slot<K, B> {
    home: Home<K>,
    gate: Arc<QueueGate>,
    /// What it counts. Kept when the queue is set up again, so that no counter goes back.
    books: B,
    descriptors: u16,
    deferred: bool,
}

/// What a receive queue counts. A program's verdicts are counted by queue: a counter has one writer.
#[derive(Clone)]
struct RxBooks {
    counters: SharedRx,
    program: Arc<ProgramCounters>,
    stage: Arc<StageBooks>,
}

impl RxBooks {
    /// Of a port with so many receive queues.
    fn new(queues: u16) -> Self {
        let stage = Arc::new(StageBooks::new(queues));
        RxBooks { counters: SharedRx::default(), program: Arc::default(), stage }
    }
}

type RxSlot = Slot<RxParts, RxBooks>;
type TxSlot = Slot<Box<dyn TxDriver>, SharedTx>;

impl<K: Switch, B> Slot<K, B> {
    /// Starts or stops it: at once if it is home, else at its owner's next call.
    fn switch(&self, run: bool) -> Result<(), PortError> {
        match at_home(&self.home).as_mut() {
            Some(kept) => self.gate.switch(kept, run),
            None => {
                self.gate.request(run);
                Ok(())
            }
        }
    }
}

/// A port of any driver.
///
/// ```text
/// Port::open ─► configure ─► rx_queue_setup, tx_queue_setup ─► start ─► take_rx, take_tx ─► poll
///                                       close ◄─ stop ◄─ drop the queues ◄──────────────────┘
/// ```
pub struct Port {
    id: PortId,
    state: PortState,
    driver: Box<dyn PortDriver>,
    /// As the driver says.
    device: PortInfo,
    /// With what software adds.
    info: PortInfo,
    classifier: Classifier,
    clock: Clock,
    events: EventSink,
    config: PortConfig,
    rx: Vec<Option<RxSlot>>,
    tx: Vec<Option<TxSlot>>,
    pools: Vec<Option<Mempool>>,
    /// The driver was started and not stopped since.
    running: bool,
    filters: FilterState,
    flows: BTreeMap<FlowId, FlowRule>,
    next_flow: u32,
    baseline: PortStats,
    xbaseline: BTreeMap<String, u64>,
}

impl Port {
    /// Wraps a driver's port. `open` gets the context with which the port will be run.
    ///
    /// # Errors
    ///
    /// Whatever the driver says.
    pub fn open(
        id: PortId,
        clock: Clock,
        open: impl FnOnce(DriverContext) -> Result<Box<dyn PortDriver>, PortError>,
    ) -> Result<Port, PortError> {
        let events = EventSink::new(id, clock.clone());
        let driver = open(DriverContext { port: id, clock: clock.clone(), events: events.clone() })?;
        let device = driver.info();
        let classifier = Classifier::new(&device);
        Ok(Port {
            id,
            state: PortState::Opened,
            driver,
            info: classifier.extended(&device),
            filters: classifier.initial_filters(),
            device,
            classifier,
            clock,
            events,
            config: PortConfig::default(),
            rx: Vec::new(),
            tx: Vec::new(),
            pools: Vec::new(),
            running: false,
            flows: BTreeMap::new(),
            next_flow: 0,
            baseline: PortStats::default(),
            xbaseline: BTreeMap::new(),
        })
    }

    /// Its number.
    pub fn id(&self) -> PortId {
        self.id
    }

    /// What it is and can do, by its device or [by software](Self::software).
    pub fn info(&self) -> &PortInfo {
        &self.info
    }

    /// What it is and can do without software behind its driver.
    pub fn device_info(&self) -> &PortInfo {
        &self.device
    }

    /// Which of its capabilities are in [software](crate::classify).
    pub fn software(&self) -> Capabilities {
        self.classifier.software()
    }

    /// Where it is in its life.
    pub fn state(&self) -> PortState {
        self.state
    }

    /// The configuration that stands.
    pub fn config(&self) -> &PortConfig {
        &self.config
    }

    /// The clock that it runs by.
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    fn step(&mut self, step: PortStep) -> Result<(), PortError> {
        if self.state != PortState::Closed && self.events.is_removed() {
            self.state = PortState::Removed;
        }
        if self.state == PortState::Removed && step != PortStep::Close {
            return Err(PortError::Removed { port: self.id });
        }
        if !self.state.allows(step) {
            return Err(PortError::WrongState { port: self.id, step, state: self.state });
        }
        Ok(())
    }

    fn range(&self, what: &'static str, wanted: u64, min: u64, max: u64) -> Result<(), PortError> {
        if (min..=max).contains(&wanted) {
            Ok(())
        } else {
            Err(PortError::Range { port: self.id, what, wanted, min, max })
        }
    }

    fn need(&self, capability: Capabilities, what: &str) -> Result<(), PortError> {
        if self.info.capabilities.contains(capability) {
            Ok(())
        } else {
            Err(PortError::Unsupported { port: self.id, driver: self.info.driver, what: what.into() })
        }
    }

    /// Sets the number of queues, the MTU, offloads and RSS. Queues that were set up before are given up.
    ///
    /// Where software spreads packets, there may be more receive queues than the device has, up to
    /// [`MAX_QUEUES`].
    ///
    /// # Errors
    ///
    /// Out of the port's limits, not among its capabilities, or at the wrong time; the former stands.
    pub fn configure(&mut self, config: PortConfig) -> Result<(), PortError> {
        self.step(PortStep::Configure)?;
        let l = self.info.limits;
        let spread = config.rss.is_some() && self.classifier.does(Capabilities::RSS);
        let max_rx = if spread { l.max_rx_queues.max(MAX_QUEUES) } else { l.max_rx_queues };
        self.range("receive queues", config.rx_queues.into(), 0, max_rx.into())?;
        self.range("transmit queues", config.tx_queues.into(), 0, l.max_tx_queues.into())?;
        if config.rx_queues == 0 && config.tx_queues == 0 {
            self.range("queues", 0, 1, u64::from(l.max_rx_queues))?;
        }
        self.range("MTU", config.mtu.into(), l.min_mtu.into(), l.max_mtu.into())?;
        let unknown = config.rx_offloads - self.info.rx_offloads;
        if !unknown.is_empty() {
            return self.unsupported(format!("receive offload {unknown:?}"));
        }
        let unknown = config.tx_offloads - self.info.tx_offloads;
        if !unknown.is_empty() {
            return self.unsupported(format!("transmit offload {unknown:?}"));
        }
        if let Some(rss) = &config.rss {
            self.check_rss(rss, config.rx_queues)?;
        }
        for (id, rule) in &self.flows {
            let kept = rule.check(config.rx_queues);
            kept.map_err(|e| PortError::Invalid {
                port: self.id,
                what: format!("flow rule {}", id.0),
                why: format!("{e}; destroy it first"),
            })?;
        }
        self.driver.configure(&self.for_device(&config))?;
        self.rx = (0..config.rx_queues).map(|_| None).collect();
        self.tx = (0..config.tx_queues).map(|_| None).collect();
        self.pools = vec![None; config.rx_queues.into()];
        self.config = config;
        self.classifier.set_queues(self.config.rx_queues);
        self.classifier.set_rss(self.config.rss.as_ref());
        self.reclassify();
        // The queues' counters begin anew; the driver's own go on.
        self.baseline = PortStats::default();
        self.xbaseline = self.raw_xstats().into_iter().map(|x| (x.name, x.value)).collect();
        self.state = PortState::Configured;
        Ok(())
    }

    /// A configuration without what software does.
    fn for_device(&self, config: &PortConfig) -> PortConfig {
        let mut config = config.clone();
        config.rx_queues = self.device_queues(config.rx_queues);
        config.rx_offloads &= self.device.rx_offloads;
        if self.classifier.does(Capabilities::RSS) {
            config.rss = None;
        }
        config
    }

    /// How many of so many receive queues the device has.
    fn device_queues(&self, queues: u16) -> u16 {
        queues.min(self.device.limits.max_rx_queues)
    }

    /// Lets software go by what is asked for now.
    fn reclassify(&mut self) {
        self.classifier.publish(self.info.mac, &self.filters, &self.flows);
        if self.running && self.classifier.is_active() {
            self.rx.iter().flatten().for_each(|s| s.gate.set_staged(true));
        }
    }

    fn unsupported<T>(&self, what: String) -> Result<T, PortError> {
        Err(PortError::Unsupported { port: self.id, driver: self.info.driver, what })
    }

    fn check_rss(&self, rss: &RssConfig, queues: u16) -> Result<(), PortError> {
        self.need(Capabilities::RSS, "receive-side scaling")?;
        match rss.problem(queues, &self.info.limits, self.info.rss_types) {
            Some((what, why)) => Err(PortError::Invalid { port: self.id, what, why }),
            None => Ok(()),
        }
    }

    /// Whether frames of this MTU fit the buffers of this pool, or may be spread over several.
    fn check_room(&self, mtu: u32, pool: &Mempool) -> Result<(), PortError> {
        let (frame, room) = (mtu + ETHER_OVERHEAD, u32::from(pool.data_room()));
        if frame > room && !self.config.rx_offloads.contains(RxOffloads::SCATTER) {
            let (port, pool) = (self.id, pool.name().to_string());
            return Err(PortError::FrameTooLong { port, mtu, frame, room, pool });
        }
        Ok(())
    }

    /// Rounds a wish for descriptors up to what the port can do; wide arithmetic, so that nothing wraps.
    fn descriptors(wanted: u16, default: u16, (min, max, align): (u16, u16, u16)) -> u16 {
        let wanted = if wanted == 0 { default } else { wanted };
        let rounded = u32::from(wanted).next_multiple_of(align.max(1).into());
        rounded.clamp(min.into(), max.into()) as u16
    }

    /// Sets up a receive queue.
    ///
    /// # Errors
    ///
    /// No such queue, the pool does not fit, or the driver refuses.
    pub fn rx_queue_setup(&mut self, queue: QueueId, mut rx: RxQueueConfig) -> Result<(), PortError> {
        self.step(PortStep::QueueSetup)?;
        self.queue_exists("receive queue", queue, self.rx.len())?;
        if self.rx[queue.index()].as_ref().is_some_and(|s| at_home(&s.home).is_none()) {
            return Err(PortError::QueueTaken { port: self.id, kind: "rx", queue: queue.0 });
        }
        self.check_room(self.config.mtu, &rx.pool)?;
        if rx.deferred_start {
            self.need(Capabilities::QUEUE_STOP, "way to start a single queue later")?;
        }
        let l = &self.info.limits;
        rx.descriptors = Self::descriptors(rx.descriptors, l.default_descriptors.0, l.rx_descriptors);
        let books = self.rx[queue.index()].as_ref();
        let books = books.map_or_else(|| RxBooks::new(self.config.rx_queues), |s| s.books.clone());
        let (deferred, pool, descriptors) = (rx.deferred_start, rx.pool.clone(), rx.descriptors);
        let driver = if queue.0 < self.device_queues(self.config.rx_queues) {
            self.driver.rx_queue(RxContext {
                port: self.id,
                queue,
                config: self.for_device(&self.config),
                rx,
                counters: books.counters.clone(),
                program: books.program.clone(),
                clock: self.clock.clone(),
            })?
        } else {
            Box::new(NoDevice)
        };
        let home = Arc::new(Mutex::new(Some(RxParts { driver, stage: None })));
        let gate = Arc::new(QueueGate::new(self.events.clone(), "rx", queue));
        self.rx[queue.index()] = Some(Slot { home, gate, books, descriptors, deferred });
        self.pools[queue.index()] = Some(pool);
        Ok(())
    }

    /// Sets up a transmit queue.
    ///
    /// # Errors
    ///
    /// No such queue, or the driver refuses.
    pub fn tx_queue_setup(&mut self, queue: QueueId, mut tx: TxQueueConfig) -> Result<(), PortError> {
        self.step(PortStep::QueueSetup)?;
        self.queue_exists("transmit queue", queue, self.tx.len())?;
        if self.tx[queue.index()].as_ref().is_some_and(|s| at_home(&s.home).is_none()) {
            return Err(PortError::QueueTaken { port: self.id, kind: "tx", queue: queue.0 });
        }
        if tx.deferred_start {
            self.need(Capabilities::QUEUE_STOP, "way to start a single queue later")?;
        }
        let l = &self.info.limits;
        tx.descriptors = Self::descriptors(tx.descriptors, l.default_descriptors.1, l.tx_descriptors);
        let books = self.tx[queue.index()].as_ref().map_or_else(SharedTx::default, |s| s.books.clone());
        let (deferred, descriptors) = (tx.deferred_start, tx.descriptors);
        let driver = self.driver.tx_queue(TxContext {
            port: self.id,
            queue,
            config: self.for_device(&self.config),
            tx,
            counters: books.clone(),
            clock: self.clock.clone(),
        })?;
        let home = Arc::new(Mutex::new(Some(driver)));
        let gate = Arc::new(QueueGate::new(self.events.clone(), "tx", queue));
        self.tx[queue.index()] = Some(Slot { home, gate, books, descriptors, deferred });
        Ok(())
    }

    fn queue_exists(&self, what: &'static str, queue: QueueId, count: usize) -> Result<(), PortError> {
        if queue.index() < count {
            return Ok(());
        }
        let max = (count as u64).saturating_sub(1);
        Err(PortError::Range { port: self.id, what, wanted: queue.0.into(), min: 0, max })
    }

    /// Starts the port and its queues.
    ///
    /// # Errors
    ///
    /// A queue is missing, or the driver refuses; then everything is stopped as before.
    pub fn start(&mut self) -> Result<(), PortError> {
        self.step(PortStep::Start)?;
        let missing = |kind, at: Option<usize>| match at {
            Some(q) => Err(PortError::QueueMissing { port: self.id, kind, queue: q as u16 }),
            None => Ok(()),
        };
        missing("rx", self.rx.iter().position(Option::is_none))?;
        missing("tx", self.tx.iter().position(Option::is_none))?;
        for pool in self.pools.iter().flatten() {
            self.check_room(self.config.mtu, pool)?;
        }
        self.make_stages()?;
        self.driver.start()?;
        self.running = true;
        let started = self.start_queues();
        if started.is_err() {
            self.halt();
        } else {
            self.state = PortState::Started;
        }
        started
    }

    /// Gives each receive queue, all of which are home, a new stage with an empty inbox.
    fn make_stages(&mut self) -> Result<(), PortError> {
        if self.classifier.software().is_empty() {
            return Ok(());
        }
        let queues: Vec<_> = self.rx.iter().flatten().collect();
        let of = |s: &&RxSlot| (s.descriptors, s.books.stage.clone(), s.books.counters.clone());
        let device = self.device_queues(self.config.rx_queues);
        let stages = self.classifier.stages(queues.iter().map(of).collect(), device);
        let stages = stages.map_err(|e| PortError::Driver {
            port: self.id,
            hint: e.hint().into(),
            source: Box::new(e),
        })?;
        for (slot, stage) in queues.into_iter().zip(stages) {
            slot.books.stage.leave(&slot.books.counters);
            slot.gate.set_staged(self.classifier.is_active());
            if let Some(parts) = at_home(&slot.home).as_mut() {
                parts.stage = Some(stage);
            }
        }
        Ok(())
    }

    /// Transmit queues first: whoever receives may answer.
    fn start_queues(&mut self) -> Result<(), PortError> {
        for s in self.tx.iter().flatten().filter(|s| !s.deferred) {
            s.switch(true)?;
        }
        for s in self.rx.iter().flatten().filter(|s| !s.deferred) {
            s.switch(true)?;
        }
        Ok(())
    }

    /// Stops what runs, queues before the driver. A queue that is out (only when a port is dropped under its
    /// owner) stops at its owner's next call, or when it is dropped.
    fn halt(&mut self) {
        // Stopping cannot fail.
        let _ = self.rx.iter().flatten().try_for_each(|s| s.switch(false));
        let _ = self.tx.iter().flatten().try_for_each(|s| s.switch(false));
        if std::mem::take(&mut self.running) {
            self.driver.stop();
        }
    }

    fn queues_out(&self) -> Result<(), PortError> {
        fn out<K, B>(slots: &[Option<Slot<K, B>>]) -> Vec<u16> {
            let away = |s: &Option<Slot<K, B>>| s.as_ref().is_some_and(|s| at_home(&s.home).is_none());
            slots.iter().enumerate().filter(|(_, s)| away(s)).map(|(q, _)| q as u16).collect()
        }
        let (rx, tx) = (out(&self.rx), out(&self.tx));
        if rx.is_empty() && tx.is_empty() {
            Ok(())
        } else {
            Err(PortError::QueuesOut { port: self.id, rx, tx })
        }
    }

    /// Stops the queues and the port; every buffer that it holds goes back to its pool.
    ///
    /// # Errors
    ///
    /// Not started, or a queue is still out; nothing is stopped then.
    pub fn stop(&mut self) -> Result<(), PortError> {
        let removed = match self.step(PortStep::Stop) {
            // An orderly end for a device that went away: the queues give back what they hold.
            Err(PortError::Removed { .. }) if self.running => true,
            other => other.map(|()| false)?,
        };
        self.queues_out()?;
        self.halt();
        if !removed {
            self.state = PortState::Configured;
        }
        Ok(())
    }

    /// Gives everything back. The port can only be dropped afterwards.
    ///
    /// # Errors
    ///
    /// Still started, or a queue is still out.
    pub fn close(&mut self) -> Result<(), PortError> {
        self.step(PortStep::Close)?;
        self.queues_out()?;
        self.shut();
        Ok(())
    }

    fn shut(&mut self) {
        self.halt();
        self.rx.clear();
        self.tx.clear();
        self.pools.clear();
        self.driver.close();
        self.state = PortState::Closed;
    }

    /// Resets the device; the port is then as opened.
    ///
    /// # Errors
    ///
    /// Still started, or the device cannot; if it failed to, the queues must be set up again.
    pub fn reset(&mut self) -> Result<(), PortError> {
        self.step(PortStep::Reset)?;
        self.need(Capabilities::RESET, "reset")?;
        // Given up first: no queue may outlive the reset of what it stands on. If that fails they are missing.
        self.rx.iter_mut().for_each(|s| *s = None);
        self.tx.iter_mut().for_each(|s| *s = None);
        self.pools.iter_mut().for_each(|p| *p = None);
        self.driver.reset()?;
        self.rx.clear();
        self.tx.clear();
        self.pools.clear();
        self.flows.clear();
        self.device = self.driver.info();
        self.classifier = Classifier::new(&self.device);
        self.info = self.classifier.extended(&self.device);
        self.filters = self.classifier.initial_filters();
        self.state = PortState::Opened;
        self.events.reset();
        Ok(())
    }

    /// Takes a receive queue out, to be polled by its new owner.
    ///
    /// # Errors
    ///
    /// Not started, no such queue, or out already.
    pub fn take_rx(&mut self, queue: QueueId) -> Result<RxQueue, PortError> {
        self.step(PortStep::UseQueue)?;
        self.queue_exists("receive queue", queue, self.rx.len())?;
        let (port, kind, q) = (self.id, "rx", queue.0);
        let slot = self.rx[queue.index()].as_ref().ok_or(PortError::QueueMissing { port, kind, queue: q })?;
        let driver = at_home(&slot.home).take().ok_or(PortError::QueueTaken { port, kind, queue: q })?;
        Ok(RxQueue::new(driver, slot.gate.clone(), slot.home.clone(), (port, queue), self.info.driver))
    }

    /// Takes a transmit queue out.
    ///
    /// # Errors
    ///
    /// Not started, no such queue, or out already.
    pub fn take_tx(&mut self, queue: QueueId) -> Result<TxQueue, PortError> {
        self.step(PortStep::UseQueue)?;
        self.queue_exists("transmit queue", queue, self.tx.len())?;
        let (port, kind, q) = (self.id, "tx", queue.0);
        let slot = self.tx[queue.index()].as_ref().ok_or(PortError::QueueMissing { port, kind, queue: q })?;
        let driver = at_home(&slot.home).take().ok_or(PortError::QueueTaken { port, kind, queue: q })?;
        Ok(TxQueue::new(driver, slot.gate.clone(), slot.home.clone(), (port, queue), self.info.driver))
    }

    /// Starts or stops a single receive queue: at once if it is home, else at its owner's next poll.
    ///
    /// # Errors
    ///
    /// Not started, no such queue, or the port cannot.
    pub fn set_rx_queue_running(&mut self, queue: QueueId, run: bool) -> Result<(), PortError> {
        self.step(PortStep::UseQueue)?;
        self.need(Capabilities::QUEUE_STOP, "way to stop a single queue")?;
        self.queue_exists("receive queue", queue, self.rx.len())?;
        self.rx[queue.index()].as_ref().map_or(Ok(()), |slot| slot.switch(run))
    }

    /// Starts or stops a single transmit queue: at once if it is home, else at its owner's next send.
    ///
    /// # Errors
    ///
    /// Not started, no such queue, or the port cannot.
    pub fn set_tx_queue_running(&mut self, queue: QueueId, run: bool) -> Result<(), PortError> {
        self.step(PortStep::UseQueue)?;
        self.need(Capabilities::QUEUE_STOP, "way to stop a single queue")?;
        self.queue_exists("transmit queue", queue, self.tx.len())?;
        self.tx[queue.index()].as_ref().map_or(Ok(()), |slot| slot.switch(run))
    }
}

impl Drop for Port {
    /// Stops and closes what was not. A queue that is still out keeps what it holds until it is dropped.
    fn drop(&mut self) {
        if self.state != PortState::Closed {
            self.shut();
        }
    }
}

impl fmt::Debug for Port {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Port")
            .field("id", &self.id)
            .field("state", &self.state)
            .field("name", &self.info.name)
            .finish_non_exhaustive()
    }
}
