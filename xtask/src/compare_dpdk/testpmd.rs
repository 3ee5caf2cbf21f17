//! Drives DPDK's testpmd through pipes: one process, its prompt, its counters, its report.

use std::collections::VecDeque;
use std::io::Write;
use std::process::{ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use super::process::{Session, follow, tail};

const PROMPT: &str = "testpmd> ";
/// The longest that one command may take; making the pool without huge pages is the slowest.
const LIMIT: Duration = Duration::from_secs(40);

/// The counters of all ports, as `show port stats all` prints them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counters {
    /// Packets received, all ports.
    pub rx: u64,
    /// Packets sent, all ports.
    pub tx: u64,
    /// Packets a second received since the last look, by testpmd's own clock.
    pub rx_pps: u64,
    /// Packets a second sent since the last look.
    pub tx_pps: u64,
}

/// What `stop` prints with core cycles recorded.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Report {
    /// Packets received in this run of forwarding.
    pub rx: u64,
    /// Packets sent.
    pub tx: u64,
    /// Packets not sent.
    pub tx_dropped: u64,
    /// TSC cycles a packet in polls that found something; absent when not recorded.
    pub busy_cycles_per_packet: Option<f64>,
    /// The TSC's frequency; printed with the cycles only.
    pub tsc_hz: Option<f64>,
}

/// A running testpmd at its prompt.
#[derive(Debug)]
pub struct Testpmd {
    session: Session,
    stdin: ChildStdin,
    output: Receiver<Vec<u8>>,
    pending: String,
    history: VecDeque<String>,
}

impl Testpmd {
    /// Starts testpmd with `eal` and `app` arguments (without `--`, and without `-i`) and waits for its prompt.
    ///
    /// # Errors
    /// When it cannot be started, ends, has fewer than `ports` ports, or prints no prompt in time.
    pub fn start(eal: &[String], app: &[String], ports: usize) -> Result<Self> {
        let mut command = Command::new("stdbuf");
        // Into a pipe, stdio holds text back by the block: the prompt would never come.
        command.arg("-oL").arg("dpdk-testpmd").args(eal).arg("--").arg("-i").args(app);
        let (reader, writer) = std::io::pipe()?;
        command.stdin(Stdio::piped()).stdout(writer.try_clone()?).stderr(writer);
        let mut session = Session::start(&mut command, &[])?;
        drop(command); // closes our copies of the pipe's writing end, or its end would never be seen
        let stdin = session.child().stdin.take().context("testpmd has no standard input")?;
        let mut this =
            Self { session, stdin, output: follow(reader), pending: String::new(), history: VecDeque::new() };
        let boot = this.wait_for_prompt().context("dpdk-testpmd did not come up")?;
        // testpmd goes on without the ports it could not make, and would measure nothing.
        let made = boot.lines().filter(|l| l.starts_with("Configuring Port")).count();
        ensure!(made == ports, "dpdk-testpmd made {made} of {ports} ports:\n{}", tail(&boot, 20));
        Ok(this)
    }

    /// Gives one command and returns what it printed.
    ///
    /// # Errors
    /// When testpmd ends or no prompt comes back in time.
    pub fn command(&mut self, line: &str) -> Result<String> {
        writeln!(self.stdin, "{line}").with_context(|| self.last_words(line))?;
        let answer = self.wait_for_prompt().with_context(|| format!("dpdk-testpmd, at {line:?}"))?;
        for sign in ["Bad arguments", "Command not found", "Ambiguous"] {
            ensure!(!answer.contains(sign), "dpdk-testpmd refuses {line:?}:\n{}", tail(&answer, 10));
        }
        Ok(answer)
    }

    /// Reads all ports' counters.
    ///
    /// # Errors
    /// As [`Testpmd::command`], and when the answer holds none.
    pub fn counters(&mut self) -> Result<Counters> {
        let answer = self.command("show port stats all")?;
        parse_counters(&answer).with_context(|| format!("no counters in:\n{}", tail(&answer, 20)))
    }

    /// Stops forwarding and reads the report.
    ///
    /// # Errors
    /// As [`Testpmd::command`], and when the answer holds no report.
    pub fn stop(&mut self) -> Result<Report> {
        let answer = self.command("stop")?;
        parse_report(&answer).with_context(|| format!("no report in:\n{}", tail(&answer, 20)))
    }

    /// Time that the forwarding thread was on a CPU so far, in nanoseconds; `None` when the kernel does not say.
    pub fn forwarding_ns(&self) -> Option<u64> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.session.id())).ok()?;
        let mut sum = None;
        for task in tasks.flatten() {
            let name = std::fs::read_to_string(task.path().join("comm")).unwrap_or_default();
            // "lcore-worker-N" up to DPDK 22.07, "rte-worker-N" after.
            if name.starts_with("lcore-worker") || name.starts_with("rte-worker") {
                let stat = std::fs::read_to_string(task.path().join("schedstat")).ok()?;
                let ns: u64 = stat.split_whitespace().next()?.parse().ok()?;
                sum = Some(sum.unwrap_or(0) + ns);
            }
        }
        sum
    }

    /// Ends testpmd.
    ///
    /// # Errors
    /// When it does not end, or ends with a failure status.
    pub fn quit(mut self) -> Result<()> {
        writeln!(self.stdin, "quit").with_context(|| self.last_words("quit"))?;
        let status = self.session.wait(Duration::from_secs(20)).context("dpdk-testpmd, at \"quit\"")?;
        ensure!(status.success(), "dpdk-testpmd ended with {status}\n{}", self.last_words("quit"));
        Ok(())
    }

    fn wait_for_prompt(&mut self) -> Result<String> {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(at) = self.pending.find(PROMPT) {
                let answer = self.pending[..at].to_owned();
                self.pending.drain(..at + PROMPT.len());
                self.history.push_back(answer.clone());
                if self.history.len() > 3 {
                    self.history.pop_front();
                }
                return Ok(answer);
            }
            match self.output.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.pending.push_str(&String::from_utf8_lossy(&bytes)),
                Err(RecvTimeoutError::Timeout) => {
                    bail!("no prompt within {} s; it printed:\n{}", LIMIT.as_secs(), tail(&self.pending, 30))
                }
                Err(RecvTimeoutError::Disconnected) => {
                    let status = self.session.wait(Duration::from_secs(5))?;
                    bail!("it ended with {status}; it printed:\n{}", tail(&self.pending, 30))
                }
            }
        }
    }

    fn last_words(&self, line: &str) -> String {
        let before: String = self.history.iter().map(String::as_str).collect();
        format!("dpdk-testpmd is gone at {line:?}; it printed:\n{}", tail(&(before + &self.pending), 30))
    }
}

/// The number after `label` at each place where it stands in `text`.
fn numbers<'t>(text: &'t str, label: &'t str) -> impl Iterator<Item = u64> + 't {
    text.match_indices(label).filter_map(move |(at, _)| {
        let rest = text[at + label.len()..].trim_start();
        rest[..rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len())].parse().ok()
    })
}

fn parse_counters(text: &str) -> Option<Counters> {
    numbers(text, "RX-packets:").next()?;
    Some(Counters {
        rx: numbers(text, "RX-packets:").sum(),
        tx: numbers(text, "TX-packets:").sum(),
        rx_pps: numbers(text, "Rx-pps:").sum(),
        tx_pps: numbers(text, "Tx-pps:").sum(),
    })
}

fn parse_report(text: &str) -> Option<Report> {
    let all = &text[text.find("Accumulated forward statistics")?..];
    let cycles = all.split_once("CPU cycles/packet=").map(|(_, rest)| rest);
    let until = |s: &str, end: &str| s.split_once(end).and_then(|(n, _)| n.trim().parse::<f64>().ok());
    Some(Report {
        rx: numbers(all, "RX-packets:").next()?,
        tx: numbers(all, "TX-packets:").next()?,
        tx_dropped: numbers(all, "TX-dropped:").next()?,
        busy_cycles_per_packet: cycles.and_then(|c| until(c, " ")),
        tsc_hz: cycles.and_then(|c| until(c.split_once(") at ")?.1, "MHz")).map(|mhz| mhz * 1e6),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_summed_over_the_ports() {
        let text = "\
  RX-packets: 69745088   RX-missed: 0          RX-bytes:  0
  TX-packets: 69328832   TX-errors: 0          TX-bytes:  0
  Rx-pps:     48794517          Rx-bps:            0
  Tx-pps:     48794549          Tx-bps:            0
  RX-packets: 12         RX-missed: 0          RX-bytes:  0
  TX-packets: 8          TX-errors: 0          TX-bytes:  0
  Rx-pps:            3          Rx-bps:            0
  Tx-pps:            1          Tx-bps:            0
";
        let want = Counters { rx: 69_745_100, tx: 69_328_840, rx_pps: 48_794_520, tx_pps: 48_794_550 };
        assert_eq!(parse_counters(text), Some(want));
        assert_eq!(parse_counters("testpmd: No probed ethernet devices"), None);
    }

    #[test]
    fn the_report_is_that_of_all_ports() {
        let text = "\
  ---------------------- Forward statistics for port 0  ----------------------
  RX-packets: 1              RX-dropped: 0             RX-total: 1
  +++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++
  RX-packets: 19901376       RX-dropped: 0             RX-total: 19901376
  TX-packets: 19901632       TX-dropped: 7             TX-total: 19901639
  ++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++++

  CPU cycles/packet=36.37 (total cycles=723718581 / total csum packets=19901376) at 2600 MHz Clock
";
        let report = parse_report(text).expect("a whole report");
        assert_eq!((report.rx, report.tx, report.tx_dropped), (19_901_376, 19_901_632, 7));
        assert_eq!(report.busy_cycles_per_packet, Some(36.37));
        assert_eq!(report.tsc_hz, Some(2.6e9));
        let short = &text[..text.find("CPU").expect("the line is there")];
        assert_eq!(parse_report(short).expect("without cycles").busy_cycles_per_packet, None);
        assert_eq!(parse_report("Packet forwarding not started"), None);
    }
}
