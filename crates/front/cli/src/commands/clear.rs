//! `hostftl clear`: acknowledges events of a volume.

use std::path::PathBuf;

use crate::console::Console;
use crate::failure::Failure;

/// Acknowledge reported faults of a volume or device
///
/// Resets error counts and reported problems; the events stay. Lasting states, such as a lost
/// device, are not acknowledged.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl clear vol.toml /dev/sdb")]
pub(crate) struct Args {
    /// Volume file
    volume: PathBuf,
    /// Device: path, number or UUID [default: all]
    device: Option<String>,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    hostftl_volume::clear(&args.volume, args.device.as_deref())?;
    let (volume, device) = (args.volume.display(), args.device.as_deref());
    if console.is_json() {
        console.value(&serde_json::json!({"volume": args.volume, "device": device}))
    } else {
        let of = device.map_or(String::new(), |device| format!(" of {device}"));
        console.line(format!("{volume}: events{of} acknowledged"))
    }
}
