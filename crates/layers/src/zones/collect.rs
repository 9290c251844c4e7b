//! Collection: what is live in a victim moves to the row that is filled.
//!
//! Invariants
//! - A block is moved only while no write of it is under way, and published only where the map
//!   still points at the place that it came from. What the host writes meanwhile is listed later.
//! - A lane goes through one strip of the victim: its tail says what it held.

use alloc::vec::Vec;

use hostftl_core::{
    Cause, Command, DeviceError, Event, MetaBuf, Nanos, Out, Output, SECTORS_PER_BLOCK, Target,
};
use hostftl_format::zones::{self, ENTRIES, Kind};

use super::Zones;
use super::append::{GC, HOST};
use super::lines::NONE;
use super::map::At;
use super::ops::Op;
use super::row::Row;
use crate::planted::{Bug, planted};

/// Strips of the victim that are gone through side by side.
const LANES: usize = 8;
/// The most pages that one read moves.
const RUN: usize = 16;

/// What a lane is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Idle,
    /// The tail is being read.
    Tail,
    /// What is live moves.
    Moving,
}

/// One strip of the victim.
#[derive(Debug)]
struct Lane {
    phase: Phase,
    segment: u32,
    strip: u32,
    tail: Option<MetaBuf>,
    /// Blocks that may be live, with their places.
    items: Vec<(u64, u64)>,
    cursor: usize,
    outstanding: u32,
}

/// See the module text.
#[derive(Debug)]
pub struct Collection {
    pub victim: u32,
    /// The next strip: its column and its number.
    column: u32,
    strip: u32,
    lanes: Vec<Lane>,
    /// Whether something of the victim could not be read.
    unread: bool,
    /// Whether it is left before its end.
    left: bool,
}

impl Collection {
    pub fn new() -> Self {
        let lane = || Lane {
            phase: Phase::Idle,
            segment: 0,
            strip: 0,
            tail: Some(MetaBuf::new(1)),
            items: Vec::with_capacity(ENTRIES),
            cursor: 0,
            outstanding: 0,
        };
        let lanes = (0..LANES).map(|_| lane()).collect();
        Collection { victim: NONE, column: 0, strip: 0, lanes, unread: false, left: false }
    }

    /// Whether no victim is gone through.
    pub fn is_idle(&self) -> bool {
        self.victim == NONE
    }
}

impl Zones {
    /// Whether lines should be collected: few are free, or one has a segment that failed.
    fn wants_collection(&self) -> bool {
        let few = self.lines.spare() + self.lines.empty() < self.layout.reserve + 3;
        if few || self.lines.any_hurt() {
            return true;
        }
        if self.layout.wide {
            return false;
        }
        // rrpc: a unit has no more than a tenth of its segments free, or than there are units.
        let units = self.layout.device.units;
        let need = (self.layout.device.count / units / 10).max(units);
        let free = (0..units).map(|unit| self.lines.free_of(unit)).min().unwrap_or(0);
        free + self.lines.empty() <= need
    }

    /// How many pages of a row the host or collection may take: the host's share shrinks with the
    /// lines that are free while a victim is gone through.
    pub(super) fn quota(&self, who: usize) -> u32 {
        let all = self.layout.strip_blocks();
        if who != HOST || self.collection.is_idle() {
            return all;
        }
        let line = u64::from(self.layout.line_strips());
        let floor = u64::from(self.layout.reserve) * line;
        let free = u64::try_from(self.lines.spare_strips().max(0)).unwrap_or(0);
        let above = free.saturating_sub(floor).min(2 * line);
        let share = u64::from(all) * above / (2 * line);
        (share as u32).max(1)
    }

    pub(super) fn pump_collection(&mut self, now: Nanos, out: &mut Out) -> bool {
        if self.collection.is_idle() {
            return self.choose_victim(out);
        }
        let mut moved = false;
        if self.life == super::Life::Stopping {
            self.leave_rest();
        }
        for lane in 0..LANES {
            if out.room() < 8 || self.ops.room() < 64 {
                return moved;
            }
            moved |= match self.collection.lanes[lane].phase {
                Phase::Idle => self.read_tail(now, lane, out),
                Phase::Tail => false,
                Phase::Moving => self.move_some(now, lane, out),
            };
        }
        moved | self.leave_victim()
    }

    fn choose_victim(&mut self, out: &mut Out) -> bool {
        if self.life == super::Life::Stopping || !self.wants_collection() {
            return false;
        }
        let Some(victim) = self.lines.pick(self.space()) else { return false };
        self.counters.gc_runs += 1;
        out.push(Output::Event(Event::GcStarted));
        let it = &mut self.collection;
        (it.victim, it.column, it.strip, it.unread) = (victim, 0, 0, false);
        true
    }

    /// The next strip of the victim.
    fn next_strip(&mut self) -> Option<(u32, u32)> {
        let it = &mut self.collection;
        while it.column < self.layout.width {
            let segment = self.layout.segment(it.victim, it.column);
            if it.strip < self.lines.chunks.at(segment).done {
                it.strip += 1;
                return Some((segment, it.strip - 1));
            }
            (it.column, it.strip) = (it.column + 1, 0);
        }
        None
    }

    fn read_tail(&mut self, now: Nanos, lane: usize, out: &mut Out) -> bool {
        let victim = self.collection.victim;
        if self.lines.at(victim).live == 0 {
            self.collection.column = self.layout.width;
        }
        let Some((segment, strip)) = self.next_strip() else { return false };
        if self.map.is_two_way() {
            return self.take_held(lane, segment, strip);
        }
        let it = &mut self.collection.lanes[lane];
        (it.phase, it.segment, it.strip) = (Phase::Tail, segment, strip);
        let buf = it.tail.take().expect("an idle lane has its buffer");
        let command = Command::Read {
            device: 0,
            lba: self.layout.tail_at(segment, strip),
            into: Target::Meta { buf, pages: 1 },
            cause: Cause::Gc,
        };
        self.submit(now, Op::GcTail { lane: lane as u8 }, command, out);
        true
    }

    /// What is live in a strip, from the reverse map.
    fn take_held(&mut self, lane: usize, segment: u32, strip: u32) -> bool {
        let it = &mut self.collection.lanes[lane];
        (it.phase, it.cursor) = (Phase::Moving, 0);
        it.items.clear();
        for slot in 0..self.layout.strip_blocks() {
            let place = self.layout.place(segment, strip, slot);
            it.items.extend(self.map.holder(place).map(|block| (block, place)));
        }
        self.touched += self.layout.strip_blocks() as usize;
        true
    }

    /// A tail was read: what of it is live?
    pub(super) fn gc_tail_done(
        &mut self,
        lane: usize,
        command: Command,
        result: Result<(), DeviceError>,
    ) {
        let Command::Read { into: Target::Meta { buf, .. }, .. } = command else {
            unreachable!("a tail comes back")
        };
        let it = &mut self.collection.lanes[lane];
        it.phase = Phase::Moving;
        it.items.clear();
        it.cursor = 0;
        let (segment, strip) = (it.segment, it.strip);
        let page = &buf.pages()[0];
        let tail = zones::open(page, &self.uuid, self.layout.tail_at(segment, strip));
        if let Some(tail) = tail.filter(|_| result.is_ok()) {
            let entries = usize::from(tail.entries);
            for entry in (0..entries).filter_map(|index| zones::entry(page, index)) {
                let place = self.layout.place(segment, strip, entry.value);
                let data = entry.kind == Kind::Data && entry.block < self.map.len();
                if data && self.map.get(entry.block) == At::Media(place) {
                    it.items.push((entry.block, place));
                }
            }
            self.touched += entries;
        }
        it.tail = Some(buf);
        self.collection.unread |= result.is_err();
    }

    /// Whether an item of a lane must still move.
    fn is_live(&self, (block, place): (u64, u64)) -> bool {
        self.map.get(block) == At::Media(place)
    }

    /// Moves the next blocks of a lane that lie side by side.
    fn move_some(&mut self, now: Nanos, lane: usize, out: &mut Out) -> bool {
        let it = &self.collection.lanes[lane];
        let (cursor, items) = (it.cursor, it.items.len());
        if cursor == items {
            let over = it.outstanding == 0;
            if over {
                self.collection.lanes[lane].phase = Phase::Idle;
            }
            return over;
        }
        let item = it.items[cursor];
        if !self.is_live(item) {
            self.collection.lanes[lane].cursor += 1;
            return true;
        }
        if self.blocks.any_write_in(item.0, item.0 + 1) {
            return false; // It has its room, so it ends soon, and most likely the block is dead.
        }
        let follows = |step: &usize| {
            let next = self.collection.lanes[lane].items[cursor + step];
            next.1 == item.1 + *step as u64
                && self.is_live(next)
                && !self.blocks.any_write_in(next.0, next.0 + 1)
        };
        let run = (1..(items - cursor).min(RUN)).take_while(follows).count() + 1;
        let Some((row, slot, count)) = self.take(GC, run as u32) else { return false };
        for step in 0..count {
            let (block, _) = self.collection.lanes[lane].items[cursor + step as usize];
            self.list_block(row, slot + step, block, Cause::Gc);
        }
        let into = self.buffers[row as usize].view_mut(Row::byte(slot), Row::byte(count));
        let command = Command::Read {
            device: 0,
            lba: item.1 * u64::from(SECTORS_PER_BLOCK),
            into: Target::Data(into),
            cause: Cause::Gc,
        };
        let it = &mut self.collection.lanes[lane];
        it.cursor += count as usize;
        it.outstanding += 1;
        let (item, count) = (cursor as u8, count as u8);
        let op = Op::GcRead { lane: lane as u8, item, count, row, slot: slot as u8 };
        self.submit(now, op, command, out);
        true
    }

    /// Blocks of the victim are in their row, or can't be read.
    pub(super) fn gc_read_done(
        &mut self,
        (lane, item, count): (u8, u8, u8),
        (row, slot): (u16, u8),
        command: Command,
        result: Result<(), DeviceError>,
    ) {
        let Command::Read { into: Target::Data(into), .. } = command else {
            unreachable!("a read comes back")
        };
        self.buffers[row as usize].repay_mut(into);
        self.rows[row as usize].pending -= u32::from(count);
        self.collection.lanes[lane as usize].outstanding -= 1;
        for step in 0..u32::from(count) {
            let to = u32::from(slot) + step;
            let index = usize::from(item) + step as usize;
            let item = self.collection.lanes[lane as usize].items[index];
            if result.is_err() {
                self.collection.unread = true;
                let row = &mut self.rows[row as usize];
                let mut entries = row.entries.iter_mut();
                let entry = entries.find(|it| it.kind == Kind::Data && it.value == to);
                entry.expect("the block was listed").kind = Kind::None;
            } else if self.is_live(item) || planted(Bug::ZonesGcOverNewer) {
                self.publish(item.0, row, to);
            }
        }
    }

    /// What was not begun of the victim stays where it is.
    pub(super) fn leave_rest(&mut self) {
        let it = &mut self.collection;
        it.column = self.layout.width;
        it.lanes.iter_mut().for_each(|lane| lane.cursor = lane.items.len());
        it.left = true;
    }

    /// Ends with a victim when all of its strips are gone through.
    fn leave_victim(&mut self) -> bool {
        let victim = self.collection.victim;
        let busy = self.collection.lanes.iter().any(|lane| lane.phase != Phase::Idle);
        let more = self.collection.column < self.layout.width && self.lines.at(victim).live > 0;
        if busy || more {
            return false;
        }
        self.collection.victim = NONE;
        let left = core::mem::take(&mut self.collection.left);
        let unread = self.collection.unread && !left && self.lines.at(victim).live > 0;
        self.lines.collected(victim, self.seqs, unread);
        if unread {
            self.worn = self.lines.capacity() < self.layout.blocks;
        }
        true
    }
}
