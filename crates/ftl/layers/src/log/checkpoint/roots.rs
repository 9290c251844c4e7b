//! Roots of zoned devices. They are appended in a few zones of each device, two of which are used
//! alternately.
//!
//! The two copies of a root are adjacent, and the first is at an even position. When a zone has no
//! space for two more copies, another zone is reset and used. Meanwhile the newest root stays in
//! the old one. A power cut leaves a torn copy only at the write pointer, so an invalid copy
//! elsewhere is damaged.
//!
//! Invariant: the zone with the newest durable root is not reset.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, DeviceError, Gather, Piece, Tally};
use hostftl_format::report::{SegmentReport, SegmentState};

use crate::kit::shell::Ended;
use crate::log::devices::Devices;
use crate::log::layout::{Layout, ROOT_ZONES};
use crate::log::ops::{Cx, Op, count_sent};
use crate::log::stripe::streams::MAP;

/// A zone for roots.
#[derive(Clone, Copy, Debug)]
struct Zone {
    sent: u32,
    len: u32,
    failed: bool,
}

/// The zones for roots of all devices. Lengths are in sectors.
#[derive(Debug)]
pub(crate) struct Roots {
    /// The zones of device 0, then those of device 1, and so on.
    zones: Vec<Zone>,
    /// For each device, the zone in use, and the zone with the newest durable root.
    current: [u32; 16],
    durable: [u32; 16],
    column: u32,
    stride: u32,
    limited: bool,
    /// Whether a copy was lost with its zone, so that the root must be written again.
    again: bool,
}

impl Roots {
    /// Creates empty zones, until the devices report their state.
    pub(crate) fn new(layout: &Layout) -> Self {
        let count = if layout.zoned { u32::from(layout.devices) * ROOT_ZONES } else { 0 };
        let zone = Zone { sent: 0, len: layout.column, failed: false };
        Roots {
            zones: alloc::vec![zone; count as usize],
            current: [0; 16],
            // `ROOT_ZONES` stands for no zone.
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

    /// Records the state of a zone that a device reported.
    pub(crate) fn found(&mut self, device: u8, zone: u32, report: &SegmentReport) {
        let it = self.at(device, zone);
        // Reported values are bounded by the layout, because a device may report anything.
        it.len = it.len.min(report.length as u32);
        it.sent = (report.pointer as u32).min(it.len);
        it.failed = report.state == SegmentState::Offline;
    }

    /// Resets the state for another device in this place, whose zones are empty.
    pub(crate) fn is_another(&mut self, device: u8) {
        for zone in 0..ROOT_ZONES {
            let it = self.at(device, zone);
            (it.sent, it.failed) = (0, false);
        }
        self.current[usize::from(device)] = 0;
        self.durable[usize::from(device)] = ROOT_ZONES;
    }

    /// Marks the zone at sector `lba` of a device as failed.
    pub(crate) fn fail(&mut self, device: u8, lba: u64) {
        let zone = (lba / u64::from(self.column)) as u32;
        self.at(device, zone).failed = true;
        // The copy in this zone is lost, so another one is written elsewhere.
        self.again = true;
    }

    /// Returns the position in the current zone of copy 0 or 1 of the next root, and the sectors of
    /// zeros to write before it.
    fn next(&mut self, device: u8, copy: u32) -> (u32, u32) {
        let (pair, current) = (2 * self.stride, self.current[usize::from(device)]);
        let sent = self.at(device, current).sent;
        let at = match copy {
            0 => sent.next_multiple_of(pair),
            _ => (sent / pair) * pair + self.stride,
        };
        (at, at.saturating_sub(sent))
    }

    /// Returns whether the next root fits into the current zone of a device.
    fn has_room(&mut self, device: u8) -> bool {
        let (pair, (at, _)) = (2 * self.stride, self.next(device, 0));
        let current = self.current[usize::from(device)];
        let zone = self.at(device, current);
        !zone.failed && at + pair <= zone.len
    }

    /// Returns the zone that a device uses after the current one.
    fn following(&mut self, device: u8) -> Option<u32> {
        let (pair, current) = (2 * self.stride, self.current[usize::from(device)]);
        let durable = self.durable[usize::from(device)];
        let usable = |zone: &Zone| !zone.failed && zone.len >= pair;
        // Never the zone with the newest durable root, which must survive until the next root is.
        let mut next = (1..ROOT_ZONES).map(|step| (current + step) % ROOT_ZONES);
        next.find(|next| *next != durable && usable(self.at(device, *next)))
    }

    /// Returns whether a zone is open.
    fn is_open(&mut self, device: u8, zone: u32) -> bool {
        let it = self.at(device, zone);
        !it.failed && it.sent > 0 && it.sent < it.len
    }

    /// Records that the last root is durable.
    pub(crate) fn made_durable(&mut self) {
        self.durable = self.current;
    }

    /// Records the reset of the zone at sector `lba` of a device.
    pub(crate) fn was_reset(&mut self, device: u8, lba: u64) {
        let zone = (lba / u64::from(self.column)) as u32;
        self.at(device, zone).sent = 0;
    }

    /// Returns the first written zone of a device with number `from` or more.
    pub(crate) fn written(&mut self, device: u8, from: u32) -> Option<u32> {
        let written = |zone: &Zone| !zone.failed && zone.sent > 0;
        (from..ROOT_ZONES).find(|zone| written(self.at(device, *zone)))
    }

    /// Returns whether a copy was lost with its zone, so that the root must be written again.
    pub(crate) fn is_again(&self) -> bool {
        self.again
    }

    /// Returns the number of copies of roots that a zone of a device may contain.
    pub(crate) fn copies(&mut self, device: u8, zone: u32) -> u32 {
        self.at(device, zone).sent / self.stride
    }

    /// Returns the first sector of a copy in a zone.
    pub(crate) fn copy_at(&self, zone: u32, copy: u32) -> u64 {
        self.lba(zone, copy * self.stride)
    }

    /// Continues in the zone in which recovery found the newest root of a device.
    pub(crate) fn continue_in(&mut self, device: u8, zone: u32) {
        self.current[usize::from(device)] = zone;
        self.durable[usize::from(device)] = zone;
    }

    fn lba(&self, zone: u32, at: u32) -> u64 {
        u64::from(zone) * u64::from(self.column) + u64::from(at)
    }

    /// Makes space for the next root on each device. Returns the number of commands sent.
    pub(crate) fn turn_all(&mut self, devices: &mut Devices, cx: &mut Cx) -> u32 {
        self.again = false;
        let before = cx.commands_left();
        for device in 0..devices.layout().devices {
            if devices.takes_roots(device) && !self.has_room(device) {
                self.turn(device, devices, cx);
            }
        }
        (before - cx.commands_left()) as u32
    }

    /// Switches a device to another zone.
    fn turn(&mut self, device: u8, devices: &mut Devices, cx: &mut Cx) {
        let current = self.current[usize::from(device)];
        let Some(next) = self.following(device) else {
            return devices.mark_lost(device, DeviceError::Media, cx);
        };
        if self.limited {
            self.close_zone((device, current), devices, cx);
        }
        // `durable` still names the old zone, until a root in the new one is durable.
        self.current[usize::from(device)] = next;
        // Another open zone has lost its roots. It is reset too, because it would exceed the limit
        // of open zones.
        for zone in 0..ROOT_ZONES {
            let erased = zone == next || self.limited && self.is_open(device, zone);
            if erased && self.at(device, zone).sent > 0 {
                let (lba, sectors) = (self.lba(zone, 0), u64::from(self.column));
                devices.submit(Op::Turn, Command::Reset { device, lba, sectors }, cx);
            }
        }
    }

    /// Fills a zone for roots with zeros, so that it is no longer open.
    fn close_zone(&mut self, (device, zone): (u8, u32), devices: &mut Devices, cx: &mut Cx) {
        if !self.is_open(device, zone) {
            return;
        }
        let Zone { sent, len, .. } = *self.at(device, zone);
        let lba = self.lba(zone, sent);
        let gather = Gather::from_iter([Piece::zero_sectors(len - sent)]);
        let tally = Tally::single(Cause::Pad, len - sent);
        count_sent(&tally, cx);
        self.at(device, zone).sent = len;
        let command = Command::Program { device, lba, gather, tally, placement: MAP };
        devices.submit(Op::Turn, command, cx);
    }

    /// Processes a completed command of a switch to another zone. Returns false if another command
    /// follows.
    pub(crate) fn turned(
        &mut self,
        command: &Command,
        ended: Ended,
        devices: &mut Devices,
        cx: &mut Cx,
    ) -> bool {
        match (command, ended) {
            (Command::Reset { device, lba, .. }, Ok(_)) => self.was_reset(*device, *lba),
            (Command::Program { device, .. }, Ok(_)) => {
                // The fill must be durable before the next zone opens; otherwise a power cut could
                // leave both open.
                devices.submit(Op::Turn, Command::Flush { device: *device }, cx);
                return false;
            }
            _ => {}
        }
        true
    }

    /// Reserves the place for a copy of the next root. Returns its first sector, and the sectors of
    /// zeros to write before it.
    pub(crate) fn enter(&mut self, device: u8, copy: u32) -> (u64, u32) {
        let current = self.current[usize::from(device)];
        let (at, gap) = self.next(device, copy);
        // Counted when the program is sent: later programs follow it, whether it succeeds or not.
        self.at(device, current).sent = at + self.stride;
        (self.lba(current, at), gap)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a layout of one device whose zones have space for four roots.
    fn layout() -> Layout {
        let mut layout = Layout::example(1);
        (layout.zoned, layout.column) = (true, 8 * layout.root_stride());
        layout
    }

    /// Writes a root if there is space. Returns the place of its first copy.
    fn write(roots: &mut Roots) -> Option<u64> {
        let first = roots.has_room(0).then(|| roots.enter(0, 0))?;
        let second = roots.enter(0, 1);
        assert_eq!(second.0, first.0 + u64::from(roots.stride), "the copies are adjacent");
        assert_eq!((first.1, second.1), (0, 0), "the gap is empty");
        Some(first.0)
    }

    #[test]
    fn root_zones_alternate_and_keep_the_durable_root() {
        let layout = layout();
        let mut roots = Roots::new(&layout);
        let mut count = 0;
        while let Some(at) = write(&mut roots) {
            assert_eq!(at, 2 * count * u64::from(roots.stride));
            count += 1;
        }
        assert!(count > 1 && roots.copies(0, 0) == 2 * count as u32);
        roots.made_durable();
        assert_eq!(roots.following(0), Some(1), "zone 0 has the durable root");
        roots.fail(0, layout.column.into());
        assert!(roots.is_again());
        assert_eq!(roots.following(0), Some(2), "zone 1 failed");
        roots.continue_in(0, 2);
        assert_eq!((roots.following(0), roots.written(0, 0)), (Some(3), Some(0)));
        roots.was_reset(0, 0);
        assert_eq!(roots.written(0, 0), None);
    }

    #[test]
    fn a_torn_copy_is_followed_by_zeros() {
        let mut roots = Roots::new(&layout());
        assert!(write(&mut roots).is_some());
        let sent = 2 * roots.stride + 1;
        roots.at(0, 0).sent = sent;
        assert_eq!(roots.next(0, 0), (4 * roots.stride, 2 * roots.stride - 1));
    }
}
