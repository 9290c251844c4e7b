//! Devices of a volume: each has one state and one role, and a table lists the legal transitions
//! between states.

use crate::DeviceSet;

/// Maximum number of devices of a volume.
pub const MAX_MEMBERS: usize = 16;

/// State of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// In use.
    Active,
    /// Absent when the volume was opened.
    Missing,
    /// Failed, or taken offline by an operator.
    Lost,
    /// Missing or lost, with its data stored redundantly and durably on the other devices.
    Rebuilt,
    /// New, as a replacement or an addition; its missing chunks are not yet recorded in a durable
    /// root.
    Joining,
    /// Back after a loss; otherwise like `Joining`.
    Returning,
    /// Removed durably. Its index stays unused.
    Removed,
}

use MemberState::{Active, Joining, Lost, Missing, Rebuilt, Removed, Returning};

impl MemberState {
    /// All states.
    pub const ALL: [MemberState; 7] = [Active, Missing, Lost, Rebuilt, Joining, Returning, Removed];

    /// Returns whether the transition from this state to `next` is legal: the transition table.
    pub const fn may_become(self, next: MemberState) -> bool {
        matches!(
            (self, next),
            (Active, Lost | Removed)
                | (Missing | Lost, Rebuilt | Joining | Returning | Removed)
                // While the others lack space, stripes again include it, with a missing chunk.
                | (Rebuilt, Lost | Joining | Returning | Removed)
                // It is recorded in a root, it failed again, or another device replaces it.
                | (Joining | Returning, Active | Lost)
        )
    }

    /// Returns whether the device is missing or lost and has no replacement yet.
    pub const fn is_lost(self) -> bool {
        matches!(self, Missing | Lost | Rebuilt)
    }

    /// Returns whether the device is joining or returning: a start may not trust its contents yet.
    pub const fn is_coming(self) -> bool {
        matches!(self, Joining | Returning)
    }
}

/// Role of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberRole {
    /// Stores data and parity.
    Data,
    /// Stores the journal.
    Journal,
    /// Hot spare: empty until it replaces a lost device.
    Spare,
    /// To be removed; its data moves to the other devices.
    Leaving,
}

/// Device of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// State of the device.
    pub state: MemberState,
    /// Role of the device.
    pub role: MemberRole,
    /// Whether a durable root agrees with the device being in use or not.
    pub recorded: bool,
    /// Whether an operator took it offline: no spare replaces it.
    pub planned: bool,
}

impl Member {
    /// Device in use for data.
    pub const ACTIVE: Member =
        Member { state: Active, role: MemberRole::Data, recorded: true, planned: false };
}

/// Devices of a volume by index in the stack. Entries after the last device are active and unused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members {
    list: [Member; MAX_MEMBERS],
    /// Sets that are read for every command: devices that are not active, that leave, and that are
    /// not recorded.
    inactive: DeviceSet,
    leaving: DeviceSet,
    unrecorded: DeviceSet,
}

impl Default for Members {
    fn default() -> Self {
        let none = DeviceSet::EMPTY;
        let list = [Member::ACTIVE; MAX_MEMBERS];
        Members { list, inactive: none, leaving: none, unrecorded: none }
    }
}

impl Members {
    /// Returns a device.
    ///
    /// # Panics
    /// When the index is beyond the maximum number of devices.
    #[inline]
    pub fn get(&self, device: u8) -> Member {
        self.list[usize::from(device)]
    }

    /// Returns the table with a device set, regardless of its previous state.
    #[must_use]
    pub fn with(mut self, device: u8, member: Member) -> Self {
        self.put(device, member);
        self
    }

    fn put(&mut self, device: u8, member: Member) {
        self.inactive.set(device, member.state != Active);
        self.leaving.set(device, member.role == MemberRole::Leaving);
        self.unrecorded.set(device, !member.recorded);
        self.list[usize::from(device)] = member;
    }

    /// Changes the state of a device. A change to or from active is initially unrecorded.
    ///
    /// # Panics
    /// When the transition is not legal.
    pub fn change(&mut self, device: u8, state: MemberState) {
        let was = self.get(device);
        let is_legal = was.state.may_become(state);
        assert!(is_legal, "device {device} cannot become {state:?}: it is {:?}", was.state);
        let recorded = was.recorded && was.state != Active && state != Active;
        self.put(device, Member { state, recorded, ..was });
    }

    /// Changes the role of a device.
    ///
    /// # Panics
    /// When the device is or would become the journal's: that role is fixed.
    pub fn assign(&mut self, device: u8, role: MemberRole) {
        let was = self.get(device);
        let is_journal = |role| role == MemberRole::Journal;
        assert!(is_journal(was.role) == is_journal(role), "the journal device keeps its role");
        self.put(device, Member { role, ..was });
    }

    /// Records that a durable root lists the devices `inactive` as not in use, and all others as in
    /// use.
    pub fn record(&mut self, inactive: DeviceSet) {
        for device in DeviceSet::ALL {
            let recorded = inactive.contains(device) == self.inactive.contains(device);
            self.put(device, Member { recorded, ..self.get(device) });
        }
    }

    /// Records whether an operator took a device offline.
    pub fn plan(&mut self, device: u8, planned: bool) {
        self.put(device, Member { planned, ..self.get(device) });
    }

    /// Returns whether durable roots agree with the devices in use.
    #[inline]
    pub fn are_recorded(&self) -> bool {
        self.unrecorded.is_empty()
    }

    /// Returns the devices for which `is` holds.
    pub fn set(&self, is: impl Fn(Member) -> bool) -> DeviceSet {
        DeviceSet::ALL.iter().filter(|device| is(self.get(*device))).collect()
    }

    /// Returns the inactive devices with a state for which `is` holds.
    fn inactive_with(&self, is: impl Fn(MemberState) -> bool) -> DeviceSet {
        self.inactive.iter().filter(|device| is(self.get(*device).state)).collect()
    }

    /// Returns the devices that are not in use for any reason.
    #[inline]
    pub fn inactive(&self) -> DeviceSet {
        self.inactive
    }

    /// Returns the devices that are missing or lost and have no replacement yet.
    pub fn lost(&self) -> DeviceSet {
        self.inactive_with(MemberState::is_lost)
    }

    /// Returns the lost devices whose data is stored redundantly and durably on the others.
    pub fn rebuilt(&self) -> DeviceSet {
        self.inactive_with(|state| state == Rebuilt)
    }

    /// Returns the joining and returning devices, which a start may not trust yet.
    pub fn coming(&self) -> DeviceSet {
        self.inactive_with(MemberState::is_coming)
    }

    /// Returns the devices that were removed.
    pub fn removed(&self) -> DeviceSet {
        self.inactive_with(|state| state == Removed)
    }

    /// Returns the devices that are to be removed.
    #[inline]
    pub fn leaving(&self) -> DeviceSet {
        self.leaving
    }

    /// Returns the hot spares.
    pub fn spares(&self) -> DeviceSet {
        self.set(|member| member.role == MemberRole::Spare)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(state: MemberState) -> Members {
        Members::default().with(3, Member { state, ..Member::ACTIVE })
    }

    #[test]
    fn the_transition_table_is_complete() {
        let legal = [
            (Active, &[Lost, Removed][..]),
            (Missing, &[Rebuilt, Joining, Returning, Removed]),
            (Lost, &[Rebuilt, Joining, Returning, Removed]),
            (Rebuilt, &[Lost, Joining, Returning, Removed]),
            (Joining, &[Active, Lost]),
            (Returning, &[Active, Lost]),
            (Removed, &[]),
        ];
        assert_eq!(legal.map(|(state, _)| state), MemberState::ALL, "each state once");
        for (from, to) in legal {
            for next in MemberState::ALL {
                assert_eq!(from.may_become(next), to.contains(&next), "{from:?} to {next:?}");
            }
        }
    }

    #[test]
    fn sets_follow_the_states_and_roles() {
        for state in MemberState::ALL {
            let it = at(state);
            let is = |set: DeviceSet| set == DeviceSet::single(3);
            assert_eq!(is(it.inactive()), state != Active);
            assert_eq!(is(it.lost()), matches!(state, Missing | Lost | Rebuilt));
            assert_eq!(is(it.rebuilt()), state == Rebuilt);
            assert_eq!(is(it.coming()), matches!(state, Joining | Returning));
            assert_eq!(is(it.removed()), state == Removed);
        }
        let mut it = at(Active);
        it.assign(3, MemberRole::Spare);
        assert_eq!((it.spares(), it.leaving()), (DeviceSet::single(3), DeviceSet::EMPTY));
        it.assign(3, MemberRole::Leaving);
        assert_eq!((it.spares(), it.leaving()), (DeviceSet::EMPTY, DeviceSet::single(3)));
        it.change(3, Removed);
        assert_eq!((it.removed(), it.inactive()), (DeviceSet::single(3), DeviceSet::single(3)));
    }

    #[test]
    fn changes_must_be_recorded_again() {
        let mut it = Members::default();
        assert!(it.are_recorded());
        it.change(3, Lost);
        assert!(!it.are_recorded());
        it.record(DeviceSet::single(3));
        assert!(it.are_recorded());
        it.change(3, Rebuilt);
        it.change(3, Joining);
        assert!(it.are_recorded(), "it is not used as before");
        it.change(3, Active);
        assert!(!it.are_recorded());
        it.record(DeviceSet::EMPTY);
        assert!(it.are_recorded());
    }

    #[test]
    #[should_panic(expected = "device 3 cannot become Joining: it is Active")]
    fn a_device_in_use_is_not_replaced() {
        at(Active).change(3, Joining);
    }

    #[test]
    #[should_panic(expected = "keeps its role")]
    fn the_journal_keeps_its_device() {
        let journal = Member { role: MemberRole::Journal, ..Member::ACTIVE };
        Members::default().with(3, journal).assign(3, MemberRole::Leaving);
    }
}
