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

use hostftl_core::{
    Cause, Command, Gather, MetaBuf, Nanos, Out, Output, Page, Piece, SECTORS_PER_BLOCK, Tally,
};
use hostftl_format::tier::{Lives, MOST_REGIONS, emit_ledger, ledger_at, parse_ledger};

use super::Tier;
use super::layout::{Layout, SLOW};
use super::ops::Op;

/// The least pages of a region.
const LEAST: u32 = 64;

/// See the module text.
#[derive(Debug)]
pub struct Ledger {
    /// Pages of a region.
    wide: u32,
    counts: Vec<u32>,
    /// What the last one that was written names.
    named: Vec<bool>,
    generation: u64,
    buf: Option<MetaBuf>,
    /// Whether something is dirty that the last one does not name.
    lacks: bool,
}

impl Ledger {
    /// Nothing is dirty.
    pub fn new(layout: &Layout) -> Self {
        let regions = Self::regions(layout) as usize;
        Ledger {
            wide: Self::wide(layout),
            counts: vec![0; regions],
            named: vec![false; regions],
            generation: 0,
            buf: Some(MetaBuf::new(1)),
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
    pub fn bytes(layout: &Layout) -> u64 {
        5 * u64::from(Self::regions(layout))
    }

    /// A directory may say that a page is dirty, or says so no more.
    pub fn count(&mut self, page: u32, dirty: bool) {
        let region = (page / self.wide) as usize;
        match dirty {
            true => self.counts[region] += 1,
            false => self.counts[region] -= 1,
        }
        self.lacks |= dirty && !self.named[region];
    }

    /// Whether a ledger must be written; a last one also when it names too much.
    pub fn is_due(&self, last: bool) -> bool {
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
    pub fn adopt(&mut self, pages: &[Page], sectors: u64, uuid: [u8; 16]) -> Option<Lives> {
        let places = [0, 1].map(|place| ledger_at(sectors, place));
        let read = pages.iter().zip(places).filter_map(|(it, at)| parse_ledger(it, uuid, at).ok());
        let newest = read.filter(|it| it.generation >> 62 == 0).max_by_key(|it| it.generation)?;
        self.generation = newest.generation;
        let named = |(region, it): (u32, &mut bool)| *it = newest.names(region);
        (0..newest.regions).zip(&mut self.named).for_each(named);
        Some(newest.lives)
    }

    /// The dirty slots and what the last ledger names agree, when none is due.
    pub fn check(&self, dirty: impl Iterator<Item = u32>) -> Result<(), &'static str> {
        let mut counts = vec![0; self.counts.len()];
        dirty.for_each(|page| counts[(page / self.wide) as usize] += 1);
        if counts != self.counts {
            return Err("tier: the ledger miscounts the dirty slots of a region");
        }
        let unnamed = counts.iter().zip(&self.named).any(|(count, named)| *count > 0 && !named);
        match unnamed && !self.lacks {
            true => Err("tier: the ledger forgets a dirty region"),
            false => Ok(()),
        }
    }
}

impl Tier {
    /// A directory on the medium may call a slot dirty from now on, or surely does not.
    pub fn set_listed(&mut self, slot: u32, listed: bool) {
        let it = self.slots.get_mut(slot);
        if core::mem::replace(&mut it.listed, listed) != listed {
            self.ledger.count(it.page, listed);
        }
    }

    /// Writes the ledger, the last one before a stop or not, into the place of the one before.
    pub fn write_ledger(&mut self, now: Nanos, last: bool, out: &mut Out) {
        let command = self.next_ledger(last);
        let token = self.ops.begin(now, SLOW, Op::Ledger);
        out.push(Output::Submit(token, command));
    }

    /// The program of the ledger into the place of the one before.
    pub fn next_ledger(&mut self, last: bool) -> Command {
        let ledger = &mut self.ledger;
        let mut buf = ledger.buf.take().expect("one ledger is written at a time");
        ledger.name(last);
        let lba = ledger_at(self.layout.slow, ledger.generation);
        let stamp = (ledger.wide * self.layout.page, ledger.generation, self.start.lives());
        let named = ledger.named.iter().copied();
        emit_ledger(&mut buf.pages_mut()[0], stamp, named, self.uuid, lba);
        let gather = Gather::from_iter([Piece::Meta { buf, pages: 1 }]);
        let tally = Tally::of(Cause::Map, SECTORS_PER_BLOCK);
        self.counters.map_written += u64::from(SECTORS_PER_BLOCK);
        Command::Program { device: SLOW, lba, gather, tally, placement: 0 }
    }

    /// The ledger was written.
    pub fn ledger_written(&mut self, command: Command) {
        let Command::Program { gather, .. } = command else { unreachable!("it was a program") };
        for piece in gather {
            let Piece::Meta { buf, .. } = piece else { unreachable!("a ledger is metadata") };
            self.ledger.buf = Some(buf);
        }
    }
}
