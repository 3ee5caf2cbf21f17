//! The processor's time-stamp counter as a clock, with the error of its calibration.
//!
//! The rate is measured, not believed: against `CLOCK_MONOTONIC_RAW`, in several windows one after the other. Each
//! reading of the kernel's clock stands between two readings of the counter, so each carries a bound on its own
//! error; the points between the ends show whether the rate was steady. Both go into [`TscClock::error_ppm`].
//!
//! Conversions widen to 128 bits: `cycles × 10⁹` in 64 bits overflows after 6.1 s at 3 GHz, and a clock that starts
//! just below 2⁶⁴ wraps. Counter values are compared with [`is_before`] and subtracted with [`cycles_between`].
//!
//! Follows the Intel SDM, volume 3, "Time-Stamp Counter" (RDTSC, RDTSCP, invariant TSC: CPUID 8000_0007h EDX bit 8)
//! and the Arm ARM, "Generic Timer" (CNTVCT_EL0, CNTFRQ_EL0).

use std::fmt;
use std::sync::OnceLock;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

const NS_PER_S: u64 = 1_000_000_000;

/// The counter now. The processor may execute this before earlier loads have finished; for the edges of a
/// measurement take [`rdtsc_ordered`].
#[inline(always)]
#[must_use]
pub fn rdtsc() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        // SAFETY: every x86-64 processor has the instruction; Linux leaves it to user space (bar PR_SET_TSC).
        unsafe { std::arch::x86_64::_rdtsc() }
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: reads a register that Linux leaves to user space; touches no memory.
        unsafe {
            std::arch::asm!("mrs {}, cntvct_el0", out(reg) count, options(nomem, nostack, preserves_flags))
        };
        count
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    monotonic_raw_ns()
}

/// The counter now, read after everything before it has been executed and before anything after it begins.
#[inline(always)]
#[must_use]
pub fn rdtsc_ordered() -> u64 {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::{_mm_lfence, _rdtsc};
        // SAFETY: lfence is part of SSE2, which every x86-64 processor has.
        unsafe { _mm_lfence() };
        // SAFETY: see `rdtsc`.
        let count = unsafe { _rdtsc() };
        // SAFETY: as the first fence.
        unsafe { _mm_lfence() };
        count
    }
    #[cfg(target_arch = "aarch64")]
    {
        let count: u64;
        // SAFETY: see `rdtsc`; the barriers order execution and touch no memory.
        unsafe {
            std::arch::asm!("isb", "mrs {}, cntvct_el0", "isb", out(reg) count, options(nostack, preserves_flags))
        };
        count
    }
    #[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
    monotonic_raw_ns()
}

/// Cycles from `earlier` to `later`, right across the wrap of the counter.
#[inline(always)]
#[must_use]
pub const fn cycles_between(earlier: u64, later: u64) -> u64 {
    later.wrapping_sub(earlier)
}

/// Whether counter value `a` was read before `b`, right across the wrap for values less than 2⁶³ apart.
#[inline(always)]
#[must_use]
pub const fn is_before(a: u64, b: u64) -> bool {
    (a.wrapping_sub(b) as i64) < 0
}

fn monotonic_raw_ns() -> u64 {
    let now = clock_gettime(ClockId::MonotonicRaw);
    (now.tv_sec as u64).wrapping_mul(NS_PER_S).wrapping_add(now.tv_nsec as u64)
}

/// Converts counter cycles to nanoseconds by one 128-bit multiplication and a shift.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CycleScale {
    hz: u64,
    /// 10⁹ / hz in units of 2^-shift, rounded up, so that whole results do not fall one short.
    mult: u64,
    shift: u32,
}

impl CycleScale {
    /// A scale for a counter of `hz` cycles a second.
    ///
    /// # Panics
    /// When `hz` is zero: no counter stands still.
    #[must_use]
    pub const fn new(hz: u64) -> Self {
        assert!(hz > 0, "a clock of 0 Hz");
        let mut shift = 96; // 10⁹ << 96 still fits 128 bits
        loop {
            let mult = ((NS_PER_S as u128) << shift).div_ceil(hz as u128);
            if mult <= u64::MAX as u128 {
                return Self { hz, mult: mult as u64, shift };
            }
            shift -= 1;
        }
    }

    /// Cycles a second.
    #[inline]
    #[must_use]
    pub const fn hz(self) -> u64 {
        self.hz
    }

    /// Nanoseconds that `cycles` take: never overflows, stops at `u64::MAX` (584 years).
    #[inline]
    #[must_use]
    pub const fn cycles_to_ns(self, cycles: u64) -> u64 {
        let ns = (cycles as u128 * self.mult as u128) >> self.shift;
        if ns > u64::MAX as u128 { u64::MAX } else { ns as u64 }
    }

    /// Cycles that `ns` nanoseconds take: never overflows, stops at `u64::MAX`.
    #[inline]
    #[must_use]
    pub const fn ns_to_cycles(self, ns: u64) -> u64 {
        let cycles = ns as u128 * self.hz as u128 / NS_PER_S as u128;
        if cycles > u64::MAX as u128 { u64::MAX } else { cycles as u64 }
    }
}

/// The calibrated counter. Copies are as good as the original.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct TscClock {
    scale: CycleScale,
    error_ppm: f64,
    invariant: bool,
    span: Duration,
    zero: u64,
}

/// One reading of the kernel's clock between two of the counter.
#[derive(Debug, Clone, Copy)]
struct Point {
    ns: u64,
    /// Middle of the two counter readings.
    cycles: u64,
    /// Half their distance: how wrong the middle can be.
    half: u64,
}

impl Point {
    /// The tightest of several tries: a try may be torn apart by an interrupt.
    fn read() -> Self {
        let mut best: Option<Self> = None;
        for _ in 0..16 {
            let before = rdtsc_ordered();
            let ns = monotonic_raw_ns();
            let after = rdtsc_ordered();
            let half = cycles_between(before, after).div_ceil(2);
            if best.is_none_or(|b| half < b.half) {
                best = Some(Self { ns, cycles: before.wrapping_add(half), half });
            }
        }
        best.unwrap_or(Self { ns: 0, cycles: 0, half: u64::MAX })
    }
}

impl TscClock {
    /// Windows of a calibration and the length of each: 40 ms in all.
    const WINDOWS: u32 = 5;
    const WINDOW: Duration = Duration::from_millis(8);

    /// Measures the counter's rate; takes 40 ms and sleeps through them.
    #[must_use]
    pub fn calibrate() -> Self {
        Self::calibrate_over(Self::WINDOWS, Self::WINDOW)
    }

    /// The clock of this process, calibrated on first use.
    #[must_use]
    pub fn shared() -> Self {
        static SHARED: OnceLock<TscClock> = OnceLock::new();
        *SHARED.get_or_init(Self::calibrate)
    }

    /// Measures over `windows` windows (at least 2) of `window` each: longer windows, smaller error.
    #[must_use]
    pub fn calibrate_over(windows: u32, window: Duration) -> Self {
        let mut points = vec![Point::read()];
        for _ in 0..windows.max(2) {
            std::thread::sleep(window.max(Duration::from_micros(100)));
            points.push(Point::read());
        }
        let (hz, error_ppm, ns) = fit(&points);
        Self {
            scale: CycleScale::new(hz),
            error_ppm,
            invariant: invariant(),
            span: Duration::from_nanos(ns),
            zero: rdtsc(),
        }
    }

    /// Cycles a second.
    #[inline]
    #[must_use]
    pub fn hz(&self) -> u64 {
        self.scale.hz
    }

    /// How wrong [`hz`](Self::hz) may be, in parts per million, against `CLOCK_MONOTONIC_RAW` (whose own crystal may
    /// be some tens off).
    #[must_use]
    pub fn error_ppm(&self) -> f64 {
        self.error_ppm
    }

    /// Whether the processor says that its counter runs at one rate whatever its power state.
    #[must_use]
    pub fn is_invariant(&self) -> bool {
        self.invariant
    }

    /// What the clock is and how it was measured, for a report beside its figures.
    #[must_use]
    pub fn source(&self) -> String {
        let counter = if cfg!(target_arch = "x86_64") {
            if self.invariant {
                "invariant TSC"
            } else {
                "TSC, not invariant (its rate may follow the core's)"
            }
        } else if cfg!(target_arch = "aarch64") {
            "CNTVCT_EL0"
        } else {
            "CLOCK_MONOTONIC_RAW"
        };
        format!("{counter}, measured against CLOCK_MONOTONIC_RAW over {} ms", self.span.as_millis())
    }

    /// The counter now.
    #[inline(always)]
    #[must_use]
    pub fn now_cycles(&self) -> u64 {
        rdtsc()
    }

    /// Nanoseconds since the calibration ended.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.scale.cycles_to_ns(cycles_between(self.zero, rdtsc()))
    }

    /// The conversion between cycles and nanoseconds.
    #[inline]
    #[must_use]
    pub fn scale(&self) -> CycleScale {
        self.scale
    }
}

impl fmt::Display for TscClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:.3} MHz ± {:.1} ppm ({})", self.hz() as f64 / 1e6, self.error_ppm, self.source())
    }
}

/// Rate, error and length of a series of points: the line through the ends; its error is what the ends may be off
/// plus the farthest that a point between lies from it, both against the whole length.
fn fit(points: &[Point]) -> (u64, f64, u64) {
    let (Some(first), Some(last)) = (points.first(), points.last()) else {
        return (NS_PER_S, f64::INFINITY, 0);
    };
    let ns = last.ns.wrapping_sub(first.ns).max(1);
    let cycles = cycles_between(first.cycles, last.cycles);
    let hz = (u128::from(cycles) * u128::from(NS_PER_S) + u128::from(ns / 2)) / u128::from(ns);
    let off_line = points
        .iter()
        .map(|p| {
            let on_line = u128::from(p.ns.wrapping_sub(first.ns)) * u128::from(cycles) / u128::from(ns);
            (on_line as i128 - i128::from(cycles_between(first.cycles, p.cycles))).unsigned_abs()
        })
        .max()
        .unwrap_or(0);
    // The kernel's clock ticks in whole nanoseconds: one more at either end.
    let tick = 2 * cycles.div_ceil(ns);
    let off = u128::from(first.half) + u128::from(last.half) + u128::from(tick) + off_line;
    let error_ppm = off as f64 / cycles.max(1) as f64 * 1e6;
    (u64::try_from(hz).unwrap_or(u64::MAX).max(1), error_ppm, ns)
}

fn invariant() -> bool {
    #[cfg(target_arch = "x86_64")]
    {
        use std::arch::x86_64::__cpuid;
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    }
    #[cfg(not(target_arch = "x86_64"))]
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ten_seconds_at_three_gigahertz_are_ten_seconds() {
        let scale = CycleScale::new(3_000_000_000);
        assert_eq!(scale.cycles_to_ns(30_000_000_000), 10_000_000_000);
        assert_eq!(scale.ns_to_cycles(10_000_000_000), 30_000_000_000);
        let scale = CycleScale::new(2_500_000_000);
        assert_eq!(scale.cycles_to_ns(9 * 2_500_000_000), 9_000_000_000);
        assert_eq!(scale.cycles_to_ns(2_500_000_000 / 4), 250_000_000);
    }

    #[test]
    fn a_delay_across_the_wrap_is_its_length() {
        let scale = CycleScale::new(3_000_000_000);
        let start = u64::MAX - 999;
        let end = start.wrapping_add(30_000_000_000);
        assert_eq!(scale.cycles_to_ns(cycles_between(start, end)), 10_000_000_000);
        assert!(is_before(start, end) && !is_before(end, start) && !is_before(start, start));
    }

    #[test]
    fn extreme_rates_and_lengths_neither_overflow_nor_stop() {
        for hz in [1, 32_768, 1_000_000, 19_200_000, 999_999_999, NS_PER_S, 2_599_998_001, u64::MAX] {
            let scale = CycleScale::new(hz);
            assert_eq!(scale.hz(), hz);
            assert_eq!(scale.cycles_to_ns(0), 0);
            assert_eq!(scale.cycles_to_ns(hz), NS_PER_S, "one second at {hz} Hz");
            let exact = u128::from(u64::MAX) * u128::from(NS_PER_S) / u128::from(hz);
            let exact = u64::try_from(exact).unwrap_or(u64::MAX);
            // The multiplier has 64 bits, the highest of which is set: two parts in 2⁶⁴ at the far end.
            assert!(scale.cycles_to_ns(u64::MAX).abs_diff(exact) <= 2, "{hz}");
        }
        assert_eq!(CycleScale::new(1).ns_to_cycles(u64::MAX), u64::MAX / NS_PER_S);
        assert_eq!(CycleScale::new(u64::MAX).ns_to_cycles(u64::MAX), u64::MAX);
    }

    proptest::proptest! {
        #[test]
        fn conversion_is_within_a_nanosecond_for_days(hz in 1_000_000u64..6_000_000_000, ns in 0u64..1 << 50) {
            let scale = CycleScale::new(hz);
            let cycles = scale.ns_to_cycles(ns);
            let exact = u128::from(cycles) * u128::from(NS_PER_S) / u128::from(hz);
            let got = u128::from(scale.cycles_to_ns(cycles));
            proptest::prop_assert!(got == exact || got == exact + 1, "{got} {exact}");
        }
    }

    #[test]
    fn a_fit_finds_the_rate_and_owns_up_to_its_error() {
        let point = |ms: u64, off: i64| {
            let cycles = (u64::MAX - 5000).wrapping_add(ms * 2_600_000).wrapping_add_signed(off);
            Point { ns: ms * 1_000_000, cycles, half: 26 }
        };
        let (hz, ppm, ns) = fit(&[point(0, 0), point(10, 0), point(20, 0), point(40, 0)]);
        assert_eq!((hz, ns), (2_600_000_000, 40_000_000));
        assert!(ppm > 0.4 && ppm < 0.7, "{ppm}");
        // The counter stood still for a tenth of a millisecond on the way: 2500 ppm, and it is said.
        let (_, ppm, _) = fit(&[point(0, 0), point(20, -260_000), point(40, 0)]);
        assert!(ppm > 2400.0, "{ppm}");
        assert_eq!(fit(&[]).0, NS_PER_S);
        assert!(fit(&[point(0, 0)]).0 >= 1);
    }

    #[test]
    fn two_calibrations_agree_within_their_errors() {
        let (a, b) = (TscClock::calibrate(), TscClock::calibrate());
        let apart = a.hz().abs_diff(b.hz()) as f64 / a.hz() as f64 * 1e6;
        assert!(a.error_ppm() > 0.0 && a.error_ppm().is_finite());
        assert!(apart <= a.error_ppm() + b.error_ppm(), "{a} {b}: {apart} ppm apart");
        assert!(a.source().contains("CLOCK_MONOTONIC_RAW"));
    }

    #[test]
    fn the_clock_runs_with_the_kernels() {
        let clock = TscClock::shared();
        let (ns, raw) = (clock.now_ns(), monotonic_raw_ns());
        std::thread::sleep(Duration::from_millis(20));
        let (ours, theirs) = (clock.now_ns() - ns, monotonic_raw_ns() - raw);
        assert!(ours >= 19_000_000);
        // Each pair of readings may be torn apart by the scheduler; a wrong scale would be far off.
        assert!(ours.abs_diff(theirs) < 10_000_000, "{ours} {theirs}");
    }
}
