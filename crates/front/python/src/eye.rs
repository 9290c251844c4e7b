//! Who looks at a study from Python's side: how far it is, what was noticed, whether to stop.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use hostftl_sim::Watch;
use hostftl_trace::Notes;

/// Steps of progress for each row.
const STEPS: u64 = 1000;

/// Looks on from the study's threads, and is looked at from Python's.
pub(crate) struct Eye<'a> {
    stop: &'a AtomicBool,
    /// How far each row of each study is, of [`STEPS`].
    rows: Vec<AtomicU64>,
    /// The first row of the study that is under way.
    first: AtomicUsize,
    warnings: Mutex<Vec<String>>,
}

impl<'a> Eye<'a> {
    /// Looks at a study of so many rows, which ends when `stop` is set.
    pub(crate) fn new(stop: &'a AtomicBool, rows: usize) -> Self {
        let rows = (0..rows).map(|_| AtomicU64::new(0)).collect();
        Eye { stop, rows, first: AtomicUsize::new(0), warnings: Mutex::default() }
    }

    /// From now on looks at another study, whose rows are those from `first` on: the first one told
    /// what is to be noticed.
    pub(crate) fn turn(&self, first: usize) {
        self.first.store(first, Ordering::Relaxed);
    }

    fn first(&self) -> usize {
        self.first.load(Ordering::Relaxed)
    }

    /// The share of the requests that was played, from 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        let steps: u64 = self.rows.iter().map(|row| row.load(Ordering::Relaxed)).sum();
        steps as f64 / (self.rows.len() as u64 * STEPS).max(1) as f64
    }

    /// What was noticed about the workloads.
    pub(crate) fn into_warnings(self) -> Vec<String> {
        self.warnings.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Watch for Eye<'_> {
    fn progress(&self, row: usize, done: u64, total: u64) {
        let steps = done.saturating_mul(STEPS) / total.max(1);
        self.rows[self.first() + row].store(steps, Ordering::Relaxed);
    }

    fn noticed(&self, workload: &str, notes: &Notes) {
        if self.first() > 0 {
            return;
        }
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        // That addresses are packed was asked for, and each row says it in its remarks.
        let mut notes = notes.clone();
        notes.compacted = notes.split > 0;
        warnings.extend(notes.warnings().iter().map(|text| format!("{workload}: {text}")));
    }

    fn left(&self, device: &str, texts: &[String]) {
        if self.first() > 0 {
            return;
        }
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.extend(texts.iter().map(|text| format!("{device}: {text}")));
    }

    fn cancelled(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
