//! `hostftl check`: is everything on the devices as it should be?

use std::path::PathBuf;

use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, count};

/// Check a volume that is not served: superblocks, recovery, and the layer's invariants
///
/// Recovery runs as it would when the volume is served, but in memory: nothing is written. Exit
/// code 3 when something is wrong.
#[derive(clap::Args)]
pub struct Args {
    /// The volume's file
    volume: PathBuf,
    /// Look also without members that are not there; they stay members
    #[arg(long)]
    degraded: bool,
}

/// Runs the command.
///
/// # Errors
/// When the volume can't be opened, or something is wrong with it.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let checked = hostftl_volume::check_with(&args.volume, args.degraded)?;
    if console.is_json() {
        console.value(&checked)?;
    } else {
        let verdict = if checked.problems.is_empty() { "sound" } else { "DAMAGED" };
        let size = bytes(checked.exported_bytes);
        console.line(format!("{}: {verdict}, layer {}, {size}", checked.volume, checked.layer))?;
        if checked.log_writes_replayed + checked.log_writes_dropped > 0 {
            let replayed = count(checked.log_writes_replayed);
            let dropped = count(checked.log_writes_dropped);
            let text = format!("{replayed} log writes applied, {dropped} unfinished ones dropped");
            console.field("recovery", text)?;
        }
        checked.problems.iter().try_for_each(|problem| console.field("problem", problem))?;
        checked.notes.iter().try_for_each(|note| console.field("note", note))?;
    }
    match checked.problems.first() {
        None => Ok(()),
        Some(first) => Err(Failure::violation(format!(
            "{}: {first} ({} problems in all)",
            checked.volume,
            checked.problems.len()
        ))),
    }
}
