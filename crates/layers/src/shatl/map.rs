//! The map of the hidden area: which logical sector each slot holds, and for each logical
//! superpage (LSP) the slots that hold its sectors.
//!
//! Slots are counted in units of one sector, or of a block where memory is short: then a unit says
//! which block it holds, and a mask which sectors of it.
//!
//! Invariants
//! - `units[u] = b + 1` when unit `u` holds sectors of unit `b` of the volume, each at its offset,
//!   with a bit when they can't be read, and one when they were copied within the hidden area; 0 is
//!   empty. No two slots hold the same sector once recovery is over.
//! - Every unit that is not empty is once in the chain of its LSP, which may share it with others:
//!   `heads` and `next`, unit + 1.
//! - A superpage weighs as many LSPs as its slots hold sectors of, or, where units are blocks, as
//!   many of these as are not empty; `used` is their sum.
//! - On media the entry of key `v` is the sector that slot `v` holds + 1, with the top bit when it
//!   can't be read.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{Page, SECTORS_PER_BLOCK};
use hostftl_format::hard::{MAP_ENTRIES, fill_map};

use crate::vsp::Table;
use crate::vsp::layout::Layout;
use crate::vsp::pool::{Lost, Pool};

/// The bit of an entry whose content can't be checked: an error until the sector is written.
const LOST: u32 = 1 << 31;
/// The bit of a unit that collection copied, and the host did not write since.
const COPIED: u32 = 1 << 30;
/// The most sectors that the top bit leaves room for.
pub const MOST_SECTORS: u64 = LOST as u64 - 1;

/// See the module text.
#[derive(Debug)]
pub struct Map {
    superpage: u32,
    grain: u32,
    lsps: u32,
    /// The bits of an entry that are the number.
    number: u32,
    units: Vec<u32>,
    /// Which sectors of its block a unit holds; empty when it is one sector.
    masks: Vec<u8>,
    next: Vec<u32>,
    heads: Vec<u32>,
    /// Superpages with slots that can't be read.
    lost: Vec<bool>,
    mapped: u64,
    used: u64,
}

impl Map {
    /// An empty map.
    pub fn new(layout: &Layout) -> Self {
        let units = (layout.entries / u64::from(layout.grain)) as usize;
        Map {
            superpage: layout.superpage,
            grain: layout.grain,
            lsps: (layout.exported / u64::from(layout.superpage)) as u32,
            number: if layout.grain == 1 { !LOST } else { COPIED - 1 },
            units: vec![0; units],
            masks: vec![0; if layout.grain == 1 { 0 } else { units }],
            next: vec![0; units],
            heads: vec![0; Self::chains(layout) as usize],
            lost: vec![false; layout.count as usize],
            mapped: 0,
            used: 0,
        }
    }

    /// How many chains there are: one for each LSP, or fewer where memory is short.
    fn chains(layout: &Layout) -> u64 {
        let lsps = layout.exported / u64::from(layout.superpage);
        let few = layout.entries / u64::from(4 * layout.grain);
        if layout.grain == 1 { lsps } else { lsps.min(few).max(1) }
    }

    /// Bytes of all tables but those of the pool.
    pub fn memory(layout: &Layout) -> u64 {
        let units = layout.entries / u64::from(layout.grain);
        let each = if layout.grain == 1 { 8 } else { 9 };
        each * units + 4 * Self::chains(layout) + u64::from(layout.count)
    }

    /// The LSP of a sector.
    pub fn lsp(&self, lsn: u64) -> u32 {
        (lsn / u64::from(self.superpage)) as u32
    }

    /// How many LSPs there are.
    pub fn lsps(&self) -> u32 {
        self.lsps
    }

    /// Whether no sector of an LSP is in the hidden area.
    pub fn is_home(&self, lsp: u32) -> bool {
        self.units_of(lsp).next().is_none()
    }

    /// The units that hold sectors of an LSP.
    fn units_of(&self, lsp: u32) -> impl Iterator<Item = u32> + '_ {
        let mut at = self.heads[lsp as usize % self.heads.len()];
        let all = core::iter::from_fn(move || {
            let unit = at.checked_sub(1)?;
            at = self.next[unit as usize];
            Some(unit)
        });
        all.filter(move |unit| self.lsp_of(*unit) == lsp)
    }

    fn lsp_of(&self, unit: u32) -> u32 {
        ((self.units[unit as usize] & self.number) - 1) / (self.superpage / self.grain)
    }

    /// The slots that hold sectors of an LSP.
    pub fn chain(&self, lsp: u32) -> impl Iterator<Item = u32> + '_ {
        self.units_of(lsp).flat_map(|unit| self.slots_of(unit))
    }

    fn mask(&self, unit: u32) -> u8 {
        match self.masks.get(unit as usize) {
            Some(mask) => *mask,
            None => u8::from(self.units[unit as usize] != 0),
        }
    }

    fn slots_of(&self, unit: u32) -> impl Iterator<Item = u32> + '_ {
        let mask = self.mask(unit);
        (0..self.grain).filter(move |i| mask >> i & 1 == 1).map(move |i| unit * self.grain + i)
    }

    /// How many sectors of an LSP are in slots that were copied, or are in superpage `vsp`.
    pub fn settled(&self, lsp: u32, vsp: u32) -> u32 {
        let settled = |unit: &u32| {
            let here = unit * self.grain / self.superpage == vsp;
            here || self.units[*unit as usize] & COPIED > 0
        };
        let units = self.units_of(lsp).filter(settled);
        units.map(|unit| self.mask(unit).count_ones()).sum()
    }

    /// Notes that the unit of a slot was copied and not written.
    pub fn note_copied(&mut self, slot: u32) {
        self.units[(slot / self.grain) as usize] |= COPIED;
    }

    /// The sector that a slot holds, readable or not.
    pub fn holds(&self, slot: u32) -> Option<u64> {
        let (unit, i) = ((slot / self.grain) as usize, slot % self.grain);
        let number = (self.units[unit] & self.number).checked_sub(1)?;
        let there = self.mask(unit as u32) >> i & 1 == 1;
        there.then(|| u64::from(number) * u64::from(self.grain) + u64::from(i))
    }

    /// The slot that holds a sector, readable or not.
    pub fn find(&self, lsn: u64) -> Option<u32> {
        let number = (lsn / u64::from(self.grain)) as u32 + 1;
        let i = (lsn % u64::from(self.grain)) as u32;
        let has = |unit: &u32| {
            let raw = self.units[*unit as usize];
            raw & self.number == number && self.mask(*unit) >> i & 1 == 1
        };
        self.units_of(self.lsp(lsn)).find(has).map(|unit| unit * self.grain + i)
    }

    /// Whether a superpage holds a sector of `lsp` in a slot of which `other` is true.
    fn shares(&self, vsp: u32, lsp: u32, other: impl Fn(u32) -> bool) -> bool {
        self.chain(lsp).any(|slot| slot / self.superpage == vsp && other(slot))
    }

    /// Puts a sector into a slot. What the rest of the unit held of another block is forgotten.
    fn set(&mut self, slot: u32, lsn: u64) {
        let (unit, i) = (slot / self.grain, slot % self.grain);
        let number = (lsn / u64::from(self.grain)) as u32 + 1;
        if self.units[unit as usize] & self.number != number {
            self.forget(unit);
            self.units[unit as usize] = number;
            let head = self.lsp(lsn) as usize % self.heads.len();
            self.next[unit as usize] = core::mem::replace(&mut self.heads[head], unit + 1);
        }
        if let Some(mask) = self.masks.get_mut(unit as usize) {
            *mask |= 1 << i;
        }
    }

    /// Empties a slot.
    fn clear(&mut self, slot: u32) {
        let (unit, i) = (slot / self.grain, slot % self.grain);
        if let Some(mask) = self.masks.get_mut(unit as usize) {
            *mask &= !(1 << i);
        }
        if self.masks.get(unit as usize).is_none_or(|mask| *mask == 0) {
            self.forget(unit);
        }
    }

    /// Empties a unit.
    fn forget(&mut self, unit: u32) {
        if self.units[unit as usize] & self.number == 0 {
            return;
        }
        let head = self.lsp_of(unit) as usize % self.heads.len();
        let after = self.next[unit as usize];
        let mut before = self.heads[head];
        if before == unit + 1 {
            self.heads[head] = after;
        } else {
            while self.next[before as usize - 1] != unit + 1 {
                before = self.next[before as usize - 1];
            }
            self.next[before as usize - 1] = after;
        }
        self.units[unit as usize] = 0;
        self.masks.iter_mut().skip(unit as usize).take(1).for_each(|mask| *mask = 0);
    }

    fn is_lost_slot(&self, slot: u32) -> bool {
        self.units[(slot / self.grain) as usize] & LOST > 0
    }

    /// What the map has of a slot on media.
    fn entry(&self, slot: u32) -> u32 {
        let lost = if self.is_lost_slot(slot) { LOST } else { 0 };
        self.holds(slot).map_or(0, |lsn| (lsn as u32 + 1) | lost)
    }

    /// Slots of units that are not empty.
    pub fn used(&self) -> u64 {
        self.used * u64::from(self.grain)
    }

    /// Whether a slot that comes or went makes its superpage weigh more or less: no other of its
    /// LSP, or of its unit, is there.
    fn tips(&self, slot: u32, lsp: u32) -> bool {
        match self.grain {
            1 => !self.shares(slot / self.superpage, lsp, |_| true),
            _ => self.mask(slot / self.grain) == 0,
        }
    }
}

impl Table for Map {
    fn live(&self, slot: u32) -> Option<u64> {
        (!self.is_lost_slot(slot)).then(|| self.holds(slot)).flatten()
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
        assert_eq!(self.holds(vsn), None, "an open slot is empty");
        let vsp = pool.superpage_of(vsn);
        let tips = u32::from(self.tips(vsn, self.lsp(lsn)));
        pool.gain(vsp, pool.weight(vsp) + tips);
        self.used += u64::from(tips);
        self.set(vsn, lsn);
        self.mapped += 1;
        lost
    }

    fn kill(&mut self, pool: &mut Pool, lsn: u64) -> Lost {
        let Some(slot) = self.find(lsn) else { return Lost::Some };
        self.clear(slot);
        self.mapped -= 1;
        let vsp = pool.superpage_of(slot);
        let tips = u32::from(self.tips(slot, self.lsp(lsn)));
        self.used -= u64::from(tips);
        pool.lose(vsp, pool.weight(vsp) - tips)
    }

    fn image(&self, page: &mut Page, key: u64) {
        let end = self.units.len() as u64 * u64::from(self.grain);
        let mut entries = [0; MAP_ENTRIES];
        for (entry, slot) in entries.iter_mut().zip(key..end) {
            *entry = self.entry(slot as u32);
        }
        fill_map(page, &entries);
    }

    fn load(&mut self, key: u64, raw: u32) {
        let slot = key as u32;
        self.clear(slot);
        if let Some(lsn) = (raw & !LOST).checked_sub(1) {
            self.set(slot, lsn.into());
            let unit = &mut self.units[(slot / self.grain) as usize];
            *unit = *unit & !LOST | raw & LOST;
        }
    }

    fn replay(&mut self, lsn: u64, vsn: Option<u32>, mut changed: impl FnMut(u64)) {
        while let Some(old) = self.find(lsn) {
            self.clear(old);
            changed(old.into());
        }
        if let Some(vsn) = vsn {
            self.load(vsn.into(), lsn as u32 + 1);
            let first = vsn - vsn % self.grain;
            (first..first + self.grain).for_each(|slot| changed(slot.into()));
        }
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
            return Err("the map has a sector in two places");
        }
        let vsp = pool.superpage_of(slot);
        let new = match self.grain {
            1 => !self.shares(vsp, lsp, |other| other < slot),
            grain => self.mask(slot / grain).trailing_zeros() == slot % grain,
        };
        pool.gain(vsp, pool.weight(vsp) + u32::from(new));
        self.used += u64::from(new);
        self.lost[vsp as usize] |= self.is_lost_slot(slot);
        self.mapped += 1;
        Ok(())
    }

    fn disown(&mut self, pool: &mut Pool, vsp: u32) {
        self.lost[vsp as usize] = false;
        self.used -= u64::from(pool.weight(vsp));
        self.mapped -= u64::from(pool.forget(vsp));
    }

    fn lose(&mut self, _pool: &mut Pool, vsp: u32, mut changed: impl FnMut(u64)) {
        self.lost[vsp as usize] = true;
        for slot in vsp * self.superpage..(vsp + 1) * self.superpage {
            if self.holds(slot).is_some() {
                self.units[(slot / self.grain) as usize] |= LOST;
                changed(slot.into());
            }
        }
    }

    fn holds_lost(&self, vsp: u32) -> bool {
        self.lost[vsp as usize]
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
        let (mut used, mut valid) = (0, Vec::with_capacity(self.lost.len()));
        for vsp in 0..self.lost.len() as u32 {
            sectors.clear();
            let slots = vsp * self.superpage..(vsp + 1) * self.superpage;
            sectors.extend(slots.filter_map(|slot| self.holds(slot)));
            valid.push(sectors.len() as u16);
            let part = if self.grain == 1 { self.superpage } else { self.grain };
            sectors.iter_mut().for_each(|lsn| *lsn /= u64::from(part));
            sectors.sort_unstable();
            if self.grain == 1 {
                sectors.dedup();
            } else {
                let first = vsp * self.superpage / self.grain;
                let units = first..first + self.superpage / self.grain;
                sectors.truncate(units.filter(|unit| self.mask(*unit) > 0).count());
            }
            used += sectors.len() as u64;
            if sectors.len() as u32 != pool.weight(vsp) {
                return Err("the weight of a superpage is not what emptying it costs");
            }
        }
        let total: u64 = valid.iter().map(|count| u64::from(*count)).sum();
        if seen != self.mapped || total != self.mapped || used != self.used {
            return Err("a hidden slot is in no chain");
        }
        pool.check(&valid)
    }
}

/// Sectors in a unit where memory is short.
pub const COARSE: u32 = SECTORS_PER_BLOCK;
