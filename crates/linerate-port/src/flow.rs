//! Flow rules: which packets, and what becomes of them.
//!
//! A subset of DPDK's `rte_flow`: pattern items in the order of the headers, each field with a mask; actions
//! of which one decides the packet's fate. [Written](text) as testpmd's users write them.
//!
//! What a pattern leaves out matches anything: without a `vlan` item tagged packets match too (as with ConnectX
//! devices), and `vlan` items match the outermost tags in order. An EtherType of `eth` is the one behind the
//! addresses, of a tagged packet that of the tag; `inner_type` is the one behind that tag. The transport header of a
//! fragment matches nothing, not even in the first one, so that the fragments of a packet stay together; its network
//! header and protocol do match. Only the outer headers of a tunnel are looked at.

pub mod text;

use crate::MacAddress;
use std::net::{Ipv4Addr, Ipv6Addr};
use thiserror::Error;

/// A field to match: equal to `spec` in the bits of `mask`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Match<T> {
    /// The value.
    pub spec: T,
    /// The bits that count.
    pub mask: T,
}

impl Match<u8> {
    /// All bits count.
    pub const fn exact(spec: u8) -> Self {
        Match { spec, mask: u8::MAX }
    }
}

impl Match<u16> {
    /// All bits count.
    pub const fn exact(spec: u16) -> Self {
        Match { spec, mask: u16::MAX }
    }
}

impl Match<Ipv4Addr> {
    /// The first `len` bits count.
    ///
    /// # Errors
    ///
    /// A length over 32.
    pub fn prefix(spec: Ipv4Addr, len: u8) -> Result<Self, FlowError> {
        let mask = match len {
            0 => 0,
            1..=32 => u32::MAX << (32 - len),
            _ => return Err(FlowError::Prefix { len, max: 32 }),
        };
        Ok(Match { spec, mask: Ipv4Addr::from_bits(mask) })
    }
}

impl Match<Ipv6Addr> {
    /// The first `len` bits count.
    ///
    /// # Errors
    ///
    /// A length over 128.
    pub fn prefix(spec: Ipv6Addr, len: u8) -> Result<Self, FlowError> {
        let mask = match len {
            0 => 0,
            1..=128 => u128::MAX << (128 - len),
            _ => return Err(FlowError::Prefix { len, max: 128 }),
        };
        Ok(Match { spec, mask: Ipv6Addr::from_bits(mask) })
    }
}

/// One header of a pattern; a field that is `None` matches anything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowItem {
    /// Ethernet.
    Eth {
        /// Destination address.
        dst: Option<Match<MacAddress>>,
        /// Source address.
        src: Option<Match<MacAddress>>,
        /// EtherType.
        ethertype: Option<Match<u16>>,
    },
    /// A VLAN tag.
    Vlan {
        /// Tag control information: 3 bits priority, 1 bit drop eligible, 12 bits VLAN.
        tci: Option<Match<u16>>,
        /// EtherType behind the tag.
        inner_type: Option<Match<u16>>,
    },
    /// IPv4.
    Ipv4 {
        /// Source address.
        src: Option<Match<Ipv4Addr>>,
        /// Destination address.
        dst: Option<Match<Ipv4Addr>>,
        /// Protocol number.
        proto: Option<Match<u8>>,
        /// Type of service.
        tos: Option<Match<u8>>,
    },
    /// IPv6.
    Ipv6 {
        /// Source address.
        src: Option<Match<Ipv6Addr>>,
        /// Destination address.
        dst: Option<Match<Ipv6Addr>>,
        /// Protocol number of the last header.
        proto: Option<Match<u8>>,
    },
    /// TCP.
    Tcp {
        /// Source port.
        src: Option<Match<u16>>,
        /// Destination port.
        dst: Option<Match<u16>>,
        /// Flags.
        flags: Option<Match<u8>>,
    },
    /// UDP.
    Udp {
        /// Source port.
        src: Option<Match<u16>>,
        /// Destination port.
        dst: Option<Match<u16>>,
    },
    /// SCTP.
    Sctp {
        /// Source port.
        src: Option<Match<u16>>,
        /// Destination port.
        dst: Option<Match<u16>>,
    },
    /// ICMP, in IPv4.
    Icmp {
        /// Message type.
        kind: Option<Match<u8>>,
        /// Its subtype.
        code: Option<Match<u8>>,
    },
    /// ICMPv6, in IPv6.
    Icmp6 {
        /// Message type.
        kind: Option<Match<u8>>,
        /// Its subtype.
        code: Option<Match<u8>>,
    },
}

impl FlowItem {
    fn layer(&self) -> u8 {
        match self {
            FlowItem::Eth { .. } => 0,
            FlowItem::Vlan { .. } => 1,
            FlowItem::Ipv4 { .. } | FlowItem::Ipv6 { .. } => 2,
            FlowItem::Tcp { .. }
            | FlowItem::Udp { .. }
            | FlowItem::Sctp { .. }
            | FlowItem::Icmp { .. }
            | FlowItem::Icmp6 { .. } => 3,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            FlowItem::Eth { .. } => "eth",
            FlowItem::Vlan { .. } => "vlan",
            FlowItem::Ipv4 { .. } => "ipv4",
            FlowItem::Ipv6 { .. } => "ipv6",
            FlowItem::Tcp { .. } => "tcp",
            FlowItem::Udp { .. } => "udp",
            FlowItem::Sctp { .. } => "sctp",
            FlowItem::Icmp { .. } => "icmp",
            FlowItem::Icmp6 { .. } => "icmp6",
        }
    }
}

/// What becomes of a packet that matches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FlowAction {
    /// To this receive queue.
    Queue(u16),
    /// Dropped.
    Drop,
    /// Marked with a number.
    Mark(u32),
    /// Counted.
    Count,
}

/// A rule.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlowRule {
    /// Lower numbers are looked at first.
    pub priority: u32,
    /// Headers from the outside in; empty = every packet.
    pub pattern: Vec<FlowItem>,
    /// What to do, in any order.
    pub actions: Vec<FlowAction>,
}

/// Number of a rule on its port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FlowId(pub u32);

/// What a counting rule has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FlowHits {
    /// Packets.
    pub packets: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What is wrong with a rule.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum FlowError {
    /// Headers out of order.
    #[error("pattern item {at} ({item}) cannot follow {after}")]
    Order {
        /// Which item, from 0.
        at: usize,
        /// Its name.
        item: &'static str,
        /// The name of the one before.
        after: &'static str,
    },
    /// A layer-4 header without the layer-3 header that carries it.
    #[error("pattern item {at} ({item}) needs the network header that carries it before it: ipv4 or ipv6")]
    NoNetwork {
        /// Which item, from 0.
        at: usize,
        /// Its name.
        item: &'static str,
    },
    /// More VLAN tags than the parser follows.
    #[error("{tags} vlan items; at most {max}")]
    TooManyTags {
        /// Tags in the pattern.
        tags: usize,
        /// Most allowed.
        max: usize,
    },
    /// Bits to match that the mask leaves out.
    #[error("pattern item {at} ({item}): the value has bits outside its mask")]
    OutsideMask {
        /// Which item, from 0.
        at: usize,
        /// Its name.
        item: &'static str,
    },
    /// None or several actions that decide the packet's fate.
    #[error("{fates} actions among queue and drop; exactly one decides where a packet goes")]
    Fate {
        /// How many there are.
        fates: usize,
    },
    /// The same action twice.
    #[error("action {action} twice")]
    Twice {
        /// Its name.
        action: &'static str,
    },
    /// A queue that does not exist.
    #[error("queue {queue}; there are 0 to {last}")]
    Queue {
        /// The queue.
        queue: u16,
        /// The last that exists.
        last: u16,
    },
    /// A prefix longer than the address.
    #[error("a prefix of {len} bits; at most {max}")]
    Prefix {
        /// Its length.
        len: u8,
        /// Most allowed.
        max: u8,
    },
    /// No such rule.
    #[error("no rule {id}")]
    NoSuchRule {
        /// Its number.
        id: u32,
    },
}

impl FlowError {
    /// What mends it.
    pub fn hint(&self) -> String {
        match self {
            FlowError::Order { .. } | FlowError::NoNetwork { .. } => {
                "write headers from the outside in: eth / vlan / ipv4 / udp".into()
            }
            FlowError::Fate { .. } => "name one of: queue, drop".into(),
            FlowError::Queue { last, .. } => format!("name a queue from 0 to {last}"),
            FlowError::NoSuchRule { .. } => "rules are numbered as they were created".into(),
            _ => "see the allowed values in the message".into(),
        }
    }
}

/// Most VLAN tags in a pattern: as many as the parser follows.
pub const MAX_TAGS: usize = 8;

impl FlowRule {
    /// Checks the rule for a port with so many receive queues.
    ///
    /// # Errors
    ///
    /// The first thing wrong with it.
    pub fn check(&self, rx_queues: u16) -> Result<(), FlowError> {
        for (at, item) in self.pattern.iter().enumerate() {
            if let Some(prev) = at.checked_sub(1).map(|i| &self.pattern[i]) {
                let both_tags = item.layer() == 1 && prev.layer() == 1;
                if item.layer() <= prev.layer() && !both_tags {
                    return Err(FlowError::Order { at, item: item.name(), after: prev.name() });
                }
            }
            let carried = |carrier: &FlowItem| match item {
                FlowItem::Icmp { .. } => matches!(carrier, FlowItem::Ipv4 { .. }),
                FlowItem::Icmp6 { .. } => matches!(carrier, FlowItem::Ipv6 { .. }),
                _ => carrier.layer() == 2,
            };
            if item.layer() == 3 && !self.pattern[..at].iter().any(carried) {
                return Err(FlowError::NoNetwork { at, item: item.name() });
            }
            if item.has_bits_outside_masks() {
                return Err(FlowError::OutsideMask { at, item: item.name() });
            }
        }
        let tags = self.pattern.iter().filter(|i| i.layer() == 1).count();
        if tags > MAX_TAGS {
            return Err(FlowError::TooManyTags { tags, max: MAX_TAGS });
        }
        let count = |f: &dyn Fn(&FlowAction) -> bool| self.actions.iter().filter(|a| f(a)).count();
        let fates = count(&|a| matches!(a, FlowAction::Queue(_) | FlowAction::Drop));
        if fates != 1 {
            return Err(FlowError::Fate { fates });
        }
        if count(&|a| matches!(a, FlowAction::Mark(_))) > 1 {
            return Err(FlowError::Twice { action: "mark" });
        }
        if count(&|a| matches!(a, FlowAction::Count)) > 1 {
            return Err(FlowError::Twice { action: "count" });
        }
        for a in &self.actions {
            if let FlowAction::Queue(queue) = *a
                && queue >= rx_queues
            {
                return Err(FlowError::Queue { queue, last: rx_queues.saturating_sub(1) });
            }
        }
        Ok(())
    }
}

impl FlowItem {
    fn has_bits_outside_masks(&self) -> bool {
        fn u8_(m: &Option<Match<u8>>) -> bool {
            m.is_some_and(|m| m.spec & !m.mask != 0)
        }
        fn u16_(m: &Option<Match<u16>>) -> bool {
            m.is_some_and(|m| m.spec & !m.mask != 0)
        }
        fn mac(m: &Option<Match<MacAddress>>) -> bool {
            m.is_some_and(|m| m.spec.0.iter().zip(m.mask.0).any(|(s, k)| s & !k != 0))
        }
        fn v4(m: &Option<Match<Ipv4Addr>>) -> bool {
            m.is_some_and(|m| m.spec.to_bits() & !m.mask.to_bits() != 0)
        }
        fn v6(m: &Option<Match<Ipv6Addr>>) -> bool {
            m.is_some_and(|m| m.spec.to_bits() & !m.mask.to_bits() != 0)
        }
        match self {
            FlowItem::Eth { dst, src, ethertype } => mac(dst) || mac(src) || u16_(ethertype),
            FlowItem::Vlan { tci, inner_type } => u16_(tci) || u16_(inner_type),
            FlowItem::Ipv4 { src, dst, proto, tos } => v4(src) || v4(dst) || u8_(proto) || u8_(tos),
            FlowItem::Ipv6 { src, dst, proto } => v6(src) || v6(dst) || u8_(proto),
            FlowItem::Tcp { src, dst, flags } => u16_(src) || u16_(dst) || u8_(flags),
            FlowItem::Udp { src, dst } | FlowItem::Sctp { src, dst } => u16_(src) || u16_(dst),
            FlowItem::Icmp { kind, code } | FlowItem::Icmp6 { kind, code } => u8_(kind) || u8_(code),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ETH: FlowItem = FlowItem::Eth { dst: None, src: None, ethertype: None };
    const VLAN: FlowItem = FlowItem::Vlan { tci: None, inner_type: None };
    const IPV4: FlowItem = FlowItem::Ipv4 { src: None, dst: None, proto: None, tos: None };
    const UDP: FlowItem = FlowItem::Udp { src: None, dst: None };

    fn rule(pattern: &[FlowItem], actions: &[FlowAction]) -> Result<(), FlowError> {
        FlowRule { priority: 0, pattern: pattern.into(), actions: actions.into() }.check(4)
    }

    #[test]
    fn good_rules_pass_and_bad_ones_say_where() {
        use FlowAction::*;
        assert_eq!(rule(&[], &[Drop]), Ok(()));
        assert_eq!(rule(&[ETH, VLAN, VLAN, IPV4, UDP], &[Mark(1), Count, Queue(3)]), Ok(()));
        assert_eq!(rule(&[IPV4, ETH], &[Drop]), Err(FlowError::Order { at: 1, item: "eth", after: "ipv4" }));
        assert_eq!(rule(&[ETH, UDP], &[Drop]), Err(FlowError::NoNetwork { at: 1, item: "udp" }));
        assert_eq!(rule(&[ETH], &[Count]), Err(FlowError::Fate { fates: 0 }));
        assert_eq!(rule(&[ETH], &[Drop, Queue(0)]), Err(FlowError::Fate { fates: 2 }));
        assert_eq!(rule(&[ETH], &[Queue(4)]), Err(FlowError::Queue { queue: 4, last: 3 }));
        assert_eq!(rule(&[ETH], &[Drop, Mark(1), Mark(2)]), Err(FlowError::Twice { action: "mark" }));
        let tags = [VLAN; 9];
        assert_eq!(rule(&tags, &[Drop]), Err(FlowError::TooManyTags { tags: 9, max: 8 }));
        let src = Some(Match { spec: Ipv4Addr::new(10, 0, 0, 1), mask: Ipv4Addr::new(255, 0, 0, 0) });
        let v4 = FlowItem::Ipv4 { src, dst: None, proto: None, tos: None };
        assert_eq!(rule(&[ETH, v4], &[Drop]), Err(FlowError::OutsideMask { at: 1, item: "ipv4" }));
        assert!(Match::<Ipv4Addr>::prefix(Ipv4Addr::LOCALHOST, 33).is_err());
        assert_eq!(
            Match::<Ipv4Addr>::prefix(Ipv4Addr::LOCALHOST, 8).map(|m| m.mask),
            Ok(Ipv4Addr::new(255, 0, 0, 0))
        );
        assert!(Match::<Ipv6Addr>::prefix(Ipv6Addr::LOCALHOST, 0).is_ok_and(|m| m.mask.to_bits() == 0));
    }
}
