//! Relaxed tail sync: nobody waits for those before him; the last one to finish moves the tail for all.
//!
//! For threads that may be preempted in the middle of a call. Both words hold a count of operations and a
//! position. The head's count goes up when an operation starts, the tail's when one ends; whoever makes the
//! counts equal knows that all positions up to the head are done, and takes the tail there.
//!
//! ```text
//!   thread P                                      thread Q (same side)
//!   --------                                      --------------------
//!   load  head word        (H) <----------------  cas  head word ok     (C)
//!   load  opposite tail    (A) <- - - - - - - -   ... of the other side: cas tail word ok (U)
//!   cas   head word ok     (C)
//!         or failed        (F) <----------------  cas  head word ok     (C)
//!   move values
//!   load  tail word        (L) <----------------  cas  tail word ok     (U)
//!   load  head word     relaxed
//!   cas   tail word ok     (U) - - - - - - - - >  ... of the other side: load tail word (A)
//!         or failed        (M) <----------------  cas  tail word ok     (U)
//! ```
//! L and M acquire so that the head word read next is at least as new as the operations the tail counts;
//! an older head would make the counts look equal while an earlier operation is still under way. The chain
//! of U's is one release sequence, so A synchronises with every thread whose slots the tail covers.

use crossbeam_utils::CachePadded;

use crate::orders::Edges;
use crate::side::{Ask, Engine, Grant, Shared, Side};
use crate::size::RingSize;
use crate::sync::{AtomicU64, Ordering, protocol_assert, spin};

/// Any number of threads that may be preempted: a stopped one does not stop the others of its side, up to
/// the head-tail distance of the ring ([`RingSize::head_tail_distance`]).
#[derive(Clone, Copy, Debug)]
pub enum Rts {}

#[derive(Debug)]
pub struct State {
    head: CachePadded<AtomicU64>,
    tail: CachePadded<AtomicU64>,
    /// How far the head may run ahead of the tail, in elements.
    distance: u32,
}

/// Low half: position. High half: count.
#[inline(always)]
fn pack(pos: u32, count: u32) -> u64 {
    u64::from(pos) | u64::from(count) << 32
}
#[inline(always)]
fn unpack(word: u64) -> (u32, u32) {
    (word as u32, (word >> 32) as u32)
}

impl Side for Rts {}
impl Shared for Rts {}

impl Engine for Rts {
    type State = State;
    type Local = ();

    #[allow(private_interfaces)]
    fn state(size: RingSize) -> State {
        // The counts start where the positions start, so that tests see them wrap too.
        let word = pack(size.start(), size.start());
        State {
            head: CachePadded::new(AtomicU64::new(word)),
            tail: CachePadded::new(AtomicU64::new(word)),
            distance: size.distance(),
        }
    }

    fn local(_: u32, _: u32) {}

    #[inline(always)]
    fn published(state: &State, order: Ordering) -> u32 {
        unpack(state.tail.load(order)).0
    }

    #[inline(always)]
    #[allow(private_interfaces)]
    fn reserve<O: Engine>(state: &State, _: &mut (), opposite: &O::State, ask: Ask, e: &Edges) -> Grant {
        // H: pairs with C of the thread that moved the head last.
        let mut word = state.head.load(e.head_load);
        loop {
            let (head, count) = unpack(word);
            // Relaxed: a policy, not a protocol; an old tail only makes us wait for a newer one.
            if head.wrapping_sub(unpack(state.tail.load(Ordering::Relaxed)).0) > state.distance {
                spin();
                word = state.head.load(e.head_load); // H
                continue;
            }
            // A: pairs with U of the opposite side. Not older than what the head was moved by, due to H or F.
            let seen = O::published(opposite, e.opposite_tail);
            let room = ask.base.wrapping_add(seen).wrapping_sub(head);
            let n = ask.admitted(room);
            if n == 0 {
                return ask.nothing(room);
            }
            // C: pairs with H and F of the other threads of this side. F: pairs with C.
            match state.head.compare_exchange_weak(
                word,
                pack(head.wrapping_add(n), count.wrapping_add(1)),
                e.head_cas_ok,
                e.head_cas_fail,
            ) {
                Ok(_) => {
                    protocol_assert!(room <= ask.capacity, "room {room} of {}", ask.capacity);
                    return Grant { pos: head, n, room };
                }
                Err(newer) => word = newer,
            }
        }
    }

    #[inline(always)]
    #[allow(private_interfaces)]
    fn publish(state: &State, _: &mut (), _: u32, _: u32, e: &Edges) {
        // L: pairs with U of the threads of this side that ended before us.
        let mut word = state.tail.load(e.rts_tail_load);
        loop {
            // Relaxed: L or M has made it new enough.
            let head = state.head.load(Ordering::Relaxed);
            // One more is done. When that is all that were started, the tail is where the head is.
            let next = if (head >> 32) as u32 == ((word >> 32) as u32).wrapping_add(1) {
                head
            } else {
                word.wrapping_add(1 << 32)
            };
            // U: pairs with A of the opposite side and with L, M of this one. M: pairs with U.
            match state.tail.compare_exchange_weak(word, next, e.rts_tail_cas_ok, e.rts_tail_cas_fail) {
                Ok(_) => return,
                Err(newer) => word = newer,
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Rts;
    use crate::side::{Engine, Want};
    use crate::{RingSize, RtsRing};

    /// A producer that is stopped between its reservation and its publication.
    #[test]
    fn a_stopped_thread_does_not_stop_the_others() {
        let size = RingSize::power_of_two(16).unwrap().starting_at(u32::MAX - 1).head_tail_distance(4);
        let ring = RtsRing::<u64>::new(size).unwrap();
        let stopped = ring.reserve_slots::<false>(&mut (), 1, Want::Bulk);
        std::thread::scope(|s| {
            // Neither waits, although nothing can be published before the first has.
            s.spawn(|| assert_eq!(ring.enqueue_bulk(&[2, 3]), 2));
        });
        assert_eq!(ring.enqueue(4), Ok(()));
        assert_eq!((ring.len(), ring.dequeue()), (0, None));
        // The head is now as far ahead as it may be: one more goes through, the next one waits.
        assert_eq!(ring.enqueue(5), Ok(()));
        std::thread::scope(|s| {
            let waits = s.spawn(|| ring.enqueue(6));
            std::thread::sleep(std::time::Duration::from_millis(20));
            assert!(!waits.is_finished());
            // SAFETY: the slot was granted above.
            unsafe { ring.view().put(stopped.pos, [1].as_ptr(), 1) };
            Rts::publish(&ring.prod, &mut (), stopped.pos, 1, &ring.table().prod);
            assert_eq!(waits.join().unwrap(), Ok(()));
        });
        assert_eq!(ring.drain().collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6]);
    }
}
