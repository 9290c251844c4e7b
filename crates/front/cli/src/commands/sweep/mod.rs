//! `hostftl sweep`: runs the cells of a plan, in one process or in shards, and collects them.

pub(super) mod table;

use std::path::{Path, PathBuf};

use hostftl_frontend::Wrong;
use hostftl_frontend::sweep::{Cells, Done, Means, Shard, Summary, SweepPlan, Sweeping};
use hostftl_report::Sheet;
use serde::Serialize;

use super::compare::Progress;
use super::output::Output;
use crate::console::Console;
use crate::envelope::Envelope;
use crate::failure::{Failure, code};
use crate::{interrupt, units};

/// Run all combinations of a plan, on one machine or in shards on several
///
/// A plan has lists of traces, drives, layers, warm, export, closed-loop and seeds, and the options
/// compact and skip-bad; {a,b} within a text expands, as in "log:gc={greedy,fifo}". Each
/// combination with one seed is a cell, written atomically to a file of its own. A sweep can be
/// interrupted, resumed and sharded.
#[derive(clap::Args)]
#[command(
    after_help = "Example: hostftl sweep plan.toml --out cells --resume --collect all.parquet"
)]
pub(crate) struct Args {
    /// Plan (TOML)
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Folder for the cells
    #[arg(long, value_name = "FOLDER")]
    out: PathBuf,
    /// Run one shard, such as 3/16
    #[arg(long, value_name = "I/N", default_value_t)]
    shard: Shard,
    /// Use seeds 1 to COUNT instead of those of the plan
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: Option<u64>,
    /// Keep existing cells and run the others
    #[arg(long)]
    resume: bool,
    /// Then collect all cells in this file (.parquet or .csv)
    #[arg(long, value_name = "FILE")]
    collect: Option<PathBuf>,
    /// Cache aged stacks in this folder
    #[arg(long, value_name = "FOLDER")]
    warm_cache: Option<PathBuf>,
    /// Number of parallel cells [default: number of cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Memory limit of all parallel cells [default: 3/4 of free memory]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    memory: Option<u64>,
}

/// JSON result.
#[derive(Serialize)]
struct Report<'a> {
    cells: usize,
    made: usize,
    kept: usize,
    failed: usize,
    /// Failures of this machine.
    not_here: &'a [String],
    /// Summary of each combination over its seeds, if all cells were collected.
    summary: Option<&'a [Summary]>,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let collected = args.collect.as_deref().map(Output::open).transpose()?;
    if collected.is_some() && args.shard.is_part() {
        return Err(Failure::usage("--collect needs all shards; use --resume without --shard"));
    }
    let format = args.collect.as_deref().map(format).transpose()?;
    let plan = SweepPlan::load(&args.plan).map_err(of_plan)?.with_seeds(args.seeds);
    let means =
        Means { threads: args.threads, memory: args.memory, cache: args.warm_cache.clone() };
    let reading = Progress::new(0, console.is_watched());
    let cells = Cells::open(&args.out)?;
    let sweeping = Sweeping::open(plan, &means, &reading).map_err(of_plan)?;
    let wanted =
        if args.resume { sweeping.missing(args.shard, &cells) } else { sweeping.of(args.shard) };
    let progress = Progress::new(wanted.len(), console.is_watched()).again();
    let mut done = sweeping.make(&wanted, &progress, &|name, bytes| cells.keep(name, &bytes));
    progress.clear();
    done.kept = sweeping.of(args.shard).len() - wanted.len();
    if let Some(wrong) = done.unkept.take() {
        return Err(wrong.into());
    }
    let is_whole = !interrupt::asked() && done.not_here.is_empty();
    let mut summary = None;
    if let (Some(output), Some(format), true) = (collected, format, is_whole) {
        let (sheet, summaries) = sweeping.collect(&cells)?;
        output.write(&format(&sheet)?)?;
        summary = Some(summaries);
    }
    report(args, &done, summary.as_deref(), console)?;
    ended(&done)
}

/// Converts an error of a plan. An invalid plan is a failure and not a usage error, because the
/// command line is valid.
fn of_plan(wrong: Wrong) -> Failure {
    let failure = Failure::from(wrong);
    if failure.code == code::USAGE { Failure::failed(failure.text) } else { failure }
}

/// Encoder of a collected sheet.
type Format = fn(&Sheet) -> Result<Vec<u8>, Failure>;

/// Returns the encoder for the extension of a file.
fn format(path: &Path) -> Result<Format, Failure> {
    match path.extension().and_then(|it| it.to_str()) {
        Some("parquet") => {
            Ok(|sheet| sheet.parquet(&hostftl_frontend::program::name()).map_err(Failure::failed))
        }
        Some("csv") => Ok(|sheet| Ok(sheet.csv().into_bytes())),
        _ => Err(Failure::usage(format!(
            "{}: --collect needs a file name that ends in .parquet or .csv",
            path.display()
        ))),
    }
}

/// Prints the numbers of cells and the summary.
fn report(
    args: &Args,
    done: &Done,
    summary: Option<&[Summary]>,
    console: &mut Console,
) -> Result<(), Failure> {
    let Done { cells, made, kept, failed, not_here, .. } = done;
    let (cells, made, kept, failed) = (*cells, *made, *kept, *failed);
    if console.is_json() {
        let report = Report { cells, made, kept, failed, not_here, summary };
        return console.value(&Envelope::new("sweep", report));
    }
    let folder = args.out.display();
    let of = if args.shard.is_part() {
        format!(", shard {} of them", args.shard)
    } else {
        String::new()
    };
    console.line(format!(
        "{} in {folder}{of}: {made} made, {kept} present before, {failed} impossible",
        units::counted(cells as u64, "cell")
    ))?;
    not_here.iter().try_for_each(|why| console.paragraph(&format!("Not run here: {why}")))?;
    if let Some(summary) = summary {
        table::print(summary, console)?;
    }
    Ok(())
}

/// Returns the exit status of the command.
fn ended(done: &Done) -> Result<(), Failure> {
    if let Some(why) = &done.violation {
        return Err(Failure::violation(why));
    }
    if interrupt::asked() {
        let left = done.wanted - done.made - done.not_here.len();
        return Err(Failure::interrupted(format!(
            "interrupted; {} left, run again with --resume",
            units::counted(left as u64, "cell")
        )));
    }
    match done.not_here.first() {
        Some(why) => Err(Failure::failed(format!(
            "{} could not be run here, the first: {why}",
            units::counted(done.not_here.len() as u64, "cell")
        ))),
        None => Ok(()),
    }
}
