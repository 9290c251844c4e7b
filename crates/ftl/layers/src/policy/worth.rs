//! Value of a unit of age by the utilisation of a segment. The victim has the largest product of
//! age and value.
//!
//! `declining-cost` is the minimum of the declining cost (Lomet and Luo, SIGMOD 2020) for pages
//! that become invalid at random. Let `u` be the valid share of a segment, and `h` the rate at
//! which each of its pages becomes invalid. Collecting it costs `A = 1/(1 − u)` writes per host
//! write, and until then `α = −A·ln u` pages per valid page. One more page of space therefore saves
//! `h/((1 − u)/u + ln u)` writes per unit of time, and the victim is the segment with the lowest
//! saving. The time since a page last became invalid is about `1/(h·u)`, which yields `age · (1 − u
//! + u·ln u)`.

use alloc::vec;
use alloc::vec::Vec;

/// Terms of a series whose terms decrease at least by a factor of 9.
const TERMS: u32 = 20;

/// Returns the value for `cost-benefit`, `(1 − u) / 2u`, as a fraction.
#[inline]
pub(super) fn benefit(valid: u32, pages: u32) -> (f64, f64) {
    (f64::from(pages - valid), f64::from(2 * valid))
}

/// Returns the values for `declining-cost`, `1 − u + u·ln u`, by number of valid pages.
pub(super) fn declining(pages: u32) -> Vec<f64> {
    assert!(pages > 0, "a segment has pages");
    let mut all = vec![0.0; pages as usize + 1];
    let mut log = 0.0;
    for valid in (1..pages).rev() {
        log -= log_of_next(valid);
        let share = f64::from(valid) / f64::from(pages);
        all[valid as usize] = 1.0 - share + share * log;
    }
    all[0] = 1.0;
    all
}

/// Returns the bytes of the table of [`declining`].
pub(super) fn memory(pages: u32) -> u64 {
    (u64::from(pages) + 1) * size_of::<f64>() as u64
}

/// Returns `ln((n + 1)/n)`, by the series of the inverse hyperbolic tangent.
fn log_of_next(n: u32) -> f64 {
    assert!(n > 0, "an empty segment has no share");
    let z = 1.0 / f64::from(2 * n + 1);
    let sum = (0..TERMS).rev().fold(0.0, |sum, k| sum * z * z + 1.0 / f64::from(2 * k + 1));
    2.0 * z * sum
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_is_the_closed_form() {
        for pages in [1, 2, 64, 4096] {
            let all = declining(pages);
            assert_eq!((all[0], all[pages as usize]), (1.0, 0.0));
            for valid in 1..pages {
                let share = f64::from(valid) / f64::from(pages);
                let wanted = 1.0 - share + share * share.ln();
                assert!((all[valid as usize] - wanted).abs() < 1e-12, "{valid} of {pages}");
            }
        }
    }

    #[test]
    fn worth_decreases_with_valid_data_to_zero() {
        let all = declining(64);
        assert!(all.windows(2).all(|pair| pair[0] > pair[1]));
    }
}
