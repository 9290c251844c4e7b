//! Which volume it is, which of its lives, and how blocks are told from their older versions.

use hostftl_format::log::GENERATIONS;

/// What heads, roots and records carry, so that nobody takes them for another volume's, or for an
/// earlier life's.
#[derive(Clone, Copy, Debug)]
pub(super) struct Volume {
    /// The volume.
    pub uuid: [u8; 16],
    /// The number of this life; each start begins one.
    pub life: u32,
}

/// The version that a block was given last; it goes into checksums and the map.
#[derive(Debug, Default)]
pub(super) struct Generation(u8);

impl Generation {
    /// The version that was given last.
    pub(super) fn last(&self) -> u8 {
        self.0
    }

    /// Recovery found this to be the last version.
    pub(super) fn go_on_behind(&mut self, generation: u8) {
        self.0 = generation;
    }

    /// The version of the next block.
    pub(super) fn next(&mut self) -> u8 {
        self.0 = self.0.wrapping_add(1) % GENERATIONS;
        self.0
    }
}
