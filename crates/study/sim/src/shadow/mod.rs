//! A shadow: live requests on a sample of a volume drive counting models of the drive, without a
//! layer and with each of several layers.
//!
//! The sample is a set of grains of 1 MiB that a hash selects, in a few independent classes. Each
//! class is a small volume on a slice of the drive with the same share of over-provisioning, so its
//! write amplification is that of the whole. The slices start with the share of data that the
//! volume has, and the requests age them: figures count from the moment when write amplification
//! has settled.
//!
//! Invariants
//! - The memory is bounded: classes are as many and as large as [`MEMORY`] allows.
//! - All candidates process the same requests, and their figures are for the same period.
//! - A smaller sample is a subset of the former. Classes are removed as a whole, so that the slices
//!   of the others keep their share of over-provisioning.

mod class;
mod model;
mod report;
mod sample;
mod tap;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use hostftl_trace::{Op, Record};

use crate::layer_spec::LayerSpec;
use crate::stack::Stack;
use class::Class;
use model::{Model, suited};
pub use report::{Candidate, Doubt, ShadowReport};
use report::{Row, bytes, sums};
use sample::{GRAIN, Selection};
pub use tap::Tap;

/// Maximum memory of all models in bytes.
const MEMORY: u64 = 48 << 20;
/// Maximum number of classes. More give a better interval, but each needs a slice of its own.
const CLASSES: u64 = 8;
/// Map units of the drive in a class: a slice with 512 reclaim units of 128 map units.
const UNITS: u64 = 512 * 128;
/// Minimum number of grains of a class. Fewer miss a small working set too often.
const LEAST_GRAINS: u64 = 512;
/// Number of grains of a class below which a shadow that is too slow ends.
const FEWEST_GRAINS: u64 = 64;
/// Relative change over an overwrite of the volume below which write amplification has settled.
const SETTLED: f64 = 0.05;
/// Number of overwrites after which figures count in any case: the workload itself changes.
const MOST_SPANS: u64 = 4;

/// Makes the slice of the drive on which a volume of the given number of bytes has the share of the
/// drive that the whole volume has.
pub type SliceOf = Box<dyn Fn(u64) -> Result<Stack, String> + Send>;

/// Settings of a shadow.
pub struct ShadowSpec {
    /// Size of the volume in sectors.
    pub sectors: u64,
    /// Layers. No layer is added as the first.
    pub layers: Vec<LayerSpec>,
    /// Share of the volume that holds data at the start.
    pub filled: f64,
    /// Sectors of which nearly all writes are multiples.
    pub granularity: u32,
    /// Makes slices of the drive.
    pub slice: SliceOf,
}

/// Models of all candidates on a sample of a volume.
pub struct Shadow {
    spec: ShadowSpec,
    tap: Arc<Tap>,
    /// Grains of the volume.
    grains: u64,
    /// Share of the volume that holds data now.
    used: f64,
    classes: Vec<Class>,
    /// Requested number of grains of a class.
    size: u64,
    /// Requests that were processed.
    taken: u64,
    /// Time of the last request.
    now_ns: u64,
    is_over: bool,
    period: Period,
}

/// The measured period, and the current span: an overwrite of the sample.
#[derive(Default)]
struct Period {
    /// Sectors written to the volume before the models started.
    before: u64,
    /// Start of the measured period.
    from: Mark,
    /// Start of the current span.
    span: Mark,
    /// Number of completed spans.
    spans: u64,
    /// Write amplification of each candidate in the last span.
    wafs: Vec<f64>,
    /// Candidate with the largest change, and the change.
    change: Option<(usize, f64)>,
    is_settled: bool,
}

/// Counters at a moment.
#[derive(Clone, Default)]
struct Mark {
    t_ns: u64,
    /// Sectors written to the volume.
    total: u64,
    dropped: u64,
    taken: u64,
    rows: Vec<Row>,
}

impl Shadow {
    /// Creates a shadow of the requests that `tap` selects.
    ///
    /// # Errors
    /// If the drive is unknown, or no layer at all can run.
    pub fn new(mut spec: ShadowSpec, tap: Arc<Tap>) -> Result<Self, String> {
        let is_none = |layer: &LayerSpec| layer.base() == Some(0);
        spec.layers.retain(|layer| !is_none(layer));
        spec.layers.insert(0, LayerSpec::parse("none").expect("no layer is built in"));
        let grains = (spec.sectors / GRAIN).max(1);
        let unit = (spec.slice)(bytes(grains * GRAIN).min(1 << 30))?.map_unit();
        let size = (UNITS * u64::from(unit) / GRAIN).max(LEAST_GRAINS);
        // A small volume is sampled as a whole.
        let size = if grains < 2 * size { grains } else { size };
        let used = spec.filled;
        let mut shadow = Shadow {
            spec,
            tap,
            grains,
            used,
            classes: Vec::new(),
            size,
            taken: 0,
            now_ns: 0,
            is_over: false,
            period: Period::default(),
        };
        shadow.select(CLASSES)?;
        Ok(shadow)
    }

    /// Selects up to `most` classes of the current size, or smaller ones if the memory does not
    /// suffice, and creates their models.
    fn select(&mut self, most: u64) -> Result<(), String> {
        let ShadowSpec { layers, slice, granularity, .. } = &self.spec;
        let memory = |grains: u64| -> Result<u64, String> {
            let stack = slice(bytes(grains * GRAIN))?;
            let exported = grains * GRAIN;
            let suited = layers.iter().map(|layer| suited(layer, &stack, *granularity, exported));
            Ok(suited.map(|layer| Model::memory(&layer, &stack)).sum())
        };
        let mut classes = (self.grains / self.size).clamp(1, most);
        // Two classes at least, unless the whole volume is one.
        while self.size > FEWEST_GRAINS && memory(self.size)? * classes.min(2) > MEMORY {
            self.size /= 2;
            classes = (self.grains / self.size).clamp(1, most);
        }
        classes = classes.min((MEMORY / memory(self.size)?.max(1)).max(1));
        let selection = Selection::new(self.grains, self.size, classes);
        let grains = selection.grains(self.grains).into_iter().filter(|it| !it.is_empty());
        let classes = grains.map(|grains| self.class(grains)).collect::<Result<_, _>>()?;
        self.classes = classes;
        self.period = Period { before: self.tap.written(), ..Period::default() };
        self.mark();
        self.period.from = self.period.span.clone();
        self.tap.select(selection.limit());
        Ok(())
    }

    fn class(&self, grains: Vec<u64>) -> Result<Class, String> {
        let exported = grains.len() as u64 * GRAIN;
        let stack = (self.spec.slice)(bytes(exported))?;
        let granularity = self.spec.granularity;
        let model = |layer: &LayerSpec| {
            Model::new(&suited(layer, &stack, granularity, exported), &stack, exported)
        };
        let mut class = Class::new(grains, self.spec.layers.iter().map(model).collect());
        class.fill(self.used);
        Ok(class)
    }

    /// Returns the share of the volume that is sampled.
    pub fn rate(&self) -> f64 {
        self.sampled() as f64 / self.grains as f64
    }

    fn sampled(&self) -> u64 {
        self.classes.iter().map(|class| class.len() as u64).sum()
    }

    /// Sets the share of the volume that holds data now.
    pub fn set_used(&mut self, share: f64) {
        self.used = share;
    }

    /// Observes a request in place of the tap.
    pub fn observe(&mut self, record: &Record) {
        if self.tap.takes(record) {
            self.apply(record);
        }
    }

    /// Applies a request that the tap selected.
    pub fn apply(&mut self, record: &Record) {
        if self.is_over {
            return;
        }
        (self.taken, self.now_ns) = (self.taken + 1, record.t_ns);
        for class in &mut self.classes {
            let rate = class.len() as f64 / self.grains as f64;
            let most = (class.len() as f64 * self.used).round() as usize;
            class.apply(record, rate, most);
        }
        if record.op == Op::Write && self.taken.is_multiple_of(64) {
            self.end_span();
        }
    }

    /// Ends the span when the sample was overwritten once.
    fn end_span(&mut self) {
        let rows: Vec<Row> = self.classes.iter().map(Class::written).collect();
        let span = sums(&since(&rows, &self.period.span.rows));
        let written = span.iter().map(|it| it.host).max().unwrap_or(0);
        if written < self.sampled() * GRAIN {
            return;
        }
        let period = &mut self.period;
        let wafs: Vec<f64> =
            span.iter().map(|it| it.programmed as f64 / it.host.max(1) as f64).collect();
        let changes = wafs.iter().zip(&period.wafs).map(|(now, before)| (now / before - 1.0).abs());
        let changes = changes.enumerate().filter(|(_, change)| change.is_finite());
        period.change = changes.max_by(|one, other| one.1.total_cmp(&other.1));
        (period.wafs, period.spans) = (wafs, period.spans + 1);
        let is_kept = period.is_settled;
        if !is_kept {
            period.from = period.span.clone();
            let is_calm = period.change.is_some_and(|(_, change)| change < SETTLED);
            period.is_settled = is_calm || period.spans >= MOST_SPANS;
        }
        self.classes.iter_mut().for_each(|class| class.end_span(is_kept));
        self.mark();
    }

    /// Starts a span now.
    fn mark(&mut self) {
        let rows = self.classes.iter().map(Class::written).collect();
        let (total, dropped) = (self.tap.written(), self.tap.dropped());
        self.period.span = Mark { t_ns: self.now_ns, total, dropped, taken: self.taken, rows };
    }

    /// Halves the sample, because processing it takes too long.
    pub fn shrink(&mut self) {
        let count = self.classes.len();
        if count >= 4 {
            self.classes.truncate(count / 2);
            self.period.from.rows.truncate(count / 2);
            self.period.span.rows.truncate(count / 2);
            let limit = self.tap.limit();
            self.tap.select((limit / count as u64).saturating_mul(count as u64 / 2));
            return;
        }
        // The slices of smaller classes are new, so the figures start again.
        self.size /= if count == 1 { 4 } else { 2 };
        self.is_over = self.size < FEWEST_GRAINS || self.select(2).is_err();
        if self.is_over {
            self.classes.clear();
            self.tap.select(0);
        }
    }

    /// Returns the figures of all candidates.
    pub fn report(&self) -> ShadowReport {
        let Period { before, from, spans, change, is_settled, .. } = &self.period;
        let rows: Vec<Row> = self.classes.iter().map(Class::written).collect();
        let rows = since(&rows, &from.rows);
        let rate = self.rate();
        let of = |(index, layer): (usize, &LayerSpec)| {
            report::candidate((index, &layer.name), &rows, rate, &self.classes)
        };
        let total = self.tap.written() - from.total;
        let mut doubts = Vec::new();
        if self.is_over {
            doubts.push(Doubt::Overloaded);
        } else if !is_settled {
            let few = Doubt::FewWrites {
                written_bytes: bytes(self.tap.written() - before),
                needed_bytes: bytes(2 * self.spec.sectors),
            };
            let changed = change.filter(|_| *spans >= 2).map(|(index, change)| Doubt::Unsettled {
                layer: self.spec.layers[index].name.clone(),
                change,
            });
            doubts.push(changed.unwrap_or(few));
        }
        doubts.extend(report::lopsided(&self.classes, rate, total));
        doubts.extend(report::dropped(self.tap.dropped() - from.dropped, self.taken - from.taken));
        let running = if self.is_over { &[] } else { &self.spec.layers[..] };
        let candidates: Vec<Candidate> = running.iter().enumerate().map(of).collect();
        let sampled = sums(&rows).iter().map(|it| it.host).max().unwrap_or(0);
        ShadowReport {
            since_ns: from.t_ns,
            rate,
            host_bytes: bytes(total),
            sampled_bytes: bytes(sampled),
            candidates,
            doubts,
        }
    }
}

/// Returns the sectors of each class and candidate since a mark.
fn since(rows: &[Row], before: &[Row]) -> Vec<Row> {
    let each = rows.iter().zip(before);
    each.map(|(now, before)| now.iter().zip(before).map(|(now, it)| now.since(*it)).collect())
        .collect()
}
