//! The reference model, which implements only the published description of sHATL and mHATL.
//!
//! Only costs are counted: a superpage of 16 blocks takes 800 us to write and 60 us to read. There
//! is no log, no superpage is reserved, and requests do not overlap. Each difference between the
//! description and the layers of HostFTL has a field, so that its effect can be measured
//! separately.

use std::collections::BTreeSet;

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;

/// Blocks per superpage.
pub(super) const SLOTS: u32 = 16;
const READ: f64 = 60.0;
const WRITE: f64 = 800.0;
/// Duration of the program of a superpage, in ns.
pub(super) const WRITE_NS: u64 = 800_000;
const NOWHERE: u32 = u32::MAX;

/// A stream of writes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stream {
    /// Number of blocks that are written one at a time.
    pub blocks: u32,
    /// Number of leading blocks that receive `share` of every hundred requests.
    pub hot: u32,
    /// Percentage of requests for the first `hot` blocks.
    pub share: u32,
    /// Percentage of sequential requests of 256 KiB, at addresses behind those blocks.
    pub large: u32,
}

impl Stream {
    /// Returns the busy time of `requests` requests on `layer`, relative to the drive without a
    /// layer.
    pub(super) fn busy(&self, layer: &mut impl Layer, requests: u64) -> f64 {
        let mut dice = Xoshiro256PlusPlus::seed_from_u64(1);
        let (mut next, mut busy, mut plain) = (0, 0.0, 0.0);
        for _ in 0..requests {
            let draw = dice.random_range(0..100);
            if draw < self.large {
                let first = self.blocks + next;
                next = (next + 4 * SLOTS) % self.blocks;
                plain += 4.0 * WRITE;
                let lsps = first / SLOTS..first / SLOTS + 4;
                busy += lsps.map(|lsp| layer.write_lsp(lsp)).sum::<f64>();
                continue;
            }
            let block = if draw < self.large + self.share {
                dice.random_range(0..self.hot)
            } else {
                dice.random_range(self.hot..self.blocks)
            };
            plain += READ + WRITE;
            busy += layer.write(block);
        }
        busy / plain
    }
}

/// A layer of the model.
pub(super) trait Layer {
    /// Writes a block and returns the busy time.
    fn write(&mut self, block: u32) -> f64;
    /// Writes a whole logical superpage and returns the busy time.
    fn write_lsp(&mut self, lsp: u32) -> f64;
}

/// Superpages that are filled in order, with the place of each block.
#[derive(Debug)]
struct Area {
    /// Block in each slot.
    slots: Vec<u32>,
    /// Slot of each block.
    place: Vec<u32>,
    free: Vec<u32>,
    open: u32,
    fill: u32,
}

impl Area {
    fn new(superpages: u32, blocks: u32) -> Self {
        Area {
            slots: vec![NOWHERE; (superpages * SLOTS) as usize],
            place: vec![NOWHERE; blocks as usize],
            free: (0..superpages).rev().collect(),
            open: NOWHERE,
            fill: SLOTS,
        }
    }

    fn kill(&mut self, block: u32) -> Option<u32> {
        let slot = std::mem::replace(&mut self.place[block as usize], NOWHERE);
        (slot != NOWHERE).then(|| {
            self.slots[slot as usize] = NOWHERE;
            slot / SLOTS
        })
    }

    fn put(&mut self, block: u32) {
        if self.fill == SLOTS {
            (self.open, self.fill) = (self.free.pop().expect("a superpage is free"), 0);
        }
        let slot = self.open * SLOTS + self.fill;
        self.fill += 1;
        (self.slots[slot as usize], self.place[block as usize]) = (block, slot);
    }

    /// Returns the blocks in a superpage.
    fn held(&self, superpage: u32) -> impl Iterator<Item = u32> + '_ {
        let slots = (superpage * SLOTS) as usize..((superpage + 1) * SLOTS) as usize;
        self.slots[slots].iter().copied().filter(|block| *block != NOWHERE)
    }
}

/// sHATL.
#[derive(Debug)]
pub(super) struct Shatl {
    area: Area,
    /// Superpages on media with the time at which each was opened.
    full: BTreeSet<(u64, u32)>,
    opened: u64,
    /// Superpages of the area without hidden data. In HostFTL these are free, in limbo, or used for
    /// the log.
    kept: usize,
    /// Whether reading hidden copies outside the victim has a cost.
    reads: bool,
}

impl Shatl {
    /// Creates a layer with `hidden` superpages of hidden area, of which `kept` are never used.
    pub(super) fn new(hidden: u32, kept: u32, blocks: u32) -> Self {
        let area = Area::new(hidden, blocks);
        Shatl { area, full: BTreeSet::new(), opened: 0, kept: kept as usize, reads: false }
    }

    /// Adds the cost of reading hidden copies: the victim once, and for each LSP the other
    /// superpages that contain blocks of it.
    #[must_use]
    pub(super) fn reading(self) -> Self {
        Shatl { reads: true, ..self }
    }

    /// Returns the number of superpages other than the victim with blocks of an LSP.
    fn others(&self, lsp: u32, victim: u32) -> usize {
        let places = self.area.place[(lsp * SLOTS) as usize..((lsp + 1) * SLOTS) as usize].iter();
        let held = places.filter(|slot| **slot != NOWHERE).map(|slot| slot / SLOTS);
        let others: BTreeSet<u32> = held.filter(|it| *it != victim).collect();
        others.len()
    }

    /// Returns the LSPs with blocks in a superpage.
    fn lsps(&self, superpage: u32) -> BTreeSet<u32> {
        self.area.held(superpage).map(|block| block / SLOTS).collect()
    }

    /// Moves every LSP with blocks in the victim home.
    fn collect(&mut self) -> f64 {
        let weight = |(opened, superpage): &(u64, u32)| (self.lsps(*superpage).len(), *opened);
        let victim = *self.full.iter().min_by_key(|it| weight(it)).expect("a superpage is full");
        let lsps = self.lsps(victim.1);
        let others: usize = lsps.iter().map(|lsp| self.others(*lsp, victim.1)).sum();
        for lsp in &lsps {
            (lsp * SLOTS..(lsp + 1) * SLOTS).for_each(|block| {
                self.area.kill(block);
            });
        }
        self.full.remove(&victim);
        self.area.free.push(victim.1);
        let reads = if self.reads { others + usize::from(!lsps.is_empty()) } else { 0 };
        lsps.len() as f64 * (READ + WRITE) + reads as f64 * READ
    }
}

impl Layer for Shatl {
    fn write(&mut self, block: u32) -> f64 {
        let mut busy = WRITE / f64::from(SLOTS);
        self.area.kill(block);
        if self.area.fill == SLOTS {
            if self.area.open != NOWHERE {
                self.opened += 1;
                self.full.insert((self.opened, self.area.open));
            }
            while self.area.free.len() <= self.kept {
                busy += self.collect();
            }
        }
        self.area.put(block);
        busy
    }

    fn write_lsp(&mut self, lsp: u32) -> f64 {
        for block in lsp * SLOTS..(lsp + 1) * SLOTS {
            self.area.kill(block);
        }
        WRITE
    }
}

/// mHATL, on a drive with space for every superpage that it opens.
#[derive(Debug)]
pub(super) struct Mhatl {
    area: Area,
    leaves: u32,
    cap: u32,
    /// For each superpage, the number of its single-block leaves and the time of its last change.
    low: Vec<(u32, u64)>,
    /// Superpages with single-block leaves: number, time of the last change, index.
    victims: BTreeSet<(u32, u64, u32)>,
    /// Valid blocks of each superpage, and the superpages with valid blocks ordered by this number.
    valid: Vec<u32>,
    emptiest: BTreeSet<(u32, u32)>,
    clock: u64,
    /// Whether gathering fills unmapped blocks with zeros, so that a single leaf remains.
    zeros: bool,
}

impl Mhatl {
    /// Creates a layer with a cap of `cap` leaves on a drive of `superpages` superpages.
    pub(super) fn new(superpages: u32, cap: u32, zeros: bool, blocks: u32) -> Self {
        Mhatl {
            area: Area::new(superpages, blocks),
            leaves: 0,
            cap,
            low: vec![(0, 0); superpages as usize],
            victims: BTreeSet::new(),
            valid: vec![0; superpages as usize],
            emptiest: BTreeSet::new(),
            clock: 0,
            zeros,
        }
    }

    /// Maps the first `blocks` blocks in advance, with one leaf per superpage.
    #[must_use]
    pub(super) fn mapped(mut self, blocks: u32) -> Self {
        (0..blocks / SLOTS).for_each(|lsp| {
            self.write_lsp(lsp);
        });
        self
    }

    /// Adds the leaves of `blocks` blocks from `first` to the counts, or removes them. Returns
    /// whether they are a single leaf.
    fn count(&mut self, first: u32, blocks: u32, more: bool) -> bool {
        let place = |block: u32| self.area.place[block as usize];
        let at = place(first);
        let follows = |i: u32| place(first + i) == at + i;
        let near = at % SLOTS + blocks <= SLOTS;
        if at != NOWHERE && near && (1..blocks).all(follows) {
            self.leaves = if more { self.leaves + 1 } else { self.leaves - 1 };
            if blocks == 1 {
                self.count_low(at / SLOTS, more);
            }
            return true;
        }
        if blocks > 1 {
            self.count(first, blocks / 2, more);
            self.count(first + blocks / 2, blocks / 2, more);
        }
        false
    }

    fn count_low(&mut self, superpage: u32, more: bool) {
        let (low, changed) = self.low[superpage as usize];
        self.victims.remove(&(low, changed, superpage));
        let low = if more { low + 1 } else { low - 1 };
        self.low[superpage as usize] = (low, self.clock);
        if low > 0 {
            self.victims.insert((low, self.clock, superpage));
        }
    }

    fn set_valid(&mut self, superpage: u32, valid: u32) {
        let before = core::mem::replace(&mut self.valid[superpage as usize], valid);
        self.emptiest.remove(&(before, superpage));
        if valid > 0 {
            self.emptiest.insert((valid, superpage));
        }
    }

    fn kill(&mut self, block: u32) {
        let Some(superpage) = self.area.kill(block) else { return };
        self.set_valid(superpage, self.valid[superpage as usize] - 1);
        if self.valid[superpage as usize] == 0 && superpage != self.area.open {
            self.area.free.insert(0, superpage);
        }
    }

    fn put(&mut self, block: u32) {
        self.kill(block);
        let before = self.area.open;
        self.area.put(block);
        self.set_valid(self.area.open, self.valid[self.area.open as usize] + 1);
        if before != self.area.open && before != NOWHERE && self.valid[before as usize] == 0 {
            self.area.free.insert(0, before);
        }
    }

    /// Returns the superpage with the largest product of single-block leaves and time since the
    /// last change.
    fn victim(&self) -> Option<u32> {
        let most = self.victims.last()?.0;
        let oldest = (1..=most).filter_map(|low| self.victims.range((low, 0, 0)..).next());
        let score = |it: &&(u32, u64, u32)| u64::from(it.0) * (self.clock - it.1 + 1);
        oldest.filter(|it| it.2 != self.area.open).max_by_key(score).map(|it| it.2)
    }

    /// Writes an LSP in order to a superpage of its own and returns the busy time.
    fn gather(&mut self, lsp: u32) -> f64 {
        let blocks = lsp * SLOTS..(lsp + 1) * SLOTS;
        let mapped = |block: &u32| self.area.place[*block as usize] != NOWHERE;
        let kept: Vec<u32> = blocks.filter(|it| self.zeros || mapped(it)).collect();
        let from = kept.iter().map(|block| self.area.place[*block as usize] / SLOTS);
        let read: BTreeSet<u32> = from.filter(|it| *it != NOWHERE / SLOTS).collect();
        self.count(lsp * SLOTS, SLOTS, false);
        let (open, fill) = (self.area.open, self.area.fill);
        self.area.fill = SLOTS;
        kept.iter().for_each(|block| self.put(*block));
        (self.area.open, self.area.fill) = (open, fill);
        self.count(lsp * SLOTS, SLOTS, true);
        WRITE + READ * read.len() as f64
    }

    /// Gathers LSPs of victims until the leaves are at most nine tenths of the cap, or until a
    /// victim frees none.
    fn round(&mut self) -> f64 {
        let mut busy = 0.0;
        while self.leaves * 10 > self.cap * 9 {
            let Some(victim) = self.victim() else { break };
            let before = self.leaves;
            let lsps: BTreeSet<u32> = self.area.held(victim).map(|block| block / SLOTS).collect();
            busy += lsps.into_iter().map(|lsp| self.gather(lsp)).sum::<f64>();
            if self.leaves >= before {
                break;
            }
        }
        busy
    }

    /// Moves valid blocks out of the emptiest superpages when few are free.
    fn collect(&mut self) -> f64 {
        let mut busy = 0.0;
        while self.area.free.len() < 64 {
            let mut full = self.emptiest.iter().filter(|(_, it)| *it != self.area.open);
            let (_, victim) = *full.next().expect("a superpage is full");
            let blocks: Vec<u32> = self.area.held(victim).collect();
            for block in &blocks {
                let first = block / SLOTS * SLOTS;
                self.count(first, SLOTS, false);
                self.put(*block);
                self.count(first, SLOTS, true);
            }
            busy += READ + WRITE / f64::from(SLOTS) * blocks.len() as f64;
        }
        busy
    }
}

/// Results for mHATL with the choices that its description leaves open.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    /// Busy times without earlier mappings, as described; with zeros in unmapped blocks; and with
    /// all blocks mapped in advance.
    pub busy: [f64; 3],
    /// Minimum and maximum of these, including runs with a tenth of the requests.
    pub range: (f64, f64),
}

impl Open {
    /// Runs the model with a cap of 8192 leaves on a drive with enough space for all superpages.
    pub(super) fn new(stream: &Stream, requests: u64) -> Self {
        let new = |zeros| Mhatl::new(30_000, 8192, zeros, 2 * stream.blocks);
        let busy = |requests| {
            let layers = [new(false), new(true), new(false).mapped(stream.blocks)];
            layers.map(|mut layer| stream.busy(&mut layer, requests))
        };
        let all = [busy(requests / 10), busy(requests)];
        let least = all.iter().flatten().copied().fold(f64::INFINITY, f64::min);
        let greatest = all.iter().flatten().copied().fold(0.0, f64::max);
        Open { busy: all[1], range: (least, greatest) }
    }
}

impl Layer for Mhatl {
    fn write(&mut self, block: u32) -> f64 {
        self.clock += 1;
        let first = block / SLOTS * SLOTS;
        self.count(first, SLOTS, false);
        self.put(block);
        self.count(first, SLOTS, true);
        let gathered = if self.leaves > self.cap { self.round() } else { 0.0 };
        WRITE / f64::from(SLOTS) + gathered + self.collect()
    }

    fn write_lsp(&mut self, lsp: u32) -> f64 {
        let (first, open, fill) = (lsp * SLOTS, self.area.open, self.area.fill);
        self.count(first, SLOTS, false);
        self.area.fill = SLOTS;
        (first..first + SLOTS).for_each(|block| self.put(block));
        (self.area.open, self.area.fill) = (open, fill);
        self.count(first, SLOTS, true);
        WRITE + self.collect()
    }
}
