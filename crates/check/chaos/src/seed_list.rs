//! List of seeds in which every required event occurs: for each layer a range from seed 0, and
//! single seeds beyond it for rare events. A seed depends on nothing else, so a run of the list has
//! the same coverage on every machine.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Instant;

use hostftl_layers::LayerKind;

use crate::campaign::{BATCH, Summary, run_seeds};
use crate::events::Tallies;
use crate::run::{Report, Violation};

/// Number of occurrences of each event in a new list.
pub const NEW: u64 = 20;
/// Minimum number of occurrences when the list is run. A change of a layer moves events to other
/// seeds; a few may disappear before the list must be renewed.
pub const LEAST: u64 = 10;
/// Maximum count of an event from one seed, so that no event depends on a few seeds.
const OF_ONE: u64 = 4;
/// Steps in the range of a layer, per unit of the layer's weight.
const RANGE: u64 = 300_000;
/// Steps of the seeds from which the rare ones are selected, per unit of weight.
const POOL: u64 = 600_000;
/// End of the search, even when an event is still too rare.
const MOST: u64 = 1_000_000;

const HEAD: &str = "\
# Seeds that `make test` runs, written by `make seeds`. A line is a layer, its range of seeds,
# and seeds beyond that for events that few seeds have.
";

/// Seeds of a layer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seeds {
    /// End of the range, which starts at 0.
    pub end: u64,
    /// Seeds beyond the range, in order.
    pub rare: Vec<u64>,
}

impl Seeds {
    /// Searches for the seeds of `layer`. The summary counts the events that occur in them: fewer
    /// than [`NEW`] when the search ended without enough. `after` receives the progress.
    ///
    /// # Errors
    /// A broken guarantee in one of the tested seeds.
    pub fn search(
        layer: LayerKind,
        threads: usize,
        mut after: impl FnMut(&Summary),
    ) -> Result<(Self, Summary), Violation> {
        let begun = Instant::now();
        let weight = u64::from(layer.registration().chaos.weight);
        let (mut pool, mut tried) = (Vec::new(), Summary::default());
        let mut need = Need::for_layer(layer);
        while !need.is_met() && tried.next < MOST || tried.steps < POOL * weight {
            let batch: Vec<u64> = (tried.next..tried.next + BATCH).collect();
            for report in run_seeds(layer, &batch, threads)? {
                tried.add(&report);
                need.take(&report.tallies);
                pool.push(report);
            }
            (tried.next, tried.elapsed) = (pool.len() as u64, begun.elapsed());
            after(&tried);
        }
        let (mut seeds, mut summary, mut need) =
            (Seeds::default(), Summary::default(), Need::for_layer(layer));
        while summary.steps < RANGE * weight {
            let report = &pool[seeds.end as usize];
            seeds.end += 1;
            summary.add(report);
            need.take(&report.tallies);
        }
        while let Some(best) = need.best(&pool, &seeds) {
            let report = &pool[best as usize];
            seeds.rare.push(best);
            summary.add(report);
            need.take(&report.tallies);
        }
        seeds.rare.sort_unstable();
        summary.elapsed = begun.elapsed();
        Ok((seeds, summary))
    }

    /// Runs the seeds.
    ///
    /// # Errors
    /// A broken guarantee in one of them.
    pub fn run(&self, layer: LayerKind, threads: usize) -> Result<Summary, Violation> {
        let begun = Instant::now();
        let seeds: Vec<u64> = (0..self.end).chain(self.rare.iter().copied()).collect();
        let mut summary = Summary { next: self.end, ..Summary::default() };
        run_seeds(layer, &seeds, threads)?.iter().for_each(|report| summary.add(report));
        summary.elapsed = begun.elapsed();
        Ok(summary)
    }
}

/// Remaining number of occurrences of each event.
struct Need(Vec<u64>);

impl Need {
    fn for_layer(layer: LayerKind) -> Self {
        let rows = Tallies::default();
        Need(rows.rows(layer).map(|(_, _, needed)| if needed { NEW } else { 0 }).collect())
    }

    fn is_met(&self) -> bool {
        self.0.iter().all(|need| *need == 0)
    }

    /// Returns the contribution of a seed with `tallies` to each need.
    fn met_by<'a>(&'a self, tallies: &'a Tallies) -> impl Iterator<Item = u64> + 'a {
        self.0.iter().zip(tallies.numbers()).map(|(need, count)| *need.min(count).min(&OF_ONE))
    }

    fn take(&mut self, tallies: &Tallies) {
        let met: Vec<u64> = self.met_by(tallies).collect();
        self.0.iter_mut().zip(met).for_each(|(need, met)| *need -= met);
    }

    /// Returns the seed beyond the range with the largest contribution per step. `None` when no
    /// seed contributes.
    fn best(&self, pool: &[Report], seeds: &Seeds) -> Option<u64> {
        let rest = (seeds.end..pool.len() as u64).filter(|seed| !seeds.rare.contains(seed));
        let worth = |seed: &u64| {
            let report = &pool[*seed as usize];
            // A fraction in integer arithmetic, so that every machine selects the same seed.
            self.met_by(&report.tallies).sum::<u64>() * (1 << 40) / report.steps.max(1)
        };
        rest.filter(|seed| worth(seed) > 0).max_by_key(worth)
    }
}

/// Seeds of all layers, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SeedList(pub BTreeMap<String, Seeds>);

impl SeedList {
    /// Parses a list.
    ///
    /// # Errors
    /// The invalid line.
    pub fn parse(text: &str) -> Result<Self, String> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.map(parse_line).collect::<Result<_, _>>().map(SeedList)
    }
}

fn parse_line(line: &str) -> Result<(String, Seeds), String> {
    let parse = || {
        let (layer, rest) = line.split_once(" 0..")?;
        let mut numbers = rest.split(' ').map(|number| number.parse().ok());
        let end = numbers.next()??;
        Some((layer.to_string(), Seeds { end, rare: numbers.collect::<Option<_>>()? }))
    };
    parse().ok_or_else(|| format!("{line:?} is not a layer with its seeds"))
}

impl fmt::Display for SeedList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(HEAD)?;
        for (layer, Seeds { end, rare }) in &self.0 {
            write!(f, "{layer} 0..{end}")?;
            rare.iter().try_for_each(|seed| write!(f, " {seed}"))?;
            writeln!(f)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_back_as_it_was_written() {
        let mut list = SeedList::default();
        list.0.insert("hard".into(), Seeds { end: 64, rare: vec![70, 900] });
        list.0.insert("log".into(), Seeds { end: 128, rare: Vec::new() });
        assert_eq!(SeedList::parse(&list.to_string()), Ok(list));
    }

    #[test]
    fn an_invalid_line_of_a_seed_list_is_named() {
        for line in ["hard", "hard 0..", "hard 1..2", "hard 0..64 x", "hard 0..64  70"] {
            let error = SeedList::parse(line).expect_err(line);
            assert!(error.contains(line), "{error}");
        }
    }

    #[test]
    fn the_seed_list_has_every_layer() {
        let list = SeedList::parse(include_str!("../seeds.txt")).expect("a list");
        let names: Vec<&str> = LayerKind::EVERY.iter().map(|layer| layer.name()).collect();
        for name in names {
            assert!(
                list.0.contains_key(name),
                "{name} has no seeds: run `make seeds LAYER={name}`"
            );
        }
    }
}
