//! A flow rule made ready for matching: which headers it needs, and masked comparisons of eight bytes.

use super::{
    books::RuleHits,
    headers::{Headers, has},
};
use crate::{FlowAction, FlowItem, FlowRule, flow::Match};
use std::sync::Arc;

/// Longest header that a rule looks into: IPv6.
const IMAGE: usize = 40;

/// Where a comparison counts its bytes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Base {
    /// The frame's start.
    Link,
    /// The network header.
    Network,
    /// The transport header.
    Transport,
    /// The number of the transport protocol, which with IPv6 has no fixed place.
    Protocol,
}

/// Eight bytes compared under a mask; bytes past the frame's end read as 0, which a rule that needs the header never
/// sees.
#[derive(Debug)]
struct Test {
    base: Base,
    at: u16,
    mask: u64,
    value: u64,
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Queue(u16),
    Drop,
}

/// A rule ready for use.
#[derive(Debug)]
pub(super) struct Compiled {
    needs: u32,
    tests: Box<[Test]>,
    pub(super) fate: Fate,
    pub(super) mark: Option<u32>,
    /// Where it counts, if it counts.
    pub(super) hits: Option<Arc<RuleHits>>,
}

/// Value and mask of one header, byte by byte.
#[derive(Default)]
struct Image {
    bytes: Vec<(u8, u8)>,
}

impl Image {
    fn put<const N: usize>(&mut self, at: usize, spec: [u8; N], mask: [u8; N]) {
        self.bytes.resize(IMAGE.max(at + N), (0, 0));
        for (i, (s, m)) in spec.into_iter().zip(mask).enumerate() {
            self.bytes[at + i] = (s & m, m);
        }
    }

    fn byte(&mut self, at: usize, m: &Option<Match<u8>>) {
        if let Some(m) = m {
            self.put(at, [m.spec], [m.mask]);
        }
    }

    fn word(&mut self, at: usize, m: &Option<Match<u16>>) {
        if let Some(m) = m {
            self.put(at, m.spec.to_be_bytes(), m.mask.to_be_bytes());
        }
    }

    fn bytes<T: Copy, const N: usize>(&mut self, at: usize, m: &Option<Match<T>>, octets: fn(T) -> [u8; N]) {
        if let Some(m) = m {
            self.put(at, octets(m.spec), octets(m.mask));
        }
    }

    /// The comparisons of this header, which starts `offset` bytes behind `base`.
    fn tests(&self, base: Base, offset: usize, into: &mut Vec<Test>) {
        let mut at = 0;
        while at < self.bytes.len() {
            if self.bytes[at].1 == 0 {
                at += 1;
                continue;
            }
            let (mut value, mut mask) = ([0; 8], [0; 8]);
            for (i, (v, m)) in self.bytes[at..].iter().take(8).enumerate() {
                (value[i], mask[i]) = (*v, *m);
            }
            let (mask, value) = (u64::from_le_bytes(mask), u64::from_le_bytes(value));
            into.push(Test { base, at: (offset + at) as u16, mask, value });
            at += 8;
        }
    }
}

impl Compiled {
    /// Makes a checked rule ready.
    pub(super) fn new(rule: &FlowRule, hits: Arc<RuleHits>) -> Self {
        let (mut needs, mut tests, mut tags) = (0, Vec::new(), 0u8);
        for item in &rule.pattern {
            let mut image = Image::default();
            let (header, base, offset) = match item {
                FlowItem::Eth { dst, src, ethertype } => {
                    image.bytes(0, dst, |m| m.0);
                    image.bytes(6, src, |m| m.0);
                    image.word(12, ethertype);
                    (has::ETH, Base::Link, 0)
                }
                FlowItem::Vlan { tci, inner_type } => {
                    image.word(0, tci);
                    image.word(2, inner_type);
                    tags += 1;
                    (has::tags(tags), Base::Link, 10 + 4 * usize::from(tags))
                }
                FlowItem::Ipv4 { src, dst, proto, tos } => {
                    image.byte(1, tos);
                    image.byte(9, proto);
                    image.bytes(12, src, |a| a.octets());
                    image.bytes(16, dst, |a| a.octets());
                    (has::V4, Base::Network, 0)
                }
                FlowItem::Ipv6 { src, dst, proto } => {
                    let mut last = Image::default();
                    last.byte(0, proto);
                    last.tests(Base::Protocol, 0, &mut tests);
                    image.bytes(8, src, |a| a.octets());
                    image.bytes(24, dst, |a| a.octets());
                    (has::V6, Base::Network, 0)
                }
                FlowItem::Tcp { src, dst, flags } => {
                    image.word(0, src);
                    image.word(2, dst);
                    image.byte(13, flags);
                    (has::TCP, Base::Transport, 0)
                }
                FlowItem::Udp { src, dst } => {
                    image.word(0, src);
                    image.word(2, dst);
                    (has::UDP, Base::Transport, 0)
                }
                FlowItem::Sctp { src, dst } => {
                    image.word(0, src);
                    image.word(2, dst);
                    (has::SCTP, Base::Transport, 0)
                }
                FlowItem::Icmp { kind, code } => {
                    image.byte(0, kind);
                    image.byte(1, code);
                    (has::ICMP, Base::Transport, 0)
                }
                FlowItem::Icmp6 { kind, code } => {
                    image.byte(0, kind);
                    image.byte(1, code);
                    (has::ICMP6, Base::Transport, 0)
                }
            };
            needs |= header;
            image.tests(base, offset, &mut tests);
        }
        let (mut fate, mut mark, mut counts) = (Fate::Drop, None, false);
        for action in &rule.actions {
            match *action {
                FlowAction::Queue(q) => fate = Fate::Queue(q),
                FlowAction::Drop => fate = Fate::Drop,
                FlowAction::Mark(id) => mark = Some(id),
                FlowAction::Count => counts = true,
            }
        }
        Compiled { needs, tests: tests.into(), fate, mark, hits: counts.then_some(hits) }
    }

    /// Whether a frame has the headers that the rule needs, with the values that it wants.
    #[inline]
    pub(super) fn matches(&self, h: &Headers<'_>) -> bool {
        self.needs & !h.has == 0 && self.tests.iter().all(|t| t.holds(h))
    }
}

impl Test {
    #[inline]
    fn holds(&self, h: &Headers<'_>) -> bool {
        let at = usize::from(self.at);
        let seen = match self.base {
            Base::Link => eight(h.bytes, at),
            Base::Network => eight(h.bytes, h.layers.l3_off() + at),
            Base::Transport => eight(h.bytes, h.layers.l4_off() + at),
            Base::Protocol => h.layers.l4_proto.into(),
        };
        seen & self.mask == self.value
    }
}

/// Eight bytes of the frame.
#[inline]
fn eight(bytes: &[u8], at: usize) -> u64 {
    match bytes.get(at..).and_then(<[u8]>::first_chunk) {
        Some(eight) => u64::from_le_bytes(*eight),
        None => few(bytes, at),
    }
}

/// The last bytes of the frame, filled up with zeros.
#[cold]
fn few(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at..).unwrap_or_default();
    rest.iter().take(8).rev().fold(0, |word, b| word << 8 | u64::from(*b))
}
