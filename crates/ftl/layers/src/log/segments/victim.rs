//! The victim of collection: which it is, and what becomes of it. A segment in which a scrub found
//! something wrong becomes one whatever is gained by that.

use hostftl_format::log::GRAIN;

use super::{LEVELS, Segment, Segments, State};
use crate::policy::{GcPolicy, Victims};

impl Segments {
    /// Victims are chosen by another policy from now on, which knows nothing of the past.
    pub(crate) fn choose_by(&mut self, policy: GcPolicy) {
        self.victims = Victims::new(policy, self.list.len() as u32, LEVELS, 1);
        for (segment, it) in self.list.iter().enumerate().filter(|(_, it)| it.may_be_victim()) {
            self.victims.sealed(segment as u32, it.level.into(), self.now);
        }
    }

    /// The next victim; `None` when nothing would be gained.
    pub(crate) fn pick(&mut self) -> Option<u32> {
        let list = &self.list;
        let live = |segment: u32| u32::from(list[segment as usize].level);
        let victim = self.victims.pick(self.now, live)?;
        if live(victim) == LEVELS {
            // The oldest one, say, may stay so for ever.
            return if self.victims.knows_least() { None } else { self.pick_emptiest() };
        }
        self.take_victim(victim);
        Some(victim)
    }

    /// The next victim is the one with the least live; `None` when nothing would be gained.
    pub(crate) fn pick_emptiest(&mut self) -> Option<u32> {
        let list = self.list.iter().zip(0..);
        let gains = list.filter(|(it, _)| it.may_be_victim() && u32::from(it.level) < LEVELS);
        let (_, victim) = gains.min_by_key(|(it, _)| it.live)?;
        self.take_victim(victim);
        Some(victim)
    }

    fn take_victim(&mut self, victim: u32) {
        self.victims.freed(victim);
        self.full.count -= 1;
        self.full.room -= u64::from(self.room(victim));
        self.full.grains -= u64::from(self.list[victim as usize].live);
        self.at(victim).go(State::Victim);
    }

    /// Makes this one the next victim, whatever would be gained, if it is full.
    pub(crate) fn pick_this(&mut self, segment: u32) -> bool {
        let fits = self.list[segment as usize].may_be_victim();
        if fits {
            self.take_victim(segment);
        }
        fits
    }

    /// Whether collection may go through a segment now.
    pub(crate) fn can_be_victim(&self, segment: u32) -> bool {
        self.list[segment as usize].may_be_victim()
    }

    /// Whether a device may get its chunks of a segment now: nothing more is written to it, and
    /// nothing is known to be wrong in it.
    pub(crate) fn can_be_filled(&self, segment: u32) -> bool {
        let it = &self.list[segment as usize];
        it.state == State::Full && it.flaws == 0 && !it.shunned
    }

    /// Bytes that collecting a segment gains.
    pub(crate) fn gain(&self, segment: u32) -> u64 {
        let gain = self.gathered(segment).saturating_sub(self.list[segment as usize].live);
        u64::from(gain) * u64::from(GRAIN)
    }

    /// A victim was gone through.
    pub(crate) fn collected(&mut self, victim: u32) {
        let it = self.at(victim);
        it.go(State::Open);
        it.shunned = it.live > 0;
        self.mend(victim);
        self.settle(victim);
    }

    /// A device belongs again, or another in its place: what could not be read may be now.
    pub(crate) fn try_again(&mut self) {
        let shunned = self.list.iter_mut().zip(0..).filter(|(it, _)| it.shunned);
        for (it, segment) in shunned {
            it.shunned = false;
            if it.may_be_victim() {
                self.victims.sealed(segment, it.level.into(), self.now);
            }
        }
    }

    /// Something is wrong in a segment that has anything live. False when collection has gone
    /// through it already: what it holds nothing can bring back.
    pub(crate) fn flaw(&mut self, segment: u32) -> bool {
        let it = self.at(segment);
        let may = !it.shunned;
        if may && it.live > 0 {
            let is_first = it.flaws == 0;
            it.flaws = it.flaws.saturating_add(1);
            self.flaws.segments += u32::from(is_first);
        }
        may
    }

    /// What is live of it was moved, or is gone.
    pub(super) fn mend(&mut self, segment: u32) {
        if core::mem::take(&mut self.at(segment).flaws) > 0 {
            self.flaws.segments -= 1;
        }
    }

    /// Gives up the segments that are still flawed, because their data can't be moved.
    pub(crate) fn forget_flaws(&mut self) {
        for segment in 0..self.list.len() as u32 {
            self.flaws.unrepaired += u64::from(self.list[segment as usize].flaws);
            self.mend(segment);
        }
    }

    /// Flaws in segments that were given up, since the volume was opened.
    pub(crate) fn unrepaired(&self) -> u64 {
        self.flaws.unrepaired
    }

    /// How many are flawed.
    pub(crate) fn flawed(&self) -> u32 {
        self.flaws.segments
    }

    /// Whether this one is.
    pub(crate) fn is_flawed(&self, segment: u32) -> bool {
        self.list[segment as usize].flaws > 0
    }

    /// Makes a flawed segment the next victim, if there is one that is full.
    pub(crate) fn pick_flawed(&mut self) -> Option<u32> {
        let fits = |it: &Segment| it.flaws > 0 && it.may_be_victim();
        let victim = self.list.iter().position(fits)? as u32;
        self.pick_this(victim).then_some(victim)
    }

    /// A flawed segment that is full of images of the map, if there is one.
    pub(crate) fn flawed_map(&self) -> Option<u32> {
        let fits = |it: &Segment| it.flaws > 0 && it.of_map && it.state == State::Full;
        self.list.iter().position(fits).map(|segment| segment as u32)
    }

    /// The full segment with images of the map that has the fewest valid grains, when there are
    /// more than `most` of them.
    pub(crate) fn surplus_map(&self, most: u32) -> Option<u32> {
        self.least_map(None, most)
    }

    /// The same of those that come behind segment `last` in that order, when there are more than
    /// `most` behind it: the images of the others are about to move.
    pub(crate) fn more_surplus_map(&self, last: u32, most: u32) -> Option<u32> {
        self.least_map(Some((self.live(last), last)), most)
    }

    fn least_map(&self, behind: Option<(u32, u32)>, most: u32) -> Option<u32> {
        let full = self.list.iter().zip(0..).filter(|(it, _)| it.of_map && it.state == State::Full);
        let keys = full.map(|(it, segment)| (it.live, segment));
        let rest = keys.filter(|key| behind.is_none_or(|last| *key > last));
        let is_surplus = rest.clone().count() > most as usize;
        rest.min().filter(|_| is_surplus).map(|(_, segment)| segment)
    }
}
