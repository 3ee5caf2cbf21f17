//! Addresses as a device sees them.
//!
//! A device does not know virtual addresses; it is given I/O virtual addresses (IOVA). The software ports read and
//! write through the processor, so for them the two are the same: [`DmaRegion::identity`]. A backing that programs
//! an IOMMU maps a region at one IOVA of its choice and says so with [`DmaRegion::at`]; both are one addition.

use std::fmt;
use std::ptr::NonNull;

use crate::pages::Pages;

/// An address as a device sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Iova(pub u64);

impl fmt::LowerHex for Iova {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::LowerHex::fmt(&self.0, f)
    }
}

/// Pages as a device sees them: contiguous from one IOVA on. Speaks of addresses alone, and neither keeps the pages
/// alive nor the device's mapping.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DmaRegion {
    va: usize,
    len: usize,
    iova: Iova,
}

impl DmaRegion {
    /// For software ports: the device's address is the virtual address.
    #[must_use]
    pub fn identity(pages: &Pages) -> Self {
        let va = pages.base().as_ptr().addr();
        Self { va, len: pages.len(), iova: Iova(va as u64) }
    }

    /// For a device to which the pages are mapped from `iova` on; none if they would run past the last address.
    #[must_use]
    pub fn at(pages: &Pages, iova: Iova) -> Option<Self> {
        iova.0.checked_add(pages.len() as u64)?;
        Some(Self { va: pages.base().as_ptr().addr(), len: pages.len(), iova })
    }

    /// The device's address of the `len` bytes at `at`; none if they do not all lie in the region.
    #[inline]
    #[must_use]
    pub fn iova_of(&self, at: NonNull<u8>, len: usize) -> Option<Iova> {
        let offset = at.as_ptr().addr().wrapping_sub(self.va);
        (offset <= self.len && len <= self.len - offset).then(|| Iova(self.iova.0 + offset as u64))
    }

    /// The offset in the pages of the `len` bytes that the device calls `iova`; none if they do not all lie in the
    /// region, so that an address that a device wrote can be checked.
    #[inline]
    #[must_use]
    pub fn offset_of(&self, iova: Iova, len: usize) -> Option<usize> {
        let offset = usize::try_from(iova.0.checked_sub(self.iova.0)?).ok()?;
        (offset <= self.len && len <= self.len - offset).then_some(offset)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::pages::{PagePreference, PageRequest};

    #[test]
    fn both_ways_with_edges() {
        let pages = PageRequest::new(1).prefer(PagePreference::Small).allocate().unwrap();
        let (base, len) = (pages.base(), pages.len());
        let at = |offset: isize| NonNull::new(base.as_ptr().wrapping_offset(offset)).unwrap();
        let identity = DmaRegion::identity(&pages);
        assert_eq!(identity.iova_of(at(5), 1), Some(Iova(base.as_ptr().addr() as u64 + 5)));
        let mapped = DmaRegion::at(&pages, Iova(0x1000)).unwrap();
        assert_eq!(mapped.iova_of(base, len), Some(Iova(0x1000)));
        assert_eq!(mapped.iova_of(at(len as isize), 0), Some(Iova(0x1000 + len as u64)));
        assert_eq!(mapped.offset_of(Iova(0x1005), 1), Some(5));
        for (offset, want) in [(len as isize, 1), (-1, 1), (1, len), (0, usize::MAX)] {
            assert_eq!(mapped.iova_of(at(offset), want), None);
        }
        for (iova, want) in [(0xfff, 1), (0x1000 + len as u64, 1), (0x1000, len + 1), (u64::MAX, 1), (0, 1)] {
            assert_eq!(mapped.offset_of(Iova(iova), want), None);
        }
        assert_eq!(DmaRegion::at(&pages, Iova(u64::MAX - 5)), None);
        assert_eq!(format!("{:#x}", Iova(255)), "0xff");
    }
}
