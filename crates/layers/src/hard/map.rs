//! The map in both directions, and which superpages hold how much that is live.
//!
//! Invariants
//! - `to[l] = v + 1` and `back[v] = l + 1` for every live pair; 0 is unmapped, so that fresh zeroed
//!   memory is an empty map. A slot is live exactly when its logical sector points back at it.
//! - In a superpage that is not listed yet, `back[v] = l + 1` also where a later stage has taken
//!   `l` over: the log lists both, so that no log write lacks every version of a sector.
//! - `valid[p]` is the number of live slots of superpage `p`.
//! - A superpage is in the victim lists exactly when it is `Full` and not pinned; its list is the
//!   one of its valid count; lists are in the order in which superpages became candidates.

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
    /// On media, but part of it can't be read: never a victim again.
    Stuck,
}

const NONE: u32 = u32::MAX;
/// The map entry of a sector whose only copy can't be checked: an error until it is written.
const LOST: u32 = u32::MAX;

/// See the module text.
#[derive(Debug)]
pub struct Map {
    superpage: u32,
    to: Vec<u32>,
    back: Vec<u32>,
    valid: Vec<u16>,
    state: Vec<State>,
    pinned: Vec<bool>,
    readers: Vec<u16>,
    next: Vec<u32>,
    prev: Vec<u32>,
    heads: Vec<u32>,
    tails: Vec<u32>,
    mapped: u64,
}

/// What a change of the map did to the superpage that lost a sector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lost {
    /// Nothing worth telling.
    Some,
    /// A full superpage holds nothing live any more, and is in limbo now.
    Last(u32),
}

impl Map {
    /// An empty map.
    pub fn new(layout: &Layout) -> Self {
        let count = layout.count as usize;
        let lists = layout.superpage as usize + 1;
        Map {
            superpage: layout.superpage,
            to: vec![0; layout.exported as usize],
            back: vec![0; count * layout.superpage as usize],
            valid: vec![0; count],
            state: vec![State::Free; count],
            pinned: vec![false; count],
            readers: vec![0; count],
            next: vec![NONE; count],
            prev: vec![NONE; count],
            heads: vec![NONE; lists],
            tails: vec![NONE; lists],
            mapped: 0,
        }
    }

    /// Bytes of all tables.
    pub fn bytes(&self) -> u64 {
        let per_superpage = 2 + 2 + size_of::<State>() + 1 + 4 + 4;
        (4 * (self.to.len() + self.back.len()) + per_superpage * self.valid.len()) as u64
    }

    /// Logical sectors that are mapped.
    pub fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Where a logical sector is.
    pub fn look_up(&self, lsn: u64) -> Option<u32> {
        match self.to[lsn as usize] {
            LOST => None,
            raw => raw.checked_sub(1),
        }
    }

    /// Whether a logical sector is mapped or lost, and for how many of `sectors` that stays so.
    pub fn run(&self, lsn: u64, sectors: u64) -> (bool, u64) {
        let entries = self.raw(lsn, lsn + sectors);
        let mapped = entries[0] != 0;
        let length = entries.iter().take_while(|raw| (**raw != 0) == mapped).count();
        (mapped, length as u64)
    }

    /// Whether a logical sector reads as an error.
    pub fn is_lost(&self, lsn: u64) -> bool {
        self.to[lsn as usize] == LOST
    }

    /// Turns what is live in a superpage into errors and tells each sector.
    pub fn lose(&mut self, vsp: u32, mut changed: impl FnMut(u64)) {
        for vsn in vsp * self.superpage..(vsp + 1) * self.superpage {
            if let Some(lsn) = self.live(vsn) {
                self.kill(lsn);
                self.to[lsn as usize] = LOST;
                changed(lsn);
            }
        }
    }

    /// The logical sector that is live in a slot.
    pub fn live(&self, vsn: u32) -> Option<u64> {
        let lsn = self.back[vsn as usize].checked_sub(1)?;
        (self.to[lsn as usize] == vsn + 1).then_some(lsn.into())
    }

    /// The logical sector that a slot was written for, live or not.
    pub fn was(&self, vsn: u32) -> Option<u64> {
        self.back[vsn as usize].checked_sub(1).map(u64::from)
    }

    /// Where the sector of a slot is now, when the slot was not forgotten.
    pub fn heir(&self, vsn: u32) -> Option<(u64, u32)> {
        let lsn = self.was(vsn)?;
        Some((lsn, self.look_up(lsn)?))
    }

    /// Forgets that a slot ever had a sector.
    pub fn forget(&mut self, vsn: u32) {
        self.back[vsn as usize] = 0;
    }

    /// Forgets the sectors `lsn..end` in the slots `from..to`.
    pub fn forget_range(&mut self, from: u32, to: u32, lsn: u64, end: u64) {
        for back in &mut self.back[from as usize..to as usize] {
            if (lsn + 1..=end).contains(&u64::from(*back)) {
                *back = 0;
            }
        }
    }

    /// The superpage of a slot.
    pub fn superpage_of(&self, vsn: u32) -> u32 {
        vsn / self.superpage
    }

    /// Live slots of a superpage.
    pub fn valid(&self, vsp: u32) -> u32 {
        self.valid[vsp as usize].into()
    }

    /// What a superpage is.
    pub fn state(&self, vsp: u32) -> State {
        self.state[vsp as usize]
    }

    /// Whether a superpage holds log that recovery may need.
    pub fn pinned(&self, vsp: u32) -> bool {
        self.pinned[vsp as usize]
    }

    /// Map entry of a logical sector as it stands on media.
    pub fn raw(&self, from: u64, to: u64) -> &[u32] {
        let end = (to as usize).min(self.to.len());
        &self.to[(from as usize).min(end)..end]
    }

    /// Puts an entry in without counting; [`Map::adopt`] counts later.
    pub fn load(&mut self, lsn: u64, raw: u32) {
        self.to[lsn as usize] = raw;
    }

    /// Counts a loaded entry.
    ///
    /// # Errors
    /// When it points outside the data area or at a slot that another sector has.
    pub fn adopt(&mut self, lsn: u64) -> Result<(), &'static str> {
        let Some(vsn) = self.look_up(lsn) else { return Ok(()) };
        let slot = self.back.get_mut(vsn as usize).ok_or("the map points outside the data area")?;
        if *slot != 0 {
            return Err("the map has two sectors in one place");
        }
        *slot = lsn as u32 + 1;
        self.valid[(vsn / self.superpage) as usize] += 1;
        self.mapped += 1;
        Ok(())
    }

    /// Forgets what adopting did to superpage `vsp`.
    pub fn disown(&mut self, vsp: u32) {
        let from = vsp as usize * self.superpage as usize;
        self.back[from..from + self.superpage as usize].fill(0);
        self.mapped -= u64::from(self.valid[vsp as usize]);
        self.valid[vsp as usize] = 0;
    }

    /// Points `lsn` at `vsn`.
    pub fn publish(&mut self, lsn: u64, vsn: u32) -> Lost {
        let lost = self.kill(lsn);
        self.to[lsn as usize] = vsn + 1;
        self.back[vsn as usize] = lsn as u32 + 1;
        let vsp = self.superpage_of(vsn) as usize;
        self.valid[vsp] += 1;
        self.mapped += 1;
        assert!(self.valid[vsp] as u32 <= self.superpage, "a superpage has more than it holds");
        lost
    }

    /// Unmaps `lsn`.
    pub fn kill(&mut self, lsn: u64) -> Lost {
        let vsn = self.look_up(lsn);
        self.to[lsn as usize] = 0;
        let Some(vsn) = vsn else { return Lost::Some };
        self.mapped -= 1;
        let vsp = self.superpage_of(vsn);
        let listed = self.is_candidate(vsp);
        if listed {
            self.unlink(vsp);
        }
        self.valid[vsp as usize] -= 1;
        let empty = self.valid[vsp as usize] == 0;
        if listed && !empty {
            self.link(vsp);
        }
        if listed && empty {
            self.state[vsp as usize] = State::Limbo;
            return Lost::Last(vsp);
        }
        Lost::Some
    }

    /// Readies a free superpage for filling in staging buffer `stage`.
    pub fn open(&mut self, vsp: u32, stage: u8) {
        assert_eq!(self.state(vsp), State::Free, "only a free superpage is opened");
        assert_eq!(self.valid(vsp), 0, "a free superpage holds nothing");
        assert_eq!(self.readers[vsp as usize], 0, "a free superpage is not being read");
        let from = vsp as usize * self.superpage as usize;
        self.back[from..from + self.superpage as usize].fill(0);
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

    /// The candidate with the fewest live slots, oldest first; none when all are full to the brim.
    pub fn victim(&self) -> Option<u32> {
        let fullest = self.superpage as usize;
        self.heads[..fullest].iter().copied().find(|head| *head != NONE)
    }

    fn link(&mut self, vsp: u32) {
        let list = self.valid[vsp as usize] as usize;
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
        let list = self.valid[vsp as usize] as usize;
        let (prev, next) = (self.prev[vsp as usize], self.next[vsp as usize]);
        if prev == NONE {
            assert_eq!(self.heads[list], vsp, "a candidate is in the list of its count");
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

    /// Compares every table with every other.
    ///
    /// # Errors
    /// The first disagreement.
    pub fn check(&self) -> Result<(), &'static str> {
        let mut valid = vec![0u16; self.valid.len()];
        let mut mapped = 0;
        for (lsn, raw) in self.to.iter().enumerate().filter(|(_, raw)| ![0, LOST].contains(*raw)) {
            if self.back[*raw as usize - 1] != lsn as u32 + 1 {
                return Err("hard: a sector points at a slot that does not point back");
            }
            valid[((raw - 1) / self.superpage) as usize] += 1;
            mapped += 1;
        }
        if valid != self.valid || mapped != self.mapped {
            return Err("hard: a valid count is not the number of live slots");
        }
        for (state, valid) in self.state.iter().zip(&self.valid) {
            if matches!(state, State::Free | State::Limbo) && *valid > 0 {
                return Err("hard: a free superpage holds live sectors");
            }
        }
        self.check_lists()
    }

    fn check_lists(&self) -> Result<(), &'static str> {
        let mut listed = 0;
        for (list, head) in self.heads.iter().enumerate() {
            let mut at = *head;
            while at != NONE {
                if self.valid[at as usize] as usize != list || !self.is_candidate(at) {
                    return Err("hard: a superpage is in the wrong victim list");
                }
                listed += 1;
                at = self.next[at as usize];
            }
        }
        let candidates = (0..self.valid.len() as u32).filter(|vsp| self.is_candidate(*vsp));
        if candidates.count() != listed {
            return Err("hard: a victim list lost a superpage");
        }
        Ok(())
    }
}
