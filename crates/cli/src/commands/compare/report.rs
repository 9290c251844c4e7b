//! The rows of a comparison as tables, and a few lines that explain them.

use comfy_table::{Cell, CellAlignment, Table, TableStyle, presets};
use hostftl_sim::{Latency, Legs, Row};

use super::{Args, verdict};
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, count, counted, nanos, three_digits};

/// What stands where there is nothing to say.
const NOTHING: &str = "–";
/// Lines between the table's head and its rows only.
const STYLE: TableStyle = presets::UTF8_HORIZONTAL_ONLY.row_separator(presets::NOTHING.top_border);

/// A column's head, and what a row has there.
pub type Column = (&'static str, fn(&Row) -> String);

/// Prints everything: the rows of one drive and workload in full; of several one table for each
/// workload, unless all is wanted.
///
/// # Errors
/// When nobody reads.
pub fn print(args: &Args, rows: &[Row], console: &mut Console) -> Result<(), Failure> {
    let groups = verdict::groups(rows);
    if groups.len() > 1 && !args.wide {
        for rows in rows.chunk_by(|one, other| one.workload == other.workload) {
            console.line(format!("{}\n{}", rows[0].workload, table(&summary_columns(), rows)))?;
        }
    } else {
        groups.iter().try_for_each(|group| in_full(group, args.wide, console))?;
    }
    console.line("")?;
    explain(args, rows).iter().try_for_each(|text| console.paragraph(text))
}

/// Prints all tables of the rows of one drive and workload.
fn in_full(rows: &[Row], wide: bool, console: &mut Console) -> Result<(), Failure> {
    let Some(first) = rows.first() else { return Ok(()) };
    console.paragraph(&format!(
        "{} on {}: the host writes {}, reads {}, flushes {}, and can address {}",
        first.workload,
        first.drive,
        bytes(first.host_write_bytes),
        bytes(first.host_read_bytes),
        counted(first.flushes, "time"),
        bytes(first.exported_bytes),
    ))?;
    let tables = [
        ("How long the drive works, and what for", busy_table(rows)),
        ("What is written", bytes_table(rows)),
        ("What the host sees", host_table(rows)),
        ("What it costs", cost_table(rows)),
        ("Where the mean latency goes", legs_table(rows)),
    ];
    let shown = if wide { tables.len() } else { 4 };
    let tables = &tables[..shown];
    tables.iter().try_for_each(|(title, table)| console.line(format!("\n{title}\n{table}")))
}

/// A table of `columns`, of which the first alone is text.
fn table(columns: &[Column], rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    let cell = |index: usize, text: String| {
        let side = if index == 0 { CellAlignment::Left } else { CellAlignment::Right };
        Cell::new(text).set_alignment(side)
    };
    let heads = columns.iter().map(|(head, _)| (*head).to_owned());
    table.set_header(heads.enumerate().map(|(index, head)| cell(index, head)));
    for row in rows {
        let texts = columns.iter().map(|(_, text)| text(row));
        table.add_row(texts.enumerate().map(|(index, text)| cell(index, text)));
    }
    table
}

fn name(row: &Row) -> String {
    if row.partial { format!("{} (part)", row.layer) } else { row.layer.clone() }
}

/// What fits into one line of every row.
pub fn summary_columns() -> [Column; 11] {
    [
        ("drive", |row| row.drive.clone()),
        ("layer", name),
        ("busy", |row| nanos(row.busy_ns.total())),
        ("vs none", |row| ratio(row.busy_ratio)),
        ("waf", |row| ratio(row.waf_total)),
        ("requests/s", |row| row.iops.map_or(NOTHING.into(), |iops| count(iops.round() as u64))),
        ("read p99", |row| latency(row.latency_ns.read, |read| read.p99)),
        ("write p99", |row| latency(row.latency_ns.write, |write| write.p99)),
        ("life", |row| life(row.life.host_tb)),
        ("J/GB", |row| row.energy.mj_per_host_gb.map_or(NOTHING.into(), joules)),
        ("memory", |row| bytes(row.layer_bytes())),
    ]
}

/// Joules of so many mJ.
fn joules(mj: f64) -> String {
    three_digits(mj / 1000.0)
}

/// Terabytes that the host can write.
fn life(tb: Option<f64>) -> String {
    tb.map_or(NOTHING.into(), |tb| format!("{} TB", three_digits(tb)))
}

fn busy_table(rows: &[Row]) -> Table {
    let mut columns: Vec<Column> = vec![
        ("layer", name),
        ("busy", |row| nanos(row.busy_ns.total())),
        ("vs none", |row| ratio(row.busy_ratio)),
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
    table(&columns, rows)
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
    table(&columns, rows)
}

fn host_table(rows: &[Row]) -> Table {
    let columns: [Column; 8] = [
        ("layer", name),
        ("ack", |row| row.ack.to_owned()),
        ("requests/s", |row| row.iops.map_or(NOTHING.into(), |iops| count(iops.round() as u64))),
        ("read p50", |row| latency(row.latency_ns.read, |read| read.p50)),
        ("p99", |row| latency(row.latency_ns.read, |read| read.p99)),
        ("write p50", |row| latency(row.latency_ns.write, |write| write.p50)),
        ("p99", |row| latency(row.latency_ns.write, |write| write.p99)),
        ("p99.99", |row| latency(row.latency_ns.write, |write| write.p9999)),
    ];
    table(&columns, rows)
}

fn cost_table(rows: &[Row]) -> Table {
    let columns: [Column; 9] = [
        ("layer", name),
        ("map memory", |row| bytes(row.map_bytes)),
        ("beside it", |row| bytes(row.meta_bytes)),
        ("host can write", |row| life(row.life.host_tb)),
        ("by erases", |row| life(row.life.host_tb_by_erases)),
        ("erases p50", |row| row.erases.p50.to_string()),
        ("p99", |row| row.erases.p99.to_string()),
        ("energy", |row| format!("{} J", joules(row.energy.mj))),
        ("J/GB", |row| row.energy.mj_per_host_gb.map_or(NOTHING.into(), joules)),
    ];
    table(&columns, rows)
}

/// Reads and writes of each row, with the legs of their mean and of the slowest hundredth.
fn legs_table(rows: &[Row]) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    let legs = Legs::default().parts();
    let heads = ["layer", "requests", "mean"].into_iter().chain(legs.map(|(name, _)| name));
    table.set_header(heads);
    for row in rows {
        for (kind, latency) in [("reads", row.latency_ns.read), ("writes", row.latency_ns.write)] {
            let Some(latency) = latency else { continue };
            for (what, legs) in [(kind, latency.legs), ("  p99 and above", latency.legs_p99)] {
                let parts = legs.parts().map(|(_, part)| nanos(part));
                let cells = [name(row), what.to_owned(), nanos(legs.total())].into_iter();
                table.add_row(cells.chain(parts));
            }
        }
    }
    table
}

fn latency(latency: Option<Latency>, pick: fn(Latency) -> u64) -> String {
    latency.map_or(NOTHING.into(), |latency| nanos(pick(latency)))
}

fn ratio(value: Option<f64>) -> String {
    value.map_or(NOTHING.into(), |value| format!("{value:.3}"))
}

/// `part` of the drive's busy time.
fn share(row: &Row, part: u64) -> String {
    match row.busy_ns.total() {
        0 => NOTHING.to_owned(),
        total => format!("{:.1} %", 100.0 * part as f64 / total as f64),
    }
}

/// What a newcomer needs to read the tables.
fn explain(args: &Args, rows: &[Row]) -> Vec<String> {
    let mut lines = vec![
        "The drive works to read, to write what was asked (request), for its own \
         read-modify-writes and collection (copyback), and for the layer's collection (vgc), map \
         records and padding. waf is bytes written for each byte that the host wrote: halving it \
         doubles the drive's life."
            .to_owned(),
    ];
    lines.extend(rows.iter().filter_map(|row| verdict::of_row(row, rows)));
    let late = rows.iter().filter(|row| row.saturated);
    let late: Vec<String> = late.map(|row| verdict::title(row, rows)).collect();
    if !late.is_empty() && args.closed_loop.is_none() {
        let which = if late.len() == rows.len() { "all rows".into() } else { late.join(", ") };
        lines.push(format!(
            "Saturated: {which}. The drive could not follow the trace's times with 256 requests \
             under way, so these latencies also say how far it fell behind."
        ));
    }
    if rows.iter().any(|row| row.warm == "none") {
        lines.push("The drive was new; --warm steady ages it first.".to_owned());
    }
    lines
}
