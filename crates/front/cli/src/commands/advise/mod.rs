//! `hostftl advise`: which layer to take for a workload on a drive, or none.

mod page;

use std::path::PathBuf;

use hostftl_frontend::advise::{self, Request};
use hostftl_frontend::{Wrong, units};
use hostftl_sim::{Export, HostLoad, LayerChoice, Limits, Outcome, Study, Warm};

use super::compare::Progress;
use crate::console::Console;
use crate::envelope::Envelope;
use crate::failure::Failure;
use crate::interrupt;

/// Which layer to take for a workload on a drive, or none
///
/// Runs the workload through the layers over a model of the drive, which was filled and then aged
/// by the workload itself, and names the one that wears the flash least within the limits: or none,
/// when no layer programs at least 3 % less. Also says what comes next, what would change the
/// answer, and how sure it is.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A trace of any known format, perhaps with options as in FILE:compress=2.9; or a workload,
    /// synth:…; the addresses of a trace are packed densely
    #[arg(value_name = "TRACE")]
    trace: String,
    /// The drive model by name or TOML file; a slice will do, as in qlc-64k:capacity=2g
    #[arg(long, value_name = "DRIVE")]
    drive: String,
    /// The share of what is exported that holds data
    #[arg(long, value_name = "PERCENT", default_value = "70%", value_parser = advise::fill)]
    fill: Warm,
    /// What the host can address: a size, or a share of what the drive exports; 80% unless given
    #[arg(long, value_name = "SIZE|PERCENT", value_parser = super::compare::export)]
    export: Option<Export>,
    /// The most memory that the layer may take
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    ram: Option<u64>,
    /// Shortest life of the drive at this load, as in 5y
    #[arg(long, value_name = "YEARS", value_parser = units::parse_years)]
    life: Option<f64>,
    /// The longest 99th percentile of reads and of writes, as in 5ms
    #[arg(long, value_name = "TIME", value_parser = units::parse_nanos)]
    p99: Option<u64>,
    /// Capacity of the real drive, as drives are sold: for life and memory
    #[arg(long, value_name = "CAPACITY", value_parser = units::parse_capacity)]
    scale_to: Option<u64>,
    /// Amount that the host writes to the drive: 12TB/day, 200MB/s, 0.3dwpd, or 40x the workload
    #[arg(long, value_name = "LOAD", default_value = "1x")]
    load: HostLoad,
    /// The layers to ask, with commas between, perhaps with parameters as in hard:spare=10; all
    /// that suit the drive unless given, and other parameters of those that come near the best; no
    /// layer is asked too
    #[arg(long, value_delimiter = ',', value_parser = super::compare::layer)]
    layers: Option<Vec<LayerChoice>>,
    /// How many seeds decide between the first two
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..=100))]
    seeds: u16,
    /// The first of them
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Keep aged stacks in this folder, and take from it those that are there
    #[arg(long, value_name = "FOLDER")]
    warm_cache: Option<PathBuf>,
    /// Rows made at the same time; one per core unless given
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Memory that all rows under way may take; three quarters of what is free unless given
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
            limits: Limits { memory_bytes: self.ram, p99_ns: self.p99, years: self.life },
            scale_to: self.scale_to,
            load: self.load,
            layers: self.layers.clone(),
            seeds: self.seeds,
            seed: self.seed,
            cache: self.warm_cache.clone(),
            threads: self.threads,
            memory: self.memory,
        }
    }
}

/// Runs a study of an advice; what is noticed about its workload is said once.
fn one(study: &Study, is_first: bool, watched: bool) -> Result<Outcome, Wrong> {
    let progress = Progress::new(study.rows(), watched);
    let progress = if is_first { progress } else { progress.again() };
    let result = hostftl_sim::compare(study, &progress);
    progress.clear();
    let outcome = result?;
    match interrupt::asked() {
        true => Err(Wrong::interrupted("ended by a signal, before there was an answer")),
        false => Ok(outcome),
    }
}

/// Runs the command.
///
/// # Errors
/// When the trace or the drive can't be used, nothing keeps the limits, or the user ended it.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let watched = console.is_watched();
    let mut run = |study: &Study, is_first| one(study, is_first, watched);
    let answer = advise::all(&args.request(), &mut run)?;
    match console.is_json() {
        true => console.value(&Envelope::new("advise", &answer))?,
        false => page::print(&answer, console)?,
    }
    match (answer.wrong, answer.verdict) {
        (Some(wrong), _) => {
            let failed = units::counted(answer.failures.len() as u64, "row");
            let text = format!("{failed} behind this advice failed, the first: {}", wrong.text);
            Err(Wrong { text, ..wrong }.into())
        }
        (None, Some(_)) => Ok(()),
        (None, None) => Err(Failure::failed(
            "nothing keeps these limits, the drive without a layer included: give up one of them, \
             or take another drive",
        )),
    }
}
