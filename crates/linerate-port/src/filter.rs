//! Which frames a port takes: MAC addresses, VLANs, promiscuous and all-multicast mode.

use core::{fmt, str::FromStr};
use std::collections::BTreeSet;

/// An Ethernet address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct MacAddress(pub [u8; 6]);

impl MacAddress {
    /// The default peer of port number `index`: `02:00:00:00:00:NN`.
    pub const fn peer(index: u8) -> Self {
        MacAddress([2, 0, 0, 0, 0, index])
    }

    /// Whether it addresses a group.
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 == 1
    }

    /// Whether a port may have it: not zero, not a group.
    pub fn is_assignable(self) -> bool {
        !self.is_multicast() && self.0 != [0; 6]
    }
}

impl fmt::Display for MacAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02X}:{b:02X}:{c:02X}:{d:02X}:{e:02X}:{g:02X}")
    }
}

impl FromStr for MacAddress {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let bad = || format!("{s:?} is no MAC address; write six bytes such as 02:00:00:00:00:01");
        let mut out = [0; 6];
        let mut parts = s.split([':', '-']);
        for o in &mut out {
            let p = parts.next().ok_or_else(bad)?;
            if p.is_empty() || p.len() > 2 || !p.bytes().all(|b| b.is_ascii_hexdigit()) {
                return Err(bad());
            }
            *o = u8::from_str_radix(p, 16).map_err(|_| bad())?;
        }
        if parts.next().is_some() { Err(bad()) } else { Ok(MacAddress(out)) }
    }
}

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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_read_as_written() {
        for s in ["02:00:00:00:00:01", "A-B-C-D-E-F"] {
            let m: MacAddress = s.parse().unwrap();
            assert_eq!(m.to_string().parse(), Ok(m));
        }
        for bad in
            ["", "1:2:3:4:5", "1:2:3:4:5:6:7", "1:2:3:4:5:100", "1:2:3:4:5:g", "1:2:3:4:5:+1", "::::::"]
        {
            assert!(bad.parse::<MacAddress>().is_err(), "{bad}");
        }
        assert!(!MacAddress([1, 0, 0, 0, 0, 0]).is_assignable());
        assert!(!MacAddress::default().is_assignable());
        assert!(MacAddress::peer(3).is_assignable());
    }
}
