//! Packet types: what a packet is, layer by layer, in one 32-bit word with DPDK's names and values (`rte_mbuf_ptype.h`).

use core::fmt;

/// The type of a packet: seven groups of four bits, from the outer link layer to the inner transport layer.
///
/// ```
/// use linerate_net::PacketType;
/// let kind = PacketType::L2_ETHER | PacketType::L3_IPV4 | PacketType::L4_UDP;
/// assert_eq!(kind.bits(), 0x211);
/// assert_eq!(kind.to_string(), "L2_ETHER L3_IPV4 L4_UDP");
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default)]
#[repr(transparent)]
pub struct PacketType(u32);

macro_rules! types {
    ($($(#[$meta:meta])* $name:ident = $value:literal, $group:ident;)*) => {
        impl PacketType {
            $($(#[$meta])* pub const $name: PacketType = PacketType($value);)*
        }

        /// Value, group mask and name of each type.
        const NAMES: &[(u32, u32, &str)] = &[$(($value, PacketType::$group.0, stringify!($name)),)*];
    };
}

impl PacketType {
    /// Nothing is known.
    pub const UNKNOWN: PacketType = PacketType(0);
    /// The four bits of the link layer.
    pub const L2_MASK: PacketType = PacketType(0x0000_000f);
    /// The four bits of the network layer.
    pub const L3_MASK: PacketType = PacketType(0x0000_00f0);
    /// The four bits of the transport layer.
    pub const L4_MASK: PacketType = PacketType(0x0000_0f00);
    /// The four bits of the tunnel.
    pub const TUNNEL_MASK: PacketType = PacketType(0x0000_f000);
    /// The four bits of the inner link layer.
    pub const INNER_L2_MASK: PacketType = PacketType(0x000f_0000);
    /// The four bits of the inner network layer.
    pub const INNER_L3_MASK: PacketType = PacketType(0x00f0_0000);
    /// The four bits of the inner transport layer.
    pub const INNER_L4_MASK: PacketType = PacketType(0x0f00_0000);

    /// The type as DPDK's number.
    #[inline]
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// The type of DPDK's number.
    #[inline]
    pub const fn from_bits(bits: u32) -> Self {
        PacketType(bits)
    }

    /// Only the group that `mask` selects.
    #[inline]
    #[must_use]
    pub const fn masked(self, mask: PacketType) -> Self {
        PacketType(self.0 & mask.0)
    }

    /// Is the network layer IPv4, with options or without?
    #[inline]
    pub const fn is_ipv4(self) -> bool {
        self.0 & 0x10 != 0
    }

    /// Is the network layer IPv6, with extension headers or without?
    #[inline]
    pub const fn is_ipv6(self) -> bool {
        self.0 & 0x40 != 0
    }

    /// Is there a tunnel?
    #[inline]
    pub const fn is_tunnel(self) -> bool {
        self.0 & Self::TUNNEL_MASK.0 != 0
    }
}

types! {
    /// Ethernet.
    L2_ETHER = 0x1, L2_MASK;
    /// IEEE 1588 over Ethernet.
    L2_ETHER_TIMESYNC = 0x2, L2_MASK;
    /// ARP.
    L2_ETHER_ARP = 0x3, L2_MASK;
    /// LLDP.
    L2_ETHER_LLDP = 0x4, L2_MASK;
    /// Ethernet with one customer tag.
    L2_ETHER_VLAN = 0x6, L2_MASK;
    /// Ethernet with a service tag or several tags.
    L2_ETHER_QINQ = 0x7, L2_MASK;
    /// IPv4 without options.
    L3_IPV4 = 0x10, L3_MASK;
    /// IPv4 with options.
    L3_IPV4_EXT = 0x30, L3_MASK;
    /// IPv6 without extension headers.
    L3_IPV6 = 0x40, L3_MASK;
    /// IPv4, options not looked at.
    L3_IPV4_EXT_UNKNOWN = 0x90, L3_MASK;
    /// IPv6 with extension headers.
    L3_IPV6_EXT = 0xc0, L3_MASK;
    /// IPv6, extension headers not looked at.
    L3_IPV6_EXT_UNKNOWN = 0xe0, L3_MASK;
    /// TCP.
    L4_TCP = 0x100, L4_MASK;
    /// UDP.
    L4_UDP = 0x200, L4_MASK;
    /// A fragment, so there may be no transport header.
    L4_FRAG = 0x300, L4_MASK;
    /// SCTP.
    L4_SCTP = 0x400, L4_MASK;
    /// ICMP or ICMPv6.
    L4_ICMP = 0x500, L4_MASK;
    /// Neither a fragment nor any of the others.
    L4_NONFRAG = 0x600, L4_MASK;
    /// IGMP.
    L4_IGMP = 0x700, L4_MASK;
    /// IP in IP.
    TUNNEL_IP = 0x1000, TUNNEL_MASK;
    /// GRE.
    TUNNEL_GRE = 0x2000, TUNNEL_MASK;
    /// VXLAN.
    TUNNEL_VXLAN = 0x3000, TUNNEL_MASK;
    /// NVGRE: GRE with a key that carries Ethernet.
    TUNNEL_NVGRE = 0x4000, TUNNEL_MASK;
    /// GENEVE.
    TUNNEL_GENEVE = 0x5000, TUNNEL_MASK;
    /// GTP control plane.
    TUNNEL_GTPC = 0x7000, TUNNEL_MASK;
    /// GTP user plane.
    TUNNEL_GTPU = 0x8000, TUNNEL_MASK;
    /// Encapsulating security payload.
    TUNNEL_ESP = 0x9000, TUNNEL_MASK;
    /// VXLAN-GPE.
    TUNNEL_VXLAN_GPE = 0xb000, TUNNEL_MASK;
    /// Inner Ethernet.
    INNER_L2_ETHER = 0x1_0000, INNER_L2_MASK;
    /// Inner Ethernet with one tag.
    INNER_L2_ETHER_VLAN = 0x2_0000, INNER_L2_MASK;
    /// Inner Ethernet with a service tag or several tags.
    INNER_L2_ETHER_QINQ = 0x3_0000, INNER_L2_MASK;
    /// Inner IPv4 without options.
    INNER_L3_IPV4 = 0x10_0000, INNER_L3_MASK;
    /// Inner IPv4 with options.
    INNER_L3_IPV4_EXT = 0x20_0000, INNER_L3_MASK;
    /// Inner IPv6 without extension headers.
    INNER_L3_IPV6 = 0x30_0000, INNER_L3_MASK;
    /// Inner IPv6 with extension headers.
    INNER_L3_IPV6_EXT = 0x50_0000, INNER_L3_MASK;
    /// Inner TCP.
    INNER_L4_TCP = 0x100_0000, INNER_L4_MASK;
    /// Inner UDP.
    INNER_L4_UDP = 0x200_0000, INNER_L4_MASK;
    /// Inner fragment.
    INNER_L4_FRAG = 0x300_0000, INNER_L4_MASK;
    /// Inner SCTP.
    INNER_L4_SCTP = 0x400_0000, INNER_L4_MASK;
    /// Inner ICMP or ICMPv6.
    INNER_L4_ICMP = 0x500_0000, INNER_L4_MASK;
    /// Inner: neither a fragment nor any of the others.
    INNER_L4_NONFRAG = 0x600_0000, INNER_L4_MASK;
}

impl core::ops::BitOr for PacketType {
    type Output = PacketType;

    #[inline]
    fn bitor(self, other: PacketType) -> PacketType {
        PacketType(self.0 | other.0)
    }
}

impl fmt::Display for PacketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut separator = "";
        for (value, mask, name) in NAMES {
            if self.0 & mask == *value {
                write!(f, "{separator}{name}")?;
                separator = " ";
            }
        }
        if separator.is_empty() { f.write_str("UNKNOWN") } else { Ok(()) }
    }
}

impl fmt::Debug for PacketType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PacketType({:#x}: {self})", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_lies_in_its_group_and_prints_its_name() {
        for (value, mask, name) in NAMES {
            assert_eq!(value & mask, *value, "{name}");
            assert_eq!(PacketType(*value).to_string(), *name);
        }
        assert_eq!(PacketType::UNKNOWN.to_string(), "UNKNOWN");
    }

    #[test]
    fn ip_tests_hold_for_every_kind() {
        for kind in [PacketType::L3_IPV4, PacketType::L3_IPV4_EXT, PacketType::L3_IPV4_EXT_UNKNOWN] {
            assert!(kind.is_ipv4() && !kind.is_ipv6());
        }
        for kind in [PacketType::L3_IPV6, PacketType::L3_IPV6_EXT, PacketType::L3_IPV6_EXT_UNKNOWN] {
            assert!(kind.is_ipv6() && !kind.is_ipv4());
        }
    }
}
