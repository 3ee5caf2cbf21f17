//! TCP header (RFC 9293).

use zerocopy::network_endian::{U16, U32};

use crate::view::header;

header! {
    /// The 20 bytes that every TCP header has; options follow.
    pub struct TcpHdr {
        /// Source port.
        pub src_port: U16,
        /// Destination port.
        pub dst_port: U16,
        /// Sequence number.
        pub seq: U32,
        /// Acknowledgement number.
        pub ack: U32,
        /// Header length in 32-bit words (upper 4 bits), reserved.
        pub data_offset: u8,
        /// Flags, see [`flag`].
        pub flags: u8,
        /// Receive window.
        pub window: U16,
        /// Checksum over pseudo header, header and payload.
        pub checksum: U16,
        /// Urgent pointer.
        pub urgent: U16,
    } size 20
}

/// Bits of [`TcpHdr::flags`].
pub mod flag {
    /// No more data from the sender.
    pub const FIN: u8 = 0x01;
    /// Synchronise sequence numbers.
    pub const SYN: u8 = 0x02;
    /// Reset the connection.
    pub const RST: u8 = 0x04;
    /// Push.
    pub const PSH: u8 = 0x08;
    /// The acknowledgement number counts.
    pub const ACK: u8 = 0x10;
    /// The urgent pointer counts.
    pub const URG: u8 = 0x20;
    /// Congestion echo.
    pub const ECE: u8 = 0x40;
    /// Congestion window reduced.
    pub const CWR: u8 = 0x80;
}

impl TcpHdr {
    /// Header length in bytes as the header claims, 0..=60; below 20 it lies.
    #[inline]
    pub fn header_len(&self) -> usize {
        usize::from(self.data_offset >> 4) * 4
    }
}
