//! Staging buffers: superpages from the first sector put in until the end of their program.
//!
//! Invariants
//! - A stage goes Idle → Filling → Closed → Digesting → Digested → Programming → (Draining) → Idle,
//!   or from Closed through Homing and Homed; see [`super::homing`].
//! - Slots `0..fill` are taken. Commands that bring data are counted in `placing`, and a stage is
//!   checksummed only when there are none.
//! - On a device whose protected buffer merges writes, a stage may be listed and programmed in
//!   parts while it is being filled. Slots below `from` belong to earlier parts; log pages take the
//!   last `top` slots.
//! - `slots[i] = l + 1` if logical sector `l` was published in slot `i` and is not superseded in
//!   this or a later stage: this is the content of the stage's listing.
//! - The payload never leaves the stage; commands borrow views of it.

mod part;

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{Cause, Payload, Tally, View, ViewMut};
use hostftl_format::hard::Run;

pub(crate) use part::Part;
use part::Parts;

/// Phase of a stage.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    /// Unused.
    Idle,
    /// Accepts sectors.
    Filling,
    /// Accepts no more sectors.
    Closed,
    /// Is being checksummed.
    Digesting,
    /// Has this checksum.
    Digested(u32),
    /// Is being programmed.
    Programming,
    /// Is being written to the home of its sectors.
    Homing,
    /// Is at home and not listed yet.
    Homed,
    /// Is on media, but reads of the buffer are still in flight.
    Draining,
}

/// One staging buffer.
#[derive(Debug)]
pub(crate) struct Stage {
    /// Buffer of one superpage.
    payload: Option<Payload>,
    phase: Phase,
    /// Superpage that the stage becomes.
    vsp: u32,
    /// Position in the order of opening.
    stamp: u64,
    /// Number of taken slots.
    fill: u32,
    parts: Parts,
    /// Number of slots that may be taken; the rest is reserved for log pages.
    limit: u32,
    /// Sector after the last one, if the stage holds the beginning of a logical superpage with each
    /// sector in its own slot.
    next: Option<u64>,
    /// Commands in flight that bring data.
    placing: u32,
    /// Whether a sector replaced a hidden copy.
    replaces: bool,
    /// Event of the home write.
    event: u64,
    /// Sectors by cause.
    tally: Tally,
    /// Logical sector of each slot plus one, or 0.
    slots: Vec<u64>,
}

impl Stage {
    /// Creates an idle stage.
    pub(crate) fn new(payload: Payload) -> Self {
        let slots = vec![0; payload.sectors() as usize];
        Stage {
            slots,
            payload: Some(payload),
            phase: Phase::Idle,
            vsp: 0,
            stamp: 0,
            fill: 0,
            parts: Parts::default(),
            limit: 0,
            next: None,
            placing: 0,
            replaces: false,
            event: 0,
            tally: Tally::default(),
        }
    }

    fn go(&mut self, next: Phase) {
        let fits = matches!(
            (self.phase, next),
            (Phase::Idle, Phase::Filling)
                | (Phase::Filling, Phase::Closed)
                | (Phase::Closed, Phase::Digesting | Phase::Homing)
                | (Phase::Homing, Phase::Homed | Phase::Closed)
                | (Phase::Homed, Phase::Draining | Phase::Idle)
                | (Phase::Digesting, Phase::Digested(_))
                | (Phase::Digested(_), Phase::Programming)
                | (Phase::Programming, Phase::Draining | Phase::Idle)
                | (Phase::Draining, Phase::Idle)
        );
        assert!(fits, "a stage can't go from {:?} to {next:?}", self.phase);
        self.phase = next;
    }

    /// Returns the phase.
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// Returns the superpage that the stage becomes.
    pub(crate) fn vsp(&self) -> u32 {
        self.vsp
    }

    /// Returns the position in the order of opening.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Returns the number of taken slots.
    pub(crate) fn fill(&self) -> u32 {
        self.fill
    }

    /// Returns the number of commands in flight that bring data.
    pub(crate) fn placing(&self) -> u32 {
        self.placing
    }

    /// Opens the stage for superpage `vsp`; slots from `limit` on are reserved for log pages.
    pub(crate) fn open(&mut self, vsp: u32, stamp: u64, limit: u32) {
        assert!(self.buffer().is_idle(), "an idle stage lends nothing");
        self.go(Phase::Filling);
        self.vsp = vsp;
        self.stamp = stamp;
        self.limit = limit;
        self.parts.reset();
        self.fill = 0;
        self.next = None;
        self.placing = 0;
        self.replaces = false;
        self.tally = Tally::default();
        self.slots.fill(0);
    }

    /// Returns the buffer.
    pub(crate) fn buffer(&mut self) -> &mut Payload {
        self.payload.as_mut().expect("a stage keeps its buffer")
    }

    /// Returns the logical sector that the log will list for a slot.
    pub(crate) fn sector(&self, slot: u32) -> Option<u64> {
        self.slots[slot as usize].checked_sub(1)
    }

    /// Returns the number of slots that can still be taken.
    pub(crate) fn room(&self) -> u32 {
        self.limit - self.fill
    }

    /// Returns whether `lsn` continues a logical superpage whose earlier sectors are all in the
    /// stage.
    pub(crate) fn follows(&self, lsn: u64) -> bool {
        self.next == Some(lsn)
    }

    /// Notes that `len` slots are about to be taken for the sectors from `lsn` on.
    pub(crate) fn follow(&mut self, lsn: u64, len: u32) {
        // A gap or a jump ends the run: the stage can't go home as a whole any more.
        let begins = self.fill == 0 && lsn.is_multiple_of(self.slots.len() as u64);
        let continues = begins || self.follows(lsn);
        self.next = continues.then_some(lsn + u64::from(len));
    }

    /// Takes `len` slots for the data of one command, with its `cause`. Returns the first slot.
    pub(crate) fn take(&mut self, len: u32, cause: Cause) -> u32 {
        assert!(
            self.phase == Phase::Filling && self.part() == Part::None && len <= self.room(),
            "a stage has no space for the data"
        );
        let slot = self.fill;
        self.fill += len;
        self.placing += 1;
        self.tally.add(cause, len);
        slot
    }

    /// Takes all slots for one object of that size.
    pub(crate) fn take_all(&mut self) {
        assert!(self.phase == Phase::Filling && self.fill == 0, "all slots are available");
        self.fill = self.slots.len() as u32;
    }

    /// Registers one more command that will bring `len` sectors into slots that are taken.
    pub(crate) fn expect(&mut self, cause: Cause, len: u32) {
        assert_eq!(self.phase, Phase::Filling, "data goes into a filling stage");
        self.placing += 1;
        self.tally.add(cause, len);
    }

    /// Adds sectors to the tally that no command of [`Stage::expect`] brought.
    pub(crate) fn count(&mut self, cause: Cause, len: u32) {
        self.tally.add(cause, len);
    }

    /// Completes a command that brought data. Returns the stamp of the stage.
    pub(crate) fn arrived(&mut self, into: ViewMut) -> u64 {
        self.buffer().repay_mut(into);
        self.placing -= 1;
        self.stamp
    }

    /// Returns whether slots are reserved for log pages.
    pub(crate) fn keeps_slots(&self) -> bool {
        self.limit < self.slots.len() as u32 - self.top()
    }

    /// Releases the slots reserved for log pages.
    pub(crate) fn keep_none(&mut self) {
        self.limit = self.slots.len() as u32 - self.top();
    }

    /// Publishes a sector in a slot, so that the log will list it.
    pub(crate) fn publish(&mut self, slot: u32, lsn: u64) {
        assert!(slot < self.fill, "a sector is published in a reserved slot");
        // The value 0 stands for an empty slot.
        self.slots[slot as usize] = lsn + 1;
    }

    /// Notes that a sector replaced a hidden copy.
    pub(crate) fn note_replaced(&mut self) {
        self.replaces = true;
    }

    /// Returns whether a sector replaced a hidden copy.
    pub(crate) fn replaces(&self) -> bool {
        self.replaces
    }

    /// Returns the first sector of the logical superpage that the stage holds completely, with each
    /// sector in its own slot.
    pub(crate) fn whole(&self) -> Option<u64> {
        let sp = self.slots.len() as u32;
        let first = self.sector(0).filter(|lsn| lsn.is_multiple_of(sp.into()))?;
        let full = self.fill == sp && self.placing == 0 && self.from() == 0;
        let all = || (1..sp).all(|slot| self.sector(slot) == Some(first + u64::from(slot)));
        (full && all()).then_some(first)
    }

    /// Begins the home write. Returns the data and its tally.
    pub(crate) fn begin_homing(&mut self) -> (View, Tally) {
        assert_eq!(self.placing, 0, "data in flight can't move to its home slot");
        self.go(Phase::Homing);
        let fill = self.fill;
        (self.buffer().view_sectors(0, fill), self.tally)
    }

    /// Completes the home write; after a failure the stage is closed again.
    pub(crate) fn homed(&mut self, view: View, ok: bool) {
        self.buffer().repay(view);
        self.go(if ok { Phase::Homed } else { Phase::Closed });
    }

    /// Sets the event of the home write.
    pub(crate) fn at_home(&mut self, event: u64) {
        self.event = event;
    }

    /// Returns the event of the home write.
    pub(crate) fn event(&self) -> u64 {
        self.event
    }

    /// Removes the sector of a slot from the listing.
    pub(crate) fn clear(&mut self, slot: u32) {
        self.slots[slot as usize] = 0;
    }

    /// Removes sectors `lsn..end` from the listing.
    pub(crate) fn forget(&mut self, lsn: u64, end: u64) {
        let slots = self.slots[..self.fill as usize].iter_mut();
        // A slot holds its sector plus one.
        let there = |slot: &&mut u64| (lsn + 1..=end).contains(*slot);
        slots.filter(there).for_each(|slot| *slot = 0);
    }

    /// Closes the stage.
    pub(crate) fn close(&mut self) {
        self.parts.cancel();
        self.go(Phase::Closed);
    }

    /// Closes the stage with only the first `fill` of the taken slots.
    pub(crate) fn close_at(&mut self, fill: u32) {
        self.go(Phase::Closed);
        self.fill = fill;
    }

    /// Begins the checksum. Returns the data.
    pub(crate) fn begin_digest(&mut self) -> View {
        assert_eq!(self.placing, 0, "data in flight has no checksum");
        self.go(Phase::Digesting);
        let fill = self.fill;
        self.buffer().view_sectors(0, fill)
    }

    /// Sets the checksum.
    pub(crate) fn digested(&mut self, from: View, crc: u32) {
        self.buffer().repay(from);
        if !self.parts.digested(crc) {
            self.go(Phase::Digested(crc));
        }
    }

    /// Begins the program of everything that earlier parts did not program. Returns the data, if
    /// any, and its tally.
    pub(crate) fn begin_program(&mut self) -> (Option<View>, Tally) {
        self.go(Phase::Programming);
        let (from, fill) = (self.from(), self.fill);
        let data = (from < fill).then(|| self.buffer().view_sectors(from, fill - from));
        (data, self.tally)
    }

    /// Ends the program, or the listing of a stage at home. The stage is idle once no read of its
    /// buffer is in flight.
    pub(crate) fn programmed(&mut self) {
        // Host reads may still copy out of the buffer.
        let idle = self.buffer().is_idle();
        self.go(if idle { Phase::Idle } else { Phase::Draining });
    }

    /// Ends a read of the buffer.
    pub(crate) fn repay(&mut self, view: View) {
        self.buffer().repay(view);
        if self.phase == Phase::Draining && self.buffer().is_idle() {
            self.go(Phase::Idle);
        }
    }

    /// Discards the payload at a power cut.
    pub(crate) fn void(&mut self) {
        if let Some(payload) = self.payload.take() {
            payload.void();
        }
    }
}

/// Iterates over the runs of consecutive logical sectors in the first `fill` slots. `sector`
/// returns the sector of a slot.
pub(crate) fn runs(sector: impl Fn(u32) -> Option<u64>, fill: u32) -> impl Iterator<Item = Run> {
    let mut at = 0;
    core::iter::from_fn(move || {
        let (begin, lsn) = (at..fill).find_map(|slot| Some((slot, sector(slot)?)))?;
        let follows = |slot: &u32| sector(*slot) == Some(lsn + u64::from(slot - begin));
        let len = (begin..fill).take_while(follows).count() as u32;
        at = begin + len;
        Some(Run { lsn, slot: begin, len })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stage_detects_the_start_of_a_logical_superpage() {
        let mut stage = Stage::new(Payload::issue(0, 16));
        let take = |stage: &mut Stage, lsn: u64, len: u32| {
            stage.follow(lsn, len);
            stage.take(len, Cause::Host)
        };
        stage.open(3, 1, 14);
        assert!(!stage.follows(0), "an empty one goes on with nothing");
        take(&mut stage, 32, 8);
        assert!(stage.follows(40) && !stage.follows(41));
        take(&mut stage, 40, 2);
        assert!(stage.follows(42));
        take(&mut stage, 44, 2);
        assert!(!stage.follows(46), "one is missing");
        stage.phase = Phase::Idle;
        stage.open(4, 2, 16);
        take(&mut stage, 33, 8);
        assert!(!stage.follows(41), "it began within one");
        stage.payload.take().expect("it is there").void();
    }
}
