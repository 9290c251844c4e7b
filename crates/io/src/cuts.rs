//! Cuts for tests: the process ends after a number of durable writes of the superblocks and of the
//! volume file, as a kill or a power cut would end it.
//!
//! Without the feature `cuts`, [`step`] does nothing.

#[cfg(feature = "cuts")]
mod switch {
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

    /// The steps that are left; none are counted at first.
    static LEFT: AtomicU64 = AtomicU64::new(u64::MAX);

    /// Ends the process with an abort after this many steps more.
    pub fn after(steps: u64) {
        LEFT.store(steps, SeqCst);
    }

    /// Counts a durable write.
    pub fn step() {
        let less = |left: u64| (left != u64::MAX).then(|| left.saturating_sub(1));
        if LEFT.fetch_update(SeqCst, SeqCst, less) == Ok(1) {
            std::process::abort();
        }
    }
}

#[cfg(not(feature = "cuts"))]
mod switch {
    /// Counts a durable write.
    pub const fn step() {}
}

#[cfg(feature = "cuts")]
pub use switch::after;
pub use switch::step;
