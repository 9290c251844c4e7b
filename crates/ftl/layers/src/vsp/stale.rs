//! Images of the map that are not needed, because a later one of the group is durable: the device
//! is told to forget them. Else a drive that collects would copy them until their place is written
//! again.
//!
//! Invariants
//! - An image is forgotten when a root is durable that names the one after it, and before the next
//!   one, which goes to the same place, is begun.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::Command;

use super::layout::Layout;
use super::ops::{Cx, Op, OwnOp};

/// Groups that are looked at in one go.
const SCAN: u32 = 1024;
/// Images that the device is told to forget at once.
const MOST: u32 = 4;

#[derive(Debug)]
pub(super) struct Stale {
    /// Whether the image before the last one is stale, of each group.
    groups: Vec<bool>,
    /// The next group to look at.
    cursor: u32,
    /// Images that the device is being told to forget.
    under_way: u32,
}

impl Stale {
    /// Nothing is stale.
    pub(super) fn new(groups: u32) -> Self {
        Stale { groups: vec![false; groups as usize], cursor: 0, under_way: 0 }
    }

    /// Bytes of what is known of groups.
    pub(super) const fn memory(layout: &Layout) -> u64 {
        layout.groups as u64 * size_of::<bool>() as u64
    }

    /// An image of a group is on its way: when it is durable, the one before it is stale, if the
    /// device `cares`.
    pub(super) fn note(&mut self, group: u32, cares: bool) {
        self.groups[group as usize] = cares;
    }

    /// What was noted is to be forgotten.
    pub(super) fn begin(&mut self) {
        self.cursor = 0;
    }

    /// Whether the device forgot all that was to be forgotten.
    pub(super) fn is_over(&self) -> bool {
        self.cursor as usize == self.groups.len() && self.under_way == 0
    }

    /// Tells the device of the next stale image. Whether anything moved.
    pub(super) fn pump<Own: OwnOp>(
        &mut self,
        layout: &Layout,
        generations: &[u32],
        cx: &mut Cx<Own>,
    ) -> bool {
        let (from, groups) = (self.cursor, layout.groups);
        if from == groups || self.under_way == MOST || cx.command_room() == 0 {
            return false;
        }
        let end = (from + SCAN).min(groups);
        let next = (from..end).find(|group| self.groups[*group as usize]);
        self.cursor = next.map_or(end, |group| group + 1);
        if let Some(group) = next {
            self.groups[group as usize] = false;
            self.under_way += 1;
            let lba = layout.group_at(group, generations[group as usize] + 1);
            let sectors = layout.superpage.into();
            cx.submit(Op::Forget, Command::Reset { device: 0, lba, sectors });
        }
        true
    }

    /// The device forgot an image, or could not: it is not needed in any case.
    pub(super) fn forgotten(&mut self) {
        self.under_way -= 1;
    }
}
