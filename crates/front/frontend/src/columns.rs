//! A row as flat columns, for files that other programs read. Lists (time series, histogram of
//! erases, devices) are in the JSON only.

use std::borrow::Cow;

use hostftl_sim::{Hole, Latency, Row};

use crate::program;

/// A column.
pub struct Column {
    /// Name, which ends with its unit.
    pub name: String,
    /// Accessor of its values.
    pub get: Get,
}

/// Accessor of a row's value, by type.
pub enum Get {
    /// Text of a row, and of a hole.
    Text(fn(&Row) -> Cow<'_, str>, fn(&Hole) -> Cow<'_, str>),
    /// A count of a row, and of a hole.
    Number(fn(&Row) -> u64, fn(&Hole) -> u64),
    /// A flag of a row; empty for a hole.
    Flag(fn(&Row) -> bool),
    /// An optional count.
    Whole(Figure<u64>),
    /// An optional measure.
    Real(fn(&Row) -> Option<f64>),
}

/// Accessor of an optional figure.
pub type Figure<T> = Box<dyn Fn(&Row) -> Option<T>>;
/// A figure of every row.
type Size = (&'static str, fn(&Row) -> u64);
/// A figure that is missing if the divisor is zero.
type Ratio = (&'static str, fn(&Row) -> Option<f64>);
/// A figure of a latency.
type Time = (&'static str, fn(Latency) -> u64);

/// Accessor of the latency of a kind of request.
type Kind = (&'static str, fn(&Row) -> Option<Latency>);

/// Returns all columns.
pub fn columns() -> Vec<Column> {
    let mut columns = Vec::new();
    names(&mut columns);
    sizes(&mut columns);
    ratios(&mut columns);
    latencies(&mut columns);
    causes(&mut columns);
    origins(&mut columns);
    columns
}

fn add(columns: &mut Vec<Column>, name: impl Into<String>, get: Get) {
    columns.push(Column { name: name.into(), get });
}

/// Returns the empty text of a hole.
fn none(_: &Hole) -> Cow<'_, str> {
    "".into()
}

fn names(columns: &mut Vec<Column>) {
    let mut text = |name: &str, row, hole| add(columns, name, Get::Text(row, hole));
    text("workload", |row| (&row.workload).into(), |hole| (&hole.workload).into());
    text("drive", |row| (&row.drive).into(), |hole| (&hole.drive).into());
    text("layer", |row| (&row.layer).into(), |hole| (&hole.layer).into());
    text("ack", |row| row.ack.into(), none);
    text("warm", |row| (&row.warm).into(), |hole| (&hole.warm).into());
    text("base", |row| row.base.as_deref().unwrap_or_default().into(), none);
    text("digest", |row| (&row.digest).into(), none);
    add(columns, "seed", Get::Number(|row| row.seed, |hole| hole.seed));
    add(columns, "partial", Get::Flag(|row| row.partial));
    add(columns, "saturated", Get::Flag(|row| row.saturated));
    add(columns, "conserved", Get::Flag(|row| row.conserved));
}

/// Adds the bytes programmed, by cause.
fn causes(columns: &mut Vec<Column>) {
    for (index, (cause, _)) in hostftl_sim::ByCause::default().parts().enumerate() {
        let get = move |row: &Row| row.programmed_bytes.parts().nth(index).map(|(_, bytes)| bytes);
        let cause = cause.replace('-', "_");
        add(columns, format!("programmed_{cause}_bytes"), Get::Whole(Box::new(get)));
    }
}

/// Adds the origin of a row, and its remarks.
fn origins(columns: &mut Vec<Column>) {
    let mut text = |name: &str, row, hole| add(columns, name, Get::Text(row, hole));
    text("remarks", |row| row.remarks.join("; ").into(), none);
    text("version", |_| program::VERSION.into(), |_| program::VERSION.into());
    text("commit", |_| program::COMMIT.into(), |_| program::COMMIT.into());
    text("command", |row| (&row.command).into(), |hole| (&hole.command).into());
}

fn sizes(columns: &mut Vec<Column>) {
    let figures: [Size; 32] = [
        ("requests", |row| row.requests),
        ("widened", |row| row.widened),
        ("flushes", |row| row.flushes),
        ("exported_bytes", |row| row.exported_bytes),
        ("host_write_bytes", |row| row.host_write_bytes),
        ("host_read_bytes", |row| row.host_read_bytes),
        ("gc_runs", |row| row.gc_runs),
        ("pages_copied", |row| row.pages_copied),
        ("padding_bytes", |row| row.padding_bytes),
        ("parity_bytes", |row| row.parity_bytes),
        ("journal_bytes", |row| row.journal_bytes),
        ("map_bytes_written", |row| row.map_bytes_written),
        ("map_bytes", |row| row.map_bytes),
        ("meta_bytes", |row| row.meta_bytes),
        ("model_bytes", |row| row.model_bytes),
        ("rmw_units", |row| row.rmw_units),
        ("busy_read_ns", |row| row.busy_ns.read),
        ("busy_request_ns", |row| row.busy_ns.request),
        ("busy_copyback_ns", |row| row.busy_ns.copyback),
        ("busy_vgc_ns", |row| row.busy_ns.vgc),
        ("busy_map_ns", |row| row.busy_ns.map),
        ("busy_padding_ns", |row| row.busy_ns.padding),
        ("busy_parity_ns", |row| row.busy_ns.parity),
        ("busy_journal_ns", |row| row.busy_ns.journal),
        ("busy_total_ns", |row| row.busy_ns.total()),
        ("drive_gc_ns", |row| row.drive_gc_ns),
        ("workload_ns", |row| row.workload_ns),
        ("simulated_ns", |row| row.simulated_ns),
        ("steps", |row| row.steps),
        ("erases_max", |row| row.erases.max.into()),
        ("erases_p50", |row| row.erases.p50.into()),
        ("erases_p99", |row| row.erases.p99.into()),
    ];
    for (name, figure) in figures {
        add(columns, name, Get::Whole(Box::new(move |row| Some(figure(row)))));
    }
    add(columns, "warm_rounds", Get::Whole(Box::new(|row| row.warm_rounds)));
}

fn ratios(columns: &mut Vec<Column>) {
    let figures: [Ratio; 12] = [
        ("waf_layer", |row| row.waf_layer),
        ("waf_drive", |row| row.waf_drive),
        ("waf_total", |row| row.waf_total),
        ("busy_ratio", |row| row.busy_ratio),
        ("iops", |row| row.iops),
        ("warm_overwrites", |row| row.warm_overwrites),
        ("erases_mean", |row| Some(row.erases.mean)),
        ("life_host_tb", |row| row.life.host_tb),
        ("life_host_tb_by_erases", |row| row.life.host_tb_by_erases),
        ("life_host_tb_by_most_erased", |row| row.life.host_tb_by_most_erased),
        ("energy_mj", |row| Some(row.energy.mj)),
        ("energy_mj_per_host_gb", |row| row.energy.mj_per_host_gb),
    ];
    for (name, figure) in figures {
        add(columns, name, Get::Real(figure));
    }
}

fn latencies(columns: &mut Vec<Column>) {
    let kinds: [Kind; 3] = [
        ("read", |row| row.latency_ns.read),
        ("write", |row| row.latency_ns.write),
        ("flush", |row| row.latency_ns.flush),
    ];
    let figures: [Time; 7] = [
        ("mean", |it| it.mean),
        ("p50", |it| it.p50),
        ("p90", |it| it.p90),
        ("p99", |it| it.p99),
        ("p999", |it| it.p999),
        ("p9999", |it| it.p9999),
        ("max", |it| it.max),
    ];
    let legs: [&str; 7] = hostftl_sim::Legs::default().parts().map(|(name, _)| name);
    for (kind, find) in kinds {
        for (name, figure) in figures {
            let get = Get::Whole(Box::new(move |row| find(row).map(figure)));
            add(columns, format!("{kind}_{name}_ns"), get);
        }
        for (index, leg) in legs.into_iter().enumerate() {
            let mean = move |row: &Row| find(row).map(|it| it.legs.parts()[index].1);
            add(columns, format!("{kind}_mean_{leg}_ns"), Get::Whole(Box::new(mean)));
            let tail = move |row: &Row| find(row).map(|it| it.legs_p99.parts()[index].1);
            add(columns, format!("{kind}_p99_{leg}_ns"), Get::Whole(Box::new(tail)));
        }
    }
}
