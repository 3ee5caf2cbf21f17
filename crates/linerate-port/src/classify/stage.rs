//! The stage of one queue: what its owner does between the driver and the burst.

use super::{
    books::StageBooks,
    table::{NOWHERE, Table, Tally},
};
use crate::{QueueId, RxDriver, stats::SharedRx};
use linerate_mbuf::{BURST_MAX, Burst, Mbuf};
use linerate_ring::{Consumer, Producer, Ring, RingError, RingSize, Rts, Single};
use std::{
    collections::BTreeSet,
    fmt,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
};

/// What is handed over at once to an inbox.
const HELD: usize = 32;
/// Least length of an inbox: a burst.
const MIN_INBOX: usize = 32;

// Owners that hand over to the same queue may be preempted in the middle of it: none waits for another.
type Outbox = Producer<Mbuf, Rts, Single>;
type Inbox = Consumer<Mbuf, Rts, Single>;

/// What all stages of a port share.
#[derive(Debug, Default)]
pub(super) struct Board {
    /// Number of the newest table. Relaxed: the table itself comes through its lock, and a stage that sees the number
    /// before the table looks again at its next poll, since it remembers the number of the table that it has.
    generation: AtomicU64,
    table: Mutex<Arc<Table>>,
    /// Device queues whose input has not ended.
    open: Mutex<BTreeSet<QueueId>>,
}

fn locked<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Board {
    /// Puts up a table, which is newer than the former.
    pub(super) fn publish(&self, table: Table) {
        let generation = table.generation;
        *locked(&self.table) = Arc::new(table);
        self.generation.store(generation, Relaxed);
    }

    /// Before a start: no input is open yet.
    pub(super) fn begin(&self) {
        locked(&self.open).clear();
    }

    fn table(&self) -> Arc<Table> {
        locked(&self.table).clone()
    }
}

/// Makes an inbox for each queue, as long as its descriptor ring; none for a queue alone.
///
/// # Errors
///
/// No memory.
pub(super) fn inboxes(descriptors: &[u16]) -> Result<(Vec<Outbox>, Vec<Inbox>), RingError> {
    if descriptors.len() < 2 {
        return Ok(Default::default());
    }
    let ends = descriptors.iter().map(|d| {
        let ring = Ring::<Mbuf, Rts, Single>::new(RingSize::exact(usize::from(*d).max(MIN_INBOX))?)?;
        Ok(ring.split())
    });
    ends.collect()
}

/// The way to another queue.
struct Out {
    to: Outbox,
    /// Waiting to be handed over together.
    held: Vec<Mbuf>,
}

impl Out {
    /// Hands over what is held; what does not fit is lost, and counted for that queue.
    #[inline]
    fn flush(&mut self, queue: usize, books: &StageBooks) {
        self.to.enqueue_burst_from(&mut self.held);
        if !self.held.is_empty() {
            books.miss(queue, self.held.len());
            self.held.clear();
        }
    }
}

/// The stage of one queue.
pub(crate) struct RxStage {
    queue: QueueId,
    board: Arc<Board>,
    table: Arc<Table>,
    books: Arc<StageBooks>,
    counters: SharedRx,
    /// Whether the device has this queue.
    has_device: bool,
    inbox: Option<Inbox>,
    /// By queue; none to itself.
    outs: Box<[Option<Out>]>,
    /// From the driver, not looked at yet. Empty between two polls, as `nowhere`.
    raw: Burst,
    nowhere: Burst,
    entered: bool,
    active: bool,
    /// The next poll begins with the driver, because the inbox alone filled the last one.
    driver_first: bool,
    ended: bool,
}

impl RxStage {
    pub(super) fn new(
        queue: QueueId,
        board: Arc<Board>,
        (books, counters): (Arc<StageBooks>, SharedRx),
        has_device: bool,
        inbox: Option<Inbox>,
        outs: &[Outbox],
    ) -> Box<Self> {
        let out = |(q, to): (usize, &Outbox)| {
            (q != queue.index()).then(|| Out { to: to.clone(), held: Vec::with_capacity(HELD) })
        };
        Box::new(RxStage {
            queue,
            board,
            table: Arc::default(),
            books,
            counters,
            has_device,
            inbox,
            outs: outs.iter().enumerate().map(out).collect(),
            raw: Burst::new(),
            nowhere: Burst::new(),
            entered: false,
            active: false,
            driver_first: false,
            ended: false,
        })
    }

    /// Before the queue's driver starts: what waited in the inbox is of another time.
    pub(crate) fn begin(&mut self) {
        self.discard();
        self.ended = !self.has_device;
        if self.has_device {
            locked(&self.board.open).insert(self.queue);
        }
    }

    /// Frees what waits in the inbox.
    pub(crate) fn discard(&mut self) {
        if let Some(inbox) = &mut self.inbox {
            inbox.drain().for_each(drop);
        }
    }

    /// Frames in the inbox.
    pub(crate) fn waiting(&self) -> usize {
        self.inbox.as_ref().map_or(0, |i| i.len())
    }

    /// As [`RxDriver::rx_burst`], for the queue's own frames from everywhere.
    #[inline]
    pub(crate) fn rx_burst(&mut self, driver: &mut dyn RxDriver, burst: &mut Burst, max: usize) -> usize {
        if self.board.generation.load(Relaxed) != self.table.generation {
            self.renew();
        }
        if !self.entered {
            self.entered = true;
            self.books.enter(&self.counters);
        }
        let before = burst.len();
        let end = before + max.min(burst.room());
        if self.driver_first {
            self.poll(driver, burst, end - before);
            self.take_inbox(burst, end.saturating_sub(burst.len()));
            self.driver_first = false;
        } else {
            self.take_inbox(burst, end - before);
            let full = burst.len() == end && end != before;
            if full {
                self.driver_first = true;
            } else {
                self.poll(driver, burst, end - burst.len());
            }
        }
        let new = burst.as_slice().get(before..).unwrap_or_default();
        if !new.is_empty() {
            self.books.deliver(new.len() as u64, new.iter().map(|m| u64::from(m.len())).sum());
        }
        new.len()
    }

    #[cold]
    #[inline(never)]
    fn renew(&mut self) {
        self.table = self.board.table();
        self.active = self.table.is_active();
    }

    #[inline]
    fn take_inbox(&mut self, burst: &mut Burst, max: usize) {
        if let Some(inbox) = &mut self.inbox {
            // SAFETY: the slots have room for `n` pointers, which is what an Mbuf is; what was moved out of the ring
            // is owned by nobody else.
            unsafe { burst.fill_raw(max, |slots, n| inbox.dequeue_burst_raw(slots.cast::<Mbuf>(), n)) };
        }
    }

    /// Polls the driver for up to `room` frames and sends each where it belongs.
    #[inline]
    fn poll(&mut self, driver: &mut dyn RxDriver, burst: &mut Burst, room: usize) {
        let n = if self.active {
            let n = driver.rx_burst(&mut self.raw, room.min(BURST_MAX));
            if n != 0 {
                self.sort(burst);
            }
            n
        } else {
            driver.rx_burst(burst, room)
        };
        if n == 0 && !self.ended {
            self.look_for_end(driver);
        }
    }

    fn sort(&mut self, burst: &mut Burst) {
        let RxStage { table, outs, raw, nowhere, books, .. } = self;
        let own = self.queue.0;
        let mut tally = Tally::default();
        let mut away = 0;
        for mut m in raw.drain() {
            let to = table.decide(&mut m, own, &mut tally);
            let refused = if to == own {
                burst.push(m)
            } else if let Some(Some(out)) = outs.get_mut(usize::from(to)) {
                if out.held.len() == HELD {
                    out.flush(to.into(), books);
                }
                out.held.push(m);
                away += 1;
                Ok(())
            } else {
                debug_assert_eq!(to, NOWHERE, "rules and tables name queues that exist");
                nowhere.push(m)
            };
            // Both have room for what one poll brings.
            debug_assert!(refused.is_ok());
        }
        if !nowhere.is_empty() {
            nowhere.free_all();
            books.filtered.add(tally.filtered);
            books.dropped.add(tally.dropped);
        }
        if tally.malformed != 0 {
            books.malformed.add(tally.malformed);
        }
        if away != 0 {
            for (queue, out) in outs.iter_mut().enumerate() {
                if let Some(out) = out
                    && !out.held.is_empty()
                {
                    out.flush(queue, books);
                }
            }
        }
    }

    #[cold]
    #[inline(never)]
    fn look_for_end(&mut self, driver: &dyn RxDriver) {
        if driver.is_exhausted() {
            self.ended = true;
            // Under the lock, so that who finds all ended finds all that was handed over.
            locked(&self.board.open).remove(&self.queue);
        }
    }

    /// Whether all inputs of the port have ended and nothing of them is left for this queue.
    pub(crate) fn is_exhausted(&mut self, driver: &dyn RxDriver) -> bool {
        if !self.ended {
            self.look_for_end(driver);
        }
        self.ended && (self.inbox.is_none() || locked(&self.board.open).is_empty()) && self.waiting() == 0
    }
}

impl fmt::Debug for RxStage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RxStage")
            .field("queue", &self.queue)
            .field("waiting", &self.waiting())
            .finish_non_exhaustive()
    }
}
