//! Work of layer and drives, as the difference between two moments without requests in progress.

use std::array::from_fn;
use std::ops::Range;

use hostftl_core::{CAUSES, Cause, Counters, Layer, Nanos, SECTOR};
use hostftl_drives::{DeviceSpec, DriveWork, HandleWork, Model};
use serde::Serialize;

use crate::wear::{ByCause, Energy, Erases};
use crate::world::World;

/// Busy time of the drive in ns, by purpose.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Busy {
    /// Reads of the host.
    pub read: Nanos,
    /// Writes of the host.
    pub request: Nanos,
    /// Read-modify-writes and garbage collection of the drive.
    pub copyback: Nanos,
    /// Garbage collection of the layer.
    pub vgc: Nanos,
    /// Map log and checkpoints of the layer.
    pub map: Nanos,
    /// Padding of the layer.
    pub padding: Nanos,
    /// Parity of the layer.
    pub parity: Nanos,
    /// Journal of the layer.
    pub journal: Nanos,
    /// Garbage collection of the drive, which is part of `copyback`.
    #[serde(skip)]
    pub drive_gc: Nanos,
}

impl Busy {
    /// Returns the total.
    pub fn total(&self) -> Nanos {
        let layer = self.vgc + self.map + self.padding + self.parity + self.journal;
        self.read + self.request + self.copyback + layer
    }
}

/// All counters of a world.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Work {
    /// Counters of each drive.
    pub drives: Vec<DriveWork>,
    /// Work of each drive for each placement id; empty for a drive with only one.
    pub handles: Vec<Vec<HandleWork>>,
    /// Erases of each segment of each drive; for memories, writes of each sector.
    pub worn: Vec<Vec<u32>>,
    /// Counters of the layer.
    pub counters: Counters,
    /// Sectors that the layer sent to each device, by cause.
    pub sent_to: Vec<[u64; CAUSES]>,
    /// Whether erases are issued by the layer.
    pub raw: bool,
}

impl Work {
    /// Returns all work of `world` so far.
    pub fn of<L: Layer, D: Model>(world: &World<L, D>) -> Self {
        Work {
            drives: world.drives.iter().map(Model::work).collect(),
            handles: world.drives.iter().map(Model::handles).collect(),
            worn: world.drives.iter().map(Model::worn).collect(),
            counters: world.layer().counters(),
            sent_to: world.sent_to.clone(),
            raw: world.drives.iter().any(Model::is_raw),
        }
    }

    /// Returns the work of some devices. The layer's counters remain those of all devices.
    #[must_use]
    pub fn part(&self, devices: Range<usize>) -> Work {
        Work {
            drives: self.drives[devices.clone()].to_vec(),
            handles: self.handles[devices.clone()].to_vec(),
            worn: self.worn[devices.clone()].to_vec(),
            sent_to: self.sent_to[devices].to_vec(),
            ..*self
        }
    }

    /// Returns the work since `before`. Of the counters, only those of garbage collection are
    /// subtracted.
    #[must_use]
    pub fn since(&self, before: &Work) -> Work {
        let drives = self.drives.iter().zip(&before.drives);
        let worn = self.worn.iter().zip(&before.worn);
        let worn = worn.map(|(now, before)| now.iter().zip(before).map(|(a, b)| a - b).collect());
        let less = |(now, before): (&HandleWork, &HandleWork)| HandleWork {
            sent: now.sent - before.sent,
            programmed: now.programmed - before.programmed,
        };
        let handles = self.handles.iter().zip(&before.handles);
        let handles = handles.map(|(now, before)| now.iter().zip(before).map(less).collect());
        let sent = self.sent_to.iter().zip(&before.sent_to);
        let mut counters = self.counters;
        counters.gc_runs -= before.counters.gc_runs;
        counters.gc_copied -= before.counters.gc_copied;
        Work {
            drives: drives.map(|(now, before)| now.since(before)).collect(),
            handles: handles.collect(),
            worn: worn.collect(),
            counters,
            sent_to: sent.map(|(now, before)| from_fn(|i| now[i] - before[i])).collect(),
            raw: self.raw,
        }
    }

    /// Returns the sectors sent to the devices for `cause`.
    pub fn sent(&self, cause: Cause) -> u64 {
        self.sent_to.iter().map(|sent| sent[cause as usize]).sum()
    }

    /// Returns the sectors sent for all causes.
    pub fn sent_in_all(&self) -> u64 {
        self.sent_to.iter().flatten().sum()
    }

    /// Returns the sectors programmed in flash.
    pub fn programmed(&self) -> u64 {
        self.drives.iter().map(DriveWork::programmed).sum()
    }

    /// Returns the busy time of all drives by purpose.
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

    /// Returns the erases per segment, or the writes per sector of a memory.
    pub fn erases(&self) -> Erases {
        Erases::of(self.worn.concat())
    }

    /// Returns the energy of all drives of `specs`, for a host that transferred `host_bytes` bytes.
    /// The energy of memories is unknown.
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

    /// Returns the NAND pages read and programmed by all drives of `specs`.
    pub fn page_operations(&self, specs: &[DeviceSpec]) -> u64 {
        self.drives.iter().zip(specs).map(|(work, spec)| spec.page_operations(work)).sum()
    }

    /// Returns the bytes programmed, by cause.
    pub fn programmed_bytes(&self) -> ByCause {
        let by = |cause: Cause| -> u64 {
            self.drives.iter().map(|work| work.sectors[cause as usize]).sum()
        };
        ByCause(Cause::ALL.map(|cause| by(cause) * SECTOR as u64))
    }
}
