//! `hostftl trace`: inspects, converts, records and generates traces.

mod convert;
mod info;
mod progress;
mod record;
mod synth;

use clap::Subcommand;
pub(super) use hostftl_frontend::source;
use hostftl_trace::Notes;

use crate::console::{Console, notice};
use crate::failure::Failure;

/// Inspect, convert, record and generate traces
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl trace info vol.csv.zst")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    Info(info::Args),
    Convert(convert::Args),
    Record(record::Args),
    Synth(synth::Args),
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    match &args.command {
        Command::Info(args) => info::run(args, console),
        Command::Convert(args) => convert::run(args, console),
        Command::Record(args) => record::run(args, console),
        Command::Synth(args) => synth::run(args, console),
    }
}

/// Prints the warnings about a trace on standard error.
pub(super) fn warn(trace: &str, notes: &Notes) {
    notes.warnings().iter().for_each(|text| notice(format_args!("warning: {trace}: {text}")));
}

/// Returns the failure of an interrupted command.
fn interrupted() -> Failure {
    Failure::interrupted("interrupted; partial results printed")
}
