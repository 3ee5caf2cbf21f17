//! Lists of small numbers as the kernel and its users write them: `0-3,8`.
//!
//! Follows the "List format" of the kernel's `cpuset(7)`. One reader serves processors and NUMA nodes, files and
//! command lines; what it refuses it points at.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

/// The largest number a list may hold: the kernel's own ceiling is 8192 processors, and a list such as
/// `0-4294967295` must cost an error and not the machine's memory.
pub const MAX_ID: u32 = 8191;

/// A sorted set of processor or node numbers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdList(BTreeSet<u32>);

/// Why a text is no list of numbers.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at column {column} of {text:?}")]
pub struct IdListError {
    /// The text as it was given, cut to its first 80 characters.
    pub text: String,
    /// Where the bad part begins, in characters from 1.
    pub column: usize,
    /// What is wrong there.
    pub reason: IdListReason,
}

/// What is wrong with one part of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum IdListReason {
    /// A number was wanted and something else stands there.
    #[error("not a number")]
    NotANumber,
    /// The number is beyond [`MAX_ID`].
    #[error("number above {MAX_ID}")]
    TooLarge,
    /// `5-2`.
    #[error("range that runs backwards")]
    Backwards,
}

impl IdListError {
    /// What a right list looks like.
    #[must_use]
    pub fn hint(&self) -> String {
        format!("write numbers and ranges from 0 to {MAX_ID} with commas between them, such as 0-3,8")
    }
}

impl IdList {
    /// The numbers, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.iter().copied()
    }

    /// Whether `id` is in the list.
    #[must_use]
    pub fn contains(&self, id: u32) -> bool {
        self.0.contains(&id)
    }

    /// How many numbers there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The lowest number.
    #[must_use]
    pub fn first(&self) -> Option<u32> {
        self.0.first().copied()
    }
}

impl FromIterator<u32> for IdList {
    fn from_iter<I: IntoIterator<Item = u32>>(ids: I) -> Self {
        Self(ids.into_iter().collect())
    }
}

impl FromStr for IdList {
    type Err = IdListError;

    /// Reads `0-3,8`; surrounding white space is ignored and an empty text is the empty list (so says the kernel of
    /// a node without processors).
    ///
    /// # Errors
    /// [`IdListError`], with the column of the first part that is wrong.
    fn from_str(text: &str) -> Result<Self, IdListError> {
        let mut ids = BTreeSet::new();
        let body = text.trim_end();
        let start = body.len() - body.trim_start().len();
        if start == body.len() {
            return Ok(Self(ids));
        }
        let mut at = start;
        for part in body[start..].split(',') {
            let fail = |offset: usize, reason| IdListError {
                text: text.chars().take(80).collect(),
                column: text[..at + offset].chars().count() + 1,
                reason,
            };
            match part.split_once('-') {
                None => _ = ids.insert(number(part).map_err(|r| fail(0, r))?),
                Some((low, high)) => {
                    let first = number(low).map_err(|r| fail(0, r))?;
                    let last = number(high).map_err(|r| fail(low.len() + 1, r))?;
                    if last < first {
                        return Err(fail(0, IdListReason::Backwards));
                    }
                    ids.extend(first..=last);
                }
            }
            at += part.len() + 1;
        }
        Ok(Self(ids))
    }
}

/// Digits only: no sign, no blank, no empty text, which `u32::from_str` would partly let through.
fn number(text: &str) -> Result<u32, IdListReason> {
    if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) {
        return Err(IdListReason::NotANumber);
    }
    text.parse().ok().filter(|&n| n <= MAX_ID).ok_or(IdListReason::TooLarge)
}

impl fmt::Display for IdList {
    /// Writes the shortest list that reads back as this set.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut ids = self.iter().peekable();
        let mut comma = "";
        while let Some(first) = ids.next() {
            let mut last = first;
            while let Some(next) = ids.next_if(|&id| id == last + 1) {
                last = next;
            }
            if first == last {
                write!(f, "{comma}{first}")?;
            } else {
                write!(f, "{comma}{first}-{last}")?;
            }
            comma = ",";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids(text: &str) -> Vec<u32> {
        text.parse::<IdList>().unwrap().iter().collect()
    }

    #[test]
    fn reads_what_the_kernel_writes() {
        assert_eq!(ids("0-3,8\n"), [0, 1, 2, 3, 8]);
        assert_eq!(ids("5"), [5]);
        assert_eq!(ids(" 2,1,1-2 "), [1, 2]);
        assert_eq!(ids("\n"), [0u32; 0]);
        assert_eq!(ids("0-8191").len(), 8192);
    }

    #[test]
    fn writes_what_it_reads() {
        for text in ["", "0", "0-3,8", "1,3,5-6", "8190-8191"] {
            assert_eq!(text.parse::<IdList>().unwrap().to_string(), text);
        }
        assert_eq!("3,2,1,1,7".parse::<IdList>().unwrap().to_string(), "1-3,7");
    }

    #[test]
    fn points_at_the_bad_part() {
        use IdListReason::{Backwards, NotANumber, TooLarge};
        for (text, column, reason) in [
            ("0-3,x,5", 5, NotANumber),
            ("0-,5", 3, NotANumber),
            ("-3", 1, NotANumber),
            ("1,,2", 3, NotANumber),
            ("1,2,", 5, NotANumber),
            ("1, 2", 3, NotANumber),
            ("+1", 1, NotANumber),
            ("4,9-3", 3, Backwards),
            ("0-4294967295", 3, TooLarge),
            ("99999999999999999999", 1, TooLarge),
            ("0-1-2", 3, NotANumber),
            ("ä,1", 1, NotANumber),
            ("  7,ß", 5, NotANumber),
            ("0-3:1/2", 3, NotANumber),
            ("\0", 1, NotANumber),
        ] {
            let err = text.parse::<IdList>().unwrap_err();
            assert_eq!((err.column, err.reason), (column, reason), "{text:?}");
        }
    }

    #[test]
    fn a_long_bad_text_is_cut_in_the_message() {
        let err = "x".repeat(1 << 20).parse::<IdList>().unwrap_err();
        assert!(err.to_string().len() < 200);
        assert!(err.hint().contains("0-3,8"));
    }

    proptest::proptest! {
        #[test]
        fn any_text_is_read_or_refused_and_any_set_reads_back(text in "[ -~]{0,24}|[0-9,-]{0,24}", set: Vec<u16>) {
            if let Err(err) = text.parse::<IdList>() {
                proptest::prop_assert!(err.column >= 1 && err.column <= text.chars().count() + 1);
            }
            let list: IdList = set.iter().map(|&id| u32::from(id) % (MAX_ID + 1)).collect();
            proptest::prop_assert_eq!(list.to_string().parse::<IdList>(), Ok(list));
        }
    }
}
