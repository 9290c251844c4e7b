//! Nodes of the lists of leaves, packed into the minimum number of bytes for this volume.
//!
//! Invariants
//! - Nodes are numbered from 1; 0 means none.
//! - A node consists of its level, first sector, virtual sector (all ones for [`LOST`]) and two
//!   links, from the lowest bit on.

use alloc::vec::Vec;

use super::leaves::{LOST, Leaf, STRETCH, Size};

/// Bits of a level.
const LEVEL: u32 = 4;
/// Bytes that are read and written at once.
const WORD: usize = size_of::<u128>();

/// A leaf with its links.
#[derive(Clone, Copy, Debug)]
pub(super) struct Node {
    pub leaf: Leaf,
    /// Next node of the list of the LSP.
    pub next: u32,
    /// Next node of the superpage.
    pub peer: u32,
}

/// Number of bits of each field.
#[derive(Clone, Copy, Debug)]
pub(super) struct Packing {
    lsn: u32,
    vsn: u32,
    link: u32,
}

impl Packing {
    /// Returns the packing for leaves of `size`. Links can address twice the planned number of
    /// nodes, because recovery may find more leaves than planned.
    pub(super) fn new(size: &Size) -> Self {
        let bits = |most: u64| u64::BITS - most.leading_zeros();
        let sectors = |superpages: u32| u64::from(superpages) * u64::from(size.superpage);
        Packing {
            lsn: bits(sectors(size.lsps) - 1),
            vsn: bits(sectors(size.vsps)),
            link: bits(2 * u64::from(size.capacity) + u64::from(STRETCH)),
        }
    }

    /// Returns the bits of a link.
    pub(super) fn link(self) -> u32 {
        self.link
    }

    /// Returns the bytes of a node.
    pub(super) fn bytes(self) -> usize {
        (LEVEL + self.lsn + self.vsn + 2 * self.link).div_ceil(8) as usize
    }

    fn lost(self) -> u32 {
        u32::MAX >> (u32::BITS - self.vsn)
    }

    fn pack(self, node: Node) -> u128 {
        let Leaf { lsn, vsn, level } = node.leaf;
        let vsn = if vsn == LOST { self.lost() } else { vsn };
        let mut word = u128::from(node.peer);
        word = word << self.link | u128::from(node.next);
        word = word << self.vsn | u128::from(vsn);
        word = word << self.lsn | u128::from(lsn);
        word << LEVEL | u128::from(level)
    }

    fn unpack(self, mut word: u128) -> Node {
        let mut take = |bits: u32| {
            let number = word as u32 & u32::MAX >> (u32::BITS - bits);
            word >>= bits;
            number
        };
        let (level, lsn, vsn) = (take(LEVEL) as u8, take(self.lsn), take(self.vsn));
        let vsn = if vsn == self.lost() { LOST } else { vsn };
        Node { leaf: Leaf { lsn, vsn, level }, next: take(self.link), peer: take(self.link) }
    }
}

/// The packed array of nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    packing: Packing,
    bytes: usize,
    /// Bytes of all nodes, followed by a word so that each node can be read as a word.
    memory: Vec<u8>,
}

impl Nodes {
    /// Creates an empty array with memory for the planned number of nodes.
    pub(super) fn new(size: &Size) -> Self {
        let packing = Packing::new(size);
        let bytes = packing.bytes();
        assert!(bytes <= WORD, "a node is a word at the most");
        let mut memory = Vec::with_capacity(bytes * size.capacity as usize + WORD);
        memory.resize(WORD, 0);
        Nodes { packing, bytes, memory }
    }

    /// Appends an empty node and returns its number.
    pub(super) fn push(&mut self) -> u32 {
        self.memory.resize(self.memory.len() + self.bytes, 0);
        let last = (self.memory.len() - WORD) / self.bytes;
        assert!(last < 1 << self.packing.link, "a link reaches every node");
        last as u32
    }

    fn word(&self, at: u32) -> (usize, u128) {
        let from = (at as usize - 1) * self.bytes;
        let bytes = self.memory[from..from + WORD].try_into().expect("a word has its length");
        (from, u128::from_le_bytes(bytes))
    }

    /// Returns a node.
    pub(super) fn get(&self, at: u32) -> Node {
        self.packing.unpack(self.word(at).1)
    }

    /// Returns the end of a node's run and the next node of its list, which is all that a search
    /// needs.
    pub(super) fn end_and_next(&self, at: u32) -> (u32, u32) {
        let (Packing { lsn, vsn, link }, word) = (self.packing, self.word(at).1);
        // The level and the first sector are in the low half. This is the inner loop of every
        // search.
        let low = word as u64;
        let first = (low >> LEVEL) as u32 & u32::MAX >> (u32::BITS - lsn);
        let next = (word >> (LEVEL + lsn + vsn)) as u32 & u32::MAX >> (u32::BITS - link);
        (first + (1 << (low & ((1 << LEVEL) - 1))), next)
    }

    /// Overwrites a node.
    pub(super) fn put(&mut self, at: u32, node: Node) {
        let (from, word) = self.word(at);
        // The rest of the word belongs to the following nodes.
        let mine = u128::MAX >> (8 * (WORD - self.bytes));
        let word = word & !mine | self.packing.pack(node);
        self.memory[from..from + WORD].copy_from_slice(&word.to_le_bytes());
    }

    /// Modifies a node.
    pub(super) fn change(&mut self, at: u32, change: impl FnOnce(&mut Node)) {
        let mut node = self.get(at);
        change(&mut node);
        self.put(at, node);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn size(gib: u32, capacity: u32) -> Size {
        let superpages = gib << 14;
        Size {
            superpage: 128,
            capacity,
            lsps: superpages,
            lists: 1,
            vsps: superpages / 4,
            low: false,
        }
    }

    #[test]
    fn nodes_round_trip_without_touching_neighbours() {
        for (size, bytes) in
            [(size(2, 13_000), 10), (size(32, 200_000), 12), (size(1024, 1 << 23), 15)]
        {
            let mut nodes = Nodes::new(&size);
            assert_eq!(nodes.bytes, bytes);
            let node = |at: u32| Node {
                leaf: Leaf {
                    lsn: size.lsps * 128 - at,
                    vsn: if at.is_multiple_of(5) { LOST } else { size.vsps * 128 - at },
                    level: (at % 12) as u8,
                },
                next: size.capacity - at,
                peer: 2 * size.capacity - at,
            };
            (1..100).for_each(|at| assert_eq!(nodes.push(), at));
            (1..100).rev().for_each(|at| nodes.put(at, node(at)));
            nodes.change(50, |node| node.next = 7);
            for at in 1..100 {
                let (found, put) = (nodes.get(at), node(at));
                assert_eq!((found.leaf, found.peer), (put.leaf, put.peer));
                assert_eq!(found.next, if at == 50 { 7 } else { put.next });
                let end = put.leaf.lsn + put.leaf.len();
                assert_eq!(nodes.end_and_next(at), (end, found.next));
            }
        }
    }
}
