//! `hostftl compare`: one workload over one drive, a row per layer.

mod progress;
mod report;

use clap::ValueEnum;
use hostftl_drives::{DriveError, DriveSpec};
use hostftl_layers::LayerKind;
use hostftl_sim::{Study, StudyError, Warm};

use crate::console::Console;
use crate::failure::Failure;
use crate::{interrupt, nearest};
use progress::Progress;

/// Which layer pays on a workload, and what it costs
///
/// Runs the workload through each layer over a model of the drive, under a virtual clock, with the
/// very code that serves a volume. The same command gives the same digits on every machine.
#[derive(clap::Args)]
pub struct Args {
    /// A trace of any known format, perhaps with options as in FILE:format=msr,dev=0; or a workload
    /// such as synth:uniform:size=4k,span=64m,count=100000 or synth:like:w66,scale=0.01
    trace: String,
    /// A drive model by name, or a TOML file
    #[arg(long, default_value = "hatl-2g")]
    drive: String,
    /// Layers, with commas between
    #[arg(long, value_delimiter = ',', value_parser = super::layer, default_value = "none,hard")]
    layers: Vec<LayerKind>,
    /// What the drive holds before the first request
    #[arg(long, value_enum, default_value_t = Before::None)]
    warm: Before,
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
}

/// What the drive holds before the first request.
#[derive(Clone, Copy, ValueEnum)]
enum Before {
    /// Nothing: a new drive
    None,
    /// Everything it exports, written once in order
    Fill,
    /// The same, then random overwrites until write amplification settles
    Steady,
}

impl From<Before> for Warm {
    fn from(before: Before) -> Warm {
        match before {
            Before::None => Warm::None,
            Before::Fill => Warm::Fill,
            Before::Steady => Warm::Steady,
        }
    }
}

/// Runs the command.
///
/// # Errors
/// When the trace or the drive can't be used, a law does not hold, or the user ended it.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let workload = super::trace::source(&args.trace, args.skip_bad)?;
    let study = Study {
        workload,
        drive: drive(&args.drive)?,
        layers: args.layers.clone(),
        warm: args.warm.into(),
        closed_loop: args.closed_loop,
        compact: args.compact,
        seed: args.seed,
    };
    let names = args.layers.iter().map(|kind| kind.name()).collect();
    let mut progress = Progress::new(names, console.is_watched());
    let result = hostftl_sim::compare(&study, &mut progress);
    progress.clear();
    let rows = result.map_err(failure)?;
    match console.is_json() {
        true => console.value(&rows)?,
        false => report::print(args, &rows, console)?,
    }
    match interrupt::asked() {
        true => Err(Failure::interrupted("ended by a signal; what was known by then is printed")),
        false => Ok(()),
    }
}

/// The drive model that `name` means: a built-in one, or a file.
fn drive(name: &str) -> Result<DriveSpec, Failure> {
    DriveSpec::find(name).map_err(|error| match error {
        DriveError::Unknown { name, .. } => {
            let known: Vec<&str> = DriveSpec::names().collect();
            let text = nearest::unknown("drive", &name, &known);
            Failure::usage(format!("{text}, or the path of a TOML file"))
        }
        other => Failure::failed(other),
    })
}

fn failure(error: StudyError) -> Failure {
    match error {
        StudyError::Violation { .. } => Failure::violation(error),
        _ => Failure::failed(error),
    }
}
