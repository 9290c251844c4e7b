//! Where everything lies on the devices, and how much of them the host gets.
//!
//! Each device begins with two slots for roots and then a copy of both; every root is on all
//! devices. The rest is cut into segments: segment `s` is the same range on each device, and
//! consists of slots of one chunk. The devices of a slot take turns: the first one after the parity
//! holds the first chunk of a row. A row that is sealed early leaves room in its slot for more
//! rows, each of one chunk.

use hostftl_core::{Ack, DeviceInfo, DeviceKind, Limits, SECTOR, SECTORS_PER_BLOCK};
use hostftl_format::log::{COUNTS, PAIRS, room};

use super::map;
use crate::config::{LayerConfig, Plan, PlanError};
use crate::policy::{CLASSES, GcPolicy};

use super::segments::Segments;

/// The longest transfer, in sectors: 1 MiB.
pub const MAX_TRANSFER: u32 = 2048;
/// Rows with payload that may be open or on their way to the devices.
pub const ROWS: usize = 16;
/// Block operations under way at once.
pub const BLOCK_OPS: usize = 128;
/// Sectors of scratch that each has: a record as read, a plain block, a packed one.
pub const SCRATCH: u32 = 32;
/// Chunks in a segment's column, at the most.
const MOST_SLOTS: u32 = 64;
/// Segments that only collection and checkpoints may open, but for those of the map.
const RESERVE: u32 = 8;
/// Segments of the lead at least.
const LEAST_LEAD: u32 = 4;
/// Segments that are never full: the open ones of three streams, those of old images, and what
/// rows that were sealed early waste.
const SLACK: u32 = 16;

/// The geometry of a log volume. Lengths are in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Devices.
    pub devices: u8,
    /// Whether one chunk of each row is parity.
    pub parity: bool,
    /// Sectors of a chunk.
    pub chunk: u32,
    /// Slots in a segment.
    pub slots: u32,
    /// Segments.
    pub segments: u32,
    /// Sectors of a root.
    pub root: u32,
    /// Blocks that the host sees.
    pub blocks: u64,
    /// Map pages.
    pub pages: u32,
    /// Pages of the directory.
    pub directories: u32,
    /// Pages of the counts of live grains.
    pub counts: u32,
    /// Map pages that memory has room for.
    pub frames: u32,
    /// Whether map pages have few pairs, so that a small volume has many.
    pub few_pairs: bool,
    /// Segments that one image of the whole map takes.
    pub map_segments: u32,
    /// Segments that the host may not open.
    pub reserve: u32,
    /// Segments above that, of which some are missing while anything is collected.
    pub lead: u32,
    /// Classes of data that may have a stream each.
    pub classes: u8,
    /// Programs are whole multiples of this.
    pub align: u32,
}

/// Where a row is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// The segment.
    pub segment: u32,
    /// The slot in it.
    pub slot: u32,
    /// The first sector in the slot; not 0 only behind a short row.
    pub sector: u32,
}

impl Layout {
    /// The layout over `devices`.
    pub fn new(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Self, PlanError> {
        let parity = config.log.parity;
        if devices.is_empty() || devices.len() > 16 {
            return Err(PlanError("log takes 1 to 16 devices"));
        }
        if parity && devices.len() < 2 {
            return Err(PlanError("log needs two devices for a mirror, three or more for parity"));
        }
        if devices.iter().any(|device| device.kind != DeviceKind::Block) {
            return Err(PlanError("log needs devices that can be written anywhere"));
        }
        let chunk = config.superpage;
        if !(4 * SECTORS_PER_BLOCK..=2048).contains(&chunk)
            || !chunk.is_multiple_of(SECTORS_PER_BLOCK)
        {
            return Err(PlanError("log needs a chunk of 16 KiB to 1 MiB, in steps of 4 KiB"));
        }
        let unit = devices.iter().map(|device| device.map_unit).max().unwrap_or(1);
        if unit > chunk || !chunk.is_multiple_of(unit) {
            return Err(PlanError("log needs chunks that are whole map units of its devices"));
        }
        let sectors = devices.iter().map(|device| device.sectors).min().unwrap_or(0);
        let align = unit.max(SECTORS_PER_BLOCK);
        let align = if align.is_multiple_of(SECTORS_PER_BLOCK) { align } else { chunk };
        let base = Layout {
            devices: devices.len() as u8,
            parity,
            chunk,
            align,
            slots: (sectors / u64::from(chunk) / 192).clamp(4, MOST_SLOTS.into()) as u32,
            segments: 0,
            root: 0,
            blocks: 0,
            pages: 0,
            directories: 0,
            counts: 0,
            frames: 0,
            few_pairs: config.log.few_pairs,
            map_segments: 0,
            reserve: 0,
            lead: 0,
            classes: 0,
        };
        let mut fitted = base.fit(sectors, config.spare_permille.min(900))?;
        let row = fitted.row_blocks() as u32;
        fitted.frames = map::frames(fitted.pages, fitted.blocks, row, config.log.map_memory);
        Ok(fitted)
    }

    /// The root depends on what is exported, and that on the root: go round until it rests.
    fn fit(mut self, sectors: u64, permille: u32) -> Result<Self, PlanError> {
        let too_small = PlanError("the devices are too small for log with this chunk");
        loop {
            self.root = self.root_pages() * SECTORS_PER_BLOCK;
            let column = u64::from(self.slots * self.chunk);
            let free = sectors.checked_sub(self.first()).ok_or(too_small)?;
            self.segments = (free / column).min(1 << 30) as u32;
            let spare = (u64::from(self.segments) * u64::from(permille) / 1000) as u32;
            self.map_segments = self.image_segments();
            let kept = self.keep(spare);
            let live = self.segments.checked_sub(kept.max(spare)).ok_or(too_small)?;
            if live == 0 {
                return Err(too_small);
            }
            let blocks = u64::from(live) * self.row_blocks() * u64::from(self.slots);
            let pairs = if self.few_pairs { map::FEW_PAIRS } else { PAIRS };
            let pages = blocks.div_ceil(pairs as u64);
            if pages >> 31 != 0 {
                return Err(PlanError("log maps at most 2^31 pages of blocks"));
            }
            let counts = self.segments.div_ceil(COUNTS as u32);
            if pages as u32 <= self.pages && counts <= self.counts {
                self.blocks = blocks;
                return Ok(self);
            }
            self.pages = self.pages.max(pages as u32);
            self.directories = self.pages.div_ceil(PAIRS as u32);
            self.counts = self.counts.max(counts);
        }
    }

    /// Chooses as many classes as what is spare has room for, and their reserve. The segments that
    /// are kept from the host.
    fn keep(&mut self, spare: u32) -> u32 {
        // Rows that a checkpoint seals early must waste less than what collection gains, and a
        // segment with less than a 64th to gain is not collected.
        let early = self.segments / (2 * self.slots).min(32);
        self.lead = (self.segments / 64).clamp(LEAST_LEAD, 64);
        let slack = SLACK + self.lead - LEAST_LEAD;
        let mut kept = 0;
        for classes in [CLASSES as u8, 4, 2] {
            self.classes = classes;
            self.reserve = RESERVE + 3 * self.map_segments + self.more_classes();
            kept = self.reserve + 2 * self.map_segments + slack + 2 * self.more_classes() + early;
            if kept <= spare {
                break;
            }
        }
        kept
    }

    /// Classes beyond the host's writes and copies.
    fn more_classes(&self) -> u32 {
        u32::from(self.classes) - 2
    }

    /// Pages of a root: one head, then places of the pages that it points at.
    pub fn root_pages(&self) -> u32 {
        hostftl_format::log::root_pages(self.tops())
    }

    /// Pages to which a root points: those of the directory, then those of the counts.
    pub fn tops(&self) -> u32 {
        self.directories + self.counts
    }

    fn image_segments(&self) -> u32 {
        let pages = u64::from(self.pages + self.tops());
        let room = self.width() * (self.chunk / SECTORS_PER_BLOCK) - self.head_pages(true);
        pages.div_ceil(u64::from(room) * u64::from(self.slots)) as u32 + 1
    }

    /// Free segments that collection may not open: those that a checkpoint needs, and once more
    /// when it was cut off, with a new segment for each stream.
    pub fn gc_floor(&self) -> u32 {
        2 * self.map_segments + 3 + self.more_classes()
    }

    /// Incompressible blocks of a full row.
    pub fn row_blocks(&self) -> u64 {
        let blocks = self.chunk / SECTORS_PER_BLOCK;
        u64::from(self.width() * blocks - self.head_pages(true))
    }

    /// Data chunks of a full row.
    pub fn width(&self) -> u32 {
        u32::from(self.devices) - u32::from(self.parity)
    }

    /// Pages of a row's head.
    pub fn head_pages(&self, full: bool) -> u32 {
        let chunks = if full { self.width() } else { 1 };
        (chunks * self.chunk).div_ceil(480)
    }

    /// Entries of a row's head.
    pub fn head_entries(&self, full: bool) -> u32 {
        room(self.head_pages(full))
    }

    /// The device of data chunk `chunk` of rows in a slot.
    pub fn device(&self, segment: u32, slot: u32, chunk: u32) -> u8 {
        let turn = u64::from(segment) + u64::from(slot);
        let first = turn + u64::from(self.parity) + u64::from(chunk);
        (first % u64::from(self.devices)) as u8
    }

    /// The data chunk of rows in a slot that is on `device`; `None` for the parity.
    pub fn chunk_on(&self, segment: u32, slot: u32, device: u8) -> Option<u8> {
        let turns = u32::from(self.devices);
        let first = u32::from(self.device(segment, slot, 0));
        let chunk = (u32::from(device) + turns - first) % turns;
        (chunk < self.width()).then_some(chunk as u8)
    }

    /// The device of the parity of rows in a slot.
    pub fn parity_device(&self, segment: u32, slot: u32) -> u8 {
        ((u64::from(segment) + u64::from(slot)) % u64::from(self.devices)) as u8
    }

    /// The first sector of a row on each of its devices.
    pub fn lba(&self, at: At) -> u64 {
        let slots = u64::from(at.segment) * u64::from(self.slots) + u64::from(at.slot);
        self.first() + slots * u64::from(self.chunk) + u64::from(at.sector)
    }

    /// The first sector of copy 0 or 1 of root `number`.
    pub fn root_at(&self, number: u64, copy: u32) -> u64 {
        (number % 2 + u64::from(2 * copy)) * u64::from(self.root)
    }

    /// The first sector of the segments.
    pub fn first(&self) -> u64 {
        u64::from(4 * self.root).next_multiple_of(self.chunk.into())
    }

    /// The segment of byte `byte` of a device.
    pub fn segment_of(&self, byte: u64) -> u32 {
        let sector = byte / SECTOR as u64 - self.first();
        (sector / u64::from(self.slots * self.chunk)) as u32
    }

    /// The segment and the slot of sector `lba` of a device.
    pub fn slot_of(&self, lba: u64) -> (u32, u32) {
        let slot = (lba - self.first()) / u64::from(self.chunk);
        ((slot / u64::from(self.slots)) as u32, (slot % u64::from(self.slots)) as u32)
    }

    /// Where the next row of the stream begins, in the same segment, after one at `at` that took
    /// `sectors` on its first device.
    pub fn after(&self, at: At, sectors: u32) -> Option<At> {
        let end = at.sector + sectors;
        if self.chunk - end >= 2 * SECTORS_PER_BLOCK.max(self.align) {
            return Some(At { sector: end, ..at });
        }
        (at.slot + 1 < self.slots).then_some(At { slot: at.slot + 1, sector: 0, ..at })
    }

    /// Buffers of the layer, and the sectors of each.
    pub fn buffers(&self) -> (u32, u32) {
        let sectors = self.chunk.max(SCRATCH);
        let scratch = (BLOCK_OPS as u32 * SCRATCH).div_ceil(sectors / SCRATCH * SCRATCH);
        let rows = ROWS as u32 * u32::from(self.devices);
        (rows + scratch + self.width() + 1, sectors)
    }

    /// What the layer needs and gives.
    pub fn plan(&self, gc: GcPolicy) -> Plan {
        let limits = Limits {
            exported: self.blocks * u64::from(SECTORS_PER_BLOCK),
            max_transfer: MAX_TRANSFER,
            align: SECTORS_PER_BLOCK,
            ack: Ack::Buffer,
        };
        let (buffers, buffer_sectors) = self.buffers();
        // The pool; for each page its frame, its image and two marks.
        let tables = u64::from(self.pages) * (4 + 12) + u64::from(self.pages).div_ceil(4);
        let map_bytes = u64::from(self.frames) * map::FRAME_BYTES + tables;
        let meta_bytes = Segments::memory(self, gc);
        Plan { limits, buffers, buffer_sectors, map_bytes, meta_bytes }
    }
}
