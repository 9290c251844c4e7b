//! Speculative rebuild: rebuilds the chunk of a device before the head of its stripe is known.
//! Nearly every stripe fills its slot, and the head is in the first chunk. No data is read twice,
//! and no stripe waits until the head of another is rebuilt.
//!
//! Invariant: the rebuilt chunk is used only if the head confirms the assumed length of the stripe.

use hostftl_core::{Cause, Command, SECTORS_PER_BLOCK, Target, View};

use super::rebuild::{ChunkRebuild, Sum};
use crate::log::buffers::Buffer;
use crate::log::gc::lane::{Lane, Phase, ROOM};
use crate::log::layout::At;
use crate::log::media::Media;
use crate::log::ops::{Cx, Op};
use crate::log::redundancy::rebuild::{Chunk, Rebuild};

impl Lane {
    /// Returns how to rebuild the chunk of a device in the stripe at `at` without its head. Returns
    /// `None` if the stripe does not start a slot or the chunk cannot be rebuilt.
    pub(super) fn way_ahead(at: At, device: u8, media: &Media) -> Option<Rebuild> {
        let At { segment, slot, sector } = at;
        let placement = media.devices.placement(segment);
        let chunk = Chunk::on(device, placement, (segment, slot)).filter(|_| sector == 0)?;
        let missing = media.devices.devices_with_missing(segment);
        Rebuild::new(placement, (segment, slot), chunk, placement.width(), missing)
    }

    /// Takes the stripe at `at` and starts with the rebuild of a chunk.
    pub(super) fn begin_ahead(&mut self, at: At, rebuild: Rebuild) {
        self.go(Phase::Rebuilding(ChunkRebuild::ahead(self.layout.chunk, rebuild)));
        self.renew(at);
    }

    /// Obtains the head after the rebuild, which succeeded if `made` is given. The head is copied
    /// from a chunk that was read or from the rebuilt chunk; otherwise it is read from its device.
    pub(super) fn ask_head(
        &mut self,
        made: Option<Rebuild>,
        media: &mut Media,
        cx: &mut Cx,
    ) -> bool {
        if cx.outputs_left() < ROOM || cx.commands_left() == 0 {
            return false;
        }
        let pages = self.layout.head_pages(true);
        let sectors = pages * SECTORS_PER_BLOCK;
        let read = self.chunks.has(0, (0, sectors)).then_some(Buffer::Gc(self.number, 0));
        self.sum = made.map_or(Sum::Nothing, Sum::Made);
        let sum = self.has_made_head().then_some(Buffer::GcSum(self.number));
        let into = self.head.take().expect("the buffer of the head is present");
        let command = match read.or(sum) {
            Some(buffer) => {
                let from = media.buffers.at(buffer).view_sectors(0, sectors);
                Command::Peek { from, into, pages }
            }
            None => {
                let At { segment, slot, .. } = self.at;
                let device = media.devices.placement(segment).device(segment, slot, 0);
                let into = Target::Meta { buf: into, pages };
                Command::Read { device, lba: self.layout.lba(self.at), into, cause: Cause::Gc }
            }
        };
        self.go(Phase::Head);
        media.devices.submit(Op::GcHead { lane: self.number }, command, cx);
        true
    }

    /// Returns the view of the chunk from which the head was copied.
    pub(in crate::log::gc) fn peeked(&self, from: View, media: &mut Media) {
        media.buffers.repay_gc(self.number, from);
    }

    /// Returns whether the rebuilt chunk is the first of the stripe, which contains the head.
    pub(in crate::log::gc) fn has_made_head(&self) -> bool {
        matches!(self.sum, Sum::Made(it) if it.wanted() == Chunk::Data(0))
    }
}
