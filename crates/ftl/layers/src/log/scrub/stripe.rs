//! Verification of one stripe: its records, then its parities, one after the other.

use alloc::vec::Vec;

use hostftl_core::{ArrayVec, Command, DeviceSet, Factors, MAX_PIECES, MetaBuf, SECTOR, View};
use hostftl_format::log::{self, Head};

use crate::log::buffers::{Buffer, Buffers};
use crate::log::chunk_placement::ChunkPlacement;
use crate::log::layout::{At, Layout};
use crate::log::redundancy::rebuild::{Chunk, Rebuild};
use crate::log::stripe::records::Record;

/// Bit for a parity mismatch: any of the chunks may be wrong.
const SOMEWHERE: u32 = 1 << 31;

/// Next computation.
#[derive(Debug)]
pub(super) enum Next {
    /// Checksum of a record.
    Record(u16, Command),
    /// Fold of chunks.
    Fold(Command),
    /// Checksum of the computed parity (0) or the stored parity (1).
    Sum(u8, Command),
    /// A command in flight must complete first.
    Wait,
    /// The stripe is verified.
    Over,
}

#[derive(Debug)]
pub(super) struct Check {
    records: Vec<Record>,
    /// Index of the next record.
    cursor: usize,
    /// Number of data chunks, and the sectors of the first and the last one.
    chunks: u32,
    first: u32,
    last: u32,
    /// Sectors of each chunk that parity covers.
    whole: u32,
    /// Number of parities of each stripe, and the one being verified.
    parity: u8,
    which: u8,
    width: u32,
    /// Chunks that were read, as a bit mask. Parity chunks follow the last chunk of the widest
    /// stripe.
    here: u32,
    /// Remaining folds that compute the parity; `None` before the first.
    folds: Option<Rebuild>,
    /// Rebuilds that compute the parities from the stripe's chunks.
    makes: [Option<Rebuild>; 2],
    /// Number of requested checksums of the computed and the stored parity, and the ones received.
    asked: u8,
    sums: [Option<u32>; 2],
    /// Commands in flight.
    outstanding: u32,
    /// Chunks that are unreadable or do not match their checksums, and [`SOMEWHERE`], as a bit
    /// mask.
    wrong: u32,
}

impl Check {
    /// Returns the state without a stripe.
    pub(super) fn new(layout: &Layout) -> Self {
        Check {
            records: Vec::with_capacity(layout.head_entries(true) as usize),
            cursor: 0,
            chunks: 0,
            first: 0,
            last: 0,
            whole: 0,
            parity: layout.parity,
            which: 0,
            width: layout.width(),
            here: 0,
            folds: None,
            makes: [None; 2],
            asked: 0,
            sums: [None; 2],
            outstanding: 0,
            wrong: 0,
        }
    }

    /// Starts a stripe. `is_wrong` is whether its head had to be rebuilt.
    pub(super) fn begin(
        &mut self,
        (head, buf): (&Head, &MetaBuf),
        (layout, at, placement): (&Layout, At, ChunkPlacement),
        uuid: &[u8; 16],
        is_wrong: bool,
    ) {
        let chunks = u32::from(head.chunks);
        self.records.clear();
        let (page_seed, place) = (log::page_seed(uuid), (layout, at, placement));
        let entries = (0..head.entries).filter_map(|index| log::entry(buf, index));
        self.records.extend(entries.filter_map(|entry| Record::new(&entry, place, page_seed)));
        (self.chunks, self.first, self.last) = (chunks, head.first_sectors, head.last_sectors);
        self.whole = if chunks > 1 { layout.chunk } else { head.first_sectors };
        (self.cursor, self.here, self.asked) = (0, 0, 0);
        (self.sums, self.outstanding, self.wrong) = ([None; 2], 0, is_wrong.into());
        (self.which, self.folds, self.makes) = (0, None, [None; 2]);
        for (which, makes) in (0..placement.parity()).zip(&mut self.makes) {
            let slot = (at.segment, at.slot);
            *makes = Rebuild::new(placement, slot, Chunk::Parity(which), chunks, DeviceSet::EMPTY);
        }
    }

    /// Returns the chunks to read with their sectors: data chunks, then parity.
    pub(super) fn reads(&self) -> impl Iterator<Item = (u8, u32)> + use<> {
        let (chunks, first, last, whole) = (self.chunks, self.first, self.last, self.whole);
        let (parity, width) = (self.parity, self.width as u8);
        let sectors = move |chunk: u32| match chunk {
            _ if parity > 0 || chunk + 1 < chunks => whole,
            0 => first,
            _ => last,
        };
        let data = (0..chunks).map(move |chunk| (chunk as u8, sectors(chunk)));
        data.chain((width..width + parity).map(move |number| (number, whole)))
    }

    /// Counts a command that was sent.
    pub(super) fn sent(&mut self) {
        self.outstanding += 1;
    }

    /// Notes that a chunk was read, or could not be. Returns whether all reads are complete.
    pub(super) fn was_read(&mut self, chunk: u8, is_here: bool, is_wrong: bool) -> bool {
        self.here |= u32::from(is_here) << chunk;
        self.wrong |= u32::from(is_wrong) << chunk;
        self.outstanding -= 1;
        self.outstanding == 0
    }

    /// Compares the checksum of a record.
    pub(super) fn has_crc(&mut self, record: u16, crc: u32) {
        let record = &self.records[usize::from(record)];
        if !record.has(crc) {
            self.wrong |= 1 << record.chunk();
        }
        self.outstanding -= 1;
    }

    /// Notes the completion of a fold.
    pub(super) fn was_folded(&mut self) {
        self.outstanding -= 1;
    }

    /// Notes the checksum of the computed or the stored parity, and compares both.
    pub(super) fn has_sum(&mut self, which: u8, crc: u32) {
        self.sums[usize::from(which)] = Some(crc);
        self.outstanding -= 1;
        if let [Some(should), Some(is)] = self.sums {
            self.wrong |= if should == is { 0 } else { SOMEWHERE };
            (self.which, self.folds) = (self.which + 1, None);
            (self.asked, self.sums) = (0, [None; 2]);
        }
    }

    /// Returns whether no command is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.outstanding == 0
    }

    /// Returns whether the stripe is wrong.
    pub(super) fn is_wrong(&self) -> bool {
        self.wrong != 0
    }

    /// Returns the chunks that are unreadable or do not match their checksums.
    pub(super) fn mismatched(&self) -> impl Iterator<Item = u8> + use<> {
        let set = self.wrong & !SOMEWHERE;
        (0..32).filter(move |chunk| set >> chunk & 1 == 1)
    }

    /// Returns the number of bytes read for the stripe.
    pub(super) fn bytes(&self) -> u64 {
        self.reads().map(|(_, sectors)| u64::from(sectors) * SECTOR as u64).sum()
    }

    fn is_here(&self, chunk: u32) -> bool {
        self.here >> chunk & 1 == 1
    }

    /// Returns the next computation.
    pub(super) fn next(&mut self, buffers: &mut Buffers) -> Next {
        while let Some(&record) = self.records.get(self.cursor) {
            self.cursor += 1;
            let chunk = record.chunk();
            if self.is_here(chunk.into()) {
                let command = record.digest(buffers.at(Buffer::Scrub(chunk)));
                self.outstanding += 1;
                return Next::Record(self.cursor as u16 - 1, command);
            }
        }
        if self.outstanding > 0 {
            return Next::Wait;
        }
        let all = (0..self.chunks).all(|chunk| self.is_here(chunk));
        if self.is_wrong() || !all {
            // Parity of a stripe with wrong or missing data would not match anyway.
            return Next::Over;
        }
        let here = |which: &u8| self.is_here(self.width + u32::from(*which));
        let Some(which) = (self.which..self.parity).find(here) else { return Next::Over };
        self.which = which;
        let makes = self.folds.or(self.makes[usize::from(which)]);
        if let Some(folds) = makes.filter(|it| self.chunks > 1 && it.next().is_some()) {
            return self.fold(folds, buffers);
        }
        // The parity of a single chunk is a copy of it.
        let should = if self.chunks > 1 { Buffer::ScrubSum } else { Buffer::Scrub(0) };
        let is = Buffer::Scrub(self.width as u8 + which);
        let buffer = if self.asked == 0 { should } else { is };
        let from = buffers.at(buffer).view_sectors(0, self.whole);
        let which = self.asked;
        (self.asked, self.outstanding) = (which + 1, self.outstanding + 1);
        Next::Sum(which, Command::Digest { from, seed: 0 })
    }

    fn fold(&mut self, mut folds: Rebuild, buffers: &mut Buffers) -> Next {
        let (mut from, mut factors) = (ArrayVec::<View, MAX_PIECES>::new(), Factors::ADD);
        factors.old = u8::from(!folds.is_begin());
        while let Some(Chunk::Data(chunk)) = folds.next().filter(|_| from.len() < MAX_PIECES) {
            factors.new[from.len()] = folds.factors().0;
            from.push(buffers.at(Buffer::Scrub(chunk)).view_sectors(0, self.whole));
            folds = folds.fold();
        }
        let into = buffers.at(Buffer::ScrubSum).view_mut_sectors(0, self.whole);
        (self.folds, self.outstanding) = (Some(folds), self.outstanding + 1);
        Next::Fold(Command::Fold { from, into, factors })
    }
}
