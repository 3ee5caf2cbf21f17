//! The parser, the checksum engine and the checksum check against `etherparse`, an independent implementation, over
//! generated packets.

mod common;

use common::{Transport, recipe};
use etherparse::{NetSlice, SlicedPacket, TransportSlice};
use linerate_net::checksum::Verdict;
use linerate_net::csum_engine::{CsumLayers, CsumOptions, recompute, recompute_segments};
use linerate_net::csum_verify::{verify, verify_segments};
use linerate_net::parse::{Network, ParseOptions, parse, parse_segment};
use proptest::prelude::*;

/// Where `part` starts in `whole`.
fn offset(whole: &[u8], part: &[u8]) -> usize {
    part.as_ptr() as usize - whole.as_ptr() as usize
}

/// Holds our parse of `frame` against the other one, if that takes the frame at all. Says whether it did.
fn check_parse(frame: &[u8]) -> Result<bool, TestCaseError> {
    let ours = parse(frame, ParseOptions::PLAIN).outer;
    let Ok(theirs) = SlicedPacket::from_ethernet(frame) else { return Ok(false) };
    // What goes further than this parser does.
    if theirs.link_exts.iter().any(|extension| matches!(extension, etherparse::LinkExtSlice::Macsec(_))) {
        return Ok(false);
    }
    let (l3_off, payload, proto, fragment) = match &theirs.net {
        Some(NetSlice::Ipv4(ip)) if ip.extensions().auth.is_none() => {
            prop_assert_eq!(ours.network, Network::V4);
            (
                offset(frame, ip.header().slice()),
                ip.payload(),
                ip.payload_ip_number().0,
                ip.is_payload_fragmented(),
            )
        }
        Some(NetSlice::Ipv6(ip)) => {
            prop_assert_eq!(ours.network, Network::V6);
            let payload = ip.payload();
            (offset(frame, ip.header().slice()), payload, payload.ip_number.0, payload.fragmented)
        }
        _ => return Ok(false),
    };
    // An empty IPv6 payload length may mean "up to the end" to the other one (jumbograms); HIP and shim6 headers, and
    // header chains after a first fragment's, are walked by one side only.
    let l4_off = offset(frame, payload.payload);
    if ours.fault.is_some() || matches!(proto, 135 | 139 | 140) {
        return Ok(false);
    }
    if ours.network == Network::V6 && frame[l3_off + 4..l3_off + 6] == [0, 0] {
        return Ok(false);
    }
    prop_assert_eq!(ours.l3_off(), l3_off);
    prop_assert_eq!(usize::from(ours.vlan_tags), theirs.link_exts.len());
    prop_assert_eq!(ours.fragment, fragment);
    if !fragment {
        prop_assert_eq!(ours.l4_proto, proto);
        prop_assert_eq!(ours.l4_off(), l4_off);
    }
    prop_assert_eq!(ours.l3_end as usize, l4_off + payload.payload.len());
    match theirs.transport {
        Some(TransportSlice::Udp(_)) => prop_assert_eq!(ours.l4_len, 8),
        Some(TransportSlice::Tcp(tcp)) => prop_assert_eq!(usize::from(ours.l4_len), tcp.header_slice().len()),
        _ => {}
    }
    Ok(true)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn offsets_and_lengths_are_the_oracles(recipe in recipe()) {
        let frame = recipe.build();
        prop_assert!(check_parse(&frame)?, "the oracle must take what it built");
        let ours = parse(&frame, ParseOptions::PLAIN).outer;
        prop_assert_eq!(ours.fault, None);
        prop_assert_eq!(ours.vlan_tags, recipe.tags);
        prop_assert_eq!(ours.l3_end as usize, frame.len() - usize::from(recipe.padding));
        if !ours.fragment {
            let header = match recipe.transport {
                Transport::Udp | Transport::Icmp => 8,
                Transport::Tcp(words) => 20 + u16::from(words) * 4,
            };
            prop_assert_eq!(ours.l4_len, header);
            prop_assert_eq!(ours.l4_total(), usize::from(header) + recipe.payload.len());
        }
        // No tunnel is made up, and asking for one changes nothing else, unless the ports are a tunnel's.
        let deep = parse(&frame, ParseOptions::TUNNELS);
        prop_assert_eq!(deep.outer, ours);
    }

    #[test]
    fn mutated_frames_agree_where_the_oracle_takes_them(
        recipe in recipe(),
        flips in proptest::collection::vec((0usize..100, any::<u8>()), 1..6),
        cut in proptest::option::of(0usize..120),
    ) {
        let mut frame = recipe.build();
        for (at, value) in flips {
            if let Some(byte) = frame.get_mut(at) {
                *byte = value;
            }
        }
        if let Some(cut) = cut {
            frame.truncate(cut);
        }
        check_parse(&frame)?;
    }

    #[test]
    fn segments_parse_like_the_whole(recipe in recipe(), cut in 0usize..200) {
        let frame = recipe.build();
        let whole = parse(&frame, ParseOptions::PLAIN);
        let head = &frame[..cut.min(frame.len())];
        let ours = parse_segment(head, frame.len(), ParseOptions::PLAIN);
        if head.len() >= whole.outer.l4_off() + usize::from(whole.outer.l4_len) {
            prop_assert_eq!(ours, whole);
        } else {
            prop_assert!(ours.outer.fault.is_some());
        }
    }

    #[test]
    fn scrambled_checksums_come_back(recipe in recipe(), noise in any::<(u16, u16)>(), cut in 0usize..1500) {
        let right = recipe.build();
        let layers = parse(&right, ParseOptions::PLAIN).outer;
        let at_l4 = match recipe.transport {
            Transport::Udp => Some((6, CsumLayers::UDP)),
            Transport::Tcp(_) => Some((16, CsumLayers::TCP)),
            Transport::Icmp => None,
        }.filter(|_| !layers.fragment);
        let (ip, l4) = (!recipe.v6, at_l4.is_some());
        let verdict = |there: bool, value| if there { value } else { Verdict::Absent };
        let good = verify(&right, ParseOptions::PLAIN);
        prop_assert_eq!(good.ip, verdict(ip, Verdict::Good));
        prop_assert_eq!(good.l4, verdict(l4, Verdict::Good));

        let mut wrong = right.clone();
        let mut want = CsumLayers::empty();
        let mut l4_wrong = false;
        if ip {
            // Not a multiple of 0xFFFF away, so that the checksum is wrong indeed.
            let at = layers.l3_off() + 10;
            let field = u16::from_be_bytes([wrong[at], wrong[at + 1]]);
            wrong[at..at + 2].copy_from_slice(&field.wrapping_add(noise.0 % 0xfffe + 1).to_be_bytes());
            want |= CsumLayers::IP;
        }
        if let Some((field, layer)) = at_l4 {
            let at = layers.l4_off() + field;
            let mut value = u16::from_be_bytes([wrong[at], wrong[at + 1]]).wrapping_add(noise.1 % 0xfffe + 1);
            if value == 0 {
                // Would mean "none" for UDP; one off is as wrong.
                value = 1;
            }
            if value.to_be_bytes() != right[at..at + 2] {
                wrong[at..at + 2].copy_from_slice(&value.to_be_bytes());
                l4_wrong = true;
            }
            want |= layer;
        }
        let split = cut.min(wrong.len());
        let (head, tail) = wrong.split_at(split);
        let (one, two) = tail.split_at(tail.len() / 3);
        if head.len() >= layers.l4_off() + usize::from(layers.l4_len) {
            let mut head = head.to_vec();
            let outcome = recompute_segments(&mut head, [one, two].into_iter(), CsumOptions::default());
            prop_assert_eq!(outcome.done, want);
            prop_assert_eq!(&head[..], &right[..split]);
            let again = verify_segments(&head, [one, two].into_iter(), ParseOptions::PLAIN);
            prop_assert_eq!(again, good);
        }
        let bad = verify(&wrong, ParseOptions::PLAIN);
        let outcome = recompute(&mut wrong, CsumOptions::default());
        prop_assert_eq!((outcome.done, outcome.hw, outcome.fault), (want, CsumLayers::empty(), None));
        prop_assert_eq!(&wrong, &right);
        if l4_wrong {
            prop_assert_eq!(bad.l4, Verdict::Bad);
        }
        if ip {
            prop_assert_eq!(bad.ip, Verdict::Bad);
        }
    }
}
