//! The packet port: frames of a kernel interface through a packet socket's memory-mapped rings.
//!
//! `packet:eth0` receives everything that the interface receives and sends through it; the kernel's own stack
//! goes on seeing the interface. It needs no change to the interface and works on every kind of one.
//!
//! What was measured and chosen (60-byte frames circulating over a veth pair, one core, kernel 6.18; cycles of
//! a 2.6 GHz clock a frame, with `cargo run --release -p linerate-drivers --example kernel_probe`):
//!
//! * Ring version 2 both ways. Version 3 is no faster here and hands over whole blocks: a burst that does not
//!   fill one waits for a timer of a millisecond or more.
//! * Every sent frame carries an offload header that calls the whole frame "headers". The kernel then copies it
//!   into the packet's own memory, instead of hanging the ring's page on it and counting references: a quarter
//!   less time at 60 bytes and at 1500. It is also what makes it safe to reuse a slot as soon as the kernel
//!   gives it back: interfaces like veth give it back before the receiver has read the page.
//! * Sockets of their own for receiving and sending, so that what is sent is never looked at by our receiver.
//! * One queue joins no fanout group: it would dissect and hash every frame to choose among one.
//! * One system call a sent burst, none a received one.
//!
//! Frames that the kernel leaves unfinished, because it takes the reader for a device that sums and cuts, are
//! finished here: checksums are completed and long TCP and UDP frames are cut into ordinary ones.
//!
//! # Who owns a slot
//!
//! ```text
//! receive   kernel: frame, then status = USER ──K1──►A1 load status, read the frame
//!           R2 store status = KERNEL ──────────────►K2 kernel: load status, write the next frame
//! transmit  R3 frame, then store status = SEND ────►K3 kernel: load status, read the frame
//!           kernel: status = AVAILABLE ──────K4──►A4 load status, write the next frame
//! ```
//!
//! Source: packet(7), `Documentation/networking/packet_mmap.rst`, `linux/if_packet.h`.

mod counts;
mod options;
mod port;
mod ring;
mod rx;
mod tx;

pub use port::ENTRY;
