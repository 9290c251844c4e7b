//! How large the map is: a tree of pages, and the counts of what is live beside it.

use hostftl_format::log::{COUNTS, PAIRS};

use crate::log::map::size::FEW_PAIRS;

/// See the module text. It only grows while a layout is made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tree {
    /// Map pages.
    pub pages: u32,
    /// Sectors that a root may grow to.
    room: u32,
    /// Pages of the directory.
    pub directories: u32,
    /// Pages of the counts of live grains.
    pub counts: u32,
    /// Map pages that memory has room for.
    pub frames: u32,
    /// Whether map pages have few pairs, so that a small volume has many.
    pub few_pairs: bool,
}

impl Tree {
    /// One of no pages, which have few pairs each or not.
    pub(super) fn new(few_pairs: bool) -> Self {
        Tree { few_pairs, ..Tree::default() }
    }

    /// Blocks that a map page maps.
    pub fn pairs(&self) -> u64 {
        if self.few_pairs { FEW_PAIRS as u64 } else { PAIRS as u64 }
    }

    /// Pages to which a root points: those of the directory, then those of the counts.
    pub fn tops(&self) -> u32 {
        self.directories + self.counts
    }

    /// Sectors that a root may grow to.
    pub fn room(&self) -> u32 {
        self.room
    }

    /// The same tree, with roots that may grow to so many sectors.
    pub(super) fn with_room(self, room: u32) -> Self {
        Tree { room, ..self }
    }

    /// Has at least so many pages, and counts of so many segments. Whether it had.
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
