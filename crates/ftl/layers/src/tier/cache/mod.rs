//! Pages on the fast device: the life cycle of slots, and their state on the media.
//!
//! Invariants
//! - A slot that is newer than the slow device's page is either listed as dirty in the directory,
//!   or its page of the directory differs. Every slot listed as dirty is counted in the ledger.
//! - A slot is freed only if no directory on the medium lists it as dirty.
//! - Entries that a commit adds or removes are covered by the flushes at its start.

mod directory;
mod flushes;
mod ledger;
mod slots;

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{Command, Page, SECTORS_PER_BLOCK};
use hostftl_format::tier::{Entry, Lives, clear_directory, put_entry};

use super::layout::{FAST, Layout, SLOW};
use super::ops::Cx;
use super::params::Params;
use crate::planted::{Bug, planted};
use directory::Directory;
use flushes::Flushes;
use ledger::Ledger;
use slots::Slots;
pub(super) use slots::State;

/// Maximum number of slots that wait for a commit or are being cleaned.
pub(super) const MOST_CLEANED: usize = 128;
/// Number of cleaned slots that justify a commit.
const WORTH: usize = 64;
/// Number of slots examined in the search for an idle one.
const SCAN: usize = 16;

/// The slots of the fast device, and their records on both devices.
#[derive(Debug)]
pub(super) struct Cache {
    layout: Layout,
    slots: Slots,
    directory: Directory,
    ledger: Ledger,
    flushes: Flushes,
    /// Slots that the next commit may free.
    cleaned: Vec<u32>,
    /// Number of slots that should be free.
    wanted: u32,
    /// Whether a commit is in progress.
    is_committing: bool,
}

impl Cache {
    /// Creates an empty cache.
    pub(super) fn new(layout: &Layout, params: &Params, uuid: [u8; 16]) -> Self {
        Cache {
            layout: *layout,
            slots: Slots::new(layout.slots),
            directory: Directory::new(layout, uuid),
            ledger: Ledger::new(layout, uuid),
            flushes: Flushes::new(),
            cleaned: Vec::with_capacity(MOST_CLEANED + 8),
            wanted: (layout.slots * params.free / 100).max(1),
            is_committing: false,
        }
    }

    /// Returns the bytes of the map.
    pub(super) fn map_bytes(layout: &Layout) -> u64 {
        Slots::bytes(layout.slots)
    }

    /// Returns the bytes of directory and ledger.
    pub(super) fn meta_bytes(layout: &Layout) -> u64 {
        Directory::bytes(layout) + Ledger::bytes(layout)
    }

    /// Returns the slot that holds a page.
    #[inline]
    pub(super) fn find(&self, page: u32) -> Option<u32> {
        self.slots.find(page)
    }

    /// Returns the state of a slot.
    #[inline]
    pub(super) fn state(&self, slot: u32) -> State {
        self.slots.get(slot).state()
    }

    /// Returns whether no slot is free.
    #[inline]
    pub(super) fn is_full(&self) -> bool {
        self.slots.free() == 0
    }

    /// Returns whether too few slots are free, given `cleaning` slots that are being cleaned, and
    /// more may be cleaned.
    pub(super) fn is_short(&self, cleaning: usize) -> bool {
        let coming = cleaning + self.cleaned.len();
        (self.slots.free() as usize + coming) < self.wanted as usize && coming < MOST_CLEANED
    }

    /// Returns the flush numbers of the devices.
    pub(super) fn flushes(&mut self) -> &mut Flushes {
        &mut self.flushes
    }

    /// Returns the state of the directory's pages.
    pub(super) fn directory(&mut self) -> &mut Directory {
        &mut self.directory
    }

    /// Returns the ledger.
    pub(super) fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }

    /// Returns the ranges of sectors whose newest data is on a failed device: the fast one, the
    /// slow one.
    pub(super) fn lost_ranges(&self, [fast, slow]: [bool; 2]) -> Vec<(u64, u64)> {
        match (fast, slow) {
            (false, false) => Vec::new(),
            (true, true) => vec![(0, self.layout.exported())],
            _ => self.slots.ranges(self.layout.page, self.layout.pages, slow),
        }
    }

    /// Assigns a free slot to a page.
    pub(super) fn take(&mut self, page: u32, state: State) -> Option<u32> {
        let slot = self.slots.take(page, state)?;
        self.directory.note(slot);
        Some(slot)
    }

    /// Restores a slot that the directory on the medium assigns to a page.
    pub(super) fn restore(&mut self, slot: u32, page: u32, state: State) {
        self.slots.restore(slot, page, state);
        self.set_listed(slot, state == State::Dirty);
    }

    /// Skips an entry of the directory that is not trustworthy after an unclean stop.
    pub(super) fn pass_over(&mut self, slot: u32) {
        // The next clean stop must overwrite the entry.
        self.directory.note(slot);
    }

    /// Rebuilds the list of free slots after the whole directory was read.
    pub(super) fn end_restore(&mut self) {
        self.slots.recount();
    }

    /// Notes the start of a read of a slot.
    pub(super) fn begin_read(&mut self, slot: u32) {
        self.slots.get_mut(slot).readers += 1;
        if self.slots.is_ordered(slot) {
            self.slots.unuse(slot);
            self.slots.use_now(slot);
        }
    }

    /// Notes the end of a read of a slot.
    pub(super) fn end_read(&mut self, slot: u32) {
        let it = self.slots.get_mut(slot);
        assert!(it.readers > 0, "a read completes once");
        it.readers -= 1;
    }

    /// Notes the start of a write of a slot.
    pub(super) fn begin_write(&mut self, slot: u32) {
        self.dirty(slot);
        self.slots.get_mut(slot).writers += 1;
    }

    /// Notes the end of a write of a slot.
    pub(super) fn end_write(&mut self, slot: u32) {
        let it = self.slots.get_mut(slot);
        assert!(it.writers > 0, "a write completes once");
        it.writers -= 1;
    }

    /// Notes that a page was written to its slot. It may not be durable yet.
    pub(super) fn arrived(&mut self, slot: u32, state: State) {
        let epoch = self.flushes.begun(FAST);
        let it = self.slots.get_mut(slot);
        it.go(state);
        it.born = epoch;
        self.slots.use_now(slot);
        match state {
            State::Dirty => self.directory.must(slot),
            _ => self.directory.note(slot),
        }
    }

    /// Frees a slot, for example after its page could not be fetched.
    pub(super) fn release(&mut self, slot: u32) {
        self.slots.release(slot);
        self.directory.note(slot);
    }

    /// Marks a slot as newer than the slow device's page, before it is written.
    pub(super) fn dirty(&mut self, slot: u32) {
        let it = self.slots.get_mut(slot);
        let was = it.state();
        match was {
            State::Dirty | State::Clean => {
                if !core::mem::replace(&mut it.stuck, false) {
                    self.slots.unuse(slot);
                }
            }
            State::Cleaning => return it.touched = true,
            State::Cleaned => {}
            State::Filling | State::Taking | State::Free => unreachable!("the page is not cached"),
        }
        if was != State::Dirty {
            self.slots.get_mut(slot).go(State::Dirty);
            self.directory.must(slot);
        }
        self.slots.use_now(slot);
    }

    /// Returns an idle slot among the least recently used ones.
    pub(super) fn oldest_idle(&self) -> Option<u32> {
        let idle = |&slot: &u32| {
            let it = self.slots.get(slot);
            it.readers == 0 && it.writers == 0 && !it.queued
        };
        self.slots.oldest().take(SCAN).find(idle)
    }

    /// Frees a clean, idle slot.
    pub(super) fn drop_clean(&mut self, slot: u32) {
        assert_eq!(self.state(slot), State::Clean, "a dirty page is not dropped");
        self.slots.unuse(slot);
        self.release(slot);
    }

    /// Starts to clean a dirty slot. Returns its page.
    pub(super) fn begin_cleaning(&mut self, slot: u32) -> u32 {
        self.slots.unuse(slot);
        let it = self.slots.get_mut(slot);
        it.go(State::Cleaning);
        it.touched = false;
        it.page
    }

    /// Returns a slot to `Dirty` after a failed cleaning. `unreadable` excludes it from cleaning
    /// until it is rewritten.
    pub(super) fn stay_dirty(&mut self, slot: u32, unreadable: bool) {
        let it = self.slots.get_mut(slot);
        it.go(State::Dirty);
        it.stuck = unreadable && !it.touched;
        if !it.stuck {
            self.slots.use_now(slot);
        }
    }

    /// Notes that the slow device received a slot's contents.
    pub(super) fn written_back(&mut self, slot: u32) {
        let epoch = self.flushes.begun(SLOW);
        let it = self.slots.get_mut(slot);
        if it.touched && !planted(Bug::CleanOverWrite) {
            it.go(State::Dirty);
            return self.slots.use_now(slot);
        }
        it.go(State::Cleaned);
        it.cleaned = epoch;
        // The flushes of a commit in progress may not cover the copy on the slow device, so that
        // its members would be acknowledged too early if the slot were freed now.
        if (it.listed && !planted(Bug::ReuseListed)) || self.is_committing {
            if !core::mem::replace(&mut it.queued, true) {
                self.cleaned.push(slot);
            }
            return self.directory.must(slot);
        }
        self.set_listed(slot, false);
        self.let_go(slot);
    }

    /// Frees a cleaned slot that no directory lists as dirty. A slot in use becomes clean instead.
    fn let_go(&mut self, slot: u32) {
        if self.slots.get(slot).readers == 0 && self.slots.get(slot).writers == 0 {
            return self.release(slot);
        }
        self.slots.get_mut(slot).go(State::Clean);
        self.slots.use_last(slot);
        self.directory.note(slot);
    }

    /// Notes whether a directory on the medium may list a slot as dirty from now on.
    fn set_listed(&mut self, slot: u32, listed: bool) {
        let it = self.slots.get_mut(slot);
        if core::mem::replace(&mut it.listed, listed) != listed {
            self.ledger.count(it.page, listed);
        }
    }

    /// Returns whether enough slots were cleaned to justify a commit.
    pub(super) fn is_worth_commit(&self) -> bool {
        self.cleaned.len() >= (self.wanted as usize).div_ceil(2).min(WORTH)
    }

    /// Notes the start of a commit.
    pub(super) fn begin_commit(&mut self) {
        assert!(!self.is_committing, "one commit at a time");
        self.is_committing = true;
        self.directory.rewind();
    }

    /// Fills a page of the directory with its new entries. Returns its sector.
    pub(super) fn list(&mut self, page: u32, content: &mut Page) -> u64 {
        assert!(self.is_committing, "the directory changes in a commit");
        clear_directory(content);
        let range = self.layout.page_slots(page);
        let mut left = false;
        for slot in range.clone() {
            let entry = self.list_slot(slot, &mut left);
            put_entry(content, (slot - range.start) as usize, entry, self.layout.pages);
        }
        self.directory.seal(page, content, left)
    }

    /// Returns the new entry of a slot. Sets `left` if a later commit must write the entry again.
    fn list_slot(&mut self, slot: u32, left: &mut bool) -> Entry {
        let [fast, slow] = self.flushes.covered();
        let it = self.slots.get_mut(slot);
        let durable = it.born <= fast || planted(Bug::ListBeforeData);
        let listed = it.listed && !it.dropping;
        match it.state() {
            State::Free | State::Filling | State::Taking => Entry::Nothing,
            State::Clean => Entry::Clean(it.page),
            State::Cleaned if it.cleaned <= slow || planted(Bug::DropUnflushed) => {
                it.dropping = it.listed;
                Entry::Clean(it.page)
            }
            State::Dirty | State::Cleaning | State::Cleaned if listed || durable => {
                *left |= it.state() == State::Cleaned;
                it.dropping = false;
                let page = it.page;
                self.set_listed(slot, true);
                Entry::Dirty(page)
            }
            State::Dirty | State::Cleaning | State::Cleaned => {
                *left = true;
                Entry::Nothing
            }
        }
    }

    /// Returns the program of a ledger that names the dirty regions. With `last` it names no
    /// others.
    pub(super) fn write_ledger(&mut self, last: bool, lives: Lives, cx: &mut Cx) -> Command {
        cx.counters().map_written += u64::from(SECTORS_PER_BLOCK);
        self.ledger.write(last, lives)
    }

    /// Frees idle slots whose entries the completed commit removed.
    pub(super) fn end_commit(&mut self) {
        assert!(self.is_committing, "a commit ends once");
        self.is_committing = false;
        let mut cleaned = core::mem::take(&mut self.cleaned);
        cleaned.retain(|&slot| {
            if core::mem::take(&mut self.slots.get_mut(slot).dropping) {
                self.set_listed(slot, false);
            }
            let it = self.slots.get_mut(slot);
            let (is_cleaned, listed) = (it.state() == State::Cleaned, it.listed);
            it.queued = is_cleaned && listed;
            if is_cleaned && !listed {
                self.let_go(slot);
            }
            is_cleaned && listed
        });
        self.cleaned = cleaned;
    }

    /// Checks every invariant, by examining all slots.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        self.slots.check()?;
        let listed = || {
            let slots = (0..self.slots.count()).map(|slot| self.slots.get(slot));
            slots.filter(|slot| slot.listed)
        };
        let may_be = |state| matches!(state, State::Dirty | State::Cleaning | State::Cleaned);
        if listed().any(|slot| !may_be(slot.state())) {
            return Err("tier: a clean slot is listed as dirty");
        }
        self.ledger.check(listed().map(|slot| slot.page))
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::{DeviceInfo, MetaBuf};
    use hostftl_format::tier::entry;

    use super::*;

    fn cache() -> Cache {
        let devices = [DeviceInfo::block(1 << 12, 8), DeviceInfo::block(1 << 16, 8)];
        let layout = Layout::new(32, &devices).expect("both devices are large enough");
        Cache::new(&layout, &Params::default(), [7; 16])
    }

    /// Runs a commit that writes the only page of the directory. Returns the entry of a slot in it.
    fn commit(cache: &mut Cache, slot: u32, is_flushed: bool) -> Entry {
        let mut buf = MetaBuf::new(1);
        cache.begin_commit();
        for device in [FAST, SLOW] {
            cache.flushes().changed(device);
            cache.flushes().begin(device);
            if is_flushed {
                cache.flushes().cover(device);
            }
        }
        assert_eq!(cache.directory().next(true), Some(0));
        cache.list(0, &mut buf.pages_mut()[0]);
        cache.end_commit();
        entry(&buf.pages()[0], slot as usize, cache.layout.pages)
    }

    #[test]
    fn a_slot_is_listed_after_its_data_and_freed_after_its_entry() {
        let mut cache = cache();
        let slot = cache.take(5, State::Taking).expect("a slot is free");
        cache.arrived(slot, State::Dirty);
        assert_eq!(commit(&mut cache, slot, false), Entry::Nothing, "its data may not be there");
        assert_eq!(commit(&mut cache, slot, true), Entry::Dirty(5));
        assert_eq!(cache.begin_cleaning(slot), 5);
        cache.written_back(slot);
        assert_eq!((cache.find(5), cache.state(slot)), (Some(slot), State::Cleaned));
        assert_eq!(commit(&mut cache, slot, false), Entry::Dirty(5), "the copy may not be there");
        assert_eq!(commit(&mut cache, slot, true), Entry::Clean(5));
        assert_eq!((cache.find(5), cache.check()), (None, Ok(())));
    }

    #[test]
    fn a_page_written_during_cleaning_remains_dirty() {
        let mut cache = cache();
        let slot = cache.take(5, State::Taking).expect("a slot is free");
        cache.arrived(slot, State::Dirty);
        cache.begin_cleaning(slot);
        cache.begin_write(slot);
        cache.written_back(slot);
        assert_eq!((cache.state(slot), cache.check()), (State::Dirty, Ok(())));
    }
}
