//! `hostftl scrub`: verifies all valid data of a volume.

use std::path::PathBuf;

use hostftl_volume::{AdminRequest, Outcome, operate, operate_here};

use crate::commands::wait;
use crate::console::Console;
use crate::failure::Failure;

/// Verify all valid data of a volume and repair damage from parity
///
/// A served volume is scrubbed by its server while clients are connected. Otherwise this command
/// opens the volume, scrubs it and closes it. Repairs are durable when the scrub is reported
/// complete.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl scrub vol.toml --wait")]
pub(crate) struct Args {
    /// Volume file
    volume: PathBuf,
    /// Pause the scrub
    #[arg(long, group = "action")]
    pause: bool,
    /// Resume a paused scrub
    #[arg(long, group = "action")]
    resume: bool,
    /// Stop the scrub
    #[arg(long, group = "action")]
    stop: bool,
    /// Wait until the scrub is complete
    #[arg(long, conflicts_with_all = ["pause", "stop"])]
    wait: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let (request, done, was_so) = match args {
        Args { pause: true, .. } => {
            (AdminRequest::PauseScrub, "scrub paused", "scrub already paused")
        }
        Args { stop: true, .. } => {
            (AdminRequest::StopScrub, "scrub stopped", "no scrub is running")
        }
        Args { resume: true, .. } => {
            (AdminRequest::ResumeScrub, "scrub resumed", "scrub already running")
        }
        _ => (AdminRequest::Scrub, "scrub started", "scrub already running"),
    };
    let volume = args.volume.display();
    let show = |Outcome { is_new, .. }, console: &mut Console| match console.is_json() {
        // A command prints one JSON document: with --wait that of the end.
        true if args.wait => Ok(()),
        true => console.value(&serde_json::json!({"volume": args.volume, "changed": is_new})),
        false => console.line(format!("{volume}: {}", if is_new { done } else { was_so })),
    };
    if let Some(outcome) = operate(&args.volume, &request)? {
        show(outcome, console)?;
        if args.wait {
            return wait::served(&args.volume, Some("scrub"), None, console);
        }
        if !args.pause && !args.stop && !console.is_json() {
            let next = format!("`hostftl wait {volume} scrub` waits for completion");
            return console.field("next", next);
        }
        return Ok(());
    }
    if args.pause || args.stop {
        return Err(Failure::failed(format!("{volume} is not served: no scrub is running")));
    }
    let (running, outcome) = operate_here(&args.volume, &request)?;
    if !console.is_json() {
        show(outcome, console)?;
    }
    wait::here(&args.volume, running, "scrub", console)
}
