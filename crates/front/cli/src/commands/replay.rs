//! `hostftl replay`: repeats a recorded run offline.

use std::path::PathBuf;

use crate::console::Console;
use crate::failure::Failure;
use crate::units::counted;

/// Replay a recording of `serve --record` and compare the behaviour of the layer
///
/// Ends with exit code 3 on a difference.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl replay vol.rec")]
pub(crate) struct Args {
    /// Recording
    file: PathBuf,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let replayed = hostftl_volume::replay(&args.file)?;
    let (ours, theirs) =
        (format!("{:016x}", replayed.digest), format!("{:016x}", replayed.recorded));
    if console.is_json() {
        console.value(&serde_json::json!({
            "layer": replayed.layer,
            "steps": replayed.steps,
            "digest": ours,
            "recorded_digest": theirs,
            "same": replayed.is_same(),
        }))?
    } else {
        let (layer, steps) = (&replayed.layer, counted(replayed.steps, "step"));
        console.line(format!("{}: layer {layer}, {steps}", args.file.display()))?;
        console.field("digest", &ours)?;
    }
    if replayed.is_same() {
        Ok(())
    } else {
        Err(Failure::violation(format!(
            "{}: the recording has digest {theirs}, the replay {ours}; the versions differ, or the \
             layer is not deterministic",
            args.file.display()
        )))
    }
}
