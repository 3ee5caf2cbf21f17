//! From a cycle counter to the time of a record.

use super::NANOS_PER_SECOND;

/// Turns readings of a free-running counter into nanoseconds since 1970.
///
/// `(cycles × 10⁹) / hz` in 64 bits overflows after some seconds (7.4 s at 2.5 GHz) and lets time run
/// backwards; here the rate is a fixed-point factor of as many bits as fit, multiplied in 128 bits. The result
/// never decreases while the counter does not, and is within two nanoseconds of the exact quotient for as long as
/// the counter fits 64 bits and the result lies before 2554.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeBase {
    start_cycles: u64,
    start_ns: u64,
    /// 10⁹ / hz × 2^shift, rounded down.
    factor: u64,
    shift: u32,
}

impl TimeBase {
    /// Ties `start_cycles` of a counter of `hz` ticks a second to `start_ns` nanoseconds since 1970.
    ///
    /// # Panics
    ///
    /// When `hz` is 0: no clock stands still.
    pub fn new(hz: u64, start_cycles: u64, start_ns: u64) -> Self {
        assert!(hz > 0, "a clock of 0 Hz");
        // The largest shift whose factor fits 64 bits; 10⁹ < 2³⁰, so that 30 + 64 bits never leave 128.
        let mut shift = 64;
        let mut factor = (u128::from(NANOS_PER_SECOND) << shift) / u128::from(hz);
        while factor > u128::from(u64::MAX) {
            shift -= 1;
            factor = (u128::from(NANOS_PER_SECOND) << shift) / u128::from(hz);
        }
        TimeBase { start_cycles, start_ns, factor: factor as u64, shift }
    }

    /// Nanoseconds since 1970 at a reading of the counter; the start's for a reading before it, the last
    /// that 64 bits hold for one beyond.
    #[inline]
    pub fn ns_at(&self, cycles: u64) -> u64 {
        let passed = u128::from(cycles.saturating_sub(self.start_cycles));
        let ns = (passed * u128::from(self.factor)) >> self.shift;
        self.start_ns.saturating_add(u64::try_from(ns).unwrap_or(u64::MAX))
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
        let base = TimeBase::new(HZ, 1_000, start_ns);
        for (cycles, wanted) in [(0, 0), (HZ / 4, 250_000_000), (9 * HZ, 9_000_000_000)] {
            let got = base.ns_at(1_000 + cycles) - start_ns;
            assert!(got.abs_diff(wanted) <= 1, "{cycles}: {got}");
        }
        assert_eq!(base.ns_at(0), start_ns);
    }

    proptest! {
        #[test]
        fn close_to_exact_and_monotone(hz in 1_000u64..20_000_000_000, a in any::<u64>(), b in any::<u64>()) {
            let base = TimeBase::new(hz, 0, 0);
            let exact = u128::from(a) * 1_000_000_000 / u128::from(hz);
            if let Ok(exact) = u64::try_from(exact) {
                prop_assert!(base.ns_at(a).abs_diff(exact) <= 2);
            } else {
                prop_assert!(base.ns_at(a) >= u64::MAX - 2);
            }
            prop_assert_eq!(a <= b, base.ns_at(a) <= base.ns_at(b) && (a <= b));
        }
    }
}
