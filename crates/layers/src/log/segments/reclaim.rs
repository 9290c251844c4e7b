//! Segments that go out of use: block devices forget what is in them, zones are erased.
//!
//! Invariants
//! - A segment is free when all devices have answered, and of zones when that is durable.
//! - Of block devices only a few segments are under way: one that does not answer keeps the
//!   commands.

use alloc::vec::Vec;

use hostftl_core::{Command, DeviceInfo};

use super::Segments;
use crate::kit::shell::Ended;
use crate::log::devices::Devices;
use crate::log::layout::{At, Layout};
use crate::log::ops::{Cx, Op, works};

/// Segments that devices are told to forget at once.
const MOST: u32 = 32;

/// See the module text.
#[derive(Debug)]
pub struct Reclaim {
    /// Which devices gain from knowing what is free.
    gains: Vec<bool>,
    /// How many devices were told of a segment and have not answered.
    left: Vec<u8>,
    /// Segments under way.
    count: u32,
}

impl Reclaim {
    /// Nothing is under way.
    pub fn new(layout: &Layout, devices: &[DeviceInfo]) -> Self {
        let gains = devices.iter().map(|device| device.discard).collect();
        Reclaim { gains, left: alloc::vec![0; layout.segments as usize], count: 0 }
    }

    /// Whether one more segment may go out of use now.
    pub fn has_room(&self, layout: &Layout) -> bool {
        layout.zoned || self.count < MOST
    }

    /// Whether no device has to answer for a segment.
    pub fn is_over(&self, segment: u32) -> bool {
        self.left[segment as usize] == 0
    }

    /// Whether nothing has to be erased before it can be used.
    pub fn is_clean(&self, segments: &Segments) -> bool {
        self.count == 0 && segments.is_clean()
    }

    /// A segment goes out of use.
    pub fn begin(
        &mut self,
        segment: u32,
        segments: &mut Segments,
        devices: &mut Devices,
        cx: &mut Cx,
    ) {
        let layout = *devices.layout();
        let lba = layout.lba(At { segment, slot: 0, sector: 0 });
        let sectors = if layout.zoned { layout.column } else { layout.slots * layout.chunk };
        self.count += 1;
        for device in 0..layout.devices {
            let wants = match layout.zoned {
                true => {
                    let usable = !devices.zones().has_failed(segment, device);
                    usable && !devices.has_lost(device) && devices.zones().sent(segment, device) > 0
                }
                false => self.gains[usize::from(device)],
            };
            if wants {
                self.left[segment as usize] += 1;
                let command = Command::Reset { device, lba, sectors: sectors.into() };
                devices.submit(Op::Discard { segment }, command, cx);
            }
        }
        if self.is_over(segment) {
            self.end(segment, segments, devices, cx);
        }
    }

    /// A device forgot a segment, or a step of erasing its zone is over: the reset, or the flush
    /// that makes it durable.
    pub fn done(
        &mut self,
        segment: u32,
        command: &Command,
        ended: Ended,
        segments: &mut Segments,
        devices: &mut Devices,
        cx: &mut Cx,
    ) {
        let zoned = devices.layout().zoned;
        if let (true, Command::Reset { device, .. }, Ok(_)) = (zoned, command, ended) {
            devices.zones_mut().was_reset(segment, *device);
            let flush = Command::Flush { device: *device };
            return devices.submit(Op::Discard { segment }, flush, cx);
        }
        assert!(!self.is_over(segment), "a device that answers was asked");
        self.left[segment as usize] -= 1;
        if self.is_over(segment) && works(cx) {
            self.end(segment, segments, devices, cx);
        }
    }

    /// All devices have answered: a segment is free, or out of use for good.
    pub fn end(
        &mut self,
        segment: u32,
        segments: &mut Segments,
        devices: &mut Devices,
        cx: &mut Cx,
    ) {
        let zoned = devices.layout().zoned;
        if zoned && !devices.zones_mut().erased(segment) {
            return; // The flushes after which it counts as closed are still to come.
        }
        self.count -= 1;
        match devices.is_hurt(segment) {
            true => segments.retire(segment),
            false => segments.release(segment),
        }
        if zoned {
            cx.wake();
        }
    }
}
