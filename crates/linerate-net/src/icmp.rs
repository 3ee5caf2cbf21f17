//! ICMP (RFC 792) and ICMPv6 (RFC 4443): the part that all messages share, and echo.

use zerocopy::network_endian::U16;

use crate::view::header;

/// ICMPv4 echo request.
pub const ECHO_REQUEST: u8 = 8;
/// ICMPv4 echo reply.
pub const ECHO_REPLY: u8 = 0;
/// ICMPv6 echo request.
pub const V6_ECHO_REQUEST: u8 = 128;
/// ICMPv6 echo reply.
pub const V6_ECHO_REPLY: u8 = 129;

header! {
    /// Type, code and checksum, then the four bytes whose meaning the type gives; for echo identifier and sequence.
    pub struct IcmpHdr {
        /// Message type.
        pub kind: u8,
        /// Subtype.
        pub code: u8,
        /// Checksum: v4 over the message, v6 over pseudo header and message.
        pub checksum: U16,
        /// Identifier of an echo.
        pub id: U16,
        /// Sequence number of an echo.
        pub seq: U16,
    } size 8
}
