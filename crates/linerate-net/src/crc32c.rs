//! CRC32c (Castagnoli), the checksum of SCTP (RFC 9260, appendix A).

/// One byte of the reflected polynomial 0x82F63B78.
const TABLE: [u32; 256] = {
    let mut table = [0u32; 256];
    let mut index = 0;
    while index < 256 {
        let mut crc = index as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 != 0 { (crc >> 1) ^ 0x82f6_3b78 } else { crc >> 1 };
            bit += 1;
        }
        table[index] = crc;
        index += 1;
    }
    table
};

/// A CRC32c that grows segment by segment.
///
/// ```
/// use linerate_net::crc32c::Crc32c;
/// let mut crc = Crc32c::new();
/// crc.add(b"12345");
/// crc.add(b"6789");
/// assert_eq!(crc.value(), 0xe306_9283);
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Crc32c(u32);

impl Default for Crc32c {
    fn default() -> Self {
        Self::new()
    }
}

impl Crc32c {
    /// The CRC of nothing yet.
    #[inline]
    pub const fn new() -> Self {
        Crc32c(u32::MAX)
    }

    /// Adds the bytes that come next.
    #[inline]
    pub fn add(&mut self, bytes: &[u8]) {
        self.0 = crate::simd::crc32c(self.0, bytes);
    }

    /// The CRC of all that was added. SCTP stores it little-endian.
    #[inline]
    pub const fn value(self) -> u32 {
        !self.0
    }
}

/// The CRC32c of `bytes`.
#[inline]
pub fn crc32c(bytes: &[u8]) -> u32 {
    let mut crc = Crc32c::new();
    crc.add(bytes);
    crc.value()
}

/// Table form of the register update: the oracle, and the form of processors without the instruction.
pub(crate) fn update_scalar(crc: u32, bytes: &[u8]) -> u32 {
    bytes.iter().fold(crc, |crc, byte| TABLE[usize::from(crc as u8 ^ byte)] ^ (crc >> 8))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn vectors_of_rfc_3720() {
        // RFC 3720, B.4.
        assert_eq!(crc32c(&[0; 32]), 0x8a91_36aa);
        assert_eq!(crc32c(&[0xff; 32]), 0x62a8_ab43);
        let up: Vec<u8> = (0..32).collect();
        assert_eq!(crc32c(&up), 0x46dd_794e);
        assert_eq!(!update_scalar(u32::MAX, &up), 0x46dd_794e);
    }

    proptest! {
        #[test]
        fn instruction_is_table(bytes in proptest::collection::vec(any::<u8>(), 0..300), cut in 0usize..300) {
            let (a, b) = bytes.split_at(cut.min(bytes.len()));
            let mut crc = Crc32c::new();
            crc.add(a);
            crc.add(b);
            prop_assert_eq!(crc.value(), !update_scalar(u32::MAX, &bytes));
        }
    }
}
