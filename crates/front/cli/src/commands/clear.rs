//! `hostftl clear`: acknowledges events of a volume.

use std::path::PathBuf;

use crate::console::Console;
use crate::failure::Failure;

/// Acknowledge repairs, failed commands and errors that were reported, of a volume or of one device
///
/// The status begins to count again; `hostftl events` keeps the events. A state that lasts, such as
/// a lost device, is not acknowledged.
///
/// Example: hostftl clear vol.toml /dev/sdb
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The volume's file
    volume: PathBuf,
    /// The device: its name in the volume file, or its number there [default: all]
    device: Option<String>,
}

/// Runs the command.
///
/// # Errors
/// When there is no such volume or device, or the acknowledgement can't be made durable.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    hostftl_volume::clear(&args.volume, args.device.as_deref())?;
    let (volume, device) = (args.volume.display(), args.device.as_deref());
    match console.is_json() {
        true => console.value(&serde_json::json!({"volume": args.volume, "device": device})),
        false => {
            let of = device.map_or(String::new(), |device| format!(" of {device}"));
            console.line(format!("{volume}: events{of} acknowledged"))
        }
    }
}
