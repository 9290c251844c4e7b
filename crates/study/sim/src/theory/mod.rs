//! Closed forms, with which simulated drives must agree.
//!
//! `alpha` is the ratio of physical to mapped pages in circulation, without open segments and
//! reserve. Functions panic unless it is greater than 1. Results are write amplification: pages
//! programmed per page written by the host. A skewed workload is a list of [`Class`]es, each of
//! which is uniform.
//!
//! Sources: Desnoyers (SYSTOR 2012) for FIFO, greedy and skew; Xiang & Kurkoski (arXiv 1110.4245);
//! Van Houdt (SIGMETRICS 2013) for d-choices.

mod choices;
mod queues;

pub use choices::d_choices;
pub use queues::{balanced_throughput, busy_chips, mean_value};

/// Number of bisections of an interval; exceeds the number of bits in a double.
const HALVINGS: u32 = 200;
/// Upper bound of `α/A`; `e^−x` is negligible beyond it.
const MAX_X: f64 = 700.0;

/// Pages with equal write rates.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Their share of all writes.
    pub rate: f64,
    /// Their share of the mapped pages.
    pub fraction: f64,
}

/// Returns the zero of the decreasing function `f` between `low` and `high`.
fn root(mut low: f64, mut high: f64, f: impl Fn(f64) -> f64) -> f64 {
    for _ in 0..HALVINGS {
        let middle = f64::midpoint(low, high);
        if f(middle) > 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    f64::midpoint(low, high)
}

/// Returns `A = 1 / (1 − e^−x)` with `x = α/A`.
fn waf_at(x: f64) -> f64 {
    -1.0 / (-x).exp_m1()
}

/// Returns the write amplification of FIFO (or least recently written) victims under uniform
/// writes: `A = 1 / (1 − e^(−α/A))`.
pub fn fifo(alpha: f64) -> f64 {
    mixed_fifo(alpha, &[Class { rate: 1.0, fraction: 1.0 }])
}

/// Returns the write amplification of greedy victims under uniform writes, for segments of `pages`
/// pages.
pub fn greedy(alpha: f64, pages: u32) -> f64 {
    let k = greedy_factor(pages);
    fifo(k * alpha) / k
}

/// Returns the write amplification of random victims under uniform writes.
pub fn random(alpha: f64) -> f64 {
    assert!(alpha > 1.0, "garbage collection needs spare pages");
    alpha / (alpha - 1.0)
}

/// Returns the write amplification of FIFO victims if all classes share one open segment: `A = Σ
/// r_i / (1 − exp(−(r_i/f_i)·α/A))`.
pub fn mixed_fifo(alpha: f64, classes: &[Class]) -> f64 {
    assert!(alpha > 1.0, "garbage collection needs spare pages");
    let waf = |x: f64| -> f64 {
        classes.iter().map(|class| class.rate * waf_at(class.rate / class.fraction * x)).sum()
    };
    // Solves for `x = α/A`, which is unique because `x·waf(x)` increases with `x`.
    waf(root(0.0, MAX_X, |x| alpha - x * waf(x)))
}

/// Returns the write amplification of greedy victims if all classes and garbage collection share
/// one open segment.
pub fn mixed_greedy(alpha: f64, pages: u32, classes: &[Class]) -> f64 {
    let k = greedy_factor(pages);
    mixed_fifo(k * alpha, classes) / k
}

/// Returns the minimum write amplification of separate FIFO pools, and the α of each class at that
/// minimum: the minimum of `Σ r_i·A(α_i)` subject to `Σ f_i·α_i = α`.
///
/// With `x = α_i/A_i`, `α_i = x/(1 − e^−x)` and `dA/dα = −1/(e^x − 1 − x)`. At the minimum,
/// `(r_i/f_i)·dA/dα` is equal for all classes.
pub fn separated(alpha: f64, classes: &[Class]) -> (f64, Vec<f64>) {
    assert!(alpha > 1.0, "garbage collection needs spare pages");
    let place = |class: &Class, slope: f64| {
        let wanted = class.rate / class.fraction / slope.exp();
        root(0.0, MAX_X, |x| wanted - (x.exp_m1() - x))
    };
    let spent = |slope: f64| -> f64 {
        let of = |class: &Class| {
            let x = place(class, slope);
            class.fraction * x * waf_at(x)
        };
        classes.iter().map(of).sum()
    };
    // Bisects the logarithm of the slope: a flatter slope gives every class a larger α.
    let slope = -root(-MAX_X / 2.0, MAX_X / 2.0, |flat| alpha - spent(-flat));
    let places: Vec<f64> = classes.iter().map(|class| place(class, slope)).collect();
    let waf = classes.iter().zip(&places).map(|(class, &x)| class.rate * waf_at(x)).sum();
    (waf, places.iter().map(|&x| x * waf_at(x)).collect())
}

/// Returns the mean number of erases of a segment after `host_pages` pages written by the host.
pub fn mean_erases(host_pages: f64, waf: f64, pages: u32, segments: u32) -> f64 {
    host_pages * waf / (f64::from(pages) * f64::from(segments))
}

/// Returns the bytes that the host can write during a drive's life. `capacity` is the flash in
/// bytes, `cycles` the rated erases of a segment.
pub fn life_bytes(capacity: f64, cycles: f64, waf: f64) -> f64 {
    capacity * cycles / waf
}

/// Returns the factor on the number of pages, and on the write amplification, that converts FIFO to
/// greedy.
fn greedy_factor(pages: u32) -> f64 {
    1.0 + 0.5 / f64::from(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `places` is the number of decimals in the table.
    #[track_caller]
    fn agrees(found: f64, table: f64, places: i32) {
        let tolerance = 0.51 * 10f64.powi(-places);
        assert!((found - table).abs() <= tolerance, "{found}, the table has {table}");
    }

    fn skew(rate: f64) -> [Class; 2] {
        let hot = Class { rate, fraction: 1.0 - rate };
        [hot, Class { rate: hot.fraction, fraction: hot.rate }]
    }

    #[test]
    fn the_table_of_uniform_writes() {
        let rows = [
            (1.10, 5.6775, [4.2686, 5.2418, 5.5617], 11.0),
            (1.25, 2.6927, [2.3527, 2.5982, 2.6684], 5.0),
            (1.50, 1.7158, [1.5846, 1.6808, 1.7069], 3.0),
            (2.00, 1.2550, [1.1927, 1.2387, 1.2509], 2.0),
        ];
        for (alpha, by_fifo, by_greedy, by_random) in rows {
            agrees(fifo(alpha), by_fifo, 4);
            for (pages, waf) in [16, 64, 256].into_iter().zip(by_greedy) {
                agrees(greedy(alpha, pages), waf, 4);
            }
            agrees(random(alpha), by_random, 9);
        }
        agrees(greedy(1.0 / 0.742, 256), 2.125, 3);
        agrees(greedy(1.0 / 0.875, 256), 4.120, 3);
    }

    #[test]
    fn the_table_of_skewed_writes() {
        let rows = [(0.8, [5.598, 2.936, 1.990]), (0.9, [6.226, 3.423, 2.338])];
        for (rate, wafs) in rows {
            for (alpha, waf) in [1.10, 1.25, 1.50].into_iter().zip(wafs) {
                agrees(mixed_greedy(alpha, 64, &skew(rate)), waf, 3);
            }
        }
        agrees(mixed_fifo(1.25, &skew(0.8)), 3.0345, 4);
        agrees(mixed_fifo(1.25, &skew(0.9)), 3.5329, 4);
        agrees(mixed_fifo(1.1, &skew(0.8)), 6.0381, 4);
    }

    #[test]
    fn the_table_of_separated_pools() {
        for (alpha, rate, waf) in [(1.25, 0.8, 1.9975), (1.25, 0.9, 1.4810), (1.1, 0.8, 3.8889)] {
            let (found, alphas) = separated(alpha, &skew(rate));
            agrees(found, waf, 4);
            let spent: f64 = alphas.iter().zip(skew(rate)).map(|(a, c)| a * c.fraction).sum();
            agrees(spent, alpha, 9);
        }
        agrees(separated(1.25, &skew(0.8)).1[0], 1.616, 3);
        agrees(separated(1.25, &skew(0.9)).1[0], 2.188, 3);
    }

    /// Two halves with equal rates do not change the result, whether mixed or separated.
    #[test]
    fn zero_skew_equals_uniform() {
        let same = [Class { rate: 0.5, fraction: 0.5 }; 2];
        agrees(mixed_fifo(1.25, &same), fifo(1.25), 9);
        agrees(separated(1.25, &same).0, fifo(1.25), 9);
    }

    #[test]
    fn life_follows_from_wear() {
        let waf = 2.5;
        let (pages, segments, cycles, page_bytes) = (256, 1024, 3000.0, 4096.0);
        let capacity = page_bytes * f64::from(pages) * f64::from(segments);
        let host_pages = life_bytes(capacity, cycles, waf) / page_bytes;
        agrees(mean_erases(host_pages, waf, pages, segments), cycles, 6);
    }
}
