//! Choice of the victim: a line with a failed segment, else the line that frees the most.
//!
//! `pblk` follows its victim policy. `rrpc` takes the segment with the fewest valid blocks of the
//! unit with the fewest free segments (see [`super::lists`]).
//!
//! Invariants
//! - A victim frees more strips than its valid blocks take, unless it has a failed segment.
//! - There is at most one victim.

use alloc::collections::VecDeque;

use super::Lines;
use super::line::State;
use crate::policy::{GcPolicy, Victims};
use crate::zones::layout::Layout;

/// Number of levels by which the policy distinguishes victims.
pub(super) const LEVELS: u32 = 64;

/// State for the choice of the next victim.
#[derive(Debug)]
pub(super) struct Candidates {
    policy: Victims,
    /// Lines with a failed segment.
    failed: VecDeque<u32>,
    /// Current victim.
    victim: Option<u32>,
    /// Number of blocks written, the clock of the policy.
    now: u64,
    /// Room, in strips, at which no line was worth collecting, if nothing has changed since.
    not_worth_collecting_at: i64,
}

impl Candidates {
    /// Creates the state while no line is full.
    pub(super) fn new(layout: &Layout, gc: GcPolicy) -> Self {
        let count = layout.lines;
        Candidates {
            policy: Victims::new(gc, if layout.wide { count } else { 0 }, LEVELS, 1),
            failed: VecDeque::with_capacity(count as usize),
            victim: None,
            now: 0,
            not_worth_collecting_at: i64::MIN,
        }
    }

    /// Returns the bytes of the victim policy.
    pub(super) fn memory(layout: &Layout, gc: GcPolicy) -> u64 {
        Victims::memory(gc, if layout.wide { layout.lines } else { 0 }, LEVELS)
    }

    /// Counts a block that was written.
    pub(super) fn tick(&mut self) {
        self.now += 1;
    }

    /// Notes that another line may now be worth collecting.
    pub(super) fn changed(&mut self) {
        self.not_worth_collecting_at = i64::MIN;
    }

    /// Reports the new level of a line to the policy.
    pub(super) fn level_changed(&mut self, line: u32, level: u8) {
        self.policy.valid_changed(line, level.into(), self.now);
    }

    /// Removes a line from the lines with a failed segment.
    pub(super) fn forget_failed(&mut self, line: u32) {
        self.failed.retain(|it| *it != line);
    }
}

impl Lines {
    /// Returns the current victim.
    pub(crate) fn victim(&self) -> Option<u32> {
        self.candidates.victim
    }

    /// Notes a failed segment: its line is collected before all others.
    pub(super) fn note_failed(&mut self, segment: u32) {
        let line = self.layout.line(segment);
        let it = self.at_mut(line);
        let holds = !matches!(it.state(), State::Free | State::Resetting | State::Retired);
        if holds && !it.has_failed_segment {
            it.has_failed_segment = true;
            self.candidates.failed.push_back(line);
        }
    }

    /// Returns whether a line with a failed segment waits for collection.
    pub(super) fn has_failed_victim(&self) -> bool {
        self.candidates.failed.iter().any(|line| self.is_failed_victim(*line))
    }

    fn is_failed_victim(&self, line: u32) -> bool {
        let it = self.at(line);
        it.state() == State::Full && it.has_failed_segment && !it.is_of_map()
    }

    /// Returns the strips that the valid blocks of a line take elsewhere, plus one that may be
    /// partly filled.
    fn need(&self, line: u32) -> i64 {
        i64::from(self.at(line).valid().div_ceil(self.layout.strip_blocks())) + 1
    }

    /// Returns the strips that collecting a line gains. Failed segments free none.
    fn gain(&self, line: u32) -> i64 {
        let chunks = self.segments(line).map(|segment| self.chunks.at(segment));
        let given: u32 = chunks.filter(|it| !it.bad).map(|it| it.strips).sum();
        i64::from(given.saturating_sub(self.layout.list)) - self.need(line)
    }

    /// Chooses the next victim, when there is room for `room` strips. Returns `None` if nothing
    /// would be gained.
    ///
    /// # Panics
    /// If there is a victim already.
    pub(crate) fn pick(&mut self, room: i64) -> Option<u32> {
        assert!(self.candidates.victim.is_none(), "one victim at a time");
        // A failed segment is urgent, but must not use up the last room.
        let ample = room - i64::from(self.layout.line_strips());
        let urgent = |line: &u32| self.is_failed_victim(*line) && self.need(*line) <= ample;
        let failed = self.candidates.failed.iter().copied().find(urgent);
        let victim = failed.or_else(|| self.worth(room))?;
        self.candidates.forget_failed(victim);
        self.withdraw(victim);
        let it = self.at_mut(victim);
        it.go(State::Victim);
        it.has_failed_segment = false;
        self.candidates.victim = Some(victim);
        Some(victim)
    }

    /// Ends the collection of the victim; blocks that are still valid stay there. `seq` is the last
    /// row.
    ///
    /// # Panics
    /// If there is no victim.
    pub(crate) fn collected(&mut self, seq: u64) {
        let victim = self.candidates.victim.take().expect("a victim was collected");
        self.fill(victim, seq);
    }

    /// Returns the victim of the policy if it fits and gains, else the line that gains most.
    fn worth(&mut self, room: i64) -> Option<u32> {
        // The search is over all lines; it is repeated only when its result may differ.
        if self.candidates.not_worth_collecting_at >= room {
            return None;
        }
        let victim = if self.layout.wide {
            self.by_policy(room)
        } else {
            let valid = |line: u32| self.at(line).valid();
            self.lists.most_invalid(|line| self.fits(line, room), valid)
        };
        if victim.is_none() {
            self.candidates.not_worth_collecting_at = room;
        }
        victim
    }

    fn by_policy(&mut self, room: i64) -> Option<u32> {
        let list = &self.list;
        let level = |line: u32| u32::from(list[line as usize].level);
        let first = self.candidates.policy.pick(self.candidates.now, level)?;
        let fits = |line: &u32| self.fits(*line, room);
        let full = |line: &u32| {
            let it = self.at(*line);
            it.state() == State::Full && !it.is_of_map()
        };
        let all = || (0..self.layout.lines).filter(full).filter(fits);
        // The policy ranks lines by valid blocks only, and may choose one that does not fit.
        Some(first).filter(fits).or_else(|| all().max_by_key(|line| self.gain(*line)))
    }

    fn fits(&self, line: u32, room: i64) -> bool {
        self.need(line) <= room && self.gain(line) > 0
    }

    /// Offers a line for collection.
    pub(super) fn offer(&mut self, line: u32) {
        let level = self.at(line).level;
        if self.layout.wide {
            self.candidates.policy.sealed(line, level.into(), self.candidates.now)
        } else {
            self.lists.offer(self.layout.front(line), line)
        }
    }

    /// Withdraws a line from collection.
    pub(super) fn withdraw(&mut self, line: u32) {
        if self.layout.wide {
            self.candidates.policy.freed(line)
        } else {
            self.lists.withdraw(self.layout.front(line), line)
        }
    }
}
