//! Charts of a page. Each has a bar or a line for every layer of one drive, state and workload.

use hostftl_report::{Axis, Bars, Figure, Lines};
use hostftl_sim::{Busy, Interval, Latency, Legs, Row};

use crate::units::{count, nanos, three_digits};

/// A percentile: -log10(1 - p), which is its number of nines, and its value.
type Nines = (f64, fn(&Latency) -> u64);
/// Percentiles of the latency charts.
const NINES: [Nines; 5] = [
    (0.301, |it| it.p50),
    (1.0, |it| it.p90),
    (2.0, |it| it.p99),
    (3.0, |it| it.p999),
    (4.0, |it| it.p9999),
];

/// Returns the charts of `rows`, in which each layer has the colour of its first place among the
/// rows of the page. Charts of latencies are left out if no row has any.
pub(crate) fn all(rows: &[Row], page: &[Row]) -> Vec<Figure> {
    let mut layers = names(page);
    let mut known = std::collections::HashSet::new();
    layers.retain(|layer| known.insert(*layer));
    let mut figures = vec![busy(rows), amplification(rows)];
    for (kind, find) in KINDS {
        if rows.iter().any(|row| find(row).is_some()) {
            figures.push(percentiles((rows, &layers), kind, find));
            figures.push(legs(rows, kind, find));
        }
    }
    figures.extend(over_time((rows, &layers)));
    figures.push(erases((rows, &layers)));
    figures
}

/// Rows of charts, and all layers of the page in the order of their colours.
type Drawn<'a> = (&'a [Row], &'a [&'a str]);

/// Adds a line for a row in the colour of its layer.
fn with_row(lines: Lines, row: &Row, layers: &[&str], points: Vec<(f64, f64)>) -> Lines {
    let place = layers.iter().position(|layer| *layer == row.layer);
    lines.coloured(&row.layer, place.unwrap_or(0), points)
}

/// A kind of request: its name and its latencies.
type Kind = (&'static str, fn(&Row) -> Option<Latency>);
const KINDS: [Kind; 2] =
    [("Reads", |row| row.latency_ns.read), ("Writes", |row| row.latency_ns.write)];

fn names(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.layer.as_str()).collect()
}

fn whole_nanos(value: f64) -> String {
    nanos(value.max(0.0) as u64)
}

/// Causes of work and of programs, by their names in the charts. Each has one colour in all charts.
const CAUSES: [&str; 8] =
    ["read", "request", "copyback", "vgc", "map", "padding", "parity", "journal"];

/// Returns the colour of a cause or of a leg of a latency. Legs share the colours of related
/// causes, for example `gc` of the drive that of `copyback`.
fn colour(name: &str) -> usize {
    let cause = match name {
        "gc" => "copyback",
        "layer" => "vgc",
        "queue" => "padding",
        "rmw" => "parity",
        "bus" => "journal",
        "die" => "read",
        cause => cause,
    };
    CAUSES.iter().position(|known| *known == cause).expect("it is a cause")
}

/// Returns the name in the charts of a [`hostftl_core::Cause`].
fn word(cause: &str) -> &'static str {
    match cause {
        "host" => "request",
        "rmw" | "drive-gc" => "copyback",
        "gc" => "vgc",
        "map" | "checkpoint" | "list" => "map",
        "pad" => "padding",
        "parity" => "parity",
        "journal" => "journal",
        other => unreachable!("{other} is no cause"),
    }
}

/// Adds the causes with a value above 0 in any row, each in its colour.
fn by_cause(mut bars: Bars, value: impl Fn(&str) -> Vec<f64>) -> Figure {
    for name in CAUSES {
        let values = value(name);
        if values.iter().any(|value| *value > 0.0) {
            bars = bars.coloured(name, colour(name), &values);
        }
    }
    bars.stacked().figure()
}

/// Explanation of the causes.
const MEANING: &str = "request: host writes; copyback: read-modify-writes and garbage collection \
of the drive; vgc, map, padding, parity, journal: garbage collection, map \
records, padding, parity and journal of the layer.";

fn busy(rows: &[Row]) -> Figure {
    let bars = Bars::new("Busy time of the drive, by cause", &names(rows), whole_nanos);
    let part = |busy: &Busy, name: &str| match name {
        "read" => busy.read,
        "request" => busy.request,
        "copyback" => busy.copyback,
        "vgc" => busy.vgc,
        "map" => busy.map,
        "padding" => busy.padding,
        "parity" => busy.parity,
        _ => busy.journal,
    };
    let values = |name: &str| rows.iter().map(|row| part(&row.busy_ns, name) as f64).collect();
    by_cause(bars, values).note(MEANING)
}

fn amplification(rows: &[Row]) -> Figure {
    let title = "Bytes programmed per host byte";
    let bars = Bars::new(title, &names(rows), three_digits);
    let value = |row: &Row, name: &str| {
        let parts = row.programmed_bytes.parts().filter(|(cause, _)| word(cause) == name);
        parts.map(|(_, bytes)| bytes).sum::<u64>() as f64 / row.host_write_bytes.max(1) as f64
    };
    by_cause(bars, |name| rows.iter().map(|row| value(row, name)).collect())
}

fn percentiles((rows, layers): Drawn, kind: &str, find: fn(&Row) -> Option<Latency>) -> Figure {
    let share = |nines: f64| match nines {
        ..0.1 => "0 %".to_owned(),
        _ => format!("{} %", three_places(100.0 - 100.0 / 10f64.powf(nines))),
    };
    let x = Axis::linear("share of the requests", share);
    let mut lines = Lines::new(&format!("{kind}: latency"), x, Axis::log("latency", whole_nanos));
    for row in rows {
        let points = |latency: Latency| {
            NINES.iter().map(|(nines, get)| (*nines, get(&latency) as f64)).collect()
        };
        lines = with_row(lines, row, layers, find(row).map(points).unwrap_or_default());
    }
    let at_once = rows.iter().filter(|row| find(row).is_some_and(|it| it.p9999 == 0));
    let at_once: Vec<&str> = at_once.map(|row| row.layer.as_str()).collect();
    if at_once.is_empty() {
        lines.figure()
    } else {
        lines.figure().note(&format!(
            "Not shown, because a write buffer acknowledges the requests in 0 ns: {}.",
            at_once.join(", ")
        ))
    }
}

/// Formats at most three decimals, without trailing zeros.
fn three_places(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn legs(rows: &[Row], kind: &str, find: fn(&Row) -> Option<Latency>) -> Figure {
    let found: Vec<(String, Legs)> = rows
        .iter()
        .filter_map(|row| find(row).map(|latency| (row, latency)))
        .flat_map(|(row, latency)| {
            let mean = format!("{}: mean", row.layer);
            let slow = format!("{}: slowest 1 %", row.layer);
            [(mean, latency.legs), (slow, latency.legs_p99)]
        })
        .collect();
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let mut bars = Bars::new(&format!("{kind}: where the time goes"), &names, whole_nanos);
    for (index, (name, _)) in Legs::default().parts().into_iter().enumerate() {
        let values: Vec<f64> = found.iter().map(|(_, legs)| legs.parts()[index].1 as f64).collect();
        if values.iter().any(|value| *value > 0.0) {
            bars = bars.coloured(name, colour(name), &values);
        }
    }
    bars.stacked().figure().note(
        "slowest 1 %: the mean of about the slowest hundredth. layer: before the last \
         command was sent; map: reading and writing the layer's map; queue: behind other \
         commands; gc: behind garbage collection of the drive; rmw: reading the rest of an \
         indirection unit.",
    )
}

fn over_time(drawn: Drawn) -> Vec<Figure> {
    let whole = |value: f64| count(value.round() as u64);
    let share = |value: f64| format!("{:.0} %", value * 100.0);
    let seconds = || Axis::linear("seconds", three_digits);
    let iops = Lines::new("Requests a second", seconds(), Axis::linear("requests/s", whole));
    let waf = Lines::new("Write amplification", seconds(), Axis::linear("waf", three_digits));
    let p99 =
        Lines::new("Latency, p99 of each interval", seconds(), Axis::log("latency", whole_nanos));
    let p999 =
        Lines::new("Latency, p99.9 of each interval", seconds(), Axis::log("latency", whole_nanos));
    let title = "Utilisation of the dies";
    let busy = Lines::new(title, seconds(), Axis::linear("work", share));
    vec![
        line(iops, drawn, |it| Some(it.iops)),
        line(waf, drawn, |it| it.waf),
        line(p99, drawn, |it| it.p99_ns.map(|ns| ns as f64)),
        line(p999, drawn, |it| it.p999_ns.map(|ns| ns as f64)),
        line(busy, drawn, |it| Some(it.busy)).note(
            "Work counts in the interval in which the dies receive it: the part above 100 % waits \
            for the next interval.",
        ),
    ]
}

fn line(mut lines: Lines, (rows, layers): Drawn, get: fn(&Interval) -> Option<f64>) -> Figure {
    for row in rows {
        let point = |it: &Interval| get(it).map(|value| (it.at_ns as f64 / 1e9, value));
        lines = with_row(lines, row, layers, row.series.iter().filter_map(point).collect());
    }
    lines.steps().figure()
}

fn erases((rows, layers): Drawn) -> Figure {
    let share = |value: f64| format!("{:.0} %", value * 100.0);
    let x = Axis::linear("erases of a segment during the run", three_digits);
    let mut lines = Lines::new("Wear", x, Axis::linear("segments", share));
    for row in rows {
        let all: u64 = row.erases.histogram.iter().map(|bar| bar.segments).sum();
        let points = row.erases.histogram.iter();
        let mut points: Vec<(f64, f64)> = points
            .map(|bar| (f64::from(bar.from), bar.segments as f64 / all.max(1) as f64))
            .collect();
        points.extend(row.erases.histogram.last().map(|bar| (f64::from(bar.to) + 1.0, 0.0)));
        lines = with_row(lines, row, layers, points);
    }
    lines.steps().figure()
}

#[cfg(test)]
mod tests {
    use hostftl_core::Cause;

    use super::*;

    #[test]
    fn every_cause_has_a_word_and_the_parts_of_a_latency_have_colours_apart() {
        for cause in Cause::ALL {
            assert!(CAUSES.contains(&word(cause.name())), "{}", cause.name());
        }
        let mut colours: Vec<usize> =
            Legs::default().parts().iter().map(|(name, _)| colour(name)).collect();
        colours.sort_unstable();
        colours.dedup();
        assert_eq!(colours.len(), Legs::default().parts().len());
    }
}
