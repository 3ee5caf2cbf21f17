//! Bounded FIFO rings in every synchronisation mode.
#![cfg_attr(not(test), warn(clippy::unwrap_used))]

mod copy;
mod handle;
mod hold;
mod hts;
#[cfg(all(test, loom))]
mod loom_modes;
#[cfg(all(test, loom))]
mod loom_mutants;
#[cfg(all(test, loom))]
mod loom_scenes;
mod make;
mod methods;
mod multi;
mod orders;
mod peek;
mod ring;
mod rts;
mod side;
mod single;
mod size;
mod slots;
mod storage;
mod sync;
mod zc;

pub use handle::{Consumer, Producer};
pub use hts::Hts;
pub use make::{Ends, hts, mpmc, mpsc, rts, spmc, spsc};
pub use multi::Multi;
pub use peek::{DequeueStart, EnqueueStart};
pub use ring::{HtsRing, MpmcRing, Ring, RtsRing};
pub use rts::Rts;
pub use side::{Moved, Serial, Shared, Side, Want};
pub use single::Single;
pub use size::{MAX_CAPACITY, RingError, RingSize};
pub use slots::SlotRing;
pub use zc::{ReadSlots, WriteSlots};
