//! `hostftl trace info`: what a trace is like.

use comfy_table::{Cell, CellAlignment, Table, TableStyle, presets};
use hostftl_trace::{Info, KindInfo, Stats};

use super::progress::Progress;
use super::{interrupted, source, warn};
use crate::console::Console;
use crate::failure::Failure;
use crate::interrupt;
use crate::units::{bytes, count, nanos, three_digits};

/// What stands where there is nothing to say.
const NOTHING: &str = "–";
/// Lines between the table's head and its rows only.
const STYLE: TableStyle = presets::UTF8_HORIZONTAL_ONLY.row_separator(presets::NOTHING.top_border);
/// Devices that are listed.
const MOST_DEVICES: usize = 8;

/// What a trace is like: mix, sizes, working set, how often pages are written, and when
///
/// Takes 4 bytes of memory for each page of 4 KiB in what the trace touches.
#[derive(clap::Args)]
pub struct Args {
    /// A trace, perhaps with options as in FILE:format=msr,dev=0; or a workload, synth:…
    trace: String,
    /// Count bad lines and leave them out
    #[arg(long)]
    skip_bad: bool,
    /// Fixes what a synthetic workload chooses at random
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

/// Runs the command.
///
/// # Errors
/// When the trace can't be read, or the user ended it.
pub fn run(args: &Args, console: &mut Console) -> Result<(), Failure> {
    let source = source(&args.trace, args.skip_bad)?;
    let mut stream = source.open(args.seed, false).map_err(Failure::failed)?;
    let format = stream.format().map_or("synthetic", |format| format.name());
    let mut stats = Stats::default();
    let mut progress = Progress::new(console.is_watched());
    for record in &mut stream {
        stats.count(&record.map_err(Failure::failed)?);
        if progress.step() {
            break;
        }
    }
    drop(progress);
    let info = stats.info();
    if info.requests == 0 {
        return Err(Failure::failed(format!("{}: the trace has no requests", args.trace)));
    }
    match console.is_json() {
        true => {
            let mut value = serde_json::to_value(&info).map_err(Failure::failed)?;
            value["format"] = format.into();
            value["partial"] = interrupt::asked().into();
            value["notes"] = serde_json::to_value(stream.notes()).map_err(Failure::failed)?;
            value["warnings"] = stream.notes().warnings().into();
            console.value(&value)?;
        }
        false => print(args, format, &info, console)?,
    }
    warn(&stream.notes());
    if interrupt::asked() { Err(interrupted()) } else { Ok(()) }
}

fn print(args: &Args, format: &str, info: &Info, console: &mut Console) -> Result<(), Failure> {
    console.line(format!("{} ({format})", args.trace))?;
    let mix = format!(
        "{}: {} reads, {} writes ({:.1} % of both), {} flushes, {} discards",
        count(info.requests),
        count(info.reads.requests),
        count(info.writes.requests),
        100.0 * info.write_share,
        count(info.flushes),
        count(info.discards.requests),
    );
    console.field("requests", mix)?;
    let per_second = info.requests as f64 / (info.duration_ns.max(1) as f64 / 1e9);
    let pace = match info.duration_ns {
        0 => "all at the same time".to_owned(),
        ns => format!("{}, {} requests/s", nanos(ns), three_digits(per_second)),
    };
    console.field("time", pace)?;
    if let Some(gaps) = &info.interarrival_ns {
        let text = format!(
            "mean {}, p50 {}, p90 {}, p99 {}, max {}",
            nanos(gaps.mean as u64),
            nanos(gaps.p50),
            nanos(gaps.p90),
            nanos(gaps.p99),
            nanos(gaps.max)
        );
        console.field("between", text)?;
    }
    let set = &info.working_set_bytes;
    let text = format!(
        "{} in pages of 4 KiB, {} read, {} written; addresses below {}",
        bytes(set.all),
        bytes(set.read),
        bytes(set.written),
        bytes(info.end_bytes)
    );
    console.field("touched", text)?;
    if let Some(per_page) = &info.writes_per_page {
        let text = format!(
            "mean {}, p50 {}, p90 {}, p95 {}, max {}",
            three_digits(per_page.mean),
            count(per_page.p50),
            count(per_page.p90),
            count(per_page.p95),
            count(per_page.max)
        );
        console.field("per page", format!("writes: {text}"))?;
    }
    if let Some(writes) = info.writes_per_flush {
        console.field("flushes", format!("one for {} writes", three_digits(writes)))?;
    }
    if let Some(saved) = &info.saved_percent {
        let (mean, known) = (three_digits(saved.mean), 100.0 * saved.known);
        let text =
            format!("mean {mean} %, p10 {} %, p50 {} %, p90 {} %", saved.p10, saved.p50, saved.p90);
        console
            .field("compress", format!("saves of written bytes: {text}; known of {known:.0} %"))?;
    }
    devices(info, console)?;
    console.line(format!("\n{}\n\n{}", kinds(info), histogram(info)))
}

/// The busiest devices, when there are several.
fn devices(info: &Info, console: &mut Console) -> Result<(), Failure> {
    let mut devices: Vec<_> = info.devices.iter().map(|(dev, count)| (*count, *dev)).collect();
    if devices.len() < 2 {
        return Ok(());
    }
    devices.sort_unstable_by(|a, b| b.cmp(a));
    let named = devices.iter().take(MOST_DEVICES);
    let texts: Vec<_> = named.map(|(n, dev)| format!("{dev} ({})", count(*n))).collect();
    let more = if devices.len() > MOST_DEVICES { " …" } else { "" };
    let all = devices.len();
    console.field("devices", format!("{all}: {}{more}; FILE:dev=N picks one", texts.join(", ")))
}

fn table(heads: &[&str], rows: Vec<Vec<String>>) -> Table {
    let mut table = Table::new();
    table.load_style(STYLE);
    let cells = |texts: Vec<String>| {
        let sides =
            std::iter::once(CellAlignment::Left).chain(std::iter::repeat(CellAlignment::Right));
        texts.into_iter().zip(sides).map(|(text, side)| Cell::new(text).set_alignment(side))
    };
    table.set_header(cells(heads.iter().map(|head| (*head).to_owned()).collect()));
    rows.into_iter().for_each(|row| {
        table.add_row(cells(row));
    });
    table
}

fn kinds(info: &Info) -> Table {
    let heads = ["", "bytes", "mean size", "p50", "p90", "max", "sequential", "not 4 KiB aligned"];
    let row = |name: &str, kind: &KindInfo| {
        let size = |pick: fn(&hostftl_trace::Sizes) -> u64| {
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
    table(&heads, present.map(|(name, kind)| row(name, kind)).collect())
}

/// Requests by size.
fn histogram(info: &Info) -> Table {
    let kinds = [&info.reads, &info.writes, &info.discards];
    let mut sizes: Vec<u64> =
        kinds.iter().flat_map(|kind| &kind.size_histogram).map(|(size, _)| *size).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let requests = |kind: &KindInfo, size: u64| {
        let found = kind.size_histogram.iter().find(|(known, _)| *known == size);
        found.map_or(NOTHING.to_owned(), |(_, requests)| count(*requests))
    };
    let row = |&size: &u64| {
        let counts = kinds.iter().map(|kind| requests(kind, size));
        std::iter::once(format!("up to {}", bytes(size))).chain(counts).collect()
    };
    table(&["size", "reads", "writes", "discards"], sizes.iter().map(row).collect())
}
