//! The interface of placement rules, which assign writes and copies to classes, and the simplest
//! rule.

/// Age of a block that was never written.
pub const NEVER: u64 = u64::MAX;

/// A placement rule. Ages are numbers of host writes since the last write of the block.
pub trait Placement {
    /// Returns the number of classes. Each has an open segment.
    fn classes(&self) -> u8;

    /// Assigns classes to the next writes of the host, in order. A new block has age [`NEVER`].
    fn of_writes(&mut self, lbas: &[u32], ages: &[u64], classes: &mut [u8]);

    /// Assigns classes to copies from a segment of class `from`.
    fn of_copies(&mut self, lbas: &[u32], ages: &[u64], from: u8, classes: &mut [u8]);

    /// Records that a segment of `class` is collected, `lifespan` host writes after its first
    /// block.
    fn collected(&mut self, class: u8, lifespan: u64) {
        let _ = (class, lifespan);
    }
}

/// One class for all blocks, or a second class for copies.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    /// Whether copies have a separate class.
    pub parted: bool,
}

impl Placement for Plain {
    fn classes(&self) -> u8 {
        1 + u8::from(self.parted)
    }

    fn of_writes(&mut self, _lbas: &[u32], _ages: &[u64], classes: &mut [u8]) {
        classes.fill(0);
    }

    fn of_copies(&mut self, _lbas: &[u32], _ages: &[u64], _from: u8, classes: &mut [u8]) {
        classes.fill(u8::from(self.parted));
    }
}
