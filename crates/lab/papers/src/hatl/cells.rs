//! Runs all workloads on every layer, one row per thread at a time.

use std::sync::atomic::{AtomicU64, Ordering};

use hostftl_drives::DriveSpec;
use hostftl_sim::{
    Export, LayerSpec, Load, MOST_SPANS, Outcome, Pace, Row, Study, Warm, default_memory,
};

use crate::{Error, Options, Watch};

/// Progress units per row.
const PARTS: u64 = 100;

/// Layers with their names; the first is the drive without a layer.
pub(super) type Layers = [(&'static str, &'static str)];

/// Rows of one workload, one per layer.
pub(super) type Rows = Vec<Row>;

/// Workloads that run on the same layers and the same new drive.
pub(super) struct Group {
    /// Drive.
    pub drive: &'static str,
    /// Layers.
    pub layers: &'static Layers,
    /// Workloads.
    pub loads: Vec<Load>,
    /// Queue depth. `None` plays a trace at its own times, with packed addresses.
    pub pace: Pace,
}

impl Group {
    fn rows(&self) -> usize {
        self.loads.len() * self.layers.len()
    }
}

/// Progress of one study after the rows of earlier studies.
struct Progress<'a> {
    watch: &'a dyn Watch,
    group: &'a Group,
    /// Progress of each row.
    rows: Vec<AtomicU64>,
    before: usize,
    of: usize,
}

impl hostftl_sim::Watch for Progress<'_> {
    fn progress(&self, row: usize, done: u64, total: u64) {
        self.rows[row].store(done * PARTS / total.max(1), Ordering::Relaxed);
        let done: u64 = self.rows.iter().map(|row| row.load(Ordering::Relaxed)).sum();
        let what = &self.group.loads[row / self.group.layers.len()].name;
        self.watch.progress(what, self.before + done as usize, self.of);
    }

    fn cancelled(&self) -> bool {
        self.watch.cancelled()
    }
}

/// Returns the rows of each workload of each group, in order.
pub(super) fn make(
    groups: &[Group],
    options: &Options,
    watch: &dyn Watch,
) -> Result<Vec<Vec<Rows>>, Error> {
    let of = groups.iter().map(Group::rows).sum::<usize>() * PARTS as usize;
    let mut before = 0;
    let one = |group| {
        let rows = (0..Group::rows(group)).map(|_| AtomicU64::new(0)).collect();
        let made = study(&Progress { watch, group, rows, before, of }, options)?;
        before += group.rows() * PARTS as usize;
        Ok(made)
    };
    groups.iter().map(one).collect()
}

/// Returns the rows of a group: one per layer for each workload.
fn study(part: &Progress, options: &Options) -> Result<Vec<Rows>, Error> {
    let failed = |why: &dyn std::fmt::Display| Error::Failed(why.to_string());
    let group = part.group;
    if group.loads.is_empty() {
        return Ok(Vec::new());
    }
    let layers = group.layers.iter().map(|(_, text)| LayerSpec::parse(text));
    let study = Study {
        workloads: group.loads.clone(),
        drives: vec![DriveSpec::find(group.drive).map_err(|why| failed(&why))?.into()],
        layers: layers.collect::<Result<_, _>>().map_err(|why| failed(&why))?,
        warm: vec![Warm::NEW],
        export: Export::Most,
        cache: None,
        pace: group.pace,
        most_spans: MOST_SPANS,
        compact: group.pace == Pace::Trace,
        seed: options.seed,
        threads: options.threads,
        memory: default_memory(),
    };
    let rows =
        hostftl_sim::compare(&study, part).and_then(Outcome::whole).map_err(|why| failed(&why))?;
    if rows.len() == group.rows() && !part.watch.cancelled() {
        Ok(rows.chunks(group.layers.len()).map(<[Row]>::to_vec).collect())
    } else {
        Err(Error::Cancelled)
    }
}
