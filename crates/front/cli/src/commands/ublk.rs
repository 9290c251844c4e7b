//! `hostftl ublk`: block devices of volumes, including those without a server.

use serde_json::json;

use crate::console::Console;
use crate::failure::Failure;
use crate::units::bytes;

/// List and delete the block devices of `serve --ublk`
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl ublk list")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// List ublk devices and those that wait for a server
    #[command(after_help = "Example: hostftl ublk list --json")]
    List,
    /// Delete a ublk device and its waiting requests; its server ends
    #[command(after_help = "Example: hostftl ublk delete /dev/ublkb0")]
    Delete {
        /// Device or number, such as /dev/ublkb0 or 0
        #[arg(value_parser = number)]
        device: u32,
    },
}

/// Parses the number of a block device.
fn number(text: &str) -> Result<u32, String> {
    let digits = text.strip_prefix("/dev/ublkb").unwrap_or(text);
    digits.parse().map_err(|_| "write /dev/ublkbN or N".into())
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    match args.command {
        Command::List => list(console),
        Command::Delete { device } => {
            let ours = hostftl_serve::list().map_err(Failure::failed)?;
            if !ours.iter().any(|found| found.id == device) {
                let text = format!(
                    "/dev/ublkb{device} is not a device of a volume; see `hostftl ublk list`"
                );
                return Err(Failure::failed(text));
            }
            hostftl_serve::delete(device).map_err(Failure::failed)?;
            if console.is_json() {
                console.value(&json!({ "deleted": format!("/dev/ublkb{device}") }))
            } else {
                console.line(format!("/dev/ublkb{device} deleted"))
            }
        }
    }
}

fn list(console: &mut Console) -> Result<(), Failure> {
    let all = hostftl_serve::list().map_err(Failure::failed)?;
    if console.is_json() {
        let value = |found: &hostftl_serve::BlockDevice| {
            json!({
                "device": found.path, "state": found.state, "orphan": found.is_orphan,
                "bytes": found.bytes, "pid": found.pid, "volume": found.volume,
            })
        };
        return console.value(&all.iter().map(value).collect::<Vec<_>>());
    }
    if all.is_empty() {
        return console.line("no ublk devices");
    }
    for found in &all {
        let by = if found.is_orphan { "was served" } else { "is served" };
        console.line(format!(
            "{}: {}, {}, of the volume whose UUID begins with {}, {by} by process {}",
            found.path,
            found.state,
            bytes(found.bytes),
            found.volume,
            found.pid
        ))?;
    }
    Ok(())
}
