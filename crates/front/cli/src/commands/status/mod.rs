//! `hostftl status`: what a volume is and does.

mod text;

use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use hostftl_volume::Status;

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;

/// How often a watch looks whether it should end.
const LOOK: Duration = Duration::from_millis(50);

/// What a volume is, and what went through it since it was started
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The volume's file
    volume: PathBuf,
    /// Show it again every so many seconds, with what went through in between, until Ctrl-C; one
    /// JSON object each time with --json
    #[arg(long, value_name = "SECONDS", num_args = 0..=1, default_missing_value = "1")]
    watch: Option<f64>,
}

/// Runs the command.
///
/// # Errors
/// When there is no such volume, or it needs a hand.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    match args.watch {
        None => {
            let status = hostftl_volume::status(&args.volume)?;
            show(&status, None, console)?;
            match status.needs_hand.first() {
                None => Ok(()),
                Some(first) => Err(Failure::needs_hand(format!("{}: {first}", status.volume))),
            }
        }
        Some(seconds) if (0.1..=86_400.0).contains(&seconds) => {
            watch(&args.volume, Duration::from_secs_f64(seconds), console)
        }
        Some(_) => Err(Failure::usage("--watch takes 0.1 to 86400 seconds")),
    }
}

/// Shows the status again and again, until the user has enough.
fn watch(volume: &Path, every: Duration, console: &mut Console) -> Result<(), Failure> {
    let mut before: Option<(Instant, Status)> = None;
    let mut due = Instant::now();
    loop {
        let (at, status) = (Instant::now(), hostftl_volume::status(volume)?);
        let since = before.as_ref().map(|(then, before)| (at - *then, before));
        if before.is_some() && !console.is_json() {
            console.line("")?;
        }
        show(&status, since, console)?;
        console.flush()?;
        before = Some((at, status));
        due += every;
        while Instant::now() < due {
            if interrupt::asked() {
                return Ok(());
            }
            thread::sleep(LOOK.min(due.saturating_duration_since(Instant::now())));
        }
    }
}

fn show(
    status: &Status,
    since: Option<(Duration, &Status)>,
    console: &mut Console,
) -> Result<(), Failure> {
    match console.is_json() {
        true => console.value(status),
        false => text::print(status, since, console),
    }
}
