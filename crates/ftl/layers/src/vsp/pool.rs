//! The virtual superpages: what each is at the moment, how much of it is live, and which is the
//! cheapest to empty.
//!
//! Invariants
//! - `valid[p]` is the number of live slots of superpage `p`, and `weight[p]` what emptying it
//!   costs, in a unit that the table chooses, where that is another number; a superpage without
//!   live slots weighs nothing.
//! - A superpage is in the victim lists exactly when it is `Full` and not pinned; its list is the
//!   one of its weight; lists are in the order in which superpages became candidates.

use alloc::vec;
use alloc::vec::Vec;

use super::layout::Layout;
use super::limbo::Limbo;
use super::log::Mark;
use super::queue::{Iter, Queue};
use super::records::Records;

/// What a data superpage is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// Empty and usable.
    Free,
    /// Being filled, or on its way to the device: in this staging buffer.
    Staged(u8),
    /// On its way to the device with nothing but log.
    Log,
    /// On media with something live or log in it.
    Full,
    /// The victim that is being collected.
    Victim,
    /// Empty, but an older version of the map may still need it.
    Limbo,
    /// On media, but part of it can't be read: no victim before it is empty and was free.
    Stuck,
    /// It was lent to the data area, and is a home only.
    Home,
}

/// No superpage: the end of a list.
pub(crate) const NONE: u32 = u32::MAX;

#[derive(Debug)]
pub(crate) struct Pool {
    superpage: u32,
    weight: Vec<u16>,
    /// What is known of each; its links are those of its list of victims, or of its
    /// [`super::queue`].
    records: Records,
    heads: Vec<u32>,
    tails: Vec<u32>,
    free: Queue,
    limbo: Limbo,
    /// Whether the device wants to know which are free.
    discards: bool,
    /// Superpages that left limbo, of which the device is being told.
    discarding: u32,
    /// Superpages with log, in the order of their log writes.
    pins: Queue,
}

/// What a change of the map did to the superpage that lost a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// Nothing worth telling.
    Some,
    /// A superpage on media holds nothing live any more, and is in limbo now.
    Last(u32),
}

impl Pool {
    /// All superpages free; `weighs` when they weigh another thing than their live slots, and
    /// `discards` when the device wants to know which are free.
    pub(crate) fn new(layout: &Layout, weighs: bool, discards: bool) -> Self {
        let count = layout.count as usize;
        let lists = layout.superpage as usize + 1;
        Pool {
            superpage: layout.superpage,
            weight: vec![0; if weighs { count } else { 0 }],
            records: Records::new(layout.count),
            heads: vec![NONE; lists],
            tails: vec![NONE; lists],
            free: Queue::new(),
            limbo: Limbo::new(),
            discards,
            discarding: 0,
            pins: Queue::new(),
        }
    }

    /// Bytes of all tables but weights, for `count` superpages of `superpage` sectors.
    pub(crate) fn memory(count: u32, superpage: u32) -> u64 {
        Records::memory(count) + 8 * (u64::from(superpage) + 1)
    }

    /// The superpage of a slot.
    pub(crate) fn superpage_of(&self, vsn: u32) -> u32 {
        vsn / self.superpage
    }

    /// Live slots of a superpage.
    pub(crate) fn valid(&self, vsp: u32) -> u32 {
        self.records.valid(vsp)
    }

    /// What emptying a superpage costs.
    pub(crate) fn weight(&self, vsp: u32) -> u32 {
        self.weight.get(vsp as usize).map_or(self.valid(vsp), |weight| (*weight).into())
    }

    /// What a superpage is.
    pub(crate) fn state(&self, vsp: u32) -> State {
        self.records.state(vsp)
    }

    /// Whether a superpage holds log that recovery may need.
    pub(crate) fn pinned(&self, vsp: u32) -> bool {
        self.records.pinned(vsp)
    }

    fn set_weight(&mut self, vsp: u32, weight: u32) {
        if let Some(at) = self.weight.get_mut(vsp as usize) {
            *at = weight as u16;
        }
    }

    /// A slot of a superpage became live, which weighs `weight` now.
    pub(crate) fn gain(&mut self, vsp: u32, weight: u32) {
        assert!(!self.is_candidate(vsp), "only an open superpage gains live slots");
        self.records.set_valid(vsp, self.valid(vsp) + 1);
        self.set_weight(vsp, weight);
        assert!(self.valid(vsp) <= self.superpage, "a superpage has more than it holds");
    }

    /// A slot of a superpage is live no more; the superpage weighs `weight` now.
    pub(crate) fn lose(&mut self, vsp: u32, weight: u32) -> Lost {
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
        let stuck = self.state(vsp) == State::Stuck && !self.pinned(vsp);
        if (listed || stuck) && empty {
            self.records.set_state(vsp, State::Limbo);
            return Lost::Last(vsp);
        }
        Lost::Some
    }

    /// Forgets the live slots of a superpage, before its log is read again. Returns how many.
    pub(crate) fn forget(&mut self, vsp: u32) -> u32 {
        self.set_weight(vsp, 0);
        let valid = self.valid(vsp);
        self.records.set_valid(vsp, 0);
        valid
    }

    /// Readies a free superpage for filling in staging buffer `stage`.
    pub(crate) fn open(&mut self, vsp: u32, stage: u8) {
        assert_eq!(self.state(vsp), State::Free, "only a free superpage is opened");
        assert_eq!(self.valid(vsp), 0, "a free superpage holds nothing");
        assert_eq!(self.records.readers(vsp), 0, "a free superpage is not being read");
        self.records.set_state(vsp, State::Staged(stage));
    }

    fn is_candidate(&self, vsp: u32) -> bool {
        self.state(vsp) == State::Full && !self.pinned(vsp)
    }

    /// Changes what a superpage is, and its place in the victim lists with it.
    pub(crate) fn become_(&mut self, vsp: u32, state: State, pinned: bool) {
        if self.is_candidate(vsp) {
            self.unlink(vsp);
        }
        self.records.set_state(vsp, state);
        self.records.set_pinned(vsp, pinned);
        if self.is_candidate(vsp) {
            self.link(vsp);
        }
    }

    /// The candidate that weighs least, and less than `below`; the oldest of them.
    pub(crate) fn victim(&self, below: u32) -> Option<u32> {
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

    /// How many are free.
    pub(crate) fn free(&self) -> usize {
        self.free.len()
    }

    /// Those that are free, in the order in which they are taken.
    pub(crate) fn free_list(&self) -> Iter<'_> {
        self.free.iter(&self.records)
    }

    /// Takes the next free one.
    pub(crate) fn take_free(&mut self) -> Option<u32> {
        self.free.pop(&mut self.records)
    }

    /// A superpage may be filled.
    pub(crate) fn add_free(&mut self, vsp: u32) {
        assert_eq!(self.state(vsp), State::Free, "a superpage in the free queue is free");
        self.free.push(&mut self.records, vsp);
    }

    /// A free superpage is a home only.
    pub(crate) fn withhold(&mut self, vsp: u32) {
        self.free.remove(&mut self.records, vsp);
        self.become_(vsp, State::Home, false);
    }

    /// Those that are empty and not free yet.
    pub(crate) fn limbo(&self) -> &Limbo {
        &self.limbo
    }

    /// A superpage became empty; [`Pool::mark_limbo`] follows in the same step.
    pub(crate) fn push_limbo(&mut self, vsp: u32) {
        self.limbo.push(&mut self.records, vsp);
    }

    /// What became empty since the last mark waits for this one, which is later.
    pub(crate) fn mark_limbo(&mut self, mark: Mark) {
        self.limbo.mark(mark);
    }

    /// The oldest in limbo leaves it. Whether the device wants to know of it, in which case
    /// [`Pool::discarded`] follows.
    pub(crate) fn leave_limbo(&mut self) -> bool {
        self.limbo.pop(&mut self.records);
        self.discarding += u32::from(self.discards);
        self.discards
    }

    /// Whether the device wants to know what it holds for nothing.
    pub(crate) fn discards(&self) -> bool {
        self.discards
    }

    /// The device knows of one that left limbo.
    pub(crate) fn discarded(&mut self) {
        self.discarding -= 1;
    }

    /// Superpages of which the device is being told.
    pub(crate) fn discarding(&self) -> u32 {
        self.discarding
    }

    /// How many hold log that recovery may need.
    pub(crate) fn pins(&self) -> usize {
        self.pins.len()
    }

    /// A superpage holds the last log write.
    pub(crate) fn pin_last(&mut self, vsp: u32) {
        self.pins.push(&mut self.records, vsp);
    }

    /// Takes the one with the oldest log write that is needed; what it is then, comes next.
    pub(crate) fn take_pin(&mut self) -> Option<u32> {
        self.pins.pop(&mut self.records)
    }

    /// Pins a superpage while the device reads it.
    pub(crate) fn begin_read(&mut self, vsp: u32) {
        self.records.set_readers(vsp, self.records.readers(vsp) + 1);
    }

    /// Ends a read.
    pub(crate) fn end_read(&mut self, vsp: u32) {
        self.records.set_readers(vsp, self.records.readers(vsp) - 1);
    }

    /// Whether the device is reading a superpage.
    pub(crate) fn is_read(&self, vsp: u32) -> bool {
        self.records.readers(vsp) > 0
    }

    /// Compares the tables with each other and with the live slots that the map counts.
    pub(crate) fn check(&self, valid: &[u16]) -> Result<(), &'static str> {
        for (vsp, counted) in (0..).zip(valid) {
            if self.valid(vsp) != u32::from(*counted) {
                return Err("a valid count is not the number of live slots");
            }
            let empty = matches!(self.state(vsp), State::Free | State::Limbo | State::Home);
            if empty && *counted > 0 {
                return Err("a free superpage holds live sectors");
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
            return Err("a victim list lost a superpage");
        }
        Ok(())
    }

    /// Every superpage is in exactly one place.
    pub(crate) fn check_queues(&self) -> Result<(), &'static str> {
        let states = |wanted: State| self.all().filter(|vsp| self.state(*vsp) == wanted).count();
        if states(State::Free) != self.free.len() {
            return Err("the free queue is not the free superpages");
        }
        if states(State::Limbo) != self.limbo.len() + self.discarding as usize {
            return Err("the limbo queue is not the superpages in limbo");
        }
        if self.all().filter(|vsp| self.pinned(*vsp)).count() != self.pins.len() {
            return Err("a superpage with log is not pinned");
        }
        Ok(())
    }

    fn all(&self) -> core::ops::Range<u32> {
        0..self.records.len()
    }
}
