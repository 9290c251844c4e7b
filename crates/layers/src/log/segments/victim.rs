//! The victim of collection: which it is, and what becomes of it.

use hostftl_format::log::GRAIN;

use super::{LEVELS, Segments, State};

impl Segments {
    /// The next victim; `None` when nothing would be gained.
    pub fn pick(&mut self) -> Option<u32> {
        let list = &self.list;
        let live = |segment: u32| u32::from(list[segment as usize].level);
        let victim = self.victims.pick(self.now, live)?;
        if live(victim) == LEVELS {
            return None;
        }
        self.take_victim(victim);
        Some(victim)
    }

    /// The next victim is the one with the least live; `None` when nothing would be gained.
    pub fn pick_emptiest(&mut self) -> Option<u32> {
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
    pub fn pick_this(&mut self, segment: u32) -> bool {
        let fits = self.list[segment as usize].may_be_victim();
        if fits {
            self.take_victim(segment);
        }
        fits
    }

    /// Whether collection may go through a segment now.
    pub fn can_be_victim(&self, segment: u32) -> bool {
        self.list[segment as usize].may_be_victim()
    }

    /// Bytes that collecting a segment gains.
    pub fn gain(&self, segment: u32) -> u64 {
        let room = self.room(segment).max(self.rooms[usize::from(self.width)]);
        let gain = room.saturating_sub(self.list[segment as usize].live);
        u64::from(gain) * u64::from(GRAIN)
    }

    /// A victim was gone through.
    pub fn collected(&mut self, victim: u32) {
        let it = self.at(victim);
        it.go(State::Open);
        it.shunned = it.live > 0;
        self.settle(victim);
    }
}
