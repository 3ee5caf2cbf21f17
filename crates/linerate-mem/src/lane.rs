//! Thread lanes: a small dense number for every live thread that asks.
//!
//! Per-core caches (of a pool, of counters) want an array index that no other live thread has, and want it for
//! the price of one load. A lane is that index: below [`MAX_LANES`], handed out on first use, the lowest free one
//! first, held until the thread ends, then free for another.
//!
//! ```text
//!   thread A: … writes lane data … ─► guard drops: L1 lock, bit off, unlock
//!                                                    │ (mutex)
//!   thread B: first use: L2 lock, bit on, unlock ◄───┘ … reads and writes the same lane data …
//!   auditor:  L3 lock … reads the data of every lane whose bit is off … unlock
//! ```
//!
//! The unlock of L1 releases and the lock of L2 and L3 acquires, so whatever the old holder wrote under its lane is
//! seen by the next holder and by an auditor. There is no other synchronisation and none is needed.

use std::cell::Cell;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many threads can hold a lane at one time.
pub const MAX_LANES: usize = 128;

/// What [`current_lane`] returns to a thread that has none: all lanes were taken when it first asked, or the
/// thread is ending and has given its lane back. Always at or above [`MAX_LANES`].
pub const NO_LANE: u32 = u32::MAX - 1;

/// The cell's value before the thread's first question.
const UNASSIGNED: u32 = u32::MAX;

thread_local! {
    // Constant start value and no destructor: reading it is one load relative to the thread pointer, without the
    // "is it initialised" branch that the guard below pays.
    static LANE: Cell<u32> = const { Cell::new(UNASSIGNED) };

    // Touched only in the cold path; its destructor returns the lane.
    static GUARD: LaneGuard = const { LaneGuard };

    // True while this thread is inside `with_lanes_frozen`, to turn a self-deadlock into a message.
    static FREEZING: Cell<bool> = const { Cell::new(false) };
}

static TAKEN: Mutex<Mask> = Mutex::new(Mask(0));

/// The calling thread's lane: below [`MAX_LANES`] and the same at every call, or [`NO_LANE`].
///
/// A thread that finds all lanes taken stays without one for its whole life, so that a lane once seen never
/// changes under its user. The hot path is one load and one compare against [`MAX_LANES`], which a caller's own
/// range check folds into.
#[inline(always)]
#[must_use]
pub fn current_lane() -> u32 {
    let lane = LANE.with(Cell::get);
    if (lane as usize) < MAX_LANES { lane } else { lane_cold(lane) }
}

#[cold]
#[inline(never)]
fn lane_cold(lane: u32) -> u32 {
    if lane != UNASSIGNED {
        return NO_LANE;
    }
    // Registers the destructor first: a lane is never taken that nobody would give back.
    let lane = if GUARD.try_with(|_| ()).is_err() { None } else { lock().take() };
    let lane = lane.unwrap_or(NO_LANE);
    LANE.with(|cell| cell.set(lane));
    lane
}

/// Gives the lane back when the thread ends.
struct LaneGuard;

impl Drop for LaneGuard {
    fn drop(&mut self) {
        // Later destructors of this thread (a cached buffer being freed, say) see NO_LANE and take the slow way.
        let lane = LANE.with(|cell| cell.replace(NO_LANE));
        if (lane as usize) < MAX_LANES {
            lock().give_back(lane);
        }
    }
}

/// A panic inside a frozen section leaves the mask whole, so a poisoned lock is still a good one.
fn lock() -> MutexGuard<'static, Mask> {
    TAKEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs `f` while no lane is handed out or given back, and tells it which lanes live threads hold.
///
/// Data kept per lane may be read inside `f` for every lane that is free (its last holder's writes are visible)
/// and for the caller's own lane; lanes of other live threads are still being written by them. Threads that start
/// or end meanwhile wait, so `f` should be short. A lane is given back before `JoinHandle::join` returns, but perhaps
/// a moment after `std::thread::scope` has: a scope does not wait for the destructors of its threads' locals.
///
/// # Panics
/// When called again from within `f`, which could otherwise only deadlock.
pub fn with_lanes_frozen<R>(f: impl FnOnce(&LaneSet) -> R) -> R {
    assert!(!FREEZING.with(Cell::get), "with_lanes_frozen called from within itself");
    let mine = current_lane(); // before the lock: a first use inside `f` would wait for itself
    let taken = lock();
    FREEZING.with(|cell| cell.set(true));
    let _reset = ResetFreezing;
    f(&LaneSet { taken: *taken, mine })
}

struct ResetFreezing;

impl Drop for ResetFreezing {
    fn drop(&mut self) {
        FREEZING.with(|cell| cell.set(false));
    }
}

/// Which lanes are held, as [`with_lanes_frozen`] shows it: true as long as that call lasts.
#[derive(Debug)]
pub struct LaneSet {
    taken: Mask,
    mine: u32,
}

impl LaneSet {
    /// Whether a live thread (the caller included) holds `lane`.
    #[must_use]
    pub fn is_taken(&self, lane: u32) -> bool {
        self.taken.has(lane)
    }

    /// Whether the calling thread itself holds `lane`.
    #[must_use]
    pub fn is_mine(&self, lane: u32) -> bool {
        lane == self.mine && (lane as usize) < MAX_LANES
    }

    /// Whether the data of `lane` may be read now: it is free, or the caller's own.
    #[must_use]
    pub fn is_readable(&self, lane: u32) -> bool {
        (lane as usize) < MAX_LANES && (!self.is_taken(lane) || self.is_mine(lane))
    }

    /// How many lanes are held.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.taken.0.count_ones()
    }
}

/// One bit a lane, set while it is held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Mask(u128);

const _: () = assert!(MAX_LANES == u128::BITS as usize, "the mask holds exactly the lanes");

impl Mask {
    fn take(&mut self) -> Option<u32> {
        let lane = self.0.trailing_ones();
        self.0 |= 1u128.checked_shl(lane)?;
        Some(lane)
    }

    fn give_back(&mut self, lane: u32) {
        debug_assert!(self.has(lane), "lane {lane} was not held");
        self.0 &= !1u128.checked_shl(lane).unwrap_or(0);
    }

    fn has(self, lane: u32) -> bool {
        1u128.checked_shl(lane).is_some_and(|bit| self.0 & bit != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mask_hands_out_lowest_first_and_refuses_when_full() {
        let mut mask = Mask(0);
        for lane in 0..MAX_LANES as u32 {
            assert_eq!(mask.take(), Some(lane));
        }
        assert_eq!(mask.take(), None);
        mask.give_back(77);
        assert!(!mask.has(77) && mask.has(76) && mask.has(78));
        assert_eq!(mask.take(), Some(77));
        assert_eq!(mask.take(), None);
        assert!(!mask.has(NO_LANE) && !mask.has(128));
    }

    #[test]
    fn lane_stays_the_same_and_differs_between_live_threads() {
        let mine = current_lane();
        assert!((mine as usize) < MAX_LANES);
        assert_eq!(mine, current_lane());
        let other = std::thread::spawn(|| (current_lane(), current_lane())).join().unwrap();
        assert_eq!(other.0, other.1);
        assert_ne!(mine, other.0);
    }

    #[test]
    fn frozen_set_knows_the_caller() {
        let mine = current_lane();
        with_lanes_frozen(|set| {
            assert!(set.is_taken(mine) && set.is_mine(mine) && set.is_readable(mine));
            assert!(!set.is_readable(NO_LANE) && !set.is_mine(NO_LANE) && !set.is_readable(MAX_LANES as u32));
            assert!(set.count() >= 1);
        });
    }

    #[test]
    fn frozen_works_as_a_threads_first_use() {
        std::thread::spawn(|| with_lanes_frozen(|set| assert!(set.is_mine(current_lane())))).join().unwrap();
    }

    #[test]
    fn nested_freeze_is_refused_and_leaves_the_lock_usable() {
        let nested = std::panic::catch_unwind(|| with_lanes_frozen(|_| with_lanes_frozen(|_| ())));
        assert!(nested.is_err());
        with_lanes_frozen(|set| assert!(set.count() >= 1));
    }
}
