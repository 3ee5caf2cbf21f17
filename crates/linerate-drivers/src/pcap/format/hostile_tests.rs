//! Files that lie or end early: each gives its own error with the facts in it, and never a panic.

use std::io::Read;

use super::samples::{self, Enc, bytes};
use super::{CaptureReader, MAX_BLOCK, MAX_CAPTURED, MAX_INTERFACES, PcapError};

const E: Enc = Enc(false);

/// Reads to the end or the first error; the error must come again. Returns the packets before it.
fn read_all(source: impl Read) -> (u64, Option<PcapError>) {
    let mut reader = match CaptureReader::new(source) {
        Ok(reader) => reader,
        Err(e) => return (0, Some(e)),
    };
    loop {
        match reader.next_record() {
            Ok(Some(record)) => assert!(record.data.len() <= record.wire_len as usize),
            Ok(None) => return (reader.packets(), None),
            Err(e) => {
                let again = reader.next_record().unwrap_err();
                assert_eq!(e.to_string(), again.to_string());
                return (reader.packets(), Some(e));
            }
        }
    }
}

fn error_of(file: &[u8]) -> PcapError {
    read_all(file).1.expect("the file is bad")
}

/// Section, one Ethernet interface with snap length 64, one good packet, then `tail`.
fn ng_with(tail: &[u8]) -> Vec<u8> {
    [E.section(&[]), E.interface(1, 64, &[]), E.enhanced(0, 1, 60, &bytes(60, 1), &[]), tail.to_vec()]
        .concat()
}

/// Gives `0` at most so many bytes at a time.
struct Chunks<'a>(usize, &'a [u8]);

impl Read for Chunks<'_> {
    fn read(&mut self, to: &mut [u8]) -> std::io::Result<usize> {
        let n = self.0.min(to.len()).min(self.1.len());
        to[..n].copy_from_slice(&self.1[..n]);
        self.1 = &self.1[n..];
        Ok(n)
    }
}

#[test]
fn cut_at_every_byte() {
    for sample in samples::all() {
        // Where a cut leaves a whole file.
        let mut whole = vec![];
        for cut in 0..sample.bytes.len() {
            let (packets, error) = read_all(&sample.bytes[..cut]);
            assert!(packets as usize <= sample.packets.len());
            match error {
                None => whole.push(cut),
                Some(PcapError::Truncated { packets: said, wanted, found, offset, .. }) => {
                    assert_eq!(said, packets, "{} cut at {cut}", sample.name);
                    assert!(found < wanted, "{} cut at {cut}", sample.name);
                    assert_eq!(offset + found, cut as u64, "{} cut at {cut}", sample.name);
                }
                Some(e) => panic!("{} cut at {cut}: {e}", sample.name),
            }
            let (slow, _) = read_all(Chunks(7, &sample.bytes[..cut]));
            assert_eq!(slow, packets);
        }
        if sample.name.starts_with("classic") && !sample.packets.is_empty() {
            // Clean ends are those between records: after the header and after each packet but the last.
            assert_eq!(whole.len(), sample.packets.len(), "{}", sample.name);
        }
    }
}

/// Any one byte replaced by any of some nasty values: an error or other packets, and it ends.
#[test]
fn every_byte_replaced() {
    for sample in samples::all() {
        let mut file = sample.bytes.clone();
        for at in 0..file.len() {
            let good = file[at];
            for bad in [0, 1, 3, 0x7f, 0x80, 0xff, good ^ 1, good.wrapping_add(4)] {
                file[at] = bad;
                let (packets, error) = read_all(&file[..]);
                assert!(packets <= file.len() as u64 / 12);
                if let Some(e) = error {
                    assert!(!e.to_string().is_empty() && !e.hint().is_empty());
                }
            }
            file[at] = good;
        }
    }
}

#[test]
fn captured_lengths_that_lie() {
    // A snap length is a hint: what is longer is read, as by other tools.
    let header = E.classic_header(0xa1b2_c3d4, 100, 1);
    let mut record = E.classic_record(0, 0, 101, &bytes(101, 0));
    let file = [header, record.clone()].concat();
    let mut reader = CaptureReader::new(&file[..]).unwrap();
    assert_eq!(reader.next_record().unwrap().unwrap().data, bytes(101, 0));
    let file = ng_with(&E.enhanced(0, 1, 65, &bytes(65, 0), &[]));
    let mut reader = CaptureReader::new(&file[..]).unwrap();
    reader.next_record().unwrap().unwrap();
    assert_eq!(reader.next_record().unwrap().unwrap().data, bytes(65, 0));

    // No snap length, or a huge one: the limit of all captures holds, and nothing is allocated for the claim.
    for snaplen in [0, 100, u32::MAX] {
        record[8..12].copy_from_slice(&E.u32(u32::MAX));
        let e = error_of(&[E.classic_header(0xa1b2_c3d4, snaplen, 1), record.clone()].concat());
        assert!(
            matches!(e, PcapError::CapturedTooLong { captured: u32::MAX, limit: MAX_CAPTURED, .. }),
            "{e}"
        );
    }

    // pcapng: above what the block has room for.
    let mut block = E.enhanced(0, 1, 40, &bytes(40, 0), &[]);
    block[20..24].copy_from_slice(&E.u32(41));
    let e = error_of(&ng_with(&block));
    assert!(matches!(e, PcapError::CapturedTooLong { packet: 2, captured: 41, limit: 40, .. }), "{e}");
    assert!(e.hint().contains("does not fit its block") && !e.hint().contains("snap"), "{}", e.hint());
    // A simple packet block that is shorter than its packet.
    let e = error_of(&ng_with(&E.block(3, &[&E.u32(60), &bytes(56, 0)])));
    assert!(matches!(e, PcapError::CapturedTooLong { captured: 60, limit: 56, .. }), "{e}");
}

#[test]
fn block_lengths_that_lie() {
    for (block, least) in [(6, 32), (2, 32), (3, 16), (1, 20), (0xbad, 12), (0x0a0d_0d0a, 28)] {
        for (length, rule) in [(0, "fixed"), (least - 4, "fixed"), (least + 2, "multiple of 4")] {
            let mut tail = E.block(block, &[&E.u32(0x1a2b_3c4d), &[0; 200]]);
            tail[4..8].copy_from_slice(&E.u32(length));
            let (packets, e) = read_all(&ng_with(&tail)[..]);
            let e = e.unwrap();
            assert_eq!(packets, 1);
            assert!(
                matches!(e, PcapError::BlockLength { found, block: b, .. } if found == length && b == block),
                "{e}"
            );
            assert!(e.to_string().contains(rule), "{e}");
        }
        if block != 0xbad {
            let mut tail = E.block(block, &[&E.u32(0x1a2b_3c4d), &[0; 200]]);
            tail[4..8].copy_from_slice(&E.u32(MAX_BLOCK + 4));
            let e = error_of(&ng_with(&tail));
            assert!(e.to_string().contains("16 MiB"), "{e}");
        }
        // The last length differs from the first.
        let mut tail = E.block(block, &[&E.u32(0x1a2b_3c4d), &[0; 200]]);
        let end = tail.len() - 4;
        tail[end..].copy_from_slice(&E.u32(4));
        let e = error_of(&ng_with(&tail));
        assert!(matches!(e, PcapError::TrailingLength { leading: 216, trailing: 4, .. }), "{e}");
    }
    // A skipped block may be as long as it likes, but must be there.
    let mut tail = E.block(0xbad, &[&[0; 20]]);
    tail[4..8].copy_from_slice(&E.u32(0xffff_fffc));
    let e = error_of(&ng_with(&tail));
    assert!(matches!(e, PcapError::Truncated { wanted: 0xffff_fffc, found: 32, packets: 1, .. }), "{e}");
}

#[test]
fn options_that_lie() {
    let comment = |length: u16| [&E.u16(1)[..], &E.u16(length), b"abcd"].concat();
    for length in [5, 8, u16::MAX] {
        for file in [
            E.section(&comment(length)),
            [E.section(&[]), E.interface(1, 0, &comment(length))].concat(),
            ng_with(&E.enhanced(0, 1, 60, &bytes(60, 1), &comment(length))),
        ] {
            let e = error_of(&file);
            assert!(matches!(e, PcapError::OptionLength { code: 1, room: 4, .. }), "{e}");
        }
    }
    for (code, value) in [(9, &[6, 0][..]), (9, &[]), (14, &[0; 4])] {
        let e = error_of(&[E.section(&[]), E.interface(1, 0, &E.option(code, value))].concat());
        assert!(matches!(e, PcapError::OptionLength { code: c, offset: 44, .. } if c == code), "{e}");
    }
    // After the end of options anything may stand.
    let after = [E.option(0, &[]), vec![0xff; 8]].concat();
    assert!(read_all(&ng_with(&E.enhanced(0, 1, 60, &bytes(60, 1), &after))[..]).1.is_none());
}

#[test]
fn times_out_of_range() {
    for (magic, fraction) in [(0xa1b2_c3d4u32, 1_000_000), (0xa1b2_3c4d, 1_000_000_000)] {
        for fraction in [fraction, u32::MAX] {
            let good = E.classic_record(1, 0, 60, &bytes(60, 0));
            let bad = E.classic_record(1, fraction, 60, &bytes(60, 0));
            let e = error_of(&[E.classic_header(magic, 100, 1), good, bad].concat());
            assert!(
                matches!(e, PcapError::SubSecond { packet: 2, offset: 100, found, .. } if found == fraction)
            );
        }
    }
    let e = error_of(&ng_with(&E.enhanced(0, u64::MAX, 60, &bytes(60, 1), &[])));
    assert!(matches!(e, PcapError::TimeRange { packet: 2, units: u64::MAX, interface: 0, .. }), "{e}");
}

#[test]
fn interfaces_that_are_not_there_or_not_ethernet() {
    let e = error_of(&ng_with(&E.enhanced(1, 0, 60, &bytes(60, 1), &[])));
    assert!(matches!(e, PcapError::UnknownInterface { packet: 2, interface: 1, known: 1, .. }), "{e}");
    for block in [E.enhanced(0, 0, 60, &bytes(60, 1), &[]), E.block(3, &[&E.u32(4), &[0; 4]])] {
        let e = error_of(&[E.section(&[]), block].concat());
        assert!(matches!(e, PcapError::UnknownInterface { packet: 1, interface: 0, known: 0, .. }), "{e}");
    }
    // A new section forgets the interfaces of the one before.
    let e = error_of(&ng_with(&[E.section(&[]), E.enhanced(0, 0, 60, &bytes(60, 1), &[])].concat()));
    assert!(matches!(e, PcapError::UnknownInterface { packet: 2, .. }), "{e}");

    let e = CaptureReader::new(&E.classic_header(0xa1b2_c3d4, 0, 113)[..]).unwrap_err();
    assert!(matches!(e, PcapError::LinkType { offset: 20, interface: 0, found: 113 }), "{e}");
    // Upper bits of the field tell of frame check sequences.
    assert!(CaptureReader::new(&E.classic_header(0xa1b2_c3d4, 0, 0x5400_0001)[..]).is_ok());
    // Refused when it is opened, before any packet.
    let e = CaptureReader::new(&[E.section(&[]), E.interface(101, 0, &[])].concat()[..]).unwrap_err();
    assert!(matches!(e, PcapError::LinkType { offset: 36, interface: 0, found: 101 }), "{e}");
    let e = error_of(&ng_with(&E.interface(228, 0, &[])));
    assert!(matches!(e, PcapError::LinkType { interface: 1, found: 228, .. }), "{e}");

    let mut many = E.section(&[]);
    for _ in 0..=MAX_INTERFACES {
        many.extend(E.interface(1, 0, &[]));
    }
    assert!(matches!(error_of(&many), PcapError::TooManyInterfaces { .. }));
}

#[test]
fn versions_and_byte_orders() {
    let mut file = E.classic_header(0xa1b2_c3d4, 0, 1);
    file[6] = 3;
    let e = error_of(&file);
    assert!(matches!(e, PcapError::Version { offset: 4, major: 2, minor: 3, .. }), "{e}");
    let mut file = E.section(&[]);
    file[14] = 1;
    let e = error_of(&file);
    assert!(matches!(e, PcapError::Version { offset: 12, major: 1, minor: 1, .. }), "{e}");
    let mut file = E.section(&[]);
    file[8] = 0;
    assert!(matches!(error_of(&file), PcapError::ByteOrder { offset: 0, .. }));
}
