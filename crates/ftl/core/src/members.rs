//! The devices of a volume: each has one state and one role, and a table lists the legal changes of
//! state.

/// The most devices of a volume.
pub const MAX_MEMBERS: usize = 16;

/// The state of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberState {
    /// It is used.
    Active,
    /// It was not there when the volume was opened.
    Missing,
    /// It failed, or an operator left it out.
    Lost,
    /// It is missing or lost, and its data is on the other devices, durably: redundancy is whole
    /// without it.
    Rebuilt,
    /// Another device came in its place, or as one more, and no durable root says yet what it
    /// lacks.
    Joining,
    /// It is back after it was lost; otherwise like `Joining`.
    Returning,
    /// It was removed, durably. Its place stays empty.
    Removed,
}

use MemberState::{Active, Joining, Lost, Missing, Rebuilt, Removed, Returning};

impl MemberState {
    /// All states.
    pub const ALL: [MemberState; 7] = [Active, Missing, Lost, Rebuilt, Joining, Returning, Removed];

    /// Whether a device may go from this state to that one: the transition table.
    pub const fn may_become(self, next: MemberState) -> bool {
        matches!(
            (self, next),
            (Active, Lost | Removed)
                | (Missing | Lost, Rebuilt | Joining | Returning | Removed)
                // Stripes are opened on it again while the others have no room.
                | (Rebuilt, Lost | Joining | Returning | Removed)
                // It belongs now, failed again, or another one comes in its place.
                | (Joining | Returning, Active | Lost)
        )
    }

    /// Whether it is missing or lost, and nothing came in its place.
    pub const fn is_lost(self) -> bool {
        matches!(self, Missing | Lost | Rebuilt)
    }

    /// Whether it came, and a start may not trust its contents yet.
    pub const fn is_coming(self) -> bool {
        matches!(self, Joining | Returning)
    }
}

/// The purpose of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MemberRole {
    /// It stores data and parity.
    Data,
    /// It stores the journal.
    Journal,
    /// It takes the place of a device that is lost, and is empty until then.
    Spare,
    /// It is to be removed: its data moves to the other devices.
    Leaving,
}

/// A device of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Its state.
    pub state: MemberState,
    /// Its purpose.
    pub role: MemberRole,
    /// Whether a durable root says whether it is used.
    pub recorded: bool,
    /// Whether an operator left it out: no spare takes its place.
    pub planned: bool,
}

impl Member {
    /// A device that is used for data.
    pub const ACTIVE: Member =
        Member { state: Active, role: MemberRole::Data, recorded: true, planned: false };
}

/// The devices of a volume by index in the stack. Places after the last one are active and mean
/// nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Members {
    list: [Member; MAX_MEMBERS],
    /// What is looked at for each command, as sets of bits: those that are not active, those that
    /// are to leave, and those that are not recorded.
    inactive: u16,
    leaving: u16,
    unrecorded: u16,
}

impl Default for Members {
    fn default() -> Self {
        Members { list: [Member::ACTIVE; MAX_MEMBERS], inactive: 0, leaving: 0, unrecorded: 0 }
    }
}

impl Members {
    /// A device.
    ///
    /// # Panics
    /// For a place that no volume has.
    #[inline]
    pub fn get(&self, device: u8) -> Member {
        self.list[usize::from(device)]
    }

    /// Sets a device without regard to its state before.
    #[must_use]
    pub fn with(mut self, device: u8, member: Member) -> Self {
        self.put(device, member);
        self
    }

    fn put(&mut self, device: u8, member: Member) {
        let bit = 1 << device;
        let within = |is: bool, set: u16| if is { set | bit } else { set & !bit };
        self.inactive = within(member.state != Active, self.inactive);
        self.leaving = within(member.role == MemberRole::Leaving, self.leaving);
        self.unrecorded = within(!member.recorded, self.unrecorded);
        self.list[usize::from(device)] = member;
    }

    /// Changes the state of a device. A change to or from active is unrecorded at first.
    ///
    /// # Panics
    /// When there is no such change.
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
    /// For the journal's device, which stays that.
    pub fn assign(&mut self, device: u8, role: MemberRole) {
        let was = self.get(device);
        let is_journal = |role| role == MemberRole::Journal;
        assert!(is_journal(was.role) == is_journal(role), "the journal's device stays that");
        self.put(device, Member { role, ..was });
    }

    /// A durable root says that the devices `inactive` are not used, and all others are.
    pub fn record(&mut self, inactive: u16) {
        for device in 0..MAX_MEMBERS as u8 {
            let (says, is) = (inactive >> device & 1, self.inactive >> device & 1);
            self.put(device, Member { recorded: says == is, ..self.get(device) });
        }
    }

    /// An operator left a device out, or wants it back.
    pub fn plan(&mut self, device: u8, planned: bool) {
        self.put(device, Member { planned, ..self.get(device) });
    }

    /// Whether durable roots say which devices are used.
    #[inline]
    pub fn are_recorded(&self) -> bool {
        self.unrecorded == 0
    }

    /// The devices for which `is` holds, as a set of bits.
    pub fn set(&self, is: impl Fn(Member) -> bool) -> u16 {
        let all = self.list.iter().enumerate();
        all.filter(|(_, member)| is(**member)).fold(0, |set, (device, _)| set | 1 << device)
    }

    /// The devices that are not used, for whatever reason, as a set of bits like all that follow.
    #[inline]
    pub fn inactive(&self) -> u16 {
        self.inactive
    }

    /// The devices that are missing or lost, and in whose place nothing came.
    pub fn lost(&self) -> u16 {
        if self.inactive == 0 { 0 } else { self.set(|member| member.state.is_lost()) }
    }

    /// The lost devices without which redundancy is whole, durably.
    pub fn rebuilt(&self) -> u16 {
        if self.inactive == 0 { 0 } else { self.set(|member| member.state == Rebuilt) }
    }

    /// The devices that came, and that a start may not trust yet.
    pub fn coming(&self) -> u16 {
        if self.inactive == 0 { 0 } else { self.set(|member| member.state.is_coming()) }
    }

    /// The devices that were removed.
    pub fn removed(&self) -> u16 {
        if self.inactive == 0 { 0 } else { self.set(|member| member.state == Removed) }
    }

    /// The devices that are to be removed.
    #[inline]
    pub fn leaving(&self) -> u16 {
        self.leaving
    }

    /// The devices that are kept to take the place of a lost one.
    pub fn spares(&self) -> u16 {
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
    fn the_table_has_these_changes_and_no_others() {
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
            let is = |set: u16| set == 0b1000;
            assert_eq!(is(it.inactive()), state != Active);
            assert_eq!(is(it.lost()), matches!(state, Missing | Lost | Rebuilt));
            assert_eq!(is(it.rebuilt()), state == Rebuilt);
            assert_eq!(is(it.coming()), matches!(state, Joining | Returning));
            assert_eq!(is(it.removed()), state == Removed);
        }
        let mut it = at(Active);
        it.assign(3, MemberRole::Spare);
        assert_eq!((it.spares(), it.leaving()), (0b1000, 0));
        it.assign(3, MemberRole::Leaving);
        assert_eq!((it.spares(), it.leaving()), (0, 0b1000));
        it.change(3, Removed);
        assert_eq!((it.removed(), it.inactive()), (0b1000, 0b1000));
    }

    #[test]
    fn what_changes_has_to_be_recorded_again() {
        let mut it = Members::default();
        assert!(it.are_recorded());
        it.change(3, Lost);
        assert!(!it.are_recorded());
        it.record(0b1000);
        assert!(it.are_recorded());
        it.change(3, Rebuilt);
        it.change(3, Joining);
        assert!(it.are_recorded(), "it is not used as before");
        it.change(3, Active);
        assert!(!it.are_recorded());
        it.record(0);
        assert!(it.are_recorded());
    }

    #[test]
    #[should_panic(expected = "device 3 cannot become Joining: it is Active")]
    fn nothing_comes_in_the_place_of_a_device_that_is_used() {
        at(Active).change(3, Joining);
    }

    #[test]
    #[should_panic(expected = "stays that")]
    fn the_journal_keeps_its_device() {
        let journal = Member { role: MemberRole::Journal, ..Member::ACTIVE };
        Members::default().with(3, journal).assign(3, MemberRole::Leaving);
    }
}
