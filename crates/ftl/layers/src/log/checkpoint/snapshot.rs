//! The images of a checkpoint: counts of valid grains, changed map pages, and the directory above
//! them, all as of one moment.
//!
//! Invariant: images are written one stripe at a time; none is taken while a stripe is being
//! written.

use hostftl_core::{DeviceSet, MAX_TOUCH, MetaBuf};
use hostftl_format::log::{self, COUNTS, Counted, Kind, PAIRS, Place, Root, SETS, STREAMS};

use crate::log::checkpoint::{Checkpoint, Phase};
use crate::log::map::bits::Next;
use crate::log::map::pages::{Pages, Purpose};
use crate::log::media::Media;
use crate::log::ops::Cx;
use crate::log::output::Output;
use crate::log::stripe::streams::MAP;
use crate::planted::{Bug, planted};

/// Pages of the directory's table that are examined in one step.
const SCAN_PAGES: u32 = MAX_TOUCH as u32 / 16;

impl Checkpoint {
    /// Begins a checkpoint, first with the images that must move.
    pub(crate) fn begin_images(
        &mut self,
        media: &mut Media,
        output: &mut Output,
        pages: &mut Pages,
    ) {
        self.begin();
        let surplus = media.segments.surplus_map(2 * media.segments.reserves().images());
        let flawed = media.segments.flawed_map();
        let moves = surplus.or(flawed).or_else(|| Self::exposed_map(media));
        match moves.or_else(|| Self::hurt_map(media)) {
            Some(segment) => self.go(Phase::Moving(segment, 0)),
            None => {
                self.go(Phase::Counts(0));
                self.freeze(media, output, pages);
            }
        }
    }

    /// Returns a segment that misses a chunk and contains images of the map, if there is one.
    fn exposed_map(media: &mut Media) -> Option<u32> {
        let segments = &media.segments;
        media.devices.next_exposed(|it| segments.is_full_map(it), |it| segments.can_be_filled(it))
    }

    /// Returns a segment with a failed zone that contains images of the map, if there is one.
    fn hurt_map(media: &mut Media) -> Option<u32> {
        let segments = &media.segments;
        let mut hurt = media.devices.zones_mut().hurt(|it| segments.is_empty_or_retired(it));
        hurt.find(|it| segments.is_full_map(*it))
    }

    /// Marks the pages whose images are in `segment`, so that the segment becomes empty.
    pub(crate) fn mark_images_in(
        &mut self,
        segment: u32,
        from: u32,
        media: &mut Media,
        output: &mut Output,
        pages: &mut Pages,
        cx: &mut Cx,
    ) -> bool {
        let end = (from + SCAN_PAGES).min(self.layout.tree.pages);
        for page in from..end {
            if self.lies_in(pages.directory().place(page), segment) {
                pages.map_mut().mark(page);
            }
        }
        // The whole range counts, although few pages have images in this segment.
        cx.touch(SCAN_PAGES as usize);
        self.go(Phase::Moving(segment, end));
        if end == self.layout.tree.pages {
            for number in 0..self.layout.tree.directories {
                if self.lies_in(self.top(number).0, segment) {
                    pages.directory_mut().mark(number);
                }
            }
            let most = self.layout.most_map_segments();
            match media.segments.more_surplus_map(segment, most) {
                Some(next) => self.go(Phase::Moving(next, 0)),
                None => {
                    self.go(Phase::Counts(0));
                    self.freeze(media, output, pages);
                }
            }
        }
        true
    }

    fn lies_in(&self, place: Place, segment: u32) -> bool {
        !place.is_nowhere() && self.layout.segment_at(place.byte()) == segment
    }

    /// Fixes the moment of the snapshot and prepares the root.
    fn freeze(&mut self, media: &mut Media, output: &mut Output, pages: &mut Pages) {
        // Everything below belongs to one step, so the root describes one moment.
        media.segments.reuse_mut().root_begun();
        media.devices.list_joining(true);
        self.lacking = Some(media.devices.membership().lacking());
        pages.map_mut().freeze();
        // The root must contain the start of each stream.
        for stream in 0..STREAMS as u8 {
            if media.segments.uses(stream) {
                output.stripes.open_next(stream, media);
            }
        }
        let mut streams = core::array::from_fn(|stream| output.stripes.begins(stream as u8, media));
        streams[usize::from(MAP)] =
            // A stripe of images may have been left open by the previous checkpoint.
            self.images.begins(&media.devices).or(streams[usize::from(MAP)]);
        self.next = Root {
            number: self.root.number + 1,
            epoch: output.volume.life,
            // Stripes without a number yet may contain newer versions, so replay begins with the
            // first of them.
            replay_from: output.durability.next(),
            durable: 0,
            generation: pages.generation(),
            lost: output.journal.unneeded().to_bits(),
            out: 0,
            known: 0,
            directories: self.layout.tree.directories,
            sets: [0; SETS],
            everywhere: 0,
            mapped: pages.map().mapped(),
            journal: 0,
            life: output.volume.life,
            streams,
        };
    }

    /// Returns the place, the buffer and the page for the next image; `None` if none can be taken
    /// now.
    fn next_image(
        &mut self,
        media: &mut Media,
        output: &mut Output,
    ) -> Option<(Place, MetaBuf, usize)> {
        let place = self.image_place(media, output)?;
        let (buf, index) = self.image_buffer();
        Some((place, buf, index))
    }

    /// Takes the image of page `number` of the counts.
    pub(crate) fn take_counts(
        &mut self,
        number: u32,
        media: &mut Media,
        output: &mut Output,
        cx: &mut Cx,
    ) -> bool {
        if self.images.are_sent() {
            return false;
        }
        if number == self.layout.tree.counts {
            self.go(Phase::Pages(0));
            return true;
        }
        let Some((place, mut buf, index)) = self.next_image(media, output) else {
            return self.images_full(media, output, cx);
        };
        let first = number * COUNTS as u32;
        let last = (first + COUNTS as u32).min(self.layout.segments);
        let counts = (first..last).map(|segment| {
            let (members, lacking) = media.devices.membership().recorded(segment);
            let lacking = if planted(Bug::LackUntold) { DeviceSet::EMPTY } else { lacking };
            let (members, lacking) = (members.to_bits(), lacking.to_bits());
            let newest = media.devices.membership().newest(segment);
            Counted { grains: media.segments.count(segment), members, lacking, newest }
        });
        log::emit_counts(&mut buf.pages_mut()[index], number, counts);
        cx.touch(COUNTS);
        self.put_on_top(Kind::Counts, number, place, (buf, index), media);
        self.go(Phase::Counts(number + 1));
        true
    }

    /// Takes the image of the next map page of the snapshot.
    pub(crate) fn take_image(
        &mut self,
        page: u32,
        media: &mut Media,
        output: &mut Output,
        pages: &mut Pages,
        cx: &mut Cx,
    ) -> bool {
        if self.images.are_sent() {
            return false;
        }
        let (next, looked) = pages.map().next_due(page);
        cx.touch(looked);
        let Next::At(page) = next else {
            self.go(match next {
                Next::Later(page) => Phase::Pages(page),
                _ => Phase::Directory(0),
            });
            return true;
        };
        let Some((place, mut buf, index)) = self.next_image(media, output) else {
            return self.images_full(media, output, cx);
        };
        cx.touch(PAIRS);
        let taken = pages.map_mut().emit(page, &mut buf.pages_mut()[index]);
        let crc = log::page_crc(&buf.pages()[index], &self.uuid);
        self.put_back(buf);
        // The page is not in memory, so its old image is read and moved.
        if !taken {
            // Without room for the read, the page is tried again in a later round.
            let may = pages.may_load(cx);
            if may {
                self.go(Phase::Carrying);
                let image = pages.directory().get(page);
                pages.load((Kind::Map, page), image, Purpose::Carry, media, cx);
            }
            return may;
        }
        self.note_page(page, place, crc, media, pages);
        true
    }

    fn note_page(
        &mut self,
        page: u32,
        place: Place,
        crc: u32,
        media: &mut Media,
        pages: &mut Pages,
    ) {
        let old = pages.directory_mut().set(page, place, crc);
        self.note_image(Kind::Map, page, place, crc, old, media);
        self.go(Phase::Pages(page + 1));
    }

    /// Moves the old image of an unchanged page of the snapshot. An unreadable image stays in
    /// place.
    pub(crate) fn carry_image(
        &mut self,
        page: u32,
        load: Option<u8>,
        media: &mut Media,
        output: &mut Output,
        pages: &mut Pages,
    ) {
        self.go(Phase::Pages(page + 1));
        // An unreadable image stays in place, so the page counts as done.
        pages.map_mut().has_image(page);
        let Some(load) = load else { return };
        let (place, mut buf, index) = self.next_image(media, output).expect("space was reserved");
        buf.pages_mut()[index].0.copy_from_slice(&pages.loads().image(load).0);
        self.put_back(buf);
        let (_, crc) = pages.directory().get(page);
        self.note_page(page, place, crc, media, pages);
    }

    /// Takes the image of the next changed page of the directory.
    pub(crate) fn take_directory(
        &mut self,
        number: u32,
        media: &mut Media,
        output: &mut Output,
        pages: &mut Pages,
        cx: &mut Cx,
    ) -> bool {
        if self.images.are_sent() {
            return false;
        }
        let (next, looked) = pages.directory().next_dirty(number);
        cx.touch(looked);
        if let Next::Later(number) = next {
            self.go(Phase::Directory(number));
            return true;
        }
        let Next::At(number) = next else {
            // The last stripe of images may be partly filled.
            if !self.images.is_empty() {
                return self.write_images(media, output, cx);
            }
            self.settle(output);
            return true;
        };
        let Some((place, mut buf, index)) = self.next_image(media, output) else {
            return self.images_full(media, output, cx);
        };
        pages.directory_mut().emit(number, &mut buf.pages_mut()[index]);
        cx.touch(PAIRS);
        self.put_on_top(Kind::Directory, number, place, (buf, index), media);
        self.go(Phase::Directory(number + 1));
        true
    }

    /// Records an image that the root will refer to.
    fn put_on_top(
        &mut self,
        kind: Kind,
        number: u32,
        place: Place,
        (buf, index): (MetaBuf, usize),
        media: &mut Media,
    ) {
        let crc = log::page_crc(&buf.pages()[index], &self.uuid);
        self.put_back(buf);
        let at = if kind == Kind::Counts { self.layout.tree.directories + number } else { number };
        let (old, _) = self.top(at);
        self.set_top(at, place, crc);
        self.note_image(kind, number, place, crc, old, media);
    }
}
