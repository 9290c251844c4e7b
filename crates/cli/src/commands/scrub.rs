//! `hostftl scrub`: reads and checks all that lives on a volume.

use std::path::PathBuf;

use hostftl_volume::{Outcome, Wish, operate, operate_here};

use crate::commands::wait;
use crate::console::Console;
use crate::failure::Failure;

/// Read everything that lives on the devices of a volume, check it, and mend from parity what is
/// damaged
///
/// A volume that is served is checked beside its clients, by the process that serves it. One that
/// is not is opened, checked to the end, and closed.
#[derive(clap::Args)]
pub struct Args {
    /// The volume's file
    volume: PathBuf,
    /// Let the scrub rest where it is
    #[arg(long, group = "what")]
    pause: bool,
    /// Go on with a scrub that rests
    #[arg(long, group = "what")]
    resume: bool,
    /// End the scrub
    #[arg(long, group = "what")]
    stop: bool,
    /// Wait until it is over
    #[arg(long, conflicts_with_all = ["pause", "stop"])]
    wait: bool,
}

/// Runs the command.
///
/// # Errors
/// When the volume's layer can't, or when something was found that can't be mended.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let (wish, done, was_so) = match args {
        Args { pause: true, .. } => (Wish::PauseScrub, "the scrub rests", "it rests already"),
        Args { stop: true, .. } => (Wish::StopScrub, "the scrub is over", "there is none"),
        Args { resume: true, .. } => (Wish::ResumeScrub, "the scrub goes on", "it goes on already"),
        _ => (Wish::Scrub, "the scrub begins", "it goes on already"),
    };
    let volume = args.volume.display();
    let say = |Outcome { is_new }, console: &mut Console| match console.is_json() {
        true if args.wait => Ok(()),
        true => console.value(&serde_json::json!({"volume": args.volume, "changed": is_new})),
        false => console.line(format!("{volume}: {}", if is_new { done } else { was_so })),
    };
    if let Some(outcome) = operate(&args.volume, &wish)? {
        say(outcome, console)?;
        if args.wait {
            return wait::served(&args.volume, Some("scrub"), None, console);
        }
        if !args.pause && !args.stop && !console.is_json() {
            let next = format!("`hostftl wait {volume} scrub` waits for its end");
            return console.field("next", next);
        }
        return Ok(());
    }
    if args.pause || args.stop {
        return Err(Failure::failed(format!("{volume}: it is not served, so no scrub goes on")));
    }
    let (running, outcome) = operate_here(&args.volume, &wish)?;
    if !console.is_json() {
        say(outcome, console)?;
    }
    wait::here(&args.volume, running, "scrub", console)
}
