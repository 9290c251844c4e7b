//! Finds out what of a victim's row is valid: its entries against the map, whose pages may have to
//! come.

use hostftl_format::log::{self, Entry, Kind};

use crate::log::gc::lane::{Checked, Lane, Live, Phase};
use crate::log::map::Where;
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::Cx;
use crate::log::row::spread::Spread;

/// Entries of a row whose map pages are asked for before they are needed.
const AHEAD: u32 = 32;

impl Lane {
    /// Finds out what of the row is live, as far as the pages of the map are here.
    pub(super) fn sift(&mut self, media: &mut Media, mapping: &mut Mapping, cx: &mut Cx) -> bool {
        let Phase::Sifting(from) = self.phase else {
            unreachable!("nothing is found out in {:?}", self.phase)
        };
        let head = self.head.take().expect("the head's buffer is here");
        let entries = self.entries;
        if from == 0 {
            for index in 0..entries {
                mapping.pages.map().look_ahead(log::block_of(&head, index));
            }
        }
        let spread = Spread::new(media.devices.stripe(self.at.segment), self.at, &self.layout);
        let mut next = from;
        while next < entries
            && self.sift_entry(log::entry(&head, next), &spread, media, mapping, cx)
        {
            next += 1;
        }
        let ahead = (next + 1..entries.min(next + AHEAD)).filter_map(|it| log::entry(&head, it));
        for entry in ahead {
            if self.is_live(&entry, mapping) != Some(false) {
                mapping.fetch(mapping.pages.map().page_of(entry.block), media, cx);
            }
        }
        cx.touch((next - from) as usize);
        self.head = Some(head);
        if next == entries && media.segments.tells_blocks_apart() {
            self.order_by_stream(media);
        }
        self.go(if next == entries {
            Phase::Reading { asked: false }
        } else {
            Phase::Sifting(next)
        });
        next > from || next == entries
    }

    /// Of each chunk, what goes to one stream comes together: so one command moves more of it.
    fn order_by_stream(&mut self, media: &Media) {
        let stream = |it: &Live| media.segments.stream_of_copy(it.block, self.at.segment);
        self.live.sort_unstable_by_key(|it| (it.chunk, stream(it), it.byte));
    }

    /// What is known of an entry of a block: whether it is still there.
    #[inline]
    fn is_live(&mut self, entry: &Entry, mapping: &mut Mapping) -> Option<bool> {
        if entry.kind != Kind::Data || entry.block >= mapping.pages.map().len() {
            return Some(false);
        }
        mapping.pages.pair(entry.block).map(|(place, _)| place == entry.place)
    }

    /// Whether it is known if an entry is live; notes it if so.
    fn sift_entry(
        &mut self,
        entry: Option<Entry>,
        spread: &Spread,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        let Some(entry) = entry else { return true };
        match self.is_live(&entry, mapping) {
            Some(true) => self.note_live(spread, entry),
            Some(false) => {}
            // What maps it can't be read: it stays where it is.
            None => {
                return self.keep_page(
                    mapping.pages.map().page_of(entry.block),
                    media,
                    mapping,
                    cx,
                ) == Where::Bad;
            }
        }
        true
    }

    /// Gets a map page that is needed next, and keeps it until another is.
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
        let state = mapping.hold(page, 0, media, cx);
        self.held = (state != Where::Away).then_some(page);
        state
    }

    /// Keeps none.
    pub(super) fn end_keep(&mut self, mapping: &mut Mapping) {
        if let Some(page) = self.held.take() {
            mapping.pages.map_mut().unpin(page);
        }
    }

    fn note_live(&mut self, spread: &Spread, entry: Entry) {
        let Entry { block, place, crc, .. } = entry;
        let Some((chunk, byte)) = spread.find(place) else { return };
        self.live.push(Live { block, place, crc, chunk, byte: byte as u32, state: Checked::No });
    }
}
