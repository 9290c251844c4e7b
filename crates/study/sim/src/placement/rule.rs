//! The rule that assigns writes and copies to classes, and the plainest one.

/// The age of a block that was never written.
pub const NEVER: u64 = u64::MAX;

/// Which segments writes and copies go to. Ages are in blocks that the host wrote since the last
/// version of the block was written.
pub trait Placement {
    /// How many classes there are: segments that are open at the same time.
    fn classes(&self) -> u8;

    /// The class of each of the next writes of the host, in their order; [`NEVER`] is the age of a
    /// block that is new.
    fn of_writes(&mut self, lbas: &[u32], ages: &[u64], classes: &mut [u8]);

    /// The class of each copy from a segment of class `from`.
    fn of_copies(&mut self, lbas: &[u32], ages: &[u64], from: u8, classes: &mut [u8]);

    /// A segment of `class` is collected, so many blocks of the host's after its first one.
    fn collected(&mut self, class: u8, lifespan: u64) {
        let _ = (class, lifespan);
    }
}

/// All to one class, or copies to one of their own.
#[derive(Clone, Copy, Debug)]
pub struct Plain {
    /// Whether copies have a class of their own.
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
