//! The segments of the device: how far each is written, and which of them are out of use.
//!
//! Invariants
//! - `done <= pointer <= strips`, and `flight` strips are under way to the segment.
//! - A segment that is bad gets no program and no reset ever again.
//! - No more segments are open than the device allows.

use alloc::vec::Vec;

use hostftl_format::report::{SegmentReport, SegmentState};

use crate::zones::layout::{IN_FLIGHT, Layout};

/// One segment.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Chunk {
    /// Strips that were sent.
    pub pointer: u32,
    /// Strips that are written.
    pub done: u32,
    /// Strips on their way.
    flight: u32,
    /// Strips that fit.
    pub strips: u32,
    /// Sectors that can be written.
    pub length: u32,
    /// It failed.
    pub bad: bool,
    /// Something may be in it.
    dirty: bool,
    /// The device counts it as open.
    pub open: bool,
    /// See [`Chunk::wear`].
    wear: u32,
}

impl Chunk {
    /// Strips that can still be sent to it.
    pub(crate) fn left(&self) -> u32 {
        if self.bad { 0 } else { self.strips - self.pointer }
    }

    /// Whether strips are on their way to it.
    pub(crate) fn is_written_to(&self) -> bool {
        self.flight > 0
    }

    /// Whether it holds something, and can be reset.
    pub(crate) fn needs_reset(&self) -> bool {
        self.dirty && !self.bad
    }

    /// The wear that the device told at the start, and one for each reset since.
    pub(crate) fn wear(&self) -> u32 {
        self.wear
    }

    /// Strips that can be read now, when `unreadable` of the last ones can't.
    pub(crate) fn readable(&self, unreadable: u32) -> u32 {
        let whole = self.bad || self.done == self.strips;
        if whole { self.done } else { self.done.saturating_sub(unreadable) }
    }
}

#[derive(Debug)]
pub(crate) struct Chunks {
    list: Vec<Chunk>,
    open: u32,
    max_open: u32,
}

impl Chunks {
    /// Segments as the geometry says; the device's report tells more.
    pub(crate) fn new(layout: &Layout) -> Self {
        let (strips, length) = (layout.strips, layout.device.size);
        let chunk = Chunk { strips, length, dirty: true, ..Chunk::default() };
        let list = alloc::vec![chunk; layout.device.count as usize];
        let max_open = layout.device.max_open;
        Chunks { list, open: 0, max_open: if max_open == 0 { u32::MAX } else { max_open } }
    }

    /// Bytes of them all.
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

    /// Whether a strip can be sent to a segment now.
    pub(crate) fn takes(&self, segment: u32) -> bool {
        let it = self.at(segment);
        it.left() > 0 && it.flight < IN_FLIGHT && (it.open || self.open < self.max_open)
    }

    /// A strip is sent to a segment; returns which.
    pub(crate) fn send(&mut self, segment: u32) -> u32 {
        assert!(self.takes(segment), "a strip for a segment that takes none");
        self.note_open(segment);
        let it = self.at_mut(segment);
        it.pointer += 1;
        it.flight += 1;
        it.dirty = true;
        it.pointer - 1
    }

    /// The device told how far a segment is written.
    pub(crate) fn found(&mut self, segment: u32, told: &SegmentReport, layout: &Layout) {
        let chunk = self.at_mut(segment);
        chunk.length = (told.length as u32).min(layout.device.size);
        chunk.strips = chunk.length / layout.strip;
        let pointer = (told.pointer as u32).min(chunk.length);
        chunk.pointer = (pointer / layout.strip).min(chunk.strips);
        chunk.done = chunk.pointer;
        chunk.wear = told.wear.into();
        chunk.dirty = told.state != SegmentState::Free;
        chunk.bad = told.state == SegmentState::Offline || chunk.strips == 0;
        if told.state == SegmentState::Open && !chunk.bad {
            self.note_open(segment);
        }
    }

    /// Recovery pads an open segment up to a strip.
    pub(crate) fn pad(&mut self, segment: u32, end: u32) {
        let chunk = self.at_mut(segment);
        assert!(chunk.open && chunk.flight == 0, "an open segment is padded once");
        (chunk.pointer, chunk.flight) = (end, 1);
    }

    /// The device opens a segment, or has it open.
    fn note_open(&mut self, segment: u32) {
        let it = &mut self.list[segment as usize];
        self.open += u32::from(!it.open);
        it.open = true;
    }

    /// A strip is over.
    pub(crate) fn sent(&mut self, segment: u32, strip: u32, failed: bool) {
        let it = &mut self.list[segment as usize];
        it.flight = it.flight.checked_sub(1).expect("a strip that is over was sent");
        if failed {
            it.bad = true;
        } else {
            it.done = it.done.max(strip + 1);
        }
        if it.open && (it.bad || it.done == it.strips) {
            it.open = false;
            self.open -= 1;
        }
    }

    /// The reset of a segment is sent.
    pub(crate) fn begin_reset(&mut self, segment: u32) {
        let it = self.at_mut(segment);
        assert!(it.needs_reset(), "a segment is reset once, and only when it holds something");
        it.dirty = false;
    }

    /// A segment was reset, or failed to be.
    pub(crate) fn reset(&mut self, segment: u32, failed: bool) {
        let it = &mut self.list[segment as usize];
        assert_eq!(it.flight, 0, "a reset while strips are on their way");
        self.open -= u32::from(it.open);
        (it.pointer, it.done, it.open, it.dirty) = (0, 0, false, false);
        it.bad |= failed;
        it.wear += 1;
    }
}
