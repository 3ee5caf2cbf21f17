//! Reading a line: a pure function over the table of commands, from which completion and help come too.
//!
//! A command is a row of words and arguments. A line is read word by word; the rows that fit so far are kept, and
//! where none is left the error points at the word and lists what could stand there.

use crate::testpmd::modes::ModeName;
use clap::ValueEnum;
use linerate_net::MacAddr;
use std::fmt::{self, Write};

/// One place of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    /// The word itself.
    Word(&'static str),
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A port's number.
    Port,
    /// A port's number, or `all`.
    Ports,
    /// A number in these bounds, by this name.
    Number(&'static str, u64, u64),
    /// `on` or `off`.
    Switch,
    /// A forwarding mode.
    Mode,
    /// A station's or group's MAC address.
    Mac,
    /// Any one word, by this name.
    Text(&'static str),
    /// Everything to the end of the line, at least one word.
    Rest(&'static str),
}

/// An argument as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Value {
    /// Which of the words.
    Choice(&'static str),
    /// A port that there is; `None` = all.
    Port(Option<usize>),
    Number(u64),
    Switch(bool),
    Mode(ModeName),
    Mac(MacAddr),
    Text(String),
}

/// The arguments of a command, in order.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Values(pub Vec<Value>);

impl Values {
    /// The argument's number; the table says that it is one.
    pub fn number(&self, at: usize) -> u64 {
        match self.0.get(at) {
            Some(Value::Number(n)) => *n,
            _ => 0,
        }
    }

    /// The argument's port.
    pub fn port(&self, at: usize) -> usize {
        match self.0.get(at) {
            Some(Value::Port(Some(port))) => *port,
            _ => usize::MAX,
        }
    }

    /// The ports that the argument names, of so many.
    pub fn ports(&self, at: usize, count: usize) -> std::ops::Range<usize> {
        match self.0.get(at) {
            Some(Value::Port(Some(port))) => *port..(port + 1).min(count),
            _ => 0..count,
        }
    }

    /// Whether the switch is on.
    pub fn on(&self, at: usize) -> bool {
        self.0.get(at) == Some(&Value::Switch(true))
    }

    /// The word or text.
    pub fn text(&self, at: usize) -> &str {
        match self.0.get(at) {
            Some(Value::Text(t)) => t,
            Some(Value::Choice(c)) => c,
            _ => "",
        }
    }
}

/// What the reader knows of the run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// How many ports there are.
    pub ports: usize,
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct LineError {
    line: String,
    /// Characters before the word, and its length.
    at: (usize, usize),
    what: String,
    hint: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (before, len) = self.at;
        write!(
            f,
            "{}\n  {}\n  {}{}\n  hint: {}",
            self.what,
            self.line,
            " ".repeat(before),
            "^".repeat(len.max(1)),
            self.hint
        )
    }
}

impl Part {
    /// How help writes it.
    pub fn shown(&self) -> String {
        match self {
            Part::Word(w) => (*w).into(),
            Part::Choice(words) => format!("({})", words.join("|")),
            Part::Port => "PORT".into(),
            Part::Ports => "(PORT|all)".into(),
            Part::Number(name, ..) | Part::Text(name) => (*name).into(),
            Part::Switch => "(on|off)".into(),
            Part::Mode => "MODE".into(),
            Part::Mac => "MAC".into(),
            Part::Rest(name) => format!("{name}..."),
        }
    }

    /// What may stand there, in words.
    fn allowed(&self, known: Known) -> String {
        let last = known.ports.saturating_sub(1);
        match self {
            Part::Word(w) => (*w).into(),
            Part::Choice(words) => words.join(", "),
            Part::Port => format!("a port from 0 to {last}"),
            Part::Ports => format!("a port from 0 to {last}, or all"),
            Part::Number(name, min, max) => format!("{name} from {min} to {max}"),
            Part::Switch => "on, off".into(),
            Part::Mode => mode_names().join(", "),
            Part::Mac => "a MAC address such as 02:00:00:00:00:01".into(),
            Part::Text(name) | Part::Rest(name) => (*name).into(),
        }
    }

    /// The words that may stand there, for completion.
    fn words(&self, known: Known) -> Vec<String> {
        let ports = || (0..known.ports.min(64)).map(|p| p.to_string());
        match self {
            Part::Word(w) => vec![(*w).into()],
            Part::Choice(words) => words.iter().map(|w| (*w).into()).collect(),
            Part::Port => ports().collect(),
            Part::Ports => ports().chain(["all".into()]).collect(),
            Part::Switch => vec!["on".into(), "off".into()],
            Part::Mode => mode_names(),
            Part::Number(..) | Part::Mac | Part::Text(_) | Part::Rest(_) => Vec::new(),
        }
    }

    /// Whether the word is the table's own, and not an argument.
    fn is_word(&self) -> bool {
        matches!(self, Part::Word(_))
    }

    /// Reads a word: the value, nothing for a word of the table, or what is wrong with it.
    fn read(&self, word: &str, known: Known) -> Result<Option<Value>, String> {
        let wrong = || format!("{word:?} is not allowed here");
        Ok(Some(match self {
            Part::Word(w) => return if *w == word { Ok(None) } else { Err(wrong()) },
            Part::Choice(words) => Value::Choice(words.iter().find(|w| **w == word).ok_or_else(wrong)?),
            Part::Ports if word == "all" => Value::Port(None),
            // Read wide and held against the ports there are before it is narrowed (bug case 37).
            Part::Port | Part::Ports => match number(word) {
                Some(n) if n < known.ports as u64 => Value::Port(Some(n as usize)),
                _ => return Err(format!("{word:?} is not a port")),
            },
            Part::Number(name, min, max) => match number(word) {
                Some(n) if (*min..=*max).contains(&n) => Value::Number(n),
                _ => return Err(format!("{word:?} is not a {name} from {min} to {max}")),
            },
            Part::Switch => Value::Switch(match word {
                "on" => true,
                "off" => false,
                _ => return Err(wrong()),
            }),
            Part::Mode => {
                Value::Mode(ModeName::from_str(word, false).map_err(|_| format!("{word:?} is not a mode"))?)
            }
            Part::Mac => Value::Mac(word.parse().map_err(|e| format!("{word:?}: {e}"))?),
            Part::Text(_) | Part::Rest(_) => Value::Text(word.into()),
        }))
    }
}

/// A number in decimal, or in hexadecimal after 0x.
fn number(word: &str) -> Option<u64> {
    match word.strip_prefix("0x") {
        Some(hex) if hex.bytes().all(|b| b.is_ascii_hexdigit()) => u64::from_str_radix(hex, 16).ok(),
        Some(_) => None,
        // The standard parser takes a sign; a person who writes one means something else.
        None if word.starts_with('+') => None,
        None => word.parse().ok(),
    }
}

fn mode_names() -> Vec<String> {
    ModeName::value_variants()
        .iter()
        .filter_map(|m| m.to_possible_value())
        .map(|v| v.get_name().to_string())
        .collect()
}

/// A word of a line, and where it begins (in bytes).
fn words(line: &str) -> Vec<(usize, &str)> {
    let base = line.as_ptr() as usize;
    line.split_whitespace().map(|w| (w.as_ptr() as usize - base, w)).collect()
}

/// Reads a line by the rows of the table: which one it is, and its arguments.
///
/// # Errors
///
/// No row fits; the error points at the first word that fits none.
pub(super) fn read<'t>(
    line: &str,
    rows: impl Iterator<Item = &'t [Part]>,
    known: Known,
) -> Result<(usize, Values), LineError> {
    let words = words(line);
    let mut alive: Vec<(usize, &[Part])> = rows.enumerate().collect();
    for (at, &(start, word)) in words.iter().enumerate() {
        let here: Vec<_> = alive.iter().filter_map(|(_, parts)| part_at(parts, at)).collect();
        let fits = |parts: &[Part], own: bool| {
            part_at(parts, at).is_some_and(|p| p.is_word() == own && p.read(word, known).is_ok())
        };
        // A word of the table goes before an argument that would take any word.
        let own = alive.iter().any(|(_, parts)| fits(parts, true));
        alive.retain(|(_, parts)| fits(parts, own));
        if alive.is_empty() {
            let mut whats: Vec<_> =
                here.iter().filter(|p| !p.is_word()).filter_map(|p| p.read(word, known).err()).collect();
            whats.dedup();
            let what = match whats.as_slice() {
                [one] if here.iter().all(|p| !p.is_word()) => one.clone(),
                _ if here.is_empty() => format!("nothing may follow here, but there is {word:?}"),
                _ => format!("{word:?} is not allowed here"),
            };
            let hint = if here.is_empty() { "leave it out".into() } else { hint(&here, word, known) };
            let before = line[..start].chars().count();
            return Err(LineError { line: visible(line), at: (before, word.chars().count()), what, hint });
        }
    }
    let done = alive.iter().find(|(_, parts)| match parts.last() {
        Some(Part::Rest(_)) => words.len() >= parts.len(),
        _ => words.len() == parts.len(),
    });
    let Some(&(row, parts)) = done else {
        let here: Vec<_> = alive.iter().filter_map(|(_, parts)| part_at(parts, words.len())).collect();
        let hint = hint(&here, "", known);
        let text = line.trim_end();
        let at = (text.chars().count() + 1, 1);
        return Err(LineError { line: visible(text), at, what: "the command is not complete".into(), hint });
    };
    let mut values = Vec::new();
    for (part, &(start, word)) in parts.iter().zip(&words) {
        match part {
            Part::Rest(_) => values.push(Value::Text(line[start..].trim_end().into())),
            _ => values.extend(part.read(word, known).ok().flatten()),
        }
    }
    Ok((row, Values(values)))
}

/// The line with a blank for what would not show as one character.
fn visible(line: &str) -> String {
    line.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// The part of a row that a word at this place belongs to.
fn part_at(parts: &[Part], at: usize) -> Option<&Part> {
    parts.get(at).or_else(|| parts.last().filter(|p| matches!(p, Part::Rest(_))))
}

/// What may stand here, the nearest word first.
fn hint(here: &[&Part], word: &str, known: Known) -> String {
    let mut allowed: Vec<_> = Vec::new();
    for part in here {
        let a = part.allowed(known);
        if !allowed.contains(&a) {
            allowed.push(a);
        }
    }
    let mut t = String::new();
    let names: Vec<_> = here.iter().flat_map(|p| p.words(known)).collect();
    if let Some(near) = names.iter().find(|n| is_near(n, word)) {
        _ = write!(t, "did you mean `{near}`? ");
    }
    _ = write!(t, "allowed: {}", allowed.join(", "));
    t
}

/// Whether a person may have meant the one by the other: a letter left out, put in, changed, or two exchanged.
fn is_near(name: &str, word: &str) -> bool {
    let (a, b): (Vec<_>, Vec<_>) = (name.chars().collect(), word.chars().collect());
    if b.len() < 2 || a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let front = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[front..], &b[front..]);
    let back = a.iter().rev().zip(b.iter().rev()).take_while(|(x, y)| x == y).count();
    let (a, b) = (&a[..a.len() - back], &b[..b.len() - back]);
    a.len() <= 1 && b.len() <= 1 || a.len() == 2 && b.len() == 2 && a[0] == b[1] && a[1] == b[0]
}

/// What could stand where the line ends: the byte where the last word begins, and the words that it may become.
pub(super) fn complete<'t>(
    line: &str,
    rows: impl Iterator<Item = &'t [Part]>,
    known: Known,
) -> (usize, Vec<String>) {
    let mut words = words(line);
    let fresh = line.is_empty() || line.ends_with(char::is_whitespace);
    let (start, begun) = if fresh { None } else { words.pop() }.unwrap_or((line.len(), ""));
    let mut alive: Vec<_> = rows.collect();
    for (at, &(_, word)) in words.iter().enumerate() {
        let fits = |parts: &[Part], own: bool| {
            part_at(parts, at).is_some_and(|p| p.is_word() == own && p.read(word, known).is_ok())
        };
        let own = alive.iter().any(|parts| fits(parts, true));
        alive.retain(|parts| fits(parts, own));
    }
    let mut found: Vec<_> = alive
        .iter()
        .filter_map(|parts| parts.get(words.len()))
        .flat_map(|p| p.words(known))
        .filter(|w| w.starts_with(begun))
        .collect();
    found.sort();
    found.dedup();
    (start, found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use Part::{Choice, Number, Port, Ports, Rest, Text, Word};
    use proptest::prelude::*;

    const ROWS: &[&[Part]] = &[
        &[Word("start")],
        &[Word("start"), Word("tx_first")],
        &[Word("start"), Word("tx_first"), Number("N", 1, 65535)],
        &[Word("show"), Word("port"), Choice(&["info", "stats"]), Ports],
        &[Word("show"), Word("port"), Port, Word("mac")],
        &[Word("set"), Word("fwd"), Part::Mode],
        &[Word("set"), Word("promisc"), Ports, Part::Switch],
        &[Word("mac_addr"), Word("add"), Port, Part::Mac],
        &[Word("load"), Text("FILE")],
        &[Word("flow"), Port, Rest("RULE")],
    ];
    const KNOWN: Known = Known { ports: 2 };

    fn line(text: &str) -> Result<(usize, Values), LineError> {
        read(text, ROWS.iter().copied(), KNOWN)
    }

    fn wrong(text: &str) -> String {
        line(text).expect_err(text).to_string()
    }

    #[test]
    fn lines_are_read() {
        assert_eq!(line("start").unwrap(), (0, Values(vec![])));
        assert_eq!(line("  start\ttx_first  5 ").unwrap(), (2, Values(vec![Value::Number(5)])));
        let stats = vec![Value::Choice("stats"), Value::Port(None)];
        assert_eq!(line("show port stats all").unwrap(), (3, Values(stats)));
        assert_eq!(line("show port 1 mac").unwrap(), (4, Values(vec![Value::Port(Some(1))])));
        assert_eq!(line("set fwd 5tswap").unwrap().1.0, [Value::Mode(ModeName::FiveTupleSwap)]);
        let rest = vec![Value::Port(Some(0)), Value::Text("create  a / end".into())];
        assert_eq!(line("flow 0 create  a / end ").unwrap().1.0, rest);
    }

    // Bug case 37: a number cut to eight or sixteen bits acted on port 0.
    #[test]
    fn numbers_are_read_wide_and_checked_before_they_are_narrowed() {
        for n in ["2", "256", "65535", "65536", "-1", "4294967296", "18446744073709551616", "+0", "x"] {
            let e = wrong(&format!("show port {n} mac"));
            assert!(e.contains("a port from 0 to 1"), "{e}");
            let e = wrong(&format!("set promisc {n} on"));
            assert!(e.contains(&format!("{n:?} is not a port\n")) && e.contains("0 to 1, or all"), "{e}");
        }
        for n in ["0", "65536", "65537", "-1", "18446744073709551617", "0x", "0x+1", "0x10001"] {
            let e = wrong(&format!("start tx_first {n}"));
            assert!(e.contains(&format!("{n:?} is not a N from 1 to 65535")), "{e}");
        }
        assert_eq!(line("start tx_first 0xffff").unwrap().1.number(0), 65535);
    }

    #[test]
    fn an_error_points_at_the_word_and_lists_what_is_allowed() {
        assert_eq!(
            wrong("show prot stats all"),
            "\"prot\" is not allowed here\n  show prot stats all\n       ^^^^\n  hint: did you mean `port`? allowed: port"
        );
        assert!(wrong("shwo").contains("did you mean `show`?"));
        assert!(wrong("set fwd macsawp").contains("did you mean `macswap`?"));
        let e = wrong("start tx_first 5 6");
        assert!(e.contains("nothing may follow") && e.contains("\n                   ^\n"), "{e}");
        let e = wrong("show port");
        assert!(e.starts_with("the command is not complete\n  show port\n            ^\n"), "{e}");
        assert!(e.contains("info, stats, a port from 0 to 1"), "{e}");
        assert!(wrong("mac_addr add 0 02:00").contains("02:00"));
    }

    #[test]
    fn a_line_is_completed_from_the_same_table() {
        let all = |text: &str| complete(text, ROWS.iter().copied(), KNOWN);
        assert_eq!(all("").1, ["flow", "load", "mac_addr", "set", "show", "start"]);
        assert_eq!(all("s"), (0, vec!["set".into(), "show".into(), "start".into()]));
        assert_eq!(all("show port "), (10, vec!["0".into(), "1".into(), "info".into(), "stats".into()]));
        assert_eq!(all("set fwd mac").1, ["mac", "macswap"]);
        assert_eq!(all("set promisc 0 o").1, ["off", "on"]);
        assert!(all("nonsense ").1.is_empty());
        assert!(all("load ").1.is_empty());
    }

    proptest! {
        #[test]
        fn no_line_makes_it_panic(text in "(\\PC|[ \t\u{3000}é]){0,40}", more in "[a-z_ 0-9:/]{0,40}") {
            for text in [text.clone(), more.clone(), format!("show port {text}"), format!("flow 0 {more}{text}")] {
                if let Err(e) = line(&text) {
                    prop_assert!(e.to_string().contains("hint: "));
                }
                let (at, _) = complete(&text, ROWS.iter().copied(), KNOWN);
                prop_assert!(text.is_char_boundary(at));
            }
        }

        #[test]
        fn what_completion_offers_is_taken(known in 1..5usize, row in 0..ROWS.len()) {
            let known = Known { ports: known };
            let mut text = String::new();
            for part in ROWS[row] {
                let (_, offered) = complete(&text, ROWS.iter().copied(), known);
                for word in part.words(known) {
                    prop_assert!(offered.contains(&word), "{text:?} {word}");
                }
                text += part.words(known).first().map_or("7", |w| w.as_str());
                text += " ";
            }
        }
    }
}
