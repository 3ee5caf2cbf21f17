//! What each mode does to packets, through the mode itself.

use super::{
    StreamContext,
    csum::{Csum, CsumPlan},
    five_tuple::FiveTupleSwap,
    io::Io,
    mac::Mac,
    macswap::MacSwap,
    rxonly::RxOnly,
    txonly::{Split, TxOnly, TxOnlyPlan},
};
use crate::testpmd::engine::{BadChecksums, Mode};
use linerate_mbuf::{Burst, Mempool, OlFlags};
use linerate_net::{
    MacAddr, ParseOptions,
    builder::{UdpFlow, UdpTemplate},
    checksum::Verdict,
    csum_verify::verify,
};
use std::net::Ipv4Addr;

pub(in crate::testpmd) fn stream(pool: &Mempool) -> StreamContext {
    StreamContext {
        peer: MacAddr::peer(1),
        own: MacAddr::new([2, 9, 9, 9, 9, 1]),
        pool: pool.clone(),
        core: 5,
    }
}

pub(in crate::testpmd) fn pool() -> Mempool {
    Mempool::builder("modes", 2048).cache(64).build().unwrap()
}

/// UDP frames of growing length with right checksums, each its own.
pub(in crate::testpmd) fn frames(count: usize) -> Vec<Vec<u8>> {
    let flow = UdpFlow::txonly(MacAddr::new([2, 1, 1, 1, 1, 1]), MacAddr::new([2, 2, 2, 2, 2, 2]));
    (0..count)
        .map(|i| {
            let len = 42 + i % 200;
            let payload: Vec<u8> = (0..len - 42).map(|b| (b * 3 + i) as u8).collect();
            let flow = UdpFlow { src_port: 1000 + i as u16, dst_port: 7, ..flow };
            let mut bytes = vec![0; len];
            UdpTemplate::new(&flow, len).unwrap().build(&mut bytes, &payload).unwrap();
            bytes
        })
        .collect()
}

pub(in crate::testpmd) fn load(pool: &Mempool, burst: &mut Burst, frames: &[Vec<u8>]) {
    for f in frames {
        let mut m = pool.alloc_filled(f).unwrap();
        m.set_ol_flags(OlFlags::RX_IP_CKSUM_GOOD);
        burst.push(m).unwrap();
    }
}

/// What a mode makes of frames; nothing may leak.
pub(in crate::testpmd) fn through(mut mode: impl Mode, input: &[Vec<u8>]) -> Vec<Vec<u8>> {
    let pool = pool();
    let mut burst = Burst::new();
    load(&pool, &mut burst, input);
    mode.work(&mut burst, input.len());
    let out = burst.as_slice().iter().map(|m| m.segments().flatten().copied().collect()).collect();
    burst.free_all();
    assert_eq!(pool.counts().held, 0);
    out
}

#[test]
fn io_is_byte_identical_and_keeps_the_flags() {
    for n in [1, 3, 4, 5, 31, 32, 33, 512] {
        assert_eq!(through(Io, &frames(n)), frames(n));
    }
    let pool = pool();
    let mut burst = Burst::new();
    load(&pool, &mut burst, &frames(1));
    Io.work(&mut burst, 1);
    assert_eq!(burst.as_slice()[0].ol_flags(), OlFlags::RX_IP_CKSUM_GOOD);
}

#[test]
fn mac_sets_both_addresses_and_nothing_else() {
    let pool = pool();
    for n in [1, 7, 32, 512] {
        for (before, after) in frames(n).iter().zip(through(Mac::new(&stream(&pool)), &frames(n))) {
            assert_eq!(after[..12], [2, 0, 0, 0, 0, 1, 2, 9, 9, 9, 9, 1]);
            assert_eq!(after[12..], before[12..]);
        }
    }
}

#[test]
fn macswap_is_the_same_for_every_burst_length_and_its_own_inverse() {
    for n in 1..=512 {
        let (before, once) = (frames(n), through(MacSwap, &frames(n)));
        for (b, a) in before.iter().zip(&once) {
            assert_eq!((&a[..6], &a[6..12], &a[12..]), (&b[6..12], &b[..6], &b[12..]), "burst {n}");
        }
        if n % 100 == 1 {
            assert_eq!(through(MacSwap, &once), before);
        }
    }
}

#[test]
fn five_tuple_swap_keeps_checksums_right_and_is_its_own_inverse() {
    let once = through(FiveTupleSwap, &frames(200));
    for (b, a) in frames(200).iter().zip(&once) {
        assert_eq!((&a[26..30], &a[30..34]), (&b[30..34], &b[26..30]));
        assert_eq!((&a[34..36], &a[36..38]), (&b[36..38], &b[34..36]));
        let v = verify(a, ParseOptions::PLAIN);
        assert_eq!((v.ip, v.l4), (Verdict::Good, Verdict::Good));
    }
    assert_eq!(through(FiveTupleSwap, &once), frames(200));
}

#[test]
fn rewriting_modes_drop_the_flags_and_say_the_lengths() {
    let pool = pool();
    let mut burst = Burst::new();
    load(&pool, &mut burst, &frames(2));
    MacSwap.work(&mut burst, 2);
    for m in burst.as_slice() {
        assert_eq!(m.ol_flags(), OlFlags::empty());
        assert_eq!((m.tx_offload().l2_len(), m.tx_offload().l3_len()), (14, 20));
    }
}

#[test]
fn rxonly_frees_everything() {
    assert!(through(RxOnly, &frames(100)).is_empty());
}

fn csum(mac_rewrite: bool) -> Csum {
    Csum::new(&stream(&pool()), CsumPlan { parse_tunnel: false, mac_rewrite })
}

#[test]
fn csum_mends_what_is_wrong_and_leaves_what_is_right() {
    assert_eq!(through(csum(false), &frames(100)), frames(100));
    let mut spoilt = frames(100);
    for f in &mut spoilt {
        f[25] ^= 0xff;
        f[41] ^= 0xff;
    }
    // A checksum that happens to become 0 says that there is none, and stays 0.
    let none = |f: &[u8]| f[40..42] == [0, 0];
    for ((before, bad), after) in frames(100).iter().zip(&spoilt).zip(through(csum(false), &spoilt)) {
        if none(bad) {
            assert_eq!(after[40..42], [0, 0]);
        } else {
            assert_eq!(&after, before);
        }
    }
    let after = through(csum(true), &frames(3));
    assert!(after.iter().all(|f| f[..6] == [2, 0, 0, 0, 0, 1]));
}

// Bug cases 11 and 13: lengths that lie, and more tags than anybody parses.
#[test]
fn csum_passes_on_what_it_does_not_understand() {
    let mut lying = frames(1).remove(0);
    lying.resize(64, 0);
    lying[16..18].copy_from_slice(&19u16.to_be_bytes());
    let mut tagged = vec![2; 12];
    tagged.extend([0x88, 0xa8, 0, 1].repeat(9));
    tagged.extend([0x08, 0x00, 0x45]);
    tagged.resize(90, 7);
    let input = [lying, tagged, vec![0; 14], vec![1; 60]];
    assert_eq!(through(csum(false), &input), input);
}

#[test]
fn csum_works_over_segment_borders() {
    let pool = pool();
    let right = frames(200).pop().unwrap();
    let mut bad = right.clone();
    bad[25] ^= 0x11;
    bad[41] ^= 0x11;
    for cut in [42, 43, 77, 100] {
        let mut m = pool.alloc_filled(&bad[..cut]).unwrap();
        m.chain(pool.alloc_filled(&bad[cut..]).unwrap()).unwrap();
        let mut burst = Burst::new();
        burst.push(m).unwrap();
        csum(false).work(&mut burst, 1);
        let m = &burst.as_slice()[0];
        assert_eq!((m.segment_count(), m.len() as usize), (2, right.len()));
        assert_eq!(m.segments().flatten().copied().collect::<Vec<_>>(), right, "cut at {cut}");
    }
    assert_eq!(pool.counts().held, 0);
}

/// What a mode makes of a packet cut into segments of up to `size` bytes.
fn cut_through(mut mode: impl Mode, frame: &[u8], size: usize) -> Vec<u8> {
    let pool = pool();
    let mut parts = frame.chunks(size);
    let mut m = pool.alloc_filled(parts.next().unwrap()).unwrap();
    parts.for_each(|p| m.chain(pool.alloc_filled(p).unwrap()).unwrap());
    let segments = m.segment_count();
    let mut burst = Burst::new();
    burst.push(m).unwrap();
    mode.work(&mut burst, 1);
    let m = &burst.as_slice()[0];
    assert_eq!((m.segment_count(), m.len() as usize), (segments, frame.len()), "{size}");
    let out = m.segments().flatten().copied().collect();
    burst.free_all();
    assert_eq!(pool.counts().held, 0);
    out
}

#[test]
fn what_a_mode_does_does_not_depend_on_where_a_segment_ends() {
    let flow = UdpFlow::txonly(MacAddr::new([2, 1, 1, 1, 1, 1]), MacAddr::new([2, 2, 2, 2, 2, 2]));
    let mut frame = vec![0; 700];
    let payload: Vec<u8> = (0..658).map(|b| (b * 7) as u8).collect();
    UdpTemplate::new(&flow, 700).unwrap().build(&mut frame, &payload).unwrap();
    let mut bad = frame.clone();
    bad[25] ^= 0x11;
    bad[41] ^= 0x11;
    let context = stream(&pool());
    let wanted = [
        through(Mac::new(&context), &[frame.clone()]).remove(0),
        through(MacSwap, &[frame.clone()]).remove(0),
        through(FiveTupleSwap, &[frame.clone()]).remove(0),
        through(csum(true), &[bad.clone()]).remove(0),
    ];
    assert!(wanted.iter().all(|w| *w != frame && *w != bad));
    for size in (1..60).chain([100, 255, 256, 257, 300, 699]) {
        let got = [
            cut_through(Mac::new(&context), &frame, size),
            cut_through(MacSwap, &frame, size),
            cut_through(FiveTupleSwap, &frame, size),
            cut_through(csum(true), &bad, size),
        ];
        assert_eq!(got, wanted, "segments of {size}");
    }
}

#[test]
fn csum_counts_what_the_port_flagged() {
    let pool = pool();
    let mut burst = Burst::new();
    load(&pool, &mut burst, &frames(3));
    let flags = [
        OlFlags::RX_IP_CKSUM_BAD | OlFlags::RX_L4_CKSUM_BAD,
        OlFlags::RX_OUTER_IP_CKSUM_BAD,
        OlFlags::RX_OUTER_L4_CKSUM_BAD | OlFlags::RX_L4_CKSUM_BAD,
    ];
    for (m, flags) in burst.as_mut_slice().iter_mut().zip(flags) {
        m.set_ol_flags(flags);
    }
    let mut mode = csum(false);
    mode.work(&mut burst, 3);
    assert_eq!(mode.bad_checksums(), Some(BadChecksums { ip: 1, l4: 2, outer_ip: 1, outer_l4: 1 }));
}

fn made(segments: &[u16], split: Split, flows: u8) -> TxOnlyPlan {
    let addresses = (Ipv4Addr::new(198, 18, 0, 1), Ipv4Addr::new(198, 18, 0, 2));
    TxOnlyPlan { segments: segments.to_vec(), split, flows, addresses, ports: (9, 9) }
}

/// Lengths and checksum of a made packet.
fn check_made(frame: &[u8]) {
    assert_eq!(frame[..12], [2, 0, 0, 0, 0, 1, 2, 9, 9, 9, 9, 1]);
    let word = |at: usize| usize::from(u16::from_be_bytes([frame[at], frame[at + 1]]));
    assert_eq!((word(16), word(38)), (frame.len() - 14, frame.len() - 34), "IP and UDP length");
    assert_eq!((word(40), frame[22]), (0, 64));
    assert_eq!(verify(frame, ParseOptions::PLAIN).ip, Verdict::Good);
}

#[test]
fn txonly_makes_the_packets_of_the_reference() {
    let pool = pool();
    let mut mode = TxOnly::new(&stream(&pool), &made(&[64], Split::Off, 0)).unwrap();
    let mut burst = Burst::new();
    mode.work(&mut burst, 32);
    assert_eq!(burst.len(), 32);
    for m in burst.as_slice() {
        let f = m.data();
        check_made(f);
        assert_eq!((f.len(), &f[24..26], &f[34..38]), (64, &[0xee, 0x93][..], &[0, 9, 0, 9][..]));
        assert_eq!(f[42..], [0; 22]);
    }
    for len in [42, 43, 63, 65, 1518, 2048] {
        burst.free_all();
        TxOnly::new(&stream(&pool), &made(&[len], Split::Off, 0)).unwrap().work(&mut burst, 3);
        burst.as_slice().iter().for_each(|m| check_made(m.data()));
        assert_eq!(burst.as_slice()[2].len(), u32::from(len));
    }
}

#[test]
fn txonly_sends_what_buffers_there_are() {
    let pool = Mempool::builder("few", 40).cache(0).build().unwrap();
    let mut mode = TxOnly::new(&stream(&pool), &made(&[64], Split::Off, 0)).unwrap();
    let (mut a, mut b, mut c) = (Burst::new(), Burst::new(), Burst::new());
    mode.work(&mut a, 32);
    mode.work(&mut b, 32);
    mode.work(&mut c, 32);
    assert_eq!((a.len(), b.len(), c.len()), (32, 8, 0));
    // Of two segments with five buffers left: two packets, and nothing lost.
    b.free_front(5);
    let mut two = TxOnly::new(&stream(&pool), &made(&[50, 50], Split::Off, 0)).unwrap();
    two.work(&mut c, 2);
    assert_eq!(c.len(), 2);
    c.free_all();
    two.work(&mut c, 32);
    assert!(c.len() <= 2);
    a.free_all();
    b.free_all();
    c.free_all();
    assert_eq!(pool.counts().held, 0);
}

// Bug case 38.
#[test]
fn txonly_with_a_random_split_has_the_lengths_of_each_packet() {
    let pool = pool();
    let mut mode = TxOnly::new(&stream(&pool), &made(&[2048, 2048, 100, 60], Split::Rand, 0)).unwrap();
    let mut seen = std::collections::BTreeSet::new();
    let mut burst = Burst::new();
    for _ in 0..100 {
        mode.work(&mut burst, 16);
        assert_eq!(burst.len(), 16);
        for m in burst.as_slice() {
            let frame: Vec<u8> = m.segments().flatten().copied().collect();
            check_made(&frame);
            assert!(m.segments().all(|s| !s.is_empty()));
            seen.insert((m.segment_count(), frame.len()));
        }
        burst.free_all();
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [(1, 2048), (2, 4096), (3, 4196), (4, 4256)]);
    assert_eq!(pool.counts().held, 0, "one buffer a packet was lost once");
}

#[test]
fn txonly_headers_may_lie_over_segment_borders() {
    let pool = pool();
    let mut burst = Burst::new();
    TxOnly::new(&stream(&pool), &made(&[20, 5, 80], Split::Off, 0)).unwrap().work(&mut burst, 4);
    for m in burst.as_slice() {
        assert_eq!(m.segments().map(<[u8]>::len).collect::<Vec<_>>(), [20, 5, 80]);
        check_made(&m.segments().flatten().copied().collect::<Vec<_>>());
    }
}

#[test]
fn txonly_flows_go_round_and_none_is_skipped_for_packets_that_were_not_taken() {
    let pool = pool();
    let mut mode = TxOnly::new(&stream(&pool), &made(&[64], Split::Off, 5)).unwrap();
    let mut burst = Burst::new();
    let mut ports = |n: usize, unsent: usize| {
        mode.work(&mut burst, n);
        let out: Vec<_> =
            burst.as_slice()[..n - unsent].iter().map(|m| [m.data()[34], m.data()[35]]).collect();
        mode.unsent(unsent);
        burst.free_all();
        out
    };
    let mut all = ports(7, 0);
    all.extend(ports(32, 20));
    all.extend(ports(3, 3));
    all.extend(ports(4, 0));
    let wanted: Vec<_> = (0..all.len()).map(|i| [0xC0 + (i % 5) as u8, 5]).collect();
    assert_eq!(all, wanted);
}
