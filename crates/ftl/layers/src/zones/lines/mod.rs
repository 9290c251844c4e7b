//! Lines: which are free, open, full and empty, and how many blocks in each are valid.
//!
//! Invariants
//! - A line is in a free list exactly when it is Free, in `empty` exactly when it is Empty, and
//!   offered as a victim exactly when it is Full and holds no images.
//! - A line is Full when its list, if it is to have one, is written or given up.
//! - The valid blocks of a line are those of the host that the map places in it; its valid images
//!   are those of the last durable root and of the one that is being made.
//! - A line is reset only when nothing in it is valid, and what emptied it is durable.
//! - At most one line is a victim.

mod chunks;
mod fronts;
mod line;
mod lists;
#[cfg(test)]
pub(super) mod tests;
mod victims;

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use super::layout::Layout;
use super::ops::Cx;
use super::params::Params;
use crate::policy::GcPolicy;

use chunks::{Chunk, Chunks};
use fronts::Fronts;

use lists::Lists;
use victims::Candidates;

pub(super) use line::{Line, State};
pub(super) use lists::Who;

#[derive(Debug)]
pub(super) struct Lines {
    layout: Layout,
    list: Vec<Line>,
    chunks: Chunks,
    lists: Lists,
    fronts: Fronts,
    candidates: Candidates,
    empty: VecDeque<u32>,
    /// How many are being reset.
    resetting: u32,
    /// Lines with images.
    map_lines: u32,
    /// Strips in free lines.
    free_strips: i64,
    /// The line that takes no more strips and whose list is not written yet.
    closing: Option<u32>,
    /// So much of the device is out of use that writes find no room.
    is_worn: bool,
}

impl Lines {
    /// Nothing is known of any.
    pub(super) fn new(layout: &Layout, params: Params) -> Self {
        let count = layout.lines;
        Lines {
            layout: *layout,
            list: alloc::vec![Line::new(); count as usize],
            chunks: Chunks::new(layout),
            lists: Lists::new(layout, params.reuse),
            fronts: Fronts::new(layout),
            candidates: Candidates::new(layout, params.gc),
            empty: VecDeque::with_capacity(count as usize),
            resetting: 0,
            map_lines: 0,
            free_strips: 0,
            closing: None,
            is_worn: false,
        }
    }

    /// Bytes of what is known of lines and segments.
    pub(super) fn memory(layout: &Layout, gc: GcPolicy) -> u64 {
        let queues = 2 * size_of::<u32>() + Lists::EACH;
        let lines = (size_of::<Line>() + queues) as u64 * u64::from(layout.lines);
        lines + Chunks::memory(layout) + Candidates::memory(layout, gc)
    }

    /// A line.
    pub(super) fn at(&self, line: u32) -> &Line {
        &self.list[line as usize]
    }

    /// As [`Lines::at`], for what does not change its state.
    pub(super) fn at_mut(&mut self, line: u32) -> &mut Line {
        &mut self.list[line as usize]
    }

    /// A segment.
    pub(super) fn chunk(&self, segment: u32) -> &Chunk {
        self.chunks.at(segment)
    }

    /// The segments, for what is sent to them.
    pub(super) fn chunks_mut(&mut self) -> &mut Chunks {
        &mut self.chunks
    }

    fn segments(&self, line: u32) -> impl Iterator<Item = u32> + use<> {
        let layout = self.layout;
        (0..layout.width).map(move |column| layout.segment(line, column))
    }

    /// Strips that can still be sent to a line, those of its list apart.
    pub(super) fn left(&self, line: u32) -> u32 {
        (0..self.layout.width).map(|column| self.left_in(line, column)).sum()
    }

    fn left_in(&self, line: u32, column: u32) -> u32 {
        let kept = if self.at(line).list() == Some(column) { self.layout.list } else { 0 };
        self.chunks.at(self.layout.segment(line, column)).left().saturating_sub(kept)
    }

    /// Whether strips are on their way to a line.
    pub(super) fn in_flight(&self, line: u32) -> bool {
        self.segments(line).any(|segment| self.chunks.at(segment).is_written_to())
    }

    /// Strips that blocks of the host find in a free line.
    fn room_in(&self, line: u32) -> i64 {
        i64::from(self.left(line).saturating_sub(self.layout.list))
    }

    /// The lines that are on their way to be free.
    pub(super) fn empty(&self) -> impl Iterator<Item = (u32, &Line)> {
        self.empty.iter().map(|line| (*line, self.at(*line)))
    }

    /// How many they are.
    pub(super) fn empty_count(&self) -> u32 {
        self.empty.len() as u32
    }

    /// How many lines are being reset.
    pub(super) fn resetting(&self) -> u32 {
        self.resetting
    }

    /// Free lines that are not kept for images. Those that lack a segment count as what they have.
    pub(super) fn spare(&self) -> u32 {
        self.spare_strips().max(0) as u32 / self.layout.row_strips()
    }

    /// Whether a free line is not kept for images, whatever it has: what is short of strips can
    /// still be opened.
    fn has_spare(&self) -> bool {
        self.lists.free() > self.layout.keep.saturating_sub(self.map_lines)
    }

    /// Strips in free lines that are not kept for images.
    pub(super) fn spare_strips(&self) -> i64 {
        let kept = self.layout.keep.saturating_sub(self.map_lines);
        self.free_strips - i64::from(kept * self.layout.row_strips())
    }

    /// Whether free lines are getting few.
    pub(super) fn is_short(&self) -> bool {
        self.spare() < self.layout.reserve + 3
    }

    /// Whether lines should be collected: few are free, or one has a segment that failed.
    pub(super) fn wants_collection(&self) -> bool {
        let few = self.spare() + self.empty_count() < self.layout.reserve + 3;
        few || self.has_failed_victim() || self.lists.any_in_need()
    }

    /// The front whose unit has the most free segments.
    pub(super) fn freest_front(&self) -> u32 {
        self.lists.freest()
    }

    /// A row of a line has reached the medium, or will not, and the map knows; its list is over; or
    /// a strip of images is. `seq` is the last row.
    pub(super) fn row_over(&mut self, line: u32, seq: u64) {
        self.at_mut(line).end();
        self.settle(line, seq);
    }

    /// A line that is written is full, or empty.
    fn settle(&mut self, line: u32, seq: u64) {
        if self.at(line).is_written() {
            self.fill(line, seq);
        }
    }

    /// Nothing goes to a line any more: it is full, or empty.
    fn fill(&mut self, line: u32, seq: u64) {
        if self.at(line).valid() == 0 {
            return self.emptied(line, seq);
        }
        let level = self.level(line);
        let it = self.at_mut(line);
        it.go(State::Full);
        it.level = level;
        let of_map = it.is_of_map();
        self.candidates.changed();
        if !of_map {
            self.offer(line);
        }
    }

    fn emptied(&mut self, line: u32, seq: u64) {
        let it = self.at_mut(line);
        it.go(State::Empty);
        it.emptied_by = seq;
        self.empty.push_back(line);
        self.lists.await_one(self.layout.front(line));
    }

    /// The map places a block in a line.
    pub(super) fn add_valid(&mut self, line: u32) {
        self.at_mut(line).add_valid();
        self.candidates.tick();
    }

    /// A block in a line is no longer where the map says; `seq` is the row that must be durable
    /// for that to hold after a cut.
    pub(super) fn invalidate(&mut self, line: u32, seq: u64) {
        let it = self.at_mut(line);
        let valid = it.invalidate();
        let (old, of_map) = (it.level, it.is_of_map());
        if it.state() != State::Full {
            return;
        }
        self.candidates.changed();
        if valid == 0 {
            if !of_map {
                self.withdraw(line);
            }
            return self.emptied(line, seq);
        }
        let level = self.level(line);
        if level != old && !of_map && self.layout.wide {
            self.at_mut(line).level = level;
            self.candidates.level_changed(line, level);
        }
    }

    /// The root that was made is durable: the images of the root before it are invalid.
    pub(super) fn root_durable(&mut self) {
        for line in 0..self.layout.lines {
            let it = self.at_mut(line);
            if !it.is_of_map() || matches!(it.state(), State::Free | State::Resetting) {
                continue;
            }
            it.keep_images_of_next_root();
            if it.valid() == 0 && it.state() == State::Full {
                self.emptied(line, 0);
            }
        }
    }

    /// The segment that ends with the list of a line.
    ///
    /// # Panics
    /// When the line gets no list.
    pub(super) fn list_segment(&self, line: u32) -> u32 {
        let column = self.at(line).list().expect("a line with a list");
        self.layout.segment(line, column)
    }

    /// The line that takes no more rows, whose list is to be written.
    pub(super) fn closing(&self) -> Option<u32> {
        self.closing
    }

    /// The list of the line that takes no more rows is over. It `counts` when it is written, and
    /// tells all.
    pub(super) fn list_over(&mut self, counts: bool, seq: u64) {
        let line = self.closing.take().expect("a list is written for a line that takes no more");
        self.at_mut(line).set_listed(counts);
        self.row_over(line, seq);
    }

    /// Whether a strip can be sent to a segment now.
    pub(super) fn takes(&self, segment: u32) -> bool {
        self.chunks.takes(segment)
    }

    /// A segment failed: what is in it moves soon, and there is less room.
    pub(super) fn lose_segment(&mut self, segment: u32, cx: &mut Cx) {
        cx.counters().device_errors += 1;
        self.note_failed(segment);
        self.measure();
    }

    /// Finds out whether what is not out of use is enough for all that the host may write.
    pub(super) fn measure(&mut self) {
        self.is_worn = self.capacity() < self.layout.blocks;
    }

    /// Whether so much of the device is out of use that writes find no room.
    pub(super) fn is_worn(&self) -> bool {
        self.is_worn
    }

    /// Takes an empty line, which is reset now.
    pub(super) fn begin_reset(&mut self, line: u32) {
        let index = self.empty.iter().position(|it| *it == line).expect("an empty line");
        self.empty.remove(index);
        self.candidates.forget_failed(line);
        self.at_mut(line).go(State::Resetting);
        self.resetting += 1;
    }

    /// The next segment of a line that holds something and can be reset: its reset is sent now.
    pub(super) fn next_reset(&mut self, line: u32) -> Option<u32> {
        let segment = self.to_reset(line)?;
        self.chunks.begin_reset(segment);
        self.at_mut(line).begin();
        Some(segment)
    }

    fn to_reset(&self, line: u32) -> Option<u32> {
        self.segments(line).find(|segment| self.chunks.at(*segment).needs_reset())
    }

    /// The reset of a segment is over, whatever came of it.
    pub(super) fn reset_over(&mut self, line: u32) {
        let it = self.at_mut(line);
        assert_eq!(it.state(), State::Resetting);
        it.end();
    }

    /// Ends the reset of a line when none of its segments is being reset or to be reset any more;
    /// whether it did.
    pub(super) fn end_reset(&mut self, line: u32) -> bool {
        if self.at(line).is_busy() || self.to_reset(line).is_some() {
            return false;
        }
        self.resetting -= 1;
        self.map_lines -= u32::from(self.at(line).is_of_map());
        let dead = self.segments(line).all(|segment| self.chunks.at(segment).bad);
        self.at_mut(line).end_reset(dead);
        self.lists.put(self.layout.front(line), (line, self.wear(line)), dead);
        self.free_strips += if dead { 0 } else { self.room_in(line) };
        true
    }

    /// Erases of the segment of a line that has most of them, those that failed apart.
    fn wear(&self, line: u32) -> u32 {
        let chunks = self.segments(line).map(|segment| self.chunks.at(segment));
        chunks.filter(|it| !it.bad).map(Chunk::wear).max().unwrap_or(0)
    }

    /// Recovery has seen all of a line: what is left of it is filled later, or it is erased.
    pub(super) fn found(&mut self, line: u32) {
        let it = self.at(line);
        if it.valid() == 0 && it.last_trim() == 0 {
            return self.found_nothing(line);
        }
        let (of_map, left) = (it.is_of_map(), self.left(line) > 0);
        let front = if of_map { self.layout.fronts } else { self.layout.front(line) };
        self.map_lines += u32::from(of_map);
        self.at_mut(line).go(State::Open);
        if left {
            self.fronts.add_partly(front, line)
        } else {
            self.at_mut(line).take_no_more()
        }
        let failed = |column: u32| {
            let chunk = self.chunks.at(self.layout.segment(line, column));
            chunk.bad && chunk.done > 0 && self.at(line).has_part(column)
        };
        if (0..self.layout.width).any(failed) {
            let first = self.layout.segment(line, 0);
            self.note_failed(first);
        }
        self.settle(line, 0);
    }

    /// Nothing was found in a line: it is erased already, or must be.
    pub(super) fn found_nothing(&mut self, line: u32) {
        self.map_lines += u32::from(self.at(line).is_of_map());
        self.emptied(line, 0);
    }

    /// Whether each line is in one list of its unit, or in none for a reason.
    pub(super) fn lists_agree(&self) -> bool {
        let elsewhere = self.list.iter().filter(|it| match it.state() {
            State::Open | State::Victim => true,
            State::Full => self.layout.wide || it.is_of_map(),
            _ => false,
        });
        self.lists.add_up_to(self.layout.lines, elsewhere.count() as u32)
    }

    fn level(&self, line: u32) -> u8 {
        let all = u64::from(self.layout.row_strips() * self.layout.strip_blocks());
        let valid = u64::from(self.at(line).valid());
        let levels = u64::from(victims::LEVELS);
        (valid * levels).div_ceil(all).min(levels) as u8
    }

    /// Blocks of the host that fit on what did not fail, while collection can always go on.
    fn capacity(&self) -> u64 {
        let strips: u64 =
            self.chunks.iter().filter(|it| !it.bad).map(|it| u64::from(it.strips)).sum();
        let (line, kept) = (self.layout.row_strips(), self.layout.keep + self.layout.reserve);
        let full = (strips / u64::from(self.layout.line_strips())).saturating_sub(kept.into());
        full * u64::from(line.saturating_sub(2) * self.layout.strip_blocks())
    }
}
