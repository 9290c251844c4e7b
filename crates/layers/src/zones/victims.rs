//! Which line is collected next: one with a segment that failed, else the one that gains most.
//!
//! `pblk` asks the policy that it was given; `rrpc` takes the segment with the most invalid blocks,
//! of the unit with the fewest free ones (see [`super::lists`]).
//!
//! Invariants
//! - A victim gives more strips than what is live in it takes, unless it has a segment that failed.

use super::lines::{Lines, State};

impl Lines {
    /// A segment failed: what is in it moves before all else.
    pub fn note_hurt(&mut self, segment: u32) {
        let line = self.layout.line(segment);
        let it = self.at_mut(line);
        if !it.hurt && !matches!(it.state, State::Free | State::Resetting | State::Dead) {
            it.hurt = true;
            self.hurt.push_back(line);
        }
    }

    /// Whether lines with failed segments wait to be collected.
    pub fn any_hurt(&self) -> bool {
        self.hurt.iter().any(|line| self.is_hurt_victim(*line))
    }

    fn is_hurt_victim(&self, line: u32) -> bool {
        let it = self.at(line);
        it.state == State::Full && it.hurt && !it.of_map
    }

    /// Strips that what is live in a line takes elsewhere, one of them short.
    fn need(&self, line: u32) -> i64 {
        i64::from(self.at(line).live.div_ceil(self.layout.strip_blocks())) + 1
    }

    /// Strips that collecting a line gives beyond those it takes: what failed gives none.
    fn gain(&self, line: u32) -> i64 {
        let chunks = self.segments(line).map(|segment| self.chunks.at(segment));
        let given: u32 = chunks.filter(|it| !it.bad).map(|it| it.strips).sum();
        i64::from(given.saturating_sub(self.layout.list)) - self.need(line)
    }

    /// The next victim, when there is room for so many strips; `None` when nothing would be gained.
    pub fn pick(&mut self, room: i64) -> Option<u32> {
        // What failed moves first, but not at the cost of the last room.
        let ample = room - i64::from(self.layout.line_strips());
        let urgent = |line: &u32| self.is_hurt_victim(*line) && self.need(*line) <= ample;
        let victim = match self.hurt.iter().position(urgent) {
            Some(index) => self.hurt.remove(index)?,
            None => self.worth(room)?,
        };
        self.hurt.retain(|line| *line != victim);
        self.withdraw(victim);
        let it = self.at_mut(victim);
        (it.state, it.hurt) = (State::Victim, false);
        Some(victim)
    }

    /// The victim of the policy when it gains and fits, else the line that gains most.
    fn worth(&mut self, room: i64) -> Option<u32> {
        if self.barren >= room {
            return None;
        }
        let victim = match self.layout.wide {
            true => self.of_policy(room),
            false => {
                let live = |line: u32| self.at(line).live;
                self.lists.most_invalid(|line| self.fits(line, room), live)
            }
        };
        if victim.is_none() {
            self.barren = room;
        }
        victim
    }

    fn of_policy(&mut self, room: i64) -> Option<u32> {
        let list = &self.list;
        let level = |line: u32| u32::from(list[line as usize].level);
        let first = self.victims.pick(self.now, level)?;
        let fits = |line: &u32| self.fits(*line, room);
        let full = |line: &u32| self.at(*line).state == State::Full && !self.at(*line).of_map;
        let all = || (0..self.layout.lines).filter(full).filter(fits);
        Some(first).filter(fits).or_else(|| all().max_by_key(|line| self.gain(*line)))
    }

    fn fits(&self, line: u32, room: i64) -> bool {
        self.need(line) <= room && self.gain(line) > 0
    }

    /// A line may be collected from now on.
    pub(super) fn offer(&mut self, line: u32) {
        match self.layout.wide {
            true => self.victims.sealed(line, self.at(line).level.into(), self.now),
            false => self.lists.offer(self.layout.front(line), line),
        }
    }

    /// A line may not be collected any more.
    pub(super) fn withdraw(&mut self, line: u32) {
        match self.layout.wide {
            true => self.victims.freed(line),
            false => self.lists.withdraw(self.layout.front(line), line),
        }
    }
}
