//! Reading a capture of either format, one packet at a time.

use std::io::Read;
use std::path::Path;
use std::time::Duration;

use super::buffer::InputBuffer;
use super::classic::{self, Classic};
use super::error::PcapError;
use super::input::{CaptureInput, HEADER_PATIENCE};
use super::ng::{self, Section, Step};
use super::{CaptureFormat, Decoded, Fault, Record, Resolution, Span};

/// A capture that is read once from its beginning to its end.
///
/// An error is met at the packet that is wrong, after all packets before it were delivered, and again by every
/// later call.
#[derive(Debug)]
pub struct CaptureReader<R> {
    input: InputBuffer<R>,
    format: Format,
    packets: u64,
    skipping: Option<Skip>,
}

#[derive(Debug)]
enum Format {
    Classic(Classic),
    Ng(Section),
}

/// A block that is being stepped over.
#[derive(Clone, Copy, Debug)]
struct Skip {
    block: u32,
    offset: u64,
    total: u32,
    /// Bytes still to step over, the last length among them.
    left: u64,
}

impl CaptureReader<CaptureInput> {
    /// Opens a file, or standard input for `-`, and reads its header (and of a pcapng file its first interface).
    ///
    /// A pipe is opened without waiting for a writer, and its header is waited for two seconds. Later
    /// [`next_record`](Self::next_record) never waits: when a pipe has no whole packet it fails with an error
    /// that [is to be tried again](PcapError::is_would_block), and nothing is lost.
    ///
    /// # Errors
    ///
    /// [`PcapError::Open`], [`PcapError::Silent`], and whatever [`CaptureReader::new`] finds.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, PcapError> {
        let path = path.as_ref();
        let mut input =
            CaptureInput::open(path).map_err(|source| PcapError::Open { path: path.to_owned(), source })?;
        input.wait(Some(HEADER_PATIENCE));
        let mut reader = Self::new(input).map_err(|e| match e {
            e if e.is_would_block() => PcapError::Silent { seconds: HEADER_PATIENCE.as_secs() },
            e => e,
        })?;
        reader.wait(None);
        Ok(reader)
    }

    /// Where the bytes come from.
    pub fn input(&self) -> &CaptureInput {
        self.input.source()
    }

    /// How long a pipe is waited for from now on; `None` for not at all.
    pub(in crate::pcap) fn wait(&mut self, patience: Option<Duration>) {
        self.input.source_mut().wait(patience);
    }
}

impl<R: Read> CaptureReader<R> {
    /// Takes a stream of bytes and reads the header of the capture in it.
    ///
    /// # Errors
    ///
    /// [`PcapError::NotACapture`], [`PcapError::Unsupported`] or [`PcapError::Version`] for what is not read,
    /// [`PcapError::LinkType`] for what is no Ethernet, and the errors of a damaged header.
    pub fn new(source: R) -> Result<Self, PcapError> {
        let mut input = InputBuffer::new(source);
        const WHAT: &str = "file header";
        let there = fill(&mut input, 4)?;
        let Some(magic) = input.available().first_chunk::<4>().copied() else {
            return Err(truncated(WHAT, 0, 0, 4, there));
        };
        if let Some(found) = classic::sniff(magic) {
            let (order, resolution) = found?;
            let there = fill(&mut input, classic::FILE_HEADER)?;
            if there < classic::FILE_HEADER {
                return Err(truncated(WHAT, 0, 0, classic::FILE_HEADER, there));
            }
            let format = Classic::parse(input.available(), order, resolution)?;
            input.take(classic::FILE_HEADER);
            return Ok(CaptureReader { input, format: Format::Classic(format), packets: 0, skipping: None });
        }
        if u32::from_le_bytes(magic) != ng::SECTION {
            return Err(refuse(magic));
        }
        let format = Format::Ng(Section::new());
        let mut reader = CaptureReader { input, format, packets: 0, skipping: None };
        reader.read_head()?;
        Ok(reader)
    }

    /// The next packet, or `None` after the last.
    ///
    /// # Errors
    ///
    /// Whatever makes the packet, or a block before it, unbelievable or incomplete; see [`PcapError`].
    #[inline]
    pub fn next_record(&mut self) -> Result<Option<Record<'_>>, PcapError> {
        let bytes = self.input.available();
        let decoded = match &self.format {
            Format::Classic(classic) => classic.decode(bytes),
            // A block that is being skipped begins with bytes of no meaning.
            Format::Ng(_) if self.skipping.is_some() => Decoded::Block,
            Format::Ng(section) => section.decode(bytes),
        };
        let span = match decoded {
            Decoded::Packet(span) => span,
            other => match self.advance(other)? {
                Some(span) => span,
                None => return Ok(None),
            },
        };
        self.packets += 1;
        let whole = self.input.take(span.total);
        Ok(Some(Record {
            data: whole.get(span.data..).and_then(|d| d.get(..span.captured)).unwrap_or(&[]),
            wire_len: span.wire,
            timestamp_ns: span.timestamp_ns,
            interface: span.interface,
        }))
    }

    /// Packets delivered so far.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Bytes of the file that were used so far.
    pub fn offset(&self) -> u64 {
        self.input.offset()
    }

    /// Which format the file has.
    pub fn format(&self) -> CaptureFormat {
        match self.format {
            Format::Classic(_) => CaptureFormat::Classic,
            Format::Ng(_) => CaptureFormat::Ng,
        }
    }

    /// Unit of the times of a classic file; `None` for pcapng, where each interface has its own.
    pub fn resolution(&self) -> Option<Resolution> {
        match &self.format {
            Format::Classic(classic) => Some(classic.resolution()),
            Format::Ng(_) => None,
        }
    }

    /// Gets more bytes, takes in other blocks, until there is a packet.
    #[cold]
    #[inline(never)]
    fn advance(&mut self, mut decoded: Decoded) -> Result<Option<Span>, PcapError> {
        loop {
            match decoded {
                Decoded::Packet(span) => return Ok(Some(span)),
                Decoded::Bad(fault) => return Err(self.fault(fault)),
                Decoded::More(wanted, what) => {
                    if !self.want(wanted, what)? {
                        return Ok(None);
                    }
                }
                Decoded::Block => self.take_block()?,
            }
            decoded = match &self.format {
                Format::Classic(classic) => classic.decode(self.input.available()),
                Format::Ng(section) => section.decode(self.input.available()),
            };
        }
    }

    /// Has `wanted` bytes at hand; `false` at a clean end of the file.
    fn want(&mut self, wanted: usize, what: &'static str) -> Result<bool, PcapError> {
        let there = fill(&mut self.input, wanted)?;
        if there >= wanted {
            return Ok(true);
        }
        if there == 0 {
            return Ok(false);
        }
        Err(truncated(what, self.input.offset(), self.packets, wanted, there))
    }

    /// The section header and whatever stands before the first interface or packet, so that a file that cannot
    /// be replayed is refused when it is opened.
    fn read_head(&mut self) -> Result<(), PcapError> {
        self.take_block()?;
        loop {
            let Format::Ng(section) = &self.format else { return Ok(()) };
            if section.interfaces() > 0 {
                return Ok(());
            }
            match section.decode(self.input.available()) {
                Decoded::Block => self.take_block()?,
                Decoded::More(wanted, what) => {
                    if !self.want(wanted, what)? {
                        return Ok(());
                    }
                }
                // A packet without an interface: the first `next_record` says so.
                Decoded::Packet(_) | Decoded::Bad(_) => return Ok(()),
            }
        }
    }

    /// Takes in or steps over the pcapng block at hand, or finishes stepping over one.
    fn take_block(&mut self) -> Result<(), PcapError> {
        while self.skipping.is_none() {
            let Format::Ng(section) = &mut self.format else { return Ok(()) };
            let (bytes, offset) = (self.input.available(), self.input.offset());
            match section.take_block(bytes, offset)? {
                Step::More(wanted, what) => {
                    let there = fill(&mut self.input, wanted)?;
                    if there < wanted {
                        return Err(truncated(what, offset, self.packets, wanted, there));
                    }
                }
                Step::Done(total) => {
                    self.input.take(total);
                    return Ok(());
                }
                Step::Skip(total) => {
                    let block = section.order().u32(bytes, 0);
                    self.skipping = Some(Skip { block, offset, total, left: u64::from(total) });
                }
            }
        }
        self.skip()
    }

    /// Steps over the block in `skipping` without holding more of it than the buffer has room for.
    fn skip(&mut self) -> Result<(), PcapError> {
        while let Some(skip) = &mut self.skipping {
            let there = self.input.available().len();
            let body = skip.left - 4;
            if body > 0 && there > 0 {
                let step = there.min(usize::try_from(body).unwrap_or(usize::MAX));
                self.input.take(step);
                skip.left -= step as u64;
            } else if body == 0 && there >= 4 {
                let Format::Ng(section) = &self.format else { return Ok(()) };
                let trailing = section.order().u32(self.input.available(), 0);
                let Skip { block, offset, total: leading, .. } = *skip;
                if trailing != leading {
                    return Err(PcapError::TrailingLength { block, offset, leading, trailing });
                }
                self.input.take(4);
                self.skipping = None;
            } else {
                let (wanted, skip) = (if body == 0 { 4 } else { 1 }, *skip);
                let there = fill(&mut self.input, wanted)?;
                if there < wanted {
                    let found = u64::from(skip.total) - skip.left + there as u64;
                    return Err(PcapError::Truncated {
                        what: "block",
                        offset: skip.offset,
                        packets: self.packets,
                        wanted: u64::from(skip.total),
                        found,
                    });
                }
            }
        }
        Ok(())
    }

    #[cold]
    fn fault(&self, fault: Fault) -> PcapError {
        let (packet, offset) = (self.packets + 1, self.input.offset());
        match fault {
            Fault::CapturedTooLong { captured, limit } => {
                PcapError::CapturedTooLong { packet, offset, captured, limit }
            }
            Fault::SubSecond { found, limit } => PcapError::SubSecond { packet, offset, found, limit },
            Fault::TimeRange { units, interface } => {
                PcapError::TimeRange { packet, offset, units, interface }
            }
            Fault::BlockLength { block, found, rule } => {
                PcapError::BlockLength { block, offset, found, rule }
            }
            Fault::TrailingLength { block, leading, trailing } => {
                PcapError::TrailingLength { block, offset, leading, trailing }
            }
            Fault::UnknownInterface { interface, known } => {
                PcapError::UnknownInterface { packet, offset, interface, known }
            }
            Fault::Options(fault) => ng::option_error(fault, offset),
        }
    }
}

fn fill<R: Read>(input: &mut InputBuffer<R>, wanted: usize) -> Result<usize, PcapError> {
    input
        .fill(wanted)
        .map_err(|source| PcapError::Read { offset: input.offset() + input.available().len() as u64, source })
}

#[cold]
fn truncated(what: &'static str, offset: u64, packets: u64, wanted: usize, found: usize) -> PcapError {
    PcapError::Truncated { what, offset, packets, wanted: wanted as u64, found: found as u64 }
}

/// Names what the first bytes belong to, when that is known.
fn refuse(magic: [u8; 4]) -> PcapError {
    let known: [(&[u8], &str, &str); 5] = [
        (&[0x1f, 0x8b], "a gzip-compressed file", "unpack it with `gunzip FILE`"),
        (&[0x28, 0xb5, 0x2f, 0xfd], "a zstd-compressed file", "unpack it with `zstd -d FILE`"),
        (&[0xfd, b'7', b'z', b'X'], "an xz-compressed file", "unpack it with `unxz FILE`"),
        (b"BZh", "a bzip2-compressed file", "unpack it with `bunzip2 FILE`"),
        (b"snoo", "snoop", "convert it with `editcap -F nsecpcap FILE NEW`"),
    ];
    for (start, name, mend) in known {
        if magic.starts_with(start) {
            return PcapError::Unsupported { name, mend };
        }
    }
    PcapError::NotACapture { found: magic }
}

#[cfg(test)]
mod tests {
    use super::super::samples;
    use super::*;

    #[test]
    fn reads_every_kind_of_file() {
        for sample in samples::all() {
            let mut reader = CaptureReader::new(&sample.bytes[..]).unwrap();
            for (n, wanted) in sample.packets.iter().enumerate() {
                let got = reader.next_record().unwrap().unwrap();
                assert_eq!(got.data, wanted.data, "{} packet {n}", sample.name);
                assert_eq!(got.wire_len, wanted.wire_len, "{} packet {n}", sample.name);
                assert_eq!(got.timestamp_ns, wanted.timestamp_ns, "{} packet {n}", sample.name);
                assert_eq!(got.interface, wanted.interface, "{} packet {n}", sample.name);
            }
            assert_eq!(reader.next_record().unwrap(), None, "{}", sample.name);
            assert_eq!(reader.next_record().unwrap(), None, "{}", sample.name);
            assert_eq!(reader.offset(), sample.bytes.len() as u64);
            assert_eq!(reader.packets(), sample.packets.len() as u64);
        }
    }

    /// Bug case 16: a record of 60 captured bytes of a packet of 1514 is 60 bytes.
    #[test]
    fn captured_length_is_what_counts() {
        let mut file = classic::file_header(Resolution::Micro, 60).to_vec();
        file.extend(classic::record_header(1_000_000_000, Resolution::Micro, 60, 1514).unwrap());
        file.extend([0x5a; 60]);
        let mut reader = CaptureReader::new(&file[..]).unwrap();
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!((record.data.len(), record.wire_len), (60, 1514));
        assert_eq!(reader.next_record().unwrap(), None);
    }

    #[test]
    fn what_is_not_read_is_named() {
        let modified = [0x34, 0xcd, 0xb2, 0xa1];
        for (bytes, name) in [
            (&modified[..], "Kuznetzov"),
            (&[0xa1, 0xb2, 0xcd, 0x34], "Kuznetzov"),
            (b"\x1f\x8b\x08\x00", "gzip"),
            (b"snoop\0\0\0", "snoop"),
        ] {
            let e = CaptureReader::new(bytes).unwrap_err();
            assert!(matches!(e, PcapError::Unsupported { .. }) && e.to_string().contains(name), "{e}");
            assert!(e.hint().contains('`'));
        }
        let e = CaptureReader::new(&b"#!/bin/sh"[..]).unwrap_err();
        assert!(matches!(e, PcapError::NotACapture { found: [b'#', b'!', b'/', b'b'] }), "{e}");
        let e = CaptureReader::new(&b""[..]).unwrap_err();
        assert!(matches!(e, PcapError::Truncated { wanted: 4, found: 0, .. }), "{e}");
    }

    #[test]
    fn a_missing_file_is_named() {
        let e = CaptureReader::open("no/such/file.pcap").unwrap_err();
        assert!(e.to_string().contains("no/such/file.pcap"), "{e}");
        assert!(e.hint().contains("existing"));
        // A directory opens and cannot be read.
        let e = CaptureReader::open(env!("CARGO_MANIFEST_DIR")).unwrap_err();
        assert!(matches!(e, PcapError::Read { offset: 0, .. }), "{e}");
    }

    #[test]
    fn an_unknown_block_larger_than_the_buffer_is_skipped() {
        let mut file = ng::file_header(Resolution::Nano, 65535);
        let total = (3 << 20) + 12u32;
        file.extend(0x0bad_u32.to_le_bytes());
        file.extend(total.to_le_bytes());
        file.resize(file.len() + total as usize - 12, 0xee);
        file.extend(total.to_le_bytes());
        file.extend(ng::packet_header(5, Resolution::Nano, 0, 60).0);
        file.extend(32u32.to_le_bytes());
        let mut reader = CaptureReader::new(&file[..]).unwrap();
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!((record.data.len(), record.wire_len, record.timestamp_ns), (0, 60, Some(5)));
        assert_eq!(reader.next_record().unwrap(), None);
    }
}
