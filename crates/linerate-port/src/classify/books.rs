//! What stages and rules count. Each number has one writer, the owner of a queue.

use crate::{
    flow::FlowHits,
    stats::{Counter, RxCounters},
};
use crossbeam_utils::CachePadded;
use std::sync::{Mutex, PoisonError};

/// What a rule has seen, by the queue that received it from the device.
#[derive(Debug)]
pub(super) struct RuleHits {
    /// From before the number of queues was changed.
    before: FlowHits,
    cells: Box<[CachePadded<[Counter; 2]>]>,
}

impl RuleHits {
    pub(super) fn new(queues: u16, before: FlowHits) -> Self {
        RuleHits { before, cells: (0..queues).map(|_| CachePadded::default()).collect() }
    }

    #[inline]
    pub(super) fn add(&self, queue: u16, bytes: u32) {
        if let Some(cell) = self.cells.get(usize::from(queue)) {
            cell[0].add(1);
            cell[1].add(bytes.into());
        }
    }

    pub(super) fn sum(&self) -> FlowHits {
        self.cells.iter().fold(self.before, |s, c| FlowHits {
            packets: s.packets + c[0].get(),
            bytes: s.bytes + c[1].get(),
        })
    }
}

/// How a queue's received packets are to be read.
#[derive(Debug, Default)]
struct Reading {
    /// The stage is in the path: it counts what is delivered, whatever the driver counts.
    staged: bool,
    /// What the driver has counted too little (wrapping), while the stage is out.
    skew: [u64; 2],
}

/// What the stage of one queue counts, and what the queue delivers altogether.
///
/// A driver counts what it hands over, which the stage may drop or give to another queue. So while a stage is in the
/// path its own counters are the queue's. Who reads them and who puts the stage in hold the same lock for it, once a
/// start: a reading is from before or from after, and never goes back.
#[derive(Debug)]
pub(crate) struct StageBooks {
    reading: Mutex<Reading>,
    /// Packets and bytes delivered.
    delivered: CachePadded<[Counter; 2]>,
    /// Frames that the filters did not take.
    pub(crate) filtered: Counter,
    /// Frames that a rule dropped.
    pub(crate) dropped: Counter,
    /// Frames with headers that contradict themselves or the frame's length.
    pub(crate) malformed: Counter,
    /// Frames lost because another queue's inbox was full, by that queue.
    missed_by: Box<[Counter]>,
}

impl StageBooks {
    /// Books for a queue of so many.
    pub(crate) fn new(queues: u16) -> Self {
        StageBooks {
            reading: Mutex::default(),
            delivered: CachePadded::default(),
            filtered: Counter::default(),
            dropped: Counter::default(),
            malformed: Counter::default(),
            missed_by: (0..queues).map(|_| Counter::default()).collect(),
        }
    }

    /// Packets and bytes that the queue has delivered.
    pub(crate) fn received(&self, driver: &RxCounters) -> [u64; 2] {
        let r = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        self.read(&r, driver)
    }

    fn read(&self, r: &Reading, driver: &RxCounters) -> [u64; 2] {
        if r.staged {
            return [self.delivered[0].get(), self.delivered[1].get()];
        }
        [driver.packets.get().wrapping_add(r.skew[0]), driver.bytes.get().wrapping_add(r.skew[1])]
    }

    /// The stage comes into the path. Called by the queue's owner between two polls.
    #[cold]
    pub(super) fn enter(&self, driver: &RxCounters) {
        let mut r = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        let [packets, bytes] = self.read(&r, driver);
        self.delivered[0].set(packets);
        self.delivered[1].set(bytes);
        r.staged = true;
    }

    /// The stage is taken out. Called while nobody polls the queue.
    pub(crate) fn leave(&self, driver: &RxCounters) {
        let mut r = self.reading.lock().unwrap_or_else(PoisonError::into_inner);
        if std::mem::take(&mut r.staged) {
            r.skew = [
                self.delivered[0].get().wrapping_sub(driver.packets.get()),
                self.delivered[1].get().wrapping_sub(driver.bytes.get()),
            ];
        }
    }

    #[inline(always)]
    pub(super) fn deliver(&self, packets: u64, bytes: u64) {
        self.delivered[0].add(packets);
        self.delivered[1].add(bytes);
    }

    #[cold]
    pub(super) fn miss(&self, queue: usize, frames: usize) {
        if let Some(c) = self.missed_by.get(queue) {
            c.add(frames as u64);
        }
    }

    /// Frames that this queue could not hand over to that one.
    pub(crate) fn missed_by(&self, queue: usize) -> u64 {
        self.missed_by.get(queue).map_or(0, Counter::get)
    }
}
