//! The start, on blank devices or an existing volume, and the stop.
//!
//! Steps of opening a volume: flush both devices, so that everything read is durable; read both
//! roots and the ledger; read the directory; begin a life; share it. A stop writes the directory
//! with its clean pages, and then a root marked as clean.
//!
//! A life is numbered one higher than the last. It has begun when both devices hold it durably, in
//! an unclean root and in a ledger. It is shared when both also record that of each other.
//!
//! Invariants
//! - No request is served before the life is shared. From then on a device without it is an older
//!   copy and is refused.
//! - A shared life is durable on both devices, so a start that is cut off makes neither of them an
//!   older copy.

use alloc::vec::Vec;

use hostftl_core::{
    Cause, Command, Event, Gather, MetaBuf, Page, Piece, SECTORS_PER_BLOCK, Tally, Target,
};
use hostftl_format::page::Fault;
use hostftl_format::tier::{
    Entry, Lives, Root, emit_root, entry, ledger_at, parse_directory, parse_root, seal_directory,
};

use super::cache::{Cache, State};
use super::layout::{FAST, Layout, SLOW};
use super::ops::{Cx, Op, ROOM};
use crate::kit::Life;
use crate::kit::metabuf::into_meta;
use crate::plan::Mode;
use crate::planted::{Bug, planted};

/// Pages of the directory that one command reads or writes, each with both places.
const BATCH: u32 = 8;
/// Maximum number of commands in flight.
const BATCHES: usize = 4;

/// Bound on the numbers of roots and ledgers, which is never reached.
const MOST: u64 = 1 << 62;
/// Bound on the generation of a directory page on the medium; the remainder is for future writes.
const MOST_PAGES_WRITTEN: u64 = u32::MAX as u64 - (1 << 24);

/// A step of the start or stop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Both devices are flushed before anything is read.
    Settle,
    Roots,
    Read,
    Format,
    /// The formatted directory is flushed before the root is written.
    FormatFlush,
    Begin,
    BeginFlush,
    Share,
    ShareFlush,
    /// The clean root of a stop is written.
    Root,
    RootFlush,
    Done,
}

/// The start or stop in progress.
#[derive(Debug)]
pub(super) struct Start {
    layout: Layout,
    uuid: [u8; 16],
    step: Step,
    /// Commands of the step in flight, and whether the step has started.
    flying: u8,
    begun: bool,
    /// The first page of the directory that was not requested yet.
    next: u32,
    buffers: Vec<MetaBuf>,
    root: u64,
    clean: bool,
    /// Lives of the newest root and of the newest ledger.
    found: [Option<Lives>; 2],
    /// Lives that are written to the devices.
    lives: Lives,
    replayed: u64,
    dropped: u64,
}

impl Start {
    /// Creates the state before the first step.
    pub(super) fn new(layout: &Layout, uuid: [u8; 16], mode: Mode) -> Self {
        Start {
            layout: *layout,
            uuid,
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

    /// Returns the lives that are written to the devices.
    pub(super) fn lives(&self) -> Lives {
        self.lives
    }

    /// Changes to the next step.
    ///
    /// # Panics
    /// If the transition is not allowed, or commands of the current step are in flight.
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
        assert!(fits, "a start can't go from {:?} to {next:?}", self.step);
        assert_eq!(self.flying, 0, "a step of the start ends after its commands");
        self.step = next;
    }

    /// Advances the start as far as possible.
    pub(super) fn pump(&mut self, cache: &mut Cache, cx: &mut Cx) {
        while cx.life() == Life::Starting {
            if cx.outputs_left() < ROOM {
                return cx.wake();
            }
            if !core::mem::replace(&mut self.begun, true) {
                self.begin_step(cache, cx);
            }
            if matches!(self.step, Step::Read | Step::Format) {
                self.pump_directory(cache, cx);
            }
            if self.flying > 0 {
                return;
            }
            self.begun = false;
            let next = match self.step {
                Step::Settle => Step::Roots,
                Step::Roots => {
                    self.compare_lives(cx);
                    Step::Read
                }
                Step::Format => Step::FormatFlush,
                Step::Read | Step::FormatFlush => {
                    cache.end_restore();
                    self.lives.life = self.lives.life.saturating_add(1);
                    Step::Begin
                }
                Step::Begin => Step::BeginFlush,
                Step::BeginFlush => {
                    self.lives.shared = self.lives.life;
                    Step::Share
                }
                Step::Share => Step::ShareFlush,
                Step::ShareFlush => {
                    cx.become_ready(self.replayed, self.dropped);
                    Step::Done
                }
                Step::Root | Step::RootFlush | Step::Done => unreachable!("the start has ended"),
            };
            self.go(next);
        }
    }

    fn begin_step(&mut self, cache: &mut Cache, cx: &mut Cx) {
        match self.step {
            Step::Settle => {
                self.send(Command::Flush { device: FAST }, cx);
                self.send(Command::Flush { device: SLOW }, cx);
            }
            Step::Roots => {
                self.read(FAST, 0, 2, cx);
                self.read(SLOW, ledger_at(self.layout.slow, 0), 2, cx);
            }
            Step::FormatFlush => self.send(Command::Flush { device: FAST }, cx),
            Step::Begin | Step::Share => {
                self.write_root(false, cx);
                let ledger = cache.write_ledger(false, self.lives, cx);
                self.send(ledger, cx);
            }
            Step::BeginFlush | Step::ShareFlush => {
                self.send(Command::Flush { device: FAST }, cx);
                if !planted(Bug::LifeUnflushed) {
                    self.send(Command::Flush { device: SLOW }, cx);
                }
            }
            Step::Read | Step::Format => {}
            Step::Root | Step::RootFlush | Step::Done => unreachable!("the start has ended"),
        }
    }

    fn send(&mut self, command: Command, cx: &mut Cx) {
        cx.submit(Op::Own, command);
        self.flying += 1;
    }

    fn read(&mut self, device: u8, lba: u64, pages: u32, cx: &mut Cx) {
        let buf = self.buffers.pop().expect("each read has a buffer");
        let (into, cause) = (Target::Meta { buf, pages }, Cause::Checkpoint);
        self.send(Command::Read { device, lba, into, cause }, cx);
    }

    /// Writes a root into the place of the one before the last.
    fn write_root(&mut self, clean: bool, cx: &mut Cx) {
        self.root += 1;
        let Layout { page, slots, pages, .. } = self.layout;
        let root = Root { number: self.root, clean, page, slots, pages, lives: self.lives };
        let at = Layout::root_at(root.number);
        let mut buf = self.buffers.pop().expect("no command is in flight");
        emit_root(&mut buf.pages_mut()[0], &root, self.uuid, at);
        self.program(at, buf, 1, cx);
    }

    fn program(&mut self, lba: u64, buf: MetaBuf, pages: u32, cx: &mut Cx) {
        let sectors = pages * SECTORS_PER_BLOCK;
        let tally = Tally::single(Cause::Checkpoint, sectors);
        cx.counters().checkpoint_written += u64::from(sectors);
        let gather = Gather::from_iter([Piece::Meta { buf, pages }]);
        self.send(Command::Program { device: FAST, lba, gather, tally, placement: 0 }, cx);
    }

    /// Reads or writes more of the directory.
    fn pump_directory(&mut self, cache: &mut Cache, cx: &mut Cx) {
        while self.next < self.layout.directory
            && cx.outputs_left() >= ROOM
            && !self.buffers.is_empty()
        {
            let first = self.next;
            let count = BATCH.min(self.layout.directory - first);
            self.next += count;
            let lba = Layout::directory_at(first, 0);
            if self.step == Step::Read {
                self.read(FAST, lba, 2 * count, cx);
                continue;
            }
            let mut buf = self.buffers.pop().expect("the entry exists");
            for number in first..first + count {
                let pair = &mut buf.pages_mut()[2 * (number - first) as usize..][..2];
                pair.iter_mut().for_each(|page| page.0.fill(0));
                let at = Layout::directory_at(number, 1);
                seal_directory(&mut pair[1], number, 1, self.uuid, at);
                cache.directory().adopt(number, 1);
            }
            self.program(lba, buf, 2 * count, cx);
        }
    }

    /// Handles the completion of a command of the start or stop.
    pub(super) fn done(&mut self, command: Command, ok: bool, cache: &mut Cache, cx: &mut Cx) {
        assert!(self.flying > 0, "a command of the start completes once");
        self.flying -= 1;
        match command {
            Command::Read { device, lba, into: Target::Meta { buf, pages }, .. } => {
                let content = &buf.pages()[..pages as usize];
                match (device, self.step) {
                    (SLOW, _) if ok => {
                        self.found[usize::from(SLOW)] = cache.ledger().adopt(content);
                    }
                    (SLOW, _) => {}
                    _ if !ok => fail_volume("the directory on the fast device is unreadable", cx),
                    (_, Step::Roots) => self.take_roots(content, cx),
                    _ => self.take_directory(lba, content, cache, cx),
                }
                self.buffers.push(buf);
            }
            Command::Program { device: SLOW, .. } => cache.ledger().written(command),
            Command::Program { .. } => self.buffers.push(into_meta(command)),
            _ => {}
        }
    }

    fn take_roots(&mut self, content: &[Page], cx: &mut Cx) {
        let places = [0, 1].map(Layout::root_at);
        let read = |(page, at): (_, u64)| parse_root(page, self.uuid, at).ok();
        let roots = content.iter().zip(places).filter_map(read);
        let roots = roots.filter(|root| root.number < MOST);
        let Some(root) = roots.max_by_key(|root| root.number) else {
            return fail_volume("the fast device has no root of this volume", cx);
        };
        let Layout { page, slots, pages, .. } = self.layout;
        if (root.page, root.slots, root.pages) != (page, slots, pages) {
            return fail_volume("the fast device was formatted for other sizes", cx);
        }
        self.root = root.number;
        self.clean = root.clean;
        self.found[usize::from(FAST)] = Some(root.lives);
    }

    /// Compares the lives of both devices, and refuses the volume if one device is an older copy.
    fn compare_lives(&mut self, cx: &mut Cx) {
        let [Some(fast), Some(slow)] = self.found else {
            return fail_volume("the slow device has no complete ledger of this volume", cx);
        };
        for (device, it, other) in [(FAST, fast, slow), (SLOW, slow, fast)] {
            if it.is_older_than(&other) && !planted(Bug::LifeIgnored) {
                cx.report(Event::Older { device });
                return fail_volume("one device of the tier is an older copy", cx);
            }
        }
        let (life, shared) = (fast.life.max(slow.life), fast.shared.max(slow.shared));
        self.lives = Lives { life, shared };
    }

    /// Adopts pages of the directory, from the one at sector `lba` on.
    fn take_directory(&mut self, lba: u64, content: &[Page], cache: &mut Cache, cx: &mut Cx) {
        let first = (0..self.layout.directory).step_by(BATCH as usize);
        let mut first = first.filter(|&number| Layout::directory_at(number, 0) == lba);
        let first = first.next().expect("the command was sent");
        for (number, pair) in (first..).zip(content.chunks_exact(2)) {
            let read = |place: usize| {
                let at = Layout::directory_at(number, place as u64);
                let read = parse_directory(&pair[place], number, self.uuid, at);
                let right = |it: &u64| *it as usize % 2 == place && *it < MOST_PAGES_WRITTEN;
                read.map(|generation| Some(generation).filter(right))
            };
            let found = [read(0), read(1)];
            let torn = found.iter().filter(|read| **read == Err(Fault::Damaged)).count();
            self.dropped += torn as u64;
            let newest = (0..2).filter_map(|place| Some((found[place].ok()??, place))).max();
            let Some((generation, place)) = newest else {
                return fail_volume("a directory page is damaged", cx);
            };
            cache.directory().adopt(number, generation as u32);
            for (index, slot) in self.layout.page_slots(number).enumerate() {
                let entry = entry(&pair[place], index, self.layout.pages);
                if !self.take_entry(slot, entry, cache) {
                    return fail_volume("the directory on the fast device is invalid", cx);
                }
            }
        }
    }

    /// Adopts an entry of the directory. Returns `false` if it is impossible.
    fn take_entry(&mut self, slot: u32, entry: Entry, cache: &mut Cache) -> bool {
        let (page, state) = match entry {
            Entry::Dirty(page) => (page, State::Dirty),
            Entry::Clean(page) if self.clean || planted(Bug::TrustClean) => (page, State::Clean),
            Entry::Clean(_) => {
                cache.pass_over(slot);
                return true;
            }
            Entry::Nothing => return true,
        };
        if page >= self.layout.pages || cache.find(page).is_some() {
            return false;
        }
        cache.restore(slot, page, state);
        self.replayed += u64::from(state == State::Dirty && !self.clean);
        true
    }

    /// Advances the stop as far as possible, once everything is durable.
    pub(super) fn pump_stop(&mut self, cx: &mut Cx) {
        if cx.outputs_left() < ROOM {
            return cx.wake();
        }
        if self.flying > 0 {
            return;
        }
        match self.step {
            Step::Done => {
                self.go(Step::Root);
                self.write_root(true, cx);
            }
            Step::Root => {
                self.go(Step::RootFlush);
                self.send(Command::Flush { device: FAST }, cx);
            }
            _ => cx.stopped(),
        }
    }
}

/// Refuses to open the volume, unless that was reported already.
fn fail_volume(why: &'static str, cx: &mut Cx) {
    if cx.life() != Life::Over {
        cx.fail_volume(why);
    }
}
