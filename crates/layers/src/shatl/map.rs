//! The map of the hidden area: which logical sector each slot holds, and for each logical
//! superpage (LSP) the slots that hold its sectors.
//!
//! Invariants
//! - `slots[v] = l + 1` when slot `v` holds sector `l`, with the top bit when it can't be read; 0
//!   is empty. No two slots hold the same sector once recovery is over.
//! - Every slot that is not empty is once in the chain of its LSP: `heads` and `next`, slot + 1.
//! - A superpage weighs as many LSPs as its slots hold sectors of.
//! - On media the entry of key `v` is `slots[v]`.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::Page;
use hostftl_format::hard::{MAP_ENTRIES, fill_map};

use crate::vsp::Table;
use crate::vsp::direct::Direct;
use crate::vsp::layout::Layout;
use crate::vsp::pool::{Lost, Pool};

/// The bit of a slot whose content can't be checked: an error until the sector is written.
const LOST: u32 = 1 << 31;
/// The most sectors that the top bit leaves room for.
pub const MOST_SECTORS: u64 = LOST as u64 - 1;

/// See the module text.
#[derive(Debug)]
pub struct Map {
    superpage: u32,
    slots: Vec<u32>,
    next: Vec<u32>,
    heads: Vec<u32>,
    /// Superpages with slots that can't be read.
    lost: Vec<bool>,
    mapped: u64,
}

impl Map {
    /// An empty map.
    pub fn new(layout: &Layout) -> Self {
        let slots = layout.entries as usize;
        Map {
            superpage: layout.superpage,
            slots: vec![0; slots],
            next: vec![0; slots],
            heads: vec![0; (layout.exported / u64::from(layout.superpage)) as usize],
            lost: vec![false; layout.count as usize],
            mapped: 0,
        }
    }

    /// Bytes of all tables.
    pub fn memory(layout: &Layout) -> u64 {
        let lsps = layout.exported / u64::from(layout.superpage);
        let pool = Pool::memory(layout.count, layout.superpage);
        8 * layout.entries + 4 * lsps + u64::from(layout.count) + pool + Direct::memory()
    }

    /// The LSP of a sector.
    pub fn lsp(&self, lsn: u64) -> u32 {
        (lsn / u64::from(self.superpage)) as u32
    }

    /// How many LSPs there are.
    pub fn lsps(&self) -> u32 {
        self.heads.len() as u32
    }

    /// Whether no sector of an LSP is in the hidden area.
    pub fn is_home(&self, lsp: u32) -> bool {
        self.heads[lsp as usize] == 0
    }

    /// The slots that hold sectors of an LSP.
    pub fn chain(&self, lsp: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.heads[lsp as usize];
        core::iter::from_fn(move || {
            let slot = at.checked_sub(1)?;
            at = self.next[slot as usize];
            Some(slot)
        })
    }

    /// The sector that a slot holds, readable or not.
    pub fn holds(&self, slot: u32) -> Option<u64> {
        (self.slots[slot as usize] & !LOST).checked_sub(1).map(u64::from)
    }

    /// The slot that holds a sector, readable or not.
    pub fn find(&self, lsn: u64) -> Option<u32> {
        self.chain(self.lsp(lsn)).find(|slot| self.holds(*slot) == Some(lsn))
    }

    /// Whether a superpage holds a sector of `lsp` in a slot of which `other` is true.
    fn shares(&self, vsp: u32, lsp: u32, other: impl Fn(u32) -> bool) -> bool {
        self.chain(lsp).any(|slot| slot / self.superpage == vsp && other(slot))
    }

    /// Whether a slot's entry is one that can be in a chain.
    fn is_linked(&self, slot: u32) -> bool {
        self.holds(slot).is_some_and(|lsn| (self.lsp(lsn) as usize) < self.heads.len())
    }

    fn link(&mut self, slot: u32) {
        if self.is_linked(slot) {
            let lsn = self.holds(slot).expect("a linked slot holds a sector");
            let lsp = self.lsp(lsn) as usize;
            self.next[slot as usize] = core::mem::replace(&mut self.heads[lsp], slot + 1);
        }
    }

    /// Empties a slot.
    fn unlink(&mut self, slot: u32) {
        if self.is_linked(slot) {
            let lsp = self.lsp(self.holds(slot).expect("a linked slot holds a sector"));
            let after = self.next[slot as usize];
            let before =
                self.chain(lsp).find(|slot_before| self.next[*slot_before as usize] == slot + 1);
            match before {
                Some(before) => self.next[before as usize] = after,
                None => self.heads[lsp as usize] = after,
            }
        }
        self.slots[slot as usize] = 0;
    }
}

impl Table for Map {
    fn live(&self, slot: u32) -> Option<u64> {
        (self.slots[slot as usize] & LOST == 0).then(|| self.holds(slot)).flatten()
    }

    fn mapped(&self) -> u64 {
        self.mapped
    }

    fn look_up(&self, lsn: u64) -> Option<u32> {
        self.find(lsn).filter(|slot| self.live(*slot).is_some())
    }

    fn is_lost(&self, lsn: u64) -> bool {
        self.find(lsn).is_some_and(|slot| self.live(slot).is_none())
    }

    fn run(&self, _lsn: u64, sectors: u64) -> (bool, u64) {
        (true, sectors)
    }

    fn keys(&self, lsn: u64, vsn: Option<u32>) -> [u64; 2] {
        let old = self.find(lsn);
        let key = |slot: Option<u32>| u64::from(slot.expect("a sector comes or goes"));
        [key(old.or(vsn)), key(vsn.or(old))]
    }

    fn point(&mut self, pool: &mut Pool, lsn: u64, vsn: u32) -> Lost {
        let lost = self.kill(pool, lsn);
        assert_eq!(self.slots[vsn as usize], 0, "an open slot is empty");
        let vsp = pool.superpage_of(vsn);
        let new = !self.shares(vsp, self.lsp(lsn), |_| true);
        pool.gain(vsp, pool.weight(vsp) + u32::from(new));
        self.slots[vsn as usize] = lsn as u32 + 1;
        self.link(vsn);
        self.mapped += 1;
        lost
    }

    fn kill(&mut self, pool: &mut Pool, lsn: u64) -> Lost {
        let Some(slot) = self.find(lsn) else { return Lost::Some };
        self.unlink(slot);
        self.mapped -= 1;
        let vsp = pool.superpage_of(slot);
        let last = !self.shares(vsp, self.lsp(lsn), |_| true);
        pool.lose(vsp, pool.weight(vsp) - u32::from(last))
    }

    fn image(&self, page: &mut Page, key: u64) {
        let end = (key as usize + MAP_ENTRIES).min(self.slots.len());
        fill_map(page, &self.slots[(key as usize).min(end)..end]);
    }

    fn load(&mut self, key: u64, raw: u32) {
        self.unlink(key as u32);
        self.slots[key as usize] = raw;
        self.link(key as u32);
    }

    fn replay(&mut self, lsn: u64, vsn: Option<u32>, mut changed: impl FnMut(u64)) {
        while let Some(old) = self.find(lsn) {
            self.unlink(old);
            changed(old.into());
        }
        if let Some(vsn) = vsn {
            self.load(vsn.into(), lsn as u32 + 1);
            changed(vsn.into());
        }
    }

    fn replay_kill(&mut self, vsn: u32, mut changed: impl FnMut(u64)) {
        self.unlink(vsn);
        changed(vsn.into());
    }

    fn adopt(&mut self, pool: &mut Pool, key: u64) -> Result<(), &'static str> {
        let slot = key as u32;
        let Some(lsn) = self.holds(slot) else { return Ok(()) };
        if !self.is_linked(slot) {
            return Err("the map names a sector outside the volume");
        }
        let lsp = self.lsp(lsn);
        if self.chain(lsp).any(|other| other != slot && self.holds(other) == Some(lsn)) {
            return Err("the map has a sector in two places");
        }
        let vsp = pool.superpage_of(slot);
        let new = !self.shares(vsp, lsp, |other| other < slot);
        pool.gain(vsp, pool.weight(vsp) + u32::from(new));
        self.lost[vsp as usize] |= self.live(slot).is_none();
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

    fn check(&self, pool: &Pool) -> Result<(), &'static str> {
        let sp = self.superpage as usize;
        let full = |slot: &&u32| **slot != 0;
        let valid: Vec<u16> =
            self.slots.chunks(sp).map(|list| list.iter().filter(full).count() as u16).collect();
        let mut seen = 0;
        let mut sectors = Vec::with_capacity(sp);
        for lsp in 0..self.lsps() {
            sectors.clear();
            sectors.extend(self.chain(lsp).filter_map(|slot| self.holds(slot)));
            seen += sectors.len() as u64;
            sectors.sort_unstable();
            let stray = sectors.iter().any(|lsn| self.lsp(*lsn) != lsp);
            if stray || sectors.windows(2).any(|pair| pair[0] == pair[1]) {
                return Err("a chain of hidden slots holds a sector twice, or another LSP's");
            }
        }
        let total: u64 = valid.iter().map(|count| u64::from(*count)).sum();
        if seen != self.mapped || total != self.mapped {
            return Err("a hidden slot is in no chain");
        }
        for (vsp, list) in (0..).zip(self.slots.chunks(sp)) {
            sectors.clear();
            let held = list.iter().filter(full).map(|raw| u64::from((raw & !LOST) - 1));
            sectors.extend(held.map(|lsn| u64::from(self.lsp(lsn))));
            sectors.sort_unstable();
            sectors.dedup();
            if sectors.len() as u32 != pool.weight(vsp) {
                return Err("the weight of a superpage is not the number of its LSPs");
            }
        }
        pool.check(&valid)
    }
}
