//! What a port's stages are to do, as it stands at one moment. A table never changes; a change makes a new one.

use super::{
    headers::{Headers, RESTORED, is_stripped, restore},
    rule::{Compiled, Fate},
};
use linerate_mbuf::{Mbuf, PacketType};
use linerate_net::rss::{HashKind, HashTypes, ToeplitzKey, Tuple};

/// The queue of those that go nowhere.
pub(super) const NOWHERE: u16 = u16::MAX;

/// The addresses that are taken; sorted.
#[derive(Debug)]
pub(super) struct MacFilter {
    pub(super) all_multicast: bool,
    /// The port's own and those added.
    pub(super) taken: Box<[[u8; 6]]>,
}

impl MacFilter {
    #[inline]
    fn takes(&self, destination: Option<[u8; 6]>) -> bool {
        destination.is_some_and(|d| {
            self.taken.binary_search(&d).is_ok() || d == [0xff; 6] || (self.all_multicast && d[0] & 1 == 1)
        })
    }
}

/// The VLANs that are taken, as bits. Untagged frames and those of VLAN 0, which is none, always are.
#[derive(Debug)]
pub(super) struct VlanFilter(pub(super) Box<[u64; 64]>);

impl VlanFilter {
    #[inline]
    fn takes(&self, vlan: Option<u16>) -> bool {
        match vlan {
            None | Some(0) => true,
            Some(v) => self.0[usize::from(v / 64) % 64] >> (v % 64) & 1 == 1,
        }
    }
}

/// How packets are spread.
#[derive(Debug)]
pub(super) struct Spread {
    pub(super) key: ToeplitzKey,
    pub(super) types: HashTypes,
    /// A power of two of queues.
    pub(super) reta: Box<[u16]>,
}

/// What became of the frames of one poll.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Tally {
    pub(super) filtered: u64,
    pub(super) dropped: u64,
    pub(super) malformed: u64,
}

/// What is to be done.
#[derive(Debug, Default)]
pub(super) struct Table {
    /// Tables are numbered in order.
    pub(super) generation: u64,
    pub(super) macs: Option<MacFilter>,
    pub(super) vlans: Option<VlanFilter>,
    /// In the order in which they are looked at.
    pub(super) rules: Box<[Compiled]>,
    pub(super) spread: Option<std::sync::Arc<Spread>>,
}

impl Table {
    /// Whether there is anything to do.
    pub(super) fn is_active(&self) -> bool {
        self.macs.is_some() || self.vlans.is_some() || !self.rules.is_empty() || self.spread.is_some()
    }

    /// Decides about a frame that queue `own` received, and writes into it what was found out: packet type, hash,
    /// mark. The answer is a queue or [`NOWHERE`].
    #[inline]
    pub(super) fn decide(&self, m: &mut Mbuf, own: u16, tally: &mut Tally) -> u16 {
        if is_stripped(m) {
            return self.decide_stripped(m, own, tally);
        }
        let found = self.judge(&Headers::of(m.data(), m.len() as usize), m.len(), own, tally);
        found.write(m)
    }

    #[cold]
    #[inline(never)]
    fn decide_stripped(&self, m: &mut Mbuf, own: u16, tally: &mut Tally) -> u16 {
        let mut bytes = [0; RESTORED];
        let (n, len) = restore(m, &mut bytes);
        let found = self.judge(&Headers::of(&bytes[..n], len), m.len(), own, tally);
        found.write(m)
    }

    #[inline]
    fn judge(&self, h: &Headers<'_>, len: u32, own: u16, tally: &mut Tally) -> Found {
        let mut found = Found { to: own, ptype: h.ptype.bits(), hash: None, mark: None };
        tally.malformed += u64::from(h.layers.fault.is_some());
        let taken = self.macs.as_ref().is_none_or(|f| f.takes(h.destination()))
            && self.vlans.as_ref().is_none_or(|f| f.takes(h.vlan()));
        if !taken {
            tally.filtered += 1;
            found.to = NOWHERE;
            return found;
        }
        if let Some(rule) = self.rules.iter().find(|r| r.matches(h)) {
            found.mark = rule.mark;
            if let Some(hits) = &rule.hits {
                hits.add(own, len);
            }
            found.to = match rule.fate {
                Fate::Queue(q) => q,
                Fate::Drop => {
                    tally.dropped += 1;
                    NOWHERE
                }
            };
            return found;
        }
        if let Some(s) = &self.spread {
            found.hash =
                Tuple::of(h.bytes, &h.layers, s.types, HashKind::Toeplitz).map(|t| s.key.hash(t.bytes()));
            let entry = found.hash.map(|hash| hash as usize & (s.reta.len() - 1));
            found.to = entry.and_then(|i| s.reta.get(i)).copied().unwrap_or(0);
        }
        found
    }
}

/// What was found out about a frame.
struct Found {
    to: u16,
    ptype: u32,
    hash: Option<u32>,
    mark: Option<u32>,
}

impl Found {
    #[inline(always)]
    fn write(self, m: &mut Mbuf) -> u16 {
        if m.packet_type() == PacketType::UNKNOWN {
            m.set_packet_type(PacketType(self.ptype));
        }
        if let Some(hash) = self.hash {
            m.set_rss_hash(hash);
        }
        if let Some(mark) = self.mark {
            m.set_mark(mark);
        }
        self.to
    }
}
