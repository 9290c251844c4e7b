//! The ledger on the slow device. It names the regions with newer data on the fast device, so that
//! a volume that lost its fast device can report the lost ranges.
//!
//! Invariants
//! - `counts` has for each region the number of slots with its pages that a directory on the medium
//!   may list as dirty.
//! - A commit whose directory lists a page as dirty ends only after a ledger that names the page's
//!   region is durable. Clean regions are removed when they exceed half of the named ones, or when
//!   the layer stops. A region therefore costs a write only occasionally, not each time it becomes
//!   dirty or clean.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{Cause, Command, Gather, Page, Piece, SECTORS_PER_BLOCK, Tally};
use hostftl_format::tier::{Lives, MOST_REGIONS, emit_ledger, ledger_at, parse_ledger};

use super::super::layout::{Layout, SLOW};
use crate::kit::metabuf::{MetaHome, into_meta};

/// Minimum number of pages in a region.
const LEAST: u32 = 64;

/// The regions of the slow device, and the newest ledger on it.
#[derive(Debug)]
pub(crate) struct Ledger {
    layout: Layout,
    uuid: [u8; 16],
    /// Number of pages in a region.
    wide: u32,
    counts: Vec<u32>,
    /// Regions that the last written ledger names.
    named: Vec<bool>,
    generation: u64,
    buf: MetaHome,
    /// Whether a dirty region is missing from the last ledger.
    lacks: bool,
}

impl Ledger {
    /// Creates a ledger without dirty regions.
    pub(crate) fn new(layout: &Layout, uuid: [u8; 16]) -> Self {
        let regions = Self::regions(layout) as usize;
        Ledger {
            layout: *layout,
            uuid,
            wide: Self::wide(layout),
            counts: vec![0; regions],
            named: vec![false; regions],
            generation: 0,
            buf: MetaHome::new(1),
            lacks: false,
        }
    }

    fn wide(layout: &Layout) -> u32 {
        layout.pages.div_ceil(MOST_REGIONS).max(LEAST)
    }

    fn regions(layout: &Layout) -> u32 {
        layout.pages.div_ceil(Self::wide(layout))
    }

    /// Returns the bytes of memory.
    pub(crate) fn bytes(layout: &Layout) -> u64 {
        5 * u64::from(Self::regions(layout))
    }

    /// Counts a page that a directory may list as dirty from now on, or no longer lists.
    pub(crate) fn count(&mut self, page: u32, dirty: bool) {
        let region = (page / self.wide) as usize;
        if dirty {
            self.counts[region] += 1
        } else {
            assert!(self.counts[region] > 0, "a slot leaves the list once");
            self.counts[region] -= 1;
        }
        self.lacks |= dirty && !self.named[region];
    }

    /// Returns whether a ledger must be written. The last one of a run is also due if clean regions
    /// are named.
    pub(crate) fn is_due(&self, last: bool) -> bool {
        self.lacks || self.generation == 0 || last && self.idle() > 0
    }

    /// Returns the number of named regions without dirty pages.
    fn idle(&self) -> usize {
        self.counts.iter().zip(&self.named).filter(|(count, named)| **count == 0 && **named).count()
    }

    /// Names the dirty regions, and keeps the clean ones unless they are due for removal.
    fn name(&mut self, last: bool) {
        let named = self.named.iter().filter(|named| **named).count();
        let forget = last || 2 * self.idle() > named;
        for (named, count) in self.named.iter_mut().zip(&self.counts) {
            *named = *count > 0 || *named && !forget;
        }
        self.generation += 1;
        self.lacks = false;
    }

    /// Adopts the newest valid ledger of the two places. Returns its lives, or `None` if neither
    /// place is valid.
    pub(crate) fn adopt(&mut self, pages: &[Page]) -> Option<Lives> {
        assert_eq!(self.generation, 0, "a ledger page is listed once");
        let places = [0, 1].map(|place| ledger_at(self.layout.slow, place));
        let read = pages.iter().zip(places);
        let read = read.filter_map(|(it, at)| parse_ledger(it, self.uuid, at).ok());
        let newest = read.filter(|it| it.generation >> 62 == 0).max_by_key(|it| it.generation)?;
        self.generation = newest.generation;
        let named = |(region, it): (u32, &mut bool)| *it = newest.names(region);
        (0..newest.regions).zip(&mut self.named).for_each(named);
        Some(newest.lives)
    }

    /// Returns the program of the next ledger, into the place of the one before the last. With
    /// `last` it names only dirty regions.
    pub(crate) fn write(&mut self, last: bool, lives: Lives) -> Command {
        let mut buf = self.buf.lend();
        self.name(last);
        let lba = ledger_at(self.layout.slow, self.generation);
        let stamp = (self.wide * self.layout.page, self.generation, lives);
        let named = self.named.iter().copied();
        emit_ledger(&mut buf.pages_mut()[0], stamp, named, self.uuid, lba);
        let gather = Gather::from_iter([Piece::Meta { buf, pages: 1 }]);
        let tally = Tally::single(Cause::Map, SECTORS_PER_BLOCK);
        Command::Program { device: SLOW, lba, gather, tally, placement: 0 }
    }

    /// Takes the buffer back after the write of a ledger.
    pub(crate) fn written(&mut self, command: Command) {
        self.buf.take_back(into_meta(command));
    }

    /// Checks that the counts match `dirty`, the pages of listed slots, and that every dirty region
    /// is named unless a ledger is due.
    pub(crate) fn check(&self, dirty: impl Iterator<Item = u32>) -> Result<(), &'static str> {
        let mut counts = vec![0; self.counts.len()];
        dirty.for_each(|page| counts[(page / self.wide) as usize] += 1);
        if counts != self.counts {
            return Err("tier: the ledger miscounts the dirty slots of a region");
        }
        let unnamed = counts.iter().zip(&self.named).any(|(count, named)| *count > 0 && !named);
        if unnamed && !self.lacks { Err("tier: the ledger misses a dirty region") } else { Ok(()) }
    }
}
