//! Choice of the segment length. It decides how much the garbage collection of the devices copies.

use hostftl_core::{DeviceInfo, SECTOR};

use super::{Layout, MOST_SEGMENT, Room};
use crate::config::{LayerConfig, PlanError};
use crate::policy::Separation;

/// Numbers of segments of a device whose reclaim unit is unknown, the preferred one first.
const COUNTS: [u64; 3] = [512, 1024, 2048];
/// Maximum sectors of such a segment: 64 GiB.
const LONGEST: u64 = 64 << 21;

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

    /// Returns the preferred lengths in sectors, for devices of `sectors` sectors.
    ///
    /// With phases, reclaim units contain pieces of at most two segments, and few units contain
    /// two if segments have 2.5 units or more, whatever the alignment is. A whole number of units
    /// is almost as good. Otherwise the streams share units, so longer segments are no better than
    /// those of one unit or of a whole fraction of it.
    fn lengths(self, sectors: u64) -> impl Iterator<Item = u64> {
        let with_phases = match self.unit {
            Some(unit) => [5 * unit / 2, 2 * unit, unit],
            None => COUNTS.map(|count| (sectors / count).min(LONGEST)),
        };
        let parts = self.unit.into_iter().flat_map(|unit| (0..32).map(move |it| unit >> it));
        let others = parts.filter(move |_| !self.has_phases);
        with_phases.into_iter().filter(move |_| self.has_phases).chain(others)
    }
}

impl Layout {
    /// Returns [`Layout::fit`] with the first of the preferred segment lengths whose reserves do
    /// not exceed the spare, or with segments of the usual length if there is none.
    pub(super) fn fit_length(
        self,
        room: &Room,
        rule: Option<LengthRule>,
    ) -> Result<Self, PlanError> {
        let most = MOST_SEGMENT / u64::from(self.width() * self.chunk);
        let lengths = rule.into_iter().flat_map(|rule| rule.lengths(room.sectors));
        let slots = lengths.map(|length| length.div_ceil(self.chunk.into()));
        for slots in slots.filter(|slots| (u64::from(self.slots) + 1..=most).contains(slots)) {
            let fitted = self.with_slots(slots as u32).fit(room, false);
            if let Some(fitted) = fitted.ok().filter(|it| it.reserves.keeps_spare()) {
                return Ok(fitted);
            }
        }
        self.fit(room, false)
    }
}
