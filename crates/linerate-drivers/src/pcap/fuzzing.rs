//! Bodies of the fuzz targets, so that the normal tests replay their corpora through the same code.

use std::io::{self, Read};

use super::format::{
    CaptureFormat, CaptureReader, CaptureWriter, MAX_CAPTURED, PcapError, Resolution, WriterOptions,
};

/// Gives so many bytes at a time.
struct Chunks<'a>(usize, &'a [u8]);

impl Read for Chunks<'_> {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let (now, rest) = self.1.split_at(self.0.min(to.len()).min(self.1.len()));
        to[..now.len()].copy_from_slice(now);
        self.1 = rest;
        Ok(now.len())
    }
}

/// A packet as it was read: its bytes, wire length and time.
type Packet = (Vec<u8>, u32, Option<u64>);

fn read_all(source: impl Read) -> (Vec<Packet>, Option<PcapError>) {
    let mut packets = Vec::new();
    let mut reader = match CaptureReader::new(source) {
        Ok(reader) => reader,
        Err(e) => return (packets, Some(e)),
    };
    loop {
        match reader.next_record() {
            Ok(Some(r)) => {
                assert!(r.data.len() <= MAX_CAPTURED as usize && r.data.len() <= r.wire_len as usize);
                packets.push((r.data.to_vec(), r.wire_len, r.timestamp_ns));
            }
            Ok(None) => return (packets, None),
            Err(e) => {
                // An error stays.
                assert_eq!(reader.next_record().unwrap_err().to_string(), e.to_string());
                return (packets, Some(e));
            }
        }
    }
}

/// Reads any bytes as a capture: it ends, delivers no more than the bytes hold, does not depend on how the bytes
/// arrive, and what was read can be written in both formats and read back.
///
/// # Panics
///
/// When one of that does not hold.
pub fn pcap_reader(data: &[u8]) {
    let (packets, error) = read_all(data);
    assert!(packets.len() <= data.len() / 12);
    assert!(packets.iter().map(|p| p.0.len()).sum::<usize>() <= data.len());
    if let Some(e) = &error {
        assert!(!e.hint().is_empty());
    }
    let (slow, slow_error) = read_all(Chunks(13, data));
    assert_eq!(slow, packets);
    assert_eq!(slow_error.map(|e| e.to_string()), error.map(|e| e.to_string()));

    for format in [CaptureFormat::Classic, CaptureFormat::Ng] {
        let options =
            WriterOptions { format: Some(format), resolution: Resolution::Nano, snaplen: MAX_CAPTURED };
        let mut writer = CaptureWriter::new(Vec::new(), &options).expect("good options");
        let mut kept = Vec::new();
        for (bytes, wire_len, timestamp_ns) in &packets {
            let (front, back) = bytes.split_at(bytes.len() / 3);
            match writer.write_record(timestamp_ns.unwrap_or(0), *wire_len, [front, back]) {
                Ok(()) => kept.push((bytes.clone(), *wire_len, Some(timestamp_ns.unwrap_or(0)))),
                Err(PcapError::TimeTooLate { .. }) => assert_eq!(format, CaptureFormat::Classic),
                Err(e) => panic!("{e}"),
            }
        }
        let file = writer.finish().expect("memory takes everything");
        let (back, error) = read_all(&file[..]);
        assert!(error.is_none(), "{error:?}");
        assert_eq!(back, kept);
    }
}
