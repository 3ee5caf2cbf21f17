//! A side with exactly one thread: no read-modify-write at all.
//!
//! ```text
//!   producer                                   consumer
//!   --------                                   --------
//!   load  cons.tail      (A) <---------------- store cons.tail     (T)   slots are free again
//!   write slots                                read  slots
//!   store prod.tail      (T) ----------------> load  prod.tail     (A)   slots hold values
//! ```
//! T of one side pairs with A of the other, both ways round. The own index and the last seen opposite tail
//! are in the handle, on a cache line of its own: (A) happens only when the last seen value does not
//! suffice, so a producer that is ahead does not touch the consumer's line at all, and the other way round.

use core::cell::Cell;
use core::marker::PhantomData;

use crossbeam_utils::CachePadded;

use crate::orders::Edges;
use crate::side::{Ask, Engine, Grant, Serial, Side};
use crate::size::RingSize;
use crate::sync::{AtomicU32, Ordering, protocol_assert, spin};

/// One thread at a time, which the types see to: the handle can be sent, but neither cloned nor shared.
#[derive(Clone, Copy, Debug)]
pub enum Single {}

#[derive(Debug)]
pub struct State {
    tail: CachePadded<AtomicU32>,
}

/// The private half of a single side.
#[derive(Debug)]
#[repr(align(64))]
pub struct Local {
    /// Own index: all before it is published.
    index: u32,
    /// Where the room ends, by the opposite tail as last seen: that tail, and a capacity on for a producer.
    limit: u32,
    /// Where the last look in vain was.
    in_vain: u32,
    /// How many times to wait at the first look in vain; see `set_linger`.
    linger: u32,
    not_sync: PhantomData<Cell<()>>,
}

impl Local {
    /// Not again at this place: who waits for long is not held up by this.
    #[inline(always)]
    fn looked_in_vain(&mut self) {
        if self.linger != 0 && self.in_vain != self.index {
            self.in_vain = self.index;
            for _ in 0..self.linger {
                spin();
            }
        }
    }

    pub(crate) fn set_linger(&mut self, pauses: u32) {
        self.linger = pauses;
    }
}

impl Side for Single {}
impl Serial for Single {}

impl Engine for Single {
    type State = State;
    type Local = Local;

    #[allow(private_interfaces)]
    fn state(size: RingSize) -> State {
        State { tail: CachePadded::new(AtomicU32::new(size.start())) }
    }

    fn local(start: u32, base: u32) -> Local {
        let limit = start.wrapping_add(base);
        Local { index: start, limit, in_vain: start, linger: 0, not_sync: PhantomData }
    }

    #[inline(always)]
    fn published(state: &State, order: Ordering) -> u32 {
        state.tail.load(order)
    }

    #[inline(always)]
    #[allow(private_interfaces)]
    fn reserve<O: Engine>(_: &State, local: &mut Local, opposite: &O::State, ask: Ask, e: &Edges) -> Grant {
        let mut room = local.limit.wrapping_sub(local.index);
        if !ask.fits(room) || ask.exact {
            // A: pairs with T of the opposite side.
            local.limit = O::published(opposite, e.opposite_tail).wrapping_add(ask.base);
            room = local.limit.wrapping_sub(local.index);
        }
        protocol_assert!(room <= ask.capacity, "room {room} of {}", ask.capacity);
        let n = ask.admitted(room);
        if n == 0 {
            local.looked_in_vain();
        }
        Grant { pos: local.index, n, room }
    }

    #[inline(always)]
    #[allow(private_interfaces)]
    fn publish(state: &State, local: &mut Local, pos: u32, n: u32, e: &Edges) {
        local.index = pos.wrapping_add(n);
        // T: pairs with A of the opposite side.
        state.tail.store(local.index, e.tail_store);
    }
}
