//! Requests: taking them in, cutting them into runs of blocks, answering them.
//!
//! Invariants
//! - Writes and trims are begun one at a time, in the order of arrival; so are reads.
//! - A request is complete when `cursor` has reached its end and none of its parts is under way.
//! - A flush or a FUA request that is complete waits until the last row that had anything of the
//!   host when it came is durable, and so are all rows before it; marks never go back.

use hostftl_core::{HostError, Nanos, Out, Request, SECTORS_PER_BLOCK};

use super::layout::MAX_TRANSFER;
use super::map::At;
use super::{Life, Zones};
use crate::kit::requests::{Active, Kind, count};

/// Blocks that a trim unmaps in one go.
const TRIM_STEP: u64 = 2048;

/// The next part: its first sector, and how many are left. It ends within its first block when it
/// does not fill that, and else at the end of a block.
fn part(active: &Active<u64>) -> (u64, u32) {
    let from = active.lba + active.cursor;
    let left = active.sectors - active.cursor;
    let block = u64::from(SECTORS_PER_BLOCK);
    let within = from % block;
    let part = match within {
        0 if left >= block && active.kind == Kind::Write => left / block * block,
        _ if active.kind == Kind::Read => left,
        _ => left.min(block - within),
    };
    (from, part.min(MAX_TRANSFER.into()) as u32)
}

impl Zones {
    /// Takes a request in.
    pub(super) fn accept(&mut self, request: Request, out: &mut Out) {
        assert_eq!(self.life, Life::Running, "requests come between ready and stop");
        count(&mut self.counters, &request, self.durable < self.host_seq);
        let Some(req) = self.requests.take(request, self.plan.limits.exported, out) else { return };
        if self.requests.at(req).kind == Kind::Flush {
            self.complete(req, out);
        }
    }

    /// Answers a request that has nothing left to do, or lets it wait to be durable.
    pub(super) fn complete(&mut self, req: u16, out: &mut Out) {
        let (mark, dead) = (self.host_seq, self.abandoning);
        let active = self.requests.at(req);
        let failed = self.failed.filter(|_| dead || active.kind != Kind::Read);
        active.error = active.error.or(failed);
        if self.requests.end(req, mark, self.durable >= mark, out) {
            self.commit = self.commit.max(mark);
        }
    }

    /// A part of a request is done, or nothing of it is left to begin.
    pub(super) fn complete_if_over(&mut self, req: u16, out: &mut Out) {
        if self.requests.is_complete(req) {
            self.complete(req, out);
        }
    }

    /// Begins a part of the first read and one of the first write or trim.
    pub(super) fn pump_requests(&mut self, now: Nanos, out: &mut Out) -> bool {
        self.pump_read(now, out) | self.pump_write(now, out)
    }

    fn pump_read(&mut self, now: Nanos, out: &mut Out) -> bool {
        let Some(req) = self.requests.first_read() else { return false };
        let failed = self.abandoning;
        let active = self.requests.at(req);
        if !active.is_begun() && !failed {
            let part = part(active);
            if !self.begin_read(now, req, part, out) {
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
        let worn = self.worn;
        let active = self.requests.at(req);
        if worn && active.kind == Kind::Write && !active.is_begun() {
            active.error = Some(HostError::NoSpace);
        }
        let failed = active.error.is_some() || self.failed.is_some();
        if !active.is_begun() && !failed {
            let (from, sectors) = part(active);
            let moved = match active.kind {
                Kind::Trim if sectors == SECTORS_PER_BLOCK => self.trim_some(req, from),
                _ => self.begin_write(now, req, (from, sectors), out),
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

    /// The first write finds no room; false when there is none, or it was told.
    pub(super) fn refuse_first(&mut self) -> bool {
        let Some(req) = self.requests.first_write() else { return false };
        self.requests.at(req).error.replace(HostError::NoSpace).is_none()
    }

    /// Unmaps whole blocks of a trim, and lists that in a row.
    fn trim_some(&mut self, req: u16, from: u64) -> bool {
        let active = self.requests.at(req);
        let block = u64::from(SECTORS_PER_BLOCK);
        let left = (active.lba + active.sectors - from) / block;
        let (first, blocks) = (from / block, left.min(TRIM_STEP));
        if self.blocks.any_write_in(first, first + blocks) {
            return false;
        }
        self.touched += blocks as usize;
        let mapped = (first..first + blocks).any(|it| self.map.get(it) != At::Nowhere);
        if mapped && !self.append_trim(first, blocks) {
            return false;
        }
        self.requests.at(req).cursor += blocks * block;
        true
    }
}
