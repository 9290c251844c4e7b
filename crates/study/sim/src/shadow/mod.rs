//! A shadow: requests of clients to a sample of a volume drive counting models of its drive,
//! without a layer and with each of several layers.
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

use hostftl_trace::{Compressibility, Op, Record};

use crate::layer_spec::LayerSpec;
use crate::stack::Stack;
use class::Class;
use model::{Model, suited};
pub use report::{Candidate, Doubt, ShadowReport};
use report::{Row, bytes, sums};
use sample::{GRAIN, Selection};
pub use tap::Tap;

/// Maximum memory of all models in bytes.
const MEMORY: u64 = 56 << 20;
/// Maximum number of classes. More give a better interval, but each needs a slice of its own.
const CLASSES: u64 = 8;
/// Number of classes below which the interval says little.
const LEAST_CLASSES: u64 = 3;
/// Number of grains of a class, if the memory suffices. On a drive with indirection units (IU) of
/// 64 KiB the slice then has 512 reclaim units of 128 IUs. With an eighth of that, figures of
/// layers differed from those of the whole drive by up to 10 %.
const SIZE: u64 = 4096;
/// Number of grains of a class below which a shadow that is too slow ends.
const FEWEST_GRAINS: u64 = 64;
/// Sectors from which reserves that do not depend on the size of the drive do not matter: 1 TiB.
const LARGE: u64 = 1 << 31;
/// Steps in which the slice of a layer is adapted.
const STEPS: usize = 4;
/// Relative change over an overwrite of the volume below which write amplification has settled.
const SETTLED: f64 = 0.02;
/// Number of overwrites after which figures count in any case: the workload itself changes.
const MOST_SPANS: u64 = 8;

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
    /// Compressibility of the data, if it is known.
    compress: Option<Compressibility>,
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
        // A small volume is sampled as a whole.
        let size = if grains < 2 * SIZE { grains } else { SIZE };
        let used = spec.filled;
        let mut shadow = Shadow {
            spec,
            tap,
            grains,
            used,
            compress: None,
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
        let memory = |shadow: &Self, grains: u64| -> Result<u64, String> {
            let slices = shadow.slices(grains * GRAIN)?;
            Ok(slices.iter().map(|(layer, stack)| Model::memory(layer, stack)).sum())
        };
        let count = |shadow: &Self| (shadow.grains / shadow.size).clamp(1, most);
        // A few classes at least, unless the whole volume is one.
        let least = |shadow: &Self| count(shadow).min(LEAST_CLASSES);
        while self.size > FEWEST_GRAINS && memory(self, self.size)? * least(self) > MEMORY {
            self.size = self.size * 3 / 4;
        }
        let affordable = MEMORY / memory(self, self.size)?.max(1);
        let selection = Selection::new(self.grains, self.size, count(self).min(affordable).max(1));
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
        let models = self.slices(exported)?.into_iter();
        let models = models.map(|(layer, stack)| Model::new(&layer, &stack, exported));
        let mut class = Class::new(grains, models.collect());
        class.fill(self.used);
        Ok(class)
    }

    /// Returns each layer with its slice for a class of `exported` sectors.
    ///
    /// A layer reserves space that is not in proportion to the drive: whole segments, and a number
    /// of them that are open. Its slice is larger or smaller by the difference, so that the same
    /// share of the exported capacity is spare as on the whole drive.
    fn slices(&self, exported: u64) -> Result<Vec<(LayerSpec, Stack)>, String> {
        let ShadowSpec { sectors, layers, slice, granularity, .. } = &self.spec;
        let sectors = (*sectors).min(LARGE);
        let whole = slice(bytes(sectors))?;
        let each = layers.iter().map(|layer| {
            let made = |stack: &Stack| suited(layer, stack, *granularity, exported);
            let stack = slice(bytes(exported))?;
            let most = model::exported(&suited(layer, &whole, *granularity, sectors), &whole);
            let Some(most) = most.filter(|_| layer.base().is_none()) else {
                return Ok((made(&stack), stack));
            };
            let wanted = most as f64 / sectors as f64 * exported as f64;
            let missing =
                |stack: &Stack| Some(wanted - model::exported(&made(stack), stack)? as f64);
            let (mut size, mut stacks) = (exported as f64, vec![stack]);
            for _ in 0..STEPS {
                let Some(missing) = stacks.last().and_then(missing) else { break };
                size += missing;
                stacks.push(slice(bytes(size.max(1.0) as u64))?);
            }
            let miss = |stack: &Stack| missing(stack).map_or(f64::INFINITY, f64::abs);
            let best = stacks.into_iter().min_by(|one, other| miss(one).total_cmp(&miss(other)));
            let best = best.expect("there is a first");
            Ok((made(&best), best))
        });
        each.collect()
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

    /// Sets the compressibility of the data from now on.
    pub fn set_compress(&mut self, compress: Option<Compressibility>) {
        self.compress = compress;
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
        let drawn = self.compress.map(|it| it.draw(0, record.lba, self.taken));
        let record = &Record { saved: record.saved.or(drawn), ..*record };
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
            let is_steady = period.change.is_some_and(|(_, change)| change < SETTLED);
            period.is_settled = is_steady || period.spans >= MOST_SPANS;
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
        let (count, kept) = (self.classes.len() as u64, self.classes.len() / 2);
        if kept as u64 >= LEAST_CLASSES {
            self.classes.truncate(kept);
            self.period.from.rows.truncate(kept);
            self.period.span.rows.truncate(kept);
            self.tap.select(self.tap.limit() / count * kept as u64);
            return;
        }
        // The slices of smaller classes are new, so the figures start again.
        self.size = self.size * count / 2 / LEAST_CLASSES;
        self.is_over = self.size < FEWEST_GRAINS || self.select(LEAST_CLASSES).is_err();
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
        if doubts.is_empty() {
            doubts.extend(report::scattered(&candidates));
        }
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
