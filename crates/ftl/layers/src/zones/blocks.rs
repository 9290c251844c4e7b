//! Parts of reads and writes.
//!
//! Invariants
//! - At most one write per block is in flight, so that the order of entries is the order of
//!   versions.
//! - A read pins its line, or borrows from the row that it reads, until it completes.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, HostError, Piece, SECTORS_PER_BLOCK, Target};
use hostftl_format::zones::Kind as EntryKind;

use super::layout::Layout;
use super::lines::Who;
use super::map::{At, Map};
use super::ops::{Cx, Op};
use super::row::Row;
use super::store::Store;
use crate::kit::requests::Kind;

/// Maximum number of writes in flight.
const WRITES: usize = 64;
/// Commands reserved for anything but reads.
const OWN_OPS: usize = 512;
const BLOCK_SECTORS: u64 = SECTORS_PER_BLOCK as u64;

/// A write of consecutive blocks into a row.
#[derive(Clone, Copy, Debug)]
struct Write {
    req: u16,
    block: u64,
    count: u32,
    row: u16,
    slot: u32,
    /// Part of the host: first sector in the first block, length, and first sector in its buffer.
    from: u32,
    sectors: u32,
    at: u32,
    /// Whether the old content of the block is still being copied into the row, and the line from
    /// which it is read.
    filling: bool,
    line: Option<u32>,
}

/// Writes in flight.
#[derive(Debug)]
pub(super) struct Blocks {
    layout: Layout,
    list: Vec<Option<Write>>,
}

impl Blocks {
    /// Creates the state without writes.
    pub(super) fn new(layout: &Layout) -> Self {
        Blocks { layout: *layout, list: alloc::vec![None; WRITES] }
    }

    /// Returns whether a block in `first..end` is being written.
    pub(super) fn any_write_in(&self, first: u64, end: u64) -> bool {
        self.list
            .iter()
            .flatten()
            .any(|it| it.block < end && first < it.block + u64::from(it.count))
    }

    /// Returns whether no write is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.list.iter().all(Option::is_none)
    }
}

impl Blocks {
    /// Begins to read up to `sectors` from sector `from` on, as far as one command reaches. Returns
    /// false if it must wait.
    pub(super) fn begin_read(
        &self,
        req: u16,
        (from, sectors): (u64, u32),
        store: &mut Store,
        cx: &mut Cx,
    ) -> bool {
        if cx.commands_left() <= OWN_OPS {
            return false;
        }
        let (block, skip) = (from / BLOCK_SECTORS, (from % BLOCK_SECTORS) as u32);
        let most = (skip + sectors).div_ceil(SECTORS_PER_BLOCK);
        let (at, run) = self.run_at(block, most, &store.map, cx);
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
                let view = store.buffer(row).view_sectors(from, sectors);
                let command = Command::Place { from: Piece::Data(view), into };
                cx.submit(Op::Read { req, line: None }, command);
            }
            At::Media(place) => {
                let line = self.layout.line(self.layout.segment_at(place));
                // The line must not be reset during the read.
                store.lines.at_mut(line).pin();
                let command = Command::Read {
                    device: 0,
                    lba: place * BLOCK_SECTORS + u64::from(skip),
                    into: Target::Data(into),
                    cause: Cause::Host,
                };
                cx.submit(Op::Read { req, line: Some(line) }, command);
            }
            At::Lost => unreachable!("the read is empty"),
        }
        true
    }

    /// Returns the location of a block, and the number of blocks, at most `most`, that continue it.
    fn run_at(&self, block: u64, most: u32, map: &Map, cx: &mut Cx) -> (At, u32) {
        let at = map.get(block);
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
            map.get(block + u64::from(step)) == expected
        };
        let run = (1..limit).find(|step| !follows(*step)).unwrap_or(limit);
        cx.touch(run as usize + 1);
        (at, run)
    }

    /// Completes a part of a read.
    pub(super) fn read_done(
        &self,
        (req, line): (u16, Option<u32>),
        (command, ok): (Command, bool),
        store: &mut Store,
        cx: &mut Cx,
    ) {
        if let Some(line) = line {
            store.lines.at_mut(line).unpin();
        }
        let into = match command {
            Command::Read { into: Target::Data(into), .. } => into,
            Command::Place { from, into } => {
                store.repay(from);
                into
            }
            other => unreachable!("{other:?} is not a part of a read"),
        };
        cx.requests().data(req).repay_mut(into);
        part_over(req, ok, store, cx);
    }

    /// Begins a part of a write, or of a trim that does not fill its block. Returns false if it
    /// must wait.
    pub(super) fn begin_write(
        &mut self,
        req: u16,
        (from, sectors): (u64, u32),
        store: &mut Store,
        cx: &mut Cx,
    ) -> bool {
        let (block, skip) = (from / BLOCK_SECTORS, (from % BLOCK_SECTORS) as u32);
        let want = sectors.div_ceil(SECTORS_PER_BLOCK);
        let whole = sectors.is_multiple_of(SECTORS_PER_BLOCK);
        // Two writes of a block could complete in either order, but their entries have one order.
        if self.any_write_in(block, block + u64::from(want)) || cx.commands_left() < 8 {
            return false;
        }
        if !whole && store.map.get(block) == At::Lost {
            // The rest of the block is unreadable, so only a write of the whole block is possible.
            let active = cx.request(req);
            active.cursor += u64::from(sectors);
            active.error = Some(HostError::Io);
            return true;
        }
        // The slot comes first: pages that were taken can't be returned to a row.
        let Some(index) = self.list.iter().position(Option::is_none) else { return false };
        // The block is listed now and published later: a row is not sent before all its pages are
        // there.
        let Some((row, slot, count)) = store.take(Who::Host, want) else { return false };
        store.list(row, slot, block.., count, Cause::Host);
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
        self.list[index] = Some(write);
        if whole {
            self.give(index as u8, store, cx)
        } else {
            self.fill_rest(index as u8, store, cx)
        }
        true
    }

    /// Copies the old content of a partly written block into the row.
    fn fill_rest(&mut self, index: u8, store: &mut Store, cx: &mut Cx) {
        let write = self.list[index as usize].as_mut().expect("a write in progress");
        let (row, at) = (write.row, store.map.get(write.block));
        let to = Row::byte(write.slot);
        let bytes = Row::byte(1);
        let into = store.buffer(row).view_mut(to, bytes);
        let command = match at {
            At::Nowhere => Command::Place { from: Piece::Zeros(bytes), into },
            At::Row { row: other, slot } => {
                let view = store.buffer(other).view(Row::byte(slot.into()), bytes);
                Command::Place { from: Piece::Data(view), into }
            }
            At::Media(place) => {
                let line = self.layout.line(self.layout.segment_at(place));
                store.lines.at_mut(line).pin();
                write.line = Some(line);
                let (lba, into) = (place * BLOCK_SECTORS, Target::Data(into));
                Command::Read { device: 0, lba, into, cause: Cause::Host }
            }
            At::Lost => unreachable!("a lost block is not written in part"),
        };
        cx.submit(Op::Write { index }, command);
    }

    /// Copies the host's data, or zeros for a trim, into the row.
    fn give(&self, index: u8, store: &mut Store, cx: &mut Cx) {
        let write = self.list[index as usize].expect("a write in progress");
        let to = write.slot * SECTORS_PER_BLOCK + write.from;
        let into = store.buffer(write.row).view_mut_sectors(to, write.sectors);
        let from = match cx.request(write.req).kind {
            Kind::Write => {
                Piece::Data(cx.requests().data(write.req).view_sectors(write.at, write.sectors))
            }
            _ => Piece::zero_sectors(write.sectors),
        };
        cx.submit(Op::Write { index }, Command::Place { from, into });
    }

    /// Completes a step of a write.
    pub(super) fn write_done(
        &mut self,
        index: u8,
        (command, ok): (Command, bool),
        store: &mut Store,
        cx: &mut Cx,
    ) {
        let write = self.list[index as usize].take().expect("a write in progress");
        let into = match command {
            Command::Read { into: Target::Data(into), .. } => into,
            Command::Place { from, into } => {
                match from {
                    Piece::Data(view) if !write.filling => {
                        cx.requests().data(write.req).repay(view)
                    }
                    from => store.repay(from),
                }
                into
            }
            other => unreachable!("{other:?} is not a step of a write"),
        };
        store.buffer(write.row).repay_mut(into);
        if let Some(line) = write.line {
            store.lines.at_mut(line).unpin();
        }
        // The old content is in the row; now the host's sectors overwrite their part of it.
        if write.filling && ok {
            self.list[index as usize] = Some(Write { filling: false, line: None, ..write });
            return self.give(index, store, cx);
        }
        store.filled(write.row, write.count);
        if ok {
            for (slot, block) in (write.slot..).zip(write.block..).take(write.count as usize) {
                store.publish(block, (write.row, slot), cx);
            }
            store.note_host(write.row);
        } else {
            // Only the read of old content can fail, and a partial write is one block.
            store.unlist(write.row, write.slot, EntryKind::None);
        }
        part_over(write.req, ok, store, cx);
    }
}

/// Completes a part of a request.
fn part_over(req: u16, ok: bool, store: &mut Store, cx: &mut Cx) {
    cx.requests().part_over(req, ok);
    store.durability.complete_if_over(req, cx);
}
