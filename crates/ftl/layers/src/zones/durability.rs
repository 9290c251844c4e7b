//! Durability of rows: the rows that are written, flushed and required to be durable, the flush of
//! the device, and the requests that wait for it.
//!
//! Invariants
//! - All rows up to `durable` are durable: a device flush that began after they were written has
//!   completed.
//! - A durability request is never withdrawn.
//! - A flush or FUA request waits until the last row with data of the host at the time of its
//!   completion, and all rows before it, are durable. Marks never decrease.

use hostftl_core::{Command, Request};

use super::ops::{Cx, Op};
use crate::kit::requests::Kind;
use crate::kit::watermark::Watermark;
use crate::planted::{Bug, planted};

/// Progress of the rows, and the flush in flight.
#[derive(Debug)]
pub(super) struct Durability {
    /// Rows that were opened, and the row up to which they are written.
    rows: Watermark,
    /// Youngest row in which data of the host was published.
    of_host: u64,
    /// All rows up to this one are durable.
    durable: u64,
    /// Value of `durable` after the flush in flight.
    flushing: Option<u64>,
    /// Rows up to this one must become durable soon.
    wanted: u64,
}

impl Durability {
    /// Creates the state without rows. At most `rows` can be in memory.
    pub(super) fn new(rows: usize) -> Self {
        // Rows may overtake an unwritten one; `is_full` stops new rows when the window is
        // exhausted.
        let rows = Watermark::new(4 * rows);
        Durability { rows, of_host: 0, durable: 0, flushing: None, wanted: 0 }
    }

    /// Continues after the last row that recovery found; all rows are durable.
    pub(super) fn resume(&mut self, row: u64) {
        self.rows.resume(row);
        self.durable = row;
    }

    /// Returns the last row that was opened.
    pub(super) fn newest(&self) -> u64 {
        self.rows.begun()
    }

    /// Returns whether too many rows have overtaken an unwritten one to open another.
    pub(super) fn is_full(&self) -> bool {
        self.rows.is_full()
    }

    /// Opens a row, and returns its number.
    pub(super) fn open(&mut self) -> u64 {
        self.rows.begin()
    }

    /// Notes that a row is written.
    pub(super) fn written(&mut self, row: u64) {
        self.rows.end(row);
    }

    /// Notes that data of the host was published in a row.
    pub(super) fn note_host(&mut self, row: u64) {
        self.of_host = self.of_host.max(row);
    }

    /// Returns the highest row that must be durable to cover every acknowledged write.
    fn host_mark(&self) -> u64 {
        self.of_host
    }

    /// Returns whether all rows up to this one are durable.
    pub(super) fn is_durable(&self, row: u64) -> bool {
        row <= self.durable
    }

    /// Returns whether a row is required to be durable.
    pub(super) fn is_wanted(&self, row: u64) -> bool {
        row <= self.wanted
    }

    /// Requests that all rows up to this one become durable. Returns whether the request is new.
    pub(super) fn want(&mut self, row: u64) -> bool {
        let is_new = row > self.wanted;
        self.wanted = self.wanted.max(row);
        is_new
    }

    /// Returns whether the device should be flushed now: a row is required, and all rows that the
    /// flush should cover are written.
    fn is_flush_due(&self) -> bool {
        let waits = self.flushing.is_none() && self.wanted > self.durable;
        waits && (self.rows.complete() >= self.wanted || planted(Bug::ZonesFlushBeforeRows))
    }

    /// Begins a flush of the device.
    ///
    /// # Panics
    /// If one is in flight.
    fn begin_flush(&mut self) {
        assert!(self.flushing.is_none(), "one flush at a time");
        let early = planted(Bug::ZonesFlushBeforeRows);
        // Rows written during the flush may miss it.
        self.flushing = Some(if early { self.wanted } else { self.rows.complete() });
        if planted(Bug::ZonesEarlyFlushReply) {
            self.durable = self.rows.complete();
        }
    }

    /// Ends the flush.
    ///
    /// # Panics
    /// If none is in flight.
    fn end_flush(&mut self, ok: bool) {
        let row = self.flushing.take().expect("a flush is in progress");
        if ok {
            // A planted early reply may have raised it further.
            self.durable = self.durable.max(row);
        }
        let early = planted(Bug::ZonesFlushBeforeRows);
        assert!(self.durable <= self.rows.complete() || early, "a durable strip was written");
    }
}

impl Durability {
    /// Accepts a request. A flush is complete at once, and may have to wait.
    pub(super) fn take_in(&mut self, request: Request, cx: &mut Cx) {
        let Some(req) = cx.take_request(request, !self.is_durable(self.host_mark())) else {
            return;
        };
        // A flush has no parts that could complete it later.
        if cx.request(req).kind == Kind::Flush {
            self.complete(req, cx);
        }
    }

    /// Answers a completed request, or queues it until it is durable.
    fn complete(&mut self, req: u16, cx: &mut Cx) {
        // The mark is taken at completion: later writes don't delay the answer.
        let mark = self.host_mark();
        if cx.end_request(req, mark, self.is_durable(mark)) {
            self.want(mark);
        }
    }

    /// Answers a request if all its parts were begun and are complete.
    pub(super) fn complete_if_over(&mut self, req: u16, cx: &mut Cx) {
        if cx.requests().is_complete(req) {
            self.complete(req, cx);
        }
    }

    /// Flushes the device when due, and answers requests whose rows are durable.
    pub(super) fn run(&mut self, cx: &mut Cx) -> bool {
        let mut moved = self.is_flush_due() && cx.commands_left() > 0;
        if moved {
            self.begin_flush();
            cx.submit(Op::Flush, Command::Flush { device: 0 });
        }
        while cx.outputs_left() > 4
            && cx.requests().waits_for().is_some_and(|it| self.is_durable(it))
        {
            moved |= cx.answer_waiting(Ok(()));
        }
        moved
    }

    /// Completes a flush of the device.
    pub(super) fn flush_done(&mut self, cx: &mut Cx) {
        self.end_flush(cx.is_good());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_flush_covers_rows_written_before_it() {
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
    fn a_failed_flush_covers_no_rows() {
        let mut it = Durability::new(2);
        let row = it.open();
        it.want(row);
        it.written(row);
        it.begin_flush();
        it.end_flush(false);
        assert!(!it.is_durable(row));
    }
}
