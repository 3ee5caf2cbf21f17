use super::*;
use crate::checksum::{Verdict, checksum_scalar};
use crate::crc32c::crc32c;
use crate::csum_verify::verify;
use crate::test_frames::{TUNNELS, ip_frame, tagged, tunnelled, v4_tcp, v4_udp, v6_udp};
use proptest::prelude::*;

const SOFTWARE: CsumOptions = CsumOptions { hw: CsumLayers::empty(), parse_tunnel: false };
const TUNNEL: CsumOptions = CsumOptions { hw: CsumLayers::empty(), parse_tunnel: true };

/// A frame with the byte pairs at `fields` spoilt, but not made zero.
fn spoilt(frame: &[u8], fields: &[usize]) -> Vec<u8> {
    let mut frame = frame.to_vec();
    for at in fields {
        frame[*at] = frame[*at].wrapping_add(1) | 0x40;
    }
    frame
}

#[test]
fn what_is_not_ip_is_left_alone_as_the_complete_walk_leaves_it() {
    for ether_type in [0u16, 60, 0x0806, 0x88cc, 0x6558, 0x8847, 0x8864, 0xffff] {
        for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100]] {
            let mut frame = tagged(&[&[2; 12][..], &ether_type.to_be_bytes(), &[0x45; 60]].concat(), tags);
            let before = frame.clone();
            let parsed = parse_segment(&frame, frame.len(), ParseOptions { tunnels: true });
            let walked = recompute_parsed(&mut frame, empty(), &parsed, TUNNEL);
            assert_eq!(recompute(&mut frame, TUNNEL), walked, "{ether_type:#x} behind {tags:x?}");
            assert_eq!(frame, before);
        }
    }
}

#[test]
fn a_udp_checksum_of_zero_stays_zero() {
    for right in [v4_udp((1, 2), b"payload"), v6_udp((1, 2), b"payload")] {
        let field = right.len() - 9;
        for tags in [&[][..], &[0x8100], &[0x88a8, 0x8100]] {
            let mut frame = tagged(&right, tags);
            let field = field + 4 * tags.len();
            frame[field..field + 2].fill(0);
            let before = frame.clone();
            let outcome = recompute(&mut frame, SOFTWARE);
            assert!(!outcome.done.contains(CsumLayers::UDP));
            assert_eq!(frame, before);
            let hw = CsumOptions { hw: CsumLayers::UDP, parse_tunnel: false };
            assert!(!recompute(&mut frame, hw).hw.contains(CsumLayers::UDP));
            assert_eq!(frame, before);
        }
    }
}

/// A frame whose one payload word is chosen so that the transport checksum comes out as 0.
fn adding_up_to_zero(mut frame: Vec<u8>, field: usize) -> Vec<u8> {
    let word = frame.len() - 2;
    let old = u16::from_be_bytes([frame[field], frame[field + 1]]);
    // The checksum goes into the data, so that the new one is 0.
    frame[word..].copy_from_slice(&old.to_be_bytes());
    frame[field..field + 2].fill(1);
    frame
}

#[test]
fn a_computed_zero_is_sent_as_all_ones_by_udp_alone() {
    for tags in [&[][..], &[0x8100]] {
        let at = |field: usize| field + 4 * tags.len();
        let mut udp = tagged(&adding_up_to_zero(v4_udp((1, 2), &[5, 6, 0, 0]), 40), tags);
        recompute(&mut udp, SOFTWARE);
        assert_eq!(udp[at(40)..at(42)], [0xff, 0xff]);
        assert_eq!(verify(&udp, ParseOptions::PLAIN).l4, Verdict::Good);
        let mut udp = tagged(&adding_up_to_zero(v6_udp((1, 2), &[5, 6, 0, 0]), 60), tags);
        recompute(&mut udp, SOFTWARE);
        assert_eq!(udp[at(60)..at(62)], [0xff, 0xff]);
        let mut tcp = tagged(&adding_up_to_zero(v4_tcp(&[5, 6, 0, 0]), 50), tags);
        assert!(recompute(&mut tcp, SOFTWARE).done.contains(CsumLayers::TCP));
        assert_eq!(tcp[at(50)..at(52)], [0, 0]);
        assert_eq!(verify(&tcp, ParseOptions::PLAIN).l4, Verdict::Good);
    }
}

#[test]
fn padding_behind_the_packet_is_not_summed() {
    let right = [v4_udp((1, 2), b"pay"), vec![0xaa; 15]].concat();
    let mut frame = spoilt(&right, &[24, 40]);
    recompute(&mut frame, SOFTWARE);
    assert_eq!(frame, right);
}

#[test]
fn sctp_gets_its_crc() {
    let mut packet = vec![0, 1, 0, 2, 0, 0, 0, 3, 0, 0, 0, 0, 1, 2, 3, 4, 5];
    let crc = crc32c(&packet);
    packet[8..12].copy_from_slice(&crc.to_le_bytes());
    for v6 in [false, true] {
        let right = ip_frame(v6, 132, &packet);
        let field = right.len() - 9;
        let mut frame = spoilt(&right, &[field, field + 3]);
        assert_eq!(verify(&frame, ParseOptions::PLAIN).l4, Verdict::Bad);
        let (head, tail) = frame.split_at_mut(field + 7);
        let outcome = recompute_segments(head, std::iter::once(&*tail), SOFTWARE);
        assert!(outcome.done.contains(CsumLayers::SCTP));
        assert_eq!(frame, right);
        assert_eq!(verify(&frame, ParseOptions::PLAIN).l4, Verdict::Good);
        let hw = CsumOptions { hw: CsumLayers::SCTP, parse_tunnel: false };
        assert_eq!(recompute(&mut frame, hw).hw, CsumLayers::SCTP);
        assert_eq!(frame[field..field + 4], [0; 4]);
    }
}

#[test]
fn every_tunnel_gets_its_inner_and_outer_checksums() {
    for tunnel in TUNNELS {
        for (outer_v6, inner_v6) in [(false, false), (false, true), (true, false), (true, true)] {
            let inner = if inner_v6 { v6_udp((7, 8), b"inside!") } else { v4_udp((7, 8), b"inside!") };
            let right = tunnelled(tunnel, outer_v6, &inner);
            let what = format!("{tunnel:?} {outer_v6} {inner_v6}");
            let good = verify(&right, ParseOptions::TUNNELS);
            assert!(
                !good.ip.is_bad() && !good.outer_ip.is_bad() && !good.outer_l4.is_bad(),
                "{what} {good:?}"
            );
            assert_eq!(good.l4, Verdict::Good, "{what}");

            let parsed = crate::parse(&right, ParseOptions::TUNNELS);
            let mut fields = vec![parsed.inner.l4_off() + 6];
            let mut want = CsumLayers::UDP;
            if !inner_v6 {
                fields.push(parsed.inner.l3_off() + 10);
                want |= CsumLayers::IP;
            }
            if !outer_v6 {
                fields.push(24);
                want |= CsumLayers::OUTER_IP;
            }
            if parsed.outer.l4_proto == proto::UDP {
                fields.push(parsed.outer.l4_off() + 6);
                want |= CsumLayers::OUTER_UDP;
            }
            let mut frame = spoilt(&right, &fields);
            let bad = verify(&frame, ParseOptions::TUNNELS);
            assert_eq!(bad.l4, Verdict::Bad, "{what}");
            assert_eq!(bad.outer_l4 == Verdict::Bad, want.contains(CsumLayers::OUTER_UDP), "{what}");
            assert_eq!(bad.outer_ip == Verdict::Bad, want.contains(CsumLayers::OUTER_IP), "{what}");
            assert_eq!(bad.ip == Verdict::Bad, want.contains(CsumLayers::IP), "{what}");
            let outcome = recompute(&mut frame, TUNNEL);
            assert_eq!((outcome.done, outcome.tunnel, outcome.fault), (want, tunnel, None), "{what}");
            assert_eq!(frame, right, "{what}");

            // Tunnels not looked into: the outer headers are the only ones, and the inner ones stay spoilt.
            let mut shallow = spoilt(&right, &fields);
            let outcome = recompute(&mut shallow, SOFTWARE);
            assert_eq!(outcome.tunnel, Tunnel::None);
            assert_eq!(shallow[fields[0]], spoilt(&right, &fields)[fields[0]], "{what}");

            // All left to the port.
            let options = CsumOptions { hw: CsumLayers::all(), parse_tunnel: true };
            let outcome = recompute(&mut frame, options);
            assert_eq!((outcome.done, outcome.hw), (CsumLayers::empty(), want), "{what}");
            if want.contains(CsumLayers::OUTER_IP) {
                assert_eq!(frame[24..26], [0, 0]);
            }
            let at = parsed.inner.l4_off() + 6;
            let folded = pseudo(&frame, &parsed.inner, 15).unwrap().folded();
            assert_eq!(frame[at..at + 2], folded, "{what}");
        }
    }
}

#[test]
fn an_outer_udp_checksum_of_zero_stays_zero() {
    let mut frame = tunnelled(Tunnel::Vxlan, false, &v4_udp((7, 8), b"inside"));
    frame[40..42].fill(0);
    let outcome = recompute(&mut frame, TUNNEL);
    assert_eq!(outcome.done, CsumLayers::IP | CsumLayers::UDP | CsumLayers::OUTER_IP);
    assert_eq!(frame[40..42], [0, 0]);
    assert_eq!(verify(&frame, ParseOptions::TUNNELS).outer_l4, Verdict::Absent);
}

#[test]
fn left_to_the_port_is_prepared_as_hardware_wants_it() {
    let hw = CsumLayers::IP | CsumLayers::UDP | CsumLayers::TCP;
    for (right, field, proto, l4_len) in
        [(v4_udp((1, 2), b"payload"), 40, 17u8, 15u16), (v4_tcp(b"payload"), 50, 6, 27)]
    {
        for tags in [&[][..], &[0x8100]] {
            let mut frame = tagged(&right, tags);
            let shift = 4 * tags.len();
            let outcome = recompute(&mut frame, CsumOptions { hw, parse_tunnel: false });
            let layer = if proto == 17 { CsumLayers::UDP } else { CsumLayers::TCP };
            assert_eq!((outcome.hw, outcome.done), (CsumLayers::IP | layer, CsumLayers::empty()));
            assert_eq!(usize::from(outcome.lengths.l2_len), 14 + shift);
            assert_eq!(outcome.lengths.l3_len, 20);
            assert_eq!(frame[24 + shift..26 + shift], [0, 0]);
            let pseudo = [&right[26..34], &[0, proto], &l4_len.to_be_bytes()].concat();
            assert_eq!(frame[field + shift..field + shift + 2], (!checksum_scalar(&pseudo)).to_be_bytes());
            // What hardware does then: sum from the transport header on, complement.
            let sum = checksum_scalar(&frame[34 + shift..]);
            assert_eq!(sum.to_be_bytes(), right[field..field + 2]);
        }
    }
}

#[test]
fn fragments_and_strangers_keep_their_bytes() {
    let mut fragment = v4_udp((1, 2), b"payload");
    fragment[20..22].copy_from_slice(&[0x20, 0]);
    fragment[40] ^= 0x55;
    let l4 = fragment[34..].to_vec();
    let outcome = recompute(&mut fragment, SOFTWARE);
    assert_eq!(outcome.done, CsumLayers::IP);
    assert_eq!(fragment[34..], l4);
    assert_eq!(verify(&fragment, ParseOptions::PLAIN).ip, Verdict::Good);
    for frame in [vec![0x11; 60], tagged(&v4_udp((1, 2), b"x"), &[0x8100; 9]), ip_frame(true, 58, &[1; 20])] {
        let mut copy = frame.clone();
        let outcome = recompute(&mut copy, SOFTWARE);
        assert_eq!((outcome.done, outcome.hw), (CsumLayers::empty(), CsumLayers::empty()));
        assert_eq!(copy, frame);
    }
}

proptest! {
    #[test]
    fn payloads_of_every_length(payload in proptest::collection::vec(any::<u8>(), 0..300), tcp in any::<bool>()) {
        let right = if tcp { v4_tcp(&payload) } else { v4_udp((1, 2), &payload) };
        let mut frame = spoilt(&right, &[24, if tcp { 50 } else { 40 }]);
        recompute(&mut frame, SOFTWARE);
        prop_assert_eq!(&frame, &right);
    }
}
