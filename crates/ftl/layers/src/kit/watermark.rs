//! Completion watermark: the number up to which operations are complete, if they begin in order and
//! end in any order.
//!
//! Invariants
//! - All operations up to [`Watermark::complete`] are complete. The next one is incomplete or was
//!   not begun.

use alloc::collections::VecDeque;

/// A completion watermark. Numbers start after the watermark, and increase by one.
#[derive(Debug)]
pub(crate) struct Watermark {
    /// Completion of each operation after the watermark; the first one is incomplete.
    ahead: VecDeque<bool>,
    most: usize,
    complete: u64,
}

impl Watermark {
    /// Creates a watermark at 0. At most `most` operations may be ahead of it.
    pub(crate) fn new(most: usize) -> Self {
        Watermark { ahead: VecDeque::with_capacity(most), most, complete: 0 }
    }

    /// Sets the watermark.
    ///
    /// # Panics
    /// If an operation is in flight.
    pub(crate) fn resume(&mut self, number: u64) {
        assert!(self.ahead.is_empty(), "a watermark is set while nothing is in progress");
        self.complete = number;
    }

    /// Returns whether no more operations may begin, because too many are ahead of the watermark.
    pub(crate) fn is_full(&self) -> bool {
        self.ahead.len() == self.most
    }

    /// Returns the last number that was begun.
    pub(crate) fn begun(&self) -> u64 {
        self.complete + self.ahead.len() as u64
    }

    /// Returns the number up to which all operations are complete.
    pub(crate) fn complete(&self) -> u64 {
        self.complete
    }

    /// Begins the next operation, and returns its number.
    ///
    /// # Panics
    /// If no more may begin.
    pub(crate) fn begin(&mut self) -> u64 {
        assert!(!self.is_full(), "the window behind the watermark has space");
        self.ahead.push_back(false);
        self.begun()
    }

    /// Completes an operation.
    ///
    /// # Panics
    /// If it was not begun, or is complete already.
    pub(crate) fn end(&mut self, number: u64) {
        assert!(
            (self.complete + 1..=self.begun()).contains(&number),
            "{number} is not in progress"
        );
        let done = &mut self.ahead[(number - self.complete - 1) as usize];
        assert!(!core::mem::replace(done, true), "{number} completes once");
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
    fn the_watermark_stops_at_the_first_incomplete_number() {
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
    #[should_panic(expected = "2 completes once")]
    fn a_number_completes_once() {
        let mut mark = Watermark::new(2);
        mark.begin();
        mark.begin();
        mark.end(2);
        mark.end(2);
    }
}
