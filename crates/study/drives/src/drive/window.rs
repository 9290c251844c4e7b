//! Partial map units that wait in the write buffer for the rest of their sectors.
//!
//! Invariants
//! - A unit has at most one entry, with at least one of its sectors and not all of them.
//! - Entries are kept in the order of arrival, and the oldest one leaves when the window is full.
//!   The content therefore depends only on the order of the writes, never on time.
//! - The tally of an entry has as many sectors as its mask has bits.

use hostftl_core::{CAUSES, Cause, Tally};

use crate::spec::DriveSpec;

/// Index of no entry.
const NONE: u32 = u32::MAX;

/// New sectors of a unit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Data {
    pub unit: u32,
    /// Bit for each new sector. All bits are set for a whole unit, which may have more than 128
    /// sectors.
    pub mask: u128,
    pub tally: Tally,
    pub placement: u8,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    data: Data,
    /// Neighbours in the order of arrival, and the next entry with the same hash.
    prev: u32,
    next: u32,
    chain: u32,
}

#[derive(Debug)]
pub(super) struct Window {
    capacity: usize,
    entries: Vec<Entry>,
    free: Vec<u32>,
    heads: Vec<u32>,
    first: u32,
    last: u32,
    /// Sectors of all entries, by cause.
    pub waiting: [u64; CAUSES],
    /// Sectors overwritten or trimmed before they were programmed, by cause.
    pub absorbed: [u64; CAUSES],
}

/// Returns the bits of `sectors` sectors from `offset`.
pub(super) fn mask(offset: u32, sectors: u32) -> u128 {
    let ones = if sectors == u128::BITS { u128::MAX } else { (1 << sectors) - 1 };
    ones << offset
}

/// Returns the number of rows of a map unit that must be read when only the sectors of `mask` are
/// new.
pub(super) fn rows_left(spec: &DriveSpec, mask: u128) -> u32 {
    let row = spec.shape.row_sectors;
    let rows = spec.rows_per_unit();
    if rows == 1 {
        return 1;
    }
    let new = |index: u32| {
        let bits = self::mask(index * row, row);
        mask & bits == bits
    };
    (0..rows).filter(|&index| row > u128::BITS || !new(index)).count() as u32
}

impl Window {
    /// Makes a window for partial data of `capacity` units.
    pub(super) fn new(capacity: usize) -> Self {
        Window {
            capacity,
            entries: Vec::with_capacity(capacity + 1),
            free: Vec::with_capacity(capacity + 1),
            heads: vec![NONE; (2 * capacity).next_power_of_two()],
            first: NONE,
            last: NONE,
            waiting: [0; CAUSES],
            absorbed: [0; CAUSES],
        }
    }

    fn bucket(&self, unit: u32) -> usize {
        let hash = unit.wrapping_mul(0x9e37_79b1);
        (hash ^ hash >> 15) as usize & (self.heads.len() - 1)
    }

    fn find(&self, unit: u32) -> u32 {
        let mut at = self.heads[self.bucket(unit)];
        while at != NONE && self.entries[at as usize].data.unit != unit {
            at = self.entries[at as usize].chain;
        }
        at
    }

    /// Returns whether the window has all of these sectors of a unit.
    pub(super) fn covers(&self, unit: u32, mask: u128) -> bool {
        let at = self.find(unit);
        at != NONE && mask & !self.entries[at as usize].data.mask == 0
    }

    /// Adds sectors of a unit. Returns the data that must be programmed now: the unit itself if it
    /// is complete, where `whole` has all of its bits, or the oldest entry if the window is full.
    pub(super) fn add(&mut self, data: Data, whole: u128) -> Option<Data> {
        let mut at = self.find(data.unit);
        if at == NONE {
            at = self.insert(Data { mask: 0, tally: Tally::default(), ..data });
        }
        let overlap = (self.entries[at as usize].data.mask & data.mask).count_ones();
        self.absorb(at, overlap);
        for cause in Cause::ALL {
            self.waiting[cause as usize] += u64::from(data.tally.get(cause));
        }
        let entry = &mut self.entries[at as usize].data;
        entry.mask |= data.mask;
        entry.tally += data.tally;
        entry.placement = data.placement;
        if entry.mask == whole {
            return Some(self.remove(at));
        }
        (self.entries.len() - self.free.len() > self.capacity).then(|| self.remove(self.first))
    }

    /// Drops the data of a unit that is overwritten or trimmed as a whole.
    pub(super) fn forget(&mut self, unit: u32) {
        let at = self.find(unit);
        if at != NONE {
            self.absorb(at, self.entries[at as usize].data.mask.count_ones());
            self.remove(at);
        }
    }

    /// Returns the entries in the order of arrival.
    pub(super) fn iter(&self) -> impl Iterator<Item = &Data> {
        let entry = |at: u32| self.entries.get(at as usize);
        let all = std::iter::successors(entry(self.first), move |it| entry(it.next));
        all.map(|entry| &entry.data)
    }

    /// Takes the oldest entry.
    pub(super) fn pop(&mut self) -> Option<Data> {
        (self.first != NONE).then(|| self.remove(self.first))
    }

    /// Takes `sectors` off an entry's tally, in the order of the causes, and counts them as
    /// absorbed.
    fn absorb(&mut self, at: u32, sectors: u32) {
        let entry = &mut self.entries[at as usize].data;
        let (mut rest, mut left) = (Tally::default(), sectors);
        for cause in Cause::ALL {
            let has = entry.tally.get(cause);
            let gone = has.min(left);
            rest.add(cause, has - gone);
            left -= gone;
            self.absorbed[cause as usize] += u64::from(gone);
            self.waiting[cause as usize] -= u64::from(gone);
        }
        entry.tally = rest;
    }

    fn insert(&mut self, data: Data) -> u32 {
        let bucket = self.bucket(data.unit);
        let (prev, chain) = (self.last, self.heads[bucket]);
        let entry = Entry { data, prev, next: NONE, chain };
        let at = match self.free.pop() {
            Some(at) => {
                self.entries[at as usize] = entry;
                at
            }
            None => {
                self.entries.push(entry);
                (self.entries.len() - 1) as u32
            }
        };
        self.heads[bucket] = at;
        match prev {
            NONE => self.first = at,
            prev => self.entries[prev as usize].next = at,
        }
        self.last = at;
        at
    }

    fn remove(&mut self, at: u32) -> Data {
        let Entry { data, prev, next, chain } = self.entries[at as usize];
        match prev {
            NONE => self.first = next,
            _ => self.entries[prev as usize].next = next,
        }
        match next {
            NONE => self.last = prev,
            _ => self.entries[next as usize].prev = prev,
        }
        let bucket = self.bucket(data.unit);
        if self.heads[bucket] == at {
            self.heads[bucket] = chain;
        } else {
            let mut before = self.heads[bucket];
            while self.entries[before as usize].chain != at {
                before = self.entries[before as usize].chain;
            }
            self.entries[before as usize].chain = chain;
        }
        for cause in Cause::ALL {
            self.waiting[cause as usize] -= u64::from(data.tally.get(cause));
        }
        self.free.push(at);
        data
    }
}
