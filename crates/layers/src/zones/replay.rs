//! Replay: the rows since the root, in the order of their numbers.
//!
//! Some may be missing: those that no flush covered, and those in lines that were erased because
//! later rows replaced all that they held. A row that was written twice, because its segment
//! failed, counts where it was written last.
//!
//! Of a line that has a list the list is read, of others the tails. Rows that follow one another
//! and are told of by the same part of a list come with one read.

use alloc::vec::Vec;

use hostftl_core::{MAX_TOUCH, Page};
use hostftl_format::zones::{self, Entry, Holds, Kind};

use super::Engine;
use super::layout::Layout;
use super::lines::NONE;
use super::listed::{record, strip_at};
use super::map::At;
use super::ops::{Cx, give_up};
use super::recovery::{LANES, Step};
use crate::planted::{Bug, planted};

/// A row; the first two are its number, and the greatest number when it was written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Found {
    seq: u64,
    newest: u64,
    segment: u32,
    strip: u32,
    /// The segment and strip of the part that tells of it, and its record there; `NONE` for its own
    /// tail.
    part: (u32, u32),
    at: u32,
}

/// See the module text.
#[derive(Debug)]
pub struct Replay {
    /// What a lane reads next, in the segment that it goes through.
    pub again: [Option<(u32, u32)>; LANES],
    rows: Vec<Found>,
    /// Lines whose lists turned out to be unsound: their tails are looked at after all others.
    refused: Vec<u32>,
    /// Reads that were sent and rows that they are for; reads and rows that were applied.
    asked: (usize, usize),
    next: (usize, usize),
    /// Whether the lane of a read has it, and behind which row it ends.
    lanes: [Option<usize>; LANES],
    ends: [usize; LANES],
    /// The entry of the next row that comes next.
    entry: usize,
    /// Rows that were applied.
    pub applied: u64,
}

impl Replay {
    pub fn new(layout: &Layout) -> Self {
        let strips = layout.lines as usize * layout.line_strips() as usize;
        Replay {
            again: [None; LANES],
            rows: Vec::with_capacity((strips / 4).clamp(256, 1 << 21)),
            refused: Vec::new(),
            asked: (0, 0),
            next: (0, 0),
            lanes: [None; LANES],
            ends: [0; LANES],
            entry: 0,
            applied: 0,
        }
    }
}

impl Engine {
    /// Whether a strip is a part of a list that counts.
    pub(super) fn is_part(&self, (segment, strip): (u32, u32)) -> bool {
        let line = self.layout.line(segment);
        let it = self.lines.at(line);
        it.is_listed() && it.list() == Some(self.layout.column(segment)) && {
            let (_, first) = self.part_place(line, 0);
            strip >= first
        }
    }

    /// The segment to look for rows in; behind all of them those of refused lines come again.
    fn sought(&mut self, index: u32) -> Option<u32> {
        let (count, width, layout) = (self.layout.device.count, self.layout.width, self.layout);
        let Some(again) = index.checked_sub(count) else { return Some(index) };
        let line = self.recovery().replay.refused.get((again / width) as usize)?;
        Some(layout.segment(*line, again % width))
    }

    /// Looks for rows in the segments that were written since the root.
    pub(super) fn pump_find(&mut self, cx: &mut Cx) -> bool {
        if self.pump_again(cx) {
            return true;
        }
        let index = self.recovery().scan.next;
        let Some(segment) = self.sought(index) else {
            if self.recovery().pending > 0 {
                return false;
            }
            if !planted(Bug::ZonesReplayUnsorted) {
                self.recovery().replay.rows.sort_unstable();
            }
            return self.go(Step::Replay);
        };
        let from = self.checkpoint.root.replay_from;
        let seen = self.recovery().scan.seen[segment as usize];
        let is_wanted = seen.tail.is_some_and(|it| it.holds != Holds::Images && it.newest >= from);
        let line = self.layout.line(segment);
        let it = *self.lines.at(line);
        if is_wanted && (!it.is_listed() || it.list() == Some(self.layout.column(segment))) {
            let Some(lane) = self.idle_lane() else { return false };
            let place =
                if it.is_listed() { self.part_place(line, 0) } else { (segment, seen.strip) };
            self.read_strip(lane, place, !it.is_listed(), cx);
        }
        self.recovery().scan.next += 1;
        true
    }

    /// A tail was read: is its row to be replayed?
    pub(super) fn found_tail(&mut self, lane: usize) {
        let (segment, strip) = self.recovery().asked[lane];
        let from = self.checkpoint.root.replay_from;
        let Some(tail) = self.tail_of(lane, 0) else {
            return self.look_before(lane, segment, strip);
        };
        if tail.seq >= from && tail.holds == Holds::Blocks {
            let (seq, newest, part) = (tail.seq, tail.newest, (NONE, NONE));
            let found = Found { seq, newest, segment, strip, part, at: 0 };
            self.recovery().replay.rows.push(found);
        }
        if tail.newest >= from {
            self.look_before(lane, segment, strip);
        }
    }

    /// A part of a list was read: which of its rows are to be replayed?
    pub(super) fn found_part(&mut self, lane: usize, cx: &mut Cx) {
        let part = self.recovery().asked[lane];
        let from = self.checkpoint.root.replay_from;
        let line = self.layout.line(part.0);
        let mut recovery = self.recovery.take().expect("the volume is being recovered");
        let pages = recovery.bufs[lane].as_ref().expect("it was read").pages();
        if let Some(tail) = self.part_tail(pages, part.0, part.1) {
            let mut at = 0;
            while let Some(head) = strip_at(pages, at) {
                if let Some((segment, strip)) =
                    self.strip_of(line, &head).filter(|_| head.block >= from)
                {
                    let (seq, newest, at) = (head.block, tail.newest, at as u32);
                    recovery.replay.rows.push(Found { seq, newest, segment, strip, part, at });
                }
                at += 1 + head.crc as usize;
            }
            cx.touch(at);
            let more = part.1 + 1 < self.lines.chunk(part.0).strips;
            recovery.replay.again[lane] = more.then_some((part.0, part.1 + 1));
            self.recovery = Some(recovery);
        } else {
            self.recovery = Some(recovery);
            self.refuse_list(line);
        }
    }

    /// The list of a line is no good: its tails tell.
    pub(super) fn refuse_list(&mut self, line: u32) {
        self.lines.refuse_list(line);
        self.recovery().replay.refused.push(line);
    }

    pub(super) fn pump_replay(&mut self, cx: &mut Cx) -> bool {
        let replay = &mut self.recovery().replay;
        let ((read, row), done, rows) = (replay.asked, replay.next, replay.rows.len());
        if done.1 == rows {
            return self.go(Step::Count(0));
        }
        let mut moved = false;
        if read < done.0 + LANES && row < rows {
            let Found { segment, strip, part, .. } = replay.rows[row];
            let own = part.0 == NONE;
            let same = replay.rows[row + 1..].iter().take_while(|it| !own && it.part == part);
            let (lane, end) = (read % LANES, row + 1 + same.count());
            replay.ends[lane] = end;
            replay.asked = (read + 1, end);
            let place = if own { (segment, strip) } else { part };
            self.read_strip(lane, place, own, cx);
            moved = true;
        }
        moved | self.apply_next(cx)
    }

    /// What tells of rows was read.
    pub(super) fn row_read(&mut self, lane: usize) {
        let end = self.recovery().replay.ends[lane];
        self.recovery().replay.lanes[lane] = Some(end);
    }

    /// Applies the next row, or as much of it as a step may.
    fn apply_next(&mut self, cx: &mut Cx) -> bool {
        let recovery = self.recovery.as_ref().expect("the volume is being recovered");
        let replay = &recovery.replay;
        let lane = replay.next.0 % LANES;
        let Some(end) = replay.lanes[lane] else { return false };
        let found = replay.rows[replay.next.1];
        let from = replay.entry;
        let pages = recovery.bufs[lane].as_ref().expect("it was read").pages();
        let Some(entries) = self.entries_of(&found, pages) else {
            give_up("what was written last reads otherwise than before", cx);
            return false;
        };
        for index in from..entries {
            if cx.touched() > MAX_TOUCH / 2 {
                self.recovery().replay.entry = index;
                return true;
            }
            let recovery = self.recovery.as_ref().expect("the volume is being recovered");
            let pages = recovery.bufs[lane].as_ref().expect("it was read").pages();
            let entry = match found.part.0 {
                NONE => zones::entry(&pages[0], index),
                _ => record(pages, found.at as usize + 1 + index),
            };
            if let Some(entry) = entry.filter(|it| it.block < self.map.len()) {
                self.apply(&found, &entry, cx);
            }
        }
        let replay = &mut self.recovery().replay;
        (replay.entry, replay.next.1) = (0, replay.next.1 + 1);
        replay.applied += 1;
        if replay.next.1 == end {
            replay.lanes[lane] = None;
            replay.next.0 += 1;
        }
        true
    }

    /// How many entries a row has; `None` when what was read does not tell of it.
    fn entries_of(&self, found: &Found, pages: &[Page]) -> Option<usize> {
        if found.part.0 != NONE {
            let head = strip_at(pages, found.at as usize)?;
            return (head.block == found.seq).then_some(head.crc as usize);
        }
        let at = self.layout.tail_at(found.segment, found.strip);
        Some(zones::open(&pages[0], &self.uuid, at)?.entries.into())
    }

    fn apply(&mut self, found: &Found, entry: &Entry, cx: &mut Cx) {
        let line = self.layout.line(found.segment);
        match entry.kind {
            Kind::Data if entry.value < self.layout.strip_blocks() => {
                let place = self.layout.place(found.segment, found.strip, entry.value);
                self.map.set(entry.block, At::Media(place));
                cx.touch(1);
            }
            Kind::Trim => {
                let end = self.map.len().min(entry.block + u64::from(entry.value));
                (entry.block..end).for_each(|block| {
                    self.map.set(block, At::Nowhere);
                });
                cx.touch((end - entry.block) as usize);
                self.lines.note_trim(line, found.seq);
            }
            Kind::Lost => {
                self.map.set(entry.block, At::Lost);
                cx.touch(1);
                self.lines.note_trim(line, found.seq);
            }
            _ => {}
        }
    }
}
