//! Named events: those that must occur before a run counts as a test.

use std::ops::AddAssign;

use hostftl_layers::LayerKind;

macro_rules! events {
    ($($variant:ident $name:literal $layers:literal,)*) => {
        /// Event that is counted.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(usize)]
        #[allow(missing_docs, reason = "each has its name in the table")]
        pub enum Named { $($variant,)* }

        /// Number of events.
        pub(crate) const EVENTS: usize = [$($name,)*].len();
        /// Names in the order of [`Named`].
        pub(crate) const NAMES: [&str; EVENTS] = [$($name,)*];
        /// Letters of the layers whose runs must contain each event.
        const LAYERS: [&str; EVENTS] = [$($layers,)*];
    };
}

// The last column: layers with one of these letters in their registration need the event. The
// letters are h(ard), p(assthrough), e(xerciser), t(ier), tar(g)ets, all o(thers), and b for those
// of the others that do not always run on zones.
events! {
    Cut "power cut" "hpetog",
    Killed "process killed, power kept" "hpetog",
    CutHostWrite "cut during a host write" "hpetog",
    CutFlush "cut during a flush" "hpetog",
    CutGc "cut during GC" "ht",
    CutMap "cut during a map write" "ht",
    CutCheckpoint "cut during a checkpoint" "ht",
    CutRecovery "cut during recovery" "htog",
    CutTwice "cut again before service" "hpetog",
    CutFormat "cut while formatting" "h",
    CutStop "cut during a stop" "hpetog",
    CutReset "cut during a reset" "pet",
    CutReplayed "recovery with log to replay" "htog",
    CutDropped "recovery with a torn log" "h",
    TornMeta "torn metadata" "ht",
    TornData "torn data" "hpet",
    TrimThenCut "trim completed, then cut before a flush" "hpet",
    ZeroesThenCut "zeroes completed, then cut before a flush" "hpet",
    FuaThenCut "FUA write completed, then cut" "hpetog",
    FlushThenCut "flush completed, then cut" "hpetog",
    Overlap "overlapping writes in flight" "hptog",
    ReadDuringWrite "read of a range being written" "hpto",
    Flush "flush" "hpetog",
    Fua "FUA" "hpetog",
    Trim "trim" "hpetog",
    TrimAll "trim of the whole volume" "hpet",
    Zeroes "zeroes" "hpetog",
    OutOfRange "request out of range" "hpt",
    Gc "GC started" "h",
    Checkpoint "checkpoint done" "ht",
    Full "volume full" "h",
    CleanStop "clean stop" "hpetog",
    Audit "whole volume verified after a start" "hpetog",
    Abandoned "command abandoned" "hpt",
    LateDone "late completion" "hpt",
    LeftBehind "payload reclaimed later" "pet",
    ReadError "latent read error reported" "hpt",
    FailedDevice "device died" "hpt",
    HostError "host error after a device failure" "hptog",
    MetadataRot "metadata rotted" "h",
    LogRot "log rotted" "",
    CorruptReported "corruption reported" "",
    RepairReported "repair reported" "",
    SectorsLost "sectors lost after a read error" "",
    Refused "damaged volume refused" "",
    DataRot "data rotted" "",
    LostWrite "write lost" "",
    MisdirectedWrite "write misdirected" "",
    Stale "device went stale" "",
    Degraded "life without a missing device" "",
    Protected "rebuilt without a spare" "",
    SecondLoss "second device lost after that" "",
    TwoLost "two devices lost at once" "",
    Replaced "lost device replaced" "",
    ReplacedOnline "lost device replaced while served" "",
    CameBackOnline "lost device returned while served" "",
    Joined "replacement joined" "",
    CameBack "lost device returned with its data" "",
    Added "device added" "",
    Leaves "removal of a device" "",
    LeavesOnline "removal of a device while served" "",
    Stayed "removal of a device cancelled" "",
    Removed "device removed" "",
    SpareTaken "spare replaced a lost device" "",
    TooSmall "no space after two losses" "",
    Returned "stale device returned" "",
    BadSegment "segment went offline" "",
    JournalAway "life without its journal" "",
    JournalNeeded "volume refused without its journal" "",
    JournalReplaced "journal replaced after a clean stop" "",
    Exchanged "device exchanged for an older copy" "t",
    OlderRefused "volume refused with an older copy of a device" "t",
    OlderReported "older copy reported" "t",
    CutJournal "cut during a journal write" "",
    WriteError "write failed, and the next worked" "hptb",
    Failing "device reported as failing" "",
    Faulted "failing device excluded" "",
    FlushError "flush failed" "hpto",
    FlushLost "data of a failed flush lost" "hpto",
    NoSpace "device full" "hpto",
    RefusedForNow "volume refused for a transient fault" "",
    AdminCommand "command of an operator" "",
    Scrubbed "scrub complete" "",
    ScrubRepaired "scrub found rotted data" "",
    ScrubThenNext "another device damaged after a scrub" "",
    OutOfRoom "no space on a thin volume" "",
    DeviceOverlap "overlapping device commands (warning)" "",
}

/// Number of occurrences of each event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tallies([u64; EVENTS]);

impl Default for Tallies {
    fn default() -> Self {
        Tallies([0; EVENTS])
    }
}

impl Tallies {
    /// Counts an occurrence.
    pub fn note(&mut self, event: Named) {
        self.0[event as usize] += 1;
    }

    /// Counts an occurrence if `happened`.
    pub fn note_if(&mut self, happened: bool, event: Named) {
        self.0[event as usize] += u64::from(happened);
    }

    /// Returns the number of occurrences.
    pub fn get(&self, event: Named) -> u64 {
        self.0[event as usize]
    }

    /// Returns name, count, and whether a run of `layer` must contain the event.
    pub fn rows(&self, layer: LayerKind) -> impl Iterator<Item = (&'static str, u64, bool)> + '_ {
        let letters = layer.registration().chaos.events;
        let needs = move |layers: &str| letters.chars().any(|letter| layers.contains(letter));
        (0..EVENTS).map(move |at| (NAMES[at], self.0[at], needs(LAYERS[at])))
    }

    /// Returns whether every event that a run of `layer` must contain occurred `least` times.
    pub fn cover(&self, layer: LayerKind, least: u64) -> bool {
        self.rows(layer).all(|(_, count, needed)| !needed || count >= least)
    }

    /// Returns the counts in order, for a file.
    pub fn numbers(&self) -> &[u64] {
        &self.0
    }

    /// Restores the counts from a file. Returns `None` when their number differs, because another
    /// version wrote the file.
    pub fn from_numbers(numbers: &[u64]) -> Option<Self> {
        numbers.try_into().ok().map(Tallies)
    }
}

impl AddAssign<&Tallies> for Tallies {
    fn add_assign(&mut self, other: &Tallies) {
        self.0.iter_mut().zip(&other.0).for_each(|(sum, more)| *sum += more);
    }
}
