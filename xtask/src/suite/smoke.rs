//! The first command of the README, short: it must end well, move packets and lose none.

use anyhow::{Context as _, Result, ensure};
use serde_json::Value;

use super::command::{check, run};
use super::steps::cargo;
use super::{Context, Failure, Tally};

/// `linerate testpmd` for two seconds, with its report judged.
pub(super) fn step(context: &Context) -> Result<Tally, Failure> {
    let report = context.target.join("xtask-smoke.json");
    let mut command = cargo(context);
    command.args(["run", "--release", "--", "testpmd", "--duration", "2", "--json"]).arg(&report);
    _ = std::fs::remove_file(&report); // an old one must not speak for this run
    let tally = check(&mut command)?;
    judge_file(&report)?;
    Ok(tally)
}

/// Runs testpmd with further arguments and judges its report.
pub(super) fn testpmd(context: &Context, args: &[&str]) -> Result<Value> {
    let report = context.target.join("xtask-testpmd.json");
    let mut command = cargo(context);
    command.args(["run", "--release", "--", "testpmd"]).args(args).arg("--json").arg(&report);
    _ = std::fs::remove_file(&report);
    run(&mut command)?;
    judge_file(&report)
}

fn judge_file(path: &std::path::Path) -> Result<Value> {
    let text = std::fs::read_to_string(path).with_context(|| format!("no report in {}", path.display()))?;
    let report = serde_json::from_str(&text).with_context(|| format!("{} is no JSON", path.display()))?;
    judge(&report)?;
    Ok(report)
}

/// Packets moved, none lost, none leaked.
fn judge(report: &Value) -> Result<()> {
    let moved = number(report, "/forward/rx_packets")?;
    ensure!(moved > 0, "no packet was received");
    ensure!(number(report, "/forward/tx_packets")? > 0, "no packet was sent");
    ensure!(number(report, "/forward/dropped")? == 0, "packets were dropped");
    let ports = report.pointer("/ports").and_then(Value::as_array).context("the report has no ports")?;
    ensure!(!ports.is_empty(), "the report has no ports");
    for port in ports {
        for name in ["rx_missed", "rx_errors", "rx_nombuf", "tx_dropped", "tx_errors"] {
            let count = number(port, &format!("/{name}"))?;
            ensure!(count == 0, "port {} has {name} {count}", port.pointer("/name").unwrap_or(&Value::Null));
        }
    }
    let pools = report.pointer("/pools").and_then(Value::as_array).context("the report has no pools")?;
    ensure!(!pools.is_empty(), "the report has no pools");
    for pool in pools {
        let (total, free, held) = (number(pool, "/total")?, number(pool, "/free")?, number(pool, "/held")?);
        ensure!(free == total && held == 0, "a pool leaks: total {total}, free {free}, held {held}");
    }
    Ok(())
}

/// A count at a place of the report; `null` and fractions are none.
pub(super) fn number(report: &Value, at: &str) -> Result<u64> {
    report.pointer(at).and_then(Value::as_u64).with_context(|| format!("the report has no count at {at}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> Value {
        serde_json::json!({
            "ports": [{"name": "a", "rx_packets": 5, "rx_missed": 0, "rx_errors": 0, "rx_nombuf": 0,
                       "tx_packets": 5, "tx_dropped": 0, "tx_errors": 0}],
            "forward": {"rx_packets": 5, "tx_packets": 5, "dropped": 0},
            "pools": [{"name": "p", "total": 9, "free": 9, "held": 0}],
        })
    }

    #[test]
    fn a_good_report_passes_and_each_blemish_fails() {
        judge(&good()).unwrap();
        for (at, value) in [
            ("/forward/rx_packets", 0.into()),
            ("/forward/tx_packets", 0.into()),
            ("/forward/dropped", 1.into()),
            ("/forward/dropped", Value::Null),
            ("/ports", Value::Array(vec![])),
            ("/ports/0/rx_missed", 1.into()),
            ("/ports/0/tx_dropped", 3.into()),
            ("/ports/0/rx_nombuf", Value::Null),
            ("/pools/0/held", 1.into()),
            ("/pools/0/free", 8.into()),
            ("/pools", Value::Null),
        ] {
            let mut bad: Value = good();
            *bad.pointer_mut(at).unwrap() = value;
            assert!(judge(&bad).is_err(), "{at}");
        }
    }
}
