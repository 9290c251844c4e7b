//! Segments that are kept from the host: for collection, for checkpoints, for what fails.

use super::{Layout, OPEN_BESIDE, ROWS};
use crate::log::journal::ring::segments_for;
use crate::policy::CLASSES;

/// Segments that only collection and checkpoints may open, but for those of the map.
const RESERVE: u32 = 8;
/// Segments of the lead at least.
const LEAST_LEAD: u32 = 4;
/// Segments that are never full: the open ones of three streams, those of old images, and what
/// rows that were sealed early waste.
const SLACK: u32 = 16;
/// Of zoned devices one segment in so many is kept for those that fail.
const SPOILED: u32 = 32;

/// See the module text.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserves {
    /// Segments that the host's data leaves free.
    pub(super) held: u32,
    /// Segments that the host may not open.
    pub host: u32,
    /// Segments above that, of which some are missing while anything is collected.
    pub lead: u32,
    /// Classes of data that may have a stream each.
    pub classes: u8,
}

impl Layout {
    /// Chooses as many classes as what is spare has room for, and their reserve. The segments that
    /// are kept from the host.
    pub(super) fn keep(&mut self, spare: u32) -> u32 {
        self.reserves.lead = (self.segments / 64).clamp(LEAST_LEAD, 64);
        let opens =
            |classes: u8| self.max_open == 0 || u32::from(classes) + OPEN_BESIDE <= self.max_open;
        let mut kept = 0;
        for classes in [CLASSES as u8, 4, 2].into_iter().filter(|it| opens(*it)) {
            self.reserves.classes = classes;
            self.reserves.host =
                RESERVE + 3 * self.tree.segments + self.more_classes() + self.kept_to_restore();
            kept = self.kept();
            if kept <= spare {
                break;
            }
        }
        kept
    }

    /// Segments that are kept from the host however little is spare.
    pub fn kept(&self) -> u32 {
        // Rows that a checkpoint seals early must waste less than what collection gains, and a
        // segment with less than a 64th to gain is not collected.
        let early = self.segments / (2 * self.slots).min(32);
        let slack = SLACK + self.reserves.lead - LEAST_LEAD + self.spoiled();
        self.reserves.host + 2 * self.tree.segments + slack + 2 * self.more_classes() + early
    }

    /// Whether what is kept from the host is no more than the spare.
    pub(super) fn keeps_spare(mut self, permille: u32) -> bool {
        let spare = (u64::from(self.segments) * u64::from(permille) / 1000) as u32;
        self.keep(spare) <= spare
    }

    /// Segments that may go out of use before writes find no room.
    pub fn spoiled(&self) -> u32 {
        if self.zoned { self.segments.div_ceil(SPOILED) } else { 0 }
    }

    /// Classes beyond the host's writes and copies.
    fn more_classes(&self) -> u32 {
        u32::from(self.reserves.classes) - 2
    }

    /// Free segments that collection may not open: those that a checkpoint needs, and once more
    /// when it was cut off, with a new segment for each stream.
    pub fn gc_floor(&self) -> u32 {
        self.restore_floor() + self.kept_to_restore()
    }

    /// Free segments that recovery may not open for what only the journal has: those that its own
    /// checkpoint needs.
    pub fn restore_floor(&self) -> u32 {
        2 * self.tree.segments + 3 + self.more_classes()
    }

    /// Segments that are kept for that.
    fn kept_to_restore(&self) -> u32 {
        if self.journal.is_some() { segments_for(ROWS as u32, self.slots) } else { 0 }
    }
}
