//! The zones of zoned devices: how far each is written, and what must come before more is.
//!
//! A segment is a zone of each device. What rows leave out, because they are short or did not need
//! a device, is filled with zeros just before something behind it is written. Segments that were
//! left before their zones were full are filled up when too many would be open.
//!
//! Invariants
//! - A program begins at the pointer of its zone. `sent` is where that will be when all that was
//!   sent is written.
//! - Of no device are more zones open than it allows; one of them is left to roots.
//! - A zone that failed gets no program and no reset ever again.
//! - No command is in flight to a zone that is reset, and that it is erased is durable before the
//!   segment is opened: what lies before a pointer was written since the segment was opened.

use alloc::vec::Vec;

use hostftl_core::DeviceSet;
use hostftl_format::report::{SegmentReport, SegmentState};

use crate::log::layout::Layout;

/// One zone.
#[derive(Clone, Copy, Debug)]
struct Zone {
    sent: u32,
    len: u32,
}

/// A segment some of whose zones are open.
#[derive(Clone, Copy, Debug)]
struct Open {
    segment: u32,
    /// Programs under way to it.
    flight: u32,
    /// Whether it is being filled up.
    filling: bool,
    /// Devices that have yet to flush since it was closed: a cut could open it again.
    settling: u8,
    /// Whether it was erased meanwhile, and may be opened when they have.
    erased: bool,
}

#[derive(Debug)]
pub(crate) struct Pointers {
    devices: u32,
    /// Zones of the devices of segment 0, then of segment 1.
    zones: Vec<Zone>,
    /// The devices whose zones failed, for each segment.
    failed: Vec<DeviceSet>,
    /// Those that may be open; nothing is kept of them when any number may be.
    open: Vec<Open>,
    most: u32,
    /// Programs of zeros under way to each segment.
    fills: Vec<u16>,
    /// Segments with a zone that failed, from which data may have to be moved.
    hurt: Vec<u32>,
}

impl Pointers {
    /// Zones that are empty; the devices' reports tell more.
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
            most: if limited { layout.max_open - 1 } else { u32::MAX },
            fills: alloc::vec![0; segments],
            hurt: Vec::with_capacity(segments),
        }
    }

    /// Bytes of what is known of zones.
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

    /// How much of a zone is written or on its way, in sectors.
    pub(crate) fn sent(&self, segment: u32, device: u8) -> u32 {
        self.zones[(segment * self.devices + u32::from(device)) as usize].sent
    }

    /// The devices whose zones of a segment failed.
    pub(crate) fn failed(&self, segment: u32) -> DeviceSet {
        self.failed[segment as usize]
    }

    /// Whether a zone failed.
    pub(crate) fn has_failed(&self, segment: u32, device: u8) -> bool {
        self.failed(segment).contains(device)
    }

    /// Whether anything is in one of a segment's zones.
    pub(crate) fn is_dirty(&self, segment: u32) -> bool {
        (0..self.devices as u8).any(|device| self.sent(segment, device) > 0)
    }

    /// What the device tells of a zone, of which `least` sectors are needed.
    pub(crate) fn found(&mut self, segment: u32, device: u8, told: &SegmentReport, least: u32) {
        let it = self.at(segment, device);
        it.len = it.len.min(told.length as u32);
        it.sent = (told.pointer as u32).min(it.len);
        if told.state == SegmentState::Offline || it.len < least {
            self.fail(segment, device);
        }
    }

    /// A zone failed.
    pub(crate) fn fail(&mut self, segment: u32, device: u8) {
        if !self.hurt.contains(&segment) {
            self.hurt.push(segment);
        }
        self.failed[segment as usize].insert(device);
    }

    /// A zone was reset.
    pub(crate) fn was_reset(&mut self, segment: u32, device: u8) {
        self.at(segment, device).sent = 0;
    }

    /// Another device is in this place: its zones are empty.
    pub(crate) fn is_another(&mut self, device: u8) {
        for segment in 0..self.failed.len() as u32 {
            self.at(segment, device).sent = 0;
            self.failed[segment as usize].remove(device);
        }
    }

    /// Whether no zone of a segment is open, but for those of the devices of `lost`.
    fn is_closed(&self, segment: u32, lost: DeviceSet) -> bool {
        let out = self.failed(segment) | lost;
        let closed = |device: u8| {
            let zone = self.zones[(segment * self.devices + u32::from(device)) as usize];
            out.contains(device) || zone.sent == 0 || zone.sent == zone.len
        };
        (0..self.devices as u8).all(closed)
    }

    /// Notes that a segment is open.
    fn note_open(&mut self, segment: u32) {
        let known = self.open.iter().any(|it| it.segment == segment);
        if self.most < u32::MAX && !known {
            let (flight, filling, settling, erased) = (0, false, 0, false);
            self.open.push(Open { segment, flight, filling, settling, erased });
        }
    }

    /// Forgets that a segment is open.
    fn forget_open(&mut self, segment: u32) {
        self.open.retain(|it| it.segment != segment);
    }

    fn open_one(&mut self, segment: u32) -> Option<&mut Open> {
        self.open.iter_mut().find(|it| it.segment == segment)
    }

    /// A program to a zone goes up to here.
    pub(crate) fn enter(&mut self, segment: u32, device: u8, end: u32) {
        self.at(segment, device).sent = end;
        self.note_open(segment);
        if let Some(open) = self.open_one(segment) {
            open.flight += 1;
        }
    }

    /// A program to a zone is over. Whether the segment is one of those that are known to be open.
    pub(crate) fn left(&mut self, segment: u32) -> bool {
        let open = self.open_one(segment);
        open.map(|open| open.flight -= 1).is_some()
    }

    /// Zeros are sent to a segment.
    pub(crate) fn fill_begins(&mut self, segment: u32) {
        self.fills[segment as usize] += 1;
    }

    /// They are there, or could not be sent. Whether the segment is to be filled up.
    pub(crate) fn fill_over(&mut self, segment: u32) -> bool {
        assert!(self.is_filled(segment), "zeros that are over were sent");
        self.fills[segment as usize] -= 1;
        self.open_one(segment).is_some_and(|open| open.filling)
    }

    /// Whether zeros are on their way to a segment.
    pub(crate) fn is_filled(&self, segment: u32) -> bool {
        self.fills.get(segment as usize).is_some_and(|fills| *fills > 0)
    }

    /// How many sectors of zeros, up to `most`, a zone takes that is filled up; none when it is
    /// empty, full or out of use.
    pub(crate) fn rest(&self, segment: u32, device: u8, most: u32) -> u32 {
        let Zone { sent, len } = self.zones[(segment * self.devices + u32::from(device)) as usize];
        let takes = sent > 0 && !self.has_failed(segment, device);
        if takes { most.min(len - sent) } else { 0 }
    }

    /// A segment is closed, and all devices must flush before that counts. False when it is not
    /// closed, or they do already.
    pub(crate) fn begin_to_settle(&mut self, segment: u32, lost: DeviceSet) -> bool {
        let (closed, devices) = (self.is_closed(segment, lost), self.devices);
        let Some(open) = self.open_one(segment) else { return false };
        let begins = closed && open.flight == 0 && open.settling == 0;
        if begins {
            open.settling = devices as u8;
        }
        begins
    }

    /// A device has flushed since a segment was closed. Whether that was the last, and the segment
    /// was erased meanwhile.
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

    /// Whether a segment may be written: it is open, or may be opened.
    pub(crate) fn may_open(&mut self, segment: u32) -> bool {
        let has_room = self.most == u32::MAX || self.open.len() < self.most as usize;
        let may = has_room || self.open_one(segment).is_some();
        if may {
            self.note_open(segment);
        }
        may
    }

    /// Whether one more zone of a device may be open.
    pub(crate) fn has_room(&self, device: u8) -> bool {
        let zones = self.zones.iter().skip(device.into()).step_by(self.devices as usize);
        let is_open = |(zone, failed): &(&Zone, &DeviceSet)| {
            !failed.contains(device) && zone.sent > 0 && zone.sent < zone.len
        };
        zones.zip(&self.failed).filter(is_open).count() < self.most as usize
    }

    /// An open segment that nobody writes to, and that `rests`, is to be filled up.
    pub(crate) fn begin_to_fill(&mut self, rests: impl Fn(u32) -> bool) -> Option<u32> {
        let fits =
            |it: &&mut Open| it.flight == 0 && !it.filling && it.settling == 0 && rests(it.segment);
        let open = self.open.iter_mut().find(fits)?;
        open.filling = true;
        Some(open.segment)
    }

    /// A segment is erased. False when a flush is still to come: it must not count for what is in
    /// the segment by then.
    pub(crate) fn erased(&mut self, segment: u32) -> bool {
        if let Some(open) = self.open_one(segment).filter(|open| open.settling > 0) {
            open.erased = true;
            return false;
        }
        self.forget_open(segment);
        true
    }

    /// Segments with a zone that failed, but for those of which `is_over`.
    pub(crate) fn hurt(&mut self, is_over: impl Fn(u32) -> bool) -> impl Iterator<Item = u32> + '_ {
        self.hurt.retain(|it| !is_over(*it));
        self.hurt.iter().copied()
    }

    /// After all devices told of their zones: which segments are open.
    pub(crate) fn find_open(&mut self, lost: DeviceSet) {
        for segment in 0..self.failed.len() as u32 {
            if !self.is_closed(segment, lost) {
                self.note_open(segment);
            }
        }
    }

    /// How many segments have a zone that failed.
    pub(crate) fn spoiled(&self) -> u32 {
        self.failed.iter().filter(|failed| !failed.is_empty()).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::stripe::set;

    /// Three segments of two zones, of which two may be open, and one more for roots.
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
    fn a_segment_that_is_erased_early_is_open_until_the_flushes_are_over() {
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
