//! What layer and drives did, as a difference between two moments when nothing was under way.

use hostftl_core::{CAUSES, Cause, Counters, Layer};
use hostftl_drives::{Drive, DriveWork};

use crate::row::{Busy, Erases};
use crate::world::World;

/// All that was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Each drive.
    pub drives: Vec<DriveWork>,
    /// Erases of each segment of all drives.
    pub erased: Vec<u32>,
    /// The layer's own counters.
    pub counters: Counters,
    /// Sectors that the layer sent to its devices, by cause.
    pub sent_by: [u64; CAUSES],
}

impl Work {
    /// Everything that `world` did so far.
    pub fn of<L: Layer>(world: &World<L>) -> Self {
        Work {
            drives: world.drives.iter().map(Drive::work).collect(),
            erased: world.drives.iter().flat_map(Drive::erased).collect(),
            counters: world.layer().counters(),
            sent_by: world.sent_by,
        }
    }

    /// What was done since `before`. Of the counters only those of the collection are needed.
    #[must_use]
    pub fn since(&self, before: &Work) -> Work {
        let drives = self.drives.iter().zip(&before.drives);
        let erased = self.erased.iter().zip(&before.erased);
        let mut counters = self.counters;
        counters.gc_runs -= before.counters.gc_runs;
        counters.gc_copied -= before.counters.gc_copied;
        Work {
            drives: drives.map(|(now, before)| now.since(before)).collect(),
            erased: erased.map(|(now, before)| now - before).collect(),
            counters,
            sent_by: std::array::from_fn(|i| self.sent_by[i] - before.sent_by[i]),
        }
    }

    /// Sectors sent to the devices for `cause`.
    pub fn sent(&self, cause: Cause) -> u64 {
        self.sent_by[cause as usize]
    }

    /// Sectors programmed in flash.
    pub fn programmed(&self) -> u64 {
        self.drives.iter().map(DriveWork::programmed).sum()
    }

    /// The busy time of all drives, split by what it was for.
    pub fn busy(&self) -> Busy {
        let mut busy = Busy::default();
        for work in &self.drives {
            let drive_gc = work.flash.busy.erases;
            busy.copyback += drive_gc;
            busy.drive_gc += drive_gc;
            for cause in Cause::ALL {
                let programs = work.program_busy(cause);
                let reads = work.read_busy(cause);
                match cause {
                    Cause::Host => {
                        busy.request += programs;
                        busy.read += reads;
                    }
                    Cause::Gc => busy.vgc += programs + reads,
                    Cause::Pad | Cause::Parity => busy.padding += programs + reads,
                    Cause::Map | Cause::Checkpoint => busy.map += programs + reads,
                    Cause::Rmw => busy.copyback += programs + reads,
                    Cause::DriveGc => {
                        busy.copyback += programs + reads;
                        busy.drive_gc += programs + reads;
                    }
                }
            }
        }
        busy
    }

    /// Erases of a segment.
    pub fn erases(&self) -> Erases {
        let total: u64 = self.erased.iter().map(|&count| u64::from(count)).sum();
        let max = self.erased.iter().copied().max().unwrap_or(0);
        Erases { mean: total as f64 / self.erased.len().max(1) as f64, max }
    }
}
