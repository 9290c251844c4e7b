//! The leaves: which runs of sectors lie together on the device, found by logical superpage (LSP)
//! and by virtual superpage.
//!
//! Invariants
//! - A leaf of level k stands for 2^k sectors that begin at a multiple of 2^k, and lie in as many
//!   slots of one superpage; or for sectors that read as errors.
//! - The leaves of an LSP are in the order of their sectors, and none overlaps another. LSPs may
//!   share a list, which is then in the order of the sectors of all of them.
//! - Two buddies that follow each other on the device are one leaf.
//! - Every leaf, unless it reads as an error, is once in the chain of its superpage.
//! - Links are indices plus one; 0 is none, so that fresh zeroed memory holds nothing.

use alloc::vec;
use alloc::vec::Vec;

use crate::planted::{Bug, planted};

use super::heads::Heads;
use super::nodes::{Node, Nodes, Packing};

/// Where a sector is that can't be checked: an error until it is written.
pub(crate) const LOST: u32 = u32::MAX;

/// One run. See the module text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Leaf {
    /// The first logical sector.
    pub lsn: u32,
    /// Its virtual sector, or [`LOST`].
    pub vsn: u32,
    /// The run has two to the power of this sectors.
    pub level: u8,
}

impl Leaf {
    /// Sectors of the run.
    pub(crate) fn len(&self) -> u32 {
        1 << self.level
    }

    /// The virtual sector of one of its logical sectors.
    pub(crate) fn at(&self, lsn: u32) -> u32 {
        if self.vsn == LOST { LOST } else { self.vsn + (lsn - self.lsn) }
    }
}

/// Leaves that a change of one sector never needs.
pub(crate) const STRETCH: u32 = 64;
#[derive(Debug)]
pub(crate) struct Leaves {
    superpage: u32,
    /// The highest level that counts as low: half of the levels do.
    low_level: u8,
    nodes: Nodes,
    free: u32,
    count: u32,
    capacity: u32,
    lsps: u32,
    heads: Heads,
    vsps: Heads,
    /// Low leaves of each superpage, where they are counted.
    low: Vec<u16>,
    /// Lists that have leaves.
    touched: u32,
}

/// How many there can be of what leaves are found by.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Size {
    /// Sectors in a superpage.
    pub superpage: u32,
    /// Leaves.
    pub capacity: u32,
    /// LSPs.
    pub lsps: u32,
    /// Lists of leaves by LSP; LSPs share them where there are fewer.
    pub lists: u32,
    /// Superpages.
    pub vsps: u32,
    /// Whether low leaves are counted by superpage.
    pub low: bool,
}

impl Size {
    /// Bytes of the leaves and of their lists.
    pub(crate) fn leaf_memory(&self) -> u64 {
        let packing = Packing::of(self);
        let nodes = packing.bytes() as u64 * u64::from(self.capacity);
        nodes + Heads::memory(self.lists, packing.link())
    }

    /// Bytes of everything.
    pub(crate) fn memory(&self) -> u64 {
        let low = if self.low { size_of::<u16>() as u64 } else { 0 };
        let vsps = Heads::memory(self.vsps, Packing::of(self).link());
        self.leaf_memory() + vsps + low * u64::from(self.vsps)
    }
}

impl Leaves {
    /// None yet.
    pub(crate) fn new(size: Size) -> Self {
        let link = Packing::of(&size).link();
        Leaves {
            superpage: size.superpage,
            low_level: (size.superpage.ilog2() / 2) as u8,
            nodes: Nodes::new(&size),
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

    /// How many there are.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    /// How many more there can be.
    pub(crate) fn room(&self) -> u32 {
        self.capacity.saturating_sub(self.count)
    }

    /// Makes room for what recovery finds, though it be more than was planned.
    pub(crate) fn stretch(&mut self) {
        if self.room() < STRETCH {
            self.capacity = self.count + STRETCH;
        }
    }

    /// Lists that have any: LSPs, unless they share lists.
    pub(crate) fn touched(&self) -> u32 {
        self.touched
    }

    /// Low leaves of a superpage.
    pub(crate) fn low(&self, vsp: u32) -> u32 {
        self.low[vsp as usize].into()
    }

    /// The LSP of a sector.
    pub(crate) fn lsp(&self, lsn: u32) -> u32 {
        lsn / self.superpage
    }

    /// How many LSPs there are.
    pub(crate) fn lsps(&self) -> u32 {
        self.lsps
    }

    fn head(&self, lsp: u32) -> usize {
        lsp as usize % self.heads.len()
    }

    fn node(&self, at: u32) -> Node {
        self.nodes.get(at)
    }

    /// The leaves of an LSP, in order.
    pub(crate) fn of(&self, lsp: u32) -> impl Iterator<Item = Leaf> + '_ {
        let all = self.list(self.heads.get(self.head(lsp)), |node| node.next);
        let before = move |leaf: &Leaf| self.lsp(leaf.lsn) < lsp;
        all.skip_while(before).take_while(move |leaf| self.lsp(leaf.lsn) == lsp)
    }

    /// The leaves that lie in a superpage.
    pub(crate) fn in_superpage(&self, vsp: u32) -> impl Iterator<Item = Leaf> + '_ {
        self.list(self.vsps.get(vsp as usize), |node| node.peer)
    }

    /// How many leaves an LSP has too many: in one superpage it had one, unless a part of it reads
    /// as an error.
    pub(crate) fn surplus(&self, lsp: u32) -> u32 {
        let mut count = 0;
        for leaf in self.of(lsp) {
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
            let node = (at != 0).then(|| self.node(at))?;
            at = next(&node);
            Some(node.leaf)
        })
    }

    /// The first leaf of a sector's list that ends behind the sector, and the one before that.
    fn seek(&self, lsn: u32) -> (u32, u32) {
        let (mut before, mut at) = (0, self.heads.get(self.head(self.lsp(lsn))));
        while at != 0 {
            let (end, next) = self.nodes.end_and_next(at);
            if lsn < end {
                break;
            }
            (before, at) = (at, next);
        }
        (before, at)
    }

    /// The leaf of a sector.
    pub(crate) fn find(&self, lsn: u32) -> Option<Leaf> {
        let (_, at) = self.seek(lsn);
        (at != 0).then(|| self.node(at).leaf).filter(|leaf| leaf.lsn <= lsn)
    }

    /// The leaf of a sector, or none, and up to which sector of its LSP that stays so.
    pub(crate) fn around(&self, lsn: u32) -> (Option<Leaf>, u32) {
        let (_, at) = self.seek(lsn);
        let end = (self.lsp(lsn) + 1) * self.superpage;
        match (at != 0).then(|| self.node(at).leaf) {
            Some(leaf) if leaf.lsn <= lsn => (Some(leaf), leaf.lsn + leaf.len()),
            Some(leaf) => (None, end.min(leaf.lsn)),
            None => (None, end),
        }
    }

    /// Puts a leaf behind `before` in its list. The new node.
    fn add(&mut self, before: u32, leaf: Leaf) -> u32 {
        assert!(self.room() > 0, "room for leaves was checked");
        let head = self.head(self.lsp(leaf.lsn));
        let next = if before == 0 { self.heads.get(head) } else { self.node(before).next };
        let node = Node { leaf, next, peer: 0 };
        let at = match self.free {
            0 => self.nodes.push(),
            at => {
                self.free = self.node(at).next;
                at
            }
        };
        self.nodes.put(at, node);
        self.count += 1;
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

    /// Takes the node behind `before` out.
    fn remove(&mut self, before: u32, at: u32) -> Leaf {
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
        let vsp = (leaf.vsn / self.superpage) as usize;
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
        self.count_low(leaf, true);
        let vsp = (leaf.vsn / self.superpage) as usize;
        let peer = self.vsps.set(vsp, at);
        self.nodes.change(at, |node| node.peer = peer);
    }

    fn unchain(&mut self, at: u32) {
        let Node { leaf, peer, .. } = self.node(at);
        if leaf.vsn == LOST {
            return;
        }
        self.count_low(leaf, false);
        let vsp = (leaf.vsn / self.superpage) as usize;
        let mut before = self.vsps.get(vsp);
        if before == at {
            self.vsps.set(vsp, peer);
            return;
        }
        while self.node(before).peer != at {
            before = self.node(before).peer;
        }
        self.nodes.change(before, |node| node.peer = peer);
    }

    /// Takes a sector out of its leaf, whose rest stays. Where it was.
    pub(crate) fn clear(&mut self, lsn: u32) -> Option<u32> {
        self.clear_run(lsn, 0)
    }

    /// Takes 2^`to` sectors, from a multiple of that on, out of the leaf that has them all, unless
    /// none has any. Where the first was.
    pub(crate) fn clear_run(&mut self, lsn: u32, to: u8) -> Option<u32> {
        let (mut before, at) = self.seek(lsn);
        if at == 0 || self.node(at).leaf.lsn > lsn {
            return None;
        }
        let leaf = self.remove(before, at);
        let mut low = leaf.lsn;
        assert!(to <= leaf.level, "one leaf has all of a run");
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

    /// Puts a sector in that has no leaf, and merges buddies.
    pub(crate) fn set(&mut self, lsn: u32, vsn: u32) {
        self.set_run(Leaf { lsn, vsn, level: 0 });
    }

    /// Puts sectors in that have no leaf, and merges buddies.
    pub(crate) fn set_run(&mut self, leaf: Leaf) {
        let (before, _) = self.seek(leaf.lsn);
        let mut at = self.add(before, leaf);
        while let Some(merged) = self.merge(at) {
            at = merged;
        }
    }

    /// Merges a leaf with its buddy, if that follows it on the device or is followed by it.
    fn merge(&mut self, at: u32) -> Option<u32> {
        let Node { leaf, next, .. } = self.node(at);
        if leaf.len() == self.superpage {
            return None;
        }
        let (before, _) = self.seek(leaf.lsn);
        let is_left = leaf.lsn & leaf.len() == 0;
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

    /// Whether two neighbours are buddies that lie together.
    fn are_one(&self, left: Leaf, right: Leaf) -> bool {
        let buddies = left.level == right.level && left.lsn + left.len() == right.lsn;
        let together = match (left.vsn, right.vsn) {
            (LOST, vsn) => vsn == LOST,
            (_, LOST) => false,
            (one, other) => {
                let near = one / self.superpage == other / self.superpage;
                near && (one + left.len() == other || planted(Bug::MergeApart))
            }
        };
        buddies && together
    }

    /// Forgets every leaf of a superpage.
    pub(crate) fn forget(&mut self, vsp: u32) {
        while self.vsps.get(vsp as usize) != 0 {
            let first = self.node(self.vsps.get(vsp as usize)).leaf.lsn;
            let (before, at) = self.seek(first);
            self.remove(before, at);
        }
    }

    /// Compares lists, chains and counts with each other.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        let (mut count, mut chained) = (0, 0);
        let touched = self.heads.iter().filter(|head| *head != 0).count() as u32;
        for lsp in 0..self.lsps() {
            let mut end = lsp * self.superpage;
            let mut last: Option<Leaf> = None;
            for leaf in self.of(lsp) {
                let aligned = leaf.lsn.is_multiple_of(leaf.len());
                if leaf.lsn < end || !aligned || self.lsp(leaf.lsn + leaf.len() - 1) != lsp {
                    return Err("the leaves of an LSP overlap, or one is where it can't be");
                }
                let left = |left: &Leaf| left.lsn.is_multiple_of(2 * left.len());
                if last.filter(left).is_some_and(|last| self.are_one(last, leaf)) {
                    return Err("two buddies that lie together are not one leaf");
                }
                (count, chained) = (count + 1, chained + u32::from(leaf.vsn != LOST));
                (end, last) = (leaf.lsn + leaf.len(), Some(leaf));
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
