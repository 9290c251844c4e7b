//! `hostftl device inspect`: properties and counters that an NVMe drive reports.

use std::path::{Path, PathBuf};

use hostftl_io::NvmeDrive;
use hostftl_nvme::{Facts, Fdp, Namespace, Smart};

use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, count};

/// Show preferred write sizes, wear, temperature and write counters of an NVMe drive
///
/// Reads only. Most of it needs root.
#[derive(clap::Args)]
#[command(after_help = "Example: hostftl device inspect /dev/nvme0n1")]
pub(super) struct Args {
    /// Block device (/dev/nvme0n1) or character device (/dev/ng0n1, /dev/nvme0)
    device: PathBuf,
}

/// Runs the command.
pub(super) fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let Args { device } = args;
    let failed = |why: String| Failure::failed(format!("{}: {why}", device.display()));
    let drive = NvmeDrive::open(device).map_err(|error| failed(error.to_string()))?;
    let facts = drive.facts().map_err(failed)?;
    if console.is_json() {
        return console.value(&json(&facts));
    }
    let controller = &facts.controller;
    let (model, serial, firmware) = (&controller.model, &controller.serial, &controller.firmware);
    console.line(format!("{}: {model}, serial {serial}, firmware {firmware}", device.display()))?;
    if let Some(namespace) = &facts.namespace {
        stated(namespace, console)?;
    }
    if let Some(smart) = &facts.smart {
        health(smart, &facts, console)?;
    }
    written(&facts, console)?;
    if let Some(fdp) = &facts.fdp {
        placement(fdp, console)?;
    }
    facts.refused.iter().try_for_each(|why| console.field("unknown", why))
}

/// Returns the facts as JSON, with derived figures.
fn json(facts: &Facts) -> serde_json::Value {
    let mut value = serde_json::json!(facts);
    value["media_written"] = serde_json::json!(facts.media_written());
    value["amplification"] = serde_json::json!(facts.amplification());
    value["years_left"] = serde_json::json!(facts.years_left());
    value
}

fn stated(namespace: &Namespace, console: &mut Console) -> Result<(), Failure> {
    let block = bytes(namespace.block_bytes);
    let number = namespace.number;
    console.field("namespace", format!("{number}, {} in {block}", bytes(namespace.bytes)))?;
    console.field("preferred", statement(namespace))
}

/// Returns the facts of the NVMe drive below a device; `None` if they can't be read.
pub(super) fn query(device: &str) -> Option<Facts> {
    NvmeDrive::open(Path::new(device)).ok()?.facts().ok()
}

/// Formats the preferred sizes of a namespace.
pub(super) fn statement(namespace: &Namespace) -> String {
    let Namespace { write_grain, write_align, discard_grain, best_write, .. } = namespace;
    let known = [
        ("writes in", write_grain, "NPWG"),
        ("aligned to", write_align, "NPWA"),
        ("best in", best_write, "NOWS"),
        ("discards in", discard_grain, "NPDG"),
    ];
    let each = known
        .iter()
        .filter_map(|(usage, value, name)| Some(format!("{usage} {} ({name})", bytes((**value)?))));
    let each: Vec<_> = each.collect();
    if each.is_empty() { "no preferred sizes".into() } else { each.join(", ") }
}

fn health(smart: &Smart, facts: &Facts, console: &mut Console) -> Result<(), Failure> {
    let Smart { celsius, used_percent, spare_percent, hours, .. } = smart;
    let years = match facts.years_left() {
        Some(years) => format!(", {years:.1} years left at this rate"),
        None => String::new(),
    };
    let used = format!("{used_percent} % of rated life used in {} hours", count(*hours));
    console.field("wear", format!("{used}{years}; spare blocks {spare_percent} %"))?;
    let errors = format!(
        "{} media errors, {} unsafe shutdowns",
        count(smart.media_errors),
        count(smart.unsafe_shutdowns)
    );
    console.field("errors", errors)?;
    if let Some(celsius) = celsius {
        console.field("temp", format!("{celsius} °C"))?;
    }
    smart.warnings().iter().try_for_each(|warning| console.field("WARNING", warning))
}

fn written(facts: &Facts, console: &mut Console) -> Result<(), Failure> {
    if let Some(smart) = &facts.smart {
        let (wrote, read) = (bytes(smart.written_bytes), bytes(smart.read_bytes));
        console
            .field("hosts", format!("written {wrote}, read {read}, over the life of the drive"))?;
    }
    let Some(media) = facts.media_written() else {
        return console.field("flash", "unknown: the drive has no counter of media writes");
    };
    let amplification = match facts.amplification() {
        Some(waf) => format!(", {waf:.3} per host byte"),
        None => String::new(),
    };
    let (written, source) = (bytes(media.bytes), media.source.name());
    console.field("flash", format!("written {written}{amplification} ({source})"))?;
    if let Some(ocp) = &facts.ocp {
        let (least, most) = ocp.erases;
        console.field("erases", format!("{least} to {most} per block"))?;
    }
    Ok(())
}

fn placement(fdp: &Fdp, console: &mut Console) -> Result<(), Failure> {
    let on = if fdp.on { "on" } else { "off" };
    let configuration = &fdp.configuration;
    let unit = bytes(configuration.unit_bytes);
    let handles = configuration.handles;
    let groups = configuration.groups;
    console.field(
        "placement",
        format!("FDP is {on}: reclaim units of {unit}, {handles} handles, {groups} groups"),
    )?;
    if let Some(counted) = &fdp.statistics {
        let (host, media) = (bytes(counted.host_bytes), bytes(counted.media_bytes));
        console.field("since on", format!("host writes {host}, media writes {media}"))?;
    }
    if !fdp.placements.is_empty() {
        let each: Vec<_> = fdp.placements.iter().map(|it| it.identifier.to_string()).collect();
        console.field("handles", format!("placement ids {}", each.join(", ")))?;
    }
    Ok(())
}
