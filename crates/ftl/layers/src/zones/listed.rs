//! Reading the lists of lines: decoding a part, and collecting a line by its list.
//!
//! Invariants
//! - A part is valid only if all its pages match its tail. Otherwise the tails of the line are
//!   used.

use hostftl_core::{Cause, Command, Page, SECTORS_PER_BLOCK, Target};
use hostftl_format::zones::{self, Entry, Holds, Kind, RECORDS, Tail};

use super::lane::Lane;
use super::layout::Layout;
use super::lines::Lines;
use super::map::{At, Map};
use super::ops::{Cx, Op};
use crate::kit::metabuf::{MetaHome, into_meta};

/// Position of garbage collection in the list of its victim.
#[derive(Debug)]
pub(super) struct Reader {
    layout: Layout,
    buf: MetaHome,
    /// Part in the buffer, or being read.
    part: u32,
    /// Next record, once the part was read.
    next: Option<usize>,
}

/// Returns a record of a part.
pub(super) fn record(pages: &[Page], index: usize) -> Option<Entry> {
    zones::record(&pages[index / RECORDS], index % RECORDS)
}

/// Returns the head of a strip at record `index`, if a strip starts there and all its entries fit.
pub(super) fn strip_at(pages: &[Page], index: usize) -> Option<Entry> {
    let room = (pages.len() - 1) * RECORDS;
    let head = if index < room { record(pages, index)? } else { return None };
    (head.kind == Kind::Strip && index + (head.crc as usize) < room).then_some(head)
}

/// Returns the place of a part of the list of a line.
pub(super) fn part_place(line: u32, part: u32, layout: &Layout, lines: &Lines) -> (u32, u32) {
    let segment = lines.list_segment(line);
    (segment, lines.chunk(segment).strips - layout.list + part)
}

/// Returns the tail of a part of a list if all its pages are valid.
pub(super) fn part_tail(
    pages: &[Page],
    (segment, strip): (u32, u32),
    layout: &Layout,
) -> Option<Tail> {
    let last = layout.strip_blocks() as usize;
    let tail = zones::open(&pages[last], &layout.uuid, layout.tail_at(segment, strip))?;
    let is_sound = |index: usize| {
        zones::entry(&pages[last], index).is_some_and(|entry| {
            let slot = entry.value as usize;
            entry.kind == Kind::Page
                && slot < last
                && zones::image_crc(&pages[slot], entry.block) == entry.crc
        })
    };
    let is_list = tail.holds == Holds::List
        && tail.line == layout.line(segment)
        && tail.entries > 0
        && (0..usize::from(tail.entries)).all(is_sound);
    is_list.then_some(tail)
}

/// Returns the segment and strip of a record in a line's list, if the strip is written.
pub(super) fn listed_strip(
    line: u32,
    head: &Entry,
    layout: &Layout,
    lines: &Lines,
) -> Option<(u32, u32)> {
    let (column, strip) = (head.value / layout.strips, head.value % layout.strips);
    let segment = (column < layout.width).then(|| layout.segment(line, column))?;
    (strip < lines.chunk(segment).done).then_some((segment, strip))
}

/// Result of an attempt to read on in the list of the victim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Told {
    /// A part is being read.
    Nothing,
    /// Progress was made.
    More,
    /// The list is finished.
    All,
}

impl Reader {
    /// Creates an idle reader.
    pub(super) fn new(layout: &Layout) -> Self {
        let pages = if layout.list == 0 { 0 } else { layout.strip / SECTORS_PER_BLOCK };
        Reader { layout: *layout, buf: MetaHome::new(pages as usize), part: 0, next: None }
    }

    /// Begins with the first part.
    pub(super) fn begin(&mut self) {
        (self.part, self.next) = (0, None);
    }

    /// Returns whether a part is being read.
    pub(super) fn is_busy(&self) -> bool {
        !self.buf.is_home()
    }

    /// Gives a lane the valid blocks of the next strip in the victim's list, or reads the next
    /// part.
    pub(super) fn next(
        &mut self,
        victim: u32,
        lane: &mut Lane,
        map: &Map,
        lines: &Lines,
        cx: &mut Cx,
    ) -> Told {
        if self.is_busy() {
            return Told::Nothing;
        }
        let Some(next) = self.next else {
            if self.part == self.layout.list {
                return Told::All;
            }
            self.read_part(victim, lines, cx);
            return Told::More;
        };
        let pages = self.buf.pages();
        let Some(head) = strip_at(pages, next) else {
            (self.part, self.next) = (self.part + 1, None);
            return Told::More;
        };
        let (items, _) = lane.begin();
        let count = head.crc as usize;
        if let Some((segment, strip)) = listed_strip(victim, &head, &self.layout, lines) {
            for entry in (next + 1..=next + count).filter_map(|index| record(pages, index)) {
                let place = self.layout.place(segment, strip, entry.value);
                // A block may have moved since it was listed.
                let data = entry.kind == Kind::Data && entry.block < map.len();
                if data && map.get(entry.block) == At::Media(place) {
                    items.push((entry.block, place));
                }
            }
        }
        self.next = Some(next + 1 + count);
        cx.touch(count + 1);
        Told::More
    }

    fn read_part(&mut self, victim: u32, lines: &Lines, cx: &mut Cx) {
        let (segment, strip) = part_place(victim, self.part, &self.layout, lines);
        let (buf, pages) = (self.buf.lend(), self.layout.strip_blocks() + 1);
        let command = Command::Read {
            device: 0,
            lba: self.layout.lba(segment, strip),
            into: Target::Meta { buf, pages },
            cause: Cause::Gc,
        };
        cx.submit(Op::GcPart, command);
    }

    /// Completes a part. An unreadable or invalid one leaves the tails of the line.
    pub(super) fn part_done(
        &mut self,
        victim: u32,
        (command, ok): (Command, bool),
        lines: &mut Lines,
    ) {
        let place = part_place(victim, self.part, &self.layout, lines);
        self.buf.take_back(into_meta(command));
        if ok && part_tail(self.buf.pages(), place, &self.layout).is_some() {
            self.next = Some(0)
        } else {
            // The tails of the line are read instead, from its first strip on.
            lines.at_mut(victim).set_listed(false)
        }
    }
}
