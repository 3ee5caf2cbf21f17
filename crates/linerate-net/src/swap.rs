//! The rewrites of testpmd's modes mac, macswap and 5tswap, in place.
//!
//! None of them needs a checksum mended: a one's complement sum does not care about the order of its words.

use crate::ether::{MacAddr, ether_type};
use crate::ipv4::{Ipv4Hdr, proto};
use crate::ipv6::Ipv6Hdr;
use crate::view::{view, view_mut};
use crate::vlan::{VlanTag, is_vlan};

/// Destination and source address as they stand at the front of a frame: what the mode mac writes over each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MacPair([u8; 12]);

impl MacPair {
    /// Addresses for frames that go from `src` to `dst`.
    #[inline]
    pub const fn new(dst: MacAddr, src: MacAddr) -> Self {
        let ([a, b, c, d, e, f], [g, h, i, j, k, l]) = (dst.octets(), src.octets());
        MacPair([a, b, c, d, e, f, g, h, i, j, k, l])
    }

    /// Writes both addresses over those of `frame`. A frame too short for an Ethernet header stays as it is.
    #[inline]
    pub fn write(&self, frame: &mut [u8]) {
        if let Some(header) = frame.first_chunk_mut::<14>() {
            header[..12].copy_from_slice(&self.0);
        }
    }
}

/// Exchanges source and destination MAC address (the mode macswap). A frame too short for an Ethernet header stays as it
/// is.
#[inline]
pub fn mac_swap(frame: &mut [u8]) {
    match frame.first_chunk_mut::<16>() {
        Some(head) => crate::simd::swap_macs(head),
        None => mac_swap_scalar(frame),
    }
}

/// [`mac_swap`] byte by byte: its oracle, and the form for frames of 14 and 15 bytes.
pub fn mac_swap_scalar(frame: &mut [u8]) {
    if let Some(header) = frame.first_chunk_mut::<14>() {
        let (dst, rest) = header.split_at_mut(6);
        dst.swap_with_slice(&mut rest[..6]);
    }
}

/// Exchanges MAC addresses, then those of the IPv4 or IPv6 header, then the ports of TCP or UDP (the mode 5tswap).
///
/// Any number of VLAN tags is walked over. It stops silently at the first header that it does not know: an IPv6 extension
/// header is one, and so is the payload of a fragment that is not the first, where DPDK would swap payload bytes.
#[inline]
pub fn five_tuple_swap(frame: &mut [u8]) {
    let Some(head) = frame.first_chunk_mut::<PLAIN_LEN>() else {
        return five_tuple_swap_any(frame);
    };
    // Both tests at once: EtherType IPv4, then version 4 and a header of 20 bytes.
    if head[12..15] != [0x08, 0x00, Ipv4Hdr::PLAIN] {
        return five_tuple_swap_any(frame);
    }
    if let Some(front) = head.first_chunk_mut::<16>() {
        crate::simd::swap_macs(front);
    }
    // Both addresses, and both ports, stand side by side: a rotation by half swaps them.
    if let Some(addresses) = head[26..].first_chunk_mut::<8>() {
        *addresses = u64::from_ne_bytes(*addresses).rotate_left(32).to_ne_bytes();
    }
    // Don't-fragment and more-fragments may be set, the offset must be 0.
    let first = u16::from_ne_bytes([head[20], head[21]]) & u16::from_be(0x1fff) == 0;
    if first
        && matches!(head[23], proto::UDP | proto::TCP)
        && let Some(ports) = head[34..].first_chunk_mut::<4>()
    {
        *ports = u32::from_ne_bytes(*ports).rotate_left(16).to_ne_bytes();
    }
}

/// Ethernet, IPv4 without options, two ports.
const PLAIN_LEN: usize = 38;

/// [`five_tuple_swap`] for every frame, header by header: its oracle, and the form for all but plain frames.
#[inline(never)]
pub fn five_tuple_swap_any(frame: &mut [u8]) {
    mac_swap_scalar(frame);
    let Some(mut kind) = word(frame, 12) else { return };
    let mut at = 14;
    // Bounded by the frame: each round goes on by four bytes.
    while is_vlan(kind) {
        let Some(tag) = view::<VlanTag>(frame, at) else { return };
        kind = tag.ether_type.get();
        at += VlanTag::LEN;
    }
    let l4_proto = match kind {
        ether_type::IPV4 => {
            let Some(ip) = view_mut::<Ipv4Hdr>(frame, at) else { return };
            if ip.version() != 4 || ip.header_len() < Ipv4Hdr::LEN {
                return;
            }
            (ip.src, ip.dst) = (ip.dst, ip.src);
            if ip.fragment_offset() != 0 {
                return;
            }
            at += ip.header_len();
            ip.proto
        }
        ether_type::IPV6 => {
            let Some(ip) = view_mut::<Ipv6Hdr>(frame, at) else { return };
            if ip.version() != 6 {
                return;
            }
            (ip.src, ip.dst) = (ip.dst, ip.src);
            at += Ipv6Hdr::LEN;
            ip.next_header
        }
        _ => return,
    };
    if matches!(l4_proto, proto::UDP | proto::TCP)
        && let Some([a, b, c, d]) = frame.get_mut(at..).and_then(<[u8]>::first_chunk_mut::<4>)
    {
        core::mem::swap(a, c);
        core::mem::swap(b, d);
    }
}

/// Reads a big-endian word.
#[inline]
fn word(frame: &[u8], at: usize) -> Option<u16> {
    frame.get(at..)?.first_chunk::<2>().map(|bytes| u16::from_be_bytes(*bytes))
}

/// Exchanges the addresses in a frame's first 16 bytes with nothing but the language.
#[cfg(any(test, not(target_arch = "x86_64")))]
pub(crate) fn swap_macs_scalar(head: &mut [u8; 16]) {
    mac_swap_scalar(head);
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::PacketBuilder;
    use proptest::prelude::*;

    /// Bytes that all differ, so that a misplaced one shows.
    fn counting(len: usize) -> Vec<u8> {
        (0..len).map(|i| i as u8).collect()
    }

    #[test]
    fn macs_are_swapped_at_every_length() {
        for len in 0..100 {
            let before = counting(len);
            let (mut fast, mut plain) = (before.clone(), before.clone());
            mac_swap(&mut fast);
            mac_swap_scalar(&mut plain);
            assert_eq!(fast, plain, "{len}");
            if len >= 14 {
                assert_eq!(fast[..14], [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 12, 13], "{len}");
                assert_eq!(fast[14..], before[14..], "{len}");
            } else {
                assert_eq!(fast, before, "{len}");
            }
        }
        let mut head: [u8; 16] = counting(16).try_into().unwrap();
        swap_macs_scalar(&mut head);
        assert_eq!(head, [6, 7, 8, 9, 10, 11, 0, 1, 2, 3, 4, 5, 12, 13, 14, 15]);
    }

    #[test]
    fn mac_pair_is_written_at_the_front() {
        let pair = MacPair::new(MacAddr::peer(1), MacAddr::new([0xa; 6]));
        for len in 0..20 {
            let mut frame = counting(len);
            pair.write(&mut frame);
            if len >= 14 {
                assert_eq!(frame[..14], [2, 0, 0, 0, 0, 1, 0xa, 0xa, 0xa, 0xa, 0xa, 0xa, 12, 13]);
            } else {
                assert_eq!(frame, counting(len));
            }
        }
    }

    /// Swaps a frame and says which bytes it took from where, by the parse of an independent library.
    fn check_swapped(frame: &[u8]) {
        let mut swapped = frame.to_vec();
        five_tuple_swap(&mut swapped);
        let (a, b) = (
            etherparse::SlicedPacket::from_ethernet(frame).unwrap(),
            etherparse::SlicedPacket::from_ethernet(&swapped).unwrap(),
        );
        let (ea, eb) = (a.link.unwrap().to_header().unwrap(), b.link.unwrap().to_header().unwrap());
        let (ea, eb) = (ea.ethernet2().unwrap(), eb.ethernet2().unwrap());
        assert_eq!((ea.source, ea.destination), (eb.destination, eb.source));
        use etherparse::{NetSlice, TransportSlice};
        match (a.net.unwrap(), b.net.unwrap()) {
            (NetSlice::Ipv4(x), NetSlice::Ipv4(y)) => {
                assert_eq!(x.header().source(), y.header().destination());
                assert_eq!(x.header().destination(), y.header().source());
                assert_eq!(y.header().header_checksum(), y.header().to_header().calc_header_checksum());
            }
            (NetSlice::Ipv6(x), NetSlice::Ipv6(y)) => {
                assert_eq!(x.header().source(), y.header().destination());
                assert_eq!(x.header().destination(), y.header().source());
            }
            _ => panic!("the network layer changed"),
        }
        match (a.transport.unwrap(), b.transport.unwrap()) {
            (TransportSlice::Udp(x), TransportSlice::Udp(y)) => {
                assert_eq!((x.source_port(), x.destination_port()), (y.destination_port(), y.source_port()));
                assert_eq!((x.checksum(), x.payload()), (y.checksum(), y.payload()));
            }
            (TransportSlice::Tcp(x), TransportSlice::Tcp(y)) => {
                assert_eq!((x.source_port(), x.destination_port()), (y.destination_port(), y.source_port()));
                assert_eq!((x.checksum(), x.payload()), (y.checksum(), y.payload()));
            }
            _ => panic!("the transport layer changed"),
        }
        // Swapping is its own inverse.
        let mut back = swapped.clone();
        five_tuple_swap(&mut back);
        assert_eq!(back, frame);
    }

    #[test]
    fn tuples_are_swapped_through_tags_options_and_both_versions() {
        let link = || PacketBuilder::ethernet2([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]);
        let mut frame = Vec::new();
        link().ipv4([10, 1, 2, 3], [10, 4, 5, 6], 9).udp(1000, 2000).write(&mut frame, b"payload").unwrap();
        check_swapped(&frame);
        frame.clear();
        link()
            .single_vlan(5.try_into().unwrap())
            .ipv6([1; 16], [2; 16], 9)
            .tcp(1, 2, 3, 4)
            .write(&mut frame, b"x")
            .unwrap();
        check_swapped(&frame);
        frame.clear();
        let mut ip =
            etherparse::Ipv4Header::new(0, 64, etherparse::IpNumber::TCP, [1, 2, 3, 4], [5, 6, 7, 8])
                .unwrap();
        ip.options = [1; 12].into();
        link()
            .double_vlan(5.try_into().unwrap(), 6.try_into().unwrap())
            .ip(etherparse::IpHeaders::Ipv4(ip, Default::default()))
            .tcp(1, 2, 3, 4)
            .write(&mut frame, b"x")
            .unwrap();
        check_swapped(&frame);
    }

    #[test]
    fn later_fragments_keep_their_payload() {
        let mut frame = Vec::new();
        PacketBuilder::ethernet2([1; 6], [2; 6])
            .ipv4([10, 1, 2, 3], [10, 4, 5, 6], 9)
            .udp(1000, 2000)
            .write(&mut frame, b"payload")
            .unwrap();
        for (bits, swapped) in [(0x4000u16, true), (0x2000, true), (0x2001, false), (0x0100, false)] {
            frame[20..22].copy_from_slice(&bits.to_be_bytes());
            let (mut fast, mut plain) = (frame.clone(), frame.clone());
            five_tuple_swap(&mut fast);
            five_tuple_swap_any(&mut plain);
            assert_eq!(fast, plain);
            assert_eq!(fast[34..38] != frame[34..38], swapped, "{bits:#x}");
            assert_eq!(fast[26..30], frame[30..34]);
        }
    }

    #[test]
    fn a_hundred_tags_end() {
        let mut frame = vec![0u8; 12];
        for _ in 0..100 {
            frame.extend([0x88, 0xa8, 0, 1]);
        }
        let tags_only = frame.clone();
        five_tuple_swap(&mut frame);
        assert_eq!(frame, tags_only);
        frame.extend([
            0x08, 0x00, 0x45, 0, 0, 28, 0, 0, 0, 0, 9, 17, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 0, 3, 0, 4,
        ]);
        five_tuple_swap(&mut frame);
        assert_eq!(frame[frame.len() - 12..], [2, 2, 2, 2, 1, 1, 1, 1, 0, 4, 0, 3]);
    }

    proptest! {
        #[test]
        fn fast_is_plain(
            mut frame in proptest::collection::vec(any::<u8>(), 0..80),
            proto in prop_oneof![Just(6u8), Just(17), any::<u8>()],
            frag in prop_oneof![Just(0u16), Just(0x4000), any::<u16>()],
            version in prop_oneof![Just(0x45u8), Just(0x46), any::<u8>()],
        ) {
            if let Some(part) = frame.get_mut(12..24) {
                part[0..3].copy_from_slice(&[8, 0, version]);
                part[8..10].copy_from_slice(&frag.to_be_bytes());
                part[11] = proto;
            }
            let mut plain = frame.clone();
            five_tuple_swap(&mut frame);
            five_tuple_swap_any(&mut plain);
            prop_assert_eq!(frame, plain);
        }
    }
}
