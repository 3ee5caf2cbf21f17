use super::*;
use crate::parse::{ParseOptions, parse};
use core::net::{Ipv4Addr, Ipv6Addr};
use etherparse::PacketBuilder;
use proptest::prelude::*;

type Vector = (&'static str, u16, &'static str, u16, u32, u32);

/// Source, destination, hash over the addresses, hash over addresses and ports: the published vectors of Microsoft's key.
const V4: [Vector; 5] = [
    ("66.9.149.187", 2794, "161.142.100.80", 1766, 0x323e8fc2, 0x51ccc178),
    ("199.92.111.2", 14230, "65.69.140.83", 4739, 0xd718262a, 0xc626b0ea),
    ("24.19.198.95", 12898, "12.22.207.184", 38024, 0xd2d0a5de, 0x5c2b394a),
    ("38.27.205.30", 48228, "209.142.163.6", 2217, 0x82989176, 0xafc7327f),
    ("153.39.163.191", 44251, "202.188.127.2", 1303, 0x5d1809c5, 0x10e828a2),
];

const V6: [Vector; 3] = [
    ("3ffe:2501:200:1fff::7", 2794, "3ffe:2501:200:3::1", 1766, 0x2cc18cd5, 0x40207d3d),
    ("3ffe:501:8::260:97ff:fe40:efab", 14230, "ff02::1", 4739, 0x0f0c461c, 0xdde51bbf),
    ("3ffe:1900:4545:3:200:f8ff:fe21:67cf", 44251, "fe80::200:f8ff:fe21:67cf", 38024, 0x4b61e985, 0x02d1feef),
];

fn v4(text: &str) -> [u8; 4] {
    text.parse::<Ipv4Addr>().unwrap().octets()
}

fn v6(text: &str) -> [u8; 16] {
    text.parse::<Ipv6Addr>().unwrap().octets()
}

/// Both forms of the hash, which have to agree.
fn hash(key: &[u8], tuple: &Tuple) -> u32 {
    let quick = ToeplitzKey::new(key).hash(tuple.bytes());
    assert_eq!(quick, toeplitz(key, tuple.bytes()));
    quick
}

#[test]
fn published_vectors() {
    let kind = HashKind::Toeplitz;
    for (src, sport, dst, dport, addresses, ports) in V4 {
        let (s, d) = (v4(src), v4(dst));
        assert_eq!(hash(&DEFAULT_KEY, &Tuple::new(s, d, None, kind)), addresses, "{src}");
        assert_eq!(hash(&DEFAULT_KEY, &Tuple::new(s, d, Some((sport, dport)), kind)), ports, "{src}");
    }
    for (src, sport, dst, dport, addresses, ports) in V6 {
        let (s, d) = (v6(src), v6(dst));
        assert_eq!(hash(&DEFAULT_KEY, &Tuple::new(s, d, None, kind)), addresses, "{src}");
        assert_eq!(hash(&DEFAULT_KEY, &Tuple::new(s, d, Some((sport, dport)), kind)), ports, "{src}");
    }
}

#[test]
fn symmetric_kinds_hash_both_directions_alike() {
    let (src, sport, dst, dport, ..) = V4[0];
    let both = |key: &[u8], kind| {
        let there = hash(key, &Tuple::new(v4(src), v4(dst), Some((sport, dport)), kind));
        let back = hash(key, &Tuple::new(v4(dst), v4(src), Some((dport, sport)), kind));
        assert_eq!(there, back, "{kind:?}");
        there
    };
    assert_eq!(both(&SYMMETRIC_KEY, HashKind::Toeplitz), 0x9fcc9fcc);
    assert_eq!(both(&DEFAULT_KEY, HashKind::SymmetricXor), 0xac2b58ca);
    assert_eq!(both(&DEFAULT_KEY, HashKind::SymmetricSort), 0x759c4e0e);
}

#[test]
fn bits_at_any_offset() {
    let bytes = [0xab, 0xcd, 0xef, 0x12];
    assert_eq!(take_bits(&bytes, 4, 12), 0xbcd);
    assert_eq!(take_bits(&bytes, 0, 32), 0xabcdef12);
    assert_eq!(take_bits(&bytes, 0, 0), 0);
    assert_eq!(take_bits(&bytes, 31, 1), 0);
    assert_eq!(take_bits(&bytes, 27, 3), 0b100);
    assert_eq!(take_bits(&bytes, 28, 8), 0x20, "past the end is zero");
    assert_eq!(take_bits(&bytes, usize::MAX, 32), 0);
    for offset in 0..40 {
        for bits in 0..=32 {
            let slow = (0..bits as usize).fold(0u32, |value, bit| {
                let at = offset + bit;
                let byte = bytes.get(at / 8).copied().unwrap_or(0);
                value << 1 | u32::from(byte >> (7 - at % 8) & 1)
            });
            assert_eq!(take_bits(&bytes, offset, bits), slow, "{offset} {bits}");
        }
    }
}

/// The hash of a frame with all types on.
fn of_frame(frame: &[u8], types: HashTypes, kind: HashKind) -> Option<u32> {
    let parsed = parse(frame, ParseOptions::PLAIN);
    Tuple::of(frame, parsed.innermost(), types, kind).map(|tuple| hash(&DEFAULT_KEY, &tuple))
}

#[test]
fn tuples_of_packets() {
    let link = || PacketBuilder::ethernet2([1; 6], [2; 6]);
    for (src, sport, dst, dport, addresses, ports) in V4 {
        let mut udp = Vec::new();
        link().ipv4(v4(src), v4(dst), 9).udp(sport, dport).write(&mut udp, b"data").unwrap();
        let mut tcp = Vec::new();
        link().ipv4(v4(src), v4(dst), 9).tcp(sport, dport, 1, 2).write(&mut tcp, b"data").unwrap();
        assert_eq!(of_frame(&udp, HashTypes::IP, HashKind::Toeplitz), Some(addresses));
        assert_eq!(of_frame(&udp, HashTypes::IP | HashTypes::TCP, HashKind::Toeplitz), Some(addresses));
        assert_eq!(of_frame(&udp, HashTypes::UDP, HashKind::Toeplitz), Some(ports));
        assert_eq!(of_frame(&tcp, HashTypes::TCP, HashKind::Toeplitz), Some(ports));
        assert_eq!(of_frame(&tcp, HashTypes::UDP | HashTypes::IPV6, HashKind::Toeplitz), None);
        // A fragment is hashed over its addresses.
        udp[20] = 0x20;
        assert_eq!(of_frame(&udp, HashTypes::all(), HashKind::Toeplitz), Some(addresses));
    }
    for (src, sport, dst, dport, addresses, ports) in V6 {
        // The IPv6/TCP ports once were read only for UDP, so that every flow hashed to one CPU.
        let mut tcp = Vec::new();
        link().ipv6(v6(src), v6(dst), 9).tcp(sport, dport, 1, 2).write(&mut tcp, b"data").unwrap();
        assert_eq!(of_frame(&tcp, HashTypes::TCP, HashKind::Toeplitz), Some(ports));
        assert_eq!(of_frame(&tcp, HashTypes::IP, HashKind::Toeplitz), Some(addresses));
    }
    assert_eq!(of_frame(&[0; 60], HashTypes::all(), HashKind::Toeplitz), None);
}

#[test]
fn ipv6_tcp_flows_spread() {
    let mut seen = std::collections::HashSet::new();
    for port in 0..256u16 {
        let mut tcp = Vec::new();
        PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv6([1; 16], [2; 16], 9)
            .tcp(1024 + port, 443, 1, 2)
            .write(&mut tcp, b"")
            .unwrap();
        seen.insert(of_frame(&tcp, HashTypes::TCP, HashKind::Toeplitz).unwrap() & 0x7f);
    }
    assert!(seen.len() > 64, "256 ports fall on {} of 128 entries", seen.len());
}

#[test]
fn sctp_directions_hash_alike_whatever_the_tag() {
    let packet = |src: [u8; 4], dst: [u8; 4], ports: [u8; 4], tag: u8| {
        let mut frame = vec![0u8; 14 + 20 + 12];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14..18].copy_from_slice(&[0x45, 0, 0, 32]);
        frame[23] = proto::SCTP;
        frame[26..30].copy_from_slice(&src);
        frame[30..34].copy_from_slice(&dst);
        frame[34..38].copy_from_slice(&ports);
        frame[38..42].fill(tag);
        frame
    };
    for kind in [HashKind::SymmetricXor, HashKind::SymmetricSort] {
        let there = of_frame(&packet([1, 2, 3, 4], [5, 6, 7, 8], [0, 1, 0, 2], 7), HashTypes::SCTP, kind);
        let back = of_frame(&packet([5, 6, 7, 8], [1, 2, 3, 4], [0, 2, 0, 1], 9), HashTypes::SCTP, kind);
        assert!(there.is_some());
        assert_eq!(there, back);
    }
}

proptest! {
    #[test]
    fn table_is_definition(
        key in proptest::collection::vec(any::<u8>(), 0..60),
        input in proptest::collection::vec(any::<u8>(), 0..=MAX_INPUT),
    ) {
        prop_assert_eq!(ToeplitzKey::new(&key).hash(&input), toeplitz(&key, &input));
    }

    #[test]
    fn symmetric_is_symmetric(
        src in any::<[u8; 16]>(), dst in any::<[u8; 16]>(), ports in any::<(u16, u16)>(), xor in any::<bool>(),
    ) {
        let kind = if xor { HashKind::SymmetricXor } else { HashKind::SymmetricSort };
        let there = Tuple::new(src, dst, Some(ports), kind);
        let back = Tuple::new(dst, src, Some((ports.1, ports.0)), kind);
        prop_assert_eq!(there.bytes(), back.bytes());
    }
}
