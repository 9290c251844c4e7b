//! Looks whether the second parity of a row agrees with a chunk that was made, or the first one
//! with a second that was made.
//!
//! Records have checksums, but a row holds more: its head, and what lies between records. What is
//! wrong there on one device goes into a chunk that is made from it. Such a chunk agrees with the
//! parity that it was made from, and not with the other one: of two more devices that are lost, one
//! would take records along. So the other parity is read, and all data chunks are added to it by
//! their factors: that sum must be nothing. The chunk that was made is added once more, and then
//! the sum must have the checksum of that chunk.

use hostftl_core::field::power;
use hostftl_core::{ArrayVec, Cause, Command, Factors, MAX_PIECES, Target, View};

use crate::kit::shell::Ended;
use crate::log::buffers::{Buffer, Buffers};
use crate::log::redundancy::rebuild::Chunk;

/// See the module text. The chunk that was made lies in the buffer of the lane's sum, the others in
/// their own; the second sum is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Agree {
    lane: u8,
    /// The chunk that was made, and the parity that has to agree.
    made: Chunk,
    parity: u8,
    /// Data chunks of the row, and sectors of each.
    count: u32,
    sectors: u32,
    step: Step,
    /// Whether the step is under way.
    asked: bool,
}

/// What comes next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The parity is read.
    Read,
    /// What is in the sum from this number on is added: the data chunks, and then the one that was
    /// made if that is a parity.
    Add(u32),
    /// The checksum of the chunk that was made, and, when that is known, that of the sum.
    Checksum(Option<u32>),
    /// It is known.
    Over(bool),
}

impl Agree {
    /// Of a chunk that a lane made of a row of so many data chunks, each of so many sectors, and of
    /// the parity that it was made without.
    pub(super) fn new(lane: u8, made: Chunk, parity: u8, (count, sectors): (u32, u32)) -> Self {
        assert_ne!(made, Chunk::Parity(parity), "it agrees with itself");
        Agree { lane, made, parity, count, sectors, step: Step::Read, asked: false }
    }

    /// Whether the parity agrees, when that is known.
    pub(super) fn verdict(&self) -> Option<bool> {
        if let Step::Over(agrees) = self.step { Some(agrees) } else { None }
    }

    /// The parity.
    pub(super) fn parity(&self) -> u8 {
        self.parity
    }

    /// The next command, where the parity lies at `place`; none while one is under way, or when all
    /// is known.
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
        let of = if self.step == Step::Checksum(None) { sum } else { second };
        let from = buffers.at(of).view_sectors(0, self.sectors);
        Some(Command::Digest { from, seed: 0 })
    }

    /// What comes into the sum from a number on, as much as one command adds.
    fn summands(
        &mut self,
        first: u32,
        buffers: &mut Buffers,
    ) -> (ArrayVec<View, MAX_PIECES>, Factors) {
        let (mut from, mut factors) = (ArrayVec::<View, MAX_PIECES>::new(), Factors::ADD);
        let mut next = first;
        while next <= self.count && from.len() < MAX_PIECES {
            let (factor, of) = self.summand(next);
            if factor > 0 {
                factors.new[from.len()] = factor;
                from.push(buffers.at(of).view_sectors(0, self.sectors));
            }
            next += 1;
        }
        self.step = Step::Add(next);
        (from, factors)
    }

    /// The factor of what has a number in the sum, and where that lies.
    fn summand(&self, number: u32) -> (u8, Buffer) {
        let factor = match self.parity {
            _ if number == self.count => 0,
            0 => 1,
            _ => power(number),
        };
        let is_made = match self.made {
            Chunk::Data(chunk) => u32::from(chunk) == number,
            Chunk::Parity(_) => number == self.count,
        };
        if is_made {
            (factor ^ 1, Buffer::GcSum(self.lane))
        } else {
            (factor, Buffer::Gc(self.lane, number as u8))
        }
    }

    /// The command is over.
    pub(super) fn done(&mut self, command: Command, result: Ended, buffers: &mut Buffers) {
        assert!(self.asked, "a command that is over was asked for: {self:?}");
        self.asked = false;
        let second = Buffer::GcSecond(self.lane);
        self.step = match (self.step, command) {
            (Step::Read, Command::Read { into: Target::Data(view), .. }) => {
                buffers.at(second).repay_mut(view);
                if result.is_ok() { Step::Add(0) } else { Step::Over(false) }
            }
            (Step::Add(next), Command::Fold { from, into, .. }) => {
                from.into_iter().for_each(|view| buffers.repay_gc(self.lane, view));
                buffers.at(second).repay_mut(into);
                Step::Add(next)
            }
            (Step::Checksum(made), Command::Digest { from, .. }) => {
                buffers.repay_gc(self.lane, from);
                let crc = result.expect("a checksum in memory can't fail").crc;
                made.map_or(Step::Checksum(Some(crc)), |made| Step::Over(made == crc))
            }
            (step, command) => unreachable!("{command:?} is not {step:?}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_made_is_once_more_in_the_sum() {
        let factors = |made, parity| {
            let it = Agree::new(0, made, parity, (3, 64));
            [0, 1, 2, 3].map(|number| it.summand(number).0)
        };
        assert_eq!(factors(Chunk::Data(1), 1), [1, 2 ^ 1, 4, 0]);
        assert_eq!(factors(Chunk::Data(0), 1), [0, 2, 4, 0]);
        assert_eq!(factors(Chunk::Parity(0), 1), [1, 2, 4, 1]);
        assert_eq!(factors(Chunk::Parity(1), 0), [1, 1, 1, 1]);
    }
}
