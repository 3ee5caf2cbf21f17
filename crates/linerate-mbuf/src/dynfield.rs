//! Dynamic fields and flags: room in every buffer that independent parts of a program share out by name.
//!
//! As DPDK's `rte_mbuf_dyn`: registering the same name with the same shape twice gives the same place, so
//! that two libraries can meet; a different shape is an error.

use crate::{Mbuf, OlFlags, SharedMbuf};
use std::sync::{Mutex, PoisonError};
use thiserror::Error;

/// Bytes there are to share out.
const ROOM: usize = 32;
/// First of the flag bits there are to share out.
const FIRST_FLAG: u32 = OlFlags::DYNAMIC.bits().trailing_zeros();
const FLAGS: u32 = OlFlags::DYNAMIC.bits().count_ones();

/// Why a dynamic field or flag was not given.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DynFieldError {
    /// The name is taken with another shape.
    #[error(
        "dynamic field {name}: registered as {have_size} bytes aligned to {have_align}, wanted {size} aligned to {align}"
    )]
    Clash {
        /// The name.
        name: String,
        /// Registered size in bytes.
        have_size: usize,
        /// Registered alignment in bytes.
        have_align: usize,
        /// Wanted size in bytes.
        size: usize,
        /// Wanted alignment in bytes.
        align: usize,
    },
    /// No room is left.
    #[error("dynamic field {name}: no room for {size} bytes aligned to {align} (32 bytes in all)")]
    Full {
        /// The name.
        name: String,
        /// Wanted size in bytes.
        size: usize,
        /// Wanted alignment in bytes.
        align: usize,
    },
    /// The shape is impossible.
    #[error(
        "dynamic field {name}: {size} bytes aligned to {align}; sizes are 1 to 32, alignments 1, 2, 4, 8"
    )]
    Shape {
        /// The name.
        name: String,
        /// Wanted size in bytes.
        size: usize,
        /// Wanted alignment in bytes.
        align: usize,
    },
    /// All flags are taken.
    #[error("dynamic flag {name}: all 8 are taken")]
    NoFlag {
        /// The name.
        name: String,
    },
}

/// A registered field: a place in every buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynField {
    offset: u8,
    size: u8,
}

impl DynField {
    /// Offset within the dynamic area, in bytes.
    pub fn offset(&self) -> usize {
        self.offset.into()
    }

    /// The field's bytes in a packet.
    #[inline]
    pub fn get<'a>(&self, m: &'a Mbuf) -> &'a [u8] {
        &m.header().dynamic[self.offset.into()..][..self.size.into()]
    }

    /// The field's bytes in a shared packet.
    #[inline]
    pub fn get_shared<'a>(&self, m: &'a SharedMbuf) -> &'a [u8] {
        &m.header().dynamic[self.offset.into()..][..self.size.into()]
    }

    /// The field's bytes in a packet, to be changed.
    #[inline]
    pub fn get_mut<'a>(&self, m: &'a mut Mbuf) -> &'a mut [u8] {
        &mut m.dynamic_mut()[self.offset.into()..][..self.size.into()]
    }
}

/// A registered flag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DynFlag(OlFlags);

impl DynFlag {
    /// The flag as it stands among a packet's flags.
    pub fn flag(self) -> OlFlags {
        self.0
    }
}

/// Who has which place. One for the whole program is [`DynRegistry::global`]; another one may be made for tests.
#[derive(Debug, Default)]
pub struct DynRegistry(Mutex<Inner>);

#[derive(Debug, Default)]
struct Inner {
    fields: Vec<(String, usize, DynField)>,
    flags: Vec<String>,
}

static GLOBAL: DynRegistry = DynRegistry::new();

impl DynRegistry {
    /// An empty registry.
    pub const fn new() -> Self {
        DynRegistry(Mutex::new(Inner { fields: Vec::new(), flags: Vec::new() }))
    }

    /// The program's registry.
    pub fn global() -> &'static DynRegistry {
        &GLOBAL
    }

    /// Registers a field of `size` bytes, or finds it.
    ///
    /// # Errors
    ///
    /// [`DynFieldError`].
    pub fn field(&self, name: &str, size: usize, align: usize) -> Result<DynField, DynFieldError> {
        if !(1..=ROOM).contains(&size) || ![1, 2, 4, 8].contains(&align) {
            return Err(DynFieldError::Shape { name: name.into(), size, align });
        }
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, have_align, f)) = inner.fields.iter().find(|(n, ..)| n == name) {
            let (have_size, have_align) = (f.size.into(), *have_align);
            return if (have_size, have_align) == (size, align) {
                Ok(*f)
            } else {
                Err(DynFieldError::Clash { name: name.into(), have_size, have_align, size, align })
            };
        }
        let free = |off: usize| {
            inner.fields.iter().all(|(.., f)| off + size <= f.offset() || off >= f.offset() + f.size as usize)
        };
        let Some(off) = (0..=ROOM - size).step_by(align).find(|&o| free(o)) else {
            return Err(DynFieldError::Full { name: name.into(), size, align });
        };
        let f = DynField { offset: off as u8, size: size as u8 };
        inner.fields.push((name.into(), align, f));
        Ok(f)
    }

    /// Registers a flag, or finds it.
    ///
    /// # Errors
    ///
    /// [`DynFieldError::NoFlag`].
    pub fn flag(&self, name: &str) -> Result<DynFlag, DynFieldError> {
        let mut inner = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let i = match inner.flags.iter().position(|n| n == name) {
            Some(i) => i,
            None if inner.flags.len() as u32 == FLAGS => {
                return Err(DynFieldError::NoFlag { name: name.into() });
            }
            None => {
                inner.flags.push(name.into());
                inner.flags.len() - 1
            }
        };
        Ok(DynFlag(OlFlags::from_bits_retain(1 << (FIRST_FLAG + i as u32))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_shared_by_name_and_never_overlap() {
        let r = DynRegistry::new();
        let a = r.field("a", 1, 1).unwrap();
        let b = r.field("b", 8, 8).unwrap();
        let c = r.field("c", 4, 4).unwrap();
        assert_eq!(r.field("a", 1, 1), Ok(a));
        assert_eq!((a.offset(), b.offset() % 8, c.offset() % 4), (0, 0, 0));
        let mut used = [false; ROOM];
        for f in [a, b, c] {
            for u in &mut used[f.offset()..][..f.size as usize] {
                assert!(!*u, "overlap");
                *u = true;
            }
        }
        assert!(matches!(r.field("a", 2, 1), Err(DynFieldError::Clash { .. })));
        assert!(matches!(r.field("d", 3, 3), Err(DynFieldError::Shape { .. })));
        assert!(matches!(r.field("d", 33, 1), Err(DynFieldError::Shape { .. })));
        assert!(matches!(r.field("d", 25, 1), Err(DynFieldError::Full { .. })));
    }

    #[test]
    fn flags_run_out_with_an_error() {
        let r = DynRegistry::new();
        let all: Vec<_> = (0..FLAGS).map(|i| r.flag(&format!("f{i}")).unwrap().flag()).collect();
        assert!(all.iter().all(|f| OlFlags::DYNAMIC.contains(*f)));
        assert_eq!(all.iter().fold(OlFlags::empty(), |a, f| a | *f), OlFlags::DYNAMIC);
        assert_eq!(r.flag("f3").unwrap().flag(), all[3]);
        assert!(matches!(r.flag("one more"), Err(DynFieldError::NoFlag { .. })));
    }
}
