//! The tap port: an Ethernet interface of the kernel's whose other end is this process.
//!
//! `tap:lr0` makes the interface `lr0`, sets it up when the port starts, and what the kernel sends to it is
//! received here and the other way round. It goes when the port is closed or the process dies, unless
//! `persist=1` says otherwise. With `queues=N` the kernel spreads what it sends over N queues by flow.
//!
//! What was measured and chosen (60-byte frames, one core, kernel 6.18, with
//! `cargo run --release -p linerate-drivers --example kernel_probe -- tap:lr0 txonly`):
//!
//! * A frame is one system call each way; the device has no other interface. It is `read` and `write` of the
//!   packet buffer itself: with a vector of pieces, or a header before the frame, each costs a tenth more.
//! * Nothing asks for a signal, or is told, when a frame arrives. A poll that finds nothing costs one `read`.
//! * No deferral to the kernel's polling (`IFF_NAPI`): a frame costs half as much again.
//! * `vnet_hdr=1` lets the kernel hand out TCP and UDP frames of up to 64 KiB, which are cut and summed here: a
//!   system call for forty frames instead of forty, but the work of cutting is ours then and not the sender's.
//!   A transfer over two such taps took as long as without, within noise, and small frames cost a tenth more: off
//!   unless asked for.
//!
//! Source: `Documentation/networking/tuntap.rst`, `linux/if_tun.h`.

mod device;
mod error;
mod options;
mod port;
mod rx;
mod tx;

pub use error::TapError;
pub use port::ENTRY;
