//! Array of map entries of 4 or 5 bytes.
//!
//! The entries of a large volume may take more memory than the host has, so they are allocated in
//! chunks when an entry of the chunk is first set. Those of a small volume are allocated at once.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;

use hostftl_format::hard::Width;

use crate::planted::{Bug, planted};

/// Entries in a chunk.
const CHUNK: u64 = 1 << 16;
/// Bytes of a wide entry.
const WIDE: usize = Width::Wide.bytes();

/// An array of entries, all 0 at first.
#[derive(Debug)]
pub(crate) enum Numbers {
    /// Entries of 4 bytes.
    Narrow(Vec<u32>),
    /// Entries of 5 bytes, in chunks.
    Wide {
        /// Number of entries.
        len: u64,
        /// The chunks; one that has only zeros may be missing.
        chunks: Vec<Option<Box<[[u8; WIDE]]>>>,
    },
}

impl Numbers {
    /// Creates `len` entries.
    pub(crate) fn new(len: u64, width: Width) -> Self {
        match width {
            Width::Narrow => Numbers::Narrow(vec![0; len as usize]),
            Width::Wide => {
                let chunks = len.div_ceil(CHUNK) as usize;
                Numbers::Wide { len, chunks: (0..chunks).map(|_| None).collect() }
            }
        }
    }

    /// Returns the bytes of `len` entries, if each chunk is allocated.
    pub(crate) fn memory(len: u64, width: Width) -> u64 {
        len * width.bytes() as u64
    }

    /// Returns the number of entries.
    pub(crate) fn len(&self) -> u64 {
        match self {
            Numbers::Narrow(entries) => entries.len() as u64,
            Numbers::Wide { len, .. } => *len,
        }
    }

    /// Returns entry `at`.
    #[inline]
    pub(crate) fn get(&self, at: u64) -> u64 {
        match self {
            Numbers::Narrow(entries) => entries[at as usize].into(),
            Numbers::Wide { chunks, .. } => match &chunks[(at / CHUNK) as usize] {
                Some(chunk) => {
                    let mut bytes = [0; size_of::<u64>()];
                    bytes[..WIDE].copy_from_slice(&chunk[(at % CHUNK) as usize]);
                    u64::from_le_bytes(bytes)
                }
                None => 0,
            },
        }
    }

    /// Sets entry `at`.
    #[inline]
    pub(crate) fn set(&mut self, at: u64, entry: u64) {
        match self {
            Numbers::Narrow(entries) => entries[at as usize] = entry as u32,
            Numbers::Wide { chunks, .. } => {
                let entry = if planted(Bug::WideCutOff) { entry & 0xff } else { entry };
                let chunk = &mut chunks[(at / CHUNK) as usize];
                if entry == 0 && chunk.is_none() {
                    return;
                }
                let chunk =
                    chunk.get_or_insert_with(|| vec![[0; WIDE]; CHUNK as usize].into_boxed_slice());
                chunk[(at % CHUNK) as usize].copy_from_slice(&entry.to_le_bytes()[..WIDE]);
            }
        }
    }

    /// Iterates over the entries from `from` on.
    pub(crate) fn from(&self, from: u64) -> impl Iterator<Item = u64> + '_ {
        (from.min(self.len())..self.len()).map(|at| self.get(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_round_trip_without_touching_neighbours() {
        for width in [Width::Narrow, Width::Wide] {
            let mut numbers = Numbers::new(3 * CHUNK + 7, width);
            let places = [0, 1, CHUNK - 1, CHUNK, 3 * CHUNK + 6];
            for at in places {
                numbers.set(at, width.most() - at);
            }
            let set = |at: &u64| places.contains(at);
            assert!(
                (0..numbers.len())
                    .all(|at| { numbers.get(at) == if set(&at) { width.most() - at } else { 0 } })
            );
            assert_eq!(numbers.from(3 * CHUNK).filter(|entry| *entry > 0).count(), 1);
        }
    }

    #[test]
    fn an_untouched_part_of_a_large_array_takes_no_memory() {
        let mut numbers = Numbers::new(1 << 39, Width::Wide);
        numbers.set((1 << 39) - 1, 1 << 39);
        numbers.set(5, 0);
        assert_eq!(numbers.get((1 << 39) - 1), 1 << 39);
        let Numbers::Wide { chunks, .. } = numbers else { unreachable!("the entries are wide") };
        assert_eq!(chunks.iter().flatten().count(), 1);
    }
}
