//! Replay of the map log: finds each log write among the candidates of the previous one, and
//! applies its entries.
//!
//! Invariants
//! - `last` is the last log write applied; the next one is in one of `candidates`, or doesn't
//!   exist.
//! - Entries are applied in order, and only from a log write whose pages are all valid.

use alloc::vec::Vec;

use hostftl_core::{ArrayVec, Cause, Command, MetaBuf, Page, SECTORS_PER_BLOCK, Target};
use hostftl_format::hard::{
    CANDIDATES, Entry, Listing, LogHead, Root, entry_at, log_candidates, parse_log, run_at,
};

use super::area::Area;
use super::ops::Cx;
use super::recovery::{Listed, Recovery, fail_volume};
use super::table::Table;

/// Maximum number of tails read at once.
const BATCH: usize = 16;
/// Index of the read of a log write's body.
const BODY: u16 = BATCH as u16;
/// Trimmed sectors applied per call.
const TRIM_STEP: u32 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// Examine the tails that were read, and read more.
    Search,
    /// The body of the log write with this tail is being read.
    Body(usize),
    /// Apply the pages of the log write with this tail.
    Apply { tail: usize, page: u16, at: usize, trimmed: u32 },
}

/// Progress through the candidates for the next log write.
#[derive(Clone, Copy, Debug)]
struct Search {
    next: usize,
    batch: usize,
    asked: usize,
    /// Whether a tail was unreadable.
    unread: bool,
    /// Whether a later log write shows that the wanted one was durable.
    missed: bool,
}

impl Default for Search {
    fn default() -> Self {
        Search { next: 0, batch: 1, asked: 0, unread: false, missed: false }
    }
}

/// State of the replay.
#[derive(Debug)]
pub(super) struct Replay {
    step: Step,
    epoch: u64,
    first: u64,
    /// Last log write applied.
    pub last: u64,
    /// Last log write that a later one, or the root, shows to be durable.
    pub durable: u64,
    /// Last log write to apply, if data of a later one was bad.
    pub limit: Option<u64>,
    start: Vec<u32>,
    /// Superpages that may hold the next log write, and the slots at their ends that hold earlier
    /// ones.
    candidates: Vec<(u32, u32)>,
    search: Search,
    tails: Vec<Option<MetaBuf>>,
    failed: [bool; BATCH],
    head: Option<LogHead>,
    body: Option<MetaBuf>,
    body_failed: bool,
}

impl Replay {
    /// Starts with nothing to read.
    pub(super) fn new() -> Self {
        Replay {
            step: Step::Search,
            epoch: 0,
            first: 0,
            last: 0,
            durable: 0,
            limit: None,
            start: Vec::with_capacity(CANDIDATES),
            candidates: Vec::with_capacity(2 * CANDIDATES),
            search: Search::default(),
            tails: (0..BATCH).map(|_| Some(MetaBuf::new(1))).collect(),
            failed: [false; BATCH],
            head: None,
            body: None,
            body_failed: false,
        }
    }

    /// Begins at the log write that a root names.
    pub(super) fn begin(&mut self, root: &Root, candidates: impl Iterator<Item = u32>) {
        self.epoch = root.epoch;
        self.first = root.first_log;
        self.durable = root.first_log - 1;
        self.start.extend(candidates);
        self.rewind();
    }

    /// Restarts from the beginning.
    pub(super) fn rewind(&mut self) {
        self.last = self.first - 1;
        self.step = Step::Search;
        self.candidates.clear();
        self.candidates.extend(self.start.iter().map(|vsp| (*vsp, 0)));
        self.restart_search();
    }

    fn restart_search(&mut self) {
        self.search = Search::default();
    }

    /// Takes a tail or body that was read.
    pub(super) fn arrived(&mut self, index: u16, buf: MetaBuf, ok: bool) {
        if index == BODY {
            self.body = Some(buf);
            self.body_failed = !ok;
        } else {
            self.tails[index as usize] = Some(buf);
            self.failed[index as usize] = !ok;
        }
    }

    /// Returns the body buffer.
    pub(super) fn give_buffer(&mut self) -> Option<MetaBuf> {
        self.body.take()
    }

    /// Returns the place of the tail that was found.
    fn found_at(&self, tail: usize) -> (u32, u32) {
        self.candidates[self.search.next - self.search.asked + tail]
    }

    fn page(&self, tail: usize, index: u16) -> &Page {
        let head = self.head.expect("a log write was found");
        let buf = if index + 1 == head.pages { &self.tails[tail] } else { &self.body };
        let at = if index + 1 == head.pages { 0 } else { index as usize };
        &buf.as_ref().expect("the page was read").pages()[at]
    }
}

impl Recovery {
    fn replay(&mut self) -> &mut Replay {
        &mut self.replay
    }

    /// Advances the replay while no read is in flight. Returns whether anything moved.
    pub(super) fn pump_replay<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) -> bool {
        if self.replay().body.is_none() {
            let spare = area.log.lend_spare();
            self.replay().body = Some(spare);
        }
        match self.replay().step {
            Step::Search => self.search(area, cx),
            Step::Body(tail) => self.check_body(area, tail, cx),
            Step::Apply { .. } => self.apply_entry(area, cx),
        }
    }

    /// Returns the sector of the page before the last `depth` slots of a superpage.
    fn tail_at<T: Table>(&self, area: &Area<T>, (vsp, depth): (u32, u32)) -> u64 {
        area.layout.data_at(vsp) + u64::from(area.layout.superpage - depth - SECTORS_PER_BLOCK)
    }

    /// Returns the place before a log write of `pages` pages, if it may hold a page.
    fn before<T: Table>(
        area: &Area<T>,
        (vsp, depth): (u32, u32),
        pages: u16,
    ) -> Option<(u32, u32)> {
        let depth = depth + u32::from(pages) * SECTORS_PER_BLOCK;
        (depth < area.layout.superpage).then_some((vsp, depth))
    }

    /// Examines the tails that were read, and reads the next ones.
    fn search<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) -> bool {
        let replay = &self.replay;
        let wanted = replay.last + 1;
        if replay.limit.is_some_and(|limit| wanted > limit) {
            return self.log_is_read(area);
        }
        let mut missed = false;
        let mut deeper = ArrayVec::<_, BATCH>::new();
        let asked_from = replay.search.next - replay.search.asked;
        for tail in 0..replay.search.asked {
            let at = replay.candidates[asked_from + tail];
            let buf = replay.tails[tail].as_ref().expect("every tail was read");
            let head = parse_log(&buf.pages()[0], area.uuid, self.tail_at(area, at));
            let Some(head) = head.ok().filter(|_| !replay.failed[tail]) else { continue };
            // A valid page of another epoch or place is a leftover, not part of this log.
            if head.epoch != replay.epoch || head.superpage != at.0 || head.index + 1 != head.pages
            {
                continue;
            }
            // A later log write was sent when the wanted one was already durable: that one is
            // damaged.
            missed |= head.seq > wanted && head.durable >= wanted;
            if head.seq == wanted {
                return self.found(area, tail, head, cx);
            }
            // The superpage may hold later log writes before an earlier one.
            if head.seq < wanted {
                deeper.extend(Self::before(area, at, head.pages));
            }
        }
        let unread = replay.failed[..replay.search.asked].iter().any(|failed| *failed);
        self.replay.candidates.extend(deeper);
        self.replay.search.unread |= unread;
        self.replay.search.missed |= missed;
        self.ask_for_tails(area, cx)
    }

    fn ask_for_tails<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) -> bool {
        let replay = self.replay();
        let from = replay.search.next;
        let end = (from + replay.search.batch).min(replay.candidates.len());
        // Without a sign of a lost log write, the log ends here.
        if from == end {
            if replay.search.missed {
                return fail_volume("a durable log write is missing or damaged", cx);
            }
            if replay.search.unread {
                return fail_volume("a page that may belong to the map log is unreadable", cx);
            }
            return self.log_is_read(area);
        }
        (replay.search.next, replay.search.asked) = (end, end - from);
        // The next log write is mostly in the first candidate; the batch grows only if it isn't.
        replay.search.batch = (replay.search.batch * 2).min(BATCH);
        for index in 0..end - from {
            let at = self.replay().candidates[from + index];
            if at.0 >= area.layout.count {
                return fail_volume("a log candidate is outside the data area", cx);
            }
            let lba = self.tail_at(area, at);
            let buf = self.replay().tails[index].take().expect("every tail was read");
            let into = Target::Meta { buf, pages: 1 };
            let command = Command::Read { device: 0, lba, into, cause: Cause::Map };
            self.recover(index as u16, command, cx);
        }
        true
    }

    /// Reads the pages before `tail`, the last page of the next log write.
    fn found<T: Table>(
        &mut self,
        area: &mut Area<T>,
        tail: usize,
        head: LogHead,
        cx: &mut Cx<T::Op>,
    ) -> bool {
        let before = u32::from(head.pages) - 1;
        // Values from media are checked before they are used as lengths or indices.
        if before >= area.log.max_pages() {
            return fail_volume("a log write has too many pages", cx);
        }
        let at = self.replay.found_at(tail);
        if at.1 + (before + 1) * SECTORS_PER_BLOCK > area.layout.superpage {
            return fail_volume("a log write has too many pages", cx);
        }
        let lba = self.tail_at(area, at) - u64::from(before * SECTORS_PER_BLOCK);
        let replay = self.replay();
        replay.head = Some(head);
        replay.body_failed = false;
        replay.step = Step::Body(tail);
        if before > 0 {
            let buf = replay.body.take().expect("the body buffer is present");
            let into = Target::Meta { buf, pages: before };
            let command = Command::Read { device: 0, lba, into, cause: Cause::Map };
            self.recover(BODY, command, cx);
        }
        true
    }

    /// Checks the body. A log write with a torn body was never durable, and the log ends before it.
    fn check_body<T: Table>(
        &mut self,
        area: &mut Area<T>,
        tail: usize,
        cx: &mut Cx<T::Op>,
    ) -> bool {
        let head = self.replay().head.expect("a log write was found");
        if self.replay().body_failed {
            return fail_volume("a page of the log is unreadable", cx);
        }
        let first = self.tail_at(area, self.replay.found_at(tail))
            - u64::from((u32::from(head.pages) - 1) * SECTORS_PER_BLOCK);
        for index in 0..head.pages - 1 {
            let at = first + u64::from(u32::from(index) * SECTORS_PER_BLOCK);
            let uuid = area.uuid;
            let found = parse_log(self.replay().page(tail, index), uuid, at);
            if found != Ok(LogHead { index, ..head }) {
                return self.log_is_read(area);
            }
        }
        self.replay().durable = self.replay().durable.max(head.durable);
        self.replay().step = Step::Apply { tail, page: 0, at: 0, trimmed: 0 };
        true
    }

    /// Applies the next entry, or ends the log write.
    fn apply_entry<T: Table>(&mut self, area: &mut Area<T>, cx: &mut Cx<T::Op>) -> bool {
        let replay = self.replay();
        let Step::Apply { tail, page, at, trimmed } = replay.step else {
            unreachable!("entries are applied in this step only")
        };
        let head = replay.head.expect("a log write was found");
        let Some((entry, next)) = entry_at(replay.page(tail, page), at) else {
            if page + 1 < head.pages {
                replay.step = Step::Apply { tail, page: page + 1, at: 0, trimmed: 0 };
                return true;
            }
            return self.end_write(area, tail);
        };
        replay.step = Step::Apply { tail, page, at: next, trimmed: 0 };
        match entry {
            Entry::Trim { lsn, len } => {
                let end = (trimmed + TRIM_STEP).min(len);
                let last = lsn.checked_add(len.into());
                if last.is_none_or(|last| last > area.layout.exported) {
                    return fail_volume("a trim in the log is outside the volume", cx);
                }
                // A long trim is applied in parts, over several rounds.
                if end < len {
                    self.replay().step = Step::Apply { tail, page, at, trimmed: end };
                }
                for lsn in lsn + u64::from(trimmed)..lsn + u64::from(end) {
                    self.replay_entry(area, lsn, None, cx);
                }
            }
            Entry::Kill { vsn, len } => {
                if vsn.checked_add(len.into()).is_none_or(|end| end > area.layout.slots()) {
                    return fail_volume("an invalidation in the log is outside the data area", cx);
                }
                for vsn in vsn..vsn + u64::from(len) {
                    let checkpoint = &mut area.checkpoint;
                    area.table.replay_kill(vsn, |key| checkpoint.changed(key));
                }
            }
            Entry::Loan { vsp, count } => {
                if vsp.checked_add(count).is_none_or(|end| end > area.layout.lent) {
                    return fail_volume("the log ends a loan that does not exist", cx);
                }
                let checkpoint = &mut area.checkpoint;
                area.table.end_loan(vsp, count, |key| checkpoint.changed(key));
            }
            Entry::Listing { listing, runs_at, runs } => {
                return self.apply_listing(area, (tail, page), listing, (runs_at, runs), cx);
            }
        }
        true
    }

    /// Applies a listing or a loss, with its runs.
    fn apply_listing<T: Table>(
        &mut self,
        area: &mut Area<T>,
        (tail, page): (usize, u16),
        listing: Listing,
        (runs_at, runs): (usize, usize),
        cx: &mut Cx<T::Op>,
    ) -> bool {
        let vsp = listing.superpage;
        let foreign = listing.lost && area.layout.lent == 0;
        if vsp >= area.layout.count || u32::from(listing.fill) > area.layout.superpage || foreign {
            return fail_volume("a listing in the log is invalid", cx);
        }
        let seq = self.replay().head.expect("a log write was found").seq;
        let fill = u32::from(listing.fill);
        // Lost sectors have no data to verify.
        if listing.lost {
            self.listed.remove(&vsp);
        } else {
            self.listed.insert(vsp, Listed { seq, crc: listing.crc, fill });
        }
        for i in 0..runs {
            let run = run_at(self.replay().page(tail, page), runs_at, i);
            if run.lsn + u64::from(run.len) > area.layout.exported || run.slot + run.len > fill {
                return fail_volume("a run in the log is invalid", cx);
            }
            let first = area.pool.slots(vsp).start + u64::from(run.slot);
            for i in 0..run.len {
                let (lsn, vsn) = (run.lsn + u64::from(i), first + u64::from(i));
                if listing.lost {
                    cx.touch(1);
                    let checkpoint = &mut area.checkpoint;
                    area.table.replay_loss(lsn, vsn, |key| checkpoint.changed(key));
                } else {
                    self.replay_entry(area, lsn, Some(vsn), cx);
                }
            }
        }
        true
    }

    fn replay_entry<T: Table>(
        &mut self,
        area: &mut Area<T>,
        lsn: u64,
        vsn: Option<u64>,
        cx: &mut Cx<T::Op>,
    ) {
        cx.touch(1);
        let checkpoint = &mut area.checkpoint;
        area.table.replay(lsn, vsn, |key| checkpoint.changed(key));
    }

    fn end_write<T: Table>(&mut self, area: &Area<T>, tail: usize) -> bool {
        let at = self.replay.found_at(tail);
        let replay = self.replay();
        let head = replay.head.take().expect("a log write was found");
        replay.last = head.seq;
        let buf = replay.tails[tail].as_ref().expect("every tail was read");
        replay.candidates.clear();
        // If the superpage of this log write is named, it was being filled further.
        let place = |vsp: u32| {
            if vsp == at.0 { Self::before(area, at, head.pages) } else { Some((vsp, 0)) }
        };
        replay.candidates.extend(log_candidates(&buf.pages()[0]).filter_map(place));
        replay.restart_search();
        replay.step = Step::Search;
        true
    }
}
