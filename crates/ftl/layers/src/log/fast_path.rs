//! Rounds that are cut short: while nothing but blocks moves on their way into rows that are being
//! filled, there is nothing else to look for.
//!
//! A round that found nothing to do, and waits for nothing that a block could change unnoticed,
//! makes the layer calm. From then on a round looks at requests and blocks only, until something
//! [disturbs](Cx::disturb) it. The kit does that for any input but a request and the end of a
//! computation of a block. Whatever else a block may change that others wait for, its owner does it
//! where that changes: rows, pages that want frames, commands that can't be sent, flushes that
//! wait.
//!
//! Invariant: what a round would find behind requests and blocks is the same as when the layer
//! became calm: nothing.

use crate::kit::Life;
use crate::log::Engine;
use crate::log::ops::{Cx, works};
use crate::log::rounds::FULL_ROUND;
use crate::planted::{Bug, planted};

impl Engine {
    /// Whether the rest of a round finds nothing to do.
    #[inline]
    pub(crate) fn is_calm(&self, cx: &Cx) -> bool {
        cx.is_calm()
            && self.array.media.segments.reuse().is_unchanged()
            && !self.array.mapping.pages.map().is_crowded()
    }

    /// A round begins in which everything is looked for.
    pub(crate) fn begin_to_calm(&mut self, cx: &mut Cx) {
        self.array.media.segments.reuse_mut().mark_unchanged();
        cx.become_calm();
    }

    /// That round is over, and whether anything `moved`.
    pub(crate) fn calm_down(&mut self, moved: bool, cx: &mut Cx) {
        let quiet = self.array.output.hung.is_quiet() && self.array.media.devices.is_quiet();
        let sound = cx.life() == Life::Running && works(cx) && quiet;
        let waits = self.waits_for_more(cx)
            || self.may_collect()
            || !self.array.output.durability.all_closed();
        if moved || !sound || waits || cx.room() < FULL_ROUND {
            cx.disturb();
        }
    }

    /// Whether a block waits for its page or for room, or a request for more than that one of the
    /// blocks ends: each end is followed by a round, calm or not, that begins another.
    #[inline]
    pub(crate) fn waits_for_more(&self, cx: &mut Cx) -> bool {
        let of_request = cx.requests().any_unbegun() && self.blocks.may_begin_block(&self.array);
        let of_block = self.blocks.any_waits();
        (of_request || of_block) && !planted(Bug::WaitForgotten)
    }

    /// Whether a block may bring about that there is a victim.
    fn may_collect(&self) -> bool {
        self.array.background.collection.is_idle()
            && self.array.background.collection.wants_collection(&self.array.media.segments)
    }
}
