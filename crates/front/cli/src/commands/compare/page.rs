//! HTML page of a comparison.

use hostftl_report::{Page, Table};
use hostftl_sim::{Outcome, Row, Scaled};

use super::report::{self, Column, summary_columns};
use super::{beside, charts, devices, scale, seeds, verdict};
use crate::units::{bytes, count, counted};

/// Returns the page with the tables of `outcome`, that of the first seed, and the charts of `every`
/// row of all seeds. `scaled` has the figures of these rows for a drive of real size. `command`
/// reproduces the page.
pub(super) fn page(
    outcome: &Outcome,
    every: &[Row],
    scaled: Option<&[Scaled]>,
    command: &str,
) -> String {
    let rows = &outcome.rows;
    let mut page = Page::new("Which layer pays?");
    page.lead(&verdict::of_all(&scale::possible(rows, scaled)));
    if every.len() > rows.len() {
        page.paragraph(&format!(
            "Tables are of seed {}; charts with whiskers are of all seeds.",
            rows.first().map_or(0, |row| row.seed)
        ));
        for text in seeds::differences(every) {
            page.paragraph(&text);
        }
    }
    if beside::states(outcome).len() > 1 {
        side_by_side(&mut page, outcome);
    }
    if let Some(scaled) = scaled {
        scale::section(&mut page, rows, scaled);
    }
    for text in report::not_made(outcome) {
        page.paragraph(&text);
    }
    let columns = summary_columns(outcome);
    for group in verdict::groups(rows) {
        section(&mut page, &columns, group);
        if every.len() > rows.len() {
            page.figures(seeds::charts(every, &group[0]));
        }
    }
    page.section("Reproduction");
    page.paragraph(&format!(
        "{}; the same command gives identical results on every machine. The digest of a row \
        covers all operations of the layer and the drive.",
        hostftl_frontend::program::name()
    ));
    page.code(command);
    let mut digests = Table::new(&["row", "digest", "steps"]);
    for row in rows {
        digests.row([verdict::title(row, rows), row.digest.clone(), count(row.steps)]);
    }
    page.table(&digests);
    page.finish()
}

/// Adds the results of each layer in each state, and the explanation of the states.
fn side_by_side(page: &mut Page, outcome: &Outcome) {
    let (states, lines) = (beside::states(outcome), beside::lines(outcome));
    for lines in lines.chunk_by(|one, other| one.workload == other.workload) {
        page.section(&format!("{}: drive states", lines[0].workload));
        let several = lines.iter().any(|line| line.drive != lines[0].drive);
        let names: &[&str] = if several { &["drive", "layer"] } else { &["layer"] };
        let heads: Vec<&str> = names.iter().chain(&states).copied().collect();
        let mut table = Table::new(&heads).ratios();
        for line in lines {
            let drive = several.then(|| line.drive.to_owned());
            let names = drive.into_iter().chain([line.layer.to_owned()]);
            table.row(names.chain(states.iter().map(|state| line.cell(state))));
        }
        page.table(&table);
        let on = if several { String::new() } else { format!(" On {}.", lines[0].drive) };
        page.paragraph(&format!("{}.{on}", report::title(&outcome.rows)));
    }
    for text in report::verdicts(outcome).iter().chain(&report::about_states(outcome)) {
        page.paragraph(text);
    }
}

/// Adds the section about one drive in one state under one workload.
fn section(page: &mut Page, columns: &[Column], rows: &[Row]) {
    let first = &rows[0];
    page.section(&format!("{} on {}, {}", first.workload, first.drive, verdict::state(first)));
    page.paragraph(&format!(
        "The host writes {}, reads {}, flushes {}, and can address {}. State of the drive \
         before: {}.",
        bytes(first.host_write_bytes),
        bytes(first.host_read_bytes),
        counted(first.flushes, "time"),
        bytes(first.exported_bytes),
        first.warm,
    ));
    for remark in &first.remarks {
        page.paragraph(&format!("Note: {remark}."));
    }
    // The heading has the drive and the state, which all rows of a group share.
    let columns = columns.iter().filter(|(head, _)| !["drive", "state"].contains(head));
    let columns: Vec<&Column> = columns.collect();
    let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let mut table = Table::new(&heads);
    let least = |row: &&Row| row.busy_ratio.is_some();
    let best = rows.iter().filter(least).min_by(|one, other| {
        one.busy_ratio.unwrap_or(1.0).total_cmp(&other.busy_ratio.unwrap_or(1.0))
    });
    for row in rows {
        table.row(columns.iter().map(|(_, text)| text(row)));
        if best.is_some_and(|best| std::ptr::eq(best, row)) {
            table.strong();
        }
    }
    page.table(&table);
    rows.iter().filter_map(|row| verdict::of_row(row, rows)).for_each(|text| {
        page.paragraph(&text);
    });
    if let Some(table) = devices::page_table(rows) {
        page.table(&table);
        page.paragraph(&format!("{}: {}", devices::TITLE, devices::MEANING));
    }
    page.figures(charts::all(rows));
}
