//! The segments of a zoned device: which commands they accept, and in which order these run.
//!
//! Invariants
//! - One program at a time is in flight in a segment; others wait for it in the order of their
//!   arrival. `ahead` is the write pointer after all of them.
//! - `pointer` is visible to reads and reports: all sectors before it are written.
//! - A segment that is being reset accepts no command until the reset ends.

use std::collections::VecDeque;

use hostftl_core::{About, DeviceError, MetaBuf, Segments, Verdict};
use hostftl_format::report::{self, SegmentReport, SegmentState};

use crate::transfer::Transfer;

/// State of one segment; lengths are in sectors.
#[derive(Debug, Default)]
pub(crate) struct Segment {
    /// Writable length.
    pub len: u32,
    /// Write pointer: sectors that are written.
    pub pointer: u32,
    /// Write pointer after all accepted programs.
    ahead: u32,
    /// Number of resets.
    pub erased: u32,
    /// Whether the segment can no longer be written.
    pub offline: bool,
    /// Slot of the reset in progress.
    resetting: Option<u32>,
    /// Slot of the program in flight.
    busy: Option<u32>,
    waiting: VecDeque<Transfer>,
}

impl Segment {
    /// Creates a segment with the write pointer `pointer`.
    pub(crate) fn new(len: u32, pointer: u32, erased: u32, offline: bool) -> Self {
        Segment { len, pointer, ahead: pointer, erased, offline, ..Segment::default() }
    }

    fn is_open(&self) -> bool {
        !self.offline && self.ahead > 0 && self.ahead < self.len
    }
}

/// Scheduling of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Turn {
    /// It starts now.
    Now,
    /// It waits in this segment.
    Later(usize),
}

#[derive(Debug)]
pub(crate) struct ZoneOrder {
    pub shape: Segments,
    pub list: Vec<Segment>,
    /// Number of open segments.
    open: u32,
}

impl ZoneOrder {
    /// Creates the order of segments in their current state.
    pub(crate) fn new(shape: Segments, list: Vec<Segment>) -> Self {
        assert_eq!(list.len(), shape.count as usize, "every segment is known");
        let open = list.iter().filter(|segment| segment.is_open()).count() as u32;
        ZoneOrder { shape, list, open }
    }

    /// Returns the segment of a range, and the start of the range in it.
    fn place(&self, lba: u64, sectors: u64) -> Result<(usize, u32), DeviceError> {
        let size = u64::from(self.shape.size);
        let (index, at) = ((lba / size) as usize, lba % size);
        let fits = |segment: &Segment| sectors > 0 && at + sectors <= segment.len.into();
        if self.list.get(index).is_some_and(fits) {
            Ok((index, at as u32))
        } else {
            Err(DeviceError::Unsupported)
        }
    }

    /// Checks whether a range can be read.
    pub(crate) fn may_read(&self, lba: u64, sectors: u64) -> Result<(), DeviceError> {
        let (index, at) = self.place(lba, sectors)?;
        let segment = &self.list[index];
        // Closed and offline segments are readable up to the pointer.
        let readable = if segment.offline || segment.pointer == segment.len {
            segment.pointer
        } else {
            // Some media cannot read the last sectors before the pointer of an open segment.
            segment.pointer.saturating_sub(self.shape.unreadable)
        };
        if at + sectors as u32 <= readable { Ok(()) } else { Err(DeviceError::Media) }
    }

    /// Accepts a program of the flight `slot`.
    pub(crate) fn program(
        &mut self,
        slot: u32,
        lba: u64,
        sectors: u64,
    ) -> Result<Turn, DeviceError> {
        let (index, at) = self.place(lba, sectors)?;
        let (unit, most) = (u64::from(self.shape.write_unit), self.shape.max_open);
        let segment = &mut self.list[index];
        if segment.offline {
            return Err(DeviceError::Media);
        }
        // A program of a whole segment does not leave it open.
        let opens = at == 0 && (sectors as u32) < segment.len;
        let wrong =
            segment.resetting.is_some() || at != segment.ahead || !sectors.is_multiple_of(unit);
        if wrong || at == 0 && most > 0 && self.open >= most {
            return Err(DeviceError::Unsupported);
        }
        let closes = at > 0 && at + sectors as u32 == segment.len;
        segment.ahead += sectors as u32;
        self.open = self.open + u32::from(opens) - u32::from(closes);
        if segment.busy.is_some() {
            return Ok(Turn::Later(index));
        }
        segment.busy = Some(slot);
        Ok(Turn::Now)
    }

    /// Lets a program wait for those before it in its segment.
    pub(crate) fn park(&mut self, segment: usize, transfer: Transfer) {
        self.list[segment].waiting.push_back(transfer);
    }

    /// Ends the program of the flight `slot`, and returns the one that starts now. After a failure
    /// those behind it fail too, and their slots are added to `failed`.
    pub(crate) fn programmed(
        &mut self,
        slot: u32,
        lba: u64,
        sectors: u64,
        result: Result<Verdict, DeviceError>,
        failed: &mut Vec<u32>,
    ) -> Option<Transfer> {
        let (index, _) = self.place(lba, sectors).ok()?;
        let segment = &mut self.list[index];
        if segment.busy != Some(slot) {
            return None;
        }
        segment.busy = None;
        let Err(error) = result else {
            segment.pointer += sectors as u32;
            let next = segment.waiting.pop_front()?;
            segment.busy = Some(next.slot);
            return Some(next);
        };
        let was_open = segment.is_open();
        // Programs behind the failed one would leave a gap.
        segment.ahead = segment.pointer;
        // A segment with a media error is not written again.
        segment.offline |= error == DeviceError::Media;
        failed.extend(segment.waiting.drain(..).map(|transfer| transfer.slot));
        self.open = self.open + u32::from(segment.is_open()) - u32::from(was_open);
        None
    }

    /// Accepts a reset. Returns whether there is anything to reset; [`ZoneOrder::was_reset`] ends
    /// it.
    pub(crate) fn reset(&mut self, slot: u32, lba: u64, sectors: u64) -> Result<bool, DeviceError> {
        let index = (lba / u64::from(self.shape.size)) as usize;
        let whole = lba.is_multiple_of(self.shape.size.into()) && index < self.list.len();
        if !whole || sectors != u64::from(self.shape.size) {
            return Err(DeviceError::Unsupported);
        }
        let segment = &mut self.list[index];
        if segment.offline {
            return Err(DeviceError::Media);
        }
        if segment.busy.is_some() || segment.resetting.is_some() {
            return Err(DeviceError::Unsupported);
        }
        if segment.pointer == 0 {
            return Ok(false);
        }
        self.open -= u32::from(segment.is_open());
        segment.resetting = Some(slot);
        // The old data is unreadable from now on, even if the reset fails.
        (segment.pointer, segment.ahead) = (0, 0);
        segment.erased = segment.erased.saturating_add(1);
        Ok(true)
    }

    /// Marks a segment bad or good for the host. Returns whether that changes anything.
    pub(crate) fn mark(&mut self, lba: u64, bad: bool) -> Result<bool, DeviceError> {
        let index = (lba / u64::from(self.shape.size)) as usize;
        let segment = self.list.get_mut(index).filter(|segment| {
            let idle = segment.busy.is_none() && segment.resetting.is_none();
            idle && lba.is_multiple_of(self.shape.size.into())
        });
        let segment = segment.ok_or(DeviceError::Unsupported)?;
        if segment.offline == bad {
            return Ok(false);
        }
        self.open -= u32::from(segment.is_open());
        segment.offline = bad;
        if !bad {
            (segment.pointer, segment.ahead) = (0, 0);
            segment.erased = segment.erased.saturating_add(1);
        }
        Ok(true)
    }

    /// Ends the reset of the flight `slot`, if it had started.
    pub(crate) fn was_reset(&mut self, slot: u32, lba: u64, failed: bool) {
        let segment = self.list.get_mut((lba / u64::from(self.shape.size)) as usize);
        if let Some(segment) = segment.filter(|segment| segment.resetting == Some(slot)) {
            segment.resetting = None;
            // The state of the segment is unknown after a failed reset.
            segment.offline |= failed;
        }
    }

    /// Answers `About::Segments`.
    pub(crate) fn report(&self, about: About, into: &mut MetaBuf) -> Result<Verdict, DeviceError> {
        let About::Segments(from) = about else { return Err(DeviceError::Unsupported) };
        let (size, mut count) = (u64::from(self.shape.size), 0);
        for (index, segment) in self.list.iter().enumerate().skip(from as usize) {
            let state = match segment.pointer {
                _ if segment.offline => SegmentState::Offline,
                0 => SegmentState::Free,
                pointer if pointer == segment.len => SegmentState::Closed,
                _ => SegmentState::Open,
            };
            let entry = SegmentReport {
                state,
                wear: segment.erased.min(255) as u8,
                start: index as u64 * size,
                length: segment.len.into(),
                pointer: segment.pointer.into(),
            };
            if !report::put_segment(into.pages_mut(), count, &entry) {
                break;
            }
            count += 1;
        }
        Ok(Verdict { bytes: (count * report::SEGMENT_BYTES) as u32, crc: 0 })
    }
}
