//! The description of a flash drive, from its TOML file or MQSim's.

mod cell;
pub(crate) mod file;
pub(crate) mod keys;
mod memory;
mod raw;
mod shape;

use hostftl_core::{Cause, DeviceInfo, Nanos};

use crate::pool::{Frontiers, GcPolicy, PoolSpec};
use crate::work::DriveWork;
use crate::zoned::ZonedSpec;
pub use shape::Shape;

/// What one pool of segments spans.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pooling {
    /// Each lane by itself: a segment is one block, and a map unit always stays on its lane.
    Plane,
    /// The whole drive: a segment is one block of every lane, a superblock.
    Drive,
}

/// A drive. Lengths are in sectors, times in ns.
#[derive(Clone, Debug, PartialEq)]
pub struct DriveSpec {
    /// What the user called it.
    pub name: String,
    /// The flash.
    pub shape: Shape,
    /// The grain in which the drive maps.
    pub map_unit: u32,
    /// Sectors that the host sees.
    pub exported: u64,
    /// What a pool spans.
    pub pools: Pooling,
    /// Which segment is collected.
    pub gc: GcPolicy,
    /// Where copies go.
    pub frontiers: Frontiers,
    /// How many placement ids it tells apart.
    pub placements: u8,
    /// Erases by which a segment may lag behind before its content is moved; 0 = any.
    pub level: u32,
    /// Whether it tells what it collects next.
    pub hint: bool,
    /// The drive's RAM for data that is not on flash yet; 0 when a write ends with its program.
    pub write_buffer: u64,
    /// Whether writes to parts of a map unit wait in the buffer to become whole.
    pub merge: bool,
    /// Whether the buffer outlives a power cut.
    pub plp: bool,
    /// Whether lanes of a die work together when they have the same to do.
    pub multiplane: bool,
    /// Whether a copy within a lane stays off the bus.
    pub copyback: bool,
    /// When reads of the host interrupt programs and erases: how long that takes.
    pub suspend: Option<Nanos>,
    /// Whether the times of the flash are drawn from exponential distributions.
    pub exponential: bool,
    /// Reading a row.
    pub read: Nanos,
    /// Programming a row.
    pub program: Nanos,
    /// Erasing a block of a lane.
    pub erase: Nanos,
    /// Moving a row over its channel.
    pub bus: Nanos,
    /// Energy of each operation on a row or block, in nJ.
    pub energy: Energy,
    /// Erases that a block survives.
    pub cycles: u32,
    /// The segments of a raw device, which leaves translation to the layer; one of its units is a
    /// lane.
    pub zoned: Option<ZonedSpec>,
    /// What the file of another program says of the drive and is not carried over, a sentence each.
    pub left: Vec<String>,
}

/// Energy in nJ.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Energy {
    /// Of reading a row.
    pub read: u64,
    /// Of programming a row.
    pub program: u64,
    /// Of erasing a block of a lane.
    pub erase: u64,
    /// Of moving a row over its channel.
    pub bus: u64,
}

impl DriveSpec {
    /// What the host sees of the drive.
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

    /// Sectors of a superblock: a block of every plane.
    pub fn reclaim_unit(&self) -> u64 {
        let block = u64::from(self.shape.rows) * u64::from(self.shape.row_sectors);
        u64::from(self.shape.lanes()) * block
    }

    /// Sectors that are erased at once: a superblock, or a segment of a raw drive.
    pub fn erase_unit(&self) -> u64 {
        let segment = |it: &ZonedSpec| u64::from(it.pages) * u64::from(it.page_sectors);
        self.zoned.as_ref().map_or_else(|| self.reclaim_unit(), segment)
    }

    /// Map units that share a row; 1 when a unit has rows of its own.
    pub fn units_per_row(&self) -> u32 {
        (self.shape.row_sectors / self.map_unit).max(1)
    }

    /// Rows of a map unit; 1 when a row has several units.
    pub fn rows_per_unit(&self) -> u32 {
        (self.map_unit / self.shape.row_sectors).max(1)
    }

    /// How many pools there are.
    pub fn pool_count(&self) -> u32 {
        match self.pools {
            Pooling::Plane => self.shape.lanes(),
            Pooling::Drive => 1,
        }
    }

    /// What each pool is made of; its pages are map units. `index` counts the pools.
    pub fn pool(&self, index: u32) -> PoolSpec {
        let pools = self.pool_count();
        let lanes = self.shape.lanes() / pools;
        let block = u64::from(self.shape.rows) * u64::from(self.shape.row_sectors);
        let units = (self.exported / u64::from(self.map_unit)) as u32;
        PoolSpec {
            segments: self.shape.blocks,
            pages: (u64::from(lanes) * block / u64::from(self.map_unit)) as u32,
            logical: units.div_ceil(pools),
            gc: self.gc,
            frontiers: self.frontiers,
            placements: self.placements,
            level: self.level,
            burst: (lanes * self.shape.row_sectors / self.map_unit).max(1),
            seed: u64::from(index) + 1,
        }
    }

    /// Returns the energy that `work` took for `cause`, in nJ. Erases belong to collection: the
    /// drive's own, or the layer's if the drive is raw.
    pub fn energy_of(&self, work: &DriveWork, cause: Cause) -> u64 {
        let Energy { read, program, erase, bus } = self.energy;
        let row = u64::from(self.shape.row_sectors);
        let crossed = work.crossed[cause as usize] * bus / row;
        let collects = if self.zoned.is_some() { Cause::Gc } else { Cause::DriveGc };
        let erases = if cause == collects { work.flash.erases * erase } else { 0 };
        let reads = work.flash.reads[cause as usize] * read;
        reads + work.share(work.flash.programs * program, cause) + crossed + erases
    }
}
