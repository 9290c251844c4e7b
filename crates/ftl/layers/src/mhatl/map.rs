//! The map: leaves, and lists of the superpages with low leaves by the time of their last change.
//!
//! Invariants
//! - A superpage is in the list for its number of low leaves, ordered by its last change. A
//!   superpage without low leaves is in no list.
//! - The weight of a superpage is its number of valid slots.
//! - On media the entry of key `l` is the virtual sector of sector `l` plus one; 0 is unmapped. In
//!   memory the entries exist only during recovery, before the leaves are built.

use alloc::vec;
use alloc::vec::Vec;
use core::ops::Range;

use hostftl_core::Page;
use hostftl_format::hard::{Width, fill_map};

use crate::policy::Lists;
use crate::vsp::Table;
use crate::vsp::layout::{Layout, STAGES};
use crate::vsp::numbers::Numbers;
use crate::vsp::pool::{Lost, Pool};

use super::ops::Op;
use crate::vsp::leaves::{LOST, Leaf, Leaves, Size};

/// Leaves beyond the cap and its tenth: copies in stages may split this number of runs temporarily.
const SLACK: u32 = 8192;

/// The map of `mhatl`.
#[derive(Debug)]
pub(crate) struct Map {
    superpage: u32,
    /// The mapped runs.
    pub leaves: Leaves,
    lists: Lists,
    /// Time of each superpage's last change, in superpages stored.
    changed: Vec<u32>,
    /// Number of sectors stored so far.
    clock: u64,
    width: Width,
    entries: Numbers,
    mapped: u64,
}

impl Map {
    /// Creates an empty map with leaves for `cap` and all LSPs.
    pub(crate) fn new(layout: &Layout, cap: u32) -> Self {
        let count = layout.count;
        Map {
            superpage: layout.superpage,
            leaves: Leaves::new(size(layout, cap)),
            lists: Lists::new(count, layout.superpage),
            changed: vec![0; count as usize],
            clock: 0,
            width: layout.width,
            entries: Numbers::new(layout.entries(), layout.width),
            mapped: 0,
        }
    }

    /// Returns the bytes of all tables, including four bytes of each leaf.
    pub(crate) fn memory(layout: &Layout, cap: u32) -> u64 {
        let lists = Lists::memory(layout.count, layout.superpage);
        size(layout, cap).memory() + lists + 4 * u64::from(layout.count)
    }

    /// Returns the superpage with the largest product of low leaves and time since its last change.
    pub(crate) fn victim(&self) -> Option<u32> {
        let now = self.now();
        let score = |(vsp, low): &(u32, u32)| {
            u64::from(*low) * u64::from(now - self.changed[*vsp as usize] + 1)
        };
        let oldest = (1..=self.superpage).filter_map(|low| Some((self.lists.first(low)?, low)));
        oldest.max_by_key(score).map(|(vsp, _)| vsp)
    }

    fn now(&self) -> u32 {
        (self.clock / u64::from(self.superpage)) as u32
    }

    /// Marks a superpage as changed now.
    pub(crate) fn touch(&mut self, vsp: u32) {
        self.changed[vsp as usize] = self.now();
        let low = self.leaves.low(vsp);
        match (self.lists.contains(vsp), low) {
            (true, 0) => self.lists.remove(vsp),
            (true, low) => self.lists.relink(vsp, low),
            (false, 0) => {}
            (false, low) => self.lists.push(vsp, low),
        }
    }

    fn put(&mut self, pool: &mut Pool, leaf: Leaf) {
        self.leaves.set_run(leaf);
        let vsp = pool.superpage_at(leaf.vsn);
        for _ in 0..leaf.len() {
            pool.gain(vsp, pool.valid(vsp) + 1);
        }
        self.mapped += u64::from(leaf.len());
        self.touch(vsp);
    }

    fn kill_run(&mut self, pool: &mut Pool, lsn: u64, level: u8) -> Lost {
        let Some(vsn) = self.leaves.clear_run(lsn, level).filter(|vsn| *vsn != LOST) else {
            return Lost::Some;
        };
        self.mapped -= 1 << level;
        let vsp = pool.superpage_at(vsn);
        self.touch(vsp);
        let mut lost = Lost::Some;
        for _ in 0..1 << level {
            lost = pool.lose(vsp, pool.valid(vsp) - 1);
        }
        lost
    }

    /// Iterates over the entries of sectors on media.
    fn entries(&self, sectors: Range<u64>) -> impl Iterator<Item = u64> + '_ {
        let mut run = (None, sectors.start);
        sectors.map(move |lsn| {
            if lsn == run.1 {
                run = self.leaves.around(lsn);
            }
            run.0.map_or(0, |leaf: Leaf| match leaf.at(lsn) {
                LOST => self.width.most(),
                vsn => vsn + 1,
            })
        })
    }

    /// Counts the entry of a sector.
    fn adopt_entry(&mut self, pool: &mut Pool, key: u64) -> Result<(), &'static str> {
        self.leaves.clear(key);
        if self.leaves.room() <= u32::from(u8::MAX) {
            return Err("the map has more leaves than the volume can hold");
        }
        match self.entries.get(key) {
            0 => {}
            raw if raw == self.width.most() => self.leaves.set(key, LOST),
            raw => {
                let vsn = raw - 1;
                if vsn / u64::from(self.superpage) >= self.changed.len() as u64 {
                    return Err("the map points outside the data area");
                }
                if self.valid(vsn).is_some() {
                    return Err("the map has two sectors in one slot");
                }
                self.put(pool, Leaf { lsn: key, vsn, level: 0 });
            }
        }
        Ok(())
    }
}

/// Returns the number of leaves: a tenth more than the cap or the number of LSPs, whichever is
/// larger.
fn capacity(layout: &Layout, cap: u32) -> u64 {
    let target = u64::from(cap).max(layout.exported / u64::from(layout.superpage));
    target + target / 10 + u64::from(SLACK.min(8 * STAGES * layout.superpage))
}

/// Returns whether links reach the leaves of a volume.
pub(super) fn fits(layout: &Layout, cap: u32) -> bool {
    capacity(layout, cap) < 1 << 31
}

/// Returns the capacities of the tables.
fn size(layout: &Layout, cap: u32) -> Size {
    let lsps = (layout.exported / u64::from(layout.superpage)) as u32;
    let capacity = capacity(layout, cap) as u32;
    let superpage = layout.superpage;
    Size { superpage, capacity, lsps, lists: lsps, vsps: layout.count, low: true }
}

impl Table for Map {
    type Op = Op;

    fn valid(&self, vsn: u64) -> Option<u64> {
        let mut leaves = self.leaves.in_superpage((vsn / u64::from(self.superpage)) as u32);
        let leaf = leaves.find(|leaf: &Leaf| leaf.slots().contains(&vsn))?;
        Some(leaf.lsn + (vsn - leaf.vsn))
    }

    fn mapped(&self) -> u64 {
        self.mapped
    }

    fn lookup(&self, lsn: u64) -> Option<u64> {
        let leaf = self.leaves.find(lsn)?;
        Some(leaf.at(lsn)).filter(|vsn| *vsn != LOST)
    }

    fn is_lost(&self, lsn: u64) -> bool {
        self.leaves.find(lsn).is_some_and(|leaf| leaf.vsn == LOST)
    }

    fn run(&self, lsn: u64, sectors: u64) -> (bool, u64) {
        let end = (lsn + sectors).min(u64::from(self.leaves.lsps()) * u64::from(self.superpage));
        let mapped = self.leaves.find(lsn).is_some();
        let same = self.entries(lsn..end).take_while(|entry| (*entry != 0) == mapped);
        (mapped, same.count() as u64)
    }

    fn keys(&self, lsn: u64, _vsn: Option<u64>) -> [u64; 2] {
        [lsn; 2]
    }

    fn level(&self, lsn: u64, sectors: u32) -> u8 {
        self.leaves.level(lsn, sectors)
    }

    /// The result equals that of mapping the sectors one by one.
    fn point(&mut self, pool: &mut Pool, leaf: Leaf) -> Lost {
        self.clock += u64::from(leaf.len()) - 1;
        let lost = self.kill_run(pool, leaf.lsn, leaf.level);
        self.clock += 1;
        self.put(pool, leaf);
        lost
    }

    fn kill(&mut self, pool: &mut Pool, lsn: u64) -> Lost {
        self.kill_run(pool, lsn, 0)
    }

    fn image(&self, page: &mut Page, key: u64) {
        let end = u64::from(self.leaves.lsps()) * u64::from(self.superpage);
        fill_map(page, self.width, self.entries(key..end));
    }

    fn load(&mut self, key: u64, raw: u64) {
        self.entries.set(key, raw);
    }

    fn replay(&mut self, lsn: u64, vsn: Option<u64>, mut changed: impl FnMut(u64)) {
        self.entries.set(lsn, vsn.map_or(0, |vsn| vsn + 1));
        changed(lsn);
    }

    /// Does nothing: this layer never writes in place, so its log has no kills.
    fn replay_kill(&mut self, _vsn: u64, _changed: impl FnMut(u64)) {}

    fn adopt(&mut self, pool: &mut Pool, mut keys: Range<u64>) -> Result<(), &'static str> {
        keys.try_for_each(|key| self.adopt_entry(pool, key))
    }

    fn disown(&mut self, pool: &mut Pool, vsp: u32) {
        self.leaves.forget(vsp);
        self.touch(vsp);
        self.mapped -= u64::from(pool.forget(vsp));
    }

    fn lose(&mut self, pool: &mut Pool, vsp: u32, mut changed: impl FnMut(u64)) {
        for vsn in pool.slots(vsp) {
            if let Some(lsn) = self.valid(vsn) {
                self.kill(pool, lsn);
                self.leaves.set(lsn, LOST);
                changed(lsn);
            }
        }
    }

    fn holds_lost(&self, _vsp: u32) -> bool {
        false
    }

    fn settled(&mut self) {
        self.entries = Numbers::new(0, self.width);
    }

    fn check(&self, pool: &Pool) -> Result<(), &'static str> {
        self.leaves.check()?;
        let mut valid = vec![0u16; self.changed.len()];
        let mut mapped = 0;
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
            mapped += u64::from(*valid);
            if (self.leaves.low(vsp) > 0) != self.lists.contains(vsp) {
                return Err("a superpage with low leaves is in no list");
            }
        }
        if mapped != self.mapped {
            return Err("the count of mapped sectors is wrong");
        }
        if self.lists.iter().any(|(vsp, low)| self.leaves.low(vsp) != low) {
            return Err("a superpage is in the list of another count of low leaves");
        }
        pool.check(&valid)
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::DeviceInfo;

    use super::*;
    use crate::config::LayerConfig;
    use crate::kind::LayerKind;
    use crate::policy::Dice;
    use crate::vsp::Scheme;
    use crate::vsp::pool::State;

    /// Maps the sectors up to `end`: one by one, or in the largest possible runs if `runs`. Returns
    /// the superpages that became empty.
    fn point(map: &mut Map, pool: &mut Pool, from: Leaf, end: u64, runs: bool) -> Vec<u32> {
        let (mut lsn, mut emptied) = (from.lsn, Vec::new());
        while lsn < end {
            let level = if runs { map.level(lsn, (end - lsn) as u32) } else { 0 };
            let leaf = Leaf { lsn, vsn: from.at(lsn), level };
            if let Lost::Last(vsp) = map.point(pool, leaf) {
                emptied.push(vsp);
            }
            lsn = leaf.end();
        }
        emptied
    }

    #[test]
    fn a_run_equals_its_sectors_applied_one_by_one() {
        let config = LayerConfig::new(LayerKind::Mhatl);
        let devices = [DeviceInfo::block(1 << 15, 128)];
        let layout = super::super::Buddies::layout(&config, &devices).expect("it is large enough");
        let new = || (Map::new(&layout, 64), Pool::new(&layout, false, false));
        let (mut ones, mut runs) = (new(), new());
        let mut dice = Dice::new(1);
        let (mut below, mut largest) = (|most: u32| dice.below(most), 0);
        for _ in 0..400 {
            let free = |vsp: &u32| ones.1.state(*vsp) == State::Free;
            let vsp = (0..layout.count).find(free).expect("16 LSPs are less than all");
            let mut slot = 0;
            while slot < 128 {
                let first = below(128);
                let len = (1 + below(128 - first)).min(128 - slot);
                let lsn = u64::from(128 * below(16) + first);
                let from = Leaf { lsn, vsn: u64::from(vsp * 128 + slot), level: 0 };
                let [emptied, other] = [(&mut ones, false), (&mut runs, true)]
                    .map(|((map, pool), runs)| point(map, pool, from, lsn + u64::from(len), runs));
                assert_eq!(emptied, other);
                for (_, pool) in [&mut ones, &mut runs] {
                    emptied.iter().for_each(|vsp| pool.become_(*vsp, State::Free, false));
                }
                slot += len;
            }
            for (map, pool) in [&mut ones, &mut runs] {
                if pool.valid(vsp) > 0 {
                    pool.become_(vsp, State::Full, false);
                }
                map.check(pool).expect("all tables agree");
            }
            for vsp in 0..layout.count {
                assert!(ones.0.leaves.in_superpage(vsp).eq(runs.0.leaves.in_superpage(vsp)));
            }
            assert_eq!(ones.0.changed, runs.0.changed);
            assert_eq!(ones.0.victim(), runs.0.victim());
            assert_eq!(ones.1.victim(129), runs.1.victim(129));
            largest = largest.max(ones.0.leaves.count());
        }
        assert!(largest > 256, "{largest} leaves in 16 LSPs are not torn enough");
    }
}
