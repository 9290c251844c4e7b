//! HTML page of a comparison.

use hostftl_frontend::judgement::{Judged, Judgement};
use hostftl_report::{Cell, Page, Table};
use hostftl_sim::{Limit, Outcome, Row, Scaled};

use super::report::{self, JudgedColumn, summary_columns};
use super::{beside, charts, devices, scale, seeds, verdict};
use crate::units::{bytes, count, counted};

/// What a page shows.
pub(super) struct Contents<'a> {
    /// Results of all seeds.
    pub outcome: &'a Outcome,
    /// Number of rows of the first seed, which has the tables.
    pub first: usize,
    /// Judgement of each workload, drive and state.
    pub judgements: &'a [Judgement],
    /// Figures of each row for a drive of real size.
    pub scaled: Option<&'a [Scaled]>,
    /// Command that reproduces the page.
    pub command: &'a str,
}

/// Returns the page.
pub(super) fn page(contents: &Contents) -> String {
    let Contents { outcome, first, judgements, scaled, command } = *contents;
    let (rows, every) = (&outcome.rows[..first], &outcome.rows);
    let mut page = Page::new("Which layer, or none?");
    page.lead(&verdict::of_all(judgements)).contents();
    if every.len() > rows.len() {
        page.paragraph(&format!(
            "Tables are of seed {}; verdicts and charts with whiskers are of all seeds.",
            rows.first().map_or(0, |row| row.seed)
        ));
        for text in seeds::differences(every) {
            page.paragraph(&text);
        }
    }
    if beside::states(outcome).len() > 1 {
        side_by_side(&mut page, outcome, judgements);
    }
    let texts = verdict::sentences(judgements).into_iter().chain(verdict::violations(judgements));
    for text in texts.chain([report::words(judgements)]).chain(report::about_states(outcome)) {
        page.paragraph(&text);
    }
    if let Some(scaled) = scaled {
        scale::section(&mut page, rows, &scaled[..first]);
    }
    for text in report::not_made(outcome) {
        page.paragraph(&text);
    }
    let columns = summary_columns(outcome, judgements);
    for group in verdict::groups(rows) {
        section(&mut page, &columns, (group, verdict::of_row(&group[0], judgements)), rows);
        if every.len() > rows.len() {
            page.folded("Charts: means of all seeds", seeds::charts(every, &group[0]));
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

/// Adds the results of each layer in each state.
fn side_by_side(page: &mut Page, outcome: &Outcome, judgements: &[Judgement]) {
    let (states, lines) = (beside::states(outcome), beside::lines(outcome));
    for lines in lines.chunk_by(|one, other| one.workload == other.workload) {
        page.section(&format!("{}: drive states", lines[0].workload));
        let several = lines.iter().any(|line| line.drive != lines[0].drive);
        let names: &[&str] = if several { &["drive", "layer"] } else { &["layer"] };
        let heads: Vec<&str> = names.iter().chain(&states).copied().collect();
        let mut table = Table::new(&heads);
        for line in lines {
            let drive = several.then(|| line.drive.to_owned());
            let names = drive.into_iter().chain([line.layer.to_owned()]).map(Cell::from);
            let cell = |state: &&str| {
                let judged = line.judged(state, judgements);
                heat("wear", line.cell(state, judgements), judged)
            };
            table.row(names.chain(states.iter().map(cell)));
        }
        page.table(&table);
        let on = if several { String::new() } else { format!(" On {}.", lines[0].drive) };
        page.paragraph(&format!("{}.{on}", report::title(&outcome.rows)));
    }
}

/// Adds the section about one drive in one state under one workload.
fn section(
    page: &mut Page,
    columns: &[JudgedColumn],
    (rows, judgement): (&[Row], Option<&Judgement>),
    all: &[Row],
) {
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
    let columns: Vec<&JudgedColumn> = columns.collect();
    let heads: Vec<&str> = columns.iter().map(|(head, _)| *head).collect();
    let mut table = Table::new(&heads);
    let verdict = judgement.and_then(|it| it.verdict.as_ref());
    for row in rows {
        let judged = judgement.and_then(|it| it.judged(&row.layer));
        table.row(columns.iter().map(|(head, text)| heat(head, text(row), judged)));
        if verdict == Some(&row.layer) {
            table.strong();
        }
    }
    page.table(&table);
    if let Some(table) = devices::page_table(rows) {
        page.table(&table);
        page.paragraph(&format!("{}: {}", devices::TITLE, devices::MEANING));
    }
    if let Some(table) = devices::page_placements(rows) {
        page.table(&table).paragraph(devices::PLACEMENTS_MEANING);
    }
    page.folded("Charts: work of the drive, latency and wear", charts::all(rows, all));
}

/// Returns a cell of the column `head`, coloured by the figure of that name or the limit that it
/// exceeds. The cell of wear has the colour of all limits.
pub(crate) fn heat(head: &str, text: String, judged: Option<&Judged>) -> Cell {
    let Some(Judged { relative, broken, .. }) = judged else { return text.into() };
    let (ratio, limits): (_, &[Limit]) = match head {
        "wear" => (relative.wear, broken),
        "speed" => (relative.speed, &[Limit::Speed]),
        "latency" => (relative.latency, &[Limit::Latency]),
        _ => return text.into(),
    };
    let Some(ratio) = ratio else { return text.into() };
    let cell = Cell::ratio(text, ratio, head != "speed");
    let is_refused = limits.iter().any(|limit| broken.contains(limit));
    if is_refused { cell.refused() } else { cell }
}
