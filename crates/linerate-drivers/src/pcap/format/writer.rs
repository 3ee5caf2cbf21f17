//! Writing a capture of either format.

use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd;
use std::path::Path;

use super::error::PcapError;
use super::{CaptureFormat, MAX_CAPTURED, Order, Resolution, classic, ng};

/// Bytes given to the system at a time: whole pages, so that the page cache is never written twice at a seam.
const WRITE_BYTES: usize = 256 << 10;

/// Room for one more packet of any size beyond a full piece.
const CAPACITY: usize = WRITE_BYTES + MAX_CAPTURED as usize + 64;

/// How a capture is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WriterOptions {
    /// Format of the file; `None` takes pcapng for a name that ends in `.pcapng` or `.ntar`, else classic pcap.
    pub format: Option<CaptureFormat>,
    /// Unit of the times, nanoseconds unless said otherwise.
    pub resolution: Resolution,
    /// Most bytes kept of a packet, in 1..=[`MAX_CAPTURED`].
    pub snaplen: u32,
}

impl Default for WriterOptions {
    fn default() -> Self {
        WriterOptions { format: None, resolution: Resolution::Nano, snaplen: MAX_CAPTURED }
    }
}

/// A capture that is written from its beginning to its end.
///
/// Records are gathered in a buffer and written with one call for each 256 KiB. When writing fails, the
/// record that did not fit is refused with the error and is not in the file; what was accepted before stays
/// buffered, and the next call tries again, so that a disk that gets room again loses only what was refused.
/// End with [`finish`](Self::finish): dropping writes the rest too, but can tell of a failure only on standard
/// error.
#[derive(Debug)]
pub struct CaptureWriter<W: Write> {
    /// `None` once finished.
    sink: Option<W>,
    format: CaptureFormat,
    resolution: Resolution,
    snaplen: usize,
    buffer: Vec<u8>,
    /// Bytes at the start of the buffer that end something whose start is in the file already.
    partial: usize,
    records: u64,
    refused: u64,
    written: u64,
}

impl CaptureWriter<File> {
    /// Creates a file, or takes standard output for `-`, and writes the header into the buffer. A file that
    /// exists is emptied.
    ///
    /// # Errors
    ///
    /// [`PcapError::Create`], [`PcapError::SnapLen`].
    pub fn create(path: impl AsRef<Path>, options: &WriterOptions) -> Result<Self, PcapError> {
        let path = path.as_ref();
        check(options)?;
        let file = if path == Path::new("-") {
            io::stdout().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::create(path)
        };
        match file {
            Ok(file) => Self::new(
                file,
                &WriterOptions { format: options.format.or(Some(CaptureFormat::of_name(path))), ..*options },
            ),
            Err(source) => Err(PcapError::Create { path: path.to_owned(), source }),
        }
    }
}

fn check(options: &WriterOptions) -> Result<(), PcapError> {
    if (1..=MAX_CAPTURED).contains(&options.snaplen) {
        Ok(())
    } else {
        Err(PcapError::SnapLen { found: options.snaplen })
    }
}

impl<W: Write> CaptureWriter<W> {
    /// Takes a sink of bytes; no format means classic pcap.
    ///
    /// # Errors
    ///
    /// [`PcapError::SnapLen`].
    pub fn new(sink: W, options: &WriterOptions) -> Result<Self, PcapError> {
        check(options)?;
        let format = options.format.unwrap_or(CaptureFormat::Classic);
        let mut buffer = Vec::with_capacity(CAPACITY);
        match format {
            CaptureFormat::Classic => {
                buffer.extend_from_slice(&classic::file_header(options.resolution, options.snaplen));
            }
            CaptureFormat::Ng => {
                buffer.extend_from_slice(&ng::file_header(options.resolution, options.snaplen))
            }
        }
        Ok(CaptureWriter {
            sink: Some(sink),
            format,
            resolution: options.resolution,
            snaplen: options.snaplen as usize,
            partial: buffer.len(),
            buffer,
            records: 0,
            refused: 0,
            written: 0,
        })
    }

    /// Adds a packet that lies in one or more segments.
    ///
    /// * `timestamp_ns`: nanoseconds since 1970.
    /// * `wire_len`: bytes the packet has on the wire; raised to the sum of the segments when it is less.
    ///
    /// Bytes beyond the snap length are left out.
    ///
    /// # Errors
    ///
    /// [`PcapError::Write`] when the buffer is full and cannot be written, [`PcapError::TimeTooLate`]. The
    /// packet is then not in the file and counted by [`refused`](Self::refused).
    #[inline]
    pub fn write_record<'a>(
        &mut self,
        timestamp_ns: u64,
        wire_len: u32,
        segments: impl IntoIterator<Item = &'a [u8]>,
    ) -> Result<(), PcapError> {
        if self.buffer.len() >= WRITE_BYTES {
            self.make_room()?;
        }
        let start = self.buffer.len();
        let header = match self.format {
            CaptureFormat::Classic => classic::RECORD_HEADER,
            CaptureFormat::Ng => ng::WRITTEN_HEADER,
        };
        // Filled in when the length is known: one walk over the segments does.
        self.buffer.extend_from_slice(&[0; ng::WRITTEN_HEADER][..header]);
        let mut total = 0usize;
        for segment in segments {
            let room = self.snaplen.saturating_sub(total);
            self.buffer.extend_from_slice(segment.get(..room).unwrap_or(segment));
            total += segment.len();
        }
        let captured = total.min(self.snaplen) as u32;
        let wire = u32::try_from(total).unwrap_or(u32::MAX).max(wire_len);
        match self.format {
            CaptureFormat::Classic => {
                match classic::record_header(timestamp_ns, self.resolution, captured, wire) {
                    Some(filled) => self.fill_in(start, &filled),
                    None => return Err(self.too_late(start, timestamp_ns)),
                }
            }
            CaptureFormat::Ng => {
                let (filled, length) = ng::packet_header(timestamp_ns, self.resolution, captured, wire);
                self.fill_in(start, &filled);
                let padding = (captured.next_multiple_of(4) - captured) as usize;
                self.buffer.extend_from_slice(&[0; 4][..padding]);
                self.buffer.extend_from_slice(&length.to_le_bytes());
            }
        }
        self.records += 1;
        Ok(())
    }

    #[inline(always)]
    fn fill_in(&mut self, start: usize, header: &[u8]) {
        if let Some(place) = self.buffer.get_mut(start..start + header.len()) {
            place.copy_from_slice(header);
        }
    }

    #[cold]
    fn too_late(&mut self, start: usize, timestamp_ns: u64) -> PcapError {
        self.buffer.truncate(start);
        self.refused += 1;
        PcapError::TimeTooLate { timestamp_ns }
    }

    /// Writes the whole pieces of a full buffer; counts a refusal when that fails.
    #[cold]
    #[inline(never)]
    fn make_room(&mut self) -> Result<(), PcapError> {
        let pieces = self.buffer.len() / WRITE_BYTES * WRITE_BYTES;
        let done = self.write_out(pieces);
        if done.is_err() {
            self.refused += 1;
        }
        done
    }

    /// Writes what is buffered.
    ///
    /// # Errors
    ///
    /// [`PcapError::Write`]; what was not written stays buffered.
    pub fn flush(&mut self) -> Result<(), PcapError> {
        self.write_out(self.buffer.len())?;
        match self.sink.as_mut().map(Write::flush) {
            Some(Err(source)) => Err(self.write_error(source)),
            _ => Ok(()),
        }
    }

    /// Writes what is buffered and gives back the sink.
    ///
    /// # Errors
    ///
    /// [`PcapError::Write`] with the number of packets that are not in the file; they are lost then.
    pub fn finish(mut self) -> Result<W, PcapError> {
        let flushed = self.flush();
        // Taken out in either case, so that dropping does not try again.
        match (flushed, self.sink.take()) {
            (Ok(()), Some(sink)) => Ok(sink),
            (Ok(()), None) => Err(self.write_error(ErrorKind::NotConnected.into())),
            (Err(e), _) => Err(e),
        }
    }

    /// Ends without writing what is buffered, and without a word of it.
    pub fn abandon(mut self) {
        self.sink = None;
    }

    /// Where the bytes go.
    pub(in crate::pcap) fn sink(&self) -> Option<&W> {
        self.sink.as_ref()
    }

    /// Packets accepted so far.
    pub fn records(&self) -> u64 {
        self.records
    }

    /// Packets refused with an error so far.
    pub fn refused(&self) -> u64 {
        self.refused
    }

    /// Bytes that reached the sink so far.
    pub fn written(&self) -> u64 {
        self.written
    }

    /// Format of the file.
    pub fn format(&self) -> CaptureFormat {
        self.format
    }

    /// Writes the first `count` bytes of the buffer and moves the rest to its start.
    fn write_out(&mut self, count: usize) -> Result<(), PcapError> {
        let Some(sink) = &mut self.sink else { return Ok(()) };
        let mut done = 0;
        let mut failure: Option<io::Error> = None;
        while done < count {
            match sink.write(&self.buffer[done..count]) {
                Ok(0) => {
                    failure = Some(ErrorKind::WriteZero.into());
                    break;
                }
                Ok(n) => done = (done + n).min(count),
                Err(e) if e.kind() == ErrorKind::Interrupted => {}
                Err(e) => {
                    failure = Some(e);
                    break;
                }
            }
        }
        self.written += done as u64;
        self.partial = match failure {
            // The last record began before the first full piece ended, so that a cut lies in it or at its end.
            None => self.buffer.len() - done,
            Some(_) => self.record_end_from(done) - done,
        };
        self.buffer.copy_within(done.., 0);
        self.buffer.truncate(self.buffer.len() - done);
        match failure {
            Some(source) => Err(self.write_error(source)),
            None => Ok(()),
        }
    }

    /// The first end of a record in the buffer that is not before `at`.
    fn record_end_from(&self, at: usize) -> usize {
        let mut end = self.partial;
        while end < at {
            end = self.next_end(end);
        }
        end
    }

    /// Where the record that begins at `at` ends.
    fn next_end(&self, at: usize) -> usize {
        let order = Order { swapped: false };
        let length = match self.format {
            CaptureFormat::Classic => classic::RECORD_HEADER + order.u32(&self.buffer, at + 8) as usize,
            CaptureFormat::Ng => order.u32(&self.buffer, at + 4) as usize,
        };
        (at + length).min(self.buffer.len())
    }

    /// Packets whose last byte is still buffered.
    fn unwritten(&self) -> u64 {
        let (mut end, mut count) = (self.partial, 0);
        if self.partial > 0 && self.written > self.header_bytes() {
            count += 1;
        }
        while end < self.buffer.len() {
            end = self.next_end(end);
            count += 1;
        }
        count
    }

    fn header_bytes(&self) -> u64 {
        match self.format {
            CaptureFormat::Classic => classic::FILE_HEADER as u64,
            CaptureFormat::Ng => ng::WRITTEN_FILE_HEADER as u64,
        }
    }

    #[cold]
    fn write_error(&self, source: io::Error) -> PcapError {
        PcapError::Write { written: self.written, unwritten: self.unwritten(), source }
    }
}

impl<W: Write> Drop for CaptureWriter<W> {
    fn drop(&mut self) {
        if self.sink.is_some()
            && let Err(e) = self.flush()
        {
            // Nobody is left to return it to, and silence would be worse.
            let _ = writeln!(io::stderr(), "capture was dropped unfinished: {e}; hint: {}", e.hint());
        }
    }
}

#[cfg(test)]
#[path = "writer_tests.rs"]
mod tests;
