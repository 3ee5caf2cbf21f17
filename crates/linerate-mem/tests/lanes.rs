//! Lanes of a whole process: exhaustion, reuse and the end of a thread. One test, because it takes every lane there
//! is and the tests of a file share a process.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::sync::{Arc, Barrier, mpsc};
use std::thread;

use linerate_mem::{MAX_LANES, NO_LANE, current_lane, with_lanes_frozen};

/// Asks for its thread's lane while the thread's locals are being torn down.
struct LateAsker(mpsc::Sender<u32>);

impl Drop for LateAsker {
    fn drop(&mut self) {
        self.0.send(current_lane()).unwrap();
    }
}

thread_local! {
    static LATE: RefCell<Option<LateAsker>> = const { RefCell::new(None) };
}

#[test]
fn lanes_run_out_come_back_and_are_gone_after_the_thread() {
    let mine = current_lane();
    assert!((mine as usize) < MAX_LANES);
    let start = with_lanes_frozen(|set| set.count());

    // Twice, so that the second round lives on what the first gave back.
    for _ in 0..2 {
        let threads = MAX_LANES - start as usize;
        let all_in = Arc::new(Barrier::new(threads + 1));
        let go = Arc::new(Barrier::new(threads + 1));
        let workers: Vec<_> = (0..threads)
            .map(|_| {
                let (all_in, go) = (all_in.clone(), go.clone());
                thread::spawn(move || {
                    let lane = current_lane();
                    all_in.wait();
                    go.wait();
                    assert_eq!(lane, current_lane());
                    lane
                })
            })
            .collect();
        all_in.wait();
        with_lanes_frozen(|set| {
            assert_eq!(set.count() as usize, MAX_LANES);
            assert!((0..MAX_LANES as u32).all(|lane| set.is_taken(lane)));
            assert!((0..MAX_LANES as u32).all(|lane| set.is_readable(lane) == (lane == mine)));
        });
        // One too many: refused, and again at the next call.
        assert_eq!(thread::spawn(|| (current_lane(), current_lane())).join().unwrap(), (NO_LANE, NO_LANE));
        go.wait();
        let mut lanes: BTreeSet<u32> = workers.into_iter().map(|w| w.join().unwrap()).collect();
        assert_eq!(lanes.len(), threads, "every live thread has a lane of its own");
        lanes.insert(mine);
        assert!(lanes.iter().all(|&lane| (lane as usize) < MAX_LANES));
        assert_eq!(with_lanes_frozen(|set| set.count()), start, "all lanes came back");
    }

    // A local registered before the lane is torn down after it, and finds none; one registered after still has it.
    // Either answer is legal for the order std chooses; what must hold is that it is the thread's own lane or none,
    // and that the lane is free in the end.
    for late_first in [true, false] {
        let (tx, rx) = mpsc::channel();
        let lane = thread::spawn(move || {
            let before = if late_first { None } else { Some(current_lane()) };
            LATE.with(|late| *late.borrow_mut() = Some(LateAsker(tx)));
            before.unwrap_or_else(current_lane)
        })
        .join()
        .unwrap();
        let seen = rx.recv().unwrap();
        assert!(seen == lane || seen == NO_LANE, "lane {lane}, at the end {seen}");
        assert!(!with_lanes_frozen(|set| set.is_taken(lane)));
    }

    // A thread whose first question comes from a destructor gets a lane and gives it back.
    let (tx, rx) = mpsc::channel();
    thread::spawn(move || LATE.with(|late| *late.borrow_mut() = Some(LateAsker(tx)))).join().unwrap();
    let seen = rx.recv().unwrap();
    assert!(seen == NO_LANE || (seen as usize) < MAX_LANES);
    assert_eq!(with_lanes_frozen(|set| set.count()), start);

    // Per-lane data of an ended thread is whole for whoever looks next (L1 → L3).
    let cells: &'static [std::cell::UnsafeCell<u64>; MAX_LANES] = {
        struct Cells([std::cell::UnsafeCell<u64>; MAX_LANES]);
        // SAFETY: each cell is touched by the holder of its lane, or under the freeze while the lane is free.
        unsafe impl Sync for Cells {}
        static CELLS: Cells = Cells([const { std::cell::UnsafeCell::new(0) }; MAX_LANES]);
        &CELLS.0
    };
    let base = std::ptr::from_ref(cells) as usize;
    let workers: Vec<_> = (0..8)
        .map(|_| {
            thread::spawn(move || {
                let cell = base as *const std::cell::UnsafeCell<u64>;
                for _ in 0..1000 {
                    // SAFETY: the cell of this thread's own lane, inside the static array.
                    unsafe { *(*cell.add(current_lane() as usize)).get() += 1 };
                }
            })
        })
        .collect();
    workers.into_iter().for_each(|w| w.join().unwrap());
    let sum: u64 = with_lanes_frozen(|set| {
        (0..MAX_LANES as u32)
            .filter(|&lane| set.is_readable(lane))
            // SAFETY: the lane is free or ours for as long as the freeze lasts.
            .map(|lane| unsafe { *cells[lane as usize].get() })
            .sum()
    });
    assert_eq!(sum, 8000);
}
