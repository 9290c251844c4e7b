//! Map between logical slots and slots in both directions, with entries of 4 bytes.
//!
//! Invariant: `back` has a logical slot exactly where `to` points for it, so no two logical slots
//! share a slot.

use alloc::vec;
use alloc::vec::Vec;

/// The map in both directions. Entries are index + 1; 0 is unmapped.
#[derive(Debug)]
pub(super) struct Map {
    to: Vec<u32>,
    back: Vec<u32>,
    mapped: u64,
}

impl Map {
    /// Returns the bytes of the tables.
    pub(super) fn memory(logical: u64, slots: u64) -> u64 {
        4 * (logical + slots)
    }

    /// Creates an empty map.
    pub(super) fn new(logical: u32, slots: u32) -> Self {
        Map { to: vec![0; logical as usize], back: vec![0; slots as usize], mapped: 0 }
    }

    /// Returns the slot of a logical slot.
    #[inline]
    pub(super) fn lookup(&self, logical: u32) -> Option<u32> {
        self.to[logical as usize].checked_sub(1)
    }

    /// Returns the number of mapped logical slots.
    pub(super) fn mapped(&self) -> u64 {
        self.mapped
    }

    /// Maps a logical slot to `slot`, or unmaps it. Returns its previous slot.
    pub(super) fn point(&mut self, logical: u32, slot: Option<u32>) -> Option<u32> {
        let old = self.lookup(logical);
        if let Some(old) = old {
            self.back[old as usize] = 0;
            self.mapped -= 1;
        }
        self.to[logical as usize] = slot.map_or(0, |slot| slot + 1);
        if let Some(slot) = slot {
            assert_eq!(self.back[slot as usize], 0, "logical slots have different slots");
            self.back[slot as usize] = logical + 1;
            self.mapped += 1;
        }
        old
    }

    /// Returns at most `most` raw entries from `first` on, for an image.
    pub(super) fn entries(&self, first: usize, most: usize) -> &[u32] {
        let first = first.min(self.to.len());
        &self.to[first..self.to.len().min(first + most)]
    }

    /// Sets a raw entry without counting it; [`Map::adopt`] counts it later.
    pub(super) fn load(&mut self, logical: u32, raw: u32) {
        if let Some(entry) = self.to.get_mut(logical as usize) {
            *entry = raw;
        }
    }

    /// Counts the entry of a logical slot. Returns its slot.
    pub(super) fn adopt(&mut self, logical: u32) -> Result<Option<u32>, &'static str> {
        let Some(slot) = self.lookup(logical) else { return Ok(None) };
        let back =
            self.back.get_mut(slot as usize).ok_or("the map points outside the data area")?;
        if *back != 0 {
            return Err("the map has two logical slots in one slot");
        }
        *back = logical + 1;
        self.mapped += 1;
        Ok(Some(slot))
    }

    /// Checks both directions against each other.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let mut mapped = 0;
        for (logical, raw) in self.to.iter().enumerate().filter(|(_, raw)| **raw != 0) {
            if self.back[*raw as usize - 1] != logical as u32 + 1 {
                return Err("a logical slot maps to a slot that does not refer back to it");
            }
            mapped += 1;
        }
        let back = self.back.iter().filter(|raw| **raw != 0).count() as u64;
        if mapped == self.mapped && back == mapped {
            Ok(())
        } else {
            Err("the count of mapped slots is wrong")
        }
    }
}
