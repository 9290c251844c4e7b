//! Closed forms that a simulated drive must agree with.
//!
//! `alpha` is the ratio of physical to mapped pages in circulation, without frontiers and reserve;
//! one that is not more than 1 panics. Results are write amplification: pages programmed for each
//! page that the host writes. A skewed workload is a list of [`Class`]es, each uniform within.
//!
//! Sources: Desnoyers (SYSTOR 2012) for FIFO, greedy and skew; Xiang & Kurkoski (arXiv 1110.4245);
//! Van Houdt (SIGMETRICS 2013) for d-choices.

mod choices;
mod queues;

pub use choices::d_choices;
pub use queues::{balanced_throughput, busy_chips, mean_value};

/// Halvings of an interval: more than a double has bits.
const HALVINGS: u32 = 200;
/// A bound for `α/A`; beyond it `e^−x` is nothing.
const MAX_X: f64 = 700.0;

/// Pages that are written alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Class {
    /// Their share of all writes.
    pub rate: f64,
    /// Their share of the mapped pages.
    pub fraction: f64,
}

/// Where `f`, which falls from above to below zero, crosses it between `low` and `high`.
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

/// `A = 1 / (1 − e^−x)` with `x = α/A`.
fn waf_at(x: f64) -> f64 {
    -1.0 / (-x).exp_m1()
}

/// FIFO (or least recently written) victims, uniform writes: `A = 1 / (1 − e^(−α/A))`.
pub fn fifo(alpha: f64) -> f64 {
    mixed_fifo(alpha, &[Class { rate: 1.0, fraction: 1.0 }])
}

/// Greedy victims, uniform writes, segments of `pages` pages.
pub fn greedy(alpha: f64, pages: u32) -> f64 {
    let k = greedy_factor(pages);
    fifo(k * alpha) / k
}

/// Random victims, uniform writes.
pub fn random(alpha: f64) -> f64 {
    assert!(alpha > 1.0, "without spare pages there is no end to collection");
    alpha / (alpha - 1.0)
}

/// FIFO victims, all classes through one frontier:
/// `A = Σ r_i / (1 − exp(−(r_i/f_i)·α/A))`.
pub fn mixed_fifo(alpha: f64, classes: &[Class]) -> f64 {
    assert!(alpha > 1.0, "without spare pages there is no end to collection");
    let waf = |x: f64| -> f64 {
        classes.iter().map(|class| class.rate * waf_at(class.rate / class.fraction * x)).sum()
    };
    waf(root(0.0, MAX_X, |x| alpha - x * waf(x)))
}

/// Greedy victims, all classes and collection through one frontier.
pub fn mixed_greedy(alpha: f64, pages: u32, classes: &[Class]) -> f64 {
    let k = greedy_factor(pages);
    mixed_fifo(k * alpha, classes) / k
}

/// The least that separated pools reach with FIFO victims, and the α that each class then has: the
/// minimum of `Σ r_i·A(α_i)` subject to `Σ f_i·α_i = α`.
///
/// With `x = α_i/A_i`, `α_i = x/(1 − e^−x)` and `dA/dα = −1/(e^x − 1 − x)`; at the minimum
/// `(r_i/f_i)·dA/dα` is the same for all.
pub fn separated(alpha: f64, classes: &[Class]) -> (f64, Vec<f64>) {
    assert!(alpha > 1.0, "without spare pages there is no end to collection");
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
    // By the logarithm of the slope: a flatter one gives every class more.
    let slope = -root(-MAX_X / 2.0, MAX_X / 2.0, |flat| alpha - spent(-flat));
    let places: Vec<f64> = classes.iter().map(|class| place(class, slope)).collect();
    let waf = classes.iter().zip(&places).map(|(class, &x)| class.rate * waf_at(x)).sum();
    (waf, places.iter().map(|&x| x * waf_at(x)).collect())
}

/// Erases that a segment has had on average, after so many host pages.
pub fn mean_erases(host_pages: f64, waf: f64, pages: u32, segments: u32) -> f64 {
    host_pages * waf / (f64::from(pages) * f64::from(segments))
}

/// Bytes that the host can write in a drive's life: `capacity` in bytes of flash, `cycles` that a
/// segment endures.
pub fn life_bytes(capacity: f64, cycles: f64, waf: f64) -> f64 {
    capacity * cycles / waf
}

/// Greedy gains on FIFO as much as if there were so many times the pages, and pays it back.
fn greedy_factor(pages: u32) -> f64 {
    1.0 + 0.5 / f64::from(pages)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `places` is how many decimals the table gives.
    #[track_caller]
    fn agrees(found: f64, table: f64, places: i32) {
        let tolerance = 0.51 * 10f64.powi(-places);
        assert!((found - table).abs() <= tolerance, "{found}, the table says {table}");
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

    /// Two halves that are written alike gain nothing from each other, nor from being apart.
    #[test]
    fn skew_that_is_none_changes_nothing() {
        let same = [Class { rate: 0.5, fraction: 0.5 }; 2];
        agrees(mixed_fifo(1.25, &same), fifo(1.25), 9);
        agrees(separated(1.25, &same).0, fifo(1.25), 9);
    }

    #[test]
    fn a_life_is_what_wear_allows() {
        let waf = 2.5;
        let (pages, segments, cycles, page_bytes) = (256, 1024, 3000.0, 4096.0);
        let capacity = page_bytes * f64::from(pages) * f64::from(segments);
        let host_pages = life_bytes(capacity, cycles, waf) / page_bytes;
        agrees(mean_erases(host_pages, waf, pages, segments), cycles, 6);
    }
}
