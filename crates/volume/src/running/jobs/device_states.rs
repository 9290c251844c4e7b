//! The last reported state of each device, and the events of later changes.
//!
//! Events are derived from differences of states, never from causes: a loss is reported whether a
//! command failed, an operator wanted it, or recovery found an older copy. The first state is that
//! of the superblocks before recovery.
//!
//! Invariant: a change that frees a device, or makes another loss survivable, is reported only when
//! all superblocks say so: a start after a power cut knows nothing else.

use hostftl_core::Layer;
use hostftl_format::roster::Standing;
use hostftl_format::superblock::Superblock;
use hostftl_layers::Members;

use crate::metadata::roster::standing;
use crate::open::event_host::Quiet;
use crate::util::events::Level;

/// Which devices are known to be what, a bit for each.
#[derive(Debug, Default)]
pub struct Known {
    /// Those that are known to be lost, those of them that are not needed any more, those that came
    /// in the place of others, and those of them that hold what they should.
    lost: u16,
    out: u16,
    fresh: u16,
    joined: u16,
    /// Those that were removed, and those of them that are not open any more.
    gone: u16,
    closed: u16,
    /// Those that are to be removed, and those that are kept to take the place of a lost one.
    leaving: u16,
    spare: u16,
    /// Those that are left out because an operator wants that.
    ordered: u16,
    /// Whether the layer has failed.
    has_failed: bool,
    /// Whether nothing was reported yet: recovery has found the first changes.
    at_start: bool,
}

impl Known {
    /// The states before recovery, as the superblocks say: `out` are the lost devices on which
    /// nothing lies.
    pub fn of(members: &Members, out: u16) -> Self {
        let Members { missing, fresh, gone, leaving, spare, .. } = *members;
        let (lost, closed) = (missing & !gone, gone);
        let (out, at_start) = (out & lost, true);
        Known { lost, out, fresh, gone, closed, leaving, spare, at_start, ..Known::default() }
    }

    /// The layer was opened again, with devices that came, those of `fresh`.
    pub fn reopened(&mut self, fresh: u16) {
        (self.fresh, self.joined, self.closed) = (fresh, self.joined & !fresh, self.gone);
    }

    /// The states by `layer`.
    pub fn look(&self, layer: &impl Layer) -> Standing {
        standing(layer, self.fresh)
    }

    /// Whether `now`, or that the layer has failed, may be news.
    pub fn is_news(&self, now: Standing, has_failed: bool) -> bool {
        let Standing { lost, out, joined, gone, leaving, spare } = now;
        let sets = (lost, out.unwrap_or(0), joined, gone);
        let more = (leaving.unwrap_or(0), spare.unwrap_or(0), has_failed);
        sets != (self.lost, self.out, self.joined, self.gone)
            || more != (self.leaving, self.spare, self.has_failed)
    }

    /// A device came in place `index`.
    pub fn came(&mut self, index: u8) {
        (self.fresh, self.joined) = (self.fresh | 1 << index, self.joined & !(1 << index));
    }

    /// Those that were removed and are open still.
    pub fn open_of_gone(&self) -> u16 {
        self.gone & !self.closed
    }

    /// One that was removed is not open any more.
    pub fn is_closed(&mut self, index: u8) {
        self.closed |= 1 << index;
    }

    /// An operator wants device `index` left out, or did before it came to that.
    pub fn order(&mut self, index: u8, is_wanted: bool) {
        let bit = 1 << index;
        self.ordered = if is_wanted { self.ordered | bit } else { self.ordered & !bit };
    }

    /// Losses are no longer those that recovery found.
    pub fn end_start(&mut self) {
        self.at_start = false;
    }

    /// Reports what has changed, of which `said` are the superblocks; none where they never change.
    pub fn hear(
        &mut self,
        now: Standing,
        said: Option<&Superblock>,
        failed: bool,
        news: &mut Quiet,
    ) {
        let is_said = |set: u16, of: fn(&Superblock) -> u16| said.map_or(set, |it| set & of(it));
        let out = is_said(now.out.unwrap_or(0), |said| said.out);
        let gone = is_said(now.gone, |said| said.gone);
        let joined = is_said(now.joined, |said| !said.fresh);
        let (leaving, spare) = (now.leaving.unwrap_or(0), now.spare.unwrap_or(0));
        news.faulted &= now.lost;
        (news.unsaid, news.gone) = (now.out.unwrap_or(0) & !out, gone);
        // One that leaves is lost for the layer before the superblocks say that it is gone.
        let removed = gone & !self.gone;
        self.report_losses(now.lost & !self.lost, news);
        let changes: [(u16, Level, &'static str, &str); 6] = [
            (out & !self.out, Level::Info, "protected", REBUILT),
            (joined & !self.joined, Level::Info, "device-joined", JOINED),
            (leaving & !self.leaving, Level::Info, "device-leaving", LEAVES),
            (self.leaving & !(leaving | now.gone), Level::Info, "device-stays", STAYS),
            (self.spare & !(spare | now.gone), Level::Warning, "spare-used", SPARE),
            (removed, Level::Info, "device-removed", REMOVED),
        ];
        for (set, level, kind, text) in changes {
            for device in devices(set) {
                let name = news.name(device);
                let text = format!("device {device} ({name}) {text}");
                news.events.tell_of(device, level, kind, text);
            }
        }
        if failed && !self.has_failed {
            let text = "the layer failed: writes and flushes end with errors";
            news.events.tell(Level::Error, "failed", text);
        }
        (self.lost, self.out, self.joined, self.gone) = (now.lost, out, joined, gone);
        (self.leaving, self.spare) = (leaving, spare);
        self.has_failed = failed;
    }

    fn report_losses(&self, new: u16, news: &Quiet) {
        for device in devices(new) {
            let name = news.name(device);
            let (level, kind, how) = match (self.ordered >> device & 1 == 1, self.at_start) {
                (true, _) => (Level::Warning, "degraded", "was taken offline by command"),
                (false, true) => (
                    Level::Error,
                    "device-lost",
                    "is not usable: recovery found it \
                     damaged or out of date",
                ),
                (false, false) => (Level::Error, "device-lost", "was lost"),
            };
            let text =
                format!("DEGRADED: device {device} ({name}) {how}; the volume goes on without it");
            news.events.tell_of(device, level, kind, text);
        }
    }
}

const REBUILT: &str = "rebuilt onto the remaining devices; redundancy restored: the volume can \
                       lose another device";
const JOINED: &str = "belongs to the volume and is written";
const LEAVES: &str = "is being removed: its data moves to the other devices";
const STAYS: &str = "stays: its removal was cancelled";
const SPARE: &str = "is a spare no longer: it takes the place of a lost device";
const REMOVED: &str = "was removed: no data lies on it, and it can be taken away";

fn devices(set: u16) -> impl Iterator<Item = u8> {
    (0..16).filter(move |device| set >> device & 1 == 1)
}
