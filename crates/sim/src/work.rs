//! What layer and drives did, as a difference between two moments when nothing was under way.

use hostftl_core::{CAUSES, Cause, Counters, Layer, SECTOR};
use hostftl_drives::{Drive, DriveSpec, DriveWork};

use crate::row::Busy;
use crate::wear::{ByCause, Energy, Erases};
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
    /// Whether it is the layer that erases.
    pub raw: bool,
}

impl Work {
    /// Everything that `world` did so far.
    pub fn of<L: Layer>(world: &World<L>) -> Self {
        Work {
            drives: world.drives.iter().map(Drive::work).collect(),
            erased: world.drives.iter().flat_map(Drive::erased).collect(),
            counters: world.layer().counters(),
            sent_by: world.sent_by,
            raw: world.drives.iter().any(|drive| drive.spec().zoned.is_some()),
        }
    }

    /// That of the first drive alone, which has so many segments.
    #[must_use]
    pub fn of_first(&self, segments: usize) -> Work {
        let (drives, erased) = (self.drives[..1].to_vec(), self.erased[..segments].to_vec());
        Work { drives, erased, ..self.clone() }
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
            raw: self.raw,
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
            let erases = work.flash.busy.erases;
            if self.raw {
                busy.vgc += erases;
            } else {
                busy.copyback += erases;
                busy.drive_gc += erases;
            }
            for cause in Cause::ALL {
                let programs = work.program_busy(cause);
                let reads = work.read_busy(cause);
                match cause {
                    Cause::Host => {
                        busy.request += programs;
                        busy.read += reads;
                    }
                    Cause::Gc => busy.vgc += programs + reads,
                    Cause::Map | Cause::Checkpoint | Cause::List => busy.map += programs + reads,
                    Cause::Pad => busy.padding += programs + reads,
                    Cause::Parity => busy.parity += programs + reads,
                    Cause::Journal => busy.journal += programs + reads,
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
        Erases::of(self.erased.clone())
    }

    /// Energy of all drives, which are made as `spec` says, for a host that wrote and read so many
    /// bytes.
    pub fn energy(&self, spec: &DriveSpec, host_bytes: u64) -> Energy {
        let by = |cause: Cause| self.drives.iter().map(|work| work.energy(spec, cause)).sum();
        let by_cause = ByCause(Cause::ALL.map(by));
        let mj = by_cause.0.iter().sum::<u64>() as f64 / 1e6;
        let gb = host_bytes as f64 / 1e9;
        Energy { mj, mj_per_host_gb: (gb > 0.0).then(|| mj / gb), nj_by_cause: by_cause }
    }

    /// NAND pages read and programmed by all drives, which are made as `spec` says.
    pub fn page_operations(&self, spec: &DriveSpec) -> u64 {
        self.drives.iter().map(|work| work.flash.page_operations(spec.shape.stripe)).sum()
    }

    /// Bytes programmed, by cause.
    pub fn programmed_bytes(&self) -> ByCause {
        let by = |cause: Cause| -> u64 {
            self.drives.iter().map(|work| work.sectors[cause as usize]).sum()
        };
        ByCause(Cause::ALL.map(|cause| by(cause) * SECTOR as u64))
    }
}
