//! The journal: what a flush covers goes to a device of its own, and rows fill up all the same.
//!
//! Without a journal a flush seals the rows that are open, however little they hold. With one it
//! writes one [`record`]: all that the host has published since the last one and that is not
//! durable yet, as it lies in the rows. The rows are sealed when they are full. After a cut the
//! records are played between the rows ([`replay`]), and what no row has is put into new rows
//! (`recovery/records.rs`).
//!
//! Order. Every publication of the host has an order, the `clock`. A record holds all of them up
//! to its own moment, and it is replayed before the row whose number was next then. So a row that
//! is sealed later must list nothing of which a record before it has a newer version: an item
//! knows when it was replaced ([`Journal::has`]), and a row that can't know yet waits for the
//! record under way ([`Journal::is_unsure`]).
//!
//! Invariants
//! - One record is under way at a time, so only the newest can be torn.
//! - A record is kept until every row is durable that has anything of it, and the slot behind the
//!   newest record is free: a torn record never lies over one that is needed.
//! - Rows that aren't durable keep their buffers, so that a record can be made of them.
//! - An empty record of a life is durable before the first root of that life says that the journal
//!   is needed; roots and rows name the newest record that is durable. So an older copy of the
//!   device is found out when it lacks one of these ([`Journal::lacks_records`]).
//! - When the journal is full, a record would be too long, or a row lists a trim and has no number
//!   yet, rows are sealed as without a journal; when its device fails, from then on.

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
use crate::log::row::rows::Rows;
use crate::log::row::{Item, NO_HEIR, Phase, Row};
use crate::planted::{Bug, planted};
use notes::{Note, Notes};
use record::Making;
use replay::Played;
pub(super) use replay::{Done, Turn};
use ring::Ring;

/// What the journal is good for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The volume has none.
    None,
    /// The volume is being recovered.
    Starting,
    /// Flushes go to it.
    Ready,
    /// Its device is missing, or failed.
    Dead,
    /// The layer stops: everything is in rows.
    Closed,
}

/// A record that is durable, and that a row needs which is not.
#[derive(Clone, Copy, Debug)]
struct Kept {
    number: u64,
    upto: u64,
}

#[derive(Debug)]
pub(super) struct Journal {
    ring: Ring,
    state: State,
    /// Whether the durable root says that the journal is not needed, as its place in `Root::lost`.
    told: DeviceSet,
    /// The order of the host's last publication.
    clock: u64,
    /// Everything up to this is durable.
    logged: u64,
    /// The same, when the device failed: no host is told any more, but recovery may find it.
    recorded: u64,
    /// A record up to this is asked for.
    asked: u64,
    notes: Notes,
    making: Option<Making>,
    kept: VecDeque<Kept>,
    /// The number of the next record; they go on from life to life.
    next: u64,
    /// Whether the first record of this life is durable.
    begun: bool,
    head: Option<MetaBuf>,
    /// Rows up to this stamp hold what the journal held when it was given up.
    ended: u64,
    /// Flushes that sealed rows although there is a journal.
    passed_by: u64,
    played: Played,
}

impl Journal {
    pub(super) fn new(layout: &Layout, missing: DeviceSet) -> Self {
        let device = layout.journal.map_or(0, |ring| ring.device());
        let state = match layout.journal {
            None => State::None,
            Some(_) if missing.contains(device) => State::Dead,
            Some(_) => State::Starting,
        };
        let ring = layout.journal.unwrap_or_default();
        let heads = if state == State::None { 0 } else { MOST_PAGES as usize };
        Journal {
            ring,
            state,
            told: DeviceSet::EMPTY,
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

    /// Goes on in its cycle.
    ///
    /// # Panics
    /// When that is not what comes next.
    fn go(&mut self, next: State) {
        let fits = match (self.state, next) {
            (State::Starting, State::Ready) => self.begun,
            (State::Ready, State::Closed) => self.making.is_none(),
            (State::Starting | State::Ready, State::Dead) => true,
            _ => false,
        };
        assert!(fits, "a journal that is {:?} can't be {next:?} next", self.state);
        self.state = next;
    }

    /// Whether `device` is the journal's.
    pub(super) fn is(&self, device: u8) -> bool {
        self.state != State::None && device == self.ring.device()
    }

    /// The device, if what is read from it in recovery must be made durable first.
    pub(super) fn device_to_flush(&self) -> Option<u8> {
        (self.state == State::Starting).then_some(self.ring.device())
    }

    /// Whether a place lies in the journal.
    pub(super) fn is_place(&self, place: Place) -> bool {
        self.is(place.device()) && !place.is_nowhere()
    }

    /// The set of its device; empty without a journal.
    pub(super) fn device_set(&self) -> DeviceSet {
        if self.state == State::None { DeviceSet::EMPTY } else { self.ring.device_set() }
    }

    /// The same if it is lost, else the empty set.
    pub(super) fn lost(&self) -> DeviceSet {
        if self.state == State::Dead { self.device_set() } else { DeviceSet::EMPTY }
    }

    /// The journal's device as a member of the volume, if there is one.
    pub(super) fn member(&self) -> Option<(u8, Member)> {
        let state = match self.state {
            State::None => return None,
            State::Dead => MemberState::Lost,
            _ => MemberState::Active,
        };
        let (role, recorded) = (MemberRole::Journal, self.told == self.lost());
        Some((self.ring.device(), Member { state, role, recorded, planned: false }))
    }

    /// The set of its device if a volume can be recovered without it once what is open now is
    /// durable, else the empty set.
    pub(super) fn unneeded(&self) -> DeviceSet {
        match self.state {
            State::Starting | State::Ready => DeviceSet::EMPTY,
            _ => self.device_set(),
        }
    }

    /// A durable root says `lost`.
    pub(super) fn told(&mut self, lost: DeviceSet) {
        self.told = lost & self.device_set();
    }

    /// Whether a durable root says whether the journal is needed.
    pub(super) fn is_told(&self) -> bool {
        self.told == self.unneeded()
    }

    /// The newest record that is durable.
    pub(super) fn newest(&self) -> u64 {
        self.next - 1
    }

    /// Whether flushes go to it.
    pub(super) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// The volume is recovered.
    pub(super) fn open(&mut self) {
        if self.state == State::Starting {
            self.go(State::Ready);
        }
    }

    /// The order of what was published last; never durable without a journal.
    pub(super) fn moment(&self) -> u64 {
        if self.is_ready() { self.clock } else { u64::MAX }
    }

    /// Whether everything up to `moment` is durable.
    pub(super) fn has(&self, moment: u64) -> bool {
        moment <= self.logged
    }

    /// Whether what replaced something at this moment may be found in a record: then a row that is
    /// sealed now must not list the older version, for rows are replayed after the records before.
    /// That is so also when the device has failed, until a root says that it is not needed.
    pub(super) fn may_have(&self, moment: u64) -> bool {
        moment <= self.logged.max(self.recorded)
    }

    /// Whether all that was published is durable.
    pub(super) fn has_all(&self) -> bool {
        self.is_ready() && self.logged == self.clock
    }

    /// Asks for a record of all that was published; false when rows have to be sealed instead.
    pub(super) fn ask(&mut self) -> bool {
        self.asked = self.clock;
        self.is_ready()
    }

    /// Whether the record under way decides what a row with these items lists.
    pub(super) fn is_unsure(&self, items: &[Item]) -> bool {
        let Some(making) = &self.making else { return false };
        let between = self.logged + 1..=making.upto;
        items.iter().any(|item| item.heir != NO_HEIR && between.contains(&item.replaced))
    }

    /// Whether a row's buffers are needed although it is written.
    pub(super) fn holds(&self, index: u8, row: &Row, durable: u64) -> bool {
        let copied = self.making.is_some_and(|making| making.rows >> index & 1 == 1);
        copied || self.is_ready() && row.is_of_host() && row.seq > durable
    }

    /// Tells how many records rows need, and how many flushes sealed rows all the same.
    pub(super) fn tell(&self, facts: &mut ArrayVec<(&'static str, u64), 8>) {
        if self.state != State::None {
            facts.push(("journal_records", self.kept.len() as u64));
            facts.push(("journal_passed_by", self.passed_by));
        }
    }
}

impl Journal {
    /// The host published item `item` of a row.
    pub(super) fn note(
        &mut self,
        row: u8,
        item: u32,
        rows: &mut Rows,
        durability: &Durability,
        cx: &mut Cx,
    ) {
        assert!(self.is_ready(), "flushes go to the journal");
        if self.notes.is_full() {
            self.forget_some(rows, durability, cx);
        }
        self.clock += 1;
        let it = &mut rows[row];
        if it.first_order == 0 {
            it.first_order = self.clock;
        }
        self.notes.push(Note { row, item, stamp: it.stamp });
    }

    /// Whether what a row holds may still be lost with it.
    fn is_at_risk(row: &Row, durability: &Durability) -> bool {
        let sealed = !matches!(row.phase(), Phase::Idle | Phase::Filling | Phase::Closed);
        row.phase() != Phase::Idle && !(sealed && row.seq <= durability.durable())
    }

    /// Makes room for notes: when few go, there are too many for a record.
    fn forget_some(&mut self, rows: &Rows, durability: &Durability, cx: &mut Cx) {
        self.forget_durable(rows, durability, cx);
        self.notes.give_up(self.in_record(), self.clock);
    }

    /// Forgets notes of what is durable in rows, and of what was replaced, whose heir is durable or
    /// noted too; but none of the record under way.
    fn forget_durable(&mut self, rows: &Rows, durability: &Durability, cx: &mut Cx) {
        cx.touch(self.notes.len());
        self.notes.forget(self.in_record(), |note| {
            let row = &rows[note.row];
            let is_wanted = || row.items[note.item as usize].heir == NO_HEIR;
            row.stamp == note.stamp && Self::is_at_risk(row, durability) && is_wanted()
        });
    }

    /// Notes of the record under way: the first so many.
    fn in_record(&self) -> usize {
        self.making.map_or(0, |making| making.count as usize)
    }

    /// The order of the first publication that may be lost with its row.
    fn first_at_risk(rows: &Rows, durability: &Durability) -> u64 {
        let at_risk =
            rows.iter().filter(|row| row.first_order > 0 && Self::is_at_risk(row, durability));
        at_risk.map(|row| row.first_order).min().unwrap_or(u64::MAX)
    }

    /// Forgets records of which all rows are durable; the number of the oldest that is left.
    fn oldest_record(&mut self, rows: &Rows, durability: &Durability) -> u64 {
        let first = Self::first_at_risk(rows, durability);
        let early = planted(Bug::JournalFreedEarly);
        let kept = &mut self.kept;
        while kept.front().is_some_and(|it| it.upto < first || early) {
            kept.pop_front();
        }
        kept.front().map_or(self.next, |it| it.number)
    }

    /// The journal's device failed: from now on flushes seal rows, and what is open is sealed.
    pub(super) fn failed(&mut self, error: DeviceError, durability: &mut Durability, cx: &mut Cx) {
        let journal = &mut *self;
        if matches!(journal.state, State::Dead | State::Closed) {
            return;
        }
        journal.go(State::Dead);
        journal.ended = durability.opened();
        (journal.recorded, journal.logged, journal.asked) = (journal.logged, 0, 0);
        journal.notes.clear();
        durability.want_host(durability.host());
        durability.want_all(durability.opened());
        let device = journal.ring.device();
        cx.tell(Event::DeviceFailed { device, error, abandoned: false });
    }

    /// Everything is durable in rows: the journal is not needed any more. False when that is known.
    pub(super) fn close(&mut self, durability: &Durability) -> bool {
        let ready = self.is_ready() && self.making.is_none();
        if ready {
            let ended = durability.opened();
            self.go(State::Closed);
            self.ended = ended;
        }
        ready
    }

    /// Whether a root has yet to say that the journal is not needed, and may.
    pub(super) fn has_to_tell(&self, durability: &Durability, rows: &Rows) -> bool {
        !self.is_told() && durability.has_all(self.ended, rows.unsealed())
    }
}
