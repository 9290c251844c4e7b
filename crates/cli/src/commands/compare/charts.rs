//! The charts of a page: each has a row or a line for every layer of one drive and workload.

use hostftl_report::{Axis, Bars, Figure, Lines};
use hostftl_sim::{Busy, Interval, Latency, Legs, Row};

use crate::units::{count, nanos, three_digits};

/// A percentile by the number of its nines.
type Nines = (f64, fn(&Latency) -> u64);
/// The percentiles of the charts.
const NINES: [Nines; 5] = [
    (0.301, |it| it.p50),
    (1.0, |it| it.p90),
    (2.0, |it| it.p99),
    (3.0, |it| it.p999),
    (4.0, |it| it.p9999),
];

/// All charts that have something to show.
pub fn all(rows: &[Row]) -> Vec<Figure> {
    let mut figures = vec![busy(rows), amplification(rows)];
    for (kind, find) in KINDS {
        if rows.iter().any(|row| find(row).is_some()) {
            figures.push(percentiles(rows, kind, find));
            figures.push(legs(rows, kind, find));
        }
    }
    figures.extend(over_time(rows));
    figures.push(erases(rows));
    figures
}

/// A kind of request, and where its latencies are.
type Kind = (&'static str, fn(&Row) -> Option<Latency>);
const KINDS: [Kind; 2] =
    [("Reads", |row| row.latency_ns.read), ("Writes", |row| row.latency_ns.write)];

fn names(rows: &[Row]) -> Vec<&str> {
    rows.iter().map(|row| row.layer.as_str()).collect()
}

fn whole_nanos(value: f64) -> String {
    nanos(value.max(0.0) as u64)
}

/// A part of the busy time.
type Part = (&'static str, fn(&Busy) -> u64);

fn busy(rows: &[Row]) -> Figure {
    let parts: [Part; 8] = [
        ("read", |busy| busy.read),
        ("request", |busy| busy.request),
        ("copyback", |busy| busy.copyback),
        ("vgc", |busy| busy.vgc),
        ("map", |busy| busy.map),
        ("padding", |busy| busy.padding),
        ("parity", |busy| busy.parity),
        ("journal", |busy| busy.journal),
    ];
    let mut bars = Bars::new("How long the drive works, and what for", &names(rows), whole_nanos);
    for (name, part) in parts {
        let values: Vec<f64> = rows.iter().map(|row| part(&row.busy_ns) as f64).collect();
        // Most layers have neither parity nor a journal.
        let is_rare = matches!(name, "parity" | "journal");
        if !is_rare || values.iter().any(|value| *value > 0.0) {
            bars = bars.series(name, &values);
        }
    }
    bars.stacked().figure().note(
        "request: writing what was asked; copyback: the drive's own read-modify-writes and \
         collection; vgc, map, padding: the layer's collection, map records and padding.",
    )
}

fn amplification(rows: &[Row]) -> Figure {
    let title = "Bytes programmed for each byte that the host wrote";
    let mut bars = Bars::new(title, &names(rows), three_digits);
    for (index, (name, _)) in rows[0].programmed_bytes.parts().enumerate() {
        let value = |row: &Row| {
            let (_, bytes) = row.programmed_bytes.parts().nth(index).expect("all rows have it");
            bytes as f64 / row.host_write_bytes.max(1) as f64
        };
        let values: Vec<f64> = rows.iter().map(value).collect();
        if values.iter().any(|value| *value > 0.0) {
            bars = bars.series(name, &values);
        }
    }
    bars.stacked().figure()
}

fn percentiles(rows: &[Row], kind: &str, find: fn(&Row) -> Option<Latency>) -> Figure {
    let share = |nines: f64| match nines {
        ..0.1 => "0 %".to_owned(),
        _ => format!("{} %", three_places(100.0 - 100.0 / 10f64.powf(nines))),
    };
    let x = Axis::linear("requests that took no longer", share);
    let mut lines = Lines::new(&format!("{kind}: latency"), x, Axis::log("latency", whole_nanos));
    for row in rows {
        let points = |latency: Latency| {
            NINES.iter().map(|(nines, get)| (*nines, get(&latency) as f64)).collect()
        };
        lines = lines.series(&row.layer, find(row).map(points).unwrap_or_default());
    }
    lines.figure()
}

/// At most three decimals, and none that says nothing.
fn three_places(value: f64) -> String {
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

fn legs(rows: &[Row], kind: &str, find: fn(&Row) -> Option<Latency>) -> Figure {
    let found: Vec<(String, Legs)> = rows
        .iter()
        .filter_map(|row| find(row).map(|latency| (row, latency)))
        .flat_map(|(row, latency)| {
            let (mean, slow) = (format!("{} mean", row.layer), format!("{} p99", row.layer));
            [(mean, latency.legs), (slow, latency.legs_p99)]
        })
        .collect();
    let names: Vec<&str> = found.iter().map(|(name, _)| name.as_str()).collect();
    let mut bars = Bars::new(&format!("{kind}: where the time goes"), &names, whole_nanos);
    for (index, (name, _)) in Legs::default().parts().into_iter().enumerate() {
        let values: Vec<f64> = found.iter().map(|(_, legs)| legs.parts()[index].1 as f64).collect();
        if values.iter().any(|value| *value > 0.0) {
            bars = bars.series(name, &values);
        }
    }
    bars.stacked().figure().note(
        "p99: the mean of the slowest hundredth. layer: before the last command was sent; gc: \
         behind the drive's own collection; rmw: reading the rest of a map unit.",
    )
}

fn over_time(rows: &[Row]) -> Vec<Figure> {
    let whole = |value: f64| count(value.round() as u64);
    let share = |value: f64| format!("{:.0} %", value * 100.0);
    let seconds = || Axis::linear("seconds", three_digits);
    let iops = Lines::new("Requests a second", seconds(), Axis::linear("requests/s", whole));
    let waf = Lines::new("Write amplification", seconds(), Axis::linear("waf", three_digits));
    let p99 = Lines::new("Latency, p99", seconds(), Axis::log("latency", whole_nanos));
    let p999 = Lines::new("Latency, p99.9", seconds(), Axis::log("latency", whole_nanos));
    let busy = Lines::new("How busy the dies are", seconds(), Axis::linear("busy", share));
    vec![
        line(iops, rows, |it| Some(it.iops)),
        line(waf, rows, |it| it.waf),
        line(p99, rows, |it| it.p99_ns.map(|ns| ns as f64)),
        line(p999, rows, |it| it.p999_ns.map(|ns| ns as f64)),
        line(busy, rows, |it| Some(it.busy)),
    ]
}

fn line(mut lines: Lines, rows: &[Row], get: fn(&Interval) -> Option<f64>) -> Figure {
    for row in rows {
        let point = |it: &Interval| get(it).map(|value| (it.at_ns as f64 / 1e9, value));
        lines = lines.series(&row.layer, row.series.iter().filter_map(point).collect());
    }
    lines.steps().figure()
}

fn erases(rows: &[Row]) -> Figure {
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
        lines = lines.series(&row.layer, points);
    }
    lines.steps().figure()
}
