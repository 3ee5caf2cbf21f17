//! What rules and hash want to know of a frame, found out once.

use linerate_mbuf::{Mbuf, OlFlags};
use linerate_net::{
    PacketType,
    ether::ether_type,
    ipv4::proto,
    parse::{Layers, Network, ParseOptions, parse_segment},
};

/// Headers that a frame has, as bits: a rule needs some of them.
pub(super) mod has {
    /// An Ethernet header.
    pub const ETH: u32 = 1 << 0;
    /// A valid IPv4 header.
    pub const V4: u32 = 1 << 1;
    /// A valid IPv6 header.
    pub const V6: u32 = 1 << 2;
    /// A TCP header.
    pub const TCP: u32 = 1 << 3;
    /// A UDP header.
    pub const UDP: u32 = 1 << 4;
    /// An SCTP header.
    pub const SCTP: u32 = 1 << 5;
    /// An ICMP header.
    pub const ICMP: u32 = 1 << 6;
    /// An ICMPv6 header.
    pub const ICMP6: u32 = 1 << 7;

    /// At least so many VLAN tags, of at most eight.
    pub const fn tags(n: u8) -> u32 {
        ((1 << n) - 1) << 8
    }
}

/// A frame taken apart: outer headers only.
pub(super) struct Headers<'a> {
    /// The bytes that the layers refer to: the frame's first segment.
    pub bytes: &'a [u8],
    pub layers: Layers,
    pub ptype: PacketType,
    /// Which headers there are, of [`has`].
    pub has: u32,
}

impl<'a> Headers<'a> {
    /// Parses a frame of `len` bytes of which the first are at hand.
    #[inline]
    pub(super) fn of(bytes: &'a [u8], len: usize) -> Self {
        let parsed = parse_segment(bytes, len, ParseOptions::PLAIN);
        let layers = parsed.outer;
        let mut bits = has::tags(layers.vlan_tags.min(8));
        if layers.l2_len != 0 {
            bits |= has::ETH;
        }
        if layers.has_ip() {
            bits |= if layers.network == Network::V4 { has::V4 } else { has::V6 };
        }
        if layers.has_l4() {
            bits |= match (layers.l4_proto, layers.network) {
                (proto::TCP, _) => has::TCP,
                (proto::UDP, _) => has::UDP,
                (proto::SCTP, _) => has::SCTP,
                (proto::ICMP, Network::V4) => has::ICMP,
                (proto::ICMPV6, Network::V6) => has::ICMP6,
                _ => 0,
            };
        }
        Headers { bytes, layers, ptype: parsed.ptype, has: bits }
    }

    /// The destination address, if the frame is long enough to have one.
    #[inline]
    pub(super) fn destination(&self) -> Option<[u8; 6]> {
        self.bytes.first_chunk().copied()
    }

    /// The outermost VLAN, if there is a tag.
    #[inline]
    pub(super) fn vlan(&self) -> Option<u16> {
        if self.layers.vlan_tags == 0 {
            return None;
        }
        let tci = self.bytes.get(14..)?.first_chunk()?;
        Some(u16::from_be_bytes(*tci) & 0xfff)
    }
}

/// Bytes of a frame that are looked at when its tags have to be put back first.
pub(super) const RESTORED: usize = 512;

/// Whether the device took tags out of the frame: rules, filters and hash see it as it was on the wire.
#[inline(always)]
pub(super) fn is_stripped(m: &Mbuf) -> bool {
    m.ol_flags().intersects(OlFlags::RX_VLAN_STRIPPED | OlFlags::RX_QINQ_STRIPPED)
}

/// Copies the start of a frame with its tags put back; how many bytes, and how long the frame was with them.
#[cold]
#[inline(never)]
pub(super) fn restore(m: &Mbuf, into: &mut [u8; RESTORED]) -> (usize, usize) {
    let (data, flags) = (m.data(), m.ol_flags());
    let mut tags = [0; 8];
    let n = if flags.contains(OlFlags::RX_QINQ_STRIPPED) {
        tags[..2].copy_from_slice(&ether_type::QINQ.to_be_bytes());
        tags[2..4].copy_from_slice(&m.vlan_tci_outer().to_be_bytes());
        tags[4..6].copy_from_slice(&ether_type::VLAN.to_be_bytes());
        tags[6..].copy_from_slice(&m.vlan_tci().to_be_bytes());
        8
    } else {
        tags[..2].copy_from_slice(&ether_type::VLAN.to_be_bytes());
        tags[2..4].copy_from_slice(&m.vlan_tci().to_be_bytes());
        4
    };
    let front = data.len().min(12);
    let rest = (data.len() - front).min(RESTORED - 12 - n);
    if front < 12 {
        // Too short to have had a tag.
        into[..front].copy_from_slice(data);
        return (front, m.len() as usize);
    }
    into[..12].copy_from_slice(&data[..12]);
    into[12..12 + n].copy_from_slice(&tags[..n]);
    into[12 + n..12 + n + rest].copy_from_slice(&data[12..12 + rest]);
    (12 + n + rest, m.len() as usize + n)
}
