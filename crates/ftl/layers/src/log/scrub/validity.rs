//! Checks whether a wrong stripe contains valid data. A stripe that a power loss left incomplete
//! contains none.

use hostftl_format::log::{self, Entry, Kind};

use crate::kit::Life;
use crate::log::map::Where;
use crate::log::mapping::Mapping;
use crate::log::media::Media;
use crate::log::ops::Cx;
use crate::log::scrub::{Phase, Scrub};

impl Scrub {
    /// Checks the entries of the stripe from `from` on, as far as their map pages are in memory.
    pub(super) fn check_validity(
        &mut self,
        from: u32,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> bool {
        let head = self.head.take().expect("the buffer of the head is present");
        let (mut next, mut valid) = (from, Some(false));
        while next < self.entries && valid == Some(false) && cx.life() == Life::Running {
            let entry = log::entry(&head, next);
            valid = entry.map_or(Some(false), |entry| self.is_valid(&entry, media, mapping, cx));
            next += u32::from(valid == Some(false));
        }
        cx.touch((next - from) as usize + 1);
        self.head = Some(head);
        if valid.is_none() {
            self.go(Phase::Validating(next));
            return next > from;
        }
        if valid == Some(true) {
            self.note_faults(media, cx);
            if media.segments.flaw(self.at.segment) {
                self.repairs.found(self.at.segment)
            } else {
                self.lost += 1
            }
        }
        self.end_stripe(media, cx);
        true
    }

    /// Counts the wrong chunks of the stripe as faults of their devices.
    fn note_faults(&self, media: &mut Media, cx: &mut Cx) {
        if self.check.mismatched().next().is_none() {
            media.devices.health_mut().note_somewhere();
        }
        let (at, placement) = (self.at, media.devices.placement(self.at.segment));
        for chunk in self.check.mismatched() {
            let device =
                self.layout.chunk_at(chunk.into()).device(placement, (at.segment, at.slot));
            media.devices.note_fault(device, self.layout.lba(at), cx);
        }
    }

    /// Returns whether an entry is the current version of its block; `None` until its map page is
    /// loaded.
    fn is_valid(
        &self,
        entry: &Entry,
        media: &mut Media,
        mapping: &mut Mapping,
        cx: &mut Cx,
    ) -> Option<bool> {
        match entry.kind {
            Kind::Trim => Some(false),
            Kind::Map => {
                let page =
                    u32::try_from(entry.block).ok().filter(|page| *page < self.layout.tree.pages);
                Some(page.is_some_and(|page| mapping.pages.directory().place(page) == entry.place))
            }
            // There are few of them, and the next root writes them again.
            Kind::Directory | Kind::Counts => Some(mapping.checkpoint.has_top(entry.place)),
            Kind::Data if entry.block >= mapping.pages.map().len() => Some(false),
            Kind::Data => {
                if let Some((place, _)) = mapping.pages.pair(entry.block) {
                    return Some(place == entry.place);
                }
                match mapping.fetch(mapping.pages.map().map_page(entry.block), media, cx) {
                    Where::Here => Some(
                        mapping.pages.pair(entry.block).is_some_and(|(it, _)| it == entry.place),
                    ),
                    Where::Bad => Some(true),
                    Where::Away | Where::Coming => None,
                }
            }
        }
    }
}
