//! HTML page of `trace info`.

use hostftl_report::{Axis, Bars, Columns, Figure, Lines, Page, Table};
use hostftl_trace::{Curves, Info, KindInfo, Notes};

use super::{Args, facts};
use crate::interrupt;
use crate::units::{bytes, count, counted, nanos, three_digits};

/// Returns the page about a trace.
pub(super) fn page(args: &Args, format: &str, info: &Info, curves: &Curves, notes: &Notes) -> Page {
    let mut page = Page::new(&format!("Trace {}", args.trace));
    page.lead(&lead(info));
    if interrupt::asked() {
        page.paragraph("Reading was interrupted: the results are partial.");
    }
    notes.warnings().iter().for_each(|text| {
        page.paragraph(&format!("Note: {text}."));
    });
    let mut table = Table::new(&["", ""]).words();
    table.row(["format", format]);
    facts::facts(info).into_iter().for_each(|(name, text)| {
        table.row([name.to_owned(), text]);
    });
    table.row(["skipped".to_owned(), facts::skipped(notes)]);
    page.section("Properties").table(&table);
    let mut kinds = Table::new(&facts::KIND_HEADS);
    facts::kinds(info).into_iter().for_each(|row| {
        kinds.row(row);
    });
    page.table(&kinds);
    page.section("Requests").figures([sizes(info), places(info)]);
    page.section("Pages").figures([working_set(info), per_page(info, curves)]);
    page.section("Time");
    match info.duration_ns {
        0 => page.paragraph("All requests have the same time."),
        _ => page.figures([traffic(curves), between(curves)]),
    };
    page.section("Reproduction").code(&command(args));
    page.paragraph(&format!("hostftl {}", env!("CARGO_PKG_VERSION")));
    page
}

/// Returns the summary at the top of the page.
fn lead(info: &Info) -> String {
    let share = 100.0 * info.write_share;
    let mut text = format!(
        "{}{}; {share:.0} % of the transfers are writes; {} touched.",
        counted(info.requests, "request"),
        if info.duration_ns > 0 {
            format!(" in {}", nanos(info.duration_ns))
        } else {
            String::new()
        },
        bytes(info.working_set_bytes.all),
    );
    if let (Some(sizes), Some(pages)) = (&info.writes.size_bytes, &info.writes_per_page) {
        text += &format!(
            " Half of the writes are at most {}. Each written page is written {} times on \
            average, the most frequent one {}.",
            bytes(sizes.p50),
            three_digits(pages.mean),
            counted(pages.max, "time")
        );
    }
    text
}

/// Formats a number for an axis, with a decimal prefix from 10,000 on.
fn short(value: f64) -> String {
    match value {
        1e9.. => format!("{} G", three_digits(value / 1e9)),
        1e6.. => format!("{} M", three_digits(value / 1e6)),
        1e4.. => format!("{} k", three_digits(value / 1e3)),
        _ => three_digits(value),
    }
}

fn size(value: f64) -> String {
    bytes(value.round() as u64)
}

fn time(value: f64) -> String {
    nanos(value.round() as u64)
}

fn percent(value: f64) -> String {
    format!("{} %", three_digits((value * 10.0).round() / 10.0))
}

/// Returns the chart of requests by size, for each kind of request in the trace.
fn sizes(info: &Info) -> Figure {
    let sizes = facts::sizes(info);
    let labels: Vec<String> = sizes.iter().map(|(size, _)| bytes(*size)).collect();
    let kinds = [("reads", &info.reads), ("writes", &info.writes), ("discards", &info.discards)];
    let mut chart = Columns::new("Requests by size, up to", &labels, short);
    for (index, (name, kind)) in kinds.into_iter().enumerate() {
        let values = sizes.iter().map(|(_, counts)| counts[index].unwrap_or(0) as f64);
        if kind.requests > 0 {
            chart = chart.series(name, &values.collect::<Vec<_>>());
        }
    }
    chart.figure()
}

/// Returns the chart of sequential and of misaligned requests.
fn places(info: &Info) -> Figure {
    let kinds = [("reads", &info.reads), ("writes", &info.writes), ("discards", &info.discards)];
    let present: Vec<_> = kinds.into_iter().filter(|(_, kind)| kind.requests > 0).collect();
    let names: Vec<&str> = present.iter().map(|(name, _)| *name).collect();
    let shares = |pick: fn(&KindInfo) -> f64| -> Vec<f64> {
        present.iter().map(|(_, kind)| 100.0 * pick(kind)).collect()
    };
    Bars::new("Share of the requests", &names, percent)
        .series("sequential: start at the end of the last one", &shares(|kind| kind.sequential))
        .series("not aligned to 4 KiB", &shares(|kind| kind.misaligned))
        .figure()
}

fn working_set(info: &Info) -> Figure {
    let set = &info.working_set_bytes;
    let values = [set.all, set.read, set.written].map(|bytes| bytes as f64);
    let moved = [info.reads.bytes + info.writes.bytes, info.reads.bytes, info.writes.bytes];
    Bars::new("Data", &["in all", "read", "written"], size)
        .series("transferred", &moved.map(|bytes| bytes as f64))
        .series("touched: each page once", &values)
        .binary()
        .figure()
}

fn per_page(info: &Info, curves: &Curves) -> Figure {
    // A share is the end of a step of the curve. The step starts at the previous share.
    let begins = std::iter::once(0.0).chain(curves.writes_per_page.iter().map(|(share, _)| *share));
    let writes = curves.writes_per_page.iter().map(|(_, writes)| *writes as f64);
    let end = curves.writes_per_page.last().map(|(share, writes)| (100.0 * share, *writes as f64));
    let points = begins.map(|share| 100.0 * share).zip(writes).chain(end).collect();
    let x = Axis::linear("share of the written pages, from the least written", percent);
    let chart = Lines::new("How often pages are written", x, Axis::log("writes", short));
    let figure = chart.series("writes", points).steps().figure();
    match &info.writes_per_page {
        None => figure.note("No writes."),
        Some(pages) => {
            let [p50, p90, p95, most] = [pages.p50, pages.p90, pages.p95, pages.max].map(count);
            figure.note(&format!("p50 {p50}, p90 {p90}, p95 {p95}, most {most}"))
        }
    }
}

fn traffic(curves: &Curves) -> Figure {
    let seconds = curves.interval_ns as f64 / 1e9;
    let line = |pick: fn(&(u64, u64)) -> u64| -> Vec<(f64, f64)> {
        let place = |(at, it)| (at as f64 * seconds * 1e9, pick(it) as f64 / seconds);
        curves.traffic.iter().enumerate().map(place).collect()
    };
    let chart = Lines::new("Traffic", Axis::linear("time", time), Axis::binary("bytes/s", size));
    let figure = chart.series("read", line(|it| it.0)).series("written", line(|it| it.1));
    figure.steps().figure().note(&format!("Averages over {}.", nanos(curves.interval_ns)))
}

fn between(curves: &Curves) -> Figure {
    let points = curves.interarrival.iter();
    let points = points.map(|(gap, share)| (*gap as f64, 100.0 * share)).collect();
    let y = Axis::linear("share of the gaps up to this length", percent);
    let chart = Lines::new("Time between requests", Axis::log("time", time), y);
    chart.series("gaps", points).figure()
}

/// Returns the command that reproduces the page.
fn command(args: &Args) -> String {
    let quoted = |text: &str| {
        if text.contains([' ', '\'', '"', '$', '(', '&', ';']) {
            format!("'{}'", text.replace('\'', "'\\''"))
        } else {
            text.to_owned()
        }
    };
    let mut text = format!("hostftl trace info {}", quoted(&args.trace));
    if args.skip_bad {
        text += " --skip-bad";
    }
    if args.trace.starts_with("synth:") {
        text += &format!(" --seed {}", args.seed);
    }
    if let Some(path) = &args.html {
        text += &format!(" --html {}", quoted(&path.display().to_string()));
    }
    text
}
