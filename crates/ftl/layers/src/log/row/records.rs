//! The records that the head of a row lists, where they lie in the row.

use hostftl_core::{Command, Payload, SECTOR};
use hostftl_format::log::{Entry, Kind, seed};

use crate::log::layout::{At, Layout};
use crate::log::stripe::Stripe;

/// A record that a head lists.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    chunk: u8,
    byte: u32,
    len: u32,
    crc: u32,
    seed: u64,
}

impl Record {
    /// That of an entry of the row at `at`, where images have CRCs that are begun with `page_seed`;
    /// none of a trim, and of what can't be.
    pub(crate) fn of(
        entry: &Entry,
        (layout, at, stripe): (&Layout, At, Stripe),
        page_seed: u64,
    ) -> Option<Self> {
        let seed = match entry.kind {
            Kind::Data => seed(entry.block, entry.place.generation()),
            Kind::Trim => return None,
            Kind::Map | Kind::Directory | Kind::Counts => page_seed,
        };
        let chunk = stripe.chunk_on(at.segment, at.slot, entry.place.device())?;
        let byte = entry.place.byte().checked_sub(layout.lba(at) * SECTOR as u64)?;
        let (len, crc) = (entry.place.len(), entry.crc);
        let fits = byte + u64::from(len) <= u64::from(layout.chunk) * SECTOR as u64;
        fits.then_some(Record { chunk, byte: byte as u32, len, crc, seed })
    }

    /// The data chunk of the row in which it lies.
    pub(crate) fn chunk(&self) -> u8 {
        self.chunk
    }

    /// The command that takes its checksum, where its chunk lies in `buffer`.
    pub(crate) fn digest(&self, buffer: &mut Payload) -> Command {
        Command::Digest { from: buffer.view(self.byte, self.len), seed: self.seed }
    }

    /// Whether this is its checksum.
    pub(crate) fn has(&self, crc: u32) -> bool {
        self.crc == crc
    }
}
