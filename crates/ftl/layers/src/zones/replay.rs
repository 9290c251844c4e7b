//! Replay: applies the rows since the root, in the order of their numbers.
//!
//! Rows may be missing: those that no flush covered, and those in lines that were erased because
//! later rows replaced all their blocks. A row that was written twice, because its segment failed,
//! counts where it was written last.
//!
//! Lines with a list are read by their list, others by their tails. Consecutive rows in the same
//! part of a list take one read.

use alloc::vec::Vec;

use hostftl_core::{MAX_TOUCH, Page};
use hostftl_format::zones::{self, Entry, Holds, Kind};

use super::lanes::{LANES, Lanes};
use super::layout::Layout;
use super::lines::Lines;
use super::listed::{listed_strip, part_place, part_tail, record, strip_at};
use super::map::At;
use super::ops::{Cx, fail_volume};
use super::scan::Scan;
use super::store::Store;
use crate::planted::{Bug, planted};

/// Place of a row without a part of a list. These sort after all parts.
const OWN: (u32, u32) = (u32::MAX, u32::MAX);

/// A row to replay. The first two fields are the sort key: its number, and the highest number when
/// it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    seq: u64,
    newest: u64,
    segment: u32,
    strip: u32,
    /// Segment and strip of the part of a list with this row, and its record there; [`OWN`] if its
    /// own tail is read.
    part: (u32, u32),
    at: u32,
}

/// State of the replay.
#[derive(Debug)]
pub(super) struct Replay {
    layout: Layout,
    /// Next segment to search.
    sought: u32,
    rows: Vec<Found>,
    /// Lines with an invalid list. Their tails are searched after all others.
    refused: Vec<u32>,
    /// Reads sent and the rows that they cover; `next` is the reads and rows applied.
    asked: (usize, usize),
    next: (usize, usize),
    /// For each lane, the end of the rows that its finished read covers; `ends` is that of its read
    /// in flight.
    covered: [Option<usize>; LANES],
    ends: [usize; LANES],
    /// Next entry of the next row.
    entry: usize,
    /// Number of rows applied.
    applied: u64,
}

impl Replay {
    /// Creates the state without rows.
    pub(super) fn new(layout: &Layout) -> Self {
        let strips = layout.lines as usize * layout.line_strips() as usize;
        Replay {
            layout: *layout,
            sought: 0,
            rows: Vec::with_capacity((strips / 4).clamp(256, 1 << 21)),
            refused: Vec::new(),
            asked: (0, 0),
            next: (0, 0),
            covered: [None; LANES],
            ends: [0; LANES],
            entry: 0,
            applied: 0,
        }
    }

    /// Returns the number of rows applied.
    pub(super) fn applied(&self) -> u64 {
        self.applied
    }

    /// Returns whether a strip is a part of a valid list.
    fn is_part(&self, (segment, strip): (u32, u32), lines: &Lines) -> bool {
        let line = self.layout.line(segment);
        let it = lines.at(line);
        it.is_listed() && it.list() == Some(self.layout.column(segment)) && {
            let (_, first) = part_place(line, 0, &self.layout, lines);
            strip >= first
        }
    }

    /// Returns the next segment to search. After the last one, the segments of refused lines
    /// follow.
    fn sought(&self) -> Option<u32> {
        let (count, width) = (self.layout.device.count, self.layout.width);
        let Some(again) = self.sought.checked_sub(count) else { return Some(self.sought) };
        let line = self.refused.get((again / width) as usize)?;
        Some(self.layout.segment(*line, again % width))
    }

    /// Returns whether all rows were found.
    pub(super) fn has_found_all(&self, lanes: &Lanes) -> bool {
        self.sought().is_none() && lanes.are_idle()
    }

    /// Searches the segments written since the root for rows from number `from` on.
    pub(super) fn find(
        &mut self,
        from: u64,
        scan: &Scan,
        lanes: &mut Lanes,
        lines: &Lines,
        cx: &mut Cx,
    ) -> bool {
        if lanes.read_queued(|place| self.is_part(place, lines), cx) {
            return true;
        }
        let Some(segment) = self.sought() else { return false };
        let (tail, strip) = scan.seen(segment);
        // `newest` only grows along a segment, so the last tail decides for all its strips.
        let is_wanted = tail.is_some_and(|it| it.holds != Holds::Images && it.newest >= from);
        let line = self.layout.line(segment);
        let it = lines.at(line);
        let listed = it.is_listed();
        // Of a line with a list, only the segment with the list is read.
        if is_wanted && (!listed || it.list() == Some(self.layout.column(segment))) {
            let Some(lane) = lanes.idle() else { return false };
            let own = (segment, strip);
            let place = if listed { part_place(line, 0, &self.layout, lines) } else { own };
            lanes.read(lane, place, !listed, cx);
        }
        self.sought += 1;
        true
    }

    /// Notes the row of a tail if it is to be replayed, and continues with the previous strip if
    /// necessary.
    pub(super) fn tail_read(&mut self, from: u64, lane: usize, lanes: &mut Lanes) {
        let (segment, strip) = lanes.place(lane);
        let Some(tail) = lanes.tail(lane, 0) else { return lanes.step_back(lane) };
        if tail.seq >= from && tail.holds == Holds::Blocks {
            let (seq, newest, part) = (tail.seq, tail.newest, OWN);
            self.rows.push(Found { seq, newest, segment, strip, part, at: 0 });
        }
        // Earlier strips may also have rows to replay.
        if tail.newest >= from {
            lanes.step_back(lane);
        }
    }

    /// Notes the rows of a part of a list that are to be replayed.
    pub(super) fn part_read(
        &mut self,
        from: u64,
        lane: usize,
        lanes: &mut Lanes,
        lines: &mut Lines,
        cx: &mut Cx,
    ) {
        let part = lanes.place(lane);
        let line = self.layout.line(part.0);
        let pages = lanes.pages(lane);
        let Some(tail) = part_tail(pages, part, &self.layout) else {
            return self.refuse_list(line, lines);
        };
        let mut at = 0;
        while let Some(head) = strip_at(pages, at) {
            let strip = listed_strip(line, &head, &self.layout, lines);
            if let Some((segment, strip)) = strip.filter(|_| head.block >= from) {
                let (seq, newest, part, at) = (head.block, tail.newest, part, at as u32);
                self.rows.push(Found { seq, newest, segment, strip, part, at });
            }
            at += 1 + head.crc as usize;
        }
        cx.touch(at);
        let more = part.1 + 1 < lines.chunk(part.0).strips;
        lanes.set_next(lane, more.then_some((part.0, part.1 + 1)));
    }

    /// Refuses an invalid list: the tails of the line are read instead.
    pub(super) fn refuse_list(&mut self, line: u32, lines: &mut Lines) {
        lines.at_mut(line).set_listed(false);
        self.refused.push(line);
    }

    /// Sorts the rows, after all were found.
    pub(super) fn sort(&mut self) {
        if !planted(Bug::ZonesReplayUnsorted) {
            // A row that was written twice is applied twice; the later place overwrites the
            // earlier.
            self.rows.sort_unstable();
        }
    }

    /// Returns whether all rows were applied.
    pub(super) fn is_over(&self) -> bool {
        self.next.1 == self.rows.len()
    }

    /// Reads the entries of the next rows, and applies the first of them.
    pub(super) fn run(&mut self, lanes: &mut Lanes, store: &mut Store, cx: &mut Cx) -> bool {
        let (read, row) = self.asked;
        // Reads are in lane order, and a lane is reused when all rows of its read were applied.
        let reads = read < self.next.0 + LANES && row < self.rows.len();
        if reads {
            let Found { segment, strip, part, .. } = self.rows[row];
            let is_own = part == OWN;
            let same = |it: &&Found| !is_own && it.part == part;
            let end = row + 1 + self.rows[row + 1..].iter().take_while(same).count();
            let lane = read % LANES;
            self.ends[lane] = end;
            self.asked = (read + 1, end);
            lanes.read(lane, if is_own { (segment, strip) } else { part }, is_own, cx);
        }
        self.apply_next(lanes, store, cx) || reads
    }

    /// Notes that the entries of some rows were read.
    pub(super) fn row_read(&mut self, lane: usize) {
        self.covered[lane] = Some(self.ends[lane]);
    }

    /// Applies the next row, or as much of it as a step allows.
    fn apply_next(&mut self, lanes: &Lanes, store: &mut Store, cx: &mut Cx) -> bool {
        let lane = self.next.0 % LANES;
        let Some(end) = self.covered[lane] else { return false };
        let found = self.rows[self.next.1];
        let pages = lanes.pages(lane);
        let Some(entries) = self.entry_count(&found, pages) else {
            fail_volume("the last written strip changed between two reads", cx);
            return false;
        };
        for index in self.entry..entries {
            // A trim may touch many entries, so a row may take several steps.
            if cx.touched() > MAX_TOUCH / 2 {
                self.entry = index;
                return true;
            }
            let entry = match found.part {
                OWN => zones::entry(&pages[0], index),
                _ => record(pages, found.at as usize + 1 + index),
            };
            if let Some(entry) = entry.filter(|it| it.block < store.map.len()) {
                self.apply(&found, &entry, store, cx);
            }
        }
        (self.entry, self.next.1) = (0, self.next.1 + 1);
        self.applied += 1;
        if self.next.1 == end {
            self.covered[lane] = None;
            self.next.0 += 1;
        }
        true
    }

    /// Returns the number of entries of a row, or `None` if the pages are not those of the row.
    fn entry_count(&self, found: &Found, pages: &[Page]) -> Option<usize> {
        // The pages are read a second time, and must still be those that were found.
        if found.part != OWN {
            let head = strip_at(pages, found.at as usize)?;
            return (head.block == found.seq).then_some(head.crc as usize);
        }
        let at = self.layout.tail_at(found.segment, found.strip);
        Some(zones::open(&pages[0], &self.layout.uuid, at)?.entries.into())
    }

    fn apply(&self, found: &Found, entry: &Entry, store: &mut Store, cx: &mut Cx) {
        let line = self.layout.line(found.segment);
        match entry.kind {
            Kind::Data if entry.value < self.layout.strip_blocks() => {
                let place = self.layout.place(found.segment, found.strip, entry.value);
                store.map.set(entry.block, At::Media(place));
                cx.touch(1);
            }
            Kind::Trim => {
                let end = store.map.len().min(entry.block + u64::from(entry.value));
                (entry.block..end).for_each(|block| {
                    store.map.set(block, At::Nowhere);
                });
                cx.touch((end - entry.block) as usize);
                store.lines.at_mut(line).note_trim(found.seq);
            }
            Kind::Lost => {
                store.map.set(entry.block, At::Lost);
                cx.touch(1);
                store.lines.at_mut(line).note_trim(found.seq);
            }
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kind::LayerKind;

    #[test]
    fn rows_are_ordered_by_number_and_latest_position() {
        let mut replay = Replay::new(&Layout::trial(LayerKind::Pblk, 16, 80, 2));
        let row = |seq, newest| Found { seq, newest, segment: 1, strip: 2, part: OWN, at: 0 };
        replay.rows = alloc::vec![row(5, 9), row(4, 5), row(5, 6)];
        replay.sort();
        assert_eq!(replay.rows, [row(4, 5), row(5, 6), row(5, 9)]);
    }

    #[test]
    fn the_segments_of_a_refused_line_are_looked_at_again() {
        let layout = Layout::trial(LayerKind::Pblk, 16, 80, 2);
        let (mut replay, lanes) = (Replay::new(&layout), Lanes::new(&layout));
        replay.sought = 80;
        assert!(replay.sought().is_none() && replay.has_found_all(&lanes));
        replay.refused.push(7);
        assert_eq!(replay.sought(), Some(layout.segment(7, 0)));
        replay.sought = 81;
        assert_eq!(replay.sought(), Some(layout.segment(7, 1)));
        assert!(!replay.has_found_all(&lanes));
    }
}
