//! `hostftl status`: state, redundancy, space and devices of a volume.

mod long;
mod summary;

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

use hostftl_volume::Status;

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;

pub(super) use summary::color;

/// Interval at which `--watch` checks for Ctrl-C.
const POLL: Duration = Duration::from_millis(50);

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
    /// Refresh until Ctrl-C, with current rates [interval in seconds, default: 1]
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
            watch(args, Duration::from_secs_f64(seconds), console)
        }
        Some(_) => Err(Failure::usage("--watch takes 0.1 to 86400 seconds")),
    }
}

/// Shows the status repeatedly until Ctrl-C; a terminal is redrawn.
fn watch(args: &Args, every: Duration, console: &mut Console) -> Result<(), Failure> {
    let mut before: Option<(Instant, Status)> = None;
    let mut due = Instant::now();
    loop {
        let (at, status) = (Instant::now(), hostftl_volume::status(&args.volume)?);
        let since = before.as_ref().map(|(then, before)| (at - *then, before));
        match (console.is_json(), console.is_terminal()) {
            (true, _) => {}
            (false, true) => console.clear()?,
            (false, false) if before.is_some() => console.line("")?,
            (false, false) => {}
        }
        show(&status, args.long, since, console)?;
        console.flush()?;
        before = Some((at, status));
        due += every;
        while Instant::now() < due {
            if interrupt::asked() {
                return Ok(());
            }
            thread::sleep(POLL.min(due.saturating_duration_since(Instant::now())));
        }
    }
}

fn show(
    status: &Status,
    is_long: bool,
    since: Option<(Duration, &Status)>,
    console: &mut Console,
) -> Result<(), Failure> {
    if console.is_json() {
        return console.value(status);
    }
    summary::print(status, is_long, console)?;
    if is_long {
        long::print(status, console)?;
    }
    match since {
        Some((time, before)) => console.field("now", long::rates(status, before, time)),
        None => Ok(()),
    }
}
