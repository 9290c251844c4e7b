//! Segments that are kept from the host: for collection, for checkpoints, for what fails.

use hostftl_core::DeviceSet;

use super::{Layout, OPEN_BESIDE, ROWS};
use crate::log::journal::ring::segments_for;
use crate::policy::CLASSES;

/// Segments that only collection and checkpoints may open, but for those of the map.
const RESERVE: u32 = 8;
/// The host's writes and copies.
const LEAST_CLASSES: u8 = 2;
/// Segments of the lead at least.
const LEAST_LEAD: u32 = 4;
/// Segments that are never full: the open ones of three streams, those of old images, and what
/// rows that were sealed early waste.
const SLACK: u32 = 16;
/// Of zoned devices one segment in so many is kept for those that fail.
const SPOILED: u32 = 32;

/// See the module text. Narrower rows need larger reserves: [`Layout::reserves_on`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserves {
    /// Segments that the user wants to be spare.
    spare: u32,
    /// Segments that one image of the whole map takes.
    images: u32,
    /// Segments that are kept from the host however little is spare.
    kept: u32,
    /// Segments that the host's data leaves free.
    pub(super) held: u32,
    /// Those of `host` that are kept for what only the journal has.
    to_restore: u32,
    /// Segments that the host may not open.
    pub host: u32,
    /// Segments above that, of which some are missing while anything is collected.
    pub lead: u32,
    /// Classes of data that may have a stream each.
    pub classes: u8,
}

impl Reserves {
    /// Segments that one image of the whole map takes.
    pub fn images(&self) -> u32 {
        self.images
    }

    /// Segments that are kept from the host however little is spare.
    pub fn kept(&self) -> u32 {
        self.kept
    }

    /// What bounds the room for data: the segments that the host's data leaves free, and those that
    /// are kept from it however little is spare.
    #[inline]
    pub fn bounds(&self) -> (u32, u32) {
        (self.held, self.kept)
    }

    /// Whether what is kept from the host is no more than the spare.
    pub(super) fn keeps_spare(&self) -> bool {
        self.kept <= self.spare
    }

    /// Those of a volume of which nothing has to be spare.
    pub(super) fn without_spare(self) -> Self {
        Reserves { held: self.kept, ..self }
    }

    /// Free segments that collection may not open: those that a checkpoint needs, and once more
    /// when it was cut off, with a new segment for each stream.
    pub fn gc_floor(&self) -> u32 {
        self.restore_floor() + self.to_restore
    }

    /// Free segments that recovery may not open for what only the journal has: those that its own
    /// checkpoint needs.
    pub fn restore_floor(&self) -> u32 {
        2 * self.images + 3 + self.more_classes()
    }

    /// Free segments that collection may not open even when it finds no others: those that one
    /// checkpoint needs.
    pub fn last_floor(&self) -> u32 {
        self.images + 3 + self.more_classes()
    }

    /// Whether so many free segments are so few that only what is kept for the second checkpoint
    /// lets collection go on, and some of that is there.
    pub fn may_lend(&self, free: u32) -> bool {
        (self.last_floor() + 1..=self.gc_floor()).contains(&free)
    }

    /// Classes beyond the host's writes and copies.
    fn more_classes(&self) -> u32 {
        u32::from(self.classes - LEAST_CLASSES)
    }
}

impl Layout {
    /// Those with as many classes as what is spare has room for, where an image of the map takes
    /// so many segments.
    pub(super) fn reserves_for(&self, images: u32, spare: u32) -> Reserves {
        let opens =
            |classes: u8| self.max_open == 0 || u32::from(classes) + OPEN_BESIDE <= self.max_open;
        let all = [CLASSES as u8, 4, LEAST_CLASSES].into_iter().filter(|it| opens(*it));
        let mut reserves = all.map(|classes| self.reserves_of(images, classes, spare));
        let fits = reserves.find(Reserves::keeps_spare);
        fits.unwrap_or_else(|| self.reserves_of(images, LEAST_CLASSES, spare))
    }

    /// Those with so many classes.
    fn reserves_of(&self, images: u32, classes: u8, spare: u32) -> Reserves {
        let lead = (self.segments / 64).clamp(LEAST_LEAD, 64);
        let to_restore =
            if self.journal.is_some() { segments_for(ROWS as u32, self.slots) } else { 0 };
        let more_classes = u32::from(classes - LEAST_CLASSES);
        let host = RESERVE + self.uneven() + 3 * images + more_classes + to_restore;
        // Rows that a checkpoint seals early must waste less than what collection gains, and a
        // segment with less than a 64th to gain is not collected.
        let early = self.segments / (2 * self.slots).min(32);
        let slack = SLACK + lead - LEAST_LEAD + self.spoiled();
        let kept = host + 2 * images + slack + 2 * more_classes + early;
        Reserves { spare, images, kept, held: kept.max(spare), to_restore, host, lead, classes }
    }

    /// Asserts that collection finds a victim whenever the host waits for it, however the host
    /// writes: so all that is exported can be overwritten for ever.
    ///
    /// The host waits when fewer than `host + lead` segments are free or empty. Each stream of
    /// data has two segments, one of them ahead, and so has that of the map. Images fill no more
    /// than [`Layout::most_map_segments`] and the whole image that is being written. All other
    /// segments are full of data. Their valid data would fit into the segments that are not held,
    /// so the emptiest one lacks at least the share by which there are more of them. A segment of
    /// which more than 63 of 64 parts are valid is not collected: the share has to exceed a 64th.
    ///
    /// This does not follow for map pages of few pairs, which only tests have: their images take
    /// too many segments.
    pub(super) fn assert_victim(&self) {
        let Reserves { host, lead, classes, kept, .. } = self.reserves;
        let of_map = self.most_map_segments() + self.image_segments(self.full_width());
        let others = host + lead + 2 * u32::from(classes) + 2 + of_map;
        let full = self.segments.saturating_sub(others);
        let lacks = kept + 1 >= others + full / 64;
        assert!(lacks || self.tree.few_pairs, "collection has a victim: {full} of {self:?}");
    }

    /// Returns the most full segments with images of the map that a checkpoint leaves as they are.
    /// Beyond what two whole images take it moves the images of one segment at a time, so there may
    /// be somewhat more for a while.
    pub(in crate::log) fn most_map_segments(&self) -> u32 {
        2 * self.reserves.images + self.segments / 128 + 2
    }

    /// Those where rows lie on these devices, with as many classes as there are; `None` where they
    /// would leave nothing for data.
    pub fn reserves_on(&self, devices: DeviceSet) -> Option<Reserves> {
        let width = self.narrowest(devices);
        let Reserves { classes, spare, .. } = self.reserves;
        let of = |width| self.reserves_of(self.image_segments(width), classes, spare);
        let widths = [self.least_width(width), width].into_iter().filter(|width| *width > 0);
        widths.map(of).find(|it| it.held < self.usable(devices))
    }

    /// The fewest data chunks of a row for which images of the map are to have room, of a volume
    /// whose full rows have `width`.
    pub(super) fn least_width(&self, width: u32) -> u32 {
        if self.parity > 0 { (width / 3).max(1) } else { width }
    }

    /// Segments more that collection may need for a victim: the widest one may have to go to the
    /// narrowest ones.
    fn uneven(&self) -> u32 {
        if self.lengths.are_equal() { 0 } else { self.made_width() - 1 }
    }

    /// Segments that may go out of use before writes find no room.
    pub fn spoiled(&self) -> u32 {
        if self.zoned { self.segments.div_ceil(SPOILED) } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::{DeviceInfo, SECTORS_PER_BLOCK};

    use super::*;
    use crate::config::LayerConfig;
    use crate::kind::LayerKind;

    /// A volume on six devices of so many MiB, and the same when it is opened while those of
    /// `leaving` are to leave.
    fn volumes(mib: u64, parity: u8, leaving: DeviceSet) -> (Layout, Layout) {
        let devices = alloc::vec![DeviceInfo::block(mib << 11, 8); 6];
        let mut config = LayerConfig::new(LayerKind::Log);
        (config.log.parity, config.log.few_pairs) = (parity, true);
        let made = Layout::new(&config, &devices).unwrap();
        (config.members.born, config.members.leaving) = (6, leaving);
        config.exported = made.blocks * u64::from(SECTORS_PER_BLOCK);
        (made, Layout::new(&config, &devices).unwrap())
    }

    /// Cuts in a row, each between what a victim took and what it would have gained, come to
    /// exactly what is kept for two checkpoints.
    #[test]
    fn what_is_kept_for_the_second_checkpoint_is_lent_when_nothing_else_is_free() {
        let kept = Reserves { images: 5, to_restore: 2, classes: 3, ..Reserves::default() };
        assert_eq!((kept.last_floor(), kept.gc_floor()), (9, 16));
        let lends = |free: &u32| kept.may_lend(*free);
        assert!((0..40).filter(lends).eq(10..17), "one checkpoint keeps what it needs");
    }

    #[test]
    fn as_much_is_kept_whether_a_device_is_told_to_leave_before_the_start_or_after_it() {
        for (mib, parity) in [(16, 1), (48, 1), (48, 2), (48, 0), (400, 0)] {
            let (made, opened) = volumes(mib, parity, DeviceSet::of(0));
            assert_eq!(made.reserves_on(opened.stay), Some(opened.reserves), "{mib} {parity}");
            assert_eq!(opened.reserves_on(opened.members), Some(made.reserves), "it stays");
            assert!(
                parity > 0 || opened.reserves.images > made.reserves.images,
                "rows are narrower"
            );
        }
    }

    #[test]
    fn where_too_few_devices_would_stay_as_much_is_kept_as_for_all() {
        let (made, opened) = volumes(16, 0, DeviceSet::first_n(5));
        assert_eq!((made.reserves_on(DeviceSet::of(5)), opened.full_width()), (None, 1));
        let (Reserves { images, host, .. }, all) = (opened.reserves, made.reserves);
        assert_eq!((images, host), (all.images, all.host));
    }
}
