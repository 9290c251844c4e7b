//! `hostftl device`: changes the devices of a volume, and inspects NVMe drives.

use std::path::PathBuf;

use hostftl_volume::{
    AddSpec, Added, AdminRequest, DeviceId, Outcome, ReplaceSpec, Replaced, Returned, add, online,
    operate, operate_here, replace,
};

use crate::commands::copying::Copying;
use crate::commands::{inspect, wait};
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use crate::units::bytes;

/// Add, replace, remove, restore and inspect devices
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl device replace vol.toml 1 /dev/sdd")]
pub(crate) struct Args {
    #[command(subcommand)]
    command: AdminCommand,
}

#[derive(clap::Subcommand)]
enum AdminCommand {
    Inspect(inspect::Args),
    Add(Add),
    Spare(Spare),
    Replace(Replace),
    Remove(Remove),
    Offline(Offline),
    Online(Online),
}

/// Exclude a device of a served volume
///
/// The volume is DEGRADED afterwards. `device online` reverses this.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl device offline vol.toml /dev/sdb")]
struct Offline {
    #[command(flatten)]
    which: Which,
}

/// Restore a device that was lost or offline, or cancel its replacement
///
/// The device is resilvered with the data written since, now or when the volume is next served.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl device online vol.toml /dev/sdb")]
struct Online {
    #[command(flatten)]
    which: Which,
}

#[derive(clap::Args)]
struct Which {
    /// Volume file
    volume: PathBuf,
    /// Device: path, number or UUID, as shown by `hostftl status`
    device: String,
}

/// Add hot spares to a volume with parity or a mirror
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl device spare vol.toml /dev/sde")]
struct Spare {
    #[command(flatten)]
    add: Add,
}

/// Remove a device after moving its data to the other devices
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl device remove vol.toml 2 --wait")]
struct Remove {
    /// Volume file
    volume: PathBuf,
    /// Device: path, number or UUID, as shown by `hostftl status`
    device: String,
    /// Cancel a removal that is in progress
    #[arg(long, conflicts_with_all = ["dry_run", "wait"])]
    cancel: bool,
    /// Check whether the removal is possible, without starting it
    #[arg(long)]
    dry_run: bool,
    /// Wait until the device is removed
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
}

/// Add data devices to a volume
///
/// The export grows at once; clients wait a moment. New stripes use all devices.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl device add vol.toml /dev/sde --dry-run")]
struct Add {
    /// Volume file
    volume: PathBuf,
    /// New devices; missing files are created
    #[arg(required = true)]
    new: Vec<String>,
    /// Overwrite existing data; devices in use are always refused
    #[arg(long)]
    force: bool,
    /// Show the result without writing anything
    #[arg(long)]
    dry_run: bool,
}

/// Replace a device
///
/// A device that still answers is copied; a lost one is rebuilt from the others. Clients may be
/// connected.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl device replace vol.toml 1 /dev/sdd")]
struct Replace {
    /// Volume file
    volume: PathBuf,
    /// Old device: path, number or UUID, as shown by `hostftl status`
    old: String,
    /// New device; a missing file is created
    new: String,
    /// Overwrite existing data; devices in use are always refused
    #[arg(long)]
    force: bool,
    /// Show the result without writing anything
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    match &args.command {
        AdminCommand::Inspect(args) => inspect::run(args, console),
        AdminCommand::Add(args) => run_add(args, false, console),
        AdminCommand::Spare(args) => run_add(&args.add, true, console),
        AdminCommand::Replace(args) => run_replace(args, console),
        AdminCommand::Remove(args) => run_remove(args, console),
        AdminCommand::Offline(Offline { which }) => {
            let request = AdminRequest::Offline(which.device.clone());
            let name = which.volume.display();
            let outcome = match operate(&which.volume, &request)? {
                Some(outcome) => outcome,
                None => {
                    let (running, outcome) = operate_here(&which.volume, &request)?;
                    running.stop()?;
                    outcome
                }
            };
            let number = outcome.device.as_ref().map_or(0, |device| device.number);
            let next = format!("hostftl device online {name} {number}");
            print_change(which, &outcome, "is offline", &next, console)
        }
        AdminCommand::Online(Online { which }) => {
            let (Returned { device, is_new, served, notes }, name) =
                (online(&which.volume, &which.device)?, which.volume.display());
            let next = if served {
                format!("hostftl wait {name}")
            } else {
                format!("hostftl serve {name}")
            };
            let outcome = Outcome { is_new, device: Some(device), notes };
            print_change(which, &outcome, "is online", &next, console)
        }
    }
}

/// Prints a change of a device's state (`is offline`) and the next command.
fn print_change(
    which: &Which,
    Outcome { is_new, device, notes }: &Outcome,
    state: &str,
    next: &str,
    console: &mut Console,
) -> Result<(), Failure> {
    if console.is_json() {
        let rest = serde_json::json!({
            "volume": which.volume, "changed": is_new, "notes": notes, "next": next,
        });
        return console.value(&with_device(device.as_ref(), rest));
    }
    let already = if *is_new { "" } else { " already" };
    let device = device.as_ref().map_or_else(|| which.device.clone(), DeviceId::to_string);
    console.line(format!("{}: {device} {state}{already}", which.volume.display()))?;
    notes.iter().try_for_each(|note| console.field("note", note))?;
    console.field("next", format!("`{next}`"))
}

/// Returns the JSON fields of a device, followed by those of `rest`.
fn with_device(device: Option<&DeviceId>, rest: serde_json::Value) -> serde_json::Value {
    let mut all = serde_json::json!(device.cloned().unwrap_or_default());
    if let (Some(all), serde_json::Value::Object(rest)) = (all.as_object_mut(), rest) {
        all.extend(rest);
    }
    all
}

fn run_remove(args: &Remove, console: &mut Console) -> Result<(), Failure> {
    let (volume, device) = (args.volume.display(), args.device.clone());
    let (request, done, was_so) = match args {
        Remove { cancel: true, .. } => {
            (AdminRequest::Cancel(device), "stays", "was not being removed")
        }
        Remove { dry_run: true, .. } => {
            (AdminRequest::MayRemove(device), "can be removed", "is already being removed")
        }
        _ => (
            AdminRequest::Remove(device),
            "is being removed",
            "is already being removed, or was removed",
        ),
    };
    let show = |Outcome { is_new, device, notes }, console: &mut Console| {
        if console.is_json() {
            let rest = serde_json::json!({
                "volume": args.volume, "changed": is_new && !args.dry_run,
                "dry_run": args.dry_run, "notes": notes,
            });
            console.value(&with_device(device.as_ref(), rest))
        } else {
            let result = if is_new { done } else { was_so };
            let device = device.map_or_else(|| args.device.clone(), |it| it.to_string());
            console.line(format!("{volume}: {device} {result}"))?;
            notes.iter().try_for_each(|note| console.field("note", note))
        }
    };
    let begins = !args.cancel && !args.dry_run;
    if let Some(outcome) = operate(&args.volume, &request)? {
        // A command prints one JSON document: with --wait that of the end.
        if !(args.wait && console.is_json()) {
            show(outcome, console)?;
        }
        if begins && args.wait {
            return wait::served(&args.volume, Some("evacuate"), None, console);
        }
        if begins && !console.is_json() {
            let next = format!("`hostftl wait {volume} evacuate` waits for completion");
            return console.field("next", next);
        }
        return Ok(());
    }
    let (running, outcome) = operate_here(&args.volume, &request)?;
    if !(begins && console.is_json()) {
        show(outcome, console)?;
    }
    if begins {
        wait::here(&args.volume, running, "evacuate", console)
    } else {
        Ok(running.stop().map(|_| ())?)
    }
}

fn run_add(args: &Add, spare: bool, console: &mut Console) -> Result<(), Failure> {
    let (path, new) = (args.volume.clone(), args.new.clone());
    let spec = AddSpec { path, new, force: args.force, spare, rehearse: args.dry_run };
    let Added { devices, exported: (before, after), served, notes } = add(&spec)?;
    let next = if served {
        format!("hostftl status {}", args.volume.display())
    } else {
        format!("hostftl serve {}", args.volume.display())
    };
    if console.is_json() {
        return console.value(&serde_json::json!({
            "volume": args.volume, "devices": devices, "usable_bytes_before": before,
            "usable_bytes": after, "served": served, "dry_run": args.dry_run, "notes": notes,
            "next": next,
        }));
    }
    let command = if args.dry_run { "would be added" } else { "added" };
    let role = if spare { "spare " } else { "" };
    for device in devices {
        let volume = args.volume.display();
        console.line(format!("{volume}: {} {command} as {role}{device}", device.path))?;
    }
    if !spare {
        let (more, before) = (bytes(after - before), bytes(before));
        console.field("usable", format!("{} (was {before}, {more} more)", bytes(after)))?;
    }
    notes.iter().try_for_each(|note| console.field("note", note))?;
    if args.dry_run {
        return console.field("note", "dry run, no changes");
    }
    let size = if spare { "" } else { "; clients see the new size after reconnecting" };
    console.field("next", format!("`{next}`{size}"))
}

fn run_replace(args: &Replace, console: &mut Console) -> Result<(), Failure> {
    let spec = ReplaceSpec {
        path: args.volume.clone(),
        old: args.old.clone(),
        new: args.new.clone(),
        force: args.force,
        rehearse: args.dry_run,
    };
    // After a signal the copy is cancelled, and the old device stays a member.
    interrupt::undo();
    let mut copying = Copying::new(console.is_watched(), "copied");
    let replaced = replace(&spec, &mut |done, all| copying.show(done, all));
    drop(copying);
    let Replaced { old, new, was_lost, copied, copying, lacks, served, notes } = replaced?;
    let volume = args.volume.display();
    let next = match (served, lacks) {
        (true, _) if copying => format!("hostftl wait {volume}"),
        (true, true) => format!("hostftl wait {volume}"),
        (true, false) => format!("hostftl status {volume}"),
        (false, _) => format!("hostftl serve {volume}"),
    };
    if console.is_json() {
        return console.value(&serde_json::json!({
            "volume": args.volume, "device": old.number, "old": old, "new": new,
            "was_lost": was_lost, "copied": copied, "copying": copying, "lacks": lacks,
            "served": served,
            "dry_run": args.dry_run, "notes": notes, "next": next,
        }));
    }
    let command = if args.dry_run { "would replace" } else { "replaces" };
    let when = if copying { " after the copy" } else { "" };
    console.line(format!("{volume}: {} {command} {old}{when}", new.path))?;
    notes.iter().try_for_each(|note| console.field("note", note))?;
    if args.dry_run {
        return console.field("note", "dry run, no changes");
    }
    if copying {
        console.field("copying", "the old device stays a member until the copy is complete")?;
        console.field("next", format!("`{next}` waits for completion"))?;
        let number = old.number;
        return console.field("cancel", format!("`hostftl device online {volume} {number}`"));
    }
    if copied {
        console.field("copied", "complete; the old device is no longer a member")?;
        return console.field("next", format!("`{next}`"));
    }
    if !lacks {
        console.field("rebuild", "not needed: a journal holds no data after a flush")?;
        return console.field("next", format!("`{next}`"));
    }
    let next = if served {
        format!("`{next}` waits for the rebuild")
    } else {
        format!("`{next}` runs the rebuild while serving")
    };
    console.field("next", next)?;
    console.field("then", format!("`hostftl status {volume}` shows the redundancy"))
}
