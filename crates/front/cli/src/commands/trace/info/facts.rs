//! Properties of a trace as text, for the terminal and the page.

use std::collections::BTreeSet;

use hostftl_trace::{Info, KindInfo, Notes, Sizes};

use crate::units::{bytes, count, counted, nanos, three_digits};

/// Text of an empty cell.
pub(super) const NOTHING: &str = "–";
/// Maximum number of listed devices.
const MOST_DEVICES: usize = 8;

/// Returns the properties of a trace as pairs of name and value.
pub(super) fn facts(info: &Info) -> Vec<(&'static str, String)> {
    let mut facts = vec![("requests", mix(info)), ("time", pace(info))];
    if let Some(gaps) = &info.interarrival_ns {
        let (mean, most) = (nanos(gaps.mean as u64), nanos(gaps.max));
        let [p50, p90, p99] = [gaps.p50, gaps.p90, gaps.p99].map(nanos);
        facts
            .push(("between", format!("mean {mean}, p50 {p50}, p90 {p90}, p99 {p99}, max {most}")));
    }
    let set = &info.working_set_bytes;
    let [all, read, written] = [set.all, set.read, set.written].map(bytes);
    let end = bytes(info.end_bytes);
    let pages = format!("{all} in pages of 4 KiB, {read} read, {written} written");
    facts.push(("touched", format!("{pages}; addresses below {end}")));
    if let Some(pages) = &info.writes_per_page {
        let mean = three_digits(pages.mean);
        let [p50, p90, p95, most] = [pages.p50, pages.p90, pages.p95, pages.max].map(count);
        let text = format!("writes: mean {mean}, p50 {p50}, p90 {p90}, p95 {p95}, max {most}");
        facts.push(("per page", text));
    }
    if let Some(writes) = info.writes_per_flush {
        facts.push(("flushes", format!("one for {} writes", three_digits(writes))));
    }
    if let Some(saved) = &info.saved_percent {
        let (mean, known) = (three_digits(saved.mean), 100.0 * saved.known);
        let quantiles = format!("p10 {} %, p50 {} %, p90 {} %", saved.p10, saved.p50, saved.p90);
        let text = format!("saves of written bytes: mean {mean} %, {quantiles}");
        facts.push(("compress", format!("{text}; known of {known:.0} %")));
    }
    facts.extend(devices(info).map(|text| ("devices", text)));
    facts
}

/// Lists the records that are not requests, so that the numbers add up.
pub(super) fn skipped(notes: &Notes) -> String {
    let parts = notes.left_out();
    if parts.is_empty() { "nothing".to_owned() } else { parts.join(", ") }
}

fn mix(info: &Info) -> String {
    format!(
        "{}: {}, {} ({:.1} % of both), {} {}, {}",
        count(info.requests),
        counted(info.reads.requests, "read"),
        counted(info.writes.requests, "write"),
        100.0 * info.write_share,
        count(info.flushes),
        if info.flushes == 1 { "flush" } else { "flushes" },
        counted(info.discards.requests, "discard"),
    )
}

fn pace(info: &Info) -> String {
    let per_second = info.requests as f64 / (info.duration_ns.max(1) as f64 / 1e9);
    match info.duration_ns {
        0 => "all at the same time".to_owned(),
        ns => format!("{}, {} requests/s", nanos(ns), three_digits(per_second)),
    }
}

/// Lists the busiest devices; `None` if there is only one.
fn devices(info: &Info) -> Option<String> {
    let mut devices: Vec<_> = info.devices.iter().map(|(dev, count)| (*count, *dev)).collect();
    if devices.len() < 2 {
        return None;
    }
    devices.sort_unstable_by(|a, b| b.cmp(a));
    let named = devices.iter().take(MOST_DEVICES);
    let texts: Vec<_> = named.map(|(n, dev)| format!("{dev} ({})", count(*n))).collect();
    let more = if devices.len() > MOST_DEVICES { " …" } else { "" };
    let all = devices.len();
    Some(format!("{all}: {}{more}; FILE:dev=N picks one", texts.join(", ")))
}

/// Heads of the table of reads, writes and discards.
pub(super) const KIND_HEADS: [&str; 8] =
    ["", "bytes", "mean size", "p50", "p90", "max", "sequential", "not 4 KiB aligned"];

/// Returns the rows of the table of reads, writes and discards.
pub(super) fn kinds(info: &Info) -> Vec<Vec<String>> {
    let row = |name: &str, kind: &KindInfo| {
        let size = |pick: fn(&Sizes) -> u64| {
            kind.size_bytes.as_ref().map_or(NOTHING.into(), |sizes| bytes(pick(sizes)))
        };
        vec![
            name.to_owned(),
            bytes(kind.bytes),
            size(|sizes| sizes.mean as u64),
            size(|sizes| sizes.p50),
            size(|sizes| sizes.p90),
            size(|sizes| sizes.max),
            format!("{:.1} %", 100.0 * kind.sequential),
            format!("{:.1} %", 100.0 * kind.misaligned),
        ]
    };
    let kinds = [("reads", &info.reads), ("writes", &info.writes), ("discards", &info.discards)];
    let present = kinds.iter().filter(|(_, kind)| kind.requests > 0);
    present.map(|(name, kind)| row(name, kind)).collect()
}

/// Returns the histogram of request sizes: the upper bound of each class in bytes, and its numbers
/// of reads, writes and discards.
pub(super) fn sizes(info: &Info) -> Vec<(u64, [Option<u64>; 3])> {
    let kinds = [&info.reads, &info.writes, &info.discards];
    let all = kinds.iter().flat_map(|kind| &kind.size_histogram).map(|(size, _)| *size);
    let all: BTreeSet<u64> = all.collect();
    let requests = |kind: &KindInfo, size: u64| {
        kind.size_histogram.iter().find(|(known, _)| *known == size).map(|(_, requests)| *requests)
    };
    all.into_iter().map(|size| (size, kinds.map(|kind| requests(kind, size)))).collect()
}
