//! The Internet checksum (RFC 1071): sums, pseudo headers, incremental update (RFC 1624) and sums over segments.
//!
//! A [`Sum`] is kept in 64 bits and in **little-endian words** whatever the machine: the one's complement sum does not
//! care about byte order as long as it is written back in the order in which it was read (RFC 1071, 2.B), so nothing is
//! swapped on the way. Sums are taken modulo 2^64 - 1, of which 2^16 - 1 is a divisor; that is what makes eight bytes at
//! a time, and folding at the very end, right.

/// Inputs of at least this many bytes go to the vector form. Below, its set-up costs more than it saves
/// (`cargo run --release -p linerate-net --example net_probe`).
const WIDE_FROM: usize = 160;

/// An unfolded one's complement sum of 16-bit words.
///
/// ```
/// use linerate_net::checksum::Sum;
/// // The example of RFC 1071, 3: words 0001 f203 f4f5 f6f7.
/// let sum = Sum::of(&[0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7]);
/// assert_eq!(sum.checksum(), !0xddf2);
/// ```
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Sum = Sum(0);

    /// Sum of `bytes`; an odd last byte counts as if a zero byte followed it.
    #[inline]
    pub fn of(bytes: &[u8]) -> Sum {
        if bytes.len() >= WIDE_FROM {
            return Sum(crate::simd::sum(bytes));
        }
        Sum(sum_short(bytes))
    }

    /// Sum of the one 16-bit word whose value is `word`.
    #[inline]
    pub const fn of_word(word: u16) -> Sum {
        Sum(u16::from_le_bytes(word.to_be_bytes()) as u64)
    }

    /// A sum taken elsewhere, of little-endian words.
    #[inline]
    pub(crate) const fn of_raw(sum: u64) -> Sum {
        Sum(sum)
    }

    /// Sum of eight bytes that stand at an even offset.
    #[inline]
    pub const fn of_8(bytes: [u8; 8]) -> Sum {
        Sum(u64::from_le_bytes(bytes))
    }

    /// Sum of four bytes that stand at an even offset.
    #[inline]
    pub const fn of_4(bytes: [u8; 4]) -> Sum {
        Sum(u32::from_le_bytes(bytes) as u64)
    }

    /// The sum of both.
    #[inline]
    #[must_use]
    pub const fn plus(self, other: Sum) -> Sum {
        Sum(add(self.0, other.0))
    }

    /// The sum without the word that stands as `wire` in the data: a checksum field is taken out of a sum without being
    /// cleared first, which would stall the wide load right behind the narrow store.
    ///
    /// When nothing but zeros remains, the result is the other zero of one's complement (0xFFFF); a pseudo header or a
    /// version field, which are never zero, rule that out.
    #[inline]
    #[must_use]
    pub const fn without(self, wire: [u8; 2]) -> Sum {
        self.plus(Sum(!u16::from_le_bytes(wire) as u64))
    }

    /// The sum as if its bytes had stood one byte later: for a segment that starts at an odd offset.
    #[inline]
    #[must_use]
    pub const fn shifted_by_one(self) -> Sum {
        // A rotation by 8 is a multiplication by 2^8 modulo 2^64 - 1.
        Sum(self.0.rotate_left(8))
    }

    /// Folded to 16 bits, not complemented; 0 only for an input of zeros. The two bytes in wire order.
    #[inline]
    pub const fn folded(self) -> [u8; 2] {
        fold(self.0).to_le_bytes()
    }

    /// The checksum in wire order, ready to be stored.
    #[inline]
    pub const fn to_wire(self) -> [u8; 2] {
        self.to_le().to_le_bytes()
    }

    /// Like [`Sum::to_wire`] by UDP's rule: a computed 0 is sent as 0xFFFF, for 0 would mean "none" (RFC 768).
    #[inline]
    pub const fn to_wire_udp(self) -> [u8; 2] {
        self.to_le_udp().to_le_bytes()
    }

    /// [`Sum::to_wire`] as the number whose least significant byte comes first.
    #[inline]
    pub(crate) const fn to_le(self) -> u16 {
        !fold(self.0)
    }

    /// [`Sum::to_wire_udp`] as the number whose least significant byte comes first.
    #[inline]
    pub(crate) const fn to_le_udp(self) -> u16 {
        let sum = !fold(self.0);
        if sum == 0 { 0xffff } else { sum }
    }

    /// The checksum as a number.
    #[inline]
    pub const fn checksum(self) -> u16 {
        u16::from_be_bytes(self.to_wire())
    }

    /// Does data that carries its own checksum add up? All zeros do not.
    #[inline]
    pub const fn is_valid(self) -> bool {
        fold(self.0) == 0xffff
    }
}

/// Addition modulo 2^64 - 1: the carry comes back in at the other end.
#[inline]
pub(crate) const fn add(a: u64, b: u64) -> u64 {
    let (sum, carry) = a.overflowing_add(b);
    // Cannot carry again: after a carry the low part is at most 2^64 - 2.
    sum + carry as u64
}

/// 64 → 32 → 16 bits. Adding the halves in place, rotated, lets the carry of the low half run into the high one: that is
/// the end-around carry, without a loop or a branch.
#[inline]
const fn fold(sum: u64) -> u16 {
    let sum = (sum.wrapping_add(sum.rotate_left(32)) >> 32) as u32;
    (sum.wrapping_add(sum.rotate_left(16)) >> 16) as u16
}

/// Eight bytes at a time with an add-with-carry chain, which the compiler cannot (and here should not) vectorise; the
/// rest without a branch.
#[inline(always)]
pub(crate) fn sum_short(bytes: &[u8]) -> u64 {
    match bytes.last_chunk::<8>() {
        Some(last) => add(sum_words(bytes), tail(last, bytes.len())),
        None => tail_below_8(bytes),
    }
}

/// Sum of `content`, which ends `whole` and starts at least eight bytes into it: the bytes before it spare a short content
/// its special case.
#[inline(always)]
pub(crate) fn sum_behind(whole: &[u8], content: &[u8]) -> u64 {
    match whole.last_chunk::<8>() {
        Some(last) if content.len() < WIDE_FROM => add(sum_words(content), tail(last, content.len())),
        _ => Sum::of(content).0,
    }
}

/// Sum of the whole eight-byte words of `bytes`. Written out by powers of two: a plain loop gets unrolled into a prologue
/// and an epilogue that cost short inputs more than the sum itself.
#[inline(always)]
fn sum_words(bytes: &[u8]) -> u64 {
    let (blocks, mut rest) = bytes.as_chunks::<32>();
    let mut sum = 0;
    for block in blocks {
        for word in block.as_chunks::<8>().0 {
            sum = add(sum, u64::from_le_bytes(*word));
        }
    }
    if let Some((sixteen, more)) = rest.split_first_chunk::<16>() {
        for word in sixteen.as_chunks::<8>().0 {
            sum = add(sum, u64::from_le_bytes(*word));
        }
        rest = more;
    }
    if let Some(word) = rest.first_chunk::<8>() {
        sum = add(sum, u64::from_le_bytes(*word));
    }
    sum
}

/// The last `len % 8` bytes of the eight in `last`. Two shifts, for one by 64 is none.
#[inline(always)]
fn tail(last: &[u8; 8], len: usize) -> u64 {
    u64::from_le_bytes(*last) >> (56 - 8 * (len % 8)) >> 8
}

/// Fewer than eight bytes, read as one little-endian number.
#[inline]
fn tail_below_8(rest: &[u8]) -> u64 {
    let mut value = 0u64;
    let mut bytes = rest;
    let mut shift = 0;
    if let Some((four, more)) = bytes.split_first_chunk::<4>() {
        value = u64::from(u32::from_le_bytes(*four));
        (shift, bytes) = (32, more);
    }
    if let Some((two, more)) = bytes.split_first_chunk::<2>() {
        value |= u64::from(u16::from_le_bytes(*two)) << shift;
        (shift, bytes) = (shift + 16, more);
    }
    if let Some(one) = bytes.first() {
        value |= u64::from(*one) << shift;
    }
    value
}

/// The Internet checksum of `bytes` as a number (0 for an input whose words add up to 0xFFFF).
#[inline]
pub fn checksum(bytes: &[u8]) -> u16 {
    Sum::of(bytes).checksum()
}

/// The definition of RFC 1071 written as plainly as it can be: word by word, most significant byte first. Slow; the
/// oracle of every other form.
pub fn checksum_scalar(bytes: &[u8]) -> u16 {
    let mut sum: u32 = 0;
    for pair in bytes.chunks(2) {
        let word = match pair {
            [high, low] => u16::from_be_bytes([*high, *low]),
            [high] => u16::from_be_bytes([*high, 0]),
            _ => 0,
        };
        sum += u32::from(word);
        if sum > 0xffff {
            sum -= 0xffff;
        }
    }
    !(sum as u16)
}

/// Sum of the IPv4 pseudo header (RFC 768, RFC 9293): addresses, protocol and the length of the L4 part in bytes.
#[inline]
pub fn pseudo_v4(src: [u8; 4], dst: [u8; 4], proto: u8, l4_len: u16) -> Sum {
    // Four values of at most 32 bits each cannot carry out of 64.
    Sum(Sum::of_4(src).0 + Sum::of_4(dst).0 + Sum::of_word(u16::from(proto)).0 + Sum::of_word(l4_len).0)
}

/// Sum of the IPv6 pseudo header (RFC 8200, 8.1): addresses, protocol and the length of the L4 part in bytes.
#[inline]
pub fn pseudo_v6(src: &[u8; 16], dst: &[u8; 16], proto: u8, l4_len: u32) -> Sum {
    let small = Sum::of_4(l4_len.to_be_bytes()).0 + Sum::of_word(u16::from(proto)).0;
    Sum(small).plus(Sum(sum_short(src))).plus(Sum(sum_short(dst)))
}

/// The checksum after one 16-bit word that it covers changed from `old` to `new` (RFC 1624, equation 3).
#[inline]
pub const fn update_u16(checksum: u16, old: u16, new: u16) -> u16 {
    let sum = !checksum as u32 + !old as u32 + new as u32;
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    !(sum as u16)
}

/// Like [`update_u16`] for two words at once, such as an IPv4 address.
#[inline]
pub const fn update_u32(checksum: u16, old: u32, new: u32) -> u16 {
    let checksum = update_u16(checksum, (old >> 16) as u16, (new >> 16) as u16);
    update_u16(checksum, old as u16, new as u16)
}

/// A sum that grows segment by segment, of any lengths, odd ones included: a packet in several buffers.
#[derive(Clone, Copy, Debug, Default)]
pub struct SegmentSum {
    sum: Sum,
    odd: bool,
}

impl SegmentSum {
    /// Starts from `sum`, usually that of the pseudo header.
    #[inline]
    pub const fn starting_with(sum: Sum) -> Self {
        SegmentSum { sum, odd: false }
    }

    /// Adds the bytes that come next in the packet.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        let part = Sum::of(bytes);
        self.sum = self.sum.plus(if self.odd { part.shifted_by_one() } else { part });
        self.odd ^= bytes.len() & 1 != 0;
    }

    /// The sum of all that was added.
    #[inline]
    pub const fn sum(self) -> Sum {
        self.sum
    }
}

/// What a check of a received checksum found.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Verdict {
    /// There is nothing to check: no such header, a UDP checksum of 0 over IPv4, a fragment.
    #[default]
    Absent,
    /// The checksum is right.
    Good,
    /// The checksum is wrong.
    Bad,
    /// The lengths contradict each other or the packet, so that there is nothing which could be summed.
    Invalid,
}

impl Verdict {
    /// Is this to be counted as a bad packet?
    #[inline]
    pub const fn is_bad(self) -> bool {
        matches!(self, Verdict::Bad | Verdict::Invalid)
    }

    /// [`Verdict::Good`] or [`Verdict::Bad`].
    #[inline]
    pub(crate) const fn of(sum: Sum) -> Verdict {
        if sum.is_valid() { Verdict::Good } else { Verdict::Bad }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_values() {
        // RFC 1071, 3.
        assert_eq!(checksum(&[0, 1, 0xf2, 3, 0xf4, 0xf5, 0xf6, 0xf7]), 0x220d);
        assert_eq!(checksum(&[]), 0xffff);
        assert_eq!(checksum(&[0x12]), !0x1200);
        assert_eq!(checksum(&[0xff; 40]), 0);
        assert!(!Sum::of(&[0; 20]).is_valid() && Sum::of(&[0xff; 20]).is_valid());
    }

    #[test]
    fn udp_never_sends_zero() {
        assert_eq!(Sum::of(&[0xff; 2]).to_wire(), [0, 0]);
        assert_eq!(Sum::of(&[0xff; 2]).to_wire_udp(), [0xff, 0xff]);
        assert_eq!(Sum::of(&[0x12, 0x34]).to_wire_udp(), (!0x1234u16).to_be_bytes());
    }

    #[test]
    fn every_length_and_alignment_of_extreme_bytes() {
        for fill in [0x00u8, 0x01, 0x80, 0xff] {
            let bytes = vec![fill; 700];
            for len in 0..=600 {
                for start in [0, 1, 3, 7, 31] {
                    let part = &bytes[start..start + len];
                    assert_eq!(checksum(part), checksum_scalar(part), "{fill:#x} {len}@{start}");
                }
            }
        }
    }

    #[test]
    fn a_megabyte_of_ones_does_not_overflow() {
        let bytes = vec![0xff; (1 << 21) + 3];
        assert_eq!(checksum(&bytes), checksum_scalar(&bytes));
        let bytes = vec![0x80; (1 << 21) + 3];
        assert_eq!(checksum(&bytes), checksum_scalar(&bytes));
    }

    #[test]
    fn incremental_update_of_rfc_1624() {
        // RFC 1624, 4: checksum dd2f, word 5555 becomes 3285, gives 0000 and not ffff.
        assert_eq!(update_u16(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    proptest! {
        #[test]
        fn fast_is_scalar(bytes in proptest::collection::vec(any::<u8>(), 0..2200), start in 0usize..64) {
            let part = &bytes[start.min(bytes.len())..];
            prop_assert_eq!(checksum(part), checksum_scalar(part));
            prop_assert_eq!(Sum(sum_short(part)).checksum(), checksum_scalar(part));
        }

        #[test]
        fn segments_of_any_length_make_the_whole(
            bytes in proptest::collection::vec(any::<u8>(), 0..600),
            cuts in proptest::collection::vec(0usize..600, 0..8),
        ) {
            let mut cuts: Vec<usize> = cuts.into_iter().map(|c| c.min(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let mut sum = SegmentSum::default();
            for pair in cuts.windows(2) {
                sum.add(&bytes[pair[0]..pair[1]]);
            }
            prop_assert_eq!(sum.sum().checksum(), checksum_scalar(&bytes));
        }

        #[test]
        fn incremental_is_recomputed(
            mut bytes in proptest::collection::vec(any::<u8>(), 4..100),
            at in any::<prop::sample::Index>(),
            new in any::<u32>(),
        ) {
            // A word that is never zero keeps the sum away from "all zeros", which alone has two representations.
            bytes.splice(0..0, [0x45, 0x00]);
            let old_sum = checksum(&bytes);
            let at = 2 + at.index((bytes.len() - 2) / 2 - 1) * 2;
            let old = u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap());
            bytes[at..at + 4].copy_from_slice(&new.to_be_bytes());
            prop_assert_eq!(update_u32(old_sum, old, new), checksum_scalar(&bytes));
            let half = (old & 0xffff_0000) | (new & 0xffff);
            bytes[at..at + 4].copy_from_slice(&half.to_be_bytes());
            prop_assert_eq!(update_u16(old_sum, old as u16, new as u16), checksum_scalar(&bytes));
        }

        #[test]
        fn pseudo_headers_are_their_bytes(
            src in any::<[u8; 16]>(), dst in any::<[u8; 16]>(), proto in any::<u8>(), len in any::<u32>(),
        ) {
            let mut v6 = [src, dst].concat();
            v6.extend(len.to_be_bytes());
            v6.extend([0, 0, 0, proto]);
            prop_assert_eq!(pseudo_v6(&src, &dst, proto, len).checksum(), checksum_scalar(&v6));

            let (src, dst): ([u8; 4], [u8; 4]) = (src[..4].try_into().unwrap(), dst[..4].try_into().unwrap());
            let mut v4 = [src, dst].concat();
            v4.extend([0, proto]);
            v4.extend((len as u16).to_be_bytes());
            prop_assert_eq!(pseudo_v4(src, dst, proto, len as u16).checksum(), checksum_scalar(&v4));
        }
    }
}
