//! Checking the checksums of a received packet, for ports whose device does not.
//!
//! A result is a [`Verdict`], never a number that could underflow: lengths that contradict each other or the packet are
//! [`Verdict::Invalid`], and no byte outside the packet is read.

use core::iter::empty;

use crate::checksum::{Sum, Verdict, add};
use crate::csum_engine::pseudo;
use crate::ether::ether_type;
use crate::ipv4::{Ipv4Hdr, proto};
use crate::parse::{Fault, Layers, Network, ParseOptions, Parsed, Tunnel, is_tunnel, parse_segment};
use crate::plain::{be_16, le_32, le_64, plain, starts_plain};
use crate::sctp::SctpHdr;
use crate::segments::{Tail, sctp_crc, sum_range};
use crate::udp::UdpHdr;
use crate::view::view;

/// Verdicts over one packet, named as testpmd counts them (`Bad-ipcsum`, `Bad-l4csum`, `Bad-outer-ipcsum`,
/// `Bad-outer-l4csum`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub struct Verdicts {
    /// IPv4 header of the innermost headers; for IPv6, which has no checksum, [`Verdict::Absent`] or
    /// [`Verdict::Invalid`].
    pub ip: Verdict,
    /// UDP, TCP or SCTP of the innermost headers.
    pub l4: Verdict,
    /// IPv4 header around a tunnel.
    pub outer_ip: Verdict,
    /// UDP around a tunnel.
    pub outer_l4: Verdict,
}

/// Checks the packet that is whole in `frame`.
#[inline]
pub fn verify(frame: &[u8], options: ParseOptions) -> Verdicts {
    if let Some((link, l3)) = frame.split_first_chunk::<14>()
        && let Some(first) = l3.first()
        && starts_plain([link[12], link[13], *first, 0])
        && let Some(verdicts) = verify_plain(l3, options)
    {
        return verdicts;
    }
    verify_segments(frame, empty(), options)
}

/// A plain packet (see [`crate::plain`]) whose IPv4 header is at the front of `l3`; `None` for all others.
#[inline]
fn verify_plain(l3: &[u8], options: ParseOptions) -> Option<Verdicts> {
    let lengths = plain(l3, l3.len())?;
    if options.tunnels && lengths.udp && is_tunnel(l3.get(20..24)?) {
        return None;
    }
    let (head, rest) = l3.split_first_chunk::<20>()?;
    let addresses = le_64(head, 12);
    let ip = Sum::of_raw(add(add(le_64(head, 0), addresses), u64::from(le_32(head, 8))));
    let mut verdicts = Verdicts { ip: Verdict::of(ip), ..Verdicts::default() };
    let covered = rest.get(..lengths.l4_total)?;
    if !lengths.udp || be_16(covered, 6) != 0 {
        let proto_and_len =
            u64::from(le_32(head, 8) & 0xff00) + u64::from((lengths.l4_total as u16).swap_bytes());
        let pseudo = Sum::of_raw(add(addresses, proto_and_len));
        verdicts.l4 = Verdict::of(pseudo.plus(Sum::of(covered)));
    }
    Some(verdicts)
}

/// Checks a packet in several segments: `head` is the first and must hold the headers, `tail` gives the others in order.
#[inline]
pub fn verify_segments<'t>(
    head: &[u8],
    tail: impl Iterator<Item = &'t [u8]> + Clone,
    options: ParseOptions,
) -> Verdicts {
    let packet_len = head.len() + tail.clone().map(<[u8]>::len).sum::<usize>();
    verify_parsed(head, tail, &parse_segment(head, packet_len, options))
}

/// Checks a packet that was parsed already. Should `parsed` belong to another packet, the verdicts are worth nothing, but
/// still no byte outside this one is read.
#[inline]
pub fn verify_parsed<'t>(
    head: &[u8],
    tail: impl Iterator<Item = &'t [u8]> + Clone,
    parsed: &Parsed,
) -> Verdicts {
    let top = parsed.innermost();
    let mut verdicts = Verdicts {
        ip: verify_ip(head, top),
        l4: verify_l4(head, tail.clone(), top, false),
        ..Verdicts::default()
    };
    if parsed.tunnel != Tunnel::None {
        verdicts.outer_ip = verify_ip(head, &parsed.outer);
        verdicts.outer_l4 = verify_l4(head, tail, &parsed.outer, true);
    }
    verdicts
}

/// Checks an IPv4 header that starts at the first byte of `packet`, and its lengths against the packet's.
pub fn verify_ipv4_header(packet: &[u8]) -> Verdict {
    let Some(ip) = view::<Ipv4Hdr>(packet, 0) else { return Verdict::Invalid };
    let (header_len, total_len) = (ip.header_len(), usize::from(ip.total_len.get()));
    if ip.version() != 4 || header_len < Ipv4Hdr::LEN || total_len < header_len || total_len > packet.len() {
        return Verdict::Invalid;
    }
    packet.get(..header_len).map_or(Verdict::Invalid, |header| Verdict::of(Sum::of(header)))
}

#[inline]
fn verify_ip(head: &[u8], layers: &Layers) -> Verdict {
    if !layers.has_ip() {
        // The EtherType promised IP; too many tags is no promise.
        let promised = matches!(layers.ether_type, ether_type::IPV4 | ether_type::IPV6);
        return if promised && layers.fault.is_some() { Verdict::Invalid } else { Verdict::Absent };
    }
    match layers.network {
        Network::V4 => head
            .get(layers.l3_off()..layers.l4_off())
            .map_or(Verdict::Invalid, |header| Verdict::of(Sum::of(header))),
        _ => Verdict::Absent,
    }
}

#[inline]
fn verify_l4<'t>(head: &[u8], tail: impl Tail<'t>, layers: &Layers, outer: bool) -> Verdict {
    if !layers.has_l4() {
        let wrong = layers.has_ip() && matches!(layers.fault, Some(Fault::L4Length | Fault::Truncated));
        return if wrong { Verdict::Invalid } else { Verdict::Absent };
    }
    let (from, to) = (layers.l4_off(), layers.l3_end as usize);
    let summed = |to: usize| {
        let len = u32::try_from(to.checked_sub(from)?).ok()?;
        let sum = sum_range(head, tail.clone(), from, to)?;
        Some(Verdict::of(sum.plus(pseudo(head, layers, len)?)))
    };
    let verdict = match layers.l4_proto {
        proto::UDP => match view::<UdpHdr>(head, from) {
            // No checksum: allowed over IPv4 (RFC 768), and over IPv6 around tunnels (RFC 6935).
            Some(udp) if udp.checksum.get() == 0 => {
                let allowed = layers.network == Network::V4 || outer;
                Some(if allowed { Verdict::Absent } else { Verdict::Bad })
            }
            Some(udp) => summed(from + usize::from(udp.len.get())),
            None => None,
        },
        proto::TCP => summed(to),
        proto::SCTP => view::<SctpHdr>(head, from)
            .zip(sctp_crc(head, tail, from, to))
            .map(|(sctp, crc)| if sctp.checksum.get() == crc { Verdict::Good } else { Verdict::Bad }),
        _ => Some(Verdict::Absent),
    };
    verdict.unwrap_or(Verdict::Invalid)
}

#[cfg(test)]
mod tests;
