//! `hostftl replay`: a recorded run once more, offline.

use std::path::PathBuf;

use crate::console::Console;
use crate::failure::Failure;
use crate::units::counted;

/// Run a recording of `serve --record` once more, offline: the layer must do the same again
///
/// Exit code 3 when it does not.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The recording
    file: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// When the recording is damaged or not whole, or the layer did something else this time.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let replayed = hostftl_volume::replay(&args.file)?;
    let (ours, theirs) =
        (format!("{:016x}", replayed.digest), format!("{:016x}", replayed.recorded));
    match console.is_json() {
        true => console.value(&serde_json::json!({
            "layer": replayed.layer,
            "steps": replayed.steps,
            "digest": ours,
            "recorded_digest": theirs,
            "same": replayed.is_same(),
        }))?,
        false => {
            let (layer, steps) = (&replayed.layer, counted(replayed.steps, "step"));
            console.line(format!("{}: layer {layer}, {steps}", args.file.display()))?;
            console.field("digest", &ours)?;
        }
    }
    match replayed.is_same() {
        true => Ok(()),
        false => Err(Failure::violation(format!(
            "{}: the recorded run has digest {theirs}, this one {ours}; it was another version of \
             the layer, or the layer is not deterministic",
            args.file.display()
        ))),
    }
}
