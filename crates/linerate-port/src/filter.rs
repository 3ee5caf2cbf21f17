//! Which frames a port takes: MAC addresses, VLANs, promiscuous and all-multicast mode.

use std::collections::BTreeSet;

pub use linerate_net::MacAddr as MacAddress;

/// The filters of a port as set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilterState {
    /// Take every frame.
    pub promiscuous: bool,
    /// Take every multicast frame.
    pub all_multicast: bool,
    /// Addresses besides the port's own.
    pub mac: BTreeSet<MacAddress>,
    /// VLANs to take; empty = no filter.
    pub vlans: BTreeSet<u16>,
}
