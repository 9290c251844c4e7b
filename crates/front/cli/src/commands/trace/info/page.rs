//! The page of `trace info --html`.

use hostftl_report::{Axis, Bars, Columns, Figure, Lines, Page, Table};
use hostftl_trace::{Curves, Info, KindInfo, Notes};

use super::{Args, facts};
use crate::interrupt;
use crate::units::{bytes, count, counted, nanos, three_digits};

/// The page about a trace.
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
    table.row(["left out".to_owned(), facts::left_out(notes)]);
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
        0 => page.paragraph("All requests come at the same time."),
        _ => page.figures([traffic(curves), between(curves)]),
    };
    page.section("How to repeat this").code(&command(args));
    page.paragraph(&format!("hostftl {}", env!("CARGO_PKG_VERSION")));
    page
}

/// The sentence that says it all.
fn lead(info: &Info) -> String {
    let share = 100.0 * info.write_share;
    let mut text = format!(
        "{}{}; {share:.0} % of the transfers write. They touch {}.",
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
            " Half of the writes are not larger than {}; a page that is written is written {} \
             times on average, and the busiest {}.",
            bytes(sizes.p50),
            three_digits(pages.mean),
            counted(pages.max, "time")
        );
    }
    text
}

/// A whole number that is short enough for an axis.
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

/// Requests by size, of the kinds that there are.
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

/// How requests lie to one another and to pages.
fn places(info: &Info) -> Figure {
    let kinds = [("reads", &info.reads), ("writes", &info.writes), ("discards", &info.discards)];
    let present: Vec<_> = kinds.into_iter().filter(|(_, kind)| kind.requests > 0).collect();
    let names: Vec<&str> = present.iter().map(|(name, _)| *name).collect();
    let shares = |pick: fn(&KindInfo) -> f64| -> Vec<f64> {
        present.iter().map(|(_, kind)| 100.0 * pick(kind)).collect()
    };
    Bars::new("Share of the requests", &names, percent)
        .series("begin where the last of their kind ended", &shares(|kind| kind.sequential))
        .series("are not aligned to 4 KiB", &shares(|kind| kind.misaligned))
        .figure()
}

fn working_set(info: &Info) -> Figure {
    let set = &info.working_set_bytes;
    let values = [set.all, set.read, set.written].map(|bytes| bytes as f64);
    let moved = [info.reads.bytes + info.writes.bytes, info.reads.bytes, info.writes.bytes];
    Bars::new("Data", &["in all", "read", "written"], size)
        .series("moved", &moved.map(|bytes| bytes as f64))
        .series("touched: each page once", &values)
        .binary()
        .figure()
}

fn per_page(info: &Info, curves: &Curves) -> Figure {
    // A page's place is between its share and the one before, so each step begins at that one.
    let begins = std::iter::once(0.0).chain(curves.writes_per_page.iter().map(|(share, _)| *share));
    let writes = curves.writes_per_page.iter().map(|(_, writes)| *writes as f64);
    let end = curves.writes_per_page.last().map(|(share, writes)| (100.0 * share, *writes as f64));
    let points = begins.map(|share| 100.0 * share).zip(writes).chain(end).collect();
    let x = Axis::linear("per cent of the written pages, those written least first", percent);
    let chart = Lines::new("How often pages are written", x, Axis::log("writes", short));
    let figure = chart.series("writes", points).steps().figure();
    match &info.writes_per_page {
        None => figure.note("Nothing is written."),
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
    figure.steps().figure().note(&format!("Means of {} each.", nanos(curves.interval_ns)))
}

fn between(curves: &Curves) -> Figure {
    let points = curves.interarrival.iter();
    let points = points.map(|(gap, share)| (*gap as f64, 100.0 * share)).collect();
    let y = Axis::linear("per cent that is not longer", percent);
    let chart = Lines::new("Time between a request and the next", Axis::log("time", time), y);
    chart.series("gaps", points).figure()
}

/// The command that makes this page.
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
