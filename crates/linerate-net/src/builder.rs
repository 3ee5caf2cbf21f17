//! UDP frames made from scratch: what txonly, the generators and the tests send.
//!
//! A [`UdpTemplate`] holds the 42 header bytes ready to be copied; per packet there is one copy and, when the packets
//! differ in length or ports, a few stores.

use core::net::Ipv4Addr;

use zerocopy::IntoBytes;
use zerocopy::network_endian::U16;

use crate::checksum::{Sum, pseudo_v4};
use crate::ether::{EthHdr, MacAddr, ether_type};
use crate::ipv4::{Ipv4Hdr, proto};
use crate::udp::UdpHdr;
use crate::view::view_mut;

/// Ethernet, IPv4 without options and UDP header together: the shortest frame that can be built, in bytes.
pub const HEADERS_LEN: usize = EthHdr::LEN + Ipv4Hdr::LEN + UdpHdr::LEN;

/// The longest frame that can be built: an IPv4 total length has 16 bits.
pub const MAX_FRAME_LEN: usize = EthHdr::LEN + u16::MAX as usize;

/// Why a frame cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// The frame must have room for its headers and a length that IPv4 can express.
    #[error(
        "a UDP/IPv4 frame of {frame_len} bytes cannot be built, only {HEADERS_LEN} to {MAX_FRAME_LEN} can"
    )]
    FrameLen {
        /// Length that was asked for, in bytes.
        frame_len: usize,
    },
    /// The buffer is shorter than what has to be written to it.
    #[error("the buffer has room for {room} bytes, {needed} are needed")]
    Room {
        /// Bytes of the buffer.
        room: usize,
        /// Bytes to be written.
        needed: usize,
    },
}

impl BuildError {
    /// What mends it.
    pub fn hint(&self) -> &'static str {
        match self {
            BuildError::FrameLen { .. } => {
                "choose packet lengths (--txpkts) whose total is at least 42 bytes"
            }
            BuildError::Room { .. } => {
                "make the first segment longer (--txpkts) or the buffers larger (--mbuf-size)"
            }
        }
    }
}

/// Who sends to whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpFlow {
    /// Destination MAC address.
    pub dst_mac: MacAddr,
    /// Source MAC address.
    pub src_mac: MacAddr,
    /// Source IPv4 address.
    pub src_ip: Ipv4Addr,
    /// Destination IPv4 address.
    pub dst_ip: Ipv4Addr,
    /// Source port.
    pub src_port: u16,
    /// Destination port.
    pub dst_port: u16,
}

impl UdpFlow {
    /// txonly's flow: 198.18.0.1:9 → 198.18.0.2:9 (RFC 2544's addresses, RFC 863's port).
    pub const fn txonly(dst_mac: MacAddr, src_mac: MacAddr) -> Self {
        UdpFlow {
            dst_mac,
            src_mac,
            src_ip: Ipv4Addr::new(198, 18, 0, 1),
            dst_ip: Ipv4Addr::new(198, 18, 0, 2),
            src_port: 9,
            dst_port: 9,
        }
    }
}

/// The headers of a UDP frame of one length, ready to be copied. The UDP checksum is 0 ("none") until
/// [`fill_udp_checksum`] is called.
///
/// ```
/// use linerate_net::builder::{UdpFlow, UdpTemplate, fill_udp_checksum};
/// use linerate_net::MacAddr;
/// let template = UdpTemplate::new(&UdpFlow::txonly(MacAddr::peer(1), MacAddr::peer(0)), 64).unwrap();
/// let mut frame = [0u8; 64];
/// assert!(template.write(&mut frame));
/// assert_eq!(frame[24..26], [0xee, 0x93]); // IPv4 header checksum
/// assert!(fill_udp_checksum(&mut frame));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UdpTemplate {
    bytes: [u8; HEADERS_LEN],
    frame_len: u16,
}

impl UdpTemplate {
    /// Headers of frames of `frame_len` bytes (without frame check sequence), TTL 64.
    ///
    /// # Errors
    ///
    /// [`BuildError::FrameLen`] when the frame is shorter than its headers or longer than IPv4 allows (the length that
    /// this type keeps has 16 bits, so 65535 is the limit).
    pub fn new(flow: &UdpFlow, frame_len: usize) -> Result<Self, BuildError> {
        let (Some(udp_len), Ok(short_len)) =
            (frame_len.checked_sub(EthHdr::LEN + Ipv4Hdr::LEN), u16::try_from(frame_len))
        else {
            return Err(BuildError::FrameLen { frame_len });
        };
        if udp_len < UdpHdr::LEN {
            return Err(BuildError::FrameLen { frame_len });
        }
        let ethernet =
            EthHdr { dst: flow.dst_mac, src: flow.src_mac, ether_type: U16::new(ether_type::IPV4) };
        let mut ip = Ipv4Hdr {
            version_ihl: Ipv4Hdr::PLAIN,
            ttl: 64,
            proto: proto::UDP,
            src: flow.src_ip.octets(),
            dst: flow.dst_ip.octets(),
            ..Ipv4Hdr::default()
        };
        set_total_len(&mut ip, short_len - EthHdr::LEN as u16);
        let udp = UdpHdr {
            src_port: U16::new(flow.src_port),
            dst_port: U16::new(flow.dst_port),
            len: U16::new(udp_len as u16),
            checksum: U16::new(0),
        };
        let mut bytes = [0; HEADERS_LEN];
        bytes[..14].copy_from_slice(ethernet.as_bytes());
        bytes[14..34].copy_from_slice(ip.as_bytes());
        bytes[34..].copy_from_slice(udp.as_bytes());
        Ok(UdpTemplate { bytes, frame_len: short_len })
    }

    /// Length in bytes of the frames that this template is for.
    #[inline]
    pub const fn frame_len(&self) -> usize {
        self.frame_len as usize
    }

    /// The header bytes in wire order, for callers that have to spread them over several segments.
    #[inline]
    pub const fn bytes(&self) -> &[u8; HEADERS_LEN] {
        &self.bytes
    }

    /// Copies the headers to the front of `buffer`; false, and nothing written, when it is shorter than they are.
    #[inline]
    #[must_use]
    pub fn write(&self, buffer: &mut [u8]) -> bool {
        match buffer.first_chunk_mut() {
            Some(room) => {
                *room = self.bytes;
                true
            }
            None => false,
        }
    }

    /// Builds the whole frame at the front of `buffer`: headers, `payload` and zeros up to the template's length, UDP
    /// checksum included. Returns the frame.
    ///
    /// # Errors
    ///
    /// [`BuildError::Room`] when the buffer is shorter than the frame, or the frame than headers and payload.
    pub fn build<'a>(&self, buffer: &'a mut [u8], payload: &[u8]) -> Result<&'a mut [u8], BuildError> {
        let room = buffer.len();
        let needed = self.frame_len();
        let frame = buffer.get_mut(..needed).ok_or(BuildError::Room { room, needed })?;
        let (headers, rest) = frame.split_at_mut(HEADERS_LEN);
        if payload.len() > rest.len() {
            return Err(BuildError::Room { room: needed, needed: HEADERS_LEN + payload.len() });
        }
        headers.copy_from_slice(&self.bytes);
        let (content, padding) = rest.split_at_mut(payload.len());
        content.copy_from_slice(payload);
        padding.fill(0);
        fill_udp_checksum(frame);
        Ok(frame)
    }
}

/// Writes a total length and the header checksum that goes with it.
#[inline]
fn set_total_len(ip: &mut Ipv4Hdr, total_len: u16) {
    ip.total_len.set(total_len);
    ip.checksum.set(0);
    ip.checksum = U16::from_bytes(Sum::of(ip.as_bytes()).to_wire());
}

/// Rewrites the lengths of a frame made from a [`UdpTemplate`] for `frame_len` bytes and mends the IPv4 header checksum:
/// for packets whose length varies. `headers` is at least the first [`HEADERS_LEN`] bytes of the frame.
///
/// # Errors
///
/// [`BuildError`] as for [`UdpTemplate::new`] and [`UdpTemplate::write`].
#[inline]
pub fn set_frame_len(headers: &mut [u8], frame_len: usize) -> Result<(), BuildError> {
    if !(HEADERS_LEN..=MAX_FRAME_LEN).contains(&frame_len) {
        return Err(BuildError::FrameLen { frame_len });
    }
    let room = headers.len();
    if room < HEADERS_LEN {
        return Err(BuildError::Room { room, needed: HEADERS_LEN });
    }
    if let Some(ip) = view_mut::<Ipv4Hdr>(headers, EthHdr::LEN) {
        set_total_len(ip, (frame_len - EthHdr::LEN) as u16);
    }
    if let Some(udp) = view_mut::<UdpHdr>(headers, EthHdr::LEN + Ipv4Hdr::LEN) {
        udp.len.set((frame_len - EthHdr::LEN - Ipv4Hdr::LEN) as u16);
    }
    Ok(())
}

/// Sets the source port of a frame made from a [`UdpTemplate`] (several flows in one stream). The UDP checksum, if there
/// is one, has to be filled in afterwards. A frame too short stays as it is.
#[inline]
pub fn set_src_port(headers: &mut [u8], port: u16) {
    if let Some(udp) = view_mut::<UdpHdr>(headers, EthHdr::LEN + Ipv4Hdr::LEN) {
        udp.src_port.set(port);
    }
}

/// Computes the UDP checksum of a frame made from a [`UdpTemplate`] that is whole in `frame`; false when its lengths do
/// not fit the slice.
#[inline]
pub fn fill_udp_checksum(frame: &mut [u8]) -> bool {
    const AT: usize = EthHdr::LEN + Ipv4Hdr::LEN;
    let Some(ip) = crate::view::view::<Ipv4Hdr>(frame, EthHdr::LEN).copied() else { return false };
    let Some(udp) = view_mut::<UdpHdr>(frame, AT) else { return false };
    udp.checksum.set(0);
    let len = udp.len.get();
    let Some(datagram) = frame.get(AT..AT + usize::from(len)).filter(|d| d.len() >= UdpHdr::LEN) else {
        return false;
    };
    let sum = pseudo_v4(ip.src, ip.dst, proto::UDP, len).plus(Sum::of(datagram)).to_wire_udp();
    if let Some(udp) = view_mut::<UdpHdr>(frame, AT) {
        udp.checksum = U16::from_bytes(sum);
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use etherparse::SlicedPacket;

    fn template(len: usize) -> UdpTemplate {
        UdpTemplate::new(&UdpFlow::txonly(MacAddr::peer(1), MacAddr::peer(0)), len).unwrap()
    }

    /// Lengths, header checksum and UDP checksum by the independent library.
    fn check(frame: &[u8]) {
        let packet = SlicedPacket::from_ethernet(frame).unwrap();
        let etherparse::NetSlice::Ipv4(ip) = packet.net.unwrap() else { panic!("not IPv4") };
        let header = ip.header().to_header();
        assert_eq!(usize::from(header.total_len), frame.len() - 14);
        assert_eq!(header.header_checksum, header.calc_header_checksum());
        let Some(etherparse::TransportSlice::Udp(udp)) = packet.transport else { panic!("not UDP") };
        assert_eq!(usize::from(udp.length()), frame.len() - 34);
        if udp.checksum() != 0 {
            let right = udp.to_header().calc_checksum_ipv4(&header, udp.payload()).unwrap();
            assert_eq!(udp.checksum(), right);
        }
    }

    #[test]
    fn txonly_frame_has_the_known_checksum() {
        let mut frame = [0xaa; 64];
        assert!(template(64).write(&mut frame));
        assert_eq!(frame[16..18], 50u16.to_be_bytes());
        assert_eq!(frame[24..26], [0xee, 0x93]);
        assert_eq!(frame[40..42], [0, 0]);
        assert_eq!(frame[42..], [0xaa; 22]);
        check(&frame);
    }

    #[test]
    fn every_length_is_consistent() {
        let mut buffer = [0u8; 1600];
        for len in 42..=1518 {
            let payload: Vec<u8> = (0..len - 42).map(|i| (i * 7 + len) as u8).collect();
            let frame = template(len).build(&mut buffer, &payload).unwrap();
            assert_eq!(frame.len(), len);
            check(frame);
            assert_ne!(frame[40..42], [0, 0]);
        }
    }

    #[test]
    fn lengths_can_be_rewritten() {
        // Bug case 38: with a random split the lengths belong to the packet, not to the first segment.
        let mut frame = vec![0u8; 9000];
        assert!(template(64).write(&mut frame));
        for len in [42, 60, 2048, 8192, 9000] {
            set_frame_len(&mut frame[..HEADERS_LEN], len).unwrap();
            set_src_port(&mut frame, 0xc000 | len as u16);
            assert!(fill_udp_checksum(&mut frame[..len]));
            check(&frame[..len]);
        }
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        let flow = UdpFlow::txonly(MacAddr::peer(1), MacAddr::peer(0));
        for len in [0, 13, 33, 41, 65536, usize::MAX] {
            let error = UdpTemplate::new(&flow, len).unwrap_err();
            assert_eq!(error, BuildError::FrameLen { frame_len: len });
            assert!(error.hint().contains("--txpkts"));
        }
        let mut short = [0u8; 41];
        assert!(!template(64).write(&mut short));
        assert_eq!(short, [0; 41]);
        assert_eq!(set_frame_len(&mut short, 64), Err(BuildError::Room { room: 41, needed: 42 }));
        assert_eq!(set_frame_len(&mut [0; 42], 41), Err(BuildError::FrameLen { frame_len: 41 }));
        let mut buffer = [0u8; 63];
        assert_eq!(template(64).build(&mut buffer, b""), Err(BuildError::Room { room: 63, needed: 64 }));
        let mut buffer = [0u8; 64];
        assert_eq!(template(64).build(&mut buffer, &[0; 23]), Err(BuildError::Room { room: 64, needed: 65 }));
        let mut lying = [0u8; 64];
        assert!(template(64).write(&mut lying));
        assert!(!fill_udp_checksum(&mut lying[..63]));
        assert!(!fill_udp_checksum(&mut lying[..20]));
    }
}
