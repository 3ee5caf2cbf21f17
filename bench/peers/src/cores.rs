//! Pinning, the cycle counter, and the probe that says whether two cores are near or far.

use std::sync::atomic::{
    AtomicU32,
    Ordering::{Acquire, Release},
};
use std::time::{Duration, Instant};

use rustix::thread::{CpuSet, sched_setaffinity};

/// Above this round trip of a cache line two cores are called far: neighbours in one L3 need
/// 70-130 ns, cores in different L3 domains about 400 ns. `bench/dpdk/bench.h` has the same limit.
const NEAR_LIMIT_NS: f64 = 200.0;
/// Round trips of one probe.
const ROUNDS: u32 = 2000;

/// The state of a core pair.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Pair {
    /// A cache line comes over fast: one L3.
    Near,
    /// A cache line comes over slowly.
    Far,
}

impl Pair {
    /// The state that a round trip of `ns` nanoseconds shows.
    pub fn of(ns: f64) -> Self {
        if ns > NEAR_LIMIT_NS { Self::Far } else { Self::Near }
    }

    /// As in the rows.
    pub fn name(self) -> &'static str {
        match self {
            Self::Near => "near",
            Self::Far => "far",
        }
    }
}

/// Keeps the calling thread on `core`.
///
/// # Errors
/// The kernel's, when there is no such core or it may not be used.
pub fn pin(core: usize) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    sched_setaffinity(None, &set)
}

/// A cache line that nothing else lives on, nor on its neighbour.
#[repr(align(128))]
struct Line(AtomicU32);

/// Median round trip, in nanoseconds, of a cache line between this thread's core and `other`;
/// `None` when `other` cannot be used.
pub fn round_trip_ns(other: usize) -> Option<f64> {
    let line = Line(AtomicU32::new(0));
    let ready = AtomicU32::new(0);
    std::thread::scope(|scope| {
        let echo = scope.spawn(|| {
            let pinned = pin(other);
            ready.store(if pinned.is_ok() { 1 } else { 2 }, Release); // pairs with the load of `ready` below
            if pinned.is_ok() {
                for i in 0..ROUNDS {
                    while line.0.load(Acquire) != 2 * i + 1 {} // pairs with the store of 2i+1
                    line.0.store(2 * i + 2, Release); // pairs with the load of 2i+2
                }
            }
        });
        while ready.load(Acquire) == 0 {
            std::thread::yield_now();
        }
        if ready.load(Acquire) == 2 {
            return None;
        }
        let mut trips: Vec<u64> = (0..ROUNDS)
            .map(|i| {
                let start = cycles();
                line.0.store(2 * i + 1, Release);
                while line.0.load(Acquire) != 2 * i + 2 {}
                cycles() - start
            })
            .collect();
        echo.join().ok()?;
        trips.sort_unstable();
        Some(trips[trips.len() / 2] as f64 * 1e9 / cycles_per_second())
    })
}

/// How often [`cycles`] counts in a second, measured once over 50 ms.
pub fn cycles_per_second() -> f64 {
    static HZ: std::sync::OnceLock<f64> = std::sync::OnceLock::new();
    *HZ.get_or_init(|| {
        let (wall, start) = (Instant::now(), cycles());
        std::thread::sleep(Duration::from_millis(50));
        let (ticks, elapsed) = (cycles() - start, wall.elapsed());
        ticks as f64 / elapsed.as_secs_f64()
    })
}

/// What [`cycles`] counts, as the rows say it.
pub const UNIT: &str = if cfg!(target_arch = "x86_64") { "cycles_per_element" } else { "ns_per_element" };

/// The time-stamp counter, fenced on both sides as DPDK's `rte_rdtsc_precise` is.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub fn cycles() -> u64 {
    use std::arch::x86_64::{_mm_lfence, _rdtsc};
    // SAFETY: LFENCE and RDTSC touch no memory, and every x86-64 CPU has both (SSE2 is its baseline).
    unsafe {
        _mm_lfence();
        let now = _rdtsc();
        _mm_lfence();
        now
    }
}

/// Nanoseconds of the monotonic clock, where there is no TSC.
#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
pub fn cycles() -> u64 {
    static START: std::sync::OnceLock<Instant> = std::sync::OnceLock::new();
    START.get_or_init(Instant::now).elapsed().as_nanos() as u64
}
