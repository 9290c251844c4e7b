//! Where the chunks of a row lie.

use hostftl_core::SECTOR;
use hostftl_format::log::Place;

use crate::log::layout::{At, Layout};
use crate::log::stripe::{Stripe, Turned};

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Spread {
    /// Which chunk is on which device.
    turned: Turned,
    /// The first byte on each device.
    begin: u64,
}

impl Spread {
    /// Of a row that begins at `at`, over the devices of its segment.
    pub(crate) fn new(stripe: Stripe, at: At, layout: &Layout) -> Self {
        let turned = stripe.turned(at.segment, at.slot);
        Spread { turned, begin: layout.lba(at) * SECTOR as u64 }
    }

    /// The devices.
    pub(crate) fn stripe(&self) -> Stripe {
        self.turned.stripe()
    }

    /// The place of a record of `len` bytes at `byte` of a chunk.
    #[inline]
    pub(crate) fn place(&self, (chunk, byte): (u8, u32), len: u32, generation: u8) -> Place {
        let device = self.turned.device(chunk.into());
        Place::new(device, self.begin + u64::from(byte), len, generation)
    }

    /// The chunk on the device of a place, and how many bytes behind its beginning that is: perhaps
    /// beyond its end. `None` before the row, and on a device that has no data of it.
    #[inline]
    pub(crate) fn find(&self, place: Place) -> Option<(u8, u64)> {
        let byte = place.byte().checked_sub(self.begin)?;
        Some((self.turned.chunk_on(place.device())?, byte))
    }
}
