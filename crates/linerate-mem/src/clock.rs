//! The one clock that everything timed takes: the real counter, or a virtual one that a test steps.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::tsc::{CycleScale, TscClock, cycles_between};

/// A clock that can be injected. Cloning gives the same clock.
#[derive(Debug, Clone)]
pub enum Clock {
    /// The processor's counter.
    Real(TscClock),
    /// A counter that moves only when told.
    Virtual(Arc<VirtualClock>),
}

impl Clock {
    /// The process's calibrated counter.
    #[must_use]
    pub fn real() -> Self {
        Self::Real(TscClock::shared())
    }

    /// Nanoseconds since the clock's zero.
    #[inline]
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        match self {
            Self::Real(clock) => clock.now_ns(),
            Self::Virtual(clock) => clock.now_ns(),
        }
    }

    /// The counter, which wraps: compare with [`is_before`](crate::is_before), subtract with
    /// [`cycles_between`].
    #[inline]
    #[must_use]
    pub fn now_cycles(&self) -> u64 {
        match self {
            Self::Real(clock) => clock.now_cycles(),
            Self::Virtual(clock) => clock.now_cycles(),
        }
    }

    /// Cycles a second.
    #[inline]
    #[must_use]
    pub fn hz(&self) -> u64 {
        self.scale().hz()
    }

    /// The conversion between cycles and nanoseconds.
    #[inline]
    #[must_use]
    pub fn scale(&self) -> CycleScale {
        match self {
            Self::Real(clock) => clock.scale(),
            Self::Virtual(clock) => clock.scale,
        }
    }
}

/// A counter of a chosen rate and start that moves only when told, seen alike by all threads.
///
/// Its loads and stores are relaxed: the count itself is all that is shared, and whoever steps a run through
/// virtual time orders the run's own work by other means.
#[derive(Debug)]
pub struct VirtualClock {
    scale: CycleScale,
    zero: u64,
    cycles: AtomicU64,
}

impl VirtualClock {
    /// A clock of `hz` cycles a second whose counter starts at `start_cycles`; tests start it just below 2⁶⁴.
    ///
    /// # Panics
    /// When `hz` is zero.
    #[must_use]
    pub fn new(hz: u64, start_cycles: u64) -> Self {
        Self { scale: CycleScale::new(hz), zero: start_cycles, cycles: AtomicU64::new(start_cycles) }
    }

    /// Nanoseconds since the start.
    #[must_use]
    pub fn now_ns(&self) -> u64 {
        self.scale.cycles_to_ns(cycles_between(self.zero, self.now_cycles()))
    }

    /// The counter.
    #[must_use]
    pub fn now_cycles(&self) -> u64 {
        self.cycles.load(Relaxed)
    }

    /// Moves the clock forward by `ns` nanoseconds, to the cycle below: with rates that are no multiple of 1 GHz
    /// many small steps lose up to a cycle each, where [`set_ns`](Self::set_ns) loses none.
    pub fn advance_ns(&self, ns: u64) {
        self.advance_cycles(self.scale.ns_to_cycles(ns));
    }

    /// Moves the clock forward by `cycles` cycles.
    pub fn advance_cycles(&self, cycles: u64) {
        self.cycles.fetch_add(cycles, Relaxed);
    }

    /// Sets the clock to `ns` nanoseconds after its start, back too if that is wanted.
    pub fn set_ns(&self, ns: u64) {
        self.cycles.store(self.zero.wrapping_add(self.scale.ns_to_cycles(ns)), Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn virtual_time_moves_only_when_told_and_across_the_wrap() {
        let virt = Arc::new(VirtualClock::new(3_000_000_000, u64::MAX - 999));
        let clock = Clock::Virtual(virt.clone());
        assert_eq!((clock.now_ns(), clock.hz()), (0, 3_000_000_000));
        virt.advance_ns(10_000_000_000);
        assert_eq!(clock.clone().now_ns(), 10_000_000_000);
        assert_eq!(clock.now_cycles(), (u64::MAX - 999).wrapping_add(30_000_000_000));
        virt.advance_cycles(3);
        assert_eq!(clock.now_ns(), 10_000_000_001);
        virt.set_ns(5);
        assert_eq!((clock.now_ns(), clock.now_cycles()), (5, u64::MAX - 984));
    }

    #[test]
    fn clocks_go_to_other_threads() {
        let virt = Arc::new(VirtualClock::new(1_000_000_000, 0));
        let clock = Clock::Virtual(virt.clone());
        std::thread::spawn(move || virt.advance_ns(7)).join().unwrap();
        assert_eq!(clock.now_ns(), 7);
        let real = Clock::real();
        let first = real.now_ns();
        let second = std::thread::spawn(move || real.now_ns()).join().unwrap();
        assert!(second >= first, "{first} {second}");
    }
}
