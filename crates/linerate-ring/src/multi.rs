//! A side with any number of threads: a head that is moved by compare-and-swap, a tail that follows in order.
//!
//! ```text
//!   thread P (producers)                         thread Q (same side)
//!   --------------------                         --------------------
//!   load  prod.head       (H) <----------------  cas   prod.head ok     (C)
//!   load  cons.tail       (A) <- - - - - - - -   ... of the other side: store cons.tail (T)
//!   cas   prod.head ok    (C)
//!         or failed       (F) <----------------  cas   prod.head ok     (C)
//!   write slots
//!   wait  prod.tail==old  (W) <----------------  store prod.tail        (T)
//!   store prod.tail       (T) - - - - - - - - >  ... of the other side: load prod.tail (A)
//! ```
//! Consumers do the same with the names exchanged.
//!
//! The head word holds two halves: the head index, and the room there is for sure behind it, by the opposite
//! tail as last seen by whoever moved the head. So the common case touches no line of the other side, and the
//! pair is always consistent: both halves are from the same moment. Whoever takes positions on the strength
//! of that half has not read the opposite tail himself; what makes the slots his is C -> H (or C -> F), which
//! passes on what the other thread acquired by A. The defect that DPDK had until 2025 (H and F too weak, then
//! an opposite tail from before the one the head was moved by, and a room of 2^32 - 1) is a mutant in
//! `loom_mutants.rs`.
//!
//! W acquires: the consumer that reads our tail has synchronised with us alone, so we must have synchronised
//! with those before us whose slots our tail publishes too.

use crossbeam_utils::CachePadded;

use crate::orders::Edges;
use crate::side::{Ask, Engine, Grant, Shared, Side};
use crate::size::RingSize;
use crate::sync::{AtomicU32, AtomicU64, Ordering, protocol_assert, spin};

/// Any number of threads, the classic way: fast while no thread is preempted in the middle of a call.
#[derive(Clone, Copy, Debug)]
pub enum Multi {}

/// Head and tail on lines of their own: the opposite side polls the tail, and must not slow down the head.
#[derive(Debug)]
pub struct State {
    /// High half: the head index. Low half: room for sure.
    head: CachePadded<AtomicU64>,
    tail: CachePadded<AtomicU32>,
}

#[inline(always)]
fn pack(head: u32, room: u32) -> u64 {
    u64::from(head) << 32 | u64::from(room)
}

impl Side for Multi {}
impl Shared for Multi {}

impl Engine for Multi {
    type State = State;
    type Local = ();

    #[allow(private_interfaces)]
    fn state(size: RingSize) -> State {
        let start = size.start();
        State {
            // No room for sure, on either side: the first look finds it.
            head: CachePadded::new(AtomicU64::new(pack(start, 0))),
            tail: CachePadded::new(AtomicU32::new(start)),
        }
    }

    fn local(_: u32, _: u32) {}

    #[inline(always)]
    fn published(state: &State, order: Ordering) -> u32 {
        state.tail.load(order)
    }

    #[inline(always)]
    #[allow(private_interfaces)]
    fn reserve<O: Engine>(state: &State, _: &mut (), opposite: &O::State, ask: Ask, e: &Edges) -> Grant {
        // H: pairs with C of the thread that moved the head last.
        let mut word = state.head.load(e.head_load);
        #[cfg(loom)]
        if e.fence_after_head {
            crate::sync::fence(Ordering::Acquire);
        }
        loop {
            let (head, mut room) = ((word >> 32) as u32, word as u32);
            protocol_assert!(room <= ask.capacity, "room {room} of {}", ask.capacity);
            // The next word is written for the shortest way from the loaded one to the compare-and-swap, which
            // is what a call on one core costs: one addition, or two steps, none of which waits for A.
            let (n, next) = if ask.fits(room) && !ask.exact {
                let n = ask.n as u32;
                // n more in the high half, n less in the low one, which holds at least n.
                (n, word.wrapping_add(u64::from(n) * 0xffff_ffff))
            } else {
                // A: pairs with T of the opposite side. Never older than what the head was moved by, which H
                // or F has made visible.
                let seen = O::published(opposite, e.opposite_tail);
                room = ask.base.wrapping_add(seen).wrapping_sub(head);
                let n = ask.admitted(room);
                if n == 0 {
                    return ask.nothing(room);
                }
                let head = word & !u64::from(u32::MAX);
                (n, head.wrapping_add(if n == room { pack(n, 0) } else { pack(n, room - n) }))
            };
            // C: pairs with H and F of the other threads of this side. F: pairs with C.
            match state.head.compare_exchange_weak(word, next, e.head_cas_ok, e.head_cas_fail) {
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
    fn publish(state: &State, _: &mut (), pos: u32, n: u32, e: &Edges) {
        // W: pairs with T of the thread whose positions come before ours.
        while state.tail.load(e.tail_wait) != pos {
            spin();
        }
        // T: pairs with A of the opposite side and W of this one.
        state.tail.store(pos.wrapping_add(n), e.tail_store);
    }
}
