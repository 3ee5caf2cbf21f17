//! Classic pcap (draft-ietf-opsawg-pcap): header and records.

use super::error::PcapError;
use super::{Decoded, Fault, LINKTYPE_ETHERNET, MAX_CAPTURED, NANOS_PER_SECOND, Order, Resolution, Span};

/// Bytes of the file header.
pub(super) const FILE_HEADER: usize = 24;
/// Bytes of a record's header.
pub(super) const RECORD_HEADER: usize = 16;

const MAGIC_MICRO: u32 = 0xa1b2_c3d4;
const MAGIC_NANO: u32 = 0xa1b2_3c4d;
/// Alexey Kuznetzov's "modified" pcap: 8 more bytes in each record header.
const MAGIC_MODIFIED: u32 = 0xa1b2_cd34;

/// What the first four bytes of a classic file say; `None` for other formats.
pub(super) fn sniff(magic: [u8; 4]) -> Option<Result<(Order, Resolution), PcapError>> {
    let read = u32::from_le_bytes(magic);
    for (swapped, value) in [(false, read), (true, read.swap_bytes())] {
        let resolution = match value {
            MAGIC_MICRO => Resolution::Micro,
            MAGIC_NANO => Resolution::Nano,
            MAGIC_MODIFIED => {
                return Some(Err(PcapError::Unsupported {
                    name: "\"modified\" (Kuznetzov) pcap",
                    mend: "convert it with `editcap -F nsecpcap FILE NEW`",
                }));
            }
            _ => continue,
        };
        return Some(Ok((Order { swapped }, resolution)));
    }
    None
}

/// How the records of one classic file are read.
#[derive(Clone, Copy, Debug)]
pub(super) struct Classic {
    order: Order,
    resolution: Resolution,
}

impl Classic {
    /// Reads the rest of the file header, which is `FILE_HEADER` bytes.
    pub(super) fn parse(header: &[u8], order: Order, resolution: Resolution) -> Result<Self, PcapError> {
        let (major, minor) = (order.u16(header, 4), order.u16(header, 6));
        if (major, minor) != (2, 4) {
            return Err(PcapError::Version { offset: 4, major, minor, wanted: "2.4" });
        }
        // The snap length at 16 is a hint: captures with longer packets exist, and every tool reads them.
        // The upper 16 bits may say that frames carry their check sequence; that is no link type.
        let link = order.u32(header, 20) & 0xffff;
        if link != LINKTYPE_ETHERNET {
            return Err(PcapError::LinkType { offset: 20, interface: 0, found: link });
        }
        Ok(Classic { order, resolution })
    }

    /// Unit of the sub-second part.
    pub(super) fn resolution(&self) -> Resolution {
        self.resolution
    }

    /// Looks at the bytes from the start of a record.
    #[inline(always)]
    pub(super) fn decode(&self, bytes: &[u8]) -> Decoded {
        let Some(header) = bytes.first_chunk::<RECORD_HEADER>() else {
            return Decoded::More(RECORD_HEADER, "packet record header");
        };
        let order = self.order;
        let (seconds, fraction) = (order.u32(header, 0), order.u32(header, 4));
        let (captured, wire) = (order.u32(header, 8), order.u32(header, 12));
        if captured > MAX_CAPTURED {
            return Decoded::Bad(Fault::CapturedTooLong { captured, limit: MAX_CAPTURED });
        }
        let limit = self.resolution.units_per_second();
        if fraction >= limit {
            return Decoded::Bad(Fault::SubSecond { found: fraction, limit });
        }
        let total = RECORD_HEADER + captured as usize;
        if bytes.len() < total {
            return Decoded::More(total, "packet data");
        }
        let nanos = u64::from(fraction) * u64::from(self.resolution.nanos_per_unit());
        Decoded::Packet(Span {
            total,
            data: RECORD_HEADER,
            captured: captured as usize,
            wire: wire.max(captured),
            interface: 0,
            timestamp_ns: Some(u64::from(seconds) * NANOS_PER_SECOND + nanos),
        })
    }
}

/// The header of a file that is written, little-endian.
pub(super) fn file_header(resolution: Resolution, snaplen: u32) -> [u8; FILE_HEADER] {
    let magic = match resolution {
        Resolution::Micro => MAGIC_MICRO,
        Resolution::Nano => MAGIC_NANO,
    };
    let mut header = [0; FILE_HEADER];
    header[0..4].copy_from_slice(&magic.to_le_bytes());
    header[4..6].copy_from_slice(&2u16.to_le_bytes());
    header[6..8].copy_from_slice(&4u16.to_le_bytes());
    header[16..20].copy_from_slice(&snaplen.to_le_bytes());
    header[20..24].copy_from_slice(&LINKTYPE_ETHERNET.to_le_bytes());
    header
}

/// The header of a record that is written, little-endian; `None` when the seconds do not fit 32 bits.
#[inline(always)]
pub(super) fn record_header(
    timestamp_ns: u64,
    resolution: Resolution,
    captured: u32,
    wire: u32,
) -> Option<[u8; RECORD_HEADER]> {
    let seconds = u32::try_from(timestamp_ns / NANOS_PER_SECOND).ok()?;
    let fraction = (timestamp_ns % NANOS_PER_SECOND) as u32 / resolution.nanos_per_unit();
    let mut header = [0; RECORD_HEADER];
    header[0..4].copy_from_slice(&seconds.to_le_bytes());
    header[4..8].copy_from_slice(&fraction.to_le_bytes());
    header[8..12].copy_from_slice(&captured.to_le_bytes());
    header[12..16].copy_from_slice(&wire.to_le_bytes());
    Some(header)
}
