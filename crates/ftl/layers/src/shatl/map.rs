//! Map of the hidden area: the logical sector of each slot, and the slots of each logical superpage
//! (LSP).
//!
//! Invariants
//! - `slots[v] = l + 1` if slot `v` holds sector `l`, with the top bit set if it is unreadable; 0
//!   if the slot is empty. After recovery no two slots hold the same sector.
//! - Every slot that is not empty is in the chain of its LSP exactly once. Several LSPs share a
//!   chain if there are more LSPs than slots, so that the memory does not grow with the volume.
//!   `heads` and `next` contain slot + 1.
//! - Sectors that were written together are in consecutive slots, and the later slot is earlier in
//!   the chain. Searches try such neighbours first.
//! - The weight of a superpage is the number of LSPs with sectors in its slots.
//! - On media the entry of key `v` is `slots[v]`.

use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;
use core::ops::Range;

use hostftl_core::Page;
use hostftl_format::hard::{Width, fill_map};

use crate::vsp::Table;
use crate::vsp::layout::Layout;
use crate::vsp::leaves::Leaf;
use crate::vsp::numbers::Numbers;
use crate::vsp::pool::{Lost, Pool};

use super::hidden::HiddenMap;
use super::ops::Op;

/// Returns the bit of an entry whose data cannot be verified. The sector reads as an error until it
/// is rewritten.
pub(super) fn lost_bit(width: Width) -> u64 {
    width.most() / 2 + 1
}

/// A range of sectors that are in no slot.
#[derive(Clone, Copy, Debug, Default)]
struct Absent {
    from: u64,
    to: u64,
}

impl Absent {
    fn contains(self, lsn: u64) -> bool {
        (self.from..self.to).contains(&lsn)
    }

    /// Returns a part of the range without `lsn`: the rest of it, or the part before `lsn`.
    fn without(self, lsn: u64) -> Self {
        match self {
            Absent { from, to } if from == lsn => Absent { from: to.min(lsn + 1), to },
            all if all.contains(lsn) => Absent { to: lsn, ..all },
            all => all,
        }
    }
}

#[derive(Debug)]
pub(crate) struct Map {
    superpage: u32,
    lsps: u32,
    width: Width,
    slots: Numbers,
    next: Vec<u32>,
    heads: Vec<u32>,
    /// Result of the last search.
    found: Cell<u64>,
    /// Sectors that the last search found to be in no slot.
    absent: Cell<Absent>,
    /// Superpages with unreadable slots.
    lost: Vec<bool>,
    mapped: u64,
}

impl Map {
    /// Returns the number of chains.
    fn chains(layout: &Layout) -> u64 {
        (layout.exported / u64::from(layout.superpage)).min(layout.entries())
    }

    /// Returns the bit of an unreadable slot.
    fn lost_bit(&self) -> u64 {
        lost_bit(self.width)
    }

    /// Returns the index of the chain of an LSP. `None` is an LSP outside the volume, which a
    /// damaged image may name; `adopt` reports it.
    fn head(&self, lsp: u32) -> Option<usize> {
        (lsp < self.lsps).then(|| lsp as usize % self.heads.len())
    }

    /// Returns the slots in the chain of an LSP.
    fn shared_chain(&self, lsp: u32) -> impl Iterator<Item = u64> + '_ {
        let mut at = self.head(lsp).map_or(0, |head| self.heads[head]);
        core::iter::from_fn(move || {
            let slot = at.checked_sub(1)?;
            at = self.next[slot as usize];
            Some(slot.into())
        })
    }

    /// Returns the slots that hold sectors of an LSP.
    fn chain(&self, lsp: u32) -> impl Iterator<Item = u64> + '_ {
        let is_own = move |slot: &u64| self.holds(*slot).is_some_and(|lsn| self.lsp(lsn) == lsp);
        self.shared_chain(lsp).filter(is_own)
    }

    /// Returns whether a superpage holds a sector of `lsp` in a slot that satisfies `other`.
    fn shares(&self, slots: Range<u64>, lsp: u32, other: impl Fn(u64) -> bool) -> bool {
        let is_own = |slot| self.holds(slot).is_some_and(|lsn| self.lsp(lsn) == lsp);
        self.shared_chain(lsp).any(|slot| slots.contains(&slot) && other(slot) && is_own(slot))
    }

    /// Stores a sector in an empty slot.
    fn set(&mut self, slot: u64, lsn: u64) {
        self.slots.set(slot, lsn + 1);
        self.absent.set(self.absent.get().without(lsn));
        if let Some(head) = self.head(self.lsp(lsn)) {
            let next = core::mem::replace(&mut self.heads[head], slot as u32 + 1);
            self.next[slot as usize] = next;
        }
    }

    /// Empties a slot and removes it from its chain.
    fn clear(&mut self, slot: u64) {
        let Some(lsn) = self.holds(slot) else { return };
        let head = self.head(self.lsp(lsn));
        self.slots.set(slot, 0);
        let after = self.next[slot as usize];
        let Some(head) = head else { return };
        let link = slot as u32 + 1;
        if self.heads[head] == link {
            self.heads[head] = after;
            return;
        }
        let is_before = |slot: u64| self.next[slot as usize] == link;
        let neighbour = Some(slot + 1).filter(|it| self.is_chained(*it) && is_before(*it));
        let before =
            neighbour.or_else(|| self.shared_chain(self.lsp(lsn)).find(|it| is_before(*it)));
        self.next[before.expect("a chained slot has a slot before it") as usize] = after;
    }

    /// Returns whether a slot is in a chain.
    fn is_chained(&self, slot: u64) -> bool {
        let held = (slot < self.slots.len()).then(|| self.holds(slot)).flatten();
        held.is_some_and(|lsn| self.lsp(lsn) < self.lsps)
    }

    /// Counts the entry of a slot.
    fn adopt_slot(&mut self, pool: &mut Pool, slot: u64) -> Result<(), &'static str> {
        let Some(lsn) = self.holds(slot) else { return Ok(()) };
        let lsp = self.lsp(lsn);
        if lsp >= self.lsps {
            return Err("the map names a sector outside the volume");
        }
        if self.chain(lsp).any(|other| other != slot && self.holds(other) == Some(lsn)) {
            return Err("the map has a sector in two slots");
        }
        let vsp = pool.superpage_at(slot);
        let first = !self.shares(pool.slots(vsp), lsp, |other| other < slot);
        pool.gain(vsp, pool.weight(vsp) + u32::from(first));
        self.lost[vsp as usize] |= self.slots.get(slot) & self.lost_bit() > 0;
        self.mapped += 1;
        Ok(())
    }
}

impl HiddenMap for Map {
    const WEIGHS: bool = true;

    fn new(layout: &Layout) -> Self {
        let lsps = (layout.exported / u64::from(layout.superpage)) as u32;
        let slots = layout.entries() as usize;
        Map {
            superpage: layout.superpage,
            lsps,
            width: layout.width,
            slots: Numbers::new(layout.entries(), layout.width),
            next: vec![0; slots],
            heads: vec![0; Self::chains(layout) as usize],
            found: Cell::new(0),
            absent: Cell::new(Absent::default()),
            lost: vec![false; layout.count as usize],
            mapped: 0,
        }
    }

    fn memory(layout: &Layout) -> u64 {
        Numbers::memory(layout.entries(), layout.width) + size_of::<u32>() as u64 * layout.entries()
    }

    fn reverse_memory(layout: &Layout) -> u64 {
        let weight = size_of::<u16>() as u64;
        4 * Self::chains(layout) + (1 + weight) * u64::from(layout.count)
    }

    fn lsp(&self, lsn: u64) -> u32 {
        (lsn / u64::from(self.superpage)) as u32
    }

    fn lsps(&self) -> u32 {
        self.lsps
    }

    fn hidden(&self, lsp: u32) -> impl Iterator<Item = (u64, u64)> {
        let held = |slot: u64| Some((slot, self.holds(slot)?));
        self.chain(lsp).filter_map(held)
    }

    fn lsps_in(&self, vsp: u32) -> impl Iterator<Item = u32> {
        let superpage = u64::from(self.superpage);
        let first = u64::from(vsp) * superpage;
        (first..first + superpage).filter_map(|slot| Some(self.lsp(self.valid(slot)?)))
    }

    fn holds(&self, slot: u64) -> Option<u64> {
        (self.slots.get(slot) & !self.lost_bit()).checked_sub(1)
    }
}

impl Table for Map {
    type Op = Op;

    fn valid(&self, slot: u64) -> Option<u64> {
        let lost = self.slots.get(slot) & self.lost_bit() > 0;
        (!lost).then(|| self.holds(slot)).flatten()
    }

    fn mapped(&self) -> u64 {
        self.mapped
    }

    fn find(&self, lsn: u64) -> Option<u64> {
        if self.absent.get().contains(lsn) {
            return None;
        }
        let near = [self.found.get() + 1, self.found.get()].into_iter();
        let near = near.filter(|slot| self.is_chained(*slot));
        let mut absent =
            Absent { from: lsn, to: (u64::from(self.lsp(lsn)) + 1) * u64::from(self.superpage) };
        for slot in near.chain(self.shared_chain(self.lsp(lsn))) {
            match self.holds(slot) {
                Some(held) if held == lsn => {
                    self.found.set(slot);
                    return Some(slot);
                }
                Some(held) if held > lsn => absent.to = absent.to.min(held),
                _ => {}
            }
        }
        self.absent.set(absent);
        None
    }

    fn lookup(&self, lsn: u64) -> Option<u64> {
        self.find(lsn).filter(|slot| self.valid(*slot).is_some())
    }

    fn is_lost(&self, lsn: u64) -> bool {
        self.find(lsn).is_some_and(|slot| self.valid(slot).is_none())
    }

    fn point(&mut self, pool: &mut Pool, leaf: Leaf) -> Lost {
        let Leaf { lsn, vsn, level } = leaf;
        assert_eq!(level, 0, "sectors are mapped one by one");
        let lost = self.kill(pool, lsn);
        assert_eq!(self.holds(vsn), None, "an open slot is empty");
        let vsp = pool.superpage_at(vsn);
        let first = !self.shares(pool.slots(vsp), self.lsp(lsn), |_| true);
        pool.gain(vsp, pool.weight(vsp) + u32::from(first));
        self.set(vsn, lsn);
        self.mapped += 1;
        lost
    }

    fn kill(&mut self, pool: &mut Pool, lsn: u64) -> Lost {
        let Some(slot) = self.find(lsn) else { return Lost::Some };
        self.clear(slot);
        self.mapped -= 1;
        let vsp = pool.superpage_at(slot);
        let last = !self.shares(pool.slots(vsp), self.lsp(lsn), |_| true);
        pool.lose(vsp, pool.weight(vsp) - u32::from(last))
    }

    fn image(&self, page: &mut Page, key: u64) {
        fill_map(page, self.width, self.slots.from(key));
    }

    fn load(&mut self, slot: u64, raw: u64) {
        self.clear(slot);
        if let Some(lsn) = (raw & !self.lost_bit()).checked_sub(1) {
            self.set(slot, lsn);
            self.slots.set(slot, raw);
        }
    }

    fn replay(&mut self, lsn: u64, vsn: Option<u64>, mut changed: impl FnMut(u64)) {
        while let Some(old) = self.find(lsn) {
            self.clear(old);
            changed(old);
        }
        if let Some(vsn) = vsn {
            self.load(vsn, lsn + 1);
            changed(vsn);
        }
    }

    fn replay_loss(&mut self, lsn: u64, vsn: u64, mut changed: impl FnMut(u64)) {
        self.replay(lsn, None, &mut changed);
        self.load(vsn, (lsn + 1) | self.lost_bit());
        changed(vsn);
    }

    fn replay_kill(&mut self, vsn: u64, mut changed: impl FnMut(u64)) {
        self.clear(vsn);
        changed(vsn);
    }

    fn adopt(&mut self, pool: &mut Pool, mut slots: Range<u64>) -> Result<(), &'static str> {
        slots.try_for_each(|slot| self.adopt_slot(pool, slot))
    }

    fn disown(&mut self, pool: &mut Pool, vsp: u32) {
        self.lost[vsp as usize] = false;
        self.mapped -= u64::from(pool.forget(vsp));
    }

    fn lose(&mut self, pool: &mut Pool, vsp: u32, mut changed: impl FnMut(u64)) {
        self.lost[vsp as usize] = true;
        for slot in pool.slots(vsp) {
            if self.holds(slot).is_some() {
                self.slots.set(slot, self.slots.get(slot) | self.lost_bit());
                changed(slot);
            }
        }
    }

    fn holds_lost(&self, vsp: u32) -> bool {
        self.lost[vsp as usize]
    }

    fn is_readable_again(&mut self, vsp: u32) {
        self.lost[vsp as usize] = false;
    }

    fn check(&self, pool: &Pool) -> Result<(), &'static str> {
        let (mut seen, mut sectors) = (0, Vec::with_capacity(self.superpage as usize));
        for lsp in 0..self.lsps {
            sectors.clear();
            sectors.extend(self.chain(lsp).filter_map(|slot| self.holds(slot)));
            seen += sectors.len() as u64;
            sectors.sort_unstable();
            let stray = sectors.iter().any(|lsn| self.lsp(*lsn) != lsp);
            if stray || sectors.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err("a chain of hidden slots holds a sector twice, or another LSP's");
            }
        }
        let mut valid = Vec::with_capacity(self.lost.len());
        for vsp in 0..self.lost.len() as u32 {
            sectors.clear();
            sectors.extend(pool.slots(vsp).filter_map(|slot| self.holds(slot)));
            valid.push(sectors.len() as u16);
            sectors.iter_mut().for_each(|lsn| *lsn /= u64::from(self.superpage));
            sectors.sort_unstable();
            sectors.dedup();
            if sectors.len() as u32 != pool.weight(vsp) {
                return Err("the weight of a superpage differs from the number of its LSPs");
            }
        }
        let total: u64 = valid.iter().map(|count| u64::from(*count)).sum();
        if seen != self.mapped || total != self.mapped {
            return Err("a hidden slot is in no chain");
        }
        pool.check(&valid)
    }
}
