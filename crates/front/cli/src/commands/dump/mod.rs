//! `hostftl dump`: what stands on devices beside the data, a backup of that, and superblocks again
//! from such a backup.

mod text;

use std::path::PathBuf;

use hostftl_volume::{BackedUp, RestoreSpec, Restored, back_up, dump, restore};

use crate::commands::output::Output;
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, counted};

/// What superblocks, session marks and roots say, in every copy; a backup of them
///
/// Nothing is changed and nothing is locked, so a volume may be served meanwhile. With --backup
/// what is sound is saved bit for bit in a file, which dump shows as well. With --restore
/// superblocks are written again on devices that have lost both copies: never over one that can be
/// used, never while the volume is served, and after the volume was recovered in memory with them
/// and a sample of its data was read. Roots and data are never written.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// The volume's file, devices, or a backup; for --restore the volume's file, or all devices in
    /// their order, with `missing` for one that is not there
    #[arg(required = true, value_name = "VOLUME|DEVICE")]
    targets: Vec<String>,
    /// Save what is sound in this file; it must not exist
    #[arg(long, value_name = "FILE", conflicts_with_all = ["restore", "output"])]
    backup: Option<PathBuf>,
    /// Write superblocks again from this backup, where both copies are lost
    #[arg(long, value_name = "FILE", conflicts_with = "output")]
    restore: Option<PathBuf>,
    /// Only say what --restore would do
    #[arg(long, requires = "restore")]
    dry_run: bool,
    /// Also where a device holds something else by now, or a sample of the data is damaged
    #[arg(long, requires = "restore")]
    force: bool,
    /// Write what is shown to this file
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
}

/// Runs the command.
///
/// # Errors
/// When nothing of a volume is there, or what is wanted can't be done.
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
            let text = match console.is_json() {
                true => serde_json::to_string_pretty(&dump).map_err(Failure::failed)? + "\n",
                false => text::lines(&dump).join("\n") + "\n",
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
            let why = first.trouble.as_deref().unwrap_or("no superblock that can be used");
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
    done.left_out.iter().try_for_each(|why| console.field("left out", why))
}

fn restored(done: &Restored, args: &Args, console: &mut Console) -> Result<(), Failure> {
    if console.is_json() {
        return console.value(done);
    }
    let rehearsed = args.dry_run;
    let new = done.devices.iter().filter(|it| it.is_new).count() as u64;
    let did = if rehearsed { "would be written" } else { "written" };
    console.line(format!(
        "volume {}: superblocks of {} {did}",
        done.volume,
        counted(new, "device")
    ))?;
    for it in &done.devices {
        let state = if it.is_new { did } else { "sound, left as it is" };
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
            format!("`hostftl check --data {volume}` reads everything; then serve it")
        }
        devices => {
            let there: Vec<_> = devices.iter().filter(|it| *it != "missing").cloned().collect();
            let import = format!("hostftl import {}", there.join(" "));
            format!("`{import} --output VOLUME` writes the volume's file; then check --data, serve")
        }
    };
    console.field("next", next)
}
