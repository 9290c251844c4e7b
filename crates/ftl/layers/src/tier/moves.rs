//! Moves between the devices: pages fetched to the fast one, and dirty pages written back.
//!
//! Invariants
//! - A buffer is idle exactly if its job is free.
//! - Half of the jobs fetch and half clean, so that neither waits for the other.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, Gather, Payload, Piece, Tally, Target, View};

use super::cache::{Cache, State};
use super::layout::{FAST, Layout, SLOW};
use super::ops::{Cx, OWN_OPS, Op, ROOM};
use super::params::Policy;
use crate::planted::{Bug, planted};

/// Maximum number of pages moving concurrently.
pub(super) const JOBS: usize = 16;
/// Number of jobs that fetch pages to the fast device.
const FETCHES: usize = 8;

#[derive(Debug)]
struct Job {
    buffer: Payload,
    slot: u32,
    page: u32,
    /// Whether the buffer contains the page.
    loaded: bool,
    /// Whether the move is complete, and only copies from the buffer remain.
    over: bool,
    /// Number of copies from the buffer in progress.
    copies: u8,
}

/// The jobs that move pages.
#[derive(Debug)]
pub(super) struct Moves {
    layout: Layout,
    policy: Policy,
    jobs: Vec<Job>,
    fetching: Vec<u8>,
    cleaning: Vec<u8>,
}

/// The result of an attempt to fetch a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fetched {
    /// The fetch started.
    Begun,
    /// The fetch must wait for another operation to end.
    Later,
    /// No slot is free.
    Full,
}

impl Moves {
    /// Creates a job for each buffer.
    pub(super) fn new(layout: &Layout, policy: Policy, buffers: Vec<Payload>) -> Self {
        let job = |buffer| Job { buffer, slot: 0, page: 0, loaded: false, over: false, copies: 0 };
        Moves {
            layout: *layout,
            policy,
            jobs: buffers.into_iter().map(job).collect(),
            fetching: (0..FETCHES as u8).collect(),
            cleaning: (FETCHES as u8..JOBS as u8).collect(),
        }
    }

    /// Returns the number of pages being written back.
    fn cleanings(&self) -> usize {
        JOBS - FETCHES - self.cleaning.len()
    }

    /// Returns whether no page is moving.
    pub(super) fn is_idle(&self) -> bool {
        self.fetching.len() + self.cleaning.len() == JOBS
    }

    /// Ends a job. Its buffer is idle when the last copy from it ends. Returns its slot and page.
    fn end(&mut self, job: u8) -> (u32, u32) {
        let it = &mut self.jobs[usize::from(job)];
        assert!(!it.over, "a move ends once");
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

    /// Returns the job whose buffer contains the page that is being fetched to a slot.
    pub(super) fn loaded(&self, slot: u32) -> Option<u8> {
        let has = |job: &Job| job.loaded && job.slot == slot && job.copies < u8::MAX;
        self.jobs[..FETCHES].iter().position(has).map(|job| job as u8)
    }

    /// Lends part of a loaded buffer.
    pub(super) fn lend(&mut self, job: u8, from: u32, sectors: u32) -> View {
        let it = &mut self.jobs[usize::from(job)];
        assert!(it.loaded, "only a fetched page is copied");
        it.copies += 1;
        it.buffer.view_sectors(from, sectors)
    }

    /// Takes part of a buffer back after a copy.
    pub(super) fn take_back(&mut self, job: u8, view: View) {
        let it = &mut self.jobs[usize::from(job)];
        it.buffer.repay(view);
        it.copies -= 1;
        self.free(job);
    }

    /// Takes back the view that a command borrowed.
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
            other => unreachable!("{other:?} does not move a page"),
        }
    }

    /// Discards the buffers after a power cut.
    pub(super) fn void(&mut self) {
        self.jobs.drain(..).for_each(|job| {
            job.buffer.void();
        });
    }

    /// Starts to fetch a page, unless `is_changing`: the slow device's copy is being written.
    pub(super) fn fetch(
        &mut self,
        page: u32,
        is_changing: bool,
        cache: &mut Cache,
        cx: &mut Cx,
    ) -> Fetched {
        if cache.is_full() {
            return Fetched::Full;
        }
        let changing = is_changing && !planted(Bug::FetchOverChange);
        if cx.commands_left() == 0 || changing {
            return Fetched::Later;
        }
        let Some(job) = self.fetching.pop() else { return Fetched::Later };
        let slot = cache.take(page, State::Filling).expect("a slot is free");
        let lba = self.layout.page_at(page);
        self.load(job, (slot, page), (SLOW, lba), Op::Fetch { job }, cx);
        Fetched::Begun
    }

    /// Reads a page into the buffer of its job.
    fn load(
        &mut self,
        job: u8,
        (slot, page): (u32, u32),
        (device, lba): (u8, u64),
        op: Op,
        cx: &mut Cx,
    ) {
        let work = &mut self.jobs[usize::from(job)];
        (work.slot, work.page) = (slot, page);
        let into = Target::Data(work.buffer.view_mut_sectors(0, self.layout.page));
        cx.submit(op, Command::Read { device, lba, into, cause: Cause::Gc });
    }

    /// Writes a job's page to a device.
    fn put(&mut self, job: u8, (device, lba): (u8, u64), op: Op, cx: &mut Cx) {
        let sectors = self.layout.page;
        let view = self.jobs[usize::from(job)].buffer.view_sectors(0, sectors);
        let gather = Gather::from_iter([Piece::Data(view)]);
        let tally = Tally::single(Cause::Gc, sectors);
        cx.counters().gc_copied += u64::from(sectors);
        cx.submit(op, Command::Program { device, lba, gather, tally, placement: 0 });
    }

    /// Handles the completion of a step of a move. Returns the page if it could not be fetched.
    pub(super) fn done(
        &mut self,
        op: Op,
        command: Command,
        ok: bool,
        cache: &mut Cache,
        cx: &mut Cx,
    ) -> Option<u32> {
        match op {
            Op::Fetch { job } => {
                self.repay(job, command);
                let slot = self.jobs[usize::from(job)].slot;
                if ok && cx.is_good() {
                    self.jobs[usize::from(job)].loaded = true;
                    self.put(job, (FAST, self.layout.slot_at(slot)), Op::Fill { job }, cx);
                    return None;
                }
                return Some(self.drop_fetched(job, cache));
            }
            Op::Fill { job } => {
                self.repay(job, command);
                if !ok {
                    return Some(self.drop_fetched(job, cache));
                }
                let (slot, _) = self.end(job);
                cache.arrived(slot, State::Clean);
                if self.policy == Policy::Exclusive {
                    cache.dirty(slot);
                }
            }
            Op::Collect { job } => {
                self.repay(job, command);
                if ok && cx.is_good() {
                    let lba = self.layout.page_at(self.jobs[usize::from(job)].page);
                    self.put(job, (SLOW, lba), Op::WriteBack { job }, cx);
                    return None;
                }
                let (slot, _) = self.end(job);
                cache.stay_dirty(slot, !ok);
            }
            Op::WriteBack { job } => {
                self.repay(job, command);
                let (slot, _) = self.end(job);
                if ok { cache.written_back(slot) } else { cache.stay_dirty(slot, false) }
            }
            other => unreachable!("{other:?} does not move a page"),
        }
        None
    }

    /// Releases the slot of a page that could not be fetched. Returns the page.
    fn drop_fetched(&mut self, job: u8, cache: &mut Cache) -> u32 {
        let (slot, page) = self.end(job);
        cache.release(slot);
        page
    }

    /// Evicts pages until enough slots are free or about to be.
    pub(super) fn evict(&mut self, cache: &mut Cache, cx: &mut Cx) {
        while cache.is_short(self.cleanings()) {
            if cx.outputs_left() < ROOM {
                return cx.wake();
            }
            if cx.commands_left() <= OWN_OPS / 2 {
                return;
            }
            let Some(slot) = cache.oldest_idle() else { return };
            if cache.state(slot) == State::Clean {
                cache.drop_clean(slot);
                continue;
            }
            let Some(job) = self.cleaning.pop() else { return };
            let page = cache.begin_cleaning(slot);
            let lba = self.layout.slot_at(slot);
            self.load(job, (slot, page), (FAST, lba), Op::Collect { job }, cx);
            cx.counters().gc_runs += 1;
        }
    }
}
