//! What the end-to-end tests of `linerate testpmd` share: running the built program, and capture files of our own.
#![allow(dead_code)] // each test file uses its part

use serde_json::Value;
use std::{
    path::Path,
    process::{Command, Output, Stdio},
};

/// The program with its subcommand.
pub fn testpmd() -> Command {
    let mut c = Command::new(env!("CARGO_BIN_EXE_linerate"));
    c.arg("testpmd").stdin(Stdio::null());
    c
}

/// What a run left behind.
#[derive(Debug)]
pub struct Ran {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

impl Ran {
    pub fn of(out: Output) -> Ran {
        let ran = Ran {
            status: out.status.code().unwrap_or(-1),
            stdout: String::from_utf8(out.stdout).unwrap(),
            stderr: String::from_utf8(out.stderr).unwrap(),
        };
        assert!(!ran.stderr.contains("panicked"), "{}", ran.stderr);
        ran
    }
}

/// Runs it to its end.
pub fn run(args: &[&str]) -> Ran {
    Ran::of(testpmd().args(args).output().unwrap())
}

/// Runs it well, and reads its report.
pub fn report(args: &[&str]) -> Value {
    let ran = run(&[args, &["--json=-"]].concat());
    assert_eq!(ran.status, 0, "{args:?}: {}", ran.stderr);
    let v: Value = serde_json::from_str(&ran.stdout).unwrap();
    for pool in v["pools"].as_array().unwrap() {
        assert_eq!(pool["held"], 0, "{args:?}: {pool}");
        assert_eq!(pool["free"], pool["total"], "{args:?}: {pool}");
    }
    let f = &v["forward"];
    let makes_or_frees = ["rxonly", "txonly", "icmpecho", "flowgen"].map(|mode| f["mode"] == mode);
    if v["tester"].is_null() && !makes_or_frees.contains(&true) {
        // What was handed to transmit was sent or dropped.
        assert_eq!(n(f, "tx_packets") + n(f, "dropped"), n(f, "rx_packets"), "{args:?}");
    }
    v
}

/// A count.
pub fn n(v: &Value, key: &str) -> u64 {
    v[key].as_u64().unwrap_or_else(|| panic!("{key} of {v}"))
}

/// UDP frames of growing length, each with its number in it; checksums are right.
pub fn frames(count: usize) -> Vec<Vec<u8>> {
    use linerate::net::MacAddr;
    use linerate::net::builder::{UdpFlow, UdpTemplate};
    let flow = UdpFlow::txonly(MacAddr::new([2, 1, 1, 1, 1, 1]), MacAddr::new([2, 2, 2, 2, 2, 2]));
    (0..count)
        .map(|i| {
            let len = 60 + i % 1400;
            let payload: Vec<u8> = (0..len - 42).map(|b| (b * 7 + i) as u8).collect();
            let flow = UdpFlow { src_port: i as u16, dst_port: 7, ..flow };
            let mut bytes = vec![0; len];
            UdpTemplate::new(&flow, len).unwrap().build(&mut bytes, &payload).unwrap();
            bytes
        })
        .collect()
}

/// Writes a classic capture with times in microseconds.
pub fn write_pcap(path: &Path, frames: &[Vec<u8>]) {
    let mut file = Vec::new();
    for word in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65_535, 1] {
        file.extend(word.to_le_bytes());
    }
    for (i, f) in frames.iter().enumerate() {
        for word in [1_700_000_000, i as u32 % 1_000_000, f.len() as u32, f.len() as u32] {
            file.extend(word.to_le_bytes());
        }
        file.extend(f);
    }
    std::fs::write(path, file).unwrap();
}

/// The frames of a classic capture as this machine writes it.
pub fn read_pcap(path: &Path) -> Vec<Vec<u8>> {
    let bytes = std::fs::read(path).unwrap();
    let word = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
    assert!(matches!(word(0), 0xa1b2_3c4d | 0xa1b2_c3d4), "magic {:x}", word(0));
    let (mut frames, mut at) = (Vec::new(), 24);
    while at < bytes.len() {
        let len = word(at + 8) as usize;
        assert_eq!(word(at + 12) as usize, len);
        frames.push(bytes[at + 16..at + 16 + len].to_vec());
        at += 16 + len;
    }
    frames
}

/// Says that a part of a test was not run, past the test harness.
pub fn skip(test: &str, why: &str) {
    use std::io::Write as _;
    _ = writeln!(std::io::stderr(), "SKIPPED {test}: {why}");
}
