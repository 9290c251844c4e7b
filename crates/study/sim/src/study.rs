//! The subject of a comparison, and the observer of its progress.

use std::path::PathBuf;

use hostftl_trace::Notes;

use crate::export::Export;
use crate::layer_spec::LayerSpec;
use crate::load::Load;
use crate::player::Pace;
use crate::stack::Stack;
use crate::state::Warm;

/// Fraction of the memory limit for all workloads together: one part in this number.
pub(crate) const LOADS_SHARE: u64 = 4;

/// The subject of a comparison.
#[derive(Clone, Debug)]
pub struct Study {
    /// Workloads.
    pub workloads: Vec<Load>,
    /// Drives, or stacks of several; each row gets new ones.
    pub drives: Vec<Stack>,
    /// Layers.
    pub layers: Vec<LayerSpec>,
    /// States of the drives before the workload. Ageing is not part of the rows.
    pub warm: Vec<Warm>,
    /// Exported capacity.
    pub export: Export,
    /// Directory in which preconditioned stacks are saved, and from which they are loaded.
    pub cache: Option<PathBuf>,
    /// Timing of the requests.
    pub pace: Pace,
    /// Maximum number of spans when the workload itself ages a drive; usually [`MOST_SPANS`].
    ///
    /// [`MOST_SPANS`]: crate::MOST_SPANS
    pub most_spans: u64,
    /// Whether the workload's addresses are packed.
    pub compact: bool,
    /// Seed of all random choices.
    pub seed: u64,
    /// Maximum number of rows in progress.
    pub threads: usize,
    /// Memory limit in bytes for everything in progress.
    pub memory: u64,
}

/// An observer of a study, called from several threads.
pub trait Watch: Sync {
    /// Reports that row `row`, counted from 0, has played `done` of `total` requests.
    fn progress(&self, row: usize, done: u64, total: u64);

    /// Reports that row `row` is still ageing its drive, and the share that is done if ageing takes
    /// as long as it may.
    fn warming(&self, row: usize, share: f64) {
        let _ = (row, share);
    }

    /// Reports the reader's notes on the workload of that name, before the first row.
    fn noticed(&self, workload: &str, notes: &Notes) {
        let _ = (workload, notes);
    }

    /// Reports settings of a device's file, or parameters of a layer on a drive, that have no
    /// effect, before the first row.
    fn unused(&self, subject: &str, texts: &[String]) {
        let _ = (subject, texts);
    }

    /// Returns whether to stop now.
    fn cancelled(&self) -> bool;
}

/// An observer without output.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unobserved;

impl Watch for Unobserved {
    fn progress(&self, _row: usize, _done: u64, _total: u64) {}

    fn cancelled(&self) -> bool {
        false
    }
}

impl Study {
    /// Returns the number of combinations.
    pub fn rows(&self) -> usize {
        self.workloads.len() * self.drives.len() * self.warm.len() * self.layers.len()
    }
}
