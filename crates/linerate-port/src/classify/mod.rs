//! Flow rules, receive-side scaling and address filters in software, for devices that have none of their own.
//!
//! ```text
//!  device queue 0 ─► driver ─► [ filter ─ rules ─ hash ] ─► its own: into the burst ──────────────► RxQueue 0
//!                                       │ for queue 1                                                  ▲
//!                                       └──► inbox of queue 1 ─► RxQueue 1          inbox of queue 0 ──┘
//! ```
//! The stage lies between a driver and the queue's owner and is gone through only while there is something for it to
//! do: a port without rules, spreading and filters pays nothing for it, since one byte tells a queue's owner both
//! whether the queue runs and whether the stage is wanted. Once a stage was wanted it stays in the path until the
//! port stops, so that nothing is forgotten in an inbox.
//!
//! **Order of decisions.** A frame that the filters do not take is dropped. Else the first rule that matches, by
//! priority and then by number, decides. Else the hash and the redirection table do; what has nothing to hash goes to
//! queue 0. Without spreading a frame stays on the queue that the device gave it. Every rule is looked at in turn: the
//! cost grows with their number.
//!
//! **Hand-over.** Each queue has an inbox as long as its descriptor ring. Its owner empties that first, then polls its
//! own device queue, and the other way round after a poll that the inbox alone has filled, so that neither starves. A
//! full inbox loses the frame, counted as missed by the queue that did not keep up. A device queue whose owner does
//! not poll is not drained, as with hardware: frames that it would hand to other queues wait in the device. Buffers in
//! an inbox are of the pool of the queue that received them. An owner that sleeps until its device wakes it does not
//! see what comes into its inbox: [`RxQueue::is_staged`](crate::RxQueue::is_staged) tells.
//!
//! **More queues than the device has.** With spreading by software a port may be configured with more receive queues
//! than its device has (at most [`MAX_QUEUES`]); those beyond have an inbox only. So even a device with one queue
//! feeds several cores.
//!
//! **Changes under traffic.** What is to be done is a table that never changes; a change makes a new one
//! and raises a number. A queue's owner compares that number once a poll. It takes no lock but for the one poll that
//! finds the number changed.
//!
//! **Frames that cannot be parsed** match what is known of them, hash over what is known of them, and are counted.
//! Nothing is dropped for being malformed.

mod books;
mod control;
mod headers;
mod rule;
mod soft;
mod stage;
mod table;
#[cfg(test)]
mod tests;

pub(crate) use books::StageBooks;
pub(crate) use control::Classifier;
pub(crate) use soft::NoDevice;
pub(crate) use stage::RxStage;

/// Most receive queues that a port can have by software.
pub const MAX_QUEUES: u16 = 64;
/// Most entries of a redirection table in software.
pub const RETA_SIZE: u16 = 512;
/// Most MAC addresses of a port that filters in software, its own included.
pub const MAX_MAC_ADDRESSES: u16 = 128;
