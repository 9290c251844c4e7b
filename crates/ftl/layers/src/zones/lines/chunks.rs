//! Segments of the device: their write pointers and failures.
//!
//! Invariants
//! - `done <= pointer <= strips`, and `flight` strips are in flight to the segment.
//! - A bad segment is never programmed or reset again.
//! - At most as many segments are open as the device allows.

use alloc::vec::Vec;

use hostftl_format::report::{SegmentReport, SegmentState};

use crate::zones::layout::{IN_FLIGHT, Layout};

/// One segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chunk {
    /// Number of strips sent.
    pub pointer: u32,
    /// Number of strips written.
    pub done: u32,
    /// Number of strips in flight.
    flight: u32,
    /// Number of strips that fit.
    pub strips: u32,
    /// Number of writable sectors.
    pub length: u32,
    /// Whether it failed.
    pub bad: bool,
    /// Whether it may contain data.
    dirty: bool,
    /// Whether the device counts it as open.
    pub open: bool,
    /// Wear; see [`Chunk::wear`].
    wear: u32,
}

impl Chunk {
    /// Returns the number of strips that can still be sent.
    pub(crate) fn left(&self) -> u32 {
        if self.bad { 0 } else { self.strips - self.pointer }
    }

    /// Returns whether strips are in flight.
    pub(crate) fn is_written_to(&self) -> bool {
        self.flight > 0
    }

    /// Returns whether it contains data and can be reset.
    pub(crate) fn needs_reset(&self) -> bool {
        self.dirty && !self.bad
    }

    /// Returns the wear that the device reported at the start, plus one for each reset since.
    pub(crate) fn wear(&self) -> u32 {
        self.wear
    }

    /// Returns the number of strips that can be read now, if the last `unreadable` ones can't.
    pub(crate) fn readable(&self, unreadable: u32) -> u32 {
        // A closed or failed segment can be read up to its last strip.
        let whole = self.bad || self.done == self.strips;
        if whole { self.done } else { self.done.saturating_sub(unreadable) }
    }
}

/// All segments.
#[derive(Debug)]
pub(crate) struct Chunks {
    list: Vec<Chunk>,
    open: u32,
    max_open: u32,
}

impl Chunks {
    /// Creates segments according to the geometry; the report of the device corrects them.
    pub(crate) fn new(layout: &Layout) -> Self {
        let (strips, length) = (layout.strips, layout.device.size);
        let chunk = Chunk { strips, length, dirty: true, ..Chunk::default() };
        let list = alloc::vec![chunk; layout.device.count as usize];
        let max_open = layout.device.max_open;
        Chunks { list, open: 0, max_open: if max_open == 0 { u32::MAX } else { max_open } }
    }

    /// Returns the bytes of all segments.
    pub(crate) fn memory(layout: &Layout) -> u64 {
        size_of::<Chunk>() as u64 * u64::from(layout.device.count)
    }

    pub(crate) fn at(&self, segment: u32) -> &Chunk {
        &self.list[segment as usize]
    }

    fn at_mut(&mut self, segment: u32) -> &mut Chunk {
        &mut self.list[segment as usize]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Chunk> {
        self.list.iter()
    }

    /// Returns whether a strip can be sent to a segment now.
    pub(crate) fn takes(&self, segment: u32) -> bool {
        let it = self.at(segment);
        it.left() > 0 && it.flight < IN_FLIGHT && (it.open || self.open < self.max_open)
    }

    /// Sends a strip to a segment, and returns its number.
    pub(crate) fn send(&mut self, segment: u32) -> u32 {
        assert!(self.takes(segment), "a strip for a segment that takes no writes");
        self.note_open(segment);
        let it = self.at_mut(segment);
        it.pointer += 1;
        it.flight += 1;
        it.dirty = true;
        it.pointer - 1
    }

    /// Applies the device's report of a segment.
    pub(crate) fn found(&mut self, segment: u32, report: &SegmentReport, layout: &Layout) {
        let chunk = self.at_mut(segment);
        chunk.length = (report.length as u32).min(layout.device.size);
        // The writable length may be shorter than the segment.
        chunk.strips = chunk.length / layout.strip;
        let pointer = (report.pointer as u32).min(chunk.length);
        // A strip that is written in part doesn't count; recovery pads it.
        chunk.pointer = (pointer / layout.strip).min(chunk.strips);
        chunk.done = chunk.pointer;
        chunk.wear = report.wear.into();
        chunk.dirty = report.state != SegmentState::Free;
        chunk.bad = report.state == SegmentState::Offline || chunk.strips == 0;
        if report.state == SegmentState::Open && !chunk.bad {
            self.note_open(segment);
        }
    }

    /// Notes that recovery pads an open segment up to strip `end`.
    pub(crate) fn pad(&mut self, segment: u32, end: u32) {
        let chunk = self.at_mut(segment);
        assert!(chunk.open && chunk.flight == 0, "an open segment is padded once");
        (chunk.pointer, chunk.flight) = (end, 1);
    }

    /// Counts a segment as open.
    fn note_open(&mut self, segment: u32) {
        let it = &mut self.list[segment as usize];
        self.open += u32::from(!it.open);
        it.open = true;
    }

    /// Completes a strip.
    pub(crate) fn sent(&mut self, segment: u32, strip: u32, failed: bool) {
        let it = &mut self.list[segment as usize];
        it.flight = it.flight.checked_sub(1).expect("a finished strip was sent");
        if failed {
            it.bad = true;
        } else {
            it.done = it.done.max(strip + 1);
        }
        // The device closes a segment when it is full or has failed.
        if it.open && (it.bad || it.done == it.strips) {
            it.open = false;
            self.open -= 1;
        }
    }

    /// Notes that the reset of a segment was sent.
    pub(crate) fn begin_reset(&mut self, segment: u32) {
        let it = self.at_mut(segment);
        assert!(it.needs_reset(), "a segment is reset once and only if it holds data");
        it.dirty = false;
    }

    /// Completes the reset of a segment.
    pub(crate) fn reset(&mut self, segment: u32, failed: bool) {
        let it = &mut self.list[segment as usize];
        assert_eq!(it.flight, 0, "a reset while strips are in progress");
        self.open -= u32::from(it.open);
        (it.pointer, it.done, it.open, it.dirty) = (0, 0, false, false);
        it.bad |= failed;
        it.wear += 1;
    }
}
