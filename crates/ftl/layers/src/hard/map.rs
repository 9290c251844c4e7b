//! Sector map in both directions.
//!
//! Invariants
//! - `to[l] = v + 1` and `back[v] = l + 1` for every valid pair; 0 is unmapped, so fresh zeroed
//!   memory is an empty map. A slot is valid exactly if its logical sector points back at it.
//! - The weight of a superpage is its number of valid slots.
//! - On media the entry of key `l` is `to[l]`.

use alloc::vec;
use core::ops::Range;

use hostftl_core::Page;
use hostftl_format::hard::{Width, fill_map};

use crate::vsp::Table;
use crate::vsp::layout::Layout;
use crate::vsp::leaves::Leaf;
use crate::vsp::numbers::Numbers;
use crate::vsp::ops::NoOp;
use crate::vsp::pool::{Lost, Pool};

/// The map of `hard`.
#[derive(Debug)]
pub(crate) struct Map {
    superpage: u32,
    width: Width,
    /// Entry of a sector whose only copy cannot be verified. It reads as an error until it is
    /// rewritten.
    lost: u64,
    to: Numbers,
    back: Numbers,
    mapped: u64,
}

impl Map {
    /// Creates an empty map.
    pub(crate) fn new(layout: &Layout) -> Self {
        let (width, slots) = (layout.width, layout.slots());
        Map {
            superpage: layout.superpage,
            width,
            lost: width.most(),
            to: Numbers::new(layout.exported, width),
            back: Numbers::new(slots, width),
            mapped: 0,
        }
    }

    /// Returns the bytes of both directions.
    pub(crate) fn memory(layout: &Layout) -> u64 {
        Numbers::memory(layout.exported + layout.slots(), layout.width)
    }

    /// Counts the entry of a sector.
    fn adopt_entry(&mut self, pool: &mut Pool, key: u64) -> Result<(), &'static str> {
        let Some(vsn) = self.lookup(key) else { return Ok(()) };
        if vsn >= self.back.len() {
            return Err("the map points outside the data area");
        }
        if self.back.get(vsn) != 0 {
            return Err("the map has two sectors in one slot");
        }
        self.back.set(vsn, key + 1);
        let vsp = pool.superpage_at(vsn);
        pool.gain(vsp, pool.valid(vsp) + 1);
        self.mapped += 1;
        Ok(())
    }
}

impl Table for Map {
    type Op = NoOp;

    fn valid(&self, vsn: u64) -> Option<u64> {
        let lsn = self.back.get(vsn).checked_sub(1)?;
        (self.to.get(lsn) == vsn + 1).then_some(lsn)
    }

    fn was(&self, vsn: u64) -> Option<u64> {
        self.back.get(vsn).checked_sub(1)
    }

    fn mapped(&self) -> u64 {
        self.mapped
    }

    fn lookup(&self, lsn: u64) -> Option<u64> {
        let raw = self.to.get(lsn);
        if raw == self.lost { None } else { raw.checked_sub(1) }
    }

    fn is_lost(&self, lsn: u64) -> bool {
        self.to.get(lsn) == self.lost
    }

    fn run(&self, lsn: u64, sectors: u64) -> (bool, u64) {
        let mapped = self.to.get(lsn) != 0;
        let entries = self.to.from(lsn).take(sectors as usize);
        let length = entries.take_while(|raw| (*raw != 0) == mapped).count();
        (mapped, length as u64)
    }

    fn keys(&self, lsn: u64, _vsn: Option<u64>) -> [u64; 2] {
        [lsn; 2]
    }

    fn point(&mut self, pool: &mut Pool, leaf: Leaf) -> Lost {
        let Leaf { lsn, vsn, level } = leaf;
        assert_eq!(level, 0, "sectors are mapped one by one");
        let lost = self.kill(pool, lsn);
        assert!(vsn + 1 < self.lost, "a slot fits an entry");
        assert_eq!(self.to.get(lsn), 0, "a sector is mapped once");
        self.to.set(lsn, vsn + 1);
        self.back.set(vsn, lsn + 1);
        let vsp = pool.superpage_at(vsn);
        pool.gain(vsp, pool.valid(vsp) + 1);
        self.mapped += 1;
        lost
    }

    fn kill(&mut self, pool: &mut Pool, lsn: u64) -> Lost {
        let vsn = self.lookup(lsn);
        self.to.set(lsn, 0);
        let Some(vsn) = vsn else { return Lost::Some };
        self.mapped -= 1;
        let vsp = pool.superpage_at(vsn);
        pool.lose(vsp, pool.valid(vsp) - 1)
    }

    fn image(&self, page: &mut Page, key: u64) {
        fill_map(page, self.width, self.to.from(key));
    }

    fn load(&mut self, key: u64, raw: u64) {
        self.to.set(key, raw);
    }

    fn replay(&mut self, lsn: u64, vsn: Option<u64>, mut changed: impl FnMut(u64)) {
        self.to.set(lsn, vsn.map_or(0, |vsn| vsn + 1));
        changed(lsn);
    }

    /// Does nothing: this layer never writes in place, so its log has no kills.
    fn replay_kill(&mut self, _vsn: u64, _changed: impl FnMut(u64)) {}

    fn adopt(&mut self, pool: &mut Pool, mut keys: Range<u64>) -> Result<(), &'static str> {
        keys.try_for_each(|key| self.adopt_entry(pool, key))
    }

    fn disown(&mut self, pool: &mut Pool, vsp: u32) {
        pool.slots(vsp).for_each(|vsn| self.back.set(vsn, 0));
        self.mapped -= u64::from(pool.forget(vsp));
    }

    fn lose(&mut self, pool: &mut Pool, vsp: u32, mut changed: impl FnMut(u64)) {
        for vsn in pool.slots(vsp) {
            if let Some(lsn) = self.valid(vsn) {
                self.kill(pool, lsn);
                self.to.set(lsn, self.lost);
                changed(lsn);
            }
        }
    }

    fn holds_lost(&self, _vsp: u32) -> bool {
        false
    }

    fn check(&self, pool: &Pool) -> Result<(), &'static str> {
        let mut valid = vec![0u16; (self.back.len() / u64::from(self.superpage)) as usize];
        let mut mapped = 0;
        let entries = (0..).zip(self.to.from(0));
        for (lsn, raw) in entries.filter(|(_, raw)| *raw != 0 && *raw != self.lost) {
            if self.back.get(raw - 1) != lsn + 1 {
                return Err("a sector maps to a slot that does not refer back to it");
            }
            valid[pool.superpage_at(raw - 1) as usize] += 1;
            mapped += 1;
        }
        if mapped != self.mapped {
            return Err("the count of mapped sectors is wrong");
        }
        pool.check(&valid)
    }
}
