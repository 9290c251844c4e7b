//! On which devices each segment lies, and on which new ones are opened.
//!
//! Segments are opened on all devices, or, after a loss and while there is room for that, on those
//! that are left: what lies on fewer devices has parity again.
//!
//! Invariants
//! - A segment that is in use has members, which stay the same until it is free.
//! - `named` is how many segments each device is a member of.

use alloc::vec::Vec;

use hostftl_core::DeviceSet;
use hostftl_format::log::SETS;

use crate::log::layout::Layout;
use crate::log::layout::lengths::Lengths;
use crate::log::stripe::Stripe;

/// See the module text.
#[derive(Debug)]
pub(crate) struct Membership {
    /// Chunks of parity of each row.
    parity: u8,
    /// Which devices have which segments.
    lengths: Lengths,
    /// All devices that ever were, and those that belong.
    places: DeviceSet,
    all: DeviceSet,
    /// Of each segment; empty for one that is free.
    members: Vec<DeviceSet>,
    /// Those of its members that lack their chunks though they are not lost: they came later.
    lacking: Vec<DeviceSet>,
    /// The number of the newest row in each segment.
    newest: Vec<u64>,
    named: [u32; 16],
    /// Segments of which each device lacks its chunks.
    lacks: [u32; 16],
    /// Whether any does.
    incomplete: bool,
    /// How often a device began anew, or again.
    anew: u32,
    /// The sets on which segments were opened, that of new ones first.
    sets: [DeviceSet; SETS],
    /// Where the search for a segment to be moved goes on.
    cursor: u32,
    /// Whether it is known where all segments lie that are in use.
    complete: bool,
}

impl Membership {
    /// All segments are free; new ones are opened on all devices.
    pub(crate) fn new(layout: &Layout) -> Self {
        let (all, count) = (layout.members, layout.segments as usize);
        let mut sets = [DeviceSet::EMPTY; SETS];
        sets[0] = all;
        let (members, lacking) =
            (alloc::vec![DeviceSet::EMPTY; count], alloc::vec![DeviceSet::EMPTY; count]);
        let newest = alloc::vec![0; count];
        let (named, parity) = ([0; 16], layout.parity);
        let (lacks, cursor, complete) = ([0; 16], 0, false);
        let places = DeviceSet::first_n(layout.devices.into());
        let (incomplete, anew) = (false, 0);
        Membership {
            parity,
            lengths: layout.lengths,
            places,
            all,
            members,
            lacking,
            newest,
            named,
            lacks,
            incomplete,
            anew,
            sets,
            cursor,
            complete,
        }
    }

    /// Bytes of what is known of each segment.
    pub(crate) const BYTES: u64 = 12;

    /// All devices that belong.
    pub(crate) fn all(&self) -> DeviceSet {
        self.all
    }

    /// Devices belong that did not yet.
    pub(crate) fn enter(&mut self, devices: DeviceSet) {
        assert!(!self.all.overlaps(devices), "a device that comes was not there");
        self.all |= devices;
    }

    /// These do not belong: they are not there yet, or are gone.
    pub(crate) fn leave(&mut self, devices: DeviceSet) {
        self.all -= devices;
        assert!(self.all.len() > u32::from(self.parity), "some are left");
        let sets = self.sets.map(|set| set & self.all);
        self.restore(sets);
    }

    /// The sets on which segments were opened, that of new ones first.
    pub(crate) fn sets(&self) -> [DeviceSet; SETS] {
        self.sets
    }

    /// Where new segments lie that all devices have.
    pub(crate) fn current(&self) -> Stripe {
        Stripe::new(self.sets[0], self.parity)
    }

    /// New segments lie on this set from now on. Whether that is new.
    pub(crate) fn choose(&mut self, set: DeviceSet) -> bool {
        assert!(set.is_within(self.all), "members are devices of the volume");
        let new = self.sets[0] != set;
        if new {
            let last = self.sets.iter().position(|it| *it == set).unwrap_or(SETS - 1);
            self.sets[..=last].rotate_right(1);
            self.sets[0] = set;
        }
        new
    }

    /// As the root says that it was.
    pub(crate) fn restore(&mut self, sets: [DeviceSet; SETS]) {
        let sound = |set: &DeviceSet| set.is_within(self.all) && set.len() > u32::from(self.parity);
        let mut known = [DeviceSet::EMPTY; SETS];
        let found = sets.into_iter().filter(sound);
        known.iter_mut().zip(found).for_each(|(to, set)| *to = set);
        if !known[0].is_empty() {
            self.sets = known;
        }
    }

    /// Where a segment lies; where it may lie, as number `guess`, when that is not known. `None`
    /// when there are no more guesses.
    pub(crate) fn guess(&self, segment: u32, guess: usize) -> Option<Stripe> {
        let known = self.members[segment as usize];
        let has_data = |set: &DeviceSet| set.len() > u32::from(self.parity);
        match (known, guess) {
            (DeviceSet::EMPTY, guess) => {
                let sets = self.sets.iter().map(|set| self.lengths.on(*set, segment));
                let set = sets.filter(has_data).nth(guess)?;
                Some(Stripe::new(set, self.parity))
            }
            (known, 0) => Some(Stripe::new(known, self.parity)),
            _ => None,
        }
    }

    /// Where a segment lies.
    #[inline]
    pub(crate) fn of(&self, segment: u32) -> Stripe {
        match self.members[segment as usize] {
            DeviceSet::EMPTY => Stripe::new(self.new_members(segment), self.parity),
            members => Stripe::new(members, self.parity),
        }
    }

    /// A segment is opened: where it lies. Those of `lost` lack their chunks of it for good, also
    /// when others come in their place.
    pub(crate) fn assign(&mut self, segment: u32, lost: DeviceSet) -> Stripe {
        assert!(self.members[segment as usize].is_empty(), "a segment that is opened was free");
        let members = self.new_members(segment);
        self.set(segment, members, members & lost);
        Stripe::new(members, self.parity)
    }

    /// Where a segment lies if it is opened now; that of longer devices if it can't be.
    fn new_members(&self, segment: u32) -> DeviceSet {
        let set = self.lengths.on(self.sets[0], segment);
        if set.len() > u32::from(self.parity) { set } else { self.sets[0] }
    }

    /// Recovery found a segment in use on these members. False when it can't be.
    pub(crate) fn claim(&mut self, segment: u32, members: DeviceSet, lacking: DeviceSet) -> bool {
        let sound = members.is_within(self.places)
            && lacking.is_within(members)
            && self.lengths.on(members, segment) == members
            && members.len() > u32::from(self.parity);
        if sound {
            self.set(segment, members, lacking);
        }
        sound
    }

    /// Recovery found rows of a segment on these members: what lacks is known of it if it has been
    /// there before. False when it can't be.
    pub(crate) fn claim_rows(&mut self, segment: u32, members: DeviceSet) -> bool {
        let known = self.members[segment as usize] == members;
        let lacking = if known { self.lacking[segment as usize] } else { DeviceSet::EMPTY };
        self.claim(segment, members, lacking)
    }

    /// A row of a segment says that these members lack their chunks of it.
    pub(crate) fn claim_lack(&mut self, segment: u32, lacking: DeviceSet) {
        let (members, known) = self.told(segment);
        assert!(lacking.is_within(members), "only members lack their chunks");
        self.set(segment, members, known | lacking);
    }

    /// Nothing is in a segment any more.
    pub(crate) fn release(&mut self, segment: u32) {
        self.set(segment, DeviceSet::EMPTY, DeviceSet::EMPTY);
    }

    fn set(&mut self, segment: u32, members: DeviceSet, lacking: DeviceSet) {
        let at = segment as usize;
        self.members[at].iter().for_each(|device| self.named[usize::from(device)] -= 1);
        members.iter().for_each(|device| self.named[usize::from(device)] += 1);
        self.lacking[at].iter().for_each(|device| self.lacks[usize::from(device)] -= 1);
        lacking.iter().for_each(|device| self.lacks[usize::from(device)] += 1);
        if !(self.lacking[at] | lacking).is_empty() {
            self.incomplete = self.lacks != [0; 16];
        }
        (self.members[at], self.lacking[at]) = (members, lacking);
    }

    /// A device came that has nothing: it lacks its chunks of all segments that name it.
    pub(crate) fn begin_anew(&mut self, device: u8) {
        self.anew += 1;
        for segment in 0..self.members.len() {
            let (members, lacking) = (self.members[segment], self.lacking[segment]);
            self.set(segment as u32, members, lacking | members & DeviceSet::of(device));
        }
    }

    /// A device is back that has all rows up to number `has`: it lacks its chunks of the segments
    /// that have newer ones, or may get some before it is believed.
    pub(crate) fn begin_again(&mut self, device: u8, has: u64, may_get: impl Fn(u32) -> bool) {
        self.anew += 1;
        for segment in 0..self.members.len() {
            let is_old = self.newest[segment] > has || may_get(segment as u32);
            if is_old {
                let (members, lacking) = (self.members[segment], self.lacking[segment]);
                self.set(segment as u32, members, lacking | members & DeviceSet::of(device));
            }
        }
    }

    /// How often a device began anew, or again.
    pub(crate) fn anew(&self) -> u32 {
        self.anew
    }

    /// A device got its chunks of a segment.
    pub(crate) fn filled(&mut self, segment: u32, device: u8) {
        let (members, lacking) = self.told(segment);
        assert!(lacking.contains(device), "a device gets what it lacks");
        self.set(segment, members, lacking.without(device));
    }

    /// A row of a segment has this number.
    pub(crate) fn has_row(&mut self, segment: u32, seq: u64) {
        let newest = &mut self.newest[segment as usize];
        *newest = seq.max(*newest);
    }

    /// The number of the newest row in a segment.
    pub(crate) fn newest(&self, segment: u32) -> u64 {
        self.newest[segment as usize]
    }

    /// The members of a segment, and those of them that lack their chunks.
    pub(crate) fn told(&self, segment: u32) -> (DeviceSet, DeviceSet) {
        (self.members[segment as usize], self.lacking[segment as usize])
    }

    /// It is known where all segments lie.
    pub(crate) fn complete(&mut self) {
        self.complete = true;
    }

    /// Whether it is known where all segments lie.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// How often segments miss a chunk, when `lost` is lost.
    #[inline]
    pub(crate) fn exposed(&self, lost: DeviceSet) -> u32 {
        if lost.is_empty() && !self.incomplete {
            return 0;
        }
        let of_lost = lost.iter().map(|device| self.named(device)).sum::<u32>();
        let others = DeviceSet::ALL - lost;
        of_lost + others.iter().map(|device| self.lacks[usize::from(device)]).sum::<u32>()
    }

    /// Whether a device is a member of no segment.
    pub(crate) fn is_out(&self, device: u8) -> bool {
        self.named(device) == 0
    }

    /// Whether all chunks of all segments are there, when `lost` is lost.
    pub(crate) fn is_whole(&self, lost: DeviceSet) -> bool {
        self.exposed(lost) == 0
    }

    /// The members of a segment whose chunks are not there, when `lost` is lost.
    #[inline]
    pub(crate) fn missing(&self, segment: u32, lost: DeviceSet) -> DeviceSet {
        self.members[segment as usize] & lost | self.lacking[segment as usize]
    }

    /// The devices that lack chunks of segments of which they are members.
    pub(crate) fn lacking(&self) -> DeviceSet {
        let lacks = |device: &u8| self.lacks[usize::from(*device)] > 0;
        DeviceSet::ALL.iter().filter(lacks).collect()
    }

    /// Whether any device does.
    #[inline]
    pub(crate) fn any_lacking(&self) -> bool {
        self.incomplete
    }

    /// Whether a device lacks its chunks of a segment, because it came later.
    #[inline]
    pub(crate) fn is_lacking(&self, segment: u32, device: u8) -> bool {
        self.lacking[segment as usize].contains(device)
    }

    /// Of how many segments a device is a member.
    pub(crate) fn named(&self, device: u8) -> u32 {
        self.named[usize::from(device)]
    }

    /// The next segment that misses a chunk and that `fits`: first those for which no parity is
    /// left.
    pub(crate) fn next_missing(
        &mut self,
        lost: DeviceSet,
        fits: impl Fn(&Self, u32) -> bool,
    ) -> Option<u32> {
        if self.is_whole(lost) {
            return None;
        }
        let misses = |it: &Self, segment, least| {
            it.missing(segment, lost).len() >= least && fits(it, segment)
        };
        let most = u32::from(self.parity).max(1);
        let may_be_bare = most > 1 && (lost | self.lacking()).len() >= most;
        let bare = may_be_bare.then(|| self.next(|it, segment| misses(it, segment, most)));
        bare.flatten().or_else(|| self.next(|it, segment| misses(it, segment, 1)))
    }

    /// The next segment of which one of these devices is a member, and that `fits`.
    pub(crate) fn next_on(
        &mut self,
        devices: DeviceSet,
        fits: impl Fn(u32) -> bool,
    ) -> Option<u32> {
        if devices.iter().all(|device| self.is_out(device)) {
            return None;
        }
        self.next(|it, segment| it.members[segment as usize].overlaps(devices) && fits(segment))
    }

    /// The next segment of which a device lacks its chunks, and that `fits`.
    pub(crate) fn next_lacking(&mut self, fits: impl Fn(&Self, u32) -> bool) -> Option<u32> {
        if !self.incomplete {
            return None;
        }
        self.next(|it, segment| !it.lacking[segment as usize].is_empty() && fits(it, segment))
    }

    fn next(&mut self, is_one: impl Fn(&Self, u32) -> bool) -> Option<u32> {
        let count = self.members.len() as u32;
        let all = (self.cursor..count).chain(0..self.cursor);
        let found = all.into_iter().find(|segment| is_one(self, *segment))?;
        self.cursor = found;
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::log::stripe::set;

    #[test]
    fn a_device_is_out_when_no_segment_names_it() {
        let mut it = Membership::new(&Layout::example(4));
        let wide = it.assign(7, set(0));
        assert_eq!((wide.width(), it.is_out(3), it.is_whole(set(0b1000))), (3, false, false));
        assert!(it.choose(set(0b0111)) && !it.choose(set(0b0111)));
        assert_eq!(it.assign(8, set(0b1000)).width(), 2);
        assert_eq!(it.next_missing(set(0b1000), |_, _| true), Some(7));
        assert_eq!(it.next_missing(set(0b1000), |_, segment| segment != 7), None);
        it.release(7);
        assert!(it.is_out(3) && it.is_whole(set(0b1000)));
        assert_eq!(it.sets(), [0b0111, 0b1111, 0, 0].map(set));
    }

    #[test]
    fn what_has_no_parity_left_moves_first() {
        let layout = Layout { parity: 2, ..Layout::example(4) };
        let mut it = Membership::new(&layout);
        it.choose(set(0b0111));
        it.assign(3, set(0));
        it.choose(set(0b1111));
        (4..7).for_each(|segment| assert_eq!(it.assign(segment, set(0)).width(), 2));
        let lost = set(0b1001);
        assert_eq!(
            it.next_missing(lost, |_, segment| segment < 5),
            Some(4),
            "it misses two chunks"
        );
        assert_eq!(it.next_missing(lost, |_, segment| segment == 3), Some(3), "it misses one");
        assert_eq!(it.next_missing(set(0b0001), |_, _| true), Some(3), "one is lost");
    }

    #[test]
    fn a_device_that_begins_anew_lacks_what_lies_on_it_already() {
        let mut it = Membership::new(&Layout::example(4));
        it.assign(2, set(0));
        it.begin_anew(1);
        it.assign(3, set(0));
        it.assign(4, set(0b0010));
        assert_eq!((it.missing(2, set(0)), it.missing(3, set(0))), (set(0b0010), set(0)));
        assert_eq!(it.missing(4, set(0)), set(0b0010), "it was not written while it was open");
        it.release(4);
        assert!(
            it.claim_rows(2, set(0b1111)) && it.missing(2, set(0)) == set(0b0010),
            "it is the same segment"
        );
        assert!(it.claim_rows(2, set(0b1101)) && it.is_whole(set(0)), "it was opened again");
        it.claim_lack(2, set(0b0100));
        assert_eq!(it.missing(2, set(0)), set(0b0100), "its rows say so");
        assert!(
            !it.claim(3, set(0b1_0000), set(0))
                && !it.claim(3, set(0b0001), set(0))
                && !it.claim(3, set(0b11), set(0b100))
        );
    }

    #[test]
    fn a_device_that_is_back_lacks_what_is_newer_than_what_it_has() {
        let mut it = Membership::new(&Layout::example(4));
        for (segment, seq) in [(2, 10), (3, 20), (4, 15)] {
            it.assign(segment, set(0));
            it.has_row(segment, seq);
            it.has_row(segment, seq - 5);
        }
        it.begin_again(1, 15, |segment| segment == 4);
        let missing = |segment| it.missing(segment, set(0));
        assert_eq!((missing(2), missing(3), missing(4)), (set(0), set(0b0010), set(0b0010)));
        assert_eq!((it.newest(2), it.newest(9), it.anew()), (10, 0, 1));
        it.filled(3, 1);
        assert_eq!((it.missing(3, set(0)), it.exposed(set(0))), (set(0), 1));
        assert_eq!(it.next_lacking(|_, _| true), Some(4));
        it.filled(4, 1);
        assert!(it.is_whole(set(0)) && it.next_lacking(|_, _| true).is_none());
    }

    #[test]
    #[should_panic(expected = "what it lacks")]
    fn a_device_that_has_its_chunks_gets_none() {
        let mut it = Membership::new(&Layout::example(4));
        it.assign(2, set(0));
        it.filled(2, 1);
    }

    #[test]
    fn where_a_segment_lies_that_nobody_knows_is_guessed() {
        let mut it = Membership::new(&Layout::example(4));
        it.choose(set(0b1110));
        let guesses = |it: &Membership, segment| {
            (0..).map_while(|at| it.guess(segment, at)).map(Stripe::members).collect::<Vec<_>>()
        };
        assert_eq!(guesses(&it, 5), [set(0b1110), set(0b1111)]);
        it.assign(5, set(0));
        assert_eq!(guesses(&it, 5), [set(0b1110)]);
    }

    #[test]
    fn a_chunk_is_missed_also_where_no_device_is_lost() {
        let mut it = Membership::new(&Layout::example(3));
        it.assign(1, set(0));
        it.assign(2, set(0b100));
        assert_eq!((it.exposed(set(0)), it.exposed(set(0b001)), it.exposed(set(0b100))), (1, 3, 2));
        it.release(2);
        assert_eq!((it.exposed(set(0)), it.exposed(set(0b001))), (0, 1));
    }

    #[test]
    #[should_panic(expected = "was free")]
    fn a_segment_in_use_is_not_opened() {
        let mut it = Membership::new(&Layout::example(2));
        it.assign(0, set(0));
        it.assign(0, set(0));
    }
}
