//! IPv4 header (RFC 791).

use core::net::Ipv4Addr;

use zerocopy::network_endian::U16;

use crate::view::header;

/// IP protocol numbers (IANA) that this crate knows.
pub mod proto {
    /// IPv6 hop-by-hop options.
    pub const HOP_BY_HOP: u8 = 0;
    /// ICMP for IPv4.
    pub const ICMP: u8 = 1;
    /// IGMP.
    pub const IGMP: u8 = 2;
    /// IPv4 in IP.
    pub const IPIP: u8 = 4;
    /// TCP.
    pub const TCP: u8 = 6;
    /// UDP.
    pub const UDP: u8 = 17;
    /// IPv6 in IP.
    pub const IPV6: u8 = 41;
    /// IPv6 routing header.
    pub const ROUTING: u8 = 43;
    /// IPv6 fragment header.
    pub const FRAGMENT: u8 = 44;
    /// GRE.
    pub const GRE: u8 = 47;
    /// Encapsulating security payload.
    pub const ESP: u8 = 50;
    /// Authentication header.
    pub const AH: u8 = 51;
    /// ICMP for IPv6.
    pub const ICMPV6: u8 = 58;
    /// IPv6: nothing follows.
    pub const NO_NEXT: u8 = 59;
    /// IPv6 destination options.
    pub const DEST_OPTS: u8 = 60;
    /// SCTP.
    pub const SCTP: u8 = 132;
    /// IPv6 mobility header.
    pub const MOBILITY: u8 = 135;
    /// Host identity protocol.
    pub const HIP: u8 = 139;
    /// Shim6.
    pub const SHIM6: u8 = 140;
}

header! {
    /// The 20 bytes that every IPv4 header has; options follow (RFC 791, 3.1).
    pub struct Ipv4Hdr {
        /// Version (4 bits) and header length in 32-bit words (4 bits).
        pub version_ihl: u8,
        /// Differentiated services and congestion bits.
        pub tos: u8,
        /// Header and payload in bytes.
        pub total_len: U16,
        /// Identification, for reassembly.
        pub id: U16,
        /// Reserved, don't fragment, more fragments, offset in units of 8 bytes (13 bits).
        pub frag: U16,
        /// Hops left.
        pub ttl: u8,
        /// Protocol of the payload, see [`proto`].
        pub proto: u8,
        /// Header checksum.
        pub checksum: U16,
        /// Source address.
        pub src: [u8; 4],
        /// Destination address.
        pub dst: [u8; 4],
    } size 20
}

impl Ipv4Hdr {
    /// Version 4 with a header of 20 bytes, the first byte of nearly every packet.
    pub const PLAIN: u8 = 0x45;

    /// The version field; 4 in a valid header.
    #[inline]
    pub fn version(&self) -> u8 {
        self.version_ihl >> 4
    }

    /// Header length in bytes as the header claims, 0..=60; below 20 it lies.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.version_ihl & 0x0f) * 4
    }

    /// Offset of this fragment in bytes.
    #[inline]
    pub fn fragment_offset(&self) -> u32 {
        u32::from(self.frag.get() & 0x1fff) * 8
    }

    /// Are more fragments to come?
    #[inline]
    pub fn more_fragments(&self) -> bool {
        self.frag.get() & 0x2000 != 0
    }

    /// Is this packet a fragment, the first included?
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.frag.get() & 0x3fff != 0
    }

    /// Source address.
    #[inline]
    pub fn src_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.src)
    }

    /// Destination address.
    #[inline]
    pub fn dst_addr(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.dst)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fragment_bits() {
        let mut header = Ipv4Hdr { version_ihl: 0x4f, frag: U16::new(0x4000), ..Default::default() };
        assert_eq!((header.version(), header.header_len()), (4, 60));
        assert!(!header.is_fragment(), "don't fragment is no fragment");
        header.frag.set(0x2000);
        assert!(header.is_fragment() && header.more_fragments());
        header.frag.set(0x1fff);
        assert!(header.is_fragment() && !header.more_fragments());
        assert_eq!(header.fragment_offset(), 65528);
    }
}
