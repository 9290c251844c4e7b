//! Identity of a volume and of its lives, and version numbers of blocks.

use hostftl_format::log::GENERATIONS;

/// Identity in heads, roots and records, so that those of another volume or an earlier life are not
/// accepted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Volume {
    /// UUID of the volume.
    pub uuid: [u8; 16],
    /// Number of this life; each start begins a new one.
    pub life: u32,
}

/// Last version number given to a block, which is part of checksums and of the map.
#[derive(Debug, Default)]
pub(super) struct Generation(u8);

impl Generation {
    /// Returns the last version number.
    pub(super) fn last(&self) -> u8 {
        self.0
    }

    /// Continues after the last version number found by recovery.
    pub(super) fn continue_after(&mut self, generation: u8) {
        self.0 = generation;
    }

    /// Returns the version number of the next block.
    pub(super) fn next(&mut self) -> u8 {
        self.0 = self.0.wrapping_add(1) % GENERATIONS;
        self.0
    }
}
