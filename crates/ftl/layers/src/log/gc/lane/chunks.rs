//! The chunks of a stripe: the sectors that were read, the chunks that are unusable, and the chunks
//! that were rebuilt.
//!
//! Invariant: a chunk is rebuilt once from each combination of other chunks. Damage that remains
//! after the last one is permanent.

use crate::log::redundancy::rebuild::Rebuild;

/// State of the chunks of a stripe. Sets of chunks are bit masks.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Chunks {
    /// Number of data chunks.
    count: u32,
    /// For each chunk, the sectors in its buffer as they were read: the first and their number.
    here: [(u32, u32); 16],
    /// Chunks that are unreadable or damaged and have not been rebuilt.
    bad: u32,
    /// Chunks that were rebuilt or for which that failed.
    rebuilt: u32,
    /// Another way to rebuild each of these chunks, if there is one.
    ways: [Option<Rebuild>; 16],
    /// Chunks with a media fault or a checksum error that has not been reported.
    flawed: u32,
}

impl Chunks {
    /// Creates the state of a stripe of `count` chunks, none of which was read.
    pub(super) fn new(count: u32) -> Self {
        Chunks { count, ..Chunks::default() }
    }

    /// Returns the state of a stripe of `count` chunks; sectors read before its head was known are
    /// kept.
    #[must_use]
    pub(super) fn with_count(self, count: u32) -> Self {
        // The speculative rebuild has read sectors that a second one need not read again.
        Chunks { count, here: self.here, ..Chunks::default() }
    }

    /// Returns the number of data chunks.
    pub(super) fn count(&self) -> u32 {
        self.count
    }

    /// Records that sectors of a chunk are being read into its buffer: the first and their number.
    pub(super) fn is_read(&mut self, chunk: u8, range: (u32, u32)) {
        self.here[usize::from(chunk)] = range;
    }

    /// Records that a chunk could not be read.
    pub(super) fn is_not_here(&mut self, chunk: u8) {
        self.here[usize::from(chunk)] = (0, 0);
    }

    /// Returns whether the buffer of a chunk contains these sectors: the first and their number.
    pub(super) fn has(&self, chunk: u8, (from, sectors): (u32, u32)) -> bool {
        let (first, all) = self.here[usize::from(chunk)];
        first <= from && from + sectors <= first + all
    }

    /// Marks a chunk as unusable, either as it was read or as it was rebuilt. Returns false if no
    /// way to rebuild it is left.
    pub(super) fn distrust(&mut self, chunk: u8) -> bool {
        // A chunk is rebuilt once with each combination of sources.
        let may_help = !self.is_rebuilt(chunk) || self.ways[usize::from(chunk)].is_some();
        self.bad |= u32::from(may_help) << chunk;
        may_help
    }

    /// Records a fault of a chunk that must be reported.
    pub(super) fn blame(&mut self, chunk: u8) {
        self.flawed |= 1 << chunk;
    }

    /// Returns whether a rebuild of the chunk was attempted.
    pub(super) fn is_rebuilt(&self, chunk: u8) -> bool {
        self.rebuilt >> chunk & 1 == 1
    }

    /// Returns whether a chunk must be rebuilt.
    pub(super) fn any_bad(&self) -> bool {
        self.bad != 0
    }

    /// Begins the next rebuild. Returns the chunk and, for a second attempt, the way to rebuild it.
    pub(super) fn begin_rebuild(&mut self) -> Option<(u8, Option<Rebuild>)> {
        let chunk = self.any_bad().then(|| self.bad.trailing_zeros() as u8)?;
        self.bad &= !(1 << chunk);
        self.rebuilt |= 1 << chunk;
        Some((chunk, self.ways[usize::from(chunk)].take()))
    }

    /// Records that a chunk was rebuilt, and another way to rebuild it in case the result is wrong.
    pub(super) fn was_rebuilt(&mut self, chunk: u8, other: Option<Rebuild>) {
        assert!(self.is_rebuilt(chunk), "the read was started");
        self.ways[usize::from(chunk)] = other;
    }

    /// Returns whether a fault must be reported.
    pub(super) fn any_flawed(&self) -> bool {
        self.flawed != 0
    }

    /// Takes the next chunk whose fault must be reported.
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
    use crate::log::chunk_placement::ChunkPlacement;
    use crate::log::redundancy::rebuild::Chunk;

    #[test]
    fn a_chunk_is_rebuilt_and_reported_once() {
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
    fn read_chunks_count_as_present_until_disproved() {
        let mut chunks = Chunks::new(3);
        chunks.is_read(1, (8, 16));
        assert!(chunks.has(1, (8, 16)) && chunks.has(1, (16, 8)));
        assert!(!chunks.has(1, (0, 16)) && !chunks.has(1, (16, 16)) && !chunks.has(0, (8, 8)));
        chunks.is_not_here(1);
        assert!(!chunks.has(1, (8, 8)));
    }

    #[test]
    fn a_wrong_rebuild_is_retried_with_other_sources() {
        let placement = ChunkPlacement::new(DeviceSet::first_n(3), 2);
        let first =
            Rebuild::new(placement, (0, 0), Chunk::Data(0), 1, DeviceSet::EMPTY).expect("a way");
        let mut chunks = Chunks::new(1);
        assert!(chunks.distrust(0) && chunks.begin_rebuild().is_some());
        let second = first.again();
        chunks.was_rebuilt(0, second);
        assert!(second.is_some() && chunks.distrust(0));
        assert_eq!(chunks.begin_rebuild(), Some((0, second)));
        assert!(!chunks.distrust(0) && !chunks.any_bad(), "nothing helps");
    }
}
