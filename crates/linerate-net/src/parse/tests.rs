use super::*;
use crate::test_frames::{TUNNELS, ip_frame, tagged, tunnelled, v4_tcp, v4_udp, v6_udp};
use crate::view::view_mut;

fn plain(frame: &[u8]) -> Parsed {
    parse(frame, ParseOptions::PLAIN)
}

/// Bug case 13 (a): three tags, then IPv4/UDP.
#[test]
fn three_tags_are_link_header_and_no_tunnel() {
    let frame = tagged(&v4_udp((1, 2), b"payload"), &[0x88a8, 0x88a8, 0x8100]);
    for options in [ParseOptions::PLAIN, ParseOptions::TUNNELS] {
        let parsed = parse(&frame, options);
        assert_eq!((parsed.outer.l2_len, parsed.outer.l3_len, parsed.outer.l4_len), (26, 20, 8));
        assert_eq!(parsed.outer.vlan_tags, 3);
        assert_eq!((parsed.tunnel, parsed.inner), (Tunnel::None, Layers::default()));
        assert_eq!(parsed.ptype.to_string(), "L2_ETHER_QINQ L3_IPV4 L4_UDP");
        assert_eq!(parsed.tx_lengths().l2_len, 26);
    }
}

/// Bug case 13 (b): eight tags are walked over, nine are an unknown type.
#[test]
fn nine_tags_are_of_unknown_type() {
    for (tags, known) in [(1, true), (8, true), (9, false), (300, false)] {
        let frame = tagged(&v4_udp((1, 2), b"payload"), &vec![0x8100; tags]);
        let parsed = plain(&frame);
        if known {
            assert_eq!(parsed.outer.fault, None);
            assert_eq!(usize::from(parsed.outer.l2_len), 14 + 4 * tags);
            assert_eq!(parsed.outer.l4_len, 8);
        } else {
            assert_eq!(parsed.outer.fault, Some(Fault::TooManyTags));
            assert_eq!((parsed.ptype, parsed.outer.l3_len), (PacketType::UNKNOWN, 0));
        }
    }
    let tags_to_the_end = tagged(&v4_udp((1, 2), b""), &[0x9100; 3]);
    assert_eq!(plain(&tags_to_the_end[..24]).outer.fault, Some(Fault::Truncated));
}

/// An IPv6 frame with these extension headers (type and bytes) before eight bytes of UDP.
fn with_extensions(extensions: &[(u8, Vec<u8>)]) -> Vec<u8> {
    let mut payload = Vec::new();
    for (index, (_, bytes)) in extensions.iter().enumerate() {
        let mut bytes = bytes.clone();
        bytes[0] = extensions.get(index + 1).map_or(17, |next| next.0);
        payload.extend(bytes);
    }
    payload.extend([0, 1, 0, 2, 0, 8, 0xab, 0xcd]);
    ip_frame(true, extensions.first().map_or(17, |first| first.0), &payload)
}

/// Bug case 13 (c): the hop-by-hop header of a packet that is not tunnelled.
#[test]
fn extension_headers_are_network_header() {
    let parsed = plain(&with_extensions(&[(0, vec![0; 8])]));
    assert_eq!((parsed.outer.l4_proto, parsed.outer.l4_off()), (17, 14 + 40 + 8));
    assert_eq!((parsed.outer.l3_len, parsed.outer.l4_len), (48, 8));
    assert_eq!(parsed.ptype.to_string(), "L2_ETHER L3_IPV6_EXT L4_UDP");
    let mut authentication = vec![0; 24];
    authentication[1] = 4;
    let parsed =
        plain(&with_extensions(&[(0, vec![0; 8]), (43, vec![0; 8]), (51, authentication), (60, vec![0; 8])]));
    assert_eq!((parsed.outer.l3_len, parsed.outer.l4_proto, parsed.outer.fault), (88, 17, None));
}

#[test]
fn extension_chains_end() {
    let chain = |n| with_extensions(&vec![(60u8, vec![0; 8]); n]);
    assert_eq!(plain(&chain(8)).outer.l4_proto, 17);
    for frame in [chain(9), chain(180)] {
        let parsed = plain(&frame);
        assert_eq!(parsed.outer.fault, Some(Fault::Ipv6Extensions));
        assert_eq!((parsed.outer.l3_len, parsed.outer.l4_proto), (0, 0));
        assert_eq!(parsed.ptype.to_string(), "L2_ETHER L3_IPV6_EXT_UNKNOWN");
    }
    // A length that leads out of the packet.
    let mut long = with_extensions(&[(0, vec![0; 8])]);
    long[55] = 255;
    assert_eq!(plain(&long).outer.fault, Some(Fault::Ipv6Extensions));
}

#[test]
fn fragments_have_no_transport_header() {
    let fragment = |offset_more: u16| {
        let mut header = vec![0; 8];
        header[2..4].copy_from_slice(&offset_more.to_be_bytes());
        plain(&with_extensions(&[(44, header)]))
    };
    assert_eq!(fragment(0).outer.l4_len, 8, "an atomic fragment is a whole packet");
    for bits in [1, 8, 0xfff8] {
        let parsed = fragment(bits);
        assert!(parsed.outer.fragment);
        assert_eq!((parsed.outer.l4_len, parsed.outer.l4_proto), (0, 17));
        assert_eq!(parsed.ptype.to_string(), "L2_ETHER L3_IPV6_EXT L4_FRAG");
    }
    let mut v4 = v4_udp((1, 4789), &[8; 60]);
    v4[20] = 0x20;
    let parsed = parse(&v4, ParseOptions::TUNNELS);
    assert!(parsed.outer.fragment && parsed.tunnel == Tunnel::None);
    assert_eq!(parsed.ptype.to_string(), "L2_ETHER L3_IPV4 L4_FRAG");
}

#[test]
fn other_packet_types() {
    let of = |frame: &[u8]| plain(frame).ptype.to_string();
    let mut frame = vec![0; 60];
    for (kind, name) in [
        (0x0806u16, "L2_ETHER_ARP"),
        (0x88cc, "L2_ETHER_LLDP"),
        (0x88f7, "L2_ETHER_TIMESYNC"),
        (46, "L2_ETHER"),
    ] {
        frame[12..14].copy_from_slice(&kind.to_be_bytes());
        assert_eq!(of(&frame), name);
    }
    assert_eq!(of(&frame[..13]), "UNKNOWN");
    assert_eq!(of(&v4_tcp(b"")), "L2_ETHER L3_IPV4 L4_TCP");
    assert_eq!(of(&tagged(&v4_tcp(b""), &[0x8100])), "L2_ETHER_VLAN L3_IPV4 L4_TCP");
    for (proto, name) in [(132, "L4_SCTP"), (1, "L4_ICMP"), (2, "L4_IGMP"), (99, "L4_NONFRAG")] {
        assert_eq!(of(&ip_frame(false, proto, &[0; 40])), format!("L2_ETHER L3_IPV4 {name}"));
    }
    assert_eq!(of(&ip_frame(true, 58, &[0; 40])), "L2_ETHER L3_IPV6 L4_ICMP");
    assert_eq!(of(&ip_frame(true, 59, &[0; 40])), "L2_ETHER L3_IPV6 L4_NONFRAG");
}

#[test]
fn versions_and_lengths_that_lie() {
    let mut frame = v4_udp((1, 2), b"payload");
    frame[14] = 0x65;
    assert_eq!(plain(&frame).outer.fault, Some(Fault::IpVersion));
    assert_eq!(plain(&frame).outer.network, Network::Other);
    let mut frame = v6_udp((1, 2), b"payload");
    frame[14] = 0x40;
    assert_eq!(plain(&frame).outer.fault, Some(Fault::IpVersion));
    frame[14] = 0x60;
    frame[18] = 0xff;
    assert_eq!(plain(&frame).outer.fault, Some(Fault::IpLength));
    for offset in [0x00, 0x40, 0xf0] {
        let mut frame = v4_tcp(b"payload");
        frame[46] = offset;
        assert_eq!(plain(&frame).outer.fault, Some(Fault::L4Length), "{offset:#x}");
    }
    for udp_len in [0, 7, 16] {
        let mut frame = v4_udp((1, 2), b"payload");
        frame[39] = udp_len;
        assert_eq!(plain(&frame).outer.fault, Some(Fault::L4Length), "{udp_len}");
    }
    // The header lies within the slice, but in what IP calls padding.
    let mut frame = v4_tcp(&[0; 40]);
    frame[16..18].copy_from_slice(&30u16.to_be_bytes());
    assert_eq!(plain(&frame).outer.fault, Some(Fault::Truncated));
}

/// Bug case 13 (d) for every tunnel and every mix of versions: the inner header is read by its own version.
#[test]
fn tunnels_of_every_kind_and_version() {
    for tunnel in TUNNELS {
        for (outer_v6, inner_v6) in [(false, false), (false, true), (true, false), (true, true)] {
            let inner = if inner_v6 { v6_udp((7, 8), b"inside") } else { v4_udp((7, 8), b"inside") };
            let frame = tunnelled(tunnel, outer_v6, &inner);
            let parsed = parse(&frame, ParseOptions::TUNNELS);
            let what = format!("{tunnel:?} {outer_v6} {inner_v6}: {parsed:?}");
            assert_eq!(parsed.tunnel, tunnel, "{what}");
            assert_eq!((parsed.outer.fault, parsed.inner.fault), (None, None), "{what}");
            let network = |v6| if v6 { Network::V6 } else { Network::V4 };
            assert_eq!(parsed.outer.network, network(outer_v6), "{what}");
            assert_eq!(parsed.inner.network, network(inner_v6), "{what}");
            assert_eq!((parsed.inner.l4_proto, parsed.inner.l4_len), (17, 8), "{what}");
            let ethernet = matches!(tunnel, Tunnel::Vxlan | Tunnel::Geneve | Tunnel::Nvgre);
            assert_eq!(parsed.inner.l2_len, if ethernet { 14 } else { 0 }, "{what}");
            // From the back: what is inside ends where the frame ends.
            let inner_ip = if inner_v6 { 40 } else { 20 };
            assert_eq!(parsed.inner.l4_off(), frame.len() - 8 - 6, "{what}");
            assert_eq!(parsed.inner.l3_off(), frame.len() - 14 - inner_ip, "{what}");
            let lengths = parsed.tx_lengths();
            let sum = lengths.outer_l2_len
                + lengths.outer_l3_len
                + lengths.l2_len
                + lengths.l3_len
                + lengths.l4_len;
            assert_eq!(usize::from(sum), frame.len() - 6, "{what}");
            assert!(parsed.ptype.is_tunnel());
            assert_eq!(parsed.ptype.masked(PacketType::INNER_L4_MASK), PacketType::INNER_L4_UDP);
            assert_eq!(
                parsed.ptype.masked(PacketType::INNER_L3_MASK),
                if inner_v6 { PacketType::INNER_L3_IPV6 } else { PacketType::INNER_L3_IPV4 }
            );
            // Not asked for, not looked into.
            let shallow = plain(&frame);
            assert_eq!((shallow.tunnel, shallow.outer), (Tunnel::None, parsed.outer), "{what}");
            // Cut anywhere, the tunnel is invalid or no tunnel, and nothing panics.
            for cut in 0..frame.len() {
                let cut = parse(&frame[..cut], ParseOptions::TUNNELS);
                assert!(cut.outer.fault.is_some(), "{what}");
            }
            // The outer packet is whole, the inner one says it is longer.
            let mut lying = frame.clone();
            let at = parsed.inner.l3_off() + if inner_v6 { 4 } else { 2 };
            lying[at] = 0xff;
            let lying = parse(&lying, ParseOptions::TUNNELS);
            assert_eq!((lying.outer.fault, lying.inner.fault), (None, Some(Fault::IpLength)), "{what}");
        }
    }
}

#[test]
fn what_only_looks_like_a_tunnel() {
    let inner = v4_udp((7, 8), b"inside");
    // VXLAN without its flag, GENEVE of another version, GRE with routing, GTP echo, GTP' and an unknown GPE protocol.
    for (tunnel, at, value) in [
        (Tunnel::Vxlan, 42, 0),
        (Tunnel::Geneve, 42, 0x42),
        (Tunnel::Gre, 34, 0x40),
        (Tunnel::Gtpu, 43, 1),
        (Tunnel::Gtpu, 42, 0x26),
        (Tunnel::VxlanGpe, 45, 9),
        (Tunnel::VxlanGpe, 42, 0x08),
    ] {
        let mut frame = tunnelled(tunnel, false, &inner);
        assert_eq!(parse(&frame, ParseOptions::TUNNELS).tunnel, tunnel);
        frame[at] = value;
        assert_eq!(parse(&frame, ParseOptions::TUNNELS).tunnel, Tunnel::None, "{tunnel:?}");
    }
    // GTP extension headers of length zero, and a chain of them.
    let mut frame = tunnelled(Tunnel::Gtpu, false, &inner);
    frame[54] = 0;
    assert_eq!(parse(&frame, ParseOptions::TUNNELS).tunnel, Tunnel::None);
}

#[test]
fn the_inner_packet_has_no_claim_beyond_the_outer_udp_length() {
    let mut frame = tunnelled(Tunnel::Vxlan, false, &v4_udp((7, 8), b"inside"));
    let udp_len = u16::from_be_bytes([frame[38], frame[39]]);
    frame[38..40].copy_from_slice(&(udp_len - 1).to_be_bytes());
    let parsed = parse(&frame, ParseOptions::TUNNELS);
    assert_eq!((parsed.outer.fault, parsed.inner.fault), (None, Some(Fault::IpLength)));
}

#[test]
fn inner_tags_and_faults_show() {
    let inner = tagged(&v4_tcp(b"inside"), &[0x8100]);
    let parsed = parse(&tunnelled(Tunnel::Vxlan, true, &inner), ParseOptions::TUNNELS);
    assert_eq!(
        parsed.ptype.to_string(),
        "L2_ETHER L3_IPV6 L4_UDP TUNNEL_VXLAN INNER_L2_ETHER_VLAN INNER_L3_IPV4 INNER_L4_TCP"
    );
    let inner = tagged(&v4_tcp(b"inside"), &[0x8100; 9]);
    let parsed = parse(&tunnelled(Tunnel::Vxlan, false, &inner), ParseOptions::TUNNELS);
    assert_eq!(parsed.innermost().fault, Some(Fault::TooManyTags));
    assert_eq!(parsed.ptype.to_string(), "L2_ETHER L3_IPV4 L4_UDP TUNNEL_VXLAN");
}

#[test]
fn the_quick_form_is_the_complete_one() {
    let frames = [
        v4_udp((1, 2), b"x"),
        v4_udp((1, 4789), &[8; 40]),
        v4_tcp(b""),
        tunnelled(Tunnel::Geneve, false, &v4_tcp(b"y")),
    ];
    for mut frame in frames {
        frame.extend([0; 5]);
        for options in [ParseOptions::PLAIN, ParseOptions::TUNNELS] {
            assert_eq!(parse(&frame, options), parse_any(&frame, frame.len(), options));
        }
        for at in 12..frame.len().min(54) {
            for bit in 0..8 {
                frame[at] ^= 1 << bit;
                for options in [ParseOptions::PLAIN, ParseOptions::TUNNELS] {
                    assert_eq!(parse(&frame, options), parse_any(&frame, frame.len(), options), "{at}.{bit}");
                }
                frame[at] ^= 1 << bit;
            }
        }
    }
}

#[test]
fn lengths_hold_against_the_packet_not_the_first_segment() {
    let mut head = v4_udp((1, 2), &[0; 100]);
    head.truncate(60);
    assert_eq!(plain(&head).outer.fault, Some(Fault::IpLength));
    let parsed = parse_segment(&head, 142, ParseOptions::PLAIN);
    assert_eq!((parsed.outer.fault, parsed.outer.l3_end), (None, 142));
    let ip = view_mut::<crate::ipv4::Ipv4Hdr>(&mut head, 14).unwrap();
    ip.total_len.set(129);
    assert_eq!(parse_segment(&head, 142, ParseOptions::PLAIN).outer.fault, Some(Fault::IpLength));
}
