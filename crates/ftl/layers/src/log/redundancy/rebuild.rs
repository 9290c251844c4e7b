//! Makes a chunk of a row from the others: what is read, in which order and by which factor it goes
//! into the sum, and when the sum may be what was wanted.
//!
//! The first parity is the sum of the data chunks, the second that of data chunk `l` times 2ˡ in
//! the field of [`hostftl_core::field`], so that any two chunks can be made from the others. The
//! sum that makes one has each data chunk `l` times `a + b · 2ˡ`, the first parity times `a` and
//! the second times `b`: `a` and `b` are chosen so that what is wanted is in it once, and what
//! can't be had not at all. Those are the *ways*: with one of the parities, or with both and
//! without one data chunk. When the sum of one way is wrong, one of the chunks that are in it is
//! wrong although it could be read: then the next way is tried.
//!
//! The parity is read first, and the data chunks are added one after the other. How many chunks a
//! row has is not always known. The factors do not depend on that. The sum is what was wanted when
//! all chunks of the row are in it, so whoever knows a checksum looks as soon as that may be, and
//! each time again.
//!
//! This is the only place that knows what is made from what. A [`Rebuild`] sends nothing and has no
//! memory for data: whoever wants the chunk reads what is [next](Rebuild::next), adds it to a sum
//! of its own, and says so.

mod way;

use hostftl_core::field::power;
use hostftl_core::{DeviceSet, Factors};

use crate::log::stripe::Stripe;
use crate::planted::{Bug, planted};
use way::{WAYS, Way};

/// A chunk of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// A data chunk by number.
    Data(u8),
    /// The first parity, or the second.
    Parity(u8),
}

/// More places than this has no row.
pub(crate) const PLACES: usize = FIRST_DATA as usize + 16;
/// The place of the first data chunk in the order of the sum; before it are those of parity.
const FIRST_DATA: u8 = 2;

impl Chunk {
    /// Its place in the order of the sum.
    pub fn place(self) -> u8 {
        match self {
            Chunk::Parity(which) => which,
            Chunk::Data(chunk) => FIRST_DATA + chunk,
        }
    }

    /// The chunk at a place.
    fn at(place: u8) -> Self {
        match place.checked_sub(FIRST_DATA) {
            None => Chunk::Parity(place),
            Some(chunk) => Chunk::Data(chunk),
        }
    }

    /// What a device has of rows in a slot of a segment; none when it is no member.
    pub fn on(device: u8, stripe: Stripe, (segment, slot): (u32, u32)) -> Option<Self> {
        let is_there = |which: &u8| stripe.parity_device(segment, slot, *which) == device;
        match stripe.chunk_on(segment, slot, device) {
            Some(chunk) => Some(Chunk::Data(chunk)),
            None => (0..stripe.parity()).find(is_there).map(Chunk::Parity),
        }
    }

    /// Its device, for rows in a slot of a segment.
    pub fn device(self, stripe: Stripe, (segment, slot): (u32, u32)) -> u8 {
        match self {
            Chunk::Parity(which) => stripe.parity_device(segment, slot, which),
            Chunk::Data(chunk) => stripe.device(segment, slot, chunk.into()),
        }
    }
}

/// The factors with which so many more data chunks come into a parity, the one with the greatest
/// number first, after those with greater numbers, if what these are in is to be `kept`: the sum is
/// multiplied by as little as possible each time (Horner's rule).
pub(crate) fn parity_factors(which: u8, count: usize, kept: bool) -> Factors {
    match which {
        0 => Factors::plain(kept),
        _ if planted(Bug::SecondParityPlain) => Factors::plain(kept),
        _ => Factors {
            old: if kept { power(count as u32) } else { 0 },
            new: core::array::from_fn(|at| power(count.saturating_sub(at + 1) as u32)),
        },
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rebuild {
    stripe: Stripe,
    turn: u8,
    wanted: Chunk,
    /// Data chunks that the row has at least, and at most.
    least: u8,
    most: u8,
    /// What can't be had, as a set of the bits of places.
    absent: u32,
    /// The number of the way.
    way: u8,
    /// The place of what comes next, unless that is behind the end.
    place: u8,
    /// Chunks that are in the sum.
    count: u8,
}

impl Rebuild {
    /// Of what `device` has of a row in a slot, whose length is not known; the devices of `missing`
    /// lack their chunks. `None` when the device has no data of such rows, or too many chunks are
    /// missing.
    pub(crate) fn on_device(
        stripe: Stripe,
        slot: (u32, u32),
        device: u8,
        missing: DeviceSet,
    ) -> Option<Self> {
        let wanted = Chunk::Data(stripe.chunk_on(slot.0, slot.1, device)?);
        Self::of(stripe, slot, wanted, (1, stripe.width()), missing)
    }

    /// Of one chunk of a row of so many data chunks in a slot. Otherwise as
    /// [`Rebuild::on_device`].
    ///
    /// # Panics
    /// When the row has no such chunk.
    pub(crate) fn new(
        stripe: Stripe,
        slot: (u32, u32),
        wanted: Chunk,
        chunks: u32,
        missing: DeviceSet,
    ) -> Option<Self> {
        assert!(chunks <= stripe.width(), "a row has a chunk on each device at most");
        let has = |chunk: u8| u32::from(chunk) < chunks;
        assert!(!matches!(wanted, Chunk::Data(it) if !has(it)), "the row has {wanted:?}");
        let chunks = if planted(Bug::RebuiltShort) { chunks - 1 } else { chunks };
        Self::of(stripe, slot, wanted, (chunks, chunks), missing)
    }

    fn of(
        stripe: Stripe,
        (segment, slot): (u32, u32),
        wanted: Chunk,
        (least, most): (u32, u32),
        missing: DeviceSet,
    ) -> Option<Self> {
        let parities = (0..stripe.parity()).map(Chunk::Parity);
        let all = parities.chain((0..most as u8).map(Chunk::Data));
        let lacks = |it: &Chunk| missing.contains(it.device(stripe, (segment, slot)));
        let absent = all.filter(lacks).fold(0, |set, it| set | 1 << it.place());
        let turn = stripe.turn(segment, slot);
        let (least, most, way, place) = (least as u8, most as u8, 0, 0);
        Rebuild { stripe, turn, wanted, least, most, absent, way, place, count: 0 }.begin()
    }

    /// Begins with the first way from this one on that may lead to what is wanted.
    fn begin(self) -> Option<Self> {
        let ways = (self.way..WAYS).map(|way| Rebuild { way, place: 0, count: 0, ..self });
        ways.into_iter().find(Self::may_lead).map(Self::past_unneeded)
    }

    /// The way, and the data chunks that a row may have so that it leads to what is wanted: at
    /// least, and at most.
    fn way(&self) -> (Way, u8, u8) {
        let way = Way::number(self.way, self.wanted);
        let without = self.wanted_bit() | way.without().map_or(0, |it| 1 << it.place());
        // The way does nothing about what can't be had of these.
        let others = (self.absent & !without) >> FIRST_DATA;
        let most = self.most.min(others.trailing_zeros() as u8);
        let of = |chunk: Chunk| chunk.place().saturating_sub(FIRST_DATA - 1);
        let least = self.least.max(of(self.wanted)).max(way.without().map_or(0, of));
        (way, least, most)
    }

    fn wanted_bit(&self) -> u32 {
        1 << self.wanted.place()
    }

    fn may_lead(&self) -> bool {
        let (way, least, most) = self.way();
        let parity = (1_u32 << self.stripe.parity()) - 1;
        let has = parity & !self.absent;
        let makes = match self.wanted {
            Chunk::Data(_) => way.without() != Some(self.wanted),
            Chunk::Parity(_) => self.way == 0,
        };
        makes && way.needs(self.wanted) & !has == 0 && least <= most
    }

    /// What is wanted, and what the way has not, is in no sum.
    fn past_unneeded(mut self) -> Self {
        while self.next().is_some_and(|it| it == self.wanted || self.factor_of(it) == 0) {
            self.place += 1;
        }
        self
    }

    fn factor_of(&self, chunk: Chunk) -> u8 {
        Way::number(self.way, self.wanted).factor(chunk, self.wanted)
    }

    /// The chunk that is made.
    pub(crate) fn wanted(&self) -> Chunk {
        self.wanted
    }

    /// The parity that is in no sum of this way, where the row has all of its chunks but the one
    /// that is made: what was made is right if that parity agrees.
    pub(crate) fn other_parity(&self) -> Option<u8> {
        let alone = self.absent & !self.wanted_bit() == 0;
        let other = match (self.wanted, self.way) {
            (Chunk::Parity(made), _) => Some(1 - made),
            (Chunk::Data(_), 0) => Some(1),
            _ => None,
        };
        other.filter(|_| alone && self.stripe.parity() == 2)
    }

    /// What comes into the sum next; `None` when all that the row may have is in it.
    pub(crate) fn next(&self) -> Option<Chunk> {
        let most = self.way().2;
        (self.place < FIRST_DATA + most).then(|| Chunk::at(self.place))
    }

    /// The device of what comes next.
    pub(crate) fn next_device(&self) -> Option<u8> {
        self.next().map(|chunk| chunk.device(self.stripe, (self.turn.into(), 0)))
    }

    /// All that may come into a sum, with its device: what is known not to be there does not.
    pub(crate) fn sources(self) -> impl Iterator<Item = (Chunk, u8)> {
        let all = (0..self.stripe.parity()).chain(FIRST_DATA..FIRST_DATA + self.most);
        let here = move |place: &u8| (self.absent | self.wanted_bit()) >> place & 1 == 0;
        let turn = self.turn.into();
        all.filter(here).map(move |place| {
            let chunk = Chunk::at(place);
            (chunk, chunk.device(self.stripe, (turn, 0)))
        })
    }

    /// Whether nothing is in the sum: what comes next becomes the sum, as it is.
    pub(crate) fn is_begin(&self) -> bool {
        self.count == 0
    }

    /// The factor of what comes next, and that of the sum to which it is added: the first chunk
    /// became the sum as it was.
    ///
    /// # Panics
    /// When nothing is to come.
    pub(crate) fn factors(&self) -> (u8, u8) {
        let next = self.next().expect("what has a factor is to come");
        let first = Rebuild { place: 0, ..*self }.past_unneeded().next();
        let old = match (self.count, first) {
            (0, _) => 0,
            (1, Some(first)) => self.factor_of(first),
            _ => 1,
        };
        (self.factor_of(next), old)
    }

    /// As [`Rebuild::factors`], for a fold of what comes next alone.
    pub(crate) fn fold_factors(&self) -> Factors {
        let (factor, old) = self.factors();
        Factors { old, new: [factor, 0, 0, 0] }
    }

    /// What came next is in the sum.
    ///
    /// # Panics
    /// When nothing was to come.
    pub(crate) fn fold(self) -> Self {
        assert!(self.next().is_some(), "what is folded was to come");
        Rebuild { place: self.place + 1, count: self.count + 1, ..self }.past_unneeded()
    }

    /// Whether the sum is what was wanted, if the row is as short as it may be by now.
    pub(crate) fn may_be_over(&self) -> bool {
        self.place >= FIRST_DATA + self.way().1
    }

    /// Data chunks of the row, when the sum is what was wanted.
    pub(crate) fn chunks(&self) -> u32 {
        assert!(self.may_be_over(), "the sum lacks a chunk that the row has");
        u32::from(self.place - FIRST_DATA)
    }

    /// The sum is not what was wanted, however long the row is: the next way, from its beginning.
    /// `None` when there is none.
    pub(crate) fn again(self) -> Option<Self> {
        if planted(Bug::OneWayOnly) {
            return None;
        }
        Rebuild { way: self.way + 1, ..self }.begin()
    }

    /// A chunk can't be had: from the beginning without it. `None` when nothing makes up for it.
    pub(crate) fn without(self, chunk: Chunk) -> Option<Self> {
        self.without_all(1 << chunk.place())
    }

    /// As [`Rebuild::without`], of several, as a set of the bits of their places.
    pub(crate) fn without_all(self, chunks: u32) -> Option<Self> {
        Rebuild { absent: self.absent | chunks, ..self }.begin()
    }
}

#[cfg(test)]
mod tests;
