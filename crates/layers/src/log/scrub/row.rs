//! What is checked of one row: its records, then its parity.

use alloc::vec::Vec;

use hostftl_core::{Command, Few, MAX_PIECES, MetaBuf, SECTOR, View};
use hostftl_format::log::{self, Head, Kind, seed};

use crate::log::buffers::{Buffer, Buffers};
use crate::log::layout::{At, Layout};
use crate::log::stripe::Stripe;

/// A record that the head lists.
#[derive(Clone, Copy, Debug)]
struct Record {
    chunk: u8,
    /// The first byte in the buffer of its chunk.
    byte: u32,
    len: u32,
    crc: u32,
    seed: u64,
}

/// The next thing to be computed.
#[derive(Debug)]
pub enum Next {
    /// A record's checksum.
    Record(u16, Command),
    /// Chunks are folded together.
    Fold(Command),
    /// The checksum of what parity should be, or of what it is.
    Sum(u8, Command),
    /// Something that is under way must be over first.
    Wait,
    /// The row was checked.
    Over,
}

/// See the module text.
#[derive(Debug)]
pub struct Check {
    records: Vec<Record>,
    /// The next record.
    cursor: usize,
    /// Data chunks, and the sectors of the first and of the last of them.
    chunks: u32,
    first: u32,
    last: u32,
    /// The sectors that each chunk has where parity is of all.
    whole: u32,
    has_parity: bool,
    width: u32,
    /// The chunks that were read, as a set of bits; the parity is behind the widest row's last.
    here: u32,
    /// Chunks that are folded together so far.
    folded: u32,
    /// Checksums of what parity should be and of what it is: asked for, and come.
    asked: u8,
    sums: [Option<u32>; 2],
    /// Commands under way.
    outstanding: u32,
    is_wrong: bool,
}

impl Check {
    /// Of no row yet.
    pub fn new(layout: &Layout) -> Self {
        Check {
            records: Vec::with_capacity(layout.head_entries(true) as usize),
            cursor: 0,
            chunks: 0,
            first: 0,
            last: 0,
            whole: 0,
            has_parity: layout.parity,
            width: layout.width(),
            here: 0,
            folded: 0,
            asked: 0,
            sums: [None; 2],
            outstanding: 0,
            is_wrong: false,
        }
    }

    /// Begins with a row. `is_wrong` is whether its head had to be rebuilt.
    pub fn begin(
        &mut self,
        (head, buf): (&Head, &MetaBuf),
        (layout, at, stripe): (&Layout, At, Stripe),
        uuid: &[u8; 16],
        is_wrong: bool,
    ) {
        let chunks = u32::from(head.chunks);
        self.records.clear();
        for entry in (0..head.entries).filter_map(|index| log::entry(buf, index)) {
            let seed = match entry.kind {
                Kind::Data => seed(entry.block, entry.place.generation()),
                Kind::Trim => continue,
                Kind::Map | Kind::Directory | Kind::Counts => log::page_seed(uuid),
            };
            let chunk = stripe.chunk_on(at.segment, at.slot, entry.place.device());
            let byte = entry.place.byte().checked_sub(layout.lba(at) * SECTOR as u64);
            let (Some(chunk), Some(byte)) = (chunk, byte) else { continue };
            let (len, crc) = (entry.place.len(), entry.crc);
            if byte + u64::from(len) <= u64::from(layout.chunk) * SECTOR as u64 {
                self.records.push(Record { chunk, byte: byte as u32, len, crc, seed });
            }
        }
        (self.chunks, self.first, self.last) = (chunks, head.first_sectors, head.last_sectors);
        self.whole = if chunks > 1 { layout.chunk } else { head.first_sectors };
        (self.cursor, self.here, self.folded, self.asked) = (0, 0, 0, 0);
        (self.sums, self.outstanding, self.is_wrong) = ([None; 2], 0, is_wrong);
    }

    /// What is to be read: data chunks, and after them the parity; each with its sectors.
    pub fn reads(&self) -> impl Iterator<Item = (u8, u32)> + use<> {
        let (chunks, first, last, whole) = (self.chunks, self.first, self.last, self.whole);
        let (parity, width) = (self.has_parity, self.width as u8);
        let sectors = move |chunk: u32| match chunk {
            _ if parity || chunk + 1 < chunks => whole,
            0 => first,
            _ => last,
        };
        let data = (0..chunks).map(move |chunk| (chunk as u8, sectors(chunk)));
        data.chain(parity.then_some((width, whole)))
    }

    /// Whether a chunk is the parity.
    pub fn is_parity(&self, chunk: u8) -> bool {
        u32::from(chunk) == self.width
    }

    /// A command was sent.
    pub fn sent(&mut self) {
        self.outstanding += 1;
    }

    /// A chunk was read, or can't be. Whether all are here or gone.
    pub fn was_read(&mut self, chunk: u8, is_here: bool, is_wrong: bool) -> bool {
        self.here |= u32::from(is_here) << chunk;
        self.is_wrong |= is_wrong;
        self.outstanding -= 1;
        self.outstanding == 0
    }

    /// A record has this checksum.
    pub fn has_crc(&mut self, record: u16, crc: u32) {
        self.is_wrong |= self.records[usize::from(record)].crc != crc;
        self.outstanding -= 1;
    }

    /// Chunks are folded together.
    pub fn was_folded(&mut self) {
        self.outstanding -= 1;
    }

    /// What parity should be, or is, has this checksum.
    pub fn has_sum(&mut self, which: u8, crc: u32) {
        self.sums[usize::from(which)] = Some(crc);
        self.outstanding -= 1;
        if let [Some(should), Some(is)] = self.sums {
            self.is_wrong |= should != is;
        }
    }

    /// Whether anything is under way.
    pub fn is_idle(&self) -> bool {
        self.outstanding == 0
    }

    /// Whether the row is not as it should be.
    pub fn is_wrong(&self) -> bool {
        self.is_wrong
    }

    /// Bytes that were read of it.
    pub fn bytes(&self) -> u64 {
        self.reads().map(|(_, sectors)| u64::from(sectors) * SECTOR as u64).sum()
    }

    fn is_here(&self, chunk: u32) -> bool {
        self.here >> chunk & 1 == 1
    }

    /// What comes next.
    pub fn next(&mut self, buffers: &mut Buffers) -> Next {
        while let Some(&Record { chunk, byte, len, seed, .. }) = self.records.get(self.cursor) {
            self.cursor += 1;
            if self.is_here(chunk.into()) {
                let from = buffers.at(Buffer::Scrub(chunk)).view(byte, len);
                self.outstanding += 1;
                return Next::Record(self.cursor as u16 - 1, Command::Digest { from, seed });
            }
        }
        if self.outstanding > 0 {
            return Next::Wait;
        }
        let all = (0..self.chunks).all(|chunk| self.is_here(chunk));
        if !self.has_parity || self.is_wrong || !all || !self.is_here(self.width) {
            return Next::Over;
        }
        if self.chunks > 1 && self.folded < self.chunks {
            return self.fold(buffers);
        }
        if self.asked == 2 {
            return Next::Over;
        }
        // One chunk has itself once more as its parity.
        let should = if self.chunks > 1 { Buffer::ScrubSum } else { Buffer::Scrub(0) };
        let buffer = if self.asked == 0 { should } else { Buffer::Scrub(self.width as u8) };
        let from = buffers.at(buffer).view_sectors(0, self.whole);
        let which = self.asked;
        (self.asked, self.outstanding) = (which + 1, self.outstanding + 1);
        Next::Sum(which, Command::Digest { from, seed: 0 })
    }

    fn fold(&mut self, buffers: &mut Buffers) -> Next {
        let end = self.chunks.min(self.folded + MAX_PIECES as u32);
        let mut from = Few::<View, MAX_PIECES>::new();
        for chunk in self.folded..end {
            from.push(buffers.at(Buffer::Scrub(chunk as u8)).view_sectors(0, self.whole));
        }
        let into = buffers.at(Buffer::ScrubSum).view_mut_sectors(0, self.whole);
        let keep = self.folded > 0;
        (self.folded, self.outstanding) = (end, self.outstanding + 1);
        Next::Fold(Command::Fold { from, into, keep })
    }
}
