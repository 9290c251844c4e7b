//! Compact map of a large hidden area: runs of sectors, as in `mhatl`.
//!
//! Memory grows with valid data and not with slots. The area can be many times as large as its map
//! can fill, so that GC finds superpages with almost no valid data. The front part of the area is
//! lent: it consists of homes that no host has written yet ([`super::lend`]).
//!
//! Invariants
//! - A sector is in at most one run; a run is in slots of one superpage.
//! - Valid slots of a superpage with its bit set in `lost` are unreadable.
//! - During recovery there may be more leaves than planned. Images of different ages may show a
//!   sector in two slots; the last one loaded counts, and replay decides.
//! - On media the entry of key `v` is as in [`super::map`], or all ones for every slot of a
//!   superpage that was lent and is only a home now.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use hostftl_core::{ArrayVec, Page};
use hostftl_format::hard::{Width, fill_map};

use crate::vsp::Table;
use crate::vsp::layout::Layout;
use crate::vsp::leaves::{Leaf, Leaves, Size};
use crate::vsp::pool::{Lost, Pool};

use super::hidden::HiddenMap;
use super::homes::Homes;
use super::lend;
use super::map::lost_bit;
use super::ops::Op;

/// Share of the leaves, in 32nds, beyond which LSPs go home.
const WANTED: u64 = 31;
/// Share of the slots, in thousandths, beyond which LSPs go home.
const FULL: u64 = 780;
/// Divisor of the area's superpages beyond the valid data: log may pin this share.
const PINS_SHARE: u32 = 3;
/// Maximum age of a run, in ticks.
const OLDEST: u16 = 1 << 14;

/// The map of the hidden area of `hatl-auto`.
#[derive(Debug)]
pub(crate) struct Overlay {
    superpage: u32,
    lsps: u32,
    width: Width,
    leaves: Leaves,
    capacity: u32,
    /// A bit for each superpage that is unreadable.
    lost: Vec<u8>,
    /// Tick of the last write into each superpage.
    touched: Vec<u16>,
    /// Number of sectors stored so far.
    clock: u64,
    /// Whether an image names a sector outside the volume.
    damaged: bool,
    mapped: u64,
    loans: lend::Loans,
    homes: Homes,
}

impl Overlay {
    /// Returns the number of ticks since the last write into the superpage of a slot.
    fn age(&self, vsn: u64) -> u16 {
        let tick = u64::from(self.capacity / 4).max(1);
        let now = (self.clock / tick) as u16;
        now.wrapping_sub(self.touched[self.vsp(vsn) as usize]).min(OLDEST)
    }

    /// Returns whether the valid slots of a superpage are unreadable.
    fn is_unreadable(&self, vsp: u32) -> bool {
        self.lost[vsp as usize / 8] >> (vsp % 8) & 1 == 1
    }

    fn set_unreadable(&mut self, vsp: u32, lost: bool) {
        let byte = &mut self.lost[vsp as usize / 8];
        *byte = *byte & !(1 << (vsp % 8)) | u8::from(lost) << (vsp % 8);
    }

    /// Returns the number of superpages of the hidden area.
    fn vsps(&self) -> u32 {
        self.touched.len() as u32
    }

    /// Returns the size of the leaves and of the lists that index them.
    pub(crate) fn size(layout: &Layout, capacity: u32) -> Size {
        let lsps = (layout.exported / u64::from(layout.superpage)) as u32;
        let lists = (capacity / 4).clamp(1, lsps);
        let superpage = layout.superpage;
        Size { superpage, capacity, lsps, lists, vsps: layout.count, low: false }
    }

    /// Returns the bytes of the leaves and of the lists that index them.
    pub(crate) fn leaf_memory(layout: &Layout) -> u64 {
        Self::size(layout, layout.leaves).leaf_memory()
    }

    /// Returns whether the free leaves may not suffice for the copies in progress. One copy can
    /// split a run at each level of the buddy tree.
    fn is_tight(&self, placing: u32) -> bool {
        let each = 4 * (self.superpage.ilog2() + 1);
        self.leaves.count() + each * (placing + 4) > self.capacity
    }

    /// Removes a sector during recovery. Returns its slot.
    fn remove(&mut self, lsn: u64) -> Option<u64> {
        self.leaves.stretch();
        let old = self.leaves.clear(lsn);
        self.leaves.stretch();
        old
    }

    /// Unmaps 2^`level` sectors, all in one leaf or unmapped.
    fn kill_run(&mut self, pool: &mut Pool, lsn: u64, level: u8) -> Lost {
        let Some(slot) = self.leaves.clear_run(lsn, level) else { return Lost::Some };
        self.mapped -= 1 << level;
        let vsp = self.vsp(slot);
        let lose = |_| pool.lose(vsp, pool.valid(vsp) - 1);
        (0..1 << level).map(lose).last().expect("a run has sectors")
    }

    fn vsp(&self, slot: u64) -> u32 {
        (slot / u64::from(self.superpage)) as u32
    }
}

impl HiddenMap for Overlay {
    const WEIGHS: bool = false;

    fn new(layout: &Layout) -> Self {
        let size = Self::size(layout, layout.leaves);
        Overlay {
            superpage: layout.superpage,
            lsps: size.lsps,
            width: layout.width,
            leaves: Leaves::new(size),
            capacity: layout.leaves,
            lost: vec![0; layout.count.div_ceil(8) as usize],
            touched: vec![0; layout.count as usize],
            clock: 0,
            damaged: false,
            mapped: 0,
            loans: lend::Loans::new(layout),
            homes: Homes::new(layout),
        }
    }

    fn memory(layout: &Layout) -> u64 {
        Self::size(layout, layout.leaves).memory()
    }

    fn reverse_memory(layout: &Layout) -> u64 {
        let count = u64::from(layout.count);
        count.div_ceil(8) + size_of::<u16>() as u64 * count
    }

    fn lsp(&self, lsn: u64) -> u32 {
        (lsn / u64::from(self.superpage)) as u32
    }

    fn lsps(&self) -> u32 {
        self.lsps
    }

    fn hidden(&self, lsp: u32) -> impl Iterator<Item = (u64, u64)> {
        let leaves = self.leaves.in_lsp(lsp);
        leaves.flat_map(|leaf| leaf.slots().zip(leaf.lsn..))
    }

    fn lsps_in(&self, vsp: u32) -> impl Iterator<Item = u32> {
        let readable = !self.is_unreadable(vsp);
        let leaves = self.leaves.in_superpage(vsp).filter(move |_| readable);
        leaves.map(|leaf| self.lsp(leaf.lsn))
    }

    fn holds(&self, slot: u64) -> Option<u64> {
        let mut leaves = self.leaves.in_superpage(self.vsp(slot));
        let leaf = leaves.find(|leaf| leaf.slots().contains(&slot))?;
        Some(leaf.lsn + (slot - leaf.vsn))
    }

    fn away(&self) -> u32 {
        self.leaves.touched()
    }

    fn admits(&self, placing: u32) -> bool {
        !self.is_tight(placing)
    }

    fn copies(&self) -> bool {
        true
    }

    fn is_full(&self, slots: u64) -> bool {
        // LSPs must go home before the map is tight with nothing in progress: otherwise a write
        // waits and nothing frees leaves.
        let (count, capacity) = (u64::from(self.leaves.count()), u64::from(self.capacity));
        let many = 32 * count > WANTED * capacity || self.is_tight(4);
        many || self.mapped * 1000 > FULL * slots
    }

    fn worth(&self, lsp: u32) -> u32 {
        self.leaves.in_lsp(lsp).map(|leaf| 1 + u32::from(self.age(leaf.vsn))).sum()
    }

    fn facts(&self) -> ArrayVec<(&'static str, u64), 8> {
        ArrayVec::from_iter([
            ("leaves", self.leaves.count().into()),
            ("leaf_cap", self.capacity.into()),
            ("hidden_sectors", self.mapped),
            ("hidden_superpages", (self.vsps() - self.loans.withdrawn()).into()),
        ])
    }

    fn loans(&mut self) -> Option<&mut lend::Loans> {
        Some(&mut self.loans)
    }

    fn homes(&mut self) -> Option<&mut Homes> {
        Some(&mut self.homes)
    }

    fn lose_superpage(&mut self, vsp: u32) {
        self.set_unreadable(vsp, true);
    }
}

impl Table for Overlay {
    type Op = Op;

    fn mapped(&self) -> u64 {
        self.mapped
    }

    fn valid(&self, slot: u64) -> Option<u64> {
        let readable = !self.is_unreadable(self.vsp(slot));
        readable.then(|| self.holds(slot)).flatten()
    }

    fn find(&self, lsn: u64) -> Option<u64> {
        self.leaves.find(lsn).map(|leaf| leaf.at(lsn))
    }

    fn lookup(&self, lsn: u64) -> Option<u64> {
        self.find(lsn).filter(|slot| !self.is_unreadable(self.vsp(*slot)))
    }

    fn is_lost(&self, lsn: u64) -> bool {
        self.find(lsn).is_some_and(|slot| self.is_unreadable(self.vsp(slot)))
    }

    fn level(&self, lsn: u64, sectors: u32) -> u8 {
        self.leaves.level(lsn, sectors)
    }

    fn point(&mut self, pool: &mut Pool, leaf: Leaf) -> Lost {
        let lost = self.kill_run(pool, leaf.lsn, leaf.level);
        let (vsp, sectors) = (self.vsp(leaf.vsn), u64::from(leaf.len()));
        self.leaves.set_run(leaf);
        for _ in 0..sectors {
            pool.gain(vsp, pool.valid(vsp) + 1);
        }
        self.mapped += sectors;
        self.clock += sectors;
        self.homes.hide(sectors);
        let tick = u64::from(self.capacity / 4).max(1);
        self.touched[vsp as usize] = (self.clock / tick) as u16;
        lost
    }

    fn kill(&mut self, pool: &mut Pool, lsn: u64) -> Lost {
        self.kill_run(pool, lsn, 0)
    }

    fn image(&self, page: &mut Page, key: u64) {
        let (sp, width) = (u64::from(self.superpage), self.width);
        let end = (u64::from(self.vsps()) * sp).min(key + width.entries() as u64);
        let mut entries = [0; Width::Narrow.entries()];
        for vsp in (key / sp) as u32..end.div_ceil(sp) as u32 {
            let slots = u64::from(vsp) * sp..u64::from(vsp + 1) * sp;
            let here = |slot: &u64| (key..end).contains(slot);
            if self.loans.is_over(vsp) {
                slots.filter(here).for_each(|slot| entries[(slot - key) as usize] = width.most());
                continue;
            }
            let lost = if self.is_unreadable(vsp) { lost_bit(width) } else { 0 };
            for leaf in self.leaves.in_superpage(vsp) {
                for (slot, lsn) in leaf.slots().zip(leaf.lsn..).filter(|(slot, _)| here(slot)) {
                    entries[(slot - key) as usize] = (lsn + 1) | lost;
                }
            }
        }
        fill_map(page, width, entries.into_iter());
    }

    fn load(&mut self, key: u64, raw: u64) {
        let vsp = self.vsp(key);
        if raw == self.width.most() {
            self.loans.end(vsp, 1);
        } else if let Some(lsn) = (raw & !lost_bit(self.width)).checked_sub(1) {
            if lsn >= u64::from(self.lsps) * u64::from(self.superpage) {
                self.damaged = true;
                return;
            }
            self.remove(lsn);
            self.leaves.set(lsn, key);
            if raw & lost_bit(self.width) > 0 {
                self.set_unreadable(vsp, true);
            }
        }
    }

    fn replay(&mut self, lsn: u64, vsn: Option<u64>, mut changed: impl FnMut(u64)) {
        if let Some(old) = self.remove(lsn) {
            changed(old);
        }
        if let Some(vsn) = vsn {
            self.replay_kill(vsn, changed);
            self.leaves.set(lsn, vsn);
            // A superpage that is listed was empty before, even if it was unreadable once.
            self.set_unreadable(self.vsp(vsn), false);
        }
    }

    fn replay_loss(&mut self, lsn: u64, vsn: u64, changed: impl FnMut(u64)) {
        self.replay(lsn, Some(vsn), changed);
        self.set_unreadable(self.vsp(vsn), true);
    }

    fn replay_kill(&mut self, vsn: u64, mut changed: impl FnMut(u64)) {
        if let Some(lsn) = self.holds(vsn) {
            self.remove(lsn);
        }
        changed(vsn);
    }

    fn end_loan(&mut self, vsp: u32, count: u32, changed: impl FnMut(u64)) {
        self.loans.end(vsp, count);
        let sp = u64::from(self.superpage);
        (u64::from(vsp) * sp..u64::from(vsp + count) * sp).for_each(changed);
    }

    fn pins(&self, free: u32) -> u32 {
        let valid = self.mapped.div_ceil(self.superpage.into()) as u32;
        let more = self.homes.spread(valid).saturating_sub(valid);
        (free / 2).min(more / PINS_SHARE)
    }

    fn is_given(&self, vsp: u32) -> bool {
        self.loans.is_over(vsp) || self.loans.is_leaving(vsp)
    }

    fn is_lent(&self, lsn: u64) -> bool {
        self.loans.has(self.lsp(lsn))
    }

    fn adopt(&mut self, pool: &mut Pool, keys: Range<u64>) -> Result<(), &'static str> {
        if self.damaged {
            return Err("the map names a sector outside the volume");
        }
        for vsp in self.vsp(keys.start)..keys.end.div_ceil(self.superpage.into()) as u32 {
            // A superpage may begin in other keys, so each leaf counts where it begins.
            for leaf in self.leaves.in_superpage(vsp).filter(|leaf| keys.contains(&leaf.vsn)) {
                for _ in 0..leaf.len() {
                    pool.gain(vsp, pool.valid(vsp) + 1);
                }
                self.mapped += u64::from(leaf.len());
            }
        }
        Ok(())
    }

    fn disown(&mut self, pool: &mut Pool, vsp: u32) {
        self.set_unreadable(vsp, false);
        self.leaves.forget(vsp);
        self.mapped -= u64::from(pool.forget(vsp));
    }

    fn lose(&mut self, pool: &mut Pool, vsp: u32, changed: impl FnMut(u64)) {
        self.set_unreadable(vsp, true);
        pool.slots(vsp).filter(|slot| self.holds(*slot).is_some()).for_each(changed);
    }

    fn holds_lost(&self, vsp: u32) -> bool {
        self.is_unreadable(vsp)
    }

    fn is_readable_again(&mut self, vsp: u32) {
        self.set_unreadable(vsp, false);
    }

    fn formatted(&mut self) {
        self.homes.clear(0..self.lsps);
    }

    fn settled(&mut self) {
        let mut lsp = 0;
        while lsp < self.lsps {
            let end = lsp + self.loans.run(lsp, self.lsps - lsp);
            if self.loans.has(lsp) {
                self.homes.clear(lsp..end);
            }
            lsp = end;
        }
        for vsp in 0..self.vsps() {
            let empty = self.leaves.in_superpage(vsp).next().is_none();
            self.set_unreadable(vsp, self.is_unreadable(vsp) && !empty);
        }
        self.leaves.stretch();
    }

    fn check(&self, pool: &Pool) -> Result<(), &'static str> {
        self.leaves.check()?;
        let mut valid = vec![0u16; self.touched.len()];
        let mut taken = vec![false; self.superpage as usize];
        for (vsp, valid) in (0..).zip(&mut valid) {
            taken.fill(false);
            for leaf in self.leaves.in_superpage(vsp) {
                for slot in leaf.slots() {
                    let slot = (slot % u64::from(self.superpage)) as usize;
                    if core::mem::replace(&mut taken[slot], true) {
                        return Err("two leaves share a slot");
                    }
                    *valid += 1;
                }
            }
            if *valid > 0 && self.loans.is_over(vsp) {
                return Err("a superpage of home slots only holds hidden sectors");
            }
        }
        let total: u64 = valid.iter().map(|count| u64::from(*count)).sum();
        if total != self.mapped {
            return Err("the count of hidden sectors is wrong");
        }
        let homeless = |lsp: &u32| self.loans.has(*lsp) && self.hidden(*lsp).next().is_some();
        if (0..self.lsps).any(|lsp| homeless(&lsp)) {
            return Err("a hidden sector has a lent home slot");
        }
        pool.check(&valid)
    }
}
