//! How the devices of a volume stand as far as its clients' answers go, and what is told of that.

use hostftl_core::Layer;
use hostftl_format::roster::Standing;

use crate::events::Level;
use crate::quiet::Quiet;
use crate::roster::standing;

/// Which devices are known to be what, a bit for each.
#[derive(Debug)]
pub struct Known {
    /// Those that are known to be lost, those of them that are not needed any more, those that came
    /// in the place of others, and those of them that hold what they should.
    lost: u16,
    out: Option<u16>,
    fresh: u16,
    joined: u16,
    /// Those that were removed, and those of them that are not open any more.
    gone: u16,
    closed: u16,
    /// Those that are left out because an operator wants that.
    ordered: u16,
}

impl Default for Known {
    fn default() -> Self {
        Known { lost: 0, out: Some(0), fresh: 0, joined: 0, gone: 0, closed: 0, ordered: 0 }
    }
}

impl Known {
    /// How the devices stand before anything is served; those of `fresh` came in the place of
    /// others.
    pub fn of(layer: &impl Layer, fresh: u16) -> Self {
        let Standing { lost, out, joined, gone, .. } = standing(layer, fresh);
        Known { lost, out, fresh, joined, gone, closed: gone, ordered: 0 }
    }

    /// How they stand now by what `layer` says, and whether that is news.
    pub fn look(&self, layer: &impl Layer) -> (Standing, bool) {
        let now = standing(layer, self.fresh);
        let known = (self.lost, self.out, self.joined, self.gone);
        (now, (now.lost, now.out, now.joined, now.gone) != known)
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

    /// Tells of devices that the layer does without from now on, or does not need any more, and of
    /// those that hold what they should.
    pub fn hear(&mut self, standing: Standing, news: &Quiet) {
        let Standing { lost, out, joined, gone, .. } = standing;
        let left = gone & !std::mem::replace(&mut self.gone, gone);
        let new = lost & !std::mem::replace(&mut self.lost, lost);
        let healed = out.unwrap_or(0) & !self.out.unwrap_or(0);
        let came = joined & !self.joined;
        (self.out, self.joined) = (out, joined);
        for device in (0..16).filter(|device| new >> device & 1 == 1) {
            let name = news.name(device);
            let (level, kind, what) = match self.ordered >> device & 1 {
                0 => (Level::Error, "device-lost", "was lost"),
                _ => (Level::Warning, "degraded", "was left out by command"),
            };
            let text =
                format!("DEGRADED: device {device} ({name}) {what}; the volume goes on without it");
            news.events.tell(level, kind, text);
        }
        for device in (0..16).filter(|device| healed >> device & 1 == 1) {
            let name = news.name(device);
            let text = format!(
                "all that lay on device {device} ({name}) was made again on the others, with \
                 parity: the volume can lose another device"
            );
            news.events.tell(Level::Info, "protected", text);
        }
        for device in (0..16).filter(|device| came >> device & 1 == 1) {
            let name = news.name(device);
            let text = format!("device {device} ({name}) belongs to the volume and is written");
            news.events.tell(Level::Info, "device-joined", text);
        }
        for device in (0..16).filter(|device| left >> device & 1 == 1) {
            let name = news.name(device);
            let text = format!(
                "device {device} ({name}) was removed: nothing lies on it any more, and it can be \
                 taken away"
            );
            news.events.tell(Level::Info, "device-removed", text);
        }
    }
}
