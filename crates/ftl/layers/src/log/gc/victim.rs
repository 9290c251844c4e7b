//! The victim: the start of its next stripe, and the heads that have been requested.
//!
//! A head contains the start of the next stripe. Nearly every stripe fills its slot, so the heads
//! at the starts of the next slots are read ahead, before these stripes are known to exist.
//!
//! Invariants
//! - Each head is requested once, by one lane. Heads complete in any order and are accepted in the
//!   order of their places.
//! - The numbers of the stripes in a segment ascend. A lower number belongs to an earlier use.
//! - Heads requested beyond the last stripe are ignored.

use crate::log::layout::{At, MAX_LANES};

#[derive(Debug)]
pub(super) struct Victim {
    segment: u32,
    /// Number of slots in the segment.
    slots: u32,
    /// Start of the next stripe, if there is one; `None` when all stripes were found.
    next: Option<At>,
    /// Requested heads that are not accepted yet, with their lanes, in the order of their places.
    /// None precedes the next stripe.
    asked: [(At, u8); MAX_LANES],
    count: usize,
    /// Number of the last stripe found.
    seq: u64,
}

impl Victim {
    /// Creates a victim with `slots` slots of which no stripe is known.
    pub(super) fn new(segment: u32, slots: u32) -> Self {
        Self::from(At { segment, slot: 0, sector: 0 }, slots, 0)
    }

    /// Creates a victim whose stripes before `next` were processed; the last of them has number
    /// `seq`.
    pub(super) fn from(next: At, slots: u32, seq: u64) -> Self {
        let (segment, next) = (next.segment, Some(next));
        Victim { segment, slots, next, asked: [(At::default(), 0); MAX_LANES], count: 0, seq }
    }

    /// Returns the number of the last stripe found.
    pub(super) fn last(&self) -> u64 {
        self.seq
    }

    /// Returns the start of the next stripe and the number of the stripe before; `None` when all
    /// stripes were found.
    pub(super) fn rest(&self) -> Option<(At, u64)> {
        self.next.map(|next| (next, self.seq))
    }

    /// Returns the segment.
    pub(super) fn segment(&self) -> u32 {
        self.segment
    }

    /// Returns the number of slots whose stripes were all found; `None` when all stripes were
    /// found.
    pub(super) fn found_slots(&self) -> Option<u32> {
        self.next.map(|next| next.slot)
    }

    /// Returns whether all stripes were found.
    pub(super) fn is_read(&self) -> bool {
        self.next.is_none()
    }

    /// Returns whether a stripe with that number can be the next one.
    pub(super) fn may_follow(&self, seq: u64) -> bool {
        seq > self.seq
    }

    /// Returns the place of the next head to be read: the head of the next stripe or, with `ahead`,
    /// the first slot beyond the requested heads.
    pub(super) fn to_ask(&self, ahead: bool) -> Option<At> {
        let next = self.next?;
        match self.asked() {
            [(first, _), ..] if *first == next => {
                // Behind the last requested head, because each head is requested once.
                let slot = self.asked()[self.count - 1].0.slot + 1;
                (ahead && slot < self.slots).then_some(At { slot, sector: 0, ..next })
            }
            _ => Some(next),
        }
    }

    /// Records that the head at `at` is read into a lane.
    ///
    /// # Panics
    /// If it is not the head that must be read next.
    pub(super) fn ask(&mut self, at: At, lane: u8) {
        assert_eq!(self.to_ask(true), Some(at), "heads are requested in order, each once");
        self.asked[self.count] = (at, lane);
        self.count += 1;
        if self.next == Some(at) {
            // A short stripe does not fill its slot, so its successor precedes the heads read
            // ahead.
            self.asked[..self.count].rotate_right(1);
        }
    }

    fn asked(&self) -> &[(At, u8)] {
        &self.asked[..self.count]
    }

    /// Returns whether the head requested by a lane may still be used.
    pub(super) fn is_asked(&self, lane: u8) -> bool {
        self.asked().iter().any(|(_, it)| *it == lane)
    }

    /// Returns the lane that requested the head of the next stripe.
    pub(super) fn next_lane(&self) -> Option<u8> {
        let (first, lane) = self.asked().first()?;
        (Some(*first) == self.next).then_some(*lane)
    }

    /// Accepts the next stripe, which has number `seq`; another may follow at `next`. Without a
    /// number there is no stripe, and the heads requested beyond it are ignored.
    ///
    /// # Panics
    /// If the head of the next stripe was not requested, or `seq` does not ascend.
    pub(super) fn found(&mut self, seq: Option<u64>, next: Option<At>) {
        assert!(self.next_lane().is_some(), "a valid head was requested");
        self.asked[..self.count].rotate_left(1);
        self.count -= 1;
        if let Some(seq) = seq {
            assert!(self.may_follow(seq), "stripe numbers ascend");
            self.seq = seq;
        }
        // Without a stripe the search ends here.
        self.next = next.filter(|_| seq.is_some());
        if self.is_read() {
            self.count = 0;
        }
    }

    /// Stops the search for further stripes.
    pub(super) fn end_search(&mut self) {
        (self.next, self.count) = (None, 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(slot: u32, sector: u32) -> At {
        At { segment: 5, slot, sector }
    }

    fn asked(lanes: &[u8]) -> Victim {
        let mut it = Victim::new(5, 4);
        for lane in lanes {
            it.ask(it.to_ask(true).expect("another slot"), *lane);
        }
        it
    }

    #[test]
    fn heads_of_the_next_slots_are_read_ahead_up_to_the_last() {
        let mut it = asked(&[3]);
        assert_eq!((it.to_ask(false), it.to_ask(true)), (None, Some(at(1, 0))));
        [0, 7, 2].into_iter().for_each(|lane| it.ask(it.to_ask(true).unwrap(), lane));
        assert_eq!((it.to_ask(true), it.next_lane(), it.found_slots()), (None, Some(3), Some(0)));
        it.found(Some(7), Some(at(1, 0)));
        assert!(it.may_follow(8) && !it.may_follow(7) && it.is_asked(0) && !it.is_asked(3));
        assert_eq!((it.next_lane(), it.found_slots()), (Some(0), Some(1)));
    }

    #[test]
    fn the_stripe_after_a_short_one_precedes_read_ahead_heads() {
        let mut it = asked(&[0, 1, 2]);
        it.found(Some(7), Some(at(0, 16)));
        assert_eq!((it.next_lane(), it.to_ask(false)), (None, Some(at(0, 16))));
        it.ask(at(0, 16), 5);
        assert_eq!((it.next_lane(), it.to_ask(true)), (Some(5), Some(at(3, 0))));
        it.found(Some(8), Some(at(1, 0)));
        assert_eq!(it.next_lane(), Some(1));
    }

    #[test]
    fn heads_after_the_last_stripe_are_ignored() {
        let mut it = asked(&[0, 1, 2]);
        it.found(Some(7), Some(at(1, 0)));
        it.found(None, Some(at(2, 0)));
        assert!(it.is_read() && !it.is_asked(2) && it.to_ask(true).is_none());
        let mut it = asked(&[0, 1]);
        it.end_search();
        assert!(it.is_read() && !it.is_asked(0) && it.found_slots().is_none());
    }

    #[test]
    #[should_panic(expected = "each once")]
    fn a_head_is_not_asked_for_twice() {
        asked(&[0, 1]).ask(at(1, 0), 2);
    }

    #[test]
    #[should_panic(expected = "ascend")]
    fn a_stripe_of_an_earlier_use_is_none_of_the_victim() {
        let mut it = asked(&[0, 1]);
        it.found(Some(7), Some(at(1, 0)));
        it.found(Some(6), None);
    }
}
