//! Frames that lie or are cut off: nothing is lost for it, nothing is read that is not there.

use super::bench::*;
use crate::{RssConfig, RssTypes};
use proptest::prelude::*;

const A: [u8; 4] = [10, 1, 2, 3];
const B: [u8; 4] = [10, 9, 8, 7];

fn ipv6_chain() -> Vec<u8> {
    // Hop-by-hop and destination options before TCP.
    let mut f = v6_tcp([1; 16], [2; 16], (1000, 80));
    let options = [60, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0];
    f.splice(54..54, options);
    f[20] = 0;
    let len = (f.len() - 54) as u16;
    f[18..20].copy_from_slice(&len.to_be_bytes());
    f
}

/// An IPv4 fragment with offset and "more" bit, and an IPv6 one.
fn fragments(offset: u16, more: bool) -> [Vec<u8>; 2] {
    let mut v4 = v4_udp(A, B, (1000, 80));
    v4[20..22].copy_from_slice(&(offset | u16::from(more) << 13).to_be_bytes());
    let mut v6 = v6_udp([1; 16], [2; 16], (1000, 80));
    let at = (offset << 3 | u16::from(more)).to_be_bytes();
    v6.splice(54..54, [17, 0, at[0], at[1], 0, 0, 0, 1]);
    v6[20] = 44;
    let len = (v6.len() - 54) as u16;
    v6[18..20].copy_from_slice(&len.to_be_bytes());
    [v4, v6]
}

#[test]
fn fragments_match_up_to_their_network_header() {
    let mut b = Bench::plain(4);
    for v in [4, 6] {
        b.rule(&format!("pattern ipv{v} / udp dst is 80 / end actions queue index 1 / end"));
        b.rule(&format!("priority 1 pattern ipv{v} proto is 17 / end actions queue index 2 / end"));
    }
    for f in [v4_udp(A, B, (1000, 80)), v6_udp([1; 16], [2; 16], (1000, 80))] {
        assert_eq!(b.one(&f).unwrap().0, 1);
    }
    for (offset, more) in [(0, true), (1, true), (100, false), (0x1fff, false)] {
        for f in fragments(offset, more) {
            assert_eq!(b.one(&f).unwrap().0, 2, "{offset} {more}");
        }
    }
    b.end();
    // All fragments of a packet hash alike, over the addresses.
    let mut b = Bench::new(Device::default(), 4, Some(RssConfig::spread(4, 128, RssTypes::all())));
    let hashes = [fragments(0, true), fragments(1, true), fragments(9, false)]
        .map(|f| f.map(|f| b.one(&f).unwrap().1.rss_hash().unwrap()));
    assert!(hashes[0] == hashes[1] && hashes[1] == hashes[2]);
    let whole = b.one(&v4_udp(A, B, (1000, 80))).unwrap().1.rss_hash();
    assert_ne!(Some(hashes[0][0]), whole);
    b.end();
}

#[test]
fn extension_headers_are_walked() {
    let mut b = Bench::plain(2);
    b.rule("pattern ipv6 proto is 6 / tcp dst is 80 flags is 0x10 / end actions queue index 1 / end");
    assert_eq!(b.one(&ipv6_chain()).unwrap().0, 1);
    // Nine of them are too many to be followed.
    let mut f = v6_tcp([1; 16], [2; 16], (1000, 80));
    let chain: Vec<u8> = (0..9).flat_map(|i| [if i == 8 { 6 } else { 60 }, 0, 1, 4, 0, 0, 0, 0]).collect();
    f.splice(54..54, chain);
    f[20] = 60;
    let len = (f.len() - 54) as u16;
    f[18..20].copy_from_slice(&len.to_be_bytes());
    assert_eq!(b.one(&f).unwrap().0, 0);
    assert_eq!(b.xstat("rx_malformed_packets"), 1);
    b.end();
}

fn samples() -> Vec<Vec<u8>> {
    let [f4, f6] = fragments(3, true);
    vec![
        v4_tcp(A, B, (1000, 80)),
        v4_udp(A, B, (1000, 80)),
        v6_tcp([1; 16], [2; 16], (1000, 80)),
        ipv6_chain(),
        v4_icmp(),
        v6_icmp(),
        tagged(&v4_udp(A, B, (1000, 80)), &[(0x8100, 1); 8]),
        tagged(&v4_udp(A, B, (1000, 80)), &[(0x8100, 1); 9]),
        f4,
        f6,
    ]
}

/// Rules of every kind, that send what they take to queue 1 or 2.
fn hostile_bench(strips: bool) -> Bench {
    let rss = RssConfig::spread(4, 128, RssTypes::all());
    let mut b = Bench::new(Device { strips, ..Default::default() }, 4, Some(rss));
    for (i, p) in [
        "eth type is 0x1234",
        "vlan / vlan / vlan / vlan / vlan / vlan / vlan / vlan tci is 1",
        "vlan vid is 2 inner_type is 0x86dd",
        "ipv4 src is 10.1.2.3 tos is 9",
        "ipv6 src is 101::1 proto is 6",
        "ipv4 / tcp dst is 80 flags is 0x12",
        "ipv6 / tcp dst is 81 flags is 0x12",
        "ipv4 / udp dst is 80 src is 4",
        "ipv4 / icmp type is 8 code is 1",
        "ipv6 / icmp6 type is 128 code is 7",
    ]
    .iter()
    .enumerate()
    {
        b.rule(&format!("pattern {p} / end actions queue index {} / count / end", 1 + i % 2));
    }
    b.port.set_vlan(1, true).unwrap();
    b
}

#[test]
fn truncated_at_every_byte() {
    for strips in [false, true] {
        let mut b = hostile_bench(strips);
        for f in samples() {
            for len in 1..=f.len() {
                assert!(b.one(&f[..len]).is_some(), "a frame cut to {len} bytes is gone");
            }
        }
        assert!(b.xstat("rx_malformed_packets") > 300);
        b.end();
    }
}

#[test]
fn what_contradicts_itself_goes_by_what_is_known() {
    let mut b = Bench::new(Device::default(), 4, Some(RssConfig::spread(3, 128, RssTypes::all())));
    b.rule("pattern ipv4 / udp / end actions queue index 3 / end");
    let good = v4_udp(A, B, (1000, 80));
    assert_eq!(b.one(&good).unwrap().0, 3);
    // A UDP length past the packet's end: no UDP header, but addresses to hash.
    let mut f = good.clone();
    f[38..40].fill(0xff);
    let (q, m) = b.one(&f).unwrap();
    assert!(q < 3 && m.rss_hash().is_some());
    drop(m);
    // An IP length past the frame's end, no header length, another version: nothing is known.
    for (at, value) in [(16, 0xff), (14, 0x41), (14, 0x65)] {
        let mut f = good.clone();
        f[at] = value;
        let (q, m) = b.one(&f).unwrap();
        assert_eq!((q, m.rss_hash()), (0, None), "{at}");
    }
    assert_eq!(b.xstat("rx_malformed_packets"), 4);
    b.end();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever comes, it goes somewhere, once.
    #[test]
    fn nothing_is_lost(
        which in 0..10usize,
        changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 0..6),
        noise in proptest::collection::vec(any::<u8>(), 1..120),
        cut in any::<usize>(),
        strips in any::<bool>(),
    ) {
        let mut b = hostile_bench(strips);
        let mut f = samples()[which].clone();
        for (at, value) in changes {
            let at = at % f.len();
            f[at] = value;
        }
        let short = f[..1 + cut % f.len()].to_vec();
        b.offer(0, [&f, &short, &noise]);
        let got = b.receive();
        let n = got.iter().map(Vec::len).sum::<usize>() as u64;
        prop_assert_eq!(n + b.xstat("rx_filtered_packets"), 3);
        prop_assert_eq!(b.port.stats().rx_packets, n);
        drop(got);
        b.end();
    }
}
