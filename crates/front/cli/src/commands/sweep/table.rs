//! Table of the summaries of combinations over their seeds.

use hostftl_frontend::spread::Spread;
use hostftl_frontend::sweep::Summary;

use crate::commands::compare::{NOTHING, aligned, styled};
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{count, nanos};

/// A column: its head and the text of a combination.
type Column = (&'static str, fn(&Summary) -> String);

/// Columns with words. Those with the same text in all rows are left out, except for the layer.
const WORDS: [Column; 5] = [
    ("drive", |it| it.drive.clone()),
    ("state", |it| it.warm.clone()),
    ("export", |it| it.export.clone()),
    ("closed loop", |it| it.closed_loop.clone()),
    ("layer", |it| it.layer.clone()),
];

/// Columns with figures.
const FIGURES: [Column; 5] = [
    ("waf", |it| figure(it.waf, |waf| format!("{waf:.3}"))),
    ("vs none", |it| figure(it.busy_ratio, |ratio| format!("{ratio:.3}"))),
    ("requests/s", |it| figure(it.iops, |iops| count(iops.round() as u64))),
    ("read p99", |it| figure(it.read_p99_ns, time)),
    ("write p99", |it| figure(it.write_p99_ns, time)),
];

fn time(value: f64) -> String {
    nanos(value.round() as u64)
}

fn figure(spread: Option<Spread>, show: fn(f64) -> String) -> String {
    spread.map_or(NOTHING.to_owned(), |spread| spread.show(show))
}

/// Prints a table for each workload, and the reasons why combinations have no figures.
pub(crate) fn print(all: &[Summary], console: &mut Console) -> Result<(), Failure> {
    let differs = |get: fn(&Summary) -> String| all.iter().any(|it| get(it) != get(&all[0]));
    let words: Vec<Column> =
        WORDS.into_iter().filter(|(head, get)| *head == "layer" || differs(*get)).collect();
    for all in all.chunk_by(|one, other| one.workload == other.workload) {
        let mut table = styled();
        let heads = words.iter().map(|(head, _)| (true, *head));
        let heads = heads.chain(FIGURES.iter().map(|(head, _)| (false, *head)));
        table.set_header(heads.map(|(is_word, head)| aligned(is_word, head.to_owned())));
        for it in all {
            let cells = words.iter().map(|(_, get)| (true, get(it)));
            let cells = cells.chain(FIGURES.iter().map(|(_, get)| (false, get(it))));
            table.add_row(cells.map(|(is_word, text)| aligned(is_word, text)));
        }
        console.lines(format!("\n{}\n{}", all[0].workload, console.fit(table)))?;
    }
    console.line("")?;
    if all.iter().any(|it| it.waf.is_some_and(|waf| waf.seeds > 1)) {
        console.paragraph(
            "± is half of the 95 % interval of the mean over the seeds (Student's t). Figures with \
            disjoint intervals differ.",
        )?;
    }
    let mut reasons: Vec<&String> = Vec::new();
    for why in all.iter().filter_map(|it| it.failed.as_ref()) {
        if !reasons.contains(&why) {
            reasons.push(why);
        }
    }
    reasons.iter().try_for_each(|why| console.paragraph(&format!("Not run: {why}.")))
}
