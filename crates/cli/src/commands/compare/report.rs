//! The rows of a comparison as two tables, and a few lines that explain them.

use comfy_table::{Cell, CellAlignment, ContentArrangement, Table, presets};
use hostftl_sim::{Latency, Row, Study};

use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, count, nanos, three_digits};

/// What stands where there is nothing to say.
const NOTHING: &str = "–";

/// Prints everything.
///
/// # Errors
/// When nobody reads.
pub fn print(study: &Study, rows: &[Row], console: &mut Console) -> Result<(), Failure> {
    let Some(first) = rows.first() else { return Ok(()) };
    console.line(format!(
        "{} over {}: the host writes {}, reads {}, and flushes {} times",
        study.workload,
        first.drive,
        bytes(first.host_write_bytes),
        bytes(first.host_read_bytes),
        count(first.flushes),
    ))?;
    console.line("")?;
    console.line(drive_table(rows))?;
    console.line("")?;
    console.line(host_table(rows))?;
    console.line("")?;
    explain(rows).iter().try_for_each(|line| console.line(line))
}

/// A table with `heads`, whose first column alone is text.
fn table(heads: &[&str], lines: impl Iterator<Item = Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY);
    table.set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(heads.iter().enumerate().map(|(index, head)| cell(index, head)));
    for line in lines {
        table.add_row(line.iter().enumerate().map(|(index, text)| cell(index, text)));
    }
    table
}

fn cell(index: usize, text: &str) -> Cell {
    let side = if index == 0 { CellAlignment::Left } else { CellAlignment::Right };
    Cell::new(text).set_alignment(side)
}

/// What each layer makes the drive do.
fn drive_table(rows: &[Row]) -> Table {
    let heads = [
        "layer",
        "drive busy",
        "vs none",
        "request",
        "copyback",
        "vgc",
        "map",
        "padding",
        "waf layer",
        "waf drive",
        "waf total",
    ];
    table(
        &heads,
        rows.iter().map(|row| {
            let busy = &row.busy_ns;
            let all = busy.total();
            let share = |part: u64| match all {
                0 => NOTHING.to_owned(),
                _ => format!("{:.1} %", 100.0 * part as f64 / all as f64),
            };
            vec![
                row.layer.to_string(),
                nanos(all),
                row.busy_ratio.map_or(NOTHING.into(), |ratio| format!("{ratio:.4}")),
                share(busy.request),
                share(busy.copyback),
                share(busy.vgc),
                share(busy.map),
                share(busy.padding),
                ratio(row.waf_layer),
                ratio(row.waf_drive),
                ratio(row.waf_total),
            ]
        }),
    )
}

/// What the host sees of each layer.
fn host_table(rows: &[Row]) -> Table {
    let heads = [
        "layer",
        "ack",
        "requests/s",
        "read p50",
        "read p99",
        "write p50",
        "write p99",
        "p99.99",
        "map RAM",
        "padding",
        "map log",
        "erases",
    ];
    table(
        &heads,
        rows.iter().map(|row| {
            let of = |latency: &Option<Latency>, pick: fn(&Latency) -> u64| {
                latency.as_ref().map_or(NOTHING.into(), |latency| nanos(pick(latency)))
            };
            vec![
                row.layer.to_string(),
                row.ack.to_string(),
                row.iops.map_or(NOTHING.into(), |iops| count(iops.round() as u64)),
                of(&row.latency_ns.read, |latency| latency.p50),
                of(&row.latency_ns.read, |latency| latency.p99),
                of(&row.latency_ns.write, |latency| latency.p50),
                of(&row.latency_ns.write, |latency| latency.p99),
                of(&row.latency_ns.write, |latency| latency.p9999),
                bytes(row.map_bytes),
                bytes(row.padding_bytes),
                bytes(row.map_bytes_written),
                three_digits(row.erases.mean),
            ]
        }),
    )
}

fn ratio(value: Option<f64>) -> String {
    value.map_or(NOTHING.into(), |value| format!("{value:.3}"))
}

/// What a newcomer needs to read the tables.
fn explain(rows: &[Row]) -> Vec<String> {
    let mut lines = vec![
        "drive busy = time that the flash works, and what for: the host's own data (request), the \
         drive's\nread-modify-writes and collection (copyback), the layer's collection (vgc), its map \
         records, padding."
            .to_owned(),
        "waf = bytes written per byte that the host wrote: by the layer, inside the drive, and in \
         all; half the\nwaf total is twice the life of the drive."
            .to_owned(),
    ];
    if let Some(best) = rows
        .iter()
        .filter(|row| row.busy_ratio.is_some())
        .min_by(|a, b| a.busy_ratio.partial_cmp(&b.busy_ratio).expect("ratios are numbers"))
        && let Some(ratio) = best.busy_ratio.filter(|ratio| *ratio < 1.0)
    {
        lines.push(format!(
            "{} keeps this drive busy {:.1} times less than no layer, for {} of host memory.",
            best.layer,
            1.0 / ratio,
            bytes(best.map_bytes)
        ));
    }
    if rows.iter().any(|row| row.saturated) {
        let names: Vec<&str> =
            rows.iter().filter(|row| row.saturated).map(|row| row.layer).collect();
        lines.push(format!(
            "saturated: {} could not follow the trace's times with 256 requests outstanding, so its \
             latencies say how far behind it fell.",
            names.join(", ")
        ));
    }
    lines
}
