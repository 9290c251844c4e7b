//! Writes and trims: choice of a page, the steps of its fill, and the change of the map.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

use hostftl_core::{Cause, Command, Gather, HostError, Payload, Piece, Tally, Target};

use super::fill::{Fill, Span, Step};
use super::hint::Hint;
use super::layout::{FILLS, Layout};
use super::ops::{Cx, Op};
use super::pages::Rule;
use super::request::complete_if_over;
use super::space::{Space, Taken};
use crate::kit::requests::Kind;

/// Maximum number of commands that a fill submits at once.
const FILL_OPS: usize = 40;
/// Maximum number of logical slots unmapped in one step.
const TRIM_STEP: u64 = 1024;

/// The writes in flight.
#[derive(Debug)]
pub(super) struct Writes {
    layout: Layout,
    fills: Vec<Fill>,
    /// Fills whose next step is due.
    sent: VecDeque<u8>,
    /// Number of pages chosen by each rule.
    rules: [u64; 3],
}

impl Writes {
    /// Creates the state without writes; `buffers` are used by the fills.
    pub(super) fn new(layout: &Layout, buffers: Vec<Payload>) -> Self {
        Writes {
            layout: *layout,
            fills: buffers.into_iter().map(Fill::new).collect(),
            sent: VecDeque::with_capacity(FILLS),
            rules: [0; 3],
        }
    }

    /// Returns the number of pages chosen by each rule: unwritten, in the device's next victim, and
    /// with the fewest used slots.
    pub(super) fn rules(&self) -> [u64; 3] {
        self.rules
    }

    /// Returns the number of slots being written, and the number of their pages.
    pub(super) fn taken(&self) -> (u64, usize) {
        let writing = self.fills.iter().filter(|fill| fill.step != Step::Idle);
        let slots = writing.clone().map(|fill| u64::from(fill.count())).sum();
        (slots, writing.count())
    }

    /// Discards the buffers after a power cut.
    pub(super) fn void(&mut self) {
        let buffers = self.fills.iter_mut().filter_map(|fill| fill.buffer.take());
        buffers.for_each(|buffer| {
            buffer.void();
        });
    }

    /// Advances the first write or trim. Returns whether anything moved.
    pub(super) fn pump(&mut self, space: &mut Space, hint: &mut Hint, cx: &mut Cx) -> bool {
        let Some(req) = cx.requests().first_write() else { return false };
        let failed = !cx.is_good() || cx.request(req).error.is_some();
        let is_over = failed || cx.request(req).is_begun();
        let moved = !is_over && self.write_some(req, space, hint, cx);
        if is_over || cx.request(req).is_begun() {
            cx.requests().end_write();
            complete_if_over(space, req, cx);
            return true;
        }
        moved
    }

    /// Starts the next part of a write or trim. Returns whether it started.
    fn write_some(&mut self, req: u16, space: &mut Space, hint: &mut Hint, cx: &mut Cx) -> bool {
        let (slot, per_page) = (u64::from(self.layout.slot), u64::from(self.layout.per_page));
        let active = cx.request(req);
        let (from, last) = (active.lba + active.cursor, active.lba + active.sectors);
        let (kind, at) = (active.kind, active.cursor);
        let logical = from / slot;
        let whole = from.is_multiple_of(slot) && last - from >= slot;
        let end = match (kind, whole) {
            (Kind::Trim, true) => last / slot * slot,
            (Kind::Trim, false) => last.min((logical + 1) * slot),
            _ => last.min((logical + per_page) * slot),
        };
        if kind == Kind::Trim && (whole || space.map().lookup(logical as u32).is_none()) {
            return self.forget_some(req, (from, end), space, cx);
        }
        let count = end.div_ceil(slot) - logical;
        let span = Span { from, end, at: at as u32 };
        self.begin_fill(req, span, (logical as u32, count as u32), (space, hint), cx)
    }

    /// Unmaps logical slots from sector `from` on. Returns whether it could.
    fn forget_some(
        &mut self,
        req: u16,
        (from, end): (u64, u64),
        space: &mut Space,
        cx: &mut Cx,
    ) -> bool {
        let slot = u64::from(self.layout.slot);
        let logical = (from / slot) as u32;
        let most = TRIM_STEP.min(space.journal().most_at_once());
        let count = (end - from).div_ceil(slot).min(most) as u32;
        if self.is_being_filled(logical, count) || !space.journal().has_room(count, 1) {
            return false;
        }
        cx.touch(count as usize);
        space.forget(logical, count);
        cx.request(req).cursor += (u64::from(count) * slot).min(end - from);
        true
    }

    fn is_being_filled(&self, logical: u32, count: u32) -> bool {
        self.fills.iter().any(|fill| fill.changes(logical, count))
    }

    /// Starts to write up to `count` logical slots to a page. Returns whether it started.
    fn begin_fill(
        &mut self,
        req: u16,
        span: Span,
        (logical, count): (u32, u32),
        (space, hint): (&mut Space, &mut Hint),
        cx: &mut Cx,
    ) -> bool {
        let idle = self.fills.iter().position(|fill| fill.step == Step::Idle);
        let Some(at) = idle else { return false };
        if self.is_being_filled(logical, count) || !space.journal().has_room(count, count) {
            return false;
        }
        let Some(Taken { page, rule, mask, held }) = space.take(count) else {
            return self.starve(req, space, cx);
        };
        let taken = mask.count_ones();
        self.rules[rule as usize] += 1;
        hint.note(rule == Rule::LeastUsed && space.pages().lacks_preferred());
        let slot = u64::from(self.layout.slot);
        let end = span.end.min((u64::from(logical) + u64::from(taken)) * slot);
        let fill = &mut self.fills[at];
        (fill.req, fill.page, fill.mask) = (req, page, mask);
        (fill.span, fill.logical) = (Span { end, ..span }, logical);
        let in_a_row = (mask >> mask.trailing_zeros()).trailing_ones() == taken;
        let aligned = span.from.is_multiple_of(slot) && end.is_multiple_of(slot);
        let active = cx.request(req);
        fill.straight = in_a_row && aligned && active.kind == Kind::Write;
        fill.whole = held && !in_a_row;
        fill.failed = false;
        fill.outstanding = 0;
        fill.step = match (fill.straight, fill.whole) {
            (true, _) => Step::Program,
            (false, true) => Step::Merge,
            (false, false) => Step::Old,
        };
        self.sent.push_back(at as u8);
        active.cursor += end - span.from;
        active.outstanding += 1;
        true
    }

    /// Handles a write for which no page has room. Replaced slots must become durable first; if
    /// there are none, the request fails. Returns whether it failed.
    fn starve(&self, req: u16, space: &mut Space, cx: &mut Cx) -> bool {
        if self.fills.iter().any(|fill| fill.step != Step::Idle) {
            return false;
        }
        let journal = space.journal_mut();
        if journal.is_retiring() {
            journal.demand(journal.published());
            return false;
        }
        cx.request(req).error = Some(HostError::NoSpace);
        true
    }

    /// Submits the commands of one fill's next step.
    pub(super) fn pump_fills(&mut self, space: &mut Space, cx: &mut Cx) -> bool {
        if cx.commands_left() < FILL_OPS {
            return false;
        }
        let Some(at) = self.sent.pop_front() else { return false };
        let failed = !cx.is_good() || self.fills[at as usize].failed;
        let fill = &mut self.fills[at as usize];
        if failed && fill.step != Step::Over {
            fill.failed = true;
            fill.step = Step::Over;
        }
        match fill.step {
            Step::Merge => self.merge(at, cx),
            Step::Old => self.fetch_old(at, space, cx),
            Step::Data => self.bring_data(at, cx),
            Step::Program => self.program(at, space, cx),
            Step::Over => self.end_fill(at, space, cx),
            Step::Idle => unreachable!("an idle fill has no work"),
        }
        let fill = &self.fills[at as usize];
        if fill.outstanding == 0 && fill.step != Step::Idle {
            self.sent.push_back(at);
        }
        true
    }

    fn merge(&mut self, at: u8, cx: &mut Cx) {
        let fill = &mut self.fills[at as usize];
        fill.step = Step::Old;
        fill.outstanding = 1;
        let lba = self.layout.data_at(fill.page);
        let into = Target::Data(fill.buffer().view_mut_sectors(0, self.layout.page));
        let command = Command::Read { device: 0, lba, into, cause: Cause::Gc };
        cx.submit(Op::Merge { fill: at }, command);
    }

    /// Reads the old contents of the first and the last slot, which may change only in part.
    fn fetch_old(&mut self, at: u8, space: &mut Space, cx: &mut Cx) {
        let slot = self.layout.slot;
        let fill = &mut self.fills[at as usize];
        fill.step = Step::Data;
        let (mask, logical, count) = (fill.mask, fill.logical, fill.count());
        let last = count - 1;
        let ends = [(0, mask.trailing_zeros()), (last, 63 - mask.leading_zeros())];
        let parts = if count == 1 { &ends[..1] } else { &ends[..] };
        for &(index, to) in parts {
            let fill = &mut self.fills[at as usize];
            if fill.part(index, slot) == (0, slot) {
                continue;
            }
            fill.outstanding += 1;
            let into = fill.buffer().view_mut_sectors(to * slot, slot);
            let Some(old) = space.map().lookup(logical + index) else {
                let command = Command::Place { from: Piece::zero_sectors(slot), into };
                cx.submit(Op::Data { fill: at }, command);
                continue;
            };
            let page = space.begin_read(old);
            let (lba, into) = (self.layout.slot_at(old), Target::Data(into));
            let command = Command::Read { device: 0, lba, into, cause: Cause::Host };
            cx.submit(Op::Old { fill: at, page }, command);
        }
    }

    fn bring_data(&mut self, at: u8, cx: &mut Cx) {
        let slot = self.layout.slot;
        self.fills[at as usize].step = Step::Program;
        for (first, len, index) in self.fills[at as usize].runs() {
            let fill = &mut self.fills[at as usize];
            let (begin, _) = fill.part(index, slot);
            let (_, end) = fill.part(index + len - 1, slot);
            let sectors = (len - 1) * slot + end - begin;
            let from = u64::from(fill.logical + index) * u64::from(slot) + u64::from(begin);
            let in_request = fill.span.at + (from - fill.span.from) as u32;
            let into = fill.buffer().view_mut_sectors(first * slot + begin, sectors);
            fill.outstanding += 1;
            let from = match cx.request(fill.req).data.as_mut() {
                Some(data) => Piece::Data(data.view_sectors(in_request, sectors)),
                None => Piece::zero_sectors(sectors),
            };
            let command = Command::Place { from, into };
            cx.submit(Op::Data { fill: at }, command);
        }
    }

    fn program(&mut self, at: u8, space: &Space, cx: &mut Cx) {
        let (slot, page) = (self.layout.slot, self.layout.page);
        let fill = &mut self.fills[at as usize];
        fill.step = Step::Over;
        let lba = self.layout.data_at(fill.page);
        if fill.whole {
            fill.outstanding = 1;
            let used = space.pages().used(fill.page).count_ones() * slot;
            let host = fill.host_sectors();
            let tally = tally(host, used - host, page - used, cx);
            let from = self.fills[at as usize].buffer().view_sectors(0, page);
            return program_one(at, lba, Piece::Data(from), tally, cx);
        }
        for (first, len, index) in self.fills[at as usize].runs() {
            let fill = &mut self.fills[at as usize];
            fill.outstanding += 1;
            let (begin, _) = fill.part(index, slot);
            let (_, end) = fill.part(index + len - 1, slot);
            let (host, sectors) = ((len - 1) * slot + end - begin, len * slot);
            let from = if fill.straight {
                cx.requests().data(fill.req).view_sectors(fill.span.at, sectors)
            } else {
                fill.buffer().view_sectors(first * slot, sectors)
            };
            let tally = tally(host, sectors - host, 0, cx);
            let lba = lba + u64::from(first * slot);
            program_one(at, lba, Piece::Data(from), tally, cx);
        }
    }

    /// Handles the completion of a fill's command.
    pub(super) fn done(
        &mut self,
        op: Op,
        command: Command,
        ok: bool,
        space: &mut Space,
        cx: &mut Cx,
    ) {
        let at = match (op, command) {
            (Op::Merge { fill }, Command::Read { into: Target::Data(into), .. }) => {
                let it = &mut self.fills[fill as usize];
                it.repay(into);
                // If the page cannot be read, only the slots taken are written, run by run.
                it.whole = ok;
                fill
            }
            (Op::Old { fill, page }, Command::Read { into: Target::Data(into), .. }) => {
                space.end_read(page);
                let it = &mut self.fills[fill as usize];
                it.repay(into);
                if !ok {
                    it.failed = true;
                    cx.request(it.req).error = Some(HostError::Io);
                }
                fill
            }
            (Op::Data { fill }, Command::Place { from, into }) => {
                let it = &mut self.fills[fill as usize];
                it.repay(into);
                if let Piece::Data(view) = from {
                    cx.requests().data(it.req).repay(view);
                }
                fill
            }
            (Op::Program { fill }, Command::Program { gather, .. }) => {
                self.programmed(fill, gather, ok, cx);
                fill
            }
            (op, command) => unreachable!("{op:?} completed with {command:?}"),
        };
        if self.fills[at as usize].outstanding == 0 {
            self.sent.push_back(at);
        }
    }

    fn programmed(&mut self, at: u8, gather: Gather, ok: bool, cx: &mut Cx) {
        let fill = &mut self.fills[at as usize];
        fill.outstanding -= 1;
        fill.failed |= !ok;
        for piece in gather {
            let Piece::Data(view) = piece else { unreachable!("a fill writes data") };
            if fill.straight {
                cx.requests().data(fill.req).repay(view)
            } else {
                fill.buffer().repay(view)
            }
        }
    }

    /// Publishes the slots that a fill wrote, and releases its page.
    fn end_fill(&mut self, at: u8, space: &mut Space, cx: &mut Cx) {
        let fill = &mut self.fills[at as usize];
        fill.step = Step::Idle;
        let Fill { page, mask, logical, req, failed, .. } = *fill;
        cx.touch(mask.count_ones() as usize);
        let runs = self.fills[at as usize].runs();
        space.end_write((page, mask), logical, runs, failed);
        cx.requests().part_over(req, true);
        complete_if_over(space, req, cx);
    }
}

/// Counts the sectors of a program: the host's, copied ones, and padding.
fn tally(host: u32, copied: u32, padded: u32, cx: &mut Cx) -> Tally {
    cx.counters().gc_copied += u64::from(copied);
    cx.counters().padded += u64::from(padded);
    let mut tally = Tally::single(Cause::Host, host);
    tally.add(Cause::Gc, copied);
    tally.add(Cause::Pad, padded);
    tally
}

fn program_one(fill: u8, lba: u64, piece: Piece, tally: Tally, cx: &mut Cx) {
    let gather = Gather::from_iter([piece]);
    let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
    cx.submit(Op::Program { fill }, command);
}

impl Fill {
    /// Returns the number of the host's sectors, or zeros, that the fill writes.
    fn host_sectors(&self) -> u32 {
        (self.span.end - self.span.from) as u32
    }
}
