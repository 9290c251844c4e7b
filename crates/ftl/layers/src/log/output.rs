//! Second level of the array: from an open stripe to a durable one.
//!
//! [`Stripes`] gathers data that is written, [`Journal`] takes over flushes if there is one, and
//! [`Durability`] decides when the devices are flushed. [`TimedOut`] is here and not next to the
//! buffers, because it exchanges the buffers of stripes for those of other stripes.

use hostftl_core::Command;

use crate::log::durability::{Durability, WINDOW};
use crate::log::journal::Journal;
use crate::log::media::Media;
use crate::log::ops::{Cx, OWN_OPS, Op};
use crate::log::redundancy::timed_out::TimedOut;
use crate::log::stripe::Phase;
use crate::log::stripe::stripes::Stripes;
use crate::log::volume::Volume;
use crate::planted::{Bug, planted};

/// Variant of [`WINDOW`] for stripes that keep their buffers until they are durable.
const HELD_WINDOW: u64 = 4;

#[derive(Debug)]
pub(super) struct Output {
    /// Volume and life, which are stored in every head.
    pub volume: Volume,
    /// All stripes in memory.
    pub stripes: Stripes,
    /// Journal, which may be unused.
    pub journal: Journal,
    /// Durability of stripes.
    pub durability: Durability,
    /// Commands that timed out.
    pub timed_out: TimedOut,
}

impl Output {
    /// Advances all stripes from open to durable.
    pub(super) fn pump(&mut self, media: &mut Media, cx: &mut Cx) -> bool {
        // In the order of a stripe's life, because each step may enable the next one: closing,
        // sealing, programming, flushing, acknowledging.
        let mut moved = self.stripes.commit(media, &mut self.durability, cx);
        moved |= self.pump_stripes(media, cx);
        moved |= self.journal.pump(media, &self.stripes, &mut self.durability, self.volume, cx);
        moved |= self.pump_flush(media, cx);
        moved | self.answer_flushed(media, cx)
    }

    /// Seals and writes stripes, a command at a time.
    pub(super) fn pump_stripes(&mut self, media: &mut Media, cx: &mut Cx) -> bool {
        let mut moved = false;
        let mut left = self.stripes.active();
        while left != 0 && cx.commands_left() > OWN_OPS / 2 && cx.outputs_left() >= 8 {
            let stripe = left.trailing_zeros() as u8;
            left &= left - 1;
            moved |= match self.stripes[stripe].phase() {
                Phase::Closed => {
                    let Output { stripes, journal, durability, volume, .. } = self;
                    stripes.seal(stripe, media, durability, journal, *volume, cx)
                }
                Phase::Sealing => self.stripes.seal_step(stripe, media, cx),
                Phase::Draining => self.retire(stripe, media, cx),
                _ => false,
            };
        }
        moved
    }

    /// Makes a stripe idle when nothing needs its buffers any more.
    fn retire(&mut self, stripe: u8, media: &mut Media, cx: &Cx) -> bool {
        let held = self.journal.holds(stripe, &self.stripes[stripe], self.durability.durable());
        !held && self.timed_out.retire(stripe, &mut self.stripes, &mut media.buffers, cx)
    }

    /// Returns whether every stripe that was opened up to `stamp` is durable.
    pub(super) fn all_durable(&self, stamp: u64) -> bool {
        self.durability.has_all(stamp, self.stripes.unsealed())
    }

    /// Flushes the devices if a flush is requested and all data that it must cover is written.
    fn pump_flush(&mut self, media: &mut Media, cx: &mut Cx) -> bool {
        // With a journal, stripes keep their buffers until they are durable, so flushes come more
        // often.
        let window = if self.journal.is_ready() { HELD_WINDOW } else { WINDOW };
        if self.durability.is_flush_futile(window)
            || !self.durability.is_flush_due(window, self.stripes.unsealed())
            || cx.outputs_left() < 20
        {
            return false;
        }
        // Empty stripes count too: they may receive host data before the flush completes.
        let of_host = self.stripes.iter().filter(|it| it.is_unsealed() && it.is_of_host());
        let filling = of_host.map(|it| it.stamp).min();
        let devices = media.layout().devices;
        self.durability.begin_flush(devices, filling);
        for device in 0..devices {
            let device = if planted(Bug::FlushOneMember) { 0 } else { device };
            media.devices.submit(Op::Flush, Command::Flush { device }, cx);
        }
        true
    }

    /// Acknowledges the requests whose stripes or journal records are durable.
    pub(super) fn answer_flushed(&mut self, media: &Media, cx: &mut Cx) -> bool {
        let mut moved = false;
        while cx.outputs_left() > 4
            // The loss of a device must be in a durable root before data that only the other
            // devices have is acknowledged. Otherwise the stale device could be trusted when it
            // returns.
            && media.devices.is_committed()
            && let Some((mark, moment)) = cx.requests().waits_for()
            && (self.durability.has_host(mark) || self.journal.has(moment))
        {
            moved |= cx.answer_waiting(Ok(()));
        }
        moved
    }

    /// Notes for the journal that the host published item `item` of a stripe.
    #[inline]
    pub(super) fn note(&mut self, stripe: u8, item: u32, cx: &mut Cx) {
        if self.journal.is_ready() {
            self.journal.note(stripe, item, &mut self.stripes, &self.durability, cx);
        }
    }
}
