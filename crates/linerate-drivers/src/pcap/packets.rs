//! The packets of a capture in memory, for endless replay.

use std::{path::Path, time::Duration};

use super::error::FileError;
use super::format::{CaptureInput, CaptureReader};

/// Packets begin on lines of the cache, so that a packet of 64 bytes is one line to load.
const LINE: usize = 64;

/// How long a pipe may take to bring all that is to be replayed.
const PIPE_PATIENCE: Duration = Duration::from_secs(10);

/// Half of the memory that the system can give without swapping; no limit where that is not told.
pub(super) fn memory_limit() -> u64 {
    let told = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let line = told.lines().find_map(|l| l.strip_prefix("MemAvailable:"));
    let kib = line.and_then(|l| l.trim().trim_end_matches("kB").trim().parse::<u64>().ok());
    kib.map_or(u64::MAX, |kib| kib.saturating_mul(1024) / 2)
}

/// Where a packet lies.
#[derive(Clone, Copy, Debug)]
struct Place {
    at: usize,
    len: u32,
}

/// All packets of a file, in order, at least one.
#[derive(Debug)]
pub(super) struct Packets {
    bytes: Vec<u8>,
    /// Bytes before the first line of the cache in `bytes`.
    skew: usize,
    places: Vec<Place>,
    /// Capture times, when they are wanted; 0 where there is none.
    times: Vec<u64>,
    uniform: Option<u16>,
}

/// One packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packet<'a> {
    pub(super) data: &'a [u8],
    pub(super) time: Option<u64>,
}

/// What was left out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LeftOut {
    pub(super) empty: u64,
    pub(super) too_long: u64,
}

impl Packets {
    /// Reads a file to its end. Packets longer than `longest` bytes, and those of none, are left out.
    ///
    /// # Errors
    ///
    /// The file's; larger than `limit` bytes, in the file or in memory; a pipe that does not end; nothing left
    /// to replay; no memory.
    pub(super) fn load(
        path: &Path,
        reader: &mut CaptureReader<CaptureInput>,
        limit: u64,
        longest: usize,
        with_times: bool,
    ) -> Result<(Self, LeftOut), FileError> {
        let mut packets =
            Packets { bytes: Vec::new(), skew: 0, places: Vec::new(), times: Vec::new(), uniform: None };
        let mut left_out = LeftOut::default();
        let too_large = |bytes| FileError::TooLarge { path: path.to_owned(), bytes, limit };
        // Before a byte is read: reading a huge file to find that out takes minutes.
        let size = reader.input().file().metadata().map_or(0, |m| if m.is_file() { m.len() } else { 0 });
        if size > limit {
            return Err(too_large(size));
        }
        reader.wait(Some(PIPE_PATIENCE));
        loop {
            match reader.next_record() {
                Ok(Some(record)) if record.data.is_empty() => left_out.empty += 1,
                Ok(Some(record)) if record.data.len() > longest => left_out.too_long += 1,
                Ok(Some(record)) => {
                    let time = with_times.then(|| record.timestamp_ns.unwrap_or(0));
                    packets
                        .push(record.data, time)
                        .map_err(|needed| FileError::Memory { path: path.to_owned(), needed })?;
                    let taken = (packets.bytes.len() + size_of_val(&packets.places[..])) as u64;
                    if taken > limit {
                        return Err(too_large(taken));
                    }
                }
                Ok(None) => break,
                Err(e) if e.is_would_block() => {
                    let (path, seconds) = (path.to_owned(), PIPE_PATIENCE.as_secs());
                    return Err(FileError::Endless { path, seconds });
                }
                Err(e) => return Err(FileError::new(path, e)),
            }
        }
        packets.finish();
        if packets.places.is_empty() {
            return Err(FileError::NothingToReplay {
                path: path.to_owned(),
                empty: left_out.empty,
                too_long: left_out.too_long,
                room: longest as u32,
            });
        }
        Ok((packets, left_out))
    }

    /// Adds a packet; the bytes needed when there is no memory for it.
    fn push(&mut self, data: &[u8], time: Option<u64>) -> Result<(), u64> {
        let at = self.bytes.len();
        let end = (at + data.len()).next_multiple_of(LINE);
        let needed = |_| end as u64;
        self.bytes.try_reserve(end - at).map_err(needed)?;
        self.places.try_reserve(1).map_err(needed)?;
        self.times.try_reserve(usize::from(time.is_some())).map_err(needed)?;
        self.bytes.extend_from_slice(data);
        self.bytes.resize(end, 0);
        self.places.push(Place { at, len: data.len() as u32 });
        self.times.extend(time);
        Ok(())
    }

    /// Moves the bytes to a line of the cache, when there is room for that, and looks whether all are alike.
    fn finish(&mut self) {
        if self.bytes.try_reserve(LINE).is_ok() {
            let skew = self.bytes.as_ptr().align_offset(LINE);
            if skew < LINE {
                let end = self.bytes.len();
                self.bytes.resize(end + skew, 0);
                self.bytes.copy_within(..end, skew);
                self.skew = skew;
            }
        }
        if let Some(first) = self.places.first()
            && self.places.iter().all(|p| p.len == first.len)
        {
            self.uniform = u16::try_from(first.len).ok();
        }
    }

    /// How many there are; at least one.
    #[inline(always)]
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// The length of all packets, when they have one.
    #[inline(always)]
    pub(super) fn uniform(&self) -> Option<u16> {
        self.uniform
    }

    /// The packets from `n` on, when all have one length.
    #[inline(always)]
    pub(super) fn uniform_from(&self, n: usize) -> impl Iterator<Item = &[u8]> {
        let len = usize::from(self.uniform.unwrap_or(0));
        let step = len.next_multiple_of(LINE).max(LINE);
        let bytes = self.bytes.get(self.skew + n * step..).unwrap_or(&[]);
        bytes.chunks_exact(step).map(move |line| line.get(..len).unwrap_or(line))
    }

    /// Packet `n`; no bytes when there is none.
    #[inline(always)]
    pub(super) fn data(&self, n: usize) -> &[u8] {
        let Some(place) = self.places.get(n) else { return &[] };
        let from = self.skew + place.at;
        self.bytes.get(from..from + place.len as usize).unwrap_or(&[])
    }

    /// Packet `n` with its time.
    pub(super) fn packet(&self, n: usize) -> Packet<'_> {
        Packet { data: self.data(n), time: self.times.get(n).copied() }
    }
}
