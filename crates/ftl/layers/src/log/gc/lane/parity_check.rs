//! Checks that the other parity of a stripe is consistent with a rebuilt chunk.
//!
//! Records have checksums, but a stripe also contains its head and the gaps between records. Damage
//! there on one device propagates into a chunk that is rebuilt from it. Such a chunk is consistent
//! with the parity that it was rebuilt from, but not with the other one. If two more devices then
//! failed, records would be lost. The check therefore reads the other parity and adds all data
//! chunks with their factors; the sum must be zero. The rebuilt chunk is added once more, so the
//! sum must have the same checksum as that chunk.

use hostftl_core::field::power;
use hostftl_core::{ArrayVec, Cause, Command, Factors, MAX_PIECES, Target, View};

use crate::kit::shell::Ended;
use crate::log::buffers::{Buffer, Buffers};
use crate::log::redundancy::rebuild::Chunk;

/// The state of a check. The rebuilt chunk is in the sum buffer of the lane, and the other chunks
/// are in their own buffers. The buffer of the second parity holds the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ParityCheck {
    lane: u8,
    /// The rebuilt chunk, and the parity that is checked.
    made: Chunk,
    parity: u8,
    /// Data chunks of the stripe, and sectors per chunk.
    count: u32,
    sectors: u32,
    step: Step,
    /// Whether a command of the step is in flight.
    asked: bool,
}

/// The next step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Read the parity.
    Read,
    /// Add summands from this number on: the data chunks, then the rebuilt chunk if that is a
    /// parity.
    Add(u32),
    /// Compute the checksum of the rebuilt chunk, and then that of the sum.
    Checksum(Option<u32>),
    /// The check is complete; true if the parity is consistent.
    Over(bool),
}

impl ParityCheck {
    /// Creates a check of `parity` against a chunk that the lane rebuilt without it. The stripe has
    /// `count` data chunks of `sectors` sectors.
    pub(super) fn new(lane: u8, made: Chunk, parity: u8, (count, sectors): (u32, u32)) -> Self {
        assert_ne!(made, Chunk::Parity(parity), "a chunk agrees with itself");
        ParityCheck { lane, made, parity, count, sectors, step: Step::Read, asked: false }
    }

    /// Returns whether the parity is consistent, once the check is complete.
    pub(super) fn verdict(&self) -> Option<bool> {
        if let Step::Over(agrees) = self.step { Some(agrees) } else { None }
    }

    /// Returns the parity that is checked.
    pub(super) fn parity(&self) -> u8 {
        self.parity
    }

    /// Returns the next command; `place` is the place of the parity. Returns `None` while a command
    /// is in flight or when the check is complete.
    pub(super) fn next(&mut self, place: (u8, u64), buffers: &mut Buffers) -> Option<Command> {
        if self.asked || self.verdict().is_some() {
            return None;
        }
        self.asked = true;
        let (sum, second) = (Buffer::GcSum(self.lane), Buffer::GcSecond(self.lane));
        match self.step {
            Step::Read => {
                let into = Target::Data(buffers.at(second).view_mut_sectors(0, self.sectors));
                let (device, lba) = place;
                return Some(Command::Read { device, lba, into, cause: Cause::Gc });
            }
            Step::Add(first) => {
                let (from, factors) = self.summands(first, buffers);
                if !from.is_empty() {
                    let into = buffers.at(second).view_mut_sectors(0, self.sectors);
                    return Some(Command::Fold { from, into, factors });
                }
                self.step = Step::Checksum(None);
            }
            Step::Checksum(_) | Step::Over(_) => {}
        }
        let buffer = if self.step == Step::Checksum(None) { sum } else { second };
        let from = buffers.at(buffer).view_sectors(0, self.sectors);
        Some(Command::Digest { from, seed: 0 })
    }

    /// Returns the summands from a number on, as many as one command can add, and their factors.
    fn summands(
        &mut self,
        first: u32,
        buffers: &mut Buffers,
    ) -> (ArrayVec<View, MAX_PIECES>, Factors) {
        let (mut from, mut factors) = (ArrayVec::<View, MAX_PIECES>::new(), Factors::ADD);
        let mut next = first;
        while next <= self.count && from.len() < MAX_PIECES {
            let (factor, buffer) = self.summand(next);
            if factor > 0 {
                factors.new[from.len()] = factor;
                from.push(buffers.at(buffer).view_sectors(0, self.sectors));
            }
            next += 1;
        }
        self.step = Step::Add(next);
        (from, factors)
    }

    /// Returns the factor and the buffer of a summand.
    fn summand(&self, number: u32) -> (u8, Buffer) {
        let factor = match self.parity {
            // This number is not a data chunk, but the place of a rebuilt parity.
            _ if number == self.count => 0,
            0 => 1,
            _ => power(number),
        };
        let is_made = match self.made {
            Chunk::Data(chunk) => u32::from(chunk) == number,
            Chunk::Parity(_) => number == self.count,
        };
        if is_made {
            // The rebuilt chunk is added once more, with factor 1.
            (factor ^ 1, Buffer::GcSum(self.lane))
        } else {
            (factor, Buffer::Gc(self.lane, number as u8))
        }
    }

    /// Processes a completed command.
    pub(super) fn done(&mut self, command: Command, result: Ended, buffers: &mut Buffers) {
        assert!(self.asked, "unexpected completion: {self:?}");
        self.asked = false;
        let second = Buffer::GcSecond(self.lane);
        self.step = match (self.step, command) {
            (Step::Read, Command::Read { into: Target::Data(view), .. }) => {
                buffers.at(second).repay_mut(view);
                // An unreadable parity cannot confirm the chunk.
                if result.is_ok() { Step::Add(0) } else { Step::Over(false) }
            }
            (Step::Add(next), Command::Fold { from, into, .. }) => {
                from.into_iter().for_each(|view| buffers.repay_gc(self.lane, view));
                buffers.at(second).repay_mut(into);
                Step::Add(next)
            }
            (Step::Checksum(made), Command::Digest { from, .. }) => {
                buffers.repay_gc(self.lane, from);
                let crc = result.expect("a checksum in memory succeeds").crc;
                made.map_or(Step::Checksum(Some(crc)), |made| Step::Over(made == crc))
            }
            (step, command) => unreachable!("{command:?} does not belong to {step:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rebuilt_chunk_is_added_to_the_sum() {
        let factors = |made, parity| {
            let it = ParityCheck::new(0, made, parity, (3, 64));
            [0, 1, 2, 3].map(|number| it.summand(number).0)
        };
        assert_eq!(factors(Chunk::Data(1), 1), [1, 2 ^ 1, 4, 0]);
        assert_eq!(factors(Chunk::Data(0), 1), [0, 2, 4, 0]);
        assert_eq!(factors(Chunk::Parity(0), 1), [1, 2, 4, 1]);
        assert_eq!(factors(Chunk::Parity(1), 0), [1, 1, 1, 1]);
    }
}
