//! What is said while packets move: a line each second, or all ports each period.

use super::{error::TestpmdError, rig::RigPort};
use linerate_port::{PortStats, Xstat, stats::rate};
use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

/// Remembers the counters of the last time, so that each line is about its own interval.
#[derive(Debug)]
pub(super) struct Live {
    start_ns: u64,
    last_ns: u64,
    last: Vec<PortStats>,
    last_dropped: u64,
    last_xstats: Vec<BTreeMap<String, u64>>,
}

impl Live {
    /// Begins now, with the ports' counters as they are.
    pub fn new(now_ns: u64, ports: &[RigPort]) -> Self {
        Live {
            start_ns: now_ns,
            last_ns: now_ns,
            last: ports.iter().map(|p| p.port.stats()).collect(),
            last_dropped: 0,
            last_xstats: vec![BTreeMap::new(); ports.len()],
        }
    }

    /// What all ports have moved since the last call; the rates' interval ends now.
    fn step(&mut self, now_ns: u64, ports: &[RigPort]) -> (Vec<PortStats>, u64) {
        let now: Vec<_> = ports.iter().map(|p| p.port.stats()).collect();
        let delta = now.iter().zip(&self.last).map(|(n, l)| n.since(l)).collect();
        self.last = now;
        (delta, now_ns.saturating_sub(std::mem::replace(&mut self.last_ns, now_ns)))
    }

    /// The line of one interval; `dropped` is the engine's count so far.
    pub fn line(&mut self, now_ns: u64, ports: &[RigPort], dropped: u64) -> String {
        let (delta, ns) = self.step(now_ns, ports);
        let new_drops = dropped.saturating_sub(std::mem::replace(&mut self.last_dropped, dropped));
        line(now_ns.saturating_sub(self.start_ns), &delta, ns, new_drops)
    }

    /// All ports, and the further counters by these names, with their rates since the last call.
    pub fn blocks(&mut self, now_ns: u64, ports: &[RigPort], names: &[String]) -> String {
        let (delta, ns) = self.step(now_ns, ports);
        let mut t = String::new();
        for (number, ((p, d), last)) in ports.iter().zip(&delta).zip(&mut self.last_xstats).enumerate() {
            let xstats = if names.is_empty() { Vec::new() } else { p.port.xstats() };
            block(&mut t, number, &self.last[number], d, ns);
            for name in names {
                xstat(&mut t, name, &xstats, last, ns);
            }
            _ = writeln!(t, "  {}", "#".repeat(76));
        }
        t
    }
}

/// Whether each of these further counters (`--display-xstats`) is one of a port's.
///
/// # Errors
///
/// The first that no port has.
pub(super) fn check_names(names: &[String], ports: &[RigPort]) -> Result<(), TestpmdError> {
    if names.is_empty() {
        return Ok(());
    }
    let known: BTreeSet<String> = ports.iter().flat_map(|p| p.port.xstats()).map(|x| x.name).collect();
    match names.iter().find(|n| !known.contains(*n)) {
        Some(name) => Err(TestpmdError::Option {
            option: "--display-xstats",
            why: format!("no port has a counter {name:?}"),
            hint: format!("near are {}", near(name, &known).join(", ")),
        }),
        None => Ok(()),
    }
}

/// Up to eight names that share most pairs of letters with this one.
fn near<'a>(name: &str, known: &'a BTreeSet<String>) -> Vec<&'a str> {
    let shared = |other: &str| {
        name.as_bytes().windows(2).filter(|p| other.as_bytes().windows(2).any(|q| q == *p)).count()
    };
    let mut list: Vec<_> = known.iter().map(String::as_str).collect();
    list.sort_by_key(|other| std::cmp::Reverse(shared(other)));
    list.truncate(8);
    list
}

/// Gbps of frames, if the ports count bytes.
fn gbps(bytes: Option<u64>, ns: u64) -> String {
    let rate = bytes.and_then(|b| rate(b, ns));
    rate.map_or("n/a".into(), |b| format!("{:.3}", b * 8.0 / 1e9))
}

fn line(elapsed_ns: u64, delta: &[PortStats], ns: u64, dropped: u64) -> String {
    let sum = |of: fn(&PortStats) -> u64| delta.iter().map(of).sum::<u64>();
    let bytes = |of: fn(&PortStats) -> Option<u64>| delta.iter().map(of).sum::<Option<u64>>();
    let mpps = |n| rate(n, ns).unwrap_or(0.0) / 1e6;
    let mut t = format!(
        "{:5.0} s  rx {:.3} Mpps {} Gbps  tx {:.3} Mpps {} Gbps  drops {dropped}",
        elapsed_ns as f64 / 1e9,
        mpps(sum(|s| s.rx_packets)),
        gbps(bytes(|s| s.rx_bytes), ns),
        mpps(sum(|s| s.tx_packets)),
        gbps(bytes(|s| s.tx_bytes), ns),
    );
    for (what, count) in [
        ("missed", sum(|s| s.rx_missed)),
        ("no buffer", sum(|s| s.rx_nombuf)),
        ("rx errors", sum(|s| s.rx_errors)),
        ("tx errors", sum(|s| s.tx_errors)),
    ] {
        if count > 0 {
            _ = write!(t, "  {what} {count}");
        }
    }
    t
}

/// A port's counters, and what they have moved by in so many nanoseconds.
pub(super) fn block(t: &mut String, number: usize, all: &PortStats, d: &PortStats, ns: u64) {
    let bytes = |b: Option<u64>| b.map_or("n/a".into(), |b| b.to_string());
    let pps = |n| rate(n, ns).unwrap_or(0.0) as u64;
    let bps = |b: Option<u64>| b.map_or("n/a".into(), |b| pps(b.saturating_mul(8)).to_string());
    _ = writeln!(
        t,
        "\n  ######################## NIC statistics for port {number:<2} ########################"
    );
    _ = writeln!(
        t,
        "  RX-packets: {:<10} RX-missed: {:<10} RX-bytes:  {}",
        all.rx_packets,
        all.rx_missed,
        bytes(all.rx_bytes)
    );
    _ = writeln!(t, "  RX-errors: {:<10}  RX-nombuf:  {:<10}", all.rx_errors, all.rx_nombuf);
    _ = writeln!(
        t,
        "  TX-packets: {:<10} TX-errors: {:<10} TX-bytes:  {}",
        all.tx_packets,
        all.tx_errors,
        bytes(all.tx_bytes)
    );
    _ = writeln!(t, "\n  Throughput (since last show)");
    _ = writeln!(t, "  Rx-pps: {:>12}          Rx-bps: {:>12}", pps(d.rx_packets), bps(d.rx_bytes));
    _ = writeln!(t, "  Tx-pps: {:>12}          Tx-bps: {:>12}", pps(d.tx_packets), bps(d.tx_bytes));
}

fn xstat(t: &mut String, name: &str, xstats: &[Xstat], last: &mut BTreeMap<String, u64>, ns: u64) {
    let Some(x) = xstats.iter().find(|x| x.name == name) else { return };
    // The first time there is nothing to compare with.
    let before = last.insert(name.into(), x.value).unwrap_or(x.value);
    let per_second = rate(x.value.saturating_sub(before), ns).unwrap_or(0.0) as u64;
    _ = writeln!(t, "  {name}: {:<20} {per_second}/s", x.value);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_come_first() {
        let known = ["rx_q0_packets", "tx_q0_bytes", "tx_q0_packets"].map(String::from).into();
        assert_eq!(near("tx_packets", &known)[0], "tx_q0_packets");
        assert_eq!(near("rx_q9_packets", &known)[0], "rx_q0_packets");
    }

    #[test]
    fn a_line_is_about_its_interval_and_has_units() {
        let d = PortStats {
            rx_packets: 1_000_000,
            tx_packets: 500_000,
            rx_bytes: Some(64_000_000),
            ..PortStats::default()
        };
        let s = line(3_000_000_000, &[d, d], 2_000_000_000, 7);
        assert_eq!(s, "    3 s  rx 1.000 Mpps 0.512 Gbps  tx 0.500 Mpps n/a Gbps  drops 7");
        let bad = PortStats { rx_missed: 4, rx_nombuf: 5, ..d };
        assert!(line(0, &[bad], 1, 0).ends_with("drops 0  missed 4  no buffer 5"));
        assert!(line(0, &[d], 0, 0).contains("rx 0.000 Mpps n/a"), "no interval, no rate");
    }

    #[test]
    fn a_block_has_testpmds_labels() {
        let mut t = String::new();
        let s = PortStats { rx_packets: 9, tx_bytes: Some(100), ..PortStats::default() };
        block(&mut t, 1, &s, &s, 500_000_000);
        for label in
            ["NIC statistics for port 1", "RX-packets: 9", "RX-missed: 0", "RX-bytes:  n/a", "TX-bytes:  100"]
        {
            assert!(t.contains(label), "{label}\n{t}");
        }
        assert!(t.contains("Rx-pps:           18") && t.contains("Tx-bps:         1600"), "{t}");
    }

    #[test]
    fn the_first_show_of_a_counter_has_no_rate_and_a_step_back_none_either() {
        let (mut t, mut last) = (String::new(), BTreeMap::new());
        let x = |value| [Xstat { name: "rx_q0_packets".into(), value }];
        xstat(&mut t, "rx_q0_packets", &x(10), &mut last, 1_000_000_000);
        xstat(&mut t, "rx_q0_packets", &x(25), &mut last, 1_000_000_000);
        xstat(&mut t, "rx_q0_packets", &x(5), &mut last, 1_000_000_000);
        xstat(&mut t, "no_such", &x(5), &mut last, 1_000_000_000);
        let rates: Vec<_> = t.lines().filter_map(|l| l.split_whitespace().last()).collect();
        assert_eq!(rates, ["0/s", "15/s", "0/s"]);
    }
}
