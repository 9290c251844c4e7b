//! Choice of the devices on which segments are opened, and of the segments that must move as a
//! result.

use hostftl_core::DeviceSet;

use super::Devices;
use crate::planted::{Bug, planted};

impl Devices {
    /// Chooses the devices on which segments are opened, and returns whether they changed. The
    /// first of these sets on which all data `fits` is chosen:
    /// - the good devices that stay,
    /// - all good devices, including leaving ones,
    /// - these and as few lost devices as possible, for which parity makes up.
    ///
    /// The choice takes effect only if no root, durable or in progress, records one of the devices
    /// as unused.
    pub(crate) fn choose(&mut self, fits: impl Fn(DeviceSet) -> bool) -> bool {
        let all = self.membership.all();
        let good = all - self.inactive();
        let may = |set: DeviceSet| {
            // A set of all devices needs no check: there is no larger one.
            let enough = set.len() > u32::from(self.layout.parity);
            enough && (set == all || fits(set))
        };
        let stays = self.staying();
        self.wanted = match self.inactive() & all {
            _ if may(stays) => stays,
            DeviceSet::EMPTY => good,
            lost => self.with_lost(good, lost, may),
        };
        let is_committed = !self.wanted.overlaps(self.committed.out | self.committed.pending)
            || planted(Bug::OpenedUntold);
        // Until a root allows the choice, segments are opened on the devices chosen before.
        self.widens &= !is_committed;
        is_committed && self.membership.choose(self.wanted)
    }

    /// Returns the devices that are good and not leaving.
    pub(crate) fn staying(&self) -> DeviceSet {
        self.membership.all() - self.inactive() - self.leaving()
    }

    /// Returns the devices on which segments are to be opened, according to the last choice.
    pub(crate) fn wanted(&self) -> DeviceSet {
        self.wanted
    }

    /// Returns the devices in `good`, and as few of `lost` as are needed for a set that `may` be
    /// used. No more are added than parity makes up for.
    fn with_lost(
        &self,
        good: DeviceSet,
        lost: DeviceSet,
        may: impl Fn(DeviceSet) -> bool,
    ) -> DeviceSet {
        // Devices with data come first, because parity makes up for them already.
        let lies = |device: &u8| !self.membership.is_out(*device);
        let needed = lost.iter().filter(lies).collect::<DeviceSet>();
        let lost = needed.iter().chain(lost - needed).take(self.layout.parity.into());
        lost.fold(good, |set, device| if may(set) { set } else { set.with(device) })
    }

    /// Returns whether devices are joining the volume: their capacity counts already, but no
    /// segment has been opened there.
    pub(crate) fn is_widening(&self) -> bool {
        self.widens || self.is_entering()
    }

    /// Returns whether a joining device is not yet known to a durable root.
    pub(crate) fn is_entering(&self) -> bool {
        !(self.joining.entering() & self.joining()).is_within(self.spare())
    }

    /// Returns the devices to be avoided: those lost or leaving.
    fn unwelcome(&self) -> DeviceSet {
        self.inactive() | self.leaving()
    }

    /// Returns the number of moves needed: the missing chunks, and the chunks on leaving devices,
    /// each summed over segments.
    pub(crate) fn to_move(&self) -> u32 {
        let leaving = self.leaving().iter();
        self.exposed() + leaving.map(|device| self.membership.named(device)).sum::<u32>()
    }

    /// Returns whether a segment would be better placed if it were opened now: it misses a chunk,
    /// or it is on a leaving device.
    pub(crate) fn is_exposed(&self, segment: u32) -> bool {
        let current = self.membership.current().members();
        let (members, lacking) = self.membership.recorded(segment);
        let misses = members & self.inactive() | lacking;
        !misses.is_empty() && !current.overlaps(self.inactive())
            || members.overlaps(self.leaving()) && !current.overlaps(self.unwelcome())
    }

    /// Returns whether missing chunks can be written in place. In a zone no write is possible
    /// before the write pointer.
    fn can_fill(&self) -> bool {
        !self.layout.zoned
    }

    /// Returns whether all devices of a segment are present and stay, and some miss their chunks of
    /// it.
    pub(crate) fn is_to_fill(&self, segment: u32) -> bool {
        self.can_fill() && is_filled(self.membership.recorded(segment), self.unwelcome())
    }

    /// Returns the next segment to be resilvered that `fits` (given the segment and the number of
    /// its newest stripe), and a device that misses its chunks.
    pub(crate) fn next_to_fill(&mut self, fits: impl Fn(u32, u64) -> bool) -> Option<(u32, u8)> {
        if !self.can_fill() {
            return None;
        }
        let unwelcome = self.unwelcome();
        let segment = self.membership.next_lacking(|it, segment| {
            is_filled(it.recorded(segment), unwelcome) && fits(segment, it.newest(segment))
        })?;
        Some((segment, self.membership.recorded(segment).1.first()?))
    }

    /// Returns the next exposed segment that `fits`. Segments that can be resilvered in place, and
    /// for which `can_be` permits that now, are excluded.
    pub(crate) fn next_exposed(
        &mut self,
        fits: impl Fn(u32) -> bool,
        can_be: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let (lost, leaving) = (self.inactive(), self.leaving());
        let current = self.membership.current().members();
        // Moves would create segments that miss a chunk again.
        if current.overlaps(lost) {
            return None;
        }
        let (unwelcome, can_fill) = (self.unwelcome(), self.can_fill());
        let may_be = |segment| can_fill && can_be(segment);
        let missing = self.membership.next_missing(lost, |it, segment| {
            fits(segment) && !(is_filled(it.recorded(segment), unwelcome) && may_be(segment))
        });
        if current.overlaps(leaving) {
            missing
        } else {
            missing.or_else(|| self.membership.next_on(leaving, fits))
        }
    }
}

/// Returns whether, of these members, some miss their chunks and all are present and stay.
fn is_filled((members, lacking): (DeviceSet, DeviceSet), unwelcome: DeviceSet) -> bool {
    !lacking.is_empty() && !members.overlaps(unwelcome)
}
