//! The subject of a comparison, and the observer of its progress.

use std::path::PathBuf;

use hostftl_trace::Notes;

use crate::choice::LayerChoice;
use crate::export::Export;
use crate::load::Load;
use crate::stack::Stack;
use crate::state::Warm;

/// The part of the memory limit that the workloads may take together: one in so many.
pub(crate) const LOADS_SHARE: u64 = 4;

/// What to compare.
#[derive(Clone, Debug)]
pub struct Study {
    /// The requests.
    pub workloads: Vec<Load>,
    /// The drives, or stacks of several; new ones for each row.
    pub drives: Vec<Stack>,
    /// The layers.
    pub layers: Vec<LayerChoice>,
    /// The states of the drives before; how they come about is not part of the rows.
    pub warm: Vec<Warm>,
    /// What the host can address.
    pub export: Export,
    /// The folder where aged stacks are kept, and taken from when they are there.
    pub cache: Option<PathBuf>,
    /// So many requests always under way, instead of the workload's own times.
    pub closed_loop: Option<u32>,
    /// Whether the workload's addresses are packed.
    pub compact: bool,
    /// Fixes everything that is random.
    pub seed: u64,
    /// Rows that are made at the same time, at most.
    pub threads: usize,
    /// Bytes of memory that all that is under way may take.
    pub memory: u64,
}

/// Who looks on, from several threads.
pub trait Watch: Sync {
    /// Row `row`, from 0, has played `done` of `total` requests.
    fn progress(&self, row: usize, done: u64, total: u64);

    /// Row `row` is still ageing its drive.
    fn warming(&self, row: usize) {
        let _ = row;
    }

    /// What the reader of the workload of that name noticed, before the first row.
    fn noticed(&self, workload: &str, notes: &Notes) {
        let _ = (workload, notes);
    }

    /// What the file of the device of that name says and is not carried over, before the first
    /// row.
    fn left(&self, device: &str, texts: &[String]) {
        let _ = (device, texts);
    }

    /// Whether to stop now.
    fn cancelled(&self) -> bool;
}

/// Tells `watch` of each device whose file says more than its model knows, once.
pub(crate) fn tell_of_devices(study: &Study, watch: &dyn Watch) {
    let devices = study.drives.iter().flat_map(|stack| &stack.devices);
    let mut told: Vec<&str> = Vec::new();
    for device in devices.filter(|device| !device.left().is_empty()) {
        if !told.contains(&device.name()) {
            told.push(device.name());
            watch.left(device.name(), device.left());
        }
    }
}

/// Looks on without a word.
#[derive(Clone, Copy, Debug, Default)]
pub struct Silent;

impl Watch for Silent {
    fn progress(&self, _row: usize, _done: u64, _total: u64) {}

    fn cancelled(&self) -> bool {
        false
    }
}

impl Study {
    /// How many rows there will be.
    pub fn rows(&self) -> usize {
        self.workloads.len() * self.drives.len() * self.warm.len() * self.layers.len()
    }
}
