//! Head-tail sync: one operation at a time; head and tail in one word, and whoever finds them equal may go.
//!
//! Fully serialised, so the length of the waiting does not grow with the number of threads as it does when
//! each waits for his predecessor, and an operation may be started, looked at and cut short (`peek.rs`).
//!
//! ```text
//!   thread P                                      thread Q (same side)
//!   --------                                      --------------------
//!   load  word, head==tail (H) <----------------  store word, head==tail (T)
//!   load  opposite tail    (A) <- - - - - - - -   ... of the other side: store word (T)
//!   cas   word ok          (C) <----------------  store word (T), the same value again
//!         or failed        (F) <----------------  store word, head==tail (T)
//!   move values
//!   store word, head==tail (T) - - - - - - - - >  ... of the other side: load word (A)
//! ```
//! The opposite tail as last seen is kept beside the word and belongs to whoever holds the operation. P reads
//! it after H and before C: when C succeeds, nobody held the operation in between, save one who was granted
//! positions and gave all of them back, which leaves the word as it was. C acquires so that P has
//! synchronised with him too. The release half of C has no reader: others only wait while head and tail
//! differ, and go on with T. It is kept as the corrected algorithm has it (on x86 it costs nothing);
//! `loom_mutants.rs` shows that the model holds without it.

use crossbeam_utils::CachePadded;

use crate::orders::Edges;
use crate::side::{Ask, Engine, Grant, Serial, Shared, Side};
use crate::size::RingSize;
use crate::sync::{AtomicU32, AtomicU64, Ordering, protocol_assert, spin};

/// Any number of threads, one operation of a side at a time; can peek.
#[derive(Clone, Copy, Debug)]
pub enum Hts {}

#[derive(Debug)]
pub struct State {
    /// High half: head. Low half: tail.
    word: CachePadded<AtomicU64>,
    /// The opposite tail as last seen. On a line of its own: the opposite side polls the word.
    seen: CachePadded<AtomicU32>,
}

#[inline(always)]
fn pack(head: u32, tail: u32) -> u64 {
    u64::from(head) << 32 | u64::from(tail)
}

impl Side for Hts {}
impl Shared for Hts {}
impl Serial for Hts {}

impl Engine for Hts {
    type State = State;
    type Local = ();

    #[allow(private_interfaces)]
    fn state(size: RingSize) -> State {
        let start = size.start();
        State {
            word: CachePadded::new(AtomicU64::new(pack(start, start))),
            seen: CachePadded::new(AtomicU32::new(start)),
        }
    }

    fn local(_: u32, _: u32) {}

    #[inline(always)]
    fn published(state: &State, order: Ordering) -> u32 {
        state.word.load(order) as u32
    }

    #[inline(always)]
    #[allow(private_interfaces)]
    fn reserve<O: Engine>(state: &State, _: &mut (), opposite: &O::State, ask: Ask, e: &Edges) -> Grant {
        // H: pairs with T of the thread that held the operation last.
        let mut word = state.word.load(e.head_load);
        loop {
            let head = word as u32; // the tail, that is
            if head != (word >> 32) as u32 {
                spin();
                word = state.word.load(e.head_load); // H
                continue;
            }
            // Relaxed: ordered by H and C.
            let before = state.seen.load(Ordering::Relaxed);
            let mut seen = before;
            let mut room = ask.base.wrapping_add(seen).wrapping_sub(head);
            // A room above the capacity: `seen` is newer than the word, C would fail. Look again.
            if !ask.fits(room) || room > ask.capacity || ask.exact {
                // A: pairs with T of the opposite side.
                seen = O::published(opposite, e.opposite_tail);
                room = ask.base.wrapping_add(seen).wrapping_sub(head);
            }
            let n = ask.admitted(room);
            if n == 0 {
                return ask.nothing(room);
            }
            // C: pairs with T, see above. F: as H.
            match state.word.compare_exchange_weak(
                word,
                word.wrapping_add(pack(n, 0)),
                e.hts_cas_ok,
                e.head_cas_fail,
            ) {
                Ok(_) => {
                    protocol_assert!(room <= ask.capacity, "room {room} of {}", ask.capacity);
                    if seen != before {
                        // Relaxed: ours until T.
                        state.seen.store(seen, Ordering::Relaxed);
                    }
                    return Grant { pos: head, n, room };
                }
                Err(newer) => word = newer,
            }
        }
    }

    #[inline(always)]
    #[allow(private_interfaces)]
    fn publish(state: &State, _: &mut (), pos: u32, n: u32, e: &Edges) {
        let next = pos.wrapping_add(n);
        // T: pairs with A of the opposite side and H, C of this one. The whole word: it is ours.
        state.word.store(pack(next, next), e.tail_store);
    }
}
