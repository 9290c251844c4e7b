//! Writes and trims on their way: a page is chosen, a fill goes through its steps, the map changes.

use hostftl_core::{Cause, Command, Gather, HostError, Nanos, Out, Piece, Tally, Target};

use super::fill::{Fill, Span, Step};
use super::ops::Op;
use super::pages::Rule;
use super::{Health, Scrambler};
use crate::requests::Kind;

/// A fill sends at most so many commands at once.
const FILL_OPS: usize = 40;
/// Logical slots that are forgotten in one go.
const TRIM_STEP: u64 = 1024;

impl Scrambler {
    /// Moves the first write or trim on.
    pub fn pump_write(&mut self, out: &mut Out) -> bool {
        let Some(req) = self.requests.first_write() else { return false };
        let healthy = self.health == Health::Good;
        let failed = !healthy || self.requests.at(req).error.is_some();
        let is_over = failed || self.requests.at(req).is_begun();
        let moved = !is_over && self.write_some(req);
        if is_over || self.requests.at(req).is_begun() {
            self.requests.end_write();
            self.complete_if_over(req, out);
            return true;
        }
        moved
    }

    /// Takes on the next part of a write or trim. Whether it could.
    fn write_some(&mut self, req: u16) -> bool {
        let (slot, per_page) = (u64::from(self.layout.slot), u64::from(self.layout.per_page));
        let active = self.requests.at(req);
        let (from, last) = (active.lba + active.cursor, active.lba + active.sectors);
        let (kind, at) = (active.kind, active.cursor);
        let logical = from / slot;
        let whole = from.is_multiple_of(slot) && last - from >= slot;
        let end = match (kind, whole) {
            (Kind::Trim, true) => last / slot * slot,
            (Kind::Trim, false) => last.min((logical + 1) * slot),
            _ => last.min((logical + per_page) * slot),
        };
        if kind == Kind::Trim && (whole || self.map.look_up(logical as u32).is_none()) {
            return self.forget_some(req, from, end);
        }
        let count = end.div_ceil(slot) - logical;
        let span = Span { from, end, at: at as u32 };
        self.begin_fill(req, span, logical as u32, count as u32)
    }

    /// Unmaps logical slots from sector `from` on.
    fn forget_some(&mut self, req: u16, from: u64, end: u64) -> bool {
        let slot = u64::from(self.layout.slot);
        let logical = (from / slot) as u32;
        let most = TRIM_STEP.min(self.journal.most_at_once());
        let count = (end - from).div_ceil(slot).min(most) as u32;
        if self.is_being_filled(logical, count) || !self.journal.has_room(count, 1) {
            return false;
        }
        self.touched += count as usize;
        let mut any = false;
        for logical in logical..logical + count {
            if let Some(old) = self.map.point(logical, None) {
                self.journal.retire(old);
                any = true;
            }
        }
        if any {
            self.journal.publish_trim(logical, count);
        }
        self.requests.at(req).cursor += (u64::from(count) * slot).min(end - from);
        true
    }

    fn is_being_filled(&self, logical: u32, count: u32) -> bool {
        self.fills.iter().any(|fill| fill.changes(logical, count))
    }

    /// Begins to write up to `count` logical slots to a page. Whether it could.
    fn begin_fill(&mut self, req: u16, span: Span, logical: u32, count: u32) -> bool {
        let idle = self.fills.iter().position(|fill| fill.step == Step::Idle);
        let Some(at) = idle else { return false };
        if self.is_being_filled(logical, count) || !self.journal.has_room(count, count) {
            return false;
        }
        let Some((page, rule)) = self.pages.choose() else {
            return self.starve(req);
        };
        let held = self.pages.used(page) != 0;
        let mask = self.pages.take(page, count);
        let taken = mask.count_ones();
        self.rules[rule as usize] += 1;
        self.journal.promise(taken);
        self.hint.note(rule == Rule::LeastUsed && self.pages.lacks_preferred());
        let slot = u64::from(self.layout.slot);
        let end = span.end.min((u64::from(logical) + u64::from(taken)) * slot);
        let fill = &mut self.fills[at];
        (fill.req, fill.page, fill.mask) = (req, page, mask);
        (fill.span, fill.logical) = (Span { end, ..span }, logical);
        let in_a_row = (mask >> mask.trailing_zeros()).trailing_ones() == taken;
        let aligned = span.from.is_multiple_of(slot) && end.is_multiple_of(slot);
        let active = self.requests.at(req);
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

    /// No page has room: what was replaced must become durable first. When there is nothing to
    /// wait for, the request fails; tells whether it did.
    fn starve(&mut self, req: u16) -> bool {
        if self.fills.iter().any(|fill| fill.step != Step::Idle) {
            return false;
        }
        if self.journal.is_retiring() {
            self.journal.demand(self.journal.published);
            return false;
        }
        self.requests.at(req).error = Some(HostError::NoSpace);
        true
    }

    /// Moves one fill on to the commands of its step.
    pub fn pump_fills(&mut self, now: Nanos, out: &mut Out) -> bool {
        if self.ops.room() < FILL_OPS {
            return false;
        }
        let Some(at) = self.sent.pop_front() else { return false };
        let failed = self.health != Health::Good || self.fills[at as usize].failed;
        let fill = &mut self.fills[at as usize];
        if failed && fill.step != Step::Over {
            fill.failed = true;
            fill.step = Step::Over;
        }
        match fill.step {
            Step::Merge => self.merge(now, at, out),
            Step::Old => self.fetch_old(now, at, out),
            Step::Data => self.bring_data(now, at, out),
            Step::Program => self.program(now, at, out),
            Step::Over => self.end_fill(at, out),
            Step::Idle => unreachable!("an idle fill has nothing to do"),
        }
        let fill = &self.fills[at as usize];
        if fill.outstanding == 0 && fill.step != Step::Idle {
            self.sent.push_back(at);
        }
        true
    }

    fn merge(&mut self, now: Nanos, at: u8, out: &mut Out) {
        let fill = &mut self.fills[at as usize];
        fill.step = Step::Old;
        fill.outstanding = 1;
        let lba = self.layout.data_at(fill.page);
        let into = Target::Data(fill.buffer().view_mut_sectors(0, self.layout.page));
        let command = Command::Read { device: 0, lba, into, cause: Cause::Gc };
        self.submit(now, Op::Merge { fill: at }, command, out);
    }

    /// The first and the last slot may change in part.
    fn fetch_old(&mut self, now: Nanos, at: u8, out: &mut Out) {
        let (slot, per_page) = (self.layout.slot, self.layout.per_page);
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
            let Some(old) = self.map.look_up(logical + index) else {
                let command = Command::Place { from: Piece::zero_sectors(slot), into };
                self.submit(now, Op::Data { fill: at }, command, out);
                continue;
            };
            let page = old / per_page;
            self.pages.begin_read(page);
            let (lba, into) = (self.layout.slot_at(old), Target::Data(into));
            let command = Command::Read { device: 0, lba, into, cause: Cause::Host };
            self.submit(now, Op::Old { fill: at, page }, command, out);
        }
    }

    fn bring_data(&mut self, now: Nanos, at: u8, out: &mut Out) {
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
            let from = match self.requests.at(fill.req).data.as_mut() {
                Some(data) => Piece::Data(data.view_sectors(in_request, sectors)),
                None => Piece::zero_sectors(sectors),
            };
            let command = Command::Place { from, into };
            self.submit(now, Op::Data { fill: at }, command, out);
        }
    }

    fn program(&mut self, now: Nanos, at: u8, out: &mut Out) {
        let (slot, page) = (self.layout.slot, self.layout.page);
        let fill = &mut self.fills[at as usize];
        fill.step = Step::Over;
        let lba = self.layout.data_at(fill.page);
        if fill.whole {
            fill.outstanding = 1;
            let used = self.pages.used(fill.page).count_ones() * slot;
            let host = fill.host_sectors();
            let tally = self.tally(host, used - host, page - used);
            let from = self.fills[at as usize].buffer().view_sectors(0, page);
            return self.program_one(now, at, (lba, Piece::Data(from), tally), out);
        }
        for (first, len, index) in self.fills[at as usize].runs() {
            let fill = &mut self.fills[at as usize];
            fill.outstanding += 1;
            let (begin, _) = fill.part(index, slot);
            let (_, end) = fill.part(index + len - 1, slot);
            let (host, sectors) = ((len - 1) * slot + end - begin, len * slot);
            let from = match fill.straight {
                true => self.requests.data(fill.req).view_sectors(fill.span.at, sectors),
                false => fill.buffer().view_sectors(first * slot, sectors),
            };
            let tally = self.tally(host, sectors - host, 0);
            let lba = lba + u64::from(first * slot);
            self.program_one(now, at, (lba, Piece::Data(from), tally), out);
        }
    }

    /// Counts what a program writes: the host's sectors, copies, and what holds nothing.
    fn tally(&mut self, host: u32, copied: u32, padded: u32) -> Tally {
        self.counters.gc_copied += u64::from(copied);
        self.counters.padded += u64::from(padded);
        let mut tally = Tally::of(Cause::Host, host);
        tally.add(Cause::Gc, copied);
        tally.add(Cause::Pad, padded);
        tally
    }

    fn program_one(&mut self, now: Nanos, at: u8, what: (u64, Piece, Tally), out: &mut Out) {
        let (lba, piece, tally) = what;
        let gather = Gather::from_iter([piece]);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        self.submit(now, Op::Program { fill: at }, command, out);
    }

    /// A command of a fill is over.
    pub fn fill_done(&mut self, op: Op, command: Command, ok: bool) {
        let at = match (op, command) {
            (Op::Merge { fill }, Command::Read { into: Target::Data(into), .. }) => {
                let it = &mut self.fills[fill as usize];
                it.repay(into);
                it.whole = ok;
                fill
            }
            (Op::Old { fill, page }, Command::Read { into: Target::Data(into), .. }) => {
                self.pages.end_read(page);
                let it = &mut self.fills[fill as usize];
                it.repay(into);
                if !ok {
                    it.failed = true;
                    self.requests.at(it.req).error = Some(HostError::Io);
                }
                fill
            }
            (Op::Data { fill }, Command::Place { from, into }) => {
                let it = &mut self.fills[fill as usize];
                it.repay(into);
                if let Piece::Data(view) = from {
                    self.requests.data(it.req).repay(view);
                }
                fill
            }
            (Op::Program { fill }, Command::Program { gather, .. }) => {
                self.programmed(fill, gather, ok);
                fill
            }
            (op, command) => unreachable!("{op:?} came back with {command:?}"),
        };
        if self.fills[at as usize].outstanding == 0 {
            self.sent.push_back(at);
        }
    }

    fn programmed(&mut self, at: u8, gather: Gather, ok: bool) {
        let fill = &mut self.fills[at as usize];
        fill.outstanding -= 1;
        fill.failed |= !ok;
        for piece in gather {
            let Piece::Data(view) = piece else { unreachable!("a fill writes data") };
            match fill.straight {
                true => self.requests.data(fill.req).repay(view),
                false => fill.buffer().repay(view),
            }
        }
    }

    /// Publishes what a fill wrote, and lets its page go.
    fn end_fill(&mut self, at: u8, out: &mut Out) {
        let fill = &mut self.fills[at as usize];
        fill.step = Step::Idle;
        let Fill { page, mask, logical, req, failed, .. } = *fill;
        self.touched += mask.count_ones() as usize;
        self.journal.keep_promise(mask.count_ones());
        if !failed {
            for (first, len, index) in self.fills[at as usize].runs() {
                let slot = page * self.layout.per_page + first;
                for i in 0..len {
                    if let Some(old) = self.map.point(logical + index + i, Some(slot + i)) {
                        self.journal.retire(old);
                    }
                }
                self.journal.publish_write(logical + index, slot, len);
            }
        }
        self.pages.written(page, if failed { mask } else { 0 });
        self.requests.part_over(req, true);
        self.complete_if_over(req, out);
    }
}

impl Fill {
    /// Sectors of the host's, or zeros, that it writes.
    fn host_sectors(&self) -> u32 {
        (self.span.end - self.span.from) as u32
    }
}
