//! A stripe found by replay, and the placement of its chunks.

use hostftl_core::{DeviceSet, MetaBuf};
use hostftl_format::log::Head;

use crate::log::layout::{At, Layout};
use crate::log::media::Media;
use crate::log::redundancy::rebuild::{Chunk, Rebuild};

/// Origin of the head of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HeadOrigin {
    /// Read from its device.
    Device,
    /// Rebuilt from the other chunks, because its sectors on the device hold something else.
    Torn,
    /// Rebuilt from the other chunks, because its sectors are missing or unreadable.
    Unreadable,
}

/// Stripe found by replay. Chunks are numbered by [`Layout::chunk_number`]; sets of chunks are bit
/// masks.
#[derive(Debug)]
pub(super) struct Found {
    /// Head of the stripe.
    pub head: Head,
    /// Position of its first sector.
    pub at: At,
    /// Buffer of the head, with its entries.
    pub buf: MetaBuf,
    pub origin: HeadOrigin,
}

impl Found {
    /// Returns the device of a chunk.
    pub(super) fn chunk_device(&self, number: u32, media: &Media) -> u8 {
        let At { segment, slot, .. } = self.at;
        let placement = media.devices.placement(segment);
        media.layout().chunk_at(number).device(placement, (segment, slot))
    }

    /// Returns how a chunk is made from the others; `None` when it cannot be.
    pub(super) fn rebuild(&self, wanted: Chunk, media: &Media) -> Option<Rebuild> {
        let At { segment, slot, .. } = self.at;
        let (placement, chunks) = (media.devices.placement(segment), self.head.chunks);
        Rebuild::new(placement, (segment, slot), wanted, chunks.into(), DeviceSet::EMPTY)
    }

    /// Returns the sectors of a chunk.
    pub(super) fn chunk_sectors(&self, chunk: u32) -> u32 {
        let head = self.head;
        let last = chunk + 1 == head.chunks.into();
        if last { head.last_sectors } else { head.first_sectors }
    }

    /// Returns the first sector of a chunk that is not in its zone, and the end of the chunk.
    pub(super) fn lacking(&self, chunk: u32, media: &Media) -> Option<(u64, u64)> {
        let (at, devices, layout) = (self.at, &media.devices, media.layout());
        let (device, first) = (self.chunk_device(chunk, media), layout.lba(at));
        let end = first + u64::from(self.chunk_sectors(chunk));
        let begin = layout.lba(At { slot: 0, sector: 0, ..at });
        let usable = layout.zoned
            && !devices.is_inactive(device)
            && !devices.lacks(device, first)
            && !devices.zones().has_failed(at.segment, device);
        let sent = usable.then(|| begin + u64::from(devices.zones().sent(at.segment, device)))?;
        (sent < end).then_some((sent.max(first), end))
    }

    /// Returns whether a chunk can be written to its zone: the zone is open, or can be opened. A
    /// device that was lost for a while, without a root that records this, may have other zones
    /// open. Its chunk is then recorded as missing.
    pub(super) fn may_open_for(&self, chunk: u32, media: &mut Media) -> bool {
        let (segment, device) = (self.at.segment, self.chunk_device(chunk, media));
        let zones = media.devices.zones();
        let may = zones.sent(segment, device) > 0 || zones.has_room(device);
        if !may {
            media.devices.membership_mut().claim_lack(segment, DeviceSet::single(device));
        }
        may
    }

    /// Returns the set of all chunks of the stripe.
    pub(super) fn chunks(&self, layout: &Layout) -> u32 {
        ((1 << self.head.chunks) - 1) | parities(layout)
    }

    /// Returns whether any of these chunks is not completely in its zone and can still be written
    /// there.
    fn lacks_any(&self, chunks: u32, media: &Media) -> bool {
        numbers(chunks).any(|chunk| self.lacking(chunk, media).is_some())
    }

    /// Returns whether too many of these chunks are absent for the stripe to have been
    /// acknowledged. No flush covers a chunk that can still be written, and a stripe may lack at
    /// most as many other chunks as parity makes up for.
    pub(super) fn never_came(&self, chunks: u32, media: &Media) -> bool {
        let layout = media.layout();
        let mut absent = 0;
        for chunk in numbers(chunks) {
            let (device, sectors) = (self.chunk_device(chunk, media), self.chunk_sectors(chunk));
            let lba = layout.lba(self.at);
            let unwritten = media.devices.is_unwritten(device, lba, sectors);
            absent += u32::from(unwritten || !media.devices.has_chunk(device, lba));
        }
        layout.zoned && (absent > u32::from(layout.parity) || self.lacks_any(chunks, media))
    }
}

/// Returns the set of the parity chunks.
pub(super) fn parities(layout: &Layout) -> u32 {
    layout.parities().fold(0, |set, it| set | 1 << layout.chunk_number(it))
}

/// Returns the chunk numbers in a set.
pub(super) fn numbers(set: u32) -> impl Iterator<Item = u32> {
    let mut left = set;
    core::iter::from_fn(move || {
        let number = left.trailing_zeros();
        left &= left.checked_sub(1)?;
        Some(number)
    })
}
