//! The ledger: the slow device names the regions of which the fast one may hold something newer, so
//! that a volume which lost its fast device can say what is lost.
//!
//! Invariants
//! - `counts` has for each region how many slots with pages of it a directory on the medium may
//!   call dirty.
//! - A commit whose directory calls a page dirty is over only when a ledger that names the page's
//!   region is durable. What is named and no longer dirty goes when that is more than half of what
//!   is named, or the layer stops: so a region costs a write now and then, and not at each turn.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{Cause, Command, Gather, Page, Piece, SECTORS_PER_BLOCK, Tally};
use hostftl_format::tier::{Lives, MOST_REGIONS, emit_ledger, ledger_at, parse_ledger};

use super::super::layout::{Layout, SLOW};
use crate::kit::metabuf::{MetaHome, meta_of};

/// The least pages of a region.
const LEAST: u32 = 64;

#[derive(Debug)]
pub(crate) struct Ledger {
    layout: Layout,
    uuid: [u8; 16],
    /// Pages of a region.
    wide: u32,
    counts: Vec<u32>,
    /// What the last one that was written names.
    named: Vec<bool>,
    generation: u64,
    buf: MetaHome,
    /// Whether something is dirty that the last one does not name.
    lacks: bool,
}

impl Ledger {
    /// Nothing is dirty.
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

    /// Bytes that it takes.
    pub(crate) fn bytes(layout: &Layout) -> u64 {
        5 * u64::from(Self::regions(layout))
    }

    /// A directory may say that a page is dirty, or says so no more.
    pub(crate) fn count(&mut self, page: u32, dirty: bool) {
        let region = (page / self.wide) as usize;
        if dirty {
            self.counts[region] += 1
        } else {
            assert!(self.counts[region] > 0, "a slot is taken off the list once");
            self.counts[region] -= 1;
        }
        self.lacks |= dirty && !self.named[region];
    }

    /// Whether a ledger must be written; a last one also when it names too much.
    pub(crate) fn is_due(&self, last: bool) -> bool {
        self.lacks || self.generation == 0 || last && self.idle() > 0
    }

    /// Regions that are named, and nothing of them is dirty.
    fn idle(&self) -> usize {
        self.counts.iter().zip(&self.named).filter(|(count, named)| **count == 0 && **named).count()
    }

    /// Names what is dirty, and what was named before unless that is to go.
    fn name(&mut self, last: bool) {
        let named = self.named.iter().filter(|named| **named).count();
        let forget = last || 2 * self.idle() > named;
        for (named, count) in self.named.iter_mut().zip(&self.counts) {
            *named = *count > 0 || *named && !forget;
        }
        self.generation += 1;
        self.lacks = false;
    }

    /// Takes what the slow device has in its two places; the lives that it tells of, when one of
    /// the two is whole.
    pub(crate) fn adopt(&mut self, pages: &[Page]) -> Option<Lives> {
        assert_eq!(self.generation, 0, "a ledger is found once");
        let places = [0, 1].map(|place| ledger_at(self.layout.slow, place));
        let read = pages.iter().zip(places);
        let read = read.filter_map(|(it, at)| parse_ledger(it, self.uuid, at).ok());
        let newest = read.filter(|it| it.generation >> 62 == 0).max_by_key(|it| it.generation)?;
        self.generation = newest.generation;
        let named = |(region, it): (u32, &mut bool)| *it = newest.names(region);
        (0..newest.regions).zip(&mut self.named).for_each(named);
        Some(newest.lives)
    }

    /// The program of the next one, into the place of the one before; with `last` it names only
    /// what is dirty.
    pub(crate) fn write(&mut self, last: bool, lives: Lives) -> Command {
        let mut buf = self.buf.lend();
        self.name(last);
        let lba = ledger_at(self.layout.slow, self.generation);
        let stamp = (self.wide * self.layout.page, self.generation, lives);
        let named = self.named.iter().copied();
        emit_ledger(&mut buf.pages_mut()[0], stamp, named, self.uuid, lba);
        let gather = Gather::from_iter([Piece::Meta { buf, pages: 1 }]);
        let tally = Tally::of(Cause::Map, SECTORS_PER_BLOCK);
        Command::Program { device: SLOW, lba, gather, tally, placement: 0 }
    }

    /// It is written.
    pub(crate) fn written(&mut self, command: Command) {
        self.buf.take_back(meta_of(command));
    }

    /// The dirty slots and what the last ledger names agree, when none is due.
    pub(crate) fn check(&self, dirty: impl Iterator<Item = u32>) -> Result<(), &'static str> {
        let mut counts = vec![0; self.counts.len()];
        dirty.for_each(|page| counts[(page / self.wide) as usize] += 1);
        if counts != self.counts {
            return Err("tier: the ledger miscounts the dirty slots of a region");
        }
        let unnamed = counts.iter().zip(&self.named).any(|(count, named)| *count > 0 && !named);
        if unnamed && !self.lacks { Err("tier: the ledger forgets a dirty region") } else { Ok(()) }
    }
}
