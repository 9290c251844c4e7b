//! Selects one of several layers: the cheapest that meets the limits, or none.
//!
//! Flash is the cost, so the measure is the bytes programmed per byte written by the host. No layer
//! wins if it is within [`PAYS`] of the minimum: a layer must pay for itself. Otherwise the layer
//! with the least memory is taken of those within [`EQUAL`].

use hostftl_layers::LayerKind;
use serde::Serialize;

use crate::row::Row;
use crate::scale::Scaled;

/// Factor of bytes programmed up to which two layers count as equal.
const EQUAL: f64 = 1.01;
/// Factor of bytes programmed from which a layer is better than none.
const PAYS: f64 = 1.03;

/// The costs of one layer, or of no layer.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Offer {
    /// Layer with its parameters.
    pub layer: String,
    /// Whether this offer is the drive without a layer.
    pub is_none: bool,
    /// Bytes programmed per byte written by the host.
    pub waf: f64,
    /// Host memory in bytes.
    pub memory_bytes: u64,
    /// Whether `waf` is from a drive that was aged only briefly, to select the offers that are
    /// examined further.
    pub is_screened: bool,
    /// Requests per second that the layer sustains at a queue depth of 32; `None` if it was not
    /// measured.
    pub requests_per_s: Option<f64>,
    /// Larger of the 99th percentiles of reads and writes in ns, at 70 % of the rate that the drive
    /// sustains without a layer; `None` if it was not measured.
    pub p99_ns: Option<u64>,
    /// Years until the flash is worn out at the load; `None` if it never is.
    pub years: Option<f64>,
    /// The same with the uneven wear of the run; `None` if the run was too short to measure it.
    pub years_uneven: Option<f64>,
    /// Reason why the layer can't run on the intended drive.
    pub impossible: Option<String>,
}

/// Figures of an offer relative to the drive without a layer; `None` if one of the two is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Relative {
    /// Bytes programmed.
    pub wear: Option<f64>,
    /// Requests per second.
    pub speed: Option<f64>,
    /// Larger of the 99th percentiles of reads and writes.
    pub latency: Option<f64>,
}

impl Offer {
    /// Returns the offer of a row: its wear, and its rate and latencies at the pace of the run.
    /// `scaled` has the figures for the intended drive.
    pub fn of(row: &Row, scaled: Option<&Scaled>) -> Self {
        let is_none = row.layer == LayerKind::Passthrough.name();
        let impossible = scaled.and_then(|it| it.impossible.clone());
        Offer {
            layer: row.layer.clone(),
            is_none,
            waf: row.waf_total.unwrap_or(1.0),
            memory_bytes: scaled.and_then(|it| it.memory_bytes).unwrap_or(row.layer_bytes()),
            is_screened: false,
            requests_per_s: row.iops,
            p99_ns: row.latency_ns.p99(),
            years: scaled.and_then(|it| it.years),
            years_uneven: scaled.and_then(|it| it.years_uneven),
            impossible: impossible.filter(|_| row.layer_bytes() > 0),
        }
    }

    /// Returns the figures relative to `none`, the drive without a layer.
    pub fn relative(&self, none: Option<&Offer>) -> Relative {
        let ratio = |figure: fn(&Offer) -> Option<f64>| {
            let (figure, none) = (figure(self)?, none.and_then(figure)?);
            (none > 0.0).then_some(figure / none)
        };
        Relative {
            wear: ratio(|it| Some(it.waf)),
            speed: ratio(|it| it.requests_per_s),
            latency: ratio(|it| it.p99_ns.map(|ns| ns as f64)),
        }
    }
}

/// Limits that an offer must meet.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Limits {
    /// Maximum host memory in bytes.
    pub memory_bytes: Option<u64>,
    /// Maximum 99th percentile in ns.
    pub p99_ns: Option<u64>,
    /// Minimum life in years.
    pub years: Option<f64>,
    /// Minimum of the sustained requests per second, relative to those without a layer.
    pub speed: f64,
    /// Maximum 99th percentile, relative to that without a layer.
    pub latency: f64,
}

impl Default for Limits {
    /// A layer may be slower by a tenth, and its 99th percentile higher by half.
    fn default() -> Self {
        Limits { memory_bytes: None, p99_ns: None, years: None, speed: 0.9, latency: 1.5 }
    }
}

/// A kind of limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Host memory.
    Ram,
    /// The 99th percentile of latencies.
    P99,
    /// Sustained requests per second, relative to those without a layer.
    Speed,
    /// The 99th percentile, relative to that without a layer.
    Latency,
    /// Life of the flash.
    Life,
    /// The layer can't run on a drive of this size.
    Size,
}

/// The decision, as indices into the offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// The recommended offer; `None` if no offer meets the limits.
    pub verdict: Option<usize>,
    /// The second best offer that meets the limits.
    pub runner_up: Option<usize>,
    /// For each offer, the limits that it exceeds.
    pub broken: Vec<Vec<Limit>>,
    /// For each limit, the offer that would be recommended without it, if that is a different one.
    pub without: Vec<(Limit, usize)>,
}

impl Limits {
    /// Returns the limits that `offer` exceeds; `none` is the drive without a layer. What was not
    /// measured exceeds no limit.
    pub fn broken(&self, offer: &Offer, none: Option<&Offer>) -> Vec<Limit> {
        let over = |limit: Option<u64>, found: Option<u64>| {
            limit.zip(found).is_some_and(|(limit, found)| found > limit)
        };
        let years = offer.years.into_iter().chain(offer.years_uneven).reduce(f64::min);
        let short = self.years.zip(years).is_some_and(|(limit, years)| years < limit);
        let Relative { speed, latency, .. } = offer.relative(none);
        let all = [
            (Limit::Ram, over(self.memory_bytes, Some(offer.memory_bytes))),
            (Limit::P99, over(self.p99_ns, offer.p99_ns)),
            (Limit::Life, short),
            (Limit::Speed, speed.is_some_and(|it| it < self.speed)),
            (Limit::Latency, latency.is_some_and(|it| it > self.latency)),
            (Limit::Size, offer.impossible.is_some()),
        ];
        all.into_iter().filter(|(_, is_broken)| *is_broken).map(|(limit, _)| limit).collect()
    }

    /// Returns these limits without `limit`.
    fn without(self, limit: Limit) -> Self {
        match limit {
            Limit::Ram => Limits { memory_bytes: None, ..self },
            Limit::P99 => Limits { p99_ns: None, ..self },
            Limit::Life => Limits { years: None, ..self },
            Limit::Speed => Limits { speed: 0.0, ..self },
            Limit::Latency => Limits { latency: f64::INFINITY, ..self },
            Limit::Size => self,
        }
    }
}

/// Decides between `offers`.
pub fn advise(offers: &[Offer], limits: &Limits) -> Advice {
    let none = offers.iter().find(|offer| offer.is_none);
    let broken: Vec<Vec<Limit>> = offers.iter().map(|it| limits.broken(it, none)).collect();
    let kept = |limits: &Limits| -> Vec<usize> {
        (0..offers.len()).filter(|&at| limits.broken(&offers[at], none).is_empty()).collect()
    };
    let all = kept(limits);
    let verdict = best(offers, &all);
    let others: Vec<usize> = all.into_iter().filter(|index| Some(*index) != verdict).collect();
    let all = [Limit::Ram, Limit::P99, Limit::Life, Limit::Speed, Limit::Latency];
    let given = all.into_iter();
    let without = given.filter_map(|limit| {
        let found = best(offers, &kept(&limits.without(limit)))?;
        (Some(found) != verdict).then_some((limit, found))
    });
    let without = without.collect();
    Advice { verdict, runner_up: least(offers, &others), broken, without }
}

/// Returns the offer of `among` that programs the fewest bytes.
fn least(offers: &[Offer], among: &[usize]) -> Option<usize> {
    among.iter().copied().min_by(|&one, &other| offers[one].waf.total_cmp(&offers[other].waf))
}

/// Returns the best offer of `among`.
fn best(offers: &[Offer], among: &[usize]) -> Option<usize> {
    let least = offers[least(offers, among)?].waf;
    let equal = among.iter().copied().filter(|&index| {
        let most = if offers[index].is_none { PAYS } else { EQUAL };
        offers[index].waf <= most * least
    });
    equal.min_by_key(|&index| (!offers[index].is_none, offers[index].memory_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn offer(layer: &str, waf: f64, memory_bytes: u64) -> Offer {
        Offer {
            layer: layer.to_owned(),
            is_none: layer == "none",
            waf,
            memory_bytes,
            is_screened: false,
            requests_per_s: None,
            p99_ns: Some((waf * 1e6) as u64),
            years: Some(10.0 / waf),
            years_uneven: None,
            impossible: None,
        }
    }

    fn of(wafs: [f64; 4]) -> [Offer; 4] {
        let [none, hard, auto, log] = wafs;
        [
            offer("none", none, 0),
            offer("hard", hard, 30),
            offer("auto", auto, 1),
            offer("log", log, 6),
        ]
    }

    #[test]
    fn the_cheapest_of_equals_is_taken_and_none_unless_a_layer_pays() {
        let all = |wafs| {
            let limits = Limits { latency: f64::INFINITY, ..Limits::default() };
            let advice = advise(&of(wafs), &limits);
            (advice.verdict, advice.runner_up)
        };
        assert_eq!(all([4.0, 2.0, 3.0, 2.5]), (Some(1), Some(3)));
        assert_eq!(all([4.0, 2.0, 2.01, 2.5]), (Some(2), Some(1)), "equal, and less memory");
        assert_eq!(all([4.0, 2.0, 2.05, 2.5]), (Some(1), Some(2)), "not equal");
        assert_eq!(all([4.0, 4.2, 3.95, 9.0]), (Some(0), Some(2)), "not worth it");
        assert_eq!(all([4.0, 9.0, 8.0, 9.5]), (Some(0), Some(2)));
    }

    #[test]
    fn limits_are_respected_and_their_cost_is_shown() {
        let offers = of([4.0, 2.0, 3.0, 2.5]);
        let limits = Limits { memory_bytes: Some(5), ..Limits::default() };
        let advice = advise(&offers, &limits);
        assert_eq!((advice.verdict, advice.runner_up), (Some(2), Some(0)));
        assert_eq!(advice.without, [(Limit::Ram, 1)]);
        assert_eq!(advice.broken[1], [Limit::Ram]);
        let limits = Limits { years: Some(4.5), memory_bytes: Some(7), ..Limits::default() };
        let advice = advise(&offers, &limits);
        assert_eq!((advice.verdict, advice.runner_up), (None, None), "only hard has this lifetime");
        assert_eq!(advice.without, [(Limit::Ram, 1), (Limit::Life, 3)]);
        let limits = Limits { p99_ns: Some(2_600_000), ..Limits::default() };
        assert_eq!(advise(&offers, &limits).verdict, Some(1));
        assert_eq!(advise(&[], &limits).verdict, None);
    }

    #[test]
    fn a_slow_layer_is_not_taken() {
        let mut offers = of([4.0, 2.0, 3.0, 2.5]);
        offers.iter_mut().for_each(|offer| offer.requests_per_s = Some(1000.0));
        offers[1].requests_per_s = Some(850.0);
        offers[3].p99_ns = Some(6_100_000);
        let advice = advise(&offers, &Limits::default());
        assert_eq!((advice.verdict, advice.runner_up), (Some(2), Some(0)));
        assert_eq!(
            (&advice.broken[1][..], &advice.broken[3][..]),
            ([Limit::Speed].as_slice(), [Limit::Latency].as_slice())
        );
        assert_eq!(advice.without, [(Limit::Speed, 1), (Limit::Latency, 3)]);
        let limits = Limits { speed: 0.8, ..Limits::default() };
        assert_eq!(advise(&offers, &limits).verdict, Some(1));
    }

    #[test]
    fn impossible_layers_are_not_recommended() {
        let mut offers = of([4.0, 2.0, 3.0, 2.5]);
        offers[1].impossible = Some("too large".to_owned());
        let advice = advise(&offers, &Limits::default());
        assert_eq!((advice.verdict, &advice.broken[1][..]), (Some(3), &[Limit::Size][..]));
    }
}
