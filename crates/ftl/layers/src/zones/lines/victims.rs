//! Which line is collected next: one with a segment that failed, else the one that gains most.
//!
//! `pblk` asks the policy that it was given; `rrpc` takes the segment with the most invalid blocks,
//! of the unit with the fewest free ones (see [`super::lists`]).
//!
//! Invariants
//! - A victim gives more strips than its valid blocks take, unless it has a segment that failed.
//! - There is one victim at a time.

use alloc::collections::VecDeque;

use super::Lines;
use super::line::State;
use crate::policy::{GcPolicy, Victims};
use crate::zones::layout::Layout;

/// How finely victims are told apart.
pub(super) const LEVELS: u32 = 64;

/// What the choice of the next victim needs to know.
#[derive(Debug)]
pub(super) struct Candidates {
    policy: Victims,
    /// Lines with a segment that failed.
    failed: VecDeque<u32>,
    /// The line that is being collected.
    victim: Option<u32>,
    /// Blocks written: the clock of the policy.
    now: u64,
    /// With so much room no line was worth collecting, and no block was invalidated since.
    not_worth_collecting_at: i64,
}

impl Candidates {
    /// No line is full.
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

    /// Bytes of what the policy keeps.
    pub(super) fn memory(layout: &Layout, gc: GcPolicy) -> u64 {
        Victims::memory(gc, if layout.wide { layout.lines } else { 0 }, LEVELS)
    }

    /// A block was written.
    pub(super) fn tick(&mut self) {
        self.now += 1;
    }

    /// A line may be worth collecting now.
    pub(super) fn changed(&mut self) {
        self.not_worth_collecting_at = i64::MIN;
    }

    /// More or less of a line is valid than the policy was told.
    pub(super) fn level_changed(&mut self, line: u32, level: u8) {
        self.policy.live_changed(line, level.into(), self.now);
    }

    /// A line that had a segment that failed is reset, or is collected.
    pub(super) fn forget_failed(&mut self, line: u32) {
        self.failed.retain(|it| *it != line);
    }
}

impl Lines {
    /// The line that is being collected.
    pub(crate) fn victim(&self) -> Option<u32> {
        self.candidates.victim
    }

    /// A segment failed: what is in its line moves before all else.
    pub(super) fn note_failed(&mut self, segment: u32) {
        let line = self.layout.line(segment);
        let it = self.at_mut(line);
        let holds = !matches!(it.state(), State::Free | State::Resetting | State::Dead);
        if holds && !it.has_failed_segment {
            it.has_failed_segment = true;
            self.candidates.failed.push_back(line);
        }
    }

    /// Whether lines with failed segments wait to be collected.
    pub(super) fn has_failed_victim(&self) -> bool {
        self.candidates.failed.iter().any(|line| self.is_failed_victim(*line))
    }

    fn is_failed_victim(&self, line: u32) -> bool {
        let it = self.at(line);
        it.state() == State::Full && it.has_failed_segment && !it.is_of_map()
    }

    /// Strips that the valid blocks of a line take elsewhere, one of them short.
    fn need(&self, line: u32) -> i64 {
        i64::from(self.at(line).valid().div_ceil(self.layout.strip_blocks())) + 1
    }

    /// Strips that collecting a line gives beyond those it takes: what failed gives none.
    fn gain(&self, line: u32) -> i64 {
        let chunks = self.segments(line).map(|segment| self.chunks.at(segment));
        let given: u32 = chunks.filter(|it| !it.bad).map(|it| it.strips).sum();
        i64::from(given.saturating_sub(self.layout.list)) - self.need(line)
    }

    /// The next victim, when there is room for so many strips; `None` when nothing would be gained.
    ///
    /// # Panics
    /// When there is a victim already.
    pub(crate) fn pick(&mut self, room: i64) -> Option<u32> {
        assert!(self.candidates.victim.is_none(), "one victim at a time");
        // What failed moves first, but not at the cost of the last room.
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

    /// The victim was gone through; what is valid in it stays there. `seq` is the last row.
    ///
    /// # Panics
    /// When there is no victim.
    pub(crate) fn collected(&mut self, seq: u64) {
        let victim = self.candidates.victim.take().expect("a victim was gone through");
        self.fill(victim, seq);
    }

    /// The victim of the policy when it gains and fits, else the line that gains most.
    fn worth(&mut self, room: i64) -> Option<u32> {
        if self.candidates.not_worth_collecting_at >= room {
            return None;
        }
        let victim = if self.layout.wide {
            self.of_policy(room)
        } else {
            let valid = |line: u32| self.at(line).valid();
            self.lists.most_invalid(|line| self.fits(line, room), valid)
        };
        if victim.is_none() {
            self.candidates.not_worth_collecting_at = room;
        }
        victim
    }

    fn of_policy(&mut self, room: i64) -> Option<u32> {
        let list = &self.list;
        let level = |line: u32| u32::from(list[line as usize].level);
        let first = self.candidates.policy.pick(self.candidates.now, level)?;
        let fits = |line: &u32| self.fits(*line, room);
        let full = |line: &u32| {
            let it = self.at(*line);
            it.state() == State::Full && !it.is_of_map()
        };
        let all = || (0..self.layout.lines).filter(full).filter(fits);
        Some(first).filter(fits).or_else(|| all().max_by_key(|line| self.gain(*line)))
    }

    fn fits(&self, line: u32, room: i64) -> bool {
        self.need(line) <= room && self.gain(line) > 0
    }

    /// A line may be collected from now on.
    pub(super) fn offer(&mut self, line: u32) {
        let level = self.at(line).level;
        if self.layout.wide {
            self.candidates.policy.sealed(line, level.into(), self.candidates.now)
        } else {
            self.lists.offer(self.layout.front(line), line)
        }
    }

    /// A line may not be collected any more.
    pub(super) fn withdraw(&mut self, line: u32) {
        if self.layout.wide {
            self.candidates.policy.freed(line)
        } else {
            self.lists.withdraw(self.layout.front(line), line)
        }
    }
}
