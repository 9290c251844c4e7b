//! The rows of all workloads: each through every layer, as many at a time as there are threads.

use std::sync::atomic::{AtomicU64, Ordering};

use hostftl_drives::DriveSpec;
use hostftl_sim::{Export, LayerChoice, Load, Outcome, Row, Study, Warm, default_memory};

use super::LAYERS;
use crate::{Error, Options, Watch};

/// Parts of a row, for whoever waits.
const PARTS: u64 = 100;

/// The rows of a workload, one for each layer.
pub type Rows = Vec<Row>;

/// What is watched: the rows of one study, behind those of the studies before it.
struct Progress<'a> {
    watch: &'a dyn Watch,
    loads: &'a [Load],
    /// How far each row is.
    rows: Vec<AtomicU64>,
    before: usize,
    of: usize,
}

impl hostftl_sim::Watch for Progress<'_> {
    fn progress(&self, row: usize, done: u64, total: u64) {
        self.rows[row].store(done * PARTS / total.max(1), Ordering::Relaxed);
        let done: u64 = self.rows.iter().map(|row| row.load(Ordering::Relaxed)).sum();
        let what = &self.loads[row / LAYERS.len()].name;
        self.watch.progress(what, self.before + done as usize, self.of);
    }

    fn cancelled(&self) -> bool {
        self.watch.cancelled()
    }
}

/// The rows of each synthetic workload, and of each trace on its drive, in their order. Traces keep
/// their times.
///
/// # Errors
/// When a trace can't be read, a law is broken, or nobody waits.
pub fn make(
    synthetic: &[Load],
    traces: &[(&str, Load)],
    options: &Options,
    watch: &dyn Watch,
) -> Result<[Vec<Rows>; 2], Error> {
    let unique = unique(synthetic);
    let parts = PARTS as usize * LAYERS.len();
    let of = parts * (unique.len() + traces.len());
    let progress = |loads, before| Progress { watch, loads, rows: Vec::new(), before, of };
    let mut traced = Vec::new();
    for (drive, load) in traces {
        let part = progress(std::slice::from_ref(load), parts * traced.len());
        traced.extend(study(drive, None, part, options)?);
    }
    let made = study("hatl-2g", Some(16), progress(&unique, parts * traces.len()), options)?;
    let place = |load: &Load| unique.iter().position(|other| other.source == load.source);
    let rows = synthetic.iter().filter_map(place).map(|at| made[at].clone());
    Ok([rows.collect(), traced])
}

/// Each workload once: the sweep has some of the reference too.
fn unique(loads: &[Load]) -> Vec<Load> {
    let is_new = |at: &usize| loads[..*at].iter().all(|other| other.source != loads[*at].source);
    (0..loads.len()).filter(is_new).map(|at| loads[at].clone()).collect()
}

/// A row for each layer under each of the workloads that are watched.
fn study(
    drive: &str,
    closed_loop: Option<u32>,
    part: Progress,
    options: &Options,
) -> Result<Vec<Rows>, Error> {
    let failed = |why: &dyn std::fmt::Display| Error::Failed(why.to_string());
    let layers = LAYERS.iter().map(|(_, text)| LayerChoice::parse(text));
    let study = Study {
        workloads: part.loads.to_vec(),
        drives: vec![DriveSpec::find(drive).map_err(|why| failed(&why))?],
        layers: layers.collect::<Result<_, _>>().map_err(|why| failed(&why))?,
        warm: vec![Warm::NEW],
        export: Export::Most,
        cache: None,
        closed_loop,
        compact: closed_loop.is_none(),
        seed: options.seed,
        threads: options.threads,
        memory: default_memory(),
    };
    let count = study.rows();
    let part = Progress { rows: (0..count).map(|_| AtomicU64::new(0)).collect(), ..part };
    let rows =
        hostftl_sim::compare(&study, &part).and_then(Outcome::whole).map_err(|why| failed(&why))?;
    match rows.len() == count && !part.watch.cancelled() {
        true => Ok(rows.chunks(LAYERS.len()).map(<[Row]>::to_vec).collect()),
        false => Err(Error::Cancelled),
    }
}
