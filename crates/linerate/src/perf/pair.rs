//! Two cores: how near they are to each other right now.
//!
//! Under a hypervisor two cores may share a cache at one moment and not at the next, and what crosses between
//! them then costs many times more. A row of two cores therefore carries the state before and after it; a
//! sample during which it changed is thrown away.

use crossbeam_utils::CachePadded;
use linerate::mem::{CoreId, TscClock, cycles_between, pin_current_thread, rdtsc};
use std::{
    hint::spin_loop,
    sync::atomic::{
        AtomicU32,
        Ordering::{Acquire, Release},
    },
    thread,
    time::{Duration, Instant},
};

/// How near two cores are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pair {
    Near,
    Far,
}

impl Pair {
    pub const BOTH: [Pair; 2] = [Pair::Near, Pair::Far];

    pub fn name(self) -> &'static str {
        match self {
            Pair::Near => "near",
            Pair::Far => "far",
        }
    }
}

/// A round trip of a cache line below this is between cores that share a cache.
const NEAR_BELOW_NS: f64 = 200.0;
/// Round trips of a probe, if they take no longer than this: on a busy machine a trip may wait for a core.
const ROUNDS: u32 = 2001;
const LONGEST: Duration = Duration::from_millis(10);
/// Tells the other side that there are no more trips.
const OVER: u32 = u32::MAX;

/// Cycles of a cache line's round trip between this thread's core and another: the median of some thousands.
pub fn round_trip(other: CoreId) -> anyhow::Result<u64> {
    let ball = CachePadded::new(AtomicU32::new(0));
    thread::scope(|s| {
        let echo = s.spawn(|| {
            let pinned = pin_current_thread(other);
            let mut seen = 0;
            loop {
                match ball.load(Acquire) {
                    OVER => return pinned,
                    now if now == seen => spin_loop(),
                    now => {
                        seen = now + 1;
                        ball.store(seen, Release);
                    }
                }
            }
        });
        let begin = Instant::now();
        let mut trips = Vec::with_capacity(ROUNDS as usize);
        for i in 0..ROUNDS {
            let start = rdtsc();
            ball.store(2 * i + 1, Release);
            while ball.load(Acquire) != 2 * i + 2 {
                spin_loop();
            }
            trips.push(cycles_between(start, rdtsc()));
            if begin.elapsed() > LONGEST {
                break;
            }
        }
        ball.store(OVER, Release);
        match echo.join() {
            Ok(pinned) => pinned?,
            Err(panic) => std::panic::resume_unwind(panic),
        }
        trips.sort_unstable();
        Ok(trips[trips.len() / 2])
    })
}

/// The state of the pair now.
pub fn state(other: CoreId, clock: &TscClock) -> anyhow::Result<Pair> {
    let ns = round_trip(other)? as f64 * 1e9 / clock.hz() as f64;
    Ok(if ns < NEAR_BELOW_NS { Pair::Near } else { Pair::Far })
}
