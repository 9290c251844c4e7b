//! Members of each segment, and the members of new ones.
//!
//! Segments are opened on all devices. After a loss, and while there is space, they are opened on
//! the remaining devices, so that they have full parity.
//!
//! Invariants
//! - A segment in use has members, which stay the same until it is free.
//! - `named` is the number of segments of which each device is a member.

use alloc::vec::Vec;

use hostftl_core::DeviceSet;
use hostftl_format::log::SETS;

use crate::log::chunk_placement::ChunkPlacement;
use crate::log::layout::Layout;
use crate::log::layout::lengths::Lengths;

/// The members of all segments.
#[derive(Debug)]
pub(crate) struct Membership {
    /// Parity chunks per stripe.
    parity: u8,
    /// The segments that each device contains, according to its length.
    lengths: Lengths,
    /// All places of devices, and the devices that are members of the volume.
    places: DeviceSet,
    all: DeviceSet,
    /// Members of each segment; empty if it is free.
    members: Vec<DeviceSet>,
    /// Members of each segment that are present but miss their chunks, because they joined later.
    lacking: Vec<DeviceSet>,
    /// Number of the newest stripe in each segment.
    newest: Vec<u64>,
    named: [u32; 16],
    /// Number of segments of which each device misses its chunks.
    lacks: [u32; 16],
    /// Whether any device misses chunks.
    incomplete: bool,
    /// Number of times that a device joined empty or returned.
    anew: u32,
    /// Sets of devices on which segments were opened; the first is used for new ones.
    sets: [DeviceSet; SETS],
    /// Segment at which the search for a segment to move continues.
    cursor: u32,
    /// Whether recovery has found the members of all segments in use.
    complete: bool,
}

impl Membership {
    /// Creates the state with all segments free; new ones are opened on all devices.
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

    /// Bytes of memory per segment.
    pub(crate) const BYTES: u64 = 12;

    /// Returns all members of the volume.
    pub(crate) fn all(&self) -> DeviceSet {
        self.all
    }

    /// Adds members to the volume.
    pub(crate) fn enter(&mut self, devices: DeviceSet) {
        assert!(!self.all.overlaps(devices), "a joining device was absent");
        self.all |= devices;
    }

    /// Removes members from the volume: they are not present yet, or were removed.
    pub(crate) fn leave(&mut self, devices: DeviceSet) {
        self.all -= devices;
        assert!(self.all.len() > u32::from(self.parity), "some members remain");
        // Sets are restored through the check, because one may have too few devices left.
        let sets = self.sets.map(|set| set & self.all);
        self.restore(sets);
    }

    /// Returns the sets on which segments were opened; the first is used for new ones.
    pub(crate) fn sets(&self) -> [DeviceSet; SETS] {
        self.sets
    }

    /// Returns the placement of new segments that fit on all chosen devices.
    pub(crate) fn current(&self) -> ChunkPlacement {
        ChunkPlacement::new(self.sets[0], self.parity)
    }

    /// Opens new segments on this set from now on. Returns whether it changed.
    pub(crate) fn choose(&mut self, set: DeviceSet) -> bool {
        assert!(set.is_within(self.all), "members are devices of the volume");
        let new = self.sets[0] != set;
        if new {
            // The set moves to the front. A new one replaces the least recently used.
            let last = self.sets.iter().position(|it| *it == set).unwrap_or(SETS - 1);
            self.sets[..=last].rotate_right(1);
            self.sets[0] = set;
        }
        new
    }

    /// Restores the sets from a root.
    pub(crate) fn restore(&mut self, sets: [DeviceSet; SETS]) {
        // The root may be forged, or name devices that were removed since.
        let sound = |set: &DeviceSet| set.is_within(self.all) && set.len() > u32::from(self.parity);
        let mut known = [DeviceSet::EMPTY; SETS];
        let found = sets.into_iter().filter(sound);
        known.iter_mut().zip(found).for_each(|(to, set)| *to = set);
        if !known[0].is_empty() {
            self.sets = known;
        }
    }

    /// Returns the placement of a segment or, if it is unknown, guess number `guess`. Returns
    /// `None` if there are no more guesses.
    pub(crate) fn guess(&self, segment: u32, guess: usize) -> Option<ChunkPlacement> {
        let known = self.members[segment as usize];
        let has_data = |set: &DeviceSet| set.len() > u32::from(self.parity);
        match (known, guess) {
            (DeviceSet::EMPTY, guess) => {
                let sets = self.sets.iter().map(|set| self.lengths.on(*set, segment));
                let set = sets.filter(has_data).nth(guess)?;
                Some(ChunkPlacement::new(set, self.parity))
            }
            (known, 0) => Some(ChunkPlacement::new(known, self.parity)),
            _ => None,
        }
    }

    /// Returns the placement of a segment.
    #[inline]
    pub(crate) fn placement(&self, segment: u32) -> ChunkPlacement {
        match self.members[segment as usize] {
            DeviceSet::EMPTY => ChunkPlacement::new(self.new_members(segment), self.parity),
            members => ChunkPlacement::new(members, self.parity),
        }
    }

    /// Assigns members to a segment that is opened, and returns its placement. The chunks on
    /// devices in `lost` are missing, even after a replacement.
    pub(crate) fn assign(&mut self, segment: u32, lost: DeviceSet) -> ChunkPlacement {
        assert!(self.members[segment as usize].is_empty(), "an opened segment was free");
        let members = self.new_members(segment);
        self.set(segment, members, members & lost);
        ChunkPlacement::new(members, self.parity)
    }

    /// Returns the members of a segment if it is opened now. If it cannot be, the result is the
    /// chosen set, including devices that are too short.
    fn new_members(&self, segment: u32) -> DeviceSet {
        let set = self.lengths.on(self.sets[0], segment);
        if set.len() > u32::from(self.parity) { set } else { self.sets[0] }
    }

    /// Records the members of a segment that recovery found in use. Returns false if they are
    /// impossible.
    pub(crate) fn claim(&mut self, segment: u32, members: DeviceSet, lacking: DeviceSet) -> bool {
        // Counts and heads come from the devices and may be forged.
        let sound = members.is_within(self.places)
            && lacking.is_within(members)
            && self.lengths.on(members, segment) == members
            && members.len() > u32::from(self.parity);
        if sound {
            self.set(segment, members, lacking);
        }
        sound
    }

    /// Records the members of a segment whose stripes recovery found. Missing chunks stay as known
    /// if the members are the same. Returns false if the members are impossible.
    pub(crate) fn claim_stripes(&mut self, segment: u32, members: DeviceSet) -> bool {
        let known = self.members[segment as usize] == members;
        let lacking = if known { self.lacking[segment as usize] } else { DeviceSet::EMPTY };
        self.claim(segment, members, lacking)
    }

    /// Adds members that miss their chunks, according to a stripe of the segment.
    pub(crate) fn claim_lack(&mut self, segment: u32, lacking: DeviceSet) {
        let (members, known) = self.recorded(segment);
        assert!(lacking.is_within(members), "only members miss chunks");
        self.set(segment, members, known | lacking);
    }

    /// Marks a segment as free.
    pub(crate) fn release(&mut self, segment: u32) {
        self.set(segment, DeviceSet::EMPTY, DeviceSet::EMPTY);
    }

    fn set(&mut self, segment: u32, members: DeviceSet, lacking: DeviceSet) {
        let at = segment as usize;
        // The totals change with the segment, so that no query has to visit all segments.
        self.members[at].iter().for_each(|device| self.named[usize::from(device)] -= 1);
        members.iter().for_each(|device| self.named[usize::from(device)] += 1);
        self.lacking[at].iter().for_each(|device| self.lacks[usize::from(device)] -= 1);
        lacking.iter().for_each(|device| self.lacks[usize::from(device)] += 1);
        // Most changes concern no missing chunk and leave the flag as it is.
        if !(self.lacking[at] | lacking).is_empty() {
            self.incomplete = self.lacks != [0; 16];
        }
        (self.members[at], self.lacking[at]) = (members, lacking);
    }

    /// Records that a device joined empty: it misses its chunks of all segments of which it is a
    /// member.
    pub(crate) fn begin_anew(&mut self, device: u8) {
        self.anew += 1;
        for segment in 0..self.members.len() {
            let (members, lacking) = (self.members[segment], self.lacking[segment]);
            self.set(segment as u32, members, lacking | members & DeviceSet::single(device));
        }
    }

    /// Records that a device returned with all stripes up to number `has`. It misses its chunks of
    /// segments with newer stripes, and of those that `may_get` stripes before it is trusted.
    pub(crate) fn begin_again(&mut self, device: u8, has: u64, may_get: impl Fn(u32) -> bool) {
        self.anew += 1;
        for segment in 0..self.members.len() {
            let is_old = self.newest[segment] > has || may_get(segment as u32);
            if is_old {
                let (members, lacking) = (self.members[segment], self.lacking[segment]);
                self.set(segment as u32, members, lacking | members & DeviceSet::single(device));
            }
        }
    }

    /// Returns the number of times that a device joined empty or returned.
    pub(crate) fn anew(&self) -> u32 {
        self.anew
    }

    /// Records that a device has received its chunks of a segment.
    pub(crate) fn filled(&mut self, segment: u32, device: u8) {
        let (members, lacking) = self.recorded(segment);
        assert!(lacking.contains(device), "the device is being resilvered");
        self.set(segment, members, lacking.without(device));
    }

    /// Records the number of a stripe in a segment.
    pub(crate) fn note_stripe(&mut self, segment: u32, seq: u64) {
        let newest = &mut self.newest[segment as usize];
        // Stripes are not noted in the order of their numbers.
        *newest = seq.max(*newest);
    }

    /// Returns the number of the newest stripe in a segment.
    pub(crate) fn newest(&self, segment: u32) -> u64 {
        self.newest[segment as usize]
    }

    /// Returns the members of a segment, and those that miss their chunks.
    pub(crate) fn recorded(&self, segment: u32) -> (DeviceSet, DeviceSet) {
        (self.members[segment as usize], self.lacking[segment as usize])
    }

    /// Records that the members of all segments are known.
    pub(crate) fn complete(&mut self) {
        self.complete = true;
    }

    /// Returns whether the members of all segments are known.
    pub(crate) fn is_complete(&self) -> bool {
        self.complete
    }

    /// Returns the number of missing chunks, summed over segments, if the devices in `lost` are
    /// lost.
    #[inline]
    pub(crate) fn exposed(&self, lost: DeviceSet) -> u32 {
        // The usual case, without a loop over the devices.
        if lost.is_empty() && !self.incomplete {
            return 0;
        }
        // A lost device misses all of its chunks, so those that it lacked are not counted again.
        let of_lost = lost.iter().map(|device| self.named(device)).sum::<u32>();
        let others = DeviceSet::ALL - lost;
        of_lost + others.iter().map(|device| self.lacks[usize::from(device)]).sum::<u32>()
    }

    /// Returns whether a device is a member of no segment.
    pub(crate) fn is_out(&self, device: u8) -> bool {
        self.named(device) == 0
    }

    /// Returns whether no chunk is missing if the devices in `lost` are lost.
    pub(crate) fn is_whole(&self, lost: DeviceSet) -> bool {
        self.exposed(lost) == 0
    }

    /// Returns the members of a segment whose chunks are missing if the devices in `lost` are lost.
    #[inline]
    pub(crate) fn missing(&self, segment: u32, lost: DeviceSet) -> DeviceSet {
        self.members[segment as usize] & lost | self.lacking[segment as usize]
    }

    /// Returns the devices that miss chunks of segments of which they are members.
    pub(crate) fn lacking(&self) -> DeviceSet {
        let lacks = |device: &u8| self.lacks[usize::from(*device)] > 0;
        DeviceSet::ALL.iter().filter(lacks).collect()
    }

    /// Returns whether any device misses chunks.
    #[inline]
    pub(crate) fn any_lacking(&self) -> bool {
        self.incomplete
    }

    /// Returns whether a device misses its chunks of a segment because it joined later.
    #[inline]
    pub(crate) fn is_lacking(&self, segment: u32, device: u8) -> bool {
        self.lacking[segment as usize].contains(device)
    }

    /// Returns the number of segments of which a device is a member.
    pub(crate) fn named(&self, device: u8) -> u32 {
        self.named[usize::from(device)]
    }

    /// Returns the next segment that misses a chunk and that `fits`. Segments without remaining
    /// parity come first.
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
        // With this many missing chunks another loss destroys data.
        let most = u32::from(self.parity).max(1);
        // Avoids a search over all segments if too few devices are affected.
        let may_be_bare = most > 1 && (lost | self.lacking()).len() >= most;
        let bare = may_be_bare.then(|| self.next(|it, segment| misses(it, segment, most)));
        bare.flatten().or_else(|| self.next(|it, segment| misses(it, segment, 1)))
    }

    /// Returns the next segment on one of these devices that `fits`.
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

    /// Returns the next segment that `fits` and of which a device misses its chunks.
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
        // The next search continues here, so that a series of searches visits each segment about
        // once.
        self.cursor = found;
        Some(found)
    }
}

#[cfg(test)]
mod tests;
