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

/// What a data superpage is at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
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
pub const NONE: u32 = u32::MAX;

/// See the module text.
#[derive(Debug)]
pub struct Pool {
    superpage: u32,
    valid: Vec<u16>,
    weight: Vec<u16>,
    state: Vec<State>,
    pinned: Vec<bool>,
    readers: Vec<u16>,
    /// The next one of the list of victims, or of the [`super::queue`].
    pub next: Vec<u32>,
    /// The one before it.
    pub prev: Vec<u32>,
    heads: Vec<u32>,
    tails: Vec<u32>,
}

/// What a change of the map did to the superpage that lost a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nothing worth telling.
    Some,
    /// A superpage on media holds nothing live any more, and is in limbo now.
    Last(u32),
}

impl Pool {
    /// All superpages free; `weighs` when they weigh another thing than their live slots.
    pub fn new(layout: &Layout, weighs: bool) -> Self {
        let count = layout.count as usize;
        let lists = layout.superpage as usize + 1;
        Pool {
            superpage: layout.superpage,
            valid: vec![0; count],
            weight: vec![0; if weighs { count } else { 0 }],
            state: vec![State::Free; count],
            pinned: vec![false; count],
            readers: vec![0; count],
            next: vec![NONE; count],
            prev: vec![NONE; count],
            heads: vec![NONE; lists],
            tails: vec![NONE; lists],
        }
    }

    /// Bytes of all tables but weights, for `count` superpages of `superpage` sectors.
    pub fn memory(count: u32, superpage: u32) -> u64 {
        let each = 2 * size_of::<u16>() + size_of::<State>() + size_of::<bool>() + 8;
        each as u64 * u64::from(count) + 8 * (u64::from(superpage) + 1)
    }

    /// The superpage of a slot.
    pub fn superpage_of(&self, vsn: u32) -> u32 {
        vsn / self.superpage
    }

    /// Live slots of a superpage.
    pub fn valid(&self, vsp: u32) -> u32 {
        self.valid[vsp as usize].into()
    }

    /// What emptying a superpage costs.
    pub fn weight(&self, vsp: u32) -> u32 {
        self.weight.get(vsp as usize).map_or(self.valid(vsp), |weight| (*weight).into())
    }

    /// What a superpage is.
    pub fn state(&self, vsp: u32) -> State {
        self.state[vsp as usize]
    }

    /// Whether a superpage holds log that recovery may need.
    pub fn pinned(&self, vsp: u32) -> bool {
        self.pinned[vsp as usize]
    }

    fn set_weight(&mut self, vsp: u32, weight: u32) {
        if let Some(at) = self.weight.get_mut(vsp as usize) {
            *at = weight as u16;
        }
    }

    /// A slot of a superpage became live, which weighs `weight` now.
    pub fn gain(&mut self, vsp: u32, weight: u32) {
        assert!(!self.is_candidate(vsp), "only an open superpage gains live slots");
        self.valid[vsp as usize] += 1;
        self.set_weight(vsp, weight);
        assert!(self.valid(vsp) <= self.superpage, "a superpage has more than it holds");
    }

    /// A slot of a superpage is live no more; the superpage weighs `weight` now.
    pub fn lose(&mut self, vsp: u32, weight: u32) -> Lost {
        let listed = self.is_candidate(vsp);
        if listed {
            self.unlink(vsp);
        }
        self.valid[vsp as usize] -= 1;
        self.set_weight(vsp, weight);
        let empty = self.valid(vsp) == 0;
        if listed && !empty {
            self.link(vsp);
        }
        let stuck = self.state(vsp) == State::Stuck && !self.pinned(vsp);
        if (listed || stuck) && empty {
            self.state[vsp as usize] = State::Limbo;
            return Lost::Last(vsp);
        }
        Lost::Some
    }

    /// Forgets the live slots of a superpage, before its log is read again. Returns how many.
    pub fn forget(&mut self, vsp: u32) -> u32 {
        self.set_weight(vsp, 0);
        core::mem::take(&mut self.valid[vsp as usize]).into()
    }

    /// Readies a free superpage for filling in staging buffer `stage`.
    pub fn open(&mut self, vsp: u32, stage: u8) {
        assert_eq!(self.state(vsp), State::Free, "only a free superpage is opened");
        assert_eq!(self.valid(vsp), 0, "a free superpage holds nothing");
        assert_eq!(self.readers[vsp as usize], 0, "a free superpage is not being read");
        self.state[vsp as usize] = State::Staged(stage);
    }

    fn is_candidate(&self, vsp: u32) -> bool {
        self.state(vsp) == State::Full && !self.pinned(vsp)
    }

    /// Changes what a superpage is, and its place in the victim lists with it.
    pub fn become_(&mut self, vsp: u32, state: State, pinned: bool) {
        if self.is_candidate(vsp) {
            self.unlink(vsp);
        }
        self.state[vsp as usize] = state;
        self.pinned[vsp as usize] = pinned;
        if self.is_candidate(vsp) {
            self.link(vsp);
        }
    }

    /// The candidate that weighs least, and less than `below`; the oldest of them.
    pub fn victim(&self, below: u32) -> Option<u32> {
        self.heads[..below as usize].iter().copied().find(|head| *head != NONE)
    }

    fn link(&mut self, vsp: u32) {
        let list = self.weight(vsp) as usize;
        let tail = self.tails[list];
        self.prev[vsp as usize] = tail;
        self.next[vsp as usize] = NONE;
        if tail == NONE {
            self.heads[list] = vsp;
        } else {
            self.next[tail as usize] = vsp;
        }
        self.tails[list] = vsp;
    }

    fn unlink(&mut self, vsp: u32) {
        let list = self.weight(vsp) as usize;
        let (prev, next) = (self.prev[vsp as usize], self.next[vsp as usize]);
        if prev == NONE {
            assert_eq!(self.heads[list], vsp, "a candidate is in the list of its weight");
            self.heads[list] = next;
        } else {
            self.next[prev as usize] = next;
        }
        if next == NONE {
            self.tails[list] = prev;
        } else {
            self.prev[next as usize] = prev;
        }
    }

    /// Pins a superpage while the device reads it.
    pub fn begin_read(&mut self, vsp: u32) {
        self.readers[vsp as usize] += 1;
    }

    /// Ends a read.
    pub fn end_read(&mut self, vsp: u32) {
        self.readers[vsp as usize] -= 1;
    }

    /// Whether the device is reading a superpage.
    pub fn is_read(&self, vsp: u32) -> bool {
        self.readers[vsp as usize] > 0
    }

    /// Compares the tables with each other and with the live slots that the map counts.
    ///
    /// # Errors
    /// The first disagreement.
    pub fn check(&self, valid: &[u16]) -> Result<(), &'static str> {
        if valid != self.valid {
            return Err("a valid count is not the number of live slots");
        }
        for (state, valid) in self.state.iter().zip(&self.valid) {
            if matches!(state, State::Free | State::Limbo | State::Home) && *valid > 0 {
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
                at = self.next[at as usize];
            }
        }
        let candidates = (0..self.valid.len() as u32).filter(|vsp| self.is_candidate(*vsp));
        if candidates.count() != listed {
            return Err("a victim list lost a superpage");
        }
        Ok(())
    }
}
