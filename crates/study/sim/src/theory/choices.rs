//! Mean-field model of d-choices: many segments, with each victim the emptiest of `d` random ones.
//!
//! `π_k` is the share of segments with `k` valid pages, `C_k` the share with at least `k`, `b` the
//! number of pages per segment, and `h` the number of host writes between two collections. A victim
//! has `k` valid pages with probability `p_k = C_k^d − C_{k+1}^d`. Van Houdt's stationary
//! equations, summed from 0 to `k − 1`, yield `k·π_k·h/M = 1 − C_k^d`, where `M = Σ k·π_k = b/α`.

use super::root;

/// Returns the write amplification with `choices` candidates (at least 1) at `alpha`, for segments
/// of `pages` pages.
pub fn d_choices(alpha: f64, choices: u32, pages: u32) -> f64 {
    assert!(alpha > 1.0 && choices >= 1, "spare pages, and at least one draw");
    let mean = f64::from(pages) / alpha;
    // A larger h/M leaves fewer valid pages. A = b/h = α/rate is at least 1, so rate is at most α.
    let rate = root(0.0, alpha, |rate| mean_live(rate, choices, pages) - mean);
    alpha / rate
}

/// Returns `Σ k·π_k` for `h/M = rate`. Each `π_k` is solved separately, from the fullest down.
fn mean_live(rate: f64, choices: u32, pages: u32) -> f64 {
    let (mut above, mut mean) = (0.0f64, 0.0);
    for live in (1..=pages).rev() {
        let live = f64::from(live);
        let missing = |share: f64| 1.0 - (above + share).powi(choices as i32) - live * share * rate;
        let share = root(0.0, 1.0 - above, missing);
        above += share;
        mean += live * share;
    }
    mean
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table() {
        let rows = [(1.10, 7.506, 5.450), (1.25, 3.533, 2.675), (1.50, 2.190, 1.721)];
        for (alpha, two, ten) in rows {
            assert!((d_choices(alpha, 2, 64) - two).abs() < 0.001, "{}", d_choices(alpha, 2, 64));
            assert!((d_choices(alpha, 10, 64) - ten).abs() < 0.001, "{}", d_choices(alpha, 10, 64));
        }
    }

    /// A single candidate is a random victim, and the result does not depend on the segment size.
    #[test]
    fn one_choice_equals_random() {
        for (alpha, pages) in [(1.1, 16), (1.25, 64), (2.0, 256)] {
            let found = d_choices(alpha, 1, pages);
            assert!((found / super::super::random(alpha) - 1.0).abs() < 1e-9, "{found}");
        }
    }
}
