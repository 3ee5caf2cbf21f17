//! Bounded FIFO rings in every synchronisation mode.
//!
//! A ring moves values of any `T: Send` from producers to consumers, in order, without a lock and without an
//! allocation a call. What differs between the modes is how the threads of one side agree:
//!
//! | mode | made by | for |
//! |---|---|---|
//! | SPSC | [`spsc`] | one thread on each side: no read-modify-write at all |
//! | SPSC in blocks | [`spsc_blocks`] | the same, for elements that cross between cores one a call |
//! | MPMC, MPSC, SPMC | [`mpmc`], [`mpsc`], [`spmc`] | any number of threads on a side, each on a core of its own |
//! | RTS | [`rts`] | threads that may be preempted in the middle of a call: the others go on |
//! | HTS | [`hts`] | threads that may be preempted: one operation at a time; can peek |
//! | slots | [`SlotRing`] | a sequence number per slot: few elements a call between cores |
//!
//! A [`Single`] end can be sent to another thread but neither cloned nor shared, and its methods take
//! `&mut self`: the rule of the single producer is the type. Ends of the other modes are `Clone` and `Sync`,
//! and [`MpmcRing`], [`RtsRing`], [`HtsRing`] and [`SlotRing`] are used in place through `&self`.
//!
//! Calls come as *single* (`enqueue`, `dequeue`), *bulk* (all or nothing) and *burst* (as many as fit or are
//! there), on slices of `Copy` elements, on vectors, and on raw pointers that hand over ownership; the
//! `_counted` ones also tell what is left after the call ([`Moved`]). On [`Serial`] sides an operation can be
//! started, looked at and finished with fewer elements (`dequeue_start`, `enqueue_start`), and slots can be
//! read and written where they are (`read_slots`, `write_slots`).
//!
//! ```
//! use linerate_ring::{RingSize, Want, spsc};
//!
//! # fn main() -> Result<(), linerate_ring::RingError> {
//! let (mut tx, mut rx) = spsc::<u64>(RingSize::power_of_two(1024)?)?;
//! let sender = std::thread::spawn(move || tx.enqueue_burst(&[1, 2, 3]));
//! assert_eq!(sender.join().unwrap(), 3);
//!
//! let mut out = [0; 32];
//! let moved = rx.dequeue_counted(&mut out[..2], Want::Bulk);
//! assert_eq!((moved.count, moved.left), (2, 1));
//! assert_eq!(rx.dequeue_burst(&mut out), 1);
//! # Ok(())
//! # }
//! ```
//!
//! Indexes are 32 bits wide and run freely; no slot is given up to tell full from empty ([`RingSize`]).
//! Dropping a ring drops what is in it. The orders of all atomics stand in one table (`orders.rs`), by the
//! letters of the drawings at the top of each mode's file; the model checks (`loom_modes.rs`) play every mode
//! full, empty and with wrapping indexes, and weaken each order to see the model fail (`loom_mutants.rs`):
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p linerate-ring --release --lib loom
//! cargo run --release -p linerate-ring --example ring_probe     # what a call costs, beside other crates
//! ```

mod block_store;
mod blocks;
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

pub use blocks::{BlockConsumer, BlockEnds, BlockProducer, spsc_blocks};
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
