//! Rows: strips in memory, from the first block that goes in to the moment when the medium can be
//! read in its place.
//!
//! Invariants
//! - One row is filled at a time, so that the order of numbers is the order of versions.
//! - A row is sent when nothing is on its way into it, and sent again when its segment fails: its
//!   number and its entries stay.
//! - The map points into a row until its strip can be read; its buffer is used again only when
//!   nobody reads from it any more.

use alloc::vec::Vec;

use hostftl_core::{BLOCK, MetaBuf, SECTORS_PER_BLOCK, Tally};
use hostftl_format::zones::{ENTRIES, Entry};

/// What a row is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Phase {
    /// Nothing.
    Idle,
    /// It takes blocks.
    Filling,
    /// It takes no more, and waits for what is on its way into it.
    Closed,
    /// It is ready to be sent.
    Ready,
    /// It is on its way.
    Sent,
    /// It is written, and can't be read yet.
    Written,
    /// The map points elsewhere; somebody may still read from it.
    Draining,
}

#[derive(Debug)]
pub(super) struct Row {
    phase: Phase,
    pub seq: u64,
    pub entries: Vec<Entry>,
    /// Pages taken.
    pub slots: u32,
    /// Pages taken for the host, for collection.
    pub taken: [u32; 2],
    /// Blocks on their way into it.
    pub pending: u32,
    /// Whether it says that blocks hold nothing, or are lost: no valid block tells of that.
    pub has_trim: bool,
    /// Sectors by cause.
    pub tally: Tally,
    /// Where it is, once it was sent.
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

    /// Bytes of what is known of a row, and of its tail.
    pub(super) const fn memory() -> u64 {
        (size_of::<Row>() + ENTRIES * size_of::<Entry>() + BLOCK) as u64
    }

    /// What it is doing.
    pub(super) fn phase(&self) -> Phase {
        self.phase
    }

    /// Goes on to the next phase.
    ///
    /// # Panics
    /// When that is no next phase.
    pub(super) fn go(&mut self, next: Phase) {
        let fits = matches!(
            (self.phase, next),
            (Phase::Idle | Phase::Draining, Phase::Filling)
                | (Phase::Filling, Phase::Closed)
                | (Phase::Closed | Phase::Sent, Phase::Ready)
                | (Phase::Ready, Phase::Sent)
                | (Phase::Sent, Phase::Written)
                | (Phase::Written, Phase::Draining)
        );
        assert!(fits, "a row that is {:?} can't be {next:?} next", self.phase);
        self.phase = next;
    }

    /// Begins a new row.
    pub(super) fn open(&mut self, seq: u64) {
        self.go(Phase::Filling);
        self.seq = seq;
        self.entries.clear();
        (self.slots, self.taken, self.pending, self.has_trim) = (0, [0; 2], 0, false);
        self.tally = Tally::default();
    }

    /// The bytes at which page `slot` begins.
    pub(super) fn byte(slot: u32) -> u32 {
        slot * SECTORS_PER_BLOCK * hostftl_core::SECTOR as u32
    }

    /// Whether its blocks are in memory alone.
    pub(super) fn is_unplaced(&self) -> bool {
        matches!(self.phase, Phase::Filling | Phase::Closed | Phase::Ready)
    }
}
