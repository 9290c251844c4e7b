//! Changes of who belongs to the volume: devices come in the place of lost ones or as more, are
//! lost, come back, and leave.
//!
//! Invariants
//! - No segment is opened on a device before a root that is durable tells that things lie there.
//! - A device has left when a durable root says that nothing lies on it and replay needs nothing of
//!   it. From then on it is lost for good.

use hostftl_format::log::{Begin, Root};

use super::Devices;
use crate::log::stripe::bits;
use crate::planted::{Bug, planted};

impl Devices {
    /// These places are of devices that were removed, those of `leaving` are to be, and nothing is
    /// to lie on those of `spare` before another is lost.
    pub fn without(mut self, gone: u16, leaving: u16, spare: u16) -> Self {
        assert_eq!(gone & !self.lost, 0, "what is gone is not there");
        (self.gone, self.leaving, self.spare) = (gone, leaving & !gone, spare & !gone);
        self
    }

    /// An operator left these devices out.
    pub fn without_planned(mut self, planned: u16) -> Self {
        self.planned = planned & self.lost;
        self
    }

    /// Leaves a device out because an operator wants that.
    pub fn leave_out(&mut self, device: u8) {
        self.lose(1 << device);
        self.planned |= 1 << device;
    }

    /// Of the devices that came, those of `returning` were there before.
    pub fn with_old(mut self, returning: u16) -> Self {
        // What is in zones can't be gone on with: what comes is erased.
        let returning = if self.layout.zoned { 0 } else { returning };
        self.newcomers = self.newcomers.with_old(returning);
        self
    }

    /// Whether a device came that was there before, and nothing is known of what it has.
    pub fn is_returning(&self, device: u8) -> bool {
        self.newcomers.is_returning(device)
    }

    /// The newest root of a device that is back says that it has all rows up to this one.
    pub fn has(&mut self, device: u8, seq: u64) {
        self.newcomers.has(device, seq);
    }

    /// The volume is new: something is to lie on each device.
    pub fn format(&mut self) {
        self.told.out = 0;
    }

    /// What the root says that recovery found.
    pub fn found(&mut self, root: &Root) {
        let places = self.places();
        self.told.out = (root.out | !root.known) & places;
        let entering = self.newcomers.found(root.known);
        if !planted(Bug::GrownEarly) {
            self.membership.leave(entering);
        }
    }

    /// All places of devices.
    fn places(&self) -> u16 {
        ((1_u32 << self.layout.devices) - 1) as u16
    }

    /// The devices of which a root knows that is written now.
    pub fn known(&self) -> u16 {
        self.places() & !self.newcomers.entering()
    }

    /// Devices that came get the roots from now on, and are not lost any more when one is durable
    /// that says what they lack. Whether there are any.
    pub fn join(&mut self, may_get: impl Fn(u32) -> bool) -> bool {
        let fresh = self.newcomers.join();
        let lacks = if planted(Bug::NewcomerWhole) { 0 } else { fresh };
        for device in bits(lacks) {
            match self.newcomers.last_row(device) {
                Some(_) if planted(Bug::ReturnerWhole) => {}
                Some(has) => self.membership.begin_again(device as u8, has, &may_get),
                None => self.membership.begin_anew(device as u8),
            }
        }
        fresh != 0
    }

    /// Images are begun for a root that tells what those lack that get roots, or tells nothing.
    pub fn list_joining(&mut self, tells: bool) {
        self.newcomers.list(tells);
    }

    /// Those that came and that a root which is written now says are not lost.
    pub fn listed(&self) -> u16 {
        self.newcomers.listed()
    }

    /// Whether another root is needed before all devices that came can join.
    pub fn need_another_root(&self) -> bool {
        self.newcomers.is_unlisted()
    }

    /// Another device came in the place of one that is lost. It gets roots from now on, and what it
    /// lacks is made when one is durable that says so.
    ///
    /// # Panics
    /// When no durable root says that the one before is lost: then the new one could be taken for
    /// it.
    pub fn replaced(&mut self, device: u8, discard: bool) {
        assert!(self.may_come(device), "a device comes in the place of one known to be lost");
        self.leaving &= !(1 << device);
        self.planned &= !(1 << device);
        self.health.clear(device);
        self.reclaim.set_gains(device, discard);
        self.zones.is_another(device);
        self.newcomers.come(device);
        self.join(|_| true);
    }

    /// Takes note that another device, which holds a complete copy, is in the place of `device`.
    pub fn copied(&mut self, device: u8, discard: bool) {
        self.health.clear(device);
        self.reclaim.set_gains(device, discard);
    }

    /// A lost device is back, with all rows up to number `has`; until it is believed it may get
    /// some of those segments that `may_get` rows. Otherwise as [`Devices::replaced`].
    ///
    /// # Panics
    /// When no durable root says that it is lost.
    pub fn returned(&mut self, device: u8, has: u64, may_get: impl Fn(u32) -> bool) {
        assert!(self.may_come(device), "a device comes back that is known to be lost");
        self.planned &= !(1 << device);
        self.newcomers.come_back(device, has);
        self.join(may_get);
    }

    fn may_come(&self, device: u8) -> bool {
        self.has_lost(device) && self.is_told() && self.membership.is_complete()
    }

    /// A device failed again that had come.
    pub fn stop_joining(&mut self, device: u8) {
        let came = self.newcomers.stop(device);
        self.enter(came);
    }

    /// From now on these belong, if they did not.
    fn enter(&mut self, devices: u16) {
        let new = self.newcomers.enter(devices);
        self.belong(new & !self.spare);
    }

    /// Something may lie on these from now on, when roots say so.
    fn belong(&mut self, devices: u16) {
        self.membership.enter(devices);
        self.widens |= devices != 0;
    }

    /// Lets a spare take the place of a lost device that has none yet, which leaves. A device that
    /// an operator left out keeps its place, and a spare that is shorter is not used up.
    pub fn take_spare(&mut self) {
        let all = self.membership.all();
        let lost = self.lost & all & !(self.leaving | self.untrusted() | self.planned);
        let ready = self.spare & !(self.lost | self.newcomers.entering());
        let (lengths, parity) = (&self.layout.lengths, self.layout.parity);
        let pairs = bits(lost).flat_map(|old| bits(ready).map(move |new| (old, new)));
        let fits = |(old, new): &(usize, usize)| lengths.covers(*new, *old, all, parity);
        if self.membership.is_complete()
            && let Some((old, new)) = pairs.into_iter().find(fits)
        {
            let comes = 1 << new;
            self.leaving |= 1 << old;
            self.spare &= if planted(Bug::SpareTwice) { u16::MAX } else { !comes };
            self.belong(comes);
        }
    }

    /// Devices that are kept to take the place of a lost one.
    pub fn spare(&self) -> u16 {
        self.spare
    }

    /// A durable root says who is lost, and on whom nothing lies.
    pub fn told(&mut self, root: &Root, journal: u16) {
        // What a root says of the journal is no matter of the rows, in whatever place it is.
        let set = root.lost & !journal | self.gone & journal;
        assert_eq!(set & !self.lost, 0, "a root says of lost devices that they are");
        let joined = self.newcomers.joined(set);
        self.told.lost = set;
        self.lost &= !joined;
        self.enter(joined);
        (self.told.out, self.told.telling) = (root.out & self.places(), 0);
        self.told.replayed = replayed(root);
        self.part();
    }

    /// Those that are to leave, and on which nothing lies any more, have left.
    fn part(&mut self) {
        let left = self.leaving & self.told.out & !self.untrusted();
        if left != 0 && self.membership.is_complete() {
            self.leaving &= !left;
            self.lost |= left;
            self.gone |= left;
            // It may have been wanted again since the root was begun.
            self.wanted &= !left;
            self.membership.leave(left);
        }
    }

    /// Devices that were removed: nothing lies on them, and they are not used any more.
    pub fn gone(&self) -> u16 {
        self.gone
    }

    /// Devices that are to be removed.
    pub fn leaving(&self) -> u16 {
        self.leaving
    }

    /// A device is to be removed, or stays after all. False when it has left, or that is so.
    pub fn set_leaving(&mut self, device: u8, leaves: bool) -> bool {
        let was = self.leaving;
        match leaves {
            true => self.leaving |= 1 << device & !self.gone,
            false => self.leaving &= !(1 << device),
        }
        let changed = self.leaving != was;
        if planted(Bug::CancelForgotten) {
            self.leaving |= was;
        }
        changed
    }

    /// The lost devices of which a durable root says that nothing lies on them.
    pub fn told_out(&self) -> u16 {
        let told = if self.membership.is_complete() { self.told.out } else { 0 };
        told & self.lost & !self.untrusted() & !self.gone
    }

    /// The devices that are lost, or leave, and on which nothing lies, nor is to lie soon.
    fn out(&self) -> u16 {
        if !self.membership.is_complete() {
            return self.told.out;
        }
        let is_out = |device: &usize| {
            let early = self.leaving >> device & 1 == 1 && planted(Bug::RemovedEarly);
            self.membership.is_out(*device as u8) || planted(Bug::ProtectedEarly) || early
        };
        let out = bits(self.lost | self.leaving & !self.told.replayed | self.spare);
        out.filter(is_out).fold(0, |set, device| set | 1 << device) & !self.wanted
    }

    /// A root is begun: the devices on which it says that nothing lies.
    pub fn begin_to_tell(&mut self, root: &Root) -> u16 {
        self.told.telling = self.out() & !(self.leaving & replayed(root));
        self.told.telling
    }

    /// Recovery has found where all segments lie.
    pub fn found_all(&mut self) {
        self.membership.complete();
        self.wanted = self.membership.current().members();
        // A root that somebody made up may say what can't be.
        let named = bits(self.places()).filter(|device| !self.membership.is_out(*device as u8));
        let named = named.fold(0, |set, device| set | 1 << device);
        self.told.out &= !(named | self.wanted);
        // The superblocks may not say so yet.
        self.part();
    }

    /// Whether a durable root says on which devices nothing lies.
    pub fn is_out_told(&self) -> bool {
        self.told.out == self.out()
    }

    /// Whether a root has to be made before a device can leave: replay may need something there.
    pub fn is_replay_outdated(&self) -> bool {
        let out = bits(self.leaving & self.told.replayed);
        out.into_iter().any(|device| self.membership.is_out(device as u8))
    }
}

/// The devices on which rows may lie that are replayed from a root.
fn replayed(root: &Root) -> u16 {
    let on = |begin: &Begin| begin.members | begin.ahead.map_or(0, |(_, members)| members);
    root.streams.iter().flatten().fold(0, |set, begin| set | on(begin))
}

#[cfg(test)]
mod tests {
    use hostftl_core::DeviceInfo;

    use super::*;
    use crate::log::layout::Layout;

    fn four(fresh: u16, leaving: u16) -> Devices {
        let layout = Layout { parity: 1, ..Layout::example(4) };
        let infos = core::array::from_fn::<_, 4, _>(|_| DeviceInfo::block(1 << 16, 8));
        Devices::new(layout, (fresh, fresh), 1, &infos).without(0, leaving, 0)
    }

    fn root(lost: u16, out: u16, known: u16) -> Root {
        Root { lost, out, known, ..Root::default() }
    }

    #[test]
    fn a_device_that_comes_belongs_when_a_root_says_so() {
        let mut it = four(0b1000, 0);
        it.found(&root(0, 0, 0b0111));
        it.found_all();
        assert_eq!((it.membership().all(), it.known()), (0b0111, 0b0111));
        assert!(it.may_lose() == 1 && it.join(|_| true) && it.joining() == 0b1000);
        assert!(!it.choose(|_| true) && it.membership().current().members() == 0b0111);
        assert!(it.is_entering() && it.is_widening(), "its room is on its way");
        it.list_joining(true);
        it.told(&root(0, 0b1000, 0b0111), 0);
        assert_eq!((it.membership().all(), it.known(), it.lost()), (0b1111, 0b1111, 0));
        assert!(!it.choose(|_| true), "a root says still that nothing lies there");
        assert!(!it.is_entering() && it.is_widening());
        let out = it.begin_to_tell(&root(0, 0, 0));
        it.told(&root(0, out, 0b1111), 0);
        assert!(it.choose(|_| true) && it.membership().current().width() == 3 && it.is_as_made());
        assert!(!it.is_widening(), "segments are opened there");
    }

    #[test]
    fn a_spare_takes_the_place_of_a_lost_device_once() {
        let layout = Layout { parity: 1, members: 0b0111, stay: 0b0111, ..Layout::example(4) };
        let mut it = Devices::new(layout, (0, 0), 1, &[]).without(0, 0, 0b1000);
        it.found(&root(0, 0b1000, 0b1111));
        it.found_all();
        it.take_spare();
        assert!(it.is_out_told() && it.spare() == 0b1000 && it.may_lose() == 1, "none is lost");
        it.lose(0b0001);
        it.take_spare();
        assert_eq!((it.spare(), it.leaving(), it.membership().all()), (0, 0b0001, 0b1111));
        it.lose(0b0001);
        it.take_spare();
        assert_eq!(it.leaving(), 0b0001);
        it.told(&root(0b0001, 0b1000, 0b1111), 0);
        assert!(!it.choose(|_| true), "a root says still that nothing lies on the spare");
        let out = it.begin_to_tell(&root(0, 0, 0));
        assert_eq!(out, 0b0001);
        it.told(&root(0b0001, 0, 0b1111), 0);
        assert!(it.choose(|_| true) && it.membership().current().members() == 0b1110);
        it.told(&root(0b0001, 0b0001, 0b1111), 0);
        assert_eq!((it.gone(), it.may_lose()), (0b0001, 1));
    }

    #[test]
    fn rows_lie_on_lost_devices_that_have_something_and_on_no_others() {
        let layout = Layout { parity: 2, ..Layout::example(4) };
        let mut it = Devices::new(layout, (0b0111, 0), 2, &[]);
        it.found(&root(0b0111, 0, 0b1111));
        it.membership_mut().claim(3, 0b1110, 0);
        it.found_all();
        for _ in 0..3 {
            it.choose(|_| true);
            let out = it.begin_to_tell(&root(0, 0, 0));
            assert_eq!((it.membership().current().members(), out), (0b1110, 0b0001));
            it.told(&root(0b0111, out, 0b1111), 0);
        }
        assert_eq!(it.may_lose(), 0, "two are lost");
    }

    #[test]
    fn another_device_comes_while_the_volume_is_served() {
        let mut it = four(0, 0);
        it.found(&root(0, 0, 0b1111));
        it.membership_mut().claim(3, 0b1111, 0);
        it.found_all();
        it.lose(0b0100);
        it.told(&root(0b0100, 0, 0b1111), 0);
        it.replaced(2, true);
        assert_eq!((it.untrusted(), it.joining(), it.lost()), (0b0100, 0b0100, 0b0100));
        assert!(it.takes_roots(2) && it.is_missing_on(3, 2) && it.may_lose() == 0);
        it.told(&root(0b0100, 0, 0b1111), 0);
        assert_eq!(it.lost(), 0b0100, "that root was begun before");
        it.list_joining(true);
        it.told(&root(0, 0, 0b1111), 0);
        assert_eq!((it.untrusted(), it.lost(), it.exposed()), (0, 0, 1));
        assert!(it.is_missing_on(3, 2), "it is made anew yet");
    }

    #[test]
    fn a_segment_is_filled_where_all_its_members_are_there_and_moves_where_one_is_lost() {
        let mut it = four(0, 0);
        it.found(&root(0, 0, 0b1111));
        for (segment, members) in [(3, 0b1111), (4, 0b1110), (5, 0b1111)] {
            assert!(it.membership_mut().claim(segment, members, 0b0100));
        }
        it.found_all();
        it.membership_mut().has_row(5, 9);
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
    fn a_root_lets_no_device_join_that_came_since_its_images_were_begun() {
        let mut it = four(0, 0);
        it.found(&root(0, 0, 0b1111));
        it.found_all();
        it.lose(0b0100);
        it.told(&root(0b0100, 0, 0b1111), 0);
        it.replaced(2, true);
        it.list_joining(true);
        // It fails again while the root is written that lets it join, and another takes its place.
        it.stop_joining(2);
        it.replaced(2, true);
        assert_eq!(it.listed(), 0);
        it.told(&root(0, 0, 0b1111), 0);
        assert_eq!((it.lost(), it.joining(), it.is_told()), (0b0100, 0b0100, false));
        it.list_joining(true);
        it.told(&root(0, 0, 0b1111), 0);
        assert_eq!((it.lost(), it.joining()), (0, 0));
    }

    #[test]
    fn a_device_that_is_back_while_the_volume_is_served_lacks_what_is_newer() {
        let mut it = four(0, 0);
        it.found(&root(0, 0, 0b1111));
        for (segment, seq) in [(3, 10), (4, 20), (5, 10)] {
            it.membership_mut().claim(segment, 0b1111, 0);
            it.membership_mut().has_row(segment, seq);
        }
        it.found_all();
        it.lose(0b0100);
        it.told(&root(0b0100, 0, 0b1111), 0);
        it.returned(2, 15, |segment| segment == 5);
        it.list_joining(true);
        it.told(&root(0, 0, 0b1111), 0);
        let lacks = [3, 4, 5].map(|segment| it.is_missing_on(segment, 2));
        assert_eq!((it.lost(), lacks), (0, [false, true, true]));
    }

    #[test]
    #[should_panic(expected = "known to be lost")]
    fn no_device_comes_in_the_place_of_one_that_works() {
        let mut it = four(0, 0);
        it.found(&root(0, 0, 0b1111));
        it.found_all();
        it.replaced(2, false);
    }

    #[test]
    fn a_device_that_has_left_is_out_though_it_was_wanted_again() {
        let mut it = four(0, 0b0010);
        it.found(&root(0, 0, 0b1111));
        it.found_all();
        assert!(it.choose(|_| true));
        let out = it.begin_to_tell(&root(0, 0, 0));
        assert!(out == 0b0010 && !it.choose(|set| set.count_ones() == 4), "it is told already");
        it.told(&root(0, out, 0b1111), 0);
        assert_eq!((it.gone(), it.begin_to_tell(&root(0b0010, 0, 0))), (0b0010, 0b0010));
    }

    #[test]
    fn a_device_leaves_when_nothing_lies_on_it() {
        let mut it = four(0, 0b0010);
        it.found(&root(0, 0, 0b1111));
        it.membership_mut().claim(3, 0b1111, 0);
        it.found_all();
        assert!(!it.choose(|_| false), "there is no room");
        assert!(it.choose(|_| true) && it.membership().current().members() == 0b1101);
        assert_eq!((it.next_exposed(|_| true, |_| false), it.to_move()), (Some(3), 1));
        let out = it.begin_to_tell(&root(0, 0, 0));
        it.told(&root(0, out, 0b1111), 0);
        assert_eq!((it.gone(), it.is_out_told()), (0, true));
        it.membership_mut().release(3);
        assert!(!it.is_out_told());
        let begin = Begin { segment: 3, slot: 0, sector: 0, members: 0b0010, ahead: None };
        let mut replays = root(0, 0, 0b1111);
        replays.streams[0] = Some(begin);
        assert_eq!(it.begin_to_tell(&replays), 0, "replay would look there");
        it.told(&replays, 0);
        assert!(it.is_out_told() && it.is_replay_outdated());
        it.told(&root(0, 0, 0b1111), 0);
        let out = it.begin_to_tell(&root(0, 0, 0));
        assert_eq!(out, 0b0010);
        it.told(&root(0, out, 0b1111), 0);
        assert_eq!((it.gone(), it.lost(), it.membership().all()), (0b0010, 0b0010, 0b1101));
        assert!(!it.is_told(), "a root has to say that it is lost");
        it.told(&root(0b0010, out, 0b1111), 0);
        assert!(it.is_told() && it.is_as_made() && it.may_lose() == 1);
    }
}
