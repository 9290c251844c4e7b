//! Planted bugs: mistakes that the chaos run must find, to test the tests.
//!
//! Without the feature `planted`, [`planted`] is a constant `false` and costs nothing.

/// Makes the list of bugs from a table: layers, and what may be wrong in each.
macro_rules! bugs {
    ($($layer:literal: $($(#[$doc:meta])+ $bug:ident = $name:literal,)+)+) => {
        /// A mistake that can be switched on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub enum Bug {
            $($($(#[$doc])+ $bug,)+)+
        }

        impl Bug {
            /// All of them, in the order of the report.
            pub const ALL: &'static [Bug] = &[$($(Bug::$bug,)+)+];

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $($(Bug::$bug => $name,)+)+
                }
            }

            /// The name of the layer that has the bug.
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
        /// Passthrough answers a FUA write without its flush.
        FuaWithoutFlush = "fua-without-flush",
        /// Passthrough answers a flush without asking the device.
        FlushForgotten = "flush-forgotten",
        /// Passthrough believes the flush after one that failed.
        NextFlushBelieved = "next-flush-believed",
    "hard":
        /// A segment is filled again before the records that emptied it are durable.
        EarlyReuse = "early-reuse",
        /// A copy by garbage collection replaces a newer write of the host.
        GcOverNewer = "gc-over-newer",
        /// A flush is answered before the device's own flush is done.
        EarlyFlushReply = "early-flush-reply",
        /// A victim is reset or refilled while a read of it is in flight.
        VictimNotPinned = "victim-not-pinned",
        /// A log record becomes durable before the data that it points at.
        RecordBeforeData = "record-before-data",
        /// A trim changes the map in memory only.
        TrimNotLogged = "trim-not-logged",
        /// A checkpoint is published before the log that it replaces is covered.
        CheckpointEarly = "checkpoint-early",
        /// An image of the map is forgotten before the one after it is durable.
        ImageForgottenEarly = "image-forgotten-early",
        /// Recovery goes on in the old epoch, so that torn records of the last life count again.
        OldEpoch = "old-epoch",
        /// A flush that failed counts as done.
        FailedFlushBelieved = "failed-flush-believed",
        /// A write of the log that failed counts as done.
        MapWriteIgnored = "map-write-ignored",
    "shatl":
        /// The death of a copy is logged before the write that replaced it is durable.
        KillBeforeWrite = "kill-before-write",
        /// A flush is answered while the death of a copy that a write in place replaced is not
        /// logged.
        FlushBeforeKill = "flush-before-kill",
        /// A move home kills a hidden copy that is newer than what it moved.
        MoveOverNewer = "move-over-newer",
        /// A root drops the deaths of slots that came while its images were taken.
        RootSettlesAll = "root-settles-all",
        /// A write goes home while the logical superpage is being moved.
        DirectOverMove = "direct-over-move",
    "hatl-auto":
        /// A whole stage that went home is listed before the write there is durable.
        HomeListedEarly = "home-listed-early",
        /// A whole stage goes home although some of its sectors were written again.
        HomeOverNewer = "home-over-newer",
    "tier":
        /// Tier names a slot in the directory before its content is durable.
        ListBeforeData = "list-before-data",
        /// Tier gives a slot to another page while the directory still names it.
        ReuseListed = "reuse-listed",
        /// Tier calls a slot clean that was written while it was copied.
        CleanOverWrite = "clean-over-write",
        /// Tier fetches a page from the slow device while that is being changed there.
        FetchOverChange = "fetch-over-change",
        /// Tier believes, after a power cut, what the directory says of clean slots.
        TrustClean = "trust-clean",
        /// Tier drops a slot's entry before the slow device's copy is durable.
        DropUnflushed = "drop-unflushed",
        /// Tier is ready before the slow device has the new life durably.
        LifeUnflushed = "life-unflushed",
        /// Tier does not compare the lives of its devices.
        LifeIgnored = "life-ignored",
        /// Tier goes on when a flush has failed.
        TierFlushBelieved = "tier-flush-believed",
        /// Tier reads nothing any more when one device is dead.
        DeadTakesAll = "dead-takes-all",
    "pblk":
        /// A line of `pblk` is reset before what emptied it is durable.
        ZonesEarlyReset = "early-reset",
        /// A copy of `pblk` is published although the host has written since.
        ZonesGcOverNewer = "copy-over-newer",
        /// `pblk` answers a flush before the device's own flush is done.
        ZonesEarlyFlushReply = "early-flush-answer",
        /// A line of `pblk` is reset although replay needs a trim in it.
        ZonesTrimForgotten = "trim-forgotten",
        /// A root of `pblk` is written before what its images show is durable.
        ZonesRootEarly = "root-early",
        /// A line of `pblk` is reset while a read of it is in flight.
        ZonesVictimNotPinned = "line-not-pinned",
        /// The list of a line tells of the strip after the one that it should.
        ZonesListOffByOne = "list-off-by-one",
        /// The list of a line is written before its strips are durable.
        ZonesListEarly = "list-early",
    "rrpc":
        /// `rrpc` believes its reverse map without a look at the map.
        ZonesReverseBelieved = "reverse-believed",
        /// `rrpc` trims in memory only.
        ZonesTrimInMemory = "trim-in-memory",
        /// `rrpc` answers a flush before all rows that it covers are written.
        ZonesFlushBeforeRows = "flush-before-rows",
        /// `rrpc` reads a strip from the medium before the medium can give it.
        ZonesReadTooEarly = "read-too-early",
        /// A root of `rrpc` leaves out rows that were open when its images were begun.
        ZonesRootSkipsRows = "root-skips-rows",
        /// `rrpc` replays rows in the order in which it finds them.
        ZonesReplayUnsorted = "replay-unsorted",
    "targets":
        /// A target resets a segment of its neighbour instead of its own.
        TargetsResetNeighbour = "reset-neighbour",
        /// A flush of one target is given to its neighbour.
        TargetsFlushNeighbour = "flush-neighbour",
    "log":
        /// The count of devices that may be lost ignores reads that failed or did not match.
        FailedReadsIgnored = "failed-reads-ignored",
        /// A scrub is reported complete before its repairs are durable.
        RepairReportedEarly = "repair-reported-early",
        /// Log answers a read of a damaged record without a word to anybody else.
        CorruptUntold = "corrupt-untold",
        /// Log says that the block behind the damaged one is.
        CorruptElsewhere = "corrupt-elsewhere",
        /// Log says of what parity mended that it is corrupt.
        MendedAsCorrupt = "mended-as-corrupt",
        /// Log flushes its first device only.
        FlushOneMember = "flush-one-member",
        /// A device that comes in the place of a lost one is taken to hold what that held.
        NewcomerWhole = "newcomer-whole",
        /// Roots on a device with zones go on where those on the device before it ended.
        RootsGoOn = "roots-go-on",
        /// A device that is back is taken to have what was written while it was away.
        ReturnerWhole = "returner-whole",
        /// A device that comes is believed by a root that was begun before it came.
        JoinedEarly = "joined-early",
        /// A checkpoint does not say what a device lacks that came.
        LackUntold = "lack-untold",
        /// A device leaves although that was called off.
        CancelForgotten = "cancel-forgotten",
        /// Log says that one more device may be lost while segments miss chunks.
        ExposedForgotten = "exposed-forgotten",
        /// A chunk is made from all others but the last.
        RebuiltShort = "rebuilt-short",
        /// A chunk that a new device lacks counts as written when it was made.
        FilledUnwritten = "filled-unwritten",
        /// A new device has its chunks of a segment when some rows were gone through.
        FilledInPart = "filled-in-part",
        /// The second parity is added up like the first.
        SecondParityPlain = "second-parity-plain",
        /// What is made from other chunks is made in one way only.
        OneWayOnly = "one-way-only",
        /// Log says that another device may be lost while two are missing.
        SecondLossUncounted = "second-loss-uncounted",
        /// A spare that took the place of a lost device stays one.
        SpareTwice = "spare-twice",
        /// Segments are opened on devices before a root says so.
        OpenedUntold = "opened-untold",
        /// A device is removed while segments still lie on it.
        RemovedEarly = "removed-early",
        /// Segments are opened on a device that came before a root says that it is there.
        GrownEarly = "grown-early",
        /// A lost device is not needed any more while segments still lie on it.
        ProtectedEarly = "protected-early",
        /// Log refuses trims of a thin volume that is full.
        ThinTrimRefused = "thin-trim-refused",
        /// Log makes parity on top of what the buffer held before.
        OldParity = "old-parity",
        /// Log replays rows stream by stream instead of by number.
        ReplayDisorder = "replay-disorder",
        /// Log writes an empty segment again before a root does without it.
        SegmentBeforeRoot = "segment-before-root",
        /// Log lists a record that a row sealed before has a newer version of.
        HeirIgnored = "heir-ignored",
        /// Log writes a root before the rows that its images show are durable.
        RootBeforeRows = "root-before-rows",
        /// Log trims in memory only.
        TrimUnlisted = "trim-unlisted",
        /// Log's collection publishes a copy over a newer write.
        CopyOverNewer = "copy-over-newer",
        /// Log looks for a record in whichever open row has its slot.
        RowOfSlot = "row-of-slot",
        /// Log does not look at what its flushes say.
        FlushUnheard = "flush-unheard",
        /// Log's recovery goes on in the old life.
        OldLife = "old-life",
        /// Log believes a device that lacks a root which was on all devices.
        OlderBelieved = "older-believed",
        /// Log's first root of a life does not say that the life was claimed on all devices.
        ClaimUntold = "claim-untold",
        /// Log's recovery leaves the parity of the last rows as it is.
        ParityNotRestored = "parity-not-restored",
        /// A checkpoint of log shows the counts as they are when their image is taken.
        CountsNotFrozen = "counts-not-frozen",
        /// Log changes a page of the snapshot before its image is taken.
        SnapshotChanged = "snapshot-changed",
        /// Log lets a map page go that differs from its image.
        DirtyEvicted = "dirty-evicted",
        /// Log's recovery believes every head it finds.
        RowsUnverified = "rows-unverified",
        /// Log gives a slot of its journal away before the rows of its record are durable.
        JournalFreedEarly = "journal-freed-early",
        /// Log answers a flush before the journal's device has flushed.
        JournalUnflushed = "journal-unflushed",
        /// Log plays records of the journal that are of an older life or turn of the ring.
        JournalOldLife = "journal-old-life",
        /// Log plays the records of the journal after all rows.
        JournalLast = "journal-last",
        /// Log believes a torn record of the journal.
        JournalUnverified = "journal-unverified",
        /// Log takes an older copy of its journal's device for the device.
        JournalStale = "journal-stale",
        /// Log goes on in the scratch that a device which does not answer may still write.
        HungScratchReused = "hung-scratch-reused",
        /// Log doesn't look at a closed row when the last block comes into it.
        RowForgotten = "row-forgotten",
        /// Log does not look further while something waits for room.
        WaitForgotten = "wait-forgotten",
    "scrambler":
        /// The scrambler writes over a slot before what replaced it is durable.
        SlotReusedEarly = "slot-reused-early",
        /// The scrambler writes over a slot that is being read.
        SlotNotPinned = "slot-not-pinned",
        /// The scrambler logs a change before the data that it points at is durable.
        MapBeforeData = "map-before-data",
        /// The scrambler answers a flush before the change of the map is durable.
        FlushBeforeMap = "flush-before-map",
        /// The scrambler opens in the old epoch, so that torn log pages count again.
        SameEpoch = "same-epoch",
        /// The scrambler takes a write that found no room for done.
        NoSpaceIsDone = "no-space-is-done",
        /// The scrambler ends a checkpoint although a flush failed that covered its images.
        RootAfterFailure = "root-after-failure",
    "mhatl":
        /// Gathering leaves publishes over what is newer than what it copied.
        GatherOverNewer = "gather-over-newer",
        /// What was gathered is in the map in memory, and the log does not list it.
        GatherNotListed = "gather-not-listed",
        /// Buddies become one leaf although they do not lie together.
        MergeApart = "merge-apart",
        /// A leaf that is parted loses what lies behind the sector that was written.
        SplitLosesRight = "split-loses-right",
        /// Recovery does not look at what its first flush says.
        FirstFlushIgnored = "first-flush-ignored",
}

#[cfg(feature = "planted")]
mod switch {
    use super::Bug;
    use core::sync::atomic::{AtomicU8, Ordering};

    /// One more than the bug's number; 0 for none.
    static CHOSEN: AtomicU8 = AtomicU8::new(0);

    /// Switches one bug on, or all off, for every layer of the process.
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
