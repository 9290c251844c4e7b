//! `hostftl device`: changes which devices a volume has.

use std::path::PathBuf;

use hostftl_volume::{
    AddSpec, Added, Back, DeviceId, Outcome, ReplaceSpec, Replaced, Wish, add, online, operate,
    operate_here, replace,
};

use crate::commands::copying::Copying;
use crate::commands::wait;
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use crate::units::bytes;

/// Change which devices a volume has
#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(clap::Subcommand)]
enum Verb {
    Add(Add),
    Spare(Spare),
    Replace(Replace),
    Remove(Remove),
    Offline(Offline),
    Online(Online),
}

/// Leave a device of a served volume out from now on, as if it had failed
#[derive(clap::Args)]
struct Offline {
    #[command(flatten)]
    which: Which,
}

/// Take a lost device back: it gets what was written since, beside clients, or when the volume is
/// served
#[derive(clap::Args)]
struct Online {
    #[command(flatten)]
    which: Which,
}

#[derive(clap::Args)]
struct Which {
    /// The volume's file
    volume: PathBuf,
    /// The device: a path to it, or its number or UUID, as `hostftl status` shows them
    device: String,
}

/// Give a volume with parity or a mirror devices that take the place of lost ones by themselves,
/// beside clients if the volume is served
#[derive(clap::Args)]
struct Spare {
    #[command(flatten)]
    add: Add,
}

/// Take a device out of a volume: what lies on it moves to the others, beside clients if the volume
/// is served
#[derive(clap::Args)]
struct Remove {
    /// The volume's file
    volume: PathBuf,
    /// The device that goes: a path to it, or its number or UUID, as `hostftl status` shows them
    device: String,
    /// Let it stay after all
    #[arg(long, conflicts_with_all = ["dry_run", "wait"])]
    cancel: bool,
    /// Say whether it could be done, and begin nothing
    #[arg(long)]
    dry_run: bool,
    /// Wait until nothing lies on it any more
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
}

/// Give a volume more devices: what clients see grows at once, and rows become wider while it is
/// served; beside clients, which wait a moment, if it is served now
#[derive(clap::Args)]
struct Add {
    /// The volume's file
    volume: PathBuf,
    /// The devices that come; a file that does not exist is made, as large as is needed
    #[arg(required = true)]
    new: Vec<String>,
    /// Take devices that hold something; one that is in use is refused all the same
    #[arg(long)]
    force: bool,
    /// Say what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Replace a device: one that still answers is copied, and one that is lost is rebuilt from the
/// others; beside clients if the volume is served
#[derive(clap::Args)]
struct Replace {
    /// The volume's file
    volume: PathBuf,
    /// The device that goes: a path to it, or its number or UUID, as `hostftl status` shows them
    old: String,
    /// The device that comes; a file that does not exist is made, as large as is needed
    new: String,
    /// Take a device that holds something; one that is in use is refused all the same
    #[arg(long)]
    force: bool,
    /// Say what would be done, and write nothing
    #[arg(long)]
    dry_run: bool,
}

/// Runs the command.
///
/// # Errors
/// When the change can't be made; nothing was changed then.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    match &args.verb {
        Verb::Add(args) => run_add(args, false, console),
        Verb::Spare(args) => run_add(&args.add, true, console),
        Verb::Replace(args) => run_replace(args, console),
        Verb::Remove(args) => run_remove(args, console),
        Verb::Offline(Offline { which }) => {
            let wish = Wish::Offline(which.device.clone());
            let name = which.volume.display();
            let outcome = match operate(&which.volume, &wish)? {
                Some(outcome) => outcome,
                None => {
                    let (running, outcome) = operate_here(&which.volume, &wish)?;
                    running.stop()?;
                    outcome
                }
            };
            let number = outcome.device.as_ref().map_or(0, |device| device.number);
            let next = format!("hostftl device online {name} {number}");
            tell_change(which, &outcome, "is left out", &next, console)
        }
        Verb::Online(Online { which }) => {
            let (Back { device, is_new, served, notes }, name) =
                (online(&which.volume, &which.device)?, which.volume.display());
            let next = match served {
                true => format!("hostftl wait {name}"),
                false => format!("hostftl serve {name}"),
            };
            let outcome = Outcome { is_new, device: Some(device), notes };
            tell_change(which, &outcome, "belongs again", &next, console)
        }
    }
}

fn tell_change(
    which: &Which,
    Outcome { is_new, device, notes }: &Outcome,
    what: &str,
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
    console.line(format!("{}: {device} {what}{already}", which.volume.display()))?;
    notes.iter().try_for_each(|note| console.field("note", note))?;
    console.field("next", format!("`{next}`"))
}

/// The fields of an answer after those of the device that it is about.
fn with_device(device: Option<&DeviceId>, rest: serde_json::Value) -> serde_json::Value {
    let mut all = serde_json::json!(device.cloned().unwrap_or_default());
    if let (Some(all), serde_json::Value::Object(rest)) = (all.as_object_mut(), rest) {
        all.extend(rest);
    }
    all
}

fn run_remove(args: &Remove, console: &mut Console) -> Result<(), Failure> {
    let (volume, device) = (args.volume.display(), args.device.clone());
    let (wish, done, was_so) = match args {
        Remove { cancel: true, .. } => (Wish::Cancel(device), "stays", "was not about to leave"),
        Remove { dry_run: true, .. } => (Wish::MayRemove(device), "can leave", "leaves already"),
        _ => (Wish::Remove(device), "is to leave", "leaves already, or has left"),
    };
    let say = |Outcome { is_new, device, notes }, console: &mut Console| match console.is_json() {
        true => {
            let rest = serde_json::json!({
                "volume": args.volume, "changed": is_new && !args.dry_run,
                "dry_run": args.dry_run, "notes": notes,
            });
            console.value(&with_device(device.as_ref(), rest))
        }
        false => {
            let what = if is_new { done } else { was_so };
            let device = device.map_or_else(|| args.device.clone(), |it| it.to_string());
            console.line(format!("{volume}: {device} {what}"))?;
            notes.iter().try_for_each(|note| console.field("note", note))
        }
    };
    let begins = !args.cancel && !args.dry_run;
    if let Some(outcome) = operate(&args.volume, &wish)? {
        if !(args.wait && console.is_json()) {
            say(outcome, console)?;
        }
        if begins && args.wait {
            return wait::served(&args.volume, Some("evacuate"), None, console);
        }
        if begins && !console.is_json() {
            let next = format!("`hostftl wait {volume} evacuate` waits for its end");
            return console.field("next", next);
        }
        return Ok(());
    }
    let (running, outcome) = operate_here(&args.volume, &wish)?;
    if !(begins && console.is_json()) {
        say(outcome, console)?;
    }
    match begins {
        true => wait::here(&args.volume, running, "evacuate", console),
        false => Ok(running.stop().map(|_| ())?),
    }
}

fn run_add(args: &Add, spare: bool, console: &mut Console) -> Result<(), Failure> {
    let (path, new) = (args.volume.clone(), args.new.clone());
    let spec = AddSpec { path, new, force: args.force, spare, rehearse: args.dry_run };
    let Added { devices, exported: (before, after), served, notes } = add(&spec)?;
    let next = match served {
        true => format!("hostftl status {}", args.volume.display()),
        false => format!("hostftl serve {}", args.volume.display()),
    };
    if console.is_json() {
        return console.value(&serde_json::json!({
            "volume": args.volume, "devices": devices, "usable_bytes_before": before,
            "usable_bytes": after, "served": served, "dry_run": args.dry_run, "notes": notes,
            "next": next,
        }));
    }
    let verb = if args.dry_run { "would come" } else { "comes" };
    let role = if spare { "spare " } else { "" };
    for device in devices {
        let volume = args.volume.display();
        console.line(format!("{volume}: {} {verb} as {role}{device}", device.path))?;
    }
    if !spare {
        let (more, before) = (bytes(after - before), bytes(before));
        console.field("usable", format!("{} instead of {before}: {more} more", bytes(after)))?;
    }
    notes.iter().try_for_each(|note| console.field("note", note))?;
    if args.dry_run {
        return console.field("note", "nothing was written");
    }
    let size = if spare { "" } else { "; clients see the new size when they connect" };
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
    // A copy is cancelled, and the old device stays.
    interrupt::undo();
    let mut copying = Copying::new(console.is_watched(), "copied");
    let replaced = replace(&spec, &mut |done, all| copying.tell(done, all));
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
    let verb = if args.dry_run { "would take" } else { "takes" };
    let when = if copying { " once it is a complete copy" } else { "" };
    console.line(format!("{volume}: {} {verb} the place of {old}{when}", new.path))?;
    notes.iter().try_for_each(|note| console.field("note", note))?;
    if args.dry_run {
        return console.field("note", "nothing was written");
    }
    if copying {
        console.field("copying", "the old device stays a member until the copy is complete")?;
        console.field("next", format!("`{next}` waits for that"))?;
        let number = old.number;
        return console.field("cancel", format!("`hostftl device online {volume} {number}`"));
    }
    if copied {
        console
            .field("copied", "it has all that the old one had, which is not a member any more")?;
        return console.field("next", format!("`{next}`"));
    }
    if !lacks {
        console.field("lacks", "nothing: all that was flushed lies in rows")?;
        return console.field("next", format!("`{next}`"));
    }
    let next = match served {
        true => format!("`{next}` waits for the rebuild"),
        false => format!("`{next}` rebuilds its missing data while it serves"),
    };
    console.field("next", next)?;
    console.field("then", format!("`hostftl status {volume}` says what is exposed yet"))
}
