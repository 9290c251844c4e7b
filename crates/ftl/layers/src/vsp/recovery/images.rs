//! Map images during recovery: which one of a group is loaded, and which generation the next has.
//!
//! Invariants
//! - The image that a root names, or a newer one in its place, is complete. Replay from that root
//!   corrects either.
//! - A group that no root names was empty when the newest root was begun. Only replay can give it
//!   entries, so it is not read, unless for the generation of its next image.

use hostftl_core::SECTORS_PER_BLOCK;
use hostftl_format::hard::{map_entry, parse_map};

use super::{READS, Recovery, SCAN, Step, fail_volume};
use crate::vsp::area::Area;
use crate::vsp::ops::Cx;
use crate::vsp::table::Table;

/// Upper bound of the generation of an image, which leaves room for later generations.
const MOST_IMAGES: u32 = u32::MAX - (1 << 24);
/// Map entries loaded per call.
const LOAD_STEP: u64 = 8192;

/// Groups whose images are read together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Images {
    groups: [u32; READS],
    count: usize,
    /// Next of them to load.
    next: usize,
    /// Whether the other image of that group is read.
    other: bool,
    /// Loaded entries of that group.
    loaded: u64,
}

impl Recovery {
    /// Reads the images of the next groups, and chooses a complete one for each.
    pub(super) fn load_groups<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) -> bool {
        if self.images.next < self.images.count {
            return self.choose_image(area, cx);
        }
        self.images = Images::default();
        let (mut group, groups) = (self.cursor as u32, area.layout.groups);
        let end = (group + SCAN).min(groups);
        while group < end && self.images.count < READS {
            // A group without an image was empty, and is unless an earlier replay changed it.
            if !self.is_empty(area, group) {
                let (index, generation) = (self.images.count, self.least[group as usize]);
                self.images.groups[index] = group;
                self.images.count += 1;
                if generation > 0 {
                    let lba = area.layout.group_at(group, generation);
                    self.read_meta(index as u16, lba, area.layout.pages(), cx);
                }
            }
            group += 1;
        }
        self.cursor = group.into();
        cx.touch(SCAN as usize / 8);
        if group == groups && self.images.count == 0 { self.go(Step::Log) } else { true }
    }

    /// Returns whether a group has no entries.
    pub(super) fn is_empty<T: Table>(&self, area: &Area<T>, group: u32) -> bool {
        self.least[group as usize] == 0 && !area.checkpoint.is_dirty(group)
    }

    /// Takes the image that the root names. A newer one is taken in its place if an interrupted
    /// start has overwritten it: that one shows entries that replay applies again.
    fn choose_image<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) -> bool {
        let Images { next, groups, other, .. } = self.images;
        let group = groups[next];
        let least = self.least[group as usize];
        let generation = match least {
            0 => Some(0),
            _ => self.image_generation(area, group, next, least.wrapping_add(u32::from(other)) % 2),
        };
        match generation.filter(|generation| *generation >= least) {
            Some(generation) => {
                area.checkpoint.set_generation(group, generation);
                self.images.loaded = 0;
                self.advance(Step::Entries)
            }
            None if !other => {
                self.images.other = true;
                let lba = area.layout.group_at(group, least.wrapping_add(1));
                self.read_meta(next as u16, lba, area.layout.pages(), cx);
                true
            }
            // The root was written after an image of this generation became durable.
            None => fail_volume("a map group is damaged", cx),
        }
    }

    /// Reads the images of the next group that the root has without an image and that replay
    /// changed. Their contents are not needed, but the next image must not be older than them.
    pub(super) fn find_generations<T: Table>(
        &mut self,
        area: &mut Area<T>,
        cx: &mut Cx<T::Op>,
    ) -> bool {
        if self.images.count > 0 {
            let group = self.images.groups[0];
            let found = [0, 1].map(|side| self.image_generation(area, group, side as usize, side));
            area.checkpoint.set_generation(group, found[0].max(found[1]).unwrap_or(0));
            self.images = Images::default();
        }
        let (from, groups) = (self.cursor as u32, area.layout.groups);
        let end = (from + SCAN).min(groups);
        let is_new = |group: &u32| self.least[*group as usize] == 0 && !self.is_empty(area, *group);
        let next = (from..end).find(is_new);
        self.cursor = next.map_or(end, |group| group + 1).into();
        cx.touch(SCAN as usize / 8);
        if let Some(group) = next {
            self.images.groups[0] = group;
            self.images.count = 1;
            for side in 0..2u16 {
                let lba = area.layout.group_at(group, side.into());
                self.read_meta(side, lba, area.layout.pages(), cx);
            }
            return true;
        }
        if end == groups { self.go(Step::Counts) } else { true }
    }

    /// Returns the generation of the image in a buffer if it is a complete one of `side`.
    fn image_generation<T: Table>(
        &self,
        area: &Area<T>,
        group: u32,
        buf: usize,
        side: u32,
    ) -> Option<u32> {
        let pages = self.bufs[buf].as_ref().expect("the image was read").pages();
        let lba = area.layout.group_at(group, side);
        let mut generation = None;
        for index in 0..area.layout.pages() {
            let at = lba + u64::from(index * SECTORS_PER_BLOCK);
            let page = parse_map(&pages[index as usize], area.uuid, at).ok()?;
            // Pages of different generations are a torn image.
            let same = generation.is_none_or(|known| known == page.generation);
            let sane = page.generation < MOST_IMAGES;
            if !same
                || !sane
                || page.group != group
                || page.index != index
                || page.generation % 2 != side
            {
                return None;
            }
            generation = Some(page.generation);
        }
        generation.filter(|_| !self.failed[buf])
    }

    /// Loads some pages of an image into the map. Generation 0 is a group without an image.
    pub(super) fn load_some<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) -> bool {
        let group = self.images.groups[self.images.next];
        let first = u64::from(group) * area.layout.group_entries();
        let end = (first + area.layout.group_entries()).min(area.layout.entries()).max(first);
        let from = first + self.images.loaded;
        let stop = (from + LOAD_STEP).min(end);
        let generation = area.checkpoint.generation(group);
        let buf = self.bufs[self.images.next].as_ref().expect("the image was read");
        let (width, entries) = (area.layout.width, area.layout.width.entries());
        for key in from..stop {
            let at = (key - first) as usize;
            let raw = match generation {
                0 => 0,
                _ => map_entry(&buf.pages()[at / entries], width, at % entries),
            };
            area.table.load(key, raw);
        }
        cx.touch((stop - from) as usize);
        self.images.loaded = stop - first;
        if stop < end {
            return true;
        }
        self.images.next += 1;
        self.images.other = false;
        self.advance(Step::Groups)
    }
}
