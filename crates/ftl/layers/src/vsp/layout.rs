//! Where everything lies on the device, and how much of it the host gets.
//!
//! The device is cut into superpages: four for the roots (two slots, each written twice), two for
//! each map group (images alternate), those for data, and perhaps homes of the sectors.

use hostftl_core::{Ack, DeviceInfo, DeviceKind, Limits, SECTORS_PER_BLOCK};
use hostftl_format::hard::{MAP_ENTRIES, ROOT_GENERATIONS};

use crate::config::{LayerConfig, Plan, PlanError};
use crate::kind::LayerKind;

/// Data superpages that are kept spare at the least, so that collection always gains.
pub(crate) const MIN_SPARE: u32 = 64;
/// Superpages that may be open or on their way to the device; each has a staging buffer.
pub(crate) const STAGES: u32 = 8;
/// The longest transfer, in sectors: 1 MiB.
pub(crate) const MAX_TRANSFER: u32 = 2048;
/// The largest superpage, in sectors: a step looks at every staged slot at the most.
const MAX_SUPERPAGE: u32 = 2048;

/// What layers with a hidden area say of a larger volume.
pub(crate) const MOST_HIDDEN: PlanError = PlanError(
    "shatl and hatl-auto map volumes of less than 1 TiB: use log, or a partition or namespace that \
     is smaller",
);

/// The geometry of a volume. Lengths are in sectors unless they say superpages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Sectors in a superpage.
    pub superpage: u32,
    /// Superpages in one copy of a root.
    pub root: u32,
    /// Map groups.
    pub groups: u32,
    /// Superpages in the data area.
    pub count: u32,
    /// Sectors that the host sees.
    pub exported: u64,
    /// Entries of the map on media.
    pub entries: u64,
    /// Superpages that the live sectors never need.
    pub spare: u32,
    /// Superpages that must be free before the host may open one.
    pub reserve: u32,
    /// Leaves that the map may have, where it has a budget of them.
    pub leaves: u32,
    /// Runs of slots whose death may wait to be logged, where sectors have homes.
    pub kills: u32,
    /// The superpage at which the data area begins.
    pub data: u32,
    /// The superpage at which the homes of the sectors begin, when they have homes.
    pub home: Option<u32>,
    /// The first so many superpages of the data area are homes too, those of the last sectors.
    pub lent: u32,
    /// What the drive maps, in sectors, where writes of whole such units go home; 0 where none do.
    pub unit: u32,
}

impl Layout {
    /// Superpages on the one device.
    pub(crate) fn superpages(
        config: &LayerConfig,
        devices: &[DeviceInfo],
    ) -> Result<u32, PlanError> {
        let [device] = devices else {
            return Err(PlanError("the layer takes exactly one device"));
        };
        if device.kind != DeviceKind::Block {
            return Err(PlanError("the layer needs a device that can be written anywhere"));
        }
        let sp = config.superpage;
        if !(2 * SECTORS_PER_BLOCK..=MAX_SUPERPAGE).contains(&sp)
            || !sp.is_multiple_of(SECTORS_PER_BLOCK)
        {
            let why = "the layer needs a superpage of 8 KiB to 1 MiB, in steps of 4 KiB";
            return Err(PlanError(why));
        }
        if config.spare_permille > 900 {
            return Err(PlanError("the layer needs a spare share of at most 90 %"));
        }
        let total = device.sectors / u64::from(sp);
        if (total + 1) * u64::from(sp) > u64::from(u32::MAX) {
            return Err(match config.kind {
                LayerKind::Hard | LayerKind::Mhatl => PlanError(
                    "hard and mhatl map devices of less than 2 TiB: use log, or a partition or \
                     namespace that is smaller",
                ),
                _ => MOST_HIDDEN,
            });
        }
        Ok(total as u32)
    }

    /// All data in virtual superpages, and an entry of the map for each logical sector. The map
    /// area depends on what is exported, and that on the map area: go round until it rests.
    pub(crate) fn logged(config: &LayerConfig, devices: &[DeviceInfo]) -> Result<Self, PlanError> {
        let total = Self::superpages(config, devices)?;
        let too_small = PlanError("the device is too small for the layer with this superpage");
        let sp = config.superpage;
        let pages = sp / SECTORS_PER_BLOCK;
        let mut groups: u32 = 0;
        loop {
            let root = Self::root_superpages(groups, pages);
            let fixed = 4 * root + 2 * groups;
            let count = total.checked_sub(fixed).ok_or(too_small)?;
            let spare = (u64::from(count) * u64::from(config.spare_permille)).div_ceil(1000) as u32;
            let spare = spare.max(MIN_SPARE);
            let live = count.checked_sub(spare).filter(|live| *live > 0).ok_or(too_small)?;
            let exported = u64::from(live) * u64::from(sp);
            let need = exported.div_ceil(u64::from(pages) * MAP_ENTRIES as u64) as u32;
            if need <= groups {
                let reserve = FLOOR + 16 + count / 256;
                let (superpage, entries, home) = (sp, exported, None);
                return Ok(Layout {
                    superpage,
                    root,
                    groups,
                    count,
                    exported,
                    entries,
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

    /// Superpages in one copy of a root that names so many groups.
    pub(crate) fn root_superpages(groups: u32, pages: u32) -> u32 {
        (1 + groups.div_ceil(ROOT_GENERATIONS as u32)).div_ceil(pages)
    }

    /// The device sector that is the home of a logical one, when it has one.
    pub(crate) fn home(&self, lsn: u64) -> Option<u64> {
        Some(u64::from(self.home?) * u64::from(self.superpage) + lsn)
    }

    /// What the layer needs and gives, with `more` buffers beside the stages.
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

    /// Pages of the longest log write.
    pub(crate) fn log_pages(&self) -> u32 {
        self.pages().min(16)
    }

    /// Metadata pages in a superpage.
    pub(crate) fn pages(&self) -> u32 {
        self.superpage / SECTORS_PER_BLOCK
    }

    /// Map entries in a group.
    pub(crate) fn group_entries(&self) -> u64 {
        u64::from(self.pages()) * MAP_ENTRIES as u64
    }

    /// The first sector of root copy `copy` (0 or 1) of root `number`.
    pub(crate) fn root_at(&self, number: u64, copy: u32) -> u64 {
        let index = (number % 2) as u32 * 2 + copy;
        u64::from(index * self.root) * u64::from(self.superpage)
    }

    /// Pages in a root.
    pub(crate) fn root_pages(&self) -> u32 {
        1 + self.groups.div_ceil(ROOT_GENERATIONS as u32)
    }

    /// The first sector of the image of `group` with `generation`.
    pub(crate) fn group_at(&self, group: u32, generation: u32) -> u64 {
        u64::from(4 * self.root + 2 * group + generation % 2) * u64::from(self.superpage)
    }

    /// The first sector of data superpage `vsp`.
    pub(crate) fn data_at(&self, vsp: u32) -> u64 {
        u64::from(self.data + vsp) * u64::from(self.superpage)
    }

    /// Whether there is so much room for data that log writes and checkpoints can wait: the map is
    /// for what is hidden, and not for slots.
    pub(crate) fn is_roomy(&self) -> bool {
        self.home.is_some() && self.leaves > 0
    }

    /// Superpages in limbo that wait for more company before log is written for them, beyond the
    /// fewest, where there is a home and not much room. As many more are kept free or soon free, so
    /// that the host does not wait for them.
    pub(crate) fn company(&self) -> u32 {
        self.count / COMPANY_SHARE
    }

    /// Superpages that hold log writes before a checkpoint is urgent.
    pub(crate) fn max_pinned(&self) -> u32 {
        (self.spare / 4).max(8)
    }

    /// Superpages that may be opened between two checkpoints: this bounds recovery.
    pub(crate) fn interval(&self) -> u32 {
        // Where there is much room an image may be as old as what lies beside it on flash.
        let turns = if self.is_roomy() { self.count } else { self.count / 2 };
        turns.clamp(64, 262_144)
    }
}

/// See [`Layout::company`].
const COMPANY_SHARE: u32 = 256;
/// Superpages that collection leaves free for log writes.
pub(crate) const FLOOR: u32 = 6;
