//! What the two sides of a ring have in common: a side reserves positions, moves values, publishes them.

use crate::orders::Edges;
use crate::size::RingSize;
use crate::sync::Ordering;

/// How many of the elements asked for must be moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Want {
    /// All or none.
    Bulk,
    /// As many as there is room for (or as many as there are).
    Burst,
}

/// What a call did, and what is left after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// Elements that were moved.
    pub count: usize,
    /// After an enqueue: free slots. After a dequeue: elements still there. Other threads may have changed
    /// it by the time the caller looks.
    pub left: usize,
}

/// A request for positions.
#[derive(Clone, Copy)]
pub(crate) struct Ask {
    /// Elements wanted, at least 1.
    pub n: usize,
    pub want: Want,
    /// The capacity for producers, 0 for consumers: room = base + opposite tail - own head.
    pub base: u32,
    /// The capacity.
    pub capacity: u32,
    /// Look at the opposite tail in any case, so that `room` is exact at that moment.
    pub exact: bool,
}

/// Positions that are ours until they are published; `n` = 0 means none.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grant {
    pub pos: u32,
    pub n: u32,
    /// Room (or filled slots) when the positions were reserved, before they were taken from it.
    pub room: u32,
}

impl Ask {
    /// Whether `room` admits all of the wanted elements.
    #[inline(always)]
    pub(crate) fn fits(&self, room: u32) -> bool {
        room as usize >= self.n
    }

    /// How many of the wanted elements `room` admits; 0 when it is not enough for this kind of call.
    #[inline(always)]
    pub(crate) fn admitted(&self, room: u32) -> u32 {
        if self.fits(room) {
            // No cut: not above `room`.
            self.n as u32
        } else {
            match self.want {
                Want::Bulk => 0,
                Want::Burst => room,
            }
        }
    }

    /// The answer when nothing is admitted. A head read long ago can make the room look larger than it ever
    /// was, hence the bound.
    #[inline(always)]
    pub(crate) fn nothing(&self, room: u32) -> Grant {
        Grant { pos: 0, n: 0, room: room.min(self.capacity) }
    }
}

/// The engine of one side. `pub` only because public types are generic over it; it cannot be named outside.
pub trait Engine: Sized + 'static {
    /// The shared words of this side.
    type State: Send + Sync;
    /// What a single handle keeps for itself; `()` where handles may be shared.
    type Local: Send;

    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn state(size: RingSize) -> Self::State;
    /// `base` as in [`Ask`].
    #[doc(hidden)]
    fn local(start: u32, base: u32) -> Self::Local;
    /// The position up to which this side has published.
    #[doc(hidden)]
    fn published(state: &Self::State, order: Ordering) -> u32;
    /// Reserves positions; `O` is the opposite side.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn reserve<O: Engine>(
        state: &Self::State,
        local: &mut Self::Local,
        opposite: &O::State,
        ask: Ask,
        e: &Edges,
    ) -> Grant;
    /// Publishes `n` positions from `pos` on. For serial sides `n` may be less than what was reserved.
    #[doc(hidden)]
    #[allow(private_interfaces)]
    fn publish(state: &Self::State, local: &mut Self::Local, pos: u32, n: u32, e: &Edges);
}

/// A way for the threads of one side of a ring to agree: [`Single`](crate::Single), [`Multi`](crate::Multi),
/// [`Rts`](crate::Rts) or [`Hts`](crate::Hts). Closed: other crates cannot add one.
pub trait Side: Engine {}

/// A side whose handles may be cloned and shared: all but [`Single`](crate::Single).
pub trait Shared: Side + Engine<Local = ()> {}

/// A side on which at most one operation is in flight, so that it can be started, looked at and finished
/// with fewer elements: [`Single`](crate::Single) and [`Hts`](crate::Hts).
pub trait Serial: Side {}
