//! The examples, as code: what they do to real captures, and that they end when they are told to.

#[allow(dead_code)]
#[path = "../examples/flow_counter.rs"]
mod flow_counter;
#[allow(dead_code)]
#[path = "../examples/forwarder.rs"]
mod forwarder;
#[allow(dead_code)]
#[path = "../examples/icmp_responder.rs"]
mod icmp_responder;
#[allow(dead_code)]
#[path = "../examples/pcap_filter.rs"]
mod pcap_filter;
mod testpmd_common;

use linerate::{
    StopSignal,
    net::{
        MacAddr, arp,
        builder::{UdpFlow, UdpTemplate},
        checksum::checksum,
    },
};
use std::{net::Ipv4Addr, path::Path, thread, time::Duration};
use testpmd_common::{read_pcap, write_pcap};

const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);

/// A UDP frame of this length between these ports.
fn udp(src_port: u16, dst_port: u16, len: usize) -> Vec<u8> {
    let flow = UdpFlow { src_port, dst_port, ..UdpFlow::txonly(B, A) };
    let mut frame = vec![7; len];
    assert!(UdpTemplate::new(&flow, len).unwrap().write(&mut frame));
    frame
}

/// Frames of three flows and one without IP: 10 to port 53, 20 to port 80, 5 from port 53.
fn capture(path: &Path) -> Vec<Vec<u8>> {
    let mut frames = Vec::new();
    frames.extend((0..10).map(|i| udp(1000, 53, 60 + i)));
    frames.extend((0..20).map(|i| udp(1000, 80, 1000 + i)));
    frames.extend((0..5).map(|i| udp(53, 1000, 100 + i)));
    frames.push([&B.0[..], &A.0, &[0x88, 0xcc], &[0; 46]].concat());
    write_pcap(path, &frames);
    frames
}

fn rx(path: &Path) -> String {
    format!("pcap:rx_pcap={}", path.display())
}

fn tx(path: &Path) -> String {
    format!("pcap:tx_pcap={}", path.display())
}

/// Runs it on ports whose input never ends, and lets it be stopped from outside.
fn is_stopped<R: Send>(work: impl FnOnce(&StopSignal) -> R + Send) -> R {
    let stop = StopSignal::new();
    thread::scope(|s| {
        let running = s.spawn(|| work(&stop));
        thread::sleep(Duration::from_millis(50));
        assert!(!running.is_finished(), "it runs until it is stopped");
        stop.set();
        running.join().unwrap()
    })
}

#[test]
fn the_forwarder_swaps_the_addresses_of_every_frame_and_ends_with_the_input() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    let mut frames = capture(&input);
    // Both as a pair, and a single port that sends what it receives.
    let pair = [rx(&input), tx(&output)];
    let single = [format!("pcap:rx_pcap={},tx_pcap={}", input.display(), output.display())];
    for f in &mut frames {
        f[..6].copy_from_slice(&A.0);
        f[6..12].copy_from_slice(&B.0);
    }
    for specs in [&pair[..], &single[..]] {
        assert_eq!(forwarder::forward(specs, &StopSignal::new()).unwrap(), 0);
        assert_eq!(read_pcap(&output), frames);
    }
    is_stopped(|stop| forwarder::forward(&["null".into(), "null".into()], stop).unwrap());
    assert!(forwarder::forward(&["nul".into()], &StopSignal::new()).is_err());
}

#[test]
fn the_filter_copies_what_goes_from_or_to_the_port_and_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    let frames = capture(&input);
    let done = pcap_filter::filter(53, &rx(&input), &tx(&output), &StopSignal::new()).unwrap();
    assert_eq!(done, (36, 15));
    assert_eq!(read_pcap(&output), [&frames[..10], &frames[30..35]].concat());
    let (seen, copied) = is_stopped(|stop| pcap_filter::filter(53, "null", "null", stop).unwrap());
    assert!(seen > 0 && copied == 0);
}

#[test]
fn the_counter_knows_each_flow_with_its_packets_and_bytes() {
    let dir = tempfile::tempdir().unwrap();
    let input = dir.path().join("in.pcap");
    let frames = capture(&input);
    let flows = flow_counter::count(&[rx(&input), rx(&input)], &StopSignal::new()).unwrap();
    let bytes = |f: &[Vec<u8>]| f.iter().map(|f| f.len() as u64).sum::<u64>();
    assert_eq!(flows.len(), 3, "{flows:?}");
    for (ports, part) in [((1000, 53), 0..10), ((1000, 80), 10..30), ((53, 1000), 30..35)] {
        let found = flows.iter().find(|(f, _)| (f.3, f.4) == ports).map(|(_, c)| *c);
        let part = &frames[part];
        assert_eq!(found, Some((2 * part.len() as u64, 2 * bytes(part))), "{ports:?}");
    }
    is_stopped(|stop| flow_counter::count(&["null".into()], stop).unwrap());
}

/// An echo request, or what else the type says.
fn icmp(kind: u8, src: Ipv4Addr, dst: Ipv4Addr) -> Vec<u8> {
    let mut message = [&[kind, 0, 0, 0, 1, 2, 0, 9][..], &[0x5a; 33]].concat();
    let sum = checksum(&message).to_be_bytes();
    message[2..4].copy_from_slice(&sum);
    let mut ip = [0x45, 0, 0, 61, 0, 0, 0, 0, 64, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    ip[12..16].copy_from_slice(&src.octets());
    ip[16..].copy_from_slice(&dst.octets());
    let sum = checksum(&ip).to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    [&B.0[..], &A.0, &[8, 0], &ip, &message].concat()
}

fn arp_request(asker: Ipv4Addr, asked: Ipv4Addr) -> Vec<u8> {
    let head = [0, 1, 8, 0, 6, 4, 0, arp::REQUEST as u8];
    [&[0xff; 6], &A.0[..], &[8, 6], &head, &A.0, &asker.octets(), &[0; 6], &asked.octets()].concat()
}

#[test]
fn pings_and_arp_requests_are_answered_and_all_else_is_not() {
    let dir = tempfile::tempdir().unwrap();
    let (input, output) = (dir.path().join("in.pcap"), dir.path().join("out.pcap"));
    let (me, you) = (Ipv4Addr::new(10, 9, 0, 1), Ipv4Addr::new(10, 9, 0, 2));
    let ping = icmp(8, me, you);
    write_pcap(
        &input,
        &[ping.clone(), icmp(0, me, you), udp(1, 2, 60), arp_request(me, you), ping[..38].to_vec()],
    );
    let spec = format!("pcap:rx_pcap={},tx_pcap={}", input.display(), output.display());
    assert_eq!(icmp_responder::respond(&[spec], &StopSignal::new()).unwrap(), 2);
    let answers = read_pcap(&output);
    assert_eq!(answers.len(), 2);
    // What the answer must be, made from nothing; our own address is the port's.
    let own = &answers[0][6..12];
    let mut pong = icmp(0, you, me);
    pong[..6].copy_from_slice(&A.0);
    pong[6..12].copy_from_slice(own);
    assert_eq!(answers[0], pong);
    let reply = [&A.0, own, &[8, 6, 0, 1, 8, 0, 6, 4, 0, 2], own, &you.octets(), &A.0, &me.octets()].concat();
    assert_eq!(answers[1], reply);
    is_stopped(|stop| icmp_responder::respond(&["null".into()], stop).unwrap());
}

#[test]
fn each_example_is_short() {
    for text in [
        include_str!("../examples/forwarder.rs"),
        include_str!("../examples/icmp_responder.rs"),
        include_str!("../examples/flow_counter.rs"),
        include_str!("../examples/pcap_filter.rs"),
    ] {
        assert!(text.lines().count() < 60);
        assert!(!text.contains("linerate_"), "on the facade alone");
    }
}
