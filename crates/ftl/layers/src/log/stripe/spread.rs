//! Placement of the chunks of a stripe.

use hostftl_core::SECTOR;
use hostftl_format::log::Place;

use crate::log::chunk_placement::{ChunkPlacement, Turned};
use crate::log::layout::{At, Layout};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    /// Assignment of chunks to devices.
    turned: Turned,
    /// First byte on each device.
    begin: u64,
}

impl Spread {
    /// Returns the placement of a stripe that begins at `at`, over the devices of its segment.
    pub(crate) fn new(placement: ChunkPlacement, at: At, layout: &Layout) -> Self {
        let turned = placement.turned(at.segment, at.slot);
        Spread { turned, begin: layout.lba(at) * SECTOR as u64 }
    }

    /// Returns the members of the segment.
    pub(crate) fn placement(&self) -> ChunkPlacement {
        self.turned.placement()
    }

    /// Returns the place of a record of `len` bytes at `byte` of a chunk.
    #[inline]
    pub(crate) fn place(&self, (chunk, byte): (u8, u32), len: u32, generation: u8) -> Place {
        let device = self.turned.device(chunk.into());
        Place::new(device, self.begin + u64::from(byte), len, generation)
    }

    /// Returns the chunk on the device of a place, and the byte offset in it, which may be past its
    /// end. Returns `None` for a place before the stripe, and on a device without data of it.
    #[inline]
    pub(crate) fn find(&self, place: Place) -> Option<(u8, u64)> {
        let byte = place.byte().checked_sub(self.begin)?;
        Some((self.turned.chunk_on(place.device())?, byte))
    }
}
