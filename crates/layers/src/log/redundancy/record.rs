//! Rebuilds a record that can't be read, or is wrong, from parity.
//!
//! How many chunks the row has is not known: see [`crate::log::redundancy::rebuild`]. The sum is
//! right when it has the checksum that the map knows. Sectors that a short row has not written are
//! never touched, because a row of more than one chunk is written to its end.

use hostftl_core::{Command, Few, SECTOR, Verdict, View};
use hostftl_format::log::seed;

use crate::log::Engine;
use crate::log::host::blocks::PLAIN;
use crate::log::host::op::{Rescue, Step};
use crate::log::ops::Cx;
use crate::log::redundancy::rebuild::Rebuild;

impl Engine {
    /// Whether an operation whose command failed may get its record in another way.
    pub(in crate::log) fn can_be_rescued(&mut self, index: u8) -> bool {
        let it = *self.op(index);
        let reads = matches!(it.step, Step::Reading | Step::Expanding | Step::Plain);
        let from_device = it.row.is_none() && !it.place.is_nowhere();
        self.layout.parity && reads && from_device && it.rescued.is_none()
    }

    pub(in crate::log) fn begin_rescue(&mut self, index: u8, cx: &mut Cx) {
        let place = self.op(index).place;
        self.op(index).rescued = Some(place);
        let (segment, slot) = self.layout.slot_of(place.byte() / SECTOR as u64);
        let stripe = self.devices.stripe(segment);
        match Rebuild::on_device(stripe, (segment, slot), place.device()) {
            Some(rebuild) => self.rescue_read(index, rebuild, cx),
            None => self.give_up_record(index, cx), // No chunk is there.
        }
    }

    fn rescue_read(&mut self, index: u8, rebuild: Rebuild, cx: &mut Cx) {
        let Some(device) = rebuild.next_device() else { return self.give_up_record(index, cx) };
        let to = if rebuild.is_begin() { 0 } else { PLAIN };
        let step = Step::Rescuing(Rescue::Reading(rebuild));
        self.read_range(index, (device, to), step, cx);
    }

    /// A step of a rescue went well.
    pub(in crate::log) fn rescue_goes_on(
        &mut self,
        index: u8,
        (step, verdict): (Rescue, Verdict),
        cx: &mut Cx,
    ) {
        match step {
            Rescue::Reading(rebuild) if !rebuild.is_begin() => {
                self.rescue_fold(index, rebuild, cx);
            }
            Rescue::Reading(rebuild) | Rescue::Folding(rebuild) => {
                let rebuild = rebuild.fold();
                if !rebuild.may_be_over() {
                    return self.rescue_read(index, rebuild, cx);
                }
                let it = *self.op(index);
                let from = self.record_view(index);
                let seed = seed(it.block, it.place.generation());
                let step = Step::Rescuing(Rescue::Checking(rebuild));
                self.send(index, step, Command::Digest { from, seed }, cx);
            }
            Rescue::Checking(_) if verdict.crc == self.op(index).crc => {
                self.record_mended(index, cx);
                let from = self.record_view(index);
                self.expand(index, from, cx);
            }
            Rescue::Checking(rebuild) => self.rescue_read(index, rebuild, cx),
        }
    }

    fn rescue_fold(&mut self, index: u8, rebuild: Rebuild, cx: &mut Cx) {
        let bytes = self.range_bytes(index);
        let (scratch, at) = self.buffers.scratch(index);
        let mut from = Few::new();
        from.push(scratch.view(at + PLAIN, bytes));
        let into = scratch.view_mut(at, bytes);
        let step = Step::Rescuing(Rescue::Folding(rebuild));
        self.send(index, step, Command::Fold { from, into, keep: true }, cx);
    }

    /// The bytes of the sectors in which the record lies.
    pub(in crate::log) fn range_bytes(&mut self, index: u8) -> u32 {
        let place = self.op(index).place;
        let first = place.byte() / SECTOR as u64;
        let end = (place.byte() + u64::from(place.len())).div_ceil(SECTOR as u64);
        (end - first) as u32 * SECTOR as u32
    }

    /// The record, where it was read to.
    pub(in crate::log) fn record_view(&mut self, index: u8) -> View {
        let place = self.op(index).place;
        let skip = (place.byte() % SECTOR as u64) as u32;
        let (scratch, at) = self.buffers.scratch(index);
        scratch.view(at + skip, place.len())
    }
}
