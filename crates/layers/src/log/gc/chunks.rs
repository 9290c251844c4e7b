//! The chunks of the victim's row: which can't be used as they were read, and which were rebuilt.
//!
//! Invariant: a chunk is rebuilt once; what is wrong in it after that can't be brought back.

/// See the module text. Chunks are sets of bits.
#[derive(Clone, Copy, Debug, Default)]
pub struct Chunks {
    /// How many the row has.
    count: u32,
    /// Those that can't be read, or hold something wrong, and were not rebuilt.
    bad: u32,
    /// Those that were rebuilt, or could not be.
    rebuilt: u32,
    /// Those of which the medium is to be blamed, and of which nothing was told yet.
    flawed: u32,
}

impl Chunks {
    /// Of a row of so many, none of which was read.
    pub fn new(count: u32) -> Self {
        Chunks { count, ..Chunks::default() }
    }

    /// How many the row has.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// A chunk can't be used as it was read.
    pub fn distrust(&mut self, chunk: u8) {
        assert!(!self.is_rebuilt(chunk), "a chunk is rebuilt once");
        self.bad |= 1 << chunk;
    }

    /// The medium is to be blamed for a chunk.
    pub fn blame(&mut self, chunk: u8) {
        self.flawed |= 1 << chunk;
    }

    /// Whether a chunk was rebuilt, or could not be.
    pub fn is_rebuilt(&self, chunk: u8) -> bool {
        self.rebuilt >> chunk & 1 == 1
    }

    /// Whether a chunk has to be rebuilt.
    pub fn any_bad(&self) -> bool {
        self.bad != 0
    }

    /// The next chunk that has to be rebuilt, which is begun.
    pub fn begin_rebuild(&mut self) -> Option<u8> {
        let chunk = self.any_bad().then(|| self.bad.trailing_zeros() as u8)?;
        self.bad &= !(1 << chunk);
        self.rebuilt |= 1 << chunk;
        Some(chunk)
    }

    /// Whether anything is to be told.
    pub fn any_flawed(&self) -> bool {
        self.flawed != 0
    }

    /// The next chunk of which something is to be told, which is done now.
    pub fn take_flawed(&mut self) -> Option<u8> {
        let chunk = self.any_flawed().then(|| self.flawed.trailing_zeros() as u8)?;
        self.flawed &= !(1 << chunk);
        Some(chunk)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_rebuilt_and_told_once() {
        let mut chunks = Chunks::new(3);
        chunks.distrust(2);
        chunks.distrust(0);
        chunks.blame(2);
        assert_eq!((chunks.begin_rebuild(), chunks.begin_rebuild()), (Some(0), Some(2)));
        assert!(!chunks.any_bad() && chunks.begin_rebuild().is_none() && chunks.is_rebuilt(2));
        assert_eq!((chunks.take_flawed(), chunks.take_flawed()), (Some(2), None));
        assert_eq!(chunks.count(), 3);
    }

    #[test]
    #[should_panic(expected = "rebuilt once")]
    fn a_chunk_that_was_rebuilt_is_not_rebuilt_again() {
        let mut chunks = Chunks::new(1);
        chunks.distrust(0);
        chunks.begin_rebuild();
        chunks.distrust(0);
    }
}
