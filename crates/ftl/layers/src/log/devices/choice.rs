//! On which devices segments are opened, and what has to move because of that.

use hostftl_core::DeviceSet;

use super::Devices;
use crate::planted::{Bug, planted};

impl Devices {
    /// Chooses where segments are opened: on the devices that are good and stay, if what there is
    /// `fits` on them; else on those that leave too; else on as few as possible that are lost as
    /// well, for which parity makes up. They are, when no root says that nothing lies there.
    /// Whether that is new.
    pub(crate) fn choose(&mut self, fits: impl Fn(DeviceSet) -> bool) -> bool {
        let all = self.membership.all();
        let good = all - self.inactive();
        let may = |set: DeviceSet| {
            let enough = set.len() > u32::from(self.layout.parity);
            enough && (set == all || fits(set))
        };
        let stays = self.staying();
        self.wanted = match self.inactive() & all {
            _ if may(stays) => stays,
            DeviceSet::EMPTY => good,
            lost => self.with_lost(good, lost, may),
        };
        let told =
            !self.wanted.overlaps(self.told.out | self.told.telling) || planted(Bug::OpenedUntold);
        self.widens &= !told;
        told && self.membership.choose(self.wanted)
    }

    /// The devices that are good and are not to leave.
    pub(crate) fn staying(&self) -> DeviceSet {
        self.membership.all() - self.inactive() - self.leaving()
    }

    /// Where segments are to be opened, as far as was chosen last.
    pub(crate) fn wanted(&self) -> DeviceSet {
        self.wanted
    }

    /// The devices of `good`, and as few of `lost` as are needed so that rows `may` lie there; no
    /// more than parity makes up for.
    fn with_lost(
        &self,
        good: DeviceSet,
        lost: DeviceSet,
        may: impl Fn(DeviceSet) -> bool,
    ) -> DeviceSet {
        // Those on which something lies come first: parity makes up for them as it is.
        let lies = |device: &u8| !self.membership.is_out(*device);
        let needed = lost.iter().filter(lies).collect::<DeviceSet>();
        let lost = needed.iter().chain(lost - needed).take(self.layout.parity.into());
        lost.fold(good, |set, device| if may(set) { set } else { set.with(device) })
    }

    /// Whether devices are on their way into the volume: their room is counted already, and nothing
    /// is opened there yet.
    pub(crate) fn is_widening(&self) -> bool {
        self.widens || self.is_entering()
    }

    /// Whether a root has yet to say so of one.
    pub(crate) fn is_entering(&self) -> bool {
        !(self.newcomers.entering() & self.joining()).is_within(self.spare())
    }

    /// Devices on which nothing is to lie when it can be elsewhere.
    fn unwelcome(&self) -> DeviceSet {
        self.inactive() | self.leaving()
    }

    /// How often a segment has to move: it misses a chunk, or lies on a device that is to leave.
    pub(crate) fn to_move(&self) -> u32 {
        let leaving = self.leaving().iter();
        self.exposed() + leaving.map(|device| self.membership.named(device)).sum::<u32>()
    }

    /// Whether a segment misses a chunk that one opened now would have, or lies on a device that is
    /// to leave, and one opened now would not.
    pub(crate) fn is_exposed(&self, segment: u32) -> bool {
        let current = self.membership.current().members();
        let (members, lacking) = self.membership.told(segment);
        let misses = members & self.inactive() | lacking;
        !misses.is_empty() && !current.overlaps(self.inactive())
            || members.overlaps(self.leaving()) && !current.overlaps(self.unwelcome())
    }

    /// Whether chunks are made where they belong. In a zone nothing is written before the pointer.
    fn can_fill(&self) -> bool {
        !self.layout.zoned
    }

    /// Whether all devices of a segment are there and stay, and some lack their chunks of it.
    pub(crate) fn is_to_fill(&self, segment: u32) -> bool {
        self.can_fill() && is_filled(self.membership.told(segment), self.unwelcome())
    }

    /// The next segment that is to be filled and that `fits`, with the number of its newest row,
    /// and the device that lacks its chunks of it.
    pub(crate) fn next_to_fill(&mut self, fits: impl Fn(u32, u64) -> bool) -> Option<(u32, u8)> {
        if !self.can_fill() {
            return None;
        }
        let unwelcome = self.unwelcome();
        let segment = self.membership.next_lacking(|it, segment| {
            is_filled(it.told(segment), unwelcome) && fits(segment, it.newest(segment))
        })?;
        Some((segment, self.membership.told(segment).1.first()?))
    }

    /// The next segment that is exposed, and that `fits`, but for those that are to be filled and
    /// that `can_be` now.
    pub(crate) fn next_exposed(
        &mut self,
        fits: impl Fn(u32) -> bool,
        can_be: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let (lost, leaving) = (self.inactive(), self.leaving());
        let current = self.membership.current().members();
        if current.overlaps(lost) {
            return None;
        }
        let (unwelcome, can_fill) = (self.unwelcome(), self.can_fill());
        let may_be = |segment| can_fill && can_be(segment);
        let missing = self.membership.next_missing(lost, |it, segment| {
            fits(segment) && !(is_filled(it.told(segment), unwelcome) && may_be(segment))
        });
        if current.overlaps(leaving) {
            missing
        } else {
            missing.or_else(|| self.membership.next_on(leaving, fits))
        }
    }
}

/// Whether of such members, some of which lack their chunks, all are there and stay.
fn is_filled((members, lacking): (DeviceSet, DeviceSet), unwelcome: DeviceSet) -> bool {
    !lacking.is_empty() && !members.overlaps(unwelcome)
}
