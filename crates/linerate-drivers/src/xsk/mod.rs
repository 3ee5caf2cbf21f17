//! The AF_XDP port: packets of a kernel interface, taken before the kernel's own stack sees them.
//!
//! ```text
//!  interface ─► program (ours, 6 instructions) ─► socket of the queue ─► fill/receive rings ─► RxQueue
//!                    │ no socket: the kernel's stack                       packet memory
//!  interface ◄── sendto ◄─ transmit/completion rings ◄──────────────────────────────────── TxQueue
//! ```
//!
//! - **Modes.** `mode=auto` attaches the program in the driver (*native*) if it can, else in the kernel's stack
//!   (*generic*), and has the kernel leave packets where they are (*zero-copy*) if the driver can, else copy them.
//!   [`report`] says in one line what was taken, and why not better. `mode=native` and `mode=zero-copy` fail where
//!   they cannot be had.
//! - **Life.** The program is held by a link, promiscuous mode and further addresses by a socket: all of it is gone
//!   when the process dies, however it dies. A stopped port leaves the traffic to the kernel, as before.
//! - **Wake-ups.** Who calls the kernel when is told at the top of `rx` and `tx`, and counted.
//! - **Jumbo.** A packet longer than a frame of packet memory is a chain of descriptors on the kernel's side and a
//!   chain of buffers on ours (Linux 6.6; with the `SCATTER` offload). It is delivered whole or not at all.
//! - **What it needs.** CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF (or root), Linux 5.11; no file, no mount, no library.
//!
//! Keys are those of DPDK's `net_af_xdp` where it has them.

mod attach;
mod bpf;
mod device;
mod error;
mod holder;
mod lane;
mod mapped;
mod napi;
mod netdev;
mod netlink;
mod options;
#[cfg(test)]
mod played;
mod port;
mod ring;
mod rx;
mod selftest;
mod socket;
mod sys;
mod tx;
mod umem;
mod watch;

pub use error::XskError;
pub use port::{ENTRY, report};
