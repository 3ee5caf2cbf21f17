//! The vector and special-instruction forms. The only module of this crate with `unsafe` in it.
//!
// UNSAFETY: two kinds, each in a block of its own. Loads and stores of whole vectors go through pointers made from
// references to arrays of exactly the vector's size, so they stay inside what is borrowed; the unaligned instructions are
// used, so alignment does not matter. A function that needs more than the baseline of its architecture is called only
// after the processor was asked; the standard library asks it once and keeps the answer.
#![allow(unsafe_code)]

/// Unfolded one's complement sum of little-endian words, see [`crate::checksum::Sum`]. Made for long inputs, right for
/// all.
#[inline(never)]
pub(crate) fn sum(bytes: &[u8]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has AVX2, the line above asked it.
        return unsafe { x86::sum_avx2(bytes) };
    }
    crate::checksum::sum_short(bytes)
}

/// CRC32c (Castagnoli), continued from the register value `crc`.
#[inline]
pub(crate) fn crc32c(crc: u32, bytes: &[u8]) -> u32 {
    #[cfg(target_arch = "x86_64")]
    if std::arch::is_x86_feature_detected!("sse4.2") {
        // SAFETY: the processor has SSE4.2, the line above asked it.
        return unsafe { x86::crc32c_sse42(crc, bytes) };
    }
    crate::crc32c::update_scalar(crc, bytes)
}

/// Exchanges the two addresses at the front of an Ethernet frame of at least 16 bytes.
#[inline]
pub(crate) fn swap_macs(head: &mut [u8; 16]) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: SSE2 belongs to the x86-64 baseline.
    unsafe {
        x86::swap_macs(head)
    };
    #[cfg(not(target_arch = "x86_64"))]
    crate::swap::swap_macs_scalar(head);
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use core::arch::x86_64::*;

    /// Blocks of 128 bytes after which the 32-bit lanes are emptied: a vector adds at most 2^16 in size to a lane, a group
    /// of these at most 2^30.
    const BLOCKS_PER_GROUP: usize = 1 << 12;

    #[inline]
    #[target_feature(enable = "avx2")]
    fn load(bytes: &[u8; 32]) -> __m256i {
        // SAFETY: reads the 32 bytes that `bytes` borrows.
        unsafe { _mm256_loadu_si256(bytes.as_ptr().cast()) }
    }

    /// Words are biased to signed ones, so that one multiply-add with ones adds pairs of them: three instructions for 32
    /// bytes. The bias is paid back at the end.
    #[target_feature(enable = "avx2")]
    pub(super) fn sum_avx2(bytes: &[u8]) -> u64 {
        let bias = _mm256_set1_epi16(i16::MIN);
        let ones = _mm256_set1_epi16(1);
        let pairs = |v: &[u8; 32]| _mm256_madd_epi16(_mm256_xor_si256(load(v), bias), ones);

        let (vectors, rest) = bytes.as_chunks::<32>();
        let mut total: i64 = 0;
        for group in vectors.chunks(BLOCKS_PER_GROUP * 4) {
            let (blocks, single) = group.as_chunks::<4>();
            let mut a = _mm256_setzero_si256();
            let mut b = a;
            let mut c = a;
            let mut d = a;
            for [v0, v1, v2, v3] in blocks {
                a = _mm256_add_epi32(a, pairs(v0));
                b = _mm256_add_epi32(b, pairs(v1));
                c = _mm256_add_epi32(c, pairs(v2));
                d = _mm256_add_epi32(d, pairs(v3));
            }
            for v in single {
                a = _mm256_add_epi32(a, pairs(v));
            }
            let sum = _mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d));
            // Eight lanes are added as 64-bit numbers, for as 32-bit ones they could wrap.
            let low = _mm256_cvtepi32_epi64(_mm256_castsi256_si128(sum));
            let high = _mm256_cvtepi32_epi64(_mm256_extracti128_si256::<1>(sum));
            let four = _mm256_add_epi64(low, high);
            let two = _mm_add_epi64(_mm256_castsi256_si128(four), _mm256_extracti128_si256::<1>(four));
            total += _mm_cvtsi128_si64(two) + _mm_extract_epi64::<1>(two);
        }
        let unbiased = total + (vectors.len() * 16) as i64 * 0x8000;
        crate::checksum::add(unbiased as u64, crate::checksum::sum_short(rest))
    }

    #[target_feature(enable = "sse4.2")]
    pub(super) fn crc32c_sse42(crc: u32, bytes: &[u8]) -> u32 {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut wide = u64::from(crc);
        for word in words {
            wide = _mm_crc32_u64(wide, u64::from_le_bytes(*word));
        }
        let mut crc = wide as u32;
        for byte in rest {
            crc = _mm_crc32_u8(crc, *byte);
        }
        crc
    }

    /// Three shuffles of the x86-64 baseline, so nothing has to be asked for. An address is three 16-bit words:
    /// `d0 d1 d2 s0 | s1 s2 t p` → `s0 d0 d1 d2 | s1 s2 t p` → `s0 d0 s1 s2 | d1 d2 t p` → `s0 s1 s2 d0 | d1 d2 t p`.
    #[inline]
    #[target_feature(enable = "sse2")]
    pub(super) fn swap_macs(head: &mut [u8; 16]) {
        // SAFETY: reads the 16 bytes that `head` borrows.
        let v = unsafe { _mm_loadu_si128(head.as_ptr().cast()) };
        let v = _mm_shufflelo_epi16::<0b10_01_00_11>(v);
        let v = _mm_shuffle_epi32::<0b11_01_10_00>(v);
        let v = _mm_shufflelo_epi16::<0b01_11_10_00>(v);
        // SAFETY: writes the 16 bytes that `head` borrows exclusively.
        unsafe { _mm_storeu_si128(head.as_mut_ptr().cast(), v) };
    }
}
