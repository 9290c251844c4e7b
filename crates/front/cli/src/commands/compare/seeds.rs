//! `--seeds`: means and intervals of rows over several seeds.

use hostftl_frontend::seeds::alike;
use hostftl_frontend::spread::Spread;
use hostftl_frontend::state;
use hostftl_frontend::sweep::Summary;
use hostftl_report::{Bars, Figure};
use hostftl_sim::Row;

use crate::commands::sweep::table;
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{nanos, three_digits};

/// Prints the means over the seeds, and the layers without a significant difference.
pub(super) fn print(rows: &[Row], console: &mut Console) -> Result<(), Failure> {
    table::print(&Summary::of_rows(rows), console)?;
    differences(rows).iter().try_for_each(|text| console.paragraph(text))
}

/// Returns a sentence for each pair of layers without a significant difference, or one that all
/// differ.
pub(super) fn differences(rows: &[Row]) -> Vec<String> {
    match alike(rows) {
        None => Vec::new(),
        Some(pairs) if pairs.is_empty() => {
            vec!["In each state, all layers differ in waf with these seeds.".to_owned()]
        }
        Some(pairs) => pairs.iter().map(ToString::to_string).collect(),
    }
}

/// A figure of a chart: its title, its format, and its value in a row.
type Part = (&'static str, fn(f64) -> String, fn(&Summary) -> Option<Spread>);

/// Returns charts of the means, with whiskers for the 95 % intervals, of the rows with the
/// workload, drive and state of `first`.
pub(super) fn charts(rows: &[Row], first: &Row) -> Vec<Figure> {
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
