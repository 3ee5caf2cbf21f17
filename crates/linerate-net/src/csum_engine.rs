//! Recomputing the checksums of a packet in place: the software side of testpmd's mode csum.
//!
//! Every protocol is done in software or left to the port, each for itself (`csum set … sw|hw`). With tunnels looked into,
//! the four inner settings belong to the innermost headers and the two outer ones to those around the tunnel.
//!
//! Rules: a UDP checksum that is 0 on the wire means "none" and stays 0; a computed 0 is sent as 0xFFFF for UDP and as 0
//! for TCP; a fragment's transport checksum cannot be known and stays. What is malformed stays as it is and says why.
//! The final destination of an IPv6 routing header is not looked up: the pseudo header uses the address in the header.

use core::iter::empty;

use crate::checksum::{Sum, add, pseudo_v4, pseudo_v6, sum_behind};
use crate::ether::ether_type;
use crate::ipv4::{Ipv4Hdr, proto};
use crate::ipv6::Ipv6Hdr;
use crate::parse::{
    Fault, Layers, Network, ParseOptions, Parsed, Tunnel, TxLengths, is_tunnel, link, parse_any,
    parse_segment,
};
use crate::plain::{PLAIN_LEN, be_16, le_32, le_64, plain, put_le_16, starts_plain};
use crate::sctp::SctpHdr;
use crate::segments::{Tail, sctp_crc, sum_range};
use crate::tcp::TcpHdr;
use crate::udp::UdpHdr;
use crate::view::{view, view_mut};

bitflags::bitflags! {
    /// Checksums of a packet, named as in `csum set (ip|udp|tcp|sctp|outer-ip|outer-udp)`.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct CsumLayers: u8 {
        /// IPv4 header, of the innermost headers when tunnels are looked into.
        const IP = 1 << 0;
        /// UDP, innermost.
        const UDP = 1 << 1;
        /// TCP, innermost.
        const TCP = 1 << 2;
        /// SCTP, innermost.
        const SCTP = 1 << 3;
        /// IPv4 header around a tunnel.
        const OUTER_IP = 1 << 4;
        /// UDP around a tunnel.
        const OUTER_UDP = 1 << 5;
    }
}

/// How a port wants its packets' checksums done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CsumOptions {
    /// What the port computes itself: the field is prepared as such hardware expects it (0 for IPv4, the folded pseudo
    /// header sum for UDP and TCP) and named in [`CsumOutcome::hw`]. All others are computed here.
    pub hw: CsumLayers,
    /// Look into tunnels (`csum parse-tunnel on`).
    pub parse_tunnel: bool,
}

/// What was done to a packet, and what the port needs to do the rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct CsumOutcome {
    /// Computed here and written.
    pub done: CsumLayers,
    /// Prepared for the port to compute.
    pub hw: CsumLayers,
    /// Header lengths for the transmit offloads.
    pub lengths: TxLengths,
    /// IP version of the innermost headers.
    pub network: Network,
    /// IP version of the headers around a tunnel.
    pub outer_network: Network,
    /// The tunnel that was found.
    pub tunnel: Tunnel,
    /// What is wrong with the packet; its checksums from there on inwards were left alone.
    pub fault: Option<Fault>,
}

/// Recomputes the checksums of the packet that is whole in `frame`.
///
/// ```
/// use linerate_net::builder::{UdpFlow, UdpTemplate};
/// use linerate_net::csum_engine::{CsumLayers, CsumOptions, recompute};
/// use linerate_net::MacAddr;
/// let flow = UdpFlow::txonly(MacAddr::peer(1), MacAddr::peer(0));
/// let mut frame = [0u8; 64];
/// UdpTemplate::new(&flow, 64).unwrap().build(&mut frame, b"hello").unwrap();
/// let right = frame;
/// frame[24] ^= 0xff;
/// frame[40] ^= 0xff;
/// let outcome = recompute(&mut frame, CsumOptions::default());
/// assert_eq!(outcome.done, CsumLayers::IP | CsumLayers::UDP);
/// assert_eq!(frame, right);
/// ```
#[inline]
pub fn recompute(frame: &mut [u8], options: CsumOptions) -> CsumOutcome {
    if let Some((link, l3)) = frame.split_first_chunk_mut::<14>()
        && let Some(first) = l3.first()
        && starts_plain([link[12], link[13], *first, 0])
        && let Some(outcome) = recompute_plain(l3, 14, options)
    {
        return outcome;
    }
    recompute_any(frame, options)
}

/// Recomputes the checksums of a packet in several segments: `head` is the first and must hold the headers, `tail` gives
/// the others in order.
pub fn recompute_segments<'t>(
    head: &mut [u8],
    tail: impl Iterator<Item = &'t [u8]> + Clone,
    options: CsumOptions,
) -> CsumOutcome {
    let packet_len = head.len() + tail.clone().map(<[u8]>::len).sum::<usize>();
    let parsed = parse_segment(head, packet_len, ParseOptions { tunnels: options.parse_tunnel });
    recompute_parsed(head, tail, &parsed, options)
}

/// The packet that is whole in `frame`, whatever it is.
#[inline(never)]
fn recompute_any(frame: &mut [u8], options: CsumOptions) -> CsumOutcome {
    let mut layers = Layers::default();
    link(frame, 0, &mut layers);
    let l3_off = layers.l3_off();
    // Tagged packets are plain behind their tags.
    if layers.fault.is_none()
        && layers.vlan_tags != 0
        && layers.ether_type == ether_type::IPV4
        && let Some(l3) = frame.get_mut(l3_off..)
        && l3.first() == Some(&Ipv4Hdr::PLAIN)
        && let Some(outcome) = recompute_plain(l3, l3_off as u16, options)
    {
        return outcome;
    }
    // What is not IP has no checksum here; the complete walk would find that out for five times the price.
    if layers.fault.is_none() && !matches!(layers.ether_type, ether_type::IPV4 | ether_type::IPV6) {
        return CsumOutcome {
            lengths: TxLengths { l2_len: layers.l2_len, ..TxLengths::default() },
            ..CsumOutcome::default()
        };
    }
    let parsed = parse_any(frame, frame.len(), ParseOptions { tunnels: options.parse_tunnel });
    recompute_parsed(frame, empty(), &parsed, options)
}

/// A plain UDP packet (see [`crate::plain`]) whose IPv4 header is at the front of `l3`; TCP is handed on, `None` for all
/// others. Header and checksums are taken from the same few loads, and everything is read before anything is written:
/// a wide load right behind a narrow store into it would stall.
#[inline(always)]
fn recompute_plain(l3: &mut [u8], l2_len: u16, options: CsumOptions) -> Option<CsumOutcome> {
    let head = l3.first_chunk::<PLAIN_LEN>()?;
    // Fragment bits and offset, time to live, protocol in one load.
    let middle = le_32(head, 6);
    if middle & PLAIN_MASK != PLAIN_UDP {
        return if middle & PLAIN_MASK == PLAIN_TCP { recompute_tcp(l3, l2_len, options) } else { None };
    }
    let (total_len, udp_len) = (be_16(head, 2), be_16(head, 24));
    let datagram = l3.get(..usize::from(total_len))?.get(20..20 + usize::from(udp_len))?;
    let content = datagram.get(UdpHdr::LEN..)?;
    if options.parse_tunnel && is_tunnel(l3.get(20..24)?) {
        return None;
    }
    let mut outcome = plain_outcome(l2_len, UdpHdr::LEN as u16, options);
    let addresses = le_64(head, 12);
    let ip_wire = if options.hw.contains(CsumLayers::IP) {
        0
    } else {
        Sum::of_raw(add(add(le_64(head, 0), addresses), u64::from(middle >> 16))).to_le()
    };
    if [head[26], head[27]] != [0, 0] {
        // Two numbers of 16 bits: their sum is small.
        let proto_and_len = u64::from(middle >> 16 & 0xff00) + u64::from(udp_len.swap_bytes());
        let pseudo = add(addresses, proto_and_len);
        let udp_wire = if options.hw.contains(CsumLayers::UDP) {
            u16::from_le_bytes(Sum::of_raw(pseudo).folded())
        } else {
            // Ports and length: the checksum out.
            let ports = le_64(head, 20) & 0x0000_ffff_ffff_ffff;
            Sum::of_raw(add(add(pseudo, ports), sum_behind(datagram, content))).to_le_udp()
        };
        put_le_16(l3, 26, udp_wire);
        outcome.hw |= options.hw & CsumLayers::UDP;
        outcome.done |= CsumLayers::UDP - options.hw;
    }
    put_le_16(l3, 10, ip_wire);
    Some(outcome)
}

/// Bytes 6 to 9 of an IPv4 header, least significant first: what tells a fragment, and the protocol.
const PLAIN_MASK: u32 = u32::from_le_bytes([0x3f, 0xff, 0, 0xff]);
/// Not a fragment, UDP.
const PLAIN_UDP: u32 = u32::from_le_bytes([0, 0, 0, proto::UDP]);
/// Not a fragment, TCP.
const PLAIN_TCP: u32 = u32::from_le_bytes([0, 0, 0, proto::TCP]);

/// [`recompute_plain`] for TCP.
#[inline(never)]
fn recompute_tcp(l3: &mut [u8], l2_len: u16, options: CsumOptions) -> Option<CsumOutcome> {
    let lengths = plain(l3, l3.len())?;
    let (head, segment) = l3.get_mut(..lengths.total_len)?.split_first_chunk_mut::<20>()?;
    let mut outcome = plain_outcome(l2_len, lengths.l4_len as u16, options);
    let addresses = le_64(head, 12);
    let middle = le_32(head, 6);
    let ip_wire = if options.hw.contains(CsumLayers::IP) {
        0
    } else {
        Sum::of_raw(add(add(le_64(head, 0), addresses), u64::from(middle >> 16))).to_le()
    };
    let proto_and_len = u64::from(middle >> 16 & 0xff00) + u64::from((lengths.l4_total as u16).swap_bytes());
    let pseudo = Sum::of_raw(add(addresses, proto_and_len));
    let tcp_wire = if options.hw.contains(CsumLayers::TCP) {
        u16::from_le_bytes(pseudo.folded())
    } else {
        let field = *segment.get(16..)?.first_chunk()?;
        pseudo.plus(Sum::of(segment)).without(field).to_le()
    };
    outcome.hw |= options.hw & CsumLayers::TCP;
    outcome.done |= CsumLayers::TCP - options.hw;
    put_le_16(segment, 16, tcp_wire);
    put_le_16(head, 10, ip_wire);
    Some(outcome)
}

/// What both plain forms report, the transport checksum not yet booked.
#[inline(always)]
fn plain_outcome(l2_len: u16, l4_len: u16, options: CsumOptions) -> CsumOutcome {
    CsumOutcome {
        lengths: TxLengths { l2_len, l3_len: 20, l4_len, ..TxLengths::default() },
        network: Network::V4,
        hw: options.hw & CsumLayers::IP,
        done: CsumLayers::IP - options.hw,
        ..CsumOutcome::default()
    }
}

/// Any packet, its headers in `head`.
#[inline]
fn recompute_parsed<'t>(
    head: &mut [u8],
    tail: impl Tail<'t>,
    parsed: &Parsed,
    options: CsumOptions,
) -> CsumOutcome {
    let top = parsed.innermost();
    let mut outcome = CsumOutcome {
        lengths: parsed.tx_lengths(),
        network: top.network,
        tunnel: parsed.tunnel,
        fault: parsed.outer.fault.or(top.fault),
        ..CsumOutcome::default()
    };
    ip(head, top, CsumLayers::IP, options, &mut outcome);
    transport(head, tail.clone(), top, false, options, &mut outcome);
    if parsed.tunnel != Tunnel::None {
        // After the inner ones, which the outer UDP checksum covers.
        outcome.outer_network = parsed.outer.network;
        ip(head, &parsed.outer, CsumLayers::OUTER_IP, options, &mut outcome);
        if parsed.outer.l4_proto == proto::UDP {
            transport(head, tail, &parsed.outer, true, options, &mut outcome);
        }
    }
    outcome
}

/// The IPv4 header checksum of one set of headers.
#[inline]
fn ip(head: &mut [u8], layers: &Layers, which: CsumLayers, options: CsumOptions, outcome: &mut CsumOutcome) {
    if layers.network != Network::V4 || !layers.has_ip() {
        return;
    }
    let Some(header) = head.get_mut(layers.l3_off()..layers.l4_off()) else { return };
    let sum = Sum::of(header);
    let Some(ip) = view_mut::<Ipv4Hdr>(header, 0) else { return };
    let wire =
        if options.hw.contains(which) { [0, 0] } else { sum.without(ip.checksum.to_bytes()).to_wire() };
    ip.checksum = wire.into();
    note(which, options, outcome);
}

/// The transport checksum of one set of headers.
#[inline]
fn transport<'t>(
    head: &mut [u8],
    tail: impl Tail<'t>,
    layers: &Layers,
    outer: bool,
    options: CsumOptions,
    outcome: &mut CsumOutcome,
) {
    if !layers.has_l4() {
        return;
    }
    let (from, to) = (layers.l4_off(), layers.l3_end as usize);
    match layers.l4_proto {
        proto::UDP => {
            let which = if outer { CsumLayers::OUTER_UDP } else { CsumLayers::UDP };
            let Some(udp) = view::<UdpHdr>(head, from).copied() else { return };
            if udp.checksum.get() == 0 {
                return;
            }
            let len = udp.len.get();
            let Some(pseudo) = pseudo(head, layers, u32::from(len)) else { return };
            let wire = if options.hw.contains(which) {
                pseudo.folded()
            } else {
                let Some(sum) = sum_range(head, tail, from, from + usize::from(len)) else { return };
                sum.plus(pseudo).without(udp.checksum.to_bytes()).to_wire_udp()
            };
            if let Some(udp) = view_mut::<UdpHdr>(head, from) {
                udp.checksum = wire.into();
                note(which, options, outcome);
            }
        }
        proto::TCP => {
            let Some(tcp) = view::<TcpHdr>(head, from).copied() else { return };
            let Some(pseudo) = pseudo(head, layers, (to - from) as u32) else { return };
            let wire = if options.hw.contains(CsumLayers::TCP) {
                pseudo.folded()
            } else {
                let Some(sum) = sum_range(head, tail, from, to) else { return };
                sum.plus(pseudo).without(tcp.checksum.to_bytes()).to_wire()
            };
            if let Some(tcp) = view_mut::<TcpHdr>(head, from) {
                tcp.checksum = wire.into();
                note(CsumLayers::TCP, options, outcome);
            }
        }
        proto::SCTP => {
            let crc =
                if options.hw.contains(CsumLayers::SCTP) { Some(0) } else { sctp_crc(head, tail, from, to) };
            if let (Some(crc), Some(sctp)) = (crc, view_mut::<SctpHdr>(head, from)) {
                sctp.checksum.set(crc);
                note(CsumLayers::SCTP, options, outcome);
            }
        }
        _ => {}
    }
}

/// Sum of the pseudo header of these headers.
#[inline]
pub(crate) fn pseudo(head: &[u8], layers: &Layers, l4_len: u32) -> Option<Sum> {
    let at = layers.l3_off();
    match layers.network {
        Network::V4 => {
            view::<Ipv4Hdr>(head, at).map(|ip| pseudo_v4(ip.src, ip.dst, layers.l4_proto, l4_len as u16))
        }
        Network::V6 => {
            view::<Ipv6Hdr>(head, at).map(|ip| pseudo_v6(&ip.src, &ip.dst, layers.l4_proto, l4_len))
        }
        Network::Other => None,
    }
}

/// Books one checksum as computed here or as left to the port.
#[inline]
fn note(which: CsumLayers, options: CsumOptions, outcome: &mut CsumOutcome) {
    outcome.hw |= which & options.hw;
    outcome.done |= which - options.hw;
}

#[cfg(test)]
mod tests;
