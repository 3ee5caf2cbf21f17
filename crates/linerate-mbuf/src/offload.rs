//! What a packet says about itself: receive results, transmit requests, packet type.
//!
//! Names follow DPDK's `RTE_MBUF_F_*`, so that a user finds what they know; the bit positions are ours.

use core::fmt;

bitflags::bitflags! {
    /// Receive results (`RX_*`) and transmit requests (`TX_*`) of one packet.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    #[repr(transparent)]
    pub struct OlFlags: u64 {
        /// The packet carried a VLAN tag, which is in `vlan_tci`.
        const RX_VLAN = 1 << 0;
        /// `rss_hash` holds the receive hash.
        const RX_RSS_HASH = 1 << 1;
        /// `mark` holds a flow rule's mark.
        const RX_MARK = 1 << 2;
        /// The IPv4 header checksum was checked and is right.
        const RX_IP_CKSUM_GOOD = 1 << 3;
        /// The IPv4 header checksum was checked and is wrong.
        const RX_IP_CKSUM_BAD = 1 << 4;
        /// The layer-4 checksum was checked and is right.
        const RX_L4_CKSUM_GOOD = 1 << 5;
        /// The layer-4 checksum was checked and is wrong.
        const RX_L4_CKSUM_BAD = 1 << 6;
        /// The outer IPv4 header checksum is wrong.
        const RX_OUTER_IP_CKSUM_BAD = 1 << 7;
        /// The outer layer-4 checksum was checked and is right.
        const RX_OUTER_L4_CKSUM_GOOD = 1 << 8;
        /// The outer layer-4 checksum was checked and is wrong.
        const RX_OUTER_L4_CKSUM_BAD = 1 << 9;
        /// The VLAN tag was taken out of the packet.
        const RX_VLAN_STRIPPED = 1 << 10;
        /// Two VLAN tags: the outer is in `vlan_tci_outer`.
        const RX_QINQ = 1 << 11;
        /// Both VLAN tags were taken out.
        const RX_QINQ_STRIPPED = 1 << 12;
        /// The packet was put together from several by the device.
        const RX_LRO = 1 << 13;
        /// `timestamp` holds the time of reception.
        const RX_TIMESTAMP = 1 << 14;
        /// An IEEE 1588 packet.
        const RX_IEEE1588_PTP = 1 << 15;
        /// An IEEE 1588 packet that the device stamped.
        const RX_IEEE1588_TMST = 1 << 16;

        /// Compute the IPv4 header checksum.
        const TX_IP_CKSUM = 1 << 32;
        /// The packet is IPv4; needed with every checksum or segmentation request.
        const TX_IPV4 = 1 << 33;
        /// The packet is IPv6.
        const TX_IPV6 = 1 << 34;
        /// Compute the TCP checksum.
        const TX_TCP_CKSUM = 1 << 35;
        /// Compute the UDP checksum.
        const TX_UDP_CKSUM = 1 << 36;
        /// Compute the SCTP checksum.
        const TX_SCTP_CKSUM = 1 << 37;
        /// Cut the packet into TCP segments of `tso_segsz`.
        const TX_TCP_SEG = 1 << 38;
        /// Cut the packet into UDP segments of `tso_segsz`.
        const TX_UDP_SEG = 1 << 39;
        /// Insert the VLAN tag in `vlan_tci`.
        const TX_VLAN = 1 << 40;
        /// Insert both VLAN tags.
        const TX_QINQ = 1 << 41;
        /// Compute the outer IPv4 header checksum.
        const TX_OUTER_IP_CKSUM = 1 << 42;
        /// The outer header is IPv4.
        const TX_OUTER_IPV4 = 1 << 43;
        /// The outer header is IPv6.
        const TX_OUTER_IPV6 = 1 << 44;
        /// Compute the outer UDP checksum.
        const TX_OUTER_UDP_CKSUM = 1 << 45;
        /// The packet is a VXLAN tunnel.
        const TX_TUNNEL_VXLAN = 1 << 46;
        /// The packet is a GRE tunnel.
        const TX_TUNNEL_GRE = 1 << 47;
        /// The packet is a GENEVE tunnel.
        const TX_TUNNEL_GENEVE = 1 << 48;
        /// The packet is an IP-in-IP tunnel.
        const TX_TUNNEL_IPIP = 1 << 49;
        /// Stamp this packet when it leaves.
        const TX_IEEE1588_TMST = 1 << 50;
        /// Insert MACsec.
        const TX_MACSEC = 1 << 51;

        /// The bits that [`DynRegistry`](crate::DynRegistry) hands out as dynamic flags.
        const DYNAMIC = 0xff << 24;
    }
}

impl OlFlags {
    /// All receive results.
    pub const RX_ALL: Self = Self::from_bits_retain(0x1ffff);
    /// All transmit requests.
    pub const TX_ALL: Self = Self::from_bits_retain(0xffff_ffff << 32);

    /// Names of the flags that are set, in bit order, joined by spaces.
    pub fn names(self) -> String {
        self.iter_names().map(|(n, _)| n).collect::<Vec<_>>().join(" ")
    }
}

/// Packet type in four-bit groups, as `linerate-net`'s parser and the devices report it: layer 2 in bits 0-3,
/// layer 3 in 4-7, layer 4 in 8-11, tunnel in 12-15, inner layers 2, 3, 4 in 16-27 (DPDK's `RTE_PTYPE_*`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(transparent)]
pub struct PacketType(pub u32);

impl PacketType {
    /// Nothing is known.
    pub const UNKNOWN: Self = PacketType(0);
}

/// Header lengths that transmit requests refer to, packed into 48 bits of one word.
///
/// Meaningful only while a `TX_*` flag asks for it: receive does not clear it.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
#[repr(transparent)]
pub struct TxOffload(u64);

macro_rules! packed {
    ($($(#[$doc:meta])* $get:ident / $with:ident : $shift:literal, $bits:literal;)*) => {
        impl TxOffload {
            $(
                $(#[$doc])*
                #[inline]
                pub const fn $get(self) -> u32 {
                    ((self.0 >> $shift) & ((1 << $bits) - 1)) as u32
                }
                #[doc = concat!("Sets [`", stringify!($get), "`](Self::", stringify!($get), ").\n\n# Panics\n\nIf the value does not fit ", stringify!($bits), " bits.")]
                #[inline]
                #[must_use]
                pub const fn $with(self, v: u32) -> Self {
                    assert!((v as u64) < (1 << $bits), "header length out of range");
                    TxOffload((self.0 & !(((1 << $bits) - 1) << $shift)) | ((v as u64) << $shift))
                }
            )*
        }
        impl fmt::Debug for TxOffload {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                let mut d = f.debug_struct("TxOffload");
                $( d.field(stringify!($get), &self.$get()); )*
                d.finish()
            }
        }
    };
}

packed! {
    /// Length of the layer-2 header in bytes (of the inner one in a tunnel).
    l2_len / with_l2_len: 0, 7;
    /// Length of the layer-3 header in bytes.
    l3_len / with_l3_len: 7, 9;
    /// Length of the layer-4 header in bytes.
    l4_len / with_l4_len: 16, 8;
    /// Payload bytes per segment when the packet is cut.
    tso_segsz / with_tso_segsz: 24, 16;
    /// Length of the outer layer-3 header in bytes.
    outer_l3_len / with_outer_l3_len: 40, 9;
    /// Length of the outer layer-2 header in bytes.
    outer_l2_len / with_outer_l2_len: 49, 7;
}

impl TxOffload {
    /// No lengths given.
    pub const NONE: Self = TxOffload(0);
}

/// Transmit requests that contradict each other, as `rte_validate_tx_offload` finds them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TxOffloadError {
    /// An IPv4 header checksum of a packet that is not said to be IPv4.
    #[error("TX_IP_CKSUM without TX_IPV4")]
    NotIpv4,
    /// A layer-4 checksum or segmentation of a packet whose IP version is not said.
    #[error("a layer-4 request without TX_IPV4 or TX_IPV6")]
    NoIpVersion,
    /// Both IP versions at once.
    #[error("TX_IPV4 together with TX_IPV6")]
    BothIpVersions,
    /// More than one layer-4 checksum.
    #[error("checksums of more than one layer-4 protocol")]
    SeveralL4,
    /// Segmentation into pieces of 0 bytes.
    #[error("segmentation without tso_segsz")]
    NoSegmentSize,
    /// Segmentation of IPv4 without the header checksums that the pieces need.
    #[error("segmentation of IPv4 without TX_IP_CKSUM")]
    SegmentsNeedIpChecksum,
    /// An outer IPv4 checksum of a packet whose outer header is not said to be IPv4.
    #[error("TX_OUTER_IP_CKSUM without TX_OUTER_IPV4")]
    OuterNotIpv4,
}

impl TxOffloadError {
    /// What to change.
    pub fn hint(&self) -> &'static str {
        match self {
            Self::NotIpv4 => "set TX_IPV4, or drop TX_IP_CKSUM",
            Self::NoIpVersion => "set TX_IPV4 or TX_IPV6",
            Self::BothIpVersions => "set one of TX_IPV4 and TX_IPV6",
            Self::SeveralL4 => "set one of TX_TCP_CKSUM, TX_UDP_CKSUM, TX_SCTP_CKSUM",
            Self::NoSegmentSize => "set tso_segsz to the payload bytes per segment",
            Self::SegmentsNeedIpChecksum => "set TX_IP_CKSUM too",
            Self::OuterNotIpv4 => "set TX_OUTER_IPV4, or drop TX_OUTER_IP_CKSUM",
        }
    }
}

impl TxOffload {
    /// Whether `flags` and these lengths can be a request to a device.
    ///
    /// # Errors
    ///
    /// [`TxOffloadError`]: the first contradiction.
    pub fn validate(self, flags: OlFlags) -> Result<(), TxOffloadError> {
        const L4: OlFlags = OlFlags::TX_TCP_CKSUM.union(OlFlags::TX_UDP_CKSUM).union(OlFlags::TX_SCTP_CKSUM);
        const SEG: OlFlags = OlFlags::TX_TCP_SEG.union(OlFlags::TX_UDP_SEG);
        let has = |f: OlFlags| flags.intersects(f);
        if has(OlFlags::TX_IPV4) && has(OlFlags::TX_IPV6) {
            Err(TxOffloadError::BothIpVersions)
        } else if has(OlFlags::TX_IP_CKSUM) && !has(OlFlags::TX_IPV4) {
            Err(TxOffloadError::NotIpv4)
        } else if has(L4 | SEG) && !has(OlFlags::TX_IPV4 | OlFlags::TX_IPV6) {
            Err(TxOffloadError::NoIpVersion)
        } else if (flags & L4).bits().count_ones() > 1 {
            Err(TxOffloadError::SeveralL4)
        } else if has(SEG) && self.tso_segsz() == 0 {
            Err(TxOffloadError::NoSegmentSize)
        } else if has(SEG) && has(OlFlags::TX_IPV4) && !has(OlFlags::TX_IP_CKSUM) {
            Err(TxOffloadError::SegmentsNeedIpChecksum)
        } else if has(OlFlags::TX_OUTER_IP_CKSUM) && !has(OlFlags::TX_OUTER_IPV4) {
            Err(TxOffloadError::OuterNotIpv4)
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_do_not_disturb_each_other() {
        let t = TxOffload::NONE
            .with_l2_len(127)
            .with_l3_len(511)
            .with_l4_len(255)
            .with_tso_segsz(65535)
            .with_outer_l3_len(511)
            .with_outer_l2_len(127);
        let u = t.with_l3_len(20).with_tso_segsz(0);
        assert_eq!((u.l2_len(), u.l3_len(), u.l4_len()), (127, 20, 255));
        assert_eq!((u.tso_segsz(), u.outer_l3_len(), u.outer_l2_len()), (0, 511, 127));
    }

    #[test]
    #[should_panic(expected = "out of range")]
    fn a_length_that_does_not_fit_is_refused() {
        let _ = TxOffload::NONE.with_l2_len(128);
    }

    #[test]
    fn requests_that_contradict_each_other_are_found() {
        use OlFlags as F;
        use TxOffloadError as E;
        let none = TxOffload::NONE;
        let tso = none.with_l2_len(14).with_l3_len(20).with_l4_len(20).with_tso_segsz(1460);
        for (t, flags, wanted) in [
            (none, F::empty(), Ok(())),
            (none, F::RX_ALL, Ok(())),
            (none, F::TX_IP_CKSUM | F::TX_IPV4, Ok(())),
            (none, F::TX_IP_CKSUM | F::TX_IPV6, Err(E::NotIpv4)),
            (none, F::TX_IP_CKSUM, Err(E::NotIpv4)),
            (none, F::TX_IPV4 | F::TX_IPV6, Err(E::BothIpVersions)),
            (none, F::TX_UDP_CKSUM, Err(E::NoIpVersion)),
            (none, F::TX_UDP_CKSUM | F::TX_IPV6, Ok(())),
            (none, F::TX_UDP_CKSUM | F::TX_TCP_CKSUM | F::TX_IPV6, Err(E::SeveralL4)),
            (tso, F::TX_TCP_SEG, Err(E::NoIpVersion)),
            (tso, F::TX_TCP_SEG | F::TX_IPV6, Ok(())),
            (tso, F::TX_TCP_SEG | F::TX_IPV4, Err(E::SegmentsNeedIpChecksum)),
            (tso, F::TX_TCP_SEG | F::TX_IPV4 | F::TX_IP_CKSUM, Ok(())),
            (none, F::TX_UDP_SEG | F::TX_IPV6, Err(E::NoSegmentSize)),
            (none, F::TX_OUTER_IP_CKSUM | F::TX_OUTER_IPV6, Err(E::OuterNotIpv4)),
            (none, F::TX_OUTER_IP_CKSUM | F::TX_OUTER_IPV4, Ok(())),
        ] {
            assert_eq!(t.validate(flags), wanted, "{}", flags.names());
            assert!(wanted.err().is_none_or(|e| !e.hint().is_empty()));
        }
    }

    #[test]
    fn every_flag_has_a_name_and_a_bit_of_its_own() {
        let mut seen = 0u64;
        for (name, f) in OlFlags::all().iter_names() {
            assert!(!name.is_empty());
            if f != OlFlags::DYNAMIC {
                assert_eq!(f.bits().count_ones(), 1, "{name}");
            }
            assert_eq!(seen & f.bits(), 0, "{name} shares a bit");
            seen |= f.bits();
        }
        assert_eq!((OlFlags::RX_VLAN | OlFlags::TX_IPV4).names(), "RX_VLAN TX_IPV4");
        assert!(OlFlags::RX_ALL.contains(OlFlags::RX_IEEE1588_TMST));
        assert!(!OlFlags::RX_ALL.intersects(OlFlags::DYNAMIC | OlFlags::TX_ALL));
    }
}
