//! Capture files, read and written without knowledge of packet buffers or ports.
//!
//! Two formats, told apart by their first four bytes:
//!
//! * **classic pcap** (draft-ietf-opsawg-pcap), both byte orders, micro- and nanosecond magics;
//! * **pcapng** (draft-ietf-opsawg-pcapng), both byte orders, several sections and interfaces, enhanced,
//!   simple and obsolete packet blocks; every other block is skipped.
//!
//! A file is input from outside: every length in it is checked before it is believed, memory grows only as
//! bytes really arrive, and what is wrong is said with the byte offset, what was wanted and what was found.
//!
//! Files are read with `read(2)` into one buffer that fits the second-level cache and not through a memory
//! map: a map of a file that someone truncates ends in SIGBUS, costs a page fault for every few pages, and does
//! not work with pipes. [`CaptureReader`] hands out records that borrow from that buffer, so that the only
//! copy of the bytes is the one their user makes.

mod buffer;
mod classic;
mod error;
mod input;
mod ng;
mod reader;
mod stamp;
mod writer;

#[cfg(test)]
mod hostile_tests;
#[cfg(test)]
mod oracle_tests;
#[cfg(test)]
mod samples;

use std::path::Path;

pub use error::PcapError;
pub use input::CaptureInput;
pub(super) use input::is_ready;
pub use reader::CaptureReader;
pub use stamp::TimeBase;
pub use writer::{CaptureWriter, WriterOptions};

/// Most bytes of one packet that a capture may hold, as in libpcap (`MAXIMUM_SNAPLEN`).
pub const MAX_CAPTURED: u32 = 262_144;

/// Largest pcapng block that is held in memory, as in libpcap (`MAX_BLOCKSIZE`). Skipped blocks may be larger.
pub const MAX_BLOCK: u32 = 16 << 20;

/// Most interfaces in one pcapng section; a file that describes more was made to exhaust memory.
pub const MAX_INTERFACES: usize = 65_536;

/// `LINKTYPE_ETHERNET`: the only link type whose packets a port can carry.
pub const LINKTYPE_ETHERNET: u32 = 1;

pub(crate) const NANOS_PER_SECOND: u64 = 1_000_000_000;

/// Which of the two capture formats a file has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CaptureFormat {
    /// Classic pcap: a 24-byte header, then records.
    Classic,
    /// pcapng: blocks.
    Ng,
}

impl CaptureFormat {
    /// The format that a file of this name is written in: pcapng for `.pcapng` and `.ntar`, else classic pcap.
    pub fn of_name(path: &Path) -> Self {
        match path.extension().and_then(|e| e.to_str()) {
            Some("pcapng" | "ntar") => CaptureFormat::Ng,
            _ => CaptureFormat::Classic,
        }
    }
}

/// Unit of the sub-second part of a time stamp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// 10⁻⁶ s.
    Micro,
    /// 10⁻⁹ s.
    Nano,
}

impl Resolution {
    /// Nanoseconds in one unit.
    pub const fn nanos_per_unit(self) -> u32 {
        match self {
            Resolution::Micro => 1_000,
            Resolution::Nano => 1,
        }
    }

    /// Units in one second.
    pub const fn units_per_second(self) -> u32 {
        match self {
            Resolution::Micro => 1_000_000,
            Resolution::Nano => 1_000_000_000,
        }
    }
}

/// One packet of a capture, borrowed from the reader's buffer until the next call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The bytes that were captured; at most [`MAX_CAPTURED`] and possibly none.
    pub data: &'a [u8],
    /// Bytes the packet had on the wire. Never less than `data.len()`: a file that says less is corrected,
    /// since nothing here ever takes this length for a number of bytes that exist.
    pub wire_len: u32,
    /// Nanoseconds since 1970-01-01 UTC; `None` in a pcapng simple packet block, which has no time.
    pub timestamp_ns: Option<u64>,
    /// Index of the interface in its pcapng section; 0 in a classic file.
    pub interface: u32,
}

/// Where a packet lies in the bytes at hand: offsets are from the start of its record or block.
#[derive(Clone, Copy, Debug)]
struct Span {
    total: usize,
    data: usize,
    captured: usize,
    wire: u32,
    interface: u32,
    timestamp_ns: Option<u64>,
}

/// Byte order and the reading of integers in it; bytes that are not there read as 0, callers check lengths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Order {
    swapped: bool,
}

impl Order {
    #[inline(always)]
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let v = bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u16::from_le_bytes(*b));
        if self.swapped { v.swap_bytes() } else { v }
    }

    #[inline(always)]
    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let v = bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b));
        if self.swapped { v.swap_bytes() } else { v }
    }

    fn u64(self, bytes: &[u8], at: usize) -> u64 {
        let v = bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u64::from_le_bytes(*b));
        if self.swapped { v.swap_bytes() } else { v }
    }
}

/// What the bytes at hand hold.
#[derive(Debug)]
enum Decoded {
    /// A whole packet.
    Packet(Span),
    /// Not enough bytes: so many are needed from the start of the record, for what.
    More(usize, &'static str),
    /// A pcapng block that is no packet.
    Block,
    /// What is there cannot be believed.
    Bad(Fault),
}

/// Why a record cannot be believed: small and `Copy`, made into a [`PcapError`] out of line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    CapturedTooLong { captured: u32, limit: u32 },
    SubSecond { found: u32, limit: u32 },
    TimeRange { units: u64, interface: u32 },
    BlockLength { block: u32, found: u32, rule: &'static str },
    TrailingLength { block: u32, leading: u32, trailing: u32 },
    UnknownInterface { interface: u32, known: u32 },
    Options(OptionFault),
}

/// Why an option of a pcapng block cannot be believed; `at` counts from the start of the block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct OptionFault {
    at: usize,
    code: u16,
    length: u32,
    room: u32,
    rule: &'static str,
}
