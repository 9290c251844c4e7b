//! Rows with several seeds: their merged outcome, and layers without a significant difference.

use std::fmt;

use hostftl_sim::{Outcome, Row};
use serde::Serialize;

use crate::spread::Spread;
use crate::state;

/// Two layers without a significant difference in write amplification: the 95 % interval of their
/// paired difference over the seeds contains zero.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Alike {
    /// Workload of both.
    pub workload: String,
    /// Drive of both.
    pub drive: String,
    /// State of the drive before the workload.
    pub warm: String,
    /// The two layers.
    pub layers: [String; 2],
    /// Bounds of the interval of the first minus the second.
    pub interval: [f64; 2],
}

impl fmt::Display for Alike {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ([one, other], [from, to]) = (&self.layers, self.interval);
        write!(
            f,
            "{one} and {other} do not differ in waf under {} on {}, {}: the 95 % interval of their \
             difference, seed by seed, is {from:.4} to {to:.4}.",
            self.workload, self.drive, self.warm
        )
    }
}

/// Merges the outcomes of all seeds, in order.
pub fn merged(outcomes: Vec<Outcome>) -> Outcome {
    let mut all = Outcome { rows: Vec::new(), holes: Vec::new() };
    for mut outcome in outcomes {
        outcome.holes.iter_mut().for_each(|hole| hole.after += all.rows.len());
        all.holes.extend(outcome.holes);
        all.rows.extend(outcome.rows);
    }
    all
}

/// Returns the pairs of layers without a significant difference; `None` if no two rows can be
/// compared.
pub fn alike(rows: &[Row]) -> Option<Vec<Alike>> {
    let groups = groups(rows);
    let several = groups.iter().any(|group| layers(group).len() > 1);
    several.then(|| groups.iter().flat_map(|group| pairs(group)).collect())
}

/// Returns the pairs of one group.
fn pairs(group: &[&Row]) -> Vec<Alike> {
    let (layers, first) = (layers(group), group[0]);
    let mut found = Vec::new();
    for (at, one) in layers.iter().enumerate() {
        for other in &layers[at + 1..] {
            let (ones, others) = (values(group, one), values(group, other));
            let spread = Spread::of_differences(&ones, &others);
            let spread = spread.filter(|it| ones.len() == others.len() && it.may_be_zero());
            let Some((from, to)) = spread.and_then(|it| it.interval()) else { continue };
            found.push(Alike {
                workload: first.workload.clone(),
                drive: first.drive.clone(),
                warm: state(first).to_owned(),
                layers: [one, other].map(|layer| (*layer).to_owned()),
                interval: [from, to],
            });
        }
    }
    found
}

/// Returns the value for each seed, in the order of seeds.
fn values(rows: &[&Row], layer: &str) -> Vec<f64> {
    let of_layer = rows.iter().filter(|row| row.layer == layer && !row.partial);
    let mut all: Vec<(u64, f64)> =
        of_layer.filter_map(|row| Some((row.seed, row.waf_total?))).collect();
    all.sort_by_key(|(seed, _)| *seed);
    all.into_iter().map(|(_, waf)| waf).collect()
}

/// Groups rows by workload, drive and state.
fn groups(rows: &[Row]) -> Vec<Vec<&Row>> {
    let mut groups: Vec<Vec<&Row>> = Vec::new();
    for row in rows {
        let same = |group: &&mut Vec<&Row>| {
            let first = group[0];
            (&first.workload, &first.drive, state(first)) == (&row.workload, &row.drive, state(row))
        };
        match groups.iter_mut().find(same) {
            Some(group) => group.push(row),
            None => groups.push(vec![row]),
        }
    }
    groups
}

/// Returns the layers of a group in order, each once.
fn layers<'a>(group: &[&'a Row]) -> Vec<&'a str> {
    let mut layers: Vec<&str> = Vec::new();
    for row in group {
        if !layers.contains(&row.layer.as_str()) {
            layers.push(&row.layer);
        }
    }
    layers
}
