//! `hostftl trace synth`: generates a synthetic trace.

use std::path::PathBuf;

use comfy_table::{Cell, CellAlignment, Table, TableStyle, presets};
use hostftl_trace::{Figure, FigureUnit, Source, Stats, Writer};

use super::progress::Progress;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use crate::units::{bytes, count, counted};

/// A line only between the header and the rows.
const STYLE: TableStyle = presets::UTF8_HORIZONTAL_ONLY.row_separator(presets::NOTHING.top_border);
/// Relative error above which a figure is reported.
const TOLERANCE: f64 = 0.10;

/// Generate a synthetic trace
///
/// The extension selects the format: .csv, .hft or .flat, also with .zst.
#[derive(clap::Args)]
#[command(group(clap::ArgGroup::new("source").required(true)))]
#[command(
    after_help = "Example: hostftl trace synth out.hft --workload zipf:theta=0.99,count=100000"
)]
pub(super) struct Args {
    /// New file; the extension selects the format
    output: PathBuf,
    /// Pattern (uniform, zipf, hotcold, moving, sequential, permutation, mix, drawn) with options,
    /// such as zipf:theta=0.99,size=4k,span=64m,count=100000,read=30,flush=64; several, joined by
    /// `+`, are a mixture
    #[arg(long, group = "source")]
    workload: Option<String>,
    /// Volume (w01 to w106) whose published statistics the trace reproduces
    #[arg(long, group = "source", value_name = "VOLUME")]
    like: Option<String>,
    /// Share of the week of that volume: requests, working set and duration
    #[arg(long, requires = "like")]
    scale: Option<String>,
    /// Number of writes between flushes, with --like
    #[arg(long, requires = "like", value_name = "WRITES")]
    flush: Option<u64>,
    /// Compressibility of writes with --like: a ratio (2.9) or percentage (67%, 20-80%)
    #[arg(long, requires = "like", value_name = "PERCENT")]
    compress: Option<String>,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let source: Source = text(args).parse().map_err(Failure::usage)?;
    let stream = source.open(args.seed, false)?;
    let mut writer = Writer::create(&args.output, stream.extras())?;
    let mut stats = matches!(source, Source::Like(_)).then(Stats::default);
    let mut progress = Progress::new(console.is_watched());
    for record in stream {
        let record = record?;
        writer.write(&record).map_err(Failure::failed)?;
        stats.iter_mut().for_each(|stats| stats.count(&record));
        if progress.step() {
            return Err(Failure::interrupted("interrupted; nothing was written"));
        }
    }
    drop(progress);
    if interrupt::asked() {
        return Err(Failure::interrupted("interrupted; nothing was written"));
    }
    let requests = writer.finish().map_err(Failure::failed)?;
    let figures = match (&source, stats) {
        (Source::Like(like), Some(stats)) => like.figures(&stats.info()),
        _ => Vec::new(),
    };
    report(args, requests, &figures, console)
}

/// Returns the workload in the notation of `compare`.
fn text(args: &Args) -> String {
    let Some(like) = &args.like else {
        let workload = args.workload.as_deref().unwrap_or_default();
        return format!("synth:{}", workload.strip_prefix("synth:").unwrap_or(workload));
    };
    let scale = args.scale.iter().map(|scale| format!(",scale={scale}"));
    let flush = args.flush.iter().map(|flush| format!(",flush={flush}"));
    let compress = args.compress.iter().map(|percent| format!(",compress={percent}"));
    format!("synth:like:volume={like}{}", scale.chain(flush).chain(compress).collect::<String>())
}

/// Formats a figure.
fn shown(unit: FigureUnit, value: f64) -> String {
    match unit {
        FigureUnit::Number => count(value.round() as u64),
        FigureUnit::Bytes => bytes(value.round() as u64),
        FigureUnit::Share => format!("{:.1} %", 100.0 * value),
    }
}

fn report(
    args: &Args,
    requests: u64,
    figures: &[Figure],
    console: &mut Console,
) -> Result<(), Failure> {
    let output = args.output.display().to_string();
    if console.is_json() {
        return console.value(&serde_json::json!({
            "output": output,
            "requests": requests,
            "figures": figures,
        }));
    }
    console.line(format!("{output}: {}", counted(requests, "request")))?;
    if figures.is_empty() {
        return Ok(());
    }
    let mut table = Table::new();
    table.load_style(STYLE);
    let right = |text: String| Cell::new(text).set_alignment(CellAlignment::Right);
    let heads = ["published", "made", "ratio"].map(|head| right(head.to_owned()));
    table.set_header(std::iter::once(Cell::new("")).chain(heads));
    for figure in figures {
        let ratio = format!("{:.2}", figure.made / figure.published);
        let [published, made] = [figure.published, figure.made].map(|it| shown(figure.unit, it));
        table.add_row([Cell::new(figure.name), right(published), right(made), right(ratio)]);
    }
    console.lines(format!("\n{}", console.fit(table)))?;
    let is_off = |figure: &&Figure| figure.error() > TOLERANCE;
    let off: Vec<&str> = figures.iter().filter(is_off).map(|figure| figure.name).collect();
    if off.is_empty() {
        Ok(())
    } else {
        console.paragraph(&format!(
            "More than 10 % off: {}. The published figures of this volume contradict each other, \
             or the scale is too small.",
            off.join(", ")
        ))
    }
}
