//! Finds the valid records of a stripe: compares its entries with the map, whose pages may have to
//! be read.

use hostftl_format::log::{self, Entry, Kind};

use crate::log::gc::lane::{Checked, Lane, Phase, ValidRecord};
use crate::log::map::Where;
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::Cx;
use crate::log::stripe::spread::Spread;

/// Entries of a stripe whose map pages are prefetched.
const AHEAD: u32 = 32;

impl Lane {
    /// Looks up entries of the stripe, as far as the pages of the map are in memory.
    pub(super) fn sift(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &mut Cx) -> bool {
        let Phase::Sifting(from) = self.phase else {
            unreachable!("validity is not checked in {:?}", self.phase)
        };
        let head = self.head.take().expect("the buffer of the head is present");
        let entries = self.entries;
        if from == 0 {
            // Prefetches the map entries before the first of them is needed.
            for index in 0..entries {
                mapping.pages.map().prefetch(log::entry_block(&head, index));
            }
        }
        let spread = Spread::new(media.devices.placement(self.at.segment), self.at, &self.layout);
        let mut next = from;
        while next < entries
            && self.sift_entry(log::entry(&head, next), &spread, media, mapping, cx)
        {
            next += 1;
        }
        // The entry at `next` waits for its own page already. Those behind it are only fetched, not
        // pinned.
        let ahead = (next + 1..entries.min(next + AHEAD)).filter_map(|it| log::entry(&head, it));
        for entry in ahead {
            if self.is_valid(&entry, mapping) != Some(false) {
                mapping.fetch(mapping.pages.map().map_page(entry.block), media, cx);
            }
        }
        cx.touch((next - from) as usize);
        self.head = Some(head);
        if next == entries && media.segments.separates_blocks() {
            self.order_by_stream(media);
        }
        self.go(if next == entries {
            Phase::Reading { asked: false }
        } else {
            Phase::Sifting(next)
        });
        next > from || next == entries
    }

    /// Sorts the records of each chunk by stream, so that one command moves more of them.
    fn order_by_stream(&mut self, media: &Media) {
        let stream = |it: &ValidRecord| media.segments.stream_of_copy(it.block, self.at.segment);
        self.valid.sort_unstable_by_key(|it| (it.chunk, stream(it), it.byte));
    }

    /// Returns whether the record of an entry is valid; `None` if the map page is not in memory.
    #[inline]
    fn is_valid(&mut self, entry: &Entry, mapping: &mut Mapping) -> Option<bool> {
        // Trims need no copy, and images of the map move with a checkpoint.
        if entry.kind != Kind::Data || entry.block >= mapping.pages.map().len() {
            return Some(false);
        }
        mapping.pages.pair(entry.block).map(|(place, _)| place == entry.place)
    }

    /// Looks up an entry and notes a valid record. Returns false if its map page must be read
    /// first.
    fn sift_entry(
        &mut self,
        entry: Option<Entry>,
        spread: &Spread,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        let Some(entry) = entry else { return true };
        match self.is_valid(&entry, mapping) {
            Some(true) => self.note_valid(spread, entry),
            Some(false) => {}
            // If the map page is unreadable, the record stays in place.
            None => {
                return self.keep_page(
                    mapping.pages.map().map_page(entry.block),
                    media,
                    mapping,
                    cx,
                ) == Where::Bad;
            }
        }
        true
    }

    /// Pins a map page that is needed next, until another page is. Returns its state.
    pub(super) fn keep_page(
        &mut self,
        page: u32,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> Where {
        if self.held == Some(page) {
            return mapping.pages.map().state(page);
        }
        self.end_keep(mapping);
        // The previous page is released first, so a lane pins one page at most.
        let state = mapping.hold(page, 0, media, cx);
        self.held = (state != Where::Away).then_some(page);
        state
    }

    /// Releases the pinned map page.
    pub(super) fn end_keep(&mut self, mapping: &mut Mapping) {
        if let Some(page) = self.held.take() {
            mapping.pages.map_mut().unpin(page);
        }
    }

    fn note_valid(&mut self, spread: &Spread, entry: Entry) {
        let Entry { block, place, crc, .. } = entry;
        let Some((chunk, byte)) = spread.find(place) else { return };
        self.valid.push(ValidRecord {
            block,
            place,
            crc,
            chunk,
            byte: byte as u32,
            state: Checked::No,
        });
    }
}
