//! The offload header that the kernel puts before a frame when it leaves work to the device.

/// Bytes of `struct virtio_net_hdr`.
pub(crate) const VNET_HEADER: usize = 10;

const NEEDS_CSUM: u8 = 1;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
const GSO_UDP_L4: u8 = 5;
/// Congestion was experienced: says nothing about how to cut.
const GSO_ECN: u8 = 0x80;

/// How a frame is to be cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Not at all.
    None,
    /// Into TCP segments.
    Tcp,
    /// Into UDP datagrams.
    Udp,
    /// In a way that we do not know.
    Unknown,
}

/// `struct virtio_net_hdr` in the machine's byte order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct VnetHeader {
    pub(crate) flags: u8,
    pub(crate) gso_type: u8,
    pub(crate) hdr_len: u16,
    pub(crate) gso_size: u16,
    pub(crate) csum_start: u16,
    pub(crate) csum_offset: u16,
}

impl VnetHeader {
    /// As it stands in front of a frame.
    pub(crate) fn read(b: &[u8; VNET_HEADER]) -> Self {
        let word = |at: usize| u16::from_ne_bytes([b[at], b[at + 1]]);
        VnetHeader {
            flags: b[0],
            gso_type: b[1],
            hdr_len: word(2),
            gso_size: word(4),
            csum_start: word(6),
            csum_offset: word(8),
        }
    }

    /// Tells the kernel that the first `hdr_len` bytes are headers, and nothing else. A packet socket copies
    /// that many bytes into the packet's own memory and lets the rest stay in the ring.
    #[inline]
    pub(crate) fn headers_only(hdr_len: u16) -> [u8; VNET_HEADER] {
        let [a, b] = hdr_len.to_ne_bytes();
        [0, 0, a, b, 0, 0, 0, 0, 0, 0]
    }

    /// The frame is finished: nothing is left to do.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.flags & NEEDS_CSUM == 0 && self.gso_type == GSO_NONE
    }

    /// Its layer-4 checksum covers only the pseudo header yet.
    pub(crate) fn needs_checksum(&self) -> bool {
        self.flags & NEEDS_CSUM != 0
    }

    /// How it is to be cut.
    pub(crate) fn cut(&self) -> Cut {
        match self.gso_type & !GSO_ECN {
            GSO_NONE => Cut::None,
            GSO_TCPV4 | GSO_TCPV6 => Cut::Tcp,
            GSO_UDP_L4 => Cut::Udp,
            _ => Cut::Unknown,
        }
    }
}
