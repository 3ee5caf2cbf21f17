//! IPv6 header and the generic forms of its extension headers (RFC 8200).

use core::net::Ipv6Addr;

use zerocopy::network_endian::{U16, U32};

use crate::ipv4::proto;
use crate::view::header;

/// The parser follows at most this many extension headers, so that a hostile chain cannot keep it busy.
pub const MAX_EXTENSIONS: usize = 8;

header! {
    /// The fixed IPv6 header (RFC 8200, 3).
    pub struct Ipv6Hdr {
        /// Version (4 bits), traffic class (8), flow label (20).
        pub version_class_flow: U32,
        /// Bytes after this header, extension headers included.
        pub payload_len: U16,
        /// Type of the next header, see [`proto`].
        pub next_header: u8,
        /// Hops left.
        pub hop_limit: u8,
        /// Source address.
        pub src: [u8; 16],
        /// Destination address.
        pub dst: [u8; 16],
    } size 40
}

impl Ipv6Hdr {
    /// The version field; 6 in a valid header.
    #[inline]
    pub fn version(&self) -> u8 {
        (self.version_class_flow.get() >> 28) as u8
    }

    /// Traffic class.
    #[inline]
    pub fn traffic_class(&self) -> u8 {
        (self.version_class_flow.get() >> 20) as u8
    }

    /// Flow label, 20 bits.
    #[inline]
    pub fn flow_label(&self) -> u32 {
        self.version_class_flow.get() & 0x000f_ffff
    }

    /// Source address.
    #[inline]
    pub fn src_addr(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.src)
    }

    /// Destination address.
    #[inline]
    pub fn dst_addr(&self) -> Ipv6Addr {
        Ipv6Addr::from(self.dst)
    }
}

header! {
    /// The first two bytes that every extension header but the fragment header shares.
    pub struct Ipv6Ext {
        /// Type of the header after this one.
        pub next_header: u8,
        /// Length: in 8-byte units without the first, for the authentication header in 4-byte units minus 2.
        pub len: u8,
    } size 2
}

header! {
    /// Fragment header (RFC 8200, 4.5).
    pub struct Ipv6Frag {
        /// Type of the header after this one.
        pub next_header: u8,
        /// Reserved.
        pub reserved: u8,
        /// Offset in 8-byte units (13 bits), reserved (2), more fragments (1).
        pub offset_more: U16,
        /// Identification.
        pub id: U32,
    } size 8
}

impl Ipv6Frag {
    /// False for an "atomic fragment" (RFC 6946), which is a whole packet.
    #[inline]
    pub fn is_fragment(&self) -> bool {
        self.offset_more.get() & 0xfff9 != 0
    }
}

/// Is this next-header value that of an extension header which can be walked over?
#[inline]
pub const fn is_extension(next_header: u8) -> bool {
    matches!(
        next_header,
        proto::HOP_BY_HOP
            | proto::ROUTING
            | proto::FRAGMENT
            | proto::AH
            | proto::DEST_OPTS
            | proto::MOBILITY
            | proto::HIP
            | proto::SHIM6
    )
}

/// Length in bytes of the extension header of type `kind` whose length field is `len`.
#[inline]
pub const fn extension_len(kind: u8, len: u8) -> usize {
    match kind {
        proto::FRAGMENT => 8,
        proto::AH => (len as usize + 2) * 4,
        _ => (len as usize + 1) * 8,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn first_word_and_lengths() {
        let header = Ipv6Hdr { version_class_flow: U32::new(0x6ab1_2345), ..Default::default() };
        assert_eq!((header.version(), header.traffic_class(), header.flow_label()), (6, 0xab, 0x12345));
        assert_eq!(extension_len(proto::HOP_BY_HOP, 0), 8);
        assert_eq!(extension_len(proto::ROUTING, 255), 2048);
        assert_eq!(extension_len(proto::AH, 4), 24);
        assert_eq!(extension_len(proto::FRAGMENT, 200), 8);
    }

    #[test]
    fn atomic_fragment_is_whole() {
        let mut header = Ipv6Frag::default();
        assert!(!header.is_fragment());
        header.offset_more.set(1);
        assert!(header.is_fragment());
        header.offset_more.set(8);
        assert!(header.is_fragment());
        header.offset_more.set(6);
        assert!(!header.is_fragment(), "reserved bits do not count");
    }
}
