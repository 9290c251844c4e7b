//! Records of durable roots about devices: the lost devices, and the devices without data.

use hostftl_core::{DeviceSet, MemberRole, MemberState};
use hostftl_format::log::{Begin, Root};

use super::Devices;
use crate::planted::{Bug, planted};

impl Devices {
    /// Initializes a new volume, in which every device is used.
    pub(crate) fn format(&mut self) {
        self.committed.out = DeviceSet::EMPTY;
    }

    /// Applies the contents of the root that recovery found.
    pub(crate) fn found(&mut self, root: &Root) {
        let places = self.places();
        let known = DeviceSet::from_bits(root.known);
        self.committed.out = DeviceSet::from_bits(root.out) & places | (places - known);
        let entering = self.untrusted() - known;
        self.joining.found(entering);
        if !planted(Bug::GrownEarly) {
            self.membership.leave(entering);
        }
    }

    /// Returns all places of devices.
    fn places(&self) -> DeviceSet {
        DeviceSet::first_n(self.layout.devices.into())
    }

    /// Returns the devices known to the root in progress.
    pub(crate) fn known(&self) -> DeviceSet {
        self.places() - self.joining.entering()
    }

    /// Applies the contents of a root that became durable.
    pub(crate) fn commit_root(&mut self, root: &Root, journal: DeviceSet) {
        // The root's list may contain the place of the journal, which has no stripes.
        let set = (DeviceSet::from_bits(root.lost) - journal) | self.removed() & journal;
        assert!(set.is_within(self.inactive()), "a root records lost devices");
        let joined = self.joining.joined(set);
        joined.iter().for_each(|device| self.members.change(device, MemberState::Active));
        self.members.record(set);
        self.enter(joined);
        self.committed.out = DeviceSet::from_bits(root.out) & self.places();
        self.committed.pending = DeviceSet::EMPTY;
        self.committed.replayed = replayed(root);
        self.note_rebuilt();
        self.part();
    }

    /// Updates which lost devices are rebuilt, because the durable root records no data on them.
    pub(super) fn note_rebuilt(&mut self) {
        let is_complete = self.membership.is_complete();
        let committed = if is_complete { self.committed.out } else { DeviceSet::EMPTY };
        let (lost, rebuilt) = (self.members.lost(), self.members.rebuilt());
        for device in (lost & committed) - rebuilt {
            self.members.change(device, MemberState::Rebuilt);
        }
        for device in rebuilt - committed {
            self.members.change(device, MemberState::Lost);
        }
    }

    /// Completes the removal of leaving devices that hold no data any more.
    fn part(&mut self) {
        let left = (self.leaving() & self.committed.out) - self.untrusted();
        if !left.is_empty() && self.membership.is_complete() {
            for device in left {
                self.members.assign(device, MemberRole::Data);
                self.members.change(device, MemberState::Removed);
            }
            // The device may have been chosen again since the root was begun.
            self.wanted -= left;
            self.membership.leave(left);
        }
    }

    /// Returns the lost or leaving devices without data on which no segment is to be opened.
    fn out(&self) -> DeviceSet {
        if !self.membership.is_complete() {
            return self.committed.out;
        }
        let is_out = |device: &u8| {
            let early = self.leaving().contains(*device) && planted(Bug::RemovedEarly);
            self.membership.is_out(*device) || planted(Bug::ProtectedEarly) || early
        };
        let out = self.inactive() | (self.leaving() - self.committed.replayed) | self.spare();
        out.iter().filter(is_out).collect::<DeviceSet>() - self.wanted
    }

    /// Begins a root. Returns the devices that it records as unused.
    pub(crate) fn begin_root(&mut self, root: &Root) -> DeviceSet {
        self.committed.pending = self.out() - (self.leaving() & replayed(root));
        self.committed.pending
    }

    /// Completes the member lists after recovery has found all segments.
    pub(crate) fn found_all(&mut self) {
        self.membership.complete();
        self.wanted = self.membership.current().members();
        // A forged root may contain contradictions, so devices that segments name are not trusted
        // to be unused.
        let is_named = |device: &u8| !self.membership.is_out(*device);
        let named = self.places().iter().filter(is_named).collect::<DeviceSet>();
        self.committed.out -= named | self.wanted;
        self.note_rebuilt();
        // The superblocks may not record these removals yet.
        self.part();
    }

    /// Returns whether the durable root records the current set of unused devices.
    pub(crate) fn is_out_committed(&self) -> bool {
        self.committed.out == self.out()
    }

    /// Returns whether a device is removed with the next root because it holds no data already, for
    /// example after it was lost and rebuilt before its removal.
    pub(crate) fn is_parting(&self) -> bool {
        let parts = self.leaving() & self.committed.out;
        self.membership.is_complete() && !parts.is_within(self.untrusted())
    }

    /// Returns whether a device can be removed only after another root, because replay may need its
    /// data.
    pub(crate) fn is_replay_outdated(&self) -> bool {
        let replayed = self.leaving() & self.committed.replayed;
        replayed.iter().any(|device| self.membership.is_out(device))
    }
}

/// Returns the devices that may hold stripes to be replayed from a root.
fn replayed(root: &Root) -> DeviceSet {
    let on = |begin: &Begin| begin.members | begin.ahead.map_or(0, |(_, members)| members);
    DeviceSet::from_bits(root.streams.iter().flatten().fold(0, |set, begin| set | on(begin)))
}
