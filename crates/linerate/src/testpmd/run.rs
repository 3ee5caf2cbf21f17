//! A run from its first to its last moment: cores started, watched, stopped, and everything counted.

use super::{
    cores::Cores,
    diagnose,
    engine::{Mode, Phase, Settings, Shown, Stream},
    error::TestpmdError,
    flush::flush,
    json,
    json_file::{JsonFile, file_error},
    live::{self, Live},
    modes::{
        ModeName, StreamContext,
        csum::Csum,
        five_tuple::FiveTupleSwap,
        flowgen::{FlowIndexes, Flowgen, FlowgenClones},
        icmpecho::IcmpEcho,
        io::Io,
        mac::Mac,
        macswap::MacSwap,
        noisy::{Noisy, NoisyForward},
        rxonly::RxOnly,
        txonly::TxOnly,
    },
    out::Out,
    plan::Plan,
    pools, prompt,
    report::{CoreResult, PoolResult, PortResult, Report, StreamResult},
    rig::Rig,
    signals,
    streams::{self, StreamPlan},
    tester::{self, TesterCounts},
    threads::Threads,
};
use crossbeam_utils::CachePadded;
use linerate::StopSignal;
use linerate_mbuf::Mempool;
use linerate_mem::{Clock, TscClock};
use linerate_net::MacAddr;
use linerate_port::{Capabilities, PortEvent, PortStats, QueueId};
use std::{
    io::Write,
    ops::Range,
    path::Path,
    sync::{Arc, atomic::Ordering::Relaxed},
    thread,
    time::{Duration, Instant},
};

/// How soon a signal, or the end of all inputs, is noticed.
const TICK: Duration = Duration::from_millis(20);
/// Seconds without a packet after which it is said why.
const SILENCE: u64 = 3;
/// How long frames may take to arrive after the sources have stopped: a forwarder that is not scheduled is waited for.
const DRAIN: Duration = Duration::from_secs(10);

/// What the watcher sees of a stream.
#[derive(Clone, Debug)]
pub(super) struct StreamView {
    pub plan: StreamPlan,
    pub shown: Arc<CachePadded<Shown>>,
}

/// Runs a plan, prints its report and gives what went wrong, if anything did.
///
/// # Errors
///
/// Nothing was forwarded: a port, a pool, a core or a file could not be had.
pub(super) fn run(plan: Plan) -> Result<Vec<String>, TestpmdError> {
    let to_stdout = plan.json.as_deref() == Some(Path::new("-"));
    let out = Out { to_stderr: to_stdout };
    let streams = streams::layout(&plan.forward, plan.topology, plan.queues.0, plan.queues.1);
    let wanted = plan.cores.min(streams.len());
    let cores = Cores::choose(wanted, plan.built_in(), plan.core_list.as_deref())?;
    let file = plan.json.as_deref().filter(|_| !to_stdout);
    let file = file.map(|path| JsonFile::open(path, &plan.ports)).transpose()?;
    let signals = signals::listen()?;
    let clock = Clock::real();
    let rig = Rig::set_up(&plan, &clock, streams.len())?;
    live::check_names(&plan.xstats, &rig.ports)?;
    if plan.topology.leaves_one_over(plan.forward.len()) {
        out.say("Warning! port-topology=paired and odd forward ports number, the last port will pair with itself.");
    }
    if wanted < plan.cores {
        out.say(&format!("Warning! {} cores are wanted, there is work for {wanted}.", plan.cores));
    }
    let tester_pool = plan.built_in().then(|| tester_pool(&plan, streams.len())).transpose()?;
    let prompt = plan.prompt.clone();
    let mut job = Job { plan, out, clock, rig, streams, cores, signals, tester_pool };
    if let Some(prompt) = prompt {
        return prompt::run(job, &prompt);
    }
    let running = job.begin()?;
    let early = job.watch(&running);
    let (report, faults) = job.end(running, early);
    out.say(&report.text());
    for (number, p) in report.ports.iter().enumerate() {
        if let Some(why) = diagnose::refused(number, &p.stats) {
            out.say(&format!("Note: {why}"));
        }
    }
    let text = format!("{:#}\n", json::value(&report));
    if let Some(file) = file {
        file.write(&text)?;
    } else if to_stdout {
        let mut stdout = std::io::stdout().lock();
        stdout
            .write_all(text.as_bytes())
            .and_then(|()| stdout.flush())
            .map_err(|source| file_error(Path::new("-"), source))?;
    }
    Ok(faults)
}

/// Frames on their way and in the ends' hands, and one thread's cache.
fn tester_pool(plan: &Plan, streams: usize) -> Result<Mempool, TestpmdError> {
    // A ring on either side of the forwarder may be full where the far end's room is the only limit.
    let frames = streams as u64 * (2 * 1024 + tester::WINDOW);
    pools::make(plan, "tester", frames + 2 * u64::from(plan.cache), plan.node)
}

/// Everything that a run has been given.
pub(super) struct Job {
    pub plan: Plan,
    pub out: Out,
    pub clock: Clock,
    pub rig: Rig,
    pub streams: Vec<StreamPlan>,
    pub cores: Cores,
    pub signals: StopSignal,
    pub tester_pool: Option<Mempool>,
}

/// Forwarding under way.
pub(super) struct Running {
    pub threads: Threads,
    pub views: Vec<StreamView>,
    /// The ports' counters at the start.
    pub baseline: Vec<PortStats>,
}

impl Job {
    /// Starts forwarding as the plan says.
    ///
    /// # Errors
    ///
    /// Packets that cannot be made, a queue that cannot be had, or no thread.
    pub fn begin(&mut self) -> Result<Running, TestpmdError> {
        let (csum, flowgen, txonly) = (self.plan.csum, self.plan.flowgen, self.plan.txonly.clone());
        let indexes = FlowIndexes::new(self.cores.forward.len());
        let (noisy, scale) = (self.plan.noisy, self.clock.scale());
        match self.plan.mode {
            ModeName::Io => self.launch(|_| Ok(Io)),
            ModeName::Mac => self.launch(|s| Ok(Mac::new(s))),
            ModeName::Macswap => self.launch(|_| Ok(MacSwap)),
            ModeName::FiveTupleSwap => self.launch(|_| Ok(FiveTupleSwap)),
            ModeName::Rxonly => self.launch(|_| Ok(RxOnly)),
            ModeName::Txonly => self.launch(|s| TxOnly::new(s, &txonly)),
            ModeName::Csum => self.launch(|s| Ok(Csum::new(s, csum))),
            ModeName::Icmpecho => self.launch(|s| Ok(IcmpEcho::new(s))),
            ModeName::Flowgen if flowgen.clones > 0 => {
                self.launch(|s| FlowgenClones::new(s, &flowgen, &indexes))
            }
            ModeName::Flowgen => self.launch(|s| Flowgen::new(s, &flowgen, &indexes)),
            ModeName::Noisy => match noisy.forward {
                NoisyForward::Io => self.launch(|s| Ok(Noisy::new(Io, s, &noisy, scale))),
                NoisyForward::Mac => self.launch(|s| Ok(Noisy::new(Mac::new(s), s, &noisy, scale))),
                NoisyForward::Macswap => self.launch(|s| Ok(Noisy::new(MacSwap, s, &noisy, scale))),
                NoisyForward::FiveTupleSwap => {
                    self.launch(|s| Ok(Noisy::new(FiveTupleSwap, s, &noisy, scale)))
                }
            },
        }
    }

    fn launch<M: Mode>(
        &mut self,
        make: impl Fn(&StreamContext) -> Result<M, TestpmdError>,
    ) -> Result<Running, TestpmdError> {
        let parts = streams::share(self.streams.len(), self.cores.forward.len());
        let settings = self.settings();
        let mut streams = Vec::new();
        for (core, part) in parts.iter().enumerate() {
            for number in part.clone() {
                streams.push(self.stream(number, core, &make)?);
            }
        }
        if self.plan.flush_rx && !self.plan.built_in() {
            let mut queues: Vec<_> = streams
                .iter_mut()
                .filter(|s| !self.is_finite(self.streams[s.number].rx.0))
                .map(|s| &mut s.rx)
                .collect();
            flush(&mut queues);
        }
        let baseline: Vec<_> = self.rig.ports.iter().map(|p| p.port.stats()).collect();
        if self.plan.tx_first > 0 {
            for s in &mut streams {
                let mut maker = TxOnly::new(&self.context(s.number, 0), &self.plan.txonly)?;
                s.send_first(&mut maker, self.plan.tx_first, &settings, &|| self.signals.is_set());
            }
        }
        let tester = match self.tester_pool.clone() {
            Some(pool) => {
                let contexts: Vec<_> = (0..self.streams.len()).map(|n| self.context(n, 0)).collect();
                let source = (&pool, &self.clock);
                Some(tester::wire(&self.plan, &self.rig, &self.streams, &contexts, source)?)
            }
            None => None,
        };
        let views: Vec<_> = streams
            .iter()
            .map(|s| StreamView { plan: self.streams[s.number], shown: s.shown.clone() })
            .collect();
        self.introduce(&parts);
        let threads = Threads::launch(&self.cores, &self.streams, streams, parts, tester, settings)?;
        Ok(Running { threads, views, baseline })
    }

    /// The end of a run: the threads joined, the ports stopped and closed, everything counted; with what went wrong.
    fn end(mut self, running: Running, early: bool) -> (Report, Vec<String>) {
        let (cores, results, tester, mut faults) = running.threads.join();
        if early {
            self.out.say("All inputs have ended.");
        }
        faults.extend(self.rig.stop().into_iter().map(|e| format!("{e}\n  hint: {}", e.hint())));
        let mut report = self.report(&running.baseline, cores, results, tester);
        report.pools = self.close(&mut faults);
        faults.extend(report.tester.as_ref().and_then(TesterCounts::fault));
        (report, faults)
    }

    fn settings(&self) -> Settings {
        Settings {
            burst: self.rig.burst,
            retries: self.plan.retries,
            retry_cycles: self.clock.scale().ns_to_cycles(self.plan.retry_delay.as_nanos() as u64),
            record_cycles: self.plan.record_cycles,
            record_bursts: self.plan.record_bursts,
        }
    }

    fn is_finite(&self, port: usize) -> bool {
        self.rig.ports[port].port.info().capabilities.contains(Capabilities::FINITE_INPUT)
    }

    fn peer_of(&self, port: usize) -> MacAddr {
        self.plan.peers.get(port).copied().flatten().unwrap_or(MacAddr::peer(port as u8))
    }

    fn context(&self, stream: usize, core: usize) -> StreamContext {
        let out = self.streams[stream].tx.0;
        let port = &self.rig.ports[out];
        StreamContext { peer: self.peer_of(out), own: port.mac, pool: port.pool.clone(), core: core as u8 }
    }

    fn stream<M: Mode>(
        &mut self,
        number: usize,
        core: usize,
        make: impl Fn(&StreamContext) -> Result<M, TestpmdError>,
    ) -> Result<Stream<M>, TestpmdError> {
        let mode = make(&self.context(number, core))?;
        let StreamPlan { rx, tx } = self.streams[number];
        let p = &mut self.rig.ports[rx.0];
        let rx = p.port.take_rx(QueueId(rx.1)).map_err(|e| p.fail(e))?;
        let p = &mut self.rig.ports[tx.0];
        let tx = p.port.take_tx(QueueId(tx.1)).map_err(|e| p.fail(e))?;
        Ok(Stream::new(number, rx, tx, mode))
    }

    /// What runs where, before it does.
    pub fn introduce(&self, parts: &[Range<usize>]) {
        let p = &self.plan;
        self.out.say(&format!(
            "{} packet forwarding - ports={} - cores={} - streams={} - burst={}",
            p.mode.as_str(),
            p.forward.len(),
            parts.len(),
            self.streams.len(),
            self.rig.burst
        ));
        for (core, part) in self.cores.forward.iter().zip(parts) {
            for s in &self.streams[part.clone()] {
                self.out.say(&format!(
                    "  core {core}: RX P={}/Q={} ({}) -> TX P={}/Q={} ({}) peer={}",
                    s.rx.0,
                    s.rx.1,
                    self.rig.ports[s.rx.0].port.info().name,
                    s.tx.0,
                    s.tx.1,
                    self.rig.ports[s.tx.0].port.info().name,
                    self.peer_of(s.tx.0),
                ));
            }
        }
        if p.built_in() {
            let at = self.cores.tester.unwrap_or(self.cores.forward[0]);
            let shared =
                if self.cores.tester.is_some() { "" } else { ", which it shares with the forwarder" };
            self.out.say(&format!("  core {at}: the tester{shared}"));
        }
        for pool in &self.rig.pools {
            self.out.say(&format!(
                "  pool {}: {} buffers; {}",
                pool.name(),
                pool.buffers(),
                pool.memory_report()
            ));
        }
    }

    /// Waits until the run ends, and says what moves meanwhile; whether all inputs ended before.
    fn watch(&mut self, Running { threads, views, .. }: &Running) -> bool {
        let start = Instant::now();
        let period = self.plan.stats_period.unwrap_or(Duration::from_secs(1));
        let second = Duration::from_secs(1);
        let mut live = Live::new(self.clock.now_ns(), &self.rig.ports);
        let (mut next_show, mut next_look) = (start + period, start + second);
        let end = self.plan.duration.map(|d| start + d);
        let (mut moved, mut silent, mut told) = (0, 0, false);
        let early = loop {
            let now = Instant::now();
            if self.signals.is_set() || threads.broken.load(Relaxed) || end.is_some_and(|end| now >= end) {
                break false;
            }
            if threads.forward.iter().all(|(_, _, handle)| handle.is_finished()) {
                break true;
            }
            if now >= next_show {
                let dropped = views.iter().map(|v| v.shown.dropped.get()).sum();
                let now_ns = self.clock.now_ns();
                let text = match self.plan.stats_period {
                    Some(_) => live.blocks(now_ns, &self.rig.ports, &self.plan.xstats),
                    None => live.line(now_ns, &self.rig.ports, dropped),
                };
                self.out.say(&text);
                next_show += period;
            }
            if now >= next_look {
                next_look += second;
                let so_far = self.moved();
                silent = if so_far == moved { silent + 1 } else { 0 };
                moved = so_far;
                told &= silent > 0;
                if silent >= SILENCE && !told {
                    told = true;
                    let cause = diagnose::cause(&mut self.rig, views, self.plan.mode);
                    self.out.say(&cause.line(silent));
                }
            }
            let next = [Some(next_show), Some(next_look), end].into_iter().flatten().min().unwrap_or(now);
            thread::park_timeout(next.saturating_duration_since(now).min(TICK));
        };
        wind_down(threads);
        early
    }

    /// Packets that the forwarding ports have moved.
    fn moved(&self) -> u64 {
        let stats = |&p: &usize| self.rig.ports[p].port.stats();
        self.plan.forward.iter().map(stats).map(|s| s.rx_packets + s.tx_packets).sum()
    }

    /// What has been done since the ports' counters were as in `baseline`; the pools are left out.
    pub fn report(
        &self,
        baseline: &[PortStats],
        cores: Vec<CoreResult>,
        streams: Vec<StreamResult>,
        tester: Option<TesterCounts>,
    ) -> Report {
        let results = self.rig.ports.iter().zip(baseline).map(|(p, before)| PortResult {
            name: p.port.info().name.clone(),
            stats: p.port.stats().since(before),
        });
        let mut report = Report {
            mode: self.plan.mode,
            record_cycles: self.plan.record_cycles,
            record_bursts: self.plan.record_bursts,
            forward: self.plan.forward.clone(),
            ports: results.collect(),
            streams,
            cores,
            pools: Vec::new(),
            tester,
            tsc: match self.clock {
                Clock::Real(clock) => clock,
                Clock::Virtual(_) => TscClock::shared(),
            },
        };
        self.complete_tester(&mut report);
        report
    }

    /// Closes the stopped ports; the pools as they then are. Adds what the ports had to tell, and what leaked.
    pub fn close(mut self, faults: &mut Vec<String>) -> Vec<PoolResult> {
        for p in &mut self.rig.ports {
            for event in p.port.events() {
                faults.extend(told(&p.spec, &event));
            }
        }
        faults.extend(self.rig.close().into_iter().map(|e| format!("{e}\n  hint: {}", e.hint())));
        drop(std::mem::take(&mut self.rig.ports));
        let mut pools = Vec::new();
        for pool in self.rig.pools.iter().chain(&self.tester_pool) {
            let counts = pool.counts();
            let (total, free, held) = (counts.total, counts.free, counts.held);
            let (name, memory) = (pool.name().to_string(), pool.memory_report());
            if held > 0 {
                faults.push(format!("pool {name}: {held} of {total} buffers leaked"));
            } else if let Err(e) = pool.audit() {
                faults.push(format!("pool {name}: {e}"));
            }
            pools.push(PoolResult { name, total, free, held, memory });
        }
        pools
    }

    /// What the tester cannot see: where nothing comes back, or nothing is sent by it.
    fn complete_tester(&self, report: &mut Report) {
        let (rx, tx) = (report.rx(), report.tx());
        let offered = report.streams.iter().map(|s| s.counts.offered).sum();
        let Some(t) = &mut report.tester else { return };
        match self.plan.mode {
            ModeName::Rxonly | ModeName::Icmpecho => {
                t.received = rx;
                t.lost = t.sent.saturating_sub(rx);
            }
            ModeName::Txonly => {
                (t.offered, t.sent) = (offered, tx);
                // A frame that came back too often is one too many, not one too few.
                t.lost = tx.saturating_sub(t.received);
                t.duplicated += t.received.saturating_sub(tx);
            }
            _ => {}
        }
    }
}

/// Lets what is on its way arrive where somebody waits for it, then tells all threads to end.
pub(super) fn wind_down(threads: &Threads) {
    if let Some(drained) = &threads.drained {
        threads.phase.set(Phase::DRAIN);
        let end = Instant::now() + DRAIN;
        while !drained.load(Relaxed) && !threads.broken.load(Relaxed) && Instant::now() < end {
            thread::sleep(Duration::from_millis(1));
        }
    }
    threads.phase.set(Phase::STOP);
}

/// A fault that a port reported while it ran.
fn told(spec: &str, event: &PortEvent) -> Option<String> {
    match event {
        PortEvent::QueueError { kind, queue, what } => {
            Some(format!("--port {spec}: {kind} queue {queue}: {what}"))
        }
        PortEvent::Removed => Some(format!("--port {spec}: the device is gone")),
        _ => None,
    }
}
