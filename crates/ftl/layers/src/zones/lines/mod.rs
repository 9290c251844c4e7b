//! State of the lines: free, open, full or empty, and the number of valid blocks in each.
//!
//! Invariants
//! - A line is in a free list exactly when it is `Free`, in `empty` exactly when it is `Empty`, and
//!   offered as a victim exactly when it is `Full` and has no map images.
//! - A line becomes `Full` after its list, if it is to have one, is written or abandoned.
//! - The valid blocks of a line are those that the map places in it. Its valid images are those of
//!   the last durable root and of the one in progress.
//! - A line is reset only when nothing in it is valid and the rows that emptied it are durable.
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

/// All lines of the device.
#[derive(Debug)]
pub(super) struct Lines {
    layout: Layout,
    list: Vec<Line>,
    chunks: Chunks,
    lists: Lists,
    fronts: Fronts,
    candidates: Candidates,
    empty: VecDeque<u32>,
    /// Number of lines being reset.
    resetting: u32,
    /// Number of lines with map images.
    map_lines: u32,
    /// Strips in free lines.
    free_strips: i64,
    /// Line that takes no more rows and whose list is not written yet.
    closing: Option<u32>,
    /// Whether failed segments have made the device too small for the exported capacity.
    is_worn: bool,
}

impl Lines {
    /// Creates the lines in an unknown state.
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

    /// Returns the bytes of the tables of lines and segments.
    pub(super) fn memory(layout: &Layout, gc: GcPolicy) -> u64 {
        let queues = 2 * size_of::<u32>() + Lists::EACH;
        let lines = (size_of::<Line>() + queues) as u64 * u64::from(layout.lines);
        lines + Chunks::memory(layout) + Candidates::memory(layout, gc)
    }

    /// Returns a line.
    pub(super) fn at(&self, line: u32) -> &Line {
        &self.list[line as usize]
    }

    /// Returns a line for changes that don't affect its state.
    pub(super) fn at_mut(&mut self, line: u32) -> &mut Line {
        &mut self.list[line as usize]
    }

    /// Returns a segment.
    pub(super) fn chunk(&self, segment: u32) -> &Chunk {
        self.chunks.at(segment)
    }

    /// Returns the segments for modification.
    pub(super) fn chunks_mut(&mut self) -> &mut Chunks {
        &mut self.chunks
    }

    fn segments(&self, line: u32) -> impl Iterator<Item = u32> + use<> {
        let layout = self.layout;
        (0..layout.width).map(move |column| layout.segment(line, column))
    }

    /// Returns the strips that can still be sent to a line, without those of its list.
    pub(super) fn left(&self, line: u32) -> u32 {
        (0..self.layout.width).map(|column| self.left_in(line, column)).sum()
    }

    fn left_in(&self, line: u32, column: u32) -> u32 {
        // The last strips of this segment are reserved for the list.
        let kept = if self.at(line).list() == Some(column) { self.layout.list } else { 0 };
        self.chunks.at(self.layout.segment(line, column)).left().saturating_sub(kept)
    }

    /// Returns whether strips of a line are in flight.
    pub(super) fn in_flight(&self, line: u32) -> bool {
        self.segments(line).any(|segment| self.chunks.at(segment).is_written_to())
    }

    /// Returns the strips of a free line that blocks of the host can use.
    fn room_in(&self, line: u32) -> i64 {
        i64::from(self.left(line).saturating_sub(self.layout.list))
    }

    /// Iterates over the empty lines.
    pub(super) fn empty(&self) -> impl Iterator<Item = (u32, &Line)> {
        self.empty.iter().map(|line| (*line, self.at(*line)))
    }

    /// Returns the number of empty lines.
    pub(super) fn empty_count(&self) -> u32 {
        self.empty.len() as u32
    }

    /// Returns the number of lines being reset.
    pub(super) fn resetting(&self) -> u32 {
        self.resetting
    }

    /// Returns the number of free lines not reserved for images. A line with failed segments counts
    /// in proportion.
    pub(super) fn spare(&self) -> u32 {
        self.spare_strips().max(0) as u32 / self.layout.row_strips()
    }

    /// Returns whether a free line is not reserved for images, whatever its number of strips: even
    /// a line with failed segments can be opened.
    fn has_spare(&self) -> bool {
        self.lists.free() > self.layout.keep.saturating_sub(self.map_lines)
    }

    /// Returns the strips in free lines that are not reserved for images.
    pub(super) fn spare_strips(&self) -> i64 {
        let kept = self.layout.keep.saturating_sub(self.map_lines);
        self.free_strips - i64::from(kept * self.layout.row_strips())
    }

    /// Returns whether free lines are becoming scarce.
    pub(super) fn is_short(&self) -> bool {
        self.spare() < self.layout.reserve + 3
    }

    /// Returns whether a line should be collected: few are free, or one has a failed segment.
    pub(super) fn wants_collection(&self) -> bool {
        let few = self.spare() + self.empty_count() < self.layout.reserve + 3;
        few || self.has_failed_victim() || self.lists.any_in_need()
    }

    /// Returns the front whose unit has the most free segments.
    pub(super) fn freest_front(&self) -> u32 {
        self.lists.freest()
    }

    /// Ends a row, list or strip of images of a line. Its strip is written and known to the map, or
    /// failed. `seq` is the last row.
    pub(super) fn row_over(&mut self, line: u32, seq: u64) {
        self.at_mut(line).end();
        self.settle(line, seq);
    }

    /// Turns a completely written line into a full or empty one.
    fn settle(&mut self, line: u32, seq: u64) {
        if self.at(line).is_written() {
            self.fill(line, seq);
        }
    }

    /// Ends all writing to a line: it becomes full or empty.
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
        // The line counts for its unit from now on, so that no further victim is collected for it.
        self.lists.await_one(self.layout.front(line));
    }

    /// Counts a block that the map now places in a line.
    pub(super) fn add_valid(&mut self, line: u32) {
        self.at_mut(line).add_valid();
        self.candidates.tick();
    }

    /// Counts a block in a line that became invalid. The change is durable with row `seq`.
    pub(super) fn invalidate(&mut self, line: u32, seq: u64) {
        let it = self.at_mut(line);
        let valid = it.invalidate();
        let (old, of_map) = (it.level, it.is_of_map());
        // An open line or victim becomes empty when it is done.
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
        // `rrpc` compares exact counts, and has no policy to inform.
        if level != old && !of_map && self.layout.wide {
            self.at_mut(line).level = level;
            self.candidates.level_changed(line, level);
        }
    }

    /// Invalidates the images of the previous root, because the new one is durable.
    pub(super) fn root_durable(&mut self) {
        for line in 0..self.layout.lines {
            let it = self.at_mut(line);
            if !it.is_of_map() || matches!(it.state(), State::Free | State::Resetting) {
                continue;
            }
            // Images and the root are counted per line, so all lines must be visited.
            it.keep_images_of_next_root();
            if it.valid() == 0 && it.state() == State::Full {
                self.emptied(line, 0);
            }
        }
    }

    /// Returns the segment that ends with the list of a line.
    ///
    /// # Panics
    /// If the line has no list.
    ///
    /// # Panics
    /// When the line gets no list.
    pub(super) fn list_segment(&self, line: u32) -> u32 {
        let column = self.at(line).list().expect("a line with a list");
        self.layout.segment(line, column)
    }

    /// Returns the line whose list is to be written.
    pub(super) fn closing(&self) -> Option<u32> {
        self.closing
    }

    /// Ends the list of the closing line. `counts` is whether the list is written and complete.
    pub(super) fn list_over(&mut self, counts: bool, seq: u64) {
        let line = self.closing.take().expect("a list is written for a full line");
        self.at_mut(line).set_listed(counts);
        self.row_over(line, seq);
    }

    /// Returns whether a strip can be sent to a segment now.
    pub(super) fn takes(&self, segment: u32) -> bool {
        self.chunks.takes(segment)
    }

    /// Handles a failed segment: its line must be collected, and capacity is lost.
    pub(super) fn lose_segment(&mut self, segment: u32, cx: &mut Cx) {
        cx.counters().device_errors += 1;
        self.note_failed(segment);
        self.measure();
    }

    /// Checks whether the remaining segments are enough for the exported capacity.
    pub(super) fn measure(&mut self) {
        self.is_worn = self.capacity() < self.layout.blocks;
    }

    /// Returns whether failed segments have made the device too small for the exported capacity.
    pub(super) fn is_worn(&self) -> bool {
        self.is_worn
    }

    /// Begins the reset of an empty line.
    pub(super) fn begin_reset(&mut self, line: u32) {
        let index = self.empty.iter().position(|it| *it == line).expect("an empty line");
        self.empty.remove(index);
        self.candidates.forget_failed(line);
        self.at_mut(line).go(State::Resetting);
        self.resetting += 1;
    }

    /// Returns the next segment of a line to reset, and marks it as being reset.
    pub(super) fn next_reset(&mut self, line: u32) -> Option<u32> {
        let segment = self.to_reset(line)?;
        self.chunks.begin_reset(segment);
        self.at_mut(line).begin();
        Some(segment)
    }

    fn to_reset(&self, line: u32) -> Option<u32> {
        self.segments(line).find(|segment| self.chunks.at(*segment).needs_reset())
    }

    /// Ends the reset of a segment, successful or not.
    pub(super) fn reset_over(&mut self, line: u32) {
        let it = self.at_mut(line);
        assert_eq!(it.state(), State::Resetting);
        it.end();
    }

    /// Ends the reset of a line once no segment of it remains. Returns whether it did.
    pub(super) fn end_reset(&mut self, line: u32) -> bool {
        // A step may not have room for all resets of a line.
        if self.at(line).is_busy() || self.to_reset(line).is_some() {
            return false;
        }
        self.resetting -= 1;
        self.map_lines -= u32::from(self.at(line).is_of_map());
        // A line with some failed segments is used again with the others.
        let has_failed = self.segments(line).all(|segment| self.chunks.at(segment).bad);
        self.at_mut(line).end_reset(has_failed);
        self.lists.put(self.layout.front(line), (line, self.wear(line)), has_failed);
        self.free_strips += if has_failed { 0 } else { self.room_in(line) };
        true
    }

    /// Returns the highest erase count of a line's segments, except failed ones.
    fn wear(&self, line: u32) -> u32 {
        let chunks = self.segments(line).map(|segment| self.chunks.at(segment));
        chunks.filter(|it| !it.bad).map(Chunk::wear).max().unwrap_or(0)
    }

    /// Sets the state of a line after recovery: partly written lines are filled later, empty ones
    /// erased.
    pub(super) fn found(&mut self, line: u32) {
        let it = self.at(line);
        // A line with a trim is kept, because replay may need the trim again.
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

    /// Sets the state of a line in which recovery found nothing: it must be erased unless it
    /// already is.
    pub(super) fn found_nothing(&mut self, line: u32) {
        self.map_lines += u32::from(self.at(line).is_of_map());
        self.emptied(line, 0);
    }

    /// Checks that each line is in exactly one list of its unit, or in none for a known reason.
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

    /// Returns the blocks of the host that fit on the good segments while collection can make
    /// progress.
    fn capacity(&self) -> u64 {
        let strips: u64 =
            self.chunks.iter().filter(|it| !it.bad).map(|it| u64::from(it.strips)).sum();
        // As in the layout: each full line must have two strips to gain.
        let (line, kept) = (self.layout.row_strips(), self.layout.keep + self.layout.reserve);
        let full = (strips / u64::from(self.layout.line_strips())).saturating_sub(kept.into());
        full * u64::from(line.saturating_sub(2) * self.layout.strip_blocks())
    }
}
