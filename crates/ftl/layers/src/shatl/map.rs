//! Map of the hidden area: the logical sector of each slot, and the slots of each logical superpage
//! (LSP).
//!
//! Invariants
//! - `slots[v] = l + 1` if slot `v` holds sector `l`, with the top bit set if it is unreadable; 0
//!   if the slot is empty. After recovery no two slots hold the same sector.
//! - Every slot that is not empty is in the chain of its LSP exactly once. `heads` and `next`
//!   contain slot + 1.
//! - The weight of a superpage is the number of LSPs with sectors in its slots.
//! - On media the entry of key `v` is `slots[v]`.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::Page;
use hostftl_format::hard::{MAP_ENTRIES, fill_map};

use crate::vsp::Table;
use crate::vsp::layout::Layout;
use crate::vsp::pool::{Lost, Pool};

use super::hidden::HiddenMap;
use super::ops::Op;

/// Bit of an entry whose data cannot be verified. The sector reads as an error until it is
/// rewritten.
pub(super) const LOST: u32 = 1 << 31;
/// Maximum number of sectors that fit beside [`LOST`].
pub(super) const MOST_SECTORS: u64 = LOST as u64 - 1;

#[derive(Debug)]
pub(crate) struct Map {
    superpage: u32,
    lsps: u32,
    slots: Vec<u32>,
    next: Vec<u32>,
    heads: Vec<u32>,
    /// Superpages with unreadable slots.
    lost: Vec<bool>,
    mapped: u64,
}

impl Map {
    /// Returns the slots that hold sectors of an LSP.
    fn chain(&self, lsp: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.heads[lsp as usize];
        core::iter::from_fn(move || {
            let slot = at.checked_sub(1)?;
            at = self.next[slot as usize];
            Some(slot)
        })
    }

    /// Returns whether a superpage holds a sector of `lsp` in a slot that satisfies `other`.
    fn shares(&self, vsp: u32, lsp: u32, other: impl Fn(u32) -> bool) -> bool {
        self.chain(lsp).any(|slot| slot / self.superpage == vsp && other(slot))
    }

    /// Stores a sector in an empty slot.
    fn set(&mut self, slot: u32, lsn: u64) {
        let lsp = self.lsp(lsn) as usize;
        self.slots[slot as usize] = lsn as u32 + 1;
        // A damaged image may name a sector outside the volume; `adopt` reports it.
        if let Some(head) = self.heads.get_mut(lsp) {
            self.next[slot as usize] = core::mem::replace(head, slot + 1);
        }
    }

    /// Empties a slot and removes it from its chain.
    fn clear(&mut self, slot: u32) {
        let Some(lsn) = self.holds(slot) else { return };
        let lsp = self.lsp(lsn) as usize;
        self.slots[slot as usize] = 0;
        let after = self.next[slot as usize];
        let Some(head) = self.heads.get_mut(lsp) else { return };
        if *head == slot + 1 {
            *head = after;
            return;
        }
        let mut before = *head;
        while self.next[before as usize - 1] != slot + 1 {
            before = self.next[before as usize - 1];
        }
        self.next[before as usize - 1] = after;
    }
}

impl HiddenMap for Map {
    const WEIGHS: bool = true;

    fn new(layout: &Layout) -> Self {
        let lsps = (layout.exported / u64::from(layout.superpage)) as u32;
        let slots = layout.entries as usize;
        Map {
            superpage: layout.superpage,
            lsps,
            slots: vec![0; slots],
            next: vec![0; slots],
            heads: vec![0; lsps as usize],
            lost: vec![false; layout.count as usize],
            mapped: 0,
        }
    }

    fn memory(layout: &Layout) -> u64 {
        8 * layout.entries
    }

    fn reverse_memory(layout: &Layout) -> u64 {
        let lsps = layout.exported / u64::from(layout.superpage);
        let weight = size_of::<u16>() as u64;
        4 * lsps + (1 + weight) * u64::from(layout.count)
    }

    fn lsp(&self, lsn: u64) -> u32 {
        (lsn / u64::from(self.superpage)) as u32
    }

    fn lsps(&self) -> u32 {
        self.lsps
    }

    fn hidden(&self, lsp: u32) -> impl Iterator<Item = (u32, u64)> {
        let held = |slot: u32| Some((slot, self.holds(slot)?));
        self.chain(lsp).filter_map(held)
    }

    fn lsps_in(&self, vsp: u32) -> impl Iterator<Item = u32> {
        let slots = vsp * self.superpage..(vsp + 1) * self.superpage;
        slots.filter_map(|slot| Some(self.lsp(self.valid(slot)?)))
    }

    fn holds(&self, slot: u32) -> Option<u64> {
        (self.slots[slot as usize] & !LOST).checked_sub(1).map(u64::from)
    }
}

impl Table for Map {
    type Op = Op;

    fn valid(&self, slot: u32) -> Option<u64> {
        let lost = self.slots[slot as usize] & LOST > 0;
        (!lost).then(|| self.holds(slot)).flatten()
    }

    fn mapped(&self) -> u64 {
        self.mapped
    }

    fn find(&self, lsn: u64) -> Option<u32> {
        self.chain(self.lsp(lsn)).find(|slot| self.holds(*slot) == Some(lsn))
    }

    fn lookup(&self, lsn: u64) -> Option<u32> {
        self.find(lsn).filter(|slot| self.valid(*slot).is_some())
    }

    fn is_lost(&self, lsn: u64) -> bool {
        self.find(lsn).is_some_and(|slot| self.valid(slot).is_none())
    }

    fn point(&mut self, pool: &mut Pool, lsn: u64, vsn: u32) -> Lost {
        let lost = self.kill(pool, lsn);
        assert_eq!(self.holds(vsn), None, "an open slot is empty");
        let vsp = pool.superpage_at(vsn);
        let first = !self.shares(vsp, self.lsp(lsn), |_| true);
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
        let last = !self.shares(vsp, self.lsp(lsn), |_| true);
        pool.lose(vsp, pool.weight(vsp) - u32::from(last))
    }

    fn image(&self, page: &mut Page, key: u64) {
        let end = (key as usize + MAP_ENTRIES).min(self.slots.len());
        fill_map(page, &self.slots[(key as usize).min(end)..end]);
    }

    fn load(&mut self, key: u64, raw: u32) {
        let slot = key as u32;
        self.clear(slot);
        if let Some(lsn) = (raw & !LOST).checked_sub(1) {
            self.set(slot, lsn.into());
            self.slots[slot as usize] |= raw & LOST;
        }
    }

    fn replay(&mut self, lsn: u64, vsn: Option<u32>, mut changed: impl FnMut(u64)) {
        while let Some(old) = self.find(lsn) {
            self.clear(old);
            changed(old.into());
        }
        if let Some(vsn) = vsn {
            self.load(vsn.into(), lsn as u32 + 1);
            changed(vsn.into());
        }
    }

    fn replay_loss(&mut self, lsn: u64, vsn: u32, mut changed: impl FnMut(u64)) {
        self.replay(lsn, None, &mut changed);
        self.load(vsn.into(), (lsn as u32 + 1) | LOST);
        changed(vsn.into());
    }

    fn replay_kill(&mut self, vsn: u32, mut changed: impl FnMut(u64)) {
        self.clear(vsn);
        changed(vsn.into());
    }

    fn adopt(&mut self, pool: &mut Pool, key: u64) -> Result<(), &'static str> {
        let slot = key as u32;
        let Some(lsn) = self.holds(slot) else { return Ok(()) };
        let lsp = self.lsp(lsn);
        if lsp >= self.lsps {
            return Err("the map names a sector outside the volume");
        }
        if self.chain(lsp).any(|other| other != slot && self.holds(other) == Some(lsn)) {
            return Err("the map has a sector in two slots");
        }
        let vsp = pool.superpage_at(slot);
        let first = !self.shares(vsp, lsp, |other| other < slot);
        pool.gain(vsp, pool.weight(vsp) + u32::from(first));
        self.lost[vsp as usize] |= self.slots[slot as usize] & LOST > 0;
        self.mapped += 1;
        Ok(())
    }

    fn disown(&mut self, pool: &mut Pool, vsp: u32) {
        self.lost[vsp as usize] = false;
        self.mapped -= u64::from(pool.forget(vsp));
    }

    fn lose(&mut self, _pool: &mut Pool, vsp: u32, mut changed: impl FnMut(u64)) {
        self.lost[vsp as usize] = true;
        for slot in vsp * self.superpage..(vsp + 1) * self.superpage {
            if self.holds(slot).is_some() {
                self.slots[slot as usize] |= LOST;
                changed(slot.into());
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
            let slots = vsp * self.superpage..(vsp + 1) * self.superpage;
            sectors.extend(slots.filter_map(|slot| self.holds(slot)));
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
