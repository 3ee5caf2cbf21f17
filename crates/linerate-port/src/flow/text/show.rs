//! Rules as text, in the form in which they are read.

use crate::{FlowAction, FlowItem, FlowRule, MacAddress, flow::Match};
use core::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

/// A value that stands in a rule.
trait Shown: Copy + PartialEq {
    const BITS: u32;
    fn bits(self) -> u128;
    fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result;
}

macro_rules! shown {
    ($($t:ty, $bits:literal, $v:ident => $to_bits:expr, $form:literal;)*) => {$(
        impl Shown for $t {
            const BITS: u32 = $bits;
            fn bits(self) -> u128 {
                let $v = self;
                $to_bits
            }
            fn write(self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, $form, self)
            }
        }
    )*};
}
shown! {
    MacAddress, 48, m => m.0.iter().fold(0, |n, b| n << 8 | u128::from(*b)), "{}";
    Ipv4Addr, 32, a => a.to_bits().into(), "{}";
    Ipv6Addr, 128, a => a.to_bits(), "{}";
    u8, 8, n => n.into(), "{}";
    u16, 16, n => n.into(), "{}";
    Hex<u8>, 8, n => n.0.into(), "{}";
    Hex<u16>, 16, n => n.0.into(), "{}";
}

/// A number that people read in base 16.
#[derive(Clone, Copy, PartialEq)]
struct Hex<T>(T);

impl<T: fmt::LowerHex> fmt::Display for Hex<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#x}", self.0)
    }
}

fn hex<T>(m: Option<Match<T>>) -> Option<Match<Hex<T>>> {
    m.map(|m| Match { spec: Hex(m.spec), mask: Hex(m.mask) })
}

/// ` name is V`, or with its prefix or mask.
fn part<T: Shown>(f: &mut fmt::Formatter<'_>, name: &str, m: Option<Match<T>>) -> fmt::Result {
    let Some(m) = m else { return Ok(()) };
    let len = (m.mask.bits() << (128 - T::BITS)).leading_ones();
    let is_prefix = m.mask.bits().count_ones() == len;
    if is_prefix && len == T::BITS {
        write!(f, " {name} is ")?;
        return m.spec.write(f);
    }
    write!(f, " {name} spec ")?;
    m.spec.write(f)?;
    if is_prefix && T::BITS >= 32 {
        return write!(f, " {name} prefix {len}");
    }
    write!(f, " {name} mask ")?;
    m.mask.write(f)
}

/// The parts of a tag by their names, where whole parts are matched.
fn tag(f: &mut fmt::Formatter<'_>, tci: Option<Match<u16>>) -> fmt::Result {
    let of = |m: Match<u16>, shift: u16| m.spec >> shift;
    match tci {
        Some(m) if m.mask == 0x0fff => write!(f, " vid is {}", of(m, 0)),
        Some(m) if m.mask == 0xe000 => write!(f, " pcp is {}", of(m, 13)),
        Some(m) if m.mask == 0x1000 => write!(f, " dei is {}", of(m, 12)),
        other => part(f, "tci", hex(other)),
    }
}

impl fmt::Display for FlowItem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())?;
        match *self {
            FlowItem::Eth { dst, src, ethertype } => {
                part(f, "dst", dst)?;
                part(f, "src", src)?;
                part(f, "type", hex(ethertype))
            }
            FlowItem::Vlan { tci, inner_type } => {
                tag(f, tci)?;
                part(f, "inner_type", hex(inner_type))
            }
            FlowItem::Ipv4 { src, dst, proto, tos } => {
                part(f, "src", src)?;
                part(f, "dst", dst)?;
                part(f, "proto", proto)?;
                part(f, "tos", hex(tos))
            }
            FlowItem::Ipv6 { src, dst, proto } => {
                part(f, "src", src)?;
                part(f, "dst", dst)?;
                part(f, "proto", proto)
            }
            FlowItem::Tcp { src, dst, flags } => {
                part(f, "src", src)?;
                part(f, "dst", dst)?;
                part(f, "flags", hex(flags))
            }
            FlowItem::Udp { src, dst } | FlowItem::Sctp { src, dst } => {
                part(f, "src", src)?;
                part(f, "dst", dst)
            }
            FlowItem::Icmp { kind, code } | FlowItem::Icmp6 { kind, code } => {
                part(f, "type", kind)?;
                part(f, "code", code)
            }
        }
    }
}

impl fmt::Display for FlowAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            FlowAction::Queue(q) => write!(f, "queue index {q}"),
            FlowAction::Drop => f.write_str("drop"),
            FlowAction::Mark(id) => write!(f, "mark id {id}"),
            FlowAction::Count => f.write_str("count"),
        }
    }
}

impl fmt::Display for FlowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.priority != 0 {
            write!(f, "priority {} ", self.priority)?;
        }
        f.write_str("pattern ")?;
        for item in &self.pattern {
            write!(f, "{item} / ")?;
        }
        f.write_str("end actions ")?;
        for action in &self.actions {
            write!(f, "{action} / ")?;
        }
        f.write_str("end")
    }
}
