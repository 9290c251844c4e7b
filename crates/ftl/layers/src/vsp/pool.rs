//! State of the virtual superpages: use, number of valid slots, and the order of victims.
//!
//! Invariants
//! - The valid count of a superpage is its number of valid slots. Its weight is the cost of
//!   emptying it, in a unit that the table chooses; without weights of their own, superpages weigh
//!   their valid count. A superpage without valid slots weighs nothing.
//! - A superpage is in the victim lists exactly when it is `Full` and not pinned, in the list of
//!   its weight. Each list is in the order in which its superpages became candidates.

use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use super::free_list::{Free, FreeList};
use super::layout::Layout;
use super::limbo::Limbo;
use super::log::Mark;
use super::queue::Queue;
use super::records::Records;

/// State of a data superpage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Empty and usable.
    Free,
    /// Being filled or programmed, from this staging buffer.
    Staged(u8),
    /// Being programmed with log pages only.
    Log,
    /// On media, with valid data or log pages.
    Full,
    /// Being collected.
    Victim,
    /// Empty, but an older version of the map may still point into it.
    Limbo,
    /// On media and partly unreadable. It is no victim until it has been emptied and freed.
    Stuck,
    /// Returned by the data area; only a home.
    Home,
}

/// End of a list.
pub(crate) const NONE: u32 = u32::MAX;

/// All superpages of the data area.
#[derive(Debug)]
pub(crate) struct Pool {
    superpage: u32,
    weight: Vec<u16>,
    /// State of each superpage. Its links belong to its victim list or to its [`super::queue`].
    records: Records,
    heads: Vec<u32>,
    tails: Vec<u32>,
    free: FreeList,
    /// Superpages from the first to the last one that had valid slots since the start.
    used: Range<u32>,
    limbo: Limbo,
    /// Whether the device accepts discards.
    discards: bool,
    /// Superpages that left limbo and are being discarded.
    discarding: u32,
    /// Superpages with log pages, in the order of their first log writes.
    pins: Queue,
    /// Last log write of each of them.
    last_writes: VecDeque<u64>,
    /// Number of superpages unpinned so far.
    unpinned: u64,
}

/// Effect of an invalidated slot on its superpage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Nothing to act on.
    Some,
    /// A superpage on media has no valid slot left; its state is now limbo.
    Last(u32),
}

impl Pool {
    /// Creates a pool of free superpages. `weighs` gives them weights of their own, and `discards`
    /// is whether the device accepts discards.
    pub(crate) fn new(layout: &Layout, weighs: bool, discards: bool) -> Self {
        let count = layout.count as usize;
        // One list for each weight, from 0 to the number of slots.
        let lists = layout.superpage as usize + 1;
        Pool {
            superpage: layout.superpage,
            weight: vec![0; if weighs { count } else { 0 }],
            records: Records::new(layout.count),
            heads: vec![NONE; lists],
            tails: vec![NONE; lists],
            free: FreeList::new(),
            used: 0..0,
            limbo: Limbo::new(),
            discards,
            discarding: 0,
            pins: Queue::new(),
            last_writes: VecDeque::with_capacity(layout.usual_pins() as usize),
            unpinned: 0,
        }
    }

    /// Returns the bytes of all tables except weights, for `count` superpages of `superpage`
    /// sectors.
    pub(crate) fn memory(count: u32, superpage: u32) -> u64 {
        Records::memory(count) + 8 * (u64::from(superpage) + 1)
    }

    /// Returns the superpage of a slot.
    pub(crate) fn superpage_at(&self, vsn: u64) -> u32 {
        (vsn / u64::from(self.superpage)) as u32
    }

    /// Returns the slots of a superpage.
    pub(crate) fn slots(&self, vsp: u32) -> Range<u64> {
        let superpage = u64::from(self.superpage);
        let first = u64::from(vsp) * superpage;
        first..first + superpage
    }

    /// Returns the number of valid slots of a superpage.
    pub(crate) fn valid(&self, vsp: u32) -> u32 {
        self.records.valid(vsp)
    }

    /// Returns the cost of emptying a superpage.
    pub(crate) fn weight(&self, vsp: u32) -> u32 {
        self.weight.get(vsp as usize).map_or(self.valid(vsp), |weight| (*weight).into())
    }

    /// Returns the state of a superpage.
    pub(crate) fn state(&self, vsp: u32) -> State {
        self.records.state(vsp)
    }

    /// Returns whether a superpage has log pages that recovery may need.
    pub(crate) fn pinned(&self, vsp: u32) -> bool {
        self.records.pinned(vsp)
    }

    fn set_weight(&mut self, vsp: u32, weight: u32) {
        if let Some(at) = self.weight.get_mut(vsp as usize) {
            *at = weight as u16;
        }
    }

    /// Counts a slot that became valid in a superpage, whose weight is now `weight`.
    pub(crate) fn gain(&mut self, vsp: u32, weight: u32) {
        assert!(!self.is_candidate(vsp), "only an open superpage gains live slots");
        self.records.set_valid(vsp, self.valid(vsp) + 1);
        self.set_weight(vsp, weight);
        if !self.used.contains(&vsp) {
            let Range { start, end } = self.used;
            let empty = start == end;
            self.used = if empty { vsp..vsp + 1 } else { start.min(vsp)..end.max(vsp + 1) };
        }
        assert!(self.valid(vsp) <= self.superpage, "a superpage has more valid slots than slots");
    }

    /// Counts a slot that became invalid in a superpage, whose weight is now `weight`.
    pub(crate) fn lose(&mut self, vsp: u32, weight: u32) -> Lost {
        // The list follows from the weight, so the superpage leaves its list before that changes.
        let listed = self.is_candidate(vsp);
        if listed {
            self.unlink(vsp);
        }
        self.records.set_valid(vsp, self.valid(vsp) - 1);
        self.set_weight(vsp, weight);
        let empty = self.valid(vsp) == 0;
        if listed && !empty {
            self.link(vsp);
        }
        // Staged, pinned and victim superpages enter limbo when their program, pin or collection
        // ends.
        let stuck = self.state(vsp) == State::Stuck && !self.pinned(vsp);
        if (listed || stuck) && empty {
            self.records.set_state(vsp, State::Limbo);
            return Lost::Last(vsp);
        }
        Lost::Some
    }

    /// Resets the counts of a superpage before its log is replayed again. Returns the old valid
    /// count.
    pub(crate) fn forget(&mut self, vsp: u32) -> u32 {
        self.set_weight(vsp, 0);
        let valid = self.valid(vsp);
        self.records.set_valid(vsp, 0);
        valid
    }

    /// Opens a free superpage for filling in staging buffer `stage`.
    pub(crate) fn open(&mut self, vsp: u32, stage: u8) {
        assert_eq!(self.state(vsp), State::Free, "only a free superpage is opened");
        assert_eq!(self.valid(vsp), 0, "a free superpage is empty");
        assert_eq!(self.records.readers(vsp), 0, "a free superpage is not being read");
        self.records.set_state(vsp, State::Staged(stage));
    }

    fn is_candidate(&self, vsp: u32) -> bool {
        self.state(vsp) == State::Full && !self.pinned(vsp)
    }

    /// Changes the state of a superpage, and updates the victim lists.
    pub(crate) fn become_(&mut self, vsp: u32, state: State, pinned: bool) {
        // Whether a superpage is in a list follows from its state and its pin, so it is unlinked
        // before they change.
        if self.is_candidate(vsp) {
            self.unlink(vsp);
        }
        self.records.set_state(vsp, state);
        self.records.set_pinned(vsp, pinned);
        if self.is_candidate(vsp) {
            self.link(vsp);
        }
    }

    /// Returns the candidate of the lowest weight below `below`, the oldest if there are several.
    pub(crate) fn victim(&self, below: u32) -> Option<u32> {
        // The heads are the oldest candidates of each weight.
        self.heads[..below as usize].iter().copied().find(|head| *head != NONE)
    }

    fn link(&mut self, vsp: u32) {
        let list = self.weight(vsp) as usize;
        let tail = self.tails[list];
        self.records.set_prev(vsp, tail);
        self.records.set_next(vsp, NONE);
        if tail == NONE {
            self.heads[list] = vsp;
        } else {
            self.records.set_next(tail, vsp);
        }
        self.tails[list] = vsp;
    }

    fn unlink(&mut self, vsp: u32) {
        let list = self.weight(vsp) as usize;
        let (prev, next) = (self.records.prev(vsp), self.records.next(vsp));
        if prev == NONE {
            assert_eq!(self.heads[list], vsp, "a candidate is in the list of its weight");
            self.heads[list] = next;
        } else {
            self.records.set_next(prev, next);
        }
        if next == NONE {
            self.tails[list] = prev;
        } else {
            self.records.set_prev(next, prev);
        }
    }

    /// Returns the number of free superpages.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Iterates over the free superpages in the order in which they are taken.
    pub(crate) fn free_list(&self) -> Free<'_> {
        self.free.iter(&self.records)
    }

    /// Takes the next free superpage.
    pub(crate) fn take_free(&mut self) -> Option<u32> {
        self.free.pop(&mut self.records)
    }

    /// Appends a free superpage to the free queue.
    pub(crate) fn add_free(&mut self, vsp: u32) {
        assert_eq!(self.state(vsp), State::Free, "a superpage in the free queue is free");
        self.free.push(&mut self.records, vsp);
    }

    /// Returns the superpages from the first to the last one that had valid slots since the start.
    pub(crate) fn used(&self) -> Range<u32> {
        self.used.clone()
    }

    /// Appends free superpages that were never opened to the free queue, during a start.
    pub(crate) fn add_fresh(&mut self, fresh: Range<u32>, backwards: bool) {
        self.free.push_range(fresh, backwards);
    }

    /// Turns a free superpage into a home only.
    pub(crate) fn withhold(&mut self, vsp: u32) {
        self.free.remove(&mut self.records, vsp);
        self.become_(vsp, State::Home, false);
    }

    /// Returns the queue of empty superpages that are not free yet.
    pub(crate) fn limbo(&self) -> &Limbo {
        &self.limbo
    }

    /// Queues a superpage that became empty. [`Pool::mark_limbo`] follows in the same step.
    pub(crate) fn push_limbo(&mut self, vsp: u32) {
        self.limbo.push(&mut self.records, vsp);
    }

    /// Assigns `mark` to the superpages that became empty since the last mark; it is later than all
    /// others.
    pub(crate) fn mark_limbo(&mut self, mark: Mark) {
        self.limbo.mark(mark);
    }

    /// Removes the oldest superpage from limbo. Returns whether it must be discarded, in which case
    /// [`Pool::discarded`] follows.
    pub(crate) fn leave_limbo(&mut self) -> bool {
        self.limbo.pop(&mut self.records);
        // It stays in the state `Limbo` until the discard ends, so that it is not filled before.
        self.discarding += u32::from(self.discards);
        self.discards
    }

    /// Returns whether the device accepts discards.
    pub(crate) fn discards(&self) -> bool {
        self.discards
    }

    /// Completes the discard of a superpage.
    pub(crate) fn discarded(&mut self) {
        self.discarding -= 1;
    }

    /// Returns the number of superpages that are being discarded.
    pub(crate) fn discarding(&self) -> u32 {
        self.discarding
    }

    /// Returns the number of superpages with log pages that recovery may need.
    pub(crate) fn pins(&self) -> usize {
        self.pins.len()
    }

    /// Pins a superpage that holds log write `seq`, the newest. Returns its entry in the queue.
    pub(crate) fn pin_last(&mut self, vsp: u32, seq: u64) -> u64 {
        self.pins.push(&mut self.records, vsp);
        self.last_writes.push_back(seq);
        self.unpinned + self.last_writes.len() as u64 - 1
    }

    /// Notes that the pinned superpage of `entry` also holds log write `seq`, the newest.
    pub(crate) fn pin_again(&mut self, entry: u64, seq: u64) {
        self.last_writes[(entry - self.unpinned) as usize] = seq;
    }

    /// Takes the oldest pinned superpage if all of its log writes are before `first`. The caller
    /// sets its new state.
    pub(crate) fn take_pin(&mut self, first: u64) -> Option<u32> {
        self.last_writes.pop_front_if(|seq| *seq < first)?;
        self.unpinned += 1;
        self.pins.pop(&mut self.records)
    }

    /// Pins a superpage while the device reads it.
    pub(crate) fn begin_read(&mut self, vsp: u32) {
        self.records.set_readers(vsp, self.records.readers(vsp) + 1);
    }

    /// Ends a read of a superpage.
    pub(crate) fn end_read(&mut self, vsp: u32) {
        self.records.set_readers(vsp, self.records.readers(vsp) - 1);
    }

    /// Returns whether the device is reading a superpage.
    pub(crate) fn is_read(&self, vsp: u32) -> bool {
        self.records.readers(vsp) > 0
    }

    /// Checks the tables against each other and against `valid`, the valid counts of the map.
    pub(crate) fn check(&self, valid: &[u16]) -> Result<(), &'static str> {
        for (vsp, counted) in (0..).zip(valid) {
            if self.valid(vsp) != u32::from(*counted) {
                return Err("a valid count differs from the number of valid slots");
            }
            let empty = matches!(self.state(vsp), State::Free | State::Limbo | State::Home);
            if empty && *counted > 0 {
                return Err("a free superpage holds valid sectors");
            }
        }
        let mut listed = 0;
        for (list, head) in self.heads.iter().enumerate() {
            let mut at = *head;
            while at != NONE {
                if self.weight(at) as usize != list || !self.is_candidate(at) {
                    return Err("a superpage is in the wrong victim list");
                }
                listed += 1;
                at = self.records.next(at);
            }
        }
        let candidates = self.all().filter(|vsp| self.is_candidate(*vsp));
        if candidates.count() != listed {
            return Err("a victim list misses a superpage");
        }
        Ok(())
    }

    /// Checks that every superpage is in exactly one queue.
    pub(crate) fn check_queues(&self) -> Result<(), &'static str> {
        let states = |wanted: State| self.all().filter(|vsp| self.state(*vsp) == wanted).count();
        if states(State::Free) != self.free.len() {
            return Err("the free queue differs from the free superpages");
        }
        if states(State::Limbo) != self.limbo.len() + self.discarding as usize {
            return Err("the limbo queue differs from the superpages in limbo");
        }
        if self.all().filter(|vsp| self.pinned(*vsp)).count() != self.pins.len() {
            return Err("a superpage with log is not pinned");
        }
        Ok(())
    }

    fn all(&self) -> Range<u32> {
        0..self.records.len()
    }
}
