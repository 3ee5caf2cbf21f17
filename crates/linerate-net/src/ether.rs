//! Ethernet II (IEEE 802.3): addresses, the header and the EtherTypes that the parser knows.

use core::fmt;
use core::str::FromStr;

use zerocopy::network_endian::U16;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

use crate::view::header;

/// EtherType numbers (IEEE registry), host order.
pub mod ether_type {
    /// IPv4.
    pub const IPV4: u16 = 0x0800;
    /// ARP.
    pub const ARP: u16 = 0x0806;
    /// Transparent Ethernet bridging: an Ethernet frame inside GRE, GENEVE.
    pub const TEB: u16 = 0x6558;
    /// 802.1Q customer tag.
    pub const VLAN: u16 = 0x8100;
    /// IPv6.
    pub const IPV6: u16 = 0x86dd;
    /// 802.1ad service tag.
    pub const QINQ: u16 = 0x88a8;
    /// LLDP.
    pub const LLDP: u16 = 0x88cc;
    /// Precision time protocol (IEEE 1588).
    pub const PTP: u16 = 0x88f7;
    /// The service tag that was in use before 802.1ad.
    pub const QINQ_OLD: u16 = 0x9100;
}

/// A 48-bit Ethernet address in wire order.
///
/// ```
/// use linerate_net::MacAddr;
/// let mac: MacAddr = "02:00:00:00:00:1f".parse().unwrap();
/// assert_eq!(mac.octets(), [2, 0, 0, 0, 0, 0x1f]);
/// assert_eq!(mac.to_string(), "02:00:00:00:00:1f");
/// ```
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Default,
    FromBytes,
    IntoBytes,
    Unaligned,
    Immutable,
    KnownLayout,
)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// All ones: every station.
    pub const BROADCAST: MacAddr = MacAddr([0xff; 6]);
    /// All zeros: no address.
    pub const ZERO: MacAddr = MacAddr([0; 6]);

    /// The address made of these octets, first on the wire first.
    #[inline]
    pub const fn new(octets: [u8; 6]) -> Self {
        MacAddr(octets)
    }

    /// testpmd's default peer address `02:00:00:00:00:NN`.
    #[inline]
    pub const fn peer(index: u8) -> Self {
        MacAddr([2, 0, 0, 0, 0, index])
    }

    /// The octets in wire order.
    #[inline]
    pub const fn octets(self) -> [u8; 6] {
        self.0
    }

    /// The group bit: multicast or broadcast.
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// All ones.
    #[inline]
    pub fn is_broadcast(self) -> bool {
        self == Self::BROADCAST
    }

    /// All zeros.
    #[inline]
    pub fn is_zero(self) -> bool {
        self == Self::ZERO
    }

    /// The "locally administered" bit.
    #[inline]
    pub const fn is_local(self) -> bool {
        self.0[0] & 2 != 0
    }

    /// May stand as a port's own address: neither group nor zero.
    #[inline]
    pub fn is_assignable(self) -> bool {
        !self.is_multicast() && !self.is_zero()
    }
}

impl From<[u8; 6]> for MacAddr {
    fn from(octets: [u8; 6]) -> Self {
        MacAddr(octets)
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not an Ethernet address.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MacParseError {
    /// Not six groups.
    #[error("'{text}' has {groups} groups, an Ethernet address has 6")]
    Groups {
        /// What was given.
        text: String,
        /// How many groups it has.
        groups: usize,
    },
    /// A group that is not one or two hexadecimal digits.
    #[error("group {position} of '{text}' is '{group}', not one or two hexadecimal digits")]
    Digits {
        /// What was given.
        text: String,
        /// The group, counted from 1.
        position: usize,
        /// The group itself.
        group: String,
    },
}

impl MacParseError {
    /// How to write it right.
    pub fn hint(&self) -> &'static str {
        "write six hexadecimal groups joined by ':' or '-', e.g. 02:00:00:00:00:01"
    }
}

impl FromStr for MacAddr {
    type Err = MacParseError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let separator = if text.contains('-') { '-' } else { ':' };
        let groups = text.split(separator).count();
        if groups != 6 {
            return Err(MacParseError::Groups { text: text.to_owned(), groups });
        }
        let mut octets = [0u8; 6];
        for (position, (octet, group)) in octets.iter_mut().zip(text.split(separator)).enumerate() {
            // from_str_radix alone would take "+f".
            let hex = matches!(group.len(), 1 | 2) && group.bytes().all(|b| b.is_ascii_hexdigit());
            match u8::from_str_radix(group, 16) {
                Ok(value) if hex => *octet = value,
                _ => {
                    return Err(MacParseError::Digits {
                        text: text.to_owned(),
                        position: position + 1,
                        group: group.to_owned(),
                    });
                }
            }
        }
        Ok(MacAddr(octets))
    }
}

header! {
    /// Ethernet II header (IEEE 802.3, 3.1.1), without preamble and frame check sequence.
    pub struct EthHdr {
        /// Destination address.
        pub dst: MacAddr,
        /// Source address.
        pub src: MacAddr,
        /// EtherType, or a length when below 0x600.
        pub ether_type: U16,
    } size 14
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_parse_and_print() {
        assert_eq!("2-0-0-0-0-A".parse::<MacAddr>().unwrap(), MacAddr::peer(10));
        assert_eq!("FF:ff:FF:ff:FF:ff".parse::<MacAddr>().unwrap(), MacAddr::BROADCAST);
        assert_eq!(format!("{:?}", MacAddr::peer(255)), "02:00:00:00:00:ff");
    }

    #[test]
    fn bad_addresses_say_where() {
        assert!(matches!("".parse::<MacAddr>(), Err(MacParseError::Groups { groups: 1, .. })));
        assert!(matches!("1:2:3:4:5:6:7".parse::<MacAddr>(), Err(MacParseError::Groups { groups: 7, .. })));
        for (text, at) in [("1:2:3:4:5:+f", 6), ("100:2:3:4:5:6", 1), ("1::3:4:5:6", 2), ("1:2:3:x:5:6", 4)] {
            match text.parse::<MacAddr>() {
                Err(MacParseError::Digits { position, .. }) => assert_eq!(position, at, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        assert!("é:2:3:4:5:6".parse::<MacAddr>().unwrap_err().hint().contains("02:00"));
    }

    #[test]
    fn address_kinds() {
        assert!(MacAddr::BROADCAST.is_broadcast() && MacAddr::BROADCAST.is_multicast());
        assert!(!MacAddr::BROADCAST.is_assignable() && !MacAddr::ZERO.is_assignable());
        assert!(MacAddr::peer(0).is_assignable() && MacAddr::peer(0).is_local());
    }
}
