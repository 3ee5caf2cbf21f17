//! A line: one ring a queue, in one direction, and its two ends while nobody uses them.

use super::RingPortError;
use linerate_mbuf::{Burst, Mbuf, Mempool};
use linerate_ring::{Consumer, Producer, RingSize, spsc};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Most queues of a ring port.
pub(super) const MAX_QUEUES: u16 = 64;

/// Carries packets in one direction. Queues that run hold the ends of its rings; those that stop bring them
/// home, and a ring with both ends at home, or the receiving one just come home, is empty.
#[derive(Debug)]
pub(super) struct Line {
    /// Name of the port that sends, for messages.
    name: String,
    size: RingSize,
    wires: Mutex<Vec<Wire>>,
}

#[derive(Debug, Default)]
struct Wire {
    made: bool,
    sender: Option<Producer<Mbuf>>,
    receiver: Option<Consumer<Mbuf>>,
    /// Where the receiver takes copies of packets from that it cannot have itself.
    pool: Option<Mempool>,
}

impl Line {
    pub(super) fn new(name: &str, size: RingSize) -> Self {
        let wires = (0..MAX_QUEUES).map(|_| Wire::default()).collect();
        Line { name: name.into(), size, wires: Mutex::new(wires) }
    }

    pub(super) fn size(&self) -> usize {
        self.size.capacity()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Wire>> {
        self.wires.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes an end of a queue's ring, which is made when it is needed first.
    fn take<E>(
        &self,
        queue: u16,
        end: &'static str,
        which: fn(&mut Wire) -> &mut Option<E>,
    ) -> Result<E, RingPortError> {
        let name = || self.name.clone();
        let mut wires = self.lock();
        let Some(wire) = wires.get_mut(usize::from(queue)) else {
            return Err(RingPortError::NoQueue { name: name(), queue, count: MAX_QUEUES });
        };
        if !wire.made {
            let ends = spsc(self.size).map_err(|source| RingPortError::Ring { name: name(), source })?;
            (wire.sender, wire.receiver, wire.made) = (Some(ends.0), Some(ends.1), true);
        }
        which(wire).take().ok_or_else(|| RingPortError::EndTaken { name: name(), queue, end })
    }

    pub(super) fn take_sender(&self, queue: u16) -> Result<Producer<Mbuf>, RingPortError> {
        self.take(queue, "sending end", |w| &mut w.sender)
    }

    pub(super) fn take_receiver(&self, queue: u16) -> Result<Consumer<Mbuf>, RingPortError> {
        self.take(queue, "receiving end", |w| &mut w.receiver)
    }

    /// Brings a sending end home. If nobody receives, what was sent is freed: nobody else would.
    pub(super) fn put_sender(&self, queue: u16, end: Producer<Mbuf>) {
        if let Some(wire) = self.lock().get_mut(usize::from(queue)) {
            wire.sender = Some(end);
            if let Some(receiver) = &mut wire.receiver {
                drain(receiver);
            }
        }
    }

    /// Brings a receiving end home, and frees what waits there.
    pub(super) fn put_receiver(&self, queue: u16, mut end: Consumer<Mbuf>) {
        drain(&mut end);
        if let Some(wire) = self.lock().get_mut(usize::from(queue)) {
            wire.receiver = Some(end);
        }
    }

    /// Says where the receiver of a queue has its buffers from.
    pub(super) fn set_pool(&self, queue: u16, pool: Option<Mempool>) {
        if let Some(wire) = self.lock().get_mut(usize::from(queue)) {
            wire.pool = pool;
        }
    }

    /// Where the receiver of a queue has its buffers from, if it said.
    pub(super) fn pool(&self, queue: u16) -> Option<Mempool> {
        self.lock().get(usize::from(queue)).and_then(|w| w.pool.clone())
    }
}

/// Frees what is in a ring now; not what a busy sender adds meanwhile, or it might never end.
fn drain(receiver: &mut Consumer<Mbuf>) {
    let mut left = receiver.len();
    let mut burst = Burst::new();
    while left > 0 {
        let n = receive::<Line>(receiver, &mut burst, left);
        burst.free_all();
        left = if n == 0 { 0 } else { left - n };
    }
}

/// Moves up to `max` packets out of a ring, as many as there are and fit.
///
/// `For` is whoever calls: each has a copy of its own, which is what makes the compiler inline it.
#[inline(always)]
#[expect(clippy::extra_unused_type_parameters, reason = "tells the copies apart")]
pub(super) fn receive<For>(ring: &mut Consumer<Mbuf>, burst: &mut Burst, max: usize) -> usize {
    // SAFETY: an Mbuf is a transparent pointer to its header; the ring moves as many of them into the slots as
    // it says, and does not have them any more.
    unsafe { burst.fill_raw(max, |slots, n| ring.dequeue_burst_raw(slots.cast::<Mbuf>(), n)) }
}

/// Moves up to `max` packets into a ring, as many as fit; the others stay. For `For` see [`receive`].
#[inline(always)]
#[expect(clippy::extra_unused_type_parameters, reason = "tells the copies apart")]
pub(super) fn send<For>(ring: &mut Producer<Mbuf>, burst: &mut Burst, max: usize) -> usize {
    // SAFETY: as in `receive`: the ring becomes the owner of as many packets, from the front, as it says.
    unsafe { burst.take_raw(|slots, n| ring.enqueue_burst_raw(slots.cast::<Mbuf>(), n.min(max))) }
}
