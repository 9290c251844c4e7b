//! The victim: where its next row begins.
//!
//! Invariants
//! - One head is read at a time, and which lane wants it is known.
//! - The numbers of the rows of a segment ascend: what has a lower one is of an earlier use.

use crate::log::layout::At;

/// The next row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Next {
    /// It begins there, if there is one.
    At(At),
    /// Its head is read for a lane.
    Asked(At, u8),
    /// There is none.
    None,
}

/// See the module text.
#[derive(Debug)]
pub struct Victim {
    segment: u32,
    next: Next,
    /// The number of the last row that was found.
    seq: u64,
}

impl Victim {
    /// No row of the segment is known.
    pub fn new(segment: u32) -> Self {
        Victim { segment, next: Next::At(At { segment, slot: 0, sector: 0 }), seq: 0 }
    }

    /// The segment.
    pub fn segment(&self) -> u32 {
        self.segment
    }

    /// Where the next row begins, or would.
    ///
    /// # Panics
    /// When there is none.
    pub fn at(&self) -> At {
        match self.next {
            Next::At(at) | Next::Asked(at, _) => at,
            Next::None => unreachable!("all rows of segment {} were found", self.segment),
        }
    }

    /// Slots of which all rows were found.
    pub fn slots(&self) -> Option<u32> {
        (self.next != Next::None).then(|| self.at().slot)
    }

    /// Whether the next head may be read.
    pub fn has_next(&self) -> bool {
        matches!(self.next, Next::At(_))
    }

    /// Whether all heads were read.
    pub fn is_read(&self) -> bool {
        self.next == Next::None
    }

    /// Whether a row with that number may be the next.
    pub fn may_follow(&self, seq: u64) -> bool {
        seq > self.seq
    }

    /// The next head is read for a lane; it lies there.
    ///
    /// # Panics
    /// When it is not known where, or the one before is still being read.
    pub fn ask(&mut self, lane: u8) -> At {
        assert!(self.has_next(), "heads are read one after the other");
        let at = self.at();
        self.next = Next::Asked(at, lane);
        at
    }

    /// The row has number `seq`, and `next` is where another may follow; without a number there is
    /// no row. The lane that wants it.
    ///
    /// # Panics
    /// When no head was asked for, or it is not of the row that comes next.
    pub fn found(&mut self, seq: Option<u64>, next: Option<At>) -> u8 {
        let Next::Asked(_, lane) = self.next else {
            unreachable!("a head that comes was asked for")
        };
        let next = next.filter(|_| seq.is_some());
        self.next = next.map_or(Next::None, Next::At);
        if let Some(seq) = seq {
            assert!(self.may_follow(seq), "the numbers of rows ascend");
            self.seq = seq;
        }
        lane
    }

    /// No more rows are looked for, but for the one that was asked for.
    pub fn give_up(&mut self) {
        if self.has_next() {
            self.next = Next::None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(slot: u32) -> At {
        At { segment: 5, slot, sector: 0 }
    }

    #[test]
    fn heads_come_one_after_the_other_until_there_is_none() {
        let mut it = Victim::new(5);
        assert_eq!((it.ask(3), it.has_next(), it.at()), (at(0), false, at(0)));
        assert_eq!((it.found(Some(7), Some(at(1))), it.slots()), (3, Some(1)));
        assert!(it.has_next() && it.may_follow(8) && !it.may_follow(7));
        assert_eq!(it.ask(0), at(1));
        it.give_up();
        assert!(!it.is_read(), "the head that was asked for comes");
        assert_eq!((it.found(None, Some(at(2))), it.is_read(), it.slots()), (0, true, None));
    }

    #[test]
    #[should_panic(expected = "one after the other")]
    fn a_head_is_not_read_before_it_is_known_where_it_lies() {
        let mut it = Victim::new(5);
        it.ask(0);
        it.ask(1);
    }

    #[test]
    #[should_panic(expected = "ascend")]
    fn a_row_of_an_earlier_use_is_none_of_the_victim() {
        let mut it = Victim::new(5);
        it.ask(0);
        it.found(Some(7), Some(at(1)));
        it.ask(0);
        it.found(Some(6), None);
    }
}
