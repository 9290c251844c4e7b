//! Seals stripes and writes them to the devices.
//!
//! A stripe is sealed when all of its data is in the buffers: it gets its sequence number and its
//! head, and parity is computed. Its chunks are then written to all devices at once. A flush is
//! acknowledged when all stripes up to its last host data and all stripes with lower sequence
//! numbers are written, and the devices have been flushed since. The reason is that recovery
//! replays stripes in the order of their numbers and ends before the first incomplete one.

use hostftl_core::{
    ArrayVec, BLOCK, Cause, Command, Gather, MAX_PIECES, MetaBuf, Piece, SECTOR, Tally, View,
};
use hostftl_format::log::{self, Entry, Head};

use crate::planted::{Bug, planted};

use crate::log::buffers::Buffer;
use crate::log::durability::Durability;
use crate::log::journal::Journal;
use crate::log::layout::STRIPES;
use crate::log::media::Media;
use crate::log::ops::{Cx, Op, count_sent, works};
use crate::log::redundancy::rebuild::{Chunk, parity_factors};
use crate::log::stripe::stripes::Stripes;
use crate::log::stripe::{Item, NO_HEIR, Phase, Stage, Stripe};
use crate::log::volume::Volume;

impl Stripes {
    /// Gives a stripe its sequence number and its head. Returns whether progress was made.
    pub(crate) fn seal(
        &mut self,
        stripe: u8,
        media: &mut Media,
        durability: &mut Durability,
        journal: &Journal,
        volume: Volume,
        cx: &mut Cx,
    ) -> bool {
        let layout = self.layout;
        let it = &self[stripe];
        // All data must be in the buffers, from which the stripe is written.
        if it.placing > 0 || !durability.may_seal() {
            return false;
        }
        let (stamp, of_host) = (it.stamp, it.is_of_host());
        // Sequence numbers of a stream increase from position to position.
        let before =
            |(_, stripe): (u8, &Stripe)| stripe.stream == it.stream && stripe.stamp < stamp;
        if self.open_ones().any(before) || journal.is_unsure(&it.items) {
            return false;
        }
        // A closed stripe is sealed in its turn; one that is being filled must be closed first.
        if let Some(first) = self.trims_before(stripe) {
            let filling = self[first].phase() == Phase::Filling;
            if filling {
                self.close(first, media, cx);
            }
            return filling;
        }
        let mut buf = self[stripe].heads.take();
        let entries = self.put_entries(stripe, &mut buf, journal);
        let seq = durability.seal(stamp, of_host);
        media.devices.membership_mut().note_stripe(self[stripe].at.segment, seq);
        self.go(stripe, Phase::Sealing);
        let it = &mut self[stripe];
        it.seq = seq;
        let last = it.fill.chunks() - 1;
        let head = Head {
            seq,
            // Recovery trusts stripes up to this number without verifying them.
            durable: durability.durable(),
            journal: journal.newest(),
            epoch: volume.life,
            next: it.ahead,
            entries,
            first_sectors: it.sectors(&layout, 0),
            last_sectors: it.sectors(&layout, last),
            chunks: last as u8 + 1,
            stream: it.stream,
            members: it.spread.placement().members().to_bits(),
            next_members: media.devices.placement(it.ahead).members().to_bits(),
            lacking: media.devices.membership().recorded(it.at.segment).1.to_bits(),
        };
        // Heads and gaps must be in the buffers only if parity is computed from them.
        let protected = layout.parity > 0 && last > 0;
        it.stage = if protected { Stage::Fill(0) } else { Stage::Write(0) };
        let address = layout.lba(it.at);
        log::seal(&mut buf, &volume.uuid, address, &head);
        // The parity chunks of a single chunk are copies of it.
        if layout.parity > 0 && !protected {
            it.heads.copy(&buf, it.head_pages);
        }
        it.heads.put(buf);
        cx.touch(entries as usize);
        true
    }

    /// Writes the entries of a stripe into its head. Returns their number.
    fn put_entries(&self, stripe: u8, head: &mut MetaBuf, journal: &Journal) -> u32 {
        let mut open = [0; STRIPES];
        for (other, it) in self.open_ones().filter(|(other, _)| *other != stripe) {
            open[usize::from(other)] = it.stamp;
        }
        let mut entries = 0;
        for item in &self[stripe].items {
            if self.lists(item, &open, journal) {
                let (kind, block, place, crc) = (item.kind, item.block, item.place, item.crc);
                log::put_entry(head, entries, &Entry { kind, block, place, crc });
                entries += 1;
            }
        }
        entries
    }

    /// Returns whether the sealed stripe lists an item, which requires that no newer version is
    /// replayed before the stripe. `open` has the stamps of the other unsealed stripes. They may be
    /// sealed in any order, so each newer version must be in one of them.
    fn lists(&self, item: &Item, open: &[u64; STRIPES], journal: &Journal) -> bool {
        let mut item = item;
        while item.heir != NO_HEIR {
            let stripe = open.iter().position(|stamp| *stamp == item.heir);
            let Some(stripe) = stripe.filter(|_| !journal.may_have(item.replaced)) else {
                return planted(Bug::HeirIgnored);
            };
            match self.list[stripe].items.get(item.newer as usize) {
                Some(newer) => item = newer,
                None => return true,
            }
        }
        true
    }

    /// Returns the stripe of another host stream that must be sealed before this one, because it
    /// has trims. Later writes, perhaps in this stripe, must be replayed after them.
    fn trims_before(&self, stripe: u8) -> Option<u8> {
        let it = &self[stripe];
        if !it.is_of_host() {
            return None;
        }
        let mut open = self.open_ones();
        open.find(|(_, other)| other.has_trims && other.stream != it.stream)
            .map(|(stripe, _)| stripe)
    }

    pub(crate) fn seal_step(&mut self, stripe: u8, media: &mut Media, cx: &mut Cx) -> bool {
        match self[stripe].stage {
            Stage::Fill(step) => self.fill_step(stripe, step, media, cx),
            Stage::Fold(which, done) => self.fold_step(stripe, (which, done), media, cx),
            Stage::Write(chunk) => self.write_step(stripe, chunk, media, cx),
        }
    }

    /// Copies the head before the data in step 0, and zeros after chunk `n − 1` in step `n`.
    fn fill_step(&mut self, stripe: u8, step: u8, media: &mut Media, cx: &mut Cx) -> bool {
        let it = &mut self[stripe];
        let (chunks, size) = (it.fill.chunks(), it.fill.size());
        // Parity is computed when all gaps are filled.
        if u32::from(step) > chunks {
            let over = it.pending == 0;
            if over {
                it.stage = Stage::Fold(0, 0);
            }
            return over;
        }
        it.stage = Stage::Fill(step + 1);
        let (from, chunk, at) = if step == 0 {
            let buf = it.heads.take();
            (Piece::Meta { buf, pages: it.head_pages }, 0, 0)
        } else {
            let used = it.fill.used(u32::from(step) - 1);
            (Piece::Zeros(size - used), u32::from(step) - 1, used)
        };
        if at == size {
            return true;
        }
        it.pending += 1;
        let (buffer, bytes) = (Buffer::stripe(stripe, chunk), from.bytes());
        let into = media.buffers.at(buffer).view_mut(at, bytes);
        media.devices.submit(Op::Seal { stripe }, Command::Place { from, into }, cx);
        true
    }

    /// Folds the next chunks into a parity, after `done` of them. The last chunks come first, so
    /// that the partial sum of the second parity is multiplied by a small factor each time
    /// (Horner's rule).
    fn fold_step(
        &mut self,
        stripe: u8,
        (which, done): (u8, u8),
        media: &mut Media,
        cx: &mut Cx,
    ) -> bool {
        let parity = self.layout.parity;
        let it = &mut self[stripe];
        if it.pending > 0 {
            return false;
        }
        let (chunks, size) = (it.fill.chunks() as u8, it.fill.size());
        if which == parity {
            it.stage = Stage::Write(0);
            return true;
        }
        let end = chunks.min(done + MAX_PIECES as u8);
        it.stage = if end == chunks { Stage::Fold(which + 1, 0) } else { Stage::Fold(which, end) };
        it.pending += 1;
        let mut from = ArrayVec::new();
        for index in (chunks - end..chunks - done).rev() {
            let buffer = Buffer::stripe(stripe, index.into());
            from.push(media.buffers.at(buffer).view(0, size));
        }
        let buffer = Buffer::stripe(stripe, self.layout.chunk_number(Chunk::Parity(which)));
        let into = media.buffers.at(buffer).view_mut(0, size);
        // The first fold replaces the contents of the buffer, which are those of an earlier stripe.
        let keep = done > 0 || planted(Bug::OldParity);
        let factors = parity_factors(which, from.len(), keep);
        media.devices.submit(Op::Seal { stripe }, Command::Fold { from, into, factors }, cx);
        true
    }

    /// Handles the completion of a sealing step in memory.
    pub(crate) fn seal_done(&mut self, stripe: u8, command: Command, media: &mut Media) {
        let mut views = ArrayVec::<View, MAX_PIECES>::new();
        let into = match command {
            Command::Place { from, into } => {
                if let Piece::Meta { buf, .. } = from {
                    self[stripe].heads.put(buf);
                }
                into
            }
            Command::Fold { from, into, .. } => {
                views = from;
                into
            }
            other => unreachable!("{other:?} does not seal a stripe"),
        };
        for view in views {
            media.buffers.repay_stripe(stripe, view);
        }
        media.buffers.repay_stripe_mut(stripe, into);
        self[stripe].pending -= 1;
    }

    /// Writes a chunk; the parity chunks follow the last data chunk.
    fn write_step(&mut self, stripe: u8, chunk: u8, media: &mut Media, cx: &mut Cx) -> bool {
        let layout = self.layout;
        let it = &mut self[stripe];
        let index = u32::from(chunk);
        if index == 0 && it.pending > 0 {
            return false;
        }
        if index == 0 && layout.zoned && !self.is_its_turn(stripe, media, cx) {
            return false;
        }
        let it = &mut self[stripe];
        let chunks = it.fill.chunks();
        let copies = chunks + u32::from(layout.parity);
        it.stage = Stage::Write(chunk + 1);
        it.pending += 1;
        if index + 1 == copies {
            // Changed here and not in the next round, because the program may complete before that.
            self.go(stripe, Phase::Programming);
        }
        let which = match index.checked_sub(chunks) {
            None => Chunk::Data(chunk),
            Some(which) => Chunk::Parity(which as u8),
        };
        let (gather, tally) = self.chunk_contents(stripe, which, media);
        let it = &self[stripe];
        let at = it.at;
        let device = which.device(it.spread.placement(), (at.segment, at.slot));
        count_sent(&tally, cx);
        let (lba, placement) = (layout.lba(at), self[stripe].stream);
        let command = Command::Program { device, lba, gather, tally, placement };
        media.devices.submit(Op::Chunk { stripe, copy: chunk }, command, cx);
        true
    }

    /// Returns the contents of a chunk of a stripe, and the causes of its sectors.
    fn chunk_contents(&mut self, stripe: u8, which: Chunk, media: &mut Media) -> (Gather, Tally) {
        let layout = self.layout;
        let it = &mut self[stripe];
        let chunks = it.fill.chunks();
        // The parity of a single chunk is a copy of it.
        let (parity, chunk) = match which {
            Chunk::Parity(_) => (true, 0),
            Chunk::Data(chunk) => (false, chunk.into()),
        };
        let mut gather = Gather::new();
        // Parity is as long as the first chunk.
        if parity && chunks > 1 {
            let sectors = it.sectors(&layout, 0);
            let buffer = Buffer::stripe(stripe, layout.chunk_number(which));
            gather.push(Piece::Data(media.buffers.at(buffer).view_sectors(0, sectors)));
            return (gather, Tally::single(Cause::Parity, sectors));
        }
        let (sectors, used) = (it.sectors(&layout, chunk), it.fill.used(chunk));
        let copied = it.fill.copied(chunk).div_ceil(SECTOR as u32);
        let head = if chunk == 0 { it.head_pages * BLOCK as u32 } else { 0 };
        if chunk == 0 {
            let buf = it.heads.take();
            gather.push(Piece::Meta { buf, pages: it.head_pages });
        }
        // The zeros that parity covers are in the buffer, so whole sectors are written.
        let whole = sectors * SECTOR as u32;
        let end = if layout.parity > 0 && chunks > 1 { whole } else { used };
        if end > head {
            let buffer = Buffer::stripe(stripe, chunk);
            gather.push(Piece::Data(media.buffers.at(buffer).view(head, end - head)));
        }
        if whole > end {
            gather.push(Piece::Zeros(whole - end));
        }
        if parity {
            return (gather, Tally::single(Cause::Parity, sectors));
        }
        let mut tally = Tally::single(Cause::Map, head / SECTOR as u32);
        let data = (used - head).div_ceil(SECTOR as u32);
        // Copies and host data may share a sector, which is counted once.
        tally.add(Cause::Gc, copied.min(data));
        tally.add(Cause::Host, data.saturating_sub(copied));
        tally.add(Cause::Pad, sectors - data - head / SECTOR as u32);
        (gather, tally)
    }

    /// Handles the completion of a chunk's program.
    pub(crate) fn chunk_done(
        &mut self,
        stripe: u8,
        command: Command,
        media: &mut Media,
        durability: &mut Durability,
        cx: &mut Cx,
    ) {
        let Command::Program { gather, .. } = command else { unreachable!("a completed program") };
        for piece in gather {
            match piece {
                Piece::Data(view) => media.buffers.repay_stripe(stripe, view),
                Piece::Meta { buf, .. } => self[stripe].heads.put(buf),
                Piece::Zeros(_) => {}
            }
        }
        self.chunk_over(stripe, media, durability, cx);
    }

    /// Counts a completed or abandoned program of a chunk.
    pub(crate) fn chunk_over(
        &mut self,
        stripe: u8,
        media: &mut Media,
        durability: &mut Durability,
        cx: &mut Cx,
    ) {
        let it = &mut self[stripe];
        it.pending -= 1;
        // After a failure that parity does not cover, the stripe never counts as written.
        if it.pending == 0 && it.phase() == Phase::Programming && works(cx) {
            let (seq, segment) = (it.seq, it.at.segment);
            self.go(stripe, Phase::Draining);
            durability.written(seq);
            media.segments.stripe_written(segment, seq);
        }
    }

    /// Returns whether a stripe may be written to its zones now.
    fn is_its_turn(&self, stripe: u8, media: &mut Media, cx: &mut Cx) -> bool {
        let segment = self[stripe].at.segment;
        self.is_first(stripe) && media.devices.may_enter(segment, &media.segments, cx)
    }
}

#[cfg(test)]
mod tests {
    use hostftl_format::log::{Kind, Place};

    use hostftl_core::DeviceSet;

    use super::*;
    use crate::log::chunk_placement::ChunkPlacement;
    use crate::log::layout::{At, Layout};
    use crate::log::stripe::A_TRIM;

    #[test]
    fn replaced_versions_are_not_listed_despite_an_intermediate_one() {
        let layout = Layout::example(3);
        let (mut stripes, journal) =
            (Stripes::new(&layout), Journal::new(&layout, DeviceSet::EMPTY));
        let mut open = [0; STRIPES];
        // The second stripe has a newer version than the first, and a trim in the third is newer
        // than both.
        for (stripe, (heir, newer)) in [(2, 0), (3, A_TRIM), (NO_HEIR, 0)].into_iter().enumerate() {
            let (at, stamp) =
                (At { segment: stripe as u32, slot: 0, sector: 0 }, stripe as u64 + 1);
            let it = &mut stripes[stripe as u8];
            it.open(
                &layout,
                (at, ChunkPlacement::new(DeviceSet::first_n(3), 1)),
                stripe as u8,
                stamp,
            );
            let (kind, place, replaced) = (Kind::Data, Place::NOWHERE, 1);
            let (block, crc, chunk, byte) = (5, 0, 0, it.head_pages * 4096);
            it.push(Item { kind, block, place, crc, heir, newer, replaced, chunk, byte });
            open[stripe] = stamp;
        }
        let lists = |stripe: u8, open: &[u64; STRIPES]| {
            stripes.lists(&stripes[stripe].items[0], open, &journal)
        };
        assert!((0..3).all(|stripe| lists(stripe, &open)), "all are sealed later");
        open[2] = 0;
        assert_eq!([0, 1, 2].map(|stripe| lists(stripe, &open)), [false, false, true]);
        (open[1], open[2]) = (0, 3);
        assert_eq!([0, 1, 2].map(|stripe| lists(stripe, &open)), [false, true, true]);
    }
}
