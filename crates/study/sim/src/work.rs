//! What layer and drives did, as a difference between two moments when nothing was under way.

use std::array::from_fn;
use std::ops::Range;

use hostftl_core::{CAUSES, Cause, Counters, Layer, Nanos, SECTOR};
use hostftl_drives::{DeviceSpec, DriveWork, Model};
use serde::Serialize;

use crate::wear::{ByCause, Energy, Erases};
use crate::world::World;

/// How long the drive was busy, in ns, by what it was for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Busy {
    /// Reading for the host.
    pub read: Nanos,
    /// Writing what the host asked for.
    pub request: Nanos,
    /// The drive's read-modify-write and its own collection.
    pub copyback: Nanos,
    /// The layer's collection.
    pub vgc: Nanos,
    /// The layer's map log and checkpoints.
    pub map: Nanos,
    /// The layer's padding.
    pub padding: Nanos,
    /// The layer's parity.
    pub parity: Nanos,
    /// The layer's journal.
    pub journal: Nanos,
    /// The drive's own collection, which is a part of `copyback`.
    #[serde(skip)]
    pub drive_gc: Nanos,
}

impl Busy {
    /// All of it.
    pub fn total(&self) -> Nanos {
        let layer = self.vgc + self.map + self.padding + self.parity + self.journal;
        self.read + self.request + self.copyback + layer
    }
}

/// All that was counted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Each drive.
    pub drives: Vec<DriveWork>,
    /// Erases of each segment of each drive; of a memory, writes of each sector.
    pub worn: Vec<Vec<u32>>,
    /// The layer's own counters.
    pub counters: Counters,
    /// Sectors that the layer sent to each device, by cause.
    pub sent_to: Vec<[u64; CAUSES]>,
    /// Whether it is the layer that erases.
    pub raw: bool,
}

impl Work {
    /// Everything that `world` did so far.
    pub fn of<L: Layer, D: Model>(world: &World<L, D>) -> Self {
        Work {
            drives: world.drives.iter().map(Model::work).collect(),
            worn: world.drives.iter().map(Model::worn).collect(),
            counters: world.layer().counters(),
            sent_to: world.sent_to.clone(),
            raw: world.drives.iter().any(Model::is_raw),
        }
    }

    /// That of some of the devices; the layer's counters are those of all.
    #[must_use]
    pub fn part(&self, devices: Range<usize>) -> Work {
        Work {
            drives: self.drives[devices.clone()].to_vec(),
            worn: self.worn[devices.clone()].to_vec(),
            sent_to: self.sent_to[devices].to_vec(),
            ..*self
        }
    }

    /// What was done since `before`. Of the counters only those of the collection are needed.
    #[must_use]
    pub fn since(&self, before: &Work) -> Work {
        let drives = self.drives.iter().zip(&before.drives);
        let worn = self.worn.iter().zip(&before.worn);
        let worn = worn.map(|(now, before)| now.iter().zip(before).map(|(a, b)| a - b).collect());
        let sent = self.sent_to.iter().zip(&before.sent_to);
        let mut counters = self.counters;
        counters.gc_runs -= before.counters.gc_runs;
        counters.gc_copied -= before.counters.gc_copied;
        Work {
            drives: drives.map(|(now, before)| now.since(before)).collect(),
            worn: worn.collect(),
            counters,
            sent_to: sent.map(|(now, before)| from_fn(|i| now[i] - before[i])).collect(),
            raw: self.raw,
        }
    }

    /// Sectors sent to the devices for `cause`.
    pub fn sent(&self, cause: Cause) -> u64 {
        self.sent_to.iter().map(|sent| sent[cause as usize]).sum()
    }

    /// All of them.
    pub fn sent_in_all(&self) -> u64 {
        self.sent_to.iter().flatten().sum()
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

    /// Erases of a segment, or writes of a memory's sector.
    pub fn erases(&self) -> Erases {
        Erases::of(self.worn.concat())
    }

    /// Energy of all drives, which are made as `specs` say, for a host that wrote and read so many
    /// bytes. Nothing is known of the energy of memories.
    pub fn energy(&self, specs: &[DeviceSpec], host_bytes: u64) -> Energy {
        let by = |cause: Cause| {
            self.drives.iter().zip(specs).map(|(work, spec)| spec.energy(work, cause)).sum()
        };
        let by_cause = ByCause(Cause::ALL.map(by));
        let mj = by_cause.0.iter().sum::<u64>() as f64 / 1e6;
        let gb = host_bytes as f64 / 1e9;
        let known = gb > 0.0 && specs.iter().all(DeviceSpec::is_flash);
        Energy { mj, mj_per_host_gb: known.then(|| mj / gb), nj_by_cause: by_cause }
    }

    /// NAND pages read and programmed by all drives, which are made as `specs` say.
    pub fn page_operations(&self, specs: &[DeviceSpec]) -> u64 {
        self.drives.iter().zip(specs).map(|(work, spec)| spec.page_operations(work)).sum()
    }

    /// Bytes programmed, by cause.
    pub fn programmed_bytes(&self) -> ByCause {
        let by = |cause: Cause| -> u64 {
            self.drives.iter().map(|work| work.sectors[cause as usize]).sum()
        };
        ByCause(Cause::ALL.map(|cause| by(cause) * SECTOR as u64))
    }
}
