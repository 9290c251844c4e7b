//! Text form of a comparison: tables and their explanation.

use comfy_table::{Cell, CellAlignment, Table, TableStyle, presets};
use hostftl_frontend::judgement::{Judged, Judgement};
use hostftl_sim::{Hole, Latency, Legs, MOST_SPANS, Outcome, Row, SETTLED};

use super::{Args, beside, devices, verdict};
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, count, counted, nanos, three_digits};

/// Text of an empty cell.
pub(crate) const NOTHING: &str = "–";
/// A line only between the header and the rows.
const STYLE: TableStyle = presets::UTF8_HORIZONTAL_ONLY.row_separator(presets::NOTHING.top_border);

/// A column: its head and the text of a row.
type Column = (&'static str, fn(&Row) -> String);
/// A column whose text depends on the judgement of a row.
pub(super) type JudgedColumn<'a> = (&'static str, Box<dyn Fn(&Row) -> String + 'a>);

/// Prints the comparison. Rows of a single drive, state and workload are printed in full; otherwise
/// there is one table for each workload, unless `--wide` is given. If there are several states, a
/// table with the states side by side comes first.
pub(super) fn print(
    args: &Args,
    outcome: &Outcome,
    all: &[Judgement],
    console: &mut Console,
) -> Result<(), Failure> {
    let rows = &outcome.rows;
    let groups = verdict::groups(rows);
    if beside::states(outcome).len() > 1 {
        side_by_side(outcome, all, console)?;
    }
    if groups.len() > 1 && !args.wide {
        let each: Vec<Result<&Row, &Hole>> = outcome.each().collect();
        let columns = summary_columns(outcome, all);
        for each in each.chunk_by(|one, other| workload(*one) == workload(*other)) {
            console.lines(format!(
                "{}\n{}",
                workload(each[0]),
                console.fit(table(&columns, each))
            ))?;
        }
    } else {
        groups.iter().try_for_each(|group| in_full(group, all, args.wide, console))?;
    }
    if let Some(table) = devices::table(rows) {
        console.lines(format!("\n{}\n{}", devices::TITLE, console.fit(table)))?;
    }
    let placements = devices::placements(rows);
    let has_placements = placements.is_some();
    if let Some(table) = placements {
        console.lines(format!("\n{}\n{}", devices::PLACEMENTS, console.fit(table)))?;
    }
    console.line("")?;
    let mut texts = not_made(outcome);
    texts.extend(has_placements.then(|| devices::PLACEMENTS_MEANING.to_owned()));
    texts.extend(rows.iter().any(|row| row.devices.len() > 1).then(|| devices::MEANING.to_owned()));
    texts.extend(explain(args, outcome, all));
    texts.iter().try_for_each(|text| console.paragraph(text))
}

/// Prints a table of layers and states for each workload.
fn side_by_side(
    outcome: &Outcome,
    all: &[Judgement],
    console: &mut Console,
) -> Result<(), Failure> {
    let (states, lines) = (beside::states(outcome), beside::lines(outcome));
    for lines in lines.chunk_by(|one, other| one.workload == other.workload) {
        let mut table = styled();
        let heads = ["drive", "layer"].into_iter().chain(states.iter().copied());
        table.set_header(heads.enumerate().map(|(index, head)| aligned(index < 2, head.into())));
        for line in lines {
            let names = [line.drive.to_owned(), line.layer.to_owned()].into_iter();
            let cells = names.chain(states.iter().map(|state| line.cell(state, all)));
            table.add_row(cells.enumerate().map(|(index, text)| aligned(index < 2, text)));
        }
        let title = title(&outcome.rows);
        console.lines(format!("{}\n{title}\n{}\n", lines[0].workload, console.fit(table)))?;
    }
    Ok(())
}

/// Returns the title of the table of states.
pub(super) fn title(rows: &[Row]) -> String {
    let base = match verdict::base(rows) {
        "none" => "no layer",
        "raid5" => "raid5",
        _ => "no layer, or raid5 on drives without such a row",
    };
    format!(
        "Bytes programmed per host byte, by drive state; ×: wear relative to {base}; !: exceeds a \
         limit"
    )
}

/// Returns a sentence for each combination without a row and each reason.
pub(super) fn not_made(outcome: &Outcome) -> Vec<String> {
    let mut texts: Vec<(String, String, Vec<&str>)> = Vec::new();
    for hole in &outcome.holes {
        let Hole { layer, drive, workload, .. } = hole;
        let combination = format!("{layer} on {drive} under {workload}");
        // Most reasons start with the layer and the drive, which the sentence has already.
        let reason = hole.reason();
        let reason = reason.strip_prefix(&format!("{layer} on {drive}")).unwrap_or(&reason);
        let reason = reason.trim_start_matches([':', ' ']).to_owned();
        match texts.iter_mut().find(|(same, why, _)| (same, why) == (&combination, &reason)) {
            Some((_, _, states)) if states.contains(&hole.warm.as_str()) => {}
            Some((_, _, states)) => states.push(&hole.warm),
            None => texts.push((combination, reason, vec![&hole.warm])),
        }
    }
    let text = |(combination, why, states): (String, String, Vec<&str>)| {
        format!("Not run: {combination} ({}): {why}.", states.join(", "))
    };
    texts.into_iter().map(text).collect()
}

fn workload<'a>(one: Result<&'a Row, &'a Hole>) -> &'a str {
    one.map_or_else(|hole| &hole.workload, |row| &row.workload)
}

/// Prints the tables of the rows of one drive, state and workload; all of them if `wide`.
fn in_full(
    rows: &[Row],
    all: &[Judgement],
    wide: bool,
    console: &mut Console,
) -> Result<(), Failure> {
    let Some(first) = rows.first() else { return Ok(()) };
    console.paragraph(&format!(
        "{} on {}, {}: the host writes {}, reads {}, flushes {}, and can address {}",
        first.workload,
        first.drive,
        verdict::state(first),
        bytes(first.host_write_bytes),
        bytes(first.host_read_bytes),
        counted(first.flushes, "time"),
        bytes(first.exported_bytes),
    ))?;
    if let Some(it) = verdict::of_row(first, all) {
        console.lines(format!("\nVerdict\n{}", console.fit(verdict_table(rows, it))))?;
    }
    let tables = [
        ("Busy time of the drive, by cause", busy_table(rows)),
        ("Bytes written", bytes_table(rows)),
        ("Host view", host_table(rows)),
        ("Cost", cost_table(rows)),
        ("Where the mean latency goes", legs_table(rows)),
    ];
    let shown = if wide { tables.len() } else { 4 };
    for (title, table) in tables.into_iter().take(shown) {
        console.lines(format!("\n{title}\n{}", console.fit(table)))?;
    }
    Ok(())
}

/// Creates an empty table in the common style.
pub(crate) fn styled() -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    table
}

/// Creates a cell: words are aligned left, figures right.
pub(crate) fn aligned(is_word: bool, text: String) -> Cell {
    let side = if is_word { CellAlignment::Left } else { CellAlignment::Right };
    Cell::new(text).set_alignment(side)
}

/// Columns with words.
const WORDS: [&str; 4] = ["drive", "state", "layer", ""];

/// Creates a table of `columns`. A hole has text only in the columns of [`of_hole`].
fn table<F: Fn(&Row) -> String>(
    columns: &[(&'static str, F)],
    all: &[Result<&Row, &Hole>],
) -> Table {
    let mut table = styled();
    let is_word = |head: &str| WORDS.contains(&head);
    table.set_header(columns.iter().map(|(head, _)| aligned(is_word(head), (*head).to_owned())));
    for one in all {
        let text = |head: &str, text: &F| match one {
            Ok(row) => text(row),
            Err(hole) => of_hole(hole, head),
        };
        table.add_row(columns.iter().map(|(head, get)| aligned(is_word(head), text(head, get))));
    }
    table
}

/// Returns the text of a hole in a column.
pub(super) fn of_hole(hole: &Hole, head: &str) -> String {
    match head {
        "drive" => hole.drive.clone(),
        "state" => hole.warm.clone(),
        "layer" => hole.layer.clone(),
        _ => NOTHING.to_owned(),
    }
}

/// Creates a table without holes.
fn of_rows(columns: &[Column], rows: &[Row]) -> Table {
    table(columns, &rows.iter().map(Ok).collect::<Vec<_>>())
}

fn name(row: &Row) -> String {
    if row.partial { format!("{} (part)", row.layer) } else { row.layer.clone() }
}

/// Returns the columns of the summary. There is one for the state only if there are several.
pub(super) fn summary_columns<'a>(
    outcome: &Outcome,
    all: &'a [Judgement],
) -> Vec<JudgedColumn<'a>> {
    let plain: [Column; 4] = [
        ("drive", |row| row.drive.clone()),
        ("state", |row| row.warm.clone()),
        ("layer", name),
        ("waf", |row| ratio(row.waf_total)),
    ];
    let figures: [Column; 6] = [
        ("requests/s", |row| row.iops.map_or(NOTHING.into(), |iops| count(iops.round() as u64))),
        ("read p99", |row| latency(row.latency_ns.read, |read| read.p99)),
        ("write p99", |row| latency(row.latency_ns.write, |write| write.p99)),
        ("life", |row| life(row.life.host_tb)),
        ("J/GB", |row| row.energy.mj_per_host_gb.map_or(NOTHING.into(), joules)),
        ("memory", |row| bytes(row.layer_bytes())),
    ];
    let boxed = |(head, get): Column| -> JudgedColumn<'a> { (head, Box::new(get)) };
    let mark =
        |row: &Row| verdict::of_row(row, all).map_or_else(String::new, |it| it.mark(&row.layer));
    let mut columns: Vec<JudgedColumn> = plain.into_iter().map(boxed).collect();
    columns.extend(relative_columns(all));
    columns.extend(figures.into_iter().map(boxed));
    columns.push(("", Box::new(mark)));
    if beside::states(outcome).len() < 2 {
        columns.retain(|(head, _)| *head != "state");
    }
    columns
}

/// Returns the columns of wear, speed and latency relative to the baseline.
fn relative_columns(all: &[Judgement]) -> impl Iterator<Item = JudgedColumn<'_>> {
    type Get = fn(&Judged) -> Option<f64>;
    let gets: [(&'static str, Get); 3] = [
        ("wear", |it| it.relative.wear),
        ("speed", |it| it.relative.speed),
        ("latency", |it| it.relative.latency),
    ];
    gets.into_iter().map(move |(head, get)| -> JudgedColumn<'_> {
        let judged = move |row: &Row| verdict::of_row(row, all)?.judged(&row.layer);
        (head, Box::new(move |row: &Row| times(judged(row).and_then(get))))
    })
}

/// Creates the table of wear, speed and latency of one drive, state and workload.
fn verdict_table(rows: &[Row], it: &Judgement) -> Table {
    let all = std::slice::from_ref(it);
    let plain: [Column; 2] = [("layer", name), ("waf", |row| ratio(row.waf_total))];
    let boxed = |(head, get): Column| -> JudgedColumn { (head, Box::new(get)) };
    let mut columns: Vec<JudgedColumn> = plain.into_iter().map(boxed).collect();
    columns.extend(relative_columns(all));
    let memory = |row: &Row| it.judged(&row.layer).map_or(row.layer_bytes(), |it| it.memory_bytes);
    columns.push(("memory", Box::new(move |row| bytes(memory(row)))));
    columns.push(("", Box::new(|row| it.mark(&row.layer))));
    table(&columns, &rows.iter().map(Ok).collect::<Vec<_>>())
}

/// Returns the head of the relative busy time.
fn versus(rows: &[Row]) -> &'static str {
    match verdict::base(rows) {
        "none" => "vs none",
        "raid5" => "vs raid5",
        _ => "vs base",
    }
}

/// Formats an energy in mJ as joules.
fn joules(mj: f64) -> String {
    three_digits(mj / 1000.0)
}

/// Formats a life as terabytes written by the host.
fn life(tb: Option<f64>) -> String {
    tb.map_or(NOTHING.into(), |tb| format!("{} TB", three_digits(tb)))
}

fn busy_table(rows: &[Row]) -> Table {
    let mut columns: Vec<Column> = vec![
        ("layer", name),
        ("busy", |row| nanos(row.busy_ns.total())),
        (versus(rows), |row| ratio(row.busy_ratio)),
        ("read", |row| share(row, row.busy_ns.read)),
        ("request", |row| share(row, row.busy_ns.request)),
        ("copyback", |row| share(row, row.busy_ns.copyback)),
        ("vgc", |row| share(row, row.busy_ns.vgc)),
        ("map", |row| share(row, row.busy_ns.map)),
        ("padding", |row| share(row, row.busy_ns.padding)),
    ];
    if rows.iter().any(|row| row.busy_ns.parity > 0) {
        columns.push(("parity", |row| share(row, row.busy_ns.parity)));
    }
    if rows.iter().any(|row| row.busy_ns.journal > 0) {
        columns.push(("journal", |row| share(row, row.busy_ns.journal)));
    }
    of_rows(&columns, rows)
}

fn bytes_table(rows: &[Row]) -> Table {
    let mut columns: Vec<Column> = vec![
        ("layer", name),
        ("waf layer", |row| ratio(row.waf_layer)),
        ("waf drive", |row| ratio(row.waf_drive)),
        ("waf total", |row| ratio(row.waf_total)),
        ("vgc runs", |row| count(row.gc_runs)),
        ("vgc copies", |row| bytes(row.pages_copied * 4096)),
        ("map log", |row| bytes(row.map_bytes_written)),
        ("padding", |row| bytes(row.padding_bytes)),
    ];
    if rows.iter().any(|row| row.parity_bytes > 0) {
        columns.push(("parity", |row| bytes(row.parity_bytes)));
    }
    if rows.iter().any(|row| row.journal_bytes > 0) {
        columns.push(("journal", |row| bytes(row.journal_bytes)));
    }
    columns.push(("erases", |row| three_digits(row.erases.mean)));
    of_rows(&columns, rows)
}

fn host_table(rows: &[Row]) -> Table {
    let columns: [Column; 8] = [
        ("layer", name),
        ("ack", |row| row.ack.to_owned()),
        ("requests/s", |row| row.iops.map_or(NOTHING.into(), |iops| count(iops.round() as u64))),
        ("read p50", |row| latency(row.latency_ns.read, |read| read.p50)),
        ("read p99", |row| latency(row.latency_ns.read, |read| read.p99)),
        ("write p50", |row| latency(row.latency_ns.write, |write| write.p50)),
        ("write p99", |row| latency(row.latency_ns.write, |write| write.p99)),
        ("write p99.99", |row| latency(row.latency_ns.write, |write| write.p9999)),
    ];
    of_rows(&columns, rows)
}

fn cost_table(rows: &[Row]) -> Table {
    let columns: [Column; 9] = [
        ("layer", name),
        ("map memory", |row| bytes(row.map_bytes)),
        ("beside it", |row| bytes(row.meta_bytes)),
        ("host can write", |row| life(row.life.host_tb)),
        ("by erases", |row| life(row.life.host_tb_by_erases)),
        ("erases p50", |row| row.erases.p50.to_string()),
        ("erases p99", |row| row.erases.p99.to_string()),
        ("energy", |row| match row.energy.mj_per_host_gb {
            Some(_) => format!("{} J", joules(row.energy.mj)),
            None => NOTHING.to_owned(),
        }),
        ("J/GB", |row| row.energy.mj_per_host_gb.map_or(NOTHING.into(), joules)),
    ];
    of_rows(&columns, rows)
}

/// Creates the table of latency legs: the mean and the slowest 1 % of reads and writes.
fn legs_table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    let legs = Legs::default().parts();
    let heads = ["layer", "requests", "mean"].into_iter().chain(legs.map(|(name, _)| name));
    table.set_header(heads);
    for row in rows {
        for (kind, latency) in [("reads", row.latency_ns.read), ("writes", row.latency_ns.write)] {
            let Some(latency) = latency else { continue };
            for (label, legs) in [(kind, latency.legs), ("  slowest 1 %", latency.legs_p99)] {
                let parts = legs.parts().map(|(_, part)| nanos(part));
                let cells = [name(row), label.to_owned(), nanos(legs.total())].into_iter();
                table.add_row(cells.chain(parts));
            }
        }
    }
    table
}

fn latency(latency: Option<Latency>, pick: fn(Latency) -> u64) -> String {
    latency.map_or(NOTHING.into(), |latency| nanos(pick(latency)))
}

/// Formats a figure relative to the baseline.
pub(crate) fn times(ratio: Option<f64>) -> String {
    ratio.map_or(NOTHING.into(), |it| format!("×{it:.2}"))
}

fn ratio(value: Option<f64>) -> String {
    value.map_or(NOTHING.into(), |value| format!("{value:.3}"))
}

/// Formats `part` as a percentage of the busy time.
fn share(row: &Row, part: u64) -> String {
    match row.busy_ns.total() {
        0 => NOTHING.to_owned(),
        total => format!("{:.1} %", 100.0 * part as f64 / total as f64),
    }
}

/// Returns the explanation of the tables, the verdicts, and remarks on saturation and states.
fn explain(args: &Args, outcome: &Outcome, all: &[Judgement]) -> Vec<String> {
    let rows = &outcome.rows;
    let mut lines = Vec::new();
    if verdict::groups(rows).len() < 2 || args.wide {
        lines.push(
            "Busy time: reads, host writes (request), read-modify-writes and garbage collection \
             of the drive (copyback), garbage collection of the layer (vgc), map and padding."
                .to_owned(),
        );
    }
    lines.push(words(all));
    lines.extend(verdict::sentences(all));
    lines.extend(verdict::violations(all));
    let late = rows.iter().filter(|row| row.saturated);
    let late: Vec<String> = late.map(|row| verdict::title(row, rows)).collect();
    if !late.is_empty() && args.closed_loop.is_none() {
        let names = if late.len() == rows.len() { "all rows".into() } else { late.join(", ") };
        lines.push(format!(
            "Saturated: {names}. The drive fell behind the times of the trace with 256 requests \
             outstanding and finished over 5 % late, so these latencies include the backlog."
        ));
    }
    lines.extend(about_states(outcome));
    lines
}

/// Returns the explanation of the columns of a judgement.
pub(super) fn words(all: &[Judgement]) -> String {
    let waf = "waf is bytes programmed per host byte: half of it doubles the life of the drive.";
    if all.is_empty() {
        return waf.to_owned();
    }
    format!(
        "{waf} wear, speed and latency are relative to the baseline: bytes programmed, requests/s \
         and the larger p99 of reads and writes, at the pace of this run; --closed-loop shows the \
         rate that a layer sustains."
    )
}

/// Returns the explanation of the states and the exported size.
pub(super) fn about_states(outcome: &Outcome) -> Vec<String> {
    let (rows, states) = (&outcome.rows, beside::states(outcome));
    let has = |name: &str| states.iter().any(|state| state.starts_with(name));
    let mut texts = Vec::new();
    if states == ["new"] {
        texts.push("The drive was new; --warm steady ages it first.".to_owned());
    } else {
        let meanings = [
            ("new", "new: never written"),
            ("fill", "fill: that share of the export was written once, in order"),
            ("steady", "steady: then overwritten at random until waf settled"),
            ("self", "self: then the workload itself was repeated until waf settled"),
        ];
        let shown = meanings.iter().filter(|(name, _)| has(name)).map(|(_, text)| *text);
        let shown = shown.collect::<Vec<_>>().join("; ");
        texts.push(format!(
            "States: {shown}. The rest of the export was never written; preparation is not in the \
             figures."
        ));
    }
    let late = rows.iter().filter(|row| row.warm != verdict::state(row));
    let mut late: Vec<String> = late.map(|row| verdict::title(row, rows)).collect();
    let mut known = std::collections::HashSet::new();
    late.retain(|title| known.insert(title.clone()));
    if !late.is_empty() {
        texts.push(format!(
            "Not settled: {}. After {MOST_SPANS} spans (repetitions that write the whole export) \
             waf still changed by {:.0} % or more, or 16 random overwrites were not enough. Their \
             figures show one age, not a limit.",
            late.join(", "),
            SETTLED * 100.0
        ));
    }
    let exported = rows.iter().map(|row| row.exported_bytes);
    if let (Some(least), Some(most)) = (exported.clone().min(), exported.max()) {
        let size = if least == most {
            bytes(least)
        } else {
            format!("{} to {}, depending on the drive,", bytes(least), bytes(most))
        };
        texts.push(format!(
            "The host can address {size} in every row (--export), regardless of the layer. \
            Capacity that a layer does not use remains over-provisioning for the drive."
        ));
    }
    texts
}
