//! `linerate testpmd` on capture files: what comes out is what went in, or what the mode makes of it.

mod testpmd_common;

use std::{path::Path, time::Instant};
use testpmd_common::{frames, n, read_pcap, report, run, testpmd, write_pcap};

const COUNT: usize = 3000;

fn port(input: &Path, output: &Path) -> String {
    format!("--port=pcap:rx_pcap={},tx_pcap={}", input.display(), output.display())
}

/// Sends a file through a mode into another.
fn through(dir: &Path, mode: &str, input: &str, output: &str) -> Vec<Vec<u8>> {
    let output = dir.join(output);
    let v = report(&[&port(&dir.join(input), &output), &format!("--forward-mode={mode}"), "--duration=30"]);
    let f = &v["forward"];
    assert_eq!((n(f, "rx_packets"), n(f, "tx_packets"), n(f, "dropped")), (COUNT as u64, COUNT as u64, 0));
    read_pcap(&output)
}

#[test]
fn files_go_through_the_modes() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let input = frames(COUNT);
    write_pcap(&d.join("in.pcap"), &input);
    let start = Instant::now();
    assert_eq!(through(d, "io", "in.pcap", "io.pcap"), input, "byte for byte");
    assert!(start.elapsed().as_secs() < 15, "the run ends with its input");
    for mode in ["macswap", "5tswap"] {
        let once = through(d, mode, "in.pcap", "once.pcap");
        assert_ne!(once, input);
        assert_eq!(through(d, mode, "once.pcap", "twice.pcap"), input, "{mode} twice is nothing");
    }
    // Wrong checksums are mended, and nothing else is touched.
    let mut spoilt = input.clone();
    for f in &mut spoilt {
        f[25] ^= 0xff;
        f[40] = f[40] ^ 0xff | 1;
    }
    write_pcap(&d.join("spoilt.pcap"), &spoilt);
    let output = d.join("mended.pcap");
    report(&[&port(&d.join("spoilt.pcap"), &output), "--forward-mode=csum", "--csum-mac-swap=off"]);
    assert_eq!(read_pcap(&output), input);
}

#[test]
fn the_first_packets_of_a_file_are_not_flushed_away_and_the_end_is_told() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.pcap");
    write_pcap(&path, &frames(COUNT));
    let spec = format!("--port=pcap:rx_pcap={}", path.display());
    let ran = run(&[&spec, &spec, "--duration=0", "--forward-mode=rxonly"]);
    assert_eq!(ran.status, 0, "{}", ran.stderr);
    assert!(ran.stdout.contains("All inputs have ended."), "{}", ran.stdout);
    assert!(ran.stdout.contains(&format!("RX-packets: {:<14} RX-dropped: 0", 2 * COUNT)), "{}", ran.stdout);
}

#[test]
fn long_frames_are_spread_over_small_buffers_when_that_is_asked_for() {
    let dir = tempfile::tempdir().unwrap();
    let (path, out) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    write_pcap(&path, &frames(COUNT));
    let spec = port(&path, &out);
    let v =
        report(&[&spec, "--mbuf-size=384", "--enable-scatter", "--forward-mode=csum", "--csum-mac-swap=off"]);
    assert_eq!(n(&v["forward"], "tx_packets"), COUNT as u64);
    assert_eq!(read_pcap(&out), frames(COUNT), "right checksums stay right, over segments too");
    // Without it they are counted as bad frames, and the others go through.
    let v = report(&[&spec, "--mbuf-size=384"]);
    let (received, errors) = (n(&v["ports"][0], "rx_packets"), n(&v["ports"][0], "rx_errors"));
    assert!(errors > 0 && received + errors == COUNT as u64, "{received} {errors}");
}

#[test]
fn a_file_that_breaks_off_gives_what_was_whole_and_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.pcap");
    write_pcap(&path, &frames(100));
    let bytes = std::fs::read(&path).unwrap();
    std::fs::write(&path, &bytes[..bytes.len() - 5]).unwrap();
    let spec = format!("--port=pcap:rx_pcap={}", path.display());
    let ran = run(&[&spec, "--duration=30"]);
    assert_eq!(ran.status, 1, "{}", ran.stdout);
    assert!(ran.stderr.contains("in.pcap"), "{}", ran.stderr);
    assert!(ran.stdout.contains("RX-packets: 99 "), "{}", ran.stdout);
}

#[test]
fn a_full_disk_is_told_and_ends_in_exit_status_1() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.pcap");
    write_pcap(&path, &frames(COUNT));
    let ran = run(&[&port(&path, Path::new("/dev/full")), "--duration=30"]);
    assert_eq!(ran.status, 1, "{}", ran.stdout);
    assert!(ran.stderr.contains("/dev/full"), "{}", ran.stderr);
}

#[test]
fn a_report_that_cannot_be_written_is_told_and_ends_in_exit_status_1() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let out = testpmd().args(["--port=null", "--duration=0.1"]).stdout(full).output().unwrap();
    let stderr = String::from_utf8(out.stderr).unwrap();
    assert_eq!(out.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("standard output: No space left"), "{stderr}");
}

#[test]
fn frames_that_fit_no_buffer_are_told_with_the_options_that_help() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("in.pcap");
    write_pcap(&path, &[vec![2; 1000], vec![2; 1400]]);
    let ran = run(&[&port(&path, &dir.path().join("out.pcap")), "--mbuf-size=328", "--duration=30"]);
    assert!(ran.stdout.contains("Note: port 0") && ran.stdout.contains("--enable-scatter"), "{}", ran.stdout);
}

#[test]
fn an_unknown_counter_is_refused_with_names_near_it() {
    let ran = run(&["--port=null", "--stats-period=1", "--display-xstats=rx_q0_packet", "--duration=0.1"]);
    assert_eq!(ran.status, 1, "{}", ran.stdout);
    assert!(ran.stderr.contains("rx_q0_packet") && ran.stderr.contains("near are"), "{}", ran.stderr);
}
