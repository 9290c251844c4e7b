//! What durable roots say of devices: who is lost, and on whom nothing lies.

use hostftl_core::{MemberRole, MemberState};
use hostftl_format::log::{Begin, Root};

use super::Devices;
use crate::log::stripe::bits;
use crate::planted::{Bug, planted};

impl Devices {
    /// The volume is new: something is to lie on each device.
    pub(crate) fn format(&mut self) {
        self.told.out = 0;
    }

    /// What the root says that recovery found.
    pub(crate) fn found(&mut self, root: &Root) {
        let places = self.places();
        self.told.out = (root.out | !root.known) & places;
        let entering = self.untrusted() & !root.known;
        self.newcomers.found(entering);
        if !planted(Bug::GrownEarly) {
            self.membership.leave(entering);
        }
    }

    /// All places of devices.
    fn places(&self) -> u16 {
        ((1_u32 << self.layout.devices) - 1) as u16
    }

    /// The devices of which a root knows that is written now.
    pub(crate) fn known(&self) -> u16 {
        self.places() & !self.newcomers.entering()
    }

    /// A durable root says who is lost, and on whom nothing lies.
    pub(crate) fn told(&mut self, root: &Root, journal: u16) {
        // What a root says of the journal is no matter of the rows, in whatever place it is.
        let set = root.lost & !journal | self.gone() & journal;
        assert_eq!(set & !self.lost(), 0, "a root says of lost devices that they are");
        let joined = self.newcomers.joined(set);
        bits(joined).for_each(|device| self.members.change(device as u8, MemberState::Active));
        self.members.record(set);
        self.enter(joined);
        (self.told.out, self.told.telling) = (root.out & self.places(), 0);
        self.told.replayed = replayed(root);
        self.note_rebuilt();
        self.part();
    }

    /// Takes note of the lost devices on which nothing lies, by what the durable root says.
    pub(super) fn note_rebuilt(&mut self) {
        let told = if self.membership.is_complete() { self.told.out } else { 0 };
        let (lost, rebuilt) = (self.members.lost(), self.members.rebuilt());
        for device in bits(lost & told & !rebuilt) {
            self.members.change(device as u8, MemberState::Rebuilt);
        }
        for device in bits(rebuilt & !told) {
            self.members.change(device as u8, MemberState::Lost);
        }
    }

    /// Those that are to leave, and on which nothing lies any more, have left.
    fn part(&mut self) {
        let left = self.leaving() & self.told.out & !self.untrusted();
        if left != 0 && self.membership.is_complete() {
            for device in bits(left).map(|device| device as u8) {
                self.members.assign(device, MemberRole::Data);
                self.members.change(device, MemberState::Removed);
            }
            // It may have been wanted again since the root was begun.
            self.wanted &= !left;
            self.membership.leave(left);
        }
    }

    /// The devices that are lost, or leave, and on which nothing lies, nor is to lie soon.
    fn out(&self) -> u16 {
        if !self.membership.is_complete() {
            return self.told.out;
        }
        let is_out = |device: &usize| {
            let early = self.leaving() >> device & 1 == 1 && planted(Bug::RemovedEarly);
            self.membership.is_out(*device as u8) || planted(Bug::ProtectedEarly) || early
        };
        let out = bits(self.lost() | self.leaving() & !self.told.replayed | self.spare());
        out.filter(is_out).fold(0, |set, device| set | 1 << device) & !self.wanted
    }

    /// A root is begun: the devices on which it says that nothing lies.
    pub(crate) fn begin_to_tell(&mut self, root: &Root) -> u16 {
        self.told.telling = self.out() & !(self.leaving() & replayed(root));
        self.told.telling
    }

    /// Recovery has found where all segments lie.
    pub(crate) fn found_all(&mut self) {
        self.membership.complete();
        self.wanted = self.membership.current().members();
        // A root that somebody made up may say what can't be.
        let named = bits(self.places()).filter(|device| !self.membership.is_out(*device as u8));
        let named = named.fold(0, |set, device| set | 1 << device);
        self.told.out &= !(named | self.wanted);
        self.note_rebuilt();
        // The superblocks may not say so yet.
        self.part();
    }

    /// Whether a durable root says on which devices nothing lies.
    pub(crate) fn is_out_told(&self) -> bool {
        self.told.out == self.out()
    }

    /// Whether a device leaves with the next root: nothing lies on it already, as one that was lost
    /// and rebuilt before its removal.
    pub(crate) fn is_parting(&self) -> bool {
        let parts = self.leaving() & self.told.out;
        self.membership.is_complete() && parts & !self.untrusted() != 0
    }

    /// Whether a root has to be made before a device can leave: replay may need something there.
    pub(crate) fn is_replay_outdated(&self) -> bool {
        let out = bits(self.leaving() & self.told.replayed);
        out.into_iter().any(|device| self.membership.is_out(device as u8))
    }
}

/// The devices on which rows may lie that are replayed from a root.
fn replayed(root: &Root) -> u16 {
    let on = |begin: &Begin| begin.members | begin.ahead.map_or(0, |(_, members)| members);
    root.streams.iter().flatten().fold(0, |set, begin| set | on(begin))
}
