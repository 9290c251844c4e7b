//! Members of a volume at a start.

use hostftl_core::{DeviceSet, MAX_MEMBERS, Member, MemberRole, MemberState};

/// Members of a volume at a start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Missing devices: every command to them fails. At most [`crate::LayerConfig::tolerates`].
    pub missing: DeviceSet,
    /// Blank devices that replace others, whose chunks are rebuilt on them. Only with layers whose
    /// members can change ([`crate::Promises::changes`]).
    pub fresh: DeviceSet,
    /// Those of `fresh` that were members before, and lack only later writes.
    pub returning: DeviceSet,
    /// Number of devices when the volume was created, if others were added since; 0 = all of them.
    pub born: u8,
    /// Indices of removed devices; all of them are also `missing`.
    pub removed: DeviceSet,
    /// Devices to be removed; no new data is written to them.
    pub leaving: DeviceSet,
    /// Hot spares, which replace a lost device automatically.
    pub spare: DeviceSet,
    /// Missing devices that an operator left out; no spare replaces them.
    pub planned: DeviceSet,
}

impl Members {
    /// Returns the state and role of each device before recovery. Missing devices in `rebuilt` hold
    /// no data.
    pub fn states(&self, rebuilt: DeviceSet) -> hostftl_core::Members {
        let states = (0..MAX_MEMBERS as u8).map(|device| (device, self.state(device, rebuilt)));
        states.fold(hostftl_core::Members::default(), |all, (device, it)| all.with(device, it))
    }

    fn state(&self, device: u8, rebuilt: DeviceSet) -> Member {
        let is = |set: DeviceSet| set.contains(device);
        let state = if is(self.removed) {
            MemberState::Removed
        } else if is(self.missing) {
            if is(rebuilt) { MemberState::Rebuilt } else { MemberState::Missing }
        } else if is(self.fresh) {
            if is(self.returning) { MemberState::Returning } else { MemberState::Joining }
        } else {
            MemberState::Active
        };
        let role = if is(self.removed) {
            MemberRole::Data
        } else if is(self.leaving) {
            MemberRole::Leaving
        } else if is(self.spare) {
            MemberRole::Spare
        } else {
            MemberRole::Data
        };
        let recorded = state == MemberState::Active;
        Member { state, role, recorded, planned: is(self.planned) && !recorded }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn set(bits: u16) -> DeviceSet {
        DeviceSet::from_bits(bits)
    }

    #[test]
    fn states_and_roles_partition_the_devices() {
        let members = Members {
            missing: set(0b0_0111),
            fresh: set(0b1_1000),
            returning: set(0b1_0001),
            removed: set(0b0_0001),
            leaving: set(0b10_0001),
            spare: set(0b0_1000),
            planned: set(0b10_0010),
            ..Members::default()
        };
        let states = members.states(set(0b10_0100));
        let state = |device| states.get(device).state;
        assert_eq!(
            [0, 1, 2, 3, 4, 5].map(state),
            [
                MemberState::Removed,
                MemberState::Missing,
                MemberState::Rebuilt,
                MemberState::Joining,
                MemberState::Returning,
                MemberState::Active
            ]
        );
        assert_eq!(
            (states.leaving(), states.spares()),
            (DeviceSet::single(5), DeviceSet::single(3))
        );
        assert_eq!(
            states.set(|member| member.planned),
            DeviceSet::single(1),
            "a used device is not excluded"
        );
        assert_eq!(states.set(|member| !member.recorded), DeviceSet::first_n(5));
    }
}
