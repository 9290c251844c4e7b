//! `hostftl import`: writes a volume's file again from its devices alone.

use std::path::PathBuf;

use hostftl_volume::{Imported, import};

use crate::console::Console;
use crate::failure::Failure;

/// Write a volume's file again, from its devices alone
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The devices, in any order
    #[arg(required = true)]
    devices: Vec<String>,
    /// The file to write; it must not exist
    #[arg(long, default_value = "volume.toml")]
    output: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// When the devices are not exactly one whole volume, or the file exists.
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
    let note = "a start without a device that belongs to the volume needs `serve --degraded`, once";
    if needs_consent { console.field("note", note) } else { Ok(()) }
}
