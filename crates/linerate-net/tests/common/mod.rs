//! Frames made by the independent library, with everything in them that the parser has to walk over.

use etherparse::{
    IpFragOffset, IpHeaders, IpNumber, Ipv4Header, Ipv6Extensions, Ipv6FragmentHeader, Ipv6Header,
    Ipv6RawExtHeader, PacketBuilder, VlanId,
};
use proptest::prelude::*;

/// What a generated frame is made of.
#[derive(Clone, Debug)]
pub struct Recipe {
    pub tags: u8,
    pub v6: bool,
    /// IPv4: words of options. IPv6: which extension headers.
    pub extra: u8,
    /// Fragment: more to come and offset in units of eight bytes.
    pub fragment: Option<(bool, u16)>,
    pub transport: Transport,
    pub src: [u8; 16],
    pub dst: [u8; 16],
    pub ports: (u16, u16),
    pub payload: Vec<u8>,
    /// Bytes after the end of the IP packet.
    pub padding: u8,
}

#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Transport {
    Udp,
    Tcp(u8),
    Icmp,
}

pub fn recipe() -> impl Strategy<Value = Recipe> {
    let transport = prop_oneof![
        3 => Just(Transport::Udp),
        3 => (0u8..=10).prop_map(Transport::Tcp),
        1 => Just(Transport::Icmp),
    ];
    let fragment = prop_oneof![
        6 => Just(None),
        1 => any::<(bool, u16)>().prop_map(|(more, offset)| Some((more, offset & 0x1fff))),
    ];
    let addresses = (any::<[u8; 16]>(), any::<[u8; 16]>(), any::<(u16, u16)>());
    let payload = prop_oneof![
        4 => proptest::collection::vec(any::<u8>(), 0..64),
        2 => proptest::collection::vec(any::<u8>(), 64..400),
        1 => proptest::collection::vec(any::<u8>(), 1400..1500),
    ];
    (0u8..=2, any::<bool>(), 0u8..=10, fragment, transport, addresses, payload, 0u8..20).prop_map(
        |(tags, v6, extra, fragment, transport, (src, dst, ports), payload, padding)| Recipe {
            tags,
            v6,
            extra,
            fragment,
            transport,
            src,
            dst,
            ports,
            payload,
            padding,
        },
    )
}

impl Recipe {
    pub fn build(&self) -> Vec<u8> {
        let first_4 = |bytes: [u8; 16]| [bytes[0], bytes[1], bytes[2], bytes[3]];
        let raw = |n: u8| Ipv6RawExtHeader::new_raw(IpNumber::UDP, &vec![n; 6 + usize::from(n) * 8]).unwrap();
        let ip = if self.v6 {
            let mut header =
                Ipv6Header { hop_limit: 9, source: self.src, destination: self.dst, ..Default::default() };
            let mut extensions = Ipv6Extensions::default();
            if self.extra & 1 != 0 {
                extensions.hop_by_hop_options = Some(raw(self.extra >> 2));
            }
            if self.extra & 2 != 0 {
                extensions.destination_options = Some(raw(1));
            }
            if let Some((more, offset)) = self.fragment {
                let offset = IpFragOffset::try_new(offset).unwrap();
                extensions.fragment = Some(Ipv6FragmentHeader::new(IpNumber::UDP, offset, more, 7));
            }
            header.flow_label = 0x12345.try_into().unwrap();
            IpHeaders::Ipv6(header, extensions)
        } else {
            let mut header =
                Ipv4Header::new(0, 9, IpNumber::UDP, first_4(self.src), first_4(self.dst)).unwrap();
            header.options = vec![1; usize::from(self.extra) * 4].as_slice().try_into().unwrap();
            if let Some((more, offset)) = self.fragment {
                header.more_fragments = more;
                header.fragment_offset = IpFragOffset::try_new(offset).unwrap();
            }
            IpHeaders::Ipv4(header, Default::default())
        };
        let link = PacketBuilder::ethernet2([1, 2, 3, 4, 5, 6], [7, 8, 9, 10, 11, 12]);
        let vlan = |id: u16| VlanId::try_new(id).unwrap();
        let ip = match self.tags {
            0 => link.ip(ip),
            1 => link.single_vlan(vlan(5)).ip(ip),
            _ => link.double_vlan(vlan(5), vlan(6)).ip(ip),
        };
        let mut frame = Vec::new();
        match self.transport {
            Transport::Udp => ip.udp(self.ports.0, self.ports.1).write(&mut frame, &self.payload),
            Transport::Tcp(words) => ip
                .tcp(self.ports.0, self.ports.1, 1, 2)
                .ack(3)
                .options_raw(&vec![1; usize::from(words) * 4])
                .unwrap()
                .write(&mut frame, &self.payload),
            Transport::Icmp if self.v6 => ip.icmpv6_echo_request(1, 2).write(&mut frame, &self.payload),
            Transport::Icmp => ip.icmpv4_echo_request(1, 2).write(&mut frame, &self.payload),
        }
        .unwrap();
        frame.extend(vec![0xee; usize::from(self.padding)]);
        frame
    }
}
