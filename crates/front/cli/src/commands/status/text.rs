//! A status in words.

use std::collections::BTreeMap;
use std::time::Duration;

use hostftl_volume::{DeviceStatus, DriveStatus, Latency, Memory, Space, Status, Traffic};

use crate::commands::wait;
use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, count, counted, nanos};

/// Prints a status, and what went through `since` an earlier one.
pub(super) fn print(
    status: &Status,
    since: Option<(Duration, &Status)>,
    console: &mut Console,
) -> Result<(), Failure> {
    let served = match status.served_by {
        Some(process) => format!("served by process {process} with {}", status.engine),
        None => "not served".to_owned(),
    };
    let label = match status.label.as_str() {
        "" => String::new(),
        label => format!(" ({label})"),
    };
    let degraded = if status.degraded { "DEGRADED, " } else { "" };
    let reads = if status.read_only { "read-only, " } else { "" };
    console.line(format!(
        "{}{label}: {degraded}{reads}layer {}, {served}",
        status.volume, status.layer
    ))?;
    let sizes = format!("{} of {}", bytes(status.exported_bytes), bytes(status.device_bytes));
    console.field("usable", sizes)?;
    if let Some(held) = &status.space {
        space(held, console)?;
    }
    status.tasks.iter().try_for_each(|task| console.field("work", wait::line(task)))?;
    if let (Some(leaves), Some(cap)) = (status.facts.get("leaves"), status.facts.get("leaf_cap")) {
        let (leaves, cap) = (count(*leaves), count(*cap));
        console.field("leaves", format!("{leaves} of at most {cap}"))?;
    }
    if let Some(ever) = ever(&status.facts) {
        console.field("ever", ever)?;
    }
    console.field("memory", memory(&status.memory))?;
    console.field("answers", crate::commands::answers(&status.ack))?;
    if !status.protection.is_empty() {
        console.field("process", status.protection.join("; "))?;
    }
    for one in &status.devices {
        console.field("device", device(one))?;
        one.drive.iter().try_for_each(|it| drive(it, console))?;
    }
    if let Some(traffic) = &status.traffic {
        flow(traffic, console)?;
    }
    status.latencies.iter().try_for_each(|one| console.field("latency", latency(one)))?;
    if let Some((time, before)) = since {
        console.field("now", rates(status, before, time))?;
    }
    status.notes.iter().try_for_each(|note| console.field("note", note))
}

/// How full it is.
fn space(space: &Space, console: &mut Console) -> Result<(), Failure> {
    let ratio = match space.compression_ratio {
        Some(ratio) => format!(", compressed {ratio:.3} to 1 since the start"),
        None => String::new(),
    };
    let (logical, physical) = (bytes(space.logical_bytes), bytes(space.physical_bytes));
    console.field("holds", format!("{logical} in {physical} before parity{ratio}"))?;
    if let (Some(most), Some(used)) = (space.capacity_bytes, space.used_percent()) {
        let full = |it| humantime::format_duration(Duration::from_secs(it)).to_string();
        let full = space
            .full_in_seconds
            .map_or(String::new(), |it| format!(", full in {} as it grows now", full(it)));
        console.field("room", format!("{physical} of {} used ({used} %){full}", bytes(most)))?;
    }
    let (free, stale) = (bytes(space.free_bytes), bytes(space.stale_bytes));
    console.field("free", format!("{free} now, {stale} more after garbage collection"))?;
    if space.repaired + space.beyond_repair > 0 {
        let repaired = counted(space.repaired, "read");
        let lost = counted(space.beyond_repair, "block");
        console.field("repairs", format!("{repaired} repaired from parity, {lost} lost"))?;
    }
    if space.unreadable_bytes > 0 {
        let (lost, all) = (bytes(space.unreadable_bytes), bytes(space.physical_bytes));
        console
            .field("unreadable", format!("up to {lost} of {all}, until a lost device is back"))?;
    }
    if space.exposed_bytes > 0 {
        let (exposed, all) = (bytes(space.exposed_bytes), bytes(space.physical_bytes));
        let text = match space.may_lose {
            0 => format!("{exposed} of {all}: the loss of another device would take it along"),
            _ => format!("{exposed} of {all} misses a chunk; one more device may be lost"),
        };
        let text = match space.excess_bytes {
            0 => text,
            excess => format!("{text}; trim {} so that it can be rebuilt", bytes(excess)),
        };
        console.field("exposed", text)?;
    } else if !space.damaged.is_empty() {
        let devices: Vec<_> =
            space.damaged.iter().map(|device| format!("device {device}")).collect();
        let count = counted(space.may_lose.into(), "device");
        let text = format!("{count} more; {} counts as missing until repaired", devices.join(", "));
        console.field("can lose", text)?;
    } else if space.may_lose > 0 {
        let count = counted(space.may_lose.into(), "device");
        console.field("can lose", format!("{count} more; all has parity"))?;
    }
    Ok(())
}

/// What was written since the volume was made, by layers that keep that.
fn ever(facts: &BTreeMap<String, u64>) -> Option<String> {
    let of = |name: &str| facts.get(&format!("ever_{name}_bytes")).copied();
    let host = of("host").filter(|host| *host > 0)?;
    let causes =
        ["gc", "pad", "map", "checkpoint", "list"].map(|name| (name, of(name).unwrap_or(0)));
    let sum: u64 = causes.iter().map(|(_, it)| it).sum();
    let each = causes.map(|(name, it)| format!(", {name} {}", bytes(it))).concat();
    let waf = (host + sum) as f64 / host as f64;
    Some(format!("since it was made: host {}{each}: waf {waf:.3}", bytes(host)))
}

fn memory(memory: &Memory) -> String {
    let stated = crate::commands::memory(memory);
    match memory.used_bytes {
        Some(used) => format!("{stated} stated, {} in use by the process", bytes(used)),
        None => format!("{stated} while it is served"),
    }
}

fn device(one: &DeviceStatus) -> String {
    let role = if one.role.is_empty() { String::new() } else { format!(" ({})", one.role) };
    let name = format!("{}: {}{role}", one.number, one.name);
    if one.health == "removed" {
        return format!("{name}: removed");
    }
    if one.health == "missing" {
        return format!("{name}: MISSING");
    }
    let way = match (&one.why_not_direct, one.reconnects, &one.trouble) {
        (_, Some(times), None) => format!("reconnected {}", counted(times, "time")),
        (_, Some(_), Some(trouble)) => trouble.clone(),
        (None, None, _) => "past the page cache".to_owned(),
        (Some(why), None, _) => format!("through the page cache ({why})"),
    };
    let lost = match one.health.as_str() {
        "lost" => ", LOST: the volume goes on without it",
        "faulted" => ", FAULTED: the volume goes on without it",
        "failing" => ", FAILING",
        _ => "",
    };
    let (kind, size) = (&one.kind, bytes(one.bytes));
    let errors = counted(one.errors, "error");
    let (sent, read) = (bytes(one.sent_bytes), bytes(one.read_bytes));
    let uuid = if one.uuid.is_empty() { String::new() } else { format!(", UUID {}", one.uuid) };
    format!("{name}, {kind} of {size}, {way}, sent {sent}, read {read}, {errors}{lost}{uuid}")
}

/// What the drive under a device tells.
fn drive(it: &DriveStatus, console: &mut Console) -> Result<(), Failure> {
    let wear = it.used_percent.map(|used| format!("{used} % of its rated life used"));
    let years = it.years_left.map(|years| format!("{years:.1} years left at the pace so far"));
    let warmth = it.celsius.map(|celsius| format!("{celsius} °C"));
    let wrote = it.written_bytes.map(|some| format!("hosts wrote {} in all", bytes(some)));
    let media = it.media_written_bytes;
    let counted = media.map(|some| format!("flash got {} ({})", bytes(some), it.source));
    let told: Vec<_> = [wear, years, warmth, wrote, counted].into_iter().flatten().collect();
    console.field("  drive", format!("{}: {}", it.model, told.join(", ")))?;
    it.warnings.iter().try_for_each(|warning| console.field("  WARNING", warning))?;
    if media.is_none() {
        it.refused.iter().try_for_each(|why| console.field("  unknown", why))?;
    }
    Ok(())
}

/// What went through since the volume was started.
fn flow(traffic: &Traffic, console: &mut Console) -> Result<(), Failure> {
    let (wrote, read) = (bytes(traffic.host_write_bytes), bytes(traffic.host_read_bytes));
    let trimmed = bytes(traffic.host_trim_bytes);
    let flushes = counted(traffic.flushes, "time");
    let host = format!("wrote {wrote}, read {read}, trimmed {trimmed}, flushed {flushes}");
    console.field("host", host)?;
    for step in traffic.waf_stack.iter().filter(|step| step.step != "host") {
        let share = match step.per_host_byte {
            Some(share) => format!("{share:.3} for each byte of the host"),
            None => String::new(),
        };
        match step.bytes {
            Some(0) => {}
            None if step.step != "flash" => {}
            Some(some) => {
                console.line(format!("    {:<14} {:<10} {share}", step.step, bytes(some)))?
            }
            None => console.line(format!("    {:<14} unknown", step.step))?,
        }
    }
    let (came, answered) = (count(traffic.requests_in), count(traffic.requests_out));
    let failed = count(traffic.requests_failed);
    let requests = format!("{came} received, {answered} answered, {failed} of them with an error");
    console.field("requests", requests)
}

fn latency(one: &Latency) -> String {
    let Latency { request, p50_ns, p99_ns, p999_ns, longest_ns, .. } = one;
    let [half, most, nearly, longest] = [p50_ns, p99_ns, p999_ns, longest_ns].map(|it| nanos(*it));
    format!("{request}: median {half}, p99 {most}, p99.9 {nearly}, longest {longest}")
}

/// What goes through now, by what went through between two statuses.
fn rates(now: &Status, before: &Status, time: Duration) -> String {
    let (Some(now), Some(before)) = (&now.traffic, &before.traffic) else {
        return "not served".into();
    };
    let seconds = time.as_secs_f64();
    let rate = |now: u64, before: u64| (now.saturating_sub(before) as f64 / seconds) as u64;
    format!(
        "{} requests/s, host writes {}/s and reads {}/s, sent {}/s",
        count(rate(now.requests_out, before.requests_out)),
        bytes(rate(now.host_write_bytes, before.host_write_bytes)),
        bytes(rate(now.host_read_bytes, before.host_read_bytes)),
        bytes(rate(now.sent_bytes.total, before.sent_bytes.total)),
    )
}
