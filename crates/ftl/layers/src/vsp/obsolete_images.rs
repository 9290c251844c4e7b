//! Discards map images that a later durable image of the same group has made obsolete. Otherwise a
//! drive would copy them in its own garbage collection until their place is rewritten.
//!
//! Invariants
//! - An image is discarded after a root that names its successor is durable, and before the next
//!   image, which goes to the same place, is begun.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::Command;

use super::layout::Layout;
use super::ops::{Cx, Op, OwnOp};

/// Groups examined per call.
const SCAN: u32 = 1024;
/// Maximum number of discards in flight.
const MOST: u32 = 4;

/// Obsolete map images.
#[derive(Debug)]
pub(super) struct ObsoleteImages {
    /// Whether the second newest image of each group is obsolete.
    groups: Vec<bool>,
    /// Next group to examine.
    cursor: u32,
    /// Discards in flight.
    under_way: u32,
}

impl ObsoleteImages {
    /// Starts with no obsolete image.
    pub(super) fn new(groups: u32) -> Self {
        ObsoleteImages { groups: vec![false; groups as usize], cursor: 0, under_way: 0 }
    }

    /// Returns the bytes of the group table.
    pub(super) const fn memory(layout: &Layout) -> u64 {
        layout.groups as u64 * size_of::<bool>() as u64
    }

    /// Notes that a new image of `group` is being written. Once it is durable, the previous one is
    /// obsolete; `cares` is whether the device accepts discards.
    pub(super) fn note(&mut self, group: u32, cares: bool) {
        self.groups[group as usize] = cares;
    }

    /// Starts to discard the noted images.
    pub(super) fn begin(&mut self) {
        self.cursor = 0;
    }

    /// Returns whether all noted images were discarded.
    pub(super) fn is_over(&self) -> bool {
        self.cursor as usize == self.groups.len() && self.under_way == 0
    }

    /// Discards the next obsolete image. Returns whether anything moved.
    pub(super) fn pump<Own: OwnOp>(
        &mut self,
        layout: &Layout,
        generations: &[u32],
        cx: &mut Cx<Own>,
    ) -> bool {
        let (from, groups) = (self.cursor, layout.groups);
        if from == groups || self.under_way == MOST || cx.commands_left() == 0 {
            return false;
        }
        let end = (from + SCAN).min(groups);
        let next = (from..end).find(|group| self.groups[*group as usize]);
        self.cursor = next.map_or(end, |group| group + 1);
        if let Some(group) = next {
            // The group is noted again when its next image is written.
            self.groups[group as usize] = false;
            self.under_way += 1;
            // Images alternate between two places, so the next generation has the place of the
            // obsolete one.
            let lba = layout.group_at(group, generations[group as usize] + 1);
            let sectors = layout.superpage.into();
            cx.submit(Op::Forget, Command::Reset { device: 0, lba, sectors });
        }
        true
    }

    /// Completes a discard. A failed one doesn't matter, because the image is not needed.
    pub(super) fn forgotten(&mut self) {
        self.under_way -= 1;
    }
}
