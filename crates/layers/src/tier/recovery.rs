//! The start, on blank devices or on what they hold, and the stop.
//!
//! Steps of an opening: flush both devices, so that what is read is durable; read both roots and
//! the ledger; read the directory; begin a life; share it. A stop writes the directory with its
//! clean pages too, and then a root that says "stopped".
//!
//! A life has the next number. It is begun when both devices have it durably, in a root that says
//! "not stopped" and in a ledger, and shared when both also know that of each other.
//!
//! Invariants
//! - Nothing is served before the life is shared: a device without it is an older copy then, and
//!   refused.
//! - What is shared is durable on both devices, so a start that is cut off makes neither an older
//!   one.

use alloc::vec::Vec;

use hostftl_core::{
    Cause, Command, Event, Gather, MetaBuf, Nanos, Out, Output, Piece, SECTORS_PER_BLOCK, Tally,
    Target,
};
use hostftl_format::page::Fault;
use hostftl_format::tier::{
    Entry, Lives, Root, emit_root, entry, ledger_at, parse_directory, parse_root, seal_directory,
};

use super::layout::{FAST, Layout, SLOW};
use super::ops::Op;
use super::slots::State;
use super::{ROOM, Tier};
use crate::config::Mode;
use crate::kit::Life;
use crate::planted::{Bug, planted};

/// Pages of the directory that one command reads or writes, each with both places.
const BATCH: u32 = 8;
/// Commands at once.
const BATCHES: usize = 4;

/// No count of roots or ledgers ever gets there.
const MOST: u64 = 1 << 62;
/// Generations of a page of the directory; some are left for those to come.
const MOST_PAGES_WRITTEN: u64 = u32::MAX as u64 - (1 << 24);

/// What is being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Both devices are flushed before anything is read.
    Settle,
    Roots,
    Read,
    Format,
    /// What was formatted is flushed before the root.
    FormatFlush,
    Begin,
    BeginFlush,
    Share,
    ShareFlush,
    /// The root of a stop.
    Root,
    RootFlush,
    Done,
}

/// See the module text.
#[derive(Debug)]
pub struct Start {
    step: Step,
    /// Commands of the step in flight, and whether it was begun.
    flying: u8,
    begun: bool,
    /// The first page of the directory that was not asked for yet.
    next: u32,
    buffers: Vec<MetaBuf>,
    root: u64,
    clean: bool,
    /// The lives of the newest root, and of the newest ledger.
    found: [Option<Lives>; 2],
    /// What the devices are told of starts.
    lives: Lives,
    replayed: u64,
    dropped: u64,
}

impl Start {
    /// Nothing was done yet.
    pub fn new(mode: Mode) -> Self {
        Start {
            step: match mode {
                Mode::Format => Step::Format,
                Mode::Open => Step::Settle,
            },
            flying: 0,
            begun: false,
            next: 0,
            buffers: (0..BATCHES).map(|_| MetaBuf::new(2 * BATCH as usize)).collect(),
            root: 0,
            clean: false,
            found: [None; 2],
            lives: Lives::default(),
            replayed: 0,
            dropped: 0,
        }
    }
}

impl Start {
    /// What the devices are told of starts.
    pub fn lives(&self) -> Lives {
        self.lives
    }

    /// Goes on to the next step.
    ///
    /// # Panics
    /// When that is no next step, or when commands of this one are not over.
    fn go(&mut self, next: Step) {
        let fits = matches!(
            (self.step, next),
            (Step::Settle, Step::Roots)
                | (Step::Roots, Step::Read)
                | (Step::Format, Step::FormatFlush)
                | (Step::Read | Step::FormatFlush, Step::Begin)
                | (Step::Begin, Step::BeginFlush)
                | (Step::BeginFlush, Step::Share)
                | (Step::Share, Step::ShareFlush)
                | (Step::ShareFlush, Step::Done)
                | (Step::Done, Step::Root)
                | (Step::Root, Step::RootFlush)
        );
        assert!(fits, "a start in {:?} can't be in {next:?} next", self.step);
        assert_eq!(self.flying, 0, "a step of the start ends when its commands are over");
        self.step = next;
    }
}

impl Tier {
    /// Takes the start as far as it goes.
    pub fn pump_start(&mut self, now: Nanos, out: &mut Out) {
        while self.life == Life::Starting {
            if out.room() < ROOM {
                self.again = true;
                return;
            }
            if !core::mem::replace(&mut self.start.begun, true) {
                self.begin_step(now, out);
            }
            if matches!(self.start.step, Step::Read | Step::Format) {
                self.pump_directory(now, out);
            }
            if self.start.flying > 0 {
                return;
            }
            self.start.begun = false;
            let next = match self.start.step {
                Step::Settle => Step::Roots,
                Step::Roots => {
                    self.compare_lives(out);
                    Step::Read
                }
                Step::Format => Step::FormatFlush,
                Step::Read | Step::FormatFlush => {
                    self.slots.recount();
                    self.start.lives.life = self.start.lives.life.saturating_add(1);
                    Step::Begin
                }
                Step::Begin => Step::BeginFlush,
                Step::BeginFlush => {
                    self.start.lives.shared = self.start.lives.life;
                    Step::Share
                }
                Step::Share => Step::ShareFlush,
                Step::ShareFlush => {
                    self.life.go(Life::Running);
                    let (replayed, dropped) = (self.start.replayed, self.start.dropped);
                    out.push(Output::Event(Event::Ready { replayed, dropped }));
                    Step::Done
                }
                Step::Root | Step::RootFlush | Step::Done => unreachable!("the start is over"),
            };
            self.start.go(next);
        }
    }

    fn begin_step(&mut self, now: Nanos, out: &mut Out) {
        match self.start.step {
            Step::Settle => {
                self.send_own(now, Command::Flush { device: FAST }, out);
                self.send_own(now, Command::Flush { device: SLOW }, out);
            }
            Step::Roots => {
                let buf = self.start.buffers.pop().expect("nothing is in flight");
                let into = Target::Meta { buf, pages: 2 };
                let cause = Cause::Checkpoint;
                self.send_own(now, Command::Read { device: FAST, lba: 0, into, cause }, out);
                let buf = self.start.buffers.pop().expect("two are never in flight");
                let (lba, into) = (ledger_at(self.layout.slow, 0), Target::Meta { buf, pages: 2 });
                self.send_own(now, Command::Read { device: SLOW, lba, into, cause }, out);
            }
            Step::FormatFlush | Step::RootFlush => {
                self.send_own(now, Command::Flush { device: FAST }, out);
            }
            Step::Begin | Step::Share => {
                self.write_root(now, false, out);
                let ledger = self.next_ledger(false);
                self.send_own(now, ledger, out);
            }
            Step::BeginFlush | Step::ShareFlush => {
                self.send_own(now, Command::Flush { device: FAST }, out);
                if !planted(Bug::LifeUnflushed) {
                    self.send_own(now, Command::Flush { device: SLOW }, out);
                }
            }
            Step::Root => self.write_root(now, true, out),
            Step::Read | Step::Format | Step::Done => {}
        }
    }

    fn send_own(&mut self, now: Nanos, command: Command, out: &mut Out) {
        let device = command.device().expect("a start only uses devices");
        let token = self.ops.begin(now, device, Op::Own);
        out.push(Output::Submit(token, command));
        self.start.flying += 1;
    }

    /// Writes a root, into the place of the one before the last.
    fn write_root(&mut self, now: Nanos, clean: bool, out: &mut Out) {
        self.start.root += 1;
        let Layout { page, slots, pages, .. } = self.layout;
        let lives = self.start.lives;
        let root = Root { number: self.start.root, clean, page, slots, pages, lives };
        let at = Layout::root_at(root.number);
        let mut buf = self.start.buffers.pop().expect("nothing is in flight");
        emit_root(&mut buf.pages_mut()[0], &root, self.uuid, at);
        self.program_own(now, at, buf, 1, out);
    }

    fn program_own(&mut self, now: Nanos, lba: u64, buf: MetaBuf, pages: u32, out: &mut Out) {
        let sectors = pages * SECTORS_PER_BLOCK;
        let tally = Tally::of(Cause::Checkpoint, sectors);
        self.counters.checkpoint_written += u64::from(sectors);
        let gather = Gather::from_iter([Piece::Meta { buf, pages }]);
        let command = Command::Program { device: FAST, lba, gather, tally, placement: 0 };
        self.send_own(now, command, out);
    }

    /// Reads or writes more of the directory.
    fn pump_directory(&mut self, now: Nanos, out: &mut Out) {
        while self.start.next < self.layout.directory && out.room() >= ROOM {
            let Some(mut buf) = self.start.buffers.pop() else { return };
            let first = self.start.next;
            let count = BATCH.min(self.layout.directory - first);
            self.start.next += count;
            let lba = Layout::directory_at(first, 0);
            if self.start.step == Step::Read {
                let into = Target::Meta { buf, pages: 2 * count };
                let cause = Cause::Checkpoint;
                self.send_own(now, Command::Read { device: FAST, lba, into, cause }, out);
                continue;
            }
            for number in first..first + count {
                let pair = &mut buf.pages_mut()[2 * (number - first) as usize..][..2];
                pair.iter_mut().for_each(|page| page.0.fill(0));
                let at = Layout::directory_at(number, 1);
                seal_directory(&mut pair[1], number, 1, self.uuid, at);
                self.commit.generations[number as usize] = 1;
            }
            self.program_own(now, lba, buf, 2 * count, out);
        }
    }

    /// A command of the start or the stop is over.
    pub fn own_done(&mut self, command: Command, ok: bool, out: &mut Out) {
        self.start.flying -= 1;
        match command {
            Command::Read { device: SLOW, into: Target::Meta { buf, .. }, .. } => {
                if ok {
                    let pages = &buf.pages()[..2];
                    let lives = self.ledger.adopt(pages, self.layout.slow, self.uuid);
                    self.start.found[usize::from(SLOW)] = lives;
                }
                self.start.buffers.push(buf);
            }
            Command::Read { lba, into: Target::Meta { buf, pages }, .. } => {
                if !ok {
                    self.give_up("the directory of the fast device can't be read", out);
                } else if self.start.step == Step::Roots {
                    self.take_roots(&buf, out);
                } else {
                    self.take_directory(lba, &buf, pages, out);
                }
                self.start.buffers.push(buf);
            }
            Command::Program { device: SLOW, .. } => self.ledger_written(command),
            Command::Program { gather, .. } => {
                for piece in gather {
                    if let Piece::Meta { buf, .. } = piece {
                        self.start.buffers.push(buf);
                    }
                }
            }
            _ => {}
        }
    }

    fn take_roots(&mut self, buf: &MetaBuf, out: &mut Out) {
        let places = [0, 1].map(Layout::root_at);
        let read = |(page, at): (_, u64)| parse_root(page, self.uuid, at).ok();
        let roots = buf.pages().iter().zip(places).filter_map(read);
        let roots = roots.filter(|root| root.number < MOST);
        let Some(root) = roots.max_by_key(|root| root.number) else {
            return self.give_up("the fast device has no root of this volume", out);
        };
        let Layout { page, slots, pages, .. } = self.layout;
        if (root.page, root.slots, root.pages) != (page, slots, pages) {
            return self.give_up("the fast device was made for other sizes", out);
        }
        self.start.root = root.number;
        self.start.clean = root.clean;
        self.start.found[usize::from(FAST)] = Some(root.lives);
    }

    /// Whether both devices are those of the last start, and not older copies of them.
    fn compare_lives(&mut self, out: &mut Out) {
        let [Some(fast), Some(slow)] = self.start.found else {
            return self.give_up("the slow device has no whole ledger of this volume", out);
        };
        for (device, it, other) in [(FAST, fast, slow), (SLOW, slow, fast)] {
            if it.is_older_than(&other) && !planted(Bug::LifeIgnored) {
                out.push(Output::Event(Event::Older { device }));
                return self.give_up("one device of the tier is an older copy", out);
            }
        }
        let (life, shared) = (fast.life.max(slow.life), fast.shared.max(slow.shared));
        self.start.lives = Lives { life, shared };
    }

    fn take_directory(&mut self, lba: u64, buf: &MetaBuf, pages: u32, out: &mut Out) {
        let first = (0..self.layout.directory).step_by(BATCH as usize);
        let mut first = first.filter(|&number| Layout::directory_at(number, 0) == lba);
        let first = first.next().expect("it was asked for");
        for (number, pair) in (first..).zip(buf.pages()[..pages as usize].chunks_exact(2)) {
            let read = |place: usize| {
                let at = Layout::directory_at(number, place as u64);
                let read = parse_directory(&pair[place], number, self.uuid, at);
                let right = |it: &u64| *it as usize % 2 == place && *it < MOST_PAGES_WRITTEN;
                read.map(|generation| Some(generation).filter(right))
            };
            let found = [read(0), read(1)];
            let torn = found.iter().filter(|read| **read == Err(Fault::Damaged)).count();
            self.start.dropped += torn as u64;
            let newest = (0..2).filter_map(|place| Some((found[place].ok()??, place))).max();
            let Some((generation, place)) = newest else {
                return self.give_up("a page of the directory is damaged", out);
            };
            self.commit.generations[number as usize] = generation as u32;
            for (index, slot) in self.layout.slots_of(number).enumerate() {
                let (page, state) = match entry(&pair[place], index) {
                    Entry::Dirty(page) => (page, State::Dirty),
                    Entry::Clean(page) if self.start.clean || planted(Bug::TrustClean) => {
                        (page, State::Clean)
                    }
                    Entry::Clean(_) => {
                        // The next clean stop must not leave it as it is.
                        self.note(slot);
                        continue;
                    }
                    Entry::Nothing => continue,
                };
                if page >= self.layout.pages || self.slots.find(page).is_some() {
                    return self.give_up("the directory of the fast device makes no sense", out);
                }
                self.slots.restore(slot, page, state);
                if state == State::Dirty {
                    self.set_listed(slot, true);
                    self.start.replayed += u64::from(!self.start.clean);
                }
            }
        }
    }

    /// Takes the stop as far as it goes.
    pub fn pump_stop(&mut self, now: Nanos, out: &mut Out) {
        if out.room() < ROOM {
            self.again = true;
            return;
        }
        if self.is_broken() {
            self.life.go(Life::Over);
            return out.push(Output::Event(Event::Stopped));
        }
        if !self.commit.closed || self.commit.is_busy() || self.start.flying > 0 {
            return;
        }
        match self.start.step {
            Step::Done => {
                self.start.go(Step::Root);
                self.write_root(now, true, out);
            }
            Step::Root => {
                self.start.go(Step::RootFlush);
                self.send_own(now, Command::Flush { device: FAST }, out);
            }
            _ => {
                self.life.go(Life::Over);
                out.push(Output::Event(Event::Stopped));
            }
        }
    }
}
