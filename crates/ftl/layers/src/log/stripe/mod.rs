//! Stripes: data that is gathered in buffers until it is written to all devices at once.
//!
//! Invariants
//! - The phases of a stripe are Idle → Filling → Closed → Sealing → Programming → (Draining) →
//!   Idle.
//! - Items are in the order in which space was reserved for them. Once `placing` is 0, all of their
//!   data is in the buffers.
//! - A stripe gets its sequence number when it is sealed; its items do not change afterwards.

pub(in crate::log) mod append;
mod fill;
mod heads;
pub(in crate::log) mod records;
pub(in crate::log) mod spread;
pub(in crate::log) mod streams;
pub(in crate::log) mod stripes;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use hostftl_core::SECTOR;
use hostftl_format::log::{Kind, Place, room};

use crate::log::chunk_placement::ChunkPlacement;
use crate::log::layout::{At, Layout};
use crate::log::stripe::fill::Fill;
use crate::log::stripe::heads::Heads;
use crate::log::stripe::spread::Spread;
use crate::log::stripe::streams::is_of_host;

/// Heir of an item that has no newer version.
pub(super) const NO_HEIR: u64 = 0;
/// Heir of a copy that was already superseded when it arrived.
pub(super) const INVALID: u64 = u64::MAX;
/// Value of [`Item::newer`] for a trim.
pub(super) const A_TRIM: u32 = u32::MAX;

/// Phase of a stripe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not in use.
    Idle,
    /// Receives items.
    Filling,
    /// Receives no more items.
    Closed,
    /// Parity is being computed.
    Sealing,
    /// Being written to the devices.
    Programming,
    /// Written, but its buffers may still be read.
    Draining,
}

/// Next step of a stripe that is being sealed; the number is a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The head is copied before the data and zeros after it, so that parity covers whole chunks.
    Fill(u8),
    /// Chunks are folded into a parity: the parity, and the number of chunks done.
    Fold(u8, u8),
    /// Chunks are written.
    Write(u8),
}

/// Item that the stripe's head may list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// Kind of the item.
    pub kind: Kind,
    /// Block, first block of a trim, or page number.
    pub block: u64,
    /// Place in the stripe, or length of a trim.
    pub place: Place,
    /// CRC of the record.
    pub crc: u32,
    /// Stamp of the stripe that has a newer version, [`NO_HEIR`], or [`INVALID`].
    pub heir: u64,
    /// Number of the newer item in that stripe; [`A_TRIM`] for a trim, which has no newer version.
    pub newer: u32,
    /// Time of the replacement, if there is an heir; see [`crate::log::journal::Journal::moment`].
    pub replaced: u64,
    /// Chunk of the stripe where the record begins.
    pub chunk: u8,
    /// Byte in that chunk.
    pub byte: u32,
}

#[derive(Debug)]
pub(crate) struct Stripe {
    phase: Phase,
    /// Number among all stripes opened in this life.
    pub stamp: u64,
    /// Sequence number, the order of replay.
    pub seq: u64,
    /// Order of the first host publication in it, or 0.
    pub first_order: u64,
    /// Stream of the stripe.
    pub stream: u8,
    /// Position of the stripe on its devices.
    pub at: At,
    /// Placement of its chunks.
    pub spread: Spread,
    /// Fill level of its chunks.
    pub fill: Fill,
    /// Whether it lists trims.
    pub has_trims: bool,
    /// Pages of the head.
    pub head_pages: u32,
    /// Items, in the order in which space was reserved.
    pub items: Vec<Item>,
    /// Commands in flight that copy data into the stripe.
    placing: u32,
    /// Commands in flight that seal or write it.
    pub pending: u32,
    /// Progress of sealing.
    pub stage: Stage,
    /// Next segment of the stream.
    pub ahead: u32,
    /// Head, and copies of it where a single chunk is mirrored.
    pub heads: Heads,
}

impl Stripe {
    /// Returns an idle stripe.
    pub(super) fn new(layout: &Layout) -> Self {
        let pages = layout.head_pages(true);
        Stripe {
            phase: Phase::Idle,
            stamp: 0,
            seq: 0,
            first_order: 0,
            stream: 0,
            at: At::default(),
            spread: Spread::default(),
            fill: Fill::default(),
            has_trims: false,
            head_pages: 0,
            items: Vec::with_capacity(layout.head_entries(true) as usize),
            placing: 0,
            pending: 0,
            stage: Stage::Fill(0),
            ahead: 0,
            heads: Heads::new(1 + usize::from(layout.parity.max(1)), pages),
        }
    }

    /// Returns the phase.
    #[inline]
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Changes the phase.
    ///
    /// # Panics
    /// If the phases do not follow each other, or a command in flight forbids it.
    fn go(&mut self, next: Phase) {
        let fits = match (self.phase, next) {
            (Phase::Idle, Phase::Filling) => self.placing == 0 && self.pending == 0,
            (Phase::Filling, Phase::Closed) => true,
            (Phase::Closed, Phase::Sealing) => self.placing == 0,
            (Phase::Sealing, Phase::Programming) => true,
            (Phase::Programming, Phase::Draining) => self.pending == 0,
            // An idle stripe donates its buffers for those that a timed-out device holds.
            (Phase::Idle, Phase::Draining) => true,
            (Phase::Draining, Phase::Idle) => self.heads.lacks() == 0,
            _ => false,
        };
        assert!(fits, "a stripe can't go from {:?} to {next:?}", self.phase);
        self.phase = next;
    }

    /// Starts filling the stripe at a position.
    pub(super) fn open(
        &mut self,
        layout: &Layout,
        (at, placement): (At, ChunkPlacement),
        stream: u8,
        stamp: u64,
    ) {
        let full = at.sector == 0;
        self.go(Phase::Filling);
        (self.stamp, self.first_order) = (stamp, 0);
        self.stream = stream;
        (self.at, self.spread) = (at, Spread::new(placement, at, layout));
        self.has_trims = false;
        self.head_pages = layout.head_pages(full);
        let (chunks, size) = (if full { placement.width() } else { 1 }, layout.chunk - at.sector);
        self.fill = Fill::new(chunks, size * SECTOR as u32, self.head_pages * 4096);
        self.items.clear();
        self.stage = Stage::Fill(0);
    }

    /// Returns whether the stripe belongs to a host stream.
    pub(super) fn is_of_host(&self) -> bool {
        is_of_host(self.stream)
    }

    /// Returns whether the head has no space for another item.
    fn is_listed_full(&self) -> bool {
        self.items.len() as u32 >= room(self.head_pages)
    }

    /// Returns whether the stripe can still change its items.
    pub(super) fn is_unsealed(&self) -> bool {
        matches!(self.phase, Phase::Filling | Phase::Closed)
    }

    /// Returns whether its records are read from its buffers.
    pub(super) fn is_buffered(&self) -> bool {
        !matches!(self.phase, Phase::Idle | Phase::Draining)
    }

    /// Reserves space for a record of `len` bytes. Returns the chunk and the byte in it, or `None`
    /// if the stripe is full.
    #[inline]
    pub(super) fn take(&mut self, len: u32) -> Option<(u8, u32)> {
        if self.is_listed_full() { None } else { self.fill.take(len) }
    }

    /// Returns whether a record of `len` bytes fits after the last one in the same chunk.
    pub(super) fn continues(&self, len: u32) -> bool {
        self.phase == Phase::Filling && !self.is_listed_full() && self.fill.continues(len)
    }

    /// Returns whether the stripe has no items.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Adds an item for which space was reserved; returns its number.
    // Inlined so that the item is built in place and not copied.
    #[inline(always)]
    pub(super) fn push(&mut self, item: Item) -> u32 {
        assert!(self.phase == Phase::Filling, "items go into a filling stripe");
        assert!(!self.is_listed_full(), "the head has space for the item");
        self.items.push(item);
        self.items.len() as u32 - 1
    }

    /// Returns the item of the record that begins at `byte` of `chunk`.
    pub(super) fn find(&mut self, chunk: u8, byte: u32) -> Option<&mut Item> {
        let from = self.items.partition_point(|it| (it.chunk, it.byte) < (chunk, byte));
        let here =
            self.items[from..].iter_mut().take_while(|it| (it.chunk, it.byte) == (chunk, byte));
        here.into_iter().find(|it| it.kind != Kind::Trim)
    }

    /// Returns the number of sectors that a chunk takes on its device.
    pub(super) fn sectors(&self, layout: &Layout, chunk: u32) -> u32 {
        // Parity covers whole chunks, so that it can be used without knowledge of the stripe.
        if chunk + 1 < self.fill.chunks() || layout.parity > 0 && self.fill.chunks() > 1 {
            return layout.chunk;
        }
        let used = self.fill.used(chunk).div_ceil(SECTOR as u32);
        used.next_multiple_of(layout.align).min(self.fill.size() / SECTOR as u32)
    }
}
