//! Making things durable: flushes of both devices, and the directory of dirty slots.
//!
//! Invariants
//! - One commit is under way at a time, so that a page of the directory is written only when the
//!   one before it is durable.
//! - A commit flushes both devices first; what it lists or drops was complete when it began.

use alloc::vec;
use alloc::vec::Vec;

use hostftl_core::{
    Cause, Command, Event, Gather, MetaBuf, Nanos, Out, Output, Piece, SECTORS_PER_BLOCK, Tally,
};
use hostftl_format::tier::{Entry, clear_directory, put_entry, seal_directory};

use super::layout::{FAST, Layout, SLOW};
use super::moves::MOST_CLEANED;
use super::ops::Op;
use super::slots::State;
use super::{ROOM, Tier};
use crate::kit::Life;
use crate::planted::{Bug, planted};

/// Pages of the directory between two flushes.
const ROUND: usize = 32;
/// Pages of the directory in flight.
const BUFFERS: usize = 8;
/// So many cleaned slots are worth a commit.
const WORTH: usize = 64;

/// How far a commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    /// Both devices are flushed.
    Flush,
    /// The directory is written.
    List,
    /// What was written of it is flushed.
    Seal,
}

/// See the module text.
#[derive(Debug)]
pub struct Commit {
    stage: Stage,
    /// Requests that wait for the next commit, and for this one.
    waiting: u64,
    members: u64,
    /// Flushes begun, of each device; that of the commit under way is one less.
    epochs: [u32; 2],
    covered: [u32; 2],
    /// Whether something was written since the last flush began.
    unflushed: [bool; 2],
    flying: u8,
    /// Pages of the directory written since the last flush of it, and whether the ledger was.
    written: usize,
    ledger: bool,
    cursor: u32,
    buffers: Vec<Option<MetaBuf>>,
    /// Pages of the directory that flushes wait for, and those that differ from the medium's.
    must: Vec<u64>,
    differs: Vec<u64>,
    /// The generation of each page of the directory.
    pub generations: Vec<u32>,
    /// Slots that the next commit may free.
    pub cleaned: Vec<u32>,
    /// Whether a commit with everything in it, also what is clean, is over.
    pub closed: bool,
}

impl Commit {
    /// Nothing to do yet.
    pub fn new(layout: &Layout) -> Self {
        let pages = layout.directory as usize;
        Commit {
            stage: Stage::Idle,
            waiting: 0,
            members: 0,
            epochs: [1; 2],
            covered: [0; 2],
            unflushed: [false; 2],
            flying: 0,
            written: 0,
            ledger: false,
            cursor: 0,
            buffers: (0..BUFFERS).map(|_| Some(MetaBuf::new(1))).collect(),
            must: vec![0; pages.div_ceil(64)],
            differs: vec![0; pages.div_ceil(64)],
            generations: vec![0; pages],
            cleaned: Vec::with_capacity(MOST_CLEANED + 8),
            closed: false,
        }
    }

    /// Bytes that it takes.
    pub fn bytes(layout: &Layout) -> u64 {
        u64::from(layout.directory) * 4 + u64::from(layout.directory.div_ceil(64)) * 16
    }

    /// Goes on to the next stage.
    ///
    /// # Panics
    /// When that is no next stage, or when commands of this one are not over.
    fn go(&mut self, next: Stage) {
        let fits = matches!(
            (self.stage, next),
            (Stage::Idle, Stage::Flush)
                | (Stage::Flush, Stage::List)
                | (Stage::List, Stage::Seal | Stage::Idle)
                | (Stage::Seal, Stage::List | Stage::Idle)
        );
        assert!(fits, "a commit in {:?} can't be in {next:?} next", self.stage);
        assert_eq!(self.flying, 0, "a stage of a commit ends when its commands are over");
        self.stage = next;
    }

    /// Flushes of a device begun so far: what is complete now the next one covers.
    pub fn epoch(&self, device: u8) -> u32 {
        self.epochs[usize::from(device)]
    }

    /// Whether a commit is under way.
    pub fn is_busy(&self) -> bool {
        self.stage != Stage::Idle
    }

    /// Something was written to a device.
    pub fn changed(&mut self, device: u8) {
        self.unflushed[usize::from(device)] = true;
    }

    /// A command of the commit under way is over.
    pub fn command_over(&mut self) {
        self.flying -= 1;
    }

    /// A request waits for the next commit.
    pub fn join(&mut self, req: u16) {
        self.waiting |= 1 << req;
    }

    fn needs(&mut self, page: u32, all: bool) -> bool {
        let (word, bit) = (page as usize / 64, 1 << (page % 64));
        let list = if all { &self.differs } else { &self.must };
        list[word] & bit != 0
    }

    /// The next page of the directory to write, from the cursor on.
    fn next(&mut self, all: bool) -> Option<u32> {
        while (self.cursor as usize) < self.generations.len() {
            let list = if all { &self.differs } else { &self.must };
            if self.cursor.is_multiple_of(64) && list[self.cursor as usize / 64] == 0 {
                self.cursor += 64;
                continue;
            }
            let page = self.cursor;
            self.cursor += 1;
            if self.needs(page, all) {
                return Some(page);
            }
        }
        None
    }
}

impl Tier {
    /// A slot's entry on the medium is no longer as it would be after a stop.
    pub fn note(&mut self, slot: u32) {
        let page = Layout::directory_of(slot);
        self.commit.differs[page as usize / 64] |= 1 << (page % 64);
    }

    /// A slot's entry on the medium has to change before the next flush is answered.
    pub fn must(&mut self, slot: u32) {
        self.note(slot);
        let page = Layout::directory_of(slot);
        self.commit.must[page as usize / 64] |= 1 << (page % 64);
    }

    /// A device was flushed.
    pub fn flushed(&mut self, device: u8, ok: bool) {
        self.commit.flying -= 1;
        if ok && self.commit.stage == Stage::Flush {
            let device = usize::from(device);
            self.commit.covered[device] = self.commit.epochs[device] - 1;
        }
    }

    /// A page of the directory was written.
    pub fn directory_written(&mut self, buf: u8, command: Command, ok: bool) {
        self.commit.flying -= 1;
        if let Command::Program { gather, .. } = command {
            for piece in gather {
                if let Piece::Meta { buf: meta, .. } = piece {
                    self.commit.buffers[usize::from(buf)] = Some(meta);
                }
            }
        }
        assert!(ok || self.is_broken());
    }

    /// A device failed: nothing can be promised any more.
    pub fn fail_members(&mut self, out: &mut Out) {
        let error = self.failures.error().expect("a device failed");
        let mut failed = self.commit.waiting | self.commit.members;
        while failed != 0 {
            if out.room() < ROOM {
                self.again = true;
                break;
            }
            let req = failed.trailing_zeros();
            failed &= !(1 << req);
            self.reply(req as u16, Err(error), out);
        }
        (self.commit.waiting, self.commit.members) = (failed, 0);
    }

    /// Takes the commit as far as it goes.
    pub fn pump_commit(&mut self, now: Nanos, out: &mut Out) {
        loop {
            if out.room() < ROOM {
                self.again = true;
                return;
            }
            let moved = match self.commit.stage {
                Stage::Idle => self.begin(now, out),
                Stage::Flush if self.commit.flying == 0 => {
                    self.commit.go(Stage::List);
                    (self.commit.cursor, self.commit.written) = (0, 0);
                    true
                }
                Stage::List => self.list(now, out),
                Stage::Seal if self.commit.flying == 0 => self.sealed(out),
                Stage::Flush | Stage::Seal => false,
            };
            if !moved {
                return;
            }
        }
    }

    /// Begins a commit if somebody waits for one.
    fn begin(&mut self, now: Nanos, out: &mut Out) -> bool {
        let half = (self.free_wanted() as usize).div_ceil(2);
        let stops = self.life == Life::Stopping && self.jobs.is_idle() && !self.commit.closed;
        let commit = &mut self.commit;
        let worth = commit.cleaned.len() >= half.min(WORTH);
        if commit.closed || (commit.waiting == 0 && !worth && !stops) {
            return false;
        }
        commit.members = core::mem::take(&mut commit.waiting);
        commit.go(Stage::Flush);
        commit.closed = stops;
        if commit.members != 0 && commit.unflushed != [false; 2] {
            self.counters.flushes_pending += u64::from(commit.members.count_ones());
        }
        for device in [FAST, SLOW] {
            let index = usize::from(device);
            self.commit.epochs[index] += 1;
            if core::mem::take(&mut self.commit.unflushed[index]) {
                self.send_flush(now, device, out);
            } else {
                self.commit.covered[index] = self.commit.epochs[index] - 1;
            }
        }
        true
    }

    fn send_flush(&mut self, now: Nanos, device: u8, out: &mut Out) {
        self.commit.flying += 1;
        let token = self.ops.begin(now, device, Op::Flush { device });
        out.push(Output::Submit(token, Command::Flush { device }));
    }

    /// Writes the next page of the directory, or seals what was written.
    fn list(&mut self, now: Nanos, out: &mut Out) -> bool {
        let closing = self.commit.closed && self.life == Life::Stopping;
        if self.commit.written < ROUND {
            let Some(buf) = self.commit.buffers.iter().position(Option::is_some) else {
                return false;
            };
            if let Some(page) = self.commit.next(closing) {
                self.write_directory(now, page, buf, out);
                return true;
            }
        }
        // What this round lists is named on the slow device before anybody is told.
        if !self.commit.ledger && self.ledger.is_due(closing) {
            self.commit.ledger = true;
            self.commit.flying += 1;
            self.write_ledger(now, closing, out);
        }
        if self.commit.flying > 0 {
            return false;
        }
        if self.commit.written == 0 && !self.commit.ledger {
            return self.commit_done(out);
        }
        self.commit.go(Stage::Seal);
        self.seal(now, FAST, out);
        if core::mem::take(&mut self.commit.ledger) {
            self.seal(now, SLOW, out);
        }
        true
    }

    fn seal(&mut self, now: Nanos, device: u8, out: &mut Out) {
        self.commit.unflushed[usize::from(device)] = false;
        self.commit.epochs[usize::from(device)] += 1;
        self.send_flush(now, device, out);
    }

    fn write_directory(&mut self, now: Nanos, page: u32, buf: usize, out: &mut Out) {
        let mut meta = self.commit.buffers[buf].take().expect("looked for just now");
        clear_directory(&mut meta.pages_mut()[0]);
        let range = self.layout.slots_of(page);
        let mut left = false;
        for slot in range.clone() {
            let entry = self.list_slot(slot, &mut left);
            put_entry(&mut meta.pages_mut()[0], (slot - range.start) as usize, entry);
        }
        let (word, bit) = (page as usize / 64, 1 << (page % 64));
        if !left {
            self.commit.must[word] &= !bit;
            self.commit.differs[word] &= !bit;
        }
        let generation = &mut self.commit.generations[page as usize];
        *generation += 1;
        let generation = u64::from(*generation);
        let lba = Layout::directory_at(page, generation);
        seal_directory(&mut meta.pages_mut()[0], page, generation, self.uuid, lba);
        let gather = Gather::from_iter([Piece::Meta { buf: meta, pages: 1 }]);
        let tally = Tally::of(Cause::Map, SECTORS_PER_BLOCK);
        self.counters.map_written += u64::from(SECTORS_PER_BLOCK);
        let token = self.ops.begin(now, FAST, Op::Directory { buf: buf as u8 });
        let program = Command::Program { device: FAST, lba, gather, tally, placement: 0 };
        out.push(Output::Submit(token, program));
        self.commit.flying += 1;
        self.commit.written += 1;
    }

    /// The entry of a slot, which becomes what the medium may say from now on; sets `left` when a
    /// later commit has to write it again.
    fn list_slot(&mut self, slot: u32, left: &mut bool) -> Entry {
        let [fast, slow] = self.commit.covered;
        let it = self.slots.get_mut(slot);
        let durable = it.born <= fast || planted(Bug::ListBeforeData);
        let listed = it.listed && !it.dropping;
        match it.state() {
            State::Free | State::Filling | State::Taking => Entry::Nothing,
            State::Clean => Entry::Clean(it.page),
            State::Cleaned if it.cleaned <= slow || planted(Bug::DropUnflushed) => {
                it.dropping = it.listed;
                Entry::Clean(it.page)
            }
            State::Dirty | State::Cleaning | State::Cleaned if listed || durable => {
                *left |= it.state() == State::Cleaned;
                it.dropping = false;
                let page = it.page;
                self.set_listed(slot, true);
                Entry::Dirty(page)
            }
            State::Dirty | State::Cleaning | State::Cleaned => {
                *left = true;
                Entry::Nothing
            }
        }
    }

    /// What was written of the directory is durable.
    fn sealed(&mut self, out: &mut Out) -> bool {
        if (self.commit.cursor as usize) < self.commit.generations.len() {
            self.commit.go(Stage::List);
            self.commit.written = 0;
            return true;
        }
        self.commit_done(out)
    }

    /// Answers the members, and frees what was cleaned.
    fn commit_done(&mut self, out: &mut Out) -> bool {
        while self.commit.members != 0 {
            if out.room() < ROOM {
                self.again = true;
                return false;
            }
            let req = self.commit.members.trailing_zeros();
            self.commit.members &= !(1 << req);
            self.reply(req as u16, Ok(()), out);
        }
        self.commit.go(Stage::Idle);
        let mut cleaned = core::mem::take(&mut self.commit.cleaned);
        cleaned.retain(|&slot| {
            if core::mem::take(&mut self.slots.get_mut(slot).dropping) {
                self.set_listed(slot, false);
            }
            let it = self.slots.get_mut(slot);
            let (is_cleaned, listed) = (it.state() == State::Cleaned, it.listed);
            it.queued = is_cleaned && listed;
            if is_cleaned && !listed {
                self.let_go(slot);
            }
            is_cleaned && listed
        });
        self.commit.cleaned = cleaned;
        // A stop that came meanwhile waits for a commit of its own, and nothing else is under way.
        self.again |= self.life == Life::Stopping && !self.commit.closed;
        self.requests.wake();
        out.push(Output::Event(Event::CheckpointDone));
        false
    }
}
