//! Payload buffers of the layer: chunks of stripes, scratch space of block operations, a journal
//! record, and the chunks read by garbage collection and by a scrub.
//!
//! Invariant: a view is repaid to the buffer that lent it. A buffer that was exchanged is found by
//! its id.

use alloc::vec::Vec;
use core::ops::Range;

use hostftl_core::{Payload, SECTOR, View, ViewMut};

use crate::log::layout::{BLOCK_OPS, JOINTS, Layout, SCRATCH, STRIPES};

/// The use of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Buffer {
    /// A chunk of a stripe; its parities follow its data.
    Stripe(u8, u8),
    /// A chunk of the victim's stripe in a lane.
    Gc(u8, u8),
    /// A chunk that a lane rebuilds.
    GcSum(u8),
    /// The second parity of a lane's stripe, if it is needed in addition to the first.
    GcSecond(u8),
    /// A record of the journal.
    Journal,
    /// A chunk of the stripe being scrubbed; its parities follow its data.
    Scrub(u8),
    /// The parity that a scrub computes for comparison.
    ScrubSum,
    /// Adjacent records that are read with one command.
    Joint(u8),
}

impl Buffer {
    /// Returns the buffer of a chunk of a stripe.
    pub(super) fn stripe(stripe: u8, chunk: u32) -> Self {
        Buffer::Stripe(stripe, chunk as u8)
    }
}

/// All buffers, in this order: stripes, scratch space, journal, garbage collection, scrub, joint
/// reads.
#[derive(Debug)]
pub(super) struct Buffers {
    list: Vec<Payload>,
    /// Number of devices, and of buffers per stripe.
    devices: usize,
    /// Number of data chunks per stripe.
    width: usize,
    /// Number of lanes, and of buffers per lane besides those for data chunks.
    lanes: usize,
    sums: usize,
    /// Indices of the first data buffer of the lanes, of their first other buffer, and of the first
    /// buffer of a scrub.
    begins: [usize; 3],
    /// Number of operations that share a buffer of scratch space.
    per_scratch: usize,
}

impl Buffers {
    /// Returns the number of buffers needed, and the sectors of each.
    pub(super) fn needed(layout: &Layout) -> (u32, u32) {
        // A buffer holds at least one scratch area, even if chunks are shorter. All have the same
        // length, so stripes can exchange theirs.
        let sectors = layout.chunk.max(SCRATCH);
        let scratch = (BLOCK_OPS as u32 * SCRATCH).div_ceil(sectors / SCRATCH * SCRATCH);
        let stripes = STRIPES as u32 * u32::from(layout.devices);
        let record = u32::from(layout.journal.is_some());
        let scrub = u32::from(layout.devices) + 1;
        let lanes = layout.lanes() as u32 * (layout.width() + sums(layout));
        (stripes + scratch + record + lanes + scrub + JOINTS as u32, sectors)
    }

    /// Takes the buffers that [`Buffers::needed`] asked for.
    pub(super) fn new(list: Vec<Payload>, layout: &Layout) -> Self {
        let (count, sectors) = Self::needed(layout);
        assert_eq!(list.len(), count as usize, "the layer has the buffers that it requested");
        let (devices, width, lanes) =
            (layout.devices.into(), layout.width() as usize, layout.lanes());
        let (sums, per_scratch) = (sums(layout) as usize, (sectors / SCRATCH) as usize);
        let scrub = list.len() - JOINTS - 1 - devices;
        // Counted from the end, because the scratch space in front is rounded up to whole buffers.
        let begins = [scrub - lanes * (width + sums), scrub - lanes * sums, scrub];
        Buffers { list, devices, width, lanes, sums, begins, per_scratch }
    }

    #[inline]
    fn index(&self, which: Buffer) -> usize {
        let [gc, sums, scrub] = self.begins;
        match which {
            Buffer::Stripe(stripe, chunk) => {
                assert!(usize::from(chunk) < self.devices, "a stripe has a chunk on each device");
                usize::from(stripe) * self.devices + usize::from(chunk)
            }
            Buffer::Gc(lane, chunk) => {
                assert!(usize::from(chunk) < self.width, "collection reads chunks of data");
                assert!(usize::from(lane) < self.lanes, "the index is a lane");
                gc + usize::from(lane) * self.width + usize::from(chunk)
            }
            Buffer::GcSum(lane) => {
                assert!(usize::from(lane) < self.lanes, "the index is a lane");
                sums + usize::from(lane)
            }
            Buffer::GcSecond(lane) => {
                assert!(
                    usize::from(lane) < self.lanes && self.sums > 1,
                    "stripes have two parity chunks"
                );
                sums + self.lanes + usize::from(lane)
            }
            Buffer::Scrub(chunk) => {
                assert!(usize::from(chunk) < self.devices, "a stripe has a chunk on each device");
                scrub + usize::from(chunk)
            }
            Buffer::ScrubSum => scrub + self.devices,
            Buffer::Joint(joint) => {
                assert!(usize::from(joint) < JOINTS, "the index is a joint read");
                scrub + self.devices + 1 + usize::from(joint)
            }
            // Only a volume with a journal has this buffer, directly before those of the lanes.
            Buffer::Journal => gc - 1,
        }
    }

    /// Returns a buffer.
    #[inline]
    pub(super) fn at(&mut self, which: Buffer) -> &mut Payload {
        let index = self.index(which);
        &mut self.list[index]
    }

    /// Returns the length of each buffer in bytes.
    pub(super) fn bytes(&self) -> u32 {
        self.per_scratch as u32 * SCRATCH * SECTOR as u32
    }

    /// Returns whether no view of a buffer is lent.
    pub(super) fn is_idle(&self, which: Buffer) -> bool {
        self.list[self.index(which)].is_idle()
    }

    /// Returns the buffers of a stripe.
    pub(super) fn stripe_buffers(&self, stripe: u8) -> impl Iterator<Item = Buffer> + use<> {
        (0..self.devices as u8).map(move |chunk| Buffer::Stripe(stripe, chunk))
    }

    /// Exchanges the uses of two buffers.
    pub(super) fn exchange(&mut self, one: Buffer, other: Buffer) {
        let (one, other) = (self.index(one), self.index(other));
        self.list.swap(one, other);
    }

    /// Returns the scratch space of block operation `index`: its buffer, and the offset in bytes.
    #[inline]
    pub(super) fn scratch(&mut self, index: u8) -> (&mut Payload, u32) {
        let buffer = STRIPES * self.devices + usize::from(index) / self.per_scratch;
        let from = (usize::from(index) % self.per_scratch) as u32 * SCRATCH * SECTOR as u32;
        (&mut self.list[buffer], from)
    }

    /// Returns a buffer by its id; it may have been exchanged with one of another stripe.
    pub(super) fn named(&mut self, id: u32) -> &mut Payload {
        self.list.iter_mut().find(|buffer| buffer.id() == id).expect("a buffer of the layer")
    }

    fn stripe_range(&self, stripe: u8) -> Range<usize> {
        let first = usize::from(stripe) * self.devices;
        first..first + self.devices
    }

    /// Repays a view of a stripe's buffers.
    #[inline]
    pub(super) fn repay_stripe(&mut self, stripe: u8, view: View) {
        let range = self.stripe_range(stripe);
        match self.list[range].iter_mut().find(|it| it.id() == view.id()) {
            Some(buffer) => buffer.repay(view),
            // The buffer was exchanged while the view was lent.
            None => self.named(view.id()).repay(view),
        }
    }

    /// Repays a mutable view of a stripe's buffers.
    #[inline]
    pub(super) fn repay_stripe_mut(&mut self, stripe: u8, view: ViewMut) {
        let range = self.stripe_range(stripe);
        let buffer = self.list[range].iter_mut().find(|it| it.id() == view.id());
        buffer.expect("the view belongs to this stripe").repay_mut(view);
    }

    /// Repays a view of a lane's buffers.
    pub(super) fn repay_gc(&mut self, lane: u8, view: View) {
        let first = self.index(Buffer::Gc(lane, 0));
        let list = self.list[first..first + self.width].iter_mut();
        if let Some(buffer) = list.into_iter().find(|it| it.id() == view.id()) {
            return buffer.repay(view);
        }
        let is_sum = self.at(Buffer::GcSum(lane)).id() == view.id();
        let other = if is_sum { Buffer::GcSum(lane) } else { Buffer::GcSecond(lane) };
        self.at(other).repay(view);
    }

    /// Discards all buffers when the power is cut.
    pub(super) fn void(&mut self) {
        self.list.drain(..).for_each(|buffer| {
            buffer.void();
        });
    }
}

/// Returns the number of buffers per lane besides those for data chunks.
fn sums(layout: &Layout) -> u32 {
    u32::from(layout.parity).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn buffers(parity: u8) -> Buffers {
        let layout = Layout { parity, ..Layout::example(4) };
        let (count, sectors) = Buffers::needed(&layout);
        let list = (0..count).map(|id| Payload::issue(id, sectors)).collect();
        Buffers::new(list, &layout)
    }

    #[test]
    fn no_buffer_has_two_uses() {
        (0..3).for_each(has_one_use_each);
    }

    fn has_one_use_each(parity: u8) {
        let mut it = buffers(parity);
        let stripes: Vec<Buffer> =
            (0..STRIPES as u8).flat_map(|stripe| it.stripe_buffers(stripe)).collect();
        let of_lane = |lane| {
            let data = (0..4 - parity).map(move |chunk| Buffer::Gc(lane, chunk));
            let second = (parity > 1).then_some(Buffer::GcSecond(lane));
            data.chain([Buffer::GcSum(lane)]).chain(second)
        };
        let gc = (0..it.lanes as u8).flat_map(of_lane);
        let scrub = [0, 1, 2, 3].map(Buffer::Scrub).into_iter().chain([Buffer::ScrubSum]);
        let scrub = scrub.chain((0..JOINTS as u8).map(Buffer::Joint));
        let mut ids: Vec<u32> =
            stripes.into_iter().chain(gc).chain(scrub).map(|which| it.at(which).id()).collect();
        let scratch = |index| (it.scratch(index).0.id(), it.scratch(index).1);
        let mut all: Vec<(u32, u32)> = (0..BLOCK_OPS as u8).map(scratch).collect();
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), BLOCK_OPS, "each operation has scratch of its own");
        ids.extend(all.into_iter().filter(|(_, from)| *from == 0).map(|(id, _)| id));
        ids.sort_unstable();
        assert!(ids.iter().copied().eq(0..it.list.len() as u32), "{ids:?}");
        it.void();
    }

    #[test]
    fn a_view_returns_to_an_exchanged_buffer() {
        let mut it = buffers(1);
        let view = it.at(Buffer::Stripe(0, 1)).view_sectors(0, 8);
        it.exchange(Buffer::Stripe(0, 1), Buffer::Stripe(5, 2));
        assert!(it.is_idle(Buffer::Stripe(0, 1)) && !it.is_idle(Buffer::Stripe(5, 2)));
        it.repay_stripe(0, view);
        assert!(it.is_idle(Buffer::Stripe(5, 2)));
        it.void();
    }
}
