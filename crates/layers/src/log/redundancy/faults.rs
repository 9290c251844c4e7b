//! What turns out to be damaged when it is read, told before the answer that comes of it.
//!
//! Invariants
//! - A device that is lost, or fails now, is told of as a device: what it holds is not damaged.
//! - What was mended is told once it has its checksum again.

use hostftl_core::{DeviceError, Event, HostError, SECTOR, SECTORS_PER_BLOCK};

use crate::planted::{Bug, planted};

use crate::log::Engine;
use crate::log::host::op::Step;
use crate::log::ops::{Cx, works};

impl Engine {
    /// A command of a block operation failed: its record is made in another way, or given up.
    pub(in crate::log) fn block_failed(&mut self, index: u8, error: DeviceError, cx: &mut Cx) {
        let it = *self.op(index);
        let fetches =
            matches!(it.step, Step::Reading | Step::Expanding | Step::Plain | Step::Rescuing(_));
        self.op(index).flawed |= fetches && error == DeviceError::Media;
        if self.can_be_rescued(index) {
            return self.begin_rescue(index, cx);
        }
        match self.stopped(it.writes, cx) {
            Some(stopped) => self.end_block(index, Some(stopped), cx),
            None => self.give_up_record(index, cx),
        }
    }

    /// Nothing gives the record of an operation back.
    pub(in crate::log) fn give_up_record(&mut self, index: u8, cx: &mut Cx) {
        let it = *self.op(index);
        if it.flawed && !planted(Bug::CorruptUntold) {
            tell_corrupt(it.block + u64::from(planted(Bug::CorruptElsewhere)), 1, cx);
        }
        self.end_block(index, Some(HostError::Io), cx);
    }

    /// The record of an operation was made from the other chunks of its row.
    pub(in crate::log) fn record_mended(&mut self, index: u8, cx: &mut Cx) {
        self.gauges.repaired += 1;
        let it = *self.op(index);
        if it.flawed && planted(Bug::MendedAsCorrupt) {
            tell_corrupt(it.block, 1, cx);
        } else if it.flawed {
            let sectors = self.range_bytes(index) / SECTOR as u32;
            let (device, lba) = (it.place.device(), it.place.byte() / SECTOR as u64);
            cx.tell(Event::Mended { device, lba, sectors });
        }
    }

    /// Metadata was made from the other chunks of its row.
    pub(in crate::log) fn metadata_mended(
        &mut self,
        (device, lba, pages): (u8, u64, u32),
        cx: &mut Cx,
    ) {
        if !self.devices.has_lost(device) && !self.devices.lacks(device, lba) {
            let sectors = pages * SECTORS_PER_BLOCK;
            cx.tell(Event::Mended { device, lba, sectors });
        }
    }

    /// A map page is nowhere to be had: nobody knows where its blocks are.
    pub(in crate::log) fn page_is_gone(&self, page: u32, device: u8, cx: &mut Cx) {
        if self.devices.has_lost(device) || !works(cx) {
            return;
        }
        let first = page.checked_sub(1).map_or(0, |before| self.pages.map().end_of(before));
        let end = self.pages.map().end_of(page).min(self.pages.map().len());
        tell_corrupt(first, (end - first) as u32, cx);
    }
}

/// Tells that nothing gives blocks back.
pub fn tell_corrupt(first: u64, blocks: u32, cx: &mut Cx) {
    let lba = first * u64::from(SECTORS_PER_BLOCK);
    let sectors = blocks * SECTORS_PER_BLOCK;
    cx.tell(Event::Corrupt { lba, sectors });
}
