//! The last reported state of each device, and the events of later changes.
//!
//! Events are derived from state differences, never from causes: a loss is reported whether a
//! command failed, an operator wanted it, or recovery found an older copy. The first state is that
//! of the superblocks before recovery.
//!
//! Invariant: a change that frees a device, or makes another loss survivable, is reported only when
//! all superblocks record it, because a start after a power cut relies on them alone.

use hostftl_core::{DeviceSet, Layer, MAX_MEMBERS, Member, MemberRole, MemberState, Members};
use hostftl_format::roster::Standing;
use hostftl_format::superblock::Superblock;

use crate::metadata::roster::standing;
use crate::open::event_host::EventHost;
use crate::util::events::Level;

/// Reported states of the devices.
#[derive(Debug, Default)]
pub(super) struct ReportedStates {
    members: Members,
    /// Devices that joined during this run.
    came: DeviceSet,
    /// Removed devices that were closed.
    closed: DeviceSet,
    /// Whether the layer has failed.
    has_failed: bool,
    /// Whether nothing was reported yet, so that the first changes come from recovery.
    at_start: bool,
}

impl ReportedStates {
    /// Creates the states before recovery, from the superblocks. The devices of `out` hold no data.
    pub(super) fn new(members: &hostftl_layers::Members, out: DeviceSet) -> Self {
        let (came, members) = (members.fresh, members.states(out));
        let closed = members.removed();
        ReportedStates { members, came, closed, at_start: true, ..ReportedStates::default() }
    }

    /// Records that the layer was reopened with new devices.
    pub(super) fn reopened(&mut self, came: DeviceSet) {
        (self.came, self.closed) = (came, self.members.removed());
        came.iter().for_each(|device| self.set_joining(device));
    }

    /// Returns the member states for the superblocks.
    pub(super) fn standing(&self, layer: &impl Layer) -> Standing {
        standing(layer, self.came)
    }

    /// Returns whether the states of `now`, or a failure of the layer, differ from the reported
    /// ones.
    pub(super) fn is_news(&self, now: &Members, has_failed: bool) -> bool {
        let is_same = |device| {
            let (was, is) = (self.members.get(device), now.get(device));
            (was.state, was.role) == (is.state, is.role)
        };
        has_failed != self.has_failed || !(0..MAX_MEMBERS as u8).all(is_same)
    }

    /// Records that a new device is member `index`.
    pub(super) fn came(&mut self, index: u8) {
        self.came.insert(index);
        self.set_joining(index);
    }

    fn set_joining(&mut self, device: u8) {
        let member = Member { state: MemberState::Joining, ..self.members.get(device) };
        self.members = self.members.with(device, member);
    }

    /// Returns the removed devices that are still open.
    pub(super) fn open_removed(&self) -> DeviceSet {
        self.members.removed() - self.closed
    }

    /// Records that a removed device was closed.
    pub(super) fn is_closed(&mut self, index: u8) {
        self.closed.insert(index);
    }

    /// Records whether an operator wants device `index` offline.
    pub(super) fn order(&mut self, index: u8, is_wanted: bool) {
        self.members.plan(index, is_wanted);
    }

    /// Ends the phase in which losses are attributed to recovery.
    pub(super) fn end_start(&mut self) {
        self.at_start = false;
    }

    /// Reports the differences between `now` and the reported states, as far as the superblocks,
    /// whose state is `recorded`, record them. `recorded` is `None` where superblocks never change.
    pub(super) fn report_changes(
        &mut self,
        now: &Members,
        recorded: Option<&Superblock>,
        has_failed: bool,
        event_host: &mut EventHost,
    ) {
        for device in 0..MAX_MEMBERS as u8 {
            let was = self.members.get(device);
            let is = as_recorded(device, (was, now.get(device)), recorded);
            self.report_change(device, (was, is), event_host);
            self.members = self.members.with(device, Member { planned: was.planned, ..is });
        }
        event_host.faulted &= now.lost();
        event_host.unrecorded = now.rebuilt() - self.members.rebuilt();
        event_host.removed = self.members.removed();
        if has_failed && !self.has_failed {
            let text = "the layer failed: writes and flushes end with errors";
            event_host.events.report(Level::Error, "failed", text);
        }
        self.has_failed = has_failed;
    }

    /// Reports the change of a device.
    fn report_change(&self, device: u8, (was, is): (Member, Member), event_host: &EventHost) {
        let report = |level, kind, text: &str| {
            let text = format!("device {device} ({}) {text}", event_host.name(device));
            event_host.events.report_device(device, level, kind, text);
        };
        if is.state.is_lost() && !was.state.is_lost() {
            self.report_loss(device, was.planned, event_host);
        }
        if is.state == MemberState::Rebuilt && was.state != MemberState::Rebuilt {
            report(Level::Info, "rebuilt", REBUILT);
        }
        if is.state == MemberState::Active && was.state != MemberState::Active {
            report(Level::Info, "device-joined", JOINED);
        }
        let (leaving, spare) = (MemberRole::Leaving, MemberRole::Spare);
        let removed = is.state == MemberState::Removed;
        if is.role == leaving && was.role != leaving {
            report(Level::Info, "removal-started", LEAVES);
        }
        // The role of a removed device ends too, but that is no cancellation.
        if was.role == leaving && is.role != leaving && !removed {
            report(Level::Info, "removal-cancelled", STAYS);
        }
        if was.role == spare && is.role != spare && !removed {
            report(Level::Warning, "spare-used", SPARE);
        }
        if removed && was.state != MemberState::Removed {
            report(Level::Info, "device-removed", REMOVED);
        }
    }

    fn report_loss(&self, device: u8, is_planned: bool, event_host: &EventHost) {
        let (level, kind, how) = match (is_planned, self.at_start) {
            (true, _) => (Level::Warning, "degraded", "was taken offline by command"),
            (false, true) => {
                (Level::Error, "device-lost", "is unusable: damaged or stale at recovery")
            }
            (false, false) => (Level::Error, "device-lost", "was lost"),
        };
        let name = event_host.name(device);
        let text = format!("DEGRADED: device {device} ({name}) {how}; the volume runs without it");
        event_host.events.report_device(device, level, kind, text);
    }
}

/// Returns the state that may be reported of a device whose reported state is `was` and current
/// state is `now`.
fn as_recorded(device: u8, (was, now): (Member, Member), recorded: Option<&Superblock>) -> Member {
    let Some(recorded) = recorded else { return now };
    let is = |set| DeviceSet::from_bits(set).contains(device);
    match now.state {
        MemberState::Rebuilt if !is(recorded.out) => {
            if was.state.is_lost() {
                Member { state: was.state, ..now }
            } else {
                Member { state: MemberState::Lost, ..now }
            }
        }
        MemberState::Active if was.state.is_coming() && is(recorded.fresh) => {
            Member { state: was.state, ..now }
        }
        MemberState::Removed if !is(recorded.removed) => was,
        _ => now,
    }
}

const REBUILT: &str = "rebuilt onto the remaining devices; redundancy restored";
const JOINED: &str = "joined the volume";
const LEAVES: &str = "is being removed: its data moves to the other devices";
const STAYS: &str = "stays, removal cancelled";
const SPARE: &str = "is no longer a spare: it replaces a lost device";
const REMOVED: &str = "was removed and can be disconnected";
