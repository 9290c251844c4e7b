//! Rebuild of a chunk of a stripe from the others: the chunks to read, their order, their factors,
//! and the points where the sum may be complete.
//!
//! The first parity is the sum of the data chunks. The second is the sum of data chunk `l` times 2ˡ
//! in the field of [`hostftl_core::field`], so that any two chunks can be rebuilt from the others.
//! In general data chunk `l` has the factor `a + b · 2ˡ`, the first parity `a` and the second `b`.
//! `a` and `b` are chosen so that the wanted chunk has the factor 1 and a missing one the factor 0.
//! These choices are the *ways*: with one parity, or with both and without one data chunk. If the
//! sum of one way is wrong, one of its chunks is wrong although it was readable, and the next way
//! is tried.
//!
//! Parity is read first, then the data chunks are added one after the other. The number of chunks
//! of a stripe is not always known, but the factors do not depend on it. The sum is complete when
//! all chunks of the stripe are included. A caller that knows a checksum therefore compares it
//! after each chunk from the first point where the sum may be complete.
//!
//! Only this module knows which chunks make up which. A [`Rebuild`] sends no commands and has no
//! memory for data: its caller reads the [next](Rebuild::next) chunk, adds it to a sum of its own,
//! and calls [`Rebuild::fold`].

mod way;

use hostftl_core::field::power;
use hostftl_core::{DeviceSet, Factors};

use crate::log::chunk_placement::ChunkPlacement;
use crate::planted::{Bug, planted};
use way::{WAYS, Way};

/// Chunk of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chunk {
    /// Data chunk by number.
    Data(u8),
    /// First or second parity.
    Parity(u8),
}

/// Maximum number of places in a stripe.
pub(crate) const PLACES: usize = FIRST_DATA as usize + 16;
/// Place of the first data chunk in the order of the sum, after the parities.
const FIRST_DATA: u8 = 2;

impl Chunk {
    /// Returns the place in the order of the sum.
    pub fn place(self) -> u8 {
        match self {
            Chunk::Parity(which) => which,
            Chunk::Data(chunk) => FIRST_DATA + chunk,
        }
    }

    /// Returns the chunk at a place.
    fn at(place: u8) -> Self {
        match place.checked_sub(FIRST_DATA) {
            None => Chunk::Parity(place),
            Some(chunk) => Chunk::Data(chunk),
        }
    }

    /// Returns the chunk that a device has of stripes in a slot of a segment; `None` if it is not a
    /// member.
    pub fn on(device: u8, placement: ChunkPlacement, (segment, slot): (u32, u32)) -> Option<Self> {
        let is_there = |which: &u8| placement.parity_device(segment, slot, *which) == device;
        match placement.chunk_on(segment, slot, device) {
            Some(chunk) => Some(Chunk::Data(chunk)),
            None => (0..placement.parity()).find(is_there).map(Chunk::Parity),
        }
    }

    /// Returns the device of the chunk for stripes in a slot of a segment.
    pub fn device(self, placement: ChunkPlacement, (segment, slot): (u32, u32)) -> u8 {
        match self {
            Chunk::Parity(which) => placement.parity_device(segment, slot, which),
            Chunk::Data(chunk) => placement.device(segment, slot, chunk.into()),
        }
    }
}

/// Returns the factors that add the next `count` data chunks to a parity, in descending order of
/// their numbers. `kept` means that chunks with greater numbers are already in the sum. The order
/// keeps the multiplications cheap (Horner's rule).
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
    placement: ChunkPlacement,
    turn: u8,
    wanted: Chunk,
    /// Minimum and maximum number of data chunks of the stripe.
    least: u8,
    most: u8,
    /// Unavailable chunks, as a bit mask of places.
    absent: u32,
    /// Number of the way.
    way: u8,
    /// Place of the next chunk, possibly past the end.
    place: u8,
    /// Number of chunks in the sum.
    count: u8,
}

impl Rebuild {
    /// Returns a rebuild of the chunk of `device` in a stripe of unknown length in a slot. The
    /// devices of `missing` lack their chunks. Returns `None` if the device has no data of such
    /// stripes, or too many chunks are missing.
    pub(crate) fn on_device(
        placement: ChunkPlacement,
        slot: (u32, u32),
        device: u8,
        missing: DeviceSet,
    ) -> Option<Self> {
        let wanted = Chunk::Data(placement.chunk_on(slot.0, slot.1, device)?);
        Self::with_lengths(placement, slot, wanted, (1, placement.width()), missing)
    }

    /// Returns a rebuild of one chunk of a stripe of `chunks` data chunks in a slot. Returns `None`
    /// if too many chunks are missing.
    ///
    /// # Panics
    /// If the stripe has no such chunk.
    pub(crate) fn new(
        placement: ChunkPlacement,
        slot: (u32, u32),
        wanted: Chunk,
        chunks: u32,
        missing: DeviceSet,
    ) -> Option<Self> {
        assert!(chunks <= placement.width(), "a stripe has at most one chunk per device");
        let has = |chunk: u8| u32::from(chunk) < chunks;
        assert!(!matches!(wanted, Chunk::Data(it) if !has(it)), "the stripe has {wanted:?}");
        let chunks = if planted(Bug::RebuiltShort) { chunks - 1 } else { chunks };
        Self::with_lengths(placement, slot, wanted, (chunks, chunks), missing)
    }

    fn with_lengths(
        placement: ChunkPlacement,
        (segment, slot): (u32, u32),
        wanted: Chunk,
        (least, most): (u32, u32),
        missing: DeviceSet,
    ) -> Option<Self> {
        let parities = (0..placement.parity()).map(Chunk::Parity);
        let all = parities.chain((0..most as u8).map(Chunk::Data));
        let lacks = |it: &Chunk| missing.contains(it.device(placement, (segment, slot)));
        // Chunks beyond the end of a short stripe are included, and restrict its possible length.
        let absent = all.filter(lacks).fold(0, |set, it| set | 1 << it.place());
        let turn = placement.turn(segment, slot);
        let (least, most, way, place) = (least as u8, most as u8, 0, 0);
        Rebuild { placement, turn, wanted, least, most, absent, way, place, count: 0 }.begin()
    }

    /// Starts the first usable way from the current one on.
    fn begin(self) -> Option<Self> {
        let ways = (self.way..WAYS).map(|way| Rebuild { way, place: 0, count: 0, ..self });
        ways.into_iter().find(Self::may_lead).map(Self::past_unneeded)
    }

    /// Returns the way, and the minimum and maximum number of data chunks of a stripe for which it
    /// is usable.
    fn way(&self) -> (Way, u8, u8) {
        let way = Way::number(self.way, self.wanted);
        let without = self.wanted_bit() | way.without().map_or(0, |it| 1 << it.place());
        // The way does not compensate for other missing data chunks, so the stripe must end before
        // them.
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
        let parity = (1_u32 << self.placement.parity()) - 1;
        let has = parity & !self.absent;
        let makes = match self.wanted {
            Chunk::Data(_) => way.without() != Some(self.wanted),
            Chunk::Parity(_) => self.way == 0,
        };
        // A way is usable if it yields the chunk, its parities are present, and some length fits.
        makes && way.needs(self.wanted) & !has == 0 && least <= most
    }

    /// Skips chunks that are not part of the sum: the wanted one, and those with the factor 0.
    fn past_unneeded(mut self) -> Self {
        while self.next().is_some_and(|it| it == self.wanted || self.parity_factor(it) == 0) {
            self.place += 1;
        }
        self
    }

    fn parity_factor(&self, chunk: Chunk) -> u8 {
        Way::number(self.way, self.wanted).factor(chunk, self.wanted)
    }

    /// Returns the chunk that is rebuilt.
    pub(crate) fn wanted(&self) -> Chunk {
        self.wanted
    }

    /// Returns the parity that is not used by this way, if no other chunk is missing. The rebuilt
    /// chunk is right if that parity matches.
    pub(crate) fn other_parity(&self) -> Option<u8> {
        let alone = self.absent & !self.wanted_bit() == 0;
        let other = match (self.wanted, self.way) {
            (Chunk::Parity(made), _) => Some(1 - made),
            (Chunk::Data(_), 0) => Some(1),
            _ => None,
        };
        other.filter(|_| alone && self.placement.parity() == 2)
    }

    /// Returns the next chunk for the sum; `None` if it includes all chunks that the stripe may
    /// have.
    pub(crate) fn next(&self) -> Option<Chunk> {
        let most = self.way().2;
        (self.place < FIRST_DATA + most).then(|| Chunk::at(self.place))
    }

    /// Returns the device of the next chunk.
    pub(crate) fn next_device(&self) -> Option<u8> {
        self.next().map(|chunk| chunk.device(self.placement, (self.turn.into(), 0)))
    }

    /// Returns all chunks that a sum may include, with their devices. Chunks that are known to be
    /// missing are left out.
    pub(crate) fn sources(self) -> impl Iterator<Item = (Chunk, u8)> {
        let all = (0..self.placement.parity()).chain(FIRST_DATA..FIRST_DATA + self.most);
        // Independent of the way, because another one may be tried with the same chunks.
        let here = move |place: &u8| (self.absent | self.wanted_bit()) >> place & 1 == 0;
        let turn = self.turn.into();
        all.filter(here).map(move |place| {
            let chunk = Chunk::at(place);
            (chunk, chunk.device(self.placement, (turn, 0)))
        })
    }

    /// Returns whether the sum is empty, so that the next chunk is copied to it unmultiplied.
    pub(crate) fn is_begin(&self) -> bool {
        self.count == 0
    }

    /// Returns the factor of the next chunk, and of the sum to which it is added. The first chunk
    /// was copied without its factor, so the sum is multiplied by it when the second one is added.
    ///
    /// # Panics
    /// If there is no next chunk.
    pub(crate) fn factors(&self) -> (u8, u8) {
        let next = self.next().expect("a chunk with a factor is expected");
        let first = Rebuild { place: 0, ..*self }.past_unneeded().next();
        let old = match (self.count, first) {
            (0, _) => 0,
            (1, Some(first)) => self.parity_factor(first),
            _ => 1,
        };
        (self.parity_factor(next), old)
    }

    /// Returns [`Rebuild::factors`] for a fold of the next chunk alone.
    pub(crate) fn fold_factors(&self) -> Factors {
        let (factor, old) = self.factors();
        Factors { old, new: [factor, 0, 0, 0] }
    }

    /// Marks the next chunk as included in the sum.
    ///
    /// # Panics
    /// If there is no next chunk.
    pub(crate) fn fold(self) -> Self {
        assert!(self.next().is_some(), "a folded chunk was expected");
        Rebuild { place: self.place + 1, count: self.count + 1, ..self }.past_unneeded()
    }

    /// Returns whether the sum is complete if the stripe has its minimum length or the current one.
    pub(crate) fn may_be_over(&self) -> bool {
        self.place >= FIRST_DATA + self.way().1
    }

    /// Returns the number of data chunks of the stripe, given that the sum is complete.
    pub(crate) fn chunks(&self) -> u32 {
        assert!(self.may_be_over(), "the sum lacks a chunk of the stripe");
        u32::from(self.place - FIRST_DATA)
    }

    /// Starts the next way, because this one failed for every length of the stripe. Returns `None`
    /// if there is none.
    pub(crate) fn again(self) -> Option<Self> {
        if planted(Bug::OneWayOnly) {
            return None;
        }
        Rebuild { way: self.way + 1, ..self }.begin()
    }

    /// Restarts without an unavailable chunk. Returns `None` if parity cannot make up for it.
    pub(crate) fn without(self, chunk: Chunk) -> Option<Self> {
        self.without_all(1 << chunk.place())
    }

    /// Restarts without several unavailable chunks, given as a bit mask of their places.
    pub(crate) fn without_all(self, chunks: u32) -> Option<Self> {
        Rebuild { absent: self.absent | chunks, ..self }.begin()
    }
}

#[cfg(test)]
mod tests;
