//! Reading lists of lines: what is in a part, and the collection of a line that has one.
//!
//! Invariants
//! - A part counts only when all its pages are as its tail says; else the tails of the line tell.

use hostftl_core::{Cause, Command, DeviceError, MetaBuf, Page, SECTORS_PER_BLOCK, Target};
use hostftl_format::zones::{self, Entry, Holds, Kind, RECORDS, Tail};

use super::Engine;
use super::collect::Phase;
use super::layout::Layout;
use super::map::At;
use super::ops::{Cx, Op};

/// How far collection has come in the list of its victim.
#[derive(Debug)]
pub struct Reader {
    buf: Option<MetaBuf>,
    /// The part that is in the buffer, or will be.
    part: u32,
    /// The record that comes next, once the part was read.
    next: Option<usize>,
}

/// A record of a part.
pub fn record(pages: &[Page], index: usize) -> Option<Entry> {
    zones::record(&pages[index / RECORDS], index % RECORDS)
}

/// The record that begins a strip at `index`, if a strip begins there and has all its entries.
pub fn strip_at(pages: &[Page], index: usize) -> Option<Entry> {
    let room = (pages.len() - 1) * RECORDS;
    let head = if index < room { record(pages, index)? } else { return None };
    (head.kind == Kind::Strip && index + (head.crc as usize) < room).then_some(head)
}

impl Reader {
    pub fn new(layout: &Layout) -> Self {
        let pages = if layout.list == 0 { 0 } else { layout.strip / SECTORS_PER_BLOCK };
        Reader { buf: Some(MetaBuf::new(pages as usize)), part: 0, next: None }
    }

    /// Begins with the first part.
    pub fn begin(&mut self) {
        (self.part, self.next) = (0, None);
    }

    /// Whether a part is being read.
    pub fn is_busy(&self) -> bool {
        self.buf.is_none()
    }
}

impl Engine {
    /// The segment that ends with the list of a line.
    pub(super) fn list_segment(&self, line: u32) -> u32 {
        let column = self.lines.at(line).list().expect("a line with a list");
        self.layout.segment(line, column)
    }

    /// Where a part of the list of a line is.
    pub(super) fn part_place(&self, line: u32, part: u32) -> (u32, u32) {
        let segment = self.list_segment(line);
        (segment, self.lines.chunk(segment).strips - self.layout.list + part)
    }

    /// The tail of a part of a list, if all of it is sound.
    pub(super) fn part_tail(&self, pages: &[Page], segment: u32, strip: u32) -> Option<Tail> {
        let last = self.layout.strip_blocks() as usize;
        let tail = zones::open(&pages[last], &self.uuid, self.layout.tail_at(segment, strip))?;
        let is_sound = |index: usize| {
            let entry = zones::entry(&pages[last], index)?;
            let slot = entry.value as usize;
            let sound = entry.kind == Kind::Page
                && slot < last
                && zones::image_crc(&pages[slot], entry.block) == entry.crc;
            sound.then_some(())
        };
        let is_list = tail.holds == Holds::List
            && tail.line == self.layout.line(segment)
            && tail.entries > 0
            && (0..usize::from(tail.entries)).all(|index| is_sound(index).is_some());
        is_list.then_some(tail)
    }

    /// The strip of the device that a record tells of, if it is written.
    pub(super) fn strip_of(&self, line: u32, head: &Entry) -> Option<(u32, u32)> {
        let (column, strip) = (head.value / self.layout.strips, head.value % self.layout.strips);
        let segment = (column < self.layout.width).then(|| self.layout.segment(line, column))?;
        (strip < self.lines.chunk(segment).done).then_some((segment, strip))
    }

    /// Gives a lane what is live of the next strip of the victim's list, or reads on.
    pub(super) fn take_listed(&mut self, lane: usize, cx: &mut Cx) -> bool {
        let victim = self.victim();
        let reader = &mut self.collection.reader;
        if reader.is_busy() {
            return false;
        }
        let Some(next) = reader.next else {
            if reader.part == self.layout.list {
                self.collection.column = self.layout.width;
                return false;
            }
            self.read_part(cx);
            return true;
        };
        let pages = reader.buf.as_ref().expect("it was read").pages();
        let Some(head) = strip_at(pages, next) else {
            (reader.part, reader.next) = (reader.part + 1, None);
            return true;
        };
        let it = &mut self.collection.lanes[lane];
        (it.phase, it.cursor) = (Phase::Moving, 0);
        it.items.clear();
        let count = head.crc as usize;
        let place = self.strip_of(victim, &head);
        let reader = &mut self.collection.reader;
        let pages = reader.buf.as_ref().expect("it was read").pages();
        let entries = (next + 1..=next + count).filter_map(|index| record(pages, index));
        for entry in entries {
            let Some((segment, strip)) = place else { continue };
            let place = self.layout.place(segment, strip, entry.value);
            let data = entry.kind == Kind::Data && entry.block < self.map.len();
            if data && self.map.get(entry.block) == At::Media(place) {
                self.collection.lanes[lane].items.push((entry.block, place));
            }
        }
        self.collection.reader.next = Some(next + 1 + count);
        cx.touch(count + 1);
        true
    }

    fn read_part(&mut self, cx: &mut Cx) {
        let reader = &mut self.collection.reader;
        let part = reader.part;
        let buf = reader.buf.take().expect("nothing is being read");
        let (segment, strip) = self.part_place(self.victim(), part);
        let command = Command::Read {
            device: 0,
            lba: self.layout.lba(segment, strip),
            into: Target::Meta { buf, pages: self.layout.strip_blocks() + 1 },
            cause: Cause::Gc,
        };
        cx.submit(Op::GcPart, command);
    }

    /// A part was read: without it the tails tell.
    pub(super) fn gc_part_done(&mut self, command: Command, result: Result<(), DeviceError>) {
        let Command::Read { into: Target::Meta { buf, .. }, .. } = command else {
            unreachable!("a part comes back")
        };
        let victim = self.victim();
        let (segment, strip) = self.part_place(victim, self.collection.reader.part);
        let sound = result.is_ok() && self.part_tail(buf.pages(), segment, strip).is_some();
        self.collection.reader.buf = Some(buf);
        match sound {
            true => self.collection.reader.next = Some(0),
            false => self.lines.refuse_list(victim),
        }
    }
}
