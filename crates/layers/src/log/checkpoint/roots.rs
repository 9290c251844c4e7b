//! Roots of zoned devices: they follow each other in a few zones of each device, two of which are
//! used in turn.
//!
//! The two copies of a root lie side by side, the first at an even place. When a zone has no room
//! for two more, another is erased and gone on with; the newest root stays where it is meanwhile. A
//! cut leaves a torn copy only where the pointer is, so any other that is not sound was damaged.
//!
//! Invariant: the zone with the newest durable root is not erased.

use alloc::vec::Vec;

use hostftl_core::{BLOCK, Cause, Command, DeviceError, Gather, MetaBuf, Piece, Tally, Verdict};
use hostftl_format::report::{SegmentReport, SegmentState};

use crate::config::Mode;

use crate::log::Engine;
use crate::log::checkpoint::Phase;
use crate::log::layout::{Layout, ROOT_ZONES};
use crate::log::ops::{Cx, Op, count_sent, works};
use crate::log::recovery::Step;
use crate::log::row::streams::MAP;

/// A zone of roots.
#[derive(Clone, Copy, Debug)]
struct Zone {
    sent: u32,
    len: u32,
    failed: bool,
}

/// See the module text. Lengths are in sectors.
#[derive(Debug)]
pub struct Roots {
    /// Those of device 0, then those of device 1.
    zones: Vec<Zone>,
    /// Which of them each device goes on with, and which has its newest durable root.
    current: [u32; 16],
    durable: [u32; 16],
    column: u32,
    stride: u32,
    limited: bool,
    /// Whether a copy was lost with its zone, so that the root must be written again.
    pub again: bool,
}

impl Roots {
    /// Zones that are empty; the devices' reports tell more.
    pub fn new(layout: &Layout) -> Self {
        let count = if layout.zoned { u32::from(layout.devices) * ROOT_ZONES } else { 0 };
        let zone = Zone { sent: 0, len: layout.column, failed: false };
        Roots {
            zones: alloc::vec![zone; count as usize],
            current: [0; 16],
            durable: [ROOT_ZONES; 16],
            column: layout.column,
            stride: layout.root_stride(),
            limited: layout.max_open > 0,
            again: false,
        }
    }

    fn at(&mut self, device: u8, zone: u32) -> &mut Zone {
        &mut self.zones[(u32::from(device) * ROOT_ZONES + zone) as usize]
    }

    /// What a device tells of a zone.
    pub fn found(&mut self, device: u8, zone: u32, told: &SegmentReport) {
        let it = self.at(device, zone);
        it.len = it.len.min(told.length as u32);
        it.sent = (told.pointer as u32).min(it.len);
        it.failed = told.state == SegmentState::Offline;
    }

    /// The zone of sector `lba` of a device failed.
    pub fn fail(&mut self, device: u8, lba: u64) {
        let zone = (lba / u64::from(self.column)) as u32;
        self.at(device, zone).failed = true;
        self.again = true;
    }

    /// Where copy 0 or 1 of the next root begins in the zone of a device, and the zeros that must
    /// come before it.
    fn next(&mut self, device: u8, copy: u32) -> (u32, u32) {
        let (pair, current) = (2 * self.stride, self.current[usize::from(device)]);
        let sent = self.at(device, current).sent;
        let at = match copy {
            0 => sent.next_multiple_of(pair),
            _ => (sent / pair) * pair + self.stride,
        };
        (at, at.saturating_sub(sent))
    }

    /// Whether the next root fits where its device goes on.
    fn has_room(&mut self, device: u8) -> bool {
        let (pair, (at, _)) = (2 * self.stride, self.next(device, 0));
        let current = self.current[usize::from(device)];
        let zone = self.at(device, current);
        !zone.failed && at + pair <= zone.len
    }

    /// The zone of a device that comes after the one it uses.
    fn following(&mut self, device: u8) -> Option<u32> {
        let (pair, current) = (2 * self.stride, self.current[usize::from(device)]);
        let durable = self.durable[usize::from(device)];
        let usable = |zone: &Zone| !zone.failed && zone.len >= pair;
        let mut next = (1..ROOT_ZONES).map(|step| (current + step) % ROOT_ZONES);
        next.find(|next| *next != durable && usable(self.at(device, *next)))
    }

    /// Whether a zone is open.
    fn is_open(&mut self, device: u8, zone: u32) -> bool {
        let it = self.at(device, zone);
        !it.failed && it.sent > 0 && it.sent < it.len
    }

    /// The root that was written last is durable.
    pub fn made_durable(&mut self) {
        self.durable = self.current;
    }

    /// The zone at sector `lba` of a device was reset.
    pub fn was_reset(&mut self, device: u8, lba: u64) {
        let zone = (lba / u64::from(self.column)) as u32;
        self.at(device, zone).sent = 0;
    }

    /// The zone of a device that is written, if there is one from number `from` on.
    pub fn written(&mut self, device: u8, from: u32) -> Option<u32> {
        let written = |zone: &Zone| !zone.failed && zone.sent > 0;
        (from..ROOT_ZONES).find(|zone| written(self.at(device, *zone)))
    }

    fn lba(&self, zone: u32, at: u32) -> u64 {
        u64::from(zone) * u64::from(self.column) + u64::from(at)
    }
}

/// How far reading the roots has come.
#[derive(Debug)]
pub struct Search {
    /// The next copy in the zone that is read, and one; `None` before it is begun.
    next: Option<u32>,
    /// Whether the copy behind it is damaged.
    damaged_behind: bool,
    /// Devices with a damaged root behind the newest sound one of a zone.
    pub doubtful: u16,
    /// Devices of a new volume whose zones are erased.
    erased: u8,
}

impl Search {
    /// Nothing was read.
    pub const NEW: Search = Search { next: None, damaged_behind: false, doubtful: 0, erased: 0 };
}

impl Engine {
    /// Erases the next zone of roots of a new volume; false when there is none.
    pub(in crate::log) fn erase_roots(&mut self, cx: &mut Cx) -> bool {
        let (devices, sectors) = (self.layout.devices, u64::from(self.layout.column));
        let it = self.recovery();
        if it.mode != Mode::Format || it.search.erased == devices || cx.room() < 8 {
            return false;
        }
        let device = it.search.erased;
        it.search.erased += 1;
        let mut from = 0;
        while let Some(zone) = self.roots.written(device, from) {
            let lba = self.roots.lba(zone, 0);
            self.recover(0, Command::Reset { device, lba, sectors }, cx);
            from = zone + 1;
        }
        true
    }

    /// Reads the roots of each zone from its end until one is sound; `index` counts zones.
    pub(in crate::log) fn read_root_back(&mut self, index: u32, cx: &mut Cx) -> bool {
        if self.recovery().pending > 0 {
            return false;
        }
        if index == ROOT_ZONES * u32::from(self.layout.devices) {
            return self.choose_root(cx);
        }
        let (device, zone) = ((index / ROOT_ZONES) as u8, index % ROOT_ZONES);
        let stride = self.roots.stride;
        let copies = self.roots.at(device, zone).sent / stride;
        let next = self.recovery().search.next.unwrap_or(copies);
        if next == 0 {
            let doubtful = self.recovery().search.doubtful;
            self.recovery().search = Search { doubtful, ..Search::NEW };
            return self.go(Step::Roots(index + 1));
        }
        self.recovery().search.next = Some(next - 1);
        let lba = self.roots.lba(zone, (next - 1) * stride);
        self.ask_root(index, (device, lba), cx);
        true
    }

    /// A root was read: the newest of its zone, and `newer` than all before it of its device.
    pub(in crate::log) fn root_found(&mut self, index: u32, newer: bool) {
        self.recovery().search.next = Some(0);
        if newer {
            let device = (index / ROOT_ZONES) as usize;
            self.roots.current[device] = index % ROOT_ZONES;
            self.roots.durable[device] = index % ROOT_ZONES;
        }
    }

    /// A copy was read that is no root; a blank one was left out.
    pub(in crate::log) fn no_root(&mut self, index: u32, blank: bool) {
        let device = (index / ROOT_ZONES) as u8;
        let search = &mut self.recovery().search;
        let second = search.next.expect("a copy was read") % 2 == 1;
        // A root of which one copy was never written was not durable.
        let both = !second && !blank && search.damaged_behind;
        search.doubtful |= u16::from(both) << device;
        search.damaged_behind = second && !blank;
    }

    /// Whether the newest root that is sound is the newest that was made, as far as a device knows
    /// on which it is.
    pub(in crate::log) fn is_newest(&mut self, number: u64) -> bool {
        let doubtful = self.recovery().search.doubtful;
        let newest = self.recovery().newest;
        (0..usize::from(self.layout.devices))
            .any(|device| newest[device] == number && doubtful >> device & 1 == 0)
    }

    /// Writes the next root, when there is a zone with room for it on each device.
    pub(in crate::log) fn send_root_in_turn(&mut self, cx: &mut Cx) {
        self.roots.again = false;
        let before = cx.command_room();
        for device in 0..self.layout.devices {
            if !self.devices.has_lost(device) && !self.roots.has_room(device) {
                self.turn(device, cx);
            }
        }
        match before - cx.command_room() {
            0 if works(cx) => self.send_copy(0, cx),
            turns => self.checkpoint.phase = Phase::Turn(turns as u32),
        }
    }

    /// A device goes on in another zone.
    fn turn(&mut self, device: u8, cx: &mut Cx) {
        let current = self.roots.current[usize::from(device)];
        let Some(next) = self.roots.following(device) else {
            return self.devices.give_up(device, DeviceError::Media, cx);
        };
        if self.roots.limited {
            self.close_root_zone((device, current), cx);
        }
        self.roots.current[usize::from(device)] = next;
        // Another that is open lost its roots: it would be one too many.
        for zone in 0..ROOT_ZONES {
            let erased = zone == next || self.roots.limited && self.roots.is_open(device, zone);
            if erased && self.roots.at(device, zone).sent > 0 {
                let (lba, sectors) = (self.roots.lba(zone, 0), u64::from(self.layout.column));
                self.devices.submit(Op::Turn, Command::Reset { device, lba, sectors }, cx);
            }
        }
    }

    /// Fills a zone of roots up.
    fn close_root_zone(&mut self, (device, zone): (u8, u32), cx: &mut Cx) {
        if !self.roots.is_open(device, zone) {
            return;
        }
        let Zone { sent, len, .. } = *self.roots.at(device, zone);
        let lba = self.roots.lba(zone, sent);
        let mut gather = Gather::new();
        gather.push(Piece::zero_sectors(len - sent));
        let tally = Tally::of(Cause::Pad, len - sent);
        count_sent(&tally, cx);
        self.roots.at(device, zone).sent = len;
        let command = Command::Program { device, lba, gather, tally, placement: MAP };
        self.devices.submit(Op::Turn, command, cx);
    }

    /// A step of going on in another zone is over.
    pub(in crate::log) fn turned(
        &mut self,
        command: &Command,
        result: Result<Verdict, DeviceError>,
        cx: &mut Cx,
    ) {
        if let (Command::Reset { device, lba, .. }, Ok(_)) = (command, result) {
            self.roots.was_reset(*device, *lba);
        }
        if let (Command::Program { device, .. }, Ok(_)) = (command, result) {
            // A cut must not open it again beside the next.
            return self.devices.submit(Op::Turn, Command::Flush { device: *device }, cx);
        }
        self.checkpoint.phase = match self.checkpoint.phase {
            Phase::Turn(1) if works(cx) => {
                return self.send_root_in_turn(cx);
            }
            Phase::Turn(left) => Phase::Turn(left - 1),
            other => unreachable!("no zone is turned to in {other:?}"),
        };
    }

    /// Where a copy of the next root goes on a zoned device, and what must be written before it.
    pub(in crate::log) fn enter_root_zone(&mut self, device: u8, copy: u32) -> (u64, u32) {
        let current = self.roots.current[usize::from(device)];
        let (at, gap) = self.roots.next(device, copy);
        self.roots.at(device, current).sent = at + self.roots.stride;
        (self.roots.lba(current, at), gap)
    }
}

/// Whether all of a buffer is zeros.
pub fn is_blank(buf: &MetaBuf) -> bool {
    buf.pages().iter().all(|page| page.0 == [0; BLOCK])
}
