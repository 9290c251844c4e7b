//! The map log: what was put where, in the order in which superpages were sealed.
//!
//! Invariants
//! - A superpage is listed when all its data is in its buffer, with what is live in it at that
//!   moment and what a stage that is not listed yet has taken over. So for each sector the last
//!   entry in the log is where the map points, and no log write that is on media lacks a version it
//!   should have.
//! - `sealed` is the stamp of the last superpage listed; superpages are listed in the order of
//!   stamps.
//! - Each log write names the superpages that may hold the next one. No more than `horizon`
//!   superpages are taken from the free queue before there is a next one.
//! - A log write is settled when it, every earlier one and all data that they list have been
//!   programmed; it is durable when a flush that was sent later is over.

use alloc::collections::VecDeque;

use hostftl_core::{BLOCK, MetaBuf};
use hostftl_format::hard::{
    CANDIDATES, ENTRY, LOG_BYTES, Listing, LogHead, RUN, Run, clear_log, log_used, push_kill,
    push_listing, push_loan, push_run, push_trim, seal_log,
};

use crate::planted::{Bug, planted};

/// A point in the life of the volume: superpages up to a stamp, and trims up to a position.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Superpages opened up to here.
    pub stamp: u64,
    /// Log entries appended up to here.
    pub pos: u64,
    /// Writes in place up to this event; see [`super::direct`].
    pub direct: u64,
}

impl Mark {
    /// Whether everything before `other` is before this too.
    pub(crate) fn covers(&self, other: Mark) -> bool {
        self.stamp >= other.stamp && self.pos >= other.pos && self.direct >= other.direct
    }

    /// The earliest mark that covers both.
    pub(crate) fn max(self, other: Mark) -> Mark {
        Mark {
            stamp: self.stamp.max(other.stamp),
            pos: self.pos.max(other.pos),
            direct: self.direct.max(other.direct),
        }
    }
}

/// A log write, and what it covers; writes in place do not wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    /// Its number.
    pub seq: u64,
    /// What it covers.
    pub mark: Mark,
}

impl Point {
    /// Log write `seq` with no entry of this life.
    pub(crate) fn before(seq: u64) -> Self {
        Point { seq, mark: Mark { stamp: 0, pos: 0, direct: u64::MAX } }
    }
}

#[derive(Debug)]
struct Program {
    over: bool,
    log: Option<Point>,
}

/// Superpages of the free queue that the last log write names.
#[derive(Clone, Copy, Debug, Default)]
struct Names {
    /// How many it named.
    listed: u32,
    /// How many may still be taken before the next log write.
    left: u32,
}

#[derive(Debug)]
pub(crate) struct Log {
    uuid: [u8; 16],
    /// Pages of another epoch do not count.
    epoch: u64,
    /// Number of the next log write.
    next: u64,
    names: Names,
    /// Stamp of the last superpage listed.
    sealed: u64,
    /// Position after the last trim, or what else changed the map by itself.
    trimmed: u64,
    /// The last log write composed.
    composed: Point,
    /// The last log write settled.
    settled: Point,
    /// The last log write known to be durable.
    durable: Point,
    pos: u64,
    pages: u32,
    open: Option<MetaBuf>,
    spare: Option<MetaBuf>,
    page: usize,
    programs: VecDeque<Program>,
    first_program: u64,
}

impl Log {
    /// An empty log whose writes have at most `pages` pages.
    pub(crate) fn new(uuid: [u8; 16], pages: u32, programs: usize) -> Self {
        let mut log = Log {
            uuid,
            epoch: 0,
            next: 0,
            names: Names::default(),
            sealed: 0,
            trimmed: 0,
            composed: Point::before(0),
            settled: Point::before(0),
            durable: Point::before(0),
            pos: 0,
            pages,
            open: Some(MetaBuf::new(pages as usize)),
            spare: Some(MetaBuf::new(pages as usize)),
            page: 0,
            programs: VecDeque::with_capacity(programs),
            first_program: 0,
        };
        log.begin();
        log
    }

    /// Bytes of the buffers of log writes with at most `pages` pages.
    pub(crate) fn memory(pages: u32) -> u64 {
        2 * u64::from(pages) * BLOCK as u64
    }

    /// The epoch: pages of another one do not count.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// The number of the next log write.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Superpages that may be taken from the free queue before the next log write.
    pub(crate) fn horizon(&self) -> u32 {
        self.names.left
    }

    /// How many the last log write named.
    pub(crate) fn listed(&self) -> u32 {
        self.names.listed
    }

    /// The stamp of the last superpage that was listed.
    pub(crate) fn sealed(&self) -> u64 {
        self.sealed
    }

    /// The position after the last trim, or what else changed the map by itself.
    pub(crate) fn trimmed(&self) -> u64 {
        self.trimmed
    }

    /// The last log write composed.
    pub(crate) fn composed(&self) -> Point {
        self.composed
    }

    /// The last log write settled.
    pub(crate) fn settled(&self) -> Point {
        self.settled
    }

    /// The last log write known to be durable.
    pub(crate) fn durable(&self) -> Point {
        self.durable
    }

    /// Recovery found the log up to write `last`.
    pub(crate) fn go_on_after(&mut self, last: u64) {
        self.next = last + 1;
    }

    /// Recovery is over but for its root: what it found is durable, and a new epoch begins.
    pub(crate) fn begin_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
        let last = Point::before(self.next - 1);
        (self.composed, self.settled, self.durable) = (last, last, last);
    }

    /// What was written last names so many superpages of the free queue.
    pub(crate) fn root_names(&mut self, listed: u32) {
        self.names = Names { listed, left: listed };
    }

    /// Superpages that were named are taken from the free queue.
    pub(crate) fn take_names(&mut self, count: u32) {
        assert!(count <= self.names.left, "only what is named is taken");
        self.names.left -= count;
    }

    /// The superpage with a stamp was listed.
    pub(crate) fn seal(&mut self, stamp: u64) {
        assert!(stamp > self.sealed, "superpages are listed in the order of stamps");
        self.sealed = stamp;
    }

    /// A flush is over that was sent when this was settled.
    pub(crate) fn flushed(&mut self, settled: Point) {
        assert!(settled.seq >= self.durable.seq, "what is durable stays so");
        self.durable = settled;
    }

    fn begin(&mut self) {
        self.page = 0;
        if let Some(buf) = &mut self.open {
            clear_log(&mut buf.pages_mut()[0]);
        }
    }

    fn buffer(&mut self) -> &mut MetaBuf {
        self.open.as_mut().expect("the log has an open buffer")
    }

    /// Whether anything was appended since the last log write.
    pub(crate) fn has_entries(&self) -> bool {
        let open = self.open.as_ref().expect("the log has an open buffer");
        self.page > 0 || log_used(&open.pages()[0]) > 0
    }

    /// Pages that a log write would have now.
    pub(crate) fn pages_used(&self) -> u32 {
        self.page as u32 + 1
    }

    /// The most pages of a log write.
    pub(crate) fn max_pages(&self) -> u32 {
        self.pages
    }

    /// Whether a log write can be composed now: there is a second buffer to go on with.
    pub(crate) fn can_compose(&self) -> bool {
        self.spare.is_some()
    }

    /// Whether a listing of a superpage with `fill` sectors surely fits.
    pub(crate) fn fits(&self, fill: u32) -> bool {
        let open = self.open.as_ref().expect("the log has an open buffer");
        let here = LOG_BYTES - log_used(&open.pages()[self.page]);
        let per_page = LOG_BYTES - ENTRY - RUN;
        let later = (self.pages as usize - 1 - self.page) * per_page;
        here.saturating_sub(ENTRY + RUN) + later >= fill as usize * RUN
    }

    /// Makes sure that `bytes` fit into the current page.
    fn room_for(&mut self, bytes: usize) {
        let page = self.page;
        if log_used(&self.buffer().pages()[page]) + bytes > LOG_BYTES {
            self.page += 1;
            let page = self.page;
            clear_log(&mut self.buffer().pages_mut()[page]);
        }
    }

    /// Lists what a superpage holds. [`Log::fits`] was asked.
    pub(crate) fn list(&mut self, listing: &Listing, runs: impl Iterator<Item = Run>) {
        let mut begun = None;
        for run in runs {
            let at = match begun {
                Some((page, at)) if page == self.page && self.has_room(RUN) => at,
                _ => self.begin_listing(listing),
            };
            begun = Some((self.page, at));
            let page = self.page;
            push_run(&mut self.buffer().pages_mut()[page], at, run);
        }
        if begun.is_none() {
            self.begin_listing(listing);
        }
        self.pos += 1;
    }

    /// Lists sectors that read as errors from here on. [`Log::fits`] was asked.
    pub(crate) fn lose(&mut self, listing: &Listing, runs: impl Iterator<Item = Run>) {
        self.list(listing, runs);
        self.trimmed = self.pos;
    }

    fn has_room(&mut self, bytes: usize) -> bool {
        let page = self.page;
        log_used(&self.buffer().pages()[page]) + bytes <= LOG_BYTES
    }

    fn begin_listing(&mut self, listing: &Listing) -> usize {
        self.room_for(ENTRY + RUN);
        let page = self.page;
        let page = &mut self.buffer().pages_mut()[page];
        let at = log_used(page);
        push_listing(page, listing);
        at
    }

    /// Whether a trim fits.
    pub(crate) fn fits_trim(&self) -> bool {
        self.fits(1)
    }

    /// Whether a trim fits, and after it so many listings of superpages with `fill` sectors each.
    pub(crate) fn fits_trim_and(&self, listings: u32, fill: u32) -> bool {
        let heads = ENTRY.div_ceil(RUN) as u32;
        self.fits(1 + if listings > 0 { heads } else { 0 } + listings * (fill + heads))
    }

    /// Records that a range reads zeros now.
    pub(crate) fn trim(&mut self, lsn: u64, len: u32) {
        self.room_for(ENTRY);
        let page = self.page;
        push_trim(&mut self.buffer().pages_mut()[page], lsn, len);
        self.pos += 1;
        self.trimmed = self.pos;
    }

    /// Records that slots were replaced in place; [`Log::fits_trim`] was asked. Its position.
    pub(crate) fn kill(&mut self, vsn: u32, len: u32) -> u64 {
        self.room_for(ENTRY);
        let page = self.page;
        push_kill(&mut self.buffer().pages_mut()[page], vsn, len);
        self.pos += 1;
        self.pos
    }

    /// Records that superpages are homes only; [`Log::fits_trim`] was asked. Its position.
    pub(crate) fn end_loan(&mut self, vsp: u32, count: u32) -> u64 {
        self.room_for(ENTRY);
        let page = self.page;
        push_loan(&mut self.buffer().pages_mut()[page], vsp, count);
        self.pos += 1;
        self.pos
    }

    /// Seals what was appended for superpage `vsp`, its first page at sector `at`. `queued` and
    /// `free` are the superpages that may hold the next log write.
    pub(crate) fn compose(
        &mut self,
        vsp: u32,
        at: u64,
        queued: impl ExactSizeIterator<Item = u32> + Clone,
        free: impl ExactSizeIterator<Item = u32> + Clone,
    ) -> (MetaBuf, u32, Point) {
        let pages = self.pages_used();
        self.root_names(free.len().min(CANDIDATES - queued.len()) as u32);
        let mark = Mark { stamp: self.sealed, pos: self.pos, direct: u64::MAX };
        let point = Point { seq: self.next, mark };
        let (uuid, epoch, durable) = (self.uuid, self.epoch, self.durable.seq);
        for index in 0..pages {
            let head = LogHead {
                seq: point.seq,
                epoch,
                durable,
                index: index as u16,
                pages: pages as u16,
                superpage: vsp,
            };
            let names = if index + 1 == pages { CANDIDATES } else { 0 };
            let list = queued.clone().chain(free.clone()).take(names);
            let page = &mut self.buffer().pages_mut()[index as usize];
            seal_log(page, &head, list, uuid, at + u64::from(index) * 8);
        }
        let spare = self.spare.take().expect("a log write is composed when there is a spare");
        let buf = self.open.replace(spare).expect("the log has an open buffer");
        self.begin();
        self.next += 1;
        self.composed = point;
        (buf, pages, point)
    }

    /// Takes a log buffer back.
    pub(crate) fn give_back(&mut self, buf: MetaBuf) {
        assert!(self.spare.is_none(), "there are two log buffers");
        self.spare = Some(buf);
    }

    /// Notes a program in the order of sending; `log` when it carries a log write.
    pub(crate) fn sent(&mut self, log: Option<Point>) -> u64 {
        self.programs.push_back(Program { over: false, log });
        self.first_program + self.programs.len() as u64 - 1
    }

    /// Notes that a program is over, and settles what can be.
    pub(crate) fn programmed(&mut self, serial: u64) {
        let program = &mut self.programs[(serial - self.first_program) as usize];
        program.over = true;
        if let Some(point) = program.log.filter(|_| planted(Bug::RecordBeforeData)) {
            self.settled = point;
        }
        while self.programs.front().is_some_and(|program| program.over) {
            let program = self.programs.pop_front().expect("it was there just now");
            self.first_program += 1;
            if let Some(point) = program.log {
                self.settled = point;
            }
        }
    }

    /// Takes the buffer for reading log pages during recovery.
    pub(crate) fn lend_spare(&mut self) -> MetaBuf {
        self.spare.take().expect("recovery has the spare log buffer")
    }
}
