//! Slots of the fast device: look-up by page, order of use, and free slots.
//!
//! Invariants
//! - A page is in at most one slot, and every slot that is not free is found by its page.
//! - The order of use contains exactly the slots that are `Clean` or `Dirty` and not stuck.
//! - A slot is free only if nothing reads it and no entry on the medium can list it as dirty.

use alloc::vec;
use alloc::vec::Vec;

const NONE: u32 = u32::MAX;

/// The state of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// No page.
    Free,
    /// A page is being read from the slow device.
    Filling,
    /// The host is writing a whole page; the slow device has an older version.
    Taking,
    /// The slow device has the same contents.
    Clean,
    /// Newer than the slow device's page.
    Dirty,
    /// Newer than the slow device's page, and being written back.
    Cleaning,
    /// Written back, but a directory on the medium may list it as dirty.
    Cleaned,
}

/// A slot of the fast device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    /// The page in the slot.
    pub page: u32,
    state: State,
    /// Number of reads in flight.
    pub readers: u16,
    /// Number of writes in flight.
    pub writers: u16,
    /// Whether it was written while it was being written back.
    pub touched: bool,
    /// Whether a directory on the medium may list it as dirty.
    pub listed: bool,
    /// Whether a directory page that no longer lists it is being written.
    pub dropping: bool,
    /// Whether it is in the list of cleaned slots.
    pub queued: bool,
    /// Whether it is unreadable and so cannot be cleaned.
    pub stuck: bool,
    /// Number of the fast device's flush that makes the page durable.
    pub born: u32,
    /// Number of the slow device's flush that makes the copy durable.
    pub cleaned: u32,
    prev: u32,
    next: u32,
    chain: u32,
}

const EMPTY: Slot = Slot {
    page: NONE,
    state: State::Free,
    readers: 0,
    writers: 0,
    touched: false,
    listed: false,
    dropping: false,
    queued: false,
    stuck: false,
    born: 0,
    cleaned: 0,
    prev: NONE,
    next: NONE,
    chain: NONE,
};

impl Slot {
    /// Returns the state.
    #[inline]
    pub(super) fn state(&self) -> State {
        self.state
    }

    /// Changes to the next state.
    ///
    /// # Panics
    /// If the transition is not allowed: contents newer than the slow device's are never dropped,
    /// and become clean only by being written back.
    #[inline]
    pub(super) fn go(&mut self, next: State) {
        let fits = matches!(
            (self.state, next),
            (State::Free, State::Filling | State::Taking | State::Clean | State::Dirty)
                | (State::Filling, State::Clean | State::Free)
                | (State::Taking, State::Dirty)
                | (State::Clean, State::Dirty | State::Free)
                | (State::Dirty, State::Cleaning)
                | (State::Cleaning, State::Dirty | State::Cleaned)
                | (State::Cleaned, State::Dirty | State::Clean | State::Free)
        );
        assert!(fits, "a slot can't go from {:?} to {next:?}", self.state);
        self.state = next;
    }
}

#[derive(Debug)]
pub(super) struct Slots {
    slots: Vec<Slot>,
    /// The first slot of each hash chain of pages.
    heads: Vec<u32>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
}

impl Slots {
    /// Creates `count` free slots.
    pub(super) fn new(count: u32) -> Self {
        Slots {
            slots: vec![EMPTY; count as usize],
            heads: vec![NONE; Self::chains(count)],
            free: (0..count).rev().collect(),
            newest: NONE,
            oldest: NONE,
        }
    }

    fn chains(count: u32) -> usize {
        (count as usize).next_power_of_two()
    }

    /// Returns the bytes of memory for `count` slots.
    pub(super) fn bytes(count: u32) -> u64 {
        (count as usize * (size_of::<Slot>() + 4) + Self::chains(count) * 4) as u64
    }

    /// Returns a slot.
    #[inline]
    pub(super) fn get(&self, slot: u32) -> &Slot {
        &self.slots[slot as usize]
    }

    /// Returns a slot, for changes that do not concern the lists.
    #[inline]
    pub(super) fn get_mut(&mut self, slot: u32) -> &mut Slot {
        &mut self.slots[slot as usize]
    }

    /// Returns the number of slots.
    pub(super) fn count(&self) -> u32 {
        self.slots.len() as u32
    }

    /// Returns the number of free slots.
    #[inline]
    pub(super) fn free(&self) -> u32 {
        self.free.len() as u32
    }

    #[inline]
    fn bucket(&self, page: u32) -> usize {
        let mixed = page.wrapping_mul(0x9e37_79b9);
        (mixed ^ mixed >> 15) as usize & (self.heads.len() - 1)
    }

    /// Returns the slot that holds a page.
    #[inline]
    pub(super) fn find(&self, page: u32) -> Option<u32> {
        let mut at = self.heads[self.bucket(page)];
        while at != NONE {
            let slot = self.get(at);
            if slot.page == page {
                return Some(at);
            }
            at = slot.chain;
        }
        None
    }

    /// Assigns a free slot to a page. The slot is not in the order of use yet.
    pub(super) fn take(&mut self, page: u32, state: State) -> Option<u32> {
        let slot = self.free.pop()?;
        self.hold(slot, page, state);
        Some(slot)
    }

    /// Assigns a given slot to a page while the directory is read, and puts it into the order of
    /// use.
    pub(super) fn restore(&mut self, slot: u32, page: u32, state: State) {
        self.hold(slot, page, state);
        self.use_now(slot);
    }

    /// Rebuilds the list of free slots after [`Slots::restore`].
    pub(super) fn recount(&mut self) {
        let Slots { slots, free, .. } = self;
        free.retain(|&slot| slots[slot as usize].state == State::Free);
    }

    fn hold(&mut self, slot: u32, page: u32, state: State) {
        assert!(self.find(page).is_none(), "a page in two slots");
        let head = self.bucket(page);
        let chain = self.heads[head];
        let it = self.get_mut(slot);
        it.go(state);
        (it.page, it.chain) = (page, chain);
        self.heads[head] = slot;
    }

    /// Frees a slot that is not in the order of use.
    pub(super) fn release(&mut self, slot: u32) {
        let Slot { page, chain, readers, writers, listed, .. } = *self.get(slot);
        assert!(readers == 0 && writers == 0 && !listed, "a free slot has no users");
        self.get_mut(slot).go(State::Free);
        let head = self.bucket(page);
        if self.heads[head] == slot {
            self.heads[head] = chain;
        } else {
            let mut at = self.heads[head];
            while self.get(at).chain != slot {
                at = self.get(at).chain;
            }
            self.slots[at as usize].chain = chain;
        }
        self.slots[slot as usize] = EMPTY;
        self.free.push(slot);
    }

    /// Inserts a slot into the order of use as the most recent.
    #[inline]
    pub(super) fn use_now(&mut self, slot: u32) {
        let newest = core::mem::replace(&mut self.newest, slot);
        (self.get_mut(slot).prev, self.get_mut(slot).next) = (NONE, newest);
        match newest {
            NONE => self.oldest = slot,
            _ => self.get_mut(newest).prev = slot,
        }
    }

    /// Inserts a slot into the order of use as the least recent.
    pub(super) fn use_last(&mut self, slot: u32) {
        let oldest = core::mem::replace(&mut self.oldest, slot);
        (self.get_mut(slot).prev, self.get_mut(slot).next) = (oldest, NONE);
        match oldest {
            NONE => self.newest = slot,
            _ => self.get_mut(oldest).next = slot,
        }
    }

    /// Removes a slot from the order of use.
    #[inline]
    pub(super) fn unuse(&mut self, slot: u32) {
        let Slot { prev, next, .. } = *self.get(slot);
        match prev {
            NONE => self.newest = next,
            _ => self.get_mut(prev).next = next,
        }
        match next {
            NONE => self.oldest = prev,
            _ => self.get_mut(next).prev = prev,
        }
    }

    /// Returns whether a slot is in the order of use.
    #[inline]
    pub(super) fn is_ordered(&self, slot: u32) -> bool {
        let Slot { state, stuck, .. } = *self.get(slot);
        matches!(state, State::Clean | State::Dirty) && !stuck
    }

    /// Returns the slots from the least recently used on.
    pub(super) fn oldest(&self) -> impl Iterator<Item = u32> + '_ {
        let some = |slot: u32| (slot != NONE).then_some(slot);
        core::iter::successors(some(self.oldest), move |&slot| some(self.get(slot).prev))
    }

    /// Returns the ranges of sectors, in order, of pages that are newer here than on the slow
    /// device. With `inverse`, returns the ranges of all of `pages` pages that are not here.
    pub(super) fn ranges(&self, wide: u32, pages: u32, inverse: bool) -> Vec<(u64, u64)> {
        let newer = |state| matches!(state, State::Dirty | State::Cleaning);
        let here = |state| newer(state) || matches!(state, State::Clean | State::Cleaned);
        let wanted = |slot: &&Slot| if inverse { here(slot.state) } else { newer(slot.state) };
        let mut found: Vec<u32> = self.slots.iter().filter(wanted).map(|slot| slot.page).collect();
        found.sort_unstable();
        let wide = u64::from(wide);
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        for page in found.iter().map(|&page| u64::from(page)) {
            match ranges.last_mut() {
                Some((from, length)) if *from + *length == page * wide => *length += wide,
                _ => ranges.push((page * wide, wide)),
            }
        }
        if !inverse {
            return ranges;
        }
        let mut end = 0;
        let last = (u64::from(pages) * wide, 0);
        let gaps = ranges.into_iter().chain([last]).map(|(from, length)| {
            let gap = (end, from - end);
            end = from + length;
            gap
        });
        gaps.filter(|(_, length)| *length > 0).collect()
    }

    /// Checks every invariant, by examining all slots.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let ordered = (0..self.count()).filter(|&slot| self.is_ordered(slot)).count();
        let mut last = NONE;
        let mut seen = 0;
        for slot in self.oldest() {
            if !self.is_ordered(slot) || self.get(slot).next != last || seen > ordered {
                return Err("tier: the LRU list is broken");
            }
            (last, seen) = (slot, seen + 1);
        }
        if seen != ordered || self.newest != last {
            return Err("tier: the LRU list misses a slot");
        }
        let held = |slot: &u32| self.get(*slot).state != State::Free;
        if (0..self.count()).filter(held).any(|slot| self.find(self.get(slot).page) != Some(slot)) {
            return Err("tier: a lookup by page misses a slot");
        }
        if (0..self.count()).filter(held).count() + self.free.len() == self.slots.len() {
            Ok(())
        } else {
            Err("tier: a slot is neither free nor held")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_found_and_evicted_oldest_first() {
        let mut slots = Slots::new(8);
        for page in 0..8 {
            let slot = slots.take(page * 8, State::Filling).unwrap();
            slots.get_mut(slot).go(State::Clean);
            slots.use_now(slot);
            assert_eq!(slots.check(), Ok(()));
        }
        assert_eq!(slots.take(99, State::Filling), None);
        let first = slots.find(0).unwrap();
        assert_eq!(slots.oldest().next(), Some(first));
        slots.unuse(first);
        slots.use_now(first);
        let second = slots.find(8).unwrap();
        assert_eq!(slots.oldest().next(), Some(second));
        slots.unuse(second);
        slots.release(second);
        assert_eq!((slots.find(8), slots.free()), (None, 1));
        slots.get_mut(first).go(State::Dirty);
        let third = slots.find(16).unwrap();
        slots.get_mut(third).go(State::Dirty);
        assert_eq!(slots.ranges(32, 64, false), [(0, 32), (16 * 32, 32)]);
        assert_eq!(slots.ranges(32, 64, true)[0], (32, 15 * 32));
        assert_eq!(slots.ranges(32, 64, true).last(), Some(&(57 * 32, 7 * 32)));
        assert_eq!(slots.check(), Ok(()));
    }

    #[test]
    #[should_panic(expected = "a slot can't go from Dirty to Free")]
    fn dirty_pages_are_not_dropped() {
        let mut slots = Slots::new(1);
        let slot = slots.take(3, State::Taking).expect("a slot is free");
        slots.get_mut(slot).go(State::Dirty);
        slots.release(slot);
    }
}
