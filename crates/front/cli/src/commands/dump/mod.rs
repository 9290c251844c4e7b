//! `hostftl dump`: shows, backs up and restores the metadata on devices.

mod text;

use std::path::PathBuf;

use hostftl_volume::{BackedUp, RestoreSpec, Restored, back_up, dump, restore};

use crate::commands::output::Output;
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, counted};

/// Show, back up or restore the metadata of a volume
///
/// Shows superblocks, session marks and roots in every copy; reads only and takes no lock.
/// --restore writes superblocks, never over a valid one and never while the volume is served, after
/// recovering the volume in memory and reading a sample of its data.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl dump vol.toml --backup vol.meta")]
pub(crate) struct Args {
    /// Volume file, devices or a backup; with --restore the volume file, or all devices in order
    /// (`missing` for an absent one)
    #[arg(required = true, value_name = "VOLUME|DEVICE")]
    targets: Vec<String>,
    /// Save the valid metadata in this file; it must not exist
    #[arg(long, value_name = "FILE", conflicts_with_all = ["restore", "output"])]
    backup: Option<PathBuf>,
    /// Restore superblocks from this backup where both copies are lost
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    restore: Option<PathBuf>,
    /// Show the result of --restore without writing
    #[arg(long, requires = "restore")]
    dry_run: bool,
    /// Restore although a device holds other data or a data sample is damaged
    #[arg(long, requires = "restore")]
    force: bool,
    /// Write the output to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    match (&args.backup, &args.restore) {
        (Some(path), _) => saved(&back_up(&args.targets, path)?, console),
        (None, Some(path)) => {
            let spec = RestoreSpec {
                backup: path.clone(),
                targets: args.targets.clone(),
                force: args.force,
                rehearse: args.dry_run,
            };
            restored(&restore(&spec)?, args, console)
        }
        (None, None) => show(args, console),
    }
}

fn show(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let output = args.output.as_deref().map(Output::open).transpose()?;
    let dump = dump(&args.targets)?;
    match output {
        Some(output) => {
            let text = if console.is_json() {
                serde_json::to_string_pretty(&dump).map_err(Failure::failed)? + "\n"
            } else {
                text::lines(&dump).join("\n") + "\n"
            };
            output.write(text.as_bytes())?;
        }
        None if console.is_json() => console.value(&dump)?,
        None => text::lines(&dump).iter().try_for_each(|line| console.line(line))?,
    }
    let mut lost = dump.devices.iter().filter(|device| device.superblock().is_none());
    match lost.next() {
        None => Ok(()),
        Some(first) => {
            let more = lost.count();
            let more = if more > 0 { format!(" (and {more} more)") } else { String::new() };
            let why = first.trouble.as_deref().unwrap_or("no valid superblock");
            Err(Failure::needs_attention(format!("{}: {why}{more}", first.name)))
        }
    }
}

fn saved(done: &BackedUp, console: &mut Console) -> Result<(), Failure> {
    if console.is_json() {
        return console.value(done);
    }
    let devices = counted(done.devices.len() as u64, "device");
    let size = bytes(done.bytes);
    console.line(format!("wrote {}: {devices} of volume {}, {size}", done.backup, done.volume))?;
    done.devices.iter().try_for_each(|device| console.field("device", device))?;
    done.left_out.iter().try_for_each(|why| console.field("skipped", why))
}

fn restored(done: &Restored, args: &Args, console: &mut Console) -> Result<(), Failure> {
    if console.is_json() {
        return console.value(done);
    }
    let rehearsed = args.dry_run;
    let new = done.devices.iter().filter(|it| it.is_new).count() as u64;
    let result = if rehearsed { "would be written" } else { "written" };
    console.line(format!(
        "volume {}: superblocks of {} {result}",
        done.volume,
        counted(new, "device")
    ))?;
    for it in &done.devices {
        let state = if it.is_new { result } else { "valid, unchanged" };
        let (index, name, generation) = (it.index, &it.name, it.generation);
        console.field("device", format!("{index} ({name}): {state}, generation {generation}"))?;
    }
    if new > 0 {
        let read = bytes(done.sample_bytes);
        console.field("rehearsal", format!("recovered in memory, {read} of its data read"))?;
    }
    done.notes.iter().try_for_each(|note| console.field("note", note))?;
    if rehearsed || new == 0 {
        return Ok(());
    }
    let next = match args.targets.as_slice() {
        [volume] if done.devices.iter().all(|it| it.name != *volume) => {
            format!("verify with `hostftl check --data {volume}`, then serve it")
        }
        devices => {
            let there: Vec<_> = devices.iter().filter(|it| *it != "missing").cloned().collect();
            let import = format!("hostftl import {}", there.join(" "));
            format!(
                "recreate the volume file with `{import} --output VOLUME`, then check and serve"
            )
        }
    };
    console.field("next", next)
}
