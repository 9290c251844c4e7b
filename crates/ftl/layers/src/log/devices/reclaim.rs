//! Segments that go out of use: block devices forget what is in them, zones are erased.
//!
//! Invariants
//! - A segment is free when all devices have answered, and of zones when that is durable.
//! - Of block devices only a few segments are under way: one that does not answer keeps the
//!   commands.

use alloc::vec::Vec;

use hostftl_core::{Command, DeviceInfo};

use super::Devices;
use crate::kit::shell::Ended;
use crate::log::layout::{At, Layout};
use crate::log::ops::{Cx, Op, works};
use crate::log::segments::Segments;

/// Segments that devices are told to forget at once.
const MOST: u32 = 32;

#[derive(Debug)]
pub(super) struct Reclaim {
    /// Which devices gain from knowing what is free.
    gains: Vec<bool>,
    /// How many devices were told of a segment and have not answered.
    left: Vec<u8>,
    /// Segments under way.
    count: u32,
}

impl Reclaim {
    /// Nothing is under way.
    pub(super) fn new(layout: &Layout, devices: &[DeviceInfo]) -> Self {
        let gains = devices.iter().map(|device| device.discard).collect();
        Reclaim { gains, left: alloc::vec![0; layout.segments as usize], count: 0 }
    }

    /// Whether a device gains from knowing what is free, which is another from now on.
    pub(super) fn set_gains(&mut self, device: u8, gains: bool) {
        self.gains[usize::from(device)] = gains;
    }

    /// Whether no device has to answer for a segment.
    pub(super) fn has_forgotten(&self, segment: u32) -> bool {
        self.left[segment as usize] == 0
    }
}

impl Devices {
    /// Segments that are about to be free.
    pub(crate) fn reclaiming(&self) -> u32 {
        self.reclaim.count
    }

    /// Whether one more segment may go out of use now.
    pub(crate) fn may_reclaim(&self) -> bool {
        self.layout.zoned || self.reclaim.count < MOST
    }

    /// An open segment that nobody writes to, and that is not erased, is to be filled up.
    pub(crate) fn begin_to_fill(&mut self, segments: &Segments) -> Option<u32> {
        let Devices { zones, reclaim, .. } = self;
        zones.begin_to_fill(|it| segments.is_left(it) && reclaim.has_forgotten(it))
    }

    /// Whether nothing has to be erased before it can be used.
    pub(crate) fn is_clean(&self, segments: &Segments) -> bool {
        self.reclaim.count == 0 && segments.is_clean()
    }

    /// A segment goes out of use.
    pub(crate) fn reclaim(&mut self, segment: u32, segments: &mut Segments, cx: &mut Cx) {
        let layout = self.layout;
        let lba = layout.lba(At { segment, slot: 0, sector: 0 });
        let sectors = if layout.zoned { layout.column } else { layout.slots * layout.chunk };
        self.reclaim.count += 1;
        let have = (0..layout.devices).filter(|device| layout.lengths.has(*device, segment));
        for device in have {
            let wants = if layout.zoned {
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

    /// A device forgot a segment, or a step of erasing its zone is over: the reset, or the flush
    /// that makes it durable.
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
            let flush = Command::Flush { device: *device };
            return self.submit(Op::Discard { segment }, flush, cx);
        }
        assert!(!self.reclaim.has_forgotten(segment), "a device that answers was asked");
        self.reclaim.left[segment as usize] -= 1;
        if self.reclaim.has_forgotten(segment) && works(cx) {
            self.end_reclaim(segment, segments, cx);
        }
    }

    /// All devices have answered: a segment is free, or out of use for good.
    pub(crate) fn end_reclaim(&mut self, segment: u32, segments: &mut Segments, cx: &mut Cx) {
        let zoned = self.layout.zoned;
        if zoned && !self.zones.erased(segment) {
            return; // The flushes after which it counts as closed are still to come.
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
