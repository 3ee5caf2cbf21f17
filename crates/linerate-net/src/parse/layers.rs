//! The complete walk over one set of headers, and the packet type that results.

use zerocopy::network_endian::U16;

use super::{Fault, Layers, Network, ParseOptions, Parsed, Tunnel, tunnels};
use crate::ether::{EthHdr, ether_type};
use crate::icmp::IcmpHdr;
use crate::ipv4::{Ipv4Hdr, proto};
use crate::ipv6::{Ipv6Ext, Ipv6Frag, Ipv6Hdr, MAX_EXTENSIONS, extension_len, is_extension};
use crate::ptype::PacketType;
use crate::sctp::SctpHdr;
use crate::tcp::TcpHdr;
use crate::udp::UdpHdr;
use crate::view::view;
use crate::vlan::{MAX_VLAN_TAGS, VlanTag, is_vlan};

/// Parses any packet: what `parse_plain` does not take.
#[inline(never)]
pub(crate) fn parse_any(head: &[u8], packet_len: usize, options: ParseOptions) -> Parsed {
    let mut parsed = Parsed::default();
    let outer = &mut parsed.outer;
    link(head, 0, outer);
    network(head, packet_len, outer);
    parsed.ptype = packet_type(outer);
    if options.tunnels && outer.fault.is_none() && !outer.fragment {
        tunnels::enter(head, &mut parsed);
        if parsed.tunnel != Tunnel::None {
            parsed.ptype =
                parsed.ptype | tunnels::packet_type(parsed.tunnel) | inner_packet_type(&parsed.inner);
        }
    }
    parsed
}

/// Walks Ethernet and the VLAN tags at `at`.
pub(crate) fn link(head: &[u8], at: usize, layers: &mut Layers) {
    layers.l2_off = at as u16;
    let Some(ethernet) = view::<EthHdr>(head, at) else {
        layers.fault = Some(Fault::Truncated);
        return;
    };
    layers.l2_len = EthHdr::LEN as u16;
    layers.ether_type = ethernet.ether_type.get();
    while is_vlan(layers.ether_type) {
        if usize::from(layers.vlan_tags) == MAX_VLAN_TAGS {
            layers.fault = Some(Fault::TooManyTags);
            return;
        }
        let Some(tag) = view::<VlanTag>(head, layers.l3_off()) else {
            layers.fault = Some(Fault::Truncated);
            return;
        };
        layers.l2_len += VlanTag::LEN as u16;
        layers.ether_type = tag.ether_type.get();
        layers.vlan_tags += 1;
    }
}

/// Walks the network and transport headers after the link layer. `end` is where the packet ends, from the frame's
/// start; `head` may end before it.
pub(super) fn network(head: &[u8], end: usize, layers: &mut Layers) {
    if layers.fault.is_some() {
        return;
    }
    let done = match layers.ether_type {
        ether_type::IPV4 => ipv4(head, end, layers),
        ether_type::IPV6 => ipv6(head, end, layers),
        _ => Ok(()),
    };
    let done = match done {
        Ok(()) if layers.has_ip() && !layers.fragment => transport(head, layers),
        other => other,
    };
    layers.fault = done.err();
}

fn ipv4(head: &[u8], end: usize, layers: &mut Layers) -> Result<(), Fault> {
    let at = layers.l3_off();
    let ip = view::<Ipv4Hdr>(head, at).ok_or(Fault::Truncated)?;
    if ip.version() != 4 {
        return Err(Fault::IpVersion);
    }
    layers.network = Network::V4;
    let (header_len, total_len) = (ip.header_len(), usize::from(ip.total_len.get()));
    if header_len < Ipv4Hdr::LEN {
        return Err(Fault::IpHeaderLength);
    }
    if total_len < header_len || at + total_len > end {
        return Err(Fault::IpLength);
    }
    if at + header_len > head.len() {
        return Err(Fault::Truncated);
    }
    layers.l3_len = header_len as u16;
    layers.l3_end = (at + total_len) as u32;
    layers.l4_proto = ip.proto;
    layers.fragment = ip.is_fragment();
    Ok(())
}

fn ipv6(head: &[u8], end: usize, layers: &mut Layers) -> Result<(), Fault> {
    let at = layers.l3_off();
    let ip = view::<Ipv6Hdr>(head, at).ok_or(Fault::Truncated)?;
    if ip.version() != 6 {
        return Err(Fault::IpVersion);
    }
    layers.network = Network::V6;
    let l3_end = at + Ipv6Hdr::LEN + usize::from(ip.payload_len.get());
    if l3_end > end {
        return Err(Fault::IpLength);
    }
    let mut next = ip.next_header;
    let mut header_end = at + Ipv6Hdr::LEN;
    let mut extensions = 0;
    let mut fragment = false;
    while is_extension(next) && !fragment {
        let extension = view::<Ipv6Ext>(head, header_end).ok_or(Fault::Truncated)?;
        let extension_end = header_end + extension_len(next, extension.len);
        extensions += 1;
        if extensions > MAX_EXTENSIONS || extension_end > l3_end {
            return Err(Fault::Ipv6Extensions);
        }
        if extension_end > head.len() {
            return Err(Fault::Truncated);
        }
        if next == proto::FRAGMENT {
            fragment = view::<Ipv6Frag>(head, header_end).is_some_and(Ipv6Frag::is_fragment);
        }
        next = extension.next_header;
        header_end = extension_end;
    }
    layers.l3_len = (header_end - at) as u16;
    layers.l3_end = l3_end as u32;
    layers.l4_proto = next;
    layers.fragment = fragment;
    Ok(())
}

fn transport(head: &[u8], layers: &mut Layers) -> Result<(), Fault> {
    let at = layers.l4_off();
    let end = layers.l3_end as usize;
    // What IP does not count as its payload is padding, not header.
    let head = &head[..end.min(head.len())];
    let header_len = match layers.l4_proto {
        proto::TCP => {
            let tcp = view::<TcpHdr>(head, at).ok_or(Fault::Truncated)?;
            let header_len = tcp.header_len();
            if header_len < TcpHdr::LEN || at + header_len > end {
                return Err(Fault::L4Length);
            }
            header_len
        }
        proto::UDP => {
            let udp = view::<UdpHdr>(head, at).ok_or(Fault::Truncated)?;
            let len = usize::from(udp.len.get());
            if len < UdpHdr::LEN || at + len > end {
                return Err(Fault::L4Length);
            }
            UdpHdr::LEN
        }
        proto::SCTP => view::<SctpHdr>(head, at).map(|_| SctpHdr::LEN).ok_or(Fault::Truncated)?,
        proto::ICMP | proto::ICMPV6 | proto::IGMP => {
            view::<IcmpHdr>(head, at).map(|_| IcmpHdr::LEN).ok_or(Fault::Truncated)?
        }
        _ => return Ok(()),
    };
    if at + header_len > head.len() {
        return Err(Fault::Truncated);
    }
    layers.l4_len = header_len as u16;
    Ok(())
}

/// Packet type of the outer headers.
fn packet_type(layers: &Layers) -> PacketType {
    if layers.fault == Some(Fault::TooManyTags) || layers.l2_len == 0 {
        return PacketType::UNKNOWN;
    }
    let l2 = match (layers.vlan_tags, layers.ether_type) {
        (0, ether_type::ARP) => PacketType::L2_ETHER_ARP,
        (0, ether_type::LLDP) => PacketType::L2_ETHER_LLDP,
        (0, ether_type::PTP) => PacketType::L2_ETHER_TIMESYNC,
        (0, _) => PacketType::L2_ETHER,
        (1, _) => PacketType::L2_ETHER_VLAN,
        _ => PacketType::L2_ETHER_QINQ,
    };
    let l3 = match layers.network {
        Network::V4 if layers.l3_len == 20 => PacketType::L3_IPV4,
        Network::V4 if layers.has_ip() => PacketType::L3_IPV4_EXT,
        Network::V4 => PacketType::L3_IPV4_EXT_UNKNOWN,
        Network::V6 if layers.l3_len == 40 => PacketType::L3_IPV6,
        Network::V6 if layers.has_ip() => PacketType::L3_IPV6_EXT,
        Network::V6 => PacketType::L3_IPV6_EXT_UNKNOWN,
        Network::Other => return l2,
    };
    l2 | l3 | l4_type(layers)
}

/// Transport group of the packet type, in the outer position.
fn l4_type(layers: &Layers) -> PacketType {
    if !layers.has_ip() || layers.fault.is_some() {
        return PacketType::UNKNOWN;
    }
    if layers.fragment {
        return PacketType::L4_FRAG;
    }
    match layers.l4_proto {
        proto::TCP => PacketType::L4_TCP,
        proto::UDP => PacketType::L4_UDP,
        proto::SCTP => PacketType::L4_SCTP,
        proto::ICMP | proto::ICMPV6 => PacketType::L4_ICMP,
        proto::IGMP => PacketType::L4_IGMP,
        _ => PacketType::L4_NONFRAG,
    }
}

/// Packet type of the inner headers. The numbers of the network group are not those of the outer one.
fn inner_packet_type(layers: &Layers) -> PacketType {
    if layers.fault == Some(Fault::TooManyTags) {
        return PacketType::UNKNOWN;
    }
    let l2 = match (layers.l2_len, layers.vlan_tags) {
        (0, _) => PacketType::UNKNOWN,
        (_, 0) => PacketType::INNER_L2_ETHER,
        (_, 1) => PacketType::INNER_L2_ETHER_VLAN,
        _ => PacketType::INNER_L2_ETHER_QINQ,
    };
    let l3 = match layers.network {
        Network::V4 if layers.l3_len == 20 => PacketType::INNER_L3_IPV4,
        Network::V4 if layers.has_ip() => PacketType::INNER_L3_IPV4_EXT,
        Network::V6 if layers.l3_len == 40 => PacketType::INNER_L3_IPV6,
        Network::V6 if layers.has_ip() => PacketType::INNER_L3_IPV6_EXT,
        _ => return l2,
    };
    let l4 = match l4_type(layers) {
        // There is no inner number for it.
        PacketType::L4_IGMP => PacketType::INNER_L4_NONFRAG,
        other => PacketType::from_bits(other.bits() << 16),
    };
    l2 | l3 | l4
}

/// The EtherType at `at`, for tunnels that say only by the version nibble what they carry.
pub(super) fn ether_type_of_nibble(head: &[u8], at: usize) -> Option<u16> {
    match head.get(at)? >> 4 {
        4 => Some(ether_type::IPV4),
        6 => Some(ether_type::IPV6),
        _ => None,
    }
}

/// Reads a big-endian word.
pub(super) fn word(head: &[u8], at: usize) -> Option<u16> {
    view::<U16>(head, at).map(|word| word.get())
}
