//! Rounds: writes of the map log to its ring on the device, with the flushes before and after.

use hostftl_core::{BLOCK, Cause, Command, Gather, Piece, Tally};
use hostftl_format::scrambler::{LogHead, RECORDS, Root, emit_log};

use super::journal::{Journal, Round};
use super::layout::{Layout, PENDING_PAGES};
use super::ops::{Cx, Op};
use crate::kit::metabuf::{MetaHome, into_meta};
use crate::planted::{Bug, planted};

/// The ring of log pages on the device.
#[derive(Debug)]
pub(super) struct Ring {
    buf: MetaHome,
    uuid: [u8; 16],
    /// The next log page.
    next: u64,
    /// The newest log page known to be durable.
    durable: u64,
}

impl Ring {
    /// Creates an empty ring.
    pub(super) fn new(uuid: [u8; 16]) -> Self {
        Ring { buf: MetaHome::new(PENDING_PAGES as usize), uuid, next: 1, durable: 0 }
    }

    /// Returns the next log page.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the newest log page known to be durable.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Sets the next log page, found by recovery.
    pub(super) fn continue_with(&mut self, next: u64) {
        assert!(next >= self.next, "the log only grows");
        self.next = next;
    }

    /// Notes that recovery found log pages up to `page` to be durable.
    pub(super) fn adopt_durable(&mut self, page: u64) {
        self.durable = self.durable.max(page);
    }

    /// Returns whether replay from the root would read more than half of the ring.
    pub(super) fn is_long(&self, root: &Root, layout: &Layout) -> bool {
        self.next - root.first_log > layout.ring_len() / 2
    }

    /// Starts a round, or writes its log.
    pub(super) fn pump(
        &mut self,
        journal: &mut Journal,
        root: &Root,
        layout: &Layout,
        cx: &mut Cx,
    ) -> bool {
        match journal.round() {
            Round::Idle if journal.wants_round() => {
                let upto = journal.published();
                if planted(Bug::MapBeforeData) {
                    journal.go(Round::Ready { upto });
                    return true;
                }
                journal.go(Round::Data { upto });
                cx.submit(Op::RoundFlush, Command::Flush { device: 0 });
                true
            }
            Round::Ready { upto } => self.write(journal, upto, (root, layout), cx),
            _ => false,
        }
    }

    /// Writes the records before `upto`, as far as they fit.
    fn write(
        &mut self,
        journal: &mut Journal,
        upto: u64,
        (root, layout): (&Root, &Layout),
        cx: &mut Cx,
    ) -> bool {
        let ring = layout.ring_len();
        let room = ring - (self.next - root.first_log);
        let to_end = ring - self.next % ring;
        let wanted = (upto - journal.durable()).div_ceil(RECORDS as u64);
        let pages = wanted.min(room).min(to_end).min(PENDING_PAGES.into());
        if pages == 0 {
            return false;
        }
        let upto = upto.min(journal.durable() + pages * RECORDS as u64);
        let mut buf = self.buf.lend();
        let mut rest = journal.records(upto);
        let mut left = (upto - journal.durable()) as usize;
        cx.touch(left);
        for (page, seq) in buf.pages_mut()[..pages as usize].iter_mut().zip(self.next..) {
            let records = left.min(RECORDS);
            let durable = self.durable;
            let head = LogHead { seq, epoch: root.epoch, durable, records: records as u32 };
            emit_log(page, head, rest.by_ref().take(records), self.uuid, layout.log_at(seq));
            left -= records;
        }
        drop(rest);
        let lba = layout.log_at(self.next);
        self.next += pages;
        journal.go(Round::Writing { upto });
        let sectors = (pages * BLOCK as u64 / 512) as u32;
        cx.counters().map_written += u64::from(sectors);
        let gather = Gather::from_iter([Piece::Meta { buf, pages: pages as u32 }]);
        let tally = Tally::single(Cause::Map, sectors);
        cx.submit(Op::Log, Command::Program { device: 0, lba, gather, tally, placement: 0 });
        true
    }

    /// Handles the completion of a round's log write.
    pub(super) fn written(
        &mut self,
        journal: &mut Journal,
        command: Command,
        ok: bool,
        cx: &mut Cx,
    ) {
        self.buf.take_back(into_meta(command));
        let Round::Writing { upto } = journal.round() else {
            unreachable!("log is written in a round")
        };
        if ok {
            journal.go(Round::Log { upto });
            cx.submit(Op::RoundFlush, Command::Flush { device: 0 });
        }
    }

    /// Handles the completion of a round's flush.
    pub(super) fn flushed(&mut self, journal: &mut Journal, ok: bool) {
        match journal.round() {
            Round::Data { upto } if ok => journal.go(Round::Ready { upto }),
            Round::Log { .. } if ok => {
                journal.settle();
                self.durable = self.next - 1;
            }
            _ => {}
        }
    }
}
