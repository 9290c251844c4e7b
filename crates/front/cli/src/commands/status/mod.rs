//! `hostftl status`: state, redundancy, space and devices of a volume.

pub(super) mod long;
mod summary;
mod watch;

use std::path::PathBuf;
use std::slice;
use std::time::Duration;

use hostftl_volume::Status;

use crate::console::Console;
use crate::failure::Failure;

pub(super) use summary::color;
pub(super) use watch::{Since, watch};

/// Show the state of a volume and its devices
///
/// Ends with exit code 4 if the volume has a problem.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl status vol.toml --watch 5")]
pub(crate) struct Args {
    /// Volume file
    volume: PathBuf,
    /// Also show capacity, memory, traffic, latencies, drives and notes
    #[arg(long)]
    long: bool,
    /// Refresh until Ctrl-C or q, with current rates [interval in seconds, default: 1]
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1")]
    watch: Option<f64>,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    match args.watch {
        None => {
            let status = hostftl_volume::status(&args.volume)?;
            show(&status, args.long, None, console)?;
            match status.problems.first() {
                None => Ok(()),
                Some(first) => Err(Failure::needs_attention(format!("{}: {first}", status.volume))),
            }
        }
        Some(seconds) if (0.1..=86_400.0).contains(&seconds) => {
            let every = Duration::from_secs_f64(seconds);
            watch(slice::from_ref(&args.volume), every, console, |status, since, console| {
                show(status, args.long, since, console)
            })
        }
        Some(_) => Err(Failure::usage("--watch takes 0.1 to 86400 seconds")),
    }
}

/// Shows a status, with rates if there was an earlier one.
fn show(
    status: &Status,
    is_long: bool,
    since: Option<Since<'_>>,
    console: &mut Console,
) -> Result<(), Failure> {
    if console.is_json() {
        return console.value(status);
    }
    summary::print(status, is_long, since, console)?;
    if is_long {
        long::print(status, console)?;
    }
    match since {
        Some(since) => console.field("now", long::rates(status, since)),
        None => Ok(()),
    }
}

/// Shows a status for `hostftl top`: the short form, the load, latencies and the write path.
pub(super) fn show_with_load(
    status: &Status,
    since: Option<Since<'_>>,
    console: &mut Console,
) -> Result<(), Failure> {
    show(status, false, since, console)?;
    if console.is_json() {
        return Ok(());
    }
    long::latencies(status, console)?;
    status.traffic.as_ref().map_or(Ok(()), |traffic| long::traffic(traffic, console))
}
