//! Rows: what is gathered in buffers until it is written to the devices at once.
//!
//! Invariants
//! - A row goes Idle → Filling → Closed → Sealing → Programming → (Draining) → Idle, one way round.
//! - Items are in the order in which room was taken for them; what they list was put in by a
//!   command that is over, once `placing` is 0.
//! - A row gets its sequence number when it is sealed; from then on no item changes.

pub(in crate::log) mod append;
mod fill;
mod heads;
pub(in crate::log) mod records;
pub(in crate::log) mod rows;
pub(in crate::log) mod spread;
pub(in crate::log) mod streams;
#[cfg(test)]
mod tests;

use alloc::vec::Vec;

use hostftl_core::SECTOR;
use hostftl_format::log::{Kind, Place, room};

use crate::log::layout::{At, Layout};
use crate::log::row::fill::Fill;
use crate::log::row::heads::Heads;
use crate::log::row::spread::Spread;
use crate::log::row::streams::is_of_host;
use crate::log::stripe::Stripe;

/// Of an item: nothing has taken it over.
pub(super) const NO_HEIR: u64 = 0;
/// Of an item: it was too late when it came.
pub(super) const DEAD: u64 = u64::MAX;
/// See [`Item::newer`].
pub(super) const A_TRIM: u32 = u32::MAX;

/// Where a row is in its cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Not in use.
    Idle,
    /// Takes items.
    Filling,
    /// Takes no more items.
    Closed,
    /// Its parity is being made.
    Sealing,
    /// On its way to the devices.
    Programming,
    /// Written, but its buffers are still read.
    Draining,
}

/// What is done next to a row that is being sealed; the number is a chunk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// The head goes before the data and zeros behind it, so that parity can be made of the whole.
    Fill(u8),
    /// Chunks are folded into a parity: which, and how many were.
    Fold(u8, u8),
    /// Chunks are written.
    Write(u8),
}

/// Something that the row's head may list.
#[derive(Clone, Copy, Debug)]
pub(super) struct Item {
    /// What it is.
    pub kind: Kind,
    /// The block, or the first of a trim, or the page.
    pub block: u64,
    /// Where in the row, or the length of a trim.
    pub place: Place,
    /// The record's CRC.
    pub crc: u32,
    /// The row (by its stamp) that has a newer version, [`NO_HEIR`], or [`DEAD`].
    pub heir: u64,
    /// Which of its items that is; [`A_TRIM`] for a trim, of which nothing is newer.
    pub newer: u32,
    /// When that came, if there is an heir; see [`crate::log::journal::Journal::moment`].
    pub replaced: u64,
    /// The chunk of the row where it begins.
    pub chunk: u8,
    /// The byte in that chunk.
    pub byte: u32,
}

#[derive(Debug)]
pub(crate) struct Row {
    phase: Phase,
    /// Its number among all rows ever opened in this life.
    pub stamp: u64,
    /// Its place in the order of replay.
    pub seq: u64,
    /// The order of the first publication of the host in it, or 0.
    pub first_order: u64,
    /// Whose it is.
    pub stream: u8,
    /// Where it lies.
    pub at: At,
    /// Where its chunks are.
    pub spread: Spread,
    /// How far its chunks are filled.
    pub fill: Fill,
    /// Whether it lists trims.
    pub has_trims: bool,
    /// Pages of the head.
    pub head_pages: u32,
    /// See the module text.
    pub items: Vec<Item>,
    /// Commands under way that bring data.
    placing: u32,
    /// Commands under way that seal or write it.
    pub pending: u32,
    /// How far sealing has come.
    pub stage: Stage,
    /// The segment where the stream goes on after this one.
    pub ahead: u32,
    /// Its head, and copies of that where one chunk is mirrored.
    pub heads: Heads,
}

impl Row {
    /// An idle row.
    pub(super) fn new(layout: &Layout) -> Self {
        let pages = layout.head_pages(true);
        Row {
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

    /// Where in its cycle.
    #[inline]
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Goes on in its cycle.
    ///
    /// # Panics
    /// When that is not what comes next, or something under way forbids it.
    fn go(&mut self, next: Phase) {
        let fits = match (self.phase, next) {
            (Phase::Idle, Phase::Filling) => self.placing == 0 && self.pending == 0,
            (Phase::Filling, Phase::Closed) => true,
            (Phase::Closed, Phase::Sealing) => self.placing == 0,
            (Phase::Sealing, Phase::Programming) => true,
            (Phase::Programming, Phase::Draining) => self.pending == 0,
            // Its buffers come in the place of some that a device holds.
            (Phase::Idle, Phase::Draining) => true,
            (Phase::Draining, Phase::Idle) => self.heads.lacks() == 0,
            _ => false,
        };
        assert!(fits, "a row that is {:?} can't be {next:?} next", self.phase);
        self.phase = next;
    }

    /// Begins to fill.
    pub(super) fn open(
        &mut self,
        layout: &Layout,
        (at, stripe): (At, Stripe),
        stream: u8,
        stamp: u64,
    ) {
        let full = at.sector == 0;
        self.go(Phase::Filling);
        (self.stamp, self.first_order) = (stamp, 0);
        self.stream = stream;
        (self.at, self.spread) = (at, Spread::new(stripe, at, layout));
        self.has_trims = false;
        self.head_pages = layout.head_pages(full);
        let (chunks, size) = (if full { stripe.width() } else { 1 }, layout.chunk - at.sector);
        self.fill = Fill::new(chunks, size * SECTOR as u32, self.head_pages * 4096);
        self.items.clear();
        self.stage = Stage::Fill(0);
    }

    /// Whether it is for the host's data.
    pub(super) fn is_of_host(&self) -> bool {
        is_of_host(self.stream)
    }

    /// Whether the head has no room for one more item.
    fn is_listed_full(&self) -> bool {
        self.items.len() as u32 >= room(self.head_pages)
    }

    /// Whether it can still change what it lists.
    pub(super) fn is_unsealed(&self) -> bool {
        matches!(self.phase, Phase::Filling | Phase::Closed)
    }

    /// Whether its records are read from its buffers.
    pub(super) fn is_buffered(&self) -> bool {
        !matches!(self.phase, Phase::Idle | Phase::Draining)
    }

    /// Takes room for a record of `len` bytes: the chunk and the byte in it. `None` when full.
    #[inline]
    pub(super) fn take(&mut self, len: u32) -> Option<(u8, u32)> {
        if self.is_listed_full() { None } else { self.fill.take(len) }
    }

    /// Whether a record of `len` bytes would follow the last one in the same chunk.
    pub(super) fn continues(&self, len: u32) -> bool {
        self.phase == Phase::Filling && !self.is_listed_full() && self.fill.continues(len)
    }

    /// Whether nothing was put in.
    pub(super) fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Notes an item for which room was taken; returns its number.
    // Where it is called: what is put together there is not put into memory twice.
    #[inline(always)]
    pub(super) fn push(&mut self, item: Item) -> u32 {
        assert!(self.phase == Phase::Filling, "items go into a row that is filled");
        assert!(!self.is_listed_full(), "the head has room for the item");
        self.items.push(item);
        self.items.len() as u32 - 1
    }

    /// The item of the record that begins at `byte` of `chunk`.
    pub(super) fn find(&mut self, chunk: u8, byte: u32) -> Option<&mut Item> {
        let from = self.items.partition_point(|it| (it.chunk, it.byte) < (chunk, byte));
        let here =
            self.items[from..].iter_mut().take_while(|it| (it.chunk, it.byte) == (chunk, byte));
        here.into_iter().find(|it| it.kind != Kind::Trim)
    }

    /// Sectors that chunk `chunk` takes on its device.
    pub(super) fn sectors(&self, layout: &Layout, chunk: u32) -> u32 {
        // Parity is of whole chunks, so that it can be used without knowing the row.
        if chunk + 1 < self.fill.chunks() || layout.parity > 0 && self.fill.chunks() > 1 {
            return layout.chunk;
        }
        let used = self.fill.used(chunk).div_ceil(SECTOR as u32);
        used.next_multiple_of(layout.align).min(self.fill.size() / SECTOR as u32)
    }
}
