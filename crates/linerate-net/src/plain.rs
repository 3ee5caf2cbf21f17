//! The packets that nearly all packets are: IPv4 without options, not a fragment, with UDP or TCP and lengths in order.
//!
//! One test decides it, for the parser, the checksum engine and the checksum check alike. It never errs on the side of
//! taking a packet: what it does not take is left to the complete walk, which alone says what is wrong.

use crate::ipv4::{Ipv4Hdr, proto};

/// IPv4 and UDP header: what the test wants to see of a packet.
pub(crate) const PLAIN_LEN: usize = 28;

/// A plain packet's lengths in bytes.
#[derive(Clone, Copy)]
pub(crate) struct Plain {
    /// IPv4 total length.
    pub total_len: usize,
    /// Transport header and payload, by UDP's own length for UDP: what its checksum covers.
    pub l4_total: usize,
    /// Transport header.
    pub l4_len: usize,
    /// UDP, otherwise TCP.
    pub udp: bool,
}

/// EtherType IPv4, version 4 and a header of 20 bytes: three bytes of which the first is at offset 12 of an untagged frame.
#[inline]
pub(crate) fn starts_plain(bytes: [u8; 4]) -> bool {
    u32::from_le_bytes(bytes) & 0x00ff_ffff == u32::from_le_bytes([0x08, 0x00, Ipv4Hdr::PLAIN, 0])
}

/// Eight bytes as a little-endian number; 0 past the end, which callers with constant offsets never see.
#[inline(always)]
pub(crate) fn le_64(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |eight| u64::from_le_bytes(*eight))
}

/// Four bytes as a little-endian number, likewise.
#[inline(always)]
pub(crate) fn le_32(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |four| u32::from_le_bytes(*four))
}

/// Two bytes as a big-endian number, likewise.
#[inline(always)]
pub(crate) fn be_16(bytes: &[u8], at: usize) -> u16 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |two| u16::from_be_bytes(*two))
}

/// Stores two bytes, the least significant first; nothing past the end.
#[inline(always)]
pub(crate) fn put_le_16(bytes: &mut [u8], at: usize, value: u16) {
    if let Some(two) = bytes.get_mut(at..).and_then(<[u8]>::first_chunk_mut) {
        *two = value.to_le_bytes();
    }
}

/// Tests the packet whose IPv4 header, of which the first byte is known to be [`Ipv4Hdr::PLAIN`], is at the front of `l3`.
/// The IPv4 header has `room` bytes in the packet, of which `l3` may be the first only.
#[inline(always)]
pub(crate) fn plain(l3: &[u8], room: usize) -> Option<Plain> {
    let head = l3.first_chunk::<PLAIN_LEN>()?;
    let word = |at: usize| usize::from(u16::from_be_bytes([head[at], head[at + 1]]));
    let total_len = word(2);
    let fragment = u16::from_le_bytes([head[6], head[7]]) & u16::from_le_bytes([0x3f, 0xff]);
    if fragment != 0 || total_len > room {
        return None;
    }
    if head[9] == proto::UDP {
        let l4_total = word(24);
        if l4_total < 8 || 20 + l4_total > total_len {
            return None;
        }
        return Some(Plain { total_len, l4_total, l4_len: 8, udp: true });
    }
    if head[9] != proto::TCP {
        return None;
    }
    let l4_len = usize::from(l3.first_chunk::<40>()?[32] >> 4) * 4;
    if l4_len < 20 || 20 + l4_len > total_len.min(l3.len()) {
        return None;
    }
    Some(Plain { total_len, l4_total: total_len - 20, l4_len, udp: false })
}
