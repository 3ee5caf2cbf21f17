//! Samples of one row: least, middle and greatest.

use linerate::mem::{cycles_between, rdtsc_ordered};

/// Repeated measurements of one thing.
#[derive(Clone, Debug, Default)]
pub struct Samples(Vec<f64>);

impl Samples {
    pub fn push(&mut self, v: f64) {
        self.0.push(v);
    }

    /// Least, median, greatest; `None` if there is none.
    pub fn summary(&self) -> Option<[f64; 3]> {
        let mut v = self.0.clone();
        v.sort_by(f64::total_cmp);
        let middle = match v.len() {
            0 => return None,
            n if n % 2 == 1 => v[n / 2],
            n => (v[n / 2 - 1] + v[n / 2]) / 2.0,
        };
        Some([v[0], middle, v[v.len() - 1]])
    }
}

/// Takes `repeats` samples of cycles per unit after one to warm up: `run` does the work and says how many units
/// it did, timed from outside.
pub fn cycles_per_unit(repeats: u32, mut run: impl FnMut() -> usize) -> Samples {
    let mut s = Samples::default();
    for i in 0..=repeats {
        let start = rdtsc_ordered();
        let units = run();
        let cycles = cycles_between(start, rdtsc_ordered());
        if i > 0 {
            s.push(cycles as f64 / units as f64);
        }
    }
    s
}

/// Makes the compiler believe that all memory has changed, and costs nothing: what was loaded before must be
/// loaded again, while values stay in registers (which `black_box` would send through memory).
#[inline(always)]
pub fn clobber() {
    // SAFETY: an empty text touches nothing.
    unsafe { core::arch::asm!("", options(nostack, preserves_flags)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_in_the_middle() {
        let of = |v: &[f64]| Samples(v.to_vec()).summary();
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some([1.0, 2.0, 3.0]));
        assert_eq!(of(&[4.0, 1.0, 2.0, 3.0]), Some([1.0, 2.5, 4.0]));
        assert!(cycles_per_unit(3, || 10).summary().is_some_and(|[min, ..]| min > 0.0));
    }
}
