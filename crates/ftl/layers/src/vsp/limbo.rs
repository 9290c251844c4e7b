//! Queue of empty superpages, and the mark that must be durable before each may be reused.
//!
//! Invariants
//! - Each entry of `marks` applies to a number of consecutive superpages of the queue, oldest
//!   first.
//! - Superpages queued since the last [`Limbo::mark`] have no mark yet, and are at the end.

use alloc::collections::VecDeque;

use super::log::Mark;
use super::queue::Queue;
use super::records::Records;

/// Maximum number of distinct marks. Beyond it, new superpages share the last mark.
const MARKS: usize = 256;

/// Superpages in limbo, in the order in which they became empty.
#[derive(Debug)]
pub(crate) struct Limbo {
    queue: Queue,
    marks: VecDeque<(Mark, u32)>,
    unmarked: u32,
}

impl Limbo {
    /// Bytes of the marks.
    pub(crate) const MEMORY: u64 = (MARKS * size_of::<(Mark, u32)>()) as u64;

    /// Creates an empty queue.
    pub(crate) fn new() -> Self {
        Limbo { queue: Queue::new(), marks: VecDeque::with_capacity(MARKS), unmarked: 0 }
    }

    /// Returns the number of superpages.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// Appends a superpage that became empty. [`Limbo::mark`] follows in the same step.
    pub(crate) fn push(&mut self, records: &mut Records, vsp: u32) {
        self.queue.push(records, vsp);
        self.unmarked += 1;
    }

    /// Assigns `mark` to the superpages queued since the last mark; it is later than all others.
    pub(crate) fn mark(&mut self, mark: Mark) {
        let more = core::mem::take(&mut self.unmarked);
        if more == 0 {
            return;
        }
        let full = self.marks.len() == MARKS;
        match self.marks.back_mut() {
            // Raising the last mark only delays its superpages; lowering it would free one too
            // early.
            Some((last, count)) if full || *last == mark => {
                (*last, *count) = (last.max(mark), *count + more);
            }
            _ => self.marks.push_back((mark, more)),
        }
    }

    /// Returns the oldest superpage and its mark.
    pub(crate) fn front(&self) -> Option<(u32, Mark)> {
        Some((self.queue.front()?, self.marks.front()?.0))
    }

    /// Returns the mark of the superpage at position `index`.
    pub(crate) fn mark_at(&self, index: usize) -> Option<Mark> {
        let mut behind = index as u32;
        self.marks.iter().find_map(|(mark, count)| match behind.checked_sub(*count) {
            None => Some(*mark),
            Some(rest) => {
                behind = rest;
                None
            }
        })
    }

    /// Returns the mark of the youngest superpage.
    pub(crate) fn last_mark(&self) -> Option<Mark> {
        self.marks.back().map(|(mark, _)| *mark)
    }

    /// Removes the oldest superpage.
    pub(crate) fn pop(&mut self, records: &mut Records) {
        self.queue.pop(records);
        let (_, count) = self.marks.front_mut().expect("every superpage in limbo has a mark");
        *count -= 1;
        if *count == 0 {
            self.marks.pop_front();
        }
    }
}
