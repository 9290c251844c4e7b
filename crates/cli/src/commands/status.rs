//! `hostftl status`: what a volume is and does.

use std::path::PathBuf;

use hostftl_volume::{DeviceStatus, Status, Traffic};

use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, count};

/// What a volume is, and what went through it since it was started
#[derive(clap::Args)]
pub struct Args {
    /// The volume's file
    volume: PathBuf,
}

/// Runs the command.
///
/// # Errors
/// When there is no such volume.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let status = hostftl_volume::status(&args.volume)?;
    match console.is_json() {
        true => console.value(&status),
        false => text(&status, console),
    }
}

fn text(status: &Status, console: &mut Console) -> Result<(), Failure> {
    let served = match status.served_by {
        Some(process) => format!("served by process {process} with {}", status.engine),
        None => "not served".to_owned(),
    };
    let label = match status.label.as_str() {
        "" => String::new(),
        label => format!(" ({label})"),
    };
    console.line(format!("{}{label}: layer {}, {served}", status.volume, status.layer))?;
    let sizes = format!("{} of {}", bytes(status.exported_bytes), bytes(status.device_bytes));
    console.field("usable", sizes)?;
    console.field("map", format!("{} of memory", bytes(status.map_bytes)))?;
    console.field("answers", super::answers(&status.ack))?;
    status.devices.iter().try_for_each(|one| console.field("device", device(one)))?;
    if let Some(traffic) = &status.traffic {
        flow(traffic, console)?;
    }
    status.notes.iter().try_for_each(|note| console.field("note", note))
}

fn device(one: &DeviceStatus) -> String {
    let way = match (&one.why_not_direct, one.reconnects, &one.trouble) {
        (_, Some(times), None) => format!("reconnected {times} times"),
        (_, Some(_), Some(trouble)) => trouble.clone(),
        (None, None, _) => "past the page cache".to_owned(),
        (Some(why), None, _) => format!("through the page cache ({why})"),
    };
    format!("{}, {} of {}, {way}, {} errors", one.name, one.kind, bytes(one.bytes), one.errors)
}

/// What went through since the volume was started.
fn flow(traffic: &Traffic, console: &mut Console) -> Result<(), Failure> {
    let sent = &traffic.sent_bytes;
    console.field(
        "host",
        format!(
            "wrote {}, read {}, trimmed {}, flushed {} times",
            bytes(traffic.host_write_bytes),
            bytes(traffic.host_read_bytes),
            bytes(traffic.host_trim_bytes),
            count(traffic.flushes)
        ),
    )?;
    console.field(
        "sent",
        format!(
            "{}: host {}, collection {}, padding {}, map {}, checkpoints {}",
            bytes(sent.total),
            bytes(sent.host),
            bytes(sent.gc),
            bytes(sent.pad),
            bytes(sent.map),
            bytes(sent.checkpoint)
        ),
    )?;
    if let Some(waf) = traffic.waf_layer {
        console
            .field("waf layer", format!("{waf:.3} bytes sent for each byte that the host wrote"))?;
    }
    console.field(
        "requests",
        format!(
            "{} came, {} answered, {} of them with an error",
            count(traffic.requests_in),
            count(traffic.requests_out),
            count(traffic.requests_failed)
        ),
    )
}
