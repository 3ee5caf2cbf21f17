//! SCTP common header (RFC 9260).

use zerocopy::little_endian::U32 as LeU32;
use zerocopy::network_endian::{U16, U32};

use crate::view::header;

header! {
    /// The common header; chunks follow.
    pub struct SctpHdr {
        /// Source port.
        pub src_port: U16,
        /// Destination port.
        pub dst_port: U16,
        /// Verification tag of the receiver. Not part of any flow hash: it differs between the directions.
        pub tag: U32,
        /// CRC32c over header and chunks with this field zero, stored little-endian (RFC 9260, appendix A).
        pub checksum: LeU32,
    } size 12
}
