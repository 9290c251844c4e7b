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

use hostftl_core::{Cause, Command, DeviceError, Gather, Piece, SECTORS_PER_BLOCK, Tally, Verdict};
use hostftl_format::zones;

use super::Engine;
use super::ops::{Cx, fail};
use super::recovery::{LANES, Step};

impl Engine {
    /// Goes through the segments, each of them in one step.
    pub(super) fn pump_pads(&mut self, segment: u32, cx: &mut Cx) -> bool {
        if segment == self.layout.device.count {
            return self.end_of_step(Step::Scan);
        }
        let chunk = *self.lines.chunk(segment);
        if chunk.open {
            if self.recovery().pending as usize >= LANES || cx.room() < 4 {
                return false;
            }
            let Some(lane) = self.idle_lane() else { return false };
            let pointer = self.recovery().pointers[segment as usize];
            let whole = pointer.is_multiple_of(self.layout.strip);
            let unreadable = self.layout.unreadable();
            let mark = chunk.pointer.checked_sub(unreadable + 1);
            match mark.filter(|_| whole && unreadable > 0) {
                Some(strip) => self.read_strip(lane, (segment, strip), true, cx),
                None => self.pad(lane, segment, cx),
            }
        }
        self.go(Step::Pad(segment + 1))
    }

    /// Where pads would end was read, or can't be: pads what does not end there.
    pub(super) fn mark_read(&mut self, lane: usize, sound: bool, cx: &mut Cx) {
        let (segment, strip) = self.recovery().asked[lane];
        let at = self.layout.tail_at(segment, strip);
        let recovery = self.recovery.as_ref().expect("the volume is being recovered");
        let page = &recovery.bufs[lane].as_ref().expect("it was read").pages()[0];
        let end = if sound { zones::pad_end(page, &self.uuid, at) } else { None };
        if end != Some(self.lines.chunk(segment).pointer.into()) {
            self.pad(lane, segment, cx);
        }
    }

    /// Pads one open segment.
    fn pad(&mut self, lane: usize, segment: u32, cx: &mut Cx) {
        let from = self.recovery().pointers[segment as usize];
        let (strip, chunk) = (self.layout.strip, *self.lines.chunk(segment));
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
            let uuid = self.uuid;
            let mut buf = self.recovery().bufs[lane].take().expect("an idle lane has its buffer");
            zones::seal_pad(&mut buf.pages_mut()[0], &uuid, at, end.into());
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
        self.count_sent(&tally, cx);
        self.lines.pad(segment, end);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        self.recover(lane as u16, command, cx);
    }

    /// A pad is written, or is not.
    pub(super) fn padded(
        &mut self,
        lane: usize,
        (lba, gather): (u64, Gather),
        result: Result<Verdict, DeviceError>,
        cx: &mut Cx,
    ) {
        for piece in gather {
            if let Piece::Meta { buf, .. } = piece {
                self.recovery().bufs[lane] = Some(buf);
            }
        }
        let segment = (lba / u64::from(self.layout.device.size)) as u32;
        let chunk = *self.lines.chunk(segment);
        match result {
            Ok(_) => self.lines.sent(segment, chunk.pointer - 1, false),
            Err(DeviceError::Media) => {
                self.lines.sent(segment, 0, true);
                cx.counters().device_errors += 1;
            }
            Err(error) => fail(error, cx),
        }
    }
}
