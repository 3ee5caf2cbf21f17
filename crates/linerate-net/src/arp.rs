//! ARP for IPv4 over Ethernet (RFC 826).

use zerocopy::network_endian::U16;

use crate::ether::{MacAddr, ether_type};
use crate::view::header;

/// Operation of a request.
pub const REQUEST: u16 = 1;
/// Operation of a reply.
pub const REPLY: u16 = 2;

header! {
    /// ARP packet whose hardware is Ethernet and whose protocol is IPv4.
    pub struct ArpHdr {
        /// Hardware type, 1 for Ethernet.
        pub hardware: U16,
        /// EtherType of the protocol.
        pub protocol: U16,
        /// Length of a hardware address, 6.
        pub hardware_len: u8,
        /// Length of a protocol address, 4.
        pub protocol_len: u8,
        /// [`REQUEST`] or [`REPLY`].
        pub operation: U16,
        /// Sender's Ethernet address.
        pub sender_mac: MacAddr,
        /// Sender's IPv4 address.
        pub sender_ip: [u8; 4],
        /// Target's Ethernet address.
        pub target_mac: MacAddr,
        /// Target's IPv4 address.
        pub target_ip: [u8; 4],
    } size 28
}

impl ArpHdr {
    /// Do the type and length fields say Ethernet and IPv4? The other fields mean something only then.
    #[inline]
    pub fn is_ethernet_ipv4(&self) -> bool {
        self.hardware.get() == 1
            && self.protocol.get() == ether_type::IPV4
            && self.hardware_len == 6
            && self.protocol_len == 4
    }
}
