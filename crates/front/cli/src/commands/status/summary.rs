//! Short form of a status: at most twelve lines for a healthy volume of four devices.

use std::time::Duration;

use comfy_table::{Cell, CellAlignment, Table, presets};
use hostftl_format::letters::Plain;
use hostftl_layers::LayerConfig;
use hostftl_volume::{DeviceStatus, Space, Status, VolumeState};

use crate::commands::wait;
use crate::console::{Color, Console};
use crate::failure::Failure;
use crate::units::{bytes, counted};

use super::watch::Since;

/// Maximum number of problems in the short form.
const MOST_PROBLEMS: usize = 3;

/// Prints the state, the redundancy, the space, the tasks, the devices and the problems. The
/// devices have rates if there was an earlier status.
pub(super) fn print(
    status: &Status,
    is_long: bool,
    since: Option<Since<'_>>,
    console: &mut Console,
) -> Result<(), Failure> {
    let served = match status.served_by {
        Some(process) => format!("served by process {process} ({})", status.engine),
        None => "not served".to_owned(),
    };
    let label = match status.label.as_str() {
        "" => String::new(),
        label => format!(" ({label})"),
    };
    let read_only = if status.read_only { ", read-only" } else { "" };
    let unclean = if status.unclean_shutdown { ", after an unclean shutdown" } else { "" };
    let name = format!("{}{label}", status.volume);
    let rest = format!("{read_only}, layer {}, {served}{unclean}", status.layer);
    let state = console.paint(color(status.state), &status.state.to_string());
    console.coloured(format_args!("{}: {state}{}", Plain(&name), Plain(&rest)))?;
    console.field("redundancy", redundancy(status))?;
    if let Some(space) = &status.space {
        console.field("space", self::space(space, status.exported_bytes))?;
    } else {
        let raw = bytes(status.device_bytes);
        console.field("space", format!("{} usable of {raw}", bytes(status.exported_bytes)))?;
    }
    if status.tasks.is_empty() {
        console.field("tasks", "none")?
    } else {
        status.tasks.iter().try_for_each(|task| console.field("task", wait::line(task)))?;
    }
    for line in console.fit(devices(&status.devices, since)).trim_fmt().lines() {
        console.coloured(format_args!(" {line}"))?;
    }
    if let Some(shadow) = &status.shadow {
        console.field("shadow", &shadow.summary)?;
    }
    let shown = if is_long { status.problems.len() } else { MOST_PROBLEMS };
    for problem in status.problems.iter().take(shown) {
        console.field("problem", problem)?;
    }
    match status.problems.len().saturating_sub(shown) {
        0 => {}
        more => console.field("", format!("{more} more with --long"))?,
    }
    match status.notes.len() {
        0 => Ok(()),
        _ if is_long => Ok(()),
        some => console.field("notes", format!("{some}, shown with --long")),
    }
}

/// Returns the colour of a state.
pub(in crate::commands) fn color(state: VolumeState) -> Color {
    match state {
        VolumeState::Online => Color::Green,
        VolumeState::Rebuilding | VolumeState::Degraded => Color::Yellow,
        VolumeState::Faulted => Color::Red,
    }
}

/// Returns the rate of a counter.
pub(super) fn per_second(now: u64, before: u64, time: Duration) -> u64 {
    (now.saturating_sub(before) as f64 / time.as_secs_f64()) as u64
}

/// Returns the failures that the volume survives.
fn redundancy(status: &Status) -> String {
    let Some(space) = &status.space else {
        let tolerated = LayerConfig::parse(&status.parameters).map_or(0, |it| it.tolerates());
        let absent = ["missing", "lost", "faulted"];
        let absent =
            |it: &&DeviceStatus| absent.contains(&it.health.as_str()) && it.role != "spare";
        let absent = status.devices.iter().filter(absent).count() as u32;
        return match (tolerated, tolerated.saturating_sub(absent)) {
            (0, _) => "none: a failed device loses data".into(),
            (_, 0) => "none left, unless the lost device was rebuilt elsewhere".into(),
            (_, more) => format!("{} can fail without data loss", counted(more.into(), "device")),
        };
    };
    let all = bytes(space.physical_bytes);
    let tolerated = space.failures_tolerated;
    let mut text = match tolerated {
        0 => "none: another device failure loses data".to_owned(),
        more => format!("{} can fail without data loss", counted(more.into(), "device")),
    };
    if space.unreadable_bytes > 0 {
        let lost = bytes(space.unreadable_bytes);
        text = format!("none: up to {lost} of {all} are unreadable until a lost device returns");
    } else if space.degraded_bytes > 0 {
        text = format!("{text}; {} of {all} lack redundancy", bytes(space.degraded_bytes));
    }
    if space.trim_required_bytes > 0 {
        let excess = bytes(space.trim_required_bytes);
        text = format!("{text}; trim {excess} so that they can be rebuilt");
    }
    if !space.damaged_devices.is_empty() {
        let devices: Vec<_> = space.damaged_devices.iter().map(u8::to_string).collect();
        text = format!("{text}; counted as failed until repaired: device {}", devices.join(", "));
    }
    text
}

fn space(space: &Space, exported: u64) -> String {
    let percent = space.logical_bytes as f64 * 100.0 / exported.max(1) as f64;
    let [logical, exported, free, reclaimable] =
        [space.logical_bytes, exported, space.free_bytes, space.reclaimable_bytes].map(bytes);
    let mut text = format!(
        "{logical} of {exported} written ({percent:.0} %), free {free} ({reclaimable} reclaimable)"
    );
    if let (Some(most), Some(used)) = (space.capacity_bytes, space.used_percent()) {
        let stored = bytes(space.physical_bytes);
        text = format!("{text}, {stored} of {} stored ({used} %)", bytes(most));
    }
    text
}

/// Returns one row for each device, with rates if there was an earlier status.
fn devices(devices: &[DeviceStatus], since: Option<Since<'_>>) -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    let rates: &[_] = if since.is_some() { &["WRITES/S", "READS/S"] } else { &[] };
    let head = ["#", "STATE", "SIZE", "WRITTEN", "READ", "ERRORS"];
    table.set_header(head.iter().chain(rates).chain(&["DEVICE"]));
    for (index, one) in devices.iter().enumerate() {
        let color = match one.health.as_str() {
            "online" => Color::Green,
            "errors" | "failing" | "removed" => Color::Yellow,
            _ => Color::Red,
        };
        let role = if one.role.is_empty() { String::new() } else { format!(" ({})", one.role) };
        let name = format!("{}{role}", one.name);
        let mut row = vec![
            Cell::new(one.number),
            Cell::new(one.health.to_uppercase()).fg(color.into()),
            Cell::new(bytes(one.bytes)),
            Cell::new(bytes(one.written_bytes)),
            Cell::new(bytes(one.read_bytes)),
            Cell::new(one.errors),
        ];
        if let Some((time, before)) = since {
            // A device that was just added has no earlier counters.
            let before = before.devices.get(index).unwrap_or(one);
            let rate = |now, before| bytes(per_second(now, before, time));
            row.push(Cell::new(rate(one.written_bytes, before.written_bytes)));
            row.push(Cell::new(rate(one.read_bytes, before.read_bytes)));
        }
        row.push(Cell::new(Plain(&name)));
        table.add_row(row);
    }
    for column in table.column_iter_mut().skip(2).take(4 + rates.len()) {
        column.set_cell_alignment(CellAlignment::Right);
    }
    table
}
