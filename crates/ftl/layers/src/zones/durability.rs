//! What is durable: the numbers of rows, up to which they are written and flushed, up to which
//! somebody waits for them; the flush of the device, and the requests that wait for it.
//!
//! Invariants
//! - All rows up to `durable` are durable: a flush of the device that began when they were written
//!   is over.
//! - What somebody waits for is never taken back.
//! - A flush or a FUA request that is complete waits until the last row that had anything of the
//!   host when it came is durable, and so are all rows before it; marks never go back.

use hostftl_core::{Command, Request};

use super::ops::{Cx, Op};
use crate::kit::requests::Kind;
use crate::kit::watermark::Watermark;
use crate::planted::{Bug, planted};

#[derive(Debug)]
pub(super) struct Durability {
    /// Rows that were opened, and up to which they are written.
    rows: Watermark,
    /// The youngest row in which something of the host's was published.
    of_host: u64,
    /// All rows up to this one are durable.
    durable: u64,
    /// What `durable` will be after the flush under way.
    flushing: Option<u64>,
    /// Rows up to this one must become durable soon.
    wanted: u64,
}

impl Durability {
    /// No row yet, of so many that can be in memory.
    pub(super) fn new(rows: usize) -> Self {
        let rows = Watermark::new(4 * rows);
        Durability { rows, of_host: 0, durable: 0, flushing: None, wanted: 0 }
    }

    /// Recovery found rows up to this one: they are durable.
    pub(super) fn resume(&mut self, row: u64) {
        self.rows.resume(row);
        self.durable = row;
    }

    /// The last row that was opened.
    pub(super) fn newest(&self) -> u64 {
        self.rows.begun()
    }

    /// Whether so many rows overtook one that is not written that no more may be opened.
    pub(super) fn is_full(&self) -> bool {
        self.rows.is_full()
    }

    /// A row is opened: its number.
    pub(super) fn open(&mut self) -> u64 {
        self.rows.begin()
    }

    /// A row is written.
    pub(super) fn written(&mut self, row: u64) {
        self.rows.end(row);
    }

    /// Something of the host's was published in a row.
    pub(super) fn note_host(&mut self, row: u64) {
        self.of_host = self.of_host.max(row);
    }

    /// The row that must be durable so that all is that the host was told.
    fn host_mark(&self) -> u64 {
        self.of_host
    }

    /// Whether all rows up to this one are durable.
    pub(super) fn is_durable(&self, row: u64) -> bool {
        row <= self.durable
    }

    /// Whether somebody waits for a row.
    pub(super) fn is_wanted(&self, row: u64) -> bool {
        row <= self.wanted
    }

    /// Asks that all rows up to this one become durable; true when that is new.
    pub(super) fn want(&mut self, row: u64) -> bool {
        let is_new = row > self.wanted;
        self.wanted = self.wanted.max(row);
        is_new
    }

    /// Whether the device is to be flushed now: somebody waits, and all is written that the flush
    /// should cover.
    fn is_flush_due(&self) -> bool {
        let waits = self.flushing.is_none() && self.wanted > self.durable;
        waits && (self.rows.complete() >= self.wanted || planted(Bug::ZonesFlushBeforeRows))
    }

    /// A flush of the device begins.
    ///
    /// # Panics
    /// When one is under way.
    fn begin_flush(&mut self) {
        assert!(self.flushing.is_none(), "one flush at a time");
        let early = planted(Bug::ZonesFlushBeforeRows);
        self.flushing = Some(if early { self.wanted } else { self.rows.complete() });
        if planted(Bug::ZonesEarlyFlushReply) {
            self.durable = self.rows.complete();
        }
    }

    /// The flush is over, well or not.
    ///
    /// # Panics
    /// When none is under way.
    fn end_flush(&mut self, ok: bool) {
        let row = self.flushing.take().expect("a flush is under way");
        if ok {
            self.durable = self.durable.max(row);
        }
        let early = planted(Bug::ZonesFlushBeforeRows);
        assert!(self.durable <= self.rows.complete() || early, "what is durable was written");
    }
}

impl Durability {
    /// Takes a request in; a flush is complete at once, and may have to wait.
    pub(super) fn take_in(&mut self, request: Request, cx: &mut Cx) {
        let Some(req) = cx.take_request(request, !self.is_durable(self.host_mark())) else {
            return;
        };
        if cx.request(req).kind == Kind::Flush {
            self.complete(req, cx);
        }
    }

    /// Answers a request that has nothing left to do, or lets it wait to be durable.
    fn complete(&mut self, req: u16, cx: &mut Cx) {
        let mark = self.host_mark();
        if cx.end_request(req, mark, self.is_durable(mark)) {
            self.want(mark);
        }
    }

    /// A part of a request is over, or nothing of it is left to begin: it may be complete.
    pub(super) fn complete_if_over(&mut self, req: u16, cx: &mut Cx) {
        if cx.requests().is_complete(req) {
            self.complete(req, cx);
        }
    }

    /// Flushes the device when that is due, and answers what waits for rows that are durable.
    pub(super) fn run(&mut self, cx: &mut Cx) -> bool {
        let mut moved = self.is_flush_due() && cx.command_room() > 0;
        if moved {
            self.begin_flush();
            cx.submit(Op::Flush, Command::Flush { device: 0 });
        }
        while cx.room() > 4 && cx.requests().waits_for().is_some_and(|it| self.is_durable(it)) {
            moved |= cx.answer_waiting(Ok(()));
        }
        moved
    }

    /// The device has flushed.
    pub(super) fn flush_done(&mut self, cx: &mut Cx) {
        self.end_flush(cx.is_good());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_waits_for_the_rows_and_covers_those_that_were_written_when_it_began() {
        let mut it = Durability::new(2);
        it.resume(7);
        assert_eq!((it.open(), it.open(), it.newest()), (8, 9, 9));
        it.note_host(8);
        assert!(it.want(it.host_mark()) && !it.want(8), "asked once");
        assert!(it.is_wanted(8) && !it.is_wanted(9) && !it.is_flush_due());
        it.written(8);
        assert!(it.is_flush_due());
        it.begin_flush();
        it.written(9);
        it.end_flush(true);
        assert!(it.is_durable(8) && !it.is_durable(9) && !it.is_flush_due());
    }

    #[test]
    fn a_flush_that_failed_covers_nothing() {
        let mut it = Durability::new(2);
        let row = it.open();
        it.want(row);
        it.written(row);
        it.begin_flush();
        it.end_flush(false);
        assert!(!it.is_durable(row));
    }
}
