//! What moves between the devices: pages that come to the fast one, and dirty ones that go back.
//!
//! Invariants
//! - A buffer is idle exactly when its job is free.
//! - Half of the jobs are for fetching and half for cleaning, so that neither waits for the other.

use alloc::vec::Vec;

use hostftl_core::{
    Cause, Command, Gather, Nanos, Out, Output, Payload, Piece, Tally, Target, View,
};

use super::layout::{FAST, Layout, SLOW};
use super::ops::{OWN_OPS, Op};
use super::slots::State;
use super::{Policy, ROOM, Tier};
use crate::kit::Life;
use crate::planted::{Bug, planted};

/// Pages on their way at once.
pub const JOBS: usize = 16;
/// Of these, on their way to the fast device.
const FETCHES: usize = 8;
/// Slots that wait for a commit at most, together with those that are being cleaned.
pub const MOST_CLEANED: usize = 128;
/// Slots looked at to find one that nobody uses.
const LOOK: usize = 16;

#[derive(Debug)]
struct Job {
    buffer: Payload,
    slot: u32,
    page: u32,
    /// Whether the buffer has the page.
    loaded: bool,
    /// Whether the page is where it should be, and only copies of the buffer are left.
    over: bool,
    /// Requests that are getting their part of the buffer.
    copies: u8,
}

/// See the module text.
#[derive(Debug)]
pub struct Jobs {
    jobs: Vec<Job>,
    fetching: Vec<u8>,
    cleaning: Vec<u8>,
}

impl Jobs {
    /// A job for each buffer.
    pub fn new(buffers: Vec<Payload>) -> Self {
        let job = |buffer| Job { buffer, slot: 0, page: 0, loaded: false, over: false, copies: 0 };
        let jobs = buffers.into_iter().map(job).collect();
        Jobs {
            jobs,
            fetching: (0..FETCHES as u8).collect(),
            cleaning: (FETCHES as u8..JOBS as u8).collect(),
        }
    }

    /// Pages on their way to the slow device.
    pub fn cleanings(&self) -> usize {
        JOBS - FETCHES - self.cleaning.len()
    }

    /// Whether nothing is on its way.
    pub fn is_idle(&self) -> bool {
        self.fetching.len() + self.cleaning.len() == JOBS
    }

    /// Ends a job, whose buffer is idle as soon as nobody copies from it.
    fn end(&mut self, job: u8) -> (u32, u32) {
        let it = &mut self.jobs[usize::from(job)];
        (it.loaded, it.over) = (false, true);
        let (slot, page) = (it.slot, it.page);
        self.free(job);
        (slot, page)
    }

    fn free(&mut self, job: u8) {
        let it = &mut self.jobs[usize::from(job)];
        if it.over && it.copies == 0 {
            it.over = false;
            let fetches = usize::from(job) < FETCHES;
            let list = if fetches { &mut self.fetching } else { &mut self.cleaning };
            list.push(job);
        }
    }

    /// The job whose buffer has what is on its way to a slot.
    pub fn loaded(&self, slot: u32) -> Option<u8> {
        let has = |job: &Job| job.loaded && job.slot == slot && job.copies < u8::MAX;
        self.jobs[..FETCHES].iter().position(has).map(|job| job as u8)
    }

    /// Lends part of a loaded buffer.
    pub fn lend(&mut self, job: u8, from: u32, sectors: u32) -> View {
        let it = &mut self.jobs[usize::from(job)];
        it.copies += 1;
        it.buffer.view_sectors(from, sectors)
    }

    /// Takes part of a buffer back.
    pub fn take_back(&mut self, job: u8, view: View) {
        let it = &mut self.jobs[usize::from(job)];
        it.buffer.repay(view);
        it.copies -= 1;
        self.free(job);
    }

    /// Takes back what a command borrowed.
    fn repay(&mut self, job: u8, command: Command) {
        let buffer = &mut self.jobs[usize::from(job)].buffer;
        match command {
            Command::Read { into: Target::Data(view), .. } => buffer.repay_mut(view),
            Command::Program { gather, .. } => {
                for piece in gather {
                    if let Piece::Data(view) = piece {
                        buffer.repay(view);
                    }
                }
            }
            other => unreachable!("no page moves by {other:?}"),
        }
    }

    /// The power is off.
    pub fn void(&mut self) {
        self.jobs.drain(..).for_each(|job| {
            job.buffer.void();
        });
    }
}

/// What came of an attempt to fetch a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// It is on its way.
    Begun,
    /// It has to wait for something that will end.
    Later,
    /// There is no free slot.
    Full,
}

impl Tier {
    /// Begins to fetch a page.
    pub fn fetch(&mut self, now: Nanos, page: u32, out: &mut Out) -> Fetched {
        if self.slots.free() == 0 {
            return Fetched::Full;
        }
        let changing = self.ops.changes(page) && !planted(Bug::FetchOverChange);
        if self.ops.room() == 0 || changing {
            return Fetched::Later;
        }
        let Some(job) = self.jobs.fetching.pop() else { return Fetched::Later };
        let slot = self.slots.take(page, State::Filling).expect("one is free");
        self.note(slot);
        let lba = self.layout.page_at(page);
        let Layout { page: sectors, .. } = self.layout;
        let work = &mut self.jobs.jobs[usize::from(job)];
        (work.slot, work.page) = (slot, page);
        let into = Target::Data(work.buffer.view_mut_sectors(0, sectors));
        let token = self.ops.begin(now, SLOW, Op::Fetch { job });
        let read = Command::Read { device: SLOW, lba, into, cause: Cause::Gc };
        out.push(Output::Submit(token, read));
        Fetched::Begun
    }

    /// Writes a job's page to a device.
    fn put(&mut self, now: Nanos, device: u8, lba: u64, op: Op, job: u8, out: &mut Out) {
        let sectors = self.layout.page;
        let view = self.jobs.jobs[usize::from(job)].buffer.view_sectors(0, sectors);
        let gather = Gather::from_iter([Piece::Data(view)]);
        let tally = Tally::of(Cause::Gc, sectors);
        self.counters.gc_copied += u64::from(sectors);
        let token = self.ops.begin(now, device, op);
        let program = Command::Program { device, lba, gather, tally, placement: 0 };
        out.push(Output::Submit(token, program));
    }

    /// A step of a move is over.
    pub fn moved(&mut self, now: Nanos, op: Op, command: Command, ok: bool, out: &mut Out) {
        match op {
            Op::Fetch { job } => {
                self.jobs.repay(job, command);
                let Job { slot, page, .. } = self.jobs.jobs[usize::from(job)];
                if ok && !self.is_broken() {
                    self.jobs.jobs[usize::from(job)].loaded = true;
                    let lba = self.layout.slot_at(slot);
                    return self.put(now, FAST, lba, Op::Fill { job }, job, out);
                }
                self.jobs.end(job);
                self.release(slot);
                self.requests.go_around(page, self.layout.page);
            }
            Op::Fill { job } => {
                self.jobs.repay(job, command);
                let (slot, page) = self.jobs.end(job);
                if !ok {
                    self.release(slot);
                    return self.requests.go_around(page, self.layout.page);
                }
                self.arrived(slot, State::Clean);
                if self.params.policy == Policy::Exclusive {
                    self.dirty(slot);
                }
            }
            Op::Collect { job } => {
                self.jobs.repay(job, command);
                let Job { slot, page, .. } = self.jobs.jobs[usize::from(job)];
                if ok && !self.is_broken() {
                    let lba = self.layout.page_at(page);
                    return self.put(now, SLOW, lba, Op::WriteBack { job }, job, out);
                }
                self.jobs.end(job);
                self.stay_dirty(slot, !ok);
            }
            Op::WriteBack { job } => {
                self.jobs.repay(job, command);
                let (slot, _) = self.jobs.end(job);
                if ok { self.written_back(slot) } else { self.stay_dirty(slot, false) }
            }
            other => unreachable!("{other:?} moves no page"),
        }
    }

    /// A page is in its slot now, though perhaps not durable.
    pub fn arrived(&mut self, slot: u32, state: State) {
        let epoch = self.commit.epoch(FAST);
        let it = self.slots.get_mut(slot);
        it.go(state);
        it.born = epoch;
        self.slots.use_now(slot);
        match state {
            State::Dirty => self.must(slot),
            _ => self.note(slot),
        }
    }

    /// A slot could not be cleaned; `unreadable` when it can't be for as long as it is.
    fn stay_dirty(&mut self, slot: u32, unreadable: bool) {
        let it = self.slots.get_mut(slot);
        it.go(State::Dirty);
        it.stuck = unreadable && !it.touched;
        if !it.stuck {
            self.slots.use_now(slot);
        }
    }

    /// The slow device has what a slot had when it was read.
    fn written_back(&mut self, slot: u32) {
        let (epoch, busy) = (self.commit.epoch(SLOW), self.commit.is_busy());
        let it = self.slots.get_mut(slot);
        if it.touched && !planted(Bug::CleanOverWrite) {
            it.go(State::Dirty);
            return self.slots.use_now(slot);
        }
        it.go(State::Cleaned);
        it.cleaned = epoch;
        if (it.listed && !planted(Bug::ReuseListed)) || busy {
            if !core::mem::replace(&mut it.queued, true) {
                self.commit.cleaned.push(slot);
            }
            return self.must(slot);
        }
        self.set_listed(slot, false);
        self.let_go(slot);
    }

    /// Frees a slot that is cleaned and that no directory calls dirty, unless somebody reads it.
    pub fn let_go(&mut self, slot: u32) {
        if self.slots.get(slot).readers == 0 && self.slots.get(slot).writers == 0 {
            return self.release(slot);
        }
        self.slots.get_mut(slot).go(State::Clean);
        self.slots.use_last(slot);
        self.note(slot);
    }

    fn release(&mut self, slot: u32) {
        self.slots.release(slot);
        self.note(slot);
    }

    /// How many slots should be free.
    pub fn free_wanted(&self) -> u32 {
        (self.slots.count() * self.params.free / 100).max(1)
    }

    /// Sees to it that there are free slots.
    pub fn evict(&mut self, now: Nanos, out: &mut Out) {
        if self.life == Life::Stopping {
            return;
        }
        let wanted = self.free_wanted() as usize;
        loop {
            let coming = self.jobs.cleanings() + self.commit.cleaned.len();
            if self.slots.free() as usize + coming >= wanted || coming >= MOST_CLEANED {
                return;
            }
            if out.room() < ROOM || self.ops.room() <= OWN_OPS / 2 {
                self.again |= out.room() < ROOM;
                return;
            }
            let idle = |&slot: &u32| {
                let it = self.slots.get(slot);
                it.readers == 0 && it.writers == 0 && !it.queued
            };
            let Some(slot) = self.slots.oldest().take(LOOK).find(idle) else { return };
            if self.slots.get(slot).state() == State::Clean {
                self.slots.unuse(slot);
                self.release(slot);
                continue;
            }
            let Some(job) = self.jobs.cleaning.pop() else { return };
            self.clean(now, slot, job, out);
        }
    }

    /// Begins to clean a dirty slot.
    fn clean(&mut self, now: Nanos, slot: u32, job: u8, out: &mut Out) {
        self.slots.unuse(slot);
        let it = self.slots.get_mut(slot);
        it.go(State::Cleaning);
        it.touched = false;
        let page = it.page;
        let (lba, sectors) = (self.layout.slot_at(slot), self.layout.page);
        let work = &mut self.jobs.jobs[usize::from(job)];
        (work.slot, work.page) = (slot, page);
        let into = Target::Data(work.buffer.view_mut_sectors(0, sectors));
        let token = self.ops.begin(now, FAST, Op::Collect { job });
        let read = Command::Read { device: FAST, lba, into, cause: Cause::Gc };
        out.push(Output::Submit(token, read));
        self.counters.gc_runs += 1;
    }

    /// A slot's content is about to become newer than the slow device's.
    pub fn dirty(&mut self, slot: u32) {
        let it = self.slots.get_mut(slot);
        let was = it.state();
        match was {
            State::Dirty | State::Clean => {
                if !core::mem::replace(&mut it.stuck, false) {
                    self.slots.unuse(slot);
                }
            }
            State::Cleaning => return it.touched = true,
            State::Cleaned => {}
            State::Filling | State::Taking | State::Free => unreachable!("it is not here yet"),
        }
        if was != State::Dirty {
            self.slots.get_mut(slot).go(State::Dirty);
            self.must(slot);
        }
        self.slots.use_now(slot);
    }
}
