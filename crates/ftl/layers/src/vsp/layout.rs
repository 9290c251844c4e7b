//! Layout of the device, and the capacity that is exported.
//!
//! The device is divided into superpages: four or more for the roots (two slots, each written
//! twice), two for each map group (images alternate), the data area, and, in some layers, the homes
//! of the sectors.

use hostftl_core::{Ack, DeviceInfo, DeviceKind, Limits, SECTORS_PER_BLOCK};
use hostftl_format::hard::{ROOT_GENERATIONS, Width};

use crate::config::{LayerConfig, Plan, PlanError};

/// Minimum number of spare data superpages, so that every collection frees space.
pub(crate) const MIN_SPARE: u32 = 64;
/// Maximum number of superpages that are open or being programmed. Each has a staging buffer.
pub(crate) const STAGES: u32 = 8;
/// Maximum length of a transfer, in sectors (1 MiB).
pub(crate) const MAX_TRANSFER: u32 = 2048;
/// Maximum length of a superpage, in sectors. A step visits each slot of a stage at most once.
const MAX_SUPERPAGE: u32 = 2048;

/// Maximum number of sectors of a device: the log has 40 bits for a sector, and one bit of an entry
/// of the map is reserved in the layers with homes.
const MOST_SECTORS: u64 = 1 << 39;

/// Maximum number of superpages of a device; the last two are not used.
const MOST_SUPERPAGES: u64 = 1 << 32;

/// Geometry of a volume. Lengths are in sectors unless a field counts superpages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Sectors per superpage.
    pub superpage: u32,
    /// Superpages per copy of a root.
    pub root: u32,
    /// Number of map groups.
    pub groups: u32,
    /// Superpages in the data area.
    pub count: u32,
    /// Exported sectors.
    pub exported: u64,
    /// Width of an entry of the map.
    pub width: Width,
    /// Superpages that valid data never occupies.
    pub spare: u32,
    /// Free superpages below which the host may not open another one.
    pub reserve: u32,
    /// Maximum number of leaves in the map; 0 where leaves are not limited.
    pub leaves: u32,
    /// Maximum number of kills waiting to become durable, where sectors have homes.
    pub kills: u32,
    /// First superpage of the data area.
    pub data: u32,
    /// First superpage of the homes, where sectors have homes.
    pub home: Option<u32>,
    /// Leading superpages of the data area that are also the homes of the last sectors.
    pub lent: u32,
    /// Map unit of the drive, in sectors, where writes of whole units go home; 0 elsewhere.
    pub unit: u32,
}

impl Layout {
    /// Returns the number of superpages on the device, which must be the only one.
    pub(crate) fn superpages(
        config: &LayerConfig,
        devices: &[DeviceInfo],
    ) -> Result<u32, PlanError> {
        let [device] = devices else {
            return Err(PlanError("the layer takes exactly one device"));
        };
        if device.kind != DeviceKind::Block {
            return Err(PlanError("the layer needs a block device"));
        }
        let sp = config.superpage;
        if !(2 * SECTORS_PER_BLOCK..=MAX_SUPERPAGE).contains(&sp)
            || !sp.is_multiple_of(SECTORS_PER_BLOCK)
        {
            let why = "the layer needs a superpage of 8 KiB to 1 MiB, in steps of 4 KiB";
            return Err(PlanError(why));
        }
        if config.spare_permille > 900 {
            return Err(PlanError("the layer needs a spare of at most 90 %"));
        }
        let total = device.sectors / u64::from(sp);
        if device.sectors > MOST_SECTORS || total > MOST_SUPERPAGES {
            return Err(PlanError(
                "the layer maps up to 256 TiB and less than 2^32 superpages; use a larger \
                 superpage, or a smaller partition or namespace",
            ));
        }
        // The highest number means none.
        Ok(total.min(MOST_SUPERPAGES - 2) as u32)
    }

    /// Computes the layout of a layer with all data in virtual superpages and a map entry for each
    /// logical sector. The size of the map area depends on the exported capacity, and the exported
    /// capacity on the map area, so the computation is repeated until both agree.
    pub(crate) fn logged(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Self, PlanError> {
        let total = Self::superpages(config, devices)?;
        let too_small = PlanError(
            "the device is too small for this superpage; use a larger \
             device or a smaller superpage",
        );
        let sp = config.superpage;
        let pages = sp / SECTORS_PER_BLOCK;
        // The highest entry is reserved for lost sectors.
        let narrow = (u64::from(total) + 1) * u64::from(sp) <= Width::Narrow.most();
        let width = if narrow && !config.shatl.far { Width::Narrow } else { Width::Wide };
        let mut groups: u32 = 0;
        loop {
            let root = Self::root_superpages(groups, pages);
            let fixed = 4 * root + 2 * groups;
            let count = total.checked_sub(fixed).ok_or(too_small)?;
            let spare = (u64::from(count) * u64::from(config.spare_permille)).div_ceil(1000) as u32;
            let spare = spare.max(MIN_SPARE);
            let visible = count.checked_sub(spare).filter(|valid| *valid > 0).ok_or(too_small)?;
            let exported = u64::from(visible) * u64::from(sp);
            let need = exported.div_ceil(u64::from(pages) * width.entries() as u64) as u32;
            if need <= groups {
                let reserve = FLOOR + 16 + count / 256;
                let (superpage, home) = (sp, None);
                return Ok(Layout {
                    superpage,
                    root,
                    groups,
                    count,
                    exported,
                    width,
                    spare,
                    reserve,
                    leaves: 0,
                    kills: 0,
                    data: fixed,
                    home,
                    lent: 0,
                    unit: 0,
                });
            }
            groups = need;
        }
    }

    /// Returns the superpages in one copy of a root with `groups` map groups.
    pub(crate) fn root_superpages(groups: u32, pages: u32) -> u32 {
        (1 + groups.div_ceil(ROOT_GENERATIONS as u32)).div_ceil(pages)
    }

    /// Returns the device sector of the home of logical sector `lsn`, if sectors have homes.
    pub(crate) fn home(&self, lsn: u64) -> Option<u64> {
        Some(u64::from(self.home?) * u64::from(self.superpage) + lsn)
    }

    /// Returns the plan of the layer, with `more` buffers in addition to the stages.
    pub(crate) fn plan(&self, more: u32, map_bytes: u64, meta_bytes: u64) -> Plan {
        let limits = Limits {
            exported: self.exported,
            max_transfer: MAX_TRANSFER,
            align: self.superpage.min(MAX_TRANSFER),
            ack: Ack::Buffer,
        };
        let (buffers, buffer_sectors) = (STAGES + more, self.superpage);
        Plan { limits, buffers, buffer_sectors, map_bytes, meta_bytes }
    }

    /// Returns the maximum number of pages in a log write.
    pub(crate) fn log_pages(&self) -> u32 {
        self.pages().min(16)
    }

    /// Returns the number of metadata pages in a superpage.
    pub(crate) fn pages(&self) -> u32 {
        self.superpage / SECTORS_PER_BLOCK
    }

    /// Returns the number of entries of the map: one for each slot if sectors have homes, else one
    /// for each logical sector.
    pub(crate) fn entries(&self) -> u64 {
        if self.home.is_some() { self.slots() } else { self.exported }
    }

    /// Returns the number of slots in the data area.
    pub(crate) fn slots(&self) -> u64 {
        u64::from(self.count) * u64::from(self.superpage)
    }

    /// Returns the number of map entries in a group.
    pub(crate) fn group_entries(&self) -> u64 {
        u64::from(self.pages()) * self.width.entries() as u64
    }

    /// Returns the first sector of copy `copy` (0 or 1) of root `number`.
    pub(crate) fn root_at(&self, number: u64, copy: u32) -> u64 {
        let index = (number % 2) as u32 * 2 + copy;
        u64::from(index * self.root) * u64::from(self.superpage)
    }

    /// Returns the number of pages in a root.
    pub(crate) fn root_pages(&self) -> u32 {
        1 + self.groups.div_ceil(ROOT_GENERATIONS as u32)
    }

    /// Returns the first sector of the image of `group` with `generation`.
    pub(crate) fn group_at(&self, group: u32, generation: u32) -> u64 {
        u64::from(4 * self.root + 2 * group + generation % 2) * u64::from(self.superpage)
    }

    /// Returns the first sector of data superpage `vsp`.
    pub(crate) fn data_at(&self, vsp: u32) -> u64 {
        u64::from(self.data + vsp) * u64::from(self.superpage)
    }

    /// Returns whether the data area is large enough to delay log writes and checkpoints. This is
    /// the case where the map has entries only for hidden copies and not for slots.
    pub(crate) fn is_roomy(&self) -> bool {
        self.home.is_some() && self.leaves > 0
    }

    /// Returns the number of superpages in limbo, beyond the minimum, that are collected before a
    /// log write is made for them. It applies where sectors have homes and the data area is small.
    /// The same number is kept free or almost free, so that the host does not wait for that log
    /// write.
    pub(crate) fn company(&self) -> u32 {
        self.count / COMPANY_SHARE
    }

    /// Returns the number of superpages with log pages at which a checkpoint becomes urgent.
    pub(crate) fn max_pinned(&self) -> u32 {
        (self.spare / 4).max(8)
    }

    /// Returns the number of pinned superpages that memory is planned for.
    pub(crate) fn usual_pins(&self) -> u32 {
        let most = if self.is_roomy() { self.count / 2 } else { self.max_pinned() };
        most.min(self.interval())
    }

    /// Returns the maximum number of superpages that are opened between two checkpoints, which
    /// bounds the length of recovery.
    pub(crate) fn interval(&self) -> u32 {
        // A roomy area waits for a full turn: an image may then be as old as the data near it on
        // flash.
        let turns = if self.is_roomy() { self.count } else { self.count / 2 };
        turns.clamp(64, 262_144)
    }
}

/// Divisor of the data area for [`Layout::company`].
const COMPANY_SHARE: u32 = 256;
/// Free superpages that garbage collection leaves for log writes.
pub(crate) const FLOOR: u32 = 6;
