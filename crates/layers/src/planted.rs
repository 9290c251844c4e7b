//! Planted bugs: mistakes that the chaos run must find, to test the tests.
//!
//! Without the feature `planted`, [`planted`] is a constant `false` and costs nothing.

/// A mistake that can be switched on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Bug {
    /// Passthrough answers a FUA write without its flush.
    FuaWithoutFlush = 1,
    /// Passthrough answers a flush without asking the device.
    FlushForgotten,
    /// A segment is filled again before the records that emptied it are durable.
    EarlyReuse,
    /// A copy by garbage collection replaces a newer write of the host.
    GcOverNewer,
    /// A flush is answered before the device's own flush is done.
    EarlyFlushReply,
    /// A victim is reset or refilled while a read of it is in flight.
    VictimNotPinned,
    /// A log record becomes durable before the data that it points at.
    RecordBeforeData,
    /// A trim changes the map in memory only.
    TrimNotLogged,
    /// A checkpoint is published before the log that it replaces is covered.
    CheckpointEarly,
    /// Recovery goes on in the old epoch, so that torn records of the last life count again.
    OldEpoch,
    /// The death of a copy is logged before the write that replaced it is durable.
    KillBeforeWrite,
    /// A flush is answered while the death of a copy that a write in place replaced is not logged.
    FlushBeforeKill,
    /// A move home kills a hidden copy that is newer than what it moved.
    MoveOverNewer,
    /// A write goes home while the logical superpage is being moved.
    DirectOverMove,
    /// Tier names a slot in the directory before its content is durable.
    ListBeforeData,
    /// Tier gives a slot to another page while the directory still names it.
    ReuseListed,
    /// Tier calls a slot clean that was written while it was copied.
    CleanOverWrite,
    /// Tier fetches a page from the slow device while that is being changed there.
    FetchOverChange,
    /// Tier believes, after a power cut, what the directory says of clean slots.
    TrustClean,
    /// Tier drops a slot's entry before the slow device's copy is durable.
    DropUnflushed,
    /// The scrambler writes over a slot before what replaced it is durable.
    SlotReusedEarly,
    /// The scrambler writes over a slot that is being read.
    SlotNotPinned,
    /// The scrambler logs a change before the data that it points at is durable.
    MapBeforeData,
    /// The scrambler answers a flush before the change of the map is durable.
    FlushBeforeMap,
    /// The scrambler names images before the log that explains them is durable.
    ImageBeforeLog,
    /// The scrambler opens in the old epoch, so that torn log pages count again.
    SameEpoch,
    /// Gathering leaves publishes over what is newer than what it copied.
    GatherOverNewer,
    /// What was gathered is in the map in memory, and the log does not list it.
    GatherNotListed,
    /// Buddies become one leaf although they do not lie together.
    MergeApart,
    /// A leaf that is parted loses what lies behind the sector that was written.
    SplitLosesRight,
    /// A line of `pblk` is reset before what emptied it is durable.
    ZonesEarlyReset,
    /// A copy of `pblk` is published although the host has written since.
    ZonesGcOverNewer,
    /// `pblk` answers a flush before the device's own flush is done.
    ZonesEarlyFlushReply,
    /// A line of `pblk` is reset although replay needs a trim in it.
    ZonesTrimForgotten,
    /// A root of `pblk` is written before what its images show is durable.
    ZonesRootEarly,
    /// A line of `pblk` is reset while a read of it is in flight.
    ZonesVictimNotPinned,
}

impl Bug {
    /// All of them, in the order of the report.
    pub const ALL: &'static [Bug] = &[
        Bug::FuaWithoutFlush,
        Bug::FlushForgotten,
        Bug::EarlyReuse,
        Bug::GcOverNewer,
        Bug::EarlyFlushReply,
        Bug::VictimNotPinned,
        Bug::RecordBeforeData,
        Bug::TrimNotLogged,
        Bug::CheckpointEarly,
        Bug::OldEpoch,
        Bug::KillBeforeWrite,
        Bug::FlushBeforeKill,
        Bug::MoveOverNewer,
        Bug::DirectOverMove,
        Bug::ListBeforeData,
        Bug::ReuseListed,
        Bug::CleanOverWrite,
        Bug::FetchOverChange,
        Bug::TrustClean,
        Bug::DropUnflushed,
        Bug::SlotReusedEarly,
        Bug::SlotNotPinned,
        Bug::MapBeforeData,
        Bug::FlushBeforeMap,
        Bug::ImageBeforeLog,
        Bug::SameEpoch,
        Bug::GatherOverNewer,
        Bug::GatherNotListed,
        Bug::MergeApart,
        Bug::SplitLosesRight,
        Bug::ZonesEarlyReset,
        Bug::ZonesGcOverNewer,
        Bug::ZonesEarlyFlushReply,
        Bug::ZonesTrimForgotten,
        Bug::ZonesRootEarly,
        Bug::ZonesVictimNotPinned,
    ];

    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Bug::FuaWithoutFlush => "fua-without-flush",
            Bug::FlushForgotten => "flush-forgotten",
            Bug::EarlyReuse => "early-reuse",
            Bug::GcOverNewer => "gc-over-newer",
            Bug::EarlyFlushReply => "early-flush-reply",
            Bug::VictimNotPinned => "victim-not-pinned",
            Bug::RecordBeforeData => "record-before-data",
            Bug::TrimNotLogged => "trim-not-logged",
            Bug::CheckpointEarly => "checkpoint-early",
            Bug::OldEpoch => "old-epoch",
            Bug::KillBeforeWrite => "kill-before-write",
            Bug::FlushBeforeKill => "flush-before-kill",
            Bug::MoveOverNewer => "move-over-newer",
            Bug::DirectOverMove => "direct-over-move",
            Bug::ListBeforeData => "list-before-data",
            Bug::ReuseListed => "reuse-listed",
            Bug::CleanOverWrite => "clean-over-write",
            Bug::FetchOverChange => "fetch-over-change",
            Bug::TrustClean => "trust-clean",
            Bug::DropUnflushed => "drop-unflushed",
            Bug::SlotReusedEarly => "slot-reused-early",
            Bug::SlotNotPinned => "slot-not-pinned",
            Bug::MapBeforeData => "map-before-data",
            Bug::FlushBeforeMap => "flush-before-map",
            Bug::ImageBeforeLog => "image-before-log",
            Bug::SameEpoch => "same-epoch",
            Bug::GatherOverNewer => "gather-over-newer",
            Bug::GatherNotListed => "gather-not-listed",
            Bug::MergeApart => "merge-apart",
            Bug::SplitLosesRight => "split-loses-right",
            Bug::ZonesEarlyReset => "early-reset",
            Bug::ZonesGcOverNewer => "copy-over-newer",
            Bug::ZonesEarlyFlushReply => "early-flush-answer",
            Bug::ZonesTrimForgotten => "trim-forgotten",
            Bug::ZonesRootEarly => "root-early",
            Bug::ZonesVictimNotPinned => "line-not-pinned",
        }
    }

    /// The name of the layer that has the bug.
    pub const fn layer(self) -> &'static str {
        match self {
            Bug::FuaWithoutFlush | Bug::FlushForgotten => "passthrough",
            Bug::KillBeforeWrite
            | Bug::FlushBeforeKill
            | Bug::MoveOverNewer
            | Bug::DirectOverMove => "shatl",
            Bug::ListBeforeData
            | Bug::ReuseListed
            | Bug::CleanOverWrite
            | Bug::FetchOverChange
            | Bug::TrustClean
            | Bug::DropUnflushed => "tier",
            Bug::SlotReusedEarly
            | Bug::SlotNotPinned
            | Bug::MapBeforeData
            | Bug::FlushBeforeMap
            | Bug::ImageBeforeLog
            | Bug::SameEpoch => "scrambler",
            Bug::GatherOverNewer
            | Bug::GatherNotListed
            | Bug::MergeApart
            | Bug::SplitLosesRight => "mhatl",
            Bug::ZonesEarlyReset
            | Bug::ZonesGcOverNewer
            | Bug::ZonesEarlyFlushReply
            | Bug::ZonesTrimForgotten
            | Bug::ZonesRootEarly
            | Bug::ZonesVictimNotPinned => "pblk",
            _ => "hard",
        }
    }
}

#[cfg(feature = "planted")]
mod switch {
    use super::Bug;
    use core::sync::atomic::{AtomicU8, Ordering};

    static CHOSEN: AtomicU8 = AtomicU8::new(0);

    /// Switches one bug on, or all off, for every layer of the process.
    pub fn set(bug: Option<Bug>) {
        CHOSEN.store(bug.map_or(0, |bug| bug as u8), Ordering::Relaxed);
    }

    pub(crate) fn planted(bug: Bug) -> bool {
        CHOSEN.load(Ordering::Relaxed) == bug as u8
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
