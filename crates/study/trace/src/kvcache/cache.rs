//! The blocks of a cache, in the order of their eviction.

use std::collections::HashMap;
use std::str::FromStr;

/// Number of no slot.
const NONE: u32 = u32::MAX;

/// Order of eviction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Eviction {
    /// The block that was used least recently.
    Lru,
    /// The block that was written first.
    Fifo,
}

impl FromStr for Eviction {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "lru" => Ok(Eviction::Lru),
            "fifo" => Ok(Eviction::Fifo),
            _ => Err(format!("eviction={text} is invalid; use eviction=lru or eviction=fifo")),
        }
    }
}

/// A block in its slot, between its neighbours in the order of eviction.
#[derive(Clone, Copy, Debug)]
struct Entry {
    id: u64,
    before: u32,
    behind: u32,
}

/// A cache of blocks. The entries form a list from the next block to evict to the last one.
#[derive(Debug)]
pub(super) struct Cache {
    eviction: Eviction,
    slots: u32,
    by_id: HashMap<u64, u32>,
    entries: Vec<Entry>,
    first: u32,
    last: u32,
}

impl Cache {
    /// Makes an empty cache of `slots` blocks.
    pub(super) fn new(slots: u32, eviction: Eviction) -> Self {
        let (by_id, entries) = (HashMap::new(), Vec::new());
        Cache { eviction, slots, by_id, entries, first: NONE, last: NONE }
    }

    /// Returns the slot of a block if the cache has it, and marks the block as used.
    pub(super) fn touch(&mut self, id: u64) -> Option<u32> {
        let slot = *self.by_id.get(&id)?;
        if self.eviction == Eviction::Lru {
            self.unlink(slot);
            self.append(slot);
        }
        Some(slot)
    }

    /// Adds a block that the cache does not have. Returns its slot, and whether another block was
    /// evicted from that.
    pub(super) fn insert(&mut self, id: u64) -> (u32, bool) {
        let entry = Entry { id, before: NONE, behind: NONE };
        let is_full = self.entries.len() as u32 == self.slots;
        let slot = if is_full {
            let slot = self.first;
            self.unlink(slot);
            self.by_id.remove(&self.entries[slot as usize].id);
            self.entries[slot as usize] = entry;
            slot
        } else {
            self.entries.push(entry);
            self.entries.len() as u32 - 1
        };
        self.by_id.insert(id, slot);
        self.append(slot);
        (slot, is_full)
    }

    fn unlink(&mut self, slot: u32) {
        let Entry { before, behind, .. } = self.entries[slot as usize];
        match before {
            NONE => self.first = behind,
            _ => self.entries[before as usize].behind = behind,
        }
        match behind {
            NONE => self.last = before,
            _ => self.entries[behind as usize].before = before,
        }
    }

    fn append(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        (entry.before, entry.behind) = (self.last, NONE);
        match self.last {
            NONE => self.first = slot,
            last => self.entries[last as usize].behind = slot,
        }
        self.last = slot;
    }
}
