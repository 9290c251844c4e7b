//! Where everything lies on the devices, and how much of them the host gets.
//!
//! Each device begins with two slots for roots and then a copy of both, or, when it is zoned, with
//! some zones for them; every root is on all devices. The rest is cut into segments: segment `s` is
//! the same range on each device, a zone of a zoned one, and consists of slots of one chunk. The
//! devices of a slot take turns: the first one after the parity holds the first chunk of a row. A
//! row that is sealed early leaves room in its slot for more rows, each of one chunk.

mod full;
mod grown;
pub(super) mod lengths;
mod places;
mod reserves;
mod spare;
mod stack;
mod tree;
mod widths;

use hostftl_core::{DeviceInfo, DeviceSet, SECTOR, SECTORS_PER_BLOCK};
use hostftl_format::log::{GRAIN, MOST_BYTES, room};

use crate::config::{LayerConfig, PlanError};
use crate::log::journal::ring::{Ring, split};
use crate::log::map::size::frames;
use crate::log::redundancy::rebuild::Chunk;
use lengths::Lengths;
pub(super) use reserves::Reserves;
pub use spare::ChosenSpare;
use stack::{Zones, grains, reclaim_unit, zones};
use tree::Tree;

/// The longest transfer, in sectors: 1 MiB.
pub(super) const MAX_TRANSFER: u32 = 2048;
/// Rows with payload that may be open or on their way to the devices.
pub(super) const ROWS: usize = 32;
/// Rows of the victim that collection has under way at once. Their buffers are half of those of
/// rows.
pub(super) const LANES: usize = 16;
/// Images of the map that are read at once.
pub(super) const LOADS: usize = 32;
/// Zones for roots at the beginning of each device: two are used, the others are for those that
/// fail.
pub(super) const ROOT_ZONES: u32 = 4;
/// Block operations under way at once.
pub(super) const BLOCK_OPS: usize = 128;
/// Sectors of scratch that each has: a record as read, a plain block, a packed one.
pub(super) const SCRATCH: u32 = 32;
/// Chunks in a segment's column, at the most, when it is not known what a device erases at once.
const USUAL_SLOTS: u32 = 64;
/// A segment of that kind is at most one in so many of the device.
const USUAL_SEGMENTS: u64 = 192;
/// More segments than this have no number.
const MOST_SEGMENTS: u64 = 1 << 30;
/// Sectors of a segment whose grains can be counted.
const MOST_SEGMENT: u64 = u32::MAX as u64 / (SECTOR as u64 / GRAIN as u64);
/// Zones that are open beside those of the classes: one of images, one of roots.
const OPEN_BESIDE: u32 = 2;

/// The geometry of a log volume. Lengths are in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Places of devices, some of which may be gone.
    pub devices: u8,
    /// The devices that are neither gone nor spare.
    pub members: DeviceSet,
    /// Those of `members` that stay.
    pub stay: DeviceSet,
    /// Chunks of parity of each row.
    pub parity: u8,
    /// Sectors of a chunk.
    pub chunk: u32,
    /// Slots in a segment.
    pub slots: u32,
    /// From the beginning of a segment to the next.
    pub column: u32,
    /// Whether a segment is a zone of each device.
    pub zoned: bool,
    /// How many zones of a device may be open; 0 = any number.
    pub max_open: u32,
    /// Segments of the longest devices.
    pub segments: u32,
    /// Which devices have which of them.
    pub lengths: Lengths,
    /// Blocks that the host sees.
    pub blocks: u64,
    /// How large the map is.
    pub tree: Tree,
    /// Segments that are kept from the host when the volume is opened.
    pub reserves: Reserves,
    /// Programs are whole multiples of this.
    pub align: u32,
    /// The ring on the journal's device.
    pub journal: Option<Ring>,
}

/// What a volume is planned for.
struct Room<'a> {
    devices: &'a [DeviceInfo],
    /// Sectors up to which devices are used.
    sectors: u64,
    /// The share that is spare, in thousandths.
    permille: u32,
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
        if config.log.chooses_spare {
            return Err(PlanError(
                "spare=auto is chosen when a log volume is made: write the percentage that it has",
            ));
        }
        let parity = config.log.parity;
        let (devices, journal) = split(config, devices)?;
        let devices = &devices[..];
        if devices.is_empty() || devices.len() > 16 {
            return Err(PlanError("log takes 1 to 16 devices"));
        }
        if devices.len() <= usize::from(parity) {
            return Err(PlanError(match parity {
                1 => "log needs two devices for a mirror, three or more for parity",
                _ => "log needs three devices for three copies, four or more for two parities",
            }));
        }
        let zones = zones(config.members.missing, devices)?;
        if zones.is_some() && journal.is_some() {
            return Err(PlanError("log takes no journal beside zoned devices: leave it out"));
        }
        let (chunk, align) = grains(config.superpage, devices, zones)?;
        let longest = devices.iter().map(|device| device.sectors).max().unwrap_or(0);
        if longest > MOST_BYTES / SECTOR as u64 {
            return Err(PlanError(
                "log takes up to 256 TiB of a device: make partitions or namespaces of that size, \
                 and give several of them to one volume",
            ));
        }
        let all = DeviceSet::first_n(devices.len());
        let hole = journal.map_or(DeviceSet::EMPTY, |ring| ring.device_set()) & all;
        let gone = config.members.gone | hole;
        let members = all - (gone | config.members.spare);
        let stay = members - config.members.leaving;
        if stay.len() <= u32::from(parity) {
            return Err(PlanError("log needs a device more than it has of parity"));
        }
        let base = Layout {
            devices: devices.len() as u8,
            members,
            stay,
            parity,
            chunk,
            align,
            zoned: zones.is_some(),
            max_open: zones.map_or(0, |zones| zones.max_open),
            blocks: config.log.logical_size.map_or(0, |bytes| bytes / 4096),
            tree: Tree::new(config.log.few_pairs),
            journal,
            ..Layout::default()
        };
        // The journal's device is one of those with which the volume was made.
        let first = base.of_first(config.members.born.saturating_sub(journal.is_some().into()));
        let permille = config.spare_permille.min(900);
        let unit = reclaim_unit(config, devices).filter(|_| zones.is_none());
        let (room, made) = first.made(devices, permille, zones, unit)?;
        let mut fitted = base.grown_from(&made, &room, config.exported)?;
        // A spare may have to hold what others do.
        if !fitted.lengths.are_of_use(all - gone, fitted.segments) {
            return Err(PlanError(
                "a device is less than a 16th as long as the others: it would hold next to nothing",
            ));
        }
        // What is replayed may be from before a device left, when rows were wider.
        let row = fitted.row_blocks_of(fitted.width()) as u32;
        fitted.tree.frames = frames(fitted.tree.pages, fitted.blocks, row, config.log.map_memory);
        Ok(fitted)
    }

    /// The layout of a volume as it is made, and what it is planned for: of all lengths up to which
    /// devices may be used the one that gives the most room. What only few devices have beyond it
    /// may cost more, as what is kept free, than it gives.
    fn made<'a>(
        self,
        devices: &'a [DeviceInfo],
        permille: u32,
        zones: Option<Zones>,
        unit: Option<u64>,
    ) -> Result<(Room<'a>, Self), PlanError> {
        let made = |sectors| {
            let room = Room { devices, sectors, permille };
            let it = self.cut(&room, zones)?;
            let made = match unit {
                Some(unit) => it.fit_unit(&room, unit)?,
                None => it.fit(&room, false)?,
            };
            Ok((room, made))
        };
        let lengths = self.usable_lengths(devices);
        let (mut best, mut room) = (Err(PlanError("log takes 1 to 16 devices")), 0);
        for made in lengths.map(made) {
            let fits = made.as_ref().map_or(0, |(_, it)| it.blocks_on(it.stay, it.reserves.held));
            if best.is_err() || fits > room {
                (best, room) = (made, fits);
            }
        }
        best
    }

    /// Chooses how long segments are.
    fn cut(mut self, room: &Room, zones: Option<Zones>) -> Result<Self, PlanError> {
        let Some(Zones { size, max_open, .. }) = zones else {
            let most = room.sectors / u64::from(self.chunk) / USUAL_SEGMENTS;
            return Ok(self.with_slots(most.clamp(4, USUAL_SLOTS.into()) as u32));
        };
        (self.slots, self.column) = (size / self.chunk, size);
        if u64::from(self.width()) * u64::from(size) > MOST_SEGMENT {
            return Err(PlanError(
                "log takes a zone of each device as a segment, of 64 GiB at most: give fewer \
                 devices to one volume, or use shorter zones",
            ));
        }
        if self.slots < 4 {
            return Err(PlanError(
                "log needs zones of at least four chunks: use a smaller superpage",
            ));
        }
        if max_open > 0 && max_open < 2 + OPEN_BESIDE {
            return Err(PlanError("log needs devices that let four zones be open"));
        }
        Ok(self)
    }

    fn with_slots(self, slots: u32) -> Self {
        Layout { slots, column: slots * self.chunk, ..self }
    }

    /// As [`Layout::fit`], with segments as long as what a device erases at once, so many sectors,
    /// or a half, a quarter and so on of it: the longest of which there are so many that what is
    /// kept from the host does not exceed the spare. Else they are as long as without a unit.
    fn fit_unit(self, room: &Room, unit: u64) -> Result<Self, PlanError> {
        let most = MOST_SEGMENT / u64::from(self.width() * self.chunk);
        let whole = unit.div_ceil(self.chunk.into());
        let parts = (0..).map(|halvings| 1_u64 << halvings);
        let lengths = parts.map(|parts| whole.div_ceil(parts)).skip_while(|slots| *slots > most);
        for slots in lengths.take_while(|slots| *slots > self.slots.into()) {
            let fitted = self.with_slots(slots as u32).fit(room, false);
            if let Some(fitted) = fitted.ok().filter(|it| it.reserves.keeps_spare()) {
                return Ok(fitted);
            }
        }
        self.fit(room, false)
    }

    /// Chooses what is exported. There is to be room for images of the map also when devices are
    /// lost, unless the devices are too small for that. What was exported before devices came or
    /// left `is_fixed`: it stays so, whatever room is left. Where rows on the devices that stay
    /// would leave nothing for data, no device can leave: so the reserve is that of all.
    fn fit(self, room: &Room, is_fixed: bool) -> Result<Self, PlanError> {
        let fit = |set, is_least, is_fixed| self.fit_images(room, set, is_least, is_fixed);
        let fitted = fit(self.stay, true, false).or_else(|_| fit(self.stay, false, false));
        if is_fixed { fitted.or_else(|_| fit(self.members, false, true)) } else { fitted }
    }

    /// The root depends on what is exported, and that on the root: go round until it rests. There
    /// is room for images on the devices of `set`, or in the `least` rows to which losses may lead.
    fn fit_images(
        mut self,
        room: &Room,
        set: DeviceSet,
        is_least: bool,
        is_fixed: bool,
    ) -> Result<Self, PlanError> {
        let too_small = PlanError("the devices are too small for log with this chunk");
        let logical = Some(self.blocks).filter(|blocks| *blocks > 0);
        self.tree = self.tree.with_room(self.widest_root(room.sectors));
        loop {
            if self.zoned && 2 * self.root_stride() > self.column {
                return Err(PlanError("log needs zones that take two roots: make them longer"));
            }
            let first = self.behind_roots();
            let free = room.sectors.checked_sub(first).ok_or(too_small)?;
            let segments = free / u64::from(self.column);
            if segments > MOST_SEGMENTS {
                return Err(PlanError("log takes at most 2^30 segments: use a larger superpage"));
            }
            self.segments = segments as u32;
            self.lengths = Lengths::new(room.devices, first, self.column, self.segments);
            let width = self.narrowest(set).max(1);
            let least = if is_least { self.least_width(width) } else { width };
            let spare = self.blocks_on(self.stay, 0) * u64::from(room.permille) / 1000;
            let spare = self.segments_within(self.stay, spare);
            self.reserves = self.reserves_for(self.image_segments(least), spare);
            let fits = self.blocks_on(self.stay, self.reserves.held);
            if fits == 0 && !is_fixed {
                return Err(too_small);
            }
            let blocks = logical.unwrap_or(fits);
            let pages = blocks.div_ceil(self.tree.pairs());
            if pages >> 31 != 0 {
                return Err(PlanError(
                    "log maps at most 2.6 PiB of blocks: make several volumes of the devices",
                ));
            }
            if self.tree.make_room(pages as u32, self.segments) {
                self.blocks = blocks;
                match (is_fixed, logical) {
                    (true, _) => self.reserves = self.reserves.without_spare(),
                    (false, None) => self.assert_victim(),
                    (false, Some(_)) => {}
                }
                return Ok(self);
            }
        }
    }

    /// The journal's device, where others came behind it: nothing of the rows lies
    /// in that place, as in that of one that is gone.
    pub fn hole(&self) -> DeviceSet {
        let is_between = |ring: &Ring| ring.device() < self.devices;
        self.journal.filter(is_between).map_or(DeviceSet::EMPTY, |ring| ring.device_set())
    }

    /// Pages of a root: one head, then places of the pages that it points at.
    pub fn root_pages(&self) -> u32 {
        hostftl_format::log::root_pages(self.tree.tops())
    }

    /// Sectors of a root.
    pub fn root(&self) -> u32 {
        self.root_pages() * SECTORS_PER_BLOCK
    }

    /// Segments that one image of the whole map takes where rows have so many data chunks.
    pub fn image_segments(&self, width: u32) -> u32 {
        let pages = u64::from(self.tree.pages + self.tree.tops());
        let room = width * (self.chunk / SECTORS_PER_BLOCK) - self.head_pages(true);
        pages.div_ceil(u64::from(room) * u64::from(self.slots)) as u32 + 1
    }

    /// Incompressible blocks of a full row on all devices.
    pub fn row_blocks(&self) -> u64 {
        self.row_blocks_of(self.full_width())
    }

    /// The same, of one with so many data chunks.
    pub fn row_blocks_of(&self, width: u32) -> u64 {
        let blocks = self.chunk / SECTORS_PER_BLOCK;
        u64::from(width * blocks - self.head_pages(true))
    }

    /// Grains that a segment has room for whose rows have so many data chunks.
    pub fn segment_grains(&self, width: u32) -> u32 {
        self.row_blocks_of(width) as u32 * self.slots * (4096 / GRAIN)
    }

    /// Data chunks of a row on all places of devices: none has more, nor ever had.
    pub fn width(&self) -> u32 {
        u32::from(self.devices) - u32::from(self.parity)
    }

    /// Data chunks of a full row on all devices that are neither gone nor spare.
    pub fn made_width(&self) -> u32 {
        self.members.len() - u32::from(self.parity)
    }

    /// Data chunks of a full row on all devices that stay.
    pub fn full_width(&self) -> u32 {
        self.stay.len() - u32::from(self.parity)
    }

    /// The number of a chunk among all that a row may have: those of parity are behind the data.
    pub fn number_of(&self, chunk: Chunk) -> u32 {
        match chunk {
            Chunk::Data(chunk) => chunk.into(),
            Chunk::Parity(which) => self.width() + u32::from(which),
        }
    }

    /// The chunk of a number.
    pub fn chunk_of(&self, number: u32) -> Chunk {
        match number.checked_sub(self.width()) {
            None => Chunk::Data(number as u8),
            Some(which) => Chunk::Parity(which as u8),
        }
    }

    /// The parities of a row.
    pub fn parities(&self) -> impl Iterator<Item = Chunk> + use<> {
        (0..self.parity).map(Chunk::Parity)
    }

    /// Pages of a row's head, whatever devices it lies on.
    pub fn head_pages(&self, full: bool) -> u32 {
        let chunks = if full { self.width() } else { 1 };
        (chunks * self.chunk).div_ceil(480)
    }

    /// Entries of a row's head.
    pub fn head_entries(&self, full: bool) -> u32 {
        room(self.head_pages(full))
    }

    /// The first sector of copy 0 or 1 of root `number`.
    pub fn root_at(&self, number: u64, copy: u32) -> u64 {
        (number % 2 + u64::from(2 * copy)) * u64::from(self.tree.room())
    }

    /// From one root in a zone to the next.
    pub fn root_stride(&self) -> u32 {
        self.root().next_multiple_of(self.align)
    }

    /// The first sector of the segments, behind such roots.
    fn behind_roots(&self) -> u64 {
        if self.zoned {
            return u64::from(ROOT_ZONES) * u64::from(self.column);
        }
        (4 * u64::from(self.tree.room())).next_multiple_of(self.chunk.into())
    }

    /// The first sector of the segments.
    #[inline]
    pub fn first(&self) -> u64 {
        self.lengths.places().first()
    }

    /// The first sector of a row on each of its devices.
    #[inline]
    pub fn lba(&self, at: At) -> u64 {
        let begin = u64::from(at.segment) * u64::from(self.column);
        self.first() + begin + u64::from(at.slot * self.chunk + at.sector)
    }

    /// The segment of byte `byte` of a device.
    #[inline]
    pub fn segment_of(&self, byte: u64) -> u32 {
        self.lengths.places().segment_of(byte / SECTOR as u64)
    }

    /// The segment of sector `lba` of a zoned device, and the sector in its zone; `None` in a zone
    /// of roots.
    pub fn zone_of(&self, lba: u64) -> Option<(u32, u32)> {
        let sector = lba.checked_sub(self.first())?;
        let column = u64::from(self.column);
        Some(((sector / column) as u32, (sector % column) as u32))
    }

    /// The segment and the slot of sector `lba` of a device.
    pub fn slot_of(&self, lba: u64) -> (u32, u32) {
        let (sector, column) = (lba - self.first(), u64::from(self.column));
        ((sector / column) as u32, (sector % column) as u32 / self.chunk)
    }

    /// Where the next row of the stream begins, in the same segment, after one at `at` that took
    /// `sectors` on its first device. What a slot has left is used where a head fits.
    pub fn after(&self, at: At, sectors: u32) -> Option<At> {
        let end = at.sector + sectors;
        let head = self.head_pages(false) * SECTORS_PER_BLOCK;
        if self.chunk - end >= head.max(2 * SECTORS_PER_BLOCK.max(self.align)) {
            return Some(At { sector: end, ..at });
        }
        (at.slot + 1 < self.slots).then_some(At { slot: at.slot + 1, sector: 0, ..at })
    }
}

#[cfg(test)]
impl Layout {
    /// A small volume over so many block devices, for the tests of parts.
    pub fn example(devices: u8) -> Self {
        let mut config = LayerConfig::new(crate::kind::LayerKind::Log);
        config.log.parity = u8::from(devices > 2);
        let device = DeviceInfo::block(1 << 20, 8);
        Layout::new(&config, &alloc::vec![device; devices.into()]).expect("a plan")
    }
}
