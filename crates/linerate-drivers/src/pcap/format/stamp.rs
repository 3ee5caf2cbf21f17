//! From a cycle counter to the time of a record.

use linerate_mem::{CycleScale, cycles_between, is_before};

/// Turns readings of a free-running counter into nanoseconds since 1970.
///
/// `(cycles × 10⁹) / hz` in 64 bits overflows after some seconds (7.4 s at 2.5 GHz) and lets time run
/// backwards; [`CycleScale`] multiplies in 128 bits. The result never decreases while the counter does not, and
/// is within two nanoseconds of the exact quotient.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeBase {
    scale: CycleScale,
    start_cycles: u64,
    start_ns: u64,
}

impl TimeBase {
    /// Ties `start_cycles` of a counter to `start_ns` nanoseconds since 1970.
    pub fn new(scale: CycleScale, start_cycles: u64, start_ns: u64) -> Self {
        TimeBase { scale, start_cycles, start_ns }
    }

    /// Nanoseconds since 1970 at a reading of the counter, right across its wrap; the start's for a reading
    /// before it, the last that 64 bits hold for one beyond.
    #[inline]
    pub fn ns_at(&self, cycles: u64) -> u64 {
        if is_before(cycles, self.start_cycles) {
            return self.start_ns;
        }
        let passed = self.scale.cycles_to_ns(cycles_between(self.start_cycles, cycles));
        self.start_ns.saturating_add(passed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const HZ: u64 = 2_500_000_000;

    /// Bug case 17: a quarter of a second, and past the 7.4 s at which cycles × 10⁹ leaves 64 bits.
    #[test]
    fn a_quarter_and_nine_seconds() {
        let start_ns = 1_700_000_000_750_000_000;
        for start_cycles in [1_000, u64::MAX - 3] {
            let base = TimeBase::new(CycleScale::new(HZ), start_cycles, start_ns);
            for (cycles, wanted) in [(0, 0), (HZ / 4, 250_000_000), (9 * HZ, 9_000_000_000)] {
                let got = base.ns_at(start_cycles.wrapping_add(cycles)) - start_ns;
                assert!(got.abs_diff(wanted) <= 1, "{cycles}: {got}");
            }
            assert_eq!(base.ns_at(start_cycles - 1), start_ns);
        }
    }

    proptest! {
        #[test]
        fn close_to_exact_and_monotone(hz in 1_000u64..20_000_000_000, a in 0..u64::MAX / 2, b in 0..u64::MAX / 2) {
            let base = TimeBase::new(CycleScale::new(hz), 0, 0);
            let exact = u128::from(a) * 1_000_000_000 / u128::from(hz);
            if let Ok(exact) = u64::try_from(exact) {
                prop_assert!(base.ns_at(a).abs_diff(exact) <= 2);
            } else {
                prop_assert!(base.ns_at(a) >= u64::MAX - 2);
            }
            prop_assert!(a > b || base.ns_at(a) <= base.ns_at(b));
        }
    }
}
