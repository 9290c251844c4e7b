//! The rows of a comparison as tables, and a few lines that explain them.

use comfy_table::{Cell, CellAlignment, Table, TableStyle, presets};
use hostftl_sim::{Latency, Row};

use super::Args;
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, count, nanos, three_digits};

/// What stands where there is nothing to say.
const NOTHING: &str = "–";
/// Lines between the table's head and its rows only.
const STYLE: TableStyle = presets::UTF8_HORIZONTAL_ONLY.row_separator(presets::NOTHING.top_border);
/// From here on a ratio of busy times is worth a word.
const CLEARLY_LESS: f64 = 0.95;

/// A column's head, and what a row has there.
type Column = (&'static str, fn(&Row) -> String);

/// Prints everything: the rows of one drive and workload in full; of several one table for each
/// workload, unless all is wanted.
///
/// # Errors
/// When nobody reads.
pub fn print(args: &Args, rows: &[Row], console: &mut Console) -> Result<(), Failure> {
    let groups = groups(rows);
    if groups.len() > 1 && !args.wide {
        for rows in rows.chunk_by(|one, other| one.workload == other.workload) {
            console.line(format!("{}\n{}", rows[0].workload, summary_table(rows)))?;
        }
    } else {
        groups.iter().try_for_each(|group| in_full(group, console))?;
    }
    console.line("")?;
    explain(args, rows).iter().try_for_each(|text| console.paragraph(text))
}

/// The rows of each drive under each workload.
fn groups(rows: &[Row]) -> Vec<&[Row]> {
    let alike =
        |one: &Row, other: &Row| (&one.workload, &one.drive) == (&other.workload, &other.drive);
    rows.chunk_by(alike).collect()
}

/// Prints all tables of the rows of one drive and workload.
fn in_full(rows: &[Row], console: &mut Console) -> Result<(), Failure> {
    let Some(first) = rows.first() else { return Ok(()) };
    console.paragraph(&format!(
        "{} on {}: the host writes {}, reads {}, flushes {} times, and can address {}",
        first.workload,
        first.drive,
        bytes(first.host_write_bytes),
        bytes(first.host_read_bytes),
        count(first.flushes),
        bytes(first.exported_bytes),
    ))?;
    let tables = [
        ("How long the drive works, and what for", busy_table(rows)),
        ("What is written", bytes_table(rows)),
        ("What the host sees", host_table(rows)),
    ];
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

/// Every row of a workload in one line.
fn summary_table(rows: &[Row]) -> Table {
    let columns: [Column; 9] = [
        ("drive", |row| row.drive.clone()),
        ("layer", name),
        ("busy", |row| nanos(row.busy_ns.total())),
        ("vs none", |row| ratio(row.busy_ratio)),
        ("waf", |row| ratio(row.waf_total)),
        ("requests/s", |row| row.iops.map_or(NOTHING.into(), |iops| count(iops.round() as u64))),
        ("read p99", |row| latency(row.latency_ns.read, |read| read.p99)),
        ("write p99", |row| latency(row.latency_ns.write, |write| write.p99)),
        ("map memory", |row| bytes(row.map_bytes)),
    ];
    table(&columns, rows)
}

fn busy_table(rows: &[Row]) -> Table {
    let columns: [Column; 9] = [
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
    table(&columns, rows)
}

fn bytes_table(rows: &[Row]) -> Table {
    let columns: [Column; 9] = [
        ("layer", name),
        ("waf layer", |row| ratio(row.waf_layer)),
        ("waf drive", |row| ratio(row.waf_drive)),
        ("waf total", |row| ratio(row.waf_total)),
        ("vgc runs", |row| count(row.gc_runs)),
        ("vgc copies", |row| bytes(row.pages_copied * 4096)),
        ("map log", |row| bytes(row.map_bytes_written)),
        ("padding", |row| bytes(row.padding_bytes)),
        ("erases", |row| three_digits(row.erases.mean)),
    ];
    table(&columns, rows)
}

fn host_table(rows: &[Row]) -> Table {
    let columns: [Column; 9] = [
        ("layer", name),
        ("ack", |row| row.ack.to_owned()),
        ("requests/s", |row| row.iops.map_or(NOTHING.into(), |iops| count(iops.round() as u64))),
        ("read p50", |row| latency(row.latency_ns.read, |read| read.p50)),
        ("p99", |row| latency(row.latency_ns.read, |read| read.p99)),
        ("write p50", |row| latency(row.latency_ns.write, |write| write.p50)),
        ("p99", |row| latency(row.latency_ns.write, |write| write.p99)),
        ("p99.99", |row| latency(row.latency_ns.write, |write| write.p9999)),
        ("map memory", |row| bytes(row.map_bytes)),
    ];
    table(&columns, rows)
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
         records and padding. waf is bytes written for each byte that the host wrote: half of it \
         is twice the drive's life."
            .to_owned(),
    ];
    lines.extend(rows.iter().filter_map(|row| verdict(row, rows)));
    let late = rows.iter().filter(|row| row.saturated);
    let late: Vec<String> = late.map(|row| title(row, rows)).collect();
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

/// What a row of `rows` is called: its layer, and its drive and workload where there are several.
fn title(row: &Row, rows: &[Row]) -> String {
    let mut title = row.layer.clone();
    if rows.iter().any(|other| other.drive != row.drive) {
        title = format!("{title} on {}", row.drive);
    }
    if rows.iter().any(|other| other.workload != row.workload) {
        title = format!("{title} under {}", row.workload);
    }
    title
}

/// What a layer did to the drive's work.
fn verdict(row: &Row, rows: &[Row]) -> Option<String> {
    let (ratio, memory) = (row.busy_ratio?, bytes(row.map_bytes));
    let (layer, less) = (title(row, rows), 1.0 / ratio);
    (row.layer != "passthrough").then(|| match ratio {
        ..CLEARLY_LESS => {
            format!("{layer} divides the drive's work by {less:.2}; its map takes {memory}.")
        }
        _ => format!(
            "{layer} does not pay here: the drive works {ratio:.2} times as long as without it, \
             and its map takes {memory}."
        ),
    })
}
