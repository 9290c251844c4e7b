//! Wear levelling by the interval rule: a page whose most-written sector reaches its threshold is
//! moved before it is written again, and its threshold grows by the interval.
//!
//! Invariants
//! - A physical page belongs to one logical page, or is free.
//! - With levelling, no sector of a page has more writes than the page's threshold plus one, as
//!   long as there is a free page.

use std::collections::VecDeque;

use super::{ScmSpec, Wear};

#[derive(Debug)]
pub(super) struct Level {
    page: u32,
    interval: u32,
    /// Physical page of each logical page.
    map: Vec<u32>,
    free: VecDeque<u32>,
    /// Writes of each physical sector.
    counts: Vec<u32>,
    /// Writes at which each physical page is moved.
    thresholds: Vec<u32>,
    /// Writes of the most-written sector of each physical page.
    most: Vec<u32>,
    host: u64,
    copied: u64,
}

impl Level {
    /// Makes the state of a memory without any writes.
    pub(super) fn new(spec: &ScmSpec) -> Self {
        let all = spec.pages + spec.spare;
        Level {
            page: spec.page,
            interval: spec.interval,
            map: (0..spec.pages).collect(),
            free: (spec.pages..all).collect(),
            counts: vec![0; all as usize * spec.page as usize],
            thresholds: vec![spec.interval; all as usize],
            most: vec![0; all as usize],
            host: 0,
            copied: 0,
        }
    }

    /// Writes a range. Returns the sectors that were copied first. A write that does not overwrite
    /// causes wear, but moves no page and leaves the distance to the next move unchanged.
    pub(super) fn write(&mut self, lba: u64, sectors: u32, overwrites: bool) -> u64 {
        let wide = u64::from(self.page);
        let (mut at, end, before) = (lba, lba + u64::from(sectors), self.copied);
        while at < end {
            let logical = (at / wide) as usize;
            let part = (wide - at % wide).min(end - at);
            if self.interval > 0 && overwrites {
                self.level(logical);
            }
            self.count(self.map[logical], (at % wide) as u32, part as u32);
            self.thresholds[self.map[logical] as usize] += u32::from(!overwrites);
            self.host += part;
            at += part;
        }
        self.copied - before
    }

    /// Moves a page that has reached its threshold, if there is a free page.
    fn level(&mut self, logical: usize) {
        let old = self.map[logical];
        if self.most[old as usize] < self.thresholds[old as usize] {
            return;
        }
        let Some(new) = self.free.pop_front() else { return };
        self.count(new, 0, self.page);
        self.copied += u64::from(self.page);
        self.thresholds[old as usize] += self.interval;
        // The copy counts as a write. There must be room for the write that caused the move too,
        // which an interval of 1 does not leave.
        let worn = self.most[new as usize];
        let threshold = &mut self.thresholds[new as usize];
        *threshold = (*threshold).max(worn + 1);
        self.free.push_back(old);
        self.map[logical] = new;
    }

    fn count(&mut self, physical: u32, from: u32, sectors: u32) {
        let first = (physical * self.page + from) as usize;
        for count in &mut self.counts[first..first + sectors as usize] {
            *count += 1;
            self.most[physical as usize] = self.most[physical as usize].max(*count);
        }
    }

    /// Writes of each physical sector.
    pub(super) fn counts(&self) -> &[u32] {
        &self.counts
    }

    /// Returns the whole state as words: the map, the free pages, the threshold of each physical
    /// page, and the writes of each sector.
    pub(super) fn words(&self) -> impl Iterator<Item = u32> {
        let pages = self.map.iter().chain(&self.free).chain(&self.thresholds);
        pages.chain(&self.counts).copied()
    }

    /// Restores the state from [`Level::words`]. All writes count as written by the host.
    pub(super) fn of_words(spec: &ScmSpec, words: &[u32]) -> Result<Self, &'static str> {
        let mut level = Level::new(spec);
        let (all, wide) = (level.most.len(), spec.page as usize);
        if words.len() != all * (2 + wide) {
            return Err("scm: a saved memory has another size");
        }
        let (map, rest) = words.split_at(spec.pages as usize);
        let (free, rest) = rest.split_at(spec.spare as usize);
        let (thresholds, counts) = rest.split_at(all);
        if map.iter().chain(free).any(|&page| page as usize >= all) {
            return Err("scm: a saved memory has an invalid page");
        }
        level.map.copy_from_slice(map);
        level.free = free.iter().copied().collect();
        level.thresholds.copy_from_slice(thresholds);
        level.counts.copy_from_slice(counts);
        let most = counts.chunks(wide).map(|page| page.iter().copied().max().unwrap_or(0));
        level.most = most.collect();
        level.host = counts.iter().map(|&count| u64::from(count)).sum();
        level.check().map(|()| level)
    }

    /// Returns the wear of the memory.
    pub(super) fn wear(&self) -> Wear {
        Wear {
            most: self.most.iter().copied().max().unwrap_or(0),
            total: self.counts.iter().map(|&count| u64::from(count)).sum(),
            host: self.host,
            copied: self.copied,
        }
    }

    /// Checks every invariant.
    pub(super) fn check(&self) -> Result<(), &'static str> {
        let Wear { total, .. } = self.wear();
        if total != self.host + self.copied {
            return Err("scm: a write was not counted");
        }
        let mut held = vec![false; self.most.len()];
        for &physical in self.map.iter().chain(&self.free) {
            if std::mem::replace(&mut held[physical as usize], true) {
                return Err("scm: a page is held twice");
            }
        }
        let levelled = self.interval > 0 && !self.free.is_empty();
        let beyond = self.most.iter().zip(&self.thresholds).any(|(most, least)| *most > least + 1);
        if levelled && beyond {
            Err("scm: a page was written beyond its threshold")
        } else {
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worn(interval: u32, sectors: u32) -> Wear {
        let spec = ScmSpec { interval, ..ScmSpec::memory_type(40, 8) };
        let mut level = Level::new(&spec);
        for write in 0..4000_u64 {
            level.write(if write % 10 < 8 { 0 } else { write % 40 * 32 }, sectors, true);
            assert_eq!(level.check(), Ok(()));
        }
        level.wear()
    }

    #[test]
    fn every_interval_keeps_the_invariants() {
        for interval in 0..8 {
            let (off, on) = (worn(0, 32), worn(interval, 32));
            assert!(interval == 0 || on.most < off.most / 4, "{interval}: {on:?}");
        }
    }

    #[test]
    fn levelling_copies_and_spreads() {
        let (off, on) = (worn(0, 32), worn(5, 32));
        assert_eq!(off.copied, 0);
        assert!(off.most > 3000);
        assert!(on.most < off.most / 4, "{on:?}");
        let share = on.copied as f64 / on.total as f64;
        assert!((0.15..0.21).contains(&share), "about one write in five is a copy: {share}");
    }
}
