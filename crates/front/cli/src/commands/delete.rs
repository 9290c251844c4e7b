//! `hostftl delete`: clears the devices of a volume and removes its file.

use std::path::PathBuf;

use super::copying::Copying;
use crate::console::Console;
use crate::failure::Failure;

/// Delete a volume and its data
///
/// Clears its devices and removes the volume file; device files stay and zones become free. Devices
/// that cannot discard are overwritten. Without --force, only shows the effect.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl delete vol.toml --force")]
pub(crate) struct Args {
    /// Volume file
    volume: PathBuf,
    /// Delete the data permanently
    #[arg(long)]
    force: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let mut clearing = Copying::new(console.is_watched(), "cleared");
    let mut show = |done, all| clearing.show(done, all);
    let config = hostftl_volume::delete(&args.volume, args.force, &mut show)?;
    drop(clearing);
    let name = args.volume.display();
    if !args.force {
        return Err(Failure::failed(format!(
            "{name}: not deleted; --force permanently deletes volume {} (layer {}) and its data \
             from {}",
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
