//! Records listed in the head of a stripe, and their position in the stripe.

use hostftl_core::{Command, Payload, SECTOR};
use hostftl_format::log::{Entry, Kind, seed};

use crate::log::chunk_placement::ChunkPlacement;
use crate::log::layout::{At, Layout};

/// Record listed in a head.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Record {
    chunk: u8,
    byte: u32,
    len: u32,
    crc: u32,
    seed: u64,
}

impl Record {
    /// Returns the record of an entry of the stripe at `at`; the CRCs of images start from
    /// `page_seed`. Returns `None` for a trim and for an impossible entry.
    pub(crate) fn new(
        entry: &Entry,
        (layout, at, placement): (&Layout, At, ChunkPlacement),
        page_seed: u64,
    ) -> Option<Self> {
        let seed = match entry.kind {
            Kind::Data => seed(entry.block, entry.place.generation()),
            Kind::Trim => return None,
            Kind::Map | Kind::Directory | Kind::Counts => page_seed,
        };
        let chunk = placement.chunk_on(at.segment, at.slot, entry.place.device())?;
        let byte = entry.place.byte().checked_sub(layout.lba(at) * SECTOR as u64)?;
        let (len, crc) = (entry.place.len(), entry.crc);
        let fits = byte + u64::from(len) <= u64::from(layout.chunk) * SECTOR as u64;
        fits.then_some(Record { chunk, byte: byte as u32, len, crc, seed })
    }

    /// Returns the data chunk that contains the record.
    pub(crate) fn chunk(&self) -> u8 {
        self.chunk
    }

    /// Returns the command that computes its checksum, given the `buffer` of its chunk.
    pub(crate) fn digest(&self, buffer: &mut Payload) -> Command {
        Command::Digest { from: buffer.view(self.byte, self.len), seed: self.seed }
    }

    /// Returns whether `crc` is its checksum.
    pub(crate) fn has(&self, crc: u32) -> bool {
        self.crc == crc
    }
}
