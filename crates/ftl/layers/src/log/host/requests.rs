//! Splits requests into blocks, and acknowledges them.
//!
//! Invariants
//! - Writes and trims are started one at a time, in order of arrival; so are reads.
//! - A completed flush or FUA request is acknowledged when all stripes with host data that were
//!   opened up to its mark are durable, or the journal has everything published up to it.

use hostftl_core::{HostError, HostOp, Request, SECTORS_PER_BLOCK};

use crate::kit::Health;
use crate::kit::requests::{Active, Kind};
use crate::log::array::Array;
use crate::log::host::Blocks;
use crate::log::host::room::Room;
use crate::log::map::Where;
use crate::log::ops::{Cx, Mark};
use crate::planted::{Bug, planted};

/// Unmapped map pages that a trim skips in one step.
const BLANK_STEP: u32 = 64;
/// Map pages that a trim reads ahead.
const AHEAD: u32 = 16;

/// Returns the first sector and the length of the next part of a request, within one block.
pub(super) fn part(active: &Active<Mark>) -> (u64, u32) {
    let from = active.lba + active.cursor;
    let block = u64::from(SECTORS_PER_BLOCK);
    let to = ((from / block + 1) * block).min(active.lba + active.sectors);
    (from, (to - from) as u32)
}

impl Blocks {
    /// Accepts a request.
    #[inline]
    pub(crate) fn accept_request(&mut self, request: Request, array: &mut Array, cx: &mut Cx) {
        let is_flush = matches!(request.op, HostOp::Flush);
        // Prefetches the first block; the pairs of the others follow in memory.
        array.mapping.pages.map().prefetch(request.lba / u64::from(SECTORS_PER_BLOCK));
        let pending = !array.output.durability.has_host(array.output.durability.host());
        let Some(req) = cx.take_request(request, pending) else { return };
        if is_flush {
            self.complete(req, array, cx);
        }
    }

    /// Acknowledges a completed request, or queues it until it is durable.
    fn complete(&mut self, req: u16, array: &mut Array, cx: &mut Cx) {
        let mark = array.output.durability.host();
        let flushed = array.output.durability.has_host(mark);
        let (moment, logged) = (array.output.journal.moment(), array.output.journal.has_all());
        // A lost device must be recorded in a durable root first: it could otherwise be trusted
        // when it returns.
        let is_durable = (flushed || logged) && array.media.devices.is_committed();
        if cx.end_request(req, (mark, moment), is_durable) {
            cx.invalidate_fast_path();
            if !array.output.journal.ask() {
                array.output.durability.want_host(mark);
            }
        }
    }

    /// Completes a request if all of its blocks are done.
    #[inline]
    pub(crate) fn complete_if_over(&mut self, req: u16, array: &mut Array, cx: &mut Cx) {
        if cx.requests().is_complete(req) {
            self.complete(req, array, cx);
        }
    }

    /// Starts one block of the first read and one of the first write or trim.
    #[inline]
    pub(crate) fn pump_requests(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let reads = cx.requests().first_read().is_some() && self.pump_read(array, cx);
        let reads = reads | self.pump_joint(array, cx) | self.pump_released(array, cx);
        reads | (cx.requests().first_write().is_some() && self.pump_write(array, cx))
    }

    fn pump_read(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let Some(req) = cx.requests().first_read() else { return false };
        let failed = cx.health() == Health::Failed;
        let active = cx.requests().at(req);
        if !active.is_begun() && !failed && !self.begin_joint(req, array, cx) {
            let (from, sectors) = part(cx.requests().at(req));
            if !self.begin_read(req, from, sectors, array, cx) {
                return false;
            }
        }
        if failed || cx.requests().at(req).is_begun() {
            cx.requests().end_read();
            self.complete_if_over(req, array, cx);
        }
        true
    }

    fn pump_write(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let Some(req) = cx.requests().first_write() else { return false };
        let mut failed = !cx.is_good();
        let active = cx.requests().at(req);
        let gains = active.kind == Kind::Trim && !planted(Bug::ThinTrimRefused);
        // A trim frees space, so it is never refused for lack of space.
        if !active.is_begun() && !failed && !gains {
            match self.room_for_block(array) {
                Room::Some => {}
                Room::Later => return false,
                Room::None => {
                    failed = true;
                    active.error = Some(HostError::NoSpace);
                }
            }
        }
        let active = cx.requests().at(req);
        if !active.is_begun() && !failed {
            let (from, sectors) = part(active);
            let moved = match active.kind {
                Kind::Trim if sectors == SECTORS_PER_BLOCK => self.trim_some(req, from, array, cx),
                Kind::Trim => self.begin_write(req, (from, sectors), false, array, cx),
                _ => self.begin_write(req, (from, sectors), true, array, cx),
            };
            if !moved {
                return false;
            }
        }
        if failed || cx.requests().at(req).is_begun() {
            cx.requests().end_write();
            self.complete_if_over(req, array, cx);
        }
        true
    }

    /// Unmaps whole blocks of a trim within one map page, and lists them in a stripe.
    fn trim_some(&mut self, req: u16, from: u64, array: &mut Array, cx: &mut Cx) -> bool {
        let active = cx.requests().at(req);
        let block = u64::from(SECTORS_PER_BLOCK);
        let first = from / block;
        let last = first + (active.lba + active.sectors - from) / block;
        let blank = self.blank_until(first, last, array, cx);
        if blank > first {
            cx.requests().at(req).cursor += (blank - first) * block;
            return true;
        }
        let page = array.mapping.pages.map().map_page(first);
        let end = last.min(array.mapping.pages.map().page_end(page));
        if self.writing.any_in(first, end) {
            return false;
        }
        self.ask_ahead(page, last, array, cx);
        match self.hold_for_trim(page, array, cx) {
            Where::Away | Where::Coming => return false,
            Where::Bad => cx.requests().at(req).error = Some(HostError::Io),
            Where::Here => {
                cx.touch((end - first) as usize);
                // Listing a trim of unmapped blocks would only waste space in a stripe.
                let mapped =
                    (first..end).any(|it| !array.mapping.pages.map().place(it).is_nowhere());
                if mapped && !array.append_trim(first, end - first, cx) {
                    return false;
                }
            }
        }
        self.end_hold(array);
        cx.requests().at(req).cursor += (end - first) * block;
        true
    }

    /// Returns the first block in `first..last` whose page may map a block, or `last`. A page with
    /// a write in progress is not blank.
    fn blank_until(&mut self, first: u64, last: u64, array: &mut Array, cx: &mut Cx) -> u64 {
        let mut at = first;
        for _ in 0..BLANK_STEP {
            if at == last || !array.mapping.pages.is_blank(array.mapping.pages.map().map_page(at)) {
                break;
            }
            cx.touch(1);
            at = last
                .min(array.mapping.pages.map().page_end(array.mapping.pages.map().map_page(at)));
        }
        at
    }

    /// Reads ahead the map pages of a trim.
    fn ask_ahead(&mut self, page: u32, last: u64, array: &mut Array, cx: &mut Cx) {
        for next in page + 1..(page + AHEAD).min(array.mapping.pages.map().map_page(last)) {
            if !array.mapping.pages.is_blank(next) {
                array.mapping.fetch(next, &mut array.media, cx);
            }
        }
    }

    /// Pins a map page until the first trim is done with it.
    fn hold_for_trim(&mut self, page: u32, array: &mut Array, cx: &mut Cx) -> Where {
        if self.trimming == Some(page) {
            return array.mapping.pages.map().state(page);
        }
        self.end_hold(array);
        array.mapping.pages.map_mut().try_again(page);
        let spare = array.spare_of_host();
        let state = array.mapping.hold(page, spare, &mut array.media, cx);
        self.trimming = (state != Where::Away).then_some(page);
        state
    }

    fn end_hold(&mut self, array: &mut Array) {
        if let Some(page) = self.trimming.take() {
            array.mapping.pages.map_mut().unpin(page);
        }
    }

    /// Fails the first trim, because there is no space to list it.
    pub(crate) fn refuse_trim(&mut self, array: &mut Array, cx: &mut Cx) -> bool {
        let Some(req) = cx.requests().first_write() else { return false };
        self.end_hold(array);
        cx.requests().at(req).error = Some(array.why_full());
        cx.requests().end_write();
        self.complete_if_over(req, array, cx);
        true
    }
}
