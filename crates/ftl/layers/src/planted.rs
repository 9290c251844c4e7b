//! Planted bugs: deliberate mistakes that the chaos run must find, to test the tests.
//!
//! Without the feature `planted`, [`planted`] is a constant `false` and costs nothing.

/// Defines the list of bugs from a table of layers and their bugs.
macro_rules! bugs {
    ($($layer:literal: $($(#[$doc:meta])+ $bug:ident = $name:literal,)+)+) => {
        /// A mistake that can be switched on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Bug {
            $($($(#[$doc])+ $bug,)+)+
        }

        impl Bug {
            /// All bugs, in the order of the report.
            pub const ALL: &'static [Bug] = &[$($(Bug::$bug,)+)+];

            /// Returns the name on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Bug::$bug => $name,)+)+
                }
            }

            /// Returns the name of the layer that has the bug.
            pub const fn layer(self) -> &'static str {
                match self {
                    $($(Bug::$bug => $layer,)+)+
                }
            }
        }
    };
}

bugs! {
    "passthrough":
        /// A FUA write is acknowledged without its flush.
        FuaWithoutFlush = "fua-without-flush",
        /// A flush is acknowledged without flushing the device.
        FlushForgotten = "flush-forgotten",
        /// A flush is trusted after an earlier one failed.
        NextFlushBelieved = "next-flush-believed",
    "hard":
        /// A segment is reused before the records that emptied it are durable.
        EarlyReuse = "early-reuse",
        /// A copy by garbage collection replaces a newer write of the host.
        GcOverNewer = "gc-over-newer",
        /// A flush is acknowledged before the device's own flush is complete.
        EarlyFlushReply = "early-flush-reply",
        /// A victim is reset or refilled while a read of it is in flight.
        VictimNotPinned = "victim-not-pinned",
        /// A log record becomes durable before the data that it points at.
        RecordBeforeData = "record-before-data",
        /// A trim changes only the map in memory.
        TrimNotLogged = "trim-not-logged",
        /// A checkpoint is published before the log that it replaces is covered.
        CheckpointEarly = "checkpoint-early",
        /// An image of the map is discarded before its successor is durable.
        ImageForgottenEarly = "image-forgotten-early",
        /// Recovery continues the old epoch, so that torn records of the last life count again.
        OldEpoch = "old-epoch",
        /// A failed flush counts as complete.
        FailedFlushBelieved = "failed-flush-believed",
        /// A failed write of the log counts as complete.
        MapWriteIgnored = "map-write-ignored",
        /// A device with a volatile cache is taken for one without: flushes close no superpage.
        PadSkipped = "pad-skipped",
        /// An entry of the map of a large volume keeps only its lowest byte.
        WideCutOff = "wide-cut-off",
    "shatl":
        /// A kill is logged before the write that replaced the copy is durable.
        KillBeforeWrite = "kill-before-write",
        /// A flush is acknowledged while the kill of a copy that a write in place replaced is not
        /// logged.
        FlushBeforeKill = "flush-before-kill",
        /// A move home kills a hidden copy that is newer than the moved one.
        MoveOverNewer = "move-over-newer",
        /// A root drops the kills that occurred while its images were taken.
        RootSettlesAll = "root-settles-all",
        /// A write goes home while its logical superpage is being moved.
        DirectOverMove = "direct-over-move",
    "hatl-auto":
        /// A whole stage that went home is listed before the write there is durable.
        HomeListedEarly = "home-listed-early",
        /// A whole stage goes home although some of its sectors were rewritten.
        HomeOverNewer = "home-over-newer",
    "tier":
        /// A slot is listed in the directory before its contents are durable.
        ListBeforeData = "list-before-data",
        /// A slot is assigned to another page while the directory still lists it.
        ReuseListed = "reuse-listed",
        /// A slot counts as clean although it was written while it was written back.
        CleanOverWrite = "clean-over-write",
        /// A page is fetched from the slow device while it is being changed there.
        FetchOverChange = "fetch-over-change",
        /// Entries of clean slots are trusted after a power cut.
        TrustClean = "trust-clean",
        /// An entry is dropped before the slow device's copy is durable.
        DropUnflushed = "drop-unflushed",
        /// The volume is ready before the new life is durable on the slow device.
        LifeUnflushed = "life-unflushed",
        /// The lives of the devices are not compared.
        LifeIgnored = "life-ignored",
        /// Writing continues after a failed flush.
        TierFlushBelieved = "tier-flush-believed",
        /// All reads fail after one device failed.
        FailedTakesAll = "failed-takes-all",
    "pblk":
        /// A line is reset before the changes that emptied it are durable.
        ZonesEarlyReset = "early-reset",
        /// A copy of `pblk` is published although the host has written since.
        ZonesGcOverNewer = "copy-over-newer",
        /// `pblk` acknowledges a flush before the device's own flush is complete.
        ZonesEarlyFlushReply = "early-flush-answer",
        /// A line is reset although replay needs a trim in it.
        ZonesTrimForgotten = "trim-forgotten",
        /// A root of `pblk` is written before the state that its images show is durable.
        ZonesRootEarly = "root-early",
        /// A line is reset while a read of it is in flight.
        ZonesVictimNotPinned = "line-not-pinned",
        /// The list of a line describes the strip after the intended one.
        ZonesListOffByOne = "list-off-by-one",
        /// The list of a line is written before its strips are durable.
        ZonesListEarly = "list-early",
    "rrpc":
        /// `rrpc` trusts its reverse map without checking the map.
        ZonesReverseBelieved = "reverse-believed",
        /// `rrpc` trims only in memory.
        ZonesTrimInMemory = "trim-in-memory",
        /// `rrpc` acknowledges a flush before all rows that it covers are written.
        ZonesFlushBeforeRows = "flush-before-rows",
        /// `rrpc` reads a strip from the medium before the strip is readable there.
        ZonesReadTooEarly = "read-too-early",
        /// A root of `rrpc` skips rows that were open when its images were started.
        ZonesRootSkipsRows = "root-skips-rows",
        /// `rrpc` replays rows in the order in which it finds them.
        ZonesReplayUnsorted = "replay-unsorted",
    "targets":
        /// A target resets a segment of its neighbour.
        TargetsResetNeighbour = "reset-neighbour",
        /// A flush of one target is passed to its neighbour.
        TargetsFlushNeighbour = "flush-neighbour",
    "log":
        /// The number of devices that may still be lost ignores reads that failed or did not match.
        FailedReadsIgnored = "failed-reads-ignored",
        /// A scrub is reported complete before its repairs are durable.
        RepairReportedEarly = "repair-reported-early",
        /// A read of a damaged record fails without an event.
        CorruptUntold = "corrupt-untold",
        /// The event of a damaged block names the following block.
        CorruptElsewhere = "corrupt-elsewhere",
        /// A block that was rebuilt from parity is reported as corrupt.
        RepairedAsCorrupt = "repaired-as-corrupt",
        /// Only the first device is flushed.
        FlushOneMember = "flush-one-member",
        /// A replacement is assumed to hold the data of the device that it replaces.
        JoiningWhole = "joining-whole",
        /// After a zoned device was replaced, roots continue at the position on the old device.
        RootsContinue = "roots-continue",
        /// A returning device is assumed to hold the data written during its absence.
        ReturnerWhole = "returner-whole",
        /// A joining device is trusted after a root that was started before it joined.
        JoinedEarly = "joined-early",
        /// A checkpoint does not record the missing chunks of a joining device.
        LackUntold = "lack-untold",
        /// A device is removed although the removal was cancelled.
        CancelForgotten = "cancel-forgotten",
        /// The number of devices that may still be lost ignores missing chunks.
        ExposedForgotten = "exposed-forgotten",
        /// A chunk is rebuilt from all others except the last.
        RebuiltShort = "rebuilt-short",
        /// A rebuilt chunk counts as written before it is written to the new device.
        FilledUnwritten = "filled-unwritten",
        /// A segment counts as filled after only some of its stripes were filled.
        FilledInPart = "filled-in-part",
        /// The second parity is computed without factors, as the first.
        SecondParityPlain = "second-parity-plain",
        /// Only one way of rebuilding a chunk is tried.
        OneWayOnly = "one-way-only",
        /// Another device may be lost, according to `log`, while two are missing.
        SecondLossUncounted = "second-loss-uncounted",
        /// A spare that replaced a lost device remains a spare.
        SpareTwice = "spare-twice",
        /// Segments are opened on devices before a root records it.
        OpenedUntold = "opened-untold",
        /// A device is removed while it still holds segments.
        RemovedEarly = "removed-early",
        /// Segments are opened on an added device before a root records the device.
        GrownEarly = "grown-early",
        /// A lost device counts as rebuilt while segments still depend on it.
        ProtectedEarly = "protected-early",
        /// Trims of a full thin volume are refused.
        ThinTrimRefused = "thin-trim-refused",
        /// Parity is computed on top of the previous contents of the buffer.
        OldParity = "old-parity",
        /// Stripes are replayed stream by stream instead of by number.
        ReplayDisorder = "replay-disorder",
        /// An empty segment is reused before a root no longer refers to it.
        SegmentBeforeRoot = "segment-before-root",
        /// A record is listed although a stripe sealed earlier has a newer version.
        HeirIgnored = "heir-ignored",
        /// A root is written before the stripes that its images show are durable.
        RootBeforeStripes = "root-before-stripes",
        /// A write does not wait for the end of an earlier write to its block.
        WriteOvertakes = "write-overtakes",
        /// The buffer of an abandoned joint read is used again before the command is back.
        JointReused = "joint-reused",
        /// Every phase belongs to the host, so garbage collection has no segments.
        HostPhaseOnly = "host-phase-only",
        /// Trims change only the map in memory.
        TrimUnlisted = "trim-unlisted",
        /// Garbage collection publishes a copy over a newer write.
        CopyOverNewer = "copy-over-newer",
        /// A record is read from whichever open stripe has its slot.
        StripeOfSlot = "stripe-of-slot",
        /// The results of flushes are ignored.
        FlushUnheard = "flush-unheard",
        /// Recovery continues the old life.
        OldLife = "old-life",
        /// A device is trusted although it lacks a root that was on all devices.
        OlderBelieved = "older-believed",
        /// The first root of a life does not record that the life was claimed on all devices.
        ClaimUnrecorded = "claim-unrecorded",
        /// Recovery does not rewrite the parity of the last stripes.
        ParityNotRestored = "parity-not-restored",
        /// A checkpoint writes the counts of the moment when their image is taken.
        CountsNotFrozen = "counts-not-frozen",
        /// A map page is changed before its image of the checkpoint is taken.
        SnapshotChanged = "snapshot-changed",
        /// A map page is evicted although it differs from its image.
        DirtyEvicted = "dirty-evicted",
        /// Recovery trusts every head without verifying the stripe.
        StripesUnverified = "stripes-unverified",
        /// A slot of the journal is reused before the stripes of its record are durable.
        JournalFreedEarly = "journal-freed-early",
        /// A flush is acknowledged before the journal device has flushed.
        JournalUnflushed = "journal-unflushed",
        /// Journal records of an older life or turn of the ring are replayed.
        JournalOldLife = "journal-old-life",
        /// Journal records are replayed after all stripes.
        JournalLast = "journal-last",
        /// A torn journal record is replayed.
        JournalUnverified = "journal-unverified",
        /// An older copy of the journal device is accepted.
        JournalStale = "journal-stale",
        /// A scratch buffer is reused although a timed-out device may still write to it.
        TimedOutScratchReused = "timed-out-scratch-reused",
        /// The arrival of the last block of a closed stripe does not wake the layer.
        StripeForgotten = "stripe-forgotten",
        /// The fast path ignores blocks and requests that wait for room.
        WaitForgotten = "wait-forgotten",
    "scrambler":
        /// A slot is overwritten before the change that replaced it is durable.
        SlotReusedEarly = "slot-reused-early",
        /// A slot is overwritten while it is being read.
        SlotNotPinned = "slot-not-pinned",
        /// A change is logged before the data that it points at is durable.
        MapBeforeData = "map-before-data",
        /// A flush is acknowledged before the change of the map is durable.
        FlushBeforeMap = "flush-before-map",
        /// A start continues the old epoch, so that torn log pages count again.
        SameEpoch = "same-epoch",
        /// A write that failed for lack of space counts as complete.
        NoSpaceIsDone = "no-space-is-done",
        /// A checkpoint ends although a flush that covered its images failed.
        RootAfterFailure = "root-after-failure",
    "mhatl":
        /// Gathering publishes a copy over a newer version.
        GatherOverNewer = "gather-over-newer",
        /// Gathered sectors are mapped in memory, but not listed in the log.
        GatherNotListed = "gather-not-listed",
        /// Buddies are merged although they are not adjacent.
        MergeApart = "merge-apart",
        /// A split leaf loses the sectors behind the written one.
        SplitLosesRight = "split-loses-right",
        /// Recovery ignores the result of its first flush.
        FirstFlushIgnored = "first-flush-ignored",
}

#[cfg(feature = "planted")]
mod switch {
    use super::Bug;
    use core::sync::atomic::{AtomicU8, Ordering};

    /// The bug's number + 1; 0 for none.
    static CHOSEN: AtomicU8 = AtomicU8::new(0);

    /// Enables one bug, or disables all, for every layer of the process.
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
