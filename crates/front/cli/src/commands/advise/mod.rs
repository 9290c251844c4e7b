//! `hostftl advise`: recommends a layer for a workload on a drive, or none.

pub(super) mod device;
mod page;
mod progress;
mod table;
mod text;

use std::path::PathBuf;

use hostftl_frontend::advise::{self, Request, Round};
use hostftl_frontend::{Wrong, units};
use hostftl_sim::{Export, HostLoad, LayerSpec, Outcome, Study, Warm};

use super::layer_limits::LimitArgs;
use super::output::Output;
use crate::console::{Console, notice};
use crate::envelope::{self, Envelope};
use crate::failure::Failure;
use crate::interrupt;
use progress::Progress;

/// Recommend a layer for a workload on a drive, or none
///
/// Simulates each layer on the drive model, filled and aged by the workload, and recommends the
/// layer with the least flash wear within the limits, or none if no layer programs at least 3 %
/// less. Also shows the runner-up, the conditions that would change the result, and its confidence.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl advise trace.csv.zst --drive qlc-64k:capacity=2g")]
pub(crate) struct Args {
    /// Trace with options, such as FILE:compress=2.9, or a workload (synth:...)
    ///
    /// The addresses of a trace are renumbered densely.
    #[arg(value_name = "TRACE")]
    trace: String,
    /// Drive model (name or TOML file); the study runs on a slice of it
    ///
    /// A block device stands for the model with the unit that it reports, and is only queried.
    #[arg(long, value_name = "DRIVE")]
    drive: String,
    /// Share of the export that is data of the workload [default: all of the data]
    #[arg(long, value_name = "PERCENT", value_parser = hostftl_frontend::hot)]
    hot: Option<u16>,
    /// Share of the export that holds data
    #[arg(long, value_name = "PERCENT", default_value = "70%", value_parser = advise::fill)]
    fill: Warm,
    /// Export size, or share of the drive [default: 80%]
    #[arg(long, value_name = "SIZE|PERCENT", value_parser = super::compare::export)]
    export: Option<Export>,
    #[command(flatten)]
    limits: LimitArgs,
    /// Capacity of the drive, if it is not that of the model
    #[arg(long, value_name = "CAPACITY", value_parser = units::parse_capacity)]
    scale_to: Option<u64>,
    /// Amount that the host writes to the drive: 12TB/day, 200MB/s, 0.3dwpd, or 40x the workload
    #[arg(long, value_name = "LOAD", default_value = "1x")]
    load: HostLoad,
    /// Layers to compare, comma-separated [default: all suitable layers, with variants of the best]
    #[arg(long, value_delimiter = ',', value_parser = super::compare::layer)]
    layers: Option<Vec<LayerSpec>>,
    /// Number of seeds that decide between the best two
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    seeds: u16,
    /// First random seed
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Answer in seconds: count wear after brief ageing, and time nothing
    #[arg(long)]
    quick: bool,
    /// Also write a self-contained HTML page
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
    /// Cache aged stacks in this folder
    #[arg(long, value_name = "FOLDER")]
    warm_cache: Option<PathBuf>,
    /// Number of parallel rows [default: number of cores]
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Memory limit of all parallel rows [default: 3/4 of free memory]
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    memory: Option<u64>,
}

impl Args {
    fn request(&self) -> Request {
        Request {
            trace: self.trace.clone(),
            drive: self.drive.clone(),
            fill: self.fill,
            export: self.export.unwrap_or_default(),
            hot: self.hot,
            limits: self.limits.limits(),
            scale_to: self.scale_to,
            load: self.load,
            layers: self.layers.clone(),
            seeds: self.seeds,
            seed: self.seed,
            quick: self.quick,
            cache: self.warm_cache.clone(),
            threads: self.threads,
            memory: self.memory,
        }
    }
}

/// Runs the studies of a round at once.
fn all(studies: &[Study], round: Round, progress: &Progress) -> Result<Vec<Outcome>, Wrong> {
    progress.begin(round, studies.iter().map(Study::rows).sum());
    let result = hostftl_sim::compare_all(studies, progress);
    progress.clear();
    let outcomes = result?;
    if interrupt::asked() {
        Err(Wrong::interrupted("interrupted before there was a result"))
    } else {
        Ok(outcomes)
    }
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let html = args.html.as_deref().map(Output::open).transpose()?;
    let mut request = args.request();
    if let Some(model) = device::model(&args.drive)? {
        notice(format_args!("{}", model.note));
        request.drive = model.name.to_owned();
        request.scale_to = request.scale_to.or(Some(model.capacity));
    }
    let progress = Progress::new(request.rounds(), console.is_watched());
    let mut run = |studies: &[Study], round| all(studies, round, &progress);
    let answer = advise::all(&request, &interrupt::asked, &mut run)?;
    if let Some(html) = html {
        html.write(page::page(&answer, &envelope::command()).as_bytes())?;
    }
    if console.is_json() {
        console.value(&Envelope::new("advise", &answer))?
    } else {
        text::print(&answer, console)?
    }
    match (answer.wrong, answer.verdict) {
        (Some(wrong), _) => {
            let failed = units::counted(answer.failures.len() as u64, "row");
            let text = format!("{failed} behind this advice failed, the first: {}", wrong.text);
            Err(Wrong { text, ..wrong }.into())
        }
        (None, Some(_)) => Ok(()),
        (None, None) => Err(Failure::failed(
            "no layer meets these limits, nor does the drive alone; relax a limit or choose \
             another drive",
        )),
    }
}
