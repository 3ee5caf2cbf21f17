//! The report for programs. What was not measured is `null`, never 0.

use super::{histogram::Histogram, report::Report};
use serde_json::{Map, Value, json};

/// The report as JSON.
pub(super) fn value(r: &Report) -> Value {
    let ports: Vec<_> = r
        .ports
        .iter()
        .enumerate()
        .map(|(number, p)| {
            let s = &p.stats;
            json!({
                "name": p.name,
                "rx_packets": s.rx_packets,
                "rx_bytes": s.rx_bytes,
                "rx_missed": s.rx_missed,
                "rx_errors": s.rx_errors,
                "rx_nombuf": s.rx_nombuf,
                "tx_packets": s.tx_packets,
                "tx_bytes": s.tx_bytes,
                "tx_dropped": r.dropped_at(number),
                "tx_errors": s.tx_errors,
            })
        })
        .collect();
    let threads: Vec<_> = r
        .cores
        .iter()
        .map(|c| {
            let (on_cpu, wall) = (c.run.time.on_cpu_ns as f64 / 1e9, c.run.time.wall_ns as f64 / 1e9);
            json!({
                "core": c.core.0,
                "streams": c.streams,
                "with_tester": c.with_tester,
                "on_cpu_s": on_cpu,
                "wall_s": wall,
                "on_cpu_share": c.run.time.share(),
                "loop_cycles": c.run.loop_cycles,
                "preempted": c.run.time.involuntary_switches,
            })
        })
        .collect();
    let pools: Vec<_> = r
        .pools
        .iter()
        .map(
            |p| json!({"name": p.name, "total": p.total, "free": p.free, "held": p.held, "memory": p.memory.strip_prefix("memory: ").unwrap_or(&p.memory)}),
        )
        .collect();
    let bursts = |rx| if r.record_bursts { cells(&r.bursts(rx)) } else { Value::Null };
    json!({
        "ports": ports,
        "forward": {
            "mode": r.mode.as_str(),
            "duration_s": r.duration_s(),
            "rx_packets": r.rx(),
            "tx_packets": r.tx(),
            "dropped": r.dropped(),
            "mpps": r.mpps(),
            "cycles_per_packet": r.cycles_per_packet(),
            "on_cpu_cycles_per_packet": r.on_cpu_cycles_per_packet(),
            "tsc_hz": r.tsc.hz(),
            "tsc_error_ppm": r.tsc.error_ppm(),
        },
        "bursts": {"rx": bursts(true), "tx": bursts(false)},
        "pools": pools,
        "threads": threads,
        "tester": r.tester,
    })
}

fn cells(bursts: &Histogram) -> Value {
    let cells: Map<String, Value> =
        bursts.cells().map(|(size, count)| (size.to_string(), count.into())).collect();
    Value::Object(cells)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testpmd::report::tests::sample;
    use std::collections::BTreeSet;

    fn keys(v: &Value) -> BTreeSet<&str> {
        v.as_object().unwrap().keys().map(String::as_str).collect()
    }

    #[test]
    fn the_shape_is_the_promised_one_and_what_was_not_measured_is_null() {
        let v = value(&sample());
        for k in ["ports", "forward", "bursts", "pools"] {
            assert!(keys(&v).contains(k), "{k}");
        }
        let port = [
            "name",
            "rx_packets",
            "rx_bytes",
            "rx_missed",
            "rx_errors",
            "rx_nombuf",
            "tx_packets",
            "tx_bytes",
            "tx_dropped",
            "tx_errors",
        ];
        assert_eq!(keys(&v["ports"][0]), BTreeSet::from(port));
        for k in [
            "mode",
            "duration_s",
            "rx_packets",
            "tx_packets",
            "dropped",
            "mpps",
            "cycles_per_packet",
            "on_cpu_cycles_per_packet",
            "tsc_hz",
        ] {
            assert!(keys(&v["forward"]).contains(k), "{k}");
        }
        assert_eq!(v["forward"]["cycles_per_packet"], Value::Null);
        assert_eq!(v["bursts"], json!({"rx": null, "tx": null}));
        assert_eq!(v["tester"], Value::Null);
        assert_eq!(v["ports"][1]["tx_dropped"], 10);
        assert_eq!(v["forward"]["mode"], "io");
        assert_eq!(v["pools"][0]["memory"], "2.0 MiB");
        for k in ["name", "total", "free", "held"] {
            assert!(keys(&v["pools"][0]).contains(k), "{k}");
        }
    }

    #[test]
    fn bursts_are_by_size_when_counted() {
        let mut r = sample();
        r.record_bursts = true;
        r.streams[0].rx_bursts.count(32);
        r.streams[1].rx_bursts.count(32);
        r.streams[1].rx_bursts.count(0);
        r.ports[0].stats.rx_bytes = None;
        let v = value(&r);
        assert_eq!(v["bursts"], json!({"rx": {"0": 1, "32": 2}, "tx": {}}));
        assert_eq!(v["ports"][0]["rx_bytes"], Value::Null);
    }
}
