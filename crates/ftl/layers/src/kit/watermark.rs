//! A completion watermark: which of the things that were begun in order, and end in any order, are
//! all complete.
//!
//! Invariants
//! - All up to [`Watermark::complete`] are complete, and the one behind it is not, or was not
//!   begun.

use alloc::collections::VecDeque;

/// See the module text. Numbers begin behind the watermark, and each is one more than the last.
#[derive(Debug)]
pub(crate) struct Watermark {
    /// Whether each of those behind the watermark is complete; the first is not.
    ahead: VecDeque<bool>,
    most: usize,
    complete: u64,
}

impl Watermark {
    /// Nothing was begun; at most `most` may be behind the watermark at once.
    pub(crate) fn new(most: usize) -> Self {
        Watermark { ahead: VecDeque::with_capacity(most), most, complete: 0 }
    }

    /// All up to `number` were complete before.
    ///
    /// # Panics
    /// When one is under way.
    pub(crate) fn resume(&mut self, number: u64) {
        assert!(self.ahead.is_empty(), "a watermark is set while nothing is under way");
        self.complete = number;
    }

    /// Whether so many overtook one that is not complete that no more may begin.
    pub(crate) fn is_full(&self) -> bool {
        self.ahead.len() == self.most
    }

    /// The last number that was begun.
    pub(crate) fn begun(&self) -> u64 {
        self.complete + self.ahead.len() as u64
    }

    /// All up to this number are complete.
    pub(crate) fn complete(&self) -> u64 {
        self.complete
    }

    /// The next one begins: its number.
    ///
    /// # Panics
    /// When no more may begin.
    pub(crate) fn begin(&mut self) -> u64 {
        assert!(!self.is_full(), "there is room behind the watermark");
        self.ahead.push_back(false);
        self.begun()
    }

    /// One is complete.
    ///
    /// # Panics
    /// When it was not begun, or was complete already.
    pub(crate) fn end(&mut self, number: u64) {
        assert!((self.complete + 1..=self.begun()).contains(&number), "{number} is not under way");
        let done = &mut self.ahead[(number - self.complete - 1) as usize];
        assert!(!core::mem::replace(done, true), "{number} is complete once");
        while self.ahead.front() == Some(&true) {
            self.ahead.pop_front();
            self.complete += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watermark_waits_for_the_first_that_is_not_complete() {
        let mut mark = Watermark::new(3);
        mark.resume(10);
        assert_eq!([mark.begin(), mark.begin(), mark.begin()], [11, 12, 13]);
        assert!(mark.is_full());
        mark.end(12);
        assert_eq!((mark.complete(), mark.begun(), mark.is_full()), (10, 13, true));
        mark.end(11);
        assert_eq!((mark.complete(), mark.begun(), mark.is_full()), (12, 13, false));
        mark.end(13);
        assert_eq!((mark.complete(), mark.begin()), (13, 14));
    }

    #[test]
    #[should_panic(expected = "2 is complete once")]
    fn one_is_complete_once() {
        let mut mark = Watermark::new(2);
        mark.begin();
        mark.begin();
        mark.end(2);
        mark.end(2);
    }
}
