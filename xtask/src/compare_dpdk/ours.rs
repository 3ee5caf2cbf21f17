//! Runs our own program and reads what it reports.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use serde_json::Value;

use super::process::run_ok;

/// Our program, or why there is none.
#[derive(Debug)]
pub struct Ours {
    program: Result<PathBuf, String>,
    report: PathBuf,
    /// The core that forwards and measures.
    core: usize,
    takes_cores: bool,
    /// Failures already shown, so that a round does not repeat them.
    shown: RefCell<BTreeSet<String>>,
}

/// The part of testpmd's report that is compared.
#[derive(Debug, Deserialize)]
pub struct Forward {
    /// Seconds of forwarding.
    pub duration_s: f64,
    /// Packets received, all ports.
    pub rx_packets: u64,
    /// Packets sent, all ports.
    pub tx_packets: u64,
    /// TSC cycles a packet in polls that found something; with `--record-core-cycles` only.
    pub cycles_per_packet: Option<f64>,
    /// TSC cycles a packet that the forwarding thread was on a CPU.
    pub on_cpu_cycles_per_packet: Option<f64>,
    /// The TSC's frequency.
    pub tsc_hz: Option<f64>,
}

#[derive(Deserialize)]
struct Report {
    forward: Forward,
}

impl Ours {
    /// Takes the built program; `scratch` is where reports go.
    pub fn new(program: Result<PathBuf, String>, scratch: &std::path::Path, core: usize) -> Self {
        let takes_cores = program.as_ref().is_ok_and(|program| {
            let mut help = Command::new(program);
            help.args(["testpmd", "--help"]);
            run_ok(&mut help, &[], Duration::from_secs(20)).is_ok_and(|h| h.stdout.contains("--cores"))
        });
        let report = scratch.join(format!("ours-{}.json", std::process::id()));
        Self { program, report, core, takes_cores, shown: RefCell::default() }
    }

    /// Forwards with `args` for `seconds` and gives the report.
    ///
    /// # Errors
    /// When there is no program, or it fails, or its report lacks what the issue says it holds.
    pub fn testpmd(&self, args: &[String], seconds: u64) -> Result<Forward> {
        let mut all = vec!["testpmd".to_owned(), format!("--duration={seconds}"), "--nb-cores=1".to_owned()];
        if self.takes_cores {
            all.push(format!("--cores={}", self.core));
        }
        all.extend_from_slice(args);
        // Without a way to name the core, the whole program is kept on it.
        let allowed = if self.takes_cores { vec![] } else { vec![self.core] };
        let report = self.run(&all, &allowed, Duration::from_secs(seconds + 40))?;
        let report: Report = serde_json::from_value(report).context("the report of linerate testpmd")?;
        Ok(report.forward)
    }

    /// The rows of `linerate perf BENCH` whose lines hold one of `only`; all when that is empty.
    ///
    /// # Errors
    /// When there is no program, or it fails, or its report is neither a list of rows nor holds one.
    pub fn perf(&self, bench: &str, only: &[String]) -> Result<Vec<Value>> {
        let mut args = vec!["perf".to_owned(), bench.to_owned()];
        args.extend(only.iter().map(|text| format!("--only={text}")));
        // The ring has two-core rows; the others stay on the core where DPDK's run.
        let cores = if bench == "ring" { vec![] } else { vec![self.core] };
        rows_of(self.run(&args, &cores, Duration::from_secs(900))?)
    }

    fn run(&self, args: &[String], cores: &[usize], limit: Duration) -> Result<Value> {
        let program = match &self.program {
            Ok(program) => program,
            Err(reason) => bail!("{reason}"),
        };
        let mut command = Command::new(program);
        command.args(args).arg("--json").arg(&self.report);
        let text = run_ok(&mut command, cores, limit).and_then(|_| {
            std::fs::read_to_string(&self.report).context("linerate ended well, but wrote no report")
        });
        let _ = std::fs::remove_file(&self.report); // or the next run could be taken for this one
        serde_json::from_str(&text?).context("what linerate wrote is not JSON")
    }

    /// Shows a failure on standard error once, and gives its reason in a line for the table: the first line
    /// that the program printed, which stands indented, or else our own.
    pub fn note_failure(&self, what: &str, error: &anyhow::Error) -> String {
        let text = format!("{error:#}");
        if self.program.is_ok() && self.shown.borrow_mut().insert(format!("{what}\n{text}")) {
            eprintln!("ours failed at {what}: {text}");
        }
        let said = text.lines().find(|l| l.starts_with("    ")).or(text.lines().next());
        said.unwrap_or("failed").trim().to_owned()
    }
}

fn rows_of(report: Value) -> Result<Vec<Value>> {
    match report {
        Value::Array(rows) => Ok(rows),
        Value::Object(mut fields) => match fields.remove("rows") {
            Some(Value::Array(rows)) => Ok(rows),
            _ => bail!("the report of linerate perf has no list \"rows\""),
        },
        _ => bail!("the report of linerate perf is neither a list nor an object with \"rows\""),
    }
}

impl Forward {
    /// Millions of packets a second over the run's time; packets sent when `sent`, else received.
    ///
    /// # Errors
    /// When nothing moved.
    pub fn mpps(&self, sent: bool) -> Result<f64> {
        let packets = if sent { self.tx_packets } else { self.rx_packets };
        ensure!(packets > 0 && self.duration_s > 0.0, "linerate testpmd moved no packet");
        Ok(packets as f64 / self.duration_s / 1e6)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn rows_come_bare_or_in_an_object() {
        let row = json!({"bench": "mbuf", "op": "prefree"});
        assert_eq!(rows_of(json!([row])).expect("a list"), std::slice::from_ref(&row));
        assert_eq!(rows_of(json!({"rows": [row], "pair": "near"})).expect("an object"), [row]);
        assert!(rows_of(json!({"row": []})).is_err());
        assert!(rows_of(json!(3)).is_err());
    }

    #[test]
    fn the_rate_is_that_of_the_direction_that_counts() {
        let text = json!({"forward": {"mode": "txonly", "duration_s": 2.0, "rx_packets": 0, "tx_packets": 4_000_000,
            "dropped": 0, "mpps": 2.0, "cycles_per_packet": null, "on_cpu_cycles_per_packet": 1300.0, "tsc_hz": 2.6e9},
            "ports": []});
        let report: Report = serde_json::from_value(text).expect("the issue's shape");
        assert_eq!(report.forward.mpps(true).expect("sent"), 2.0);
        assert!(report.forward.mpps(false).is_err(), "nothing was received");
        assert_eq!(report.forward.cycles_per_packet, None);
    }

    #[test]
    fn a_missing_program_gives_its_reason() {
        let ours = Ours::new(Err("not built".into()), std::path::Path::new("."), 0);
        let error = ours.perf("ring", &[]).expect_err("there is no program");
        assert_eq!(error.to_string(), "not built");
        assert_eq!(ours.note_failure("ring", &error), "not built");
        let error = anyhow::anyhow!(
            "linerate perf ring ended with exit status: 1\n    error: no core 7\n    hint: x"
        );
        assert_eq!(ours.note_failure("ring", &error), "error: no core 7");
    }
}
