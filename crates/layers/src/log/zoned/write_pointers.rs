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

use hostftl_core::{Cause, Command, DeviceError, Gather, Piece, Tally, Verdict};
use hostftl_format::report::{SegmentReport, SegmentState};

use crate::log::Engine;
use crate::log::layout::{At, Layout};
use crate::log::ops::{Cx, Op, fail, works};
use crate::log::row::append::MAP;
use crate::log::row::{Phase, Row};

/// The most sectors of zeros in one program that fills a zone up.
const FILL: u32 = 2048;

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

/// See the module text.
#[derive(Debug)]
pub struct Pointers {
    devices: u32,
    /// Zones of the devices of segment 0, then of segment 1.
    zones: Vec<Zone>,
    /// The devices whose zones failed, for each segment.
    failed: Vec<u16>,
    /// Those that may be open; nothing is kept of them when any number may be.
    open: Vec<Open>,
    most: u32,
    /// Segments that are being erased.
    pub erasing: u32,
    /// Segments with a zone that failed, from which data may have to be moved.
    hurt: Vec<u32>,
}

impl Pointers {
    /// Zones that are empty; the devices' reports tell more.
    pub fn new(layout: &Layout) -> Self {
        let (segments, devices) = match layout.zoned {
            true => (layout.segments as usize, u32::from(layout.devices)),
            false => (0, 0),
        };
        let limited = layout.max_open > 0;
        Pointers {
            devices,
            zones: alloc::vec![Zone { sent: 0, len: layout.column }; segments * devices as usize],
            failed: alloc::vec![0; segments],
            open: Vec::with_capacity(if limited { segments } else { 0 }),
            most: if limited { layout.max_open - 1 } else { u32::MAX },
            erasing: 0,
            hurt: Vec::with_capacity(segments),
        }
    }

    /// Bytes of what is known of zones.
    pub fn memory(layout: &Layout) -> u64 {
        if !layout.zoned {
            return 0;
        }
        let zones = u64::from(layout.devices) * size_of::<Zone>() as u64;
        let open = if layout.max_open > 0 { size_of::<Open>() as u64 } else { 0 };
        let rest = (size_of::<u16>() + size_of::<u32>()) as u64;
        u64::from(layout.segments) * (zones + open + rest)
    }

    fn at(&mut self, segment: u32, device: u8) -> &mut Zone {
        &mut self.zones[(segment * self.devices + u32::from(device)) as usize]
    }

    /// How much of a zone is written or on its way, in sectors.
    pub fn sent(&self, segment: u32, device: u8) -> u32 {
        self.zones[(segment * self.devices + u32::from(device)) as usize].sent
    }

    /// The devices whose zones of a segment failed, as a set of bits.
    pub fn failed(&self, segment: u32) -> u16 {
        self.failed[segment as usize]
    }

    /// Whether a zone failed.
    pub fn has_failed(&self, segment: u32, device: u8) -> bool {
        self.failed(segment) >> device & 1 == 1
    }

    /// Whether anything is in one of a segment's zones.
    pub fn is_dirty(&self, segment: u32) -> bool {
        (0..self.devices as u8).any(|device| self.sent(segment, device) > 0)
    }

    /// What the device tells of a zone, of which `least` sectors are needed.
    pub fn found(&mut self, segment: u32, device: u8, told: &SegmentReport, least: u32) {
        let it = self.at(segment, device);
        it.len = it.len.min(told.length as u32);
        it.sent = (told.pointer as u32).min(it.len);
        if told.state == SegmentState::Offline || it.len < least {
            self.fail(segment, device);
        }
    }

    /// A zone failed.
    fn fail(&mut self, segment: u32, device: u8) {
        if !self.hurt.contains(&segment) {
            self.hurt.push(segment);
        }
        self.failed[segment as usize] |= 1 << device;
    }

    /// A zone was reset.
    fn was_reset(&mut self, segment: u32, device: u8) {
        self.at(segment, device).sent = 0;
    }

    /// Whether no zone of a segment is open, but for those of the devices of `lost`.
    fn is_closed(&self, segment: u32, lost: u16) -> bool {
        let out = self.failed(segment) | lost;
        let closed = |device: u32| {
            let zone = self.zones[(segment * self.devices + device) as usize];
            out >> device & 1 == 1 || zone.sent == 0 || zone.sent == zone.len
        };
        (0..self.devices).all(closed)
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
}

impl Engine {
    /// A command is about to be sent to a zoned device. Of a program, what lies between the
    /// pointer of its zone and its first sector is filled with zeros. False when it would fail: a
    /// program to a zone that failed, or a read of what is not written.
    pub(in crate::log) fn enter_zone(&mut self, command: &Command, cx: &mut Cx) -> bool {
        let (device, lba, tally) = match command {
            Command::Program { device, lba, tally, .. } => (device, lba, tally),
            Command::Read { device, lba, into, .. } => {
                return !self.is_unwritten(*device, *lba, into.sectors());
            }
            _ => return true,
        };
        let Some((segment, at)) = self.layout.zone_of(*lba) else { return true };
        if self.pointers.has_failed(segment, *device) {
            return false;
        }
        let sent = self.pointers.sent(segment, *device);
        assert!(sent <= at, "a program before the pointer of its zone");
        if sent < at {
            self.send_zeros((segment, *device), at - sent, cx);
        }
        self.pointers.at(segment, *device).sent = at + tally.total();
        self.pointers.note_open(segment);
        if let Some(open) = self.pointers.open_one(segment) {
            open.flight += 1;
        }
        true
    }

    /// Writes zeros at the pointer of a zone.
    fn send_zeros(&mut self, zone: (u32, u8), sectors: u32, cx: &mut Cx) {
        let (segment, device) = zone;
        let begin = self.layout.lba(At { segment, slot: 0, sector: 0 });
        let lba = begin + u64::from(self.pointers.sent(segment, device));
        let mut gather = Gather::new();
        gather.push(Piece::zero_sectors(sectors));
        let tally = Tally::of(Cause::Pad, sectors);
        self.count_sent(&tally, cx);
        self.segments.pin(segment);
        let command = Command::Program { device, lba, gather, tally, placement: MAP };
        self.submit(Op::Fill { segment, device }, command, cx);
    }

    /// A program to a zone is over.
    pub(in crate::log) fn left_zone(&mut self, command: &Command, cx: &mut Cx) {
        let Command::Program { lba, .. } = command else { return };
        let Some((segment, _)) = self.layout.zone_of(*lba) else { return };
        let Some(open) = self.pointers.open_one(segment) else { return };
        open.flight -= 1;
        self.settle_closed(segment, cx);
    }

    /// Makes durable that a segment is closed, if it is.
    fn settle_closed(&mut self, segment: u32, cx: &mut Cx) {
        let closed = self.pointers.is_closed(segment, self.lost.set());
        let devices = self.layout.devices;
        let Some(open) = self.pointers.open_one(segment) else { return };
        if !closed || open.flight > 0 || open.settling > 0 {
            return;
        }
        open.settling = devices;
        for device in 0..devices {
            self.submit(Op::Settle { segment }, Command::Flush { device }, cx);
        }
    }

    /// A device has flushed since a segment was closed.
    pub(in crate::log) fn settled(&mut self, segment: u32, cx: &mut Cx) {
        let Some(open) = self.pointers.open_one(segment) else { return };
        open.settling -= 1;
        if open.settling > 0 {
            return;
        }
        match open.erased {
            true => self.erased(segment, cx),
            false => self.pointers.forget_open(segment),
        }
        cx.wake();
    }

    /// Zeros were written to a zone, or could not be.
    pub(in crate::log) fn filled(&mut self, segment: u32, device: u8, cx: &mut Cx) {
        self.segments.unpin(segment);
        let filling = self.pointers.open_one(segment).is_some_and(|open| open.filling);
        if filling && works(cx) {
            self.fill_up(segment, device, cx);
        }
    }

    /// Writes the next zeros to a zone that is filled up.
    fn fill_up(&mut self, segment: u32, device: u8, cx: &mut Cx) {
        let Zone { sent, len } = *self.pointers.at(segment, device);
        let out_of_use = self.lost.has(device) || self.pointers.has_failed(segment, device);
        if sent > 0 && sent < len && !out_of_use {
            self.send_zeros((segment, device), FILL.min(len - sent), cx);
        }
    }

    /// Whether all that comes before a row in its zones is on its way, and they may be written.
    pub(in crate::log) fn is_its_turn(&mut self, row: u8, cx: &mut Cx) -> bool {
        let it = &self.rows[row as usize];
        let before = |other: &Row| {
            other.phase() == Phase::Sealing && other.stream == it.stream && other.seq < it.seq
        };
        !self.rows.iter().any(before) && self.may_enter(it.at.segment, cx)
    }

    /// Whether a row may be written to a segment now: it is open, or may be opened. If not, one
    /// that nobody writes to is filled up.
    pub(in crate::log) fn may_enter(&mut self, segment: u32, cx: &mut Cx) -> bool {
        let pointers = &mut self.pointers;
        if pointers.most == u32::MAX
            || pointers.open.len() < pointers.most as usize
            || pointers.open_one(segment).is_some()
        {
            pointers.note_open(segment);
            return true;
        }
        let (segments, resetting) = (&self.segments, &self.discarding);
        let fits = |it: &&mut Open| {
            let rests = segments.is_left(it.segment) && resetting[it.segment as usize] == 0;
            it.flight == 0 && !it.filling && it.settling == 0 && rests
        };
        if cx.room() < 36 {
            cx.wake();
            return false;
        }
        if let Some(open) = pointers.open.iter_mut().find(fits) {
            open.filling = true;
            let segment = open.segment;
            for device in 0..self.layout.devices {
                self.fill_up(segment, device, cx);
            }
            self.settle_closed(segment, cx);
            cx.wake();
        }
        false
    }

    /// A command failed: whether that is only a zone's fault.
    pub(in crate::log) fn zone_failed(
        &mut self,
        op: Op,
        command: &Command,
        error: DeviceError,
        cx: &mut Cx,
    ) -> bool {
        let (Command::Program { device, lba, .. } | Command::Reset { device, lba, .. }) = command
        else {
            return false;
        };
        if error != DeviceError::Media || self.lost.has(*device) {
            return false;
        }
        let Some((segment, _)) = self.layout.zone_of(*lba) else {
            self.roots.fail(*device, *lba);
            return true;
        };
        self.spoil(segment, *device);
        let harmed = self.pointers.failed(segment) | self.lost.set();
        if op.changes_media() && !self.lost.can_do_without(harmed) {
            fail(*device, error, cx);
        } else {
            cx.counters().device_errors += 1;
        }
        true
    }

    /// A zone failed: its segment is left as soon as may be, and what is in it moves.
    fn spoil(&mut self, segment: u32, device: u8) {
        self.pointers.fail(segment, device);
        for stream in &mut self.streams {
            if stream.next.is_some_and(|next| next.segment == segment) {
                stream.next = None;
                self.segments.leave(segment);
            }
        }
    }

    /// Whether a zone of a segment failed, but for those of lost devices.
    pub(in crate::log) fn is_hurt(&self, segment: u32) -> bool {
        self.layout.zoned && self.pointers.failed(segment) & !self.lost.set() != 0
    }

    /// A segment with a zone that failed and with data to be moved elsewhere, if there is one.
    pub(in crate::log) fn hurt_victim(&mut self) -> Option<u32> {
        self.forget_moved();
        self.pointers.hurt.iter().copied().find(|it| self.segments.pick_this(*it))
    }

    /// A segment with a zone that failed and with images of the map, if there is one.
    pub(in crate::log) fn hurt_map(&mut self) -> Option<u32> {
        self.forget_moved();
        self.pointers.hurt.iter().copied().find(|it| self.segments.is_full_map(*it))
    }

    fn forget_moved(&mut self) {
        let segments = &self.segments;
        self.pointers.hurt.retain(|it| !segments.is_empty_or_gone(*it));
    }

    /// A segment that is out of use is erased, or goes out of use for good.
    pub(in crate::log) fn erase(&mut self, segment: u32, cx: &mut Cx) {
        let lba = self.layout.lba(At { segment, slot: 0, sector: 0 });
        let sectors = u64::from(self.layout.column);
        self.pointers.erasing += 1;
        for device in 0..self.layout.devices {
            let failed = self.pointers.has_failed(segment, device);
            if !failed && !self.lost.has(device) && self.pointers.sent(segment, device) > 0 {
                self.discarding[segment as usize] += 1;
                let command = Command::Reset { device, lba, sectors };
                self.submit(Op::Discard { segment }, command, cx);
            }
        }
        if self.discarding[segment as usize] == 0 {
            self.erased(segment, cx);
        }
    }

    /// A step of erasing a zone is over: the reset, or the flush that makes it durable.
    pub(in crate::log) fn erase_goes_on(
        &mut self,
        segment: u32,
        command: &Command,
        result: Result<Verdict, DeviceError>,
        cx: &mut Cx,
    ) {
        if let (Command::Reset { device, .. }, Ok(_)) = (command, result) {
            self.pointers.was_reset(segment, *device);
            return self.submit(Op::Discard { segment }, Command::Flush { device: *device }, cx);
        }
        self.discarding[segment as usize] -= 1;
        if self.discarding[segment as usize] == 0 && works(cx) {
            self.erased(segment, cx);
        }
    }

    fn erased(&mut self, segment: u32, cx: &mut Cx) {
        // A flush that comes late must not count for what is in the segment by then.
        if let Some(open) = self.pointers.open_one(segment).filter(|open| open.settling > 0) {
            open.erased = true;
            return;
        }
        self.pointers.erasing -= 1;
        self.pointers.forget_open(segment);
        match self.pointers.failed(segment) & !self.lost.set() {
            0 => self.segments.release(segment),
            _ => self.segments.retire(segment),
        }
        cx.wake();
    }

    /// Whether nothing has to be erased before it can be used.
    pub(in crate::log) fn is_clean(&self) -> bool {
        self.segments.is_clean() && self.pointers.erasing == 0
    }

    /// How many segments have a zone that failed.
    pub(in crate::log) fn spoiled(&self) -> u32 {
        (0..self.layout.segments).filter(|it| self.pointers.failed(*it) != 0).count() as u32
    }

    /// After all devices told of their zones: which segments are open.
    pub(in crate::log) fn find_open(&mut self) {
        let lost = self.lost.set();
        for segment in 0..self.layout.segments {
            if !self.pointers.is_closed(segment, lost) {
                self.pointers.note_open(segment);
            }
        }
    }

    /// Whether a part of a range of a zone is not written.
    pub(in crate::log) fn is_unwritten(&self, device: u8, lba: u64, sectors: u32) -> bool {
        let beyond = |(segment, at): (u32, u32)| at + sectors > self.pointers.sent(segment, device);
        self.layout.zoned && self.layout.zone_of(lba).is_some_and(beyond)
    }
}
