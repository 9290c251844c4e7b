//! `hostftl events`: events of a volume, of this run and earlier ones.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use hostftl_volume::Event;

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;

/// Interval between queries for new events with `--follow`.
const EVERY: Duration = Duration::from_millis(500);
/// Interval between checks for Ctrl-C.
const POLL: Duration = Duration::from_millis(50);

/// Show the events of a volume
///
/// The newest 1024 events are stored beside the volume file and survive restarts. Repairs and
/// failed commands of a device are one event with a count.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl events vol.toml --follow")]
pub(crate) struct Args {
    /// Volume file
    volume: PathBuf,
    /// Show only events after this number
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    since: u64,
    /// Follow new events until Ctrl-C or the end of the server
    #[arg(long)]
    follow: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let mut seen = args.since;
    loop {
        let found = hostftl_volume::events(&args.volume)?;
        let new: Vec<&Event> = found.events.iter().filter(|event| event.number > seen).collect();
        seen = new.last().map_or(seen, |event| event.number);
        match console.is_json() {
            true if args.follow => new.iter().try_for_each(|event| console.value(event))?,
            true => console.value(&new)?,
            false => new.iter().try_for_each(|event| console.line(line(event)))?,
        }
        console.flush()?;
        if !args.follow || !found.served || wait() {
            return Ok(());
        }
    }
}

/// Waits for [`EVERY`]. Returns whether Ctrl-C ended the wait.
fn wait() -> bool {
    for _ in 0..EVERY.as_millis() / POLL.as_millis() {
        if interrupt::asked() {
            return true;
        }
        thread::sleep(POLL);
    }
    false
}

/// Formats an event as one line.
pub(super) fn line(event: &Event) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(event.unix_ms);
    let at = humantime::format_rfc3339_seconds(at);
    format!("{:>5} {at} {:<7} {:<16} {}", event.number, event.level, event.kind, event.line())
}
