//! Collection: what is live in a victim moves to the row that is filled.
//!
//! Invariants
//! - A block is moved only while no write of it is under way, and published only where the map
//!   still points at the place that it came from. What the host writes meanwhile is listed later.
//! - A lane goes through one strip of the victim: the list of its line says what it held (see
//!   [`super::listed`]), or else its tail. What neither says is looked for in the map, and what
//!   can't be read is given up (see [`super::losses`]).

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, Event, MetaBuf, SECTORS_PER_BLOCK, Target};
use hostftl_format::zones::{self, ENTRIES, Kind};

use super::Engine;
use super::append::{GC, HOST};
use super::layout::Layout;
use super::listed::Reader;
use super::map::At;
use super::ops::{Cx, Op};
use super::row::Row;
use crate::kit::Life;
use crate::planted::{Bug, planted};

/// Strips of the victim that are gone through side by side.
const LANES: usize = 8;
/// The most pages that one read moves.
const RUN: usize = 16;

/// What a lane is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Idle,
    /// The tail is being read.
    Tail,
    /// What is live moves.
    Moving,
}

/// One strip of the victim.
#[derive(Debug)]
pub struct Lane {
    pub phase: Phase,
    segment: u32,
    strip: u32,
    tail: Option<MetaBuf>,
    /// Blocks that may be live, with their places.
    pub items: Vec<(u64, u64)>,
    pub cursor: usize,
    outstanding: u32,
    /// Those of them that could not be read together with others.
    again: Vec<(u64, u64)>,
    /// Whether each is read for itself.
    alone: bool,
}

/// See the module text.
#[derive(Debug)]
pub struct Collection {
    /// The next strip: its column and its number.
    pub column: u32,
    strip: u32,
    pub reader: Reader,
    pub lanes: Vec<Lane>,
    /// How far the map was searched for what no tail told of.
    pub searched: u64,
    /// Whether it is left before its end.
    left: bool,
}

impl Collection {
    pub fn new(layout: &Layout) -> Self {
        let lane = || Lane {
            phase: Phase::Idle,
            segment: 0,
            strip: 0,
            tail: Some(MetaBuf::new(1)),
            items: Vec::with_capacity(ENTRIES),
            cursor: 0,
            outstanding: 0,
            again: Vec::with_capacity(ENTRIES),
            alone: false,
        };
        let lanes = (0..LANES).map(|_| lane()).collect();
        Collection {
            column: 0,
            strip: 0,
            reader: Reader::new(layout),
            lanes,
            searched: 0,
            left: false,
        }
    }
}

impl Engine {
    /// The line that is gone through.
    pub(super) fn victim(&self) -> u32 {
        self.lines.victim().expect("a victim is gone through")
    }

    /// How many pages of a row the host or collection may take: the host's share shrinks with the
    /// lines that are free while a victim is gone through.
    pub(super) fn quota(&self, who: usize) -> u32 {
        let all = self.layout.strip_blocks();
        if who != HOST || self.lines.victim().is_none() {
            return all;
        }
        let line = u64::from(self.layout.row_strips());
        let floor = u64::from(self.layout.reserve) * line;
        let free = u64::try_from(self.lines.spare_strips().max(0)).unwrap_or(0);
        let above = free.saturating_sub(floor).min(2 * line);
        let share = u64::from(all) * above / (2 * line);
        (share as u32).max(1)
    }

    pub(super) fn pump_collection(&mut self, cx: &mut Cx) -> bool {
        if self.lines.victim().is_none() {
            return self.choose_victim(cx);
        }
        let mut moved = false;
        if cx.life() == Life::Stopping {
            self.leave_rest();
        }
        for lane in 0..LANES {
            if cx.room() < 8 || cx.command_room() < 64 {
                return moved;
            }
            moved |= match self.collection.lanes[lane].phase {
                Phase::Idle => self.read_tail(lane, cx),
                Phase::Tail => false,
                Phase::Moving => self.move_some(lane, cx),
            };
        }
        moved | self.leave_victim(cx)
    }

    fn choose_victim(&mut self, cx: &mut Cx) -> bool {
        if cx.life() == Life::Stopping || !self.lines.wants_collection() {
            return false;
        }
        if self.lines.pick(self.space()).is_none() {
            return false;
        }
        cx.counters().gc_runs += 1;
        self.lent = false;
        cx.tell(Event::GcStarted);
        let it = &mut self.collection;
        (it.column, it.strip, it.searched) = (0, 0, 0);
        it.reader.begin();
        true
    }

    /// The next strip of the victim.
    fn next_strip(&mut self) -> Option<(u32, u32)> {
        let victim = self.victim();
        let it = &mut self.collection;
        while it.column < self.layout.width {
            let segment = self.layout.segment(victim, it.column);
            if it.strip < self.lines.chunk(segment).done {
                it.strip += 1;
                return Some((segment, it.strip - 1));
            }
            (it.column, it.strip) = (it.column + 1, 0);
        }
        None
    }

    fn read_tail(&mut self, lane: usize, cx: &mut Cx) -> bool {
        let victim = self.victim();
        if self.lines.at(victim).valid() == 0 {
            self.collection.column = self.layout.width;
        }
        if self.collection.column == self.layout.width {
            return false;
        }
        if self.lines.at(victim).is_listed() {
            return self.take_listed(lane, cx);
        }
        let Some((segment, strip)) = self.next_strip() else { return false };
        if self.map.is_two_way() {
            return self.take_held(lane, segment, strip, cx);
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
        cx.submit(Op::GcTail { lane: lane as u8 }, command);
        true
    }

    /// What is live in a strip, from the reverse map.
    fn take_held(&mut self, lane: usize, segment: u32, strip: u32, cx: &mut Cx) -> bool {
        let it = &mut self.collection.lanes[lane];
        (it.phase, it.cursor) = (Phase::Moving, 0);
        it.items.clear();
        for slot in 0..self.layout.strip_blocks() {
            let place = self.layout.place(segment, strip, slot);
            it.items.extend(self.map.holder(place).map(|block| (block, place)));
        }
        cx.touch(self.layout.strip_blocks() as usize);
        true
    }

    /// A tail was read: what of it is live?
    pub(super) fn gc_tail_done(
        &mut self,
        lane: usize,
        command: Command,
        result: Result<(), DeviceError>,
        cx: &mut Cx,
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
            cx.touch(entries);
        }
        it.tail = Some(buf);
    }

    /// Whether an item of a lane must still move.
    fn is_live(&self, (block, place): (u64, u64)) -> bool {
        self.map.get(block) == At::Media(place) || planted(Bug::ZonesReverseBelieved)
    }

    /// Moves the next blocks of a lane that lie side by side.
    fn move_some(&mut self, lane: usize, cx: &mut Cx) -> bool {
        let it = &self.collection.lanes[lane];
        let (cursor, items) = (it.cursor, it.items.len());
        if cursor == items {
            return self.end_lane(lane);
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
        let most = if it.alone { 1 } else { RUN };
        let run = (1..(items - cursor).min(most)).take_while(follows).count() + 1;
        let Some((row, slot, count)) = self.take(GC, run as u32) else { return false };
        for step in 0..count {
            let (block, _) = self.collection.lanes[lane].items[cursor + step as usize];
            self.list_block(row, slot + step, block, Cause::Gc);
        }
        let into = self.rows.buffer(row).view_mut(Row::byte(slot), Row::byte(count));
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
        cx.submit(op, command);
        true
    }

    /// A lane has begun all of its items: it is over, or goes on with those that failed together.
    fn end_lane(&mut self, lane: usize) -> bool {
        let it = &mut self.collection.lanes[lane];
        if it.outstanding > 0 {
            return false;
        }
        it.alone = !it.again.is_empty();
        it.items.clear();
        it.cursor = 0;
        core::mem::swap(&mut it.items, &mut it.again);
        if !it.alone {
            it.phase = Phase::Idle;
        }
        true
    }

    /// Blocks of the victim are in their row, or can't be read.
    pub(super) fn gc_read_done(
        &mut self,
        (lane, item, count): (u8, u8, u8),
        (row, slot): (u16, u8),
        command: Command,
        result: Result<(), DeviceError>,
        cx: &mut Cx,
    ) {
        let Command::Read { into: Target::Data(into), .. } = command else {
            unreachable!("a read comes back")
        };
        self.rows.buffer(row).repay_mut(into);
        self.rows.at_mut(row).pending -= u32::from(count);
        let it = &mut self.collection.lanes[lane as usize];
        it.outstanding -= 1;
        for step in 0..u32::from(count) {
            let to = u32::from(slot) + step;
            let it = &mut self.collection.lanes[lane as usize];
            let (item, alone) = (it.items[usize::from(item) + step as usize], it.alone);
            match result {
                Ok(()) if self.is_live(item) || planted(Bug::ZonesGcOverNewer) => {
                    self.publish(item.0, row, to, cx);
                }
                Ok(()) => {}
                Err(_) if alone && self.is_live(item) => self.lose(item.0, row, to, cx),
                Err(_) => {
                    self.unlist(row, to, Kind::None);
                    if !alone {
                        self.collection.lanes[lane as usize].again.push(item);
                    }
                }
            }
        }
    }

    /// What was not begun of the victim stays where it is.
    pub(super) fn leave_rest(&mut self) {
        let it = &mut self.collection;
        it.column = self.layout.width;
        for lane in &mut it.lanes {
            lane.cursor = lane.items.len();
            lane.again.clear();
        }
        it.left = true;
    }

    /// Ends with a victim when all of its strips are gone through.
    fn leave_victim(&mut self, cx: &mut Cx) -> bool {
        let victim = self.victim();
        let lanes = self.collection.lanes.iter().any(|lane| lane.phase != Phase::Idle);
        let busy = lanes || self.collection.reader.is_busy();
        let more = self.collection.column < self.layout.width && self.lines.at(victim).valid() > 0;
        if busy || more {
            return false;
        }
        let left = self.collection.left;
        if !left && self.lines.at(victim).valid() > 0 {
            assert!(self.search(cx), "what is live is in the map");
            return true;
        }
        self.collection.left = false;
        self.lines.collected(self.durability.newest());
        true
    }
}
