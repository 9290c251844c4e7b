//! `hostftl events`: what happened to a volume since it was started.

use std::path::PathBuf;
use std::thread;
use std::time::{Duration, UNIX_EPOCH};

use hostftl_volume::Event;

use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;

/// How often a served volume is asked for more.
const EVERY: Duration = Duration::from_millis(500);
/// How often to look whether the user has enough.
const LOOK: Duration = Duration::from_millis(50);

/// What happened to a served volume since it was started: faults, recoveries, clients
///
/// The process that serves the volume keeps the newest 1024; its standard error has all of them.
#[derive(clap::Args)]
pub struct Args {
    /// The volume's file
    volume: PathBuf,
    /// Only events with a number above this one
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    since: u64,
    /// Go on until Ctrl-C, or until the volume is not served any more
    #[arg(long)]
    follow: bool,
}

/// Runs the command.
///
/// # Errors
/// When the volume is not served.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let mut seen = args.since;
    let mut found = ask(args)?.ok_or_else(|| {
        let volume = args.volume.display();
        Failure::failed(format!("{volume}: it is not served, so nobody keeps its events"))
    })?;
    loop {
        // A volume that was started again counts from 1 again.
        if found.last().is_some_and(|event| event.number < seen) && args.follow {
            seen = 0;
        }
        let new: Vec<&Event> = found.iter().filter(|event| event.number > seen).collect();
        seen = new.last().map_or(seen, |event| event.number);
        match console.is_json() {
            true if args.follow => new.iter().try_for_each(|event| console.value(event))?,
            true => console.value(&new)?,
            false => new.iter().try_for_each(|event| console.line(line(event)))?,
        }
        console.flush()?;
        if !args.follow || wait() {
            return Ok(());
        }
        let Some(more) = ask(args)? else { return Ok(()) };
        found = more;
    }
}

fn ask(args: &Args) -> Result<Option<Vec<Event>>, Failure> {
    Ok(hostftl_volume::events(&args.volume)?)
}

/// Waits a while; whether the user has enough.
fn wait() -> bool {
    for _ in 0..EVERY.as_millis() / LOOK.as_millis() {
        if interrupt::asked() {
            return true;
        }
        thread::sleep(LOOK);
    }
    false
}

fn line(event: &Event) -> String {
    let at = UNIX_EPOCH + Duration::from_millis(event.unix_ms);
    let at = humantime::format_rfc3339_seconds(at);
    format!("{:>5} {at} {:<7} {:<16} {}", event.number, event.level, event.kind, event.text)
}
