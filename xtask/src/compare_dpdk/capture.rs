//! The captures that the pcap rows replay: distinct 64-byte UDP/IPv4 frames with right checksums, in the
//! classic pcap format, written by this command itself.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

use anyhow::{Context, Result};

/// Length of every frame, without the frame check sequence.
pub const FRAME_LEN: usize = 64;
/// Ethernet, IPv4 without options.
const L4: usize = 14 + 20;
/// Magic of the classic format with microseconds, written in little-endian order.
const MAGIC: u32 = 0xa1b2_c3d4;
const FILE_HEADER: u64 = 24;
const RECORD_HEADER: u64 = 16;

/// Writes `packets` frames to `path`, unless a file of just that size is there already.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, packets: u32) -> Result<()> {
    let size = FILE_HEADER + u64::from(packets) * (RECORD_HEADER + FRAME_LEN as u64);
    if std::fs::metadata(path).is_ok_and(|m| m.len() == size) {
        return Ok(());
    }
    let make = || -> std::io::Result<()> {
        let mut out = BufWriter::with_capacity(1 << 20, File::create(path)?);
        out.write_all(&MAGIC.to_le_bytes())?;
        out.write_all(&[2, 0, 4, 0])?; // version 2.4
        out.write_all(&[0; 8])?; // time zone, accuracy
        out.write_all(&65535_u32.to_le_bytes())?; // longest packet kept
        out.write_all(&1_u32.to_le_bytes())?; // Ethernet
        for i in 0..packets {
            let len = (FRAME_LEN as u32).to_le_bytes();
            out.write_all(&(i / 1_000_000).to_le_bytes())?;
            out.write_all(&(i % 1_000_000).to_le_bytes())?;
            out.write_all(&len)?;
            out.write_all(&len)?;
            out.write_all(&frame(i))?;
        }
        out.flush()
    };
    make().with_context(|| format!("cannot write {}", path.display()))
}

/// Frame number `i`: addresses, ports, identification and payload follow from `i`.
fn frame(i: u32) -> [u8; FRAME_LEN] {
    let mut f = [0_u8; FRAME_LEN];
    let [_, _, id_high, id_low] = i.to_be_bytes();
    f[..6].copy_from_slice(&[2, 0, 0, 0, 0, 1]);
    f[6..12].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    f[12..14].copy_from_slice(&[0x08, 0x00]);

    let ip_len = (FRAME_LEN - 14) as u8;
    f[14..26].copy_from_slice(&[0x45, 0, 0, ip_len, id_high, id_low, 0, 0, 64, 17, 0, 0]);
    f[26..30].copy_from_slice(&[10, 0, 0, (i % 250) as u8 + 1]);
    f[30..34].copy_from_slice(&[192, 168, 0, 1]);
    let sum = checksum(&f[14..L4], 0).to_be_bytes();
    f[24..26].copy_from_slice(&sum);

    let udp_len = (FRAME_LEN - L4) as u16;
    f[L4..L4 + 2].copy_from_slice(&(1024 + (i % 4096) as u16).to_be_bytes());
    f[L4 + 2..L4 + 4].copy_from_slice(&53_u16.to_be_bytes());
    f[L4 + 4..L4 + 6].copy_from_slice(&udp_len.to_be_bytes());
    f[L4 + 8..L4 + 12].copy_from_slice(&i.to_be_bytes());
    for (k, byte) in f[L4 + 12..].iter_mut().enumerate() {
        *byte = (i as u8).wrapping_add(k as u8);
    }
    let pseudo = 17 + u32::from(udp_len); // protocol and length; the addresses are summed with the rest
    let sum = match checksum(&f[26..], pseudo) {
        0 => 0xffff, // 0 would mean "no checksum"
        sum => sum,
    };
    f[L4 + 6..L4 + 8].copy_from_slice(&sum.to_be_bytes());
    f
}

/// The Internet checksum (RFC 1071) of an even number of bytes, on top of `start`.
fn checksum(bytes: &[u8], start: u32) -> u16 {
    let sum = bytes.chunks_exact(2).fold(start, |sum, w| sum + u32::from(u16::from_be_bytes([w[0], w[1]])));
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_checksum_verifies() {
        for i in (0..70_000).step_by(7).chain([u32::MAX]) {
            let f = frame(i);
            // A block that holds its own right checksum sums to all ones, so its checksum is zero.
            assert_eq!(checksum(&f[14..L4], 0), 0, "IPv4 header of frame {i}");
            assert_eq!(checksum(&f[26..], 17 + (FRAME_LEN - L4) as u32), 0, "UDP of frame {i}");
            assert_ne!(f[L4 + 6..L4 + 8], [0, 0], "frame {i} says that it has no checksum");
        }
    }

    #[test]
    fn the_checksum_is_that_of_the_rfc() {
        // The worked example of RFC 1071, section 3: the sum is ddf2.
        assert_eq!(checksum(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7], 0), !0xddf2);
    }

    #[test]
    fn frames_differ_and_the_file_has_its_size() {
        let distinct: std::collections::HashSet<_> = (0..1000).map(frame).collect();
        assert_eq!(distinct.len(), 1000);
        let dir = std::env::temp_dir().join(format!("linerate-capture-{}", std::process::id()));
        std::fs::create_dir_all(&dir).expect("a scratch folder");
        let path = dir.join("three.pcap");
        write(&path, 3).expect("three frames");
        let bytes = std::fs::read(&path).expect("what was written");
        std::fs::remove_dir_all(&dir).expect("the folder is ours");
        assert_eq!(bytes.len(), 24 + 3 * (16 + 64));
        assert_eq!(bytes[..4], [0xd4, 0xc3, 0xb2, 0xa1]);
        assert_eq!(bytes[24 + 16..24 + 16 + 64], frame(0));
    }
}
