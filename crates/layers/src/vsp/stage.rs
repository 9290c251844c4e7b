//! Staging buffers: superpages between the first sector put in and the end of their program.
//!
//! Invariants
//! - A stage goes Idle → Filling → Closed → Digesting → Digested → Programming → (Draining) → Idle.
//! - Slots `0..fill` are taken; `placing` of the commands that bring their data are still under
//!   way, and a stage is digested only when there is none.
//! - `slots[i] = l + 1` when logical sector `l` was published in slot `i` and nothing newer that
//!   this or a later stage lists has taken its place before: what the log will list.
//! - The payload stays here for ever; what a command uses is lent.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{Cause, Payload, Tally};
use hostftl_format::hard::Run;

/// Where a stage is in its cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not in use.
    Idle,
    /// Takes sectors.
    Filling,
    /// Takes no more sectors.
    Closed,
    /// Its checksum is being computed.
    Digesting,
    /// Its checksum is known.
    Digested(u32),
    /// Being written.
    Programming,
    /// Written, but reads of the buffer are still under way.
    Draining,
}

/// See the module text.
#[derive(Debug)]
pub struct Stage {
    /// The buffer, one superpage long.
    pub payload: Option<Payload>,
    /// Where in its cycle.
    pub phase: Phase,
    /// The superpage that it becomes.
    pub vsp: u32,
    /// Its place in the order of opening.
    pub stamp: u64,
    /// Slots taken.
    pub fill: u32,
    /// Slots that may be taken; the rest is kept for log pages.
    pub limit: u32,
    /// Commands under way that bring data.
    pub placing: u32,
    /// Why its sectors are written.
    pub tally: Tally,
    /// The logical sector of each slot, plus one; 0 for none.
    pub slots: Vec<u32>,
}

impl Stage {
    /// An idle stage with its buffer.
    pub fn new(payload: Payload) -> Self {
        let slots = vec![0; payload.sectors() as usize];
        Stage {
            slots,
            payload: Some(payload),
            phase: Phase::Idle,
            vsp: 0,
            stamp: 0,
            fill: 0,
            limit: 0,
            placing: 0,
            tally: Tally::default(),
        }
    }

    /// Begins to fill.
    pub fn open(&mut self, vsp: u32, stamp: u64, limit: u32) {
        assert_eq!(self.phase, Phase::Idle, "only an idle stage is opened");
        assert!(self.buffer().is_idle(), "an idle stage lends nothing");
        self.phase = Phase::Filling;
        self.vsp = vsp;
        self.stamp = stamp;
        self.limit = limit;
        self.fill = 0;
        self.placing = 0;
        self.tally = Tally::default();
        self.slots.fill(0);
    }

    /// The buffer.
    pub fn buffer(&mut self) -> &mut Payload {
        self.payload.as_mut().expect("a stage keeps its buffer")
    }

    /// The logical sector that the log will list for a slot.
    pub fn sector(&self, slot: u32) -> Option<u64> {
        self.slots[slot as usize].checked_sub(1).map(u64::from)
    }

    /// Slots that can still be taken.
    pub fn room(&self) -> u32 {
        self.limit - self.fill
    }

    /// Takes `len` slots for data of `cause` that one command brings; returns the first.
    pub fn take(&mut self, len: u32, cause: Cause) -> u32 {
        assert!(self.phase == Phase::Filling && len <= self.room(), "a stage has no such room");
        let slot = self.fill;
        self.fill += len;
        self.placing += 1;
        self.tally.add(cause, len);
        slot
    }
}

/// Runs of consecutive logical sectors among the first `fill` slots, of which `sector` says what
/// each has.
pub fn runs(sector: impl Fn(u32) -> Option<u64>, fill: u32) -> impl Iterator<Item = Run> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let (begin, lsn) = (at..fill).find_map(|slot| Some((slot, sector(slot)?)))?;
        let follows = |slot: &u32| sector(*slot) == Some(lsn + u64::from(slot - begin));
        let len = (begin..fill).take_while(follows).count() as u32;
        at = begin + len;
        Some(Run { lsn, slot: begin, len })
    })
}
