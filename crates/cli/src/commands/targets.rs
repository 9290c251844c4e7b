//! `hostftl targets`: layers side by side on one raw drive.

use std::path::PathBuf;

use hostftl_sim::{TargetsFile, run_targets};

use crate::console::Console;
use crate::failure::Failure;
use crate::units;

/// Runs several layers on one raw drive, each on parallel units of its own: who waits for whom
///
/// The file is TOML: `drive = "open-channel"`, and for each target a table `[[target]]` with `pus =
/// "0-3"`, `layer = "pblk"`, and what its host asks: `requests`, `write_percent`, `kib`, `depth`.
#[derive(clap::Args)]
pub struct Args {
    /// The drive and its targets
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// What all draws begin with
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs them and prints a row for each.
///
/// # Errors
/// When the file can't be read, or says what can't be.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let name = args.file.display();
    let wrong = |why: String| Failure::failed(format!("{name}: {why}"));
    let text = std::fs::read_to_string(&args.file);
    let text = text.map_err(|error| wrong(format!("can't read it: {error}")))?;
    let file = TargetsFile::parse(&text).map_err(wrong)?;
    let rows = run_targets(&file, args.seed).map_err(wrong)?;
    if console.is_json() {
        return console.value(&rows);
    }
    let heads = ["units", "layer", "requests", "collected", "p50", "p99", "p99.9", "longest"];
    console.line(line(heads.map(String::from)))?;
    rows.iter().try_for_each(|row| {
        let times = [row.p50_ns, row.p99_ns, row.p999_ns, row.max_ns].map(units::nanos);
        let [p50, p99, p999, max] = times;
        let (requests, runs) = (units::count(row.requests), units::count(row.gc_runs));
        console.line(line([
            row.pus.clone(),
            row.layer.clone(),
            requests,
            runs,
            p50,
            p99,
            p999,
            max,
        ]))
    })
}

/// Columns of one width, the first two at the left.
fn line(cells: [String; 8]) -> String {
    let [pus, layer, rest @ ..] = cells;
    let rest: Vec<String> = rest.iter().map(|cell| format!("{cell:>10}")).collect();
    format!("{pus:<7} {layer:<14} {}", rest.join(" "))
}
