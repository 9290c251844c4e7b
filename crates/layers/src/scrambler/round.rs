//! Rounds: the map log and the flushes around it.

use hostftl_core::{BLOCK, Cause, Command, Gather, Nanos, Out, Piece, Tally};
use hostftl_format::scrambler::{LogHead, RECORDS, emit_log};

use super::journal::Round;
use super::ops::Op;
use super::{PENDING_PAGES, Scrambler};
use crate::planted::{Bug, planted};

/// Slots given back in one go.
const RELEASE_STEP: usize = 1024;

impl Scrambler {
    /// Begins a round, or writes the log of one.
    pub fn pump_round(&mut self, now: Nanos, out: &mut Out) -> bool {
        match self.journal.round {
            Round::Idle if self.journal.wants_round() => {
                let upto = self.journal.published;
                if planted(Bug::MapBeforeData) {
                    self.journal.round = Round::Ready { upto };
                    return true;
                }
                self.journal.round = Round::Data { upto };
                self.submit(now, Op::RoundFlush, Command::Flush { device: 0 }, out);
                true
            }
            Round::Ready { upto } => self.write_log(now, upto, out),
            _ => false,
        }
    }

    /// Writes the records before `upto`, as far as they fit.
    fn write_log(&mut self, now: Nanos, upto: u64, out: &mut Out) -> bool {
        let ring = self.layout.ring_len();
        let room = ring - (self.log_next - self.root.first_log);
        let to_end = ring - self.log_next % ring;
        let wanted = (upto - self.journal.durable).div_ceil(RECORDS as u64);
        let pages = wanted.min(room).min(to_end).min(PENDING_PAGES.into());
        if pages == 0 {
            return false;
        }
        let upto = upto.min(self.journal.durable + pages * RECORDS as u64);
        let mut buf = self.log_buf.take().expect("rounds come one after the other");
        let mut rest = self.journal.records(upto);
        let mut left = (upto - self.journal.durable) as usize;
        for (page, seq) in buf.pages_mut()[..pages as usize].iter_mut().zip(self.log_next..) {
            let records = left.min(RECORDS);
            let durable = self.log_durable;
            let head = LogHead { seq, epoch: self.root.epoch, durable, records: records as u32 };
            emit_log(page, head, rest.by_ref().take(records), self.uuid, self.layout.log_at(seq));
            left -= records;
        }
        drop(rest);
        self.touched += (upto - self.journal.durable) as usize;
        let lba = self.layout.log_at(self.log_next);
        self.log_next += pages;
        self.journal.round = Round::Writing { upto };
        let sectors = (pages * BLOCK as u64 / 512) as u32;
        self.counters.map_written += u64::from(sectors);
        let gather = Gather::from_iter([Piece::Meta { buf, pages: pages as u32 }]);
        let tally = Tally::of(Cause::Map, sectors);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        self.submit(now, Op::Log, command, out);
        true
    }

    /// The log pages of a round are written.
    pub fn log_written(&mut self, now: Nanos, command: Command, ok: bool, out: &mut Out) {
        let Command::Program { gather, .. } = command else { unreachable!("log is a program") };
        for piece in gather {
            let Piece::Meta { buf, .. } = piece else { unreachable!("log is metadata") };
            self.log_buf = Some(buf);
        }
        let Round::Writing { upto } = self.journal.round else {
            unreachable!("log is written in a round")
        };
        if ok {
            self.journal.round = Round::Log { upto };
            self.submit(now, Op::RoundFlush, Command::Flush { device: 0 }, out);
        }
    }

    /// A flush of a round is over.
    pub fn round_flushed(&mut self, ok: bool) {
        match self.journal.round {
            Round::Data { upto } if ok => self.journal.round = Round::Ready { upto },
            Round::Log { upto } if ok => {
                self.journal.settle(upto);
                self.journal.round = Round::Idle;
                self.log_durable = self.log_next - 1;
            }
            _ => {}
        }
    }

    /// Gives slots back whose replacement is durable.
    pub fn pump_retired(&mut self) -> bool {
        let early = planted(Bug::SlotReusedEarly);
        let mut moved = false;
        for _ in 0..RELEASE_STEP {
            let Some(slot) = self.journal.next_retired(early) else { break };
            if self.pages.is_read(slot / self.layout.per_page) && !planted(Bug::SlotNotPinned) {
                break;
            }
            self.journal.release_next();
            self.pages.release(slot);
            self.touched += 1;
            moved = true;
        }
        moved
    }
}
