//! Planted bugs for testing the tests: flushes that are skipped or trusted wrongly. A medium that
//! loses unflushed data must reveal them.
//!
//! Without the feature `planted`, [`planted`] is a constant `false` and costs nothing.

/// Bug that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// The ring completes a flush without calling the kernel.
    RingFlush,
    /// A worker thread completes a flush without calling the kernel.
    ThreadFlush,
    /// The write pointers of a zoned file are not flushed.
    SettleFlush,
    /// A flush of an NBD export completes without a request to the server.
    ServerFlush,
    /// A flush after a failed one is trusted.
    NextFlushBelieved,
    /// The page cache is trusted when a device is opened.
    CacheBelieved,
}

/// Environment variable with the [`Bug::name`] of a bug that is on from the start of the process.
pub const VARIABLE: &str = "HOSTFTL_PLANTED";

impl Bug {
    /// Returns the name.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// All bugs, in the order of the report.
    pub const ALL: &'static [Bug] = &[
        Bug::RingFlush,
        Bug::ThreadFlush,
        Bug::SettleFlush,
        Bug::ServerFlush,
        Bug::NextFlushBelieved,
        Bug::CacheBelieved,
    ];
}

#[cfg(feature = "planted")]
mod switch {
    use super::{Bug, VARIABLE};
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};

    /// Number of the bug plus one; 0 for none.
    static CHOSEN: LazyLock<AtomicU8> = LazyLock::new(|| {
        let name = std::env::var(VARIABLE).unwrap_or_default();
        let bug = Bug::ALL.iter().find(|bug| bug.name() == name);
        assert!(bug.is_some() || name.is_empty(), "{VARIABLE}={name}: unknown bug");
        AtomicU8::new(bug.map_or(0, |bug| *bug as u8 + 1))
    });
    static CACHED: AtomicBool = AtomicBool::new(false);

    /// Switches one bug on, or all off, for the whole process.
    pub fn set(bug: Option<Bug>) {
        CHOSEN.store(bug.map_or(0, |bug| bug as u8 + 1), Ordering::Relaxed);
    }

    /// Makes files and block devices that are opened from now on use the page cache, or not. This
    /// is not a bug, but few current file systems are without direct I/O.
    pub fn set_cached(cached: bool) {
        CACHED.store(cached, Ordering::Relaxed);
    }

    pub(crate) fn planted(bug: Bug) -> bool {
        CHOSEN.load(Ordering::Relaxed) == bug as u8 + 1
    }

    pub(crate) fn cached() -> bool {
        CACHED.load(Ordering::Relaxed)
    }
}

#[cfg(not(feature = "planted"))]
mod switch {
    pub(crate) const fn planted(_bug: super::Bug) -> bool {
        false
    }

    pub(crate) const fn cached() -> bool {
        false
    }
}

pub(crate) use switch::{cached, planted};
#[cfg(feature = "planted")]
pub use switch::{set, set_cached};
