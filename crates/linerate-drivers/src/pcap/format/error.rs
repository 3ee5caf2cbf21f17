//! What can go wrong with a capture file, and what mends it.

use std::io;
use std::path::PathBuf;

use super::{MAX_BLOCK, MAX_CAPTURED, MAX_INTERFACES};

/// An error of the capture reader or writer. Offsets are in bytes from the start of the file, packets count from 1.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PcapError {
    /// The file could not be opened for reading.
    #[error("cannot open capture {}: {source}", path.display())]
    Open {
        /// The file as it was named.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The file could not be created.
    #[error("cannot create capture {}: {source}", path.display())]
    Create {
        /// The file as it was named.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A pipe brought no capture header.
    #[error("nobody writes to the pipe: no whole capture header came within {seconds} s")]
    Silent {
        /// How long it was waited for.
        seconds: u64,
    },
    /// Reading failed.
    #[error("reading the capture failed at byte {offset}: {source}")]
    Read {
        /// Where the next byte would have come from.
        offset: u64,
        /// What the system said.
        source: io::Error,
    },
    /// Writing failed. What was not written is still buffered and is tried again by the next call.
    #[error(
        "writing the capture failed after {written} bytes, {unwritten} packets not wholly written: {source}"
    )]
    Write {
        /// Bytes that reached the file.
        written: u64,
        /// Packets accepted earlier that are not wholly in the file; the refused one is not among them.
        unwritten: u64,
        /// What the system said.
        source: io::Error,
    },
    /// The file ends in the middle of something. All earlier packets were delivered.
    #[error(
        "capture is cut short after {packets} whole packets: {what} at byte {offset} needs {wanted} bytes, {found} are there"
    )]
    Truncated {
        /// The part that is incomplete.
        what: &'static str,
        /// Where that part's record or block begins.
        offset: u64,
        /// Whole packets before it.
        packets: u64,
        /// Bytes needed from that offset.
        wanted: u64,
        /// Bytes that are there.
        found: u64,
    },
    /// The first bytes belong to no capture format.
    #[error(
        "not a capture: it begins with {:02x} {:02x} {:02x} {:02x}, wanted a pcap or pcapng magic number",
        found[0], found[1], found[2], found[3]
    )]
    NotACapture {
        /// The first four bytes.
        found: [u8; 4],
    },
    /// A format that is known and not read.
    #[error("{name} is not read, only classic pcap and pcapng are")]
    Unsupported {
        /// Its name.
        name: &'static str,
        /// The command that converts it.
        mend: &'static str,
    },
    /// A version of the format that is not read.
    #[error("version {major}.{minor} at byte {offset} is not read, wanted {wanted}")]
    Version {
        /// Where the version stands.
        offset: u64,
        /// Found major version.
        major: u16,
        /// Found minor version.
        minor: u16,
        /// What is read.
        wanted: &'static str,
    },
    /// Packets of this interface are not Ethernet frames.
    #[error("link type {found} of interface {interface} at byte {offset} is not Ethernet (1)")]
    LinkType {
        /// Where the link type stands.
        offset: u64,
        /// Index of the interface in its section.
        interface: u32,
        /// Found link type.
        found: u32,
    },
    /// A packet claims more captured bytes than there can be.
    #[error("packet {packet} at byte {offset} claims {captured} captured bytes, the limit is {limit}")]
    CapturedTooLong {
        /// Number of the packet.
        packet: u64,
        /// Where its record begins.
        offset: u64,
        /// The claim.
        captured: u32,
        /// [`MAX_CAPTURED`], or what its block has room for when that is less.
        limit: u32,
    },
    /// The sub-second part of a time is a second or more.
    #[error("packet {packet} at byte {offset} has a sub-second time of {found}, it must be below {limit}")]
    SubSecond {
        /// Number of the packet.
        packet: u64,
        /// Where its record begins.
        offset: u64,
        /// The value.
        found: u32,
        /// Units in a second.
        limit: u32,
    },
    /// A time that lies outside the years 1970 to 2554.
    #[error(
        "packet {packet} at byte {offset} has a time of {units} units of interface {interface}, outside 1970 to 2554"
    )]
    TimeRange {
        /// Number of the packet.
        packet: u64,
        /// Where its block begins.
        offset: u64,
        /// The value in units of the interface's `if_tsresol`.
        units: u64,
        /// Index of the interface in its section.
        interface: u32,
    },
    /// A time that the chosen file format cannot hold; the packet was not written.
    #[error("a time of {timestamp_ns} ns since 1970 does not fit a classic capture, which ends in 2106")]
    TimeTooLate {
        /// The time that was to be written.
        timestamp_ns: u64,
    },
    /// A block length that cannot be.
    #[error("block of type {block:#010x} at byte {offset} has a length of {found}: {rule}")]
    BlockLength {
        /// Type of the block.
        block: u32,
        /// Where it begins.
        offset: u64,
        /// The length.
        found: u32,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// The two lengths of a block differ.
    #[error(
        "block of type {block:#010x} at byte {offset} begins with length {leading} and ends with {trailing}"
    )]
    TrailingLength {
        /// Type of the block.
        block: u32,
        /// Where it begins.
        offset: u64,
        /// Length at its start.
        leading: u32,
        /// Length at its end.
        trailing: u32,
    },
    /// A section header without a byte-order magic.
    #[error("section at byte {offset} has byte-order magic {found:#010x}, wanted 0x1a2b3c4d or 0x4d3c2b1a")]
    ByteOrder {
        /// Where the section begins.
        offset: u64,
        /// Found magic, read as little-endian.
        found: u32,
    },
    /// An option of a block that cannot be believed.
    #[error("option {code} at byte {offset} has a length of {length}, {room} bytes are left: {rule}")]
    OptionLength {
        /// Where the option begins.
        offset: u64,
        /// Its code.
        code: u16,
        /// The claimed length of its value.
        length: u32,
        /// Bytes left for the value in its block.
        room: u32,
        /// The rule it breaks.
        rule: &'static str,
    },
    /// A packet of an interface that was not described before it.
    #[error("packet {packet} at byte {offset} names interface {interface}, {known} are described before it")]
    UnknownInterface {
        /// Number of the packet.
        packet: u64,
        /// Where its block begins.
        offset: u64,
        /// The index it names.
        interface: u32,
        /// Interfaces described so far in the section.
        known: u32,
    },
    /// More interfaces in a section than any capture has.
    #[error("section describes more than {MAX_INTERFACES} interfaces at byte {offset}")]
    TooManyInterfaces {
        /// Where the surplus description begins.
        offset: u64,
    },
    /// A snap length that cannot be used.
    #[error("snap length {found} is not in 1..={MAX_CAPTURED}")]
    SnapLen {
        /// The value.
        found: u32,
    },
}

impl PcapError {
    /// Whether a pipe had nothing to read: the call can be repeated later, and nothing is lost.
    pub fn is_would_block(&self) -> bool {
        matches!(self, PcapError::Read { source, .. } if source.kind() == io::ErrorKind::WouldBlock)
    }

    /// The command or option that mends it.
    pub fn hint(&self) -> &'static str {
        match self {
            PcapError::Open { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                "name an existing file; relative names are taken from the working directory"
            }
            PcapError::Open { .. } => "see its rights with `ls -l FILE`",
            PcapError::Create { source, .. } if source.raw_os_error() == Some(libc::ENXIO) => {
                "nobody reads the pipe: start its reader first, such as `tcpdump -r PIPE`, or write to a file"
            }
            PcapError::Silent { .. } => {
                "start what writes to the pipe, such as `tcpdump -U -w PIPE`, or name a file"
            }
            PcapError::Create { .. } => {
                "the directory must exist and be writable: `mkdir -p DIR`, `ls -ld DIR`"
            }
            PcapError::Read { .. } => {
                "see that it is a regular file or a pipe, and `dmesg` for a failing disk"
            }
            PcapError::Write { source, .. } => write_hint(source),
            PcapError::Truncated { .. } => {
                "keep the whole packets with `editcap FILE GOOD`; was the capturing program killed?"
            }
            PcapError::NotACapture { .. } => {
                "see what it is with `file FILE`; `capinfos FILE` knows captures"
            }
            PcapError::Unsupported { mend, .. } => mend,
            PcapError::Version { .. } => "convert it with `editcap -F nsecpcap FILE NEW`",
            PcapError::LinkType { .. } => {
                "see the interfaces with `capinfos FILE`; only Ethernet captures can be replayed"
            }
            PcapError::CapturedTooLong { limit, .. } if *limit < MAX_CAPTURED => {
                "the packet does not fit its block, the file is damaged here; keep what comes before with `editcap -r FILE NEW 1-PACKETS`"
            }
            PcapError::CapturedTooLong { .. } => "the file is damaged here; capture it again",
            PcapError::SubSecond { .. } => {
                "the file was written with a wrong time scale; is its magic number (micro- or nanoseconds) right?"
            }
            PcapError::TimeRange { .. } => {
                "the interface's if_tsresol or if_tsoffset is wrong, or the file is damaged"
            }
            PcapError::TimeTooLate { .. } => "set the clock, or write pcapng: name the file *.pcapng",
            PcapError::BlockLength { found, .. } if *found > MAX_BLOCK => {
                "no block of this kind is so long; the file is damaged"
            }
            PcapError::BlockLength { .. }
            | PcapError::TrailingLength { .. }
            | PcapError::ByteOrder { .. }
            | PcapError::OptionLength { .. }
            | PcapError::UnknownInterface { .. } => {
                "the file is damaged here; keep what comes before with `editcap -r FILE NEW 1-PACKETS`"
            }
            PcapError::TooManyInterfaces { .. } => "the file was made to exhaust memory; do not replay it",
            PcapError::SnapLen { .. } => "leave snaplen out to keep whole packets",
        }
    }
}

/// What mends a failure to write, by its cause.
fn write_hint(source: &io::Error) -> &'static str {
    match source.kind() {
        io::ErrorKind::BrokenPipe => {
            "the reader of the pipe ended; start it again and restart the port, or write to a file"
        }
        io::ErrorKind::TimedOut => {
            "the pipe is full and its reader takes nothing; see whether it is stopped, or write to a file"
        }
        io::ErrorKind::FileTooLarge => {
            "the file may not grow further: raise the limit with `ulimit -f unlimited`, or cut packets with tx_snaplen"
        }
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            "see the space left with `df -h` and `quota`, or write to another file"
        }
        _ => "see `dmesg` for a failing disk, or write to another file",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_small_enough_to_be_returned_by_value() {
        assert!(size_of::<PcapError>() <= 56, "{}", size_of::<PcapError>());
    }

    #[test]
    fn messages_carry_the_facts() {
        let e = PcapError::Truncated { what: "packet data", offset: 40, packets: 3, wanted: 80, found: 70 };
        assert_eq!(
            e.to_string(),
            "capture is cut short after 3 whole packets: packet data at byte 40 needs 80 bytes, 70 are there"
        );
        assert!(e.hint().contains("editcap"));
        let e = PcapError::NotACapture { found: [1, 2, 0xab, 4] };
        assert!(e.to_string().contains("01 02 ab 04"));
    }
}
