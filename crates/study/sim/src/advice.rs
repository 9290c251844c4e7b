//! Which of several layers to take: the cheapest that keeps the limits, or none.
//!
//! What costs money is flash: the measure is the bytes programmed for each byte of the host's.
//! Layers within [`EQUAL`] of the least count as equal, and of those the one with the least memory
//! is taken. That is no layer at all where none is among them: a layer must pay to be run.

use serde::Serialize;

/// Layers that program so little more than the least count as equal to it.
const EQUAL: f64 = 1.03;

/// What a layer, or none, comes to.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Offer {
    /// The layer with its parameters.
    pub layer: String,
    /// Whether it stands for no layer at all.
    pub is_none: bool,
    /// Bytes programmed for each byte that the host wrote.
    pub waf: f64,
    /// Host memory that it takes, in bytes.
    pub memory_bytes: u64,
    /// The longer of the 99th percentiles of reads and writes, in ns.
    pub p99_ns: Option<u64>,
    /// Years until the flash is worn out at the load; `None` when that is never.
    pub years: Option<f64>,
    /// The same with the uneven wear of the run; `None` if the run was too short to tell.
    pub years_uneven: Option<f64>,
    /// Why it can't work on the drive that is meant.
    pub impossible: Option<String>,
}

/// What an offer must keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Limits {
    /// The most memory, in bytes.
    pub memory_bytes: Option<u64>,
    /// The longest 99th percentile, in ns.
    pub p99_ns: Option<u64>,
    /// The fewest years.
    pub years: Option<f64>,
}

/// A limit of [`Limits`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Limit {
    /// Of memory.
    Ram,
    /// Of latency.
    P99,
    /// Of life.
    Life,
    /// The layer can't work on a drive of this size.
    Size,
}

/// The decision: indices of the offers.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Advice {
    /// What to take; nothing when no offer keeps the limits.
    pub verdict: Option<usize>,
    /// The next best that keeps the limits.
    pub runner_up: Option<usize>,
    /// Which limits each offer breaks.
    pub broken: Vec<Vec<Limit>>,
    /// What would be taken without a limit, where that is another offer.
    pub without: Vec<(Limit, usize)>,
}

impl Limits {
    /// The limits that `offer` breaks.
    pub fn broken(&self, offer: &Offer) -> Vec<Limit> {
        let over = |limit: Option<u64>, found: Option<u64>| {
            limit.zip(found).is_some_and(|(limit, found)| found > limit)
        };
        let years = offer.years.into_iter().chain(offer.years_uneven).reduce(f64::min);
        let short = self.years.zip(years).is_some_and(|(limit, years)| years < limit);
        let all = [
            (Limit::Ram, over(self.memory_bytes, Some(offer.memory_bytes))),
            (Limit::P99, over(self.p99_ns, offer.p99_ns)),
            (Limit::Life, short),
            (Limit::Size, offer.impossible.is_some()),
        ];
        all.into_iter().filter(|(_, is_broken)| *is_broken).map(|(limit, _)| limit).collect()
    }

    /// The same without `limit`.
    fn without(self, limit: Limit) -> Self {
        match limit {
            Limit::Ram => Limits { memory_bytes: None, ..self },
            Limit::P99 => Limits { p99_ns: None, ..self },
            Limit::Life => Limits { years: None, ..self },
            Limit::Size => self,
        }
    }
}

/// Decides between `offers`.
pub fn advise(offers: &[Offer], limits: &Limits) -> Advice {
    let broken: Vec<Vec<Limit>> = offers.iter().map(|offer| limits.broken(offer)).collect();
    let kept = |limits: &Limits| -> Vec<usize> {
        (0..offers.len()).filter(|&index| limits.broken(&offers[index]).is_empty()).collect()
    };
    let all = kept(limits);
    let verdict = best(offers, &all);
    let others: Vec<usize> = all.into_iter().filter(|index| Some(*index) != verdict).collect();
    let given = [Limit::Ram, Limit::P99, Limit::Life].into_iter();
    let without = given.filter_map(|limit| {
        let found = best(offers, &kept(&limits.without(limit)))?;
        (Some(found) != verdict).then_some((limit, found))
    });
    let without = without.collect();
    Advice { verdict, runner_up: least(offers, &others), broken, without }
}

/// The offer of `among` that programs least.
fn least(offers: &[Offer], among: &[usize]) -> Option<usize> {
    among.iter().copied().min_by(|&one, &other| offers[one].waf.total_cmp(&offers[other].waf))
}

/// The offer of `among` to take.
fn best(offers: &[Offer], among: &[usize]) -> Option<usize> {
    let least = offers[least(offers, among)?].waf;
    let equal = among.iter().copied().filter(|&index| offers[index].waf <= EQUAL * least);
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
            let advice = advise(&of(wafs), &Limits::default());
            (advice.verdict, advice.runner_up)
        };
        assert_eq!(all([4.0, 2.0, 3.0, 2.5]), (Some(1), Some(3)));
        assert_eq!(all([4.0, 2.0, 2.05, 2.5]), (Some(2), Some(1)), "equal, and less memory");
        assert_eq!(all([4.0, 4.2, 3.95, 9.0]), (Some(0), Some(2)), "not worth it");
        assert_eq!(all([4.0, 9.0, 8.0, 9.5]), (Some(0), Some(2)));
    }

    #[test]
    fn limits_are_kept_and_what_they_cost_is_said() {
        let offers = of([4.0, 2.0, 3.0, 2.5]);
        let limits = Limits { memory_bytes: Some(5), ..Limits::default() };
        let advice = advise(&offers, &limits);
        assert_eq!((advice.verdict, advice.runner_up), (Some(2), Some(0)));
        assert_eq!(advice.without, [(Limit::Ram, 1)]);
        assert_eq!(advice.broken[1], [Limit::Ram]);
        let limits = Limits { years: Some(4.5), memory_bytes: Some(7), ..Limits::default() };
        let advice = advise(&offers, &limits);
        assert_eq!((advice.verdict, advice.runner_up), (None, None), "hard alone lives so long");
        assert_eq!(advice.without, [(Limit::Ram, 1), (Limit::Life, 3)]);
        let limits = Limits { p99_ns: Some(2_600_000), ..Limits::default() };
        assert_eq!(advise(&offers, &limits).verdict, Some(1));
        assert_eq!(advise(&[], &limits).verdict, None);
    }

    #[test]
    fn what_can_t_be_is_not_taken() {
        let mut offers = of([4.0, 2.0, 3.0, 2.5]);
        offers[1].impossible = Some("too large".to_owned());
        let advice = advise(&offers, &Limits::default());
        assert_eq!((advice.verdict, &advice.broken[1][..]), (Some(3), &[Limit::Size][..]));
    }
}
