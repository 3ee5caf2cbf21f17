//! The report at the end of a run, as testpmd prints it, with what it leaves out: rates with their units, each
//! core's share of its time, the tester's four values, and whether every buffer came home.

use super::{
    engine::{BadChecksums, CoreRun, Counts},
    histogram::Histogram,
    modes::ModeName,
    streams::StreamPlan,
    tester::TesterCounts,
};
use linerate_mem::{CoreId, TscClock};
use linerate_port::PortStats;
use std::fmt::Write;

/// What a stream did.
#[derive(Clone, Debug)]
pub(super) struct StreamResult {
    pub plan: StreamPlan,
    pub counts: Counts,
    pub bad: Option<BadChecksums>,
    pub rx_bursts: Histogram,
    pub tx_bursts: Histogram,
}

/// What a port did since the start.
#[derive(Clone, Debug)]
pub(super) struct PortResult {
    pub name: String,
    pub stats: PortStats,
}

/// What a forwarding core did.
#[derive(Clone, Debug)]
pub(super) struct CoreResult {
    pub core: CoreId,
    pub run: CoreRun,
    pub streams: usize,
    /// The tester ran on it too.
    pub with_tester: bool,
}

/// A pool at the end.
#[derive(Clone, Debug)]
pub(super) struct PoolResult {
    pub name: String,
    pub total: u32,
    pub free: u32,
    pub held: u32,
    /// Which memory it has.
    pub memory: String,
}

/// A run.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub mode: ModeName,
    pub record_cycles: bool,
    pub record_bursts: bool,
    /// Ports that forwarded, by number, in the order in which they were listed.
    pub forward: Vec<usize>,
    pub ports: Vec<PortResult>,
    pub streams: Vec<StreamResult>,
    pub cores: Vec<CoreResult>,
    pub pools: Vec<PoolResult>,
    pub tester: Option<TesterCounts>,
    pub tsc: TscClock,
}

/// Bytes on the wire beside a frame as it is counted: check sequence, preamble and gap.
const WIRE_OVERHEAD: u64 = 4 + 20;

impl Report {
    /// Sum over all streams.
    fn sum(&self, of: impl Fn(&Counts) -> u64) -> u64 {
        self.streams.iter().map(|s| of(&s.counts)).sum()
    }

    /// Packets that the engine received.
    pub fn rx(&self) -> u64 {
        self.sum(|c| c.rx)
    }

    /// Packets that the engine sent.
    pub fn tx(&self) -> u64 {
        self.sum(|c| c.tx)
    }

    /// Packets that no port took.
    pub fn dropped(&self) -> u64 {
        self.sum(|c| c.dropped)
    }

    /// Packets that figures a packet are about: those sent where they are made, else those received.
    fn counted(&self) -> u64 {
        if self.mode.counts_sent() { self.tx() } else { self.rx() }
    }

    fn hz(&self) -> f64 {
        self.tsc.hz() as f64
    }

    /// Seconds that the rate is taken over: from the first poll to the end of the run, or of the input.
    pub fn duration_s(&self) -> f64 {
        self.cores.iter().map(|c| c.run.cycles).max().unwrap_or(0) as f64 / self.hz()
    }

    /// Millions of packets a second; `None` when no time passed.
    pub fn mpps(&self) -> Option<f64> {
        let packets: u64 =
            self.cores.iter().map(|c| if self.mode.counts_sent() { c.run.tx } else { c.run.rx }).sum();
        let seconds = self.duration_s();
        (seconds > 0.0).then(|| packets as f64 / seconds / 1e6)
    }

    /// Cycles a packet in calls that did work; `None` when they were not recorded or nothing moved.
    pub fn cycles_per_packet(&self) -> Option<f64> {
        let packets = self.counted();
        (self.record_cycles && packets > 0).then(|| self.sum(|c| c.busy_cycles) as f64 / packets as f64)
    }

    /// Cycles a packet that the forwarding threads were on a core; `None` when nothing moved.
    pub fn on_cpu_cycles_per_packet(&self) -> Option<f64> {
        let packets = self.counted();
        let ns: u64 = self.cores.iter().map(|c| c.run.time.on_cpu_ns).sum();
        (packets > 0).then(|| ns as f64 / 1e9 * self.hz() / packets as f64)
    }

    /// Packets for a port that the engine could not hand over.
    pub fn dropped_at(&self, port: usize) -> u64 {
        self.streams.iter().filter(|s| s.plan.tx.0 == port).map(|s| s.counts.dropped).sum()
    }

    /// All bursts received, or sent.
    pub fn bursts(&self, rx: bool) -> Histogram {
        let mut all = Histogram::new();
        for s in &self.streams {
            all.add(if rx { &s.rx_bursts } else { &s.tx_bursts });
        }
        all
    }

    fn bad_at(&self, port: usize) -> Option<BadChecksums> {
        let mut all: Option<BadChecksums> = None;
        for bad in self.streams.iter().filter(|s| s.plan.rx.0 == port).filter_map(|s| s.bad) {
            all.get_or_insert_default().add(&bad);
        }
        all
    }

    /// The whole text.
    pub fn text(&self) -> String {
        let mut t = String::new();
        if self.streams.len() > self.forward.len() {
            for s in &self.streams {
                self.stream_block(&mut t, s);
            }
        }
        t += &self.blocks();
        self.cycles_line(&mut t);
        self.rate_lines(&mut t);
        if let Some(c) = &self.tester {
            _ = writeln!(
                t,
                "\n  Tester: offered {}, sent {}, received {}, lost {}; corrupt {}, out of order {}, duplicated {}",
                c.offered, c.sent, c.received, c.lost, c.corrupt, c.reordered, c.duplicated
            );
        }
        self.ends(&mut t);
        t
    }

    /// The blocks of the ports and their sum.
    pub fn blocks(&self) -> String {
        let mut t = String::new();
        let mut sum = Block::default();
        for &number in &self.forward {
            let Some(port) = self.ports.get(number) else { continue };
            sum.add(&self.port_block(&mut t, number, port));
        }
        sum.accumulated(&mut t);
        t
    }

    fn stream_block(&self, t: &mut String, s: &StreamResult) {
        if s.counts.rx == 0 && s.counts.tx == 0 && s.counts.dropped == 0 {
            return;
        }
        let (from, to) = (s.plan.rx, s.plan.tx);
        _ = writeln!(
            t,
            "\n  ------- Forward Stats for RX Port={:2}/Queue={:2} -> TX Port={:2}/Queue={:2} -------",
            from.0, from.1, to.0, to.1
        );
        let c = &s.counts;
        _ = writeln!(t, "  RX-packets: {:<14} TX-packets: {:<14} TX-dropped: {:<14}", c.rx, c.tx, c.dropped);
        bad_lines(t, s.bad);
        burst_lines(t, &s.rx_bursts, &s.tx_bursts);
    }

    fn port_block(&self, t: &mut String, number: usize, port: &PortResult) -> Block {
        let s = &port.stats;
        let block = Block {
            rx: s.rx_packets,
            missed: s.rx_missed,
            nombuf: s.rx_nombuf,
            tx: s.tx_packets,
            dropped: self.dropped_at(number) + s.tx_errors,
        };
        _ = writeln!(
            t,
            "\n  ---------------------- Forward statistics for port {number:<2} ----------------------"
        );
        block.rx_line(t);
        bad_lines(t, self.bad_at(number));
        if s.rx_errors + s.rx_nombuf > 0 {
            _ = writeln!(t, "  RX-error: {}", s.rx_errors);
            _ = writeln!(t, "  RX-nombufs: {:<14}", s.rx_nombuf);
        }
        block.tx_line(t);
        if self.streams.len() <= self.forward.len() {
            let none = Histogram::new();
            let from = self.streams.iter().find(|s| s.plan.rx.0 == number).map(|s| &s.rx_bursts);
            let to = self.streams.iter().find(|s| s.plan.tx.0 == number).map(|s| &s.tx_bursts);
            burst_lines(t, from.unwrap_or(&none), to.unwrap_or(&none));
        }
        _ = writeln!(t, "  {}", "-".repeat(76));
        block
    }

    fn cycles_line(&self, t: &mut String) {
        if !self.record_cycles {
            return;
        }
        let (busy, packets) = (self.sum(|c| c.busy_cycles), self.counted());
        if self.rx() == 0 && self.tx() == 0 {
            return;
        }
        let each = self.cycles_per_packet().map_or("n/a".into(), |c| format!("{c:.2}"));
        let mode = self.mode.as_str();
        _ = writeln!(
            t,
            "\n  CPU cycles/packet={each} (busy cycles={busy} / total {mode} packets={packets}) at {} MHz Clock",
            self.tsc.hz() / 1_000_000
        );
    }

    fn rate_lines(&self, t: &mut String) {
        let Some(mpps) = self.mpps() else { return };
        let way = if self.mode.counts_sent() { "sent" } else { "received" };
        _ = write!(t, "\n  Rate: {mpps:.3} Mpps {way} over {:.3} s", self.duration_s());
        let bytes: Option<u64> = self
            .forward
            .iter()
            .filter_map(|&p| self.ports.get(p))
            .map(|p| if self.mode.counts_sent() { p.stats.tx_bytes } else { p.stats.rx_bytes })
            .sum();
        let packets: u64 = self
            .forward
            .iter()
            .filter_map(|&p| self.ports.get(p))
            .map(|p| if self.mode.counts_sent() { p.stats.tx_packets } else { p.stats.rx_packets })
            .sum();
        // From counters of the whole run, scaled to the rate's interval.
        if let Some(bytes) = bytes.filter(|_| packets > 0) {
            let gbps = |bytes: u64| mpps * 1e6 * (bytes as f64 / packets as f64) * 8.0 / 1e9;
            _ = write!(
                t,
                " = {:.3} Gbps of frames (L2), {:.3} Gbps on a wire (L1)",
                gbps(bytes),
                gbps(bytes + WIRE_OVERHEAD * packets)
            );
        }
        _ = writeln!(t);
        if let Some(cycles) = self.on_cpu_cycles_per_packet() {
            _ = writeln!(
                t,
                "  On-CPU cycles/packet: {cycles:.2} (time of the forwarding threads, idle polls included)"
            );
        }
    }

    /// Cores, clock and pools.
    fn ends(&self, t: &mut String) {
        _ = writeln!(t);
        for c in &self.cores {
            let time = &c.run.time;
            let share = time.share().map_or("n/a".into(), |s| format!("{:.1} %", s * 100.0));
            _ = write!(
                t,
                "  Core {}: {} stream{}{}, on CPU {:.3} s of {:.3} s ({share})",
                c.core,
                c.streams,
                if c.streams == 1 { "" } else { "s" },
                if c.with_tester { " and the tester" } else { "" },
                time.on_cpu_ns as f64 / 1e9,
                time.wall_ns as f64 / 1e9,
            );
            if time.involuntary_switches > 0 {
                _ = write!(t, ", {} times taken off it", time.involuntary_switches);
            }
            _ = writeln!(t);
        }
        _ = writeln!(t, "  Clock: {}", self.tsc);
        for p in &self.pools {
            let verdict = if p.held == 0 { "nothing leaked".into() } else { format!("{} LEAKED", p.held) };
            _ = writeln!(
                t,
                "  Pool {}: {} buffers, {} free, {} held: {verdict}; {}",
                p.name, p.total, p.free, p.held, p.memory
            );
        }
    }
}

/// The six numbers of a block.
#[derive(Clone, Copy, Debug, Default)]
struct Block {
    rx: u64,
    missed: u64,
    nombuf: u64,
    tx: u64,
    dropped: u64,
}

impl Block {
    fn add(&mut self, other: &Block) {
        self.rx += other.rx;
        self.missed += other.missed;
        self.nombuf += other.nombuf;
        self.tx += other.tx;
        self.dropped += other.dropped;
    }

    fn rx_line(&self, t: &mut String) {
        let (rx, missed) = (self.rx, self.missed);
        _ = writeln!(t, "  RX-packets: {rx:<14} RX-dropped: {missed:<13} RX-total: {}", rx + missed);
    }

    fn tx_line(&self, t: &mut String) {
        let (tx, dropped) = (self.tx, self.dropped);
        _ = writeln!(t, "  TX-packets: {tx:<14} TX-dropped: {dropped:<13} TX-total: {}", tx + dropped);
    }

    fn accumulated(&self, t: &mut String) {
        _ = writeln!(t, "\n  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++");
        self.rx_line(t);
        if self.nombuf > 0 {
            _ = writeln!(t, "  RX-nombufs: {:<14}", self.nombuf);
        }
        self.tx_line(t);
        _ = writeln!(t, "  {}", "+".repeat(76));
    }
}

fn bad_lines(t: &mut String, bad: Option<BadChecksums>) {
    let Some(b) = bad else { return };
    _ = writeln!(
        t,
        "  Bad-ipcsum: {:<14} Bad-l4csum: {:<14} Bad-outer-l4csum: {:<14}",
        b.ip, b.l4, b.outer_l4
    );
    _ = writeln!(t, "  Bad-outer-ipcsum: {:<14}", b.outer_ip);
}

fn burst_lines(t: &mut String, rx: &Histogram, tx: &Histogram) {
    for (name, bursts) in [("RX", rx), ("TX", tx)] {
        if let Some(line) = bursts.line() {
            _ = writeln!(t, "  {name}-bursts : {line}");
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use linerate_mem::ThreadTime;

    /// Two ports, a stream each, half a second.
    pub fn sample() -> Report {
        let tsc = TscClock::shared();
        let counts = |rx, tx, dropped| Counts { rx, tx, dropped, offered: tx + dropped, ..Counts::default() };
        let stream = |rx, tx, counts| StreamResult {
            plan: StreamPlan { rx: (rx, 0), tx: (tx, 0) },
            counts,
            bad: None,
            rx_bursts: Histogram::new(),
            tx_bursts: Histogram::new(),
        };
        let port = |name: &str, rx, tx| PortResult {
            name: name.into(),
            stats: PortStats {
                rx_packets: rx,
                tx_packets: tx,
                rx_bytes: Some(rx * 64),
                tx_bytes: Some(tx * 64),
                ..PortStats::default()
            },
        };
        Report {
            mode: ModeName::Io,
            record_cycles: false,
            record_bursts: false,
            forward: vec![0, 1],
            ports: vec![port("null", 1000, 500), port("null", 500, 990)],
            streams: vec![stream(0, 1, counts(1000, 990, 10)), stream(1, 0, counts(500, 500, 0))],
            cores: vec![CoreResult {
                core: CoreId(3),
                run: CoreRun {
                    time: ThreadTime {
                        on_cpu_ns: 400_000_000,
                        wall_ns: 500_000_000,
                        ..ThreadTime::default()
                    },
                    cycles: tsc.hz() / 2,
                    rx: 1500,
                    tx: 1490,
                    ..CoreRun::default()
                },
                streams: 2,
                with_tester: false,
            }],
            pools: vec![PoolResult {
                name: "mbufs0".into(),
                total: 9,
                free: 9,
                held: 0,
                memory: "memory: 2.0 MiB".into(),
            }],
            tester: None,
            tsc,
        }
    }

    #[test]
    fn ports_sums_and_the_accumulated_block_are_testpmds() {
        let text = sample().text();
        for line in [
            "  RX-packets: 1000           RX-dropped: 0             RX-total: 1000",
            "  TX-packets: 990            TX-dropped: 10            TX-total: 1000",
            "  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++\n  RX-packets: 1500           RX-dropped: 0             RX-total: 1500\n  TX-packets: 1490           TX-dropped: 10            TX-total: 1500",
            "  Core 3: 2 streams, on CPU 0.400 s of 0.500 s (80.0 %)",
            "  Pool mbufs0: 9 buffers, 9 free, 0 held: nothing leaked; memory: 2.0 MiB",
        ] {
            assert!(text.contains(line), "{line}\n{text}");
        }
        for absent in
            ["  CPU cycles/packet", "RX-error", "RX-nombufs", "bursts", "Forward Stats", "Bad-", "Tester"]
        {
            assert!(!text.contains(absent), "{absent}");
        }
        assert!(
            text.contains("Rate: 0.003 Mpps received over 0.500 s = 0.002 Gbps of frames (L2)"),
            "{text}"
        );
    }

    #[test]
    fn errors_are_those_since_the_start_and_shown_only_when_there_are_any() {
        let mut r = sample();
        r.ports[0].stats.rx_errors = 3;
        r.ports[1].stats.rx_nombuf = 4;
        r.ports[1].stats.tx_errors = 5;
        let text = r.text();
        assert!(text.contains("  RX-error: 3\n  RX-nombufs: 0 "), "{text}");
        assert!(text.contains("  RX-error: 0\n  RX-nombufs: 4 "), "{text}");
        // Failed transmissions count as dropped, beside what the engine could not hand over.
        assert!(text.contains("TX-dropped: 15            TX-total: 1005"), "{text}");
        assert_eq!(text.matches("RX-nombufs").count(), 3);
    }

    #[test]
    fn cycles_are_shown_when_recorded_and_never_divided_by_zero() {
        let mut r = sample();
        r.record_cycles = true;
        r.streams[0].counts.busy_cycles = 20_000;
        r.streams[1].counts.busy_cycles = 2_505;
        let mhz = r.tsc.hz() / 1_000_000;
        let line = format!(
            "  CPU cycles/packet=15.00 (busy cycles=22505 / total io packets=1500) at {mhz} MHz Clock"
        );
        assert!(r.text().contains(&line), "{}", r.text());
        assert_eq!(r.cycles_per_packet(), Some(22505.0 / 1500.0));
        // txonly counts what is sent; with nothing sent there is no figure.
        r.mode = ModeName::Txonly;
        assert_eq!(r.cycles_per_packet(), Some(22505.0 / 1490.0));
        r.streams.iter_mut().for_each(|s| s.counts.tx = 0);
        assert_eq!((r.cycles_per_packet(), r.on_cpu_cycles_per_packet()), (None, None));
        assert!(r.text().contains("CPU cycles/packet=n/a (busy"), "{}", r.text());
        r.streams.iter_mut().for_each(|s| s.counts.rx = 0);
        assert!(!r.text().contains("  CPU cycles/packet"));
    }

    #[test]
    fn streams_are_shown_when_there_are_more_than_ports_and_bursts_then_with_them() {
        let mut r = sample();
        r.record_bursts = true;
        for _ in 0..4 {
            r.streams[0].rx_bursts.count(32);
            r.streams[0].tx_bursts.count(30);
        }
        let text = r.text();
        assert!(text.contains("  RX-bursts : 4 [0% of 0 pkts + 100% of 32 pkts]"), "{text}");
        assert!(text.contains("  TX-bursts : 4 [0% of 0 pkts + 100% of 30 pkts]"), "{text}");
        assert!(!text.contains("Forward Stats for RX Port"));
        let mut more = r.streams[0].clone();
        more.plan = StreamPlan { rx: (0, 1), tx: (1, 1) };
        more.bad = Some(BadChecksums { ip: 7, ..BadChecksums::default() });
        let mut idle = r.streams[1].clone();
        idle.plan = StreamPlan { rx: (1, 1), tx: (0, 1) };
        idle.counts = Counts::default();
        r.streams.extend([more, idle]);
        let text = r.text();
        assert!(text.contains("Forward Stats for RX Port= 0/Queue= 1 -> TX Port= 1/Queue= 1 -------\n  RX-packets: 1000           TX-packets: 990            TX-dropped: 10"), "{text}");
        assert!(!text.contains("RX Port= 1/Queue= 1"), "nothing moved there");
        assert!(text.contains("Bad-ipcsum: 7 "), "{text}");
        assert_eq!(text.matches("RX-bursts").count(), 2);
        assert_eq!(r.bursts(true).total(), 8);
    }

    #[test]
    fn a_run_that_moved_nothing_prints_zeros() {
        let mut r = sample();
        r.streams.iter_mut().for_each(|s| s.counts = Counts::default());
        r.ports.iter_mut().for_each(|p| p.stats = PortStats::default());
        r.cores[0].run = CoreRun::default();
        let text = r.text();
        assert!(text.contains("RX-packets: 0              RX-dropped: 0             RX-total: 0"));
        assert!(!text.contains("Rate:") && !text.contains("NaN") && !text.contains("inf"), "{text}");
    }
}
