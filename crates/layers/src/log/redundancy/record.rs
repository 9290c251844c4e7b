//! Rebuilds a record that can't be read, or is wrong, from parity.
//!
//! How many chunks the row has is not known: the parity is folded with one chunk after the other,
//! until the sum has the checksum that the map knows. Sectors that a short row has not written are
//! never touched, because a row of more than one chunk is written to its end.

use hostftl_core::{Command, Few, SECTOR, Verdict, View};
use hostftl_format::log::seed;

use crate::log::Engine;
use crate::log::host::blocks::PLAIN;
use crate::log::host::op::{Rescue, Step};
use crate::log::ops::Cx;

impl Engine {
    /// Whether an operation whose command failed may get its record in another way.
    pub(in crate::log) fn can_be_rescued(&mut self, index: u8) -> bool {
        let it = *self.op(index);
        let reads = matches!(it.step, Step::Reading | Step::Expanding | Step::Plain);
        let from_device = it.row.is_none() && !it.place.is_nowhere();
        self.layout.parity && reads && from_device && it.rescued.is_none()
    }

    pub(in crate::log) fn begin_rescue(&mut self, index: u8, cx: &mut Cx) {
        self.op(index).rescued = Some(self.op(index).place);
        self.rescue_read(index, 0, cx);
    }

    /// The chunk of the row that is wanted; `None` for what lies where no chunk is.
    fn wanted_chunk(&mut self, index: u8) -> Option<u32> {
        let place = self.op(index).place;
        let (segment, slot) = self.layout.slot_of(place.byte() / SECTOR as u64);
        let stripe = self.devices.stripe(segment);
        stripe.chunk_on(segment, slot, place.device()).map(u32::from)
    }

    fn rescue_read(&mut self, index: u8, mut next: u32, cx: &mut Cx) {
        let wanted = self.wanted_chunk(index);
        if wanted.is_some_and(|chunk| next == chunk + 1) {
            next += 1;
        }
        let place = self.op(index).place;
        let (segment, slot) = self.layout.slot_of(place.byte() / SECTOR as u64);
        let stripe = self.devices.stripe(segment);
        if wanted.is_none() || next > stripe.width() {
            return self.give_up_record(index, cx);
        }
        let (device, to) = match next {
            0 => (stripe.parity_device(segment, slot), 0),
            chunk => (stripe.device(segment, slot, chunk - 1), PLAIN),
        };
        let step = Step::Rescuing(Rescue::Reading(next));
        self.read_range(index, (device, to), step, cx);
    }

    /// A step of a rescue went well.
    pub(in crate::log) fn rescue_goes_on(
        &mut self,
        index: u8,
        (step, verdict): (Rescue, Verdict),
        cx: &mut Cx,
    ) {
        let wanted = self.wanted_chunk(index).expect("it was looked for before");
        match step {
            Rescue::Reading(next) if next > 0 => self.rescue_fold(index, next, cx),
            // All chunks before the one that is wanted are in every sum.
            Rescue::Reading(next) | Rescue::Folding(next) if next < wanted => {
                self.rescue_read(index, next + 1, cx);
            }
            Rescue::Reading(next) | Rescue::Folding(next) => {
                let it = *self.op(index);
                let from = self.record_view(index);
                let seed = seed(it.block, it.place.generation());
                let step = Step::Rescuing(Rescue::Checking(next));
                self.send(index, step, Command::Digest { from, seed }, cx);
            }
            Rescue::Checking(_) if verdict.crc == self.op(index).crc => {
                self.record_mended(index, cx);
                let from = self.record_view(index);
                self.expand(index, from, cx);
            }
            Rescue::Checking(next) => self.rescue_read(index, next + 1, cx),
        }
    }

    fn rescue_fold(&mut self, index: u8, next: u32, cx: &mut Cx) {
        let bytes = self.range_bytes(index);
        let (scratch, at) = self.buffers.scratch(index);
        let mut from = Few::new();
        from.push(scratch.view(at + PLAIN, bytes));
        let into = scratch.view_mut(at, bytes);
        let step = Step::Rescuing(Rescue::Folding(next));
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
