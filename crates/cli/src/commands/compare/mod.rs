//! `hostftl compare`: workloads over drives, a row per layer.

mod beside;
mod charts;
mod columns;
mod devices;
mod files;
mod page;
mod progress;
mod report;
mod scale;
mod verdict;

use std::path::PathBuf;

use hostftl_drives::{DeviceSpec, DriveError};
use hostftl_sim::{
    Export, LayerChoice, Load, Outcome, Stack, StackError, Study, StudyError, Warm, default_memory,
};

use crate::console::Console;
use crate::failure::Failure;
use crate::{interrupt, nearest, units};
pub use progress::Progress;
pub use report::{NOTHING, aligned, styled};
pub use scale::years;
pub use verdict::state;

/// The states of a drive that are shown unless the user says otherwise.
const STATES: &str = "new,fill=70%,steady,self=70%";

/// Which layer pays on a workload, and what it costs
///
/// Runs each workload through each layer over a model of each drive, under a virtual clock, with
/// the very code that serves a volume. The same command gives the same digits on every machine.
#[derive(clap::Args)]
pub struct Args {
    /// Traces of any known format, perhaps with options as in FILE:format=msr,dev=0; or workloads
    /// such as synth:uniform:size=4k,span=64m,count=100000 or synth:like:w66,scale=0.01
    #[arg(value_name = "TRACE", required = true)]
    traces: Vec<String>,
    /// Drive models by name or TOML file, with commas between; several devices for one layer as in
    /// 4*tlc and slc-1g+qlc-64k, or as the TOML file of a stack
    #[arg(long = "drive", value_name = "DRIVES", value_delimiter = ',', default_value = "hatl-2g")]
    drives: Vec<String>,
    /// Layers, with commas between, perhaps with parameters as in hard:spare=10; unless given,
    /// those of the stack's file, or none,hard on one device, tier on two unlike ones, the
    /// mirror log:parity=yes on two alike, raid5,log:parity=yes on more
    #[arg(long, value_delimiter = ',', value_parser = layer)]
    layers: Option<Vec<LayerChoice>>,
    /// What the drive holds before the first request, with commas between: new, fill, steady (then
    /// overwritten at random until write amplification settles), self (the workload itself,
    /// repeated until it settles); fill, steady and self perhaps with the share of what is exported
    /// that is written first, as in fill=70%
    #[arg(long, value_name = "STATES", value_delimiter = ',', default_value = STATES)]
    warm: Vec<Warm>,
    /// What the host can address in every row: a size, or a share of what the drive exports; 80%
    /// unless given, 65% of a raw drive's flash
    #[arg(long, value_name = "SIZE|PERCENT", value_parser = export)]
    export: Option<Export>,
    /// Also say what the rows mean for a drive of this capacity, as drives are sold: life in years,
    /// drive writes a day, memory
    #[arg(long, value_name = "CAPACITY", value_parser = units::parse_capacity)]
    scale_to: Option<u64>,
    /// Keep aged stacks in this folder, and take from it those that are there
    #[arg(long, value_name = "FOLDER")]
    warm_cache: Option<PathBuf>,
    /// Keep this many requests outstanding instead of following the trace's times
    #[arg(long, value_name = "QD", value_parser = clap::value_parser!(u32).range(1..=256))]
    closed_loop: Option<u32>,
    /// Pack the addresses that the trace touches densely, so that a large trace fits a small drive
    #[arg(long)]
    compact: bool,
    /// Count bad lines of the trace and leave them out
    #[arg(long)]
    skip_bad: bool,
    /// Fixes everything that is chosen at random
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Rows made at the same time; one per core unless given
    #[arg(long, value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Memory that all rows under way may take; three quarters of what is free unless given
    #[arg(long, value_name = "SIZE", value_parser = units::parse_size)]
    memory: Option<u64>,
    /// Print every table for every drive and workload
    #[arg(long)]
    wide: bool,
    /// Also write the rows to this file, as CSV
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Also write the rows to this file, as Parquet
    #[arg(long, value_name = "FILE")]
    parquet: Option<PathBuf>,
    /// Also write a page with tables and charts to this file; it needs nothing else
    #[arg(long, value_name = "FILE")]
    html: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// When a trace or a drive can't be used, a law does not hold, or the user ended it.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let study = study(args)?;
    let progress = Progress::new(study.rows(), console.is_watched());
    let result = hostftl_sim::compare(&study, &progress);
    progress.clear();
    let outcome = result.map_err(failure)?;
    if outcome.rows.is_empty() && !interrupt::asked() {
        return outcome.whole().map(drop).map_err(failure);
    }
    save(args, &outcome).map_err(|error| Failure::failed(format!("{error:#}")))?;
    let scaled = args.scale_to.map(|capacity| scale::all(&study, &outcome, capacity));
    match (console.is_json(), &scaled) {
        (true, Some(scaled)) => console.value(&scale::json(&outcome, scaled)?)?,
        (true, None) => console.value(&outcome)?,
        (false, _) => report::print(args, &outcome, console)?,
    }
    if let (false, Some(scaled)) = (console.is_json(), &scaled) {
        scale::print(&outcome.rows, scaled, console)?;
    }
    match outcome.holes.iter().find(|hole| hole.is_violation()) {
        Some(hole) => Err(Failure::violation(hole.reason())),
        None if interrupt::asked() => {
            Err(Failure::interrupted("ended by a signal; what was known by then is printed"))
        }
        None => Ok(()),
    }
}

/// Writes the files that were asked for.
fn save(args: &Args, outcome: &Outcome) -> anyhow::Result<()> {
    if let Some(path) = &args.csv {
        files::csv(outcome, path)?;
    }
    if let Some(path) = &args.parquet {
        files::parquet(outcome, path)?;
    }
    match &args.html {
        Some(path) => page::write(outcome, args.seed, &again(), path),
        None => Ok(()),
    }
}

/// The command line of this process, for a shell.
fn again() -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=,+%@".contains(c);
    let quoted = |word: String| match word.chars().all(plain) && !word.is_empty() {
        true => word,
        false => format!("'{}'", word.replace('\'', "'\\''")),
    };
    let words: Vec<String> = std::env::args().skip(1).map(quoted).collect();
    format!("hostftl {}", words.join(" "))
}

fn study(args: &Args) -> Result<Study, Failure> {
    let load = |text: &String| -> Result<Load, Failure> {
        let source = super::trace::source(text, args.skip_bad)?;
        Ok(Load { name: text.clone(), source })
    };
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let drives = args.drives.iter().map(|name| stack(name)).collect::<Result<Vec<_>, _>>()?;
    let layers = args.layers.clone();
    Ok(Study {
        workloads: args.traces.iter().map(load).collect::<Result<_, _>>()?,
        layers: layers.unwrap_or_else(|| usual(&drives)),
        drives,
        warm: args.warm.clone(),
        export: args.export.unwrap_or_default(),
        cache: args.warm_cache.clone(),
        closed_loop: args.closed_loop,
        compact: args.compact,
        seed: args.seed,
        threads: args.threads.map_or(cores, usize::from),
        memory: args.memory.unwrap_or_else(default_memory),
    })
}

/// Reads what is exported, for clap.
pub fn export(text: &str) -> Result<Export, String> {
    let Some(percent) = text.strip_suffix('%') else {
        return units::parse_size(text).map(Export::Bytes);
    };
    let percent = percent.parse::<f64>().ok().filter(|it| (1.0..=100.0).contains(it));
    let wrong = || format!("`{text}` is no share; write a percentage from 1% to 100%, as in 80%");
    percent.map(|it| Export::Share((it * 10.0).round() as u32)).ok_or_else(wrong)
}

/// Reads a layer with its parameters, for clap.
pub fn layer(text: &str) -> Result<LayerChoice, String> {
    match text.split(':').next().unwrap_or_default() {
        "raid5" => {}
        name => drop(super::layer(name)?),
    }
    LayerChoice::parse(text)
}

/// The layers that suit `stacks` when nobody names any: those of their files, or what one takes for
/// so many devices.
fn usual(stacks: &[Stack]) -> Vec<LayerChoice> {
    let mut layers: Vec<LayerChoice> = Vec::new();
    for stack in stacks {
        let suits: &[&str] = match stack.devices.len() {
            1 => &["none", "hard"],
            2 if stack.devices[0] != stack.devices[1] => &["tier"],
            2 => &["log:parity=yes"],
            _ => &["raid5", "log:parity=yes"],
        };
        let suits = suits.iter().map(|text| LayerChoice::parse(text).expect("it is built in"));
        let all = if stack.layers.is_empty() { suits.collect() } else { stack.layers.clone() };
        for layer in all {
            if !layers.iter().any(|known| known.name == layer.name) {
                layers.push(layer);
            }
        }
    }
    layers
}

/// The drive models that `text` means: built-in ones, or files.
pub fn stack(text: &str) -> Result<Stack, Failure> {
    Stack::find(text).map_err(|error| match error {
        StackError::Drive(DriveError::Unknown { name, .. }) => {
            let known: Vec<&str> = DeviceSpec::names().collect();
            let text = nearest::unknown("drive", &name, &known);
            Failure::usage(format!("{text}, or the path of a TOML file"))
        }
        other => Failure::failed(other),
    })
}

/// An error of a study, with its exit code.
pub fn failure(error: StudyError) -> Failure {
    match error {
        StudyError::Violation { .. } => Failure::violation(error),
        _ => Failure::failed(error),
    }
}
