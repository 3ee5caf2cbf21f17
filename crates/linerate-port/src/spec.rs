//! How a port is named on a command line: `driver:device,key=value,…`.
//!
//! The device may be missing (`null`, `pcap:rx_pcap=in.pcap`). A value that holds a comma is quoted:
//! `tx_pcap="a,b.pcap"`; inside quotes `\"` and `\\` stand for themselves.

use core::{fmt, ops::RangeInclusive, str::FromStr};
use thiserror::Error;

/// A key that a driver knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeyInfo {
    /// Its name.
    pub name: &'static str,
    /// What may stand behind the `=`, for people: `N (64)`, `FILE`, `0|1`.
    pub value: &'static str,
    /// What it does, in one line.
    pub help: &'static str,
    /// Whether it may be given several times.
    pub repeats: bool,
}

/// Makes a port of a driver from its description.
pub type OpenPort =
    fn(&PortSpec, crate::DriverContext) -> Result<Box<dyn crate::PortDriver>, crate::PortError>;

/// A driver as it is found by name.
#[derive(Clone, Copy)]
pub struct DriverEntry {
    /// Name before the colon.
    pub name: &'static str,
    /// What it is, in one line.
    pub help: &'static str,
    /// What the device part means, if the driver has one: `NAME`.
    pub device: Option<&'static str>,
    /// Whether the device part must be there.
    pub device_required: bool,
    /// The keys that it knows.
    pub keys: &'static [KeyInfo],
    /// Makes the port.
    pub open: OpenPort,
}

impl fmt::Debug for DriverEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DriverEntry")
            .field("name", &self.name)
            .field("keys", &self.keys)
            .finish_non_exhaustive()
    }
}

/// A port's description, taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortSpec {
    text: String,
    driver: String,
    device: Option<String>,
    args: Vec<Arg>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Arg {
    key: String,
    value: String,
    /// Where the key starts in the text, in bytes.
    at: usize,
}

/// What is wrong with a port's description, or a flow rule's. The message shows the text and points at the place.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{what}\n  {text}\n  {marker:>width$}", marker = "^".repeat(*len), width = text[..*at].chars().count() + len)]
pub struct SpecError {
    /// What is wrong.
    pub what: String,
    /// The text as given.
    pub text: String,
    /// Where the fault starts, in bytes.
    pub at: usize,
    /// How many characters are marked; at least 1.
    pub len: usize,
    hint: String,
}

impl SpecError {
    pub(crate) fn new(text: &str, at: usize, len: usize, what: String, hint: String) -> Self {
        // A control character in the text would break the line under which the marker stands.
        let shown: String = text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect();
        // The mark must fall on a character's edge in what is shown, whatever the bytes were.
        let before = text.get(..at).map_or(0, |s| s.chars().count());
        let at = shown.char_indices().nth(before).map_or(shown.len(), |(i, _)| i);
        SpecError { what, text: shown, at, len: len.max(1), hint }
    }

    /// What mends it.
    pub fn hint(&self) -> String {
        self.hint.clone()
    }
}

/// The closest of some names to a misspelt one, if any is close.
fn closest<'a>(word: &str, names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distance = |a: &str, b: &str| {
        let b: Vec<char> = b.chars().collect();
        let mut row: Vec<usize> = (0..=b.len()).collect();
        for (i, ca) in a.chars().enumerate() {
            let mut diagonal = std::mem::replace(&mut row[0], i + 1);
            for (j, cb) in b.iter().enumerate() {
                let cost = diagonal + usize::from(ca != *cb);
                diagonal = row[j + 1];
                row[j + 1] = cost.min(row[j] + 1).min(diagonal + 1);
            }
        }
        row[b.len()]
    };
    // A text that long is no slip of the pen, and comparing it would take long.
    if word.len() > 64 {
        return None;
    }
    names.map(|n| (distance(word, n), n)).filter(|(d, n)| *d <= n.len().div_ceil(3)).min().map(|(_, n)| n)
}

pub(crate) fn did_you_mean<'a>(
    word: &str,
    names: impl Iterator<Item = &'a str> + Clone,
    kind: &str,
) -> String {
    let all: Vec<_> = names.clone().collect();
    let list =
        if all.is_empty() { format!("there are no {kind}") } else { format!("{kind}: {}", all.join(", ")) };
    match closest(word, names) {
        Some(n) => format!("did you mean `{n}`? {list}"),
        None => list,
    }
}

impl FromStr for PortSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let err = |at, len, what: &str| {
            Err(SpecError::new(
                text,
                at,
                len,
                what.into(),
                "write driver:device,key=value,… (see `linerate testpmd --help`)".into(),
            ))
        };
        let driver = &text[..text.find([':', ',']).unwrap_or(text.len())];
        if driver.is_empty() {
            return err(0, 1, "a port's description starts with a driver's name");
        }
        if let Some(i) = driver.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '-')) {
            return err(i, 1, "a driver's name has letters, digits, - and _ only");
        }
        let mut device = None;
        let mut args = Vec::new();
        let mut at = driver.len();
        let mut first = true;
        while at < text.len() {
            let separator = text.as_bytes()[at];
            if first && separator == b',' {
                return err(at, 1, "a colon comes after the driver's name");
            }
            at += 1;
            let (item, end) = match item(&text[at..]) {
                Ok((item, used)) => (item, at + used),
                Err((off, what)) => return err(at + off, 1, what),
            };
            match item {
                Item::Word(w) if w.is_empty() => {
                    return err(at.min(text.len()).saturating_sub(1), 1, "nothing follows");
                }
                Item::Word(w) if first => device = Some(w),
                Item::Word(w) => {
                    return err(at, w.chars().count(), "a key needs a value: key=value");
                }
                Item::Pair(k, _) if k.is_empty() => return err(at, 1, "a key is missing before the ="),
                Item::Pair(key, value) => args.push(Arg { key, value, at }),
            }
            first = false;
            at = end;
        }
        Ok(PortSpec { text: text.into(), driver: driver.into(), device, args })
    }
}

enum Item {
    Word(String),
    Pair(String, String),
}

/// Reads one item up to a comma outside quotes; the item and the bytes it took.
fn item(s: &str) -> Result<(Item, usize), (usize, &'static str)> {
    let mut key = None;
    let mut word = String::new();
    let mut quote = None;
    let mut chars = s.char_indices();
    let mut end = s.len();
    while let Some((i, c)) = chars.next() {
        match c {
            '"' if quote.is_some() => quote = None,
            '"' => quote = Some(i),
            '\\' if quote.is_some() => match chars.next() {
                Some((_, c @ ('"' | '\\'))) => word.push(c),
                _ => return Err((i, "inside quotes a backslash stands before \" or \\")),
            },
            ',' if quote.is_none() => {
                end = i;
                break;
            }
            '=' if quote.is_none() && key.is_none() => key = Some(std::mem::take(&mut word)),
            c => word.push(c),
        }
    }
    if let Some(i) = quote {
        return Err((i, "this quote does not end"));
    }
    Ok((key.map_or_else(|| Item::Word(word.clone()), |k| Item::Pair(k, word.clone())), end))
}

impl PortSpec {
    /// The text it was read from.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Name of the driver.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// The device, if one is named.
    pub fn device(&self) -> Option<&str> {
        self.device.as_deref()
    }

    /// Name of the port: driver and device.
    pub fn name(&self) -> String {
        self.device.as_ref().map_or_else(|| self.driver.clone(), |d| format!("{}:{d}", self.driver))
    }

    /// Finds the driver among those there are, and checks device and keys against what it knows.
    ///
    /// # Errors
    ///
    /// Points at the driver, device or key that is wrong, and lists those allowed.
    pub fn resolve<'d>(&self, drivers: &'d [DriverEntry]) -> Result<&'d DriverEntry, SpecError> {
        let Some(entry) = drivers.iter().find(|d| d.name == self.driver) else {
            let hint = did_you_mean(&self.driver, drivers.iter().map(|d| d.name), "drivers");
            return Err(self.error(
                0,
                self.driver.chars().count(),
                format!("no driver {:?}", self.driver),
                hint,
            ));
        };
        match (&self.device, entry.device) {
            (None, Some(d)) if entry.device_required => {
                let what = format!("driver {} needs a device: {}:{d}", entry.name, entry.name);
                return Err(self.error(
                    self.text.len().saturating_sub(1),
                    1,
                    what,
                    format!("write {}:{d}", entry.name),
                ));
            }
            (Some(d), None) => {
                let hint = did_you_mean(d, entry.keys.iter().map(|k| k.name), "keys");
                let what = format!("driver {} has no device; {d:?} is not of the form key=value", entry.name);
                return Err(self.error(self.driver.len() + 1, d.chars().count(), what, hint));
            }
            _ => {}
        }
        for (i, a) in self.args.iter().enumerate() {
            let Some(key) = entry.keys.iter().find(|k| k.name == a.key) else {
                let hint = did_you_mean(&a.key, entry.keys.iter().map(|k| k.name), "keys");
                let what = format!("driver {} has no key {:?}", entry.name, a.key);
                return Err(self.error(a.at, a.key.chars().count(), what, hint));
            };
            if !key.repeats && self.args[..i].iter().any(|b| b.key == a.key) {
                let what = format!("key {} is given twice", a.key);
                return Err(self.error(a.at, a.key.chars().count(), what, "give it once".into()));
            }
        }
        Ok(entry)
    }

    fn error(&self, at: usize, len: usize, what: String, hint: String) -> SpecError {
        SpecError::new(&self.text, at, len, what, hint)
    }

    fn arg(&self, key: &str) -> Option<&Arg> {
        self.args.iter().find(|a| a.key == key)
    }

    /// A key's value, if it is given.
    pub fn value(&self, key: &str) -> Option<&str> {
        self.arg(key).map(|a| a.value.as_str())
    }

    /// All values of a key that may repeat, in order.
    pub fn values<'a>(&'a self, key: &'a str) -> impl Iterator<Item = &'a str> {
        self.args.iter().filter(move |a| a.key == key).map(|a| a.value.as_str())
    }

    /// An error that points at a key's value, for what only the driver can judge.
    pub fn bad_value(&self, key: &str, what: impl Into<String>, hint: impl Into<String>) -> SpecError {
        match self.arg(key) {
            Some(a) => {
                let at = a.at + a.key.len() + 1;
                self.error(at.min(self.text.len()), a.value.chars().count(), what.into(), hint.into())
            }
            None => self.error(0, self.text.chars().count(), what.into(), hint.into()),
        }
    }

    /// A number within a range, or `default`.
    ///
    /// # Errors
    ///
    /// No number, or out of range; read wide, so that nothing is cut.
    pub fn number(&self, key: &str, default: u64, range: RangeInclusive<u64>) -> Result<u64, SpecError> {
        let Some(v) = self.value(key) else { return Ok(default) };
        let parsed = match v.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => v.parse(),
        };
        match parsed {
            Ok(n) if range.contains(&n) => Ok(n),
            _ => {
                let (lo, hi) = (range.start(), range.end());
                let what = format!("{key}={v}: wanted a number from {lo} to {hi}");
                Err(self.bad_value(key, what, format!("write {key}={default}")))
            }
        }
    }

    /// A switch, or `default`.
    ///
    /// # Errors
    ///
    /// Anything but 0 or 1.
    pub fn switch(&self, key: &str, default: bool) -> Result<bool, SpecError> {
        match self.value(key) {
            None => Ok(default),
            Some("1") => Ok(true),
            Some("0") => Ok(false),
            Some(v) => {
                Err(self.bad_value(key, format!("{key}={v}: wanted 0 or 1"), format!("write {key}=1")))
            }
        }
    }
}

impl fmt::Display for PortSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEYS: &[KeyInfo] = &[
        KeyInfo { name: "size", value: "N", help: "", repeats: false },
        KeyInfo { name: "rx_pcap", value: "FILE", help: "", repeats: true },
        KeyInfo { name: "copy", value: "0|1", help: "", repeats: false },
    ];

    fn drivers() -> Vec<DriverEntry> {
        let open: OpenPort = |s, _| Err(s.bad_value("", "not for opening", "").into());
        vec![
            DriverEntry { name: "null", help: "", device: None, device_required: false, keys: KEYS, open },
            DriverEntry {
                name: "ring",
                help: "",
                device: Some("NAME"),
                device_required: true,
                keys: &[],
                open,
            },
        ]
    }

    fn bad(s: &str) -> SpecError {
        match s.parse::<PortSpec>() {
            Err(e) => e,
            Ok(p) => p.resolve(&drivers()).expect_err(s),
        }
    }

    #[test]
    fn parts_are_found() {
        let s: PortSpec = r#"null:size=0x40,rx_pcap="a,\"b\\.pcap",rx_pcap=c=d"#.parse().unwrap();
        assert_eq!((s.driver(), s.device(), s.name()), ("null", None, "null".into()));
        assert_eq!(s.values("rx_pcap").collect::<Vec<_>>(), ["a,\"b\\.pcap", "c=d"]);
        assert_eq!(s.number("size", 64, 1..=100), Ok(64));
        assert_eq!(s.number("none", 7, 1..=100), Ok(7));
        assert!(s.resolve(&drivers()).is_ok());
        let r: PortSpec = "ring:r0".parse().unwrap();
        assert_eq!((r.device(), r.name()), (Some("r0"), "ring:r0".into()));
        assert!("null".parse::<PortSpec>().unwrap().resolve(&drivers()).is_ok());
    }

    #[test]
    fn errors_point_at_the_fault_and_list_what_is_allowed() {
        let e = bad("null:size=64,sz=3");
        assert_eq!((e.at, e.len), (13, 2));
        assert!(e.to_string().ends_with("\n  null:size=64,sz=3\n               ^^"), "{e}");
        assert_eq!(e.hint(), "did you mean `size`? keys: size, rx_pcap, copy");
        assert_eq!(bad("nul:size=1").hint(), "did you mean `null`? drivers: null, ring");
        for (text, at) in [
            ("", 0),
            (":x", 0),
            ("nu ll", 2),
            ("null,size=1", 4),
            ("null:", 4),
            ("null:size=1,", 11),
            ("null:size=1,,copy=1", 11),
            ("null:size=1,copy", 12),
            ("null:=1", 5),
            ("null:size=\"a", 10),
            ("null:size=\"a\\n\"", 12),
            ("null:size=1,size=2", 12),
            ("null:dev", 5),
            ("ring", 3),
            ("ring:r0,x=1", 8),
            ("\u{fc}\u{fc}:a=1", 0),
        ] {
            let e = bad(text);
            assert_eq!(e.at, at, "{text:?}: {e}");
            assert!(!e.hint().is_empty());
        }
    }

    #[test]
    fn values_are_checked_before_they_are_narrowed() {
        let s: PortSpec = "null:size=65600,copy=2".parse().unwrap();
        let e = s.number("size", 64, 0..=65535).unwrap_err();
        assert_eq!((e.at, e.len), (10, 5));
        assert!(s.switch("copy", false).unwrap_err().what.contains("wanted 0 or 1"));
        for v in ["-1", "", "1e3", "18446744073709551616", "0x", " 1"] {
            let s: PortSpec = format!("null:size={v}").parse().unwrap();
            assert!(s.number("size", 64, 0..=u64::MAX).is_err(), "{v:?}");
        }
    }

    #[test]
    fn no_text_makes_it_panic() {
        let pieces = ["null", ":", ",", "=", "\"", "\\", "size", "\u{fc}", "\n", "\0", " "];
        for a in pieces {
            for b in pieces {
                for c in pieces {
                    for d in pieces {
                        let text = format!("{a}{b}{c}{d}");
                        if let Err(e) =
                            text.parse::<PortSpec>().and_then(|p| p.resolve(&drivers()).map(|_| ()))
                        {
                            assert!(!e.to_string().is_empty());
                        }
                    }
                }
            }
        }
    }
}
