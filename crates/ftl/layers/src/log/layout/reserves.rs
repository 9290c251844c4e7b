//! Segments reserved from the host: for garbage collection, for checkpoints, and for failed zones.

use hostftl_core::DeviceSet;

use super::{Layout, OPEN_BESIDE, STRIPES};
use crate::log::journal::ring::segments_for;
use crate::policy::CLASSES;

/// Segments that only garbage collection and checkpoints may open, in addition to those of the map.
const RESERVE: u32 = 8;
/// Minimum number of classes: host writes and copies.
const LEAST_CLASSES: u8 = 2;
/// Minimum number of segments of the lead.
const LEAST_LEAD: u32 = 4;
/// Part of a segment with invalid data, as a divisor, below which the segment is not collected.
const WORTHWHILE: u32 = 64;
/// Divisor of the segments of zoned devices: one part is reserved for failures.
const SPOILED: u32 = 32;

/// Reserved segments. Narrower stripes need larger reserves, see [`Layout::reserves_on`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reserves {
    /// Segments of the configured spare.
    spare: u32,
    /// Segments that one image of the whole map takes.
    images: u32,
    /// Segments reserved from the host regardless of the spare.
    kept: u32,
    /// Segments that host data leaves free.
    pub(super) held: u32,
    /// Segments of `host` that are reserved for blocks that only the journal has.
    to_restore: u32,
    /// Segments that the host may not open.
    pub host: u32,
    /// Additional free segments. Garbage collection runs while some of them are missing.
    pub lead: u32,
    /// Number of data classes that may have their own stream.
    pub classes: u8,
    /// Number of classes that the separation distinguishes.
    most_classes: u8,
}

impl Reserves {
    /// Returns no reserves, for a separation that distinguishes `most_classes` classes.
    pub(super) fn with_classes(most_classes: u8) -> Self {
        Reserves { most_classes, ..Reserves::default() }
    }

    /// Returns the segments that one image of the whole map takes.
    pub fn images(&self) -> u32 {
        self.images
    }

    /// Returns the segments reserved from the host regardless of the spare.
    pub fn kept(&self) -> u32 {
        self.kept
    }

    /// Returns the values that bound the valid data: the segments that host data leaves free, and
    /// those reserved regardless of the spare.
    #[inline]
    pub fn bounds(&self) -> (u32, u32) {
        (self.held, self.kept)
    }

    /// Returns whether the reserved segments do not exceed the spare.
    pub(super) fn keeps_spare(&self) -> bool {
        self.kept <= self.spare
    }

    /// Returns the reserves of a volume without spare.
    pub(super) fn without_spare(self) -> Self {
        Reserves { held: self.kept, ..self }
    }

    /// Returns the free segments that garbage collection may not open. A checkpoint needs them, and
    /// again if it is interrupted, with a new segment for each stream.
    pub fn gc_floor(&self) -> u32 {
        self.restore_floor() + self.to_restore
    }

    /// Returns the free segments that recovery may not open for blocks that only the journal has.
    /// Its own checkpoint needs them.
    pub fn restore_floor(&self) -> u32 {
        2 * self.images + 3 + self.more_classes()
    }

    /// Returns the free segments that garbage collection may not open even if no others are free.
    /// One checkpoint needs them.
    pub fn last_floor(&self) -> u32 {
        self.images + 3 + self.more_classes()
    }

    /// Returns whether garbage collection can continue with `free` free segments only by using the
    /// reserve of the second checkpoint, and part of that is free.
    pub fn may_lend(&self, free: u32) -> bool {
        (self.last_floor() + 1..=self.gc_floor()).contains(&free)
    }

    /// Returns the number of classes besides host writes and copies.
    fn more_classes(&self) -> u32 {
        u32::from(self.classes - LEAST_CLASSES)
    }
}

impl Layout {
    /// Returns the reserves with as many classes as the spare allows, if an image of the map takes
    /// `images` segments.
    pub(super) fn reserves_for(&self, images: u32, spare: u32) -> Reserves {
        let opens =
            |classes: u8| self.max_open == 0 || u32::from(classes) + OPEN_BESIDE <= self.max_open;
        let useful = |classes: &u8| *classes <= self.reserves.most_classes.max(LEAST_CLASSES);
        let all = [CLASSES as u8, 4, LEAST_CLASSES].into_iter().filter(useful);
        let all = all.filter(|it| opens(*it));
        let mut reserves = all.map(|classes| self.spare_reserves(images, classes, spare));
        let fits = reserves.find(Reserves::keeps_spare);
        fits.unwrap_or_else(|| self.spare_reserves(images, LEAST_CLASSES, spare))
    }

    /// Returns the reserves with `classes` classes.
    fn spare_reserves(&self, images: u32, classes: u8, spare: u32) -> Reserves {
        // A phase lasts for a segment, so a longer lead would not be used.
        let most = if self.reserves.most_classes == 1 { LEAST_LEAD } else { 64 };
        let lead = (self.segments / 64).clamp(LEAST_LEAD, most);
        let to_restore =
            if self.journal.is_some() { segments_for(STRIPES as u32, self.slots) } else { 0 };
        let more_classes = u32::from(classes - LEAST_CLASSES);
        let host = RESERVE + self.uneven() + 3 * images + more_classes + to_restore;
        let mut it = Reserves { spare, images, to_restore, host, lead, classes, ..self.reserves };
        it.kept = self.never_full(&it) + self.spoiled();
        Reserves { held: it.kept.max(spare), ..it }
    }

    /// Returns the segments that must be reserved so that garbage collection finds a victim
    /// whenever the host waits for it, for any sequence of writes: the whole exported capacity can
    /// be overwritten for ever.
    ///
    /// The host waits when fewer than `host + lead` segments are free or empty. Each data stream
    /// has two open segments, one of them its next one, and so does the map stream. Images fill at
    /// most [`Layout::most_map_segments`] and the whole image that is being written. All other
    /// segments are full of data. Their valid data would fit into the segments that are not held,
    /// so the emptiest one lacks at least the fraction by which they exceed these. This fraction
    /// must exceed 1/64, because a segment with more valid data is not collected, and the waste of
    /// stripes that a checkpoint seals early: one in each second segment.
    ///
    /// The image that is being written is not counted if map pages have few pairs, which only
    /// tests use: images would take most of their small volumes.
    fn never_full(&self, it: &Reserves) -> u32 {
        let streams = it.classes.min(self.reserves.most_classes.max(1));
        let image = self.image_segments(self.made_width()).min(it.images);
        let written = if self.tree.few_pairs { 0 } else { image };
        let of_map = self.most_map_segments_with(it.images) + written;
        let others = it.host + it.lead + 2 * u32::from(streams) + 2 + of_map;
        let full = self.segments.saturating_sub(others);
        others + (full / (2 * self.slots)).max(full / WORTHWHILE)
    }

    /// Returns the maximum number of full segments with map images that a checkpoint leaves
    /// unchanged. Beyond two whole images, it moves the images of one segment at a time, so there
    /// may temporarily be a few more.
    pub(in crate::log) fn most_map_segments(&self) -> u32 {
        self.most_map_segments_with(self.reserves.images)
    }

    fn most_map_segments_with(&self, images: u32) -> u32 {
        2 * images + self.segments / 128 + 2
    }

    /// Returns the reserves for stripes on these devices, with the current number of classes;
    /// `None` if they would leave no space for data.
    pub fn reserves_on(&self, devices: DeviceSet) -> Option<Reserves> {
        let width = self.narrowest(devices);
        let Reserves { classes, spare, .. } = self.reserves;
        let of = |width| self.spare_reserves(self.image_segments(width), classes, spare);
        let widths = [self.least_width(width), width].into_iter().filter(|width| *width > 0);
        widths.map(of).find(|it| it.held < self.usable(devices))
    }

    /// Returns the minimum number of data chunks of a stripe for which images of the map must fit,
    /// in a volume whose full stripes have `width`.
    pub(super) fn least_width(&self, width: u32) -> u32 {
        if self.parity > 0 { (width / 3).max(1) } else { width }
    }

    /// Returns the additional segments that garbage collection may need for a victim: the data of
    /// the widest segment may have to move to the narrowest ones.
    fn uneven(&self) -> u32 {
        if self.lengths.are_equal() { 0 } else { self.made_width() - 1 }
    }

    /// Returns the number of segments that may fail before writes find no space.
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

    /// Returns a volume on six devices of `mib` MiB, and the same volume opened while the devices
    /// of `leaving` are being removed.
    fn volumes(mib: u64, parity: u8, leaving: DeviceSet) -> (Layout, Layout) {
        let devices = alloc::vec![DeviceInfo::block(mib << 11, 8); 6];
        let mut config = LayerConfig::new(LayerKind::Log);
        (config.log.parity, config.log.few_pairs) = (parity, true);
        let made = Layout::new(&config, &devices).unwrap();
        (config.members.born, config.members.leaving) = (6, leaving);
        config.exported = made.blocks * u64::from(SECTORS_PER_BLOCK);
        (made, Layout::new(&config, &devices).unwrap())
    }

    /// Repeated power losses during collection of a victim can use up exactly the reserve of two
    /// checkpoints.
    #[test]
    fn the_reserve_for_a_second_checkpoint_is_lent_last() {
        let kept = Reserves { images: 5, to_restore: 2, classes: 3, ..Reserves::default() };
        assert_eq!((kept.last_floor(), kept.gc_floor()), (9, 16));
        let lends = |free: &u32| kept.may_lend(*free);
        assert!((0..40).filter(lends).eq(10..17), "one checkpoint keeps its reserve");
    }

    #[test]
    fn reserves_do_not_depend_on_the_time_of_a_removal() {
        for (mib, parity) in [(16, 1), (48, 1), (48, 2), (48, 0), (400, 0)] {
            let (made, opened) = volumes(mib, parity, DeviceSet::single(0));
            assert_eq!(made.reserves_on(opened.stay), Some(opened.reserves), "{mib} {parity}");
            assert_eq!(opened.reserves_on(opened.members), Some(made.reserves), "it stays");
            assert!(
                parity > 0 || opened.reserves.images > made.reserves.images,
                "stripes are narrower"
            );
        }
    }

    #[test]
    fn reserves_cover_all_devices_if_too_few_would_remain() {
        let (made, opened) = volumes(16, 0, DeviceSet::first_n(5));
        assert_eq!((made.reserves_on(DeviceSet::single(5)), opened.full_width()), (None, 1));
        let (Reserves { images, host, .. }, all) = (opened.reserves, made.reserves);
        assert_eq!((images, host), (all.images, all.host));
    }
}
