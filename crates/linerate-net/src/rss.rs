//! Receive-side scaling: the Toeplitz hash, plain and in its symmetric kinds, over the addresses and ports of a packet.
//!
//! The hash is the sum (XOR), over the set bits of the input, of the 32 key bits that start at the bit's position.
//! [`toeplitz`] says exactly that, bit by bit, and is the oracle. [`ToeplitzKey`] holds those sums ready for each value of
//! each half byte, so that a tuple costs two loads and two XORs a byte.

use crate::ipv4::{Ipv4Hdr, proto};
use crate::ipv6::Ipv6Hdr;
use crate::parse::{Layers, Network};
use crate::view::view;

/// Longest input that a [`ToeplitzKey`] hashes, in bytes: two IPv6 addresses and two ports.
pub const MAX_INPUT: usize = 36;

/// Microsoft's key, by which the published vectors are made; the default of most NIC drivers.
pub const DEFAULT_KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// A key whose 16-bit period makes the hash of both directions of a flow equal (Woo and Park, 2012).
pub const SYMMETRIC_KEY: [u8; 40] = {
    let mut key = [0x6d; 40];
    let mut at = 1;
    while at < 40 {
        key[at] = 0x5a;
        at += 2;
    }
    key
};

/// Up to 32 bits of `bytes`, most significant first, starting `bit_offset` bits in; bits past the end read as 0.
///
/// ```
/// use linerate_net::rss::take_bits;
/// assert_eq!(take_bits(&[0xab, 0xcd, 0xef, 0x12], 4, 12), 0xbcd);
/// ```
#[inline]
pub fn take_bits(bytes: &[u8], bit_offset: usize, bits: u32) -> u32 {
    let first = bit_offset / 8;
    // 32 bits at an odd position touch five bytes.
    let mut window = 0u64;
    for index in first..first.saturating_add(5) {
        window = window << 8 | u64::from(bytes.get(index).copied().unwrap_or(0));
    }
    let window = window << (24 + bit_offset % 8);
    window.checked_shr(64 - bits.min(32)).unwrap_or(0) as u32
}

/// The Toeplitz hash of `input` by its definition. A key that is too short is taken as followed by zeros. Slow; for tests
/// and tools.
pub fn toeplitz(key: &[u8], input: &[u8]) -> u32 {
    (0..input.len() * 8)
        .filter(|bit| input[bit / 8] & (0x80 >> (bit % 8)) != 0)
        .fold(0, |hash, bit| hash ^ take_bits(key, bit, 32))
}

/// A key made ready for quick hashing (4.5 KiB of table).
#[derive(Clone)]
pub struct ToeplitzKey {
    /// For each half byte of the input, for each of its values.
    table: Box<[[[u32; 16]; 2]; MAX_INPUT]>,
}

impl core::fmt::Debug for ToeplitzKey {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("ToeplitzKey").field("first_window", &self.table[0][0][8]).finish_non_exhaustive()
    }
}

impl ToeplitzKey {
    /// Makes the table of `key`. Inputs of n bytes use n + 4 bytes of it; what is missing counts as zeros.
    pub fn new(key: &[u8]) -> Self {
        let mut table = Box::new([[[0; 16]; 2]; MAX_INPUT]);
        for (byte, halves) in table.iter_mut().enumerate() {
            for (half, values) in halves.iter_mut().enumerate() {
                for (value, hash) in values.iter_mut().enumerate() {
                    *hash = (0..4)
                        .filter(|bit| value & (8 >> bit) != 0)
                        .fold(0, |hash, bit| hash ^ take_bits(key, byte * 8 + half * 4 + bit, 32));
                }
            }
        }
        ToeplitzKey { table }
    }

    /// The hash of `input`; bytes past [`MAX_INPUT`] are not looked at.
    #[inline]
    pub fn hash(&self, input: &[u8]) -> u32 {
        self.table.iter().zip(input).fold(0, |hash, (halves, byte)| {
            hash ^ halves[0][usize::from(byte >> 4)] ^ halves[1][usize::from(byte & 0xf)]
        })
    }
}

/// Which hash: DPDK's hash functions of these names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum HashKind {
    /// Toeplitz over the tuple as it is.
    #[default]
    Toeplitz,
    /// Source and destination XORed, the result in the place of both: both directions of a flow hash alike.
    SymmetricXor,
    /// The smaller of source and destination first, addresses and ports each for themselves.
    SymmetricSort,
}

bitflags::bitflags! {
    /// Which packets are hashed, and over what.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
    pub struct HashTypes: u32 {
        /// IPv4 addresses, of any IPv4 packet.
        const IPV4 = 1 << 0;
        /// IPv4 addresses and TCP ports.
        const IPV4_TCP = 1 << 1;
        /// IPv4 addresses and UDP ports.
        const IPV4_UDP = 1 << 2;
        /// IPv4 addresses and SCTP ports.
        const IPV4_SCTP = 1 << 3;
        /// IPv6 addresses, of any IPv6 packet.
        const IPV6 = 1 << 4;
        /// IPv6 addresses and TCP ports.
        const IPV6_TCP = 1 << 5;
        /// IPv6 addresses and UDP ports.
        const IPV6_UDP = 1 << 6;
        /// IPv6 addresses and SCTP ports.
        const IPV6_SCTP = 1 << 7;
        /// testpmd's `--rss-ip`.
        const IP = Self::IPV4.bits() | Self::IPV6.bits();
        /// TCP over both.
        const TCP = Self::IPV4_TCP.bits() | Self::IPV6_TCP.bits();
        /// UDP over both; testpmd's `--rss-udp` adds it.
        const UDP = Self::IPV4_UDP.bits() | Self::IPV6_UDP.bits();
        /// SCTP over both.
        const SCTP = Self::IPV4_SCTP.bits() | Self::IPV6_SCTP.bits();
    }
}

/// What is hashed of one packet: addresses and, for some, ports, in wire order. For symmetric kinds already arranged.
#[derive(Clone, Copy, Debug)]
pub struct Tuple {
    bytes: [u8; MAX_INPUT],
    len: u8,
}

impl Tuple {
    /// Addresses of `N` = 4 or 16 bytes each, and ports in host order. Longer addresses would not fit and give an empty
    /// tuple.
    #[inline]
    pub fn new<const N: usize>(
        src: [u8; N],
        dst: [u8; N],
        ports: Option<(u16, u16)>,
        kind: HashKind,
    ) -> Self {
        const { assert!(N * 2 + 4 <= MAX_INPUT) };
        let mut bytes = [0; MAX_INPUT];
        let (src, dst) = arrange(src, dst, kind);
        bytes[..N].copy_from_slice(&src);
        bytes[N..2 * N].copy_from_slice(&dst);
        let mut len = 2 * N;
        if let Some((src, dst)) = ports {
            let (src, dst) = arrange(src.to_be_bytes(), dst.to_be_bytes(), kind);
            bytes[len..len + 2].copy_from_slice(&src);
            bytes[len + 2..len + 4].copy_from_slice(&dst);
            len += 4;
        }
        Tuple { bytes, len: len as u8 }
    }

    /// The tuple of a parsed packet that `types` ask for; `None` when they ask for none. Fragments have no ports: all of
    /// a packet's fragments hash alike. SCTP's verification tag is no part of it, for it differs between the directions.
    #[inline]
    pub fn of(frame: &[u8], layers: &Layers, types: HashTypes, kind: HashKind) -> Option<Self> {
        let v4 = match layers.network {
            Network::V4 => true,
            Network::V6 => false,
            Network::Other => return None,
        };
        if !layers.has_ip() {
            return None;
        }
        let with_ports = match (layers.l4_proto, v4) {
            (proto::TCP, true) => HashTypes::IPV4_TCP,
            (proto::UDP, true) => HashTypes::IPV4_UDP,
            (proto::SCTP, true) => HashTypes::IPV4_SCTP,
            (proto::TCP, false) => HashTypes::IPV6_TCP,
            (proto::UDP, false) => HashTypes::IPV6_UDP,
            (proto::SCTP, false) => HashTypes::IPV6_SCTP,
            _ => HashTypes::empty(),
        };
        let ports = if layers.has_l4() && types.intersects(with_ports) {
            // The three protocols have their ports at the same place.
            let bytes = frame.get(layers.l4_off()..)?.first_chunk::<4>()?;
            Some((u16::from_be_bytes([bytes[0], bytes[1]]), u16::from_be_bytes([bytes[2], bytes[3]])))
        } else {
            None
        };
        let addresses = if v4 { HashTypes::IPV4 } else { HashTypes::IPV6 };
        if ports.is_none() && !types.intersects(addresses) {
            return None;
        }
        if v4 {
            let ip = view::<Ipv4Hdr>(frame, layers.l3_off())?;
            Some(Tuple::new(ip.src, ip.dst, ports, kind))
        } else {
            let ip = view::<Ipv6Hdr>(frame, layers.l3_off())?;
            Some(Tuple::new(ip.src, ip.dst, ports, kind))
        }
    }

    /// The bytes that are hashed.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len).min(MAX_INPUT)]
    }
}

/// Puts a pair into the order, or the mixture, of `kind`.
#[inline]
fn arrange<const N: usize>(src: [u8; N], dst: [u8; N], kind: HashKind) -> ([u8; N], [u8; N]) {
    match kind {
        HashKind::Toeplitz => (src, dst),
        HashKind::SymmetricXor => {
            let mut mixed = src;
            mixed.iter_mut().zip(dst).for_each(|(a, b)| *a ^= b);
            (mixed, mixed)
        }
        HashKind::SymmetricSort => (src.min(dst), src.max(dst)),
    }
}

#[cfg(test)]
mod tests;
