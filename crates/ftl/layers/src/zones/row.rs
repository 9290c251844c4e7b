//! Rows: strips in memory, from the first block put in until the strip can be read from the medium.
//!
//! Invariants
//! - One row is filled at a time, so that the order of numbers is the order of versions.
//! - A row is sent when all its data is there, and sent again if its segment fails. Its number and
//!   its entries stay the same.
//! - The map points into a row until its strip can be read. Its buffer is reused only when no read
//!   borrows from it.

use alloc::vec::Vec;

use hostftl_core::{BLOCK, MetaBuf, SECTORS_PER_BLOCK, Tally};
use hostftl_format::zones::{ENTRIES, Entry};

/// Phase of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Unused.
    Idle,
    /// Accepts blocks.
    Filling,
    /// Accepts no more blocks, and waits for data in flight into it.
    Closed,
    /// Ready to be sent.
    Ready,
    /// Being written.
    Sent,
    /// Written, but not readable yet.
    Written,
    /// No longer in the map, but reads of it may be in flight.
    Draining,
}

/// One row.
#[derive(Debug)]
pub(super) struct Row {
    phase: Phase,
    pub seq: u64,
    pub entries: Vec<Entry>,
    /// Number of taken pages.
    pub slots: u32,
    /// Pages taken for the host and for collection.
    pub taken: [u32; 2],
    /// Pages whose data is in flight into the row.
    pub pending: u32,
    /// Whether it lists trims or lost blocks, of which no valid block in it keeps track.
    pub has_trim: bool,
    /// Sectors by cause.
    pub tally: Tally,
    /// Place of the strip, once it was sent.
    pub segment: u32,
    pub strip: u32,
    pub tail: Option<MetaBuf>,
}

impl Row {
    pub(super) fn new() -> Self {
        Row {
            phase: Phase::Idle,
            seq: 0,
            entries: Vec::with_capacity(ENTRIES),
            slots: 0,
            taken: [0; 2],
            pending: 0,
            has_trim: false,
            tally: Tally::default(),
            segment: 0,
            strip: 0,
            tail: Some(MetaBuf::new(1)),
        }
    }

    /// Returns the bytes of a row and its tail.
    pub(super) const fn memory() -> u64 {
        (size_of::<Row>() + ENTRIES * size_of::<Entry>() + BLOCK) as u64
    }

    /// Returns the phase.
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Changes the phase.
    ///
    /// # Panics
    /// If the transition is not allowed.
    pub(super) fn go(&mut self, next: Phase) {
        // A row goes from `Sent` back to `Ready` when its segment fails.
        let fits = matches!(
            (self.phase, next),
            (Phase::Idle | Phase::Draining, Phase::Filling)
                | (Phase::Filling, Phase::Closed)
                | (Phase::Closed | Phase::Sent, Phase::Ready)
                | (Phase::Ready, Phase::Sent)
                | (Phase::Sent, Phase::Written)
                | (Phase::Written, Phase::Draining)
        );
        assert!(fits, "a stripe can't go from {:?} to {next:?}", self.phase);
        self.phase = next;
    }

    /// Opens the row under number `seq`.
    pub(super) fn open(&mut self, seq: u64) {
        self.go(Phase::Filling);
        self.seq = seq;
        self.entries.clear();
        (self.slots, self.taken, self.pending, self.has_trim) = (0, [0; 2], 0, false);
        self.tally = Tally::default();
    }

    /// Returns the byte offset of page `slot`.
    pub(super) fn byte(slot: u32) -> u32 {
        slot * SECTORS_PER_BLOCK * hostftl_core::SECTOR as u32
    }

    /// Returns whether its blocks are only in memory, without a place on the medium.
    pub(super) fn is_unplaced(&self) -> bool {
        matches!(self.phase, Phase::Filling | Phase::Closed | Phase::Ready)
    }
}
