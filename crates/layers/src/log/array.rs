//! The array: what is kept of the volume below the host's requests, and the rounds of its parts.
//!
//! A record that is published changes its row, the map, the segments and the journal at once, so
//! these lie side by side here; `row/append.rs` does that.

use hostftl_core::{BLOCK, Command, HostError};

use crate::log::Array;
use crate::log::checkpoint::{self, Checkpoint};
use crate::log::durability::WINDOW;
use crate::log::gc::{self, Collection};
use crate::log::journal::{self, Journal};
use crate::log::layout::Layout;
use crate::log::map::Where;
use crate::log::map::pages::{Pages, With};
use crate::log::media::Media;
use crate::log::ops::{Cx, OWN_OPS, Op, has_room};
use crate::log::redundancy::timed_out::{self, Hung};
use crate::log::row::Phase;
use crate::log::row::rows::Rows;
use crate::log::row::rows::write_out::Sealing;
use crate::log::scrub::Scrub;
use crate::planted::{Bug, planted};

/// As [`WINDOW`], where rows that aren't durable keep their buffers.
const HELD_WINDOW: u64 = 4;

impl Array {
    /// Where things lie on the devices.
    #[inline]
    pub fn layout(&self) -> &Layout {
        self.media.layout()
    }

    /// Everything between an open row and a durable one.
    pub fn pump_writing(&mut self, cx: &mut Cx) -> bool {
        let mut moved = self.pump_commit(cx);
        moved |= self.pump_rows(cx);
        moved |= self.with_journal(|it, with| it.pump(with, cx));
        moved |= self.pump_flush(cx);
        moved | self.answer_flushed(cx)
    }

    fn pump_commit(&mut self, cx: &mut Cx) -> bool {
        let Array { rows, durability, media, .. } = self;
        rows.commit(durability, &mut media.segments, &media.devices, cx)
    }

    /// Seals and writes rows, a command at a time.
    pub fn pump_rows(&mut self, cx: &mut Cx) -> bool {
        let mut moved = false;
        let mut left = self.rows.active();
        while left != 0 && cx.command_room() > OWN_OPS / 2 && cx.room() >= 8 {
            let row = left.trailing_zeros() as u8;
            left &= left - 1;
            moved |= match self.rows[row].phase() {
                Phase::Closed => self.with_rows(|rows, with| rows.seal(row, with, cx)),
                Phase::Sealing => self.with_rows(|rows, with| rows.seal_step(row, with, cx)),
                Phase::Draining => self.retire(row, cx),
                _ => false,
            };
        }
        moved
    }

    /// Whether every row that was opened up to `stamp` is durable.
    pub fn all_durable(&self, stamp: u64) -> bool {
        self.durability.has_all(stamp, self.rows.unsealed())
    }

    /// Flushes the devices when somebody waits for that and all is written that it should cover.
    pub fn pump_flush(&mut self, cx: &mut Cx) -> bool {
        let window = if self.journal.is_ready() { HELD_WINDOW } else { WINDOW };
        if self.durability.is_flush_futile(window)
            || !self.durability.is_flush_due(window, self.rows.unsealed())
            || cx.room() < 20
        {
            return false;
        }
        let of_host = self.rows.iter().filter(|it| it.is_unsealed() && it.is_of_host());
        let filling = of_host.map(|it| it.stamp).min();
        self.durability.begin_flush(self.layout().devices, filling);
        for device in 0..self.layout().devices {
            let device = if planted(Bug::FlushOneMember) { 0 } else { device };
            self.media.devices.submit(Op::Flush, Command::Flush { device }, cx);
        }
        true
    }

    /// Answers what waits for rows that are durable.
    pub fn answer_flushed(&mut self, cx: &mut Cx) -> bool {
        let mut moved = false;
        while cx.room() > 4
            && self.media.devices.is_told()
            && let Some((mark, moment)) = cx.requests().waits_for()
            && (self.durability.has_host(mark) || self.journal.has(moment))
        {
            moved |= cx.answer_waiting(Ok(()));
        }
        moved
    }

    /// The map, and what its pages need on their way.
    #[inline]
    pub fn pages_with(&mut self) -> (&mut Pages, With<'_>) {
        let Array { pages, checkpoint, media: Media { segments, devices, .. }, .. } = self;
        (pages, With { checkpoint, segments, devices })
    }

    /// As [`Pages::fetch`].
    #[inline]
    pub fn fetch_page(&mut self, page: u32, cx: &mut Cx) -> Where {
        let (pages, mut with) = self.pages_with();
        pages.fetch(page, &mut with, cx)
    }

    /// As [`Pages::hold`].
    #[inline]
    pub fn hold_page(&mut self, page: u32, spare: u32, cx: &mut Cx) -> Where {
        let (pages, mut with) = self.pages_with();
        pages.hold(page, spare, &mut with, cx)
    }

    /// How many more map pages must be left to be pinned than a write of the host pins.
    #[inline]
    pub fn spare_of_host(&self) -> u32 {
        match self.collection.wants_collection(&self.media.segments) {
            true => self.pages.map().reserve_of_collection(),
            false => self.pages.map().reserve(),
        }
    }

    /// Lets the rows work with the parts that they need on their way to the devices.
    #[inline]
    pub fn with_rows<T>(&mut self, act: impl FnOnce(&mut Rows, &mut Sealing) -> T) -> T {
        let volume = self.volume;
        let Array { rows, media, durability, journal, .. } = self;
        let Media { buffers, devices, segments, .. } = media;
        let mut with = Sealing { buffers, devices, segments, durability, journal, volume };
        act(rows, &mut with)
    }

    /// Collection, and everything between an open row and a durable one, until neither moves on:
    /// nothing else has to be looked at between two of their steps.
    pub fn pump_media(&mut self, cx: &mut Cx) -> bool {
        let mut moved = false;
        loop {
            while has_room(cx) && self.collect(cx) {
                moved = true;
            }
            if !has_room(cx) || !self.pump_writing(cx) {
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
        let Media { segments, devices, buffers, salvage, gauges, share } = &mut self.media;
        let Array { pages, checkpoint, rows, durability, collection, scrub, .. } = self;
        let with = gc::Needs {
            segments,
            devices,
            buffers,
            pages,
            checkpoint,
            rows,
            durability,
            salvage,
            gauges,
            share,
        };
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

    /// Lets the checkpoint work with the parts that it needs.
    #[inline]
    pub fn with_checkpoint<T>(
        &mut self,
        act: impl FnOnce(&mut Checkpoint, &mut checkpoint::Needs) -> T,
    ) -> T {
        let (life, generation) = (self.volume.life, self.generation.last());
        let Array { rows, media: Media { segments, devices, .. }, .. } = self;
        let Array { durability, journal, pages, .. } = self;
        let mut with = checkpoint::Needs {
            rows,
            segments,
            devices,
            durability,
            journal,
            pages,
            life,
            generation,
        };
        act(&mut self.checkpoint, &mut with)
    }

    pub fn pump_checkpoint(&mut self, cx: &mut Cx) -> bool {
        self.with_checkpoint(|it, with| it.pump(with, cx))
    }

    pub fn pump_reclaim(&mut self, cx: &mut Cx) -> bool {
        self.with_checkpoint(|it, with| it.reclaim_some(with, cx))
    }

    /// Lets the journal work with the parts that it needs.
    #[inline]
    pub fn with_journal<T>(
        &mut self,
        act: impl FnOnce(&mut Journal, &mut journal::Needs) -> T,
    ) -> T {
        let volume = self.volume;
        let Array { rows, durability, media: Media { buffers, devices, .. }, journal, .. } = self;
        act(journal, &mut journal::Needs { rows, durability, buffers, devices, volume })
    }

    /// The host published item `item` of a row.
    #[inline]
    pub fn note(&mut self, row: u8, item: u32, cx: &mut Cx) {
        if self.journal.is_ready() {
            self.with_journal(|it, with| it.note(row, item, with, cx));
        }
    }

    /// Reads pages that nobody has asked for yet.
    pub fn pump_warming(&mut self, cx: &mut Cx) -> bool {
        let (pages, mut with) = self.pages_with();
        pages.warm(&mut with, cx)
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

    /// A row whose buffers nobody has is idle.
    fn retire(&mut self, row: u8, cx: &Cx) -> bool {
        let held = self.journal.holds(row, &self.rows[row], self.durability.durable());
        !held && self.hung.retire(row, &mut self.rows, &mut self.media.buffers, cx)
    }

    /// Whether a block may hold something other than zeros: only a page that is here can tell.
    pub fn may_be_mapped(&self, block: u64) -> bool {
        let away = || !self.pages.directory().place(self.pages.map().page_of(block)).is_nowhere();
        self.pages.map().look(block).map_or_else(away, |place| !place.is_nowhere())
    }

    /// Whether no command is in flight but those that were given up.
    pub fn all_back(&self, cx: &Cx) -> bool {
        cx.is_quiet() && self.hung.is_quiet()
    }

    /// As [`Hung::give_up_late`].
    pub fn give_up_late(&mut self, cx: &mut Cx) -> bool {
        self.hung.give_up_late(&mut self.media.devices, &self.journal, cx)
    }

    /// Lets the owner of what timed out work with the parts that lent it something.
    pub fn with_hung<T>(&mut self, act: impl FnOnce(&mut Hung, &mut timed_out::With) -> T) -> T {
        let Array { hung, pages, collection, scrub, checkpoint, rows, media, .. } = self;
        let buffers = &mut media.buffers;
        act(hung, &mut timed_out::With { pages, collection, scrub, checkpoint, rows, buffers })
    }
}
