//! Hash, redirection table, and queues that the device does not have.

use super::bench::*;
use crate::{PortConfig, PortError, QueueId, RssConfig, RssTypes};
use std::net::{Ipv4Addr, Ipv6Addr};

fn v4(a: &str) -> [u8; 4] {
    a.parse::<Ipv4Addr>().unwrap().octets()
}

fn v6(a: &str) -> [u8; 16] {
    a.parse::<Ipv6Addr>().unwrap().octets()
}

/// Bug case 14: source, port, destination, port, hash over addresses, and with ports.
const V4: [(&str, u16, &str, u16, u32, u32); 5] = [
    ("66.9.149.187", 2794, "161.142.100.80", 1766, 0x323e8fc2, 0x51ccc178),
    ("199.92.111.2", 14230, "65.69.140.83", 4739, 0xd718262a, 0xc626b0ea),
    ("24.19.198.95", 12898, "12.22.207.184", 38024, 0xd2d0a5de, 0x5c2b394a),
    ("38.27.205.30", 48228, "209.142.163.6", 2217, 0x82989176, 0xafc7327f),
    ("153.39.163.191", 44251, "202.188.127.2", 1303, 0x5d1809c5, 0x10e828a2),
];
const V6: [(&str, u16, &str, u16, u32, u32); 3] = [
    ("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x2cc18cd5, 0x40207d3d),
    ("3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739, 0x0f0c461c, 0xdde51bbf),
    ("3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251, "fe80::200:f8ff:fe21:67cf", 38024, 0x4b61e985, 0x02d1feef),
];

#[test]
fn the_published_vectors_come_out_of_the_port() {
    let mut b = Bench::new(Device::default(), 4, Some(RssConfig::spread(4, 128, RssTypes::all())));
    let tags = [(0x88a8, 1), (0x8100, 2)];
    let check = |b: &mut Bench, types: RssTypes, frame: &[u8], hash: Option<u32>| {
        b.port.set_rss(RssConfig::spread(4, 128, types)).unwrap();
        for f in [frame.to_vec(), tagged(frame, &tags)] {
            let (q, m) = b.one(&f).unwrap();
            assert_eq!((m.rss_hash(), q), (hash, hash.map_or(0, |h| h as usize % 128 % 4)));
        }
    };
    use RssTypes as T;
    for (src, sport, dst, dport, addresses, ports) in V4 {
        let (s, d) = (v4(src), v4(dst));
        for (f, own, other) in [
            (v4_tcp(s, d, (sport, dport)), T::IPV4_TCP, T::IPV4_UDP),
            (v4_udp(s, d, (sport, dport)), T::IPV4_UDP, T::IPV4_TCP),
        ] {
            check(&mut b, T::IPV4, &f, Some(addresses));
            check(&mut b, own, &f, Some(ports));
            check(&mut b, T::all(), &f, Some(ports));
            check(&mut b, other | T::IPV4, &f, Some(addresses));
            check(&mut b, other | T::IPV6, &f, None);
        }
    }
    for (src, sport, dst, dport, addresses, ports) in V6 {
        let (s, d) = (v6(src), v6(dst));
        for (f, own, other) in [
            (v6_tcp(s, d, (sport, dport)), T::IPV6_TCP, T::IPV6_UDP),
            (v6_udp(s, d, (sport, dport)), T::IPV6_UDP, T::IPV6_TCP),
        ] {
            check(&mut b, T::IPV6, &f, Some(addresses));
            check(&mut b, own, &f, Some(ports));
            check(&mut b, other | T::IPV6, &f, Some(addresses));
            check(&mut b, other | T::IPV4, &f, None);
        }
    }
    b.end();
}

#[test]
fn every_entry_of_the_table_is_obeyed() {
    let mut b = Bench::new(Device::default(), 4, Some(RssConfig::spread(4, 64, RssTypes::all())));
    // A frame for each entry.
    let mut frames = vec![None; 64];
    for port in 0.. {
        let frame = v4_udp([10, 0, 0, 1], [10, 0, 0, 2], (port, 9));
        let hash = b.one(&frame).unwrap().1.rss_hash().unwrap();
        frames[hash as usize % 64] = Some(frame);
        if frames.iter().all(Option::is_some) {
            break;
        }
    }
    for entry in 0..64 {
        let mut reta = vec![1; 64];
        reta[entry] = 3;
        b.port.set_rss(RssConfig { reta, ..RssConfig::spread(4, 64, RssTypes::all()) }).unwrap();
        for (i, f) in frames.iter().flatten().enumerate() {
            assert_eq!(b.one(f).unwrap().0, if i == entry { 3 } else { 1 }, "entry {entry}, frame {i}");
        }
    }
    // Another key, other hashes; without types nothing moves.
    let key = linerate_net::rss::SYMMETRIC_KEY.to_vec();
    let symmetric = RssConfig { key, ..RssConfig::spread(4, 512, RssTypes::all()) };
    b.port.set_rss(symmetric.clone()).unwrap();
    let there = b.one(&v4_tcp([1, 2, 3, 4], [5, 6, 7, 8], (9, 10))).unwrap();
    let back = b.one(&v4_tcp([5, 6, 7, 8], [1, 2, 3, 4], (10, 9))).unwrap();
    assert_eq!((there.0, there.1.rss_hash()), (back.0, back.1.rss_hash()));
    drop((there, back));
    b.port.set_rss(RssConfig { types: RssTypes::empty(), ..symmetric.clone() }).unwrap();
    for q in 0..4 {
        b.offer(q, frames.iter().flatten());
    }
    let got = b.receive();
    assert!(got.iter().all(|g| g.len() == 64 && g.iter().all(|m| m.rss_hash().is_none())));
    drop(got);
    for bad in [vec![0; 1024], vec![0; 3], vec![4; 4]] {
        let e = b.port.set_rss(RssConfig { reta: bad, ..symmetric.clone() });
        assert!(matches!(e, Err(PortError::Invalid { .. })), "{e:?}");
    }
    b.end();
}

#[test]
fn a_device_with_one_queue_feeds_four() {
    let device = Device { queues: 1, ..Default::default() };
    let rss = RssConfig::spread(4, 128, RssTypes::all());
    let mut b = Bench::new(device.clone(), 4, Some(rss.clone()));
    let frames: Vec<_> = (0..200).map(|p| v4_udp([10, 0, 0, 1], [10, 0, 0, 2], (p, 9))).collect();
    b.offer(0, &frames);
    let got = b.receive();
    assert_eq!(got.iter().map(Vec::len).sum::<usize>(), 200);
    assert!(got.iter().all(|g| g.len() > 20), "{:?}", got.iter().map(Vec::len).collect::<Vec<_>>());
    // Each flow is where its hash says.
    for (q, m) in got.iter().enumerate().flat_map(|(q, g)| g.iter().map(move |m| (q, m))) {
        assert_eq!(m.rss_hash().unwrap() as usize % 128 % 4, q);
    }
    let s = b.port.stats();
    assert_eq!((s.rx_packets, s.rx_missed), (200, 0));
    assert_eq!(s.rx_bytes, Some(frames.iter().map(|f| f.len() as u64).sum()));
    drop(got);
    // A queue that only the port knows is stopped and started alone.
    b.port.set_rx_queue_running(QueueId(2), false).unwrap();
    b.offer(0, &frames);
    let got = b.receive();
    assert!(got[2].is_empty());
    let waiting = 200 - got.iter().map(Vec::len).sum::<usize>();
    drop(got);
    b.port.set_rx_queue_running(QueueId(2), true).unwrap();
    assert!(b.poll(2, 32).is_empty(), "what came meanwhile is of another time");
    assert!(waiting > 20);
    b.end();
    // Only where it is spread: nothing would ever come into the others.
    let mut b = Bench::new(device, 1, None);
    b.stop();
    let e = b.port.configure(PortConfig { rx_queues: 2, ..Default::default() });
    assert!(matches!(e, Err(PortError::Range { max: 1, .. })), "{e:?}");
    let e = b.port.configure(PortConfig { rx_queues: 65, rss: Some(rss), ..Default::default() });
    assert!(matches!(e, Err(PortError::Range { max: 64, .. })), "{e:?}");
    b.end();
}

#[test]
fn rules_come_before_the_hash() {
    let mut b = Bench::new(Device::default(), 4, Some(RssConfig::spread(3, 128, RssTypes::all())));
    let id = b.rule("pattern ipv4 / udp dst is 9 / end actions queue index 3 / count / end");
    for p in 0..50 {
        let (q, m) = b.one(&v4_udp([10, 0, 0, 1], [10, 0, 0, 2], (p, 9))).unwrap();
        assert_eq!((q, m.rss_hash()), (3, None));
        let (q, m) = b.one(&v4_udp([10, 0, 0, 1], [10, 0, 0, 2], (p, 8))).unwrap();
        assert!(q < 3 && m.rss_hash().is_some());
    }
    assert_eq!(b.port.flow_hits(id).unwrap().packets, 50);
    b.end();
}
