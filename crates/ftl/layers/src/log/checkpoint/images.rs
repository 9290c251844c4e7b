//! Stripes of images. They consist of metadata only, so the layer computes their parity itself.
//!
//! Invariant: a stripe is being filled, or its chunks are being written; no image is taken
//! meanwhile.

use alloc::vec::Vec;

use hostftl_core::field::double;
use hostftl_core::{BLOCK, Cause, Command, Gather, MetaBuf, Page, Piece, SECTORS_PER_BLOCK, Tally};
use hostftl_format::log::{self, Begin, Entry, Head, Kind, Place};

use crate::log::checkpoint::Checkpoint;
use crate::log::chunk_placement::ChunkPlacement;
use crate::log::devices::Devices;
use crate::log::layout::{At, Layout};
use crate::log::media::Media;
use crate::log::ops::{Cx, Op, count_sent, works};
use crate::log::output::Output;
use crate::log::redundancy::rebuild::Chunk;
use crate::log::stripe::streams::MAP;

/// The stripe of images that is being filled or written.
#[derive(Debug)]
pub(crate) struct Images {
    at: Option<At>,
    placement: ChunkPlacement,
    ahead: u32,
    /// For each device, in the order of the chunk numbers of a stripe.
    bufs: Vec<Option<MetaBuf>>,
    /// Number of images in the stripe.
    count: u32,
    /// Number of pages of the head.
    head: u32,
    /// Whether the images in `entries` are not on the devices yet.
    unwritten: bool,
    entries: Vec<Entry>,
    /// Chunks being written.
    pending: u32,
    seq: u64,
    segment: u32,
}

impl Images {
    /// Returns the place of the open stripe of images. An empty one stays open until the next
    /// checkpoint if its first image was unreadable.
    pub(crate) fn begins(&self, devices: &Devices) -> Option<Begin> {
        let At { segment, slot, sector } = self.at?;
        let members = self.placement.members().to_bits();
        let ahead = Some((self.ahead, devices.placement(self.ahead).members().to_bits()));
        Some(Begin { segment, slot, sector, members, ahead })
    }

    pub(crate) fn new(layout: &Layout) -> Self {
        let pages = (layout.chunk / SECTORS_PER_BLOCK) as usize;
        Images {
            at: None,
            placement: ChunkPlacement::default(),
            ahead: 0,
            bufs: (0..layout.devices).map(|_| Some(MetaBuf::new(pages))).collect(),
            count: 0,
            head: 0,
            unwritten: false,
            entries: Vec::with_capacity(layout.head_entries(true) as usize),
            pending: 0,
            seq: 0,
            segment: 0,
        }
    }
}

impl Images {
    fn position_in_stripe(&self, page: u32) -> Option<usize> {
        let is_it = |entry: &Entry| entry.kind == Kind::Map && entry.block == u64::from(page);
        // The entries stay after the write, when the devices have the images.
        self.entries.iter().position(is_it).filter(|_| self.unwritten)
    }

    /// Returns whether a stripe of images is being written.
    pub(crate) fn are_sent(&self) -> bool {
        self.pending > 0
    }

    /// Returns whether the stripe being filled has no image.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Returns whether the image of a map page is not on the devices yet.
    pub(crate) fn has(&self, page: u32) -> bool {
        self.position_in_stripe(page).is_some()
    }

    /// Returns the image of a map page that is not on the devices yet; `None` while it is being
    /// written.
    pub(crate) fn image(&self, page: u32) -> Option<&Page> {
        let at = self.position_in_stripe(page)? + self.head as usize;
        let per = self.bufs.iter().flatten().map(|buf| buf.pages().len()).next()?;
        self.bufs[at / per].as_ref().map(|buf| &buf.pages()[at % per])
    }
}

impl Checkpoint {
    /// Returns the number of images that fit into a stripe, and the pages of its head.
    fn images_room(&self, at: At) -> (u32, u32) {
        let full = at.sector == 0;
        let chunks = if full { self.images.placement.width() } else { 1 };
        let pages = chunks * ((self.layout.chunk - at.sector) / SECTORS_PER_BLOCK);
        let head = self.layout.head_pages(full);
        ((pages - head).min(self.layout.head_entries(full)), head)
    }

    /// Writes the open stripe, which is full. Returns false if there is none or it must wait.
    ///
    /// If heads take two pages or more, a stripe may begin so close to the end of a chunk that only
    /// its head fits. Such a stripe is written without an image, because replay expects the next
    /// stripe there. Otherwise the checkpoint would never get a stripe with space for its image.
    pub(crate) fn images_full(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        cx: &mut Cx,
    ) -> bool {
        self.images.at.is_some() && self.write_images(media, output, cx)
    }

    /// Returns the place of the next image; `None` if the stripe is full or cannot be opened.
    pub(crate) fn image_place(&mut self, media: &mut Media, output: &mut Output) -> Option<Place> {
        if self.images.at.is_none() {
            let at = output.stripes.next_at(MAP, 0, media)?;
            let ahead = output.stripes.ahead(MAP).expect("a stream knows its next segment");
            media.segments.stripe_opened(at.segment);
            self.images.placement = media.devices.placement(at.segment);
            let head = self.images_room(at).1;
            let images = &mut self.images;
            (images.at, images.ahead, images.count) = (Some(at), ahead, 0);
            (images.head, images.unwritten) = (head, true);
            images.entries.clear();
        }
        let images = &self.images;
        let at = images.at.expect("a stripe is open");
        let (room, head) = self.images_room(at);
        if images.count == room {
            return None;
        }
        let page = images.count + head;
        let per = self.layout.chunk / SECTORS_PER_BLOCK;
        let device = images.placement.device(at.segment, at.slot, page / per);
        let lba = self.layout.lba(at) + u64::from(page % per * SECTORS_PER_BLOCK);
        Some(Place::new(device, lba * 512, BLOCK as u32, 0))
    }

    /// Returns the buffer of the next image, and the page in it.
    pub(crate) fn image_buffer(&mut self) -> (MetaBuf, usize) {
        let at = self.images.at.expect("a stripe is open");
        let page = self.images.count + self.images_room(at).1;
        let per = self.layout.chunk / SECTORS_PER_BLOCK;
        let buf = self.images.bufs[(page / per) as usize].take();
        (buf.expect("no image is in progress"), (page % per) as usize)
    }

    pub(crate) fn put_back(&mut self, buf: MetaBuf) {
        let empty = self.images.bufs.iter_mut().find(|it| it.is_none());
        *empty.expect("the buffer came from this place") = Some(buf);
    }

    pub(crate) fn note_image(
        &mut self,
        kind: Kind,
        page: u32,
        place: Place,
        crc: u32,
        old: Place,
        media: &mut Media,
    ) {
        let images = &mut self.images;
        assert!(images.at.is_some() && images.pending == 0, "images go into the open stripe");
        images.entries.push(Entry { kind, block: page.into(), place, crc });
        images.count += 1;
        // The old image is invalid from now on, but its segment becomes free only after the next
        // root.
        media.segments.add(self.layout.segment_at(place.byte()), place);
        if !old.is_nowhere() {
            media.segments.kill(self.layout.segment_at(old.byte()), old);
        }
    }

    /// Writes the stripe of images.
    pub(crate) fn write_images(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        cx: &mut Cx,
    ) -> bool {
        if !output.durability.may_seal() {
            return false;
        }
        // Everything that may refuse the write is evaluated before the stripe gets its number.
        let segment = self.images.at.expect("a stripe of images").segment;
        if self.layout.zoned && !media.devices.may_enter(segment, &media.segments, cx) {
            return false;
        }
        let at = self.images.at.take().expect("a stripe of images");
        let per = self.layout.chunk / SECTORS_PER_BLOCK;
        let total = self.images.count + self.images_room(at).1;
        let chunks = total.div_ceil(per);
        let pages = |chunk: u32| (total - chunk * per).min(per);
        let (align, full) = (self.layout.align, self.layout.chunk);
        let parity = self.layout.parity > 0;
        let sectors = |chunk: u32| {
            // Parity covers full chunks, so the last one is padded too.
            if chunk + 1 < chunks || parity && chunks > 1 {
                full
            } else {
                (pages(chunk) * SECTORS_PER_BLOCK).next_multiple_of(align)
            }
        };
        let seq = output.durability.seal_images();
        media.devices.membership_mut().note_stripe(at.segment, seq);
        let head = Head {
            seq,
            durable: output.durability.durable(),
            journal: output.journal.newest(),
            epoch: output.volume.life,
            next: self.images.ahead,
            entries: self.images.entries.len() as u32,
            first_sectors: sectors(0),
            last_sectors: sectors(chunks - 1),
            chunks: chunks as u8,
            stream: MAP,
            members: self.images.placement.members().to_bits(),
            next_members: media.devices.placement(self.images.ahead).members().to_bits(),
            lacking: media.devices.membership().recorded(at.segment).1.to_bits(),
        };
        self.images.seq = seq;
        self.images.segment = at.segment;
        self.emit_head(at, &head);
        self.fold_images(total, chunks);
        let copies = chunks + u32::from(self.layout.parity);
        for chunk in 0..copies {
            let (which, like) = match chunk.checked_sub(chunks) {
                None => (Chunk::Data(chunk as u8), chunk),
                // Parity is as long as the first chunk.
                Some(which) => (Chunk::Parity(which as u8), 0),
            };
            self.send_images(at, which, (pages(like), sectors(like)), media, cx);
        }
        // Completions cannot arrive within this step.
        self.images.pending = copies;
        self.images.count = 0;
        output.stripes.advance(MAP, at, sectors(0), media);
        true
    }

    fn emit_head(&mut self, at: At, head: &Head) {
        let images = &mut self.images;
        let buf = images.bufs[0].as_mut().expect("no image is in progress");
        for (index, entry) in images.entries.iter().enumerate() {
            log::put_entry(buf, index as u32, entry);
        }
        log::seal(buf, &self.uuid, self.layout.lba(at), head);
    }

    /// Computes the parities of a stripe of images.
    fn fold_images(&mut self, total: u32, chunks: u32) {
        let per = self.layout.chunk / SECTORS_PER_BLOCK;
        let bufs = &mut self.images.bufs;
        for which in self.layout.parities() {
            let at = self.layout.chunk_number(which) as usize;
            let mut parity = bufs[at].take().expect("no image is in progress");
            for (index, page) in parity.pages_mut().iter_mut().enumerate() {
                page.0.fill(0);
                // Horner's rule: the second parity is the sum of the chunks times powers of two.
                for chunk in (0..chunks).rev() {
                    if which == Chunk::Parity(1) {
                        page.0.iter_mut().for_each(|byte| *byte = double(*byte));
                    }
                    if chunk * per + (index as u32) < total {
                        let buf = bufs[chunk as usize].as_ref().expect("no image is in progress");
                        let other = &buf.pages()[index];
                        page.0.iter_mut().zip(&other.0).for_each(|(sum, byte)| *sum ^= byte);
                    }
                }
            }
            bufs[at] = Some(parity);
        }
    }

    fn send_images(
        &mut self,
        at: At,
        which: Chunk,
        (pages, sectors): (u32, u32),
        media: &mut Media,
        cx: &mut Cx,
    ) {
        let device = which.device(self.images.placement, (at.segment, at.slot));
        let buf = self.layout.chunk_number(which) as u8;
        let meta = self.images.bufs[usize::from(buf)].take().expect("no image is in progress");
        let pad = sectors - pages * SECTORS_PER_BLOCK;
        let mut gather = Gather::new();
        gather.push(Piece::Meta { buf: meta, pages });
        if pad > 0 {
            gather.push(Piece::zero_sectors(pad));
        }
        let tally = if matches!(which, Chunk::Parity(_)) {
            Tally::single(Cause::Parity, sectors)
        } else {
            // Replay reads the head, so it counts as map, as in every stripe.
            let head = if which == Chunk::Data(0) {
                self.images_room(at).1 * SECTORS_PER_BLOCK
            } else {
                0
            };
            let mut tally = Tally::single(Cause::Checkpoint, sectors - pad - head);
            tally.add(Cause::Map, head);
            tally.add(Cause::Pad, pad);
            tally
        };
        count_sent(&tally, cx);
        let lba = self.layout.lba(at);
        let command = Command::Program { device, lba, gather, tally, placement: MAP };
        media.devices.submit(Op::Images { chunk: buf }, command, cx);
    }

    /// Processes the completed write of a chunk of images.
    pub(crate) fn images_done(
        &mut self,
        chunk: u8,
        command: Command,
        media: &mut Media,
        output: &mut Output,
        cx: &mut Cx,
    ) {
        let Command::Program { gather, .. } = command else { unreachable!("a completed program") };
        let images = &mut self.images;
        for piece in gather {
            if let Piece::Meta { buf, .. } = piece {
                images.bufs[chunk as usize] = Some(buf);
            }
        }
        assert!(images.pending > 0, "a written chunk was sent");
        images.pending -= 1;
        // After a failure that parity does not cover, images stay in their buffers, from which
        // pages can still be read.
        if images.pending == 0 && works(cx) {
            let (seq, segment) = (images.seq, images.segment);
            images.unwritten = false;
            output.durability.written(seq);
            media.segments.stripe_written(segment, seq);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_open_stripe_bounds_the_images() {
        let mut images = Images::new(&Layout::example(1));
        let devices = Devices::new(Layout::example(1), hostftl_core::Members::default(), 0, &[]);
        assert!(images.begins(&devices).is_none(), "no stripe is open");
        images.at = Some(At { segment: 7, slot: 3, sector: 16 });
        images.ahead = 9;
        let begin = images.begins(&devices).expect("a stripe is open");
        let Begin { segment, slot, sector, ahead, .. } = begin;
        assert_eq!((segment, slot, sector, ahead), (7, 3, 16, Some((9, 1))));
    }
}
