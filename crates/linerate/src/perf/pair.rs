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
const NEAR_BELOW_NS: f64 = 155.0;
const ROUNDS: u32 = 2001;

/// Cycles of a cache line's round trip between this thread's core and another: the median of some thousands.
pub fn round_trip(other: CoreId) -> anyhow::Result<u64> {
    let ball = CachePadded::new(AtomicU32::new(0));
    thread::scope(|s| {
        let echo = s.spawn(|| {
            let pinned = pin_current_thread(other);
            for i in 0..ROUNDS {
                while ball.load(Acquire) != 2 * i + 1 {
                    spin_loop();
                }
                ball.store(2 * i + 2, Release);
            }
            pinned
        });
        let mut trips: Vec<u64> = (0..ROUNDS)
            .map(|i| {
                let start = rdtsc();
                ball.store(2 * i + 1, Release);
                while ball.load(Acquire) != 2 * i + 2 {
                    spin_loop();
                }
                cycles_between(start, rdtsc())
            })
            .collect();
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
