//! Network interfaces of the kernel: looking them up, changing them, and hearing what happens to them.
//!
//! A [`NetIf`] is an interface by its number, so that a rename does not lead to another one; it speaks
//! rtnetlink over a socket of its own and stays in the network namespace in which it was made. A [`LinkWatch`]
//! hears of every change. [`Memberships`] ask for promiscuous mode and addresses as long as they live, so that
//! nothing is left behind by a process that is killed. `segment` cuts the long frames that the kernel hands
//! out when it expects the device to do so.
//!
//! Sources: rtnetlink(7), packet(7), `linux/if_link.h`, `linux/virtio_net.h`.

pub(crate) mod counts;
mod error;
mod interface;
pub(crate) mod landing;
mod link;
mod membership;
mod message;
mod port_link;
pub(crate) mod segment;
pub(crate) mod sys;
pub mod veth;
pub(crate) mod vnet;
mod watch;

pub use error::NetIfError;
pub(crate) use error::hint_for;
pub use interface::{NetIf, check_name};
pub use link::{IF_NAME_MAX, LinkInfo};
pub use membership::Memberships;
pub use port_link::PortLink;
pub use watch::{LinkEvent, LinkWatch};
