//! Frames for the tests beside the modules: packets by `etherparse`, and tunnels put around them by hand.

use etherparse::PacketBuilder;

use crate::parse::Tunnel;

/// MAC addresses, IP addresses and ports are told apart by what they are filled with.
pub(crate) fn v4_udp(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([1; 6], [2; 6])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .udp(ports.0, ports.1)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

/// UDP over IPv6.
pub(crate) fn v6_udp(ports: (u16, u16), payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([1; 6], [2; 6])
        .ipv6([3; 16], [4; 16], 64)
        .udp(ports.0, ports.1)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

/// TCP over IPv4.
pub(crate) fn v4_tcp(payload: &[u8]) -> Vec<u8> {
    let mut frame = Vec::new();
    PacketBuilder::ethernet2([1; 6], [2; 6])
        .ipv4([10, 0, 0, 1], [10, 0, 0, 2], 64)
        .tcp(5, 6, 7, 8)
        .write(&mut frame, payload)
        .unwrap();
    frame
}

/// Puts VLAN tags, given by their EtherTypes, behind the MAC addresses.
pub(crate) fn tagged(frame: &[u8], types: &[u16]) -> Vec<u8> {
    let mut out = frame[..12].to_vec();
    for (vid, kind) in types.iter().enumerate() {
        out.extend(kind.to_be_bytes());
        out.extend((vid as u16 + 1).to_be_bytes());
    }
    out.extend(&frame[12..]);
    out
}

/// An IPv4 or IPv6 packet of protocol `proto` in an Ethernet frame, right header checksum included.
pub(crate) fn ip_frame(v6: bool, proto: u8, payload: &[u8]) -> Vec<u8> {
    // Built as UDP, then the transport header is replaced.
    let mut frame = if v6 { v6_udp((1, 2), payload) } else { v4_udp((1, 2), payload) };
    let l4 = if v6 { 54 } else { 34 };
    frame.drain(l4..l4 + 8);
    let len = payload.len() as u16;
    if v6 {
        frame[18..20].copy_from_slice(&len.to_be_bytes());
        frame[20] = proto;
    } else {
        frame[16..18].copy_from_slice(&(len + 20).to_be_bytes());
        frame[23] = proto;
        frame[24..26].fill(0);
        let sum = crate::checksum::checksum_scalar(&frame[14..34]);
        frame[24..26].copy_from_slice(&sum.to_be_bytes());
    }
    frame
}

/// Puts a tunnel around `inner`, a whole Ethernet frame, of which tunnels without link layer carry what follows byte 14.
pub(crate) fn tunnelled(tunnel: Tunnel, outer_v6: bool, inner: &[u8]) -> Vec<u8> {
    let inner_v6 = inner[12..14] == [0x86, 0xdd];
    let udp = |port: u16, header: &[u8], content: &[u8]| {
        let payload = [header, content].concat();
        if outer_v6 { v6_udp((49152, port), &payload) } else { v4_udp((49152, port), &payload) }
    };
    let network = &inner[14..];
    match tunnel {
        Tunnel::None => inner.to_vec(),
        Tunnel::Vxlan => udp(4789, &[8, 0, 0, 0, 0, 0, 42, 0], inner),
        Tunnel::VxlanGpe => udp(4790, &[0x0c, 0, 0, if inner_v6 { 2 } else { 1 }, 0, 0, 42, 0], network),
        // Two words of options.
        Tunnel::Geneve => udp(6081, &[2, 0, 0x65, 0x58, 0, 0, 42, 0, 1, 2, 3, 1, 5, 6, 7, 8], inner),
        // Sequence number, and one extension header of four bytes.
        Tunnel::Gtpu => {
            let len = (network.len() + 8).to_be_bytes();
            let header = [0x36, 0xff, len[6], len[7], 0, 0, 0, 9, 0, 1, 0, 0x85, 1, 0, 0, 0];
            udp(2152, &header, network)
        }
        Tunnel::Gre => ip_frame(outer_v6, 47, &[&[0u8, 0][..], &inner[12..14], network].concat()),
        Tunnel::Nvgre => ip_frame(outer_v6, 47, &[&[0x20u8, 0, 0x65, 0x58, 0, 0, 42, 1][..], inner].concat()),
        Tunnel::Ip => ip_frame(outer_v6, if inner_v6 { 41 } else { 4 }, network),
    }
}

/// Every tunnel.
pub(crate) const TUNNELS: [Tunnel; 7] =
    [Tunnel::Vxlan, Tunnel::VxlanGpe, Tunnel::Geneve, Tunnel::Gtpu, Tunnel::Gre, Tunnel::Nvgre, Tunnel::Ip];
