//! Pads: what recovery writes into segments that were open.
//!
//! Such a segment goes on at the next strip, and where a device can't read the last sectors before
//! a pointer, so many strips of zeros follow that all before them can be read, and as many again.
//! The strip between the two has a page, the mark, that says where the pads end. While nothing
//! follows them the next recovery finds the mark and writes nothing, so that cuts alone take no
//! room.
//!
//! Invariants
//! - A pad has no tail and so never counts.
//! - No mark lies among the strips that an older mark calls pads. A cut may leave the mark and lose
//!   what is behind it; if pads of an older one ended there, rows would follow, and the mark would
//!   call them pads.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, Gather, Piece, SECTORS_PER_BLOCK, Tally, Verdict};
use hostftl_format::zones;

use super::lanes::{LANES, Lanes};
use super::layout::Layout;
use super::ops::{Cx, fail};
use super::store::Store;

#[derive(Debug)]
pub(super) struct Pads {
    layout: Layout,
    /// The write pointers of open segments, in sectors.
    pointers: Vec<u32>,
}

impl Pads {
    /// No segment is open.
    pub(super) fn new(layout: &Layout) -> Self {
        Pads { layout: *layout, pointers: alloc::vec![0; layout.device.count as usize] }
    }

    /// A segment is open, and its write pointer is here, in sectors.
    pub(super) fn found_open(&mut self, segment: u32, pointer: u32) {
        self.pointers[segment as usize] = pointer;
    }

    /// Goes through one of the segments; false when it must wait.
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
        if lanes.pending() as usize >= LANES || cx.room() < 4 {
            return false;
        }
        let Some(lane) = lanes.idle() else { return false };
        let whole = self.pointers[segment as usize].is_multiple_of(self.layout.strip);
        let unreadable = self.layout.unreadable();
        let mark = chunk.pointer.checked_sub(unreadable + 1);
        match mark.filter(|_| whole && unreadable > 0) {
            Some(strip) => lanes.read(lane, (segment, strip), true, cx),
            None => self.pad(lane, segment, lanes, store, cx),
        }
        true
    }

    /// Where pads would end was read, or can't be: pads what does not end there.
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
        if end != Some(store.lines.chunk(segment).pointer.into()) {
            self.pad(lane, segment, lanes, store, cx);
        }
    }

    /// Pads one open segment.
    fn pad(&self, lane: usize, segment: u32, lanes: &mut Lanes, store: &mut Store, cx: &mut Cx) {
        let from = self.pointers[segment as usize];
        let (strip, chunk) = (self.layout.strip, *store.lines.chunk(segment));
        let hidden = if chunk.pointer == 0 { 0 } else { self.layout.unreadable() };
        let first = from.div_ceil(strip);
        let mark = first + hidden;
        let mut end = if hidden > 0 { mark + 1 + hidden } else { first };
        let mut to = end * strip;
        let marked = hidden > 0 && end < chunk.strips;
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
        let mut tally = Tally::of(Cause::Pad, to - from);
        if marked {
            tally = Tally::of(Cause::Pad, to - from - SECTORS_PER_BLOCK);
            tally.add(Cause::Map, SECTORS_PER_BLOCK);
        }
        store.strips.count(&tally, cx);
        store.lines.chunks_mut().pad(segment, end);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        lanes.submit(lane, command, cx);
    }

    /// A pad is written, or is not.
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
