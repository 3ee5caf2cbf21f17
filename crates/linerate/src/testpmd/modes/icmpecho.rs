//! The mode icmpecho: ARP and ICMP echo requests are answered on the port of arrival, all else ends here.

use super::{Requests, StreamContext};
use crate::testpmd::engine::Mode;
use linerate_mbuf::Burst;
use linerate_net::{
    MacAddr,
    arp::{self, ArpHdr},
    checksum::{checksum, update_u16},
    ether::{EthHdr, ether_type},
    icmp::{ECHO_REPLY, ECHO_REQUEST, IcmpHdr},
    ipv4::{Ipv4Hdr, proto},
    view::{view, view_mut},
    vlan::VlanTag,
};
use std::net::Ipv4Addr;

/// Turns requests into their answers and frees everything else.
#[derive(Debug)]
pub(in crate::testpmd) struct IcmpEcho {
    own: MacAddr,
}

impl IcmpEcho {
    pub fn new(stream: &StreamContext) -> Self {
        IcmpEcho { own: stream.own }
    }

    /// Keeps the answers, frees the rest packet by packet.
    #[inline(never)]
    fn answer_all(&self, burst: &mut Burst) {
        burst.retain(|m| {
            let len = m.len() as usize;
            let answered = answer(m.data_mut(), len, self.own);
            if answered {
                Requests::NONE.apply(m);
            }
            answered
        });
    }
}

impl Mode for IcmpEcho {
    #[inline(always)]
    fn work(&mut self, burst: &mut Burst, _max: usize) {
        // Nearly all bursts hold no request at all, and go back to the pool in one piece.
        if burst.as_slice().iter().any(|m| may_ask(m.data())) {
            self.answer_all(burst);
        } else {
            burst.free_all();
        }
    }
}

/// Whether a closer look at a frame is worth it: false only for what is certainly no request.
#[inline(always)]
fn may_ask(frame: &[u8]) -> bool {
    let Some(head) = frame.first_chunk::<24>() else { return false };
    match u16::from_be_bytes([head[12], head[13]]) {
        ether_type::IPV4 => head[23] == proto::ICMP,
        kind => matches!(kind, ether_type::ARP | ether_type::VLAN),
    }
}

/// Makes the answer of a request, whose packet has `len` bytes; false, and nothing changed, for what is none.
fn answer(frame: &mut [u8], len: usize, own: MacAddr) -> bool {
    let Some(eth) = view::<EthHdr>(frame, 0) else { return false };
    let (mut kind, mut at) = (eth.ether_type.get(), EthHdr::LEN);
    if kind == ether_type::VLAN {
        let Some(tag) = view::<VlanTag>(frame, at) else { return false };
        kind = tag.ether_type.get();
        at += VlanTag::LEN;
    }
    match kind {
        ether_type::ARP => answer_arp(frame, at, own),
        ether_type::IPV4 => answer_echo(frame, at, len, own),
        _ => false,
    }
}

/// Every address that is asked for is ours: the sender learns the port's own address.
fn answer_arp(frame: &mut [u8], at: usize, own: MacAddr) -> bool {
    let Some(arp) = view_mut::<ArpHdr>(frame, at) else { return false };
    if !arp.is_ethernet_ipv4() || arp.operation.get() != arp::REQUEST {
        return false;
    }
    arp.operation.set(arp::REPLY);
    (arp.target_mac, arp.sender_mac) = (arp.sender_mac, own);
    (arp.target_ip, arp.sender_ip) = (arp.sender_ip, arp.target_ip);
    if let Some(eth) = view_mut::<EthHdr>(frame, 0) {
        (eth.dst, eth.src) = (eth.src, own);
    }
    true
}

fn answer_echo(frame: &mut [u8], at: usize, len: usize, own: MacAddr) -> bool {
    let Some(ip) = view::<Ipv4Hdr>(frame, at) else { return false };
    let (header_len, total) = (ip.header_len(), usize::from(ip.total_len.get()));
    // A fragment has no header, or a checksum over bytes that are not here: neither is a request that is whole.
    let whole = ip.version() == 4
        && ip.proto == proto::ICMP
        && header_len >= Ipv4Hdr::LEN
        && total >= header_len + IcmpHdr::LEN
        && at + total <= len
        && !ip.is_fragment();
    // The header and its options in this segment, since they may have to be summed up.
    if !whole || at + header_len > frame.len() {
        return false;
    }
    let Some(icmp) = view_mut::<IcmpHdr>(frame, at + header_len) else { return false };
    if icmp.kind != ECHO_REQUEST || icmp.code != 0 {
        return false;
    }
    icmp.kind = ECHO_REPLY;
    let (asked, answered) = (u16::from_be_bytes([ECHO_REQUEST, 0]), u16::from_be_bytes([ECHO_REPLY, 0]));
    icmp.checksum.set(update_u16(icmp.checksum.get(), asked, answered));
    if let Some(ip) = view_mut::<Ipv4Hdr>(frame, at) {
        if ip.dst_addr().is_multicast() {
            (ip.dst, ip.src) = (ip.src, neighbour(ip.src_addr()).octets());
            ip.checksum.set(0);
            let sum = checksum(&frame[at..at + header_len]);
            if let Some(ip) = view_mut::<Ipv4Hdr>(frame, at) {
                ip.checksum.set(sum);
            }
        } else {
            // The sum of both addresses is what it was.
            (ip.dst, ip.src) = (ip.src, ip.dst);
        }
    }
    if let Some(eth) = view_mut::<EthHdr>(frame, 0) {
        // A group's address is nobody's to send from.
        let from = if eth.dst.is_multicast() { own } else { eth.dst };
        (eth.dst, eth.src) = (eth.src, from);
    }
    true
}

/// Who answers for a multicast group: the asker's address with other low bits, 01 or else 10.
fn neighbour(asker: Ipv4Addr) -> Ipv4Addr {
    let bits = asker.to_bits();
    Ipv4Addr::from_bits(bits & !3 | if bits & 3 == 1 { 2 } else { 1 })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testpmd::modes::tests::{pool, stream, through};
    use linerate_mbuf::{Burst, OlFlags};
    use linerate_net::checksum::Sum;

    const ASKER: [u8; 6] = [2, 0x11, 0x22, 0x33, 0x44, 0x55];
    const OWN: [u8; 6] = [2, 9, 9, 9, 9, 1];

    fn mode() -> IcmpEcho {
        IcmpEcho::new(&stream(&pool()))
    }

    fn ethernet(dst: [u8; 6], src: [u8; 6], tag: Option<u16>, kind: u16) -> Vec<u8> {
        let mut f = [dst, src].concat();
        if let Some(tci) = tag {
            f.extend([0x81, 0x00]);
            f.extend(tci.to_be_bytes());
        }
        f.extend(kind.to_be_bytes());
        f
    }

    fn arp(tag: Option<u16>, reply: bool) -> Vec<u8> {
        let (dst, src) = if reply { (ASKER, OWN) } else { ([0xff; 6], ASKER) };
        let mut f = ethernet(dst, src, tag, 0x0806);
        f.extend([0, 1, 8, 0, 6, 4, 0, if reply { 2 } else { 1 }]);
        let (asker, asked) = ([192, 168, 7, 10], [192, 168, 7, 77]);
        if reply {
            f.extend([&OWN[..], &asked, &ASKER, &asker].concat());
        } else {
            f.extend([&ASKER[..], &asker, &[0; 6], &asked].concat());
        }
        f.resize(64, 0xa5);
        f
    }

    /// An ICMP message, checksums right, computed by summing up and not by mending.
    fn icmp(
        (dst, src): ([u8; 6], [u8; 6]),
        tag: Option<u16>,
        (from, to): ([u8; 4], [u8; 4]),
        options: &[u8],
        (kind, payload): (u8, &[u8]),
    ) -> Vec<u8> {
        let mut message = vec![kind, 0, 0, 0, 0x12, 0x34, 0, 7];
        message.extend(payload);
        let sum = Sum::of(&message).to_wire();
        message[2..4].copy_from_slice(&sum);
        let header_len = 20 + options.len();
        let mut ip = vec![0x40 | (header_len / 4) as u8, 0];
        ip.extend(((header_len + message.len()) as u16).to_be_bytes());
        ip.extend([0xab, 0xcd, 0x40, 0, 61, 1, 0, 0]);
        ip.extend([from, to].concat());
        ip.extend(options);
        let sum = Sum::of(&ip).to_wire();
        ip[10..12].copy_from_slice(&sum);
        [ethernet(dst, src, tag, 0x0800), ip, message].concat()
    }

    const PAIR: ([u8; 4], [u8; 4]) = ([10, 0, 0, 5], [10, 0, 0, 9]);
    const BACK: ([u8; 4], [u8; 4]) = (PAIR.1, PAIR.0);

    #[test]
    fn arp_requests_become_replies_byte_for_byte() {
        for tag in [None, Some(0x6064)] {
            assert_eq!(through(mode(), &[arp(tag, false)]), [arp(tag, true)]);
        }
    }

    #[test]
    fn echo_requests_become_replies_byte_for_byte() {
        let payload: Vec<u8> = (0..57).collect();
        for tag in [None, Some(0x2001)] {
            for options in [&[][..], &[1, 1, 1, 0], &[7; 40]] {
                let asked = icmp((OWN, ASKER), tag, PAIR, options, (8, &payload));
                let reply = icmp((ASKER, OWN), tag, BACK, options, (0, &payload));
                assert_eq!(through(mode(), std::slice::from_ref(&asked)), std::slice::from_ref(&reply));
                // Behind the packet there may be padding.
                let padded = |f: &[u8]| [f, &[0; 9]].concat();
                assert_eq!(through(mode(), &[padded(&asked)]), [padded(&reply)]);
            }
        }
    }

    #[test]
    fn a_group_answers_from_an_address_beside_the_askers() {
        let group = ([1, 0, 0x5e, 0, 0, 1], ASKER);
        for (asker, answers) in [(5, 6), (4, 5), (6, 5), (7, 5), (1, 2), (0, 1), (255, 253)] {
            for options in [&[][..], &[7; 12]] {
                let asked = icmp(group, None, ([10, 0, 0, asker], [224, 0, 0, 1]), options, (8, b"x"));
                let ips = ([10, 0, 0, answers], [10, 0, 0, asker]);
                assert_eq!(
                    through(mode(), &[asked]),
                    [icmp((ASKER, OWN), None, ips, options, (0, b"x"))],
                    "{asker}"
                );
            }
        }
    }

    #[test]
    fn what_is_no_request_is_freed_and_the_order_of_the_others_is_kept() {
        let ask = |n: u8| icmp((OWN, ASKER), None, PAIR, &[], (8, &[n; 20]));
        let reply = |n: u8| icmp((ASKER, OWN), None, BACK, &[], (0, &[n; 20]));
        let with = |at: usize, bytes: &[u8]| {
            let mut f = ask(0);
            f[at..at + bytes.len()].copy_from_slice(bytes);
            f
        };
        let twice_tagged = [&[2; 12][..], &[0x81, 0, 0, 1, 0x81, 0, 0, 2], &ask(0)[12..]].concat();
        let service_tagged = [&[2; 12][..], &[0x88, 0xa8, 0, 1], &ask(0)[12..]].concat();
        let mut not_ethernet = arp(None, false);
        not_ethernet[15] = 6;
        let others = vec![
            arp(None, true),
            not_ethernet,
            arp(None, false)[..41].to_vec(),
            reply(3),
            with(35, &[1]),          // code 1
            with(20, &[0x20, 0]),    // more fragments
            with(20, &[0, 1]),       // a later fragment
            with(14, &[0x65]),       // version 6
            with(14, &[0x44]),       // a header of 16 bytes
            with(14, &[0x4f]),       // a header longer than the packet
            with(16, &[0, 27]),      // no room for the message
            with(16, &[0xff, 0xff]), // longer than the frame
            with(23, &[17]),         // UDP
            with(12, &[0x86, 0xdd]), // IPv6
            ask(0)[..41].to_vec(),
            vec![0; 14],
            vec![0xff; 60],
            twice_tagged,
            service_tagged,
        ];
        assert_eq!(through(mode(), &others), Vec::<Vec<u8>>::new());
        let mut all = vec![ask(1)];
        all.extend(others);
        all.extend([ask(2), arp(None, false)]);
        assert_eq!(through(mode(), &all), [reply(1), reply(2), arp(None, true)]);
        let many: Vec<_> = (0..=255).map(ask).collect();
        assert_eq!(through(mode(), &many), (0..=255).map(reply).collect::<Vec<_>>());
    }

    #[test]
    fn a_long_echo_is_answered_over_several_segments() {
        let pool = pool();
        let payload = vec![9; 1200];
        let asked = icmp((OWN, ASKER), None, PAIR, &[], (8, &payload));
        let reply = icmp((ASKER, OWN), None, BACK, &[], (0, &payload));
        for (cut, answered) in [(42, true), (43, true), (500, true), (41, false), (30, false)] {
            let mut m = pool.alloc_filled(&asked[..cut]).unwrap();
            m.chain(pool.alloc_filled(&asked[cut..]).unwrap()).unwrap();
            m.set_ol_flags(OlFlags::RX_IP_CKSUM_GOOD);
            let mut burst = Burst::new();
            burst.push(m).unwrap();
            mode().work(&mut burst, 1);
            assert_eq!(burst.len(), usize::from(answered), "{cut}");
            for m in burst.as_slice() {
                assert_eq!(m.segments().flatten().copied().collect::<Vec<_>>(), reply);
                assert_eq!(m.ol_flags(), OlFlags::empty());
            }
        }
        assert_eq!(pool.counts().held, 0);
    }

    // Whatever it is, it is turned round or freed, and the first look misses no request.
    #[test]
    fn hostile_frames_are_freed_or_answered() {
        let asked = [icmp((OWN, ASKER), Some(5), PAIR, &[7; 8], (8, &[1; 20])), arp(None, false)];
        let (mut answers, mut state) = (0, 1u32);
        for round in 0..20_000 {
            let mut frame = asked[round % 2].clone();
            for _ in 0..round % 4 {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let at = (state >> 8) as usize % frame.len();
                frame[at] = (state >> 24) as u8;
            }
            frame.truncate(if round % 8 < 6 { frame.len() } else { round / 8 % 70 });
            let (looked, len, before) = (may_ask(&frame), frame.len(), frame.clone());
            let answered = answer(&mut frame, len, MacAddr::new(OWN));
            assert!(looked || !answered, "{before:02x?}");
            assert_eq!(answered, frame != before);
            answers += u32::from(answered);
        }
        assert!(answers > 1000);
    }
}
