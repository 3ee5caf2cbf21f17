//! What a port can do, and within which limits.

use crate::{MacAddress, RssTypes};
use bitflags::bitflags;

bitflags! {
    /// Things a port can do beyond receiving and sending.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct Capabilities: u32 {
        /// A frame may be spread over several receive buffers.
        const SCATTER = 1 << 0;
        /// Frames of several segments may be sent.
        const MULTI_SEGMENT = 1 << 1;
        /// Buffers that are shared, attached or external may be sent as they are.
        const SHARED_BUFFERS = 1 << 2;
        /// Single queues may be stopped and started while the port runs.
        const QUEUE_STOP = 1 << 3;
        /// Promiscuous and all-multicast mode mean something.
        const PROMISCUOUS = 1 << 4;
        /// Further MAC addresses may be added.
        const MAC_FILTER = 1 << 5;
        /// VLANs may be filtered.
        const VLAN_FILTER = 1 << 6;
        /// Receive-side scaling.
        const RSS = 1 << 7;
        /// Flow rules.
        const FLOW = 1 << 8;
        /// The link can be set up and down.
        const LINK_CONTROL = 1 << 9;
        /// The device can be reset.
        const RESET = 1 << 10;
        /// A program may decide in the receive path.
        const RX_PROGRAM = 1 << 11;
        /// Bytes are counted, not only packets.
        const BYTE_COUNTS = 1 << 12;
        /// Sent packets are received again (by this port or its partner).
        const LOOPBACK = 1 << 13;
        /// The input ends (a file).
        const FINITE_INPUT = 1 << 14;
    }
}

bitflags! {
    /// Work that receive can do on a packet.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct RxOffloads: u32 {
        /// Check IPv4 header checksums.
        const IPV4_CKSUM = 1 << 0;
        /// Check UDP checksums.
        const UDP_CKSUM = 1 << 1;
        /// Check TCP checksums.
        const TCP_CKSUM = 1 << 2;
        /// Take the VLAN tag out.
        const VLAN_STRIP = 1 << 3;
        /// Stamp the time of reception.
        const TIMESTAMP = 1 << 4;
        /// Deliver the hash.
        const RSS_HASH = 1 << 5;
        /// Spread long frames over several buffers.
        const SCATTER = 1 << 6;
        /// Keep the frame check sequence.
        const KEEP_CRC = 1 << 7;
    }
}

bitflags! {
    /// Work that transmit can do on a packet.
    #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
    pub struct TxOffloads: u32 {
        /// Compute IPv4 header checksums.
        const IPV4_CKSUM = 1 << 0;
        /// Compute UDP checksums.
        const UDP_CKSUM = 1 << 1;
        /// Compute TCP checksums.
        const TCP_CKSUM = 1 << 2;
        /// Insert a VLAN tag.
        const VLAN_INSERT = 1 << 3;
        /// Cut into TCP segments.
        const TCP_TSO = 1 << 4;
        /// Send frames of several segments.
        const MULTI_SEGS = 1 << 5;
        /// Insert two VLAN tags.
        const QINQ_INSERT = 1 << 6;
    }
}

/// The bounds of a port's numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Most receive queues.
    pub max_rx_queues: u16,
    /// Most transmit queues.
    pub max_tx_queues: u16,
    /// Least and most receive descriptors, and what they are a multiple of.
    pub rx_descriptors: (u16, u16, u16),
    /// Least and most transmit descriptors, and what they are a multiple of.
    pub tx_descriptors: (u16, u16, u16),
    /// Descriptors when 0 are asked for: receive, transmit.
    pub default_descriptors: (u16, u16),
    /// Burst the port likes best.
    pub preferred_burst: u16,
    /// Least MTU in bytes.
    pub min_mtu: u32,
    /// Most MTU in bytes; the longest frame is [`ETHER_OVERHEAD`](crate::ETHER_OVERHEAD) more.
    pub max_mtu: u32,
    /// Most segments of a frame to send.
    pub max_tx_segments: u16,
    /// Most MAC addresses.
    pub max_mac_addresses: u16,
    /// Entries of the redirection table (0 = none).
    pub reta_size: u16,
    /// Bytes of the hash key (0 = none).
    pub rss_key_len: u8,
}

impl Limits {
    /// What a port in software allows unless it says otherwise.
    pub const SOFTWARE: Limits = Limits {
        max_rx_queues: 64,
        max_tx_queues: 64,
        rx_descriptors: (1, 32768, 1),
        tx_descriptors: (1, 32768, 1),
        default_descriptors: (512, 512),
        preferred_burst: 32,
        min_mtu: 68,
        max_mtu: 65535 - crate::ETHER_OVERHEAD,
        max_tx_segments: 1024,
        max_mac_addresses: 1,
        reta_size: 0,
        rss_key_len: 0,
    };
}

/// What a port is.
#[derive(Clone, Debug)]
pub struct PortInfo {
    /// Name as given in its description, such as `ring:r0`.
    pub name: String,
    /// Name of the driver.
    pub driver: &'static str,
    /// The port's own MAC address.
    pub mac: MacAddress,
    /// NUMA node of the device, if it has one.
    pub node: Option<u16>,
    /// What it can do.
    pub capabilities: Capabilities,
    /// Receive offloads it has.
    pub rx_offloads: RxOffloads,
    /// Transmit offloads it has.
    pub tx_offloads: TxOffloads,
    /// Hash types it knows.
    pub rss_types: RssTypes,
    /// Its bounds.
    pub limits: Limits,
}
