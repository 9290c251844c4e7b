//! Use of the device's slots: map, pages and journal, and the changes that concern all three.
//!
//! Invariant: a slot that a change replaces is entered in the journal, and remains used until the
//! change is durable.

use super::journal::Journal;
use super::layout::Layout;
use super::map::Map;
use super::pages::{Pages, Rule};
use super::params::Params;
use crate::planted::{Bug, planted};

/// Maximum number of slots released in one step.
const RELEASE_STEP: usize = 1024;

/// Map, pages and journal.
#[derive(Debug)]
pub(super) struct Space {
    per_page: u32,
    /// Whether pages without data are discarded on the device.
    discards: bool,
    map: Map,
    pages: Pages,
    journal: Journal,
}

/// Slots of a page that were taken for a write.
#[derive(Clone, Copy, Debug)]
pub(super) struct Taken {
    /// The page of the slots.
    pub page: u32,
    /// The rule that chose the page.
    pub rule: Rule,
    /// The slots, a bit for each.
    pub mask: u64,
    /// Whether the page had used slots before.
    pub held: bool,
}

impl Space {
    /// Creates the state in which no slot is mapped.
    pub(super) fn new(layout: &Layout, params: &Params) -> Self {
        let slots = layout.count * layout.per_page;
        Space {
            per_page: layout.per_page,
            discards: layout.discards(),
            map: Map::new(layout.slots, slots),
            pages: Pages::new(layout.count, layout.per_page, params),
            journal: Journal::new(slots.into()),
        }
    }

    pub(super) fn map(&self) -> &Map {
        &self.map
    }

    /// Returns the map, for recovery.
    pub(super) fn map_mut(&mut self) -> &mut Map {
        &mut self.map
    }

    pub(super) fn pages(&self) -> &Pages {
        &self.pages
    }

    /// Returns the pages, for recovery and hints.
    pub(super) fn pages_mut(&mut self) -> &mut Pages {
        &mut self.pages
    }

    pub(super) fn journal(&self) -> &Journal {
        &self.journal
    }

    /// Returns the journal, for rounds.
    pub(super) fn journal_mut(&mut self) -> &mut Journal {
        &mut self.journal
    }

    /// Returns the number of logical slots from `logical` on, at most `most`, that are stored
    /// consecutively in one page from slot `start` on, or are all unmapped if `start` is `None`.
    pub(super) fn run_length(&self, logical: u32, most: u32, start: Option<u32>) -> u32 {
        let most = start.map_or(most, |slot| most.min(self.per_page - slot % self.per_page));
        let follows = |i: &u32| self.map.lookup(logical + *i) == start.map(|slot| slot + *i);
        1 + (1..most).take_while(follows).count() as u32
    }

    /// Notes the start of a read of a slot. Returns its page.
    pub(super) fn begin_read(&mut self, slot: u32) -> u32 {
        let page = slot / self.per_page;
        self.pages.begin_read(page);
        page
    }

    /// Notes the end of a read of a page.
    pub(super) fn end_read(&mut self, page: u32) {
        self.pages.end_read(page);
    }

    /// Takes up to `count` slots of the next page to write, or returns `None` if all pages with
    /// room are being written. [`Space::end_write`] must follow.
    pub(super) fn take(&mut self, count: u32) -> Option<Taken> {
        let (page, rule) = self.pages.choose()?;
        let held = self.pages.used(page) != 0;
        let mask = self.pages.take(page, count);
        self.journal.promise(mask.count_ones());
        Some(Taken { page, rule, mask, held })
    }

    /// Ends a write. The slots taken are released if it `failed`; otherwise they hold the logical
    /// slots from `logical` on. `runs` come from [`super::fill::Fill::runs`].
    pub(super) fn end_write(
        &mut self,
        (page, mask): (u32, u64),
        logical: u32,
        runs: impl Iterator<Item = (u32, u32, u32)>,
        failed: bool,
    ) {
        self.journal.keep_promise(mask.count_ones());
        for (first, len, index) in runs.filter(|_| !failed) {
            let slot = page * self.per_page + first;
            for i in 0..len {
                if let Some(old) = self.map.point(logical + index + i, Some(slot + i)) {
                    self.journal.retire(old, false);
                }
            }
            self.journal.publish_write(logical + index, slot, len);
        }
        self.pages.written(page, if failed { mask } else { 0 });
    }

    /// Unmaps `count` logical slots from `logical` on.
    pub(super) fn forget(&mut self, logical: u32, count: u32) {
        let mut any = false;
        for logical in logical..logical + count {
            if let Some(old) = self.map.point(logical, None) {
                self.journal.retire(old, true);
                any = true;
            }
        }
        if any {
            self.journal.publish_trim(logical, count);
        }
    }

    /// Releases slots whose replacement is durable. Returns their number.
    pub(super) fn release(&mut self) -> usize {
        let early = planted(Bug::SlotReusedEarly);
        for released in 0..RELEASE_STEP {
            let Some((slot, trims)) = self.journal.next_retired(early) else { return released };
            if self.pages.is_read(slot / self.per_page) && !planted(Bug::SlotNotPinned) {
                return released;
            }
            self.journal.release_next();
            self.pages.release(slot, trims && self.discards);
        }
        RELEASE_STEP
    }

    /// Checks the tables, while `writing` pages with `taken` slots are being written.
    pub(super) fn check(&self, taken: u64, writing: usize) -> Result<(), &'static str> {
        self.map.check()?;
        let used = self.map.mapped() + self.journal.retiring() as u64 + taken;
        self.pages.check(used, writing)
    }
}
