//! Commits: flushes of both devices and writes of the directory of dirty slots.
//!
//! Invariants
//! - Only one commit is in progress at a time, so a page of the directory is written only after its
//!   previous version is durable.
//! - A commit flushes both devices first. Changes that it adds to or removes from the directory
//!   were complete when it started.

use alloc::vec::Vec;

use hostftl_core::{Cause, Command, Event, Gather, Piece, SECTORS_PER_BLOCK, Tally};
use hostftl_format::tier::Lives;

use super::cache::Cache;
use super::front::Front;
use super::layout::{FAST, SLOW};
use super::ops::{Cx, Op, ROOM};
use crate::kit::Life;
use crate::kit::metabuf::{MetaHome, into_meta};

/// Maximum number of directory pages between two flushes.
const ROUND: usize = 32;
/// Maximum number of directory pages in flight.
const BUFFERS: usize = 8;

/// The stage of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Idle,
    /// Both devices are being flushed.
    Flush,
    /// The directory is being written.
    List,
    /// The written pages are being flushed.
    Seal,
}

/// The commit in progress.
#[derive(Debug)]
pub(super) struct Commit {
    stage: Stage,
    flying: u8,
    /// Directory pages written since their last flush, and whether the ledger was.
    written: usize,
    ledger: bool,
    buffers: Vec<MetaHome>,
    /// Whether the final commit, which also lists clean slots, has started.
    closed: bool,
}

impl Commit {
    /// Creates the idle state.
    pub(super) fn new() -> Self {
        Commit {
            stage: Stage::Idle,
            flying: 0,
            written: 0,
            ledger: false,
            buffers: (0..BUFFERS).map(|_| MetaHome::new(1)).collect(),
            closed: false,
        }
    }

    /// Changes to the next stage.
    ///
    /// # Panics
    /// If the transition is not allowed, or commands of the current stage are in flight.
    fn go(&mut self, next: Stage) {
        let fits = matches!(
            (self.stage, next),
            (Stage::Idle, Stage::Flush)
                | (Stage::Flush, Stage::List)
                | (Stage::List, Stage::Seal | Stage::Idle)
                | (Stage::Seal, Stage::List | Stage::Idle)
        );
        assert!(fits, "a commit can't go from {:?} to {next:?}", self.stage);
        assert_eq!(self.flying, 0, "a stage of a commit ends after its commands");
        self.stage = next;
    }

    /// Returns whether the final commit is complete: everything is durable, clean slots are listed,
    /// and nothing changes any more.
    pub(super) fn is_closed(&self) -> bool {
        self.closed && self.stage == Stage::Idle
    }

    /// Handles the completion of a command of the commit.
    pub(super) fn done(&mut self, op: Op, command: Command, ok: bool, cache: &mut Cache, cx: &Cx) {
        assert!(self.flying > 0, "a command of a commit completes once");
        self.flying -= 1;
        match op {
            Op::Flush { device } => {
                if ok && self.stage == Stage::Flush {
                    cache.flushes().cover(device);
                }
            }
            Op::Directory { buf } => {
                self.buffers[usize::from(buf)].take_back(into_meta(command));
                assert!(ok || !cx.is_good(), "a failed directory write stops all writes");
            }
            Op::Ledger => cache.ledger().written(command),
            other => unreachable!("{other:?} is not part of a commit"),
        }
    }

    /// Advances the commit as far as possible. `moves_idle` states whether no page is moving
    /// between the devices; `lives` goes into the ledger.
    pub(super) fn pump(
        &mut self,
        front: &mut Front,
        cache: &mut Cache,
        (moves_idle, lives): (bool, Lives),
        cx: &mut Cx,
    ) {
        loop {
            if cx.outputs_left() < ROOM {
                return cx.wake();
            }
            let moved = match self.stage {
                Stage::Idle => self.begin(front, cache, moves_idle, cx),
                Stage::Flush if self.flying == 0 => {
                    self.go(Stage::List);
                    self.written = 0;
                    true
                }
                Stage::List => self.list(front, cache, lives, cx),
                Stage::Seal if self.flying == 0 => self.sealed(front, cache, cx),
                Stage::Flush | Stage::Seal => false,
            };
            if !moved {
                return;
            }
        }
    }

    /// Starts a commit if a request or a stop waits for one, or enough slots were cleaned. Returns
    /// whether one started.
    fn begin(
        &mut self,
        front: &mut Front,
        cache: &mut Cache,
        moves_idle: bool,
        cx: &mut Cx,
    ) -> bool {
        let stops = cx.life() == Life::Stopping && moves_idle && !self.closed;
        if self.closed || (!front.is_any_waiting() && !cache.is_worth_commit() && !stops) {
            return false;
        }
        let members = front.begin_commit();
        self.go(Stage::Flush);
        self.closed = stops;
        cache.begin_commit();
        if members > 0 && cache.flushes().is_any_pending() {
            cx.counters().flushes_pending += u64::from(members);
        }
        for device in [FAST, SLOW] {
            if cache.flushes().begin(device) {
                self.send_flush(device, cx);
            }
        }
        true
    }

    fn send_flush(&mut self, device: u8, cx: &mut Cx) {
        self.flying += 1;
        cx.submit(Op::Flush { device }, Command::Flush { device });
    }

    /// Writes the next page of the directory, or flushes the pages written so far.
    fn list(&mut self, front: &mut Front, cache: &mut Cache, lives: Lives, cx: &mut Cx) -> bool {
        let closing = self.closed && cx.life() == Life::Stopping;
        if self.written < ROUND {
            let Some(buf) = self.buffers.iter().position(MetaHome::is_home) else {
                return false;
            };
            if let Some(page) = cache.directory().next(closing) {
                self.write_directory(page, buf, cache, cx);
                return true;
            }
        }
        // The regions of this round must be named on the slow device before a flush is
        // acknowledged.
        if !self.ledger && cache.ledger().is_due(closing) {
            self.ledger = true;
            self.flying += 1;
            let program = cache.write_ledger(closing, lives, cx);
            cx.submit(Op::Ledger, program);
        }
        if self.flying > 0 {
            return false;
        }
        if self.written == 0 && !self.ledger {
            return self.end(front, cache, cx);
        }
        self.go(Stage::Seal);
        self.seal(FAST, cache, cx);
        if core::mem::take(&mut self.ledger) {
            self.seal(SLOW, cache, cx);
        }
        true
    }

    fn seal(&mut self, device: u8, cache: &mut Cache, cx: &mut Cx) {
        cache.flushes().begin_seal(device);
        self.send_flush(device, cx);
    }

    fn write_directory(&mut self, page: u32, buf: usize, cache: &mut Cache, cx: &mut Cx) {
        let mut meta = self.buffers[buf].lend();
        let lba = cache.list(page, &mut meta.pages_mut()[0]);
        let gather = Gather::from_iter([Piece::Meta { buf: meta, pages: 1 }]);
        let tally = Tally::single(Cause::Map, SECTORS_PER_BLOCK);
        cx.counters().map_written += u64::from(SECTORS_PER_BLOCK);
        let program = Command::Program { device: FAST, lba, gather, tally, placement: 0 };
        cx.submit(Op::Directory { buf: buf as u8 }, program);
        self.flying += 1;
        self.written += 1;
    }

    /// Continues with further directory pages after a flush, or ends the commit.
    fn sealed(&mut self, front: &mut Front, cache: &mut Cache, cx: &mut Cx) -> bool {
        if !cache.directory().is_at_end() {
            self.go(Stage::List);
            self.written = 0;
            return true;
        }
        self.end(front, cache, cx)
    }

    /// Acknowledges the members and frees cleaned slots.
    fn end(&mut self, front: &mut Front, cache: &mut Cache, cx: &mut Cx) -> bool {
        if !front.answer_members(cx) {
            return false;
        }
        self.go(Stage::Idle);
        cache.end_commit();
        // A stop that arrived meanwhile needs another commit, and no command would wake the layer.
        if cx.life() == Life::Stopping && !self.closed {
            cx.wake();
        }
        front.wake();
        cx.report(Event::CheckpointDone);
        false
    }
}
