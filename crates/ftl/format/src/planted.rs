//! Planted bugs for testing the tests: the checker of membership changes must find them.
//!
//! Without the feature `planted`, [`planted`] is a constant `false` and costs nothing.

/// Bug that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// A volume starts without a member that is not excluded, and without consent.
    ConsentNotAsked,
    /// A flush is acknowledged before the superblocks of the other members record a loss.
    LossAfterFlush,
    /// A read-only run writes superblocks.
    ReadOnlyWrites,
    /// A member that an interrupted change left behind counts as stale.
    OffByOne,
    /// Members that were served apart are combined: the newest decides.
    ForkJoined,
    /// The intact copy of a superblock is written before the damaged one.
    SoundCopyFirst,
    /// An interrupted change is not completed.
    CutOffForgotten,
    /// The position of a name in the volume file is used as the member index.
    PositionForNumber,
    /// A change whose new devices are members already is undone after a cut.
    PendingIgnored,
    /// The volume file lists new devices as members before their superblocks are written.
    FileBeforeSuperblocks,
    /// Joining devices get their superblocks after the other members name them.
    DescribedLast,
}

impl Bug {
    /// All bugs, in the order of the report.
    pub const ALL: &'static [Bug] = &[
        Bug::ConsentNotAsked,
        Bug::LossAfterFlush,
        Bug::ReadOnlyWrites,
        Bug::OffByOne,
        Bug::ForkJoined,
        Bug::SoundCopyFirst,
        Bug::CutOffForgotten,
        Bug::PositionForNumber,
        Bug::PendingIgnored,
        Bug::FileBeforeSuperblocks,
        Bug::DescribedLast,
    ];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Bug::ConsentNotAsked => "consent-not-asked",
            Bug::LossAfterFlush => "loss-after-flush",
            Bug::ReadOnlyWrites => "read-only-writes",
            Bug::OffByOne => "off-by-one",
            Bug::ForkJoined => "fork-joined",
            Bug::SoundCopyFirst => "sound-copy-first",
            Bug::CutOffForgotten => "cut-off-forgotten",
            Bug::PositionForNumber => "position-for-number",
            Bug::PendingIgnored => "pending-ignored",
            Bug::FileBeforeSuperblocks => "file-before-superblocks",
            Bug::DescribedLast => "described-last",
        }
    }
}

#[cfg(feature = "planted")]
mod switch {
    use super::Bug;
    use core::sync::atomic::{AtomicU8, Ordering};

    /// Number of the bug plus one; 0 for none.
    static CHOSEN: AtomicU8 = AtomicU8::new(0);

    /// Switches one bug on, or all off, for the whole process.
    pub fn set(bug: Option<Bug>) {
        CHOSEN.store(bug.map_or(0, |bug| bug as u8 + 1), Ordering::Relaxed);
    }

    pub(crate) fn planted(bug: Bug) -> bool {
        CHOSEN.load(Ordering::Relaxed) == bug as u8 + 1
    }
}

#[cfg(not(feature = "planted"))]
mod switch {
    pub(crate) const fn planted(_bug: super::Bug) -> bool {
        false
    }
}

pub(crate) use switch::planted;
#[cfg(feature = "planted")]
pub use switch::set;
