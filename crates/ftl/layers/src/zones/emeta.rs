//! List of a line's contents at its end, which is read instead of the tail of each strip.
//!
//! Rows are listed when they are written. After the last row of a line is written, a flush makes
//! all of them durable. The list is then written to the strips reserved for it, all in one segment.
//!
//! Invariants
//! - A list on the medium covers durable strips only. It is sent after a device flush that began
//!   when all of them were written.
//! - The records of a strip are in one part. If they don't fit, the line has no list: its last
//!   strips then have tails without entries, so that its segments close.
//! - At most two lines have a list in memory: the open line, and the line before it.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, Gather, SECTORS_PER_BLOCK, Tally};
use hostftl_format::zones::{self, Entry, Holds, Kind, RECORDS};

use super::layout::Layout;
use super::ops::{Cx, Op, fail};
use super::store::Store;
use super::strips::Draft;
use crate::kit::metabuf::{MetaHome, into_meta};
use crate::planted::{Bug, planted};

/// Stage of the closing line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// No line is closing, or its strips are in flight.
    Waiting,
    /// Flushing its strips.
    Flushing,
    /// About to send this part of its list.
    Ready(u32),
    /// Writing this part.
    Sent(u32),
}

/// Next action for the closing line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    Wait,
    /// Abandon the list, because its segment has failed.
    Abandon,
    Flush,
    /// Send this part.
    Send(u32),
}

impl Stage {
    /// Returns the next action. `in_flight` is whether strips of the line are in flight, `bad`
    /// whether the segment of the list has failed, and `takes` whether it accepts a strip now.
    fn next(self, in_flight: bool, bad: bool, takes: bool) -> Next {
        match self {
            Stage::Waiting if in_flight => Next::Wait,
            // A part in flight completes first, with its own error.
            Stage::Waiting | Stage::Ready(_) if bad => Next::Abandon,
            Stage::Waiting => Next::Flush,
            Stage::Ready(part) if takes => Next::Send(part),
            Stage::Flushing | Stage::Ready(_) | Stage::Sent(_) => Next::Wait,
        }
    }
}

/// List of one line.
#[derive(Debug)]
struct List {
    line: Option<u32>,
    parts: Vec<MetaHome>,
    /// Number of records in each part; `part` is the one being filled.
    records: Vec<usize>,
    part: usize,
    /// Last row in the list.
    newest: u64,
    /// Whether all records fit.
    whole: bool,
}

/// Lists in memory, and the state of the closing line.
#[derive(Debug)]
pub(super) struct Emeta {
    layout: Layout,
    lists: [List; 2],
    stage: Stage,
    /// Number of lists written.
    count: u64,
}

impl List {
    fn new(layout: &Layout) -> Self {
        let pages = (layout.strip / SECTORS_PER_BLOCK) as usize;
        let parts = (0..layout.list).map(|_| MetaHome::new(pages)).collect();
        let records = alloc::vec![0; layout.list as usize];
        List { line: None, parts, records, part: 0, newest: 0, whole: true }
    }

    fn begin(&mut self, line: u32) {
        (self.line, self.part, self.newest, self.whole) = (Some(line), 0, 0, true);
        self.records.fill(0);
    }

    /// Makes room for `count` records in one part, which has room for `room`.
    fn make_room(&mut self, count: usize, room: usize) {
        if self.whole && self.records[self.part] + count > room {
            self.part += 1;
        }
        // A list with a gap would hide rows from recovery, so it is abandoned as a whole.
        self.whole &= self.part < self.parts.len() && count <= room;
    }

    fn push(&mut self, record: &Entry) {
        let index = self.records[self.part];
        let page = &mut self.parts[self.part].pages_mut()[index / RECORDS];
        if index.is_multiple_of(RECORDS) {
            // Cleared when its first record arrives, because the buffer is used for line after
            // line.
            page.0.fill(0);
        }
        zones::put_record(page, index % RECORDS, record);
        self.records[self.part] += 1;
    }

    /// Returns the number of pages in a part. A list has at least one page per part.
    fn pages(&self, part: usize) -> usize {
        if self.whole { self.records[part].div_ceil(RECORDS).max(1) } else { 0 }
    }
}

impl Emeta {
    pub(super) fn new(layout: &Layout) -> Self {
        let lists = [List::new(layout), List::new(layout)];
        Emeta { layout: *layout, lists, stage: Stage::Waiting, count: 0 }
    }

    /// Returns the number of lists written.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the bytes of both lists, and of the part that collection reads.
    pub(super) fn memory(layout: &Layout) -> u64 {
        let part = u64::from(layout.strip) * hostftl_core::SECTOR as u64;
        if layout.list == 0 { 0 } else { part * (2 * u64::from(layout.list) + 1) }
    }

    /// Returns the list of a line, which is begun if there is none.
    fn list_or_begin(&mut self, line: u32) -> &mut List {
        let at = |wanted: Option<u32>| self.lists.iter().position(|list| list.line == wanted);
        let (index, begins) = match at(Some(line)) {
            Some(index) => (index, false),
            None => (at(None).expect("two lines have lists at most"), true),
        };
        if begins {
            self.lists[index].begin(line);
        }
        &mut self.lists[index]
    }
}

impl Emeta {
    /// Returns the number of records in a part.
    fn part_room(&self) -> usize {
        self.layout.strip_blocks() as usize * RECORDS
    }

    /// Lists a written row, if its line gets a list.
    pub(super) fn note_row(&mut self, row: u16, store: &Store, cx: &mut Cx) {
        let row = store.row(row);
        let line = self.layout.line(row.segment);
        if store.lines.at(line).list().is_none() {
            return;
        }
        let room = self.part_room();
        let at = self.layout.column(row.segment) * self.layout.strips + row.strip;
        let at = at + u32::from(planted(Bug::ZonesListOffByOne));
        let list = self.list_or_begin(line);
        list.newest = list.newest.max(row.seq);
        // A strip is listed with all its entries or not at all.
        // One record is the head of the strip.
        list.make_room(row.entries.len() + 1, room);
        if !list.whole {
            return;
        }
        let crc = row.entries.len() as u32;
        list.push(&Entry { kind: Kind::Strip, block: row.seq, value: at, crc });
        row.entries.iter().for_each(|entry| list.push(entry));
        cx.touch(row.entries.len());
    }

    /// Advances the list of the closing line.
    pub(super) fn run(&mut self, store: &mut Store, cx: &mut Cx) -> bool {
        let Some(line) = store.lines.closing() else { return false };
        if cx.outputs_left() < 4 || cx.commands_left() < 8 {
            return false;
        }
        let segment = store.lines.list_segment(line);
        // The list is in one segment, which can fail by itself.
        let (bad, takes) = (store.lines.chunk(segment).bad, store.lines.takes(segment));
        match self.stage.next(store.lines.in_flight(line), bad, takes) {
            Next::Wait => return false,
            Next::Abandon => self.end_list(false, store),
            Next::Flush if planted(Bug::ZonesListEarly) => self.go(Stage::Ready(0)),
            Next::Flush => {
                self.go(Stage::Flushing);
                cx.submit(Op::ListFlush, Command::Flush { device: 0 });
            }
            Next::Send(part) => self.send_part(line, part, store, cx),
        }
        true
    }

    /// Completes the flush of the closing line's strips.
    pub(super) fn flush_done(&mut self) {
        self.go(Stage::Ready(0));
    }

    fn send_part(&mut self, line: u32, part: u32, store: &mut Store, cx: &mut Cx) {
        let segment = store.lines.list_segment(line);
        let strip = store.lines.chunks_mut().send(segment);
        let blocks = self.layout.strip_blocks() as usize;
        let list = self.list_or_begin(line);
        let (pages, newest) = (list.pages(part as usize), list.newest);
        let mut meta = list.parts[part as usize].lend();
        let first = part as usize * blocks;
        let (body, tail) = meta.pages_mut().split_at_mut(blocks);
        // Pages that hold no record must be zero, not left over from an earlier line.
        let written = list.records[part as usize].div_ceil(RECORDS).min(pages);
        body[written..].iter_mut().for_each(|page| page.0.fill(0));
        for (index, page) in body[..pages].iter().enumerate() {
            let block = (first + index) as u64;
            let crc = zones::image_crc(page, block);
            let entry = Entry { kind: Kind::Page, block, value: index as u32, crc };
            zones::put_entry(&mut tail[0], index, &entry);
        }
        let tally = Tally::single(Cause::List, (pages as u32 + 1) * SECTORS_PER_BLOCK);
        let (entries, holds, body) = (pages, Holds::List, Gather::new());
        let (seq, placement) = (newest, 0);
        let draft = Draft { body, meta, entries, holds, seq, newest, tally, placement };
        let command = store.strips.program((segment, strip), draft, &store.lines, cx);
        self.go(Stage::Sent(part));
        cx.submit(Op::List { segment, strip }, command);
    }

    /// Completes a part of a list. Returns false if the layer has failed.
    pub(super) fn part_done(
        &mut self,
        (segment, strip): (u32, u32),
        (command, result): (Command, Result<(), DeviceError>),
        store: &mut Store,
        cx: &mut Cx,
    ) -> bool {
        let Stage::Sent(part) = self.stage else { unreachable!("a part is in progress") };
        let line = self.layout.line(segment);
        self.list_or_begin(line).parts[part as usize].take_back(into_meta(command));
        store.lines.chunks_mut().sent(segment, strip, result.is_err());
        match result {
            Ok(()) if part + 1 < self.layout.list => self.go(Stage::Ready(part + 1)),
            // The last part completes the list.
            Ok(()) => {
                let whole = self.list_or_begin(line).whole;
                self.count += u64::from(whole);
                self.end_list(whole, store);
            }
            Err(DeviceError::Media) => {
                store.lines.lose_segment(segment, cx);
                self.end_list(false, store);
            }
            Err(error) => {
                fail(error, cx);
                return false;
            }
        }
        true
    }

    /// Ends the list of the closing line.
    fn end_list(&mut self, counts: bool, store: &mut Store) {
        let line = store.lines.closing().expect("a list is written for a full line");
        self.list_or_begin(line).line = None;
        if self.stage != Stage::Waiting {
            self.go(Stage::Waiting);
        }
        let newest = store.newest();
        store.lines.list_over(counts, newest);
    }

    fn go(&mut self, next: Stage) {
        let fits = match (self.stage, next) {
            (Stage::Waiting, Stage::Flushing) => true,
            (Stage::Ready(_) | Stage::Sent(_), Stage::Waiting) => true,
            (Stage::Waiting | Stage::Flushing, Stage::Ready(part)) => part == 0,
            (Stage::Ready(part), Stage::Sent(sent)) => sent == part,
            (Stage::Sent(part), Stage::Ready(next)) => next == part + 1,
            _ => false,
        };
        assert!(fits, "the list of a line can't go from {:?} to {next:?}", self.stage);
        self.stage = next;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::LayerKind;

    #[test]
    fn a_line_without_space_has_no_list() {
        let layout = Layout::trial(LayerKind::Pblk, 128, 64, 1);
        let mut emeta = Emeta::new(&layout);
        let room = emeta.part_room();
        let list = emeta.list_or_begin(3);
        assert_eq!((list.parts.len(), list.pages(0)), (1, 1), "an empty list is a list");
        let entry = Entry { kind: Kind::Data, block: 1, value: 2, crc: 0 };
        list.make_room(room, room);
        (0..=RECORDS).for_each(|_| list.push(&entry));
        assert_eq!((list.whole, list.pages(0)), (true, 2));
        list.make_room(room - RECORDS, room);
        assert_eq!((list.whole, list.pages(0)), (false, 0));
        assert!(
            emeta.list_or_begin(4).whole && !emeta.list_or_begin(3).whole,
            "two lines have lists"
        );
    }

    #[test]
    fn a_list_is_abandoned_when_its_segment_fails() {
        assert_eq!(Stage::Waiting.next(true, true, false), Next::Wait, "rows are on their way");
        assert_eq!(Stage::Waiting.next(false, true, false), Next::Abandon);
        assert_eq!(Stage::Ready(1).next(false, true, false), Next::Abandon);
        assert_eq!(Stage::Ready(1).next(false, false, false), Next::Wait);
        assert_eq!(Stage::Ready(1).next(false, false, true), Next::Send(1));
        assert_eq!(Stage::Sent(1).next(false, true, false), Next::Wait, "a sent list is completed");
    }

    #[test]
    #[should_panic(expected = "the list of a line can't go from Flushing to Ready(1)")]
    fn parts_are_written_in_order() {
        let mut emeta = Emeta::new(&Layout::trial(LayerKind::Pblk, 128, 64, 1));
        emeta.go(Stage::Flushing);
        emeta.go(Stage::Ready(1));
    }
}
