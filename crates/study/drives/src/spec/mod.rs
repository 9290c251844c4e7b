//! Description of a flash drive, from its TOML file or from MQSim's.

mod cell;
pub(crate) mod file;
pub(crate) mod keys;
mod memory;
mod raw;
mod shape;

use hostftl_core::{Cause, DeviceInfo, Nanos, SECTOR};

use crate::pool::{EarlyGc, Frontiers, GcPolicy, PoolSpec};
use crate::work::DriveWork;
use crate::zoned::ZonedSpec;
pub use shape::Shape;

/// Partly written map units that the buffer of a slice holds at least.
const LEAST_MERGED: u64 = 64;

/// Extent of a pool of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// One pool per lane. A segment is one block, and a map unit always stays on its lane.
    Plane,
    /// One pool for the drive. A segment is one block of every lane, a superblock.
    Drive,
}

/// Parameters of a flash drive. Lengths are in sectors, times in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveSpec {
    /// Name that the user gave.
    pub name: String,
    /// Geometry of the flash.
    pub shape: Shape,
    /// Map unit (indirection unit).
    pub map_unit: u32,
    /// Sectors that the host sees.
    pub exported: u64,
    /// Sectors of the real drive of which this one is a slice; `None` if unknown.
    pub nominal: Option<u64>,
    /// Extent of a pool.
    pub pools: Pooling,
    /// Victim policy of garbage collection.
    pub gc: GcPolicy,
    /// Free space below which garbage collection starts early, in percent of the exported
    /// capacity.
    pub gc_early_percent: f64,
    /// Maximum number of copies per host write of early garbage collection.
    pub gc_early_copies: f64,
    /// Write points of copies.
    pub frontiers: Frontiers,
    /// Number of placement ids that the drive distinguishes.
    pub placements: u8,
    /// Number of erases by which a segment may lag behind before its content is moved; 0 turns wear
    /// levelling off.
    pub level: u32,
    /// Whether the drive reports the map units that it collects next.
    pub hint: bool,
    /// RAM for data that is not on flash yet. With 0 a write is acknowledged after its program.
    pub write_buffer: u64,
    /// Whether partial writes of a map unit wait in the buffer for the rest of the unit.
    pub merge: bool,
    /// Whether the buffer survives a power cut.
    pub plp: bool,
    /// Whether lanes of a die execute operations of the same kind together.
    pub multiplane: bool,
    /// Whether a copy within a lane avoids the bus.
    pub copyback: bool,
    /// Time to suspend a program or an erase for a read of the host, or `None` without suspension.
    pub suspend: Option<Nanos>,
    /// Whether reads for copies, like those of the host, start before queued programs. It has an
    /// effect only with `suspend`.
    pub reads_first: bool,
    /// Whether flash times are drawn from exponential distributions.
    pub exponential: bool,
    /// Time to read a row.
    pub read: Nanos,
    /// Time to program a row.
    pub program: Nanos,
    /// Time to erase a block of a lane.
    pub erase: Nanos,
    /// Time to transfer a row over its channel.
    pub bus: Nanos,
    /// Dies that may program at the same time; 0 for all of them.
    pub program_dies: u32,
    /// Host link and controller; `None` if they take no time.
    pub link: Option<Link>,
    /// Energy of each operation on a row or block, in nJ.
    pub energy: Energy,
    /// Erases that a block survives.
    pub cycles: u32,
    /// Segments of a raw drive, which leaves translation to the layer. Its parallel units are the
    /// lanes.
    pub zoned: Option<ZonedSpec>,
    /// Settings of another program's file that the model ignores, one sentence each.
    pub left: Vec<String>,
}

/// Host link and controller. Commands pass them one after the other in each direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Link {
    /// 10^6 bytes per second in each direction; 0 for no limit.
    pub mbs: f64,
    /// Time that each command occupies the controller.
    pub command: Nanos,
    /// Time that each command spends outside link and flash, in parallel with other commands.
    pub latency: Nanos,
}

impl Link {
    /// Returns the time for which a command of `sectors` sectors occupies its direction.
    pub(crate) fn occupied(&self, sectors: u32) -> Nanos {
        let bytes = f64::from(sectors) * SECTOR as f64;
        let data = if self.mbs > 0.0 { bytes * 1000.0 / self.mbs } else { 0.0 };
        self.command + data.round() as Nanos
    }
}

/// Energy of operations in nJ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Energy {
    /// Read of a row.
    pub read: u64,
    /// Program of a row.
    pub program: u64,
    /// Erase of a block of a lane.
    pub erase: u64,
    /// Transfer of a row over its channel.
    pub bus: u64,
}

impl DriveSpec {
    /// Returns the drive's interface as the host sees it.
    pub fn device_info(&self) -> DeviceInfo {
        if let Some(zoned) = &self.zoned {
            return zoned.device_info();
        }
        let block = DeviceInfo::block(self.exported, self.map_unit);
        let volatile_cache = self.write_buffer > 0 && !self.plp;
        DeviceInfo {
            merges: self.merge && self.plp,
            volatile_cache,
            discard: true,
            placements: self.placements,
            collection_hint: self.hint,
            reclaim_unit: self.reclaim_unit(),
            ..block
        }
    }

    /// Returns the sectors of a superblock: one block of every plane.
    pub fn reclaim_unit(&self) -> u64 {
        let block = u64::from(self.shape.rows) * u64::from(self.shape.row_sectors);
        u64::from(self.shape.lanes()) * block
    }

    /// Returns the sectors that are erased at once: a superblock, or a segment of a raw drive.
    pub fn erase_unit(&self) -> u64 {
        let segment = |it: &ZonedSpec| u64::from(it.pages) * u64::from(it.page_sectors);
        self.zoned.as_ref().map_or_else(|| self.reclaim_unit(), segment)
    }

    /// Returns the number of map units that share a row, or 1 if a unit has its own rows.
    pub fn units_per_row(&self) -> u32 {
        (self.shape.row_sectors / self.map_unit).max(1)
    }

    /// Returns the rows of a map unit, or 1 if a row has several units.
    pub fn rows_per_unit(&self) -> u32 {
        (self.map_unit / self.shape.row_sectors).max(1)
    }

    /// Returns the number of partly written map units that the buffer holds at most. A slice of a
    /// real drive gets a proportional number, so that it does not absorb a larger share of the
    /// writes; it is never so small that streams of small writes are not merged.
    pub(crate) fn merged_units(&self) -> usize {
        let units = self.write_buffer / 2 / u64::from(self.map_unit);
        let Some(nominal) = self.nominal.filter(|nominal| *nominal > self.exported) else {
            return units as usize;
        };
        let share = self.exported as f64 / nominal as f64;
        units.min(((units as f64 * share) as u64).max(LEAST_MERGED)) as usize
    }

    /// Returns the number of pools.
    pub fn pool_count(&self) -> u32 {
        match self.pools {
            Pooling::Plane => self.shape.lanes(),
            Pooling::Drive => 1,
        }
    }

    /// Returns the parameters of pool `index`. The pages of a pool are map units.
    pub fn pool(&self, index: u32) -> PoolSpec {
        let pools = self.pool_count();
        let lanes = self.shape.lanes() / pools;
        let block = u64::from(self.shape.rows) * u64::from(self.shape.row_sectors);
        let units = (self.exported / u64::from(self.map_unit)) as u32;
        let pages = (u64::from(lanes) * block / u64::from(self.map_unit)) as u32;
        let logical = units.div_ceil(pools);
        let early = EarlyGc {
            segments: (f64::from(logical) * self.gc_early_percent / 100.0 / f64::from(pages))
                .round() as u32,
            percent: (self.gc_early_copies * 100.0).round() as u32,
        };
        PoolSpec {
            segments: self.shape.blocks,
            pages,
            logical,
            early: (early.segments > 0).then_some(early),
            gc: self.gc,
            frontiers: self.frontiers,
            placements: self.placements,
            level: self.level,
            burst: (lanes * self.shape.row_sectors / self.map_unit).max(1),
            seed: u64::from(index) + 1,
        }
    }

    /// Returns the energy that `work` took for `cause`, in nJ. Erases are attributed to garbage
    /// collection: the drive's own, or the layer's if the drive is raw.
    pub fn energy_nj(&self, work: &DriveWork, cause: Cause) -> u64 {
        let Energy { read, program, erase, bus } = self.energy;
        let row = u64::from(self.shape.row_sectors);
        let crossed = work.crossed[cause as usize] * bus / row;
        let collects = if self.zoned.is_some() { Cause::Gc } else { Cause::DriveGc };
        let erases = if cause == collects { work.flash.erases * erase } else { 0 };
        let reads = work.flash.reads[cause as usize] * read;
        reads + work.share(work.flash.programs * program, cause) + crossed + erases
    }
}

/// Returns the options that leave a part of a drive its share of what all dies use together: the
/// power budget, the host link, the controller and the write buffer. `number` returns the value of
/// a key, and `share` is the share of the dies, above 0 and up to 1.
pub fn shared_options(number: impl Fn(&str) -> Option<f64>, share: f64) -> String {
    // Counts must be whole.
    let scaled = [
        ("program_dies", f64::ceil as fn(f64) -> f64, share),
        ("write_buffer_kib", f64::ceil, share),
        ("link_mbs", f64::from, share),
        ("command_us", f64::from, 1.0 / share),
    ];
    let option = |(key, round, factor): (&str, fn(f64) -> f64, f64)| {
        number(key).map(|value| format!(":{key}={}", round(value * factor)))
    };
    scaled.into_iter().filter_map(option).collect()
}
