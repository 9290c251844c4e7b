//! Sector map in both directions.
//!
//! Invariants
//! - `to[l] = v + 1` and `back[v] = l + 1` for every valid pair; 0 is unmapped, so fresh zeroed
//!   memory is an empty map. A slot is valid exactly if its logical sector points back at it.
//! - The weight of a superpage is its number of valid slots.
//! - On media the entry of key `l` is `to[l]`.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::Page;
use hostftl_format::hard::{MAP_ENTRIES, fill_map};

use crate::vsp::Table;
use crate::vsp::layout::Layout;
use crate::vsp::ops::NoOp;
use crate::vsp::pool::{Lost, Pool};

/// Map entry of a sector whose only copy cannot be verified. It reads as an error until it is
/// rewritten.
const LOST: u32 = u32::MAX;

/// The map of `hard`.
#[derive(Debug)]
pub(crate) struct Map {
    superpage: u32,
    to: Vec<u32>,
    back: Vec<u32>,
    mapped: u64,
}

impl Map {
    /// Creates an empty map.
    pub(crate) fn new(layout: &Layout) -> Self {
        Map {
            superpage: layout.superpage,
            to: vec![0; layout.exported as usize],
            back: vec![0; layout.count as usize * layout.superpage as usize],
            mapped: 0,
        }
    }

    /// Returns the bytes of both directions.
    pub(crate) fn memory(layout: &Layout) -> u64 {
        let slots = u64::from(layout.count) * u64::from(layout.superpage);
        4 * (layout.exported + slots)
    }
}

impl Table for Map {
    type Op = NoOp;

    fn valid(&self, vsn: u32) -> Option<u64> {
        let lsn = self.back[vsn as usize].checked_sub(1)?;
        (self.to[lsn as usize] == vsn + 1).then_some(lsn.into())
    }

    fn was(&self, vsn: u32) -> Option<u64> {
        self.back[vsn as usize].checked_sub(1).map(u64::from)
    }

    fn mapped(&self) -> u64 {
        self.mapped
    }

    fn lookup(&self, lsn: u64) -> Option<u32> {
        match self.to[lsn as usize] {
            LOST => None,
            raw => raw.checked_sub(1),
        }
    }

    fn is_lost(&self, lsn: u64) -> bool {
        self.to[lsn as usize] == LOST
    }

    fn run(&self, lsn: u64, sectors: u64) -> (bool, u64) {
        let end = ((lsn + sectors) as usize).min(self.to.len());
        let entries = &self.to[lsn as usize..end];
        let mapped = entries[0] != 0;
        let length = entries.iter().take_while(|raw| (**raw != 0) == mapped).count();
        (mapped, length as u64)
    }

    fn keys(&self, lsn: u64, _vsn: Option<u32>) -> [u64; 2] {
        [lsn; 2]
    }

    fn point(&mut self, pool: &mut Pool, lsn: u64, vsn: u32) -> Lost {
        let lost = self.kill(pool, lsn);
        assert_eq!(self.to[lsn as usize], 0, "a sector is mapped once");
        self.to[lsn as usize] = vsn + 1;
        self.back[vsn as usize] = lsn as u32 + 1;
        let vsp = pool.superpage_at(vsn);
        pool.gain(vsp, pool.valid(vsp) + 1);
        self.mapped += 1;
        lost
    }

    fn kill(&mut self, pool: &mut Pool, lsn: u64) -> Lost {
        let vsn = self.lookup(lsn);
        self.to[lsn as usize] = 0;
        let Some(vsn) = vsn else { return Lost::Some };
        self.mapped -= 1;
        let vsp = pool.superpage_at(vsn);
        pool.lose(vsp, pool.valid(vsp) - 1)
    }

    fn image(&self, page: &mut Page, key: u64) {
        let end = (key as usize + MAP_ENTRIES).min(self.to.len());
        fill_map(page, &self.to[(key as usize).min(end)..end]);
    }

    fn load(&mut self, key: u64, raw: u32) {
        self.to[key as usize] = raw;
    }

    fn replay(&mut self, lsn: u64, vsn: Option<u32>, mut changed: impl FnMut(u64)) {
        self.to[lsn as usize] = vsn.map_or(0, |vsn| vsn + 1);
        changed(lsn);
    }

    /// Does nothing: this layer never writes in place, so its log has no kills.
    fn replay_kill(&mut self, _vsn: u32, _changed: impl FnMut(u64)) {}

    fn adopt(&mut self, pool: &mut Pool, key: u64) -> Result<(), &'static str> {
        let Some(vsn) = self.lookup(key) else { return Ok(()) };
        let slot = self.back.get_mut(vsn as usize).ok_or("the map points outside the data area")?;
        if *slot != 0 {
            return Err("the map has two sectors in one slot");
        }
        *slot = key as u32 + 1;
        let vsp = pool.superpage_at(vsn);
        pool.gain(vsp, pool.valid(vsp) + 1);
        self.mapped += 1;
        Ok(())
    }

    fn disown(&mut self, pool: &mut Pool, vsp: u32) {
        let from = vsp as usize * self.superpage as usize;
        self.back[from..from + self.superpage as usize].fill(0);
        self.mapped -= u64::from(pool.forget(vsp));
    }

    fn lose(&mut self, pool: &mut Pool, vsp: u32, mut changed: impl FnMut(u64)) {
        for vsn in vsp * self.superpage..(vsp + 1) * self.superpage {
            if let Some(lsn) = self.valid(vsn) {
                self.kill(pool, lsn);
                self.to[lsn as usize] = LOST;
                changed(lsn);
            }
        }
    }

    fn holds_lost(&self, _vsp: u32) -> bool {
        false
    }

    fn check(&self, pool: &Pool) -> Result<(), &'static str> {
        let mut valid = vec![0u16; self.back.len() / self.superpage as usize];
        let mut mapped = 0;
        for (lsn, raw) in self.to.iter().enumerate().filter(|(_, raw)| ![0, LOST].contains(*raw)) {
            if self.back[*raw as usize - 1] != lsn as u32 + 1 {
                return Err("a sector maps to a slot that does not refer back to it");
            }
            valid[((raw - 1) / self.superpage) as usize] += 1;
            mapped += 1;
        }
        if mapped != self.mapped {
            return Err("the count of mapped sectors is wrong");
        }
        pool.check(&valid)
    }
}
