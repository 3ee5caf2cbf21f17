//! How much of the wall time a thread was really on its core.
//!
//! A forwarding loop that shares its core shows wall cycles per packet that are not its own; the on-CPU time beside
//! them tells. Follows `clock_gettime(2)` (CLOCK_THREAD_CPUTIME_ID) and `getrusage(2)` (RUSAGE_THREAD).

use rustix::time::{ClockId, Timespec, clock_gettime};

/// The calling thread's time at one moment; the difference of two is what a stretch of work took.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ThreadTime {
    /// Nanoseconds the thread has been on a core.
    pub on_cpu_ns: u64,
    /// Nanoseconds of wall time, from an unknown start.
    pub wall_ns: u64,
    /// How often it gave its core up, to wait for something.
    pub voluntary_switches: u64,
    /// How often its core was taken from it.
    pub involuntary_switches: u64,
}

impl ThreadTime {
    /// The calling thread's time now. Costs two system calls (the wall clock needs none): for the
    /// edges of a run, not for its loop.
    #[must_use]
    pub fn now() -> Self {
        let (voluntary_switches, involuntary_switches) = switches();
        Self {
            wall_ns: ns(clock_gettime(ClockId::Monotonic)),
            on_cpu_ns: ns(clock_gettime(ClockId::ThreadCPUTime)),
            voluntary_switches,
            involuntary_switches,
        }
    }

    /// What passed since `earlier`, taken by the same thread.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            on_cpu_ns: self.on_cpu_ns.saturating_sub(earlier.on_cpu_ns),
            wall_ns: self.wall_ns.saturating_sub(earlier.wall_ns),
            voluntary_switches: self.voluntary_switches.saturating_sub(earlier.voluntary_switches),
            involuntary_switches: self.involuntary_switches.saturating_sub(earlier.involuntary_switches),
        }
    }

    /// On-CPU time as a part of wall time, 0 to 1; none when no wall time passed.
    #[must_use]
    pub fn share(&self) -> Option<f64> {
        // The two clocks are read one after the other, so a busy thread may come out a hair above one.
        (self.wall_ns > 0).then(|| (self.on_cpu_ns as f64 / self.wall_ns as f64).min(1.0))
    }
}

fn ns(time: Timespec) -> u64 {
    (time.tv_sec as u64).saturating_mul(1_000_000_000).saturating_add(time.tv_nsec as u64)
}

fn switches() -> (u64, u64) {
    // SAFETY: a struct of plain numbers, for which all zeroes is a value.
    let mut usage: libc::rusage = unsafe { std::mem::zeroed() };
    // SAFETY: writes to a struct of ours. It cannot fail for the calling thread, and would leave zeroes.
    unsafe { libc::getrusage(libc::RUSAGE_THREAD, &raw mut usage) };
    (usage.ru_nvcsw as u64, usage.ru_nivcsw as u64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn sleeping_is_not_on_cpu() {
        let before = ThreadTime::now();
        std::thread::sleep(Duration::from_millis(30));
        let took = ThreadTime::now().since(&before);
        assert!(took.wall_ns >= 30_000_000);
        assert!(took.on_cpu_ns < 15_000_000, "{took:?}");
        assert!(took.voluntary_switches >= 1);
        assert!(took.share().unwrap() < 0.5);
    }

    #[test]
    fn working_is_on_cpu_and_only_ones_own_work_counts() {
        let before = ThreadTime::now();
        let other = std::thread::spawn(|| {
            let before = ThreadTime::now();
            let mut x = 1u64;
            while ThreadTime::now().since(&before).on_cpu_ns < 20_000_000 {
                for _ in 0..1000 {
                    x = std::hint::black_box(x.wrapping_mul(3));
                }
            }
            ThreadTime::now().since(&before)
        })
        .join()
        .unwrap();
        assert!(other.on_cpu_ns >= 20_000_000 && other.wall_ns + 1_000_000 >= other.on_cpu_ns, "{other:?}");
        let waited = ThreadTime::now().since(&before);
        assert!(waited.on_cpu_ns < 15_000_000, "the waiting thread did none of it: {waited:?}");
    }

    #[test]
    fn no_time_has_no_share() {
        assert_eq!(ThreadTime::default().share(), None);
        let busy = ThreadTime { on_cpu_ns: 11, wall_ns: 10, ..ThreadTime::default() };
        assert_eq!(busy.share(), Some(1.0));
    }
}
