//! Makes a chunk of a row from the others: what is read, in which order, and when the sum may be
//! what was wanted.
//!
//! The parity is read first, and the data chunks are folded into it one after the other. How many
//! chunks a row has is not always known. The sum is what was wanted when all chunks of the row are
//! in it, so whoever knows a checksum looks as soon as that may be, and each time again.
//!
//! This is the only place that knows what is made from what. A [`Rebuild`] sends nothing and has no
//! memory for data: whoever wants the chunk reads what is [next](Rebuild::next), folds it into a
//! sum of its own, and says so.

use crate::log::stripe::Stripe;
use crate::planted::{Bug, planted};

/// A chunk of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// A data chunk by number.
    Data(u8),
    /// The parity.
    Parity,
}

/// See the module text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rebuild {
    stripe: Stripe,
    turn: u8,
    wanted: Chunk,
    /// Data chunks that the row has, or may have.
    chunks: u8,
    /// What comes next: 0 is the parity, `n` is data chunk `n − 1`.
    next: u8,
}

impl Rebuild {
    /// Of what `device` has of a row in a slot, whose length is not known. `None` when the device
    /// has no data of such rows.
    pub fn on_device(stripe: Stripe, (segment, slot): (u32, u32), device: u8) -> Option<Self> {
        let wanted = Chunk::Data(stripe.chunk_on(segment, slot, device)?);
        Some(Rebuild::new(stripe, (segment, slot), wanted, stripe.width()))
    }

    /// Of one chunk of a row of so many data chunks in a slot.
    ///
    /// # Panics
    /// When the row has no such chunk.
    pub fn new(stripe: Stripe, (segment, slot): (u32, u32), wanted: Chunk, chunks: u32) -> Self {
        assert!(chunks <= stripe.width(), "a row has a chunk on each device at most");
        let has = |chunk: u8| u32::from(chunk) < chunks;
        assert!(matches!(wanted, Chunk::Parity) || matches!(wanted, Chunk::Data(it) if has(it)));
        let turn = stripe.turn(segment, slot);
        let chunks = if planted(Bug::RebuiltShort) { chunks - 1 } else { chunks } as u8;
        Rebuild { stripe, turn, wanted, chunks, next: 0 }.past_wanted()
    }

    fn past_wanted(mut self) -> Self {
        self.next += u8::from(self.next() == Some(self.wanted));
        self
    }

    /// The chunk that is made.
    pub fn wanted(&self) -> Chunk {
        self.wanted
    }

    /// What comes into the sum next; `None` when all that the row may have is in it.
    pub fn next(&self) -> Option<Chunk> {
        match self.next.checked_sub(1) {
            None => Some(Chunk::Parity),
            Some(chunk) => (chunk < self.chunks).then_some(Chunk::Data(chunk)),
        }
    }

    /// The device of what comes next.
    pub fn next_device(&self) -> Option<u8> {
        let turn = self.turn.into();
        self.next().map(|chunk| match chunk {
            Chunk::Parity => self.stripe.parity_device(turn, 0),
            Chunk::Data(chunk) => self.stripe.device(turn, 0, chunk.into()),
        })
    }

    /// Whether nothing is in the sum: what comes next becomes the sum.
    pub fn is_begin(&self) -> bool {
        self.next == u8::from(self.wanted == Chunk::Parity)
    }

    /// What came next is in the sum.
    ///
    /// # Panics
    /// When nothing was to come.
    pub fn fold(self) -> Self {
        assert!(self.next().is_some(), "what is folded was to come");
        Rebuild { next: self.next + 1, ..self }.past_wanted()
    }

    /// Whether the sum is what was wanted, if the row is as short as it may be by now.
    pub fn may_be_over(&self) -> bool {
        match self.wanted {
            Chunk::Data(chunk) => self.next > chunk + 1,
            Chunk::Parity => self.next().is_none(),
        }
    }

    /// Data chunks of the row, when the sum is what was wanted.
    pub fn chunks(&self) -> u32 {
        assert!(self.may_be_over(), "the sum lacks a chunk before the one that is wanted");
        u32::from(self.next) - 1
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    /// What `rebuild` reads up to its end, with the lengths of the row that are tried on the way.
    fn whole(mut rebuild: Rebuild) -> (Vec<Chunk>, Vec<u32>) {
        let (mut read, mut tried) = (Vec::new(), Vec::new());
        while let Some(chunk) = rebuild.next() {
            assert_eq!(rebuild.is_begin(), read.is_empty());
            read.push(chunk);
            rebuild = rebuild.fold();
            if rebuild.may_be_over() {
                tried.push(rebuild.chunks());
            }
        }
        (read, tried)
    }

    #[test]
    fn a_chunk_is_the_sum_of_the_parity_and_the_other_chunks() {
        let stripe = Stripe::new(0b1111, true);
        let of = |chunk| Rebuild::new(stripe, (5, 2), Chunk::Data(chunk), 3);
        use Chunk::{Data, Parity};
        assert_eq!(whole(of(0)), (alloc::vec![Parity, Data(1), Data(2)], alloc::vec![1, 2, 3]));
        assert_eq!(whole(of(1)), (alloc::vec![Parity, Data(0), Data(2)], alloc::vec![2, 3]));
        assert_eq!(whole(of(2)), (alloc::vec![Parity, Data(0), Data(1)], alloc::vec![3]));
    }

    #[test]
    fn parity_is_the_sum_of_the_data() {
        let rebuild = Rebuild::new(Stripe::new(0b1111, true), (0, 0), Chunk::Parity, 2);
        assert_eq!(whole(rebuild), (alloc::vec![Chunk::Data(0), Chunk::Data(1)], alloc::vec![2]));
    }

    #[test]
    fn nothing_is_read_of_the_device_that_is_made_up_for() {
        let stripe = Stripe::new(0b1101_0110, true);
        for (slot, device) in (0..20).flat_map(|slot| (0..8).map(move |device| (slot, device))) {
            let Some(mut rebuild) = Rebuild::on_device(stripe, (7, slot), device) else {
                let member = stripe.members() >> device & 1 == 1;
                assert!(!member || stripe.parity_device(7, slot) == device);
                continue;
            };
            let mut seen = 1 << device;
            while let Some(from) = rebuild.next_device() {
                assert_eq!(seen >> from & 1, 0, "a device has one chunk of a row");
                seen |= 1 << from;
                rebuild = rebuild.fold();
            }
            assert_eq!(seen, stripe.members());
        }
    }

    #[test]
    #[should_panic(expected = "was to come")]
    fn nothing_is_folded_behind_the_end() {
        let rebuild = Rebuild::new(Stripe::new(0b11, true), (0, 0), Chunk::Data(0), 1);
        rebuild.fold().fold();
    }
}
