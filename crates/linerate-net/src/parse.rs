//! The one bounded parser: Ethernet, at most eight VLAN tags, IPv4, IPv6 with at most eight extension headers, TCP, UDP,
//! SCTP, ICMP, IGMP and, when asked for, one tunnel with the same again inside.
//!
//! Nothing outside the slice is read, nothing is believed that contradicts the packet's length, and every walk has a
//! bound. What stops the parser is kept as a [`Fault`], so that callers can count it and forward or drop by policy.

mod layers;
mod tunnels;

use crate::ether::ether_type;
use crate::ipv4::proto;
use crate::plain::{plain, starts_plain};
use crate::ptype::PacketType;
use crate::udp::port;

/// Why a packet could not be parsed to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// A header goes on past the end of the bytes at hand.
    Truncated,
    /// More VLAN tags than [`MAX_VLAN_TAGS`](crate::vlan::MAX_VLAN_TAGS): the packet's type is unknown.
    TooManyTags,
    /// The EtherType says IPv4 or IPv6 and the version field something else.
    IpVersion,
    /// An IPv4 header length below 20 bytes.
    IpHeaderLength,
    /// An IP length smaller than the header or larger than the packet.
    IpLength,
    /// More IPv6 extension headers than [`MAX_EXTENSIONS`](crate::ipv6::MAX_EXTENSIONS), or one past the payload's end.
    Ipv6Extensions,
    /// A TCP header length below 20 bytes or past the payload, or a UDP length that contradicts the IP length.
    L4Length,
}

/// Network layer of one set of headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Network {
    /// Neither of the two.
    #[default]
    Other,
    /// IPv4, `l3_len` counts the options.
    V4,
    /// IPv6, `l3_len` counts the extension headers.
    V6,
}

/// Tunnel between the outer and the inner headers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Tunnel {
    /// None, or none asked for.
    #[default]
    None,
    /// VXLAN.
    Vxlan,
    /// VXLAN with the generic protocol extension.
    VxlanGpe,
    /// GENEVE.
    Geneve,
    /// GRE carrying IP, or Ethernet without a key.
    Gre,
    /// GRE with a key, carrying Ethernet.
    Nvgre,
    /// GTP user plane.
    Gtpu,
    /// IP in IP, either version in either.
    Ip,
}

/// One set of headers: link, network, transport. Offsets and lengths in bytes, offsets from the frame's first byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Layers {
    /// End of the network layer's payload as its length field says; 0 when there is no valid IP header. Link padding
    /// lies beyond it.
    pub l3_end: u32,
    /// Where the link header starts: 0 for the outer one.
    pub l2_off: u16,
    /// Link header with its VLAN tags; 0 inside tunnels that carry no link layer.
    pub l2_len: u16,
    /// IP header with options or extension headers, 0 when there is no valid one.
    pub l3_len: u16,
    /// Transport header (TCP with options), 0 when there is no valid one.
    pub l4_len: u16,
    /// The EtherType after the last tag, host order; inside tunnels without link layer that of the IP version.
    pub ether_type: u16,
    /// IP protocol after the options and extension headers, also of a fragment; 0 when there is no valid IP header.
    pub l4_proto: u8,
    /// Number of VLAN tags.
    pub vlan_tags: u8,
    /// Network layer.
    pub network: Network,
    /// Is this packet a fragment (the first included)? Then no transport header is looked for.
    pub fragment: bool,
    /// What stopped the parser in these headers.
    pub fault: Option<Fault>,
}

impl Layers {
    /// Where the network header starts.
    #[inline]
    pub const fn l3_off(&self) -> usize {
        self.l2_off as usize + self.l2_len as usize
    }

    /// Where the transport header starts, when [`Layers::l3_len`] is not 0.
    #[inline]
    pub const fn l4_off(&self) -> usize {
        self.l3_off() + self.l3_len as usize
    }

    /// Bytes from the transport header to the end of the IP payload.
    #[inline]
    pub const fn l4_total(&self) -> usize {
        (self.l3_end as usize).saturating_sub(self.l4_off())
    }

    /// Is there a valid IP header?
    #[inline]
    pub const fn has_ip(&self) -> bool {
        self.l3_len != 0
    }

    /// Is there a valid transport header of protocol `l4_proto`?
    #[inline]
    pub const fn has_l4(&self) -> bool {
        self.l4_len != 0
    }
}

/// What [`parse`] found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Parsed {
    /// The headers that a NIC looks at first.
    pub outer: Layers,
    /// The headers inside the tunnel; all zero when there is none.
    pub inner: Layers,
    /// Packet type of both.
    pub ptype: PacketType,
    /// Length of the tunnel's own header with options: it starts at the outer transport header's end, or for GRE in its
    /// place. 0 for IP in IP.
    pub tunnel_len: u16,
    /// The tunnel, if one was looked for and found.
    pub tunnel: Tunnel,
}

impl Parsed {
    /// The innermost headers: those of the tunnel's content, or the only ones.
    #[inline]
    pub const fn innermost(&self) -> &Layers {
        match self.tunnel {
            Tunnel::None => &self.outer,
            _ => &self.inner,
        }
    }

    /// The header lengths as transmit offloads want them.
    #[inline]
    pub const fn tx_lengths(&self) -> TxLengths {
        let top = self.innermost();
        match self.tunnel {
            Tunnel::None => TxLengths {
                outer_l2_len: 0,
                outer_l3_len: 0,
                l2_len: top.l2_len,
                l3_len: top.l3_len,
                l4_len: top.l4_len,
            },
            _ => TxLengths {
                outer_l2_len: self.outer.l2_len,
                outer_l3_len: self.outer.l3_len,
                // Everything between the outer IP header and the inner one, as DPDK counts it.
                l2_len: (top.l3_off() - self.outer.l4_off()) as u16,
                l3_len: top.l3_len,
                l4_len: top.l4_len,
            },
        }
    }
}

/// Header lengths in bytes for transmit offloads, with the meaning of DPDK's mbuf fields of these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct TxLengths {
    /// Outer link header; 0 without tunnel.
    pub outer_l2_len: u16,
    /// Outer network header; 0 without tunnel.
    pub outer_l3_len: u16,
    /// Link header; in a tunnel outer transport, tunnel and inner link header together.
    pub l2_len: u16,
    /// Network header.
    pub l3_len: u16,
    /// Transport header.
    pub l4_len: u16,
}

/// What [`parse`] is to look for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct ParseOptions {
    /// Look into tunnels.
    pub tunnels: bool,
}

impl ParseOptions {
    /// Outer headers only.
    pub const PLAIN: ParseOptions = ParseOptions { tunnels: false };
    /// Tunnels too.
    pub const TUNNELS: ParseOptions = ParseOptions { tunnels: true };
}

/// Parses a frame that is whole in `frame`.
///
/// ```
/// use linerate_net::parse::{Network, ParseOptions, parse};
/// let frame = [0u8; 60];
/// assert_eq!(parse(&frame, ParseOptions::PLAIN).outer.network, Network::Other);
/// ```
#[inline]
pub fn parse(frame: &[u8], options: ParseOptions) -> Parsed {
    match parse_plain(frame, frame.len(), options) {
        Some(parsed) => parsed,
        None => parse_any(frame, frame.len(), options),
    }
}

/// [`parse_segment`] for a packet that the caller knows not to be plain.
pub(crate) use layers::{link, parse_any};

/// Parses a packet of `packet_len` bytes whose headers are in `head`, its first segment; headers beyond it count as
/// [`Fault::Truncated`], lengths are held against `packet_len`.
#[inline]
pub fn parse_segment(head: &[u8], packet_len: usize, options: ParseOptions) -> Parsed {
    let packet_len = packet_len.max(head.len());
    match parse_plain(head, packet_len, options) {
        Some(parsed) => parsed,
        None => parse_any(head, packet_len, options),
    }
}

/// Untagged Ethernet and a plain packet behind it; `None` for all others, which says nothing about them.
#[inline]
fn parse_plain(head: &[u8], packet_len: usize, options: ParseOptions) -> Option<Parsed> {
    let (ethernet, l3) = head.split_first_chunk::<14>()?;
    if !starts_plain([ethernet[12], ethernet[13], *l3.first()?, 0]) {
        return None;
    }
    let plain = plain(l3, packet_len - 14)?;
    if options.tunnels && plain.udp && is_tunnel(l3.get(20..24)?) {
        return None;
    }
    let (l4_proto, l4_type) =
        if plain.udp { (proto::UDP, PacketType::L4_UDP) } else { (proto::TCP, PacketType::L4_TCP) };
    Some(Parsed {
        outer: Layers {
            l3_end: 14 + plain.total_len as u32,
            l2_len: 14,
            l3_len: 20,
            l4_len: plain.l4_len as u16,
            ether_type: ether_type::IPV4,
            l4_proto,
            network: Network::V4,
            ..Layers::default()
        },
        ptype: PacketType::L2_ETHER | PacketType::L3_IPV4 | l4_type,
        ..Parsed::default()
    })
}

/// May UDP with these two ports, as they stand in the header, carry a tunnel?
#[inline]
pub(crate) fn is_tunnel(ports: &[u8]) -> bool {
    let [a, b, c, d] = *ports else { return false };
    let (src, dst) = (u16::from_be_bytes([a, b]), u16::from_be_bytes([c, d]));
    matches!(dst, port::VXLAN | port::VXLAN_GPE | port::GENEVE | port::GTPU) || src == port::GTPU
}

#[cfg(test)]
mod tests;
