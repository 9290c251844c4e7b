//! What durable roots say of devices: who is lost, and on whom nothing lies.

use hostftl_core::{DeviceSet, MemberRole, MemberState};
use hostftl_format::log::{Begin, Root};

use super::Devices;
use crate::planted::{Bug, planted};

impl Devices {
    /// The volume is new: something is to lie on each device.
    pub(crate) fn format(&mut self) {
        self.told.out = DeviceSet::EMPTY;
    }

    /// What the root says that recovery found.
    pub(crate) fn found(&mut self, root: &Root) {
        let places = self.places();
        let known = DeviceSet::from_bits(root.known);
        self.told.out = DeviceSet::from_bits(root.out) & places | (places - known);
        let entering = self.untrusted() - known;
        self.newcomers.found(entering);
        if !planted(Bug::GrownEarly) {
            self.membership.leave(entering);
        }
    }

    /// All places of devices.
    fn places(&self) -> DeviceSet {
        DeviceSet::first_n(self.layout.devices.into())
    }

    /// The devices of which a root knows that is written now.
    pub(crate) fn known(&self) -> DeviceSet {
        self.places() - self.newcomers.entering()
    }

    /// A durable root says who is lost, and on whom nothing lies.
    pub(crate) fn told(&mut self, root: &Root, journal: DeviceSet) {
        // What a root says of the journal is no matter of the rows, in whatever place it is.
        let set = (DeviceSet::from_bits(root.lost) - journal) | self.gone() & journal;
        assert!(set.is_within(self.inactive()), "a root says of lost devices that they are");
        let joined = self.newcomers.joined(set);
        joined.iter().for_each(|device| self.members.change(device, MemberState::Active));
        self.members.record(set);
        self.enter(joined);
        self.told.out = DeviceSet::from_bits(root.out) & self.places();
        self.told.telling = DeviceSet::EMPTY;
        self.told.replayed = replayed(root);
        self.note_rebuilt();
        self.part();
    }

    /// Takes note of the lost devices on which nothing lies, by what the durable root says.
    pub(super) fn note_rebuilt(&mut self) {
        let is_complete = self.membership.is_complete();
        let told = if is_complete { self.told.out } else { DeviceSet::EMPTY };
        let (lost, rebuilt) = (self.members.lost(), self.members.rebuilt());
        for device in (lost & told) - rebuilt {
            self.members.change(device, MemberState::Rebuilt);
        }
        for device in rebuilt - told {
            self.members.change(device, MemberState::Lost);
        }
    }

    /// Those that are to leave, and on which nothing lies any more, have left.
    fn part(&mut self) {
        let left = (self.leaving() & self.told.out) - self.untrusted();
        if !left.is_empty() && self.membership.is_complete() {
            for device in left {
                self.members.assign(device, MemberRole::Data);
                self.members.change(device, MemberState::Removed);
            }
            // It may have been wanted again since the root was begun.
            self.wanted -= left;
            self.membership.leave(left);
        }
    }

    /// The devices that are lost, or leave, and on which nothing lies, nor is to lie soon.
    fn out(&self) -> DeviceSet {
        if !self.membership.is_complete() {
            return self.told.out;
        }
        let is_out = |device: &u8| {
            let early = self.leaving().contains(*device) && planted(Bug::RemovedEarly);
            self.membership.is_out(*device) || planted(Bug::ProtectedEarly) || early
        };
        let out = self.inactive() | (self.leaving() - self.told.replayed) | self.spare();
        out.iter().filter(is_out).collect::<DeviceSet>() - self.wanted
    }

    /// A root is begun: the devices on which it says that nothing lies.
    pub(crate) fn begin_to_tell(&mut self, root: &Root) -> DeviceSet {
        self.told.telling = self.out() - (self.leaving() & replayed(root));
        self.told.telling
    }

    /// Recovery has found where all segments lie.
    pub(crate) fn found_all(&mut self) {
        self.membership.complete();
        self.wanted = self.membership.current().members();
        // A root that somebody made up may say what can't be.
        let is_named = |device: &u8| !self.membership.is_out(*device);
        let named = self.places().iter().filter(is_named).collect::<DeviceSet>();
        self.told.out -= named | self.wanted;
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
        self.membership.is_complete() && !parts.is_within(self.untrusted())
    }

    /// Whether a root has to be made before a device can leave: replay may need something there.
    pub(crate) fn is_replay_outdated(&self) -> bool {
        let replayed = self.leaving() & self.told.replayed;
        replayed.iter().any(|device| self.membership.is_out(device))
    }
}

/// The devices on which rows may lie that are replayed from a root.
fn replayed(root: &Root) -> DeviceSet {
    let on = |begin: &Begin| begin.members | begin.ahead.map_or(0, |(_, members)| members);
    DeviceSet::from_bits(root.streams.iter().flatten().fold(0, |set, begin| set | on(begin)))
}
