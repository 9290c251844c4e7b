//! `hostftl import`: recreates a volume file from the superblocks of the devices.

use std::path::PathBuf;

use hostftl_volume::{Imported, import};

use crate::console::Console;
use crate::failure::Failure;

/// Recreate a volume file from the devices
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl import /dev/sda /dev/sdb /dev/sdc --output vol.toml")]
pub(crate) struct Args {
    /// Devices of the volume, in any order
    #[arg(required = true)]
    devices: Vec<String>,
    /// File to write; it must not exist
    #[arg(long, default_value = "volume.toml")]
    output: PathBuf,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let Imported { config, needs_consent } = import(&args.devices, &args.output)?;
    if console.is_json() {
        return console.value(&serde_json::json!({
            "volume": args.output, "config": config, "needs_consent": needs_consent,
        }));
    }
    console.line(format!("wrote {}: layer {}", args.output.display(), config.layer))?;
    console.field("volume", config.uuid)?;
    config.devices.iter().try_for_each(|device| console.field("device", device))?;
    let note = "starting without a member needs `serve --degraded` once";
    if needs_consent { console.field("note", note) } else { Ok(()) }
}
