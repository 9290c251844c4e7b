//! Which flush of each device covers what: whether something is durable is asked here.
//!
//! Invariants
//! - Flushes of a device have numbers, and `covered` only grows: what was complete before flush `n`
//!   began is durable when `n` is covered.

/// See the module text. Devices are the fast one and the slow one.
#[derive(Debug)]
pub(crate) struct Flushes {
    /// Flushes begun, of each device; that of the commit under way is one less.
    begun: [u32; 2],
    covered: [u32; 2],
    /// Whether something was written since the last flush began.
    unflushed: [bool; 2],
}

impl Flushes {
    /// Nothing was written.
    pub(crate) fn new() -> Self {
        Flushes { begun: [1; 2], covered: [0; 2], unflushed: [false; 2] }
    }

    /// Flushes of a device begun so far: what is complete now the next one covers.
    pub(crate) fn begun(&self, device: u8) -> u32 {
        self.begun[usize::from(device)]
    }

    /// The newest flush of each device that is over.
    pub(crate) fn covered(&self) -> [u32; 2] {
        self.covered
    }

    /// Something was written to a device.
    pub(crate) fn changed(&mut self, device: u8) {
        self.unflushed[usize::from(device)] = true;
    }

    /// Whether a flush of one of the devices would find something.
    pub(crate) fn is_any_pending(&self) -> bool {
        self.unflushed != [false; 2]
    }

    /// A commit covers a device. Whether that takes a flush; else all is durable already.
    pub(crate) fn begin(&mut self, device: u8) -> bool {
        let index = usize::from(device);
        self.begun[index] += 1;
        let pending = core::mem::take(&mut self.unflushed[index]);
        if !pending {
            self.cover(device);
        }
        pending
    }

    /// What a commit wrote is flushed.
    pub(crate) fn begin_seal(&mut self, device: u8) {
        self.unflushed[usize::from(device)] = false;
        self.begun[usize::from(device)] += 1;
    }

    /// The flush with which a commit began is over.
    pub(crate) fn cover(&mut self, device: u8) {
        let index = usize::from(device);
        assert!(self.covered[index] < self.begun[index], "a flush is over after it began");
        self.covered[index] = self.begun[index] - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_after_a_flush_began_is_not_covered_by_it() {
        let mut flushes = Flushes::new();
        flushes.changed(0);
        let before = flushes.begun(0);
        assert!(flushes.is_any_pending() && flushes.begin(0));
        let meanwhile = flushes.begun(0);
        flushes.changed(0);
        flushes.cover(0);
        assert!(before <= flushes.covered()[0] && meanwhile > flushes.covered()[0]);
        assert!(flushes.begin(0), "what came meanwhile takes a flush of its own");
        assert!(!flushes.begin(1), "nothing was written there");
        assert_eq!(flushes.covered()[1], flushes.begun(1) - 1);
    }
}
