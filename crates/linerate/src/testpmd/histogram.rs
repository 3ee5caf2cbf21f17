//! How often a burst had which size, and the line that tells it.

use linerate_mbuf::BURST_MAX;
use std::fmt::{self, Write};

/// Sizes there are: none to [`BURST_MAX`].
const SIZES: usize = BURST_MAX + 1;

/// A count for every size of burst. One writer.
#[derive(Clone)]
pub(super) struct Histogram(Box<[u64; SIZES]>);

impl Histogram {
    pub fn new() -> Self {
        Histogram(Box::new([0; SIZES]))
    }

    /// Counts one burst.
    #[inline(always)]
    pub fn count(&mut self, size: usize) {
        if let Some(cell) = self.0.get_mut(size) {
            *cell += 1;
        }
    }

    /// Adds another histogram.
    pub fn add(&mut self, other: &Histogram) {
        for (cell, more) in self.0.iter_mut().zip(other.0.iter()) {
            *cell += more;
        }
    }

    /// Bursts counted.
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    /// The sizes that occurred, ascending, each with its count.
    pub fn cells(&self) -> impl Iterator<Item = (usize, u64)> {
        self.0.iter().copied().enumerate().filter(|&(_, count)| count > 0)
    }

    /// testpmd's burst line without its label: `100 [50% of 0 pkts + 30% of 32 pkts + 20% of other]`.
    ///
    /// Size 0 first, then the two most frequent others, of equals the smaller one; percentages are cut to whole
    /// numbers and the last one printed takes what is left of 100. `None` when nothing was counted.
    pub fn line(&self) -> Option<String> {
        let total = self.total();
        if total == 0 {
            return None;
        }
        let mut shown = vec![(0, self.0[0])];
        for _ in 0..2 {
            let mut most: Option<(usize, u64)> = None;
            for (size, count) in self.cells() {
                if shown.iter().all(|s| s.0 != size) && most.is_none_or(|m| count > m.1) {
                    most = Some((size, count));
                }
            }
            shown.extend(most);
        }
        let mut line = format!("{total} [");
        let (mut percent, mut covered) = (0, 0);
        for (size, count) in shown {
            covered += count;
            if covered == total {
                _ = write!(line, "{}% of {size} pkts]", 100 - percent);
                return Some(line);
            }
            // Wide: a count times 100 may pass 64 bits.
            let part = (u128::from(count) * 100 / u128::from(total)) as u64;
            _ = write!(line, "{part}% of {size} pkts + ");
            percent += part;
        }
        _ = write!(line, "{}% of other]", 100 - percent);
        Some(line)
    }
}

impl fmt::Debug for Histogram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.cells()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(cells: &[(usize, u64)]) -> Histogram {
        let mut h = Histogram::new();
        for &(size, count) in cells {
            h.0[size] = count;
        }
        h
    }

    #[test]
    fn the_line_is_testpmds() {
        for (cells, line) in [
            (
                &[(0, 50), (32, 30), (8, 15), (4, 5)][..],
                "100 [50% of 0 pkts + 30% of 32 pkts + 15% of 8 pkts + 5% of other]",
            ),
            (&[(32, 10)], "10 [0% of 0 pkts + 100% of 32 pkts]"),
            (&[(0, 7)], "7 [100% of 0 pkts]"),
            // Cut, not rounded; the last one takes the rest.
            (&[(0, 1), (32, 2)], "3 [33% of 0 pkts + 67% of 32 pkts]"),
            (&[(1, 1), (2, 1), (3, 1)], "3 [0% of 0 pkts + 33% of 1 pkts + 33% of 2 pkts + 34% of other]"),
            (
                &[(512, u64::MAX / 2), (3, 1)],
                "9223372036854775808 [0% of 0 pkts + 99% of 512 pkts + 1% of 3 pkts]",
            ),
        ] {
            assert_eq!(of(cells).line().as_deref(), Some(line));
        }
        assert_eq!(Histogram::new().line(), None);
    }

    #[test]
    fn every_size_has_its_cell_and_sums_add_up() {
        let mut h = Histogram::new();
        for size in 0..=512 {
            h.count(size);
        }
        h.count(513);
        assert_eq!((h.total(), h.cells().count()), (513, 513));
        let other = h.clone();
        h.add(&other);
        assert_eq!(h.total(), 1026);
        assert!(h.cells().all(|(_, n)| n == 2));
    }
}
