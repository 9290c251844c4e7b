//! Long form of a status: capacity, memory, drives, traffic, latencies and notes.

use std::collections::BTreeMap;
use std::time::Duration;

use hostftl_volume::{
    DeviceStatus, DriveStatus, Latency, Memory, ShadowStatus, Space, Status, Traffic,
};

use crate::console::Console;
use crate::failure::Failure;
use crate::units::{bytes, count, counted, nanos};

use super::summary::per_second;
use super::watch::Since;

/// Prints the figures that the short form leaves out.
pub(super) fn print(status: &Status, console: &mut Console) -> Result<(), Failure> {
    if let Some(space) = &status.space {
        capacity(space, status.device_bytes, console)?;
    }
    if let (Some(leaves), Some(limit)) =
        (status.layer_state.get("leaves"), status.layer_state.get("leaf_cap"))
    {
        console.field("leaves", format!("{} of {}", count(*leaves), count(*limit)))?;
    }
    if let Some(lifetime) = lifetime(&status.layer_state) {
        console.field("lifetime", lifetime)?;
    }
    console.field("memory", memory(&status.memory))?;
    console.field("writes", crate::commands::acknowledges(&status.ack))?;
    status.protection.iter().try_for_each(|it| console.field("process", it))?;
    for one in &status.devices {
        console.field("device", device(one))?;
        one.drive.iter().try_for_each(|it| drive(it, console))?;
    }
    if let Some(traffic) = &status.traffic {
        self::traffic(traffic, console)?;
    }
    status.shadow.as_ref().map_or(Ok(()), |it| shadow(it, &status.layer, console))?;
    latencies(status, console)?;
    status.notes.iter().try_for_each(|note| console.field("note", note))
}

/// Prints the parts of the capacity, which add up to the size of the data devices.
fn capacity(space: &Space, raw: u64, console: &mut Console) -> Result<(), Failure> {
    let ratio = match space.compression_ratio {
        Some(ratio) => format!("compressed {ratio:.3} to 1 since the start"),
        None => String::new(),
    };
    let parts = [
        ("data", space.physical_bytes, ratio.as_str()),
        ("reclaimable", space.reclaimable_bytes, "by garbage collection"),
        ("free", space.free_bytes, ""),
        ("parity", space.parity_bytes, "of the three above"),
        ("reserved", space.reserved_bytes, "metadata, open segments, spares"),
    ];
    console.field("capacity", bytes(raw))?;
    for (name, some, remark) in parts.iter().filter(|(_, some, _)| *some > 0) {
        let line = format!("    {name:<14} {:<10} {remark}", bytes(*some));
        console.line(line.trim_end())?;
    }
    if let Some(seconds) = space.full_in_seconds {
        let time = humantime::format_duration(Duration::from_secs(seconds));
        console.field("full in", format!("{time} at the recent rate"))?;
    }
    match space.repaired_reads + space.lost_blocks {
        0 => Ok(()),
        _ => {
            let repaired = counted(space.repaired_reads, "read");
            let lost = counted(space.lost_blocks, "block");
            console.field("repairs", format!("{repaired} repaired from parity, {lost} lost"))
        }
    }
}

/// Returns the bytes written since the volume was created, for layers that count them.
fn lifetime(counters: &BTreeMap<String, u64>) -> Option<String> {
    let of = |name: &str| counters.get(&format!("ever_{name}_bytes")).copied();
    let host = of("host").filter(|host| *host > 0)?;
    let causes =
        ["gc", "pad", "map", "checkpoint", "list"].map(|name| (name, of(name).unwrap_or(0)));
    let sum: u64 = causes.iter().map(|(_, it)| it).sum();
    let each = causes.map(|(name, it)| format!(", {name} {}", bytes(it))).concat();
    let waf = (host + sum) as f64 / host as f64;
    Some(format!("host {}{each}; write amplification {waf:.3}", bytes(host)))
}

fn memory(memory: &Memory) -> String {
    let planned = crate::commands::memory(memory);
    match memory.resident_bytes {
        Some(used) => format!("{} resident, {planned} planned", bytes(used)),
        None => format!("{planned} while served"),
    }
}

fn device(one: &DeviceStatus) -> String {
    let name = format!("{}: {}", one.number, one.name);
    if ["missing", "removed"].contains(&one.health.as_str()) {
        return format!("{name}, {}", one.health);
    }
    let path = match (&one.buffered_reason, one.reconnects, &one.connection_error) {
        (_, Some(times), None) => format!("reconnected {}", counted(times, "time")),
        (_, Some(_), Some(error)) => error.clone(),
        (None, None, _) => "direct I/O".to_owned(),
        (Some(why), None, _) => format!("buffered I/O ({why})"),
    };
    let copy = one.replacement.iter().map(|new| format!(", being copied to {new}"));
    let copy: String = copy.collect();
    let uuid = if one.uuid.is_empty() { String::new() } else { format!(", UUID {}", one.uuid) };
    format!("{name}, {}, {path}{copy}{uuid}", one.kind)
}

/// Prints the SMART data of a drive.
fn drive(it: &DriveStatus, console: &mut Console) -> Result<(), Failure> {
    let wear = it.used_percent.map(|used| format!("{used} % of rated life used"));
    let years = it.years_left.map(|years| format!("{years:.1} years left at this rate"));
    let heat = it.celsius.map(|celsius| format!("{celsius} °C"));
    let host = it.written_bytes.map(|some| format!("host writes {}", bytes(some)));
    let media = it.media_written_bytes;
    let flash = media.map(|some| format!("media writes {} ({})", bytes(some), it.source));
    let known: Vec<_> = [wear, years, heat, host, flash].into_iter().flatten().collect();
    console.field("  drive", format!("{}: {}", it.model, known.join(", ")))?;
    it.warnings.iter().try_for_each(|warning| console.field("  WARNING", warning))?;
    if media.is_none() {
        it.unavailable.iter().try_for_each(|why| console.field("  unknown", why))?;
    }
    Ok(())
}

/// Prints the traffic since the volume was started, from the host to the flash.
pub(super) fn traffic(traffic: &Traffic, console: &mut Console) -> Result<(), Failure> {
    let (wrote, read) = (bytes(traffic.host_write_bytes), bytes(traffic.host_read_bytes));
    let trimmed = bytes(traffic.host_trim_bytes);
    let flushes = format!("{} flushes", count(traffic.flushes));
    console.field("host", format!("written {wrote}, read {read}, trimmed {trimmed}, {flushes}"))?;
    for step in traffic.write_path.iter().filter(|step| step.step != "host") {
        let share = match step.per_host_byte {
            Some(share) => format!("{share:.3} per host byte"),
            None => String::new(),
        };
        match step.bytes {
            Some(0) => {}
            None if step.step != "flash" => {}
            Some(some) => {
                console.line(format!(
                    "    {:<18} {:<10} {share}",
                    step.step.replace('_', " "),
                    bytes(some)
                ))?;
            }
            None => console.line(format!("    {:<18} unknown", step.step))?,
        }
    }
    let [received, answered, failed] =
        [traffic.requests_received, traffic.requests_answered, traffic.requests_failed].map(count);
    console.field("requests", format!("{received} received, {answered} answered, {failed} failed"))
}

/// Prints the figures of the shadow for each layer, and the reasons not to trust them.
pub(in crate::commands) fn shadow(
    shadow: &ShadowStatus,
    layer: &str,
    console: &mut Console,
) -> Result<(), Failure> {
    let host = bytes(shadow.host_bytes);
    let sampled = format!("{:.3} %", 100.0 * shadow.sampled);
    let model = format!("model {}, {host} of writes, {sampled} of the volume", shadow.drive);
    console.field("shadow of", model)?;
    for it in &shadow.candidates {
        let served = if it.served { "served, modelled" } else { "" };
        let line = match (it.text(), &it.failed) {
            (_, Some(why)) => why.clone(),
            (Some(waf), None) => {
                let relative = it.relative.map_or(String::new(), |it| format!("×{it:.2}"));
                let relative = match it.relative_error {
                    Some(error) => format!("{relative} (±{error:.2})"),
                    None => relative,
                };
                format!("{waf:<16} {relative:<16} {served}")
            }
            (None, None) => "no writes yet".to_owned(),
        };
        let name = match it.layer.as_str() {
            "passthrough" => "none",
            // The served layer has all of its parameters.
            _ if it.served => layer,
            other => other,
        };
        console.line(format!("    {name:<24} {line}").trim_end())?;
    }
    if let Some(waf) = shadow.served_waf {
        console.line(format!("    {:<24} {waf:.2}", "measured layer, modelled drive"))?;
    }
    shadow.doubts.iter().try_for_each(|doubt| console.field("doubt", doubt))
}

/// Prints the latencies since the volume was started.
pub(super) fn latencies(status: &Status, console: &mut Console) -> Result<(), Failure> {
    status.latencies.iter().try_for_each(|one| console.field("latency", latency(one)))
}

fn latency(one: &Latency) -> String {
    let Latency { request, p50_ns, p99_ns, p999_ns, max_ns, .. } = one;
    let [median, p99, p999, max] = [p50_ns, p99_ns, p999_ns, max_ns].map(|it| nanos(*it));
    format!("{request}: median {median}, p99 {p99}, p99.9 {p999}, max {max}")
}

/// Returns the rates since an earlier status.
pub(super) fn rates(now: &Status, (time, before): Since<'_>) -> String {
    let (Some(now), Some(before)) = (&now.traffic, &before.traffic) else {
        return "not served".into();
    };
    let rate = |now, before| per_second(now, before, time);
    format!(
        "{} requests/s, host writes {}/s, host reads {}/s, device writes {}/s",
        count(rate(now.requests_answered, before.requests_answered)),
        bytes(rate(now.host_write_bytes, before.host_write_bytes)),
        bytes(rate(now.host_read_bytes, before.host_read_bytes)),
        bytes(rate(now.device_write_bytes.total, before.device_write_bytes.total)),
    )
}
