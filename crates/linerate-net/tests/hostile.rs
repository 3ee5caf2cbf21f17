//! Frames that lie: cut at every byte, bytes flipped, random. Nothing may panic, nothing may be read past the end (every
//! access is bounds-checked, so that would be a panic too), and the quick forms must do exactly what the complete ones do.

mod common;

use common::recipe;
use linerate_net::checksum::Verdict;
use linerate_net::csum_engine::{CsumLayers, CsumOptions, recompute, recompute_segments};
use linerate_net::csum_verify::{verify, verify_ipv4_header, verify_parsed, verify_segments};
use linerate_net::parse::{Fault, ParseOptions, parse};
use linerate_net::rss::{HashKind, HashTypes, Tuple};
use linerate_net::swap::{five_tuple_swap, five_tuple_swap_any, mac_swap, mac_swap_scalar};
use proptest::prelude::*;

const BOTH: [ParseOptions; 2] = [ParseOptions::PLAIN, ParseOptions::TUNNELS];

/// Runs everything over one frame, each quick form beside its complete one.
fn everything(frame: &[u8]) -> Result<(), TestCaseError> {
    let copies = || (frame.to_vec(), frame.to_vec());
    let (mut fast, mut plain) = copies();
    mac_swap(&mut fast);
    mac_swap_scalar(&mut plain);
    prop_assert_eq!(&fast, &plain);
    let (mut fast, mut plain) = copies();
    five_tuple_swap(&mut fast);
    five_tuple_swap_any(&mut plain);
    prop_assert_eq!(&fast, &plain);

    for options in BOTH {
        let parsed = parse(frame, options);
        for layers in [&parsed.outer, &parsed.inner] {
            prop_assert!(layers.l3_end as usize <= frame.len());
            prop_assert!(
                layers.l4_off() + usize::from(layers.l4_len) <= frame.len() || layers.fault.is_some()
            );
            for kind in [HashKind::Toeplitz, HashKind::SymmetricSort] {
                let tuple = Tuple::of(frame, layers, HashTypes::all(), kind);
                prop_assert_eq!(tuple.is_some(), layers.has_ip());
            }
        }
        let quick = verify(frame, options);
        prop_assert_eq!(quick, verify_segments(frame, std::iter::empty(), options));
        for hw in [CsumLayers::empty(), CsumLayers::all(), CsumLayers::UDP, CsumLayers::IP | CsumLayers::TCP]
        {
            let options = CsumOptions { hw, parse_tunnel: options.tunnels };
            let (mut fast, mut plain) = copies();
            let outcome = recompute(&mut fast, options);
            prop_assert_eq!(outcome, recompute_segments(&mut plain, std::iter::empty(), options));
            prop_assert_eq!(&fast, &plain);
            if hw.is_empty() && !options.parse_tunnel && outcome.done.contains(CsumLayers::IP) {
                prop_assert_eq!(verify(&fast, ParseOptions::PLAIN).ip, Verdict::Good);
            }
        }
    }
    if let Some(packet) = frame.get(14..) {
        verify_ipv4_header(packet);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(3000))]

    #[test]
    fn flipped_frames(recipe in recipe(), flips in proptest::collection::vec((0usize..100, any::<u8>()), 0..6)) {
        let mut frame = recipe.build();
        for (at, value) in flips {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        everything(&frame)?;
    }

    #[test]
    fn random_frames_behind_a_likely_start(
        mut frame in proptest::collection::vec(any::<u8>(), 0..200),
        start in prop_oneof![
            Just([0x08u8, 0x00, 0x45]), Just([0x86, 0xdd, 0x60]), Just([0x81, 0x00, 0x00]), Just([0x08, 0x00, 0x4f]),
        ],
        proto in prop_oneof![Just(17u8), Just(6), Just(47), Just(4), Just(41), Just(132), Just(0), Just(44)],
        port in prop_oneof![Just(4789u16), Just(4790), Just(6081), Just(2152), any::<u16>()],
        plausible in any::<bool>(),
    ) {
        let len = frame.len();
        if len >= 60 {
            frame[12..15].copy_from_slice(&start);
            if start[0] == 8 {
                frame[23] = proto;
                frame[36..38].copy_from_slice(&port.to_be_bytes());
                if plausible {
                    frame[16..18].copy_from_slice(&(len as u16 - 14).to_be_bytes());
                    frame[20..22].fill(0);
                    frame[38..40].copy_from_slice(&(len as u16 - 34).to_be_bytes());
                }
            } else if start[0] == 0x86 {
                frame[20] = proto;
                frame[56..58].copy_from_slice(&port.to_be_bytes());
                if plausible {
                    frame[18..20].copy_from_slice(&(len as u16 - 54).to_be_bytes());
                }
            }
        }
        everything(&frame)?;
    }

    #[test]
    fn a_parse_of_another_packet_reads_nothing_outside(a in recipe(), b in recipe(), cut in 0usize..100) {
        let (a, b) = (a.build(), b.build());
        let other = &b[..cut.min(b.len())];
        verify_parsed(other, std::iter::empty(), &parse(&a, ParseOptions::PLAIN));
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn frames_cut_at_every_byte(recipe in recipe()) {
        let frame = recipe.build();
        let whole = parse(&frame, ParseOptions::PLAIN).outer;
        for cut in 0..frame.len().min(300) {
            everything(&frame[..cut])?;
            // A frame whose IP packet is cut is invalid, and nothing in it is touched.
            if cut < whole.l3_end as usize {
                let parsed = parse(&frame[..cut], ParseOptions::PLAIN).outer;
                prop_assert!(matches!(parsed.fault, Some(Fault::Truncated | Fault::IpLength)), "{cut}: {parsed:?}");
                let mut short = frame[..cut].to_vec();
                recompute(&mut short, CsumOptions::default());
                prop_assert_eq!(&short, &frame[..cut]);
            }
        }
    }
}

/// Bug case 11: lengths that used to make a difference underflow.
#[test]
fn ipv4_lengths_that_lie_are_invalid() {
    let frame = |header_len: u8, total_len: u16| {
        let mut frame = vec![0u8; 64];
        frame[12..14].copy_from_slice(&[8, 0]);
        frame[14] = 0x40 | (header_len / 4);
        frame[16..18].copy_from_slice(&total_len.to_be_bytes());
        frame[23] = 17;
        frame[38..40].copy_from_slice(&16u16.to_be_bytes());
        frame
    };
    for (header_len, total_len) in [(20, 19), (60, 20), (20, 65535), (20, 51), (20, 0), (24, 23)] {
        let mut bad = frame(header_len, total_len);
        let before = bad.clone();
        assert_eq!(parse(&bad, ParseOptions::PLAIN).outer.fault, Some(Fault::IpLength));
        let verdicts = verify(&bad, ParseOptions::PLAIN);
        assert_eq!((verdicts.ip, verdicts.l4), (Verdict::Invalid, Verdict::Absent));
        assert!(verdicts.ip.is_bad());
        assert_eq!(verify_ipv4_header(&bad[14..]), Verdict::Invalid);
        assert_eq!(recompute(&mut bad, CsumOptions::default()).done, CsumLayers::empty());
        assert_eq!(bad, before);
    }
    assert_eq!(parse(&frame(16, 40), ParseOptions::PLAIN).outer.fault, Some(Fault::IpHeaderLength));
    assert_eq!(verify(&frame(16, 40), ParseOptions::PLAIN).ip, Verdict::Invalid);
    // The UDP length says more than IP has.
    let mut bad = frame(20, 35);
    assert_eq!(parse(&bad, ParseOptions::PLAIN).outer.fault, Some(Fault::L4Length));
    assert_eq!(verify(&bad, ParseOptions::PLAIN).l4, Verdict::Invalid);
    bad[40] = 7;
    let outcome = recompute(&mut bad, CsumOptions::default());
    assert_eq!((outcome.done, outcome.fault), (CsumLayers::IP, Some(Fault::L4Length)));
    assert_eq!(bad[40], 7);
}

/// Bug case 11: the transport offset of a packet in several segments is past the end of the first one, or of all.
#[test]
fn transport_offset_past_the_end_is_invalid() {
    let mut frame = vec![0u8; 14 + 40];
    frame[12..14].copy_from_slice(&[8, 0]);
    frame[14] = 0x45;
    frame[16..18].copy_from_slice(&40u16.to_be_bytes());
    frame[23] = 6;
    frame[46] = 0x50;
    for cut in 34..54 {
        let (head, tail) = frame.split_at(cut);
        let verdicts = verify_segments(head, std::iter::once(tail), ParseOptions::PLAIN);
        assert_eq!(verdicts.l4, Verdict::Invalid, "the header is not in the first segment: {cut}");
    }
    let parsed = parse(&frame, ParseOptions::PLAIN);
    for cut in 0..54 {
        let verdicts = verify_parsed(&frame[..cut], std::iter::empty(), &parsed);
        assert_eq!(verdicts.l4, Verdict::Invalid, "{cut}");
    }
}
