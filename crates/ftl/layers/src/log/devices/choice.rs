//! On which devices segments are opened, and what has to move because of that.

use super::Devices;
use crate::log::stripe::bits;
use crate::planted::{Bug, planted};

impl Devices {
    /// Chooses where segments are opened: on the devices that are good and stay, if what there is
    /// `fits` on them; else on those that leave too; else on as few as possible that are lost as
    /// well, for which parity makes up. They are, when no root says that nothing lies there.
    /// Whether that is new.
    pub(crate) fn choose(&mut self, fits: impl Fn(u16) -> bool) -> bool {
        let all = self.membership.all();
        let good = all & !self.lost();
        let may = |set: u16| {
            let enough = set.count_ones() > u32::from(self.layout.parity);
            enough && (set == all || fits(set))
        };
        let stays = self.staying();
        self.wanted = match self.lost() & all {
            _ if may(stays) => stays,
            0 => good,
            lost => self.with_lost(good, lost, may),
        };
        let told =
            self.wanted & (self.told.out | self.told.telling) == 0 || planted(Bug::OpenedUntold);
        self.widens &= !told;
        told && self.membership.choose(self.wanted)
    }

    /// The devices that are good and are not to leave.
    pub(crate) fn staying(&self) -> u16 {
        self.membership.all() & !self.lost() & !self.leaving()
    }

    /// Where segments are to be opened, as far as was chosen last.
    pub(crate) fn wanted(&self) -> u16 {
        self.wanted
    }

    /// The devices of `good`, and as few of `lost` as are needed so that rows `may` lie there; no
    /// more than parity makes up for.
    fn with_lost(&self, good: u16, lost: u16, may: impl Fn(u16) -> bool) -> u16 {
        // Those on which something lies come first: parity makes up for them as it is.
        let lies = |device: &usize| !self.membership.is_out(*device as u8);
        let needed = bits(lost).filter(lies).fold(0, |set, device| set | 1 << device);
        let lost = bits(needed).chain(bits(lost & !needed)).take(self.layout.parity.into());
        lost.fold(good, |set, device| if may(set) { set } else { set | 1 << device })
    }

    /// Whether devices are on their way into the volume: their room is counted already, and nothing
    /// is opened there yet.
    pub(crate) fn is_widening(&self) -> bool {
        self.widens || self.is_entering()
    }

    /// Whether a root has yet to say so of one.
    pub(crate) fn is_entering(&self) -> bool {
        self.newcomers.entering() & self.joining() & !self.spare() != 0
    }

    /// Devices on which nothing is to lie when it can be elsewhere.
    fn unwelcome(&self) -> u16 {
        self.lost() | self.leaving()
    }

    /// How often a segment has to move: it misses a chunk, or lies on a device that is to leave.
    pub(crate) fn to_move(&self) -> u32 {
        self.exposed()
            + bits(self.leaving()).map(|device| self.membership.named(device)).sum::<u32>()
    }

    /// Whether a segment misses a chunk that one opened now would have, or lies on a device that is
    /// to leave, and one opened now would not.
    pub(crate) fn is_exposed(&self, segment: u32) -> bool {
        let current = self.membership.current().members();
        let (members, lacking) = self.membership.told(segment);
        let misses = members & self.lost() | lacking;
        misses != 0 && current & self.lost() == 0
            || members & self.leaving() != 0 && current & self.unwelcome() == 0
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
        Some((segment, self.membership.told(segment).1.trailing_zeros() as u8))
    }

    /// The next segment that is exposed, and that `fits`, but for those that are to be filled and
    /// that `can_be` now.
    pub(crate) fn next_exposed(
        &mut self,
        fits: impl Fn(u32) -> bool,
        can_be: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        let (lost, leaving) = (self.lost(), self.leaving());
        let current = self.membership.current().members();
        if current & lost != 0 {
            return None;
        }
        let (unwelcome, can_fill) = (self.unwelcome(), self.can_fill());
        let may_be = |segment| can_fill && can_be(segment);
        let missing = self.membership.next_missing(lost, |it, segment| {
            fits(segment) && !(is_filled(it.told(segment), unwelcome) && may_be(segment))
        });
        match current & leaving {
            0 => missing.or_else(|| self.membership.next_on(leaving, fits)),
            _ => missing,
        }
    }
}

/// Whether of such members, some of which lack their chunks, all are there and stay.
fn is_filled((members, lacking): (u16, u16), unwelcome: u16) -> bool {
    lacking != 0 && members & unwelcome == 0
}
