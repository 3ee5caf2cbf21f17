//! The rows of testpmd: what is forwarded, on both sides, and how a rate is taken.
//!
//! Rates are taken with recording off: it costs two TSC reads a burst, a quarter of the rate on ring ports.
//! The rows of a file read once are too short for a rate, so there both sides record the cycles of their busy
//! polls, and the rate is the TSC's frequency divided by them.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::ours::{Forward, Ours};
use super::process::twice;
use super::setup::Places;
use super::table::{Row, Side, Want};
use super::testpmd::{Report, Testpmd};
use super::{Cores, capture};

/// Packets in the capture that is read once.
const FILE_PACKETS: u32 = 1_000_000;
/// Packets in the capture that is replayed.
const REPLAY_PACKETS: u32 = 256;
/// mbufs on both sides; without huge pages fewer, as DPDK then needs memory of ordinary pages up front.
const MBUFS: u32 = 32_768;
const MBUFS_NO_HUGE: u32 = 16_384;
/// Per-core cache on both sides.
const CACHE: u32 = 250;
/// Bursts that fill the ring ports before they circulate.
const PRIME: u32 = 4;
/// What testpmd runs in before the rate is taken.
const SETTLE: Duration = Duration::from_millis(300);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ports {
    Null,
    Ring,
    Replay,
    FileToDrop,
    FileToFile,
}

#[derive(Debug, Clone, Copy)]
struct Setting {
    ports: Ports,
    mode: &'static str,
    burst: u32,
    huge: bool,
}

impl Setting {
    /// Whether the mode makes packets, so that its rate is that of the ones sent.
    fn counts_sent(self) -> bool {
        matches!(self.mode, "txonly" | "flowgen")
    }
}

/// One row and how to measure it.
#[derive(Debug)]
pub struct Case {
    /// The group that `--groups` names.
    pub group: &'static str,
    setting: Setting,
    /// The row that the samples go to.
    pub row: Row,
}

/// One measurement.
#[derive(Debug, Clone, Copy)]
struct Rate {
    mpps: f64,
    /// Cycles a packet: on the CPU, or in busy polls for a file.
    cycles: Option<f64>,
    on_cpu_mpps: Option<f64>,
}

/// All rows of testpmd, in the order of the issue's table.
pub fn cases() -> Vec<Case> {
    use Ports::{FileToDrop, FileToFile, Null, Replay, Ring};
    let list = [
        (Null, "io", 32, 1.3),
        (Null, "mac", 32, 1.2),
        (Null, "macswap", 32, 1.2),
        (Null, "rxonly", 32, 1.2),
        (Null, "txonly", 32, 1.2),
        (Null, "flowgen", 32, 1.2),
        (Null, "icmpecho", 32, 1.2),
        (Null, "io", 1, 1.3),
        (Null, "io", 8, 1.3),
        (Ring, "io", 32, 1.0),
        (Ring, "macswap", 32, 1.0),
        (Ring, "5tswap", 32, 1.2),
        (Ring, "csum", 32, 1.2),
        (Replay, "io", 32, 1.2),
        (Replay, "macswap", 32, 1.2),
        (Replay, "5tswap", 32, 1.2),
        (Replay, "csum", 32, 1.2),
        (FileToDrop, "io", 32, 1.3),
        (FileToFile, "io", 32, 1.3),
    ];
    let mut cases: Vec<Case> = list
        .into_iter()
        .map(|(ports, mode, burst, wanted)| {
            let (group, on) = match ports {
                Null => ("null", "two null ports"),
                Ring => ("ring", "two ring ports"),
                Replay => ("pcap", "pcap, infinite replay"),
                FileToDrop => ("pcap", "pcap file once, to drop"),
                FileToFile => ("pcap", "pcap file once, to file"),
            };
            let what = match ports {
                FileToDrop => "/to-drop",
                FileToFile => "/to-file",
                _ => "",
            };
            Case {
                group,
                setting: Setting { ports, mode, burst, huge: true },
                row: Row {
                    id: format!("{group}/{mode}{what}/burst{burst}"),
                    work: format!("testpmd {mode}, {on}, burst {burst}"),
                    unit: "Mpps",
                    want: Want::AtLeast(wanted),
                    ours: Side::new("ours"),
                    peers: vec![Side::new("DPDK")],
                    notes: vec![],
                    pair: None,
                    failed: false,
                },
            }
        })
        .collect();
    cases.push(Case {
        group: "nohuge",
        setting: Setting { ports: Null, mode: "io", burst: 32, huge: false },
        row: Row {
            id: "nohuge/io/burst32".into(),
            work: "testpmd io, two null ports, cycles without huge pages / with".into(),
            unit: "times",
            want: Want::SelfAtMost(1.3),
            ours: Side::new("ours"),
            peers: vec![Side::new("DPDK")],
            notes: vec![],
            pair: None,
            failed: false,
        },
    });
    cases
}

impl Case {
    /// Whether the row needs DPDK's huge pages; all but a part of one do.
    pub fn needs_capture(&self) -> bool {
        matches!(self.setting.ports, Ports::Replay | Ports::FileToDrop | Ports::FileToFile)
    }

    /// Measures both sides once, DPDK first when `dpdk_first`. What fails is noted in the row.
    ///
    /// # Errors
    /// When DPDK fails: then nothing here can be compared.
    pub fn round(&mut self, bench: &Bench<'_>, dpdk_first: bool) -> Result<String> {
        let mut said = Vec::new();
        for dpdk in [dpdk_first, !dpdk_first] {
            let taken = if dpdk {
                Some(twice(|| self.dpdk(bench)).with_context(|| format!("DPDK, at {}", self.row.id))?)
            } else {
                self.ours(bench)
            };
            // A million packets in memory; nobody needs them after.
            let _ = std::fs::remove_file(&bench.places.output);
            let side = if dpdk { &mut self.row.peers[0] } else { &mut self.row.ours };
            let Some(rate) = taken else {
                said.push(format!("{} n/a", side.name));
                continue;
            };
            side.samples.add(rate.mpps);
            rate.cycles.into_iter().for_each(|c| side.cycles.add(c));
            rate.on_cpu_mpps.into_iter().for_each(|m| side.on_cpu_mpps.add(m));
            said.push(format!("{} {:.2} {}", side.name, rate.mpps, self.row.unit));
        }
        Ok(said.join(", "))
    }

    fn dpdk(&self, bench: &Bench<'_>) -> Result<Rate> {
        if self.setting.huge {
            return bench.dpdk(self.setting, MBUFS);
        }
        let with = bench.dpdk(Setting { huge: true, ..self.setting }, MBUFS_NO_HUGE)?;
        Ok(slowdown(with, bench.dpdk(self.setting, MBUFS_NO_HUGE)?))
    }

    fn ours(&mut self, bench: &Bench<'_>) -> Option<Rate> {
        let taken = if self.setting.huge {
            bench.ours(self.setting, MBUFS)
        } else {
            bench
                .ours(Setting { huge: true, ..self.setting }, MBUFS_NO_HUGE)
                .and_then(|with| Ok(slowdown(with, bench.ours(self.setting, MBUFS_NO_HUGE)?)))
        };
        taken
            .map_err(|error| {
                self.row.failed = true;
                let note = format!("ours: {}", bench.ours.note_failure(&self.row.id, &error));
                if !self.row.notes.contains(&note) {
                    self.row.notes.push(note);
                }
            })
            .ok()
    }
}

/// How many times slower `without` is; by on-CPU time where both know it.
fn slowdown(with: Rate, without: Rate) -> Rate {
    let wall = with.mpps / without.mpps;
    let times = match (with.on_cpu_mpps, without.on_cpu_mpps) {
        (Some(with), Some(without)) => with / without,
        _ => wall,
    };
    Rate { mpps: times, cycles: None, on_cpu_mpps: None }
}

/// What a measurement needs to know.
#[derive(Debug)]
pub struct Bench<'a> {
    /// Our program.
    pub ours: &'a Ours,
    /// Where files go.
    pub places: &'a Places,
    /// Who runs where.
    pub cores: Cores,
    /// Seconds that a rate is taken over.
    pub seconds: u64,
    /// The TSC's frequency.
    pub tsc_hz: f64,
}

impl Bench<'_> {
    /// Writes the captures.
    ///
    /// # Errors
    /// When they cannot be written.
    pub fn write_captures(&self) -> Result<()> {
        capture::write(&self.capture(REPLAY_PACKETS), REPLAY_PACKETS)?;
        capture::write(&self.capture(FILE_PACKETS), FILE_PACKETS)
    }

    fn capture(&self, packets: u32) -> std::path::PathBuf {
        self.places.scratch.join(format!("udp64x{packets}.pcap"))
    }

    /// The devices of a setting, DPDK's name for the driver first, and the keys.
    fn devices(&self, ports: Ports) -> Vec<(&'static str, String)> {
        let replay = self.capture(REPLAY_PACKETS).display().to_string();
        let once = self.capture(FILE_PACKETS).display().to_string();
        match ports {
            Ports::Null => vec![("null", "size=64".into()); 2],
            Ports::Ring => vec![("ring", String::new()); 2],
            Ports::Replay => vec![("pcap", format!("rx_pcap={replay},infinite_rx=1")); 2],
            Ports::FileToDrop => vec![("pcap", format!("rx_pcap={once}"))],
            Ports::FileToFile => {
                vec![("pcap", format!("rx_pcap={once},tx_pcap={}", self.places.output.display()))]
            }
        }
    }

    fn dpdk(&self, setting: Setting, mbufs: u32) -> Result<Rate> {
        let mut eal =
            vec![format!("--lcores=0@{},1@{}", self.cores.other, self.cores.measured), "--no-pci".into()];
        if setting.huge {
            eal.push("--in-memory".into());
        } else {
            eal.extend(["--no-huge".into(), "-m".into(), "1024".into()]);
        }
        let devices = self.devices(setting.ports);
        for (i, (driver, keys)) in devices.iter().enumerate() {
            let comma = if keys.is_empty() { "" } else { "," };
            eal.push(format!("--vdev=net_{driver}{i}{comma}{keys}"));
        }
        let mut app = vec!["--nb-cores=1".to_owned(), format!("--forward-mode={}", setting.mode)];
        app.extend(shared_options(setting, mbufs));
        let mut testpmd = Testpmd::start(&eal, &app, devices.len())?;
        let rate = match setting.ports {
            Ports::FileToDrop | Ports::FileToFile => self.dpdk_file(&mut testpmd),
            _ => self.dpdk_rate(&mut testpmd, setting),
        }?;
        testpmd.quit()?;
        Ok(rate)
    }

    fn dpdk_rate(&self, testpmd: &mut Testpmd, setting: Setting) -> Result<Rate> {
        let start =
            if setting.ports == Ports::Ring { format!("start tx_first {PRIME}") } else { "start".into() };
        testpmd.command(&start)?;
        std::thread::sleep(SETTLE);
        let (first, ran) = (testpmd.counters()?, testpmd.forwarding_ns());
        std::thread::sleep(Duration::from_secs(self.seconds));
        let (second, ran_then) = (testpmd.counters()?, testpmd.forwarding_ns());
        testpmd.stop()?;
        let sent = setting.counts_sent();
        let (packets, pps) =
            if sent { (second.tx - first.tx, second.tx_pps) } else { (second.rx - first.rx, second.rx_pps) };
        ensure!(packets > 0 && pps > 0, "dpdk-testpmd moved no packet in {} s", self.seconds);
        let ns = ran.zip(ran_then).map(|(a, b)| (b - a) as f64);
        Ok(Rate {
            mpps: pps as f64 / 1e6,
            cycles: ns.map(|ns| ns / 1e9 * self.tsc_hz / packets as f64),
            on_cpu_mpps: ns.map(|ns| packets as f64 * 1e3 / ns),
        })
    }

    fn dpdk_file(&self, testpmd: &mut Testpmd) -> Result<Rate> {
        testpmd.command("set record-core-cycles on")?;
        testpmd.command("start")?;
        let end = Instant::now() + Duration::from_secs(20);
        while testpmd.counters()?.rx < u64::from(FILE_PACKETS) {
            ensure!(Instant::now() < end, "dpdk-testpmd did not read {FILE_PACKETS} packets in 20 s");
            std::thread::sleep(Duration::from_millis(20));
        }
        let Report { rx, tx, tx_dropped, busy_cycles_per_packet, tsc_hz } = testpmd.stop()?;
        ensure!(
            (rx, tx + tx_dropped) == (u64::from(FILE_PACKETS), u64::from(FILE_PACKETS)),
            "dpdk-testpmd read {rx} and sent {tx} (dropped {tx_dropped}) of {FILE_PACKETS} packets"
        );
        let cycles = busy_cycles_per_packet.context("dpdk-testpmd recorded no cycles")?;
        let hz = tsc_hz.context("dpdk-testpmd printed no clock")?;
        Ok(Rate { mpps: hz / cycles / 1e6, cycles: Some(cycles), on_cpu_mpps: None })
    }

    fn ours(&self, setting: Setting, mbufs: u32) -> Result<Rate> {
        let mut args = vec![format!("--forward-mode={}", setting.mode)];
        for (i, (driver, keys)) in self.devices(setting.ports).iter().enumerate() {
            let device = if setting.ports == Ports::Ring { format!("r{i}") } else { keys.clone() };
            args.extend(["--port".into(), format!("{driver}:{device}")]);
        }
        args.extend(shared_options(setting, mbufs));
        if !setting.huge {
            args.push("--no-huge".into());
        }
        if setting.ports == Ports::Ring {
            args.push(format!("--tx-first={PRIME}"));
        }
        let file = matches!(setting.ports, Ports::FileToDrop | Ports::FileToFile);
        if file {
            args.push("--record-core-cycles".into());
        }
        let forward = self.ours.testpmd(&args, self.seconds)?;
        if file { ours_file(&forward) } else { self.ours_rate(&forward, setting.counts_sent()) }
    }

    fn ours_rate(&self, forward: &Forward, sent: bool) -> Result<Rate> {
        let mpps = forward.mpps(sent)?;
        let cycles = forward.on_cpu_cycles_per_packet;
        let hz = forward.tsc_hz.unwrap_or(self.tsc_hz);
        Ok(Rate { mpps, cycles, on_cpu_mpps: cycles.map(|c| hz / c / 1e6) })
    }
}

fn ours_file(forward: &Forward) -> Result<Rate> {
    if forward.rx_packets != u64::from(FILE_PACKETS) || forward.tx_packets != u64::from(FILE_PACKETS) {
        bail!("read {} and sent {} of {FILE_PACKETS} packets", forward.rx_packets, forward.tx_packets);
    }
    let cycles = forward.cycles_per_packet.context("no cycles_per_packet with --record-core-cycles")?;
    let hz = forward.tsc_hz.context("no tsc_hz")?;
    Ok(Rate { mpps: hz / cycles / 1e6, cycles: Some(cycles), on_cpu_mpps: None })
}

/// The options that both programs spell alike.
fn shared_options(setting: Setting, mbufs: u32) -> Vec<String> {
    let mut options = vec![
        format!("--burst={}", setting.burst),
        format!("--total-num-mbufs={mbufs}"),
        format!("--mbcache={CACHE}"),
    ];
    if !matches!(setting.ports, Ports::Null | Ports::Ring) {
        options.push("--no-flush-rx".into()); // or the first packets of a file are gone before it starts
    }
    options
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_of_the_issue_is_there_once() {
        let cases = cases();
        let ids: std::collections::BTreeSet<_> = cases.iter().map(|c| c.row.id.clone()).collect();
        assert_eq!(ids.len(), cases.len());
        assert_eq!(cases.len(), 20);
        assert_eq!(cases.iter().filter(|c| c.group == "null").count(), 9);
        assert_eq!(cases.iter().filter(|c| c.needs_capture()).count(), 6);
    }

    #[test]
    fn without_huge_pages_the_figure_is_a_slowdown() {
        let rate = |mpps, on_cpu_mpps| Rate { mpps, cycles: None, on_cpu_mpps };
        assert_eq!(slowdown(rate(100.0, None), rate(50.0, None)).mpps, 2.0);
        assert_eq!(slowdown(rate(100.0, Some(120.0)), rate(50.0, Some(80.0))).mpps, 1.5);
    }

    #[test]
    fn a_file_that_lost_packets_is_no_result() {
        let forward = |rx_packets| Forward {
            duration_s: 1.0,
            rx_packets,
            tx_packets: 1_000_000,
            cycles_per_packet: Some(130.0),
            on_cpu_cycles_per_packet: None,
            tsc_hz: Some(2.6e9),
        };
        assert_eq!(ours_file(&forward(1_000_000)).expect("all there").mpps, 20.0);
        assert!(ours_file(&forward(999_999)).is_err());
    }
}
