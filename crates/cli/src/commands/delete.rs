//! `hostftl delete`: takes a volume off its devices.

use std::path::PathBuf;

use crate::console::Console;
use crate::failure::Failure;

/// Take a volume off its devices, and remove its file: what clients wrote is gone
///
/// Devices that are files stay, and zones are free for other volumes.
#[derive(clap::Args)]
pub struct Args {
    /// The volume's file
    volume: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// When the volume is in use, or a device is missing or holds another one.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let config = hostftl_volume::delete(&args.volume)?;
    if console.is_json() {
        return console.value(&serde_json::json!({ "volume": args.volume, "deleted": config }));
    }
    console.line(format!("deleted {}: layer {}", args.volume.display(), config.layer))?;
    console.field("volume", config.uuid)?;
    config.devices.iter().try_for_each(|device| console.field("device", device))
}
