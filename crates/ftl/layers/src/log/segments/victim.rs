//! Choice of the victim of garbage collection, and its state afterwards. A segment with damage
//! found by a scrub becomes a victim regardless of its gain.

use hostftl_format::log::GRAIN;

use super::{LEVELS, Segment, Segments, State};
use crate::policy::{GcPolicy, Victims};

impl Segments {
    /// Changes the policy that chooses victims; the new one starts without history.
    pub(crate) fn choose_by(&mut self, policy: GcPolicy) {
        self.victims = Victims::new(policy, self.list.len() as u32, LEVELS, 1);
        for (segment, it) in self.list.iter().enumerate().filter(|(_, it)| it.may_be_victim()) {
            self.victims.sealed(segment as u32, it.level.into(), self.now);
        }
    }

    /// Returns the next victim; `None` if collection would free nothing.
    pub(crate) fn pick(&mut self) -> Option<u32> {
        let list = &self.list;
        // Policies see fill levels, not grains: segments of different widths become comparable.
        let valid = |segment: u32| u32::from(list[segment as usize].level);
        let victim = self.victims.pick(self.now, valid)?;
        if valid(victim) == LEVELS {
            // The choice of the policy, such as the oldest segment, may stay full for ever.
            return if self.victims.knows_least() { None } else { self.pick_emptiest() };
        }
        self.take_victim(victim);
        Some(victim)
    }

    /// Returns the segment with the least valid data as the next victim; `None` if collection would
    /// free nothing.
    pub(crate) fn pick_emptiest(&mut self) -> Option<u32> {
        let list = self.list.iter().zip(0..);
        let gains = list.filter(|(it, _)| it.may_be_victim() && u32::from(it.level) < LEVELS);
        let (_, victim) = gains.min_by_key(|(it, _)| it.valid)?;
        self.take_victim(victim);
        Some(victim)
    }

    fn take_victim(&mut self, victim: u32) {
        // A victim is not offered again, and the totals of full segments exclude it.
        self.victims.freed(victim);
        self.full.count -= 1;
        self.full.room -= u64::from(self.room(victim));
        self.full.grains -= u64::from(self.list[victim as usize].valid);
        self.at(victim).go(State::Victim);
    }

    /// Makes a segment the next victim if it is full, regardless of its gain.
    pub(crate) fn pick_this(&mut self, segment: u32) -> bool {
        let fits = self.list[segment as usize].may_be_victim();
        if fits {
            self.take_victim(segment);
        }
        fits
    }

    /// Returns whether a segment can be collected now.
    pub(crate) fn can_be_victim(&self, segment: u32) -> bool {
        self.list[segment as usize].may_be_victim()
    }

    /// Returns whether a device can receive its chunks of a segment now: no more stripes are
    /// written to it, and no flaw is known.
    pub(crate) fn can_be_filled(&self, segment: u32) -> bool {
        let it = &self.list[segment as usize];
        it.state == State::Full && it.flaws == 0 && !it.shunned
    }

    /// Returns the bytes that collecting a segment frees.
    pub(crate) fn gain(&self, segment: u32) -> u64 {
        let gain = self.gathered(segment).saturating_sub(self.list[segment as usize].valid);
        u64::from(gain) * u64::from(GRAIN)
    }

    /// Ends the collection of a victim.
    pub(crate) fn collected(&mut self, victim: u32) {
        let it = self.at(victim);
        // `settle` below derives the next state from the remaining valid data.
        it.go(State::Open);
        // A segment whose data cannot be moved would otherwise become a victim again at once.
        it.shunned = it.valid > 0;
        self.clear_flaws(victim);
        self.settle(victim);
    }

    /// Allows shunned segments as victims again, because a device returned or was replaced:
    /// unreadable data may be readable now.
    pub(crate) fn try_again(&mut self) {
        let shunned = self.list.iter_mut().zip(0..).filter(|(it, _)| it.shunned);
        for (it, segment) in shunned {
            it.shunned = false;
            if it.may_be_victim() {
                self.victims.sealed(segment, it.level.into(), self.now);
            }
        }
    }

    /// Counts a flaw in a segment with valid data. Returns false if the segment was already
    /// collected, and its data is unrecoverable.
    pub(crate) fn flaw(&mut self, segment: u32) -> bool {
        let it = self.at(segment);
        let may = !it.shunned;
        if may && it.valid > 0 {
            let is_first = it.flaws == 0;
            it.flaws = it.flaws.saturating_add(1);
            self.flaws.segments += u32::from(is_first);
        }
        may
    }

    /// Clears the flaws of a segment whose valid data was moved or deleted.
    pub(super) fn clear_flaws(&mut self, segment: u32) {
        if core::mem::take(&mut self.at(segment).flaws) > 0 {
            self.flaws.segments -= 1;
        }
    }

    /// Gives up the segments that are still flawed, because their data cannot be moved.
    pub(crate) fn forget_flaws(&mut self) {
        for segment in 0..self.list.len() as u32 {
            self.flaws.unrepaired += u64::from(self.list[segment as usize].flaws);
            self.clear_flaws(segment);
        }
    }

    /// Returns the number of flaws in segments that were given up since the volume was opened.
    pub(crate) fn unrepaired(&self) -> u64 {
        self.flaws.unrepaired
    }

    /// Returns the number of flawed segments.
    pub(crate) fn flawed(&self) -> u32 {
        self.flaws.segments
    }

    /// Returns whether a segment is flawed.
    pub(crate) fn is_flawed(&self, segment: u32) -> bool {
        self.list[segment as usize].flaws > 0
    }

    /// Makes a full flawed segment the next victim, if there is one.
    pub(crate) fn pick_flawed(&mut self) -> Option<u32> {
        let fits = |it: &Segment| it.flaws > 0 && it.may_be_victim();
        let victim = self.list.iter().position(fits)? as u32;
        self.pick_this(victim).then_some(victim)
    }

    /// Returns a flawed full segment of map images, if there is one.
    pub(crate) fn flawed_map(&self) -> Option<u32> {
        let fits = |it: &Segment| it.flaws > 0 && it.of_map && it.state == State::Full;
        self.list.iter().position(fits).map(|segment| segment as u32)
    }

    /// Returns the full segment of map images with the fewest valid grains, if there are more than
    /// `most` of them.
    pub(crate) fn surplus_map(&self, most: u32) -> Option<u32> {
        self.least_map(None, most)
    }

    /// Returns the next such segment after `last` in ascending order of valid grains, if more than
    /// `most` follow it. The images of the earlier ones are about to be moved.
    pub(crate) fn more_surplus_map(&self, last: u32, most: u32) -> Option<u32> {
        self.least_map(Some((self.valid(last), last)), most)
    }

    fn least_map(&self, behind: Option<(u32, u32)>, most: u32) -> Option<u32> {
        let full = self.list.iter().zip(0..).filter(|(it, _)| it.of_map && it.state == State::Full);
        // The number of the segment makes the order total, so that a search can continue after
        // `last`.
        let keys = full.map(|(it, segment)| (it.valid, segment));
        let rest = keys.filter(|key| behind.is_none_or(|last| *key > last));
        let is_surplus = rest.clone().count() > most as usize;
        rest.min().filter(|_| is_surplus).map(|(_, segment)| segment)
    }
}
