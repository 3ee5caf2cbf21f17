//! Recognising a tunnel after the outer headers, and the parse of what it carries.

use super::layers::{ether_type_of_nibble, link, network, word};
use super::{Layers, Parsed, Tunnel};
use crate::ether::ether_type;
use crate::ipv4::proto;
use crate::ptype::PacketType;
use crate::tunnel::{GeneveHdr, GreHdr, GtpuHdr, VxlanHdr, gpe};
use crate::udp::{UdpHdr, port};
use crate::view::view;

/// GTP-U extension headers followed at most.
const MAX_GTP_EXTENSIONS: usize = 4;

/// A recognised tunnel.
struct Found {
    tunnel: Tunnel,
    /// Bytes of the tunnel's header.
    len: usize,
    /// EtherType of the content, [`ether_type::TEB`] for a whole Ethernet frame.
    carries: u16,
}

/// Looks for a tunnel behind `parsed.outer`, which is free of faults, and parses the inner headers.
pub(super) fn enter(head: &[u8], parsed: &mut Parsed) {
    let outer = &parsed.outer;
    if !outer.has_ip() {
        return;
    }
    let mut end = outer.l3_end as usize;
    let at = outer.l4_off() + usize::from(outer.l4_len);
    let found = match outer.l4_proto {
        proto::UDP => {
            let Some(udp) = view::<UdpHdr>(head, outer.l4_off()) else { return };
            end = outer.l4_off() + usize::from(udp.len.get());
            over_udp(&head[..end.min(head.len())], at, udp)
        }
        proto::GRE => gre(&head[..end.min(head.len())], at),
        proto::IPIP => Some(Found { tunnel: Tunnel::Ip, len: 0, carries: ether_type::IPV4 }),
        proto::IPV6 => Some(Found { tunnel: Tunnel::Ip, len: 0, carries: ether_type::IPV6 }),
        _ => None,
    };
    let Some(found) = found else { return };
    let start = at + found.len;
    // The inner packet has no claim to bytes beyond the outer one.
    let head = &head[..end.min(head.len())];
    let mut inner = Layers { l2_off: start as u16, ether_type: found.carries, ..Layers::default() };
    if found.carries == ether_type::TEB {
        link(head, start, &mut inner);
    }
    network(head, end, &mut inner);
    parsed.inner = inner;
    parsed.tunnel = found.tunnel;
    parsed.tunnel_len = found.len as u16;
}

/// The packet type group of a tunnel.
pub(super) fn packet_type(tunnel: Tunnel) -> PacketType {
    match tunnel {
        Tunnel::None => PacketType::UNKNOWN,
        Tunnel::Vxlan => PacketType::TUNNEL_VXLAN,
        Tunnel::VxlanGpe => PacketType::TUNNEL_VXLAN_GPE,
        Tunnel::Geneve => PacketType::TUNNEL_GENEVE,
        Tunnel::Gre => PacketType::TUNNEL_GRE,
        Tunnel::Nvgre => PacketType::TUNNEL_NVGRE,
        Tunnel::Gtpu => PacketType::TUNNEL_GTPU,
        Tunnel::Ip => PacketType::TUNNEL_IP,
    }
}

fn over_udp(head: &[u8], at: usize, udp: &UdpHdr) -> Option<Found> {
    match udp.dst_port.get() {
        port::VXLAN => {
            let vxlan = view::<VxlanHdr>(head, at)?;
            (vxlan.flags & VxlanHdr::VNI_VALID != 0).then_some(Found {
                tunnel: Tunnel::Vxlan,
                len: VxlanHdr::LEN,
                carries: ether_type::TEB,
            })
        }
        port::VXLAN_GPE => {
            let vxlan = view::<VxlanHdr>(head, at)?;
            let carries = match vxlan.next_proto {
                gpe::IPV4 => ether_type::IPV4,
                gpe::IPV6 => ether_type::IPV6,
                gpe::ETHERNET => ether_type::TEB,
                _ => return None,
            };
            (vxlan.flags & VxlanHdr::PROTO_VALID != 0).then_some(Found {
                tunnel: Tunnel::VxlanGpe,
                len: VxlanHdr::LEN,
                carries,
            })
        }
        port::GENEVE => {
            let geneve = view::<GeneveHdr>(head, at)?;
            let carries = carried(geneve.protocol.get())?;
            let len = geneve.header_len();
            (geneve.version() == 0 && at + len <= head.len()).then_some(Found {
                tunnel: Tunnel::Geneve,
                len,
                carries,
            })
        }
        dst if dst == port::GTPU || udp.src_port.get() == port::GTPU => gtpu(head, at),
        _ => None,
    }
}

/// The content's EtherType, if it is one that can be parsed.
fn carried(protocol: u16) -> Option<u16> {
    matches!(protocol, ether_type::TEB | ether_type::IPV4 | ether_type::IPV6).then_some(protocol)
}

fn gre(head: &[u8], at: usize) -> Option<Found> {
    let gre = view::<GreHdr>(head, at)?;
    let carries = carried(gre.protocol.get())?;
    let len = gre.header_len();
    if gre.version() != 0 || gre.flags.get() & GreHdr::ROUTING != 0 || at + len > head.len() {
        return None;
    }
    let keyed = gre.flags.get() & GreHdr::KEY != 0;
    let tunnel = if keyed && carries == ether_type::TEB { Tunnel::Nvgre } else { Tunnel::Gre };
    Some(Found { tunnel, len, carries })
}

fn gtpu(head: &[u8], at: usize) -> Option<Found> {
    let gtp = view::<GtpuHdr>(head, at)?;
    if !gtp.is_version_1() || gtp.message != GtpuHdr::T_PDU {
        return None;
    }
    let mut len = GtpuHdr::LEN;
    if gtp.flags & GtpuHdr::OPTIONAL != 0 {
        len += GtpuHdr::OPTIONAL_LEN;
        let mut next = *head.get(at + len - 1)?;
        let mut extensions = 0;
        // The type byte counts only when its flag is set (TS 29.281, 5.1).
        while gtp.flags & GtpuHdr::EXTENSION != 0 && next != 0 {
            // Length in 4-byte units, counting itself and the next type, which is the last byte.
            let units = usize::from(word(head, at + len)? >> 8);
            extensions += 1;
            if units == 0 || extensions > MAX_GTP_EXTENSIONS {
                return None;
            }
            len += units * 4;
            next = *head.get(at + len - 1)?;
        }
    }
    let carries = ether_type_of_nibble(head, at + len)?;
    Some(Found { tunnel: Tunnel::Gtpu, len, carries })
}
