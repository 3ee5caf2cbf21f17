//! The port: a driver behind the checks that every port needs.

use crate::{
    Capabilities, DriverContext, ETHER_OVERHEAD, EventSink, FilterState, FlowId, FlowRule, LinkState,
    MacAddress, PortConfig, PortDriver, PortError, PortEvent, PortId, PortInfo, PortStats, ProgramCounters,
    QueueId, RssConfig, RxContext, RxDriver, RxOffloads, RxQueue, RxQueueConfig, TxContext, TxDriver,
    TxQueue, TxQueueConfig, Xstat,
    flow::{FlowError, FlowHits},
    queue::{Home, QueueGate, at_home},
    state::{PortState, PortStep},
    stats::{SharedRx, SharedTx, basic_xstats},
};
use core::fmt;
use linerate_mbuf::Mempool;
use linerate_mem::Clock;
use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

/// A queue as the port keeps it.
struct Slot<D: ?Sized, C> {
    home: Home<D>,
    gate: Arc<QueueGate>,
    counters: C,
    deferred: bool,
}

type RxSlot = Slot<dyn RxDriver, SharedRx>;
type TxSlot = Slot<dyn TxDriver, SharedTx>;

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
    info: PortInfo,
    clock: Clock,
    events: EventSink,
    config: PortConfig,
    rx: Vec<Option<RxSlot>>,
    tx: Vec<Option<TxSlot>>,
    pools: Vec<Option<Mempool>>,
    program: Arc<ProgramCounters>,
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
        let info = driver.info();
        Ok(Port {
            id,
            state: PortState::Opened,
            driver,
            info,
            clock,
            events,
            config: PortConfig::default(),
            rx: Vec::new(),
            tx: Vec::new(),
            pools: Vec::new(),
            program: Arc::default(),
            filters: FilterState::default(),
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

    /// What it is and can do.
    pub fn info(&self) -> &PortInfo {
        &self.info
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
    /// # Errors
    ///
    /// Out of the port's limits, not among its capabilities, or at the wrong time; the former stands.
    pub fn configure(&mut self, config: PortConfig) -> Result<(), PortError> {
        self.step(PortStep::Configure)?;
        let l = self.info.limits;
        self.range("receive queues", config.rx_queues.into(), 0, l.max_rx_queues.into())?;
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
        self.driver.configure(&config)?;
        self.rx = (0..config.rx_queues).map(|_| None).collect();
        self.tx = (0..config.tx_queues).map(|_| None).collect();
        self.pools = vec![None; config.rx_queues.into()];
        self.config = config;
        // The queues' counters begin anew.
        self.baseline = PortStats::default();
        self.xbaseline.clear();
        self.state = PortState::Configured;
        Ok(())
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
        let l = &self.info.limits;
        rx.descriptors = Self::descriptors(rx.descriptors, l.default_descriptors.0, l.rx_descriptors);
        let counters = SharedRx::default();
        let (deferred, pool) = (rx.deferred_start, rx.pool.clone());
        let driver = self.driver.rx_queue(RxContext {
            port: self.id,
            queue,
            config: self.config.clone(),
            rx,
            counters: counters.clone(),
            program: self.program.clone(),
            clock: self.clock.clone(),
        })?;
        let home = Arc::new(Mutex::new(Some(driver)));
        self.rx[queue.index()] = Some(Slot { home, gate: Arc::new(QueueGate::new()), counters, deferred });
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
        let l = &self.info.limits;
        tx.descriptors = Self::descriptors(tx.descriptors, l.default_descriptors.1, l.tx_descriptors);
        let counters = SharedTx::default();
        let deferred = tx.deferred_start;
        let driver = self.driver.tx_queue(TxContext {
            port: self.id,
            queue,
            config: self.config.clone(),
            tx,
            counters: counters.clone(),
            clock: self.clock.clone(),
        })?;
        let home = Arc::new(Mutex::new(Some(driver)));
        self.tx[queue.index()] = Some(Slot { home, gate: Arc::new(QueueGate::new()), counters, deferred });
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
        self.driver.start()?;
        let started = self.start_queues();
        if started.is_err() {
            self.stop_queues();
            self.driver.stop();
        } else {
            self.state = PortState::Started;
        }
        started
    }

    fn start_queues(&mut self) -> Result<(), PortError> {
        for s in self.tx.iter().flatten().filter(|s| !s.deferred) {
            if let Some(d) = at_home(&s.home).as_mut() {
                d.start()?;
                s.gate.set(true);
            }
        }
        for s in self.rx.iter().flatten().filter(|s| !s.deferred) {
            if let Some(d) = at_home(&s.home).as_mut() {
                d.start()?;
                s.gate.set(true);
            }
        }
        Ok(())
    }

    fn stop_queues(&mut self) {
        for s in self.rx.iter().flatten().filter(|s| s.gate.is_on()) {
            if let Some(d) = at_home(&s.home).as_mut() {
                d.stop();
            }
            s.gate.set(false);
        }
        for s in self.tx.iter().flatten().filter(|s| s.gate.is_on()) {
            if let Some(d) = at_home(&s.home).as_mut() {
                d.stop();
            }
            s.gate.set(false);
        }
    }

    fn queues_out(&self) -> Result<(), PortError> {
        fn out<D: ?Sized, C>(slots: &[Option<Slot<D, C>>]) -> Vec<u16> {
            let away = |s: &Option<Slot<D, C>>| s.as_ref().is_some_and(|s| at_home(&s.home).is_none());
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
        if self.state == PortState::Started && self.events.is_removed() {
            // An orderly end for a device that went away: the queues give back what they hold.
            self.queues_out()?;
            self.stop_queues();
            self.driver.stop();
            self.state = PortState::Removed;
            return Ok(());
        }
        self.step(PortStep::Stop)?;
        self.queues_out()?;
        self.stop_queues();
        self.driver.stop();
        self.state = PortState::Configured;
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
        self.stop_queues();
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
    /// Still started, a queue is out, or the device cannot.
    pub fn reset(&mut self) -> Result<(), PortError> {
        self.step(PortStep::Reset)?;
        self.need(Capabilities::RESET, "reset")?;
        self.queues_out()?;
        self.stop_queues();
        self.rx.clear();
        self.tx.clear();
        self.pools.clear();
        self.driver.reset()?;
        self.filters = FilterState::default();
        self.flows.clear();
        self.info = self.driver.info();
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
        let Some(slot) = &self.rx[queue.index()] else { return Ok(()) };
        if slot.gate.is_on() == run {
            return Ok(());
        }
        match at_home(&slot.home).as_mut() {
            Some(d) => {
                if run {
                    d.start()?
                } else {
                    d.stop()
                }
                slot.gate.set(run);
            }
            None => slot.gate.request(run),
        }
        Ok(())
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
        let Some(slot) = &self.tx[queue.index()] else { return Ok(()) };
        if slot.gate.is_on() == run {
            return Ok(());
        }
        match at_home(&slot.home).as_mut() {
            Some(d) => {
                if run {
                    d.start()?
                } else {
                    d.stop()
                }
                slot.gate.set(run);
            }
            None => slot.gate.request(run),
        }
        Ok(())
    }

    /// Sets the MTU; the limit is inclusive.
    ///
    /// # Errors
    ///
    /// Out of range, frames would not fit the buffers, or the port is started.
    pub fn set_mtu(&mut self, mtu: u32) -> Result<(), PortError> {
        self.step(PortStep::SetMtu)?;
        let l = self.info.limits;
        self.range("MTU", mtu.into(), l.min_mtu.into(), l.max_mtu.into())?;
        for pool in self.pools.iter().flatten() {
            self.check_room(mtu, pool)?;
        }
        self.driver.set_mtu(mtu)?;
        self.config.mtu = mtu;
        Ok(())
    }

    /// Sets promiscuous and all-multicast mode.
    ///
    /// # Errors
    ///
    /// The port cannot.
    pub fn set_promiscuous(&mut self, promiscuous: bool, all_multicast: bool) -> Result<(), PortError> {
        self.step(PortStep::Adjust)?;
        self.need(Capabilities::PROMISCUOUS, "promiscuous mode")?;
        self.driver.set_promiscuous(promiscuous, all_multicast)?;
        self.filters.promiscuous = promiscuous;
        self.filters.all_multicast = all_multicast;
        Ok(())
    }

    /// Adds (or removes) a MAC address besides the port's own. Adding one twice changes nothing.
    ///
    /// # Errors
    ///
    /// Not assignable (a group is, as a filter), too many, or the port cannot.
    pub fn set_mac(&mut self, address: MacAddress, add: bool) -> Result<(), PortError> {
        self.step(PortStep::Adjust)?;
        self.need(Capabilities::MAC_FILTER, "filter for MAC addresses")?;
        if address == MacAddress::default() {
            let (what, why) = (address.to_string(), "the zero address addresses nobody".into());
            return Err(PortError::Invalid { port: self.id, what, why });
        }
        if add == self.filters.mac.contains(&address) {
            return Ok(());
        }
        if add {
            let (have, max) = (self.filters.mac.len() as u64 + 2, self.info.limits.max_mac_addresses.into());
            self.range("MAC addresses", have, 1, max)?;
        }
        self.driver.set_mac(address, add)?;
        if add {
            self.filters.mac.insert(address)
        } else {
            self.filters.mac.remove(&address)
        };
        Ok(())
    }

    /// Adds (or removes) a VLAN to those taken; with none, all are.
    ///
    /// # Errors
    ///
    /// Over 4094, or the port cannot.
    pub fn set_vlan(&mut self, vlan: u16, add: bool) -> Result<(), PortError> {
        self.step(PortStep::Adjust)?;
        self.need(Capabilities::VLAN_FILTER, "filter for VLANs")?;
        self.range("VLAN", vlan.into(), 0, 4094)?;
        if add == self.filters.vlans.contains(&vlan) {
            return Ok(());
        }
        self.driver.set_vlan(vlan, add)?;
        if add {
            self.filters.vlans.insert(vlan)
        } else {
            self.filters.vlans.remove(&vlan)
        };
        Ok(())
    }

    /// The filters that stand.
    pub fn filters(&self) -> &FilterState {
        &self.filters
    }

    /// Sets hash key, types and redirection table.
    ///
    /// # Errors
    ///
    /// They do not fit the port, or it cannot.
    pub fn set_rss(&mut self, rss: RssConfig) -> Result<(), PortError> {
        self.step(PortStep::Adjust)?;
        self.check_rss(&rss, self.config.rx_queues)?;
        self.driver.set_rss(&rss)?;
        self.config.rss = Some(rss);
        Ok(())
    }

    /// Creates a flow rule.
    ///
    /// # Errors
    ///
    /// The rule is wrong, or the port cannot.
    pub fn create_flow(&mut self, rule: FlowRule) -> Result<FlowId, PortError> {
        self.step(PortStep::Adjust)?;
        rule.check(self.config.rx_queues).map_err(|source| PortError::Flow { port: self.id, source })?;
        self.need(Capabilities::FLOW, "flow rules")?;
        let id = FlowId(self.next_flow);
        self.driver.create_flow(id, &rule)?;
        self.next_flow += 1;
        self.flows.insert(id, rule);
        Ok(id)
    }

    /// Destroys a flow rule.
    ///
    /// # Errors
    ///
    /// No such rule, or the driver refuses.
    pub fn destroy_flow(&mut self, id: FlowId) -> Result<(), PortError> {
        self.step(PortStep::Adjust)?;
        self.flow(id)?;
        self.driver.destroy_flow(id)?;
        self.flows.remove(&id);
        Ok(())
    }

    fn flow(&self, id: FlowId) -> Result<&FlowRule, PortError> {
        let source = FlowError::NoSuchRule { id: id.0 };
        self.flows.get(&id).ok_or(PortError::Flow { port: self.id, source })
    }

    /// What a rule has seen.
    ///
    /// # Errors
    ///
    /// No such rule.
    pub fn flow_hits(&self, id: FlowId) -> Result<FlowHits, PortError> {
        self.flow(id)?;
        Ok(self.driver.flow_hits(id))
    }

    /// The rules that stand, by number.
    pub fn flows(&self) -> impl Iterator<Item = (FlowId, &FlowRule)> {
        self.flows.iter().map(|(id, r)| (*id, r))
    }

    /// Sets the link up or down.
    ///
    /// # Errors
    ///
    /// The port cannot.
    pub fn set_link(&mut self, up: bool) -> Result<(), PortError> {
        self.step(PortStep::Adjust)?;
        self.need(Capabilities::LINK_CONTROL, "link control")?;
        self.driver.set_link(up)
    }

    /// The link as it is now.
    pub fn link(&mut self) -> LinkState {
        self.driver.poll_events();
        self.events.link_now()
    }

    /// Everything that happened since the last call, in order.
    pub fn events(&mut self) -> Vec<PortEvent> {
        self.driver.poll_events();
        self.events.take()
    }

    fn raw_stats(&self) -> PortStats {
        let bytes = self.info.capabilities.contains(Capabilities::BYTE_COUNTS).then_some(0);
        let mut s = PortStats { rx_bytes: bytes, tx_bytes: bytes, ..Default::default() };
        for c in self.rx.iter().flatten().map(|s| &s.counters) {
            s.rx_packets += c.packets.get();
            s.rx_bytes = s.rx_bytes.map(|b| b + c.bytes.get());
            s.rx_missed += c.missed.get();
            s.rx_errors += c.errors.get();
            s.rx_nombuf += c.nombuf.get();
        }
        for c in self.tx.iter().flatten().map(|s| &s.counters) {
            s.tx_packets += c.packets.get();
            s.tx_bytes = s.tx_bytes.map(|b| b + c.bytes.get());
            s.tx_errors += c.errors.get();
        }
        s
    }

    /// The port's counters since it was configured or since the last reset of them.
    pub fn stats(&self) -> PortStats {
        self.raw_stats().since(&self.baseline)
    }

    fn raw_xstats(&self) -> Vec<Xstat> {
        let x = |name: String, value| Xstat { name, value };
        let mut v = Vec::new();
        let bytes = self.info.capabilities.contains(Capabilities::BYTE_COUNTS);
        for (q, s) in self.rx.iter().enumerate().filter_map(|(q, s)| Some((q, s.as_ref()?))) {
            v.push(x(format!("rx_q{q}_packets"), s.counters.packets.get()));
            if bytes {
                v.push(x(format!("rx_q{q}_bytes"), s.counters.bytes.get()));
            }
            v.push(x(format!("rx_q{q}_errors"), s.counters.errors.get()));
        }
        for (q, s) in self.tx.iter().enumerate().filter_map(|(q, s)| Some((q, s.as_ref()?))) {
            v.push(x(format!("tx_q{q}_packets"), s.counters.packets.get()));
            if bytes {
                v.push(x(format!("tx_q{q}_bytes"), s.counters.bytes.get()));
            }
        }
        if self.info.capabilities.contains(Capabilities::RX_PROGRAM) {
            let p = &self.program;
            let all = [
                ("pass", &p.pass),
                ("drop", &p.drop),
                ("tx", &p.tx),
                ("redirect", &p.redirect),
                ("aborted", &p.aborted),
            ];
            v.extend(all.map(|(n, c)| x(format!("rx_program_{n}"), c.get())));
        }
        v.extend(self.driver.xstats());
        v
    }

    /// All counters by name: DPDK's names for what DPDK has, then the queues', then the driver's own.
    pub fn xstats(&self) -> Vec<Xstat> {
        let mut v = basic_xstats(&self.stats());
        v.extend(self.raw_xstats().into_iter().map(|x| {
            let before = self.xbaseline.get(&x.name).copied().unwrap_or(0);
            Xstat { value: x.value.saturating_sub(before), ..x }
        }));
        v
    }

    /// Lets all counters begin at 0 from here on.
    pub fn reset_stats(&mut self) {
        self.baseline = self.raw_stats();
        self.xbaseline = self.raw_xstats().into_iter().map(|x| (x.name, x.value)).collect();
    }

    /// Packets that wait in a receive queue which is home, if the driver can tell.
    pub fn rx_pending(&self, queue: QueueId) -> Option<usize> {
        let slot = self.rx.get(queue.index())?.as_ref()?;
        at_home(&slot.home).as_ref()?.pending()
    }
}

impl Drop for Port {
    /// Stops and closes what was not. A queue that is still out keeps what it holds until it is dropped.
    fn drop(&mut self) {
        if self.state == PortState::Closed {
            return;
        }
        if self.state == PortState::Started {
            self.stop_queues();
            self.driver.stop();
        }
        self.shut();
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
