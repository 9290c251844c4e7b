//! Changes of the membership of devices: replacement, addition, loss, return and removal.
//!
//! Invariants
//! - No segment is opened on a device before a durable root records that the device is used.
//! - A device is removed once a durable root records that it holds no data and replay does not need
//!   it. From then on it is never used again.

use hostftl_core::{DeviceSet, Member, MemberRole, MemberState};

use super::Devices;
use crate::planted::{Bug, planted};

impl Devices {
    /// Takes a device offline for an operator.
    pub(crate) fn leave_out(&mut self, device: u8) {
        self.lose(DeviceSet::single(device));
        // A planned absence gets no hot spare; see `take_spare`.
        self.members.plan(device, true);
    }

    /// Returns whether a device has returned and its contents are not known yet.
    pub(crate) fn is_returning(&self, device: u8) -> bool {
        let is_back = self.members.get(device).state == MemberState::Returning;
        is_back && !self.joining.gets_roots(device)
    }

    /// Records that a returned device has all stripes up to number `seq`, according to its newest
    /// root.
    pub(crate) fn has(&mut self, device: u8, seq: u64) {
        self.joining.has(device, seq);
    }

    /// Lets devices that arrived receive roots. They stop counting as lost once a durable root
    /// lists their missing chunks. Returns whether there are any.
    pub(crate) fn join(&mut self, may_get: impl Fn(u32) -> bool) -> bool {
        let fresh = self.joining.join(self.untrusted());
        let lacks = if planted(Bug::JoiningWhole) { DeviceSet::EMPTY } else { fresh };
        for device in lacks {
            // Only a returned device keeps its old contents.
            let is_back = self.members.get(device).state == MemberState::Returning;
            match self.joining.last_stripe(device).filter(|_| is_back) {
                Some(_) if planted(Bug::ReturnerWhole) => {}
                Some(has) => self.membership.begin_again(device, has, &may_get),
                None => self.membership.begin_anew(device),
            }
        }
        !fresh.is_empty()
    }

    /// Begins the images of a root; `tells` states whether they list the missing chunks of joining
    /// devices.
    pub(crate) fn list_joining(&mut self, tells: bool) {
        self.joining.list(tells);
    }

    /// Returns the joining devices that the root in progress marks as present.
    pub(crate) fn listed(&self) -> DeviceSet {
        self.joining.listed()
    }

    /// Returns whether another root is needed before all joining devices are members.
    pub(crate) fn need_another_root(&self) -> bool {
        self.joining.is_unlisted()
    }

    /// Replaces a lost device by another. It receives roots from now on, and its missing chunks are
    /// rebuilt once a durable root lists them.
    ///
    /// # Panics
    /// If no durable root records the loss of the old device: the new one could be mistaken for it.
    pub(crate) fn replaced(&mut self, device: u8, discard: bool) {
        assert!(self.may_come(device), "a device replaces one that is marked lost");
        // The new device is not removed in place of the old one.
        self.set_leaving(device, false);
        self.health.clear(device);
        self.reclaim.set_gains(device, discard);
        self.zones.is_another(device);
        self.come(device, MemberState::Joining, 0);
        self.join(|_| true);
    }

    /// Records that a device with a complete copy took the place of `device`.
    pub(crate) fn copied(&mut self, device: u8, discard: bool) {
        self.health.clear(device);
        self.reclaim.set_gains(device, discard);
    }

    /// Lets a lost device return with all stripes up to number `has`. Segments that `may_get`
    /// stripes before it is trusted are treated as missing. Otherwise it joins like a replacement.
    ///
    /// # Panics
    /// If no durable root records its loss.
    pub(crate) fn returned(&mut self, device: u8, has: u64, may_get: impl Fn(u32) -> bool) {
        assert!(self.may_come(device), "a returning device is marked lost");
        self.come(device, MemberState::Returning, has);
        self.join(may_get);
    }

    fn come(&mut self, device: u8, state: MemberState, has: u64) {
        self.members.plan(device, false);
        self.members.change(device, state);
        self.joining.come(device, has);
    }

    fn may_come(&self, device: u8) -> bool {
        self.is_inactive(device) && self.is_committed() && self.membership.is_complete()
    }

    /// Marks a joining device that failed again as lost.
    pub(crate) fn stop_joining(&mut self, device: u8) {
        let came = self.untrusted() & DeviceSet::single(device);
        if !came.is_empty() {
            self.members.change(device, MemberState::Lost);
            self.joining.end(came);
            self.note_rebuilt();
        }
        self.enter(came);
    }

    /// Makes these devices members if they were not.
    pub(super) fn enter(&mut self, devices: DeviceSet) {
        // A spare has no segments, so it does not widen the volume.
        let new = self.joining.enter(devices);
        self.belong(new - self.spare());
    }

    /// Adds members; segments may be opened on them once roots record that.
    fn belong(&mut self, devices: DeviceSet) {
        self.membership.enter(devices);
        self.widens |= !devices.is_empty();
    }

    /// Lets a hot spare replace a lost device that has no replacement; the lost device is then
    /// removed. A device that an operator took offline keeps its place. A spare that is too short
    /// is not used.
    pub(crate) fn take_spare(&mut self) {
        let all = self.membership.all();
        let planned = self.members.set(|member| member.planned);
        // A leaving device needs no replacement, and a joining one is a replacement itself.
        let lost = (self.inactive() & all) - (self.leaving() | self.untrusted() | planned);
        let ready = self.spare() - (self.inactive() | self.joining.entering());
        let (lengths, parity) = (&self.layout.lengths, self.layout.parity);
        let pairs = lost.iter().flat_map(|old| ready.iter().map(move |new| (old, new)));
        let fits = |(old, new): &(u8, u8)| lengths.covers(*new, *old, all, parity);
        if self.membership.is_complete()
            && let Some((old, new)) = pairs.into_iter().find(fits)
        {
            self.members.assign(old, MemberRole::Leaving);
            if !planted(Bug::SpareTwice) {
                self.members.assign(new, MemberRole::Data);
            }
            self.belong(DeviceSet::single(new));
        }
    }

    /// Returns the hot spares.
    pub(crate) fn spare(&self) -> DeviceSet {
        self.members.spares()
    }

    /// Returns the removed devices: they hold no data and are not used any more.
    pub(crate) fn removed(&self) -> DeviceSet {
        self.members.removed()
    }

    /// Returns the devices that are being removed.
    #[inline]
    pub(crate) fn leaving(&self) -> DeviceSet {
        self.members.leaving()
    }

    /// Starts or cancels the removal of a device. Returns false if it was removed already or the
    /// state does not change.
    pub(crate) fn set_leaving(&mut self, device: u8, leaves: bool) -> bool {
        let Member { state, role, .. } = self.members.get(device);
        let was = role == MemberRole::Leaving;
        if was == leaves || state == MemberState::Removed {
            return false;
        }
        match leaves {
            true => self.members.assign(device, MemberRole::Leaving),
            false if planted(Bug::CancelForgotten) => {}
            false => self.members.assign(device, MemberRole::Data),
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::DeviceInfo;
    use hostftl_format::log::{Begin, Root};

    use super::*;
    use crate::log::chunk_placement::set;
    use crate::log::layout::Layout;

    fn four(fresh: DeviceSet, leaving: DeviceSet) -> Devices {
        let layout = Layout { parity: 1, ..Layout::example(4) };
        let infos = core::array::from_fn::<_, 4, _>(|_| DeviceInfo::block(1 << 16, 8));
        let members = crate::Members { fresh, leaving, ..crate::Members::default() };
        Devices::new(layout, members.states(set(0)), 1, &infos)
    }

    fn root(lost: u16, out: u16, known: u16) -> Root {
        Root { lost, out, known, ..Root::default() }
    }

    #[test]
    fn a_device_joins_with_a_durable_root() {
        let mut it = four(set(0b1000), set(0));
        it.found(&root(0, 0, 0b0111));
        it.found_all();
        assert_eq!((it.membership().all(), it.known()), (set(0b0111), set(0b0111)));
        assert!(it.may_lose() == 1 && it.join(|_| true) && it.joining() == set(0b1000));
        assert!(!it.choose(|_| true) && it.membership().current().members() == set(0b0111));
        assert!(it.is_entering() && it.is_widening(), "its room is on its way");
        it.list_joining(true);
        it.commit_root(&root(0, 0b1000, 0b0111), set(0));
        assert_eq!(
            (it.membership().all(), it.known(), it.inactive()),
            (set(0b1111), set(0b1111), set(0))
        );
        assert!(!it.choose(|_| true), "a root still records the device as empty");
        assert!(!it.is_entering() && it.is_widening());
        let out = it.begin_root(&root(0, 0, 0));
        it.commit_root(&root(0, out.to_bits(), 0b1111), set(0));
        assert!(it.choose(|_| true) && it.membership().current().width() == 3 && it.is_as_made());
        assert!(!it.is_widening(), "segments are opened there");
    }

    #[test]
    fn a_spare_takes_the_place_of_a_lost_device_once() {
        let layout =
            Layout { parity: 1, members: set(0b0111), stay: set(0b0111), ..Layout::example(4) };
        let members = crate::Members { spare: set(0b1000), ..crate::Members::default() };
        let mut it = Devices::new(layout, members.states(set(0)), 1, &[]);
        it.found(&root(0, 0b1000, 0b1111));
        it.found_all();
        it.take_spare();
        assert!(
            it.is_out_committed() && it.spare() == set(0b1000) && it.may_lose() == 1,
            "none is lost"
        );
        it.lose(set(0b0001));
        it.take_spare();
        assert_eq!(
            (it.spare(), it.leaving(), it.membership().all()),
            (set(0), set(0b0001), set(0b1111))
        );
        it.lose(set(0b0001));
        it.take_spare();
        assert_eq!(it.leaving(), set(0b0001));
        it.commit_root(&root(0b0001, 0b1000, 0b1111), set(0));
        assert!(!it.choose(|_| true), "a root still records the spare as empty");
        let out = it.begin_root(&root(0, 0, 0));
        assert_eq!(out, set(0b0001));
        it.commit_root(&root(0b0001, 0, 0b1111), set(0));
        assert!(it.choose(|_| true) && it.membership().current().members() == set(0b1110));
        it.commit_root(&root(0b0001, 0b0001, 0b1111), set(0));
        assert_eq!((it.removed(), it.may_lose()), (set(0b0001), 1));
    }

    #[test]
    fn stripes_skip_lost_devices_without_data() {
        let layout = Layout { parity: 2, ..Layout::example(4) };
        let members = crate::Members { missing: set(0b0111), ..crate::Members::default() };
        let mut it = Devices::new(layout, members.states(set(0)), 2, &[]);
        it.found(&root(0b0111, 0, 0b1111));
        it.membership_mut().claim(3, set(0b1110), set(0));
        it.found_all();
        for _ in 0..3 {
            it.choose(|_| true);
            let out = it.begin_root(&root(0, 0, 0));
            assert_eq!((it.membership().current().members(), out), (set(0b1110), set(0b0001)));
            it.commit_root(&root(0b0111, out.to_bits(), 0b1111), set(0));
        }
        assert_eq!(it.may_lose(), 0, "two are lost");
    }

    #[test]
    fn a_device_is_replaced_while_served() {
        let mut it = four(set(0), set(0));
        it.found(&root(0, 0, 0b1111));
        it.membership_mut().claim(3, set(0b1111), set(0));
        it.found_all();
        it.lose(set(0b0100));
        it.commit_root(&root(0b0100, 0, 0b1111), set(0));
        it.replaced(2, true);
        assert_eq!(
            (it.untrusted(), it.joining(), it.inactive()),
            (set(0b0100), set(0b0100), set(0b0100))
        );
        assert!(it.takes_roots(2) && it.is_missing_on(3, 2) && it.may_lose() == 0);
        it.commit_root(&root(0b0100, 0, 0b1111), set(0));
        assert_eq!(it.inactive(), set(0b0100), "that root was begun before");
        it.list_joining(true);
        it.commit_root(&root(0, 0, 0b1111), set(0));
        assert_eq!((it.untrusted(), it.inactive(), it.exposed()), (set(0), set(0), 1));
        assert!(it.is_missing_on(3, 2), "it is still being rebuilt");
    }

    #[test]
    fn complete_segments_are_filled_and_degraded_ones_moved() {
        let mut it = four(set(0), set(0));
        it.found(&root(0, 0, 0b1111));
        for (segment, members) in [(3, 0b1111), (4, 0b1110), (5, 0b1111)] {
            assert!(it.membership_mut().claim(segment, set(members), set(0b0100)));
        }
        it.found_all();
        it.membership_mut().note_stripe(5, 9);
        assert!(it.is_to_fill(3) && it.next_to_fill(|_, newest| newest > 0) == Some((5, 2)));
        assert_eq!(it.next_exposed(|_| true, |_| true), None, "all are to be filled");
        assert_eq!(it.next_exposed(|_| true, |segment| segment != 4), Some(4), "it can't be now");
        it.set_leaving(0, true);
        assert!(it.next_to_fill(|_, _| true) == Some((4, 2)) && !it.is_to_fill(3));
        let layout = Layout { zoned: true, ..*it.layout() };
        let mut zoned = Devices { layout, ..it };
        assert!(zoned.next_to_fill(|_, _| true).is_none() && !zoned.is_to_fill(4));
    }

    #[test]
    fn a_root_admits_only_devices_that_precede_its_images() {
        let mut it = four(set(0), set(0));
        it.found(&root(0, 0, 0b1111));
        it.found_all();
        it.lose(set(0b0100));
        it.commit_root(&root(0b0100, 0, 0b1111), set(0));
        it.replaced(2, true);
        it.list_joining(true);
        // The device fails again while the root that admits it is written, and another replaces it.
        it.stop_joining(2);
        it.replaced(2, true);
        assert!(it.listed().is_empty());
        it.commit_root(&root(0, 0, 0b1111), set(0));
        assert_eq!(
            (it.inactive(), it.joining(), it.is_committed()),
            (set(0b0100), set(0b0100), false)
        );
        it.list_joining(true);
        it.commit_root(&root(0, 0, 0b1111), set(0));
        assert_eq!((it.inactive(), it.joining()), (set(0), set(0)));
    }

    #[test]
    fn a_device_returning_while_served_misses_newer_data() {
        let mut it = four(set(0), set(0));
        it.found(&root(0, 0, 0b1111));
        for (segment, seq) in [(3, 10), (4, 20), (5, 10)] {
            it.membership_mut().claim(segment, set(0b1111), set(0));
            it.membership_mut().note_stripe(segment, seq);
        }
        it.found_all();
        it.lose(set(0b0100));
        it.commit_root(&root(0b0100, 0, 0b1111), set(0));
        it.returned(2, 15, |segment| segment == 5);
        it.list_joining(true);
        it.commit_root(&root(0, 0, 0b1111), set(0));
        let lacks = [3, 4, 5].map(|segment| it.is_missing_on(segment, 2));
        assert_eq!((it.inactive(), lacks), (set(0), [false, true, true]));
    }

    #[test]
    #[should_panic(expected = "marked lost")]
    fn a_working_device_is_not_replaced() {
        let mut it = four(set(0), set(0));
        it.found(&root(0, 0, 0b1111));
        it.found_all();
        it.replaced(2, false);
    }

    #[test]
    fn a_removed_device_stays_out_after_a_cancellation() {
        let mut it = four(set(0), set(0b0010));
        it.found(&root(0, 0, 0b1111));
        it.found_all();
        assert!(it.choose(|_| true));
        let out = it.begin_root(&root(0, 0, 0));
        assert!(out == set(0b0010) && !it.choose(|set| set.len() == 4), "it is reported already");
        it.commit_root(&root(0, out.to_bits(), 0b1111), set(0));
        assert_eq!((it.removed(), it.begin_root(&root(0b0010, 0, 0))), (set(0b0010), set(0b0010)));
    }

    #[test]
    fn a_device_leaves_once_it_is_empty() {
        let mut it = four(set(0), set(0b0010));
        it.found(&root(0, 0, 0b1111));
        it.membership_mut().claim(3, set(0b1111), set(0));
        it.found_all();
        assert!(!it.choose(|_| false), "there is no room");
        assert!(it.choose(|_| true) && it.membership().current().members() == set(0b1101));
        assert_eq!((it.next_exposed(|_| true, |_| false), it.to_move()), (Some(3), 1));
        let out = it.begin_root(&root(0, 0, 0));
        it.commit_root(&root(0, out.to_bits(), 0b1111), set(0));
        assert_eq!((it.removed(), it.is_out_committed()), (set(0), true));
        it.membership_mut().release(3);
        assert!(!it.is_out_committed());
        let begin = Begin { segment: 3, slot: 0, sector: 0, members: 0b0010, ahead: None };
        let mut replays = root(0, 0, 0b1111);
        replays.streams[0] = Some(begin);
        assert_eq!(it.begin_root(&replays), set(0), "replay would look there");
        it.commit_root(&replays, set(0));
        assert!(it.is_out_committed() && it.is_replay_outdated());
        it.commit_root(&root(0, 0, 0b1111), set(0));
        let out = it.begin_root(&root(0, 0, 0));
        assert_eq!(out, set(0b0010));
        it.commit_root(&root(0, out.to_bits(), 0b1111), set(0));
        assert_eq!(
            (it.removed(), it.inactive(), it.membership().all()),
            (set(0b0010), set(0b0010), set(0b1101))
        );
        assert!(!it.is_committed(), "a root must record the loss");
        it.commit_root(&root(0b0010, out.to_bits(), 0b1111), set(0));
        assert!(it.is_committed() && it.is_as_made() && it.may_lose() == 1);
    }
}
