//! Release of segments: block devices discard them, and zones are reset.
//!
//! Invariants
//! - A segment is free once all devices have completed their commands and, for zones, made them
//!   durable.
//! - On block devices only a limited number of segments is in progress, because a device that does
//!   not answer occupies commands.

use alloc::vec::Vec;

use hostftl_core::{Command, DeviceInfo};

use super::Devices;
use crate::kit::shell::Ended;
use crate::log::layout::{At, Layout};
use crate::log::ops::{Cx, Op, works};
use crate::log::segments::Segments;

/// Maximum number of segments being discarded at once.
const MOST: u32 = 32;

#[derive(Debug)]
pub(super) struct Reclaim {
    /// For each device, whether it benefits from discards.
    gains: Vec<bool>,
    /// For each segment, the number of devices with a command in flight.
    left: Vec<u8>,
    /// Segments in progress.
    count: u32,
}

impl Reclaim {
    /// Creates the state without segments in progress.
    pub(super) fn new(layout: &Layout, devices: &[DeviceInfo]) -> Self {
        let gains = devices.iter().map(|device| device.discard).collect();
        Reclaim { gains, left: alloc::vec![0; layout.segments as usize], count: 0 }
    }

    /// Sets whether a replaced device benefits from discards.
    pub(super) fn set_gains(&mut self, device: u8, gains: bool) {
        self.gains[usize::from(device)] = gains;
    }

    /// Returns whether no device has a command in flight for a segment.
    pub(super) fn has_forgotten(&self, segment: u32) -> bool {
        self.left[segment as usize] == 0
    }
}

impl Devices {
    /// Returns the number of segments that will soon be free.
    pub(crate) fn reclaiming(&self) -> u32 {
        self.reclaim.count
    }

    /// Returns whether one more segment may be released now.
    pub(crate) fn may_reclaim(&self) -> bool {
        self.layout.zoned || self.reclaim.count < MOST
    }

    /// Returns an open segment that is no longer written and not being reset; it must be filled.
    pub(crate) fn begin_to_fill(&mut self, segments: &Segments) -> Option<u32> {
        let Devices { zones, reclaim, .. } = self;
        zones.begin_to_fill(|it| segments.is_left(it) && reclaim.has_forgotten(it))
    }

    /// Returns whether no segment must be reset before it can be used.
    pub(crate) fn is_clean(&self, segments: &Segments) -> bool {
        self.reclaim.count == 0 && segments.is_clean()
    }

    /// Releases a segment.
    pub(crate) fn reclaim(&mut self, segment: u32, segments: &mut Segments, cx: &mut Cx) {
        let layout = self.layout;
        let lba = layout.lba(At { segment, slot: 0, sector: 0 });
        let sectors = if layout.zoned { layout.column } else { layout.slots * layout.chunk };
        self.reclaim.count += 1;
        // Shorter devices do not contain every segment.
        let have = (0..layout.devices).filter(|device| layout.lengths.has(*device, segment));
        for device in have {
            let wants = if layout.zoned {
                // Failed zones accept no reset, and empty ones need none.
                let usable = !self.zones.has_failed(segment, device);
                usable && !self.is_inactive(device) && self.zones.sent(segment, device) > 0
            } else {
                self.reclaim.gains[usize::from(device)]
            };
            if wants {
                self.reclaim.left[segment as usize] += 1;
                let command = Command::Reset { device, lba, sectors: sectors.into() };
                self.submit(Op::Discard { segment }, command, cx);
            }
        }
        if self.reclaim.has_forgotten(segment) {
            self.end_reclaim(segment, segments, cx);
        }
    }

    /// Processes a completed discard, or a step of the reset of a zone: the reset itself, or the
    /// flush that makes it durable.
    pub(crate) fn reclaim_done(
        &mut self,
        segment: u32,
        command: &Command,
        ended: Ended,
        segments: &mut Segments,
        cx: &mut Cx,
    ) {
        let zoned = self.layout.zoned;
        if let (true, Command::Reset { device, .. }, Ok(_)) = (zoned, command, ended) {
            self.zones.was_reset(segment, *device);
            // The segment is free only after the reset is durable.
            let flush = Command::Flush { device: *device };
            return self.submit(Op::Discard { segment }, flush, cx);
        }
        assert!(!self.reclaim.has_forgotten(segment), "an answer follows a request");
        self.reclaim.left[segment as usize] -= 1;
        if self.reclaim.has_forgotten(segment) && works(cx) {
            self.end_reclaim(segment, segments, cx);
        }
    }

    /// Ends the release: the segment is free, or retired if a zone has failed.
    pub(crate) fn end_reclaim(&mut self, segment: u32, segments: &mut Segments, cx: &mut Cx) {
        let zoned = self.layout.zoned;
        if zoned && !self.zones.erased(segment) {
            return; // A flush that closes the segment is still to complete.
        }
        self.reclaim.count -= 1;
        self.membership.release(segment);
        if self.is_hurt(segment) {
            segments.retire(segment)
        } else {
            segments.release(segment)
        }
        if zoned {
            cx.wake();
        }
    }
}
