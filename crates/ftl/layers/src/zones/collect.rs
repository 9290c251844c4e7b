//! Garbage collection: moves the valid blocks of a victim to the current row.
//!
//! Invariants
//! - A block is moved only while no write of it is in flight, and published only if the map still
//!   points at its old place. Data that the host writes in the meantime is listed later.
//! - A lane processes one strip of the victim. Its contents come from the list of the line (see
//!   [`super::listed`]) or from its tail. Blocks in neither are found by a search of the map.
//! - A block is lost only if it was read by itself and the device reported a media error. The loss
//!   is listed in a row, like a trim. The line with that row is kept until a root starts after it.

use hostftl_core::{Cause, Command, Event, SECTORS_PER_BLOCK, Target};
use hostftl_format::zones::{self, ENTRIES, Kind};

use super::blocks::Blocks;
use super::lane::{Item, Lane, Phase};
use super::layout::Layout;
use super::lines::{Lines, Who};
use super::listed::{Reader, Told};
use super::map::{At, Map};
use super::ops::{Cx, Moved, Op};
use super::row::Row;
use super::store::Store;
use crate::kit::Life;
use crate::kit::metabuf::into_meta;
use crate::planted::{Bug, planted};

/// Strips of the victim that are processed concurrently.
const LANES: usize = 8;
/// Maximum number of pages per read.
const RUN: usize = 16;
/// Map entries examined per call.
const SEARCHED: u64 = 16_384;

/// State of the current collection.
#[derive(Debug)]
pub(super) struct Collection {
    layout: Layout,
    /// Column and number of the next strip of the victim.
    column: u32,
    strip: u32,
    reader: Reader,
    lanes: [Lane; LANES],
    /// Position of the search of the map for blocks that no tail lists.
    searched: u64,
    /// Whether the victim is abandoned before its end.
    leaves: bool,
}

/// Returns whether a block is still at the place where it was listed.
fn is_valid((block, place): Item, map: &Map) -> bool {
    map.get(block) == At::Media(place) || planted(Bug::ZonesReverseBelieved)
}

impl Collection {
    /// Creates the state without a victim.
    pub(super) fn new(layout: &Layout) -> Self {
        Collection {
            layout: *layout,
            column: 0,
            strip: 0,
            reader: Reader::new(layout),
            lanes: core::array::from_fn(|_| Lane::new()),
            searched: 0,
            leaves: false,
        }
    }

    /// Advances the collection of the victim, or chooses one. Returns whether anything moved.
    pub(super) fn run(&mut self, store: &mut Store, blocks: &Blocks, cx: &mut Cx) -> bool {
        let stops = cx.life() == Life::Stopping;
        let Some(victim) = store.lines.victim() else {
            return !stops && self.choose_victim(store, cx);
        };
        // A stop does not wait for the rest of the victim.
        if stops {
            self.leave_rest();
        }
        let mut moved = false;
        for lane in 0..LANES {
            if cx.outputs_left() < 8 || cx.commands_left() < 64 {
                return moved;
            }
            moved |= match self.lanes[lane].phase() {
                Phase::Idle => self.begin_lane(lane, victim, store, cx),
                Phase::Tail => false,
                Phase::Moving => self.move_some(lane, store, blocks, cx),
            };
        }
        moved | self.leave_victim(victim, store, cx)
    }

    fn choose_victim(&mut self, store: &mut Store, cx: &mut Cx) -> bool {
        if !store.lines.wants_collection() || store.lines.pick(store.space()).is_none() {
            return false;
        }
        cx.counters().gc_runs += 1;
        store.end_lending();
        cx.report(Event::GcStarted);
        (self.column, self.strip, self.searched) = (0, 0, 0);
        self.reader.begin();
        true
    }

    /// Returns the next strip of the victim.
    fn next_strip(&mut self, victim: u32, lines: &Lines) -> Option<(u32, u32)> {
        while self.column < self.layout.width {
            let segment = self.layout.segment(victim, self.column);
            if self.strip < lines.chunk(segment).done {
                self.strip += 1;
                return Some((segment, self.strip - 1));
            }
            (self.column, self.strip) = (self.column + 1, 0);
        }
        None
    }

    /// Gives an idle lane the next strip of the victim.
    fn begin_lane(&mut self, lane: usize, victim: u32, store: &mut Store, cx: &mut Cx) -> bool {
        // The rest of the victim has nothing to move.
        if store.lines.at(victim).valid() == 0 {
            self.column = self.layout.width;
        }
        if self.column == self.layout.width {
            return false;
        }
        if store.lines.at(victim).is_listed() {
            let reported =
                self.reader.next(victim, &mut self.lanes[lane], &store.map, &store.lines, cx);
            if reported == Told::All {
                self.column = self.layout.width;
            }
            return reported == Told::More;
        }
        let Some((segment, strip)) = self.next_strip(victim, &store.lines) else { return false };
        // The reverse map replaces reads of tails.
        if store.map.is_two_way() {
            self.take_held(lane, (segment, strip), &store.map, cx);
            return true;
        }
        let buf = self.lanes[lane].begin_tail((segment, strip));
        let command = Command::Read {
            device: 0,
            lba: self.layout.tail_at(segment, strip),
            into: Target::Meta { buf, pages: 1 },
            cause: Cause::Gc,
        };
        cx.submit(Op::GcTail { lane: lane as u8 }, command);
        true
    }

    /// Lists the valid blocks of a strip by the reverse map.
    fn take_held(&mut self, lane: usize, (segment, strip): (u32, u32), map: &Map, cx: &mut Cx) {
        let (items, _) = self.lanes[lane].begin();
        for slot in 0..self.layout.strip_blocks() {
            let place = self.layout.place(segment, strip, slot);
            items.extend(map.holder(place).map(|block| (block, place)));
        }
        cx.touch(self.layout.strip_blocks() as usize);
    }

    /// Lists the valid blocks of a tail.
    pub(super) fn tail_done(
        &mut self,
        lane: u8,
        (command, ok): (Command, bool),
        map: &Map,
        cx: &mut Cx,
    ) {
        let lane = &mut self.lanes[usize::from(lane)];
        let (segment, strip) = lane.end_tail(into_meta(command));
        let (items, page) = lane.begin();
        let at = self.layout.tail_at(segment, strip);
        // The blocks of an unreadable tail are found by the search of the map.
        let Some(tail) = zones::open(page, &self.layout.uuid, at).filter(|_| ok) else { return };
        let entries = usize::from(tail.entries);
        for entry in (0..entries).filter_map(|index| zones::entry(page, index)) {
            let place = self.layout.place(segment, strip, entry.value);
            let data = entry.kind == Kind::Data && entry.block < map.len();
            if data && map.get(entry.block) == At::Media(place) {
                items.push((entry.block, place));
            }
        }
        cx.touch(entries);
    }

    /// Completes a part of the victim's list.
    pub(super) fn part_done(&mut self, (command, ok): (Command, bool), lines: &mut Lines) {
        let victim = lines.victim().expect("the list of a victim was read");
        self.reader.part_done(victim, (command, ok), lines);
    }

    /// Moves the next contiguous blocks of a lane.
    fn move_some(&mut self, lane: usize, store: &mut Store, blocks: &Blocks, cx: &mut Cx) -> bool {
        let it = &mut self.lanes[lane];
        let Some(item) = it.next() else { return it.end() };
        if !is_valid(item, &store.map) {
            it.skip();
            return true;
        }
        let is_written = |(block, _): Item| blocks.any_write_in(block, block + 1);
        if is_written(item) {
            return false; // The write ends soon, and most likely makes the block invalid.
        }
        let run = it.run(RUN, |item| is_valid(item, &store.map) && !is_written(item));
        let Some((row, slot, count)) = store.take(Who::Collection, run as u32) else {
            return false;
        };
        let (moved, first) = it.begin_read(count);
        store.list(row, slot, moved, count, Cause::Gc);
        let into = store.buffer(row).view_mut(Row::byte(slot), Row::byte(count));
        let command = Command::Read {
            device: 0,
            lba: item.1 * u64::from(SECTORS_PER_BLOCK),
            into: Target::Data(into),
            cause: Cause::Gc,
        };
        let (lane, count, slot) = (lane as u8, count as u8, slot as u8);
        cx.submit(Op::GcRead(Moved { lane, first, count, row, slot }), command);
        true
    }

    /// Publishes blocks of the victim in their row, or handles a failed read.
    pub(super) fn read_done(
        &mut self,
        moved: Moved,
        (command, ok): (Command, bool),
        store: &mut Store,
        cx: &mut Cx,
    ) {
        let Command::Read { into: Target::Data(into), .. } = command else {
            unreachable!("a completed read")
        };
        let Moved { lane, first, count, row, slot } = moved;
        store.buffer(row).repay_mut(into);
        store.filled(row, count.into());
        let lane = &mut self.lanes[usize::from(lane)];
        let alone = lane.end_read();
        for step in 0..count {
            let at = (row, u32::from(slot) + u32::from(step));
            let item = lane.item(usize::from(first) + usize::from(step));
            // The host may have written the block in the meantime.
            let is_valid = is_valid(item, &store.map);
            if ok {
                if is_valid || planted(Bug::ZonesGcOverNewer) {
                    store.publish(item.0, at, cx);
                }
            // In a longer read another block may be the unreadable one.
            } else if alone && is_valid {
                store.lose(item.0, at, cx);
            } else {
                store.unlist(row, at.1, Kind::None);
                if !alone {
                    lane.read_again(item);
                }
            }
        }
    }

    /// Leaves the rest of the victim in place.
    pub(super) fn leave_rest(&mut self) {
        self.column = self.layout.width;
        self.lanes.iter_mut().for_each(Lane::leave);
        self.leaves = true;
    }

    /// Ends the collection when all strips of the victim were processed.
    fn leave_victim(&mut self, victim: u32, store: &mut Store, cx: &mut Cx) -> bool {
        let has_valid = store.lines.at(victim).valid() > 0;
        let more = self.column < self.layout.width && has_valid;
        // Reads in flight still refer to blocks of the victim.
        let busy = self.lanes.iter().any(|lane| lane.phase() != Phase::Idle);
        if busy || self.reader.is_busy() || more {
            return false;
        }
        // A tail or list was unreadable, so some blocks are found only by a search of the map.
        if !self.leaves && has_valid {
            assert!(self.search(victim, &store.map, cx), "a valid block is in the map");
            return true;
        }
        self.leaves = false;
        store.lines.collected(store.newest());
        true
    }

    /// Searches the map for blocks of the victim that no tail listed. Returns false when the whole
    /// map was searched.
    fn search(&mut self, victim: u32, map: &Map, cx: &mut Cx) -> bool {
        let from = self.searched;
        let end = map.len().min(from + SEARCHED);
        // All lanes are idle here, so the first one takes the blocks.
        let (items, _) = self.lanes[0].begin();
        let mut block = from;
        while block < end && items.len() < ENTRIES {
            if let At::Media(place) = map.get(block)
                && self.layout.line(self.layout.segment_at(place)) == victim
            {
                items.push((block, place));
            }
            block += 1;
        }
        self.searched = block;
        cx.touch((block - from) as usize);
        from < map.len()
    }
}
