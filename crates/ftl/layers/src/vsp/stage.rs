//! Staging buffers: superpages between the first sector put in and the end of their program.
//!
//! Invariants
//! - A stage goes Idle → Filling → Closed → Digesting → Digested → Programming → (Draining) → Idle,
//!   or from Closed over Homing and Homed, see [`super::homing`].
//! - Slots `0..fill` are taken; `placing` of the commands that bring their data are still under
//!   way, and a stage is digested only when there is none.
//! - `slots[i] = l + 1` when logical sector `l` was published in slot `i` and nothing newer that
//!   this or a later stage lists has taken its place before: what the log will list.
//! - The payload stays here for ever; what a command uses is lent.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{Cause, Payload, Tally, View, ViewMut};
use hostftl_format::hard::Run;

/// Where a stage is in its cycle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
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
    /// Being written where its sectors have their homes.
    Homing,
    /// Written there, and not listed yet.
    Homed,
    /// Written, but reads of the buffer are still under way.
    Draining,
}

#[derive(Debug)]
pub(crate) struct Stage {
    /// The buffer, one superpage long.
    payload: Option<Payload>,
    /// Where in its cycle.
    phase: Phase,
    /// The superpage that it becomes.
    vsp: u32,
    /// Its place in the order of opening.
    stamp: u64,
    /// Slots taken.
    fill: u32,
    /// Slots that may be taken; the rest is kept for log pages.
    limit: u32,
    /// The sector after those that it holds, when they are the first ones of a logical superpage,
    /// each in its slot.
    next: Option<u64>,
    /// Commands under way that bring data.
    placing: u32,
    /// Whether any of its sectors took the place of a hidden copy.
    replaces: bool,
    /// The write in place that brought it home.
    event: u64,
    /// Why its sectors are written.
    tally: Tally,
    /// The logical sector of each slot, plus one; 0 for none.
    slots: Vec<u32>,
}

impl Stage {
    /// An idle stage with its buffer.
    pub(crate) fn new(payload: Payload) -> Self {
        let slots = vec![0; payload.sectors() as usize];
        Stage {
            slots,
            payload: Some(payload),
            phase: Phase::Idle,
            vsp: 0,
            stamp: 0,
            fill: 0,
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
        assert!(fits, "a stage that is {:?} is not {next:?} next", self.phase);
        self.phase = next;
    }

    /// Where in its cycle it is.
    pub(crate) fn phase(&self) -> Phase {
        self.phase
    }

    /// The superpage that it becomes.
    pub(crate) fn vsp(&self) -> u32 {
        self.vsp
    }

    /// Its place in the order of opening.
    pub(crate) fn stamp(&self) -> u64 {
        self.stamp
    }

    /// Slots taken.
    pub(crate) fn fill(&self) -> u32 {
        self.fill
    }

    /// Commands under way that bring data.
    pub(crate) fn placing(&self) -> u32 {
        self.placing
    }

    /// Begins to fill.
    pub(crate) fn open(&mut self, vsp: u32, stamp: u64, limit: u32) {
        assert!(self.buffer().is_idle(), "an idle stage lends nothing");
        self.go(Phase::Filling);
        self.vsp = vsp;
        self.stamp = stamp;
        self.limit = limit;
        self.fill = 0;
        self.next = None;
        self.placing = 0;
        self.replaces = false;
        self.tally = Tally::default();
        self.slots.fill(0);
    }

    /// The buffer.
    pub(crate) fn buffer(&mut self) -> &mut Payload {
        self.payload.as_mut().expect("a stage keeps its buffer")
    }

    /// The logical sector that the log will list for a slot.
    pub(crate) fn sector(&self, slot: u32) -> Option<u64> {
        self.slots[slot as usize].checked_sub(1).map(u64::from)
    }

    /// Slots that can still be taken.
    pub(crate) fn room(&self) -> u32 {
        self.limit - self.fill
    }

    /// Whether a sector goes on with a logical superpage of which the stage holds all before it.
    pub(crate) fn follows(&self, lsn: u64) -> bool {
        self.next == Some(lsn)
    }

    /// Notes that `len` slots are about to be taken for the sectors from `lsn` on.
    pub(crate) fn follow(&mut self, lsn: u64, len: u32) {
        let begins = self.fill == 0 && lsn.is_multiple_of(self.slots.len() as u64);
        let goes_on = begins || self.follows(lsn);
        self.next = goes_on.then_some(lsn + u64::from(len));
    }

    /// Takes `len` slots for data of `cause` that one command brings; returns the first.
    pub(crate) fn take(&mut self, len: u32, cause: Cause) -> u32 {
        assert!(self.phase == Phase::Filling && len <= self.room(), "a stage has no such room");
        let slot = self.fill;
        self.fill += len;
        self.placing += 1;
        self.tally.add(cause, len);
        slot
    }

    /// Takes all slots, for one thing of that size.
    pub(crate) fn take_all(&mut self) {
        assert!(self.phase == Phase::Filling && self.fill == 0, "all slots are there to be taken");
        self.fill = self.slots.len() as u32;
    }

    /// One more command will bring `len` sectors of `cause` into slots that are taken.
    pub(crate) fn expect(&mut self, cause: Cause, len: u32) {
        assert_eq!(self.phase, Phase::Filling, "data comes into a stage that fills");
        self.placing += 1;
        self.tally.add(cause, len);
    }

    /// Sectors of a cause are in it that no command of [`Stage::expect`] brought.
    pub(crate) fn count(&mut self, cause: Cause, len: u32) {
        self.tally.add(cause, len);
    }

    /// A command that brought data is over. The stamp.
    pub(crate) fn arrived(&mut self, into: ViewMut) -> u64 {
        self.buffer().repay_mut(into);
        self.placing -= 1;
        self.stamp
    }

    /// Whether slots are kept for log pages.
    pub(crate) fn keeps_slots(&self) -> bool {
        self.limit < self.slots.len() as u32
    }

    /// Slots that were kept for log pages may be taken.
    pub(crate) fn keep_none(&mut self) {
        self.limit = self.slots.len() as u32;
    }

    /// The log will list a sector in a slot.
    pub(crate) fn publish(&mut self, slot: u32, lsn: u64) {
        assert!(slot < self.fill, "a sector is published in a slot that was taken");
        self.slots[slot as usize] = lsn as u32 + 1;
    }

    /// A sector took the place of a hidden copy.
    pub(crate) fn note_replaced(&mut self) {
        self.replaces = true;
    }

    /// Whether any of its sectors took the place of a hidden copy.
    pub(crate) fn replaces(&self) -> bool {
        self.replaces
    }

    /// The first sector of the logical superpage all of which it holds, each in its slot.
    pub(crate) fn whole(&self) -> Option<u64> {
        let sp = self.slots.len() as u32;
        let first = self.sector(0).filter(|lsn| lsn.is_multiple_of(sp.into()))?;
        let full = self.fill == sp && self.placing == 0;
        let all = || (1..sp).all(|slot| self.sector(slot) == Some(first + u64::from(slot)));
        (full && all()).then_some(first)
    }

    /// Its data, which is written home, and why.
    pub(crate) fn begin_homing(&mut self) -> (View, Tally) {
        assert_eq!(self.placing, 0, "data that is still to come can't go home");
        self.go(Phase::Homing);
        let fill = self.fill;
        (self.buffer().view_sectors(0, fill), self.tally)
    }

    /// It is at home, unless that failed.
    pub(crate) fn homed(&mut self, view: View, ok: bool) {
        self.buffer().repay(view);
        self.go(if ok { Phase::Homed } else { Phase::Closed });
    }

    /// It came home with a write in place.
    pub(crate) fn at_home(&mut self, event: u64) {
        self.event = event;
    }

    /// The write in place that brought it home.
    pub(crate) fn event(&self) -> u64 {
        self.event
    }

    /// The log will list no sector in a slot.
    pub(crate) fn clear(&mut self, slot: u32) {
        self.slots[slot as usize] = 0;
    }

    /// The log will list none of the sectors `lsn..end`.
    pub(crate) fn forget(&mut self, lsn: u64, end: u64) {
        let slots = self.slots[..self.fill as usize].iter_mut();
        let there = |slot: &&mut u32| (lsn + 1..=end).contains(&u64::from(**slot));
        slots.filter(there).for_each(|slot| *slot = 0);
    }

    /// Takes no more sectors.
    pub(crate) fn close(&mut self) {
        self.go(Phase::Closed);
    }

    /// Takes no more sectors, of `fill` slots that are taken.
    pub(crate) fn close_at(&mut self, fill: u32) {
        self.go(Phase::Closed);
        self.fill = fill;
    }

    /// Its data, of which the checksum is computed.
    pub(crate) fn begin_digest(&mut self) -> View {
        assert_eq!(self.placing, 0, "data that is still to come has no checksum");
        self.go(Phase::Digesting);
        let fill = self.fill;
        self.buffer().view_sectors(0, fill)
    }

    /// Its checksum is known.
    pub(crate) fn digested(&mut self, from: View, crc: u32) {
        self.buffer().repay(from);
        self.go(Phase::Digested(crc));
    }

    /// Its data, which is written, and why.
    pub(crate) fn begin_program(&mut self) -> (View, Tally) {
        self.go(Phase::Programming);
        let fill = self.fill;
        (self.buffer().view_sectors(0, fill), self.tally)
    }

    /// It is on the device or, listed, at home, and idle when nobody reads its buffer.
    pub(crate) fn programmed(&mut self) {
        let idle = self.buffer().is_idle();
        self.go(if idle { Phase::Idle } else { Phase::Draining });
    }

    /// A command that read its buffer is over.
    pub(crate) fn repay(&mut self, view: View) {
        self.buffer().repay(view);
        if self.phase == Phase::Draining && self.buffer().is_idle() {
            self.go(Phase::Idle);
        }
    }

    /// The power is off.
    pub(crate) fn void(&mut self) {
        if let Some(payload) = self.payload.take() {
            payload.void();
        }
    }
}

/// Runs of consecutive logical sectors among the first `fill` slots, of which `sector` says what
/// each has.
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
    fn a_stage_knows_whether_it_holds_the_beginning_of_a_logical_superpage() {
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
