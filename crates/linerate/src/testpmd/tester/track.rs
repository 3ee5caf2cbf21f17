//! Which sequence numbers have come: what is missing, came late, or came twice.

/// Numbers behind the highest one of which it is remembered whether they came.
const WINDOW: u64 = 1 << 16;

/// Follows the sequence numbers of one stream.
#[derive(Clone, Debug)]
pub(super) struct Tracker {
    /// One more than the highest number seen.
    next: u64,
    /// A bit for each of the last [`WINDOW`] numbers: it came.
    seen: Box<[u64]>,
    /// Different numbers that came.
    distinct: u64,
    reordered: u64,
    duplicated: u64,
}

impl Tracker {
    pub fn new() -> Self {
        let seen = vec![0; (WINDOW / 64) as usize].into_boxed_slice();
        Tracker { next: 0, seen, distinct: 0, reordered: 0, duplicated: 0 }
    }

    /// Takes the number of a frame that came whole.
    pub fn take(&mut self, sequence: u64) {
        if sequence == self.next {
            self.set(sequence, true);
            self.next += 1;
            self.distinct += 1;
        } else if sequence > self.next {
            // Those passed over are missing until they come late. Beyond a window's width all bits are old.
            for passed in self.next.max(sequence.saturating_sub(WINDOW))..sequence {
                self.set(passed, false);
            }
            self.set(sequence, true);
            self.next = sequence + 1;
            self.distinct += 1;
        } else if self.next - sequence > WINDOW || self.has(sequence) {
            // So late that nobody remembers: it counts as come before, which keeps `distinct` a lower bound.
            self.duplicated += 1;
        } else {
            self.set(sequence, true);
            self.distinct += 1;
            self.reordered += 1;
        }
    }

    /// One more than the highest number that came.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Different numbers that came.
    pub fn distinct(&self) -> u64 {
        self.distinct
    }

    /// Numbers that came after a higher one.
    pub fn reordered(&self) -> u64 {
        self.reordered
    }

    /// Numbers that came again.
    pub fn duplicated(&self) -> u64 {
        self.duplicated
    }

    fn set(&mut self, sequence: u64, came: bool) {
        let at = (sequence % WINDOW) as usize;
        if let Some(word) = self.seen.get_mut(at / 64) {
            *word = *word & !(1 << (at % 64)) | u64::from(came) << (at % 64);
        }
    }

    fn has(&self, sequence: u64) -> bool {
        let at = (sequence % WINDOW) as usize;
        self.seen.get(at / 64).is_some_and(|word| word >> (at % 64) & 1 == 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn of(numbers: impl IntoIterator<Item = u64>) -> (u64, u64, u64, u64) {
        let mut t = Tracker::new();
        numbers.into_iter().for_each(|n| t.take(n));
        (t.next(), t.distinct(), t.reordered(), t.duplicated())
    }

    #[test]
    fn gaps_latecomers_and_doubles_are_told_apart() {
        assert_eq!(of(0..1000), (1000, 1000, 0, 0));
        assert_eq!(of([0, 2, 3]), (4, 3, 0, 0));
        assert_eq!(of([0, 2, 1, 3]), (4, 4, 1, 0));
        assert_eq!(of([0, 0, 1, 1, 0]), (2, 2, 0, 3));
        assert_eq!(of([5, 0, 5, 0]), (6, 2, 1, 2));
        assert_eq!(of([]), (0, 0, 0, 0));
    }

    #[test]
    fn the_window_moves_and_forgets_what_was_before_it() {
        // A whole window missing, then its numbers come: all late, none double.
        let late: Vec<u64> = (1..WINDOW).collect();
        let (next, distinct, reordered, duplicated) = of([0, WINDOW].into_iter().chain(late.iter().copied()));
        assert_eq!((next, distinct, reordered, duplicated), (WINDOW + 1, WINDOW + 1, WINDOW - 1, 0));
        // Bits of an earlier round of the window do not count for a later one.
        let (_, distinct, _, duplicated) = of((0..WINDOW).chain([2 * WINDOW, WINDOW + 5]));
        assert_eq!((distinct, duplicated), (WINDOW + 2, 0));
        // Beyond it nobody remembers.
        assert_eq!(of([3 * WINDOW, 1]).3, 1);
    }

    #[test]
    fn it_agrees_with_a_set_of_numbers() {
        let mut state = 88172645463325252u64;
        let (mut t, mut set, mut late, mut double, mut highest) =
            (Tracker::new(), BTreeSet::new(), 0, 0, None);
        for i in 0..50_000u64 {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            let n = (i + 100).saturating_sub(state % 200);
            t.take(n);
            if !set.insert(n) {
                double += 1;
            } else if highest.is_some_and(|h| n < h) {
                late += 1;
            }
            highest = highest.max(Some(n));
        }
        assert_eq!((t.distinct(), t.reordered(), t.duplicated()), (set.len() as u64, late, double));
    }
}
