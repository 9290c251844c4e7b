//! Nodes of the lists of leaves, packed into the minimum number of bytes for this volume.
//!
//! Invariants
//! - Nodes are numbered from 1; 0 means none.
//! - A node consists of its level, first sector, virtual sector (all ones for [`LOST`]) and two
//!   links, from the lowest bit on. The leaf and the links are read separately, because together
//!   they may have more bits than a word.

use alloc::vec::Vec;

use super::leaves::{LOST, Leaf, STRETCH, Size};

/// Bits of a level.
const LEVEL: u32 = 4;
/// Bytes that are read and written at once.
const WORD: usize = size_of::<u128>();
/// Bytes after the last node, so that a word can be read at any byte of a node.
const MARGIN: usize = 2 * WORD;

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

    /// Returns the bits of a leaf, which precede the links.
    fn leaf(self) -> u32 {
        LEVEL + self.lsn + self.vsn
    }

    fn lost(self) -> u64 {
        ones(self.vsn)
    }

    fn pack_leaf(self, leaf: Leaf) -> u128 {
        let Leaf { lsn, vsn, level } = leaf;
        let vsn = if vsn == LOST { self.lost() } else { vsn };
        let word = u128::from(vsn) << self.lsn | u128::from(lsn);
        word << LEVEL | u128::from(level)
    }

    fn unpack_leaf(self, word: u128) -> Leaf {
        let low = word as u64;
        let vsn = (word >> (LEVEL + self.lsn)) as u64 & ones(self.vsn);
        let vsn = if vsn == self.lost() { LOST } else { vsn };
        let level = (low & ones(LEVEL)) as u8;
        Leaf { lsn: low >> LEVEL & ones(self.lsn), vsn, level }
    }
}

/// Returns a number of `bits` one bits, fewer than 64.
fn ones(bits: u32) -> u64 {
    (1 << bits) - 1
}

/// The packed array of nodes.
#[derive(Debug)]
pub(super) struct Nodes {
    packing: Packing,
    bytes: usize,
    /// Bytes of all nodes, followed by [`MARGIN`].
    memory: Vec<u8>,
}

impl Nodes {
    /// Creates an empty array with memory for the planned number of nodes.
    pub(super) fn new(size: &Size) -> Self {
        let packing = Packing::new(size);
        let bytes = packing.bytes();
        assert!(packing.leaf() <= u128::BITS - 8, "a leaf fits a word");
        let mut memory = Vec::with_capacity(bytes * size.capacity as usize + MARGIN);
        memory.resize(MARGIN, 0);
        Nodes { packing, bytes, memory }
    }

    /// Appends an empty node and returns its number.
    pub(super) fn push(&mut self) -> u32 {
        self.memory.resize(self.memory.len() + self.bytes, 0);
        let last = (self.memory.len() - MARGIN) / self.bytes;
        assert!(last as u64 <= ones(self.packing.link), "a link reaches every node");
        last as u32
    }

    /// Returns the first byte of a node.
    fn place(&self, at: u32) -> usize {
        (at as usize - 1) * self.bytes
    }

    fn word(&self, from: usize) -> u128 {
        let bytes = self.memory[from..from + WORD].try_into().expect("a word has its length");
        u128::from_le_bytes(bytes)
    }

    /// Overwrites the `bits` bits from bit `skip` of a word on. The rest of the word belongs to
    /// other fields or nodes.
    fn put_bits(&mut self, from: usize, skip: u32, bits: u32, value: u128) {
        let mine = (u128::MAX >> (u128::BITS - bits)) << skip;
        let word = self.word(from) & !mine | value << skip;
        self.memory[from..from + WORD].copy_from_slice(&word.to_le_bytes());
    }

    /// Returns the byte and the bit at which the links of a node begin.
    fn links(&self, at: u32) -> (usize, u32) {
        let bit = self.packing.leaf();
        (self.place(at) + (bit / 8) as usize, bit % 8)
    }

    /// Returns a node.
    pub(super) fn get(&self, at: u32) -> Node {
        let (Packing { link, .. }, (from, skip)) = (self.packing, self.links(at));
        let links = self.word(from) >> skip;
        let [next, peer] = [links, links >> link].map(|word| (word as u64 & ones(link)) as u32);
        Node { leaf: self.packing.unpack_leaf(self.word(self.place(at))), next, peer }
    }

    /// Returns the end of a node's run and the next node of its list, which is all that a search
    /// needs.
    pub(super) fn end_and_next(&self, at: u32) -> (u64, u32) {
        let Packing { lsn, link, .. } = self.packing;
        // The level and the first sector are in the low half. This is the inner loop of every
        // search.
        let low = self.word(self.place(at)) as u64;
        let first = low >> LEVEL & ones(lsn);
        let (from, skip) = self.links(at);
        let next = (self.word(from) >> skip) as u64 & ones(link);
        (first + (1 << (low & ones(LEVEL))), next as u32)
    }

    /// Overwrites a node.
    pub(super) fn put(&mut self, at: u32, node: Node) {
        let Packing { link, .. } = self.packing;
        let leaf = self.packing.pack_leaf(node.leaf);
        self.put_bits(self.place(at), 0, self.packing.leaf(), leaf);
        let (from, skip) = self.links(at);
        let links = u128::from(node.peer) << link | u128::from(node.next);
        self.put_bits(from, skip, 2 * link, links);
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
        for (size, bytes) in [
            (size(2, 13_000), 10),
            (size(32, 200_000), 12),
            (size(1024, 1 << 23), 15),
            (size(200_000, 1 << 30), 18),
        ] {
            let mut nodes = Nodes::new(&size);
            assert_eq!(nodes.bytes, bytes);
            let node = |at: u32| Node {
                leaf: Leaf {
                    lsn: u64::from(size.lsps) * 128 - u64::from(at),
                    vsn: match at {
                        at if at.is_multiple_of(5) => LOST,
                        at => u64::from(size.vsps) * 128 - u64::from(at),
                    },
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
                let end = put.leaf.end();
                assert_eq!(nodes.end_and_next(at), (end, found.next));
            }
        }
    }
}
