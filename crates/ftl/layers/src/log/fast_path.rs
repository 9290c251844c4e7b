//! Shortened rounds: while blocks are only being written to open stripes, all other parts have no
//! work.
//!
//! The fast path becomes valid after a round that found no work and waits for no event that a block
//! could cause unnoticed. From then on a round processes only requests and blocks, until the path
//! is [invalidated](Cx::invalidate_fast_path). The kit invalidates it for every input except a
//! request and the end of a block's computation. If a block changes other state that parts wait
//! for, the owner of that state invalidates it: stripes, pages that need frames, unsent commands
//! and pending flushes.
//!
//! Invariant: while the fast path is valid, the rest of a round would find no work.

use crate::kit::Life;
use crate::log::Engine;
use crate::log::ops::{Cx, works};
use crate::log::rounds::FULL_ROUND;
use crate::planted::{Bug, planted};

impl Engine {
    /// Returns whether the rest of a round would find no work.
    #[inline]
    pub(crate) fn is_fast_path_valid(&self, cx: &Cx) -> bool {
        cx.is_fast_path_valid()
            && self.array.media.segments.reuse().is_unchanged()
            && !self.array.mapping.pages.map().is_crowded()
    }

    /// Begins a complete round, after which the fast path may be valid.
    pub(crate) fn begin_full_round(&mut self, cx: &mut Cx) {
        self.array.media.segments.reuse_mut().mark_unchanged();
        cx.validate_fast_path();
    }

    /// Ends that round; `moved` is true if it made progress.
    pub(crate) fn end_full_round(&mut self, moved: bool, cx: &mut Cx) {
        let quiet = self.array.output.timed_out.is_quiet() && self.array.media.devices.is_quiet();
        let sound = cx.life() == Life::Running && works(cx) && quiet;
        let waits = self.waits_for_more(cx)
            || self.may_collect()
            || !self.array.output.durability.all_closed();
        if moved || !sound || waits || cx.outputs_left() < FULL_ROUND {
            cx.invalidate_fast_path();
        }
    }

    /// Returns whether a block waits for its map page or for space, or a request waits for more
    /// than the end of one of its blocks. The end of a block always starts another round, shortened
    /// or not.
    #[inline]
    pub(crate) fn waits_for_more(&self, cx: &mut Cx) -> bool {
        let of_request = cx.requests().any_unbegun() && self.blocks.may_begin_block(&self.array);
        let of_block = self.blocks.any_waits();
        (of_request || of_block) && !planted(Bug::WaitForgotten)
    }

    /// Returns whether a block may cause garbage collection to choose a victim.
    fn may_collect(&self) -> bool {
        self.array.background.collection.is_idle()
            && self.array.background.collection.wants_collection(&self.array.media.segments)
    }
}
