//! Which rule takes which frame, and what it does with it.

use super::bench::*;
use crate::{FlowId, PortError, PortStats, flow::FlowHits};
use linerate_mbuf::PacketType;
use proptest::prelude::*;

const A: [u8; 4] = [10, 1, 2, 3];
const B: [u8; 4] = [10, 9, 8, 7];

/// A field as it stands in a frame: item and field by name, what goes before, where its bits are.
struct Place {
    before: &'static str,
    item: &'static str,
    field: &'static str,
    frame: Vec<u8>,
    at: usize,
    len: usize,
    /// Bits of those bytes, from the right.
    shift: u32,
    bits: u32,
}

fn places() -> Vec<Place> {
    let mut places = Vec::new();
    let mut add = |before, item, field, frame: &[u8], at, len, shift, bits| {
        places.push(Place { before, item, field, frame: frame.to_vec(), at, len, shift, bits });
    };
    let mut v4 = v4_tcp(A, B, (1234, 80));
    v4[15] = 0xb8;
    let v6 = v6_udp([0xa5; 16], [0x3c; 16], (7, 53));
    let vlan = tagged(&v4, &[(0x88a8, 0xb123), (0x8100, 0x5fed)]);
    for (field, at) in [("dst", 0), ("src", 6)] {
        add("", "eth", field, &v4, at, 6, 0, 48);
    }
    add("", "eth", "type", &v4, 12, 2, 0, 16);
    for (before, at) in [("eth /", 14), ("eth / vlan /", 18)] {
        add(before, "vlan", "tci", &vlan, at, 2, 0, 16);
        add(before, "vlan", "pcp", &vlan, at, 2, 13, 3);
        add(before, "vlan", "dei", &vlan, at, 2, 12, 1);
        add(before, "vlan", "vid", &vlan, at, 2, 0, 12);
        add(before, "vlan", "inner_type", &vlan, at + 2, 2, 0, 16);
    }
    for (frame, l3) in [(&v4, 14), (&vlan, 22)] {
        add("eth /", "ipv4", "src", frame, l3 + 12, 4, 0, 32);
        add("", "ipv4", "dst", frame, l3 + 16, 4, 0, 32);
        add("eth /", "ipv4", "proto", frame, l3 + 9, 1, 0, 8);
        add("eth /", "ipv4", "tos", frame, l3 + 1, 1, 0, 8);
        add("ipv4 /", "tcp", "src", frame, l3 + 20, 2, 0, 16);
        add("ipv4 /", "tcp", "dst", frame, l3 + 22, 2, 0, 16);
        add("eth / ipv4 /", "tcp", "flags", frame, l3 + 33, 1, 0, 8);
    }
    add("eth /", "ipv6", "src", &v6, 22, 16, 0, 128);
    add("eth /", "ipv6", "dst", &v6, 38, 16, 0, 128);
    add("eth /", "ipv6", "proto", &v6, 20, 1, 0, 8);
    add("ipv6 /", "udp", "src", &v6, 54, 2, 0, 16);
    add("ipv6 /", "udp", "dst", &v6, 56, 2, 0, 16);
    for (before, item, frame, l4) in [("ipv4 /", "icmp", v4_icmp(), 34), ("ipv6 /", "icmp6", v6_icmp(), 54)] {
        add(before, item, "type", &frame, l4, 1, 0, 8);
        add(before, item, "code", &frame, l4 + 1, 1, 0, 8);
    }
    let mut sctp = v4_udp(A, B, (0, 0));
    sctp[23] = 132;
    sctp[34..38].copy_from_slice(&[0x12, 0x34, 0x56, 0x78]);
    add("ipv4 /", "sctp", "src", &sctp, 34, 2, 0, 16);
    add("ipv4 /", "sctp", "dst", &sctp, 36, 2, 0, 16);
    places
}

impl Place {
    fn full(&self) -> u128 {
        if self.bits == 128 { u128::MAX } else { (1 << self.bits) - 1 }
    }

    fn value(&self) -> u128 {
        let bytes = &self.frame[self.at..self.at + self.len];
        bytes.iter().fold(0u128, |n, b| n << 8 | u128::from(*b)) >> self.shift & self.full()
    }

    fn text(&self, n: u128) -> String {
        match self.len {
            6 => crate::MacAddress((n as u64).to_be_bytes()[2..].try_into().unwrap()).to_string(),
            4 => std::net::Ipv4Addr::from_bits(n as u32).to_string(),
            16 => std::net::Ipv6Addr::from_bits(n).to_string(),
            _ => n.to_string(),
        }
    }

    fn rule(&self, spec: u128, mask: u128) -> String {
        let (field, spec, mask) = (self.field, self.text(spec), self.text(mask));
        format!(
            "pattern {} {} {field} spec {spec} {field} mask {mask} / end actions queue index 1 / end",
            self.before, self.item
        )
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Any bits of any field: a rule that wants them as they are takes the frame, one that wants one of them
    /// otherwise does not.
    #[test]
    fn every_field_under_any_mask(random in any::<u128>(), bit in any::<u32>()) {
        let mut b = Bench::plain(2);
        for p in places() {
            let full = p.full();
            for mask in [full, random & full, full & !(full >> (bit % p.bits) >> 1), 1 << (bit % p.bits)] {
                let id = b.rule(&p.rule(p.value(), mask));
                let took = b.one(&p.frame).map(|g| g.0);
                prop_assert_eq!(took, Some(1), "{}", p.rule(p.value(), mask));
                b.port.destroy_flow(id).unwrap();
                // One of the bits that count, the other way round.
                let counting: Vec<u32> = (0..p.bits).filter(|i| mask >> i & 1 == 1).collect();
                if counting.is_empty() {
                    continue;
                }
                let other = p.value() ^ 1 << counting[bit as usize % counting.len()];
                let id = b.rule(&p.rule(other, mask));
                let took = b.one(&p.frame).map(|g| g.0);
                prop_assert_eq!(took, Some(0), "{}", p.rule(other, mask));
                b.port.destroy_flow(id).unwrap();
            }
        }
        b.end();
    }
}

#[test]
fn headers_must_be_there() {
    let frames = [
        ("tcp4", v4_tcp(A, B, (1, 2))),
        ("udp4", v4_udp(A, B, (1, 2))),
        ("tcp6", v6_tcp([1; 16], [2; 16], (1, 2))),
        ("udp6", v6_udp([1; 16], [2; 16], (1, 2))),
        ("icmp", v4_icmp()),
        ("icmp6", v6_icmp()),
        ("vlan4", tagged(&v4_tcp(A, B, (1, 2)), &[(0x8100, 5)])),
        ("qinq4", tagged(&v4_udp(A, B, (1, 2)), &[(0x88a8, 5), (0x8100, 6)])),
        ("arp", [&DST[..], &SRC[..], &[8, 6], &[0; 46]].concat()),
        ("runt", vec![1; 13]),
    ];
    let mut b = Bench::plain(2);
    for (pattern, takes) in [
        ("", "tcp4 udp4 tcp6 udp6 icmp icmp6 vlan4 qinq4 arp runt"),
        ("eth /", "tcp4 udp4 tcp6 udp6 icmp icmp6 vlan4 qinq4 arp"),
        ("eth / vlan /", "vlan4 qinq4"),
        ("vlan / vlan /", "qinq4"),
        ("vlan / vlan / vlan /", ""),
        ("vlan / ipv4 / udp /", "qinq4"),
        ("eth / ipv4 /", "tcp4 udp4 icmp vlan4 qinq4"),
        ("ipv6 /", "tcp6 udp6 icmp6"),
        ("ipv4 / tcp /", "tcp4 vlan4"),
        ("ipv6 / tcp /", "tcp6"),
        ("ipv4 / udp /", "udp4 qinq4"),
        ("ipv6 / udp /", "udp6"),
        ("ipv4 / icmp /", "icmp"),
        ("ipv6 / icmp6 /", "icmp6"),
        ("ipv4 / sctp /", ""),
        ("eth type is 0x806 /", "arp"),
        ("vlan vid is 5 / vlan vid is 6 /", "qinq4"),
        ("vlan vid is 6 /", ""),
        ("vlan inner_type is 0x800 /", "vlan4"),
    ] {
        let id = b.rule(&format!("pattern {pattern} end actions mark id 77 / queue index 1 / end"));
        let took: Vec<_> = frames
            .iter()
            .filter(|(name, frame)| {
                let (q, m) = b.one(frame).unwrap_or_else(|| panic!("{name} is gone"));
                assert_eq!(m.mark(), (q == 1).then_some(77), "{pattern} {name}");
                q == 1
            })
            .map(|f| f.0)
            .collect();
        assert_eq!(took.join(" "), takes, "{pattern}");
        b.port.destroy_flow(id).unwrap();
    }
    b.end();
}

#[test]
fn the_first_by_priority_and_then_by_number_decides() {
    let mut b = Bench::plain(4);
    let frame = v4_udp(A, B, (1, 2));
    let low = b.rule("priority 9 pattern eth / end actions drop / end");
    assert!(b.one(&frame).is_none());
    let first = b.rule("priority 5 pattern ipv4 / end actions queue index 1 / end");
    let second = b.rule("priority 5 pattern ipv4 / udp / end actions queue index 2 / end");
    assert_eq!(b.one(&frame).unwrap().0, 1);
    let high = b.rule("pattern ipv4 / udp dst is 2 / end actions queue index 3 / mark id 4294967295 / end");
    let (q, m) = b.one(&frame).unwrap();
    assert_eq!((q, m.mark()), (3, Some(u32::MAX)));
    drop(m);
    for (id, then) in [(high, Some(1)), (first, Some(2)), (second, None), (low, Some(0))] {
        b.port.destroy_flow(id).unwrap();
        assert_eq!(b.one(&frame).map(|g| g.0), then);
    }
    assert!(matches!(b.port.destroy_flow(low), Err(PortError::Flow { .. })));
    b.end();
}

#[test]
fn what_is_counted_is_exact() {
    let mut b = Bench::plain(2);
    let (udp, tcp) = (v4_udp(A, B, (1, 2)), v4_tcp(A, B, (1, 2)));
    // Before there is a stage the driver counts.
    b.offer(0, &vec![udp.clone(); 7]);
    assert_eq!(b.receive()[0].len(), 7);
    let counted = b.rule("pattern ipv4 / udp / end actions count / queue index 1 / end");
    let dropped = b.rule("pattern ipv4 / tcp / end actions count / drop / end");
    let silent = b.rule("priority 1 pattern eth / end actions queue index 0 / end");
    // Both queues of the device bring both.
    for q in 0..2 {
        b.offer(q, &vec![udp.clone(); 20]);
        b.offer(q, &vec![tcp.clone(); 30]);
    }
    let got = b.receive();
    assert_eq!((got[0].len(), got[1].len()), (0, 40));
    drop(got);
    let hits = |b: &Bench, id| b.port.flow_hits(id).unwrap();
    let of = |n: u64, f: &[u8]| FlowHits { packets: n, bytes: n * f.len() as u64 };
    assert_eq!(hits(&b, counted), of(40, &udp));
    assert_eq!(hits(&b, dropped), of(60, &tcp));
    assert_eq!(hits(&b, silent), FlowHits::default());
    let want = PortStats {
        rx_packets: 47,
        rx_bytes: Some(47 * udp.len() as u64),
        tx_bytes: Some(0),
        ..Default::default()
    };
    assert_eq!(b.port.stats(), want);
    let x = ["rx_q0_packets", "rx_q1_packets", "rx_flow_drop_packets", "rx_filtered_packets"];
    assert_eq!(x.map(|n| b.xstat(n)), [7, 40, 60, 0]);
    // After a stop and a start the counters go on; a rule that was taken out counts no more.
    b.stop();
    assert_eq!(b.port.stats(), want);
    b.port.destroy_flow(dropped).unwrap();
    b.start();
    b.offer(1, [&udp, &tcp, &tcp]);
    let got = b.receive();
    assert_eq!((got[0].len(), got[1].len()), (2, 1));
    drop(got);
    assert_eq!(hits(&b, counted), of(41, &udp));
    assert_eq!(b.port.stats().rx_packets, 50);
    assert!(matches!(b.port.flow_hits(dropped), Err(PortError::Flow { .. })));
    assert!(matches!(b.port.flow_hits(FlowId(99)), Err(PortError::Flow { .. })));
    b.end();
}

#[test]
fn tags_that_the_device_took_out_are_still_matched() {
    let mut b = Bench::new(Device { strips: true, ..Default::default() }, 3, None);
    b.rule(
        "pattern vlan vid is 5 / vlan vid is 6 / ipv4 src is 10.1.2.3 / udp dst is 2 / end \
            actions queue index 2 / end",
    );
    b.rule("priority 1 pattern vlan pcp is 7 vid is 5 inner_type is 0x800 / end actions queue index 1 / end");
    let frame = v4_udp(A, B, (1, 2));
    let (q, m) = b.one(&tagged(&frame, &[(0x8100, 0xe005)])).unwrap();
    assert_eq!((q, m.packet_type()), (1, PacketType(0x216)));
    drop(m);
    assert_eq!(b.one(&tagged(&frame, &[(0x8100, 5), (0x8100, 6)])).unwrap().0, 2);
    assert_eq!(b.one(&frame).unwrap().0, 0);
    b.end();
}

#[test]
fn a_rule_that_does_not_fit_the_port_is_refused_and_changes_nothing() {
    let mut b = Bench::plain(2);
    let rule = "pattern end actions queue index 2 / end".parse().unwrap();
    assert!(matches!(b.port.create_flow(rule), Err(PortError::Flow { .. })));
    assert!(!b.rx[0].is_staged());
    assert_eq!(b.port.flows().count(), 0);
    b.end();
}
