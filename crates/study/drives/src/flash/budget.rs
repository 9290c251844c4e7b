//! Limit of the dies that program at the same time, as the power budget of a large drive requires.
//!
//! Invariants
//! - While dies wait in the list, or the limit is not reached, no die is left out: a die that may
//!   not program is in the list, or executes something and asks again at its end.
//! - A suspended program keeps its place in the budget.

use std::collections::VecDeque;

use super::op::Kind;

#[derive(Debug)]
pub(super) struct Budget {
    /// Programs that may still begin; `u32::MAX` without a limit.
    left: u32,
    /// Dies that wait for a program to end, in order. A die is in the list at most once.
    waiting: VecDeque<u32>,
    is_waiting: Vec<bool>,
}

/// Value of `left` without a limit.
const UNLIMITED: u32 = u32::MAX;

impl Budget {
    /// Makes a budget for `most` dies of `dies`; 0 is no limit.
    pub(super) fn new(most: u32, dies: u32) -> Self {
        let is_limited = most > 0 && most < dies;
        Budget {
            left: if is_limited { most } else { UNLIMITED },
            waiting: VecDeque::new(),
            is_waiting: vec![false; if is_limited { dies as usize } else { 0 }],
        }
    }

    /// Returns whether an operation of this kind may begin.
    #[inline]
    pub(super) fn allows(&self, kind: Kind) -> bool {
        self.left > 0 || !is_counted(kind)
    }

    /// Records that a die begins a set of this kind.
    #[inline]
    pub(super) fn begin(&mut self, kind: Kind) {
        if self.left != UNLIMITED && is_counted(kind) {
            self.left -= 1;
        }
    }

    /// Records that a die ended a set of this kind.
    #[inline]
    pub(super) fn end(&mut self, kind: Kind) {
        if self.left != UNLIMITED && is_counted(kind) {
            self.left += 1;
        }
    }

    /// Puts a die that could start nothing on the list, if a program may be the reason.
    pub(super) fn enlist(&mut self, die: u32) {
        if self.left == 0 && !std::mem::replace(&mut self.is_waiting[die as usize], true) {
            self.waiting.push_back(die);
        }
    }

    /// Removes the first die from the list, if a program may begin.
    #[inline]
    pub(super) fn next(&mut self) -> Option<u32> {
        if self.left == 0 || self.left == UNLIMITED {
            return None;
        }
        let die = self.waiting.pop_front()?;
        self.is_waiting[die as usize] = false;
        Some(die)
    }
}

fn is_counted(kind: Kind) -> bool {
    matches!(kind, Kind::Program | Kind::Move)
}
