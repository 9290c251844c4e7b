//! The array: what is kept of the volume below the host's requests, and the rounds of its parts.
//!
//! A record that is published changes its row, the map, the segments and the journal at once, so
//! these lie side by side here; `row/append.rs` does that.

use hostftl_core::{BLOCK, Command, HostError, SECTOR};

use crate::log::Array;
use crate::log::gc::{self, Collection};
use crate::log::layout::{At, Layout};
use crate::log::mapping::Mapping;
use crate::log::ops::{Checking, Cx, Op, has_room};
use crate::log::output::Output;
#[cfg(doc)]
use crate::log::redundancy::timed_out::Hung;
use crate::log::scrub::Scrub;

impl Array {
    /// Where things lie on the devices.
    #[inline]
    pub fn layout(&self) -> &Layout {
        self.media.layout()
    }

    /// How many more map pages must be left to be pinned than a write of the host pins.
    #[inline]
    pub fn spare_of_host(&self) -> u32 {
        match self.collection.wants_collection(&self.media.segments) {
            true => self.mapping.pages.map().reserve_of_collection(),
            false => self.mapping.pages.map().reserve(),
        }
    }

    /// Collection, and everything between an open row and a durable one, until neither moves on:
    /// nothing else has to be looked at between two of their steps.
    pub fn pump_media(&mut self, cx: &mut Cx) -> bool {
        let mut moved = false;
        loop {
            while has_room(cx) && self.collect(cx) {
                moved = true;
            }
            if !has_room(cx) || !self.output.pump(&mut self.media, cx) {
                return moved;
            }
            moved = true;
        }
    }

    /// One step of collection: of the victim, or of one lane.
    fn collect(&mut self, cx: &mut Cx) -> bool {
        if self.with_gc(|gc, with| gc.pump(with, cx)) {
            return true;
        }
        let Some(lane) = self.collection.mover() else { return false };
        self.move_some(lane, cx)
            || self.collection.lane(lane).has_bad_chunk()
                && self.with_gc(|gc, with| gc.lanes().mend_next(lane, with))
    }

    /// Lets collection work with the parts that it needs.
    #[inline]
    pub fn with_gc<T>(&mut self, act: impl FnOnce(&mut Collection, &mut gc::Needs) -> T) -> T {
        let (collection, mut with) = self.gc_with();
        act(collection, &mut with)
    }

    /// Collection, and the parts that it needs.
    #[inline]
    pub fn gc_with(&mut self) -> (&mut Collection, gc::Needs<'_>) {
        let (collection, _, with) = self.movers();
        (collection, with)
    }

    /// Who moves records, and the parts that they need.
    #[inline]
    fn movers(&mut self) -> (&mut Collection, &mut Scrub, gc::Needs<'_>) {
        let Array { media, output, mapping, collection, scrub } = self;
        let with = gc::Needs { media, output, mapping };
        (collection, scrub, with)
    }

    pub fn pump_scrub(&mut self, cx: &mut Cx) -> bool {
        let may = !self.collection.protects(&self.media.devices);
        self.with_scrub(|it, with| it.pump(with, may, cx))
    }

    /// Lets a scrub work with the parts that it needs.
    pub fn with_scrub<T>(&mut self, act: impl FnOnce(&mut Scrub, &mut gc::Needs) -> T) -> T {
        let (_, scrub, mut with) = self.movers();
        act(scrub, &mut with)
    }

    pub fn pump_checkpoint(&mut self, cx: &mut Cx) -> bool {
        let Mapping { pages, checkpoint } = &mut self.mapping;
        checkpoint.pump(&mut self.media, &mut self.output, pages, cx)
    }

    /// Begins a checkpoint.
    pub fn begin_images(&mut self) {
        let Mapping { pages, checkpoint } = &mut self.mapping;
        checkpoint.begin_images(&mut self.media, &mut self.output, pages);
    }

    pub fn pump_reclaim(&mut self, cx: &mut Cx) -> bool {
        self.mapping.checkpoint.reclaim_some(&mut self.media, &mut self.output, cx)
    }

    /// Reads pages that nobody has asked for yet.
    pub fn pump_warming(&mut self, cx: &mut Cx) -> bool {
        self.mapping.warm(&mut self.media, cx)
    }

    /// Grains that may be live now; none where all that the host sees has room. A device that comes
    /// counts from the start on, one that is to leave until it has left, and one lost device too
    /// where parity makes up for it.
    pub fn most_live(&self) -> Option<u64> {
        self.layout().most_live(self.data_members(), self.media.segments.reserves())
    }

    /// The devices whose room counts for what may be live.
    #[inline]
    pub fn data_members(&self) -> u16 {
        let all = self.layout().members | self.media.devices.membership().all();
        all & !self.media.devices.gone() & !self.media.devices.beyond_parity()
    }

    /// What is live in segments that miss more chunks than parity makes up for, in bytes.
    pub fn live_unreadable(&self) -> u64 {
        let (devices, parity) = (&self.media.devices, u32::from(self.layout().parity));
        // Of one that joins it is known what it lacks, though it counts as lost yet.
        let away = devices.lost() & !devices.joining();
        let is_beyond = |segment| {
            let (members, lacking) = devices.membership().told(segment);
            (members & away | lacking).count_ones() > parity
        };
        if devices.exposed() == 0 { 0 } else { self.media.segments.live_in(is_beyond) }
    }

    /// Why there is no room: the volume is full, or a device can't read what should be collected.
    pub fn why_full(&self) -> HostError {
        if self.media.segments.any_shunned() { HostError::Io } else { HostError::NoSpace }
    }

    /// A block became a record of `len` bytes.
    pub fn count_packed(&mut self, len: u32) {
        self.media.gauges.packed_from += BLOCK as u64;
        self.media.gauges.packed_into += u64::from(len);
    }

    /// Whether a block may hold something other than zeros: only a page that is here can tell.
    pub fn may_be_mapped(&self, block: u64) -> bool {
        let away = || {
            !self
                .mapping
                .pages
                .directory()
                .place(self.mapping.pages.map().page_of(block))
                .is_nowhere()
        };
        self.mapping.pages.map().look(block).map_or_else(away, |place| !place.is_nowhere())
    }

    /// Whether no command is in flight but those that were given up.
    pub fn all_back(&self, cx: &Cx) -> bool {
        cx.is_quiet() && self.output.hung.is_quiet()
    }

    /// As [`Hung::give_up_late`].
    pub fn give_up_late(&mut self, cx: &mut Cx) -> bool {
        self.output.hung.give_up_late(&mut self.media.devices, &self.output.journal, cx)
    }

    /// As [`Hung::stand_in`].
    pub fn stand_in(&mut self, op: Op, device: u8) -> Option<Command> {
        let layout = *self.layout();
        let head = |at: At| (layout.lba(at), layout.head_pages(at.sector == 0));
        let place = match op {
            Op::Load { index } => {
                (self.mapping.pages.loads().place(index).byte() / SECTOR as u64, 1)
            }
            Op::GcHead { lane } => head(self.collection.at(lane)),
            Op::Scrub(Checking::Head) => head(self.scrub.at()),
            _ => (0, 1),
        };
        let Output { hung, rows, .. } = &mut self.output;
        hung.stand_in(op, device, place, rows, &mut self.media.buffers)
    }

    /// Takes back the command of `op`, which was given up.
    pub fn take_back(&mut self, op: Op, command: Command) {
        let root = self.output.hung.take_back(op, command, &mut self.media.buffers);
        if let Some(buf) = root {
            self.mapping.checkpoint.take_back(buf);
        }
    }
}
