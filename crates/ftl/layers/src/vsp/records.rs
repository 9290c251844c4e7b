//! State of each superpage, packed into the minimum number of bytes for this volume. With a fixed
//! memory budget, smaller records allow a larger data area.
//!
//! Invariants
//! - A record consists of, from the lowest bit on: valid count, state, pin, number of readers, and
//!   two links. A link is the number of a superpage plus one, or 0 for none.

use alloc::vec;
use alloc::vec::Vec;

use super::pool::State;

/// Bits of the valid count; a superpage has at most 2048 slots.
const VALID: u32 = 12;
/// Bits of the state, which has eight values for staging buffers.
const STATE: u32 = 4;
/// Bits of the number of readers, which is below the number of commands in flight.
const READERS: u32 = 10;
/// First bits of the state, pin, readers and links.
const STATE_AT: u32 = VALID;
const PIN_AT: u32 = STATE_AT + STATE;
const READERS_AT: u32 = PIN_AT + 1;
const LINKS_AT: u32 = READERS_AT + READERS;
/// Bytes after the last record, so that each record can be read as words.
const MARGIN: usize = (LINKS_AT / 8) as usize + size_of::<u64>();

/// States other than `Staged` in a staging buffer.
const STATES: [State; 8] = [
    State::Free,
    State::Log,
    State::Full,
    State::Victim,
    State::Limbo,
    State::Stuck,
    State::Home,
    State::Staged(u8::MAX),
];

/// The packed records of all superpages.
#[derive(Debug)]
pub(crate) struct Records {
    count: u32,
    bytes: usize,
    link: u32,
    memory: Vec<u8>,
}

/// Returns the bits of a link.
fn link_bits(count: u32) -> u32 {
    u32::BITS - count.leading_zeros()
}

/// Returns the bytes of a record.
fn bytes(count: u32) -> usize {
    (LINKS_AT + 2 * link_bits(count)).div_ceil(8) as usize
}

impl Records {
    /// Creates records of free, unlinked superpages.
    pub(crate) fn new(count: u32) -> Self {
        let (bytes, link) = (bytes(count), link_bits(count));
        Records { count, bytes, link, memory: vec![0; bytes * count as usize + MARGIN] }
    }

    /// Returns the bytes of `count` records.
    pub(crate) fn memory(count: u32) -> u64 {
        bytes(count) as u64 * u64::from(count) + MARGIN as u64
    }

    /// Returns the number of records.
    pub(crate) fn len(&self) -> u32 {
        self.count
    }

    fn at(&self, vsp: u32) -> usize {
        assert!(vsp < self.count, "a superpage of the area");
        vsp as usize * self.bytes
    }

    /// Returns the number of `bits` bits at bit `from` of a record.
    fn get(&self, vsp: u32, from: u32, bits: u32) -> u32 {
        let at = self.at(vsp);
        let word = self.memory[at..at + 4].try_into().expect("a word has its length");
        u32::from_le_bytes(word) >> from & ((1 << bits) - 1)
    }

    fn set(&mut self, vsp: u32, from: u32, bits: u32, number: u32) {
        // All fields before the links are in the first four bytes.
        assert!(number < 1 << bits, "a number fits its bits");
        let at = self.at(vsp);
        let bytes = &mut self.memory[at..at + 4];
        let word = u32::from_le_bytes((&*bytes).try_into().expect("a word has its length"));
        let word = word & !(((1 << bits) - 1) << from) | number << from;
        bytes.copy_from_slice(&word.to_le_bytes());
    }

    fn mask(&self) -> u64 {
        (1 << self.link) - 1
    }

    /// Returns the word that contains the link at bit `from` of the links, and its first bit. The
    /// lowest bits of the word belong to other fields.
    fn place(&self, vsp: u32, from: u32) -> (core::ops::Range<usize>, u32) {
        let bit = LINKS_AT + from;
        let at = self.at(vsp) + (bit / 8) as usize;
        (at..at + size_of::<u64>(), bit % 8)
    }

    fn link(&self, vsp: u32, from: u32) -> u32 {
        let (at, bit) = self.place(vsp, from);
        let word = self.memory[at].try_into().expect("a word has its length");
        let link = (u64::from_le_bytes(word) >> bit) & self.mask();
        // The stored 0 becomes `NONE`, which is `u32::MAX`.
        (link as u32).wrapping_sub(1)
    }

    fn set_link(&mut self, vsp: u32, from: u32, to: u32) {
        let ((at, bit), mask, to) = (self.place(vsp, from), self.mask(), to.wrapping_add(1));
        let bytes = &mut self.memory[at];
        let word = u64::from_le_bytes((&*bytes).try_into().expect("a word has its length"));
        let word = word & !(mask << bit) | u64::from(to) << bit;
        bytes.copy_from_slice(&word.to_le_bytes());
    }

    /// Returns the valid count.
    pub(crate) fn valid(&self, vsp: u32) -> u32 {
        self.get(vsp, 0, VALID)
    }

    /// Sets the valid count.
    pub(crate) fn set_valid(&mut self, vsp: u32, valid: u32) {
        self.set(vsp, 0, VALID, valid);
    }

    /// Returns the state.
    pub(crate) fn state(&self, vsp: u32) -> State {
        let code = self.get(vsp, STATE_AT, STATE);
        match STATES.get(code as usize) {
            Some(state) => *state,
            None => State::Staged((code as usize - STATES.len()) as u8),
        }
    }

    /// Sets the state.
    pub(crate) fn set_state(&mut self, vsp: u32, state: State) {
        let code = match STATES.iter().position(|other| *other == state) {
            Some(code) => code as u32,
            None => match state {
                State::Staged(stage) => STATES.len() as u32 + u32::from(stage),
                _ => unreachable!("every other state has a code"),
            },
        };
        self.set(vsp, STATE_AT, STATE, code);
    }

    /// Returns whether the superpage is pinned.
    pub(crate) fn pinned(&self, vsp: u32) -> bool {
        self.get(vsp, PIN_AT, 1) == 1
    }

    /// Sets whether the superpage is pinned.
    pub(crate) fn set_pinned(&mut self, vsp: u32, pinned: bool) {
        self.set(vsp, PIN_AT, 1, pinned.into());
    }

    /// Returns the number of reads in flight.
    pub(crate) fn readers(&self, vsp: u32) -> u32 {
        self.get(vsp, READERS_AT, READERS)
    }

    /// Sets the number of reads in flight.
    pub(crate) fn set_readers(&mut self, vsp: u32, readers: u32) {
        self.set(vsp, READERS_AT, READERS, readers);
    }

    /// Returns the next superpage of its list or queue, or `NONE`.
    pub(crate) fn next(&self, vsp: u32) -> u32 {
        self.link(vsp, 0)
    }

    /// Sets the next superpage.
    pub(crate) fn set_next(&mut self, vsp: u32, next: u32) {
        self.set_link(vsp, 0, next);
    }

    /// Returns the previous superpage of its list or queue, or `NONE`.
    pub(crate) fn prev(&self, vsp: u32) -> u32 {
        self.link(vsp, self.link)
    }

    /// Sets the previous superpage.
    pub(crate) fn set_prev(&mut self, vsp: u32, prev: u32) {
        self.set_link(vsp, self.link, prev);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vsp::layout::STAGES;
    use crate::vsp::ops::OPS;
    use crate::vsp::pool::NONE;

    #[test]
    fn every_state_has_a_different_code() {
        let mut records = Records::new(1);
        let staged = (0..STAGES as u8).map(State::Staged);
        for state in STATES.into_iter().chain(staged) {
            records.set_state(0, state);
            assert_eq!(records.state(0), state);
        }
        const { assert!(STATES.len() + STAGES as usize <= 1 << STATE, "a code for each") };
        const { assert!(OPS < 1 << READERS, "readers can be counted") };
    }

    #[test]
    fn records_round_trip_without_touching_neighbours() {
        for (count, bytes) in [(9_000, 7), (100_000, 8), (1 << 27, 11), (u32::MAX, 12)] {
            let few = count.min(3000);
            let mut records = Records { count: few, ..Records::new(few) };
            if count > few {
                let (link, size) = (link_bits(count), super::bytes(count));
                let memory = vec![0; size * few as usize + MARGIN];
                records = Records { count: few, bytes: size, link, memory };
            }
            assert_eq!(super::bytes(count), bytes);
            let next = |vsp: u32| if vsp.is_multiple_of(5) { NONE } else { count - 1 - vsp };
            let prev = |vsp: u32| if vsp.is_multiple_of(7) { NONE } else { vsp };
            for vsp in (0..few).rev() {
                records.set_valid(vsp, vsp % 2049);
                records.set_state(vsp, State::Staged((vsp % 8) as u8));
                records.set_pinned(vsp, vsp % 3 == 0);
                records.set_readers(vsp, vsp % 513);
                records.set_next(vsp, next(vsp));
                records.set_prev(vsp, prev(vsp));
            }
            for vsp in 0..few {
                assert_eq!(records.valid(vsp), vsp % 2049);
                assert_eq!(records.state(vsp), State::Staged((vsp % 8) as u8));
                assert_eq!(records.pinned(vsp), vsp % 3 == 0);
                assert_eq!(records.readers(vsp), vsp % 513);
                assert_eq!((records.next(vsp), records.prev(vsp)), (next(vsp), prev(vsp)));
            }
        }
    }
}
