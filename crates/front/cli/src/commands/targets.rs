//! `hostftl targets`: several layers on one raw drive.

use std::path::PathBuf;

use comfy_table::{CellAlignment, Table, presets};
use hostftl_sim::{TargetRow, TargetsFile, run_targets};

use crate::console::Console;
use crate::failure::Failure;
use crate::units;

/// Simulate several layers on one raw drive, each on its own parallel units
///
/// The file has `drive = "open-channel"` and a table `[[target]]` for each target with `pus =
/// "0-3"`, `layer = "pblk"` and its load: `requests`, `write_percent`, `kib`, `depth`.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl targets targets.toml")]
pub(crate) struct Args {
    /// TOML file with the drive and its targets
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the targets and prints a row for each.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let name = args.file.display();
    let wrong = |why: String| Failure::failed(format!("{name}: {why}"));
    let text = hostftl_core::files::read_text(&args.file);
    let text = text.map_err(|error| wrong(format!("cannot read it: {error}")))?;
    let file = TargetsFile::parse(&text).map_err(wrong)?;
    let rows = run_targets(&file, args.seed).map_err(wrong)?;
    if console.is_json() {
        return console.value(&rows);
    }
    console.paragraph(&format!("On {}, with a host for each target:", file.drive))?;
    console.lines(console.fit(table(&file, &rows)))?;
    console.line("")?;
    console.paragraph(
        "Each target was filled first. Latencies cover all requests of its host; a host without a \
         number of requests runs until the others are done. Collected: lines (pblk) or segments \
         (rrpc) that garbage collection reclaimed.",
    )
}

fn table(file: &TargetsFile, rows: &[TargetRow]) -> Table {
    let mut table = Table::new();
    table.load_style(presets::UTF8_HORIZONTAL_ONLY.row_separator(presets::NOTHING.top_border));
    let heads =
        ["units", "layer", "host", "requests", "collected", "p50", "p99", "p99.9", "longest"];
    table.set_header(heads);
    for (target, row) in file.targets.iter().zip(rows) {
        let host = match (target.depth, target.write_percent) {
            (0, _) => "none".into(),
            (depth, 0) => format!("reads {} KiB, {depth} at once", target.kib),
            (depth, 100) => format!("writes {} KiB, {depth} at once", target.kib),
            (depth, writes) => format!("{} KiB, {writes} % writes, {depth} at once", target.kib),
        };
        let (requests, runs) = (units::count(row.requests), units::count(row.gc_runs));
        let times = [row.p50_ns, row.p99_ns, row.p999_ns, row.max_ns].map(units::nanos);
        let words = [row.pus.clone(), row.layer.clone(), host];
        table.add_row(words.into_iter().chain([requests, runs]).chain(times));
    }
    for column in table.column_iter_mut().skip(3) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
