//! Choice of the segment length. It decides how much the garbage collection of the devices copies.

use hostftl_core::{DeviceInfo, SECTOR};

use super::lengths::MOST_DEVICES;
use super::{Layout, MOST_SEGMENT, Room};
use crate::config::{LayerConfig, PlanError};
use crate::policy::Separation;

/// Numbers of segments of a device whose reclaim unit is unknown, the preferred one first.
const COUNTS: [u64; 3] = [512, 1024, 2048];
/// Maximum sectors of a segment that is longer than a reclaim unit: 3 GiB. A volume with such
/// segments can grow to 16 devices.
const LONGEST: u64 = 3 << 21;
const _: () = assert!(LONGEST * MOST_DEVICES as u64 <= MOST_SEGMENT, "it can grow");

/// Properties of the devices on which the segment length depends.
#[derive(Clone, Copy, Debug)]
pub(super) struct LengthRule {
    /// Reclaim unit in sectors: the configured one, or the longest that a device reports.
    unit: Option<u64>,
    /// Whether one stream is filled in phases.
    has_phases: bool,
}

impl LengthRule {
    pub(super) fn new(config: &LayerConfig, devices: &[DeviceInfo]) -> Self {
        let reported = || devices.iter().map(|device| device.reclaim_unit).max();
        let unit = config.log.reclaim_unit.map(|bytes| bytes / SECTOR as u64).or_else(reported);
        LengthRule {
            unit: unit.filter(|unit| *unit > 0),
            has_phases: config.log.separation == Separation::Phases,
        }
    }

    /// Returns the reclaim unit in sectors, if it is known.
    pub(super) fn unit(self) -> Option<u64> {
        self.unit
    }

    /// Returns the preferred lengths in sectors, for devices of `sectors` sectors.
    ///
    /// With phases, reclaim units contain pieces of at most two segments, and few units contain
    /// two if segments have 2.5 units or more, whatever the alignment is. A whole number of units
    /// is almost as good. Otherwise the streams share units, so longer segments are no better than
    /// those of one unit or of a whole fraction of it.
    fn lengths(self, sectors: u64) -> impl Iterator<Item = u64> {
        let unknown = COUNTS.map(|count| (sectors / count).min(LONGEST));
        let several = |unit: u64| [5 * unit / 2, 2 * unit].into_iter().filter(|it| *it <= LONGEST);
        let units = self.unit.into_iter().flat_map(move |unit| several(unit).chain([unit]));
        let parts = self.unit.into_iter().flat_map(|unit| (0..32).map(move |it| unit >> it));
        let (is_known, has_phases) = (self.unit.is_some(), self.has_phases);
        let with_phases = unknown.into_iter().filter(move |_| !is_known).chain(units);
        let with_phases = with_phases.filter(move |_| has_phases);
        with_phases.chain(parts.filter(move |_| !has_phases))
    }

    /// Returns the layout with the first of the preferred segment lengths whose reserves do not
    /// exceed the spare, or with segments of the usual length if there is none.
    pub(super) fn fit(self, layout: Layout, room: &Room) -> Result<Layout, PlanError> {
        let most = MOST_SEGMENT / u64::from(layout.width() * layout.chunk);
        let lengths = self.lengths(room.sectors).map(|it| it.div_ceil(layout.chunk.into()));
        for slots in lengths.filter(|it| (u64::from(layout.slots) + 1..=most).contains(it)) {
            let fitted = layout.with_slots(slots as u32).fit(room, false);
            if let Some(fitted) = fitted.ok().filter(|it| it.reserves.keeps_spare()) {
                return Ok(fitted);
            }
        }
        layout.fit(room, false)
    }
}
