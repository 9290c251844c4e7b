//! `hostftl top`: served volumes on a terminal, each second.

use std::path::{Path, PathBuf};
use std::time::Duration;

use hostftl_volume::Status;

use super::{events, status};
use crate::console::Console;
use crate::failure::Failure;

/// Interval between two updates.
const EVERY: Duration = Duration::from_secs(1);
/// Maximum number of events of a volume.
const MAX_EVENTS: usize = 5;

/// Watch served volumes: state, tasks, load, latencies and events
///
/// Refreshes each second until q or Ctrl-C. Latencies and the write path count since the start of
/// the server.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl top vol.toml")]
pub(crate) struct Args {
    /// Volume files [default: all volumes that this user serves on this machine]
    volumes: Vec<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let volumes = if args.volumes.is_empty() { served()? } else { args.volumes.clone() };
    status::watch(&volumes, EVERY, console, |status, since, console| {
        status::show_with_load(status, since, console)?;
        newest_events(status, console)
    })
}

/// Returns the volume files of all served volumes.
fn served() -> Result<Vec<PathBuf>, Failure> {
    let all = hostftl_volume::list()?.into_iter();
    let files = all.filter_map(|it| Some(it.status.ok()?.file?.path.into()));
    let files: Vec<PathBuf> = files.collect();
    if files.is_empty() {
        return Err(Failure::failed("no volumes are served; start one with `hostftl serve`"));
    }
    Ok(files)
}

fn newest_events(status: &Status, console: &mut Console) -> Result<(), Failure> {
    if console.is_json() {
        return Ok(());
    }
    let path = status.file.as_ref().map_or(status.volume.as_str(), |it| it.path.as_str());
    let all = hostftl_volume::events(Path::new(path))?.events;
    let newest = &all[all.len().saturating_sub(MAX_EVENTS)..];
    newest.iter().try_for_each(|event| console.field("event", events::line(event)))
}
