//! pcapng (draft-ietf-opsawg-pcapng): sections, interfaces and packet blocks.

use super::error::PcapError;
use super::{
    Decoded, Fault, LINKTYPE_ETHERNET, MAX_BLOCK, MAX_CAPTURED, MAX_INTERFACES, NANOS_PER_SECOND,
    OptionFault, Order, Resolution, Span,
};

/// Section header block: its type reads the same in both byte orders.
pub(super) const SECTION: u32 = 0x0a0d_0d0a;
const INTERFACE: u32 = 1;
const PACKET: u32 = 2;
const SIMPLE: u32 = 3;
const ENHANCED: u32 = 6;

const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// Type and first length.
const BLOCK_HEADER: usize = 8;
/// Type and both lengths: the shortest block there can be.
const BLOCK_FRAME: usize = 12;
const SECTION_MIN: u32 = 28;
const INTERFACE_MIN: u32 = 20;
const PACKET_MIN: u32 = 32;
const SIMPLE_MIN: u32 = 16;
/// Bytes before the packet in an enhanced and in an obsolete packet block.
const PACKET_DATA: usize = 28;
const SIMPLE_DATA: usize = 12;

const OPT_END: u16 = 0;
const OPT_TSRESOL: u16 = 9;
const OPT_TSOFFSET: u16 = 14;

const RULE_MIN: &str = "shorter than its fixed fields";
const RULE_FOUR: &str = "not a multiple of 4";
const RULE_MAX: &str = "longer than 16 MiB";

/// Unit of an interface's time stamps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Unit {
    /// So many nanoseconds.
    Times(u64),
    /// One nanosecond divided by so much.
    Per(u64),
    /// 2⁻ⁿ s.
    PowerOfTwo(u32),
}

/// One interface of the section.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Interface {
    /// Only a simple packet block, which has no captured length, is cut by it.
    max_captured: u32,
    unit: Unit,
    offset_seconds: i64,
}

impl Interface {
    /// Nanoseconds since 1970, when that is in 0..2⁶⁴.
    #[inline(always)]
    fn nanos(&self, units: u64) -> Option<u64> {
        match self.unit {
            Unit::Times(n) if self.offset_seconds == 0 => units.checked_mul(n),
            _ => self.nanos_general(units),
        }
    }

    #[inline(never)]
    fn nanos_general(&self, units: u64) -> Option<u64> {
        let units = u128::from(units);
        let nanos = match self.unit {
            Unit::Times(n) => units * u128::from(n),
            Unit::Per(n) => units / u128::from(n),
            // 64 + 30 bits.
            Unit::PowerOfTwo(n) => (units * u128::from(NANOS_PER_SECOND)) >> n,
        };
        // Below 2⁹⁴ + 2⁹³ in size.
        let nanos = nanos as i128 + i128::from(self.offset_seconds) * i128::from(NANOS_PER_SECOND);
        u64::try_from(nanos).ok()
    }
}

/// The unit that an `if_tsresol` names.
fn unit_of(tsresol: u8) -> Unit {
    let exponent = u32::from(tsresol & 0x7f);
    if tsresol & 0x80 != 0 {
        Unit::PowerOfTwo(exponent)
    } else if exponent <= 9 {
        Unit::Times(10u64.pow(9 - exponent))
    } else {
        // Beyond 10⁻²⁸ s no 64-bit count reaches a nanosecond; nor does it at 2⁻¹²⁷ s.
        10u64.checked_pow(exponent - 9).map_or(Unit::PowerOfTwo(127), Unit::Per)
    }
}

/// State of the section that is being read.
#[derive(Debug)]
pub(super) struct Section {
    order: Order,
    interfaces: Vec<Interface>,
}

/// What a block that is no packet asks of the reader.
#[derive(Debug)]
pub(super) enum Step {
    /// So many bytes are needed from the start of the block, for what.
    More(usize, &'static str),
    /// The block was taken in and is so long.
    Done(usize),
    /// The block is of no interest: step over so many bytes, then its last length must repeat its first.
    Skip(u32),
}

impl Section {
    pub(super) fn new() -> Self {
        Section { order: Order { swapped: false }, interfaces: Vec::new() }
    }

    /// Byte order of the section.
    pub(super) fn order(&self) -> Order {
        self.order
    }

    /// Interfaces described so far in this section.
    pub(super) fn interfaces(&self) -> usize {
        self.interfaces.len()
    }

    /// Looks at the bytes from the start of a block.
    #[inline(always)]
    pub(super) fn decode(&self, bytes: &[u8]) -> Decoded {
        let Some(header) = bytes.first_chunk::<BLOCK_HEADER>() else {
            return Decoded::More(BLOCK_HEADER, "block header");
        };
        let block = self.order.u32(header, 0);
        if block == ENHANCED { self.enhanced(bytes) } else { self.other(bytes, block) }
    }

    #[inline(never)]
    fn other(&self, bytes: &[u8], block: u32) -> Decoded {
        match block {
            PACKET => self.obsolete(bytes),
            SIMPLE => self.simple(bytes),
            _ => Decoded::Block,
        }
    }

    /// The whole of a packet block, its two lengths checked against each other and the least.
    #[inline(always)]
    fn frame<'a>(&self, bytes: &'a [u8], block: u32, least: u32) -> Result<&'a [u8], Decoded> {
        let total = self.order.u32(bytes, 4);
        if let Some(rule) = length_rule(total, least) {
            return Err(Decoded::Bad(Fault::BlockLength { block, found: total, rule }));
        }
        let Some(whole) = bytes.get(..total as usize) else {
            return Err(Decoded::More(total as usize, "packet block"));
        };
        let trailing = self.order.u32(whole, total as usize - 4);
        if trailing != total {
            return Err(Decoded::Bad(Fault::TrailingLength { block, leading: total, trailing }));
        }
        Ok(whole)
    }

    /// Enhanced packet block, section 4.3 of the draft.
    #[inline(always)]
    fn enhanced(&self, bytes: &[u8]) -> Decoded {
        match self.frame(bytes, ENHANCED, PACKET_MIN) {
            Ok(whole) => self.timed_packet(whole, self.order.u32(whole, 8)),
            Err(other) => other,
        }
    }

    /// Obsolete packet block, appendix A of the draft: a 16-bit interface index and a count of drops.
    fn obsolete(&self, bytes: &[u8]) -> Decoded {
        match self.frame(bytes, PACKET, PACKET_MIN) {
            Ok(whole) => self.timed_packet(whole, u32::from(self.order.u16(whole, 8))),
            Err(other) => other,
        }
    }

    /// What the enhanced and the obsolete packet block share: time, lengths, packet, options.
    #[inline(always)]
    fn timed_packet(&self, whole: &[u8], interface: u32) -> Decoded {
        let order = self.order;
        let Some(described) = self.interfaces.get(interface as usize) else {
            return self.unknown_interface(interface);
        };
        let units = u64::from(order.u32(whole, 12)) << 32 | u64::from(order.u32(whole, 16));
        let (captured, wire) = (order.u32(whole, 20), order.u32(whole, 24));
        let room = (whole.len() - PACKET_MIN as usize) as u32;
        let limit = MAX_CAPTURED.min(room);
        if captured > limit {
            return Decoded::Bad(Fault::CapturedTooLong { captured, limit });
        }
        let Some(timestamp_ns) = described.nanos(units) else {
            return Decoded::Bad(Fault::TimeRange { units, interface });
        };
        // `room` is a multiple of 4, so that the padded packet fits it too.
        let options = PACKET_DATA + captured.next_multiple_of(4) as usize;
        if options + 4 != whole.len()
            && let Err(fault) = each_option(order, whole, options, |_, _| Ok(()))
        {
            return Decoded::Bad(Fault::Options(fault));
        }
        Decoded::Packet(Span {
            total: whole.len(),
            data: PACKET_DATA,
            captured: captured as usize,
            wire: wire.max(captured),
            interface,
            timestamp_ns: Some(timestamp_ns),
        })
    }

    /// Simple packet block, section 4.4 of the draft: interface 0, no time, captured up to its snap length.
    fn simple(&self, bytes: &[u8]) -> Decoded {
        let whole = match self.frame(bytes, SIMPLE, SIMPLE_MIN) {
            Ok(whole) => whole,
            Err(other) => return other,
        };
        let Some(described) = self.interfaces.first() else {
            return self.unknown_interface(0);
        };
        let wire = self.order.u32(whole, 8);
        let captured = wire.min(described.max_captured);
        let room = (whole.len() - SIMPLE_MIN as usize) as u32;
        if captured > room {
            return Decoded::Bad(Fault::CapturedTooLong { captured, limit: room });
        }
        Decoded::Packet(Span {
            total: whole.len(),
            data: SIMPLE_DATA,
            captured: captured as usize,
            wire,
            interface: 0,
            timestamp_ns: None,
        })
    }

    #[cold]
    fn unknown_interface(&self, interface: u32) -> Decoded {
        Decoded::Bad(Fault::UnknownInterface { interface, known: self.interfaces.len() as u32 })
    }

    /// Takes in a block that is no packet; `offset` is where it begins in the file.
    ///
    /// # Errors
    ///
    /// Whatever in it cannot be believed. The section is unchanged then.
    pub(super) fn take_block(&mut self, bytes: &[u8], offset: u64) -> Result<Step, PcapError> {
        if bytes.len() < BLOCK_HEADER {
            return Ok(Step::More(BLOCK_HEADER, "block header"));
        }
        let block = self.order.u32(bytes, 0);
        if block == SECTION {
            return self.take_section(bytes, offset);
        }
        let total = self.order.u32(bytes, 4);
        let least = if block == INTERFACE { INTERFACE_MIN } else { BLOCK_FRAME as u32 };
        let rule = match length_rule(total, least) {
            // A block that is skipped is never held in memory.
            Some(RULE_MAX) if block != INTERFACE => None,
            rule => rule,
        };
        if let Some(rule) = rule {
            return Err(PcapError::BlockLength { block, offset, found: total, rule });
        }
        if block != INTERFACE {
            return Ok(Step::Skip(total));
        }
        let Some(whole) = bytes.get(..total as usize) else {
            return Ok(Step::More(total as usize, "interface description block"));
        };
        check_trailing(self.order, whole, block, total, offset)?;
        if self.interfaces.len() >= MAX_INTERFACES {
            return Err(PcapError::TooManyInterfaces { offset });
        }
        let described = self.describe(whole, offset)?;
        self.interfaces.push(described);
        Ok(Step::Done(whole.len()))
    }

    /// Section header block, section 4.1 of the draft.
    fn take_section(&mut self, bytes: &[u8], offset: u64) -> Result<Step, PcapError> {
        // The byte order must be known before the length means anything.
        if bytes.len() < BLOCK_FRAME {
            return Ok(Step::More(BLOCK_FRAME, "section header block"));
        }
        let little = Order { swapped: false };
        let magic = little.u32(bytes, 8);
        let order = match magic {
            BYTE_ORDER_MAGIC => little,
            m if m.swap_bytes() == BYTE_ORDER_MAGIC => Order { swapped: true },
            found => return Err(PcapError::ByteOrder { offset, found }),
        };
        let total = order.u32(bytes, 4);
        if let Some(rule) = length_rule(total, SECTION_MIN) {
            return Err(PcapError::BlockLength { block: SECTION, offset, found: total, rule });
        }
        let Some(whole) = bytes.get(..total as usize) else {
            return Ok(Step::More(total as usize, "section header block"));
        };
        check_trailing(order, whole, SECTION, total, offset)?;
        // 1.2 is 1.0 by another name, says the draft.
        let (major, minor) = (order.u16(whole, 12), order.u16(whole, 14));
        if major != 1 || !matches!(minor, 0 | 2) {
            return Err(PcapError::Version { offset: offset + 12, major, minor, wanted: "1.0" });
        }
        // The section's length, bytes 16..24, is a help for jumping over it and may be unknown: not used.
        each_option(order, whole, 24, |_, _| Ok(())).map_err(|fault| option_error(fault, offset))?;
        self.order = order;
        self.interfaces.clear();
        Ok(Step::Done(whole.len()))
    }

    /// Interface description block, section 4.2 of the draft.
    fn describe(&self, whole: &[u8], offset: u64) -> Result<Interface, PcapError> {
        let order = self.order;
        let link = u32::from(order.u16(whole, 8));
        if link != LINKTYPE_ETHERNET {
            let interface = self.interfaces.len() as u32;
            return Err(PcapError::LinkType { offset: offset + 8, interface, found: link });
        }
        let snaplen = order.u32(whole, 12);
        let mut described = Interface {
            max_captured: if snaplen == 0 { MAX_CAPTURED } else { snaplen.min(MAX_CAPTURED) },
            unit: Unit::Times(1_000),
            offset_seconds: 0,
        };
        each_option(order, whole, 16, |code, value| {
            match (code, value) {
                (OPT_TSRESOL, [resolution]) => described.unit = unit_of(*resolution),
                (OPT_TSRESOL, _) => return Err("if_tsresol has 1 byte"),
                (OPT_TSOFFSET, value) if value.len() == 8 => {
                    described.offset_seconds = order.u64(value, 0) as i64;
                }
                (OPT_TSOFFSET, _) => return Err("if_tsoffset has 8 bytes"),
                _ => {}
            }
            Ok(())
        })
        .map_err(|fault| option_error(fault, offset))?;
        Ok(described)
    }
}

/// The rule that a block length breaks.
#[inline(always)]
fn length_rule(total: u32, least: u32) -> Option<&'static str> {
    if total < least {
        Some(RULE_MIN)
    } else if !total.is_multiple_of(4) {
        Some(RULE_FOUR)
    } else if total > MAX_BLOCK {
        Some(RULE_MAX)
    } else {
        None
    }
}

fn check_trailing(
    order: Order,
    whole: &[u8],
    block: u32,
    leading: u32,
    offset: u64,
) -> Result<(), PcapError> {
    let trailing = order.u32(whole, whole.len() - 4);
    if trailing == leading {
        Ok(())
    } else {
        Err(PcapError::TrailingLength { block, offset, leading, trailing })
    }
}

/// Walks the options of a whole block from `at` to its last length, with every length checked against what is
/// left. `visit` says what is wrong with a value.
fn each_option(
    order: Order,
    whole: &[u8],
    mut at: usize,
    mut visit: impl FnMut(u16, &[u8]) -> Result<(), &'static str>,
) -> Result<(), OptionFault> {
    let end = whole.len() - 4;
    // Both are multiples of 4, so that a header is there whenever anything is.
    while at < end {
        let (code, length) = (order.u16(whole, at), u32::from(order.u16(whole, at + 2)));
        if code == OPT_END {
            // What follows the end of options is nobody's.
            return Ok(());
        }
        let room = (end - at - 4) as u32;
        let fault = |rule| OptionFault { at, code, length, room, rule };
        let value_at = at + 4;
        if length.next_multiple_of(4) > room {
            return Err(fault("beyond the end of its block"));
        }
        let value = whole.get(value_at..value_at + length as usize).unwrap_or(&[]);
        visit(code, value).map_err(fault)?;
        at = value_at + length.next_multiple_of(4) as usize;
    }
    Ok(())
}

#[cold]
pub(super) fn option_error(fault: OptionFault, block_offset: u64) -> PcapError {
    let OptionFault { at, code, length, room, rule } = fault;
    PcapError::OptionLength { offset: block_offset + at as u64, code, length, room, rule }
}

/// Section header and one Ethernet interface of a file that is written, little-endian.
pub(super) fn file_header(resolution: Resolution, snaplen: u32) -> Vec<u8> {
    let mut out = Vec::with_capacity(WRITTEN_FILE_HEADER);
    let mut put = |value: u32| out.extend_from_slice(&value.to_le_bytes());
    put(SECTION);
    put(SECTION_MIN);
    put(BYTE_ORDER_MAGIC);
    put(1); // version 1.0
    put(u32::MAX); // section length: unknown
    put(u32::MAX);
    put(SECTION_MIN);
    let total = INTERFACE_MIN + 12;
    put(INTERFACE);
    put(total);
    put(LINKTYPE_ETHERNET);
    put(snaplen);
    put(u32::from(OPT_TSRESOL) | 1 << 16);
    put(match resolution {
        Resolution::Micro => 6,
        Resolution::Nano => 9,
    });
    put(u32::from(OPT_END));
    put(total);
    out
}

/// The fields before the packet of an enhanced packet block that is written, little-endian, and the block's
/// length. `captured` is at most [`MAX_CAPTURED`].
#[inline(always)]
pub(super) fn packet_header(
    timestamp_ns: u64,
    resolution: Resolution,
    captured: u32,
    wire: u32,
) -> ([u8; PACKET_DATA], u32) {
    let units = timestamp_ns / u64::from(resolution.nanos_per_unit());
    let total = PACKET_MIN + captured.next_multiple_of(4);
    let mut header = [0; PACKET_DATA];
    header[0..4].copy_from_slice(&ENHANCED.to_le_bytes());
    header[4..8].copy_from_slice(&total.to_le_bytes());
    header[12..16].copy_from_slice(&((units >> 32) as u32).to_le_bytes());
    header[16..20].copy_from_slice(&(units as u32).to_le_bytes());
    header[20..24].copy_from_slice(&captured.to_le_bytes());
    header[24..28].copy_from_slice(&wire.to_le_bytes());
    (header, total)
}

/// Bytes of [`file_header`].
pub(super) const WRITTEN_FILE_HEADER: usize = (SECTION_MIN + INTERFACE_MIN + 12) as usize;

/// Bytes before the packet in a block that is written.
pub(super) const WRITTEN_HEADER: usize = PACKET_DATA;

#[cfg(test)]
mod tests {
    use super::*;

    fn interface(tsresol: u8, offset_seconds: i64) -> Interface {
        Interface { max_captured: 1, unit: unit_of(tsresol), offset_seconds }
    }

    #[test]
    fn times_of_every_resolution() {
        assert_eq!(interface(6, 0).nanos(1_500_000), Some(1_500_000_000));
        assert_eq!(interface(0, 0).nanos(3), Some(3_000_000_000));
        assert_eq!(interface(9, 0).nanos(u64::MAX), Some(u64::MAX));
        assert_eq!(interface(12, 0).nanos(1_999), Some(1));
        assert_eq!(interface(28, 0).nanos(u64::MAX), Some(1));
        assert_eq!(interface(127, 0).nanos(u64::MAX), Some(0));
        assert_eq!(interface(0x80 | 10, 0).nanos(1536), Some(1_500_000_000));
        assert_eq!(interface(0x80, 0).nanos(2), Some(2_000_000_000));
        assert_eq!(interface(0xff, 0).nanos(u64::MAX), Some(0));
    }

    #[test]
    fn times_outside_64_bits_are_refused() {
        assert_eq!(interface(6, 0).nanos(u64::MAX), None);
        assert_eq!(interface(0x80, 0).nanos(u64::MAX), None);
        assert_eq!(interface(6, i64::MAX).nanos(0), None);
        assert_eq!(interface(6, i64::MIN).nanos(u64::MAX), None);
        assert_eq!(interface(6, -2).nanos(1_999_999), None);
        assert_eq!(interface(6, -2).nanos(2_000_001), Some(1_000));
        assert_eq!(interface(6, 5).nanos(1), Some(5_000_001_000));
    }
}
