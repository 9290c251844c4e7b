//! The images of a checkpoint: of the counts of live grains, of the map pages that changed, and of
//! the directory above them, all as they were at one moment.
//!
//! Invariant: images go to the devices a row at a time; none is taken while a row is on its way.

use hostftl_core::{MAX_TOUCH, MetaBuf};
use hostftl_format::log::{self, COUNTS, Kind, PAIRS, Place, Root, STREAMS};

use crate::log::Engine;
use crate::log::checkpoint::Phase;
use crate::log::map::bits::Next;
use crate::log::map::pages::Purpose;
use crate::log::ops::Cx;

/// Pages of the directory's table that are looked at in one go.
const LOOK: u32 = MAX_TOUCH as u32 / 16;

impl Engine {
    /// Begins a checkpoint: first with what has to move.
    pub(in crate::log) fn begin_checkpoint(&mut self) {
        self.checkpoint.begin();
        let surplus = self.segments.surplus_map(2 * self.layout.map_segments);
        self.checkpoint.phase = match surplus.or_else(|| self.hurt_map()) {
            Some(segment) => Phase::Moving(segment, 0),
            None => Phase::Counts(0),
        };
        if self.checkpoint.phase == Phase::Counts(0) {
            self.freeze();
        }
    }

    /// A segment with a zone that failed and with images of the map, if there is one.
    fn hurt_map(&mut self) -> Option<u32> {
        let segments = &self.segments;
        let mut hurt = self.devices.zones_mut().hurt(|it| segments.is_empty_or_gone(it));
        hurt.find(|it| segments.is_full_map(*it))
    }

    /// Marks the pages whose images lie in `segment`, so that it becomes empty.
    pub(in crate::log) fn mark_images_in(&mut self, segment: u32, from: u32, cx: &mut Cx) -> bool {
        let end = (from + LOOK).min(self.layout.pages);
        for page in from..end {
            if self.lies_in(self.pages.directory().place(page), segment) {
                self.pages.map_mut().mark(page);
            }
        }
        cx.touch(LOOK as usize);
        self.checkpoint.phase = Phase::Moving(segment, end);
        if end == self.layout.pages {
            for number in 0..self.layout.directories {
                if self.lies_in(self.checkpoint.top(number).0, segment) {
                    self.pages.directory_mut().mark(number);
                }
            }
            self.checkpoint.phase = Phase::Counts(0);
            self.freeze();
        }
        true
    }

    fn lies_in(&self, place: Place, segment: u32) -> bool {
        !place.is_nowhere() && self.layout.segment_of(place.byte()) == segment
    }

    /// The moment that the root will show.
    fn freeze(&mut self) {
        self.segments.root_begun();
        self.pages.map_mut().freeze();
        // A root must know where each stream will begin.
        for stream in 0..STREAMS as u8 {
            if self.segments.uses(stream) {
                self.rows.look_ahead(stream, &mut self.segments);
            }
        }
        let streams = core::array::from_fn(|stream| self.rows.begins(stream as u8));
        self.checkpoint.next = Root {
            number: self.checkpoint.root.number + 1,
            epoch: self.life_number,
            replay_from: self.durability.next(),
            durable: 0,
            generation: self.generation,
            lost: self.journal.unneeded(),
            everywhere: 0,
            mapped: self.pages.map().mapped(),
            journal: 0,
            life: self.life_number,
            streams,
        };
    }

    /// The next image goes to the place and the page of the buffer that are given; `None` when none
    /// can be taken now.
    fn next_image(&mut self) -> Option<(Place, MetaBuf, usize)> {
        let place = self.image_place()?;
        let (buf, index) = self.image_buffer();
        Some((place, buf, index))
    }

    /// Takes the image of page `number` of the counts.
    pub(in crate::log) fn take_counts(&mut self, number: u32, cx: &mut Cx) -> bool {
        if self.checkpoint.images.pending > 0 {
            return false;
        }
        if number == self.layout.counts {
            self.checkpoint.phase = Phase::Pages(0);
            return true;
        }
        let Some((place, mut buf, index)) = self.next_image() else {
            return self.images_full(cx);
        };
        let first = number * COUNTS as u32;
        let last = (first + COUNTS as u32).min(self.layout.segments);
        let counts = (first..last).map(|segment| self.segments.count(segment));
        log::emit_counts(&mut buf.pages_mut()[index], number, counts);
        cx.touch(COUNTS);
        self.put_on_top(Kind::Counts, number, place, (buf, index));
        self.checkpoint.phase = Phase::Counts(number + 1);
        true
    }

    /// Takes the image of the next map page of the snapshot.
    pub(in crate::log) fn take_image(&mut self, page: u32, cx: &mut Cx) -> bool {
        if self.checkpoint.images.pending > 0 {
            return false;
        }
        let (next, looked) = self.pages.map().next_due(page);
        cx.touch(looked);
        let Next::At(page) = next else {
            self.checkpoint.phase = match next {
                Next::Later(page) => Phase::Pages(page),
                _ => Phase::Directory(0),
            };
            return true;
        };
        let Some((place, mut buf, index)) = self.next_image() else {
            return self.images_full(cx);
        };
        cx.touch(PAIRS);
        let taken = self.pages.map_mut().emit(page, &mut buf.pages_mut()[index]);
        let crc = log::page_crc(&buf.pages()[index], &self.uuid);
        self.put_back(buf);
        if !taken {
            let may = self.pages.may_load(cx);
            if may {
                self.checkpoint.phase = Phase::Carrying;
                let image = self.pages.directory().get(page);
                let with = (&mut self.segments, &mut self.devices);
                self.pages.load((Kind::Map, page), image, Purpose::Carry, with, cx);
            }
            return may;
        }
        self.note_page(page, place, crc);
        true
    }

    fn note_page(&mut self, page: u32, place: Place, crc: u32) {
        let old = self.pages.directory_mut().set(page, place, crc);
        self.note_image(Kind::Map, page, place, crc, old);
        self.checkpoint.phase = Phase::Pages(page + 1);
    }

    /// The old image of a page of the snapshot, which did not change, came to be written elsewhere.
    /// One that can't be read stays where it is.
    pub(in crate::log) fn carry_image(&mut self, page: u32, load: Option<u8>) {
        self.checkpoint.phase = Phase::Pages(page + 1);
        self.pages.map_mut().has_image(page);
        let Some(load) = load else { return };
        let (place, mut buf, index) = self.next_image().expect("there was room for it");
        buf.pages_mut()[index].0.copy_from_slice(&self.pages.loads().image(load).0);
        self.put_back(buf);
        let (_, crc) = self.pages.directory().get(page);
        self.note_page(page, place, crc);
    }

    /// Takes the image of the next page of the directory that changed.
    pub(in crate::log) fn take_directory(&mut self, number: u32, cx: &mut Cx) -> bool {
        if self.checkpoint.images.pending > 0 {
            return false;
        }
        let (next, looked) = self.pages.directory().next_dirty(number);
        cx.touch(looked);
        if let Next::Later(number) = next {
            self.checkpoint.phase = Phase::Directory(number);
            return true;
        }
        let Next::At(number) = next else {
            if self.checkpoint.images.count > 0 {
                return self.write_images(cx);
            }
            self.settle();
            return true;
        };
        let Some((place, mut buf, index)) = self.next_image() else {
            return self.images_full(cx);
        };
        self.pages.directory_mut().emit(number, &mut buf.pages_mut()[index]);
        cx.touch(PAIRS);
        self.put_on_top(Kind::Directory, number, place, (buf, index));
        self.checkpoint.phase = Phase::Directory(number + 1);
        true
    }

    /// Notes an image to which the root will point.
    fn put_on_top(
        &mut self,
        kind: Kind,
        number: u32,
        place: Place,
        (buf, index): (MetaBuf, usize),
    ) {
        let crc = log::page_crc(&buf.pages()[index], &self.uuid);
        self.put_back(buf);
        let at = if kind == Kind::Counts { self.layout.directories + number } else { number };
        let (old, _) = self.checkpoint.top(at);
        self.checkpoint.set_top(at, place, crc);
        self.note_image(kind, number, place, crc, old);
    }
}
