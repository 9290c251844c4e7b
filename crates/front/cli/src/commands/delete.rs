//! `hostftl delete`: takes a volume off its devices.

use std::path::PathBuf;

use super::copying::Copying;
use crate::console::Console;
use crate::failure::Failure;

/// Take a volume off its devices, and remove its file: what clients wrote is gone
///
/// Devices read zeros then; those that are files stay, and zones are free for other volumes. Where
/// a device can't be cleared at once this takes as long as writing all of it. Without `--force` it
/// only says what would be deleted.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The volume's file
    volume: PathBuf,
    /// Delete it, for good
    #[arg(long)]
    force: bool,
}

/// Runs the command.
///
/// # Errors
/// When the volume is in use, or a device is missing or holds another one, or without `--force`.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let mut clearing = Copying::new(console.is_watched(), "cleared");
    let mut tell = |done, all| clearing.tell(done, all);
    let config = hostftl_volume::delete(&args.volume, args.force, &mut tell)?;
    drop(clearing);
    let name = args.volume.display();
    if !args.force {
        return Err(Failure::failed(format!(
            "{name}: nothing is deleted: with --force volume {} (layer {}) is deleted from {}, and \
             what clients wrote is gone for good",
            config.uuid,
            config.layer,
            config.devices.join(", ")
        )));
    }
    if console.is_json() {
        return console.value(&serde_json::json!({ "volume": args.volume, "deleted": config }));
    }
    console.line(format!("deleted {name}: layer {}", config.layer))?;
    console.field("volume", config.uuid)?;
    config.devices.iter().try_for_each(|device| console.field("device", device))
}
