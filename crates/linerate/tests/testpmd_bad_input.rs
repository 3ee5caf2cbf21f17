//! Whatever is wrong gives one clear error with a way out and exit status 1 or 2; no panic, and no run with fewer
//! ports than were asked for.

mod testpmd_common;

use std::{fs, os::unix::fs::PermissionsExt, os::unix::process::CommandExt};
use testpmd_common::{Ran, frames, run, skip, testpmd, write_pcap};

/// Nothing was forwarded, and the error has a hint.
fn refused(args: &[&str], status: i32, said: &str) {
    let ran = run(args);
    assert_eq!(ran.status, status, "{args:?}: {}", ran.stderr);
    assert!(ran.stderr.contains(said), "{args:?}: {}", ran.stderr);
    assert!(!ran.stdout.contains("packet forwarding"), "{args:?}: {}", ran.stdout);
    match status {
        1 => {
            assert!(ran.stderr.starts_with("error: "), "{args:?}: {}", ran.stderr);
            assert_eq!(ran.stderr.matches("  hint: ").count(), 1, "{args:?}: {}", ran.stderr);
        }
        _ => assert!(ran.stderr.contains("--help"), "{args:?}: {}", ran.stderr),
    }
}

#[test]
fn bad_command_lines_end_with_2() {
    for (args, said) in [
        (&["--brust=4"][..], "--burst"),
        (&["--burst=513"], "0..=512"),
        (&["--burst=-1"], "invalid value"),
        (&["--forward-mode=macsawp"], "macswap"),
        (&["--rxd=65536"], "65536 is not in 0..=65535"),
        (&["--mbcache=513"], "0..=512"),
        (&["--duration=-3"], "wanted seconds"),
        (&["--tx-udp=65536"], "65535"),
        (&["--cores=1-"], "column"),
        (&["--stats-period=0"], "1..=65534"),
        (&["extra"], "unexpected argument"),
        (&["--inject=melt=3"], "reorder=N"),
    ] {
        refused(args, 2, said);
    }
}

#[test]
fn bad_ports_point_at_the_place() {
    for (spec, said) in [
        ("nul", "no driver \"nul\"\n  nul\n  ^^^\n  hint: did you mean `null`?"),
        ("null:sz=64", "no key \"sz\"\n  null:sz=64\n       ^^\n  hint: did you mean `size`?"),
        ("null:size=13", "wanted a number from 14 to 65535"),
        ("null:size=", "wanted a number"),
        ("null:size", "null"),
        ("", "starts with a driver's name"),
        ("null,size=64", "a colon comes after the driver's name"),
        ("null:size=64,size=65", "given twice"),
        ("ring", "needs a device"),
        ("ring:a,peer=b", "there is no such port"),
        ("pcap:rx_pcap=\"a", "this quote does not end"),
        ("pcap:rx_pcap=/no/such/file.pcap", "/no/such/file.pcap"),
        ("pcap:rx_pcap=/", "/"),
        ("pcap:tx_pcap=/no/such/dir/out.pcap", "/no/such/dir/out.pcap"),
        ("pcap:infinite_rx=1", "needs a file"),
    ] {
        let port = format!("--port={spec}");
        // A sound port before it changes nothing: never fewer ports.
        refused(&["--port=null", &port, "--duration=1"], 1, said);
    }
}

// Bug case 37.
#[test]
fn port_numbers_are_not_cut() {
    for number in ["2", "256", "65535", "65536", "-1"] {
        let portlist = format!("--portlist={number}");
        refused(&["--port=null", "--port=null", &portlist], 1, "allowed are 0 to 1");
        let peer = format!("--eth-peer={number},02:00:00:00:00:01");
        refused(&["--port=null", "--port=null", &peer], 1, "allowed are 0 to 1");
    }
}

#[test]
fn what_does_not_fit_together_is_refused_before_anything_runs() {
    for (args, said) in [
        (&["--total-num-mbufs=1000"][..], "need 2"),
        (&["--port=null", "--total-num-mbufs=1"], "the ports and cores need"),
        (&["--port=null", "--max-pkt-len=2049"], "scatter is off"),
        (&["--port=null", "--mbuf-size=1000", "--max-pkt-len=1518"], "scatter is off"),
        (&["--port=null:size=3000"], "3000"),
        (&["--port=null", "--forward-mode=txonly", "--txpkts=100,0,100"], "no byte"),
        (&["--port=null", "--forward-mode=txonly", "--txpkts=41"], "41 bytes in all"),
        (&["--port=null", "--rxq=65"], "allowed are 0 to 64"),
        (&["--cores=8000"], "core 8000"),
        (&["--cores=0", "--nb-cores=2"], "--cores"),
        (&["--nb-ports=3"], "there are 2"),
        (&["--tx-first"], "--tx-first"),
        (&["--json=/no/such/dir/report.json"], "/no/such/dir/report.json"),
        (&["--eth-peers-configfile=/no/such/file"], "/no/such/file"),
    ] {
        refused(&[args, &["--duration=1"]].concat(), 1, said);
    }
}

#[test]
fn files_that_are_no_captures_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("bad.pcap");
    let spec = format!("--port=pcap:rx_pcap={}", path.display());
    for bytes in
        [&b""[..], b"x", b"this is no capture file at all, but long enough", &[0xd4, 0xc3, 0xb2, 0xa1, 9]]
    {
        fs::write(&path, bytes).unwrap();
        refused(&["--port=null", &spec], 1, "bad.pcap");
    }
}

#[test]
fn an_output_is_not_emptied_by_a_run_that_does_not_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("kept.pcap");
    fs::write(&path, b"precious").unwrap();
    let spec = format!("--port=pcap:tx_pcap={}", path.display());
    refused(&[&spec, "--port=null:size=9"], 1, "size=9");
    assert_eq!(fs::read(&path).unwrap(), b"precious");
}

#[test]
fn a_file_without_the_right_to_read_it_is_named() {
    const TEST: &str = "a_file_without_the_right_to_read_it_is_named";
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("secret.pcap");
    write_pcap(&path, &frames(1));
    fs::set_permissions(&path, fs::Permissions::from_mode(0o000)).unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = testpmd();
    if fs::File::open(&path).is_ok() {
        command.uid(65534); // root may read everything; nobody may not
    }
    match command.args([&format!("--port=pcap:rx_pcap={}", path.display()), "--duration=1"]).output() {
        Ok(out) => {
            let ran = Ran::of(out);
            assert_eq!(ran.status, 1, "{}", ran.stderr);
            assert!(ran.stderr.contains("secret.pcap: Permission denied"), "{}", ran.stderr);
            assert!(ran.stderr.contains("  hint: "), "{}", ran.stderr);
        }
        Err(e) => skip(TEST, &format!("the program cannot be run as nobody: {e}")),
    }
}

#[test]
fn help_names_every_option_with_its_range() {
    let ran = run(&["--help"]);
    assert_eq!(ran.status, 0);
    for part in [
        "0 to 512",
        "[default: 32]",
        "1 to 65534",
        "0 to 65535",
        "Exit status",
        "--total-num-mbufs",
        "null:size=64",
    ] {
        assert!(ran.stdout.contains(part), "{part}");
    }
}
