//! Ranges of a packet that lies in several segments: the first one, which holds the headers, and a tail.

use crate::checksum::{SegmentSum, Sum};
use crate::crc32c::Crc32c;

/// The segments after the first. Cheap to clone: each checksum walks them anew.
pub(crate) trait Tail<'t>: Iterator<Item = &'t [u8]> + Clone {}
impl<'t, T: Iterator<Item = &'t [u8]> + Clone> Tail<'t> for T {}

/// Calls `each` with the pieces of the packet's bytes `from..to`, in order; false when the packet ends before `to`, or
/// the range is upside down.
#[inline]
fn for_range<'t>(
    head: &[u8],
    tail: impl Tail<'t>,
    from: usize,
    to: usize,
    mut each: impl FnMut(&[u8]),
) -> bool {
    if from > to {
        return false;
    }
    if let Some(range) = head.get(from..to) {
        each(range);
        return true;
    }
    if let Some(range) = head.get(from..) {
        each(range);
    }
    let mut start = head.len();
    for segment in tail {
        let end = start + segment.len();
        let range = from.saturating_sub(start)..to.saturating_sub(start).min(segment.len());
        if let Some(range) = segment.get(range) {
            each(range);
        }
        if to <= end {
            return true;
        }
        start = end;
    }
    to <= start
}

/// One's complement sum of the packet's bytes `from..to`, of which the first counts as even.
#[inline]
pub(crate) fn sum_range<'t>(head: &[u8], tail: impl Tail<'t>, from: usize, to: usize) -> Option<Sum> {
    let mut sum = SegmentSum::default();
    for_range(head, tail, from, to, |bytes| sum.add(bytes)).then_some(sum.sum())
}

/// CRC32c of the SCTP packet in `from..to` with its checksum field taken as zero.
pub(crate) fn sctp_crc<'t>(head: &[u8], tail: impl Tail<'t>, from: usize, to: usize) -> Option<u32> {
    let mut crc = Crc32c::new();
    crc.add(head.get(from..from.checked_add(8)?)?);
    crc.add(&[0; 4]);
    for_range(head, tail, from + 12, to, |bytes| crc.add(bytes)).then_some(crc.value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checksum::checksum_scalar;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn ranges_over_segments_are_ranges_of_the_whole(
            segments in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..6),
            from in 0usize..200,
            to in 0usize..200,
        ) {
            let whole = segments.concat();
            let (head, tail) = segments.split_first().unwrap();
            let found = sum_range(head, tail.iter().map(Vec::as_slice), from, to).map(Sum::checksum);
            prop_assert_eq!(found, whole.get(from..to).map(checksum_scalar));
            let mut pieces = Vec::new();
            let inside = for_range(head, tail.iter().map(Vec::as_slice), from, to, |p| pieces.extend_from_slice(p));
            if inside {
                prop_assert_eq!(&pieces[..], &whole[from..to]);
            }
        }
    }
}
