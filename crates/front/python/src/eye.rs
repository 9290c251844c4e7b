//! The observer of a study from Python: progress, warnings and cancellation.

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

use hostftl_sim::Watch;
use hostftl_trace::Notes;

/// Progress steps per row.
const STEPS: u64 = 1000;

/// State shared by the threads of a study and the thread of Python.
pub(crate) struct Eye<'a> {
    stop: &'a AtomicBool,
    /// Progress of each row of each study, in [`STEPS`].
    rows: Vec<AtomicU64>,
    /// First row of the current study.
    first: AtomicUsize,
    warnings: Mutex<Vec<String>>,
}

impl<'a> Eye<'a> {
    /// Creates an observer of `rows` rows; setting `stop` cancels the study.
    pub(crate) fn new(stop: &'a AtomicBool, rows: usize) -> Self {
        let rows = (0..rows).map(|_| AtomicU64::new(0)).collect();
        Eye { stop, rows, first: AtomicUsize::new(0), warnings: Mutex::default() }
    }

    /// Switches to another study, whose rows start at `first`. Only the first study reports
    /// warnings.
    pub(crate) fn turn(&self, first: usize) {
        self.first.store(first, Ordering::Relaxed);
    }

    fn first(&self) -> usize {
        self.first.load(Ordering::Relaxed)
    }

    /// Returns the share of the requests that was played, from 0 to 1.
    pub(crate) fn share(&self) -> f64 {
        let steps: u64 = self.rows.iter().map(|row| row.load(Ordering::Relaxed)).sum();
        steps as f64 / (self.rows.len() as u64 * STEPS).max(1) as f64
    }

    /// Returns the warnings on the workloads.
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
        // Packed addresses are not a warning, because the user requested them and each row records
        // them in its remarks.
        let mut notes = notes.clone();
        notes.compacted = notes.split > 0;
        warnings.extend(notes.warnings().iter().map(|text| format!("{workload}: {text}")));
    }

    fn unused(&self, subject: &str, texts: &[String]) {
        if self.first() > 0 {
            return;
        }
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        warnings.extend(texts.iter().map(|text| format!("{subject}: {text}")));
    }

    fn cancelled(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
