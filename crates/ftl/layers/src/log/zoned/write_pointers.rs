//! Write pointers of the zones of zoned devices, and the conditions for writing to a zone.
//!
//! A segment is a zone of each device. Stripes leave gaps when they are short or do not use all
//! devices. A gap is filled with zeros just before data after it is written. Segments whose streams
//! left before their zones were full are filled up when too many zones would be open.
//!
//! Invariants
//! - A program begins at the write pointer of its zone. `sent` is the position of the pointer after
//!   all programs in flight.
//! - No device has more open zones than it allows; one of them is reserved for roots.
//! - A failed zone receives no further program or reset.
//! - No command is in flight to a zone that is reset, and its erasure is durable before the segment
//!   is opened. So data before a write pointer was always written since the segment was opened.

use alloc::vec::Vec;

use hostftl_core::DeviceSet;
use hostftl_format::report::{SegmentReport, SegmentState};

use crate::log::layout::Layout;

/// State of one zone, in sectors.
#[derive(Clone, Copy, Debug)]
struct Zone {
    sent: u32,
    len: u32,
}

/// Segment with open zones.
#[derive(Clone, Copy, Debug)]
struct Open {
    segment: u32,
    /// Programs in flight.
    flight: u32,
    /// Whether it is being filled up.
    filling: bool,
    /// Devices that have not been flushed since it was closed. A power loss could reopen its zones.
    settling: u8,
    /// Whether it was erased meanwhile, and may be opened after these flushes.
    erased: bool,
}

#[derive(Debug)]
pub(crate) struct Pointers {
    devices: u32,
    /// Zones of all devices of segment 0, then of segment 1, and so on.
    zones: Vec<Zone>,
    /// Devices with a failed zone, by segment.
    failed: Vec<DeviceSet>,
    /// Segments that may have open zones; not used if their number is unlimited.
    open: Vec<Open>,
    most: u32,
    /// Programs of zeros in flight, by segment.
    fills: Vec<u16>,
    /// Segments with a failed zone, from which data may have to be moved.
    hurt: Vec<u32>,
}

impl Pointers {
    /// Returns zones that are empty until the devices report their state.
    pub(crate) fn new(layout: &Layout) -> Self {
        let (segments, devices) = if layout.zoned {
            (layout.segments as usize, u32::from(layout.devices))
        } else {
            (0, 0)
        };
        let limited = layout.max_open > 0;
        Pointers {
            devices,
            zones: alloc::vec![Zone { sent: 0, len: layout.column }; segments * devices as usize],
            failed: alloc::vec![DeviceSet::EMPTY; segments],
            open: Vec::with_capacity(if limited { segments } else { 0 }),
            // One open zone of each device is reserved for roots.
            most: if limited { layout.max_open - 1 } else { u32::MAX },
            fills: alloc::vec![0; segments],
            hurt: Vec::with_capacity(segments),
        }
    }

    /// Returns the memory for the state of zones, in bytes.
    pub(crate) fn memory(layout: &Layout) -> u64 {
        if !layout.zoned {
            return 0;
        }
        let zones = u64::from(layout.devices) * size_of::<Zone>() as u64;
        let open = if layout.max_open > 0 { size_of::<Open>() as u64 } else { 0 };
        let rest = (size_of::<DeviceSet>() + size_of::<u16>() + size_of::<u32>()) as u64;
        u64::from(layout.segments) * (zones + open + rest)
    }

    fn at(&mut self, segment: u32, device: u8) -> &mut Zone {
        &mut self.zones[(segment * self.devices + u32::from(device)) as usize]
    }

    /// Returns the sectors of a zone that are written or being written.
    pub(crate) fn sent(&self, segment: u32, device: u8) -> u32 {
        self.zones[(segment * self.devices + u32::from(device)) as usize].sent
    }

    /// Returns the devices with a failed zone in a segment.
    pub(crate) fn failed(&self, segment: u32) -> DeviceSet {
        self.failed[segment as usize]
    }

    /// Returns whether a zone failed.
    pub(crate) fn has_failed(&self, segment: u32, device: u8) -> bool {
        self.failed(segment).contains(device)
    }

    /// Returns whether any zone of a segment is written.
    pub(crate) fn is_dirty(&self, segment: u32) -> bool {
        (0..self.devices as u8).any(|device| self.sent(segment, device) > 0)
    }

    /// Sets the state of a zone from a device's report. At least `least` sectors must be usable.
    pub(crate) fn found(&mut self, segment: u32, device: u8, report: &SegmentReport, least: u32) {
        let it = self.at(segment, device);
        it.len = it.len.min(report.length as u32);
        it.sent = (report.pointer as u32).min(it.len);
        if report.state == SegmentState::Offline || it.len < least {
            self.fail(segment, device);
        }
    }

    /// Marks a zone as failed.
    pub(crate) fn fail(&mut self, segment: u32, device: u8) {
        if !self.hurt.contains(&segment) {
            self.hurt.push(segment);
        }
        self.failed[segment as usize].insert(device);
    }

    /// Notes that a zone was reset.
    pub(crate) fn was_reset(&mut self, segment: u32, device: u8) {
        self.at(segment, device).sent = 0;
    }

    /// Clears the zones of a place whose device was replaced.
    pub(crate) fn is_another(&mut self, device: u8) {
        for segment in 0..self.failed.len() as u32 {
            self.at(segment, device).sent = 0;
            self.failed[segment as usize].remove(device);
        }
    }

    /// Returns whether no zone of a segment is open, except on the devices of `lost`.
    fn is_closed(&self, segment: u32, lost: DeviceSet) -> bool {
        let out = self.failed(segment) | lost;
        let closed = |device: u8| {
            let zone = self.zones[(segment * self.devices + u32::from(device)) as usize];
            // An empty zone is not open either.
            out.contains(device) || zone.sent == 0 || zone.sent == zone.len
        };
        (0..self.devices as u8).all(closed)
    }

    /// Adds a segment to the open ones.
    fn note_open(&mut self, segment: u32) {
        let known = self.open.iter().any(|it| it.segment == segment);
        if self.most < u32::MAX && !known {
            let (flight, filling, settling, erased) = (0, false, 0, false);
            self.open.push(Open { segment, flight, filling, settling, erased });
        }
    }

    /// Removes a segment from the open ones.
    fn forget_open(&mut self, segment: u32) {
        self.open.retain(|it| it.segment != segment);
    }

    fn open_one(&mut self, segment: u32) -> Option<&mut Open> {
        self.open.iter_mut().find(|it| it.segment == segment)
    }

    /// Notes a program to a zone up to sector `end`.
    pub(crate) fn enter(&mut self, segment: u32, device: u8, end: u32) {
        self.at(segment, device).sent = end;
        self.note_open(segment);
        if let Some(open) = self.open_one(segment) {
            open.flight += 1;
        }
    }

    /// Notes the completion of a program. Returns whether the segment is one of the open ones.
    pub(crate) fn left(&mut self, segment: u32) -> bool {
        let open = self.open_one(segment);
        open.map(|open| open.flight -= 1).is_some()
    }

    /// Notes a program of zeros to a segment.
    pub(crate) fn fill_begins(&mut self, segment: u32) {
        self.fills[segment as usize] += 1;
    }

    /// Notes that zeros were written or could not be. Returns whether the segment is being filled
    /// up.
    pub(crate) fn fill_over(&mut self, segment: u32) -> bool {
        assert!(self.is_filled(segment), "finished zeros were sent");
        self.fills[segment as usize] -= 1;
        self.open_one(segment).is_some_and(|open| open.filling)
    }

    /// Returns whether zeros are being written to a segment.
    pub(crate) fn is_filled(&self, segment: u32) -> bool {
        self.fills.get(segment as usize).is_some_and(|fills| *fills > 0)
    }

    /// Returns the number of sectors of zeros, up to `most`, that fill a zone up next: 0 if it is
    /// empty, full or failed.
    pub(crate) fn rest(&self, segment: u32, device: u8, most: u32) -> u32 {
        let Zone { sent, len } = self.zones[(segment * self.devices + u32::from(device)) as usize];
        // An empty zone is not open, so it needs no zeros.
        let takes = sent > 0 && !self.has_failed(segment, device);
        if takes { most.min(len - sent) } else { 0 }
    }

    /// Starts settling a closed segment, which requires a flush of all devices. Returns false if it
    /// is not closed, or is already settling.
    pub(crate) fn begin_to_settle(&mut self, segment: u32, lost: DeviceSet) -> bool {
        let (closed, devices) = (self.is_closed(segment, lost), self.devices);
        let Some(open) = self.open_one(segment) else { return false };
        let begins = closed && open.flight == 0 && open.settling == 0;
        if begins {
            open.settling = devices as u8;
        }
        begins
    }

    /// Notes a flush of a device after a segment was closed. After the last one, returns whether
    /// the segment was erased meanwhile.
    pub(crate) fn settled(&mut self, segment: u32) -> Option<bool> {
        let open = self.open_one(segment)?;
        open.settling -= 1;
        if open.settling > 0 {
            return None;
        }
        let erased = open.erased;
        if !erased {
            self.forget_open(segment);
        }
        Some(erased)
    }

    /// Returns whether a segment may be written, because it is open or can be opened.
    pub(crate) fn may_open(&mut self, segment: u32) -> bool {
        let has_room = self.most == u32::MAX || self.open.len() < self.most as usize;
        let may = has_room || self.open_one(segment).is_some();
        if may {
            self.note_open(segment);
        }
        may
    }

    /// Returns whether one more zone of a device may be open.
    pub(crate) fn has_room(&self, device: u8) -> bool {
        let zones = self.zones.iter().skip(device.into()).step_by(self.devices as usize);
        let is_open = |(zone, failed): &(&Zone, &DeviceSet)| {
            !failed.contains(device) && zone.sent > 0 && zone.sent < zone.len
        };
        zones.zip(&self.failed).filter(is_open).count() < self.most as usize
    }

    /// Selects an open segment that `rests` and has no programs in flight, to be filled up.
    pub(crate) fn begin_to_fill(&mut self, rests: impl Fn(u32) -> bool) -> Option<u32> {
        let fits =
            |it: &&mut Open| it.flight == 0 && !it.filling && it.settling == 0 && rests(it.segment);
        let open = self.open.iter_mut().find(fits)?;
        open.filling = true;
        Some(open.segment)
    }

    /// Notes that a segment is erased. Returns false if flushes are still in flight: they must not
    /// count for later contents of the segment.
    pub(crate) fn erased(&mut self, segment: u32) -> bool {
        if let Some(open) = self.open_one(segment).filter(|open| open.settling > 0) {
            open.erased = true;
            return false;
        }
        self.forget_open(segment);
        true
    }

    /// Returns the segments with a failed zone, except those of which `is_over` holds.
    pub(crate) fn hurt(&mut self, is_over: impl Fn(u32) -> bool) -> impl Iterator<Item = u32> + '_ {
        self.hurt.retain(|it| !is_over(*it));
        self.hurt.iter().copied()
    }

    /// Finds the open segments after all devices have reported their zones.
    pub(crate) fn find_open(&mut self, lost: DeviceSet) {
        for segment in 0..self.failed.len() as u32 {
            if !self.is_closed(segment, lost) {
                self.note_open(segment);
            }
        }
    }

    /// Returns the number of segments with a failed zone.
    pub(crate) fn spoiled(&self) -> u32 {
        self.failed.iter().filter(|failed| !failed.is_empty()).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::chunk_placement::set;

    /// Returns three segments of two zones, of which two may be open, and one more for roots.
    fn zones() -> Pointers {
        let mut layout = Layout::example(2);
        (layout.zoned, layout.max_open, layout.segments, layout.column) = (true, 3, 3, 64);
        Pointers::new(&layout)
    }

    #[test]
    fn a_segment_is_closed_when_its_zones_are_full_and_all_devices_have_flushed() {
        let mut zones = zones();
        assert!(zones.may_open(0) && zones.may_open(1) && !zones.may_open(2));
        zones.enter(0, 0, 64);
        zones.enter(0, 1, 32);
        assert!(zones.left(0) && zones.left(0));
        assert!(!zones.begin_to_settle(0, set(0)), "one zone is open");
        assert!(zones.begin_to_settle(0, set(0b10)), "its device is lost");
        assert_eq!((zones.settled(0), zones.settled(0)), (None, Some(false)));
        assert!(zones.may_open(2));
    }

    #[test]
    fn an_early_erased_segment_is_open_until_the_flushes_end() {
        let mut zones = zones();
        assert!(zones.may_open(0));
        (0..2).for_each(|device| zones.enter(0, device, 64));
        assert!(zones.left(0) && zones.left(0) && zones.begin_to_settle(0, set(0)));
        assert!(!zones.erased(0));
        assert_eq!((zones.settled(0), zones.settled(0)), (None, Some(true)));
        assert!(zones.erased(0));
    }

    #[test]
    fn a_segment_at_rest_is_filled_up() {
        let mut zones = zones();
        assert!(zones.may_open(0) && zones.may_open(1));
        (0..2).for_each(|segment| zones.enter(segment, 0, 16));
        assert!(zones.left(1));
        assert_eq!(zones.begin_to_fill(|segment| segment != 1), None, "0 is written");
        assert_eq!(zones.begin_to_fill(|_| true), Some(1));
        assert_eq!((zones.rest(1, 0, 2048), zones.rest(1, 1, 2048)), (48, 0));
        zones.fill_begins(1);
        assert!(zones.is_filled(1) && zones.fill_over(1) && !zones.is_filled(1));
    }
}
