//! The rounds of a step, in the order in which things move on.

use hostftl_core::Command;

use crate::kit::Life;
use crate::log::Engine;
use crate::log::checkpoint::{self, Checkpoint};
use crate::log::durability::WINDOW;
use crate::log::gc::{Collection, Needs};
use crate::log::journal::{self, Journal};
use crate::log::map::Where;
use crate::log::map::pages::{Pages, With};
use crate::log::ops::{Cx, OWN_OPS, Op};
use crate::log::row::Phase;
use crate::log::row::rows::Rows;
use crate::log::row::rows::write_out::Sealing;
use crate::planted::{Bug, planted};

/// As [`WINDOW`], where rows that aren't durable keep their buffers.
const HELD_WINDOW: u64 = 4;
/// The most outputs that one round of the pump makes.
pub const ROUND_OUTPUTS: usize = 24;
/// With room for so many, nothing is left undone for want of room: what is sent to all devices at
/// once waits until there is more than for a round.
pub const FULL_ROUND: usize = 40;

impl Engine {
    /// A round while nothing but blocks moves.
    #[inline]
    pub(in crate::log) fn pump_calm(&mut self, cx: &mut Cx) -> bool {
        let moved = self.pump_requests(cx) | self.pump_blocks(cx);
        let waits = self.waits_for_more(cx);
        if waits && !moved {
            cx.disturb();
        }
        waits || !self.is_calm(cx)
    }

    // Not where it is called: that has to be short.
    #[inline(never)]
    pub(in crate::log) fn pump_all(&mut self, cx: &mut Cx) -> bool {
        self.go_on_without_devices(cx) | self.pump_running(cx)
    }

    /// Goes on with what waits for a command that was not sent, or was given up.
    pub(in crate::log) fn go_on_without_devices(&mut self, cx: &mut Cx) -> bool {
        self.pump_unsent(cx) || self.pump_hung(cx)
    }

    /// A round, in the order in which things move on. What moved at its beginning is no reason for
    /// another round when nothing waits there any more.
    fn pump_running(&mut self, cx: &mut Cx) -> bool {
        self.begin_to_calm(cx);
        let mut moved = self.pump_told(cx) | self.pump_mapping(cx);
        let began = self.pump_requests(cx) | self.pump_blocks(cx);
        moved |= began && self.waits_for_more(cx);
        moved |= self.pump_writing(cx);
        moved |= self.pump_collection(cx) | self.pump_salvage(cx);
        moved |= self.pump_reclaim(cx);
        moved |= self.pump_checkpoint(cx);
        moved |= self.pump_warming(cx);
        moved = moved || self.refuse_when_full(cx);
        self.calm_down(moved, cx);
        moved
    }

    /// Refuses what waits for room when nothing is under way that could make any: what can't be
    /// read can't be collected.
    fn refuse_when_full(&mut self, cx: &mut Cx) -> bool {
        let still = self.all_back(cx) && self.devices.is_quiet() && cx.life() == Life::Running;
        if !still || !self.waits_for_room(cx) {
            return false;
        }
        if cx.room() < FULL_ROUND {
            cx.wake(); // Not before a round that lacks nothing.
            return false;
        }
        self.refuse_block(cx) || self.refuse_trim(cx)
    }

    /// Everything between an open row and a durable one.
    pub(in crate::log) fn pump_writing(&mut self, cx: &mut Cx) -> bool {
        let mut moved = self.pump_commit(cx);
        moved |= self.pump_rows(cx);
        moved |= self.with_journal(|it, with| it.pump(with, cx));
        moved |= self.pump_flush(cx);
        moved | self.answer_flushed(cx)
    }

    fn pump_commit(&mut self, cx: &mut Cx) -> bool {
        let Engine { rows, durability, segments, devices, .. } = self;
        rows.commit(durability, segments, devices, cx)
    }

    /// Ends the layer when everything is durable and nothing would be replayed; nothing else moves.
    pub(in crate::log) fn pump_stop(&mut self, cx: &mut Cx) -> bool {
        if !cx.requests().is_empty() || !self.blocks.is_idle() {
            return false;
        }
        if !self.collection.is_idle() {
            let stuck = self.all_back(cx) && self.devices.is_quiet();
            return stuck && self.with_gc(|gc, with| gc.end(with, cx));
        }
        let opened = self.durability.opened();
        if !self.all_durable(opened) {
            return self.durability.want_all(opened);
        }
        if self.journal.close(&self.durability) {
            return true;
        }
        if !self.checkpoint.is_current(self.durability.next()) {
            return self.checkpoint.hurry();
        }
        let told = self.devices.is_told() && self.journal.is_told();
        let over = self.all_back(cx) && self.devices.is_quiet() && told;
        if over {
            cx.stopped();
        }
        over
    }

    /// After a failure only answering is left.
    pub(in crate::log) fn pump_failed(&mut self, cx: &mut Cx) -> bool {
        let moved = self.pump_mapping(cx) | self.pump_salvage(cx);
        moved | self.pump_requests(cx) | self.pump_blocks(cx)
    }

    /// Whether a write waits for room: it is refused only when nothing is under way.
    pub(in crate::log) fn waits_for_room(&self, cx: &mut Cx) -> bool {
        !self.blocks.waiting.is_empty() || cx.requests().first_write().is_some()
    }

    /// Reads pages that nobody has asked for yet, while nobody waits for room.
    fn pump_warming(&mut self, cx: &mut Cx) -> bool {
        let may = cx.life() == Life::Running && !self.waits_for_room(cx);
        may && {
            let (pages, mut with) = self.pages_with();
            pages.warm(&mut with, cx)
        }
    }

    /// The map, and what its pages need on their way.
    #[inline]
    pub(in crate::log) fn pages_with(&mut self) -> (&mut Pages, With<'_>) {
        let Engine { pages, checkpoint, segments, devices, .. } = self;
        (pages, With { checkpoint, segments, devices })
    }

    /// As [`Pages::fetch`].
    #[inline]
    pub(in crate::log) fn fetch_page(&mut self, page: u32, cx: &mut Cx) -> Where {
        let (pages, mut with) = self.pages_with();
        pages.fetch(page, &mut with, cx)
    }

    /// As [`Pages::hold`].
    #[inline]
    pub(in crate::log) fn hold_page(&mut self, page: u32, spare: u32, cx: &mut Cx) -> Where {
        let (pages, mut with) = self.pages_with();
        pages.hold(page, spare, &mut with, cx)
    }

    /// Seals and writes rows, a command at a time.
    pub(in crate::log) fn pump_rows(&mut self, cx: &mut Cx) -> bool {
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
    pub(in crate::log) fn all_durable(&self, stamp: u64) -> bool {
        self.durability.has_all(stamp, self.rows.unsealed())
    }

    /// Flushes the devices when somebody waits for that and all is written that it should cover.
    pub(in crate::log) fn pump_flush(&mut self, cx: &mut Cx) -> bool {
        let window = if self.journal.is_ready() { HELD_WINDOW } else { WINDOW };
        if self.durability.is_flush_futile(window)
            || !self.durability.is_flush_due(window, self.rows.unsealed())
            || cx.room() < 20
        {
            return false;
        }
        let of_host = self.rows.iter().filter(|it| it.is_unsealed() && it.of_host);
        let filling = of_host.map(|it| it.stamp).min();
        self.durability.begin_flush(self.layout.devices, filling);
        for device in 0..self.layout.devices {
            let device = if planted(Bug::FlushOneMember) { 0 } else { device };
            self.devices.submit(Op::Flush, Command::Flush { device }, cx);
        }
        true
    }

    /// Answers what waits for rows that are durable.
    pub(in crate::log) fn answer_flushed(&mut self, cx: &mut Cx) -> bool {
        let mut moved = false;
        while cx.room() > 4
            && self.devices.is_told()
            && let Some((mark, moment)) = cx.requests().waits_for()
            && (self.durability.has_host(mark) || self.journal.has(moment))
        {
            moved |= cx.answer_waiting(Ok(()));
        }
        moved
    }

    /// Lets the rows work with the parts that they need on their way to the devices.
    #[inline]
    pub(in crate::log) fn with_rows<T>(
        &mut self,
        act: impl FnOnce(&mut Rows, &mut Sealing) -> T,
    ) -> T {
        let volume = self.volume;
        let Engine { rows, buffers, devices, segments, durability, journal, .. } = self;
        let mut with = Sealing { buffers, devices, segments, durability, journal, volume };
        act(rows, &mut with)
    }

    fn pump_collection(&mut self, cx: &mut Cx) -> bool {
        match self.collection.is_moving() {
            true => self.move_some(cx) || self.with_gc(|gc, with| gc.mend_next(with, cx)),
            false => self.with_gc(|gc, with| gc.pump(with, cx)),
        }
    }

    /// Lets collection work with the parts that it needs.
    #[inline]
    pub(in crate::log) fn with_gc<T>(
        &mut self,
        act: impl FnOnce(&mut Collection, &mut Needs) -> T,
    ) -> T {
        let Engine { segments, devices, buffers, pages, checkpoint, rows, salvage, .. } = self;
        let Engine { durability, gauges, collection, .. } = self;
        let mut with = Needs {
            segments,
            devices,
            buffers,
            pages,
            checkpoint,
            rows,
            durability,
            salvage,
            gauges,
        };
        act(collection, &mut with)
    }

    /// Lets the checkpoint work with the parts that it needs.
    #[inline]
    pub(in crate::log) fn with_checkpoint<T>(
        &mut self,
        act: impl FnOnce(&mut Checkpoint, &mut checkpoint::Needs) -> T,
    ) -> T {
        let (life, generation) = (self.volume.life, self.blocks.generation());
        let Engine { rows, segments, devices, durability, journal, pages, .. } = self;
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

    pub(in crate::log) fn pump_checkpoint(&mut self, cx: &mut Cx) -> bool {
        self.with_checkpoint(|it, with| it.pump(with, cx))
    }

    pub(in crate::log) fn pump_reclaim(&mut self, cx: &mut Cx) -> bool {
        self.with_checkpoint(|it, with| it.reclaim_some(with, cx))
    }

    /// Lets the journal work with the parts that it needs.
    #[inline]
    pub(in crate::log) fn with_journal<T>(
        &mut self,
        act: impl FnOnce(&mut Journal, &mut journal::Needs) -> T,
    ) -> T {
        let volume = self.volume;
        let Engine { rows, durability, buffers, devices, journal, .. } = self;
        act(journal, &mut journal::Needs { rows, durability, buffers, devices, volume })
    }

    /// The host published item `item` of a row.
    #[inline]
    pub(in crate::log) fn note(&mut self, row: u8, item: u32, cx: &mut Cx) {
        if self.journal.is_ready() {
            self.with_journal(|it, with| it.note(row, item, with, cx));
        }
    }
}
