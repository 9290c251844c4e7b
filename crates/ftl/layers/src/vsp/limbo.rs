//! Superpages that are empty, and what must be durable before each may be used again.
//!
//! Invariants
//! - `marks` are of consecutive superpages of the queue, the oldest first, each with how many.
//! - Superpages that came since the last [`Limbo::mark`] have none yet, and are the last.

use alloc::collections::VecDeque;

use super::log::Mark;
use super::queue::Queue;
use super::records::Records;

/// The most different marks; what comes with more waits for the same one as what came before it.
const MARKS: usize = 256;

#[derive(Debug)]
pub(crate) struct Limbo {
    queue: Queue,
    marks: VecDeque<(Mark, u32)>,
    unmarked: u32,
}

impl Limbo {
    /// Bytes of the marks.
    pub(crate) const MEMORY: u64 = (MARKS * size_of::<(Mark, u32)>()) as u64;

    /// Empty.
    pub(crate) fn new() -> Self {
        Limbo { queue: Queue::new(), marks: VecDeque::with_capacity(MARKS), unmarked: 0 }
    }

    /// How many there are.
    pub(crate) fn len(&self) -> usize {
        self.queue.len()
    }

    /// A superpage became empty; [`Limbo::mark`] follows in the same step.
    pub(crate) fn push(&mut self, records: &mut Records, vsp: u32) {
        self.queue.push(records, vsp);
        self.unmarked += 1;
    }

    /// What came since the last mark waits for this one, which is later.
    pub(crate) fn mark(&mut self, mark: Mark) {
        let more = core::mem::take(&mut self.unmarked);
        if more == 0 {
            return;
        }
        let full = self.marks.len() == MARKS;
        match self.marks.back_mut() {
            Some((last, count)) if full || *last == mark => {
                (*last, *count) = (last.max(mark), *count + more);
            }
            _ => self.marks.push_back((mark, more)),
        }
    }

    /// The oldest, and what it waits for.
    pub(crate) fn front(&self) -> Option<(u32, Mark)> {
        Some((self.queue.front()?, self.marks.front()?.0))
    }

    /// What the superpage `index` waits for.
    pub(crate) fn mark_of(&self, index: usize) -> Option<Mark> {
        let mut behind = index as u32;
        self.marks.iter().find_map(|(mark, count)| match behind.checked_sub(*count) {
            None => Some(*mark),
            Some(rest) => {
                behind = rest;
                None
            }
        })
    }

    /// What the youngest waits for.
    pub(crate) fn last_mark(&self) -> Option<Mark> {
        self.marks.back().map(|(mark, _)| *mark)
    }

    /// Takes the oldest.
    pub(crate) fn pop(&mut self, records: &mut Records) {
        self.queue.pop(records);
        let (_, count) = self.marks.front_mut().expect("every superpage in limbo has a mark");
        *count -= 1;
        if *count == 0 {
            self.marks.pop_front();
        }
    }
}
