//! Leaves: runs of sectors that are contiguous on the device, found by logical superpage (LSP) or
//! by virtual superpage.
//!
//! Invariants
//! - A leaf of level k covers 2^k sectors aligned to 2^k, in as many consecutive slots of one
//!   superpage, or sectors that read as errors.
//! - The leaves of an LSP are ordered by sector and don't overlap. Several LSPs may share a list,
//!   which is then ordered by the sectors of all of them.
//! - Two buddies that are contiguous on the device are merged into one leaf.
//! - Each leaf that doesn't read as an error is exactly once in the chain of its superpage.
//! - Links are indices plus one; 0 means none, so zeroed memory is an empty list.
//! - `near` is a node in a list, or 0. Searches start there if they can: requests and GC process
//!   sectors in order.

use alloc::vec;
use alloc::vec::Vec;
use core::cell::Cell;

use crate::planted::{Bug, planted};

use super::heads::Heads;
use super::nodes::{Node, Nodes, Packing};

/// Virtual sector of data that can't be verified: it reads as an error until it is written.
pub(crate) const LOST: u64 = u64::MAX;

/// A run of contiguous sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// First logical sector.
    pub lsn: u64,
    /// Virtual sector of the first one, or [`LOST`].
    pub vsn: u64,
    /// Binary logarithm of the number of sectors.
    pub level: u8,
}

impl Leaf {
    /// Returns the number of sectors.
    pub(crate) fn len(&self) -> u32 {
        1 << self.level
    }

    /// Returns the logical sector after the last one.
    pub(crate) fn end(&self) -> u64 {
        self.lsn + u64::from(self.len())
    }

    /// Returns the virtual sectors.
    pub(crate) fn slots(&self) -> core::ops::Range<u64> {
        self.vsn..self.vsn + u64::from(self.len())
    }

    /// Returns the virtual sector of one of its logical sectors.
    pub(crate) fn at(&self, lsn: u64) -> u64 {
        if self.vsn == LOST { LOST } else { self.vsn + (lsn - self.lsn) }
    }
}

/// Upper bound of the leaves that a change of one sector adds.
pub(crate) const STRETCH: u32 = 64;
/// All leaves of a map.
#[derive(Debug)]
pub(crate) struct Leaves {
    superpage: u32,
    /// Highest low level; half of the levels are low.
    low_level: u8,
    nodes: Nodes,
    /// Node before the result of the last search.
    near: Cell<u32>,
    free: u32,
    count: u32,
    capacity: u32,
    lsps: u32,
    heads: Heads,
    vsps: Heads,
    /// Number of low leaves of each superpage, if they are counted.
    low: Vec<u16>,
    /// Number of lists that are not empty.
    touched: u32,
}

/// Capacities of the tables of leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Sectors per superpage.
    pub superpage: u32,
    /// Maximum number of leaves.
    pub capacity: u32,
    /// Number of LSPs.
    pub lsps: u32,
    /// Number of lists of leaves; LSPs share lists if there are fewer lists than LSPs.
    pub lists: u32,
    /// Number of superpages.
    pub vsps: u32,
    /// Whether low leaves are counted per superpage.
    pub low: bool,
}

impl Size {
    /// Returns the bytes of the leaves and their lists by LSP.
    pub(crate) fn leaf_memory(&self) -> u64 {
        let packing = Packing::new(self);
        let nodes = packing.bytes() as u64 * u64::from(self.capacity);
        nodes + Heads::memory(self.lists, packing.link())
    }

    /// Returns the bytes of all tables.
    pub(crate) fn memory(&self) -> u64 {
        let low = if self.low { size_of::<u16>() as u64 } else { 0 };
        let vsps = Heads::memory(self.vsps, Packing::new(self).link());
        self.leaf_memory() + vsps + low * u64::from(self.vsps)
    }
}

impl Leaves {
    /// Creates an empty set of leaves.
    pub(crate) fn new(size: Size) -> Self {
        let link = Packing::new(&size).link();
        Leaves {
            superpage: size.superpage,
            low_level: (size.superpage.ilog2() / 2) as u8,
            nodes: Nodes::new(&size),
            near: Cell::new(0),
            free: 0,
            count: 0,
            capacity: size.capacity,
            lsps: size.lsps,
            heads: Heads::new(size.lists, link),
            vsps: Heads::new(size.vsps, link),
            low: vec![0; if size.low { size.vsps as usize } else { 0 }],
            touched: 0,
        }
    }

    /// Returns the number of leaves.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// Returns the number of leaves that can still be added.
    pub(crate) fn room(&self) -> u32 {
        self.capacity.saturating_sub(self.count)
    }

    /// Raises the limit during recovery, which may find more leaves than planned.
    pub(crate) fn stretch(&mut self) {
        if self.room() < STRETCH {
            self.capacity = self.count + STRETCH;
        }
    }

    /// Returns the number of lists that are not empty. Without sharing this is a number of LSPs.
    pub(crate) fn touched(&self) -> u32 {
        self.touched
    }

    /// Returns the number of low leaves of a superpage.
    pub(crate) fn low(&self, vsp: u32) -> u32 {
        self.low[vsp as usize].into()
    }

    /// Returns the LSP of a sector.
    pub(crate) fn lsp(&self, lsn: u64) -> u32 {
        (lsn / u64::from(self.superpage)) as u32
    }

    /// Returns the number of LSPs.
    pub(crate) fn lsps(&self) -> u32 {
        self.lsps
    }

    fn head(&self, lsp: u32) -> usize {
        lsp as usize % self.heads.len()
    }

    fn node(&self, at: u32) -> Node {
        self.nodes.get(at)
    }

    /// Iterates over the leaves of an LSP in order.
    pub(crate) fn in_lsp(&self, lsp: u32) -> impl Iterator<Item = Leaf> + '_ {
        let all = self.list(self.heads.get(self.head(lsp)), |node| node.next);
        // Several LSPs may share a list, which is in the order of sectors.
        let before = move |leaf: &Leaf| self.lsp(leaf.lsn) < lsp;
        all.skip_while(before).take_while(move |leaf| self.lsp(leaf.lsn) == lsp)
    }

    /// Iterates over the leaves in a superpage.
    pub(crate) fn in_superpage(&self, vsp: u32) -> impl Iterator<Item = Leaf> + '_ {
        self.list(self.vsps.get(vsp as usize), |node| node.peer)
    }

    /// Returns the number of leaves of an LSP beyond one, the number that it would have in one
    /// superpage. Returns 0 if a part of the LSP reads as an error.
    pub(crate) fn surplus(&self, lsp: u32) -> u32 {
        let mut count = 0;
        for leaf in self.in_lsp(lsp) {
            if leaf.vsn == LOST {
                return 0;
            }
            count += 1;
        }
        u32::saturating_sub(count, 1)
    }

    fn list(&self, first: u32, next: fn(&Node) -> u32) -> impl Iterator<Item = Leaf> + '_ {
        let mut at = first;
        core::iter::from_fn(move || {
            // Number 0 is the end of a list.
            let node = (at != 0).then(|| self.node(at))?;
            at = next(&node);
            Some(node.leaf)
        })
    }

    /// Returns the first node of a sector's list that ends after the sector, and the node before
    /// it.
    fn seek(&self, lsn: u64) -> (u32, u32) {
        let (mut before, mut at) = self.start(lsn);
        while at != 0 {
            let (end, next) = self.nodes.end_and_next(at);
            if lsn < end {
                break;
            }
            (before, at) = (at, next);
        }
        self.near.set(before);
        (before, at)
    }

    /// Returns two successive nodes of a sector's list, of which the first ends before the sector.
    fn start(&self, lsn: u64) -> (u32, u32) {
        let (head, near) = (self.head(self.lsp(lsn)), self.near.get());
        if near != 0 {
            let (end, next) = self.nodes.end_and_next(near);
            if end <= lsn && self.head(self.lsp(end - 1)) == head {
                return (near, next);
            }
        }
        (0, self.heads.get(head))
    }

    /// Returns the leaf of a sector.
    pub(crate) fn find(&self, lsn: u64) -> Option<Leaf> {
        let (_, at) = self.seek(lsn);
        (at != 0).then(|| self.node(at).leaf).filter(|leaf| leaf.lsn <= lsn)
    }

    /// Returns the leaf of a sector, if any, and the sector of the LSP up to which this result
    /// holds.
    pub(crate) fn around(&self, lsn: u64) -> (Option<Leaf>, u64) {
        let (_, at) = self.seek(lsn);
        let end = (u64::from(self.lsp(lsn)) + 1) * u64::from(self.superpage);
        match (at != 0).then(|| self.node(at).leaf) {
            Some(leaf) if leaf.lsn <= lsn => (Some(leaf), leaf.end()),
            // In a shared list the next leaf may belong to a later LSP.
            Some(leaf) => (None, end.min(leaf.lsn)),
            None => (None, end),
        }
    }

    /// Returns the level of the longest leaf of sectors from `lsn` on, among the next `sectors`,
    /// that are all in one leaf or all unmapped.
    pub(crate) fn level(&self, lsn: u64, sectors: u32) -> u8 {
        let most = u64::from(sectors).min(self.around(lsn).1 - lsn);
        lsn.trailing_zeros().min(most.ilog2()) as u8
    }

    /// Inserts a leaf after node `before` of its list. Returns the new node.
    fn add(&mut self, before: u32, leaf: Leaf) -> u32 {
        assert!(self.room() > 0, "space for leaves was checked");
        let head = self.head(self.lsp(leaf.lsn));
        let next = if before == 0 { self.heads.get(head) } else { self.node(before).next };
        let node = Node { leaf, next, peer: 0 };
        // Removed nodes are linked through `next`, for reuse.
        let at = match self.free {
            0 => self.nodes.push(),
            at => {
                self.free = self.node(at).next;
                at
            }
        };
        self.nodes.put(at, node);
        self.count += 1;
        // Evaluated before the new node becomes the head.
        self.touched += u32::from(self.heads.get(head) == 0);
        self.set_next(before, head, at);
        self.chain(at);
        at
    }

    fn set_next(&mut self, before: u32, head: usize, next: u32) {
        if before == 0 {
            self.heads.set(head, next);
        } else {
            self.nodes.change(before, |node| node.next = next);
        }
    }

    /// Removes the node after `before` from its list.
    fn remove(&mut self, before: u32, at: u32) -> Leaf {
        if self.near.get() == at {
            self.near.set(before);
        }
        self.unchain(at);
        let Node { leaf, next, .. } = self.node(at);
        let head = self.head(self.lsp(leaf.lsn));
        self.set_next(before, head, next);
        self.touched -= u32::from(self.heads.get(head) == 0);
        let free = self.free;
        self.nodes.change(at, |node| node.next = free);
        self.free = at;
        self.count -= 1;
        leaf
    }

    fn count_low(&mut self, leaf: Leaf, more: bool) {
        let vsp = self.lsp(leaf.vsn) as usize;
        if leaf.level <= self.low_level
            && let Some(low) = self.low.get_mut(vsp)
        {
            *low = if more { *low + 1 } else { *low - 1 };
        }
    }

    fn chain(&mut self, at: u32) {
        let leaf = self.node(at).leaf;
        if leaf.vsn == LOST {
            return;
        }
        // Only a leaf with a place on the device is in the chain of a superpage.
        self.count_low(leaf, true);
        let vsp = self.lsp(leaf.vsn) as usize;
        let peer = self.vsps.set(vsp, at);
        self.nodes.change(at, |node| node.peer = peer);
    }

    fn unchain(&mut self, at: u32) {
        let Node { leaf, peer, .. } = self.node(at);
        if leaf.vsn == LOST {
            return;
        }
        self.count_low(leaf, false);
        let vsp = self.lsp(leaf.vsn) as usize;
        let mut before = self.vsps.get(vsp);
        if before == at {
            self.vsps.set(vsp, peer);
            return;
        }
        // The chain is singly linked, so the predecessor is searched.
        while self.node(before).peer != at {
            before = self.node(before).peer;
        }
        self.nodes.change(before, |node| node.peer = peer);
    }

    /// Removes a sector from its leaf and keeps the rest. Returns its virtual sector.
    pub(crate) fn clear(&mut self, lsn: u64) -> Option<u64> {
        self.clear_run(lsn, 0)
    }

    /// Removes 2^`to` aligned sectors from the leaf that covers them, if any, and keeps the rest.
    /// Returns the virtual sector of the first one.
    pub(crate) fn clear_run(&mut self, lsn: u64, to: u8) -> Option<u64> {
        let (mut before, at) = self.seek(lsn);
        if at == 0 || self.node(at).leaf.lsn > lsn {
            return None;
        }
        let leaf = self.remove(before, at);
        let mut low = leaf.lsn;
        assert!(to <= leaf.level, "one leaf covers a run");
        // Each halving leaves the half without the run as a leaf of its own.
        for level in (to..leaf.level).rev() {
            let middle = low + (1 << level);
            let left = lsn >= middle;
            let rest = if left { low } else { middle };
            let part = Leaf { lsn: rest, vsn: leaf.at(rest), level };
            if left {
                before = self.add(before, part);
                low = middle;
            } else if !planted(Bug::SplitLosesRight) {
                self.add(before, part);
            }
        }
        Some(leaf.at(lsn))
    }

    /// Inserts a sector that has no leaf, and merges buddies.
    pub(crate) fn set(&mut self, lsn: u64, vsn: u64) {
        self.set_run(Leaf { lsn, vsn, level: 0 });
    }

    /// Inserts sectors that have no leaf, and merges buddies.
    pub(crate) fn set_run(&mut self, leaf: Leaf) {
        let (before, _) = self.seek(leaf.lsn);
        let mut at = self.add(before, leaf);
        // A merged leaf may have a buddy of its own size.
        while let Some(merged) = self.merge(at) {
            at = merged;
        }
    }

    /// Merges a leaf with its buddy, if both are contiguous on the device. Returns the merged node.
    fn merge(&mut self, at: u32) -> Option<u32> {
        let Node { leaf, next, .. } = self.node(at);
        // A leaf never spans two superpages.
        if leaf.len() == self.superpage {
            return None;
        }
        let (before, _) = self.seek(leaf.lsn);
        let is_left = leaf.lsn & u64::from(leaf.len()) == 0;
        let (left, right) = if is_left { (at, next) } else { (before, at) };
        if left == 0 || right == 0 || !self.are_one(self.node(left).leaf, self.node(right).leaf) {
            return None;
        }
        self.remove(left, right);
        let leaf = self.node(left).leaf;
        let merged = Leaf { level: leaf.level + 1, ..leaf };
        if leaf.vsn != LOST {
            self.count_low(leaf, false);
            self.count_low(merged, true);
        }
        self.nodes.change(left, |node| node.leaf = merged);
        Some(left)
    }

    /// Returns whether two neighbours are contiguous buddies.
    fn are_one(&self, left: Leaf, right: Leaf) -> bool {
        let buddies = left.level == right.level && left.end() == right.lsn;
        let together = match (left.vsn, right.vsn) {
            (LOST, vsn) => vsn == LOST,
            (_, LOST) => false,
            (one, other) => {
                // Adjacent virtual sectors may still belong to two superpages.
                let near = self.lsp(one) == self.lsp(other);
                near && (one + u64::from(left.len()) == other || planted(Bug::MergeApart))
            }
        };
        buddies && together
    }

    /// Removes all leaves of a superpage.
    pub(crate) fn forget(&mut self, vsp: u32) {
        while self.vsps.get(vsp as usize) != 0 {
            let first = self.node(self.vsps.get(vsp as usize)).leaf.lsn;
            let (before, at) = self.seek(first);
            self.remove(before, at);
        }
    }

    /// Checks lists, chains and counts against each other.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let (mut count, mut chained) = (0, 0);
        let touched = self.heads.iter().filter(|head| *head != 0).count() as u32;
        for lsp in 0..self.lsps() {
            let mut end = u64::from(lsp) * u64::from(self.superpage);
            let mut last: Option<Leaf> = None;
            for leaf in self.in_lsp(lsp) {
                let aligned = leaf.lsn.is_multiple_of(leaf.len().into());
                if leaf.lsn < end || !aligned || self.lsp(leaf.end() - 1) != lsp {
                    return Err("the leaves of an LSP overlap or one is out of range");
                }
                let left = |left: &Leaf| left.lsn.is_multiple_of(2 * u64::from(left.len()));
                if last.filter(left).is_some_and(|last| self.are_one(last, leaf)) {
                    return Err("two adjacent buddies are not merged into one leaf");
                }
                (count, chained) = (count + 1, chained + u32::from(leaf.vsn != LOST));
                (end, last) = (leaf.end(), Some(leaf));
            }
        }
        for vsp in 0..self.vsps.len() as u32 {
            let (mut all, mut low) = (0, 0);
            for leaf in self.in_superpage(vsp) {
                (all, low) = (all + 1, low + u16::from(leaf.level <= self.low_level));
            }
            if self.low.get(vsp as usize).is_some_and(|counted| *counted != low) {
                return Err("the count of a superpage's low leaves is wrong");
            }
            chained -= all;
        }
        if count != self.count || touched != self.touched || chained != 0 {
            return Err("the count of leaves is wrong");
        }
        Ok(())
    }
}
