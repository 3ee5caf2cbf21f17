//! UDP header (RFC 768) and the well-known ports of the tunnels carried in it.

use zerocopy::network_endian::U16;

use crate::view::header;

/// Destination ports by which tunnels are recognised (IANA).
pub mod port {
    /// GTP control plane (3GPP TS 29.060).
    pub const GTPC: u16 = 2123;
    /// GTP user plane (3GPP TS 29.281).
    pub const GTPU: u16 = 2152;
    /// VXLAN (RFC 7348).
    pub const VXLAN: u16 = 4789;
    /// VXLAN generic protocol extension.
    pub const VXLAN_GPE: u16 = 4790;
    /// GENEVE (RFC 8926).
    pub const GENEVE: u16 = 6081;
}

header! {
    /// UDP header.
    pub struct UdpHdr {
        /// Source port.
        pub src_port: U16,
        /// Destination port.
        pub dst_port: U16,
        /// Header and payload in bytes, at least 8.
        pub len: U16,
        /// Checksum over pseudo header, header and payload; 0 on the wire means none.
        pub checksum: U16,
    } size 8
}
