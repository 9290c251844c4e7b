//! The journal: flushes go to a separate device, so that stripes can still be written full.
//!
//! Without a journal a flush seals the open stripes, however little they contain. With a journal it
//! writes one [`record`] with all host data that was published since the last record and is not
//! durable yet. The data is copied from the stripes, which are sealed when they are full. After a
//! power loss the records are replayed between the stripes ([`replay`]), and blocks that no stripe
//! has are copied into new stripes (`recovery/records.rs`).
//!
//! Order. Every publication of the host has an order, the `clock`. A record contains all
//! publications up to its own moment, and is replayed before the stripe with the next sequence
//! number at that time. So a stripe that is sealed later must not list a block if an earlier record
//! has a newer version. An item therefore stores the time of its replacement ([`Journal::has`]),
//! and a stripe whose items depend on the record in progress waits for it ([`Journal::is_unsure`]).
//!
//! Invariants
//! - One record is in progress at a time, so only the newest can be torn.
//! - A record is kept until all stripes with its data are durable, and the slot after the newest
//!   record is free: a torn record never overwrites a needed one.
//! - Stripes that are not durable keep their buffers, so that records can be copied from them.
//! - An empty first record of a life is durable before the first root of that life marks the
//!   journal as needed. Roots and stripes store the number of the newest durable record. A stale
//!   copy of the device lacks it and is thus detected ([`Journal::lacks_records`]).
//! - Stripes are sealed as without a journal if the journal is full, if a record would be too long,
//!   or if an unsealed stripe lists a trim. If the journal device fails, all later flushes do so.

mod notes;
mod record;
mod replay;
pub(in crate::log) mod ring;

use alloc::collections::VecDeque;

use hostftl_core::{
    ArrayVec, DeviceError, DeviceSet, Event, Member, MemberRole, MemberState, MetaBuf,
};
use hostftl_format::log::Place;
use hostftl_format::log::journal::MOST_PAGES;

use crate::log::durability::Durability;
use crate::log::layout::Layout;
use crate::log::ops::Cx;
use crate::log::stripe::stripes::Stripes;
use crate::log::stripe::{Item, NO_HEIR, Phase, Stripe};
use crate::planted::{Bug, planted};
use notes::{Note, Notes};
use record::Making;
use replay::Played;
pub(super) use replay::{Done, Turn};
use ring::Ring;

/// State of the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The volume has no journal.
    None,
    /// The volume is being recovered.
    Starting,
    /// Flushes go to the journal.
    Ready,
    /// Its device is missing or failed.
    Lost,
    /// The layer stops: all data is in stripes.
    Closed,
}

/// Durable record that a stripe needs that is not durable yet.
#[derive(Clone, Copy, Debug)]
struct Kept {
    number: u64,
    upto: u64,
}

#[derive(Debug)]
pub(super) struct Journal {
    ring: Ring,
    state: State,
    /// Set of the journal device if the durable root marks it as not needed (in `Root::lost`), else
    /// empty.
    committed: DeviceSet,
    /// Order of the last host publication.
    clock: u64,
    /// All publications up to this order are durable.
    logged: u64,
    /// Value of `logged` when the device failed. It no longer counts for acknowledgements, but
    /// recovery may find these records.
    recorded: u64,
    /// A record up to this order is requested.
    asked: u64,
    notes: Notes,
    making: Option<Making>,
    kept: VecDeque<Kept>,
    /// Number of the next record; numbers continue from life to life.
    next: u64,
    /// Whether the first record of this life is durable.
    begun: bool,
    head: Option<MetaBuf>,
    /// Stripes up to this stamp have the contents of the journal at the time when it was closed or
    /// failed.
    ended: u64,
    /// Flushes that sealed stripes although there is a journal.
    passed_by: u64,
    played: Played,
}

impl Journal {
    pub(super) fn new(layout: &Layout, missing: DeviceSet) -> Self {
        let device = layout.journal.map_or(0, |ring| ring.device());
        let state = match layout.journal {
            None => State::None,
            Some(_) if missing.contains(device) => State::Lost,
            Some(_) => State::Starting,
        };
        let ring = layout.journal.unwrap_or_default();
        let heads = if state == State::None { 0 } else { MOST_PAGES as usize };
        Journal {
            ring,
            state,
            committed: DeviceSet::EMPTY,
            clock: 0,
            logged: 0,
            recorded: 0,
            asked: 0,
            notes: Notes::new(state != State::None),
            making: None,
            kept: VecDeque::with_capacity(ring.slots as usize),
            next: 1,
            begun: false,
            head: Some(MetaBuf::new(heads)),
            ended: 0,
            passed_by: 0,
            played: Played::default(),
        }
    }

    /// Changes the state.
    ///
    /// # Panics
    /// If the states do not follow each other.
    fn go(&mut self, next: State) {
        let fits = match (self.state, next) {
            (State::Starting, State::Ready) => self.begun,
            (State::Ready, State::Closed) => self.making.is_none(),
            (State::Starting | State::Ready, State::Lost) => true,
            _ => false,
        };
        assert!(fits, "a journal can't go from {:?} to {next:?}", self.state);
        self.state = next;
    }

    /// Returns whether `device` is the journal device.
    pub(super) fn is(&self, device: u8) -> bool {
        self.state != State::None && device == self.ring.device()
    }

    /// Returns the device if it must be flushed before recovery reads from it.
    pub(super) fn device_to_flush(&self) -> Option<u8> {
        (self.state == State::Starting).then_some(self.ring.device())
    }

    /// Returns whether a place is in the journal.
    pub(super) fn is_place(&self, place: Place) -> bool {
        self.is(place.device()) && !place.is_nowhere()
    }

    /// Returns the set of the journal device; empty without a journal.
    pub(super) fn device_set(&self) -> DeviceSet {
        if self.state == State::None { DeviceSet::EMPTY } else { self.ring.device_set() }
    }

    /// Returns the set of the journal device if it is lost, else the empty set.
    pub(super) fn lost(&self) -> DeviceSet {
        if self.state == State::Lost { self.device_set() } else { DeviceSet::EMPTY }
    }

    /// Returns the journal device as a member of the volume, if there is one.
    pub(super) fn member(&self) -> Option<(u8, Member)> {
        let state = match self.state {
            State::None => return None,
            State::Lost => MemberState::Lost,
            _ => MemberState::Active,
        };
        let (role, recorded) = (MemberRole::Journal, self.committed == self.lost());
        Some((self.ring.device(), Member { state, role, recorded, planned: false }))
    }

    /// Returns the set of the journal device if recovery no longer needs it once all open stripes
    /// are durable, else the empty set.
    pub(super) fn unneeded(&self) -> DeviceSet {
        match self.state {
            State::Starting | State::Ready => DeviceSet::EMPTY,
            _ => self.device_set(),
        }
    }

    /// Notes that a durable root records these `lost` devices.
    pub(super) fn commit_root(&mut self, lost: DeviceSet) {
        self.committed = lost & self.device_set();
    }

    /// Returns whether the durable root records whether the journal is needed.
    pub(super) fn is_committed(&self) -> bool {
        self.committed == self.unneeded()
    }

    /// Returns the number of the newest durable record.
    pub(super) fn newest(&self) -> u64 {
        self.next - 1
    }

    /// Returns whether flushes go to the journal.
    pub(super) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Starts using the journal after recovery.
    pub(super) fn open(&mut self) {
        if self.state == State::Starting {
            self.go(State::Ready);
        }
    }

    /// Returns the order of the last publication; without a journal an order that is never durable.
    pub(super) fn moment(&self) -> u64 {
        if self.is_ready() { self.clock } else { u64::MAX }
    }

    /// Returns whether all publications up to `moment` are durable.
    pub(super) fn has(&self, moment: u64) -> bool {
        moment <= self.logged
    }

    /// Returns whether a record may contain the replacement made at this moment. A stripe that is
    /// sealed now must then not list the older version, because it is replayed after that record.
    /// This also holds after the device failed, until a root marks it as not needed.
    pub(super) fn may_have(&self, moment: u64) -> bool {
        moment <= self.logged.max(self.recorded)
    }

    /// Returns whether all publications are durable.
    pub(super) fn has_all(&self) -> bool {
        self.is_ready() && self.logged == self.clock
    }

    /// Requests a record of all publications. Returns false if stripes have to be sealed instead.
    pub(super) fn ask(&mut self) -> bool {
        self.asked = self.clock;
        self.is_ready()
    }

    /// Returns whether the items that a stripe lists depend on the record in progress.
    pub(super) fn is_unsure(&self, items: &[Item]) -> bool {
        let Some(making) = &self.making else { return false };
        // Earlier replacements are durable, and later ones are not in this record.
        let between = self.logged + 1..=making.upto;
        items.iter().any(|item| item.heir != NO_HEIR && between.contains(&item.replaced))
    }

    /// Returns whether the buffers of a written stripe are still needed.
    pub(super) fn holds(&self, index: u8, stripe: &Stripe, durable: u64) -> bool {
        let copied = self.making.is_some_and(|making| making.stripes >> index & 1 == 1);
        // A later record may have to copy blocks of a stripe that is not durable.
        copied || self.is_ready() && stripe.is_of_host() && stripe.seq > durable
    }

    /// Reports the number of kept records, and of flushes that sealed stripes although there is a
    /// journal.
    pub(super) fn add_facts(&self, facts: &mut ArrayVec<(&'static str, u64), 8>) {
        if self.state != State::None {
            facts.push(("journal_records", self.kept.len() as u64));
            facts.push(("journal_passed_by", self.passed_by));
        }
    }
}

impl Journal {
    /// Notes that the host published item `item` of a stripe.
    pub(super) fn note(
        &mut self,
        stripe: u8,
        item: u32,
        stripes: &mut Stripes,
        durability: &Durability,
        cx: &mut Cx,
    ) {
        assert!(self.is_ready(), "flushes go to the journal");
        if self.notes.is_full() {
            self.forget_some(stripes, durability, cx);
        }
        self.clock += 1;
        let it = &mut stripes[stripe];
        // Orders begin with 1, so 0 is a stripe without publications.
        if it.first_order == 0 {
            it.first_order = self.clock;
        }
        self.notes.push(Note { stripe, item, stamp: it.stamp });
    }

    /// Returns whether the contents of a stripe could still be lost.
    fn is_at_risk(stripe: &Stripe, durability: &Durability) -> bool {
        let sealed = !matches!(stripe.phase(), Phase::Idle | Phase::Filling | Phase::Closed);
        stripe.phase() != Phase::Idle && !(sealed && stripe.seq <= durability.durable())
    }

    /// Frees notes. If few can be freed, the rest is too much for a record and is dropped.
    fn forget_some(&mut self, stripes: &Stripes, durability: &Durability, cx: &mut Cx) {
        self.forget_durable(stripes, durability, cx);
        self.notes.drop_excess(self.in_record(), self.clock);
    }

    /// Drops notes of data that is durable in stripes, and of replaced data, whose heir is durable
    /// or noted as well. Notes of the record in progress are kept.
    fn forget_durable(&mut self, stripes: &Stripes, durability: &Durability, cx: &mut Cx) {
        cx.touch(self.notes.len());
        // The record in progress refers to its notes by index, so these must stay.
        self.notes.forget(self.in_record(), |note| {
            let stripe = &stripes[note.stripe];
            let is_wanted = || stripe.items[note.item as usize].heir == NO_HEIR;
            // With another stamp the slot was reused, which requires that the noted stripe is
            // durable.
            stripe.stamp == note.stamp && Self::is_at_risk(stripe, durability) && is_wanted()
        });
    }

    /// Returns the number of notes of the record in progress, which are the first ones.
    fn in_record(&self) -> usize {
        self.making.map_or(0, |making| making.count as usize)
    }

    /// Returns the order of the first publication that could be lost with its stripe.
    fn first_at_risk(stripes: &Stripes, durability: &Durability) -> u64 {
        let at_risk = stripes
            .iter()
            .filter(|stripe| stripe.first_order > 0 && Self::is_at_risk(stripe, durability));
        at_risk.map(|stripe| stripe.first_order).min().unwrap_or(u64::MAX)
    }

    /// Drops records of which all stripes are durable. Returns the number of the oldest one left.
    fn oldest_record(&mut self, stripes: &Stripes, durability: &Durability) -> u64 {
        // Records are kept in the order of their publications, so the first one with a publication
        // at risk and all later ones stay.
        let first = Self::first_at_risk(stripes, durability);
        let early = planted(Bug::JournalFreedEarly);
        let kept = &mut self.kept;
        while kept.front().is_some_and(|it| it.upto < first || early) {
            kept.pop_front();
        }
        kept.front().map_or(self.next, |it| it.number)
    }

    /// Handles a failure of the journal device: seals the open stripes, and later flushes seal
    /// stripes.
    pub(super) fn failed(&mut self, error: DeviceError, durability: &mut Durability, cx: &mut Cx) {
        let journal = &mut *self;
        if matches!(journal.state, State::Lost | State::Closed) {
            return;
        }
        journal.go(State::Lost);
        journal.ended = durability.opened();
        // Earlier records no longer count as durable: their data must be written in stripes.
        (journal.recorded, journal.logged, journal.asked) = (journal.logged, 0, 0);
        journal.notes.clear();
        durability.want_host(durability.host());
        durability.want_all(durability.opened());
        let device = journal.ring.device();
        cx.report(Event::DeviceFailed { device, error, abandoned: false });
    }

    /// Closes the journal when all data is durable in stripes. Returns false if it was not in use,
    /// or a record is in progress.
    pub(super) fn close(&mut self, durability: &Durability) -> bool {
        let ready = self.is_ready() && self.making.is_none();
        if ready {
            let ended = durability.opened();
            self.go(State::Closed);
            self.ended = ended;
        }
        ready
    }

    /// Returns whether a root can and must be written that marks the journal as not needed.
    pub(super) fn needs_root(&self, durability: &Durability, stripes: &Stripes) -> bool {
        !self.is_committed() && durability.has_all(self.ended, stripes.unsealed())
    }
}
