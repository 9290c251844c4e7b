//! Progress of writing the superblock of a complete copy, which decides which of two devices is the
//! member.

use std::sync::atomic::{AtomicU8, Ordering::SeqCst};

/// State of the handover from a device to its copy, shared between threads.
#[derive(Debug, Default)]
pub(crate) struct Handover(AtomicU8);

const WITHDRAWN: u8 = 1;
const BEGUN: u8 = 2;
const DURABLE: u8 = 3;

impl Handover {
    /// Starts writing the superblock. Returns false when the copy was withdrawn.
    pub(crate) fn begin(&self) -> bool {
        // One atomic step, so that a timeout and the writer's thread cannot both decide.
        self.0.compare_exchange(0, BEGUN, SeqCst, SeqCst).is_ok()
    }

    /// Withdraws the copy. Returns false when its superblock may be written already.
    pub(crate) fn withdraw(&self) -> bool {
        self.0.compare_exchange(0, WITHDRAWN, SeqCst, SeqCst).is_ok()
    }

    /// Records that both copies of the superblock are durable: the new device is the member.
    pub(crate) fn done(&self) {
        self.0.store(DURABLE, SeqCst);
    }

    /// Returns whether the new device is the member.
    pub(crate) fn is_done(&self) -> bool {
        self.0.load(SeqCst) == DURABLE
    }
}
