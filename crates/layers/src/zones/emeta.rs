//! The list of what a line holds, at its end: one place to read instead of the tail of each strip.
//!
//! Rows are listed when they are written. When a line takes no more of them and all are written, a
//! flush makes them durable; then the list goes to the strips that were kept for it, all in one
//! segment.
//!
//! Invariants
//! - A list that is on the medium tells of strips that are durable: it is sent after a flush of the
//!   device that began when all of them were written.
//! - The records of a strip lie in one part. What does not fit leaves the line without a list: then
//!   its last strips have tails without entries, so that its segments close.
//! - At most two lines have a list in memory: the one that is filled, and the one before it.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, Gather, MetaBuf, Piece, SECTORS_PER_BLOCK, Tally};
use hostftl_format::zones::{self, Entry, Holds, Kind, RECORDS};

use super::Engine;
use super::layout::Layout;
use super::ops::{Cx, Op, fail};
use crate::planted::{Bug, planted};

/// How far the line that takes no more rows has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    /// There is none, or its strips are on their way.
    Waiting,
    /// A flush makes its strips durable.
    Flushing,
    /// This part of its list is sent next.
    Ready(u32),
    /// This part is on its way.
    Sent(u32),
}

/// The list of one line.
#[derive(Debug)]
struct List {
    line: Option<u32>,
    parts: Vec<Option<MetaBuf>>,
    /// Records in each, and the part that is filled.
    records: Vec<usize>,
    part: usize,
    /// The last row in it.
    newest: u64,
    /// Whether everything found room.
    whole: bool,
}

/// See the module text.
#[derive(Debug)]
pub struct Emeta {
    lists: [List; 2],
    stage: Stage,
    /// Lists that were written.
    pub count: u64,
}

impl List {
    fn new(layout: &Layout) -> Self {
        let pages = (layout.strip / SECTORS_PER_BLOCK) as usize;
        let parts = (0..layout.list).map(|_| Some(MetaBuf::new(pages))).collect();
        let records = alloc::vec![0; layout.list as usize];
        List { line: None, parts, records, part: 0, newest: 0, whole: true }
    }

    fn begin(&mut self, line: u32) {
        (self.line, self.part, self.newest, self.whole) = (Some(line), 0, 0, true);
        self.records.fill(0);
    }

    /// Makes room for so many records in one part.
    fn make_room(&mut self, count: usize, room: usize) {
        if self.whole && self.records[self.part] + count > room {
            self.part += 1;
        }
        self.whole &= self.part < self.parts.len() && count <= room;
    }

    fn push(&mut self, record: &Entry) {
        let buf = self.parts[self.part].as_mut().expect("a list is filled before it is sent");
        let index = self.records[self.part];
        let page = &mut buf.pages_mut()[index / RECORDS];
        if index.is_multiple_of(RECORDS) {
            page.0.fill(0);
        }
        zones::put_record(page, index % RECORDS, record);
        self.records[self.part] += 1;
    }

    /// Pages that count in a part: at least one if there is a list.
    fn pages(&self, part: usize) -> usize {
        if self.whole { self.records[part].div_ceil(RECORDS).max(1) } else { 0 }
    }
}

impl Emeta {
    pub fn new(layout: &Layout) -> Self {
        Emeta { lists: [List::new(layout), List::new(layout)], stage: Stage::Waiting, count: 0 }
    }

    /// Bytes of both lists, and of the part that collection reads.
    pub fn memory(layout: &Layout) -> u64 {
        let part = u64::from(layout.strip) * hostftl_core::SECTOR as u64;
        if layout.list == 0 { 0 } else { part * (2 * u64::from(layout.list) + 1) }
    }

    /// The list of a line; it begins when there is none.
    fn of(&mut self, line: u32) -> &mut List {
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

impl Engine {
    /// Records in a part of a list.
    fn part_room(&self) -> usize {
        self.layout.strip_blocks() as usize * RECORDS
    }

    /// A row is written: the list of its line, if it gets one, tells of it.
    pub(super) fn note_row(&mut self, row: u16, segment: u32, strip: u32, cx: &mut Cx) {
        let line = self.layout.line(segment);
        if self.lines.at(line).list().is_none() {
            return;
        }
        let room = self.part_room();
        let at = self.layout.column(segment) * self.layout.strips + strip;
        let at = at + u32::from(planted(Bug::ZonesListOffByOne));
        let row = self.rows.at(row);
        let list = self.emeta.of(line);
        list.newest = list.newest.max(row.seq);
        list.make_room(row.entries.len() + 1, room);
        if !list.whole {
            return;
        }
        let crc = row.entries.len() as u32;
        list.push(&Entry { kind: Kind::Strip, block: row.seq, value: at, crc });
        row.entries.iter().for_each(|entry| list.push(entry));
        cx.touch(row.entries.len());
    }

    /// Writes the list of the line that takes no more rows.
    pub(super) fn pump_emeta(&mut self, cx: &mut Cx) -> bool {
        let Some(line) = self.lines.closing() else { return false };
        if cx.room() < 4 || cx.command_room() < 8 {
            return false;
        }
        let segment = self.list_segment(line);
        match self.emeta.stage {
            Stage::Waiting if self.lines.in_flight(line) => false,
            Stage::Waiting if self.lines.chunk(segment).bad => self.end_list(line, false),
            Stage::Waiting if planted(Bug::ZonesListEarly) => self.list_durable(),
            Stage::Waiting => {
                self.emeta.stage = Stage::Flushing;
                cx.submit(Op::ListFlush, Command::Flush { device: 0 });
                true
            }
            Stage::Ready(part) if self.lines.takes(segment) => {
                self.send_part(line, part, cx);
                true
            }
            Stage::Flushing | Stage::Ready(_) | Stage::Sent(_) => false,
        }
    }

    /// The strips of the line are durable.
    pub(super) fn list_durable(&mut self) -> bool {
        self.emeta.stage = Stage::Ready(0);
        true
    }

    fn send_part(&mut self, line: u32, part: u32, cx: &mut Cx) {
        let segment = self.list_segment(line);
        let strip = self.lines.send(segment);
        let blocks = self.layout.strip_blocks() as usize;
        let list = self.emeta.of(line);
        let (pages, newest) = (list.pages(part as usize), list.newest);
        let mut buf = list.parts[part as usize].take().expect("a part is sent once");
        let first = part as usize * blocks;
        let (body, tail) = buf.pages_mut().split_at_mut(blocks);
        let written = list.records[part as usize].div_ceil(RECORDS).min(pages);
        body[written..].iter_mut().for_each(|page| page.0.fill(0));
        for (index, page) in body[..pages].iter().enumerate() {
            let block = (first + index) as u64;
            let crc = zones::image_crc(page, block);
            let entry = Entry { kind: Kind::Page, block, value: index as u32, crc };
            zones::put_entry(&mut tail[0], index, &entry);
        }
        let rest = self.rest(segment, strip);
        let mut tally = Tally::of(Cause::List, (pages as u32 + 1) * SECTORS_PER_BLOCK);
        tally.add(Cause::Pad, self.layout.strip + rest - tally.total());
        self.count_sent(&tally, cx);
        let mut head = self.head(line, newest, pages);
        (head.newest, head.holds) = (newest, Holds::List);
        let at = self.layout.tail_at(segment, strip);
        zones::seal(&mut buf.pages_mut()[blocks], &self.uuid, at, &head);
        let mut gather = Gather::new();
        gather.push(Piece::Meta { buf, pages: blocks as u32 + 1 });
        if rest > 0 {
            gather.push(Piece::zero_sectors(rest));
        }
        self.emeta.stage = Stage::Sent(part);
        let lba = self.layout.lba(segment, strip);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        cx.submit(Op::List { segment, strip }, command);
    }

    /// A part of a list is written, or is not.
    pub(super) fn part_done(
        &mut self,
        (segment, strip): (u32, u32),
        command: Command,
        result: Result<(), DeviceError>,
        cx: &mut Cx,
    ) {
        let Command::Program { gather, .. } = command else { unreachable!("a program comes back") };
        let Stage::Sent(part) = self.emeta.stage else { unreachable!("a part is on its way") };
        let line = self.layout.line(segment);
        for piece in gather {
            if let Piece::Meta { buf, .. } = piece {
                self.emeta.of(line).parts[part as usize] = Some(buf);
            }
        }
        self.lines.sent(segment, strip, result.is_err());
        match result {
            Ok(()) if part + 1 < self.layout.list => self.emeta.stage = Stage::Ready(part + 1),
            Ok(()) => {
                let whole = self.emeta.of(line).whole;
                self.emeta.count += u64::from(whole);
                self.end_list(line, whole);
            }
            Err(DeviceError::Media) => {
                self.lines.lose_segment(segment, cx);
                self.end_list(line, false);
            }
            Err(error) => return fail(error, cx),
        }
        self.retire(segment, cx);
    }

    /// Nothing more is written to the line.
    fn end_list(&mut self, line: u32, counts: bool) -> bool {
        self.emeta.of(line).line = None;
        self.emeta.stage = Stage::Waiting;
        self.lines.list_over(counts, self.durability.newest());
        true
    }
}
