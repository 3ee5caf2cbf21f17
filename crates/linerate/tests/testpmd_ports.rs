//! `linerate testpmd` with ports of its own choice: null and ring, records, signals, output.

mod testpmd_common;

use serde_json::Value;
use std::{
    collections::BTreeSet,
    io::{BufRead, BufReader, Read},
    process::{Command, Stdio},
    time::{Duration, Instant},
};
use testpmd_common::{Ran, n, report, run, testpmd};

const TWO_NULL: [&str; 2] = ["--port=null", "--port=null:size=128"];

fn keys(v: &Value) -> BTreeSet<&str> {
    v.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn the_report_for_programs_has_its_shape_and_unmeasured_is_null() {
    let v = report(&[&TWO_NULL[..], &["--duration=0.1"]].concat());
    for port in v["ports"].as_array().unwrap() {
        let wanted = [
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
        assert_eq!(keys(port), BTreeSet::from(wanted));
    }
    let f = &v["forward"];
    for key in ["duration_s", "mpps", "on_cpu_cycles_per_packet", "tsc_hz"] {
        assert!(f[key].as_f64().unwrap() > 0.0, "{key}: {f}");
    }
    assert_eq!((&f["mode"], &f["cycles_per_packet"]), (&"io".into(), &Value::Null));
    assert_eq!(v["bursts"], serde_json::json!({"rx": null, "tx": null}));
    assert_eq!(v["tester"], Value::Null);
    let (packets, bytes) = (n(&v["ports"][0], "rx_packets"), n(&v["ports"][0], "rx_bytes"));
    assert_eq!(bytes, packets * 64);
    assert_eq!(n(&v["ports"][1], "rx_bytes"), n(&v["ports"][1], "rx_packets") * 128);
    let mpps = n(f, "rx_packets") as f64 / f["duration_s"].as_f64().unwrap() / 1e6;
    assert!((mpps / f["mpps"].as_f64().unwrap() - 1.0).abs() < 1e-6);
}

#[test]
fn records_are_taken_when_asked_for() {
    let v = report(
        &[&TWO_NULL[..], &["--duration=0.1", "--record-core-cycles", "--record-burst-stats"]].concat(),
    );
    assert!(v["forward"]["cycles_per_packet"].as_f64().unwrap() > 0.0);
    let bursts = v["bursts"]["rx"].as_object().unwrap();
    assert_eq!(bursts.keys().collect::<Vec<_>>(), ["32"]);
    assert_eq!(n(&v["bursts"]["rx"], "32") * 32, n(&v["forward"], "rx_packets"));
    assert_eq!(n(&v["bursts"]["tx"], "32") * 32, n(&v["forward"], "tx_packets"));
    // A port that does not count bytes says null.
    let v = report(&["--port=ring:a", "--port=ring:b", "--forward-mode=txonly", "--duration=0.05"]);
    assert_eq!(v["ports"][0]["rx_bytes"], Value::Null);
}

#[test]
fn every_mode_runs_on_null_ports() {
    for mode in ["io", "mac", "macswap", "5tswap", "rxonly", "txonly", "csum"] {
        let mode = format!("--forward-mode={mode}");
        for more in [&["--burst=1"][..], &["--burst=512", "--rxq=2", "--txq=2"], &["--burst=0"]] {
            let v = report(&[&TWO_NULL[..], &[&mode, "--duration=0.03"], more].concat());
            let f = &v["forward"];
            assert!(n(f, "rx_packets") + n(f, "tx_packets") > 0, "{mode} {more:?}");
        }
    }
}

#[test]
fn packets_circulate_between_ring_ports_and_are_all_given_back() {
    for mode in ["io", "macswap", "5tswap", "csum"] {
        let mode = format!("--forward-mode={mode}");
        let v = run(&["--port=ring:a", "--port=ring:b", &mode, "--tx-first=4", "--duration=0.1", "--json=-"]);
        assert_eq!(v.status, 0, "{}", v.stderr);
        let v: Value = serde_json::from_str(&v.stdout).unwrap();
        let f = &v["forward"];
        // Two streams made four bursts each, which were sent and not received before.
        assert_eq!(n(f, "tx_packets") + n(f, "dropped"), n(f, "rx_packets") + 2 * 4 * 32);
        assert!(n(f, "rx_packets") > 10_000 && n(f, "dropped") == 0, "{f}");
        assert!(v["pools"].as_array().unwrap().iter().all(|p| n(p, "held") == 0));
    }
}

// Bug case 38: a million packets of four segments lost a buffer each.
#[test]
fn many_packets_of_several_segments_leave_the_pool_whole() {
    let args = ["--port=null", "--forward-mode=txonly", "--txpkts=60,60,60,60", "--duration=0.3"];
    for split in ["--txsplit=off", "--txsplit=rand"] {
        let v = report(&[&args[..], &[split]].concat());
        assert!(n(&v["forward"], "tx_packets") > 100_000, "{split}: {}", v["forward"]);
    }
}

#[test]
fn several_streams_a_port_have_blocks_of_their_own() {
    let ran = run(&[
        "--port=null",
        "--rxq=2",
        "--txq=2",
        "--duration=0.05",
        "--record-burst-stats",
        "--record-core-cycles",
    ]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for line in [
        "Warning! port-topology=paired and odd forward ports number, the last port will pair with itself.",
        "  ------- Forward Stats for RX Port= 0/Queue= 0 -> TX Port= 0/Queue= 0 -------",
        "  ------- Forward Stats for RX Port= 0/Queue= 1 -> TX Port= 0/Queue= 1 -------",
        "  RX-bursts : ",
        "[0% of 0 pkts + 100% of 32 pkts]",
        "  CPU cycles/packet=",
    ] {
        assert!(ran.stdout.contains(line), "{line}\n{}", ran.stdout);
    }
}

#[test]
fn a_run_stopped_at_once_prints_zeros() {
    let ran = run(&["--port=null:no-rx=1", "--duration=0.001"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let zeros = "RX-packets: 0              RX-dropped: 0             RX-total: 0";
    assert_eq!(ran.stdout.matches(zeros).count(), 2, "{}", ran.stdout);
    assert!(!ran.stdout.contains("NaN") && !ran.stdout.contains("inf"));
    let v = report(&["--port=null:no-rx=1", "--duration=0.01", "--record-core-cycles"]);
    assert_eq!(v["forward"]["cycles_per_packet"], Value::Null);
    assert_eq!(v["forward"]["on_cpu_cycles_per_packet"], Value::Null);
}

// User pain 81.
#[test]
fn a_run_that_moves_nothing_says_why() {
    let ran = run(&["--port=null:no-rx=1", "--port=ring:quiet", "--duration=3.4"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    let said: Vec<_> = ran.stdout.lines().filter(|l| l.starts_with("no packet for 3 s: ")).collect();
    assert_eq!(said.len(), 1, "{}", ran.stdout);
    assert!(said[0].contains("nothing arrives"), "{said:?}");
}

#[test]
fn all_ports_are_shown_each_period_with_further_counters() {
    let ran = run(&["--port=null", "--duration=1.2", "--stats-period=1", "--display-xstats=rx_q0_packets"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for line in ["NIC statistics for port 0", "Rx-pps: ", "Tx-bps: ", "  rx_q0_packets: "] {
        assert!(ran.stdout.contains(line), "{line}\n{}", ran.stdout);
    }
}

#[test]
fn a_signal_ends_the_run_with_its_report_and_without_a_leak() {
    for signal in ["-INT", "-TERM"] {
        let mut child = testpmd()
            .args(["--port=null", "--port=null", "--duration=0"])
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // Through a pipe too, the first line comes at once and the next after a second.
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut text = String::new();
        while !text.contains(" s  rx ") {
            assert!(out.read_line(&mut text).unwrap() > 0, "{text}");
        }
        let (sent, id) = (Instant::now(), child.id().to_string());
        // Twice at once, as some shells do.
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        _ = Command::new("kill").args([signal, &id]).status().unwrap();
        out.read_to_string(&mut text).unwrap();
        let status = child.wait().unwrap();
        assert!(status.success(), "{signal}: {status} {text}");
        assert!(sent.elapsed() < Duration::from_secs(5), "{signal}");
        assert!(text.contains("Accumulated forward statistics") && text.contains("nothing leaked"), "{text}");
    }
}

#[test]
fn a_reader_that_goes_away_is_no_fault() {
    let mut child = testpmd()
        .args(["--port=null", "--duration=0.3"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let ran = Ran::of(child.wait_with_output().unwrap());
    assert_eq!(ran.status, 0, "{}", ran.stderr);
}
