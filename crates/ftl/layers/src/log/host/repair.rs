//! Rebuilds an unreadable or wrong record from parity.
//!
//! The number of chunks of the stripe is not known, see [`crate::log::redundancy::rebuild`]. The
//! sum is right if it matches the checksum in the map; otherwise the next way is tried. Unwritten
//! sectors of a short stripe are never read, because a stripe of more than one chunk is written to
//! its end.

use hostftl_core::{ArrayVec, Command, DeviceError, Event, HostError, SECTOR, Verdict};
use hostftl_format::log::seed;

use crate::log::array::Array;
use crate::log::host::{Blocks, Holder, Origin, PLAIN, Repair, Step};
use crate::log::ops::{Cx, report_corrupt};
use crate::log::redundancy::rebuild::Rebuild;
use crate::planted::{Bug, planted};

impl Blocks {
    /// Returns whether an operation whose command failed can rebuild its record.
    fn can_be_repaired(&mut self, index: u8, array: &mut Array) -> bool {
        let it = *self.op(index);
        let reads = matches!(it.step, Step::Reading | Step::Expanding | Step::Plain);
        let from_device = it.holder == Holder::Scratch && !it.place.is_nowhere();
        array.layout().parity > 0 && reads && from_device && it.origin == Origin::Device
    }

    fn begin_rebuild(&mut self, index: u8, array: &mut Array, cx: &mut Cx) {
        let place = self.op(index).place;
        let lba = place.byte() / SECTOR as u64;
        let lacked = !array.media.devices.has_chunk(place.device(), lba);
        self.op(index).origin = Origin::Others { from: place, lacked };
        let (segment, slot) = array.layout().slot_at(lba);
        let placement = array.media.devices.placement(segment);
        let missing = array.media.devices.devices_with_missing(segment);
        match Rebuild::on_device(placement, (segment, slot), place.device(), missing) {
            Some(rebuild) => self.read_for_repair(index, rebuild, array, cx),
            None => self.lose_record(index, array, cx), // Too many chunks are missing.
        }
    }

    /// Starts a rebuild for an operation whose command failed, or continues it without the failed
    /// chunk. Returns false if that is not possible.
    pub(super) fn repair_or_retry(&mut self, index: u8, array: &mut Array, cx: &mut Cx) -> bool {
        if self.can_be_repaired(index, array) {
            self.begin_rebuild(index, array, cx);
            return true;
        }
        let Step::Repairing(Repair::Reading(rebuild)) = self.op(index).step else { return false };
        let other = rebuild.next().and_then(|chunk| rebuild.without(chunk));
        other.map(|other| self.read_for_repair(index, other, array, cx)).is_some()
    }

    fn read_for_repair(&mut self, index: u8, rebuild: Rebuild, array: &mut Array, cx: &mut Cx) {
        // If no chunk is left, the sum was wrong: the next way is tried.
        let next = if rebuild.next().is_some() { Some(rebuild) } else { rebuild.again() };
        let Some((rebuild, device)) = next.and_then(|it| Some((it, it.next_device()?))) else {
            return self.lose_record(index, array, cx);
        };
        // The first chunk becomes the sum; the others are read next to it and added.
        let to = if rebuild.is_begin() { 0 } else { PLAIN };
        let step = Step::Repairing(Repair::Reading(rebuild));
        self.read_range(index, (device, to), step, array, cx);
    }

    /// Continues a rebuild after a successful step.
    pub(super) fn continue_repair(
        &mut self,
        index: u8,
        (step, verdict): (Repair, Verdict),
        array: &mut Array,
        cx: &mut Cx,
    ) {
        match step {
            Repair::Reading(rebuild) if !rebuild.is_begin() => {
                self.fold_for_repair(index, rebuild, array, cx);
            }
            Repair::Reading(rebuild) | Repair::Folding(rebuild) => {
                let rebuild = rebuild.fold();
                if !rebuild.may_be_over() {
                    return self.read_for_repair(index, rebuild, array, cx);
                }
                let it = *self.op(index);
                let from = self.record_view(index, array);
                let seed = seed(it.block, it.place.generation());
                let step = Step::Repairing(Repair::Checking(rebuild));
                self.send(index, step, Command::Digest { from, seed }, array, cx);
            }
            Repair::Checking(_) if verdict.crc == self.op(index).crc => {
                self.record_repaired(index, array, cx);
                let from = self.record_view(index, array);
                self.expand(index, from, array, cx);
            }
            Repair::Checking(rebuild) => self.read_for_repair(index, rebuild, array, cx),
        }
    }

    fn fold_for_repair(&mut self, index: u8, rebuild: Rebuild, array: &mut Array, cx: &mut Cx) {
        let bytes = self.range_bytes(index);
        let (scratch, at) = array.media.buffers.scratch(index);
        let mut from = ArrayVec::new();
        from.push(scratch.view(at + PLAIN, bytes));
        let into = scratch.view_mut(at, bytes);
        let step = Step::Repairing(Repair::Folding(rebuild));
        let factors = rebuild.fold_factors();
        self.send(index, step, Command::Fold { from, into, factors }, array, cx);
    }

    /// Handles a failed command of a block operation: rebuilds its record, or fails the operation.
    pub(super) fn block_failed(
        &mut self,
        index: u8,
        error: DeviceError,
        array: &mut Array,
        cx: &mut Cx,
    ) {
        let it = *self.op(index);
        let fetches =
            matches!(it.step, Step::Reading | Step::Expanding | Step::Plain | Step::Repairing(_));
        self.op(index).flawed |= fetches && error == DeviceError::Media;
        if self.repair_or_retry(index, array, cx) {
            return;
        }
        match self.stopped(it.writes, cx) {
            Some(stopped) => self.end_block(index, Some(stopped), array, cx),
            None => self.lose_record(index, array, cx),
        }
    }

    /// Fails an operation whose record cannot be rebuilt, unless its device has received the chunk
    /// meanwhile.
    pub(super) fn lose_record(&mut self, index: u8, array: &mut Array, cx: &mut Cx) {
        let it = *self.op(index);
        if matches!(it.origin, Origin::Others { lacked: true, .. })
            && array.media.devices.has_chunk(it.place.device(), it.place.byte() / SECTOR as u64)
        {
            self.op(index).origin = Origin::Again;
            return self.read_range(index, (it.place.device(), 0), Step::Reading, array, cx);
        }
        if it.flawed && !it.place.is_nowhere() {
            array.found_damage(it.place.device(), it.place.byte() / SECTOR as u64, true, cx);
        }
        if it.flawed && !planted(Bug::CorruptUntold) {
            report_corrupt(it.block + u64::from(planted(Bug::CorruptElsewhere)), 1, cx);
        }
        self.end_block(index, Some(HostError::Io), array, cx);
    }

    /// Notes that the record of an operation was rebuilt, and reports the damage.
    pub(super) fn record_repaired(&mut self, index: u8, array: &mut Array, cx: &mut Cx) {
        array.media.gauges.repaired += 1;
        let it = *self.op(index);
        if it.flawed && planted(Bug::RepairedAsCorrupt) {
            report_corrupt(it.block, 1, cx);
        } else if it.flawed {
            let sectors = self.range_bytes(index) / SECTOR as u32;
            let (device, lba) = (it.place.device(), it.place.byte() / SECTOR as u64);
            array.found_damage(device, lba, false, cx);
            cx.report(Event::Repaired { device, lba, sectors });
        }
    }
}
