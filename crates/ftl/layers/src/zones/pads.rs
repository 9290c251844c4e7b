//! Pads: zeros that recovery writes into open segments.
//!
//! An open segment continues at its next strip. Some devices can't read the last sectors before the
//! write pointer. There recovery pads as many strips as are unreadable, so that all earlier ones
//! can be read, and as many again. The strip between the two groups has a page, the mark, that
//! records where the pads end. As long as nothing follows the pads, the next recovery finds the
//! mark and writes nothing. Repeated power cuts alone thus take no space.
//!
//! Invariants
//! - A pad has no tail, so it never counts as a strip.
//! - No mark is among the strips that an older mark covers as pads. A cut may keep the mark and
//!   lose the strips after it. If pads of an older mark ended there, rows would follow, and the
//!   mark would cover them as pads.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, Gather, Piece, SECTORS_PER_BLOCK, Tally, Verdict};
use hostftl_format::zones;

use super::lanes::{LANES, Lanes};
use super::layout::Layout;
use super::ops::{Cx, fail};
use super::store::Store;

/// Write pointers of the segments to pad.
#[derive(Debug)]
pub(super) struct Pads {
    layout: Layout,
    /// Write pointers of open segments, in sectors.
    pointers: Vec<u32>,
}

impl Pads {
    /// Creates the state without open segments.
    pub(super) fn new(layout: &Layout) -> Self {
        Pads { layout: *layout, pointers: alloc::vec![0; layout.device.count as usize] }
    }

    /// Notes an open segment and its write pointer, in sectors.
    pub(super) fn found_open(&mut self, segment: u32, pointer: u32) {
        self.pointers[segment as usize] = pointer;
    }

    /// Pads a segment if it is open, or first reads a possible mark. Returns false if it must wait.
    pub(super) fn run(
        &self,
        segment: u32,
        lanes: &mut Lanes,
        store: &mut Store,
        cx: &mut Cx,
    ) -> bool {
        let chunk = *store.lines.chunk(segment);
        if !chunk.open {
            return true;
        }
        if lanes.pending() as usize >= LANES || cx.outputs_left() < 4 {
            return false;
        }
        let Some(lane) = lanes.idle() else { return false };
        // A pointer within a strip is the end of a torn program, so no complete pads can end there.
        let whole = self.pointers[segment as usize].is_multiple_of(self.layout.strip);
        let unreadable = self.layout.unreadable();
        let mark = chunk.pointer.checked_sub(unreadable + 1);
        match mark.filter(|_| whole && unreadable > 0) {
            Some(strip) => lanes.read(lane, (segment, strip), true, cx),
            None => self.pad(lane, segment, lanes, store, cx),
        }
        true
    }

    /// Pads a segment unless the mark that was read, if `sound`, ends at its write pointer.
    pub(super) fn mark_read(
        &self,
        lane: usize,
        sound: bool,
        lanes: &mut Lanes,
        store: &mut Store,
        cx: &mut Cx,
    ) {
        let (segment, strip) = lanes.place(lane);
        let at = self.layout.tail_at(segment, strip);
        let page = &lanes.pages(lane)[0];
        let end = if sound { zones::pad_end(page, &self.layout.uuid, at) } else { None };
        // Pads that end at the write pointer are intact, and nothing was written after them.
        if end != Some(store.lines.chunk(segment).pointer.into()) {
            self.pad(lane, segment, lanes, store, cx);
        }
    }

    /// Pads one open segment.
    fn pad(&self, lane: usize, segment: u32, lanes: &mut Lanes, store: &mut Store, cx: &mut Cx) {
        let from = self.pointers[segment as usize];
        let (strip, chunk) = (self.layout.strip, *store.lines.chunk(segment));
        // An empty segment has nothing that must become readable.
        let hidden = if chunk.pointer == 0 { 0 } else { self.layout.unreadable() };
        let first = from.div_ceil(strip);
        let mark = first + hidden;
        let mut end = if hidden > 0 { mark + 1 + hidden } else { first };
        let mut to = end * strip;
        let marked = hidden > 0 && end < chunk.strips;
        // The rest of the segment closes it, which makes all of it readable without a mark.
        if end >= chunk.strips {
            (end, to) = (chunk.strips, chunk.length);
        }
        if to == from {
            return;
        }
        let lba = self.layout.lba(segment, 0) + u64::from(from);
        let mut gather = Gather::new();
        if marked {
            let at = self.layout.tail_at(segment, mark);
            let mut buf = lanes.lend(lane);
            zones::seal_pad(&mut buf.pages_mut()[0], &self.layout.uuid, at, end.into());
            gather.push(Piece::zero_sectors((at - lba) as u32));
            gather.push(Piece::Meta { buf, pages: 1 });
            gather.push(Piece::zero_sectors(hidden * strip));
        } else {
            gather.push(Piece::zero_sectors(to - from));
        }
        let mut tally = Tally::single(Cause::Pad, to - from);
        if marked {
            tally = Tally::single(Cause::Pad, to - from - SECTORS_PER_BLOCK);
            tally.add(Cause::Map, SECTORS_PER_BLOCK);
        }
        store.strips.count(&tally, cx);
        store.lines.chunks_mut().pad(segment, end);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        lanes.submit(lane, command, cx);
    }

    /// Completes a pad.
    pub(super) fn padded(
        &self,
        lane: usize,
        (lba, gather): (u64, Gather),
        result: Result<Verdict, DeviceError>,
        lanes: &mut Lanes,
        store: &mut Store,
        cx: &mut Cx,
    ) {
        for piece in gather {
            if let Piece::Meta { buf, .. } = piece {
                lanes.take_back(lane, buf);
            }
        }
        let segment = (lba / u64::from(self.layout.device.size)) as u32;
        match result {
            Ok(_) => {
                let last = store.lines.chunk(segment).pointer - 1;
                store.lines.chunks_mut().sent(segment, last, false);
            }
            Err(DeviceError::Media) => {
                store.lines.chunks_mut().sent(segment, 0, true);
                cx.counters().device_errors += 1;
            }
            Err(error) => fail(error, cx),
        }
    }
}
