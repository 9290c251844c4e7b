//! Planted bugs: flushes that are left out or believed too much, which a medium that forgets must
//! show, to test the tests.
//!
//! Without the feature `planted`, [`planted`] is a constant `false` and costs nothing.

/// A mistake that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// The ring answers a flush without asking the kernel.
    RingFlush,
    /// A thread answers a flush without asking the kernel.
    ThreadFlush,
    /// A zoned file's pointers are not flushed.
    SettleFlush,
    /// A flush of an NBD export is answered without asking the server.
    ServerFlush,
    /// The flush after one that failed is believed.
    NextFlushBelieved,
    /// What the page cache has is believed when a device is opened.
    CacheBelieved,
}

/// Names a bug that is switched on from the beginning of the process, as [`Bug::name`] has it.
pub const VARIABLE: &str = "HOSTFTL_PLANTED";

impl Bug {
    /// Its name.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// All of them, in the order of the report.
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

    /// One more than the bug's number; 0 for none.
    static CHOSEN: LazyLock<AtomicU8> = LazyLock::new(|| {
        let name = std::env::var(VARIABLE).unwrap_or_default();
        let bug = Bug::ALL.iter().find(|bug| bug.name() == name);
        assert!(bug.is_some() || name.is_empty(), "{VARIABLE}={name}: there is no such bug");
        AtomicU8::new(bug.map_or(0, |bug| *bug as u8 + 1))
    });
    static CACHED: AtomicBool = AtomicBool::new(false);

    /// Switches one bug on, or all off, for the whole process.
    pub fn set(bug: Option<Bug>) {
        CHOSEN.store(bug.map_or(0, |bug| bug as u8 + 1), Ordering::Relaxed);
    }

    /// Lets files and block devices that are opened from now on go through the page cache, or not:
    /// no bug, but few file systems of today have no direct I/O.
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
