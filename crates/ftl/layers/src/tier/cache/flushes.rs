//! Flush numbers of each device, which decide whether data is durable.
//!
//! Invariants
//! - The flushes of a device are numbered, and `covered` only grows. Data that was complete before
//!   flush `n` started is durable once `n` is covered.

/// Flush numbers by device: the fast one, the slow one.
#[derive(Debug)]
pub(crate) struct Flushes {
    /// Number of the next flush of each device. The flush of the commit in progress has the number
    /// before it.
    begun: [u32; 2],
    covered: [u32; 2],
    /// Whether a device was written since its last flush started.
    unflushed: [bool; 2],
}

impl Flushes {
    /// Creates the state before any write.
    pub(crate) fn new() -> Self {
        Flushes { begun: [1; 2], covered: [0; 2], unflushed: [false; 2] }
    }

    /// Returns the number of a device's next flush, which covers all data that is complete now.
    pub(crate) fn begun(&self, device: u8) -> u32 {
        self.begun[usize::from(device)]
    }

    /// Returns the newest completed flush of each device.
    pub(crate) fn covered(&self) -> [u32; 2] {
        self.covered
    }

    /// Notes a write to a device.
    pub(crate) fn changed(&mut self, device: u8) {
        self.unflushed[usize::from(device)] = true;
    }

    /// Returns whether a flush of either device is necessary.
    pub(crate) fn is_any_pending(&self) -> bool {
        self.unflushed != [false; 2]
    }

    /// Starts the coverage of a device by a commit. Returns whether that needs a flush; otherwise
    /// everything is durable already.
    pub(crate) fn begin(&mut self, device: u8) -> bool {
        let index = usize::from(device);
        self.begun[index] += 1;
        let pending = core::mem::take(&mut self.unflushed[index]);
        if !pending {
            self.cover(device);
        }
        pending
    }

    /// Starts the flush of pages that a commit wrote.
    pub(crate) fn begin_seal(&mut self, device: u8) {
        self.unflushed[usize::from(device)] = false;
        self.begun[usize::from(device)] += 1;
    }

    /// Notes the completion of a commit's first flush of a device.
    pub(crate) fn cover(&mut self, device: u8) {
        let index = usize::from(device);
        assert!(self.covered[index] < self.begun[index], "a finished flush was started");
        self.covered[index] = self.begun[index] - 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_does_not_cover_later_writes() {
        let mut flushes = Flushes::new();
        flushes.changed(0);
        let before = flushes.begun(0);
        assert!(flushes.is_any_pending() && flushes.begin(0));
        let meanwhile = flushes.begun(0);
        flushes.changed(0);
        flushes.cover(0);
        assert!(before <= flushes.covered()[0] && meanwhile > flushes.covered()[0]);
        assert!(flushes.begin(0), "later changes need another flush");
        assert!(!flushes.begin(1), "nothing was written there");
        assert_eq!(flushes.covered()[1], flushes.begun(1) - 1);
    }
}
