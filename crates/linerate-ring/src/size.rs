//! How large a ring is: the counts that are allowed, and the error for those that are not.

use core::alloc::Layout;

/// The most elements a ring can hold. Half of the half of the index space, so that the distance of two
/// indexes stays unambiguous even when one of them is a full lap old.
pub const MAX_CAPACITY: usize = 1 << 30;

/// Capacity, storage and first index of a ring, checked.
///
/// Indexes run freely through all 2^32 values, so no slot is lost to tell full from empty: a ring of 4096
/// holds 4096 elements. Where DPDK's count minus one is wanted, [`RingSize::with_spare`] gives it.
///
/// | constructor | capacity | storage |
/// |---|---|---|
/// | `power_of_two(4096)` | 4096 | 4096 |
/// | `with_spare(4096)` | 4095 | 4096 |
/// | `exact(1000)` | 1000 | 1024 |
/// | `exact(4096)` | 4096 | 4096 |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSize {
    capacity: u32,
    storage: u32,
    start: u32,
    distance: Option<u32>,
}

impl RingSize {
    /// A ring whose capacity is `count`, a power of two: all of the storage is used.
    ///
    /// # Errors
    /// [`RingError::Zero`], [`RingError::NotPowerOfTwo`] or [`RingError::TooLarge`].
    pub const fn power_of_two(count: usize) -> Result<Self, RingError> {
        match Self::exact(count) {
            Ok(s) if s.storage == s.capacity => Ok(s),
            Ok(_) => Err(RingError::NotPowerOfTwo { count }),
            // 2^31 and the like are too large, 3·2^30 is wrong in both ways: say the first that counts.
            Err(e) => Err(e),
        }
    }

    /// A ring of `count` slots, a power of two, that holds `count - 1` elements, as `rte_ring_create`
    /// without its exact-size flag.
    ///
    /// # Errors
    /// As [`RingSize::power_of_two`]; [`RingError::Zero`] also for a count of 1, which would hold nothing.
    pub const fn with_spare(count: usize) -> Result<Self, RingError> {
        match Self::power_of_two(count) {
            Ok(s) if s.capacity == 1 => Err(RingError::Zero),
            Ok(s) => Ok(Self { capacity: s.capacity - 1, ..s }),
            Err(e) => Err(e),
        }
    }

    /// A ring whose capacity is exactly `count`, of any value; the storage is the next power of two.
    ///
    /// # Errors
    /// [`RingError::Zero`] or [`RingError::TooLarge`].
    pub const fn exact(count: usize) -> Result<Self, RingError> {
        if count == 0 {
            return Err(RingError::Zero);
        }
        if count > MAX_CAPACITY {
            return Err(RingError::TooLarge { count, max: MAX_CAPACITY });
        }
        // No cut: count <= 2^30, so its next power of two is too.
        let capacity = count as u32;
        Ok(Self { capacity, storage: capacity.next_power_of_two(), start: 0, distance: None })
    }

    /// The same size with the first index at `start` instead of 0. Behaviour does not depend on it; tests
    /// set it just below 2^32 to have the indexes wrap at once.
    #[must_use]
    pub const fn starting_at(self, start: u32) -> Self {
        Self { start, ..self }
    }

    /// The same size with the largest distance, in elements, that the head of an RTS side may run ahead of
    /// its tail before further threads wait. The default is an eighth of the capacity, as in DPDK; the
    /// other modes ignore it.
    #[must_use]
    pub const fn head_tail_distance(self, elements: u32) -> Self {
        Self { distance: Some(elements), ..self }
    }

    /// How many elements fit.
    #[must_use]
    pub const fn capacity(self) -> usize {
        self.capacity as usize
    }

    /// How many slots are allocated: the capacity rounded up to a power of two.
    #[must_use]
    pub const fn storage(self) -> usize {
        self.storage as usize
    }

    /// The first index.
    #[must_use]
    pub const fn start(self) -> u32 {
        self.start
    }

    /// The largest head-tail distance of RTS sides, in elements.
    #[must_use]
    pub const fn distance(self) -> u32 {
        match self.distance {
            Some(d) => d,
            None => self.capacity / 8,
        }
    }

    pub(crate) const fn capacity32(self) -> u32 {
        self.capacity
    }

    pub(crate) const fn mask(self) -> u32 {
        self.storage - 1
    }

    /// At least `slots` of storage; the capacity stays.
    pub(crate) const fn at_least(self, slots: u32) -> Self {
        if self.storage < slots { Self { storage: slots, ..self } } else { self }
    }

    /// The memory for `storage` slots of type `S`, aligned to a cache line (checked in 64 bits).
    pub(crate) fn layout<S>(self) -> Result<Layout, RingError> {
        let err = RingError::TooManyBytes { count: self.storage as usize, elem_bytes: size_of::<S>() };
        Layout::array::<S>(self.storage as usize).and_then(|l| l.align_to(128)).map_err(|_| err)
    }
}

/// Why a ring could not be made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RingError {
    /// A ring for no element at all.
    #[error("a ring cannot be made for 0 elements")]
    Zero,
    /// The count is no power of two and an exact size was not asked for.
    #[error("ring size {count} is not a power of two")]
    NotPowerOfTwo {
        /// What was asked for, in elements.
        count: usize,
    },
    /// The count is beyond what the 32-bit indexes can tell apart.
    #[error("ring size {count} is above the limit of {max} elements")]
    TooLarge {
        /// What was asked for, in elements.
        count: usize,
        /// What is allowed, in elements.
        max: usize,
    },
    /// Count times element size does not fit the address space.
    #[error("a ring of {count} slots of {elem_bytes} bytes does not fit the address space")]
    TooManyBytes {
        /// Slots.
        count: usize,
        /// Size of one slot in bytes.
        elem_bytes: usize,
    },
    /// The allocator refused.
    #[error("no memory for a ring of {bytes} bytes")]
    NoMemory {
        /// What was asked for, in bytes.
        bytes: usize,
    },
}

impl RingError {
    /// What to do about it.
    #[must_use]
    pub fn hint(&self) -> &'static str {
        match self {
            Self::Zero => "give a size of at least 1 (with_spare: at least 2)",
            Self::NotPowerOfTwo { .. } => {
                "use the next power of two, or RingSize::exact for exactly this capacity"
            }
            Self::TooLarge { .. } | Self::TooManyBytes { .. } => {
                "use a smaller ring; 2^30 elements is the limit"
            }
            Self::NoMemory { .. } => "use a smaller ring or free memory (`free -h` shows what is left)",
        }
    }

    /// The positive errno that C programs know this error by: `EINVAL` (22) or `ENOMEM` (12).
    #[must_use]
    pub fn errno(&self) -> i32 {
        match self {
            Self::NoMemory { .. } => 12,
            _ => 22,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn illegal_counts_are_named() {
        // Public bug of rings, case 2: the error must be visible to the caller and positive.
        assert_eq!(RingSize::power_of_two(0), Err(RingError::Zero));
        for count in [3, 1000] {
            let e = RingSize::power_of_two(count).unwrap_err();
            assert_eq!(e, RingError::NotPowerOfTwo { count });
            assert_eq!(e.errno(), 22);
            assert!(e.hint().contains("exact"));
        }
        for count in [1 << 31, (1 << 30) + 1, usize::MAX] {
            assert_eq!(RingSize::power_of_two(count), Err(RingError::TooLarge { count, max: 1 << 30 }));
            assert_eq!(RingSize::exact(count), Err(RingError::TooLarge { count, max: 1 << 30 }));
        }
    }

    #[test]
    fn capacities() {
        let caps = |s: RingSize| (s.capacity(), s.storage());
        assert_eq!(caps(RingSize::exact(1000).unwrap()), (1000, 1024));
        assert_eq!(caps(RingSize::exact(4096).unwrap()), (4096, 4096));
        assert_eq!(caps(RingSize::power_of_two(4096).unwrap()), (4096, 4096));
        assert_eq!(caps(RingSize::with_spare(4096).unwrap()), (4095, 4096));
        assert_eq!(caps(RingSize::power_of_two(1 << 30).unwrap()), (1 << 30, 1 << 30));
        assert_eq!(RingSize::with_spare(1), Err(RingError::Zero));
    }

    #[test]
    fn bytes_are_counted_in_64_bits() {
        let s = RingSize::power_of_two(1 << 30).unwrap();
        assert_eq!(s.layout::<[u64; 2]>().unwrap().size(), 1 << 34);
        let e = s.layout::<[u8; 1 << 40]>().unwrap_err();
        assert_eq!(e, RingError::TooManyBytes { count: 1 << 30, elem_bytes: 1 << 40 });
    }
}
