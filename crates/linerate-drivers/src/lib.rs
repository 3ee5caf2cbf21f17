//! Poll-mode drivers without hardware, a module each.
//!
//! [`open`] makes a port from its description; [`DRIVERS`] lists what there is.

pub mod netif;
pub mod null;

pub mod packet;
pub mod pcap;
pub mod ring;
pub mod tap;
pub mod xsk;

use linerate_mem::Clock;
use linerate_port::{DriverEntry, Port, PortError, PortId, PortSpec};

/// Every driver of this crate, by name.
pub const DRIVERS: &[DriverEntry] =
    &[null::ENTRY, packet::ENTRY, pcap::ENTRY, ring::ENTRY, tap::ENTRY, xsk::ENTRY];

/// Makes a port from its description.
///
/// # Errors
///
/// No such driver, device or key, or the driver refuses.
pub fn open(spec: &PortSpec, id: PortId, clock: Clock) -> Result<Port, PortError> {
    let entry = spec.resolve(DRIVERS)?;
    Port::open(id, clock, |context| (entry.open)(spec, context))
}
