//! The chunks of the victim's row: what of them was read, which can't be used as they were read,
//! and which were rebuilt.
//!
//! Invariant: a chunk is rebuilt once in each way; what is wrong in it after the last one can't be
//! brought back.

use crate::log::redundancy::rebuild::Rebuild;

/// See the module text. Chunks are sets of bits.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chunks {
    /// How many the row has.
    count: u32,
    /// Of each, the sectors that its buffer has as they were read: the first, and how many.
    here: [(u32, u32); 16],
    /// Those that can't be read, or hold something wrong, and were not rebuilt.
    bad: u32,
    /// Those that were rebuilt, or could not be.
    rebuilt: u32,
    /// How each of these may be rebuilt again.
    ways: [Option<Rebuild>; 16],
    /// Those of which the medium is to be blamed, and of which nothing was told yet.
    flawed: u32,
}

impl Chunks {
    /// Of a row of so many, none of which was read.
    pub(super) fn new(count: u32) -> Self {
        Chunks { count, ..Chunks::default() }
    }

    /// Of a row of so many, of which some may have been read before its head was known.
    #[must_use]
    pub(super) fn of_row(self, count: u32) -> Self {
        Chunks { count, here: self.here, ..Chunks::default() }
    }

    /// How many the row has.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Sectors of a chunk are read into its buffer: the first, and how many.
    pub(super) fn is_read(&mut self, chunk: u8, range: (u32, u32)) {
        self.here[usize::from(chunk)] = range;
    }

    /// A chunk could not be read.
    pub(super) fn is_not_here(&mut self, chunk: u8) {
        self.here[usize::from(chunk)] = (0, 0);
    }

    /// Whether the buffer of a chunk has these sectors: the first, and how many.
    pub(super) fn has(&self, chunk: u8, (from, sectors): (u32, u32)) -> bool {
        let (first, all) = self.here[usize::from(chunk)];
        first <= from && from + sectors <= first + all
    }

    /// A chunk can't be used as it was read, or rebuilt. False when nothing helps.
    pub(super) fn distrust(&mut self, chunk: u8) -> bool {
        let may_help = !self.is_rebuilt(chunk) || self.ways[usize::from(chunk)].is_some();
        self.bad |= u32::from(may_help) << chunk;
        may_help
    }

    /// The medium is to be blamed for a chunk.
    pub(super) fn blame(&mut self, chunk: u8) {
        self.flawed |= 1 << chunk;
    }

    /// Whether a chunk was rebuilt, or could not be.
    pub(super) fn is_rebuilt(&self, chunk: u8) -> bool {
        self.rebuilt >> chunk & 1 == 1
    }

    /// Whether a chunk has to be rebuilt.
    pub(super) fn any_bad(&self) -> bool {
        self.bad != 0
    }

    /// The next chunk that has to be rebuilt, which is begun, and the way if there was one before.
    pub(super) fn begin_rebuild(&mut self) -> Option<(u8, Option<Rebuild>)> {
        let chunk = self.any_bad().then(|| self.bad.trailing_zeros() as u8)?;
        self.bad &= !(1 << chunk);
        self.rebuilt |= 1 << chunk;
        Some((chunk, self.ways[usize::from(chunk)].take()))
    }

    /// A chunk was rebuilt; if it is wrong all the same, there may be another way.
    pub(super) fn was_rebuilt(&mut self, chunk: u8, other: Option<Rebuild>) {
        assert!(self.is_rebuilt(chunk), "it was begun");
        self.ways[usize::from(chunk)] = other;
    }

    /// Whether anything is to be told.
    pub(super) fn any_flawed(&self) -> bool {
        self.flawed != 0
    }

    /// The next chunk of which something is to be told, which is done now.
    pub(super) fn take_flawed(&mut self) -> Option<u8> {
        let chunk = self.any_flawed().then(|| self.flawed.trailing_zeros() as u8)?;
        self.flawed &= !(1 << chunk);
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::DeviceSet;

    use super::*;
    use crate::log::redundancy::rebuild::Chunk;
    use crate::log::stripe::Stripe;

    #[test]
    fn a_chunk_is_rebuilt_and_told_once() {
        let mut chunks = Chunks::new(3);
        assert!(chunks.distrust(2) && chunks.distrust(0));
        chunks.blame(2);
        let begun = [chunks.begin_rebuild(), chunks.begin_rebuild()];
        assert_eq!(begun, [Some((0, None)), Some((2, None))]);
        assert!(!chunks.any_bad() && chunks.begin_rebuild().is_none() && chunks.is_rebuilt(2));
        assert_eq!((chunks.take_flawed(), chunks.take_flawed()), (Some(2), None));
        assert_eq!(chunks.count(), 3);
    }

    #[test]
    fn what_was_read_of_a_chunk_is_here_until_it_turns_out_otherwise() {
        let mut chunks = Chunks::new(3);
        chunks.is_read(1, (8, 16));
        assert!(chunks.has(1, (8, 16)) && chunks.has(1, (16, 8)));
        assert!(!chunks.has(1, (0, 16)) && !chunks.has(1, (16, 16)) && !chunks.has(0, (8, 8)));
        chunks.is_not_here(1);
        assert!(!chunks.has(1, (8, 8)));
    }

    #[test]
    fn a_chunk_that_was_rebuilt_is_rebuilt_again_in_another_way_if_there_is_one() {
        let stripe = Stripe::new(DeviceSet::first_n(3), 2);
        let first =
            Rebuild::new(stripe, (0, 0), Chunk::Data(0), 1, DeviceSet::EMPTY).expect("a way");
        let mut chunks = Chunks::new(1);
        assert!(chunks.distrust(0) && chunks.begin_rebuild().is_some());
        let second = first.again();
        chunks.was_rebuilt(0, second);
        assert!(second.is_some() && chunks.distrust(0));
        assert_eq!(chunks.begin_rebuild(), Some((0, second)));
        assert!(!chunks.distrust(0) && !chunks.any_bad(), "nothing helps");
    }
}
