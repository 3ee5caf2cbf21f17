//! Flow rules as testpmd's users write them.
//!
//! ```text
//! [priority N] [ingress] [group 0] pattern ITEM / … / end actions ACTION / … / end
//! ```
//! An item is a header with what its fields must be: `ipv4 src is 10.0.0.1`, `ipv4 src spec 10.0.0.0 src prefix 8`,
//! `udp dst spec 80 dst mask 0xfff0`, `vlan vid is 7`. `spec` alone is the same as `is`. The last setting of a field
//! counts, and so does the last of an attribute. Bits of a value outside its mask are taken away.
//!
//! | item | fields |
//! |---|---|
//! | `eth` | `dst`, `src`, `type` |
//! | `vlan` | `tci`, or its parts `pcp`, `dei`, `vid`; `inner_type` |
//! | `ipv4` | `src`, `dst`, `proto`, `tos` |
//! | `ipv6` | `src`, `dst`, `proto` |
//! | `tcp` | `src`, `dst`, `flags` |
//! | `udp`, `sctp` | `src`, `dst` |
//! | `icmp`, `icmp6` | `type`, `code` |
//!
//! ```
//! use linerate_port::FlowRule;
//! let text = "priority 2 pattern eth / ipv4 src is 10.0.0.1 / udp dst is 53 / end actions queue index 1 / count / end";
//! let rule: FlowRule = text.parse().unwrap();
//! assert_eq!((rule.priority, rule.to_string()), (2, text.to_string()));
//! let wrong = "pattern ipv4 sorce is 10.0.0.1 / end actions drop / end".parse::<FlowRule>().unwrap_err();
//! assert_eq!((wrong.at, wrong.len), (13, 5));
//! ```
//!
//! Actions are `queue index N` or `drop`, `mark id N`, `count`, in any order, the last of a kind counting; `void` is
//! allowed wherever an item or action is.

mod show;

use super::{FlowAction, FlowError, FlowItem, FlowRule, Match};
use crate::{
    MacAddress,
    spec::{SpecError, did_you_mean},
};
use core::str::FromStr;
use std::net::{Ipv4Addr, Ipv6Addr};

/// What a value looks like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Mac,
    V4,
    V6,
    Number,
}

/// A field as it is named: some bits of a value that an item matches.
struct Field {
    name: &'static str,
    kind: Kind,
    /// Which of the item's values.
    value: usize,
    shift: u32,
    bits: u32,
}

const fn field(name: &'static str, kind: Kind, value: usize, shift: u32, bits: u32) -> Field {
    Field { name, kind, value, shift, bits }
}

use Kind::{Mac, Number, V4, V6};

const ETH: &[Field] =
    &[field("dst", Mac, 0, 0, 48), field("src", Mac, 1, 0, 48), field("type", Number, 2, 0, 16)];
const VLAN: &[Field] = &[
    field("tci", Number, 0, 0, 16),
    field("pcp", Number, 0, 13, 3),
    field("dei", Number, 0, 12, 1),
    field("vid", Number, 0, 0, 12),
    field("inner_type", Number, 1, 0, 16),
];
const IPV4: &[Field] = &[
    field("src", V4, 0, 0, 32),
    field("dst", V4, 1, 0, 32),
    field("proto", Number, 2, 0, 8),
    field("tos", Number, 3, 0, 8),
];
const IPV6: &[Field] =
    &[field("src", V6, 0, 0, 128), field("dst", V6, 1, 0, 128), field("proto", Number, 2, 0, 8)];
const TCP: &[Field] =
    &[field("src", Number, 0, 0, 16), field("dst", Number, 1, 0, 16), field("flags", Number, 2, 0, 8)];
const PORTS: &[Field] = &[field("src", Number, 0, 0, 16), field("dst", Number, 1, 0, 16)];
const ICMP: &[Field] = &[field("type", Number, 0, 0, 8), field("code", Number, 1, 0, 8)];

const ITEMS: &[(&str, &[Field])] = &[
    ("eth", ETH),
    ("vlan", VLAN),
    ("ipv4", IPV4),
    ("ipv6", IPV6),
    ("tcp", TCP),
    ("udp", PORTS),
    ("sctp", PORTS),
    ("icmp", ICMP),
    ("icmp6", ICMP),
    ("void", &[]),
];

const fn ones(bits: u32) -> u128 {
    if bits >= 128 { u128::MAX } else { (1 << bits) - 1 }
}

/// A value of an item, as far as it was given.
type Value = Option<(u128, u128)>;

fn narrow<T>(v: Value, to: impl Fn(u128) -> T) -> Option<Match<T>> {
    v.map(|(spec, mask)| Match { spec: to(spec), mask: to(mask) })
}

/// Makes the item of its name and values, of which the fields have seen to the widths.
fn item(name: &str, v: [Value; 4]) -> Option<FlowItem> {
    let mac = |v| narrow(v, |n| MacAddress((n as u64).to_be_bytes()[2..].try_into().unwrap_or_default()));
    let v4 = |v| narrow(v, |n| Ipv4Addr::from_bits(n as u32));
    let v6 = |v| narrow(v, Ipv6Addr::from_bits);
    let word = |v| narrow(v, |n| n as u16);
    let byte = |v| narrow(v, |n| n as u8);
    let [a, b, c, d] = v;
    Some(match name {
        "eth" => FlowItem::Eth { dst: mac(a), src: mac(b), ethertype: word(c) },
        "vlan" => FlowItem::Vlan { tci: word(a), inner_type: word(b) },
        "ipv4" => FlowItem::Ipv4 { src: v4(a), dst: v4(b), proto: byte(c), tos: byte(d) },
        "ipv6" => FlowItem::Ipv6 { src: v6(a), dst: v6(b), proto: byte(c) },
        "tcp" => FlowItem::Tcp { src: word(a), dst: word(b), flags: byte(c) },
        "udp" => FlowItem::Udp { src: word(a), dst: word(b) },
        "sctp" => FlowItem::Sctp { src: word(a), dst: word(b) },
        "icmp" => FlowItem::Icmp { kind: byte(a), code: byte(b) },
        "icmp6" => FlowItem::Icmp6 { kind: byte(a), code: byte(b) },
        _ => return None,
    })
}

/// What was said of one field.
#[derive(Clone, Copy, Default)]
struct Said {
    spec: Option<u128>,
    mask: Option<u128>,
    /// The word that set it last, for order and for errors.
    word: usize,
}

/// The words of a rule, each with where it starts.
struct Words<'a> {
    text: &'a str,
    words: Vec<(usize, &'a str)>,
    at: usize,
}

impl<'a> Words<'a> {
    fn of(text: &'a str) -> Self {
        let start = text.as_ptr() as usize;
        let words = text.split_whitespace().map(|w| (w.as_ptr() as usize - start, w)).collect();
        Words { text, words, at: 0 }
    }

    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).map(|w| w.1)
    }

    /// An error at a word, or behind the last one.
    fn error(&self, word: usize, what: impl Into<String>, hint: impl Into<String>) -> SpecError {
        let (at, len) = match self.words.get(word) {
            Some((at, w)) => (*at, w.chars().count()),
            None => (self.text.len(), 1),
        };
        SpecError::new(self.text, at, len, what.into(), hint.into())
    }

    /// An error at the next word, which is none of those that may stand here.
    fn unexpected(&self, wanted: &[&str], kind: &str) -> SpecError {
        match self.peek() {
            Some(w) => {
                let hint = did_you_mean(w, wanted.iter().copied(), kind);
                self.error(self.at, format!("{w:?} cannot stand here"), hint)
            }
            None => {
                let hint = format!("{kind}: {}", wanted.join(", "));
                self.error(self.at, "the rule ends too early", hint)
            }
        }
    }

    fn take(&mut self, wanted: &str, kind: &str) -> Result<(), SpecError> {
        if self.peek() != Some(wanted) {
            return Err(self.unexpected(&[wanted], kind));
        }
        self.at += 1;
        Ok(())
    }

    fn number(&mut self, max: u128) -> Result<u128, SpecError> {
        let Some(w) = self.peek() else {
            return Err(self.error(self.at, "a number is missing", format!("write 0 to {max}")));
        };
        let parsed = match w.strip_prefix("0x").or_else(|| w.strip_prefix("0X")) {
            Some(hex) if hex.starts_with(['+', '-']) => None,
            Some(hex) => u128::from_str_radix(hex, 16).ok(),
            None if w.starts_with(['+', '-']) => None,
            // C would read 010 as 8: refused rather than guessed.
            None if w.len() > 1 && w.starts_with('0') => None,
            None => w.parse().ok(),
        };
        match parsed {
            Some(n) if n <= max => {
                self.at += 1;
                Ok(n)
            }
            Some(_) => Err(self.error(self.at, format!("{w} is too large"), format!("write 0 to {max}"))),
            None => {
                let hint = format!("write 0 to {max}, or 0x0 to {max:#x}");
                Err(self.error(self.at, format!("{w:?} is no number"), hint))
            }
        }
    }

    /// A value of a field; masks of addresses look like addresses.
    fn value(&mut self, f: &Field) -> Result<u128, SpecError> {
        if f.kind == Number {
            return self.number(ones(f.bits));
        }
        let w = self.peek().unwrap_or_default();
        let (value, like) = match f.kind {
            Mac => (
                w.parse::<MacAddress>().ok().map(|m| m.0.iter().fold(0, |n, b| n << 8 | u128::from(*b))),
                "02:00:00:00:00:01",
            ),
            V4 => (w.parse::<Ipv4Addr>().ok().map(|a| a.to_bits().into()), "10.0.0.1"),
            _ => (w.parse::<Ipv6Addr>().ok().map(Ipv6Addr::to_bits), "2001:db8::1"),
        };
        let hint = format!("write an address such as {like}; a part of it with `spec … prefix N`");
        let value =
            value.ok_or_else(|| self.error(self.at, format!("{w:?} is no address of this kind"), hint))?;
        self.at += 1;
        Ok(value)
    }

    /// Whether a list goes on: `/` stands between its entries, `/ end` behind the last.
    fn goes_on(&mut self, kind: &str) -> Result<bool, SpecError> {
        self.take("/", kind)?;
        if self.peek() == Some("end") {
            self.at += 1;
            return Ok(false);
        }
        Ok(true)
    }

    /// The settings of an item's fields, up to the next `/`.
    fn fields(&mut self, fields: &[Field]) -> Result<[Value; 4], SpecError> {
        let mut said = [Said::default(); 5];
        let names: Vec<_> = fields.iter().map(|f| f.name).chain(["/"]).collect();
        while self.peek() != Some("/") {
            let found = fields.iter().zip(&mut said).find(|(f, _)| Some(f.name) == self.peek());
            let Some((f, s)) = found else { return Err(self.unexpected(&names, "words here")) };
            self.at += 1;
            s.word = self.at;
            let (how, full) = (self.peek(), ones(f.bits));
            self.at += 1;
            match how {
                Some("is") => (s.spec, s.mask) = (Some(self.value(f)?), Some(full)),
                Some("spec") => s.spec = Some(self.value(f)?),
                Some("mask") => s.mask = Some(self.value(f)?),
                Some("prefix") => {
                    let len = self.number(f.bits.into())? as u32;
                    s.mask = Some(full & !ones(f.bits - len));
                }
                Some("last") => {
                    let hint = "match a range by a mask, or by several rules";
                    return Err(self.error(self.at - 1, "ranges are not matched", hint));
                }
                _ => {
                    self.at -= 1;
                    return Err(self.unexpected(&["is", "spec", "mask", "prefix"], "words behind a field"));
                }
            }
        }
        let mut given: Vec<_> = fields.iter().zip(said).filter(|(_, s)| s.word != 0).collect();
        given.sort_by_key(|(_, s)| s.word);
        let mut values = [None; 4];
        for (f, s) in given {
            let Some(spec) = s.spec else {
                let hint = format!("write {} spec VALUE as well", f.name);
                return Err(self.error(s.word, format!("{} has a mask and no value", f.name), hint));
            };
            let (all, mask) = (ones(f.bits) << f.shift, s.mask.unwrap_or(ones(f.bits)));
            let (v, m) = values[f.value].unwrap_or((0, 0));
            values[f.value] = Some((v & !all | (spec & mask) << f.shift, m & !all | mask << f.shift));
        }
        Ok(values)
    }

    /// The attributes, up to `pattern`; the priority.
    fn attributes(&mut self) -> Result<u32, SpecError> {
        let mut priority = 0;
        loop {
            let w = self.peek();
            self.at += 1;
            match w {
                Some("pattern") => return Ok(priority),
                Some("ingress") => {}
                Some("priority") => priority = self.number(u32::MAX.into())? as u32,
                Some("group") => {
                    if self.number(u32::MAX.into())? != 0 {
                        return Err(self.error(
                            self.at - 1,
                            "there is one group",
                            "write group 0, or nothing",
                        ));
                    }
                }
                Some("egress" | "transfer") => {
                    let hint = "rules are for received packets: write ingress, or nothing";
                    return Err(self.error(self.at - 1, "rules of this kind do not exist", hint));
                }
                _ => {
                    self.at -= 1;
                    let wanted = ["pattern", "priority", "ingress", "group"];
                    return Err(self.unexpected(&wanted, "words here"));
                }
            }
        }
    }

    /// The items up to `end`, each with its word.
    fn pattern(&mut self) -> Result<Vec<(FlowItem, usize)>, SpecError> {
        let mut items = Vec::new();
        if self.peek() == Some("end") {
            self.at += 1;
            return Ok(items);
        }
        loop {
            let word = self.at;
            let Some((name, fields)) = ITEMS.iter().find(|(n, _)| Some(*n) == self.peek()) else {
                let names: Vec<_> = ITEMS.iter().map(|i| i.0).chain(["end"]).collect();
                return Err(self.unexpected(&names, "items"));
            };
            self.at += 1;
            let values = self.fields(fields)?;
            items.extend(item(name, values).map(|i| (i, word)));
            if !self.goes_on("words behind an item")? {
                return Ok(items);
            }
        }
    }

    /// The actions up to `end`, in order; the last of a kind.
    fn actions(&mut self) -> Result<Vec<FlowAction>, SpecError> {
        let mut actions: Vec<FlowAction> = Vec::new();
        let mut fate: Option<(usize, bool)> = None;
        loop {
            let word = self.at;
            let w = self.peek();
            self.at += 1;
            let action = match w {
                Some("queue") => {
                    self.take("index", "words behind queue")?;
                    Some(FlowAction::Queue(self.number((u16::MAX - 1).into())? as u16))
                }
                Some("mark") => {
                    self.take("id", "words behind mark")?;
                    Some(FlowAction::Mark(self.number(u32::MAX.into())? as u32))
                }
                Some("drop") => Some(FlowAction::Drop),
                Some("count") => Some(FlowAction::Count),
                Some("void") => None,
                _ => {
                    self.at -= 1;
                    return Err(self.unexpected(&["queue", "drop", "mark", "count", "void"], "actions"));
                }
            };
            if let Some(a @ (FlowAction::Queue(_) | FlowAction::Drop)) = action {
                let drops = a == FlowAction::Drop;
                if fate.is_some_and(|(_, before)| before != drops) {
                    let what = "a packet cannot go to a queue and be dropped";
                    return Err(self.error(word, what, "name one of: queue, drop"));
                }
                fate = Some((word, drops));
            }
            if let Some(a) = action {
                actions.retain(|b| core::mem::discriminant(b) != core::mem::discriminant(&a));
                actions.push(a);
            }
            if !self.goes_on("words behind an action")? {
                break;
            }
        }
        if fate.is_none() {
            return Err(self.error(
                self.at - 1,
                "no action says where the packet goes",
                "name one of: queue, drop",
            ));
        }
        Ok(actions)
    }
}

impl FromStr for FlowRule {
    type Err = SpecError;

    /// Reads a rule, as the [module](self) says. The queue is not held against any port.
    fn from_str(text: &str) -> Result<Self, SpecError> {
        let mut w = Words::of(text);
        let priority = w.attributes()?;
        let items = w.pattern()?;
        w.take("actions", "words behind the pattern")?;
        let actions = w.actions()?;
        if w.peek().is_some() {
            return Err(w.error(w.at, "the rule has ended", "nothing follows the end of the actions"));
        }
        let words: Vec<_> = items.iter().map(|i| i.1).collect();
        let rule = FlowRule { priority, pattern: items.into_iter().map(|i| i.0).collect(), actions };
        rule.check(u16::MAX).map_err(|e| {
            let item = match e {
                FlowError::Order { at, .. }
                | FlowError::NoNetwork { at, .. }
                | FlowError::OutsideMask { at, .. } => at,
                _ => words.len().saturating_sub(1),
            };
            w.error(words.get(item).copied().unwrap_or_default(), e.to_string(), e.hint())
        })?;
        Ok(rule)
    }
}

#[cfg(test)]
mod tests;
