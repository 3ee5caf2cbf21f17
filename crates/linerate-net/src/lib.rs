//! Packet knowledge for the hot path: header views, checksums, one bounded parser, in-place rewrites and RSS hashing.
//!
//! Everything works on byte slices and knows nothing of ports or packet buffers. Nothing here allocates, and nothing reads
//! or writes outside the slice that it was given; a packet whose lengths lie is a value ([`parse::Fault`],
//! [`checksum::Verdict::Invalid`]), never a panic.
//!
//! | module | holds |
//! |---|---|
//! | [`ether`], [`vlan`], [`arp`], [`ipv4`], [`ipv6`], [`udp`], [`tcp`], [`icmp`], [`sctp`], [`tunnel`] | header layouts as `zerocopy` views, see [`view`](mod@view) |
//! | [`checksum`], [`crc32c`] | Internet checksum with pseudo headers, incremental update and sums over segments; SCTP's CRC |
//! | [`parse`](mod@parse), [`ptype`] | header offsets and lengths, tunnels, DPDK's packet types |
//! | [`swap`] | the rewrites of the modes mac, macswap and 5tswap |
//! | [`csum_engine`], [`csum_verify`] | recomputing the checksums of a packet in place, and checking those of a received one |
//! | [`rss`] | Toeplitz hashing, plain and symmetric |
//! | [`builder`] | UDP frames made from scratch |
//!
//! Fast forms have a plain one beside them that serves as their oracle in the tests. `cargo run --release -p linerate-net
//! --example net_probe` prints what each costs on the machine at hand.

#![deny(unsafe_code)]
// The derives of zerocopy make hidden helper types without Debug; every type written here has it.
#![allow(missing_debug_implementations)]

pub mod arp;
pub mod builder;
pub mod checksum;
pub mod crc32c;
pub mod csum_engine;
pub mod csum_verify;
pub mod ether;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
pub mod parse;
mod plain;
pub mod ptype;
pub mod rss;
pub mod sctp;
mod segments;
mod simd;
pub mod swap;
pub mod tcp;
#[cfg(test)]
mod test_frames;
pub mod tunnel;
pub mod udp;
pub mod view;
pub mod vlan;

pub use ether::MacAddr;
pub use parse::{ParseOptions, Parsed, parse};
pub use ptype::PacketType;
