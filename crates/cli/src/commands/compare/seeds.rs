//! `--seeds`: the same rows with several seeds, what they come to, and which do not differ.

use hostftl_ask::spread::Spread;
use hostftl_ask::state;
use hostftl_ask::sweep::Summary;
use hostftl_report::{Bars, Figure};
use hostftl_sim::{Outcome, Row};

use crate::commands::sweep::table;
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{nanos, three_digits};

/// The outcomes of all seeds as one, seed by seed.
pub fn merged(outcomes: Vec<Outcome>) -> Outcome {
    let mut all = Outcome { rows: Vec::new(), holes: Vec::new() };
    for mut outcome in outcomes {
        outcome.holes.iter_mut().for_each(|hole| hole.after += all.rows.len());
        all.holes.extend(outcome.holes);
        all.rows.extend(outcome.rows);
    }
    all
}

/// Prints what the seeds come to, and which layers do not differ.
///
/// # Errors
/// When nobody reads.
pub fn print(rows: &[Row], console: &mut Console) -> Result<(), Failure> {
    table::print(&Summary::of_rows(rows), console)?;
    differences(rows).iter().try_for_each(|text| console.paragraph(text))
}

/// One value for each seed, in the order of seeds.
fn values(rows: &[&Row], layer: &str) -> Vec<f64> {
    let of_layer = rows.iter().filter(|row| row.layer == layer && !row.partial);
    let mut all: Vec<(u64, f64)> =
        of_layer.filter_map(|row| Some((row.seed, row.waf_total?))).collect();
    all.sort_by_key(|(seed, _)| *seed);
    all.into_iter().map(|(_, waf)| waf).collect()
}

/// Rows of the same workload, drive and state, each group once.
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

/// The layers of a group, each once, in their order.
fn layers<'a>(group: &[&'a Row]) -> Vec<&'a str> {
    let mut layers: Vec<&str> = Vec::new();
    for row in group {
        if !layers.contains(&row.layer.as_str()) {
            layers.push(&row.layer);
        }
    }
    layers
}

/// A sentence for each pair of layers whose write amplification does not differ, as far as the
/// seeds tell: the 95 % interval of their difference, seed by seed, has zero in it.
pub fn differences(rows: &[Row]) -> Vec<String> {
    let mut texts = Vec::new();
    let all = groups(rows);
    for group in &all {
        let (layers, first) = (layers(group), group[0]);
        for (at, one) in layers.iter().enumerate() {
            for other in &layers[at + 1..] {
                let (ones, others) = (values(group, one), values(group, other));
                let spread = Spread::of_differences(&ones, &others);
                let Some(spread) = spread.filter(|_| ones.len() == others.len()) else { continue };
                let Some((from, to)) = spread.interval().filter(|_| spread.may_be_zero()) else {
                    continue;
                };
                texts.push(format!(
                    "{one} and {other} do not differ in waf under {} on {}, {}: the 95 % interval \
                     of their difference, seed by seed, is {from:.4} to {to:.4}.",
                    first.workload,
                    first.drive,
                    state(first)
                ));
            }
        }
    }
    let several = all.iter().any(|group| layers(group).len() > 1);
    if texts.is_empty() && several {
        texts.push("In each state all layers differ in waf, as far as the seeds tell.".to_owned());
    }
    texts
}

/// A figure of a chart: its title, how it is shown, and what a row has.
type Part = (&'static str, fn(f64) -> String, fn(&Summary) -> Option<Spread>);

/// Charts of the means, with whiskers for the 95 % intervals: of the rows of one workload, drive
/// and state.
pub fn charts(rows: &[Row], first: &Row) -> Vec<Figure> {
    let summaries = Summary::of_rows(rows);
    let group = |it: &&Summary| {
        (&it.workload, &it.drive, it.warm.as_str()) == (&first.workload, &first.drive, state(first))
    };
    let group: Vec<&Summary> = summaries.iter().filter(group).collect();
    let parts: [Part; 3] = [
        ("waf", three_digits, |it| it.waf),
        ("Write latency, p99", |ns| nanos(ns as u64), |it| it.write_p99_ns),
        ("Read latency, p99", |ns| nanos(ns as u64), |it| it.read_p99_ns),
    ];
    let mut figures = Vec::new();
    for (title, show, get) in parts {
        let found: Vec<(&str, Spread)> =
            group.iter().filter_map(|it| Some((it.layer.as_str(), get(it)?))).collect();
        let Some((_, some)) = found.first() else { continue };
        let names: Vec<&str> = found.iter().map(|(name, _)| *name).collect();
        let means: Vec<f64> = found.iter().map(|(_, spread)| spread.mean).collect();
        let whiskers: Vec<_> = found.iter().filter_map(|(_, spread)| spread.interval()).collect();
        let title = format!("{title}: mean of {} seeds", some.seeds);
        let bars = Bars::new(&title, &names, show).series("mean", &means).whiskers(&whiskers);
        figures.push(bars.figure().note("The whiskers are the 95 % interval of the mean."));
    }
    figures
}
