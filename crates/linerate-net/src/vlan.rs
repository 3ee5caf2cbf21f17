//! VLAN tags: 802.1Q, 802.1ad (QinQ) and the older 0x9100 service tag.

use zerocopy::network_endian::U16;

use crate::ether::ether_type;
use crate::view::header;

/// The parser refuses frames with more tags than this; a bounded walk can always end (see `parse`).
pub const MAX_VLAN_TAGS: usize = 8;

header! {
    /// What follows a tag's EtherType: control information and the EtherType of what it wraps (802.1Q, 9.6).
    pub struct VlanTag {
        /// Priority (3 bits), drop eligible (1 bit), VLAN identifier (12 bits).
        pub tci: U16,
        /// EtherType of what follows, possibly another tag.
        pub ether_type: U16,
    } size 4
}

impl VlanTag {
    /// VLAN identifier, 0..=4095.
    #[inline]
    pub fn vid(&self) -> u16 {
        self.tci.get() & 0x0fff
    }

    /// Priority code point, 0..=7.
    #[inline]
    pub fn pcp(&self) -> u8 {
        (self.tci.get() >> 13) as u8
    }

    /// Drop eligible indicator.
    #[inline]
    pub fn dei(&self) -> bool {
        self.tci.get() & 0x1000 != 0
    }
}

/// Is this EtherType that of a VLAN tag?
#[inline]
pub const fn is_vlan(ether_type: u16) -> bool {
    matches!(ether_type, ether_type::VLAN | ether_type::QINQ | ether_type::QINQ_OLD)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_information_is_taken_apart() {
        let tag = VlanTag { tci: U16::new(0xb04d), ether_type: U16::new(0x0800) };
        assert_eq!((tag.pcp(), tag.dei(), tag.vid()), (5, true, 77));
        assert!(is_vlan(0x8100) && is_vlan(0x88a8) && is_vlan(0x9100) && !is_vlan(0x0800));
    }
}
