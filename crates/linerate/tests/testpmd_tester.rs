//! `linerate testpmd` without ports: the built-in tester must find a sound forwarder sound, and every fault.

mod testpmd_common;

use testpmd_common::{n, report, run};

const MODES: [&str; 7] = ["io", "mac", "macswap", "5tswap", "rxonly", "txonly", "csum"];

/// The first core that this process may use, which then has to do for everything.
fn one_core() -> String {
    format!("--cores={}", linerate::mem::allowed_cores().unwrap()[0].0)
}

#[test]
fn the_default_run_moves_frames_and_loses_none() {
    let ran = run(&["--duration=1.3"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    for line in [
        "io packet forwarding - ports=2 - cores=1 - streams=2 - burst=32",
        "    1 s  rx ",
        " Mpps ",
        " Gbps ",
        "Forward statistics for port 0",
        "Forward statistics for port 1",
        "+++++++++++++++ Accumulated forward statistics for all ports+++++++++++++++",
        "  Tester: offered ",
        "lost 0; corrupt 0, out of order 0, duplicated 0",
        "  Core ",
        "  Clock: ",
        "nothing leaked",
    ] {
        assert!(ran.stdout.contains(line), "{line}\n{}", ran.stdout);
    }
    assert_eq!(ran.stderr, "");
}

#[test]
fn every_mode_passes_the_check_on_one_core_and_on_two() {
    for mode in MODES {
        for cores in [Some(one_core()), None] {
            let mode = format!("--forward-mode={mode}");
            let mut args = vec![mode.as_str(), "--duration=0.15"];
            args.extend(cores.as_deref());
            let v = report(&args);
            let t = &v["tester"];
            assert!(n(t, "sent") > 1000, "{args:?}: {t}");
            assert!(n(t, "offered") >= n(t, "sent"));
            assert_eq!(n(t, "sent"), n(t, "received"), "{args:?}");
            for key in ["lost", "corrupt", "reordered", "duplicated"] {
                assert_eq!(t[key], 0, "{args:?}");
            }
            let f = &v["forward"];
            match mode.split_once('=').unwrap().1 {
                "rxonly" => assert_eq!((n(f, "rx_packets"), n(f, "tx_packets")), (n(t, "sent"), 0)),
                "txonly" => assert_eq!((n(f, "rx_packets"), n(f, "tx_packets")), (0, n(t, "received"))),
                _ => assert_eq!((n(f, "rx_packets"), n(f, "dropped")), (n(t, "sent"), 0)),
            }
            let ports = v["ports"].as_array().unwrap();
            assert_eq!(ports.iter().map(|p| n(p, "rx_packets")).sum::<u64>(), n(f, "rx_packets"));
            assert_eq!(ports.iter().map(|p| n(p, "tx_packets")).sum::<u64>(), n(f, "tx_packets"));
        }
    }
}

#[test]
fn topologies_queues_and_frame_lengths_pass_the_check() {
    for args in [
        &["--port-topology=chained"][..],
        &["--port-topology=loop", "--forward-mode=mac"],
        &["--rxq=3", "--txq=2", "--forward-mode=macswap"],
        &["--rxq=4", "--txq=4", "--burst=512", "--forward-mode=csum"],
        &["--nb-ports=1"],
        &["--portlist=1,0", "--burst=1"],
        &["--frame-size=1518", "--forward-mode=5tswap"],
        &["--frame-size=2048", "--forward-mode=csum"],
        &["--frame-size=9000", "--mbuf-size=9600", "--forward-mode=csum", "--csum-mac-swap=off"],
        &["--forward-mode=txonly", "--txpkts=20,30,50", "--txonly-multi-flow=x"][..2],
        &["--forward-mode=txonly", "--txpkts=64,200,300", "--txsplit=rand", "--txonly-multi-flow"],
        &["--retry", "--burst-tx-retry=3", "--burst-tx-delay=0"],
        &["--no-huge", "--mbcache=0"],
        &["--eth-peer=1,02:00:00:00:00:77", "--forward-mode=mac"],
    ] {
        let v = report(&[args, &["--duration=0.1"]].concat());
        assert!(n(&v["tester"], "received") > 100, "{args:?}: {}", v["tester"]);
    }
}

#[test]
fn several_cores_share_the_streams() {
    if linerate::mem::allowed_cores().unwrap().len() < 2 {
        testpmd_common::skip("several_cores_share_the_streams", "there is one core");
        return;
    }
    let v = report(&["--rxq=2", "--txq=2", "--nb-cores=2", "--duration=0.2"]);
    let threads = v["threads"].as_array().unwrap();
    assert_eq!(threads.iter().map(|t| n(t, "streams")).collect::<Vec<_>>(), [2, 2]);
    assert!(threads.iter().all(|t| t["on_cpu_share"].as_f64().unwrap() > 0.0));
    assert!(n(&v["tester"], "received") > 100);
    // There is no work for more cores than streams.
    let ran = run(&["--nb-cores=100", "--duration=0.05", "--nb-ports=1"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("Warning! 100 cores are wanted, there is work for 1."), "{}", ran.stdout);
}

/// A fault ends in exit status 1 and one line that says what it is.
#[test]
fn every_fault_is_found() {
    for (inject, mode, said) in [
        ("drop=100", "io", " lost (of "),
        ("drop=100", "txonly", " lost (of "),
        ("corrupt=100", "macswap", " corrupt (of "),
        ("corrupt=100", "csum", " corrupt (of "),
        ("corrupt=90", "txonly", " corrupt (of "),
        ("dup=100", "mac", " duplicated (of "),
        ("reorder=100", "5tswap", " out of order (of "),
    ] {
        let args = [&format!("--inject={inject}"), &format!("--forward-mode={mode}"), "--duration=0.15"];
        let args: Vec<&str> = args.iter().map(|s| s.as_ref()).collect();
        let ran = run(&args);
        assert_eq!(ran.status, 1, "{args:?}: {}", ran.stdout);
        assert_eq!(ran.stderr.lines().count(), 1, "{args:?}: {}", ran.stderr);
        assert!(
            ran.stderr.starts_with("error: frames ") && ran.stderr.contains(said),
            "{args:?}: {}",
            ran.stderr
        );
        assert!(ran.stdout.contains("nothing leaked") && !ran.stdout.contains("LEAKED"), "{}", ran.stdout);
    }
}

/// One fault in a hundred is that, and not one more.
#[test]
fn faults_are_counted_exactly() {
    let file = tempfile::NamedTempFile::new().unwrap();
    let json = format!("--json={}", file.path().display());
    let one = one_core();
    for (inject, key) in
        [("drop", "lost"), ("corrupt", "corrupt"), ("dup", "duplicated"), ("reorder", "reordered")]
    {
        let ran = run(&[&format!("--inject={inject}=100"), "--duration=0.1", &json, &one]);
        assert_eq!(ran.status, 1);
        let v: serde_json::Value = serde_json::from_slice(&std::fs::read(file.path()).unwrap()).unwrap();
        let t = &v["tester"];
        let sent = n(t, "sent");
        for other in ["lost", "corrupt", "duplicated", "reordered"] {
            let count = n(t, other);
            if other == key {
                // Both streams' frames are harmed, each by its own count; some wait for a last frame.
                assert!(count.abs_diff(sent / 100) <= 4, "{inject}: {t}");
            } else {
                assert_eq!(count, 0, "{inject}: {t}");
            }
        }
        let (received, lost, double) = (n(t, "received"), n(t, "lost"), n(t, "duplicated"));
        assert_eq!(sent, received + lost - double, "{inject}: {t}");
    }
}
