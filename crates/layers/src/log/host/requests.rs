//! Requests: cutting them into blocks, and answering them.
//!
//! Invariants
//! - Writes and trims are begun one at a time, in the order of arrival; so are reads.
//! - A flush or a FUA request that is complete waits until all rows that were opened up to its mark
//!   and have anything of the host are durable, or the journal has all that was published up to it.

use hostftl_core::{HostError, HostOp, Nanos, Out, Request, SECTORS_PER_BLOCK};

use crate::kit::requests::{Active, Kind, count};
use crate::log::map::Where;
use crate::log::{Life, Log};

/// Map pages without a mapped block that a trim passes in one go.
const BLANK_STEP: u32 = 64;
/// Map pages that a trim asks for before it needs them.
const AHEAD: u32 = 16;

/// What a request waits for that must be durable: the host's rows up to this stamp, or the journal
/// up to this moment.
pub type Mark = (u64, u64);

/// The next part of a request: first sector, length, within one block.
fn part(active: &Active<Mark>) -> (u64, u32) {
    let from = active.lba + active.cursor;
    let block = u64::from(SECTORS_PER_BLOCK);
    let to = ((from / block + 1) * block).min(active.lba + active.sectors);
    (from, (to - from) as u32)
}

impl Log {
    /// Takes a request in.
    pub(in crate::log) fn accept(&mut self, request: Request, out: &mut Out) {
        let is_flush = matches!(request.op, HostOp::Flush);
        let pending = !self.durability.has_host(self.durability.host());
        count(&mut self.counters, &request, pending);
        let exported = self.plan.limits.exported;
        let Some(req) = self.requests.take(request, exported, out) else { return };
        assert_eq!(self.life, Life::Running, "requests come between ready and stop");
        if is_flush {
            self.complete(req, out);
        }
    }

    /// Answers a request that has nothing left to do, or lets it wait to be durable.
    fn complete(&mut self, req: u16, out: &mut Out) {
        let mark = self.durability.host();
        let flushed = self.durability.has_host(mark);
        let (failed, dead) = (self.failed, self.abandoning);
        let (moment, logged) = (self.journal.moment(), self.journal.has_all());
        let active = self.requests.at(req);
        let failed = failed.filter(|_| dead || active.kind != Kind::Read);
        active.error = active.error.or(failed);
        let is_durable = (flushed || logged) && self.lost.is_told();
        if self.requests.end(req, (mark, moment), is_durable, out) {
            self.disturb();
            if !self.journal.ask() {
                self.durability.want_host(mark);
            }
        }
    }

    /// A block of a request is done, or nothing of it is left to begin.
    pub(in crate::log) fn complete_if_over(&mut self, req: u16, out: &mut Out) {
        if self.requests.is_complete(req) {
            self.complete(req, out);
        }
    }

    /// Begins one block of the first read and one of the first write or trim.
    pub(in crate::log) fn pump_requests(&mut self, now: Nanos, out: &mut Out) -> bool {
        self.pump_read(now, out) | self.pump_write(now, out)
    }

    fn pump_read(&mut self, now: Nanos, out: &mut Out) -> bool {
        let Some(req) = self.requests.first_read() else { return false };
        let failed = self.abandoning;
        let active = self.requests.at(req);
        if !active.is_begun() && !failed {
            let (from, sectors) = part(active);
            if !self.begin_read(now, req, from, sectors, out) {
                return false;
            }
        }
        if failed || self.requests.at(req).is_begun() {
            self.requests.end_read();
            self.complete_if_over(req, out);
        }
        true
    }

    fn pump_write(&mut self, now: Nanos, out: &mut Out) -> bool {
        let Some(req) = self.requests.first_write() else { return false };
        let failed = self.failed.is_some();
        let active = self.requests.at(req);
        if !active.is_begun() && !failed {
            let (from, sectors) = part(active);
            let moved = match active.kind {
                Kind::Trim if sectors == SECTORS_PER_BLOCK => self.trim_some(now, req, from, out),
                Kind::Trim => self.begin_write(now, req, (from, sectors), false, out),
                _ => self.begin_write(now, req, (from, sectors), true, out),
            };
            if !moved {
                return false;
            }
        }
        if failed || self.requests.at(req).is_begun() {
            self.requests.end_write();
            self.complete_if_over(req, out);
        }
        true
    }

    /// Unmaps whole blocks of a trim, of one map page, and lists that in a row.
    fn trim_some(&mut self, now: Nanos, req: u16, from: u64, out: &mut Out) -> bool {
        let active = self.requests.at(req);
        let block = u64::from(SECTORS_PER_BLOCK);
        let first = from / block;
        let last = first + (active.lba + active.sectors - from) / block;
        let blank = self.blank_until(first, last);
        if blank > first {
            self.requests.at(req).cursor += (blank - first) * block;
            return true;
        }
        let page = self.map.page_of(first);
        let end = last.min(self.map.end_of(page));
        if self.blocks.any_write_in(first, end) {
            return false;
        }
        self.ask_ahead(now, page, last, out);
        match self.hold_for_trim(now, page, out) {
            Where::Away | Where::Coming => return false,
            Where::Bad => self.requests.at(req).error = Some(HostError::Io),
            Where::Here => {
                self.touched += (end - first) as usize;
                let mapped = (first..end).any(|it| !self.map.place(it).is_nowhere());
                if mapped && !self.append_trim(first, end - first) {
                    return false;
                }
            }
        }
        self.end_hold();
        self.requests.at(req).cursor += (end - first) * block;
        true
    }

    /// The first block from `first` on, but not beyond `last`, whose page may map something. A page
    /// that is being written is not blank.
    fn blank_until(&mut self, first: u64, last: u64) -> u64 {
        let mut at = first;
        for _ in 0..BLANK_STEP {
            if at == last || !self.is_blank(self.map.page_of(at)) {
                break;
            }
            self.touched += 1;
            at = last.min(self.map.end_of(self.map.page_of(at)));
        }
        at
    }

    /// Gets the pages that a trim will need next.
    fn ask_ahead(&mut self, now: Nanos, page: u32, last: u64, out: &mut Out) {
        for next in page + 1..(page + AHEAD).min(self.map.page_of(last)) {
            if !self.is_blank(next) {
                self.fetch_page(now, next, out);
            }
        }
    }

    /// Keeps a page until the first trim is through with it.
    fn hold_for_trim(&mut self, now: Nanos, page: u32, out: &mut Out) -> Where {
        if self.trimming == Some(page) {
            return self.map.state(page);
        }
        self.end_hold();
        self.map.try_again(page);
        let state = self.hold_page(now, page, self.map.reserve(), out);
        self.trimming = (state != Where::Away).then_some(page);
        state
    }

    fn end_hold(&mut self) {
        if let Some(page) = self.trimming.take() {
            self.map.unpin(page);
        }
    }

    /// The first trim gets no room to be listed.
    pub(in crate::log) fn refuse_trim(&mut self, out: &mut Out) -> bool {
        let Some(req) = self.requests.first_write() else { return false };
        self.end_hold();
        self.requests.at(req).error = Some(self.why_full());
        self.requests.end_write();
        self.complete_if_over(req, out);
        true
    }
}
