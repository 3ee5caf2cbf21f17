//! `linerate testpmd` in the modes that answer or make packets, from capture file to capture file.

mod testpmd_common;

use std::path::Path;
use testpmd_common::{frames, n, read_pcap, report, run, write_pcap};

fn port(input: &Path, output: &Path) -> String {
    format!("--port=pcap:rx_pcap={},tx_pcap={}", input.display(), output.display())
}

fn arp(sender: &[u8], target: &[u8], head: &[u8], operation: u8) -> Vec<u8> {
    [head, &[8, 6, 0, 1, 8, 0, 6, 4, 0, operation], sender, target, &[0; 18]].concat()
}

const ASKER: [u8; 6] = [2, 1, 1, 1, 1, 1];
const ASKED: [u8; 6] = [2, 2, 2, 2, 2, 2];

/// An echo message of 10.0.0.1 to 10.0.0.2 or back; the checksums are those of these very bytes.
fn echo(request: bool, number: u8) -> Vec<u8> {
    let (dst, src) = if request { (ASKED, ASKER) } else { (ASKER, ASKED) };
    let mut f = [&dst[..], &src, &[8, 0]].concat();
    f.extend([0x45, 0, 0, 30, 0, 0, 0x40, 0, 64, 1, 0x26, 0xdd]);
    f.extend(if request { [10, 0, 0, 1, 10, 0, 0, 2] } else { [10, 0, 0, 2, 10, 0, 0, 1] });
    let kind = if request { 8 } else { 0 };
    // Type, identifier, number and two bytes of payload are all that is summed up.
    let sum = !((u16::from(kind) << 8) + 0x1234 + u16::from(number) + 0x0102);
    f.extend([kind, 0, (sum >> 8) as u8, sum as u8, 0x12, 0x34, 0, number, 1, 2]);
    f.resize(60, 0);
    f
}

#[test]
fn requests_are_answered_on_the_port_of_arrival_and_all_else_is_freed() {
    let dir = tempfile::tempdir().unwrap();
    let d = dir.path();
    let asked = [&ASKER[..], &[10, 0, 0, 1]].concat();
    let head = [&[0xff; 6][..], &ASKER].concat();
    let mut input = frames(200);
    for i in 0..=255 {
        input.insert(i as usize * 2 % 150, echo(true, 0));
        input.push(echo(true, i));
    }
    input.push(arp(&asked, &[0, 0, 0, 0, 0, 0, 10, 0, 0, 2], &head, 1));
    write_pcap(&d.join("in.pcap"), &input);
    write_pcap(&d.join("other.pcap"), &frames(100));
    let (first, second) =
        (port(&d.join("in.pcap"), &d.join("out.pcap")), port(&d.join("other.pcap"), &d.join("nothing.pcap")));
    let v = report(&[&first, &second, "--forward-mode=icmpecho", "--duration=60"]);
    let f = &v["forward"];
    let counts = (n(f, "rx_packets"), n(f, "tx_packets"), n(f, "dropped"));
    assert_eq!(counts, (input.len() as u64 + 100, 513, 0), "what is freed is not dropped");
    let out = read_pcap(&d.join("out.pcap"));
    let mut wanted = vec![echo(false, 0); 256];
    wanted.extend((0..=255).map(|i| echo(false, i)));
    assert_eq!(out[..512], wanted);
    let reply = &out[512];
    let own = &reply[6..12];
    let sender = [own, &[10, 0, 0, 2]].concat();
    assert_eq!(reply, &arp(&sender, &asked, &[&ASKER, own].concat(), 2));
    assert_eq!(own[0] & 1, 0, "a station's address");
    assert_eq!(read_pcap(&d.join("nothing.pcap")), Vec::<Vec<u8>>::new());
}

#[test]
fn nothing_comes_back_to_the_tester_from_icmpecho_and_that_is_no_loss() {
    let v = report(&["--forward-mode=icmpecho", "--duration=0.2"]);
    assert!(n(&v["forward"], "rx_packets") > 0);
    assert_eq!((n(&v["tester"], "lost"), n(&v["forward"], "tx_packets")), (0, 0));
    let ran = run(&["--forward-mode=icmpecho", "--inject=drop=5"]);
    assert_eq!(ran.status, 1);
    assert!(ran.stderr.contains("icmpecho"), "{}", ran.stderr);
}

#[test]
fn flowgen_goes_round_its_flows_and_frees_what_comes() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    write_pcap(&input, &frames(100));
    let spec = port(&input, &output);
    for clones in [0, 3] {
        let clones_arg = format!("--flowgen-clones={clones}");
        let args = [&spec, "--forward-mode=flowgen", "--flowgen-flows=100", &clones_arg, "--duration=0.05"];
        let v = report(&args);
        let f = &v["forward"];
        let out = read_pcap(&output);
        assert!(out.len() > 1000, "it goes on when its input has ended");
        assert_eq!((n(f, "rx_packets"), n(f, "tx_packets")), (100, out.len() as u64));
        for (i, frame) in out.iter().enumerate() {
            let packet = i / (clones + 1) * (clones + 1);
            assert_eq!(frame.len(), 60);
            assert_eq!(frame[30..34], [10, 253, 0, (packet % 100) as u8], "packet {i}");
        }
    }
    // A ring that takes less than a burst: no flow is left out.
    for clones in ["--flowgen-clones=0", "--flowgen-clones=40"] {
        let v = report(&["--port=ring:flowgen,size=63", "--forward-mode=flowgen", clones, "--duration=0.05"]);
        assert!(n(&v["forward"], "tx_packets") > 1000);
    }
    for (bad, says) in [
        (&["--txpkts=45", "--port=null"][..], "46 to 2052"),
        (&["--txpkts=1000,1053", "--port=null"], "2053 bytes"),
        (&[], "name ports"),
    ] {
        let ran = run(&[&["--forward-mode=flowgen"], bad].concat());
        assert!(ran.status == 1 && ran.stderr.contains(says), "{bad:?}: {}", ran.stderr);
    }
}

#[test]
fn noisy_loses_nothing_in_its_fifo_and_forwards_as_the_inner_mode() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    write_pcap(&input, &frames(1000));
    let spec = port(&input, &output);
    let noise = ["--noisy-lkup-memory=1", "--noisy-lkup-num-reads=2", "--noisy-lkup-num-reads-writes=1"];
    for fifo in ["0", "1", "100", "5000"] {
        let size = format!("--noisy-tx-sw-buffer-size={fifo}");
        let v = report(&[&[&spec[..], "--forward-mode=noisy", &size, "--duration=30"], &noise[..]].concat());
        assert_eq!(n(&v["forward"], "tx_packets"), 1000);
        assert_eq!(read_pcap(&output), frames(1000), "a FIFO of {fifo}");
    }
    let inner = |mode: &str| {
        let noisy = format!("--noisy-forward-mode={mode}");
        report(&[&spec, "--forward-mode=noisy", &noisy, "--noisy-tx-sw-buffer-size=64", "--duration=30"]);
        let noisy = read_pcap(&output);
        report(&[&spec, &format!("--forward-mode={mode}"), "--duration=30"]);
        assert_eq!(noisy, read_pcap(&output), "{mode}");
    };
    ["io", "mac", "macswap", "5tswap"].into_iter().for_each(inner);
    // The tester gets every frame back, also those that wait when it stops sending.
    for mode in ["io", "mac", "macswap", "5tswap"] {
        let mode = format!("--noisy-forward-mode={mode}");
        let v = report(&["--forward-mode=noisy", &mode, "--noisy-tx-sw-buffer-size=100", "--duration=0.1"]);
        let t = &v["tester"];
        assert!(n(t, "received") > 100 && n(t, "lost") + n(t, "corrupt") == 0, "{t}");
    }
    let ran = run(&["--forward-mode=noisy", "--noisy-lkup-num-writes=1"]);
    assert!(ran.status == 1 && ran.stderr.contains("--noisy-lkup-memory"), "{}", ran.stderr);
}
