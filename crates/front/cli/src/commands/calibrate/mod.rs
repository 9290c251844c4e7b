//! `hostftl calibrate`: fits a pool of the drive models to the log of a real drive.

mod plan;

use std::path::{Path, PathBuf};

use comfy_table::{CellAlignment, Table, TableStyle, presets};
use hostftl_calibrate::{Calibration, EIGHTHS, Fit, Log, fit, mean_residual, residuals};
use serde_json::json;

use crate::console::Console;
use crate::failure::Failure;
use crate::units::parse_size;

/// A line only between the header and the rows.
const STYLE: TableStyle = presets::UTF8_HORIZONTAL_ONLY.row_separator(presets::NOTHING.top_border);

/// Fit spare, units and victim policy of a drive to its log
///
/// The log has counters of host and media bytes, from an empty drive on: CSV with the header
/// `host_bytes,media_bytes`; JSON outputs in a row of `nvme fdp stats`, or of both `nvme smart-log`
/// and `nvme ocp smart-add-log`; or scrapes in a row of the metrics of `hostftl serve`. These need
/// --capacity. CSV with the header `host_bytes_per_capacity,waf` has one record for each 1/32 of
/// the capacity, with the write amplification of that part. The workload must
/// write each block once per pass in a random order, as synth:permutation does. The first passes
/// are fitted, and the others are compared with the model. Intervals are at 95 %. A log of another
/// shape is refused, with the eighths of a pass that differ.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl calibrate drive.log --capacity 3.84TB")]
pub(crate) struct Args {
    /// Log of the drive
    #[arg(required_unless_present = "plan")]
    log: Option<PathBuf>,
    /// Capacity of the drive, for a log with counters in bytes
    #[arg(long, value_name = "SIZE", value_parser = parse_size)]
    capacity: Option<u64>,
    /// Print a script that makes such a log with fio; nothing is run
    #[arg(long, value_name = "DEVICE", conflicts_with_all = ["log", "capacity", "fit_passes"])]
    plan: Option<String>,
    /// Passes that are fitted, with the one that fills the drive [default: the first 5]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(2..))]
    fit_passes: Option<u16>,
}

/// Passes that are fitted by default.
const FIT_PASSES: usize = 5;

/// Write amplification of the passes that were not fitted, by eighths of a pass.
struct HeldBack {
    real: [f64; EIGHTHS],
    predicted: [f64; EIGHTHS],
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    match (&args.plan, &args.log) {
        (Some(device), _) => console.lines(plan::script(device).trim_end()),
        (None, Some(log)) => calibrate(log, args, console),
        (None, None) => unreachable!("clap requires one of them"),
    }
}

fn calibrate(path: &Path, args: &Args, console: &mut Console) -> Result<(), Failure> {
    let name = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|why| Failure::failed(format!("cannot read {name}: {why}")))?;
    let log = Log::parse(&text, args.capacity)
        .map_err(|why| Failure::failed(format!("{name}: {why}")))?;
    let all = log.passes();
    let passes = args.fit_passes.map_or(all.min(FIT_PASSES), usize::from);
    if passes > all {
        let why = format!("{name}: has {all} passes, fewer than --fit-passes {passes}");
        return Err(Failure::usage(why));
    }
    let found = fit(&log, passes).map_err(|why| Failure::failed(format!("{name}: {why}")))?;
    let rest = (passes < log.passes()).then(|| HeldBack {
        real: log.eighths(passes, log.passes()),
        predicted: found.fit.predict(passes, log.passes()),
    });
    if console.is_json() {
        return console.value(&as_json(&found, rest.as_ref()));
    }
    let shape = &found.fit.shape;
    console.field("policy", shape.gc)?;
    let alpha = &found.alpha;
    console.field("alpha", format!("{:.3} ({:.3} to {:.3})", alpha.value, alpha.from, alpha.to))?;
    console.field("units", units(&found))?;
    if let Some(early) = shape.early {
        let [share, copies] = [100.0 * early.share, early.copies];
        let text = format!("below {share:.1} % free space, {copies:.1} copies per write at most");
        console.field("early collection", text)?;
    }
    console.field("residual", format!("{:.1} % (rms)", 100.0 * found.fit.rms))?;
    console.lines(console.fit(table(&found.fit, rest.as_ref())))
}

fn units(found: &Calibration) -> String {
    match &found.units {
        Some(units) => format!("{} ({} to {})", units.value, units.from, units.to),
        None => String::from("not determined by the log"),
    }
}

fn as_json(found: &Calibration, rest: Option<&HeldBack>) -> serde_json::Value {
    let Calibration { fit: found, alpha, units } = found;
    json!({
        "policy": found.shape.gc.to_string(),
        "alpha": alpha.value,
        "alpha_interval": [alpha.from, alpha.to],
        "units": units.map(|it| it.value),
        "units_interval": units.map(|it| [it.from, it.to]),
        "early_percent": found.shape.early.map(|it| 100.0 * it.share),
        "early_copies": found.shape.early.map(|it| it.copies),
        "rms": found.rms,
        "model": found.model,
        "fitted": found.fitted,
        "held_back": rest.map(|it| it.real),
        "predicted": rest.map(|it| it.predicted),
        "residuals": rest.map(|it| residuals(&it.predicted, &it.real)),
        "mean_residual": rest.map(|it| mean_residual(&it.predicted, &it.real)),
    })
}

fn table(found: &Fit, rest: Option<&HeldBack>) -> Table {
    let mut table = Table::new();
    let heads = (1..=EIGHTHS).map(|it| it.to_string()).chain([String::from("mean")]);
    table.load_style(STYLE).set_header([String::from("eighth of a pass")].into_iter().chain(heads));
    let mut add = |name: &str, cells: &[f64], mean: f64, format: fn(f64) -> String| {
        let cells = cells.iter().chain([&mean]).map(|it| format(*it));
        table.add_row([name.to_owned()].into_iter().chain(cells));
    };
    let mean = |it: &[f64; EIGHTHS]| it.iter().sum::<f64>() / EIGHTHS as f64;
    let waf = |it: f64| format!("{it:.2}");
    let percent = |it: f64| format!("{:+.1} %", 100.0 * it);
    add("fitted passes", &found.fitted, mean(&found.fitted), waf);
    add("model", &found.model, mean(&found.model), waf);
    if let Some(HeldBack { real, predicted }) = rest {
        add("held-back passes", real, mean(real), waf);
        add("predicted", predicted, mean(predicted), waf);
        add("residual", &residuals(predicted, real), mean_residual(predicted, real), percent);
    }
    for column in table.column_iter_mut().skip(1) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
