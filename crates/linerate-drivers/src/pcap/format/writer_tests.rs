//! The writer's tests: times, sizes, full disks.

use super::*;
use crate::pcap::format::{CaptureReader, TimeBase};

const NS: u64 = 1_000_000_000;

fn memory(options: WriterOptions) -> CaptureWriter<Vec<u8>> {
    CaptureWriter::new(Vec::new(), &options).unwrap()
}

fn formats() -> [WriterOptions; 3] {
    let options = WriterOptions::default();
    [
        options,
        WriterOptions { resolution: Resolution::Micro, ..options },
        WriterOptions { format: Some(CaptureFormat::Ng), ..options },
    ]
}

/// Bug case 17: packets a quarter of a second and nine seconds after the start of a 2.5 GHz clock.
#[test]
fn times_do_not_overflow() {
    const HZ: u64 = 2_500_000_000;
    let start_ns = 1_700_000_000 * NS + 999_999_000;
    let clock = TimeBase::new(linerate_mem::CycleScale::new(HZ), 77, start_ns);
    for options in formats() {
        let mut writer = memory(options);
        let cycles = [0, HZ / 4, HZ, 9 * HZ, 100_000 * HZ];
        for cycles in cycles {
            writer.write_record(clock.ns_at(77 + cycles), 60, [&[1u8; 60][..]]).unwrap();
        }
        let file = writer.finish().unwrap();
        // The reader refuses a sub-second part of a second or more.
        let mut reader = CaptureReader::new(&file[..]).unwrap();
        let mut last = 0;
        for cycles in cycles {
            let got = reader.next_record().unwrap().unwrap().timestamp_ns.unwrap();
            let exact = start_ns + (u128::from(cycles) * u128::from(NS) / u128::from(HZ)) as u64;
            assert!(got.abs_diff(exact) <= 1_000 && got > last, "{got} for {exact}");
            last = got;
        }
    }
}

/// Bug case 17: 1500 packets of two segments, all there and the same when read again.
#[test]
fn chains_and_many_packets() {
    for options in formats() {
        let mut writer = memory(options);
        let chain = |n: usize| [vec![n as u8; 1000], vec![(n >> 8) as u8; 1000 + n % 4]];
        for n in 0..1500 {
            let segments = chain(n);
            writer.write_record(n as u64 * 1_000, 2000, segments.iter().map(Vec::as_slice)).unwrap();
        }
        assert_eq!(writer.records(), 1500);
        assert!(writer.written() > 2_000_000 && writer.written().is_multiple_of(WRITE_BYTES as u64));
        let file = writer.finish().unwrap();
        let mut reader = CaptureReader::new(&file[..]).unwrap();
        for n in 0..1500 {
            let got = reader.next_record().unwrap().unwrap();
            assert_eq!(got.data, chain(n).concat());
            assert_eq!(got.wire_len as usize, got.data.len());
            assert_eq!(got.timestamp_ns, Some(n as u64 * 1_000));
        }
        assert!(reader.next_record().unwrap().is_none());
    }
}

#[test]
fn packets_of_any_size_up_to_the_limit() {
    let big = vec![9u8; MAX_CAPTURED as usize + 5];
    for options in formats() {
        let mut writer = memory(options);
        let capacity = writer.buffer.capacity();
        // Beside a nearly full buffer, so that the largest record must find room behind it.
        for n in 0..40_000 {
            writer.write_record(0, 0, [&big[..n % 64]]).unwrap();
            if n % 5_000 == 0 {
                writer.write_record(0, 0, [&big[..1000], &big[1000..]]).unwrap();
            }
        }
        assert_eq!(writer.buffer.capacity(), capacity, "the buffer never grows");
        let file = writer.finish().unwrap();
        let mut reader = CaptureReader::new(&file[..]).unwrap();
        let mut large = 0;
        while let Some(record) = reader.next_record().unwrap() {
            if record.data.len() > 64 {
                assert_eq!((record.data.len(), record.wire_len as usize), (MAX_CAPTURED as usize, big.len()));
                large += 1;
            }
        }
        assert_eq!((large, reader.packets()), (8, 40_008));
    }
}

#[test]
fn a_snap_length_cuts_what_is_kept_and_not_what_was() {
    for bad in [0, MAX_CAPTURED + 1, u32::MAX] {
        let e = CaptureWriter::new(Vec::new(), &WriterOptions { snaplen: bad, ..Default::default() });
        assert!(matches!(e, Err(PcapError::SnapLen { found }) if found == bad));
    }
    for format in [CaptureFormat::Classic, CaptureFormat::Ng] {
        let mut writer = memory(WriterOptions { format: Some(format), snaplen: 70, ..Default::default() });
        writer.write_record(1, 1514, [&[1u8; 60][..], &[2; 60]]).unwrap();
        let file = writer.finish().unwrap();
        let mut reader = CaptureReader::new(&file[..]).unwrap();
        let got = reader.next_record().unwrap().unwrap();
        assert_eq!((got.data.len(), got.wire_len), (70, 1514));
        assert_eq!((got.data[59], got.data[60]), (1, 2));
    }
}

#[test]
fn a_time_after_2106_is_refused_by_classic_only() {
    let late = (u64::from(u32::MAX) + 1) * NS;
    let mut writer = memory(WriterOptions::default());
    writer.write_record(late - 1, 60, [&[0u8; 60][..]]).unwrap();
    let e = writer.write_record(late, 60, [&[0u8; 60][..]]).unwrap_err();
    assert!(matches!(e, PcapError::TimeTooLate { timestamp_ns } if timestamp_ns == late));
    assert_eq!((writer.records(), writer.refused()), (1, 1));
    assert_eq!(writer.finish().unwrap().len(), 24 + 16 + 60);
    let mut writer = memory(WriterOptions { format: Some(CaptureFormat::Ng), ..Default::default() });
    writer.write_record(u64::MAX, 60, [&[0u8; 60][..]]).unwrap();
}

#[test]
fn a_name_chooses_the_format() {
    let dir = tempfile::tempdir().unwrap();
    for (name, format) in [("a.pcap", CaptureFormat::Classic), ("a.pcapng", CaptureFormat::Ng)] {
        let path = dir.path().join(name);
        std::fs::write(&path, [0; 1000]).unwrap();
        let writer = CaptureWriter::create(&path, &WriterOptions::default()).unwrap();
        assert_eq!(writer.format(), format);
        writer.finish().unwrap();
        assert_eq!(CaptureReader::open(&path).unwrap().format(), format);
    }
    let e = CaptureWriter::create(dir.path().join("none/a.pcap"), &WriterOptions::default()).unwrap_err();
    assert!(matches!(e, PcapError::Create { .. }) && e.hint().contains("mkdir"), "{e}");
}

/// The device that is always full: every call tells, every refusal is counted, the end tells again.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_is_told() {
    let mut writer = CaptureWriter::create("/dev/full", &WriterOptions::default()).unwrap();
    let mut accepted = 0;
    for _ in 0..10_000 {
        match writer.write_record(0, 60, [&[0u8; 60][..]]) {
            Ok(()) => accepted += 1,
            Err(e) => {
                let PcapError::Write { written: 0, unwritten, source } = e else { panic!("{e}") };
                assert_eq!(unwritten, accepted);
                assert_eq!(source.kind(), ErrorKind::StorageFull);
            }
        }
    }
    assert_eq!((writer.records(), writer.refused()), (accepted, 10_000 - accepted));
    assert!(accepted < 4_000);
    let e = writer.finish().unwrap_err();
    assert!(matches!(e, PcapError::Write { unwritten, .. } if unwritten == accepted), "{e}");
    assert!(e.hint().contains("df -h"));
}

/// Takes odd amounts and fails now and then; everything accepted must arrive once and in order.
#[derive(Debug, Default)]
struct Moody {
    got: Vec<u8>,
    calls: usize,
    mended: bool,
}

impl Write for Moody {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.calls += 1;
        if !self.mended {
            match self.calls % 5 {
                0 => return Err(ErrorKind::StorageFull.into()),
                1 => return Err(ErrorKind::Interrupted.into()),
                _ => {}
            }
        }
        let n = from.len().min(99_991);
        self.got.extend_from_slice(&from[..n]);
        Ok(n)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn what_is_accepted_arrives_once() {
    for format in [CaptureFormat::Classic, CaptureFormat::Ng] {
        let options = WriterOptions { format: Some(format), ..Default::default() };
        let mut writer = CaptureWriter::new(Moody::default(), &options).unwrap();
        let mut accepted = Vec::new();
        let mut failures = 0;
        for n in 0..200_000u32 {
            match writer.write_record(u64::from(n), 60, [&n.to_le_bytes()[..]]) {
                Ok(()) => accepted.push(n),
                Err(PcapError::Write { written, unwritten, .. }) => {
                    failures += 1;
                    // What is told to be in the file can be read from it.
                    let sink = writer.sink.as_ref().unwrap();
                    assert_eq!(written, sink.got.len() as u64);
                    let mut reader = CaptureReader::new(&sink.got[..]).unwrap();
                    while let Ok(Some(_)) = reader.next_record() {}
                    assert_eq!(reader.packets() + unwritten, accepted.len() as u64);
                }
                Err(e) => panic!("{e}"),
            }
        }
        assert!(failures > 3);
        assert_eq!(writer.refused(), failures);
        writer.sink.as_mut().unwrap().mended = true;
        let file = writer.finish().unwrap().got;
        let mut reader = CaptureReader::new(&file[..]).unwrap();
        for n in accepted {
            assert_eq!(reader.next_record().unwrap().unwrap().data, n.to_le_bytes());
        }
        assert!(reader.next_record().unwrap().is_none());
    }
}

#[test]
fn dropping_writes_the_rest() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.pcap");
    let mut writer = CaptureWriter::create(&path, &WriterOptions::default()).unwrap();
    writer.write_record(0, 60, [&[0u8; 60][..]]).unwrap();
    drop(writer);
    assert_eq!(std::fs::metadata(&path).unwrap().len(), 24 + 16 + 60);
}
