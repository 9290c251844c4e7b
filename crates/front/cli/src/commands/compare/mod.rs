//! `hostftl compare`: simulates layers under workloads on drive models.

mod beside;
pub(super) mod charts;
mod devices;
mod page;
mod progress;
mod report;
mod scale;
mod seeds;
mod verdict;

use std::path::PathBuf;

use hostftl_frontend::judgement::{Judgement, judge};
use hostftl_frontend::{Question, STATES, Wrong, sheet};
pub(super) use hostftl_frontend::{export, layer, stack};
use hostftl_sim::{Export, HostLoad, LayerSpec, Outcome, Stack, Study, StudyError, Warm};
use serde::Serialize;

use super::layer_limits::LimitArgs;
use super::output::Output;
use crate::console::Console;
use crate::envelope::{self, Envelope};
use crate::failure::Failure;
use crate::{interrupt, units};
pub(super) use page::heat;
pub(super) use progress::Progress;
pub(super) use report::{NOTHING, aligned, styled, times};
pub(super) use scale::life;
pub(super) use verdict::exceeded;

/// Compare layers under a workload on drive models
///
/// Simulates the production code of each layer under a virtual clock. Results are reproducible on
/// every machine.
#[derive(clap::Args)]
#[command(
    after_help = "Example: hostftl compare trace.csv --drive qlc-64k:capacity=2g --layers none,log"
)]
pub(crate) struct Args {
    /// Traces with options, such as FILE:format=msr,dev=0, or workloads
    ///
    /// A workload is, for example, synth:uniform:size=4k,span=64m,count=100000,
    /// synth:like:w66,scale=0.01, kvcache:FILE,token=320k,capacity=1t or an MQSim file
    /// (workload.xml:capacity=29g).
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<String>,
    /// Drive models, comma-separated: names, TOML files or ssdconfig.xml files of MQSim; several
    /// devices as in 4*tlc or slc-1g+qlc-64k
    #[arg(long = "drive", value_name = "DRIVES", value_delimiter = ',', default_value = "hatl-2g")]
    drives: Vec<String>,
    /// Layers with parameters, comma-separated [default: none,hard; tier for two unlike devices,
    /// log:parity=yes for two alike, raid5,log:parity=yes for more]
    #[arg(long, value_delimiter = ',', value_parser = layer)]
    layers: Option<Vec<LayerSpec>>,
    /// Drive states before the first request, comma-separated: new, fill, steady, self
    ///
    /// `fill` writes the export once (fill=70%: a part of it). `steady` then overwrites at random,
    /// and `self` repeats the workload, until write amplification settles.
    #[arg(long, value_name = "STATES", value_delimiter = ',', default_value = STATES)]
    warm: Vec<Warm>,
    /// Export size, or share of the drive [default: 80%, 65% for raw drives]
    #[arg(long, value_name = "SIZE|PERCENT", value_parser = export)]
    export: Option<Export>,
    /// Use a slice of each drive on which the workload's data is this share of the export
    ///
    /// A trace's addresses are then packed densely. Without it the drive is simulated as given.
    #[arg(long, value_name = "PERCENT", value_parser = hostftl_frontend::hot)]
    hot: Option<u16>,
    /// Also show life, drive writes per day and memory for a drive of this capacity
    #[arg(long, value_name = "CAPACITY", value_parser = units::parse_capacity)]
    scale_to: Option<u64>,
    /// Amount that the host writes to that drive: 12TB/day, 200MB/s, 0.3dwpd, or 40x the workload
    #[arg(long, value_name = "LOAD", default_value = "1x", requires = "scale_to")]
    load: HostLoad,
    #[command(flatten)]
    limits: LimitArgs,
    /// Cache aged stacks in this folder
    #[arg(long, value_name = "FOLDER")]
    warm_cache: Option<PathBuf>,
    /// Keep this many requests outstanding and ignore the times of the trace
    #[arg(long, value_name = "QD", value_parser = clap::value_parser!(u32).range(1..=256))]
    closed_loop: Option<u32>,
    /// Renumber the touched addresses densely, so that a large trace fits a small drive
    #[arg(long)]
    compact: bool,
    /// Skip and count bad lines
    #[arg(long)]
    skip_bad: bool,
    /// Random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Repeat each row with this many seeds; shows mean and 95 % interval
    #[arg(long, value_name = "COUNT", default_value_t = 1)]
    #[arg(value_parser = clap::value_parser!(u16).range(1..=1000))]
    seeds: u16,
    /// Number of parallel rows [default: number of cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Memory limit of all parallel rows [default: 3/4 of free memory]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    memory: Option<u64>,
    /// Print all tables
    #[arg(long)]
    wide: bool,
    /// Also write the rows as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Also write the rows as Parquet
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Also write a self-contained HTML page with tables and charts
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    if args.limits.has_life() && args.scale_to.is_none() {
        let why = "--life needs --scale-to: years of life are those of a drive of real size";
        return Err(Failure::usage(why));
    }
    let study = study(args)?;
    let outputs = Outputs::open(args)?;
    let outcomes = outcomes(&study, args, console)?;
    let first = outcomes[0].rows.len();
    let outcome = hostftl_frontend::seeds::merged(outcomes);
    if outcome.rows.is_empty() && !interrupt::asked() {
        return nothing_made(outcome, console);
    }
    let scaled = args.scale_to.map(|bytes| scale::all(&study, &outcome, (bytes, args.load)));
    let scaled = scaled.as_deref();
    let judgements = judge(&outcome.rows, scaled, &args.limits.limits());
    let page = outputs.html.is_some().then(|| {
        let (outcome, judgements, command) = (&outcome, &judgements[..], &envelope::command());
        page::page(&page::Contents { outcome, first, judgements, scaled, command })
    });
    outputs.write(&outcome, page)?;
    match (console.is_json(), scaled) {
        (true, Some(scaled)) => {
            let rows = scale::json(&outcome, scaled)?;
            console.value(&Envelope::new("compare", Rows { rows, judgements }))?;
        }
        (true, None) => {
            console.value(&Envelope::new("compare", Rows { rows: &outcome, judgements }))?;
        }
        (false, _) if args.seeds > 1 => {
            seeds::print(&outcome.rows, console)?;
            let texts = [report::words(&judgements)].into_iter();
            let texts = texts.chain(verdict::sentences(&judgements));
            let texts = texts.chain(verdict::violations(&judgements));
            let texts = texts.chain(report::not_made(&outcome));
            let texts = texts.chain(report::about_states(&outcome));
            texts.collect::<Vec<_>>().iter().try_for_each(|text| console.paragraph(text))?;
        }
        (false, _) => report::print(args, &outcome, &judgements, console)?,
    }
    if !console.is_json() {
        short_segments(&study).iter().try_for_each(|text| console.paragraph(text))?;
    }
    if let (false, Some(scaled)) = (console.is_json(), scaled) {
        scale::print(&outcome.rows, scaled, console)?;
    }
    match Wrong::of_holes(&outcome.holes) {
        Some(wrong) => Err(wrong.into()),
        None if interrupt::asked() => {
            Err(Failure::interrupted("interrupted; partial results printed"))
        }
        None => Ok(()),
    }
}

/// Reports that there is no row: as JSON, or one line for each row if the reasons differ.
fn nothing_made(outcome: Outcome, console: &mut Console) -> Result<(), Failure> {
    let is_shared = outcome.holes.windows(2).all(|two| two[0].reason() == two[1].reason());
    if console.is_json() {
        let judgements = Vec::new();
        console.value(&Envelope::new("compare", Rows { rows: &outcome, judgements }))?;
    } else if !is_shared {
        report::not_made(&outcome).iter().try_for_each(|text| console.paragraph(text))?;
    }
    match Wrong::of_holes(&outcome.holes) {
        Some(wrong) => Err(wrong.into()),
        None => outcome.whole().map(drop).map_err(failure),
    }
}

/// Runs the study with each seed, until Ctrl-C. Returns at least one outcome.
fn outcomes(study: &Study, args: &Args, console: &Console) -> Result<Vec<Outcome>, Failure> {
    let mut outcomes = Vec::new();
    for number in 0..u64::from(args.seeds) {
        let study = Study { seed: args.seed.wrapping_add(number), ..study.clone() };
        let progress = Progress::new(study.rows(), console.is_watched());
        let progress = if number > 0 { progress.again() } else { progress };
        let result = hostftl_sim::compare(&study, &progress);
        progress.clear();
        outcomes.push(result.map_err(failure)?);
        if interrupt::asked() {
            break;
        }
    }
    Ok(outcomes)
}

/// JSON result.
#[derive(Serialize)]
struct Rows<T> {
    rows: T,
    judgements: Vec<Judgement>,
}

/// Output files on the command line.
struct Outputs {
    csv: Option<Output>,
    parquet: Option<Output>,
    html: Option<Output>,
}

impl Outputs {
    fn open(args: &Args) -> Result<Self, Failure> {
        let open = |path: &Option<PathBuf>| path.as_deref().map(Output::open).transpose();
        Ok(Outputs {
            csv: open(&args.csv)?,
            parquet: open(&args.parquet)?,
            html: open(&args.html)?,
        })
    }

    fn write(self, outcome: &Outcome, page: Option<String>) -> Result<(), Failure> {
        if let Some(file) = self.csv {
            file.write(sheet::sheet(outcome).csv().as_bytes())?;
        }
        if let Some(file) = self.parquet {
            file.write(&sheet::parquet(outcome)?)?;
        }
        match (self.html, page) {
            (Some(file), Some(page)) => file.write(page.as_bytes()),
            _ => Ok(()),
        }
    }
}

fn study(args: &Args) -> Result<Study, Failure> {
    let question = Question {
        workloads: args.traces.clone(),
        skip_bad: args.skip_bad,
        drives: args.drives.clone(),
        layers: args.layers.clone(),
        warm: args.warm.clone(),
        export: args.export.unwrap_or_default(),
        cache: args.warm_cache.clone(),
        closed_loop: args.closed_loop,
        hot: args.hot,
        scale_to: args.scale_to,
        compact: args.compact,
        seed: args.seed,
        threads: args.threads,
        memory: args.memory,
    };
    Ok(question.study(&interrupt::asked)?)
}

/// Converts an error of a study, with its exit code.
pub(super) fn failure(error: StudyError) -> Failure {
    Wrong::from(error).into()
}

/// Returns a note for each layer and drive with segments that are shorter than a reclaim unit.
fn short_segments(study: &Study) -> Vec<String> {
    let cells =
        study.drives.iter().flat_map(|drive| study.layers.iter().map(move |it| (drive, it)));
    let note = |(drive, layer): (&Stack, &LayerSpec)| {
        let note = layer.short_segments(drive, study.export)?;
        Some(format!("{} on {}: {note}.", layer.name, drive.name))
    };
    cells.filter_map(note).collect()
}
