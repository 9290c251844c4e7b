//! Requests: taking them in, cutting them into runs of blocks, answering them.
//!
//! Invariants
//! - Writes and trims are begun one at a time, in the order of arrival; so are reads.
//! - A request is complete when `cursor` has reached its end and none of its parts is under way.
//! - A flush or a FUA request that is complete waits until the last row that had anything of the
//!   host when it came is durable, and so are all rows before it; marks never go back.

use hostftl_core::{HostError, Request, SECTORS_PER_BLOCK};

use super::Engine;
use super::layout::MAX_TRANSFER;
use super::map::At;
use super::ops::Cx;
use crate::kit::Health;
use crate::kit::requests::{Active, Kind};

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

impl Engine {
    /// Takes a request in.
    pub(super) fn take_in(&mut self, request: Request, cx: &mut Cx) {
        let pending = !self.durability.is_durable(self.durability.host_mark());
        let Some(req) = cx.take_request(request, pending) else { return };
        if cx.request(req).kind == Kind::Flush {
            self.complete(req, cx);
        }
    }

    /// Answers a request that has nothing left to do, or lets it wait to be durable.
    pub(super) fn complete(&mut self, req: u16, cx: &mut Cx) {
        let mark = self.durability.host_mark();
        if cx.end_request(req, mark, self.durability.is_durable(mark)) {
            self.durability.want(mark);
        }
    }

    /// A part of a request is done, or nothing of it is left to begin.
    pub(super) fn complete_if_over(&mut self, req: u16, cx: &mut Cx) {
        if cx.requests().is_complete(req) {
            self.complete(req, cx);
        }
    }

    /// Begins a part of the first read and one of the first write or trim.
    pub(super) fn pump_requests(&mut self, cx: &mut Cx) -> bool {
        self.pump_read(cx) | self.pump_write(cx)
    }

    fn pump_read(&mut self, cx: &mut Cx) -> bool {
        let Some(req) = cx.requests().first_read() else { return false };
        let failed = cx.health() == Health::Dead;
        let active = cx.request(req);
        if !active.is_begun() && !failed {
            let part = part(active);
            if !self.begin_read(req, part, cx) {
                return false;
            }
        }
        if failed || cx.request(req).is_begun() {
            cx.requests().end_read();
            self.complete_if_over(req, cx);
        }
        true
    }

    fn pump_write(&mut self, cx: &mut Cx) -> bool {
        let Some(req) = cx.requests().first_write() else { return false };
        let (worn, good) = (self.lines.is_worn(), cx.is_good());
        let active = cx.request(req);
        if worn && active.kind == Kind::Write && !active.is_begun() {
            active.error = Some(HostError::NoSpace);
        }
        let failed = active.error.is_some() || !good;
        if !active.is_begun() && !failed {
            let (from, sectors) = part(active);
            let moved = match active.kind {
                Kind::Trim if sectors == SECTORS_PER_BLOCK => self.trim_some(req, from, cx),
                _ => self.begin_write(req, (from, sectors), cx),
            };
            if !moved {
                return false;
            }
        }
        if failed || cx.request(req).is_begun() {
            cx.requests().end_write();
            self.complete_if_over(req, cx);
        }
        true
    }

    /// The first write finds no room; false when there is none, or it was told.
    pub(super) fn refuse_first(&mut self, cx: &mut Cx) -> bool {
        let Some(req) = cx.requests().first_write() else { return false };
        cx.request(req).error.replace(HostError::NoSpace).is_none()
    }

    /// Unmaps whole blocks of a trim, and lists that in a row.
    fn trim_some(&mut self, req: u16, from: u64, cx: &mut Cx) -> bool {
        let active = cx.request(req);
        let block = u64::from(SECTORS_PER_BLOCK);
        let left = (active.lba + active.sectors - from) / block;
        let (first, blocks) = (from / block, left.min(TRIM_STEP));
        if self.blocks.any_write_in(first, first + blocks) {
            return false;
        }
        cx.touch(blocks as usize);
        let mapped = (first..first + blocks).any(|it| self.map.get(it) != At::Nowhere);
        if mapped && !self.append_trim(first, blocks) {
            return false;
        }
        cx.request(req).cursor += blocks * block;
        true
    }
}
