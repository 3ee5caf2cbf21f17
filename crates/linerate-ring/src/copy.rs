//! Moving a handful of elements: inline for few, the platform's `memcpy` for many.

/// The number of elements from which a call of `memcpy` (which has the widest vectors of the processor at
/// hand) is faster than plain moves of the baseline instruction set.
const CALL_FROM: usize = 16;

/// Moves `n` elements bitwise from `src` to `dst`.
///
/// # Safety
/// `src` is valid for reads and `dst` for writes of `n` elements, and they do not overlap.
#[inline(always)]
pub(crate) unsafe fn move_elems<T>(src: *const T, dst: *mut T, n: usize) {
    if n == 1 {
        // SAFETY: passed on from the caller.
        unsafe { dst.copy_from_nonoverlapping(src, 1) };
    } else if size_of::<T>() <= 16 && n < CALL_FROM {
        let mut i = 0;
        macro_rules! step {
            ($k:literal) => {
                if n & $k != 0 {
                    // SAFETY: the steps taken add up to n, so i + $k <= n; the caller vouches for n.
                    unsafe { dst.add(i).copy_from_nonoverlapping(src.add(i), $k) };
                    i += $k;
                }
            };
        }
        step!(8);
        step!(4);
        step!(2);
        if n & 1 != 0 {
            // SAFETY: as above; the last element.
            unsafe { dst.add(i).copy_from_nonoverlapping(src.add(i), 1) };
        }
    } else {
        // SAFETY: passed on from the caller.
        unsafe { dst.copy_from_nonoverlapping(src, n) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_count_moves_exactly_that_many() {
        let src: Vec<u64> = (1..=300).collect();
        for n in 0..=300 {
            let mut dst = vec![0u64; 301];
            // SAFETY: both vectors hold at least n elements and are distinct.
            unsafe { move_elems(src.as_ptr(), dst.as_mut_ptr(), n) };
            assert_eq!(dst[..n], src[..n]);
            assert!(dst[n..].iter().all(|&x| x == 0));
        }
    }
}
