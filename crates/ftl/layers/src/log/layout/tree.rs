//! Size of the map: a tree of pages, and the counts of valid grains.

use hostftl_format::log::{COUNTS, PAIRS};

use crate::log::map::size::FEW_PAIRS;

/// Size of the map. It only grows while a layout is computed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Number of map pages.
    pub pages: u32,
    /// Maximum sectors of a root.
    room: u32,
    /// Number of directory pages.
    pub directories: u32,
    /// Number of pages with counts of valid grains.
    pub counts: u32,
    /// Map pages that fit in memory.
    pub frames: u32,
    /// Whether map pages have few pairs, so that a small volume has many pages.
    pub few_pairs: bool,
}

impl Tree {
    /// Returns a tree without pages.
    pub(super) fn new(few_pairs: bool) -> Self {
        Tree { few_pairs, ..Tree::default() }
    }

    /// Returns the number of blocks that a map page maps.
    pub fn pairs(&self) -> u64 {
        if self.few_pairs { FEW_PAIRS as u64 } else { PAIRS as u64 }
    }

    /// Returns the number of pages to which a root points: those of the directory, then those of
    /// the counts.
    pub fn tops(&self) -> u32 {
        self.directories + self.counts
    }

    /// Returns the maximum sectors of a root.
    pub fn room(&self) -> u32 {
        self.room
    }

    /// Returns the same tree with roots of at most `room` sectors.
    pub(super) fn with_room(self, room: u32) -> Self {
        Tree { room, ..self }
    }

    /// Grows the tree to at least `pages` pages and counts of `segments` segments. Returns whether
    /// it was large enough.
    pub(super) fn make_room(&mut self, pages: u32, segments: u32) -> bool {
        let counts = segments.div_ceil(COUNTS as u32);
        let had = pages <= self.pages && counts <= self.counts;
        self.pages = self.pages.max(pages);
        self.counts = self.counts.max(counts);
        if !had {
            self.directories = self.pages.div_ceil(PAIRS as u32);
        }
        had
    }
}
