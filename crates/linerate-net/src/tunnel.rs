//! Headers of the tunnels: VXLAN and VXLAN-GPE, GENEVE, GRE and NVGRE, GTP-U.

use zerocopy::network_endian::{U16, U32};

use crate::view::header;

header! {
    /// VXLAN (RFC 7348, 5) and, with the last reserved byte of the first word in use, VXLAN-GPE.
    pub struct VxlanHdr {
        /// Flags; [`VxlanHdr::VNI_VALID`], for GPE also [`VxlanHdr::PROTO_VALID`].
        pub flags: u8,
        /// Reserved.
        pub reserved: [u8; 2],
        /// GPE: what follows, see [`gpe`]. Reserved in plain VXLAN.
        pub next_proto: u8,
        /// Network identifier (upper 24 bits), reserved.
        pub vni_reserved: U32,
    } size 8
}

impl VxlanHdr {
    /// The identifier counts; set in every VXLAN packet.
    pub const VNI_VALID: u8 = 0x08;
    /// GPE: the next protocol counts.
    pub const PROTO_VALID: u8 = 0x04;

    /// Network identifier, 24 bits.
    #[inline]
    pub fn vni(&self) -> u32 {
        self.vni_reserved.get() >> 8
    }
}

/// Next protocol numbers of VXLAN-GPE.
pub mod gpe {
    /// IPv4.
    pub const IPV4: u8 = 1;
    /// IPv6.
    pub const IPV6: u8 = 2;
    /// Ethernet.
    pub const ETHERNET: u8 = 3;
}

header! {
    /// GENEVE (RFC 8926, 3.4) without its options.
    pub struct GeneveHdr {
        /// Version (2 bits), length of the options in 32-bit words (6 bits).
        pub version_optlen: u8,
        /// Control bit, critical bit, reserved.
        pub flags: u8,
        /// EtherType of what follows.
        pub protocol: U16,
        /// Network identifier (upper 24 bits), reserved.
        pub vni_reserved: U32,
    } size 8
}

impl GeneveHdr {
    /// The version field; 0 is the only one there is.
    #[inline]
    pub fn version(&self) -> u8 {
        self.version_optlen >> 6
    }

    /// Header and options in bytes, 8..=260.
    #[inline]
    pub fn header_len(&self) -> usize {
        Self::LEN + usize::from(self.version_optlen & 0x3f) * 4
    }

    /// Network identifier, 24 bits.
    #[inline]
    pub fn vni(&self) -> u32 {
        self.vni_reserved.get() >> 8
    }
}

header! {
    /// GRE (RFC 2784 with the key and sequence of RFC 2890) without its optional words.
    pub struct GreHdr {
        /// Which optional words are there, and the version in the low 3 bits.
        pub flags: U16,
        /// EtherType of what follows.
        pub protocol: U16,
    } size 4
}

impl GreHdr {
    /// A checksum word follows.
    pub const CHECKSUM: u16 = 0x8000;
    /// Source routing (RFC 1701, withdrawn).
    pub const ROUTING: u16 = 0x4000;
    /// A key word follows; in NVGRE (RFC 7637) always.
    pub const KEY: u16 = 0x2000;
    /// A sequence number follows.
    pub const SEQUENCE: u16 = 0x1000;

    /// The version field; 0 here, 1 is PPTP's.
    #[inline]
    pub fn version(&self) -> u16 {
        self.flags.get() & 7
    }

    /// Header and optional words in bytes, 4..=16.
    #[inline]
    pub fn header_len(&self) -> usize {
        let words = self.flags.get() & (Self::CHECKSUM | Self::KEY | Self::SEQUENCE);
        Self::LEN + words.count_ones() as usize * 4
    }
}

header! {
    /// GTP version 1, user plane (3GPP TS 29.281, 5.1), without its optional word.
    pub struct GtpuHdr {
        /// Version (3 bits), protocol type (1), reserved (1), extension, sequence and N-PDU present (3).
        pub flags: u8,
        /// Message type; [`GtpuHdr::T_PDU`] carries a packet.
        pub message: u8,
        /// Bytes after this header.
        pub len: U16,
        /// Tunnel endpoint identifier.
        pub teid: U32,
    } size 8
}

impl GtpuHdr {
    /// Message type of a user packet.
    pub const T_PDU: u8 = 0xff;
    /// An extension header follows the optional word.
    pub const EXTENSION: u8 = 0x04;
    /// Extension, sequence or N-PDU number: the optional word is there.
    pub const OPTIONAL: u8 = 0x07;
    /// Size of the optional word: sequence (2), N-PDU (1), next extension type (1).
    pub const OPTIONAL_LEN: usize = 4;

    /// Is this GTP version 1, and not GTP'?
    #[inline]
    pub fn is_version_1(&self) -> bool {
        self.flags & 0xf0 == 0x30
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_and_identifiers() {
        let gre = GreHdr { flags: U16::new(0xb000), ..Default::default() };
        assert_eq!(gre.header_len(), 16);
        let geneve =
            GeneveHdr { version_optlen: 0x3f, vni_reserved: U32::new(0x12345600), ..Default::default() };
        assert_eq!((geneve.version(), geneve.header_len(), geneve.vni()), (0, 260, 0x123456));
        let vxlan = VxlanHdr { vni_reserved: U32::new(0xabcdef01), ..Default::default() };
        assert_eq!(vxlan.vni(), 0xabcdef);
        assert!(GtpuHdr { flags: 0x34, ..Default::default() }.is_version_1());
        assert!(!GtpuHdr { flags: 0x20, ..Default::default() }.is_version_1());
    }
}
