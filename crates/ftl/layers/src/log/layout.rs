//! Placement of all structures on the devices, and the exported capacity.
//!
//! Each device begins with two slots for roots and then a copy of both, or, if it is zoned, with
//! some zones for roots; every root is written to all devices. The rest is divided into segments.
//! Segment `s` is the same range on each device, a zone of a zoned one, and consists of slots of
//! one chunk. The devices rotate from slot to slot: the first one after parity has the first chunk
//! of a stripe. A stripe that is sealed early leaves space in its slot for more stripes, each of
//! one chunk.

mod full;
mod grown;
pub(super) mod lengths;
mod places;
mod reserves;
mod segment_length;
mod spare;
mod stack;
mod tree;
mod widths;

use hostftl_core::{DeviceInfo, DeviceSet, SECTOR, SECTORS_PER_BLOCK};
use hostftl_format::log::{GRAIN, MOST_BYTES, room};

use crate::config::{LayerConfig, PlanError};
use crate::log::journal::ring::{Ring, split};
use crate::log::map::size::frames;
use crate::log::params::SpareRule;
use crate::log::redundancy::rebuild::Chunk;
use lengths::Lengths;
pub(super) use reserves::Reserves;
use segment_length::LengthRule;
pub use spare::ChosenSpare;
use stack::{Zones, grains, zones};
use tree::Tree;

/// Maximum length of a transfer, in sectors: 1 MiB.
pub(super) const MAX_TRANSFER: u32 = 2048;
/// Stripes with payload that may be open or being written at once.
pub(super) const STRIPES: usize = 32;
/// Minimum and maximum number of stripes of victims that garbage collection processes at once.
const MIN_LANES: u64 = 16;
pub(super) const MAX_LANES: usize = 64;
/// Sectors of the chunks that these stripes have together, between the limits: 4 MiB. Most stripes
/// of a victim have little valid data, so the number of heads that are read at once determines the
/// speed. With parity the minimum is used: the buffers that a hung device holds are replaced from
/// stripes, and more lanes could leave none.
const LANE_SECTORS: u64 = 8192;
/// Images of the map that are read at once.
pub(super) const LOADS: usize = 32;
/// Zones for roots at the start of each device: two in use, and replacements for failed ones.
pub(super) const ROOT_ZONES: u32 = 4;
/// Reads of adjacent records with one command, in progress at once.
pub(super) const JOINTS: usize = 16;
/// Block operations in progress at once.
pub(super) const BLOCK_OPS: usize = 240;
/// Sectors of the scratch buffer of each: a record as read, a plain block, a compressed one.
pub(super) const SCRATCH: u32 = 32;
/// Maximum number of slots in a segment if the reclaim unit of the devices is unknown.
const USUAL_SLOTS: u32 = 64;
/// Minimum number of such segments on a device.
const USUAL_SEGMENTS: u64 = 192;
/// Maximum number of segments.
const MOST_SEGMENTS: u64 = 1 << 30;
/// Maximum sectors of a segment, so that its grains can be counted.
const MOST_SEGMENT: u64 = u32::MAX as u64 / (SECTOR as u64 / GRAIN as u64);
/// Open zones besides those of the classes: one of map images, one of roots.
const OPEN_BESIDE: u32 = 2;

/// Geometry of a log volume. Lengths are in sectors.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Layout {
    /// Number of device places, some of which may belong to removed devices.
    pub devices: u8,
    /// Devices that are neither removed nor spares.
    pub members: DeviceSet,
    /// Devices of `members` that are not being removed.
    pub stay: DeviceSet,
    /// Number of parity chunks of each stripe.
    pub parity: u8,
    /// Sectors of a chunk.
    pub chunk: u32,
    /// Slots in a segment.
    pub slots: u32,
    /// Distance from the start of a segment to the next.
    pub column: u32,
    /// Whether a segment is a zone of each device.
    pub zoned: bool,
    /// Maximum number of open zones of a device; 0 = unlimited.
    pub max_open: u32,
    /// Number of segments of the longest devices.
    pub segments: u32,
    /// Lengths of the devices.
    pub lengths: Lengths,
    /// Number of exported blocks.
    pub blocks: u64,
    /// Size of the map.
    pub tree: Tree,
    /// Segments reserved from the host when the volume is opened.
    pub reserves: Reserves,
    /// Alignment: programs are whole multiples of this.
    pub align: u32,
    /// Ring on the journal device.
    pub journal: Option<Ring>,
}

/// Devices and parameters that a volume is planned for.
struct Room<'a> {
    devices: &'a [DeviceInfo],
    /// Sectors up to which devices are used.
    sectors: u64,
    /// Spare in thousandths.
    permille: u32,
}

/// Position of a stripe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct At {
    /// Segment.
    pub segment: u32,
    /// Slot in the segment.
    pub slot: u32,
    /// First sector in the slot; not 0 only after a short stripe.
    pub sector: u32,
}

impl Layout {
    /// Returns the layout over `devices`.
    ///
    /// # Errors
    /// If the devices or the parameters do not suit the layer.
    pub fn new(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Self, PlanError> {
        if config.log.spare == SpareRule::Auto {
            return Err(PlanError(
                "spare=auto applies only when a log volume is created; state its percentage",
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
                1 => "log needs at least two devices for a mirror and three for parity",
                _ => "log needs at least three devices for three copies, four for two parities",
            }));
        }
        let zones = zones(config.members.missing, devices)?;
        if zones.is_some() && journal.is_some() {
            return Err(PlanError("log takes no journal with zoned devices; omit the journal"));
        }
        let (chunk, align) = grains(config.superpage, devices, zones)?;
        let longest = devices.iter().map(|device| device.sectors).max().unwrap_or(0);
        if longest > MOST_BYTES / SECTOR as u64 {
            return Err(PlanError(
                "log takes up to 256 TiB per device; make partitions or namespaces of that size \
                 and give several of them to one volume",
            ));
        }
        let all = DeviceSet::first_n(devices.len());
        let hole = journal.map_or(DeviceSet::EMPTY, |ring| ring.device_set()) & all;
        let removed = config.members.removed | hole;
        let members = all - (removed | config.members.spare);
        let stay = members - config.members.leaving;
        if stay.len() <= u32::from(parity) {
            return Err(PlanError("log needs at least one device more than parity chunks"));
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
            reserves: Reserves::with_classes(config.log.separation.classes()),
            tree: Tree::new(config.log.few_pairs),
            journal,
            ..Layout::default()
        };
        // The journal device is one of those with which the volume was created.
        let first = base.with_first(config.members.born.saturating_sub(journal.is_some().into()));
        let permille = config.spare_permille.min(900);
        let rule = LengthRule::new(config, devices);
        let (room, made) = first.made(devices, permille, zones, rule)?;
        let mut fitted = base.grown_from(&made, &room, config.exported)?;
        // A spare must be long enough to replace any other device.
        if !fitted.lengths.are_of_use(all - removed, fitted.segments) {
            return Err(PlanError(
                "a device has less than 1/16 of the capacity of the others; use a larger one",
            ));
        }
        // Replayed stripes may be from before a device was removed, when stripes were wider.
        let full = fitted.blocks_per_stripe(fitted.width()) as u32;
        fitted.tree.frames = frames(fitted.tree.pages, fitted.blocks, full, config.log.map_memory);
        Ok(fitted)
    }

    /// Returns the layout of a volume at its creation, and its plan. Of all lengths up to which the
    /// devices may be used, the one with the most capacity is chosen. A rest that only few devices
    /// have may cost more in reserves than it adds.
    fn made<'a>(
        self,
        devices: &'a [DeviceInfo],
        permille: u32,
        zones: Option<Zones>,
        rule: LengthRule,
    ) -> Result<(Room<'a>, Self), PlanError> {
        let made = |sectors| {
            let room = Room { devices, sectors, permille };
            let it = self.cut(&room, zones)?;
            let made = if zones.is_some() { it.fit(&room, false)? } else { rule.fit(it, &room)? };
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

    /// Chooses the length of segments.
    fn cut(mut self, room: &Room, zones: Option<Zones>) -> Result<Self, PlanError> {
        let Some(Zones { size, max_open, .. }) = zones else {
            let most = room.sectors / u64::from(self.chunk) / USUAL_SEGMENTS;
            return Ok(self.with_slots(most.clamp(4, USUAL_SLOTS.into()) as u32));
        };
        (self.slots, self.column) = (size / self.chunk, size);
        if u64::from(self.width()) * u64::from(size) > MOST_SEGMENT {
            return Err(PlanError(
                "log takes one zone of each device as a segment of at most 64 GiB; use fewer \
                 devices per volume or shorter zones",
            ));
        }
        if self.slots < 4 {
            return Err(PlanError(
                "log needs zones of at least four chunks; use a smaller superpage",
            ));
        }
        if max_open > 0 && max_open < 2 + OPEN_BESIDE {
            return Err(PlanError("log needs devices that allow four open zones"));
        }
        Ok(self)
    }

    fn with_slots(self, slots: u32) -> Self {
        Layout { slots, column: slots * self.chunk, ..self }
    }

    /// Chooses the exported capacity. Images of the map must fit even after the loss of devices,
    /// unless more than three quarters of the segments would be reserved for that. If `is_fixed`,
    /// the capacity that was exported before a change of the members is kept, whatever space is
    /// left. If stripes on the remaining devices would leave no space for data, no device can be
    /// removed, so the reserve is that of all devices.
    fn fit(self, room: &Room, is_fixed: bool) -> Result<Self, PlanError> {
        let fit = |set, is_least, is_fixed| self.fit_images(room, set, is_least, is_fixed);
        let is_large = |it: &Layout| it.reserves.kept() <= it.segments / 4 * 3;
        let with_losses = fit(self.stay, true, false).ok().filter(is_large);
        let fitted = with_losses.map_or_else(|| fit(self.stay, false, false), Ok);
        if is_fixed { fitted.or_else(|_| fit(self.members, false, true)) } else { fitted }
    }

    /// Iterates, because the length of the root depends on the capacity and vice versa. Images fit
    /// on the devices of `set`, or in the narrowest stripes after losses if `is_least`.
    fn fit_images(
        mut self,
        room: &Room,
        set: DeviceSet,
        is_least: bool,
        is_fixed: bool,
    ) -> Result<Self, PlanError> {
        let too_small =
            PlanError("the devices are too small for log; use larger ones or a smaller superpage");
        let logical = Some(self.blocks).filter(|blocks| *blocks > 0);
        self.tree = self.tree.with_room(self.widest_root(room.sectors));
        loop {
            if self.zoned && 2 * self.root_stride() > self.column {
                return Err(PlanError("log needs zones that hold two roots; use longer zones"));
            }
            let first = self.behind_roots();
            let free = room.sectors.checked_sub(first).ok_or(too_small)?;
            let segments = free / u64::from(self.column);
            if segments > MOST_SEGMENTS {
                return Err(PlanError("log takes at most 2^30 segments; use a larger superpage"));
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
                    "log maps at most 2.6 PiB of blocks; make several volumes of the devices",
                ));
            }
            if self.tree.make_room(pages as u32, self.segments) {
                self.blocks = blocks;
                if is_fixed {
                    self.reserves = self.reserves.without_spare();
                }
                return Ok(self);
            }
        }
    }

    /// Returns the journal device if later devices follow it. Its place then contains no chunks,
    /// like that of a removed device.
    pub fn hole(&self) -> DeviceSet {
        let is_between = |ring: &Ring| ring.device() < self.devices;
        self.journal.filter(is_between).map_or(DeviceSet::EMPTY, |ring| ring.device_set())
    }

    /// Returns the pages of a root: one head, then the places of the pages that it points at.
    pub fn root_pages(&self) -> u32 {
        hostftl_format::log::root_pages(self.tree.tops())
    }

    /// Returns the sectors of a root.
    pub fn root(&self) -> u32 {
        self.root_pages() * SECTORS_PER_BLOCK
    }

    /// Returns the segments that one image of the whole map takes if stripes have `width` data
    /// chunks.
    pub fn image_segments(&self, width: u32) -> u32 {
        let pages = u64::from(self.tree.pages + self.tree.tops());
        let room = width * (self.chunk / SECTORS_PER_BLOCK) - self.head_pages(true);
        pages.div_ceil(u64::from(room) * u64::from(self.slots)) as u32 + 1
    }

    /// Returns the incompressible blocks of a full stripe on all devices.
    pub fn stripe_blocks(&self) -> u64 {
        self.blocks_per_stripe(self.full_width())
    }

    /// Returns the incompressible blocks of a full stripe with `width` data chunks.
    pub fn blocks_per_stripe(&self, width: u32) -> u64 {
        let blocks = self.chunk / SECTORS_PER_BLOCK;
        u64::from(width * blocks - self.head_pages(true))
    }

    /// Returns the grains of a segment whose stripes have `width` data chunks.
    pub fn segment_grains(&self, width: u32) -> u32 {
        self.blocks_per_stripe(width) as u32 * self.slots * (4096 / GRAIN)
    }

    /// Returns the data chunks of a stripe on all device places, which is the maximum at any time.
    pub fn width(&self) -> u32 {
        u32::from(self.devices) - u32::from(self.parity)
    }

    /// Returns the number of stripes of victims that garbage collection processes at once.
    pub fn lanes(&self) -> usize {
        let sectors = if self.parity == 0 { LANE_SECTORS } else { 0 };
        let stripe = u64::from(self.width() * self.chunk);
        (sectors / stripe).clamp(MIN_LANES, MAX_LANES as u64) as usize
    }

    /// Returns the data chunks of a full stripe on all devices that are neither removed nor spares.
    pub fn made_width(&self) -> u32 {
        self.members.len() - u32::from(self.parity)
    }

    /// Returns the data chunks of a full stripe on all devices that are not being removed.
    pub fn full_width(&self) -> u32 {
        self.stay.len() - u32::from(self.parity)
    }

    /// Returns the number of a chunk; parity chunks follow the data chunks of the widest stripe.
    pub fn chunk_number(&self, chunk: Chunk) -> u32 {
        match chunk {
            Chunk::Data(chunk) => chunk.into(),
            Chunk::Parity(which) => self.width() + u32::from(which),
        }
    }

    /// Returns the chunk with a number.
    pub fn chunk_at(&self, number: u32) -> Chunk {
        match number.checked_sub(self.width()) {
            None => Chunk::Data(number as u8),
            Some(which) => Chunk::Parity(which as u8),
        }
    }

    /// Returns the parity chunks of a stripe.
    pub fn parities(&self) -> impl Iterator<Item = Chunk> + use<> {
        (0..self.parity).map(Chunk::Parity)
    }

    /// Returns the pages of a stripe's head, which do not depend on its devices.
    pub fn head_pages(&self, full: bool) -> u32 {
        let chunks = if full { self.width() } else { 1 };
        (chunks * self.chunk).div_ceil(480)
    }

    /// Returns the maximum number of entries in a stripe's head.
    pub fn head_entries(&self, full: bool) -> u32 {
        room(self.head_pages(full))
    }

    /// Returns the first sector of copy 0 or 1 of root `number`.
    pub fn root_at(&self, number: u64, copy: u32) -> u64 {
        (number % 2 + u64::from(2 * copy)) * u64::from(self.tree.room())
    }

    /// Returns the distance between two roots in a zone.
    pub fn root_stride(&self) -> u32 {
        self.root().next_multiple_of(self.align)
    }

    /// Returns the first sector after the roots, where segments start.
    fn behind_roots(&self) -> u64 {
        if self.zoned {
            return u64::from(ROOT_ZONES) * u64::from(self.column);
        }
        (4 * u64::from(self.tree.room())).next_multiple_of(self.chunk.into())
    }

    /// Returns the first sector of the segments.
    #[inline]
    pub fn first(&self) -> u64 {
        self.lengths.places().first()
    }

    /// Returns the first sector of a stripe on each of its devices.
    #[inline]
    pub fn lba(&self, at: At) -> u64 {
        let begin = u64::from(at.segment) * u64::from(self.column);
        self.first() + begin + u64::from(at.slot * self.chunk + at.sector)
    }

    /// Returns the segment of byte `byte` of a device.
    #[inline]
    pub fn segment_at(&self, byte: u64) -> u32 {
        self.lengths.places().segment_at(byte / SECTOR as u64)
    }

    /// Returns the segment of sector `lba` of a zoned device, and the sector in its zone; `None` in
    /// a root zone.
    pub fn zone_at(&self, lba: u64) -> Option<(u32, u32)> {
        let sector = lba.checked_sub(self.first())?;
        let column = u64::from(self.column);
        Some(((sector / column) as u32, (sector % column) as u32))
    }

    /// Returns the segment and the slot of sector `lba` of a device.
    pub fn slot_at(&self, lba: u64) -> (u32, u32) {
        let (sector, column) = (lba - self.first(), u64::from(self.column));
        ((sector / column) as u32, (sector % column) as u32 / self.chunk)
    }

    /// Returns the position in the same segment of the stripe after one at `at` that took `sectors`
    /// on its first device; `None` at the end. The rest of a slot is used if a head fits.
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
    /// Returns a small volume over `devices` block devices, for unit tests.
    pub fn example(devices: u8) -> Self {
        let mut config = LayerConfig::new(crate::kind::LayerKind::Log);
        config.log.parity = u8::from(devices > 2);
        let device = DeviceInfo::block(1 << 20, 8);
        Layout::new(&config, &alloc::vec![device; devices.into()]).expect("a plan")
    }
}
