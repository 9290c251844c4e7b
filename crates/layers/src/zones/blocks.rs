//! Reads and writes, part by part.
//!
//! Invariants
//! - At most one write of a block is under way, so that the order of entries is the order of
//!   versions.
//! - A read holds its line, or the row that it reads from, until it is over.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, HostError, Piece, SECTORS_PER_BLOCK, Target};
use hostftl_format::zones::Kind as EntryKind;

use super::Engine;
use super::append::HOST;
use super::map::At;
use super::ops::{Cx, Op};
use super::row::Row;
use crate::kit::requests::Kind;

/// Writes under way at once.
const WRITES: usize = 64;
/// Commands kept for what is no read.
const OWN_OPS: usize = 512;
const BLOCK_SECTORS: u64 = SECTORS_PER_BLOCK as u64;

/// A write of some blocks into a row.
#[derive(Clone, Copy, Debug)]
struct Write {
    req: u16,
    block: u64,
    count: u32,
    row: u16,
    slot: u32,
    /// The host's part: first sector in the first block, length, and where in the host's buffer.
    from: u32,
    sectors: u32,
    at: u32,
    /// Whether the rest of the block is still on its way into the row; with the line it is read
    /// from.
    filling: bool,
    line: Option<u32>,
}

/// The writes under way.
#[derive(Debug)]
pub struct Blocks {
    list: Vec<Option<Write>>,
}

impl Blocks {
    pub fn new() -> Self {
        Blocks { list: alloc::vec![None; WRITES] }
    }

    /// Whether a block in `first..end` is being written.
    pub fn any_write_in(&self, first: u64, end: u64) -> bool {
        self.list
            .iter()
            .flatten()
            .any(|it| it.block < end && first < it.block + u64::from(it.count))
    }

    /// Whether nothing is under way.
    pub fn is_idle(&self) -> bool {
        self.list.iter().all(Option::is_none)
    }
}

impl Engine {
    /// Begins to read at most `sectors` from sector `from` on: as far as one command goes.
    pub(super) fn begin_read(
        &mut self,
        req: u16,
        (from, sectors): (u64, u32),
        cx: &mut Cx,
    ) -> bool {
        if cx.command_room() <= OWN_OPS {
            return false;
        }
        let (block, skip) = (from / BLOCK_SECTORS, (from % BLOCK_SECTORS) as u32);
        let most = (skip + sectors).div_ceil(SECTORS_PER_BLOCK);
        let (at, run) = self.run_of(block, most, cx);
        let sectors = sectors.min(run * SECTORS_PER_BLOCK - skip);
        let active = cx.request(req);
        let to = active.cursor as u32;
        active.cursor += u64::from(sectors);
        if at == At::Lost {
            active.error = Some(HostError::Io);
            return true;
        }
        active.outstanding += 1;
        let into = cx.requests().data(req).view_mut_sectors(to, sectors);
        match at {
            At::Nowhere => {
                let command = Command::Place { from: Piece::zero_sectors(sectors), into };
                cx.submit(Op::Read { req, line: None }, command);
            }
            At::Row { row, slot } => {
                let from = u32::from(slot) * SECTORS_PER_BLOCK + skip;
                let view = self.rows.buffer(row).view_sectors(from, sectors);
                let command = Command::Place { from: Piece::Data(view), into };
                cx.submit(Op::Read { req, line: None }, command);
            }
            At::Media(place) => {
                let line = self.layout.line(self.layout.segment_of(place));
                self.lines.pin(line);
                let command = Command::Read {
                    device: 0,
                    lba: place * BLOCK_SECTORS + u64::from(skip),
                    into: Target::Data(into),
                    cause: Cause::Host,
                };
                cx.submit(Op::Read { req, line: Some(line) }, command);
            }
            At::Lost => unreachable!("there is nothing to read"),
        }
        true
    }

    /// Where a block is, and how many from there on follow it in one piece, at most `most`.
    fn run_of(&mut self, block: u64, most: u32, cx: &mut Cx) -> (At, u32) {
        let at = self.map.get(block);
        let limit = match at {
            At::Nowhere | At::Lost => most,
            At::Row { slot, .. } => most.min(self.layout.strip_blocks() - u32::from(slot)),
            At::Media(place) => most.min(self.layout.left_in_strip(place)),
        };
        let follows = |step: u32| {
            let expected = match at {
                At::Nowhere | At::Lost => at,
                At::Row { row, slot } => At::Row { row, slot: slot + step as u8 },
                At::Media(place) => At::Media(place + u64::from(step)),
            };
            self.map.get(block + u64::from(step)) == expected
        };
        let run = (1..limit).find(|step| !follows(*step)).unwrap_or(limit);
        cx.touch(run as usize + 1);
        (at, run)
    }

    /// A part of a read is over.
    pub(super) fn read_done(
        &mut self,
        (req, line): (u16, Option<u32>),
        command: Command,
        result: Result<(), DeviceError>,
        cx: &mut Cx,
    ) {
        if let Some(line) = line {
            self.lines.unpin(line);
        }
        let into = match command {
            Command::Read { into: Target::Data(into), .. } => into,
            Command::Place { from, into } => {
                self.rows.repay(from);
                into
            }
            other => unreachable!("{other:?} is no part of a read"),
        };
        cx.requests().data(req).repay_mut(into);
        self.part_over(req, result.is_ok(), cx);
    }

    fn part_over(&mut self, req: u16, well: bool, cx: &mut Cx) {
        cx.requests().part_over(req, well);
        self.complete_if_over(req, cx);
    }

    /// Begins a part of a write, or of a trim that does not fill its block; false when it must
    /// wait.
    pub(super) fn begin_write(
        &mut self,
        req: u16,
        (from, sectors): (u64, u32),
        cx: &mut Cx,
    ) -> bool {
        let (block, skip) = (from / BLOCK_SECTORS, (from % BLOCK_SECTORS) as u32);
        let want = sectors.div_ceil(SECTORS_PER_BLOCK);
        let whole = sectors.is_multiple_of(SECTORS_PER_BLOCK);
        if self.blocks.any_write_in(block, block + u64::from(want)) || cx.command_room() < 8 {
            return false;
        }
        if !whole && self.map.get(block) == At::Lost {
            // The rest of the block can't be had: only a whole block may be written.
            let active = cx.request(req);
            active.cursor += u64::from(sectors);
            active.error = Some(HostError::Io);
            return true;
        }
        let Some(index) = self.blocks.list.iter().position(Option::is_none) else { return false };
        let Some((row, slot, count)) = self.take(HOST, want) else { return false };
        for step in 0..count {
            self.list_block(row, slot + step, block + u64::from(step), Cause::Host);
        }
        let sectors = sectors.min(count * SECTORS_PER_BLOCK);
        let active = cx.request(req);
        let at = active.cursor as u32;
        active.cursor += u64::from(sectors);
        active.outstanding += 1;
        let write = Write {
            req,
            block,
            count,
            row,
            slot,
            from: skip,
            sectors,
            at,
            filling: !whole,
            line: None,
        };
        self.blocks.list[index] = Some(write);
        match whole {
            true => self.give(index as u8, cx),
            false => self.fill_rest(index as u8, cx),
        }
        true
    }

    /// Brings the old content of a block that is written in part.
    fn fill_rest(&mut self, index: u8, cx: &mut Cx) {
        let write = self.blocks.list[index as usize].as_mut().expect("a write under way");
        let (row, at) = (write.row, self.map.get(write.block));
        let to = Row::byte(write.slot);
        let bytes = Row::byte(1);
        let into = self.rows.buffer(row).view_mut(to, bytes);
        let command = match at {
            At::Nowhere => Command::Place { from: Piece::Zeros(bytes), into },
            At::Row { row: other, slot } => {
                let view = self.rows.buffer(other).view(Row::byte(slot.into()), bytes);
                Command::Place { from: Piece::Data(view), into }
            }
            At::Media(place) => {
                let line = self.layout.line(self.layout.segment_of(place));
                self.lines.pin(line);
                write.line = Some(line);
                let (lba, into) = (place * BLOCK_SECTORS, Target::Data(into));
                Command::Read { device: 0, lba, into, cause: Cause::Host }
            }
            At::Lost => unreachable!("a block that is lost is not written in part"),
        };
        cx.submit(Op::Write { index }, command);
    }

    /// Copies the host's part, or zeros, into the row.
    fn give(&mut self, index: u8, cx: &mut Cx) {
        let write = self.blocks.list[index as usize].expect("a write under way");
        let to = write.slot * SECTORS_PER_BLOCK + write.from;
        let into = self.rows.buffer(write.row).view_mut_sectors(to, write.sectors);
        let from = match cx.request(write.req).kind {
            Kind::Write => {
                Piece::Data(cx.requests().data(write.req).view_sectors(write.at, write.sectors))
            }
            _ => Piece::zero_sectors(write.sectors),
        };
        cx.submit(Op::Write { index }, Command::Place { from, into });
    }

    /// A step of a write is over.
    pub(super) fn write_done(
        &mut self,
        index: u8,
        command: Command,
        result: Result<(), DeviceError>,
        cx: &mut Cx,
    ) {
        let write = self.blocks.list[index as usize].expect("a write under way");
        let filled = write.filling;
        let into = match command {
            Command::Read { into: Target::Data(into), .. } => into,
            Command::Place { from, into } => {
                match from {
                    Piece::Data(view) if !filled => cx.requests().data(write.req).repay(view),
                    from => self.rows.repay(from),
                }
                into
            }
            other => unreachable!("{other:?} is no step of a write"),
        };
        self.rows.buffer(write.row).repay_mut(into);
        if let Some(line) = write.line {
            self.lines.unpin(line);
        }
        if filled && result.is_ok() {
            let filled = Write { filling: false, line: None, ..write };
            self.blocks.list[index as usize] = Some(filled);
            return self.give(index, cx);
        }
        self.blocks.list[index as usize] = None;
        self.rows.at_mut(write.row).pending -= write.count;
        if result.is_err() {
            self.unlist(write.row, write.slot, EntryKind::None);
        } else {
            for step in 0..write.count {
                let block = write.block + u64::from(step);
                self.publish(block, write.row, write.slot + step, cx);
            }
            self.durability.note_host(self.rows.at(write.row).seq);
        }
        self.part_over(write.req, result.is_ok(), cx);
    }
}
