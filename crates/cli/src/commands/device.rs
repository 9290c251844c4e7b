//! `hostftl device`: changes which devices a volume has.

use std::path::PathBuf;

use hostftl_volume::{ReplaceSpec, Replaced, replace};

use crate::console::Console;
use crate::failure::Failure;

/// Change which devices a volume has
#[derive(clap::Args)]
pub struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Replace(Replace),
}

/// Put another device in the place of one of a volume that is not served; what it lacks is made
/// from the others while the volume is served
#[derive(clap::Args)]
struct Replace {
    /// The volume's file
    volume: PathBuf,
    /// The device that goes: its name in the volume's file, or its number there
    old: String,
    /// The device that comes; a file that does not exist is made, as large as is needed
    new: String,
    /// Take a device that holds something; one that is in use is refused all the same
    #[arg(long)]
    force: bool,
    /// Say what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
///
/// # Errors
/// When the volume is served, or the change can't be made; nothing was changed then.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let Verb::Replace(args) = &args.verb;
    let spec = ReplaceSpec {
        path: args.volume.clone(),
        old: args.old.clone(),
        new: args.new.clone(),
        force: args.force,
        rehearse: args.dry_run,
    };
    let Replaced { index, old, new, was_lost, notes } = replace(&spec)?;
    let next = format!("hostftl serve {}", args.volume.display());
    if console.is_json() {
        return console.value(&serde_json::json!({
            "volume": args.volume, "device": index, "old": old, "new": new, "was_lost": was_lost,
            "dry_run": args.dry_run, "notes": notes, "next": next,
        }));
    }
    let verb = if args.dry_run { "would take" } else { "takes" };
    console.line(format!(
        "{}: {new} {verb} the place of device {index} ({old})",
        spec.path.display()
    ))?;
    notes.iter().try_for_each(|note| console.field("note", note))?;
    if args.dry_run {
        return console.field("note", "nothing was written");
    }
    console.field("next", format!("`{next}` makes what it lacks while it serves"))?;
    console.field(
        "then",
        format!("`hostftl status {}` says what is exposed yet", args.volume.display()),
    )
}
