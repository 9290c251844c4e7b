//! Map log: which sectors were put into which slots, in the order in which superpages were sealed.
//!
//! Invariants
//! - A superpage is listed when all its data is in its buffer. The listing has the sectors that are
//!   valid in it at that moment, and those that a stage not listed yet has taken over. So the last
//!   entry for a sector is where the map points, and each log write on media has every version that
//!   it should have.
//! - `sealed` is the stamp of the last superpage listed; superpages are listed in the order of
//!   stamps.
//! - Each log write names the superpages that may hold the next one. At most `horizon` superpages
//!   are taken from the free queue before the next log write.
//! - A log write is settled when it, every earlier one and all data that they list have been
//!   programmed. It is durable when a flush that was sent later completes.

use alloc::collections::VecDeque;

use hostftl_core::{BLOCK, MetaBuf};
use hostftl_format::hard::{
    CANDIDATES, ENTRY, LOG_BYTES, Listing, LogHead, RUN, Run, clear_log, log_used, push_kill,
    push_listing, push_loan, push_run, push_trim, seal_log,
};

use crate::planted::{Bug, planted};

/// A point in the life of a volume.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    /// Highest stamp of the superpages opened before it.
    pub stamp: u64,
    /// Position after the last log entry before it.
    pub pos: u64,
    /// Last write in place before it, as an event of [`super::direct`].
    pub direct: u64,
}

impl Mark {
    /// Returns whether everything before `other` is also before this mark.
    pub(crate) fn covers(&self, other: Mark) -> bool {
        self.stamp >= other.stamp && self.pos >= other.pos && self.direct >= other.direct
    }

    /// Returns the earliest mark that covers both.
    pub(crate) fn max(self, other: Mark) -> Mark {
        Mark {
            stamp: self.stamp.max(other.stamp),
            pos: self.pos.max(other.pos),
            direct: self.direct.max(other.direct),
        }
    }
}

/// A log write and its coverage. Writes in place are independent of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    /// Number of the log write.
    pub seq: u64,
    /// Mark that it covers.
    pub mark: Mark,
}

impl Point {
    /// Returns the point of log write `seq` before any entry of this life.
    pub(crate) fn before(seq: u64) -> Self {
        Point { seq, mark: Mark { stamp: 0, pos: 0, direct: u64::MAX } }
    }
}

#[derive(Debug)]
struct Program {
    over: bool,
    log: Option<Point>,
}

/// Names of free superpages in the last log write.
#[derive(Clone, Copy, Debug, Default)]
struct Names {
    /// Number of names.
    listed: u32,
    /// Named superpages that are still in the free queue.
    left: u32,
}

/// The map log, with the log write that is being filled.
#[derive(Debug)]
pub(crate) struct Log {
    uuid: [u8; 16],
    /// Epoch of this life; log pages of another epoch do not count.
    epoch: u64,
    /// Number of the next log write.
    next: u64,
    names: Names,
    /// Stamp of the last superpage listed.
    sealed: u64,
    /// Position after the last entry that changes the map without a stage, such as a trim.
    trimmed: u64,
    /// Last log write composed.
    composed: Point,
    /// Last log write settled.
    settled: Point,
    /// Last log write known to be durable.
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
    /// Creates an empty log whose writes have at most `pages` pages.
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

    /// Returns the bytes of the log buffers, for writes of at most `pages` pages.
    pub(crate) fn memory(pages: u32) -> u64 {
        2 * u64::from(pages) * BLOCK as u64
    }

    /// Returns the epoch.
    pub(crate) fn epoch(&self) -> u64 {
        self.epoch
    }

    /// Returns the number of the next log write.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number of superpages that may be taken from the free queue before the next log
    /// write.
    pub(crate) fn horizon(&self) -> u32 {
        self.names.left
    }

    /// Returns the number of free superpages that the last log write named.
    pub(crate) fn listed(&self) -> u32 {
        self.names.listed
    }

    /// Returns the stamp of the last superpage listed.
    pub(crate) fn sealed(&self) -> u64 {
        self.sealed
    }

    /// Returns the position after the last entry that changes the map without a stage.
    pub(crate) fn trimmed(&self) -> u64 {
        self.trimmed
    }

    /// Returns the last log write composed.
    pub(crate) fn composed(&self) -> Point {
        self.composed
    }

    /// Returns the last log write settled.
    pub(crate) fn settled(&self) -> Point {
        self.settled
    }

    /// Returns the last log write known to be durable.
    pub(crate) fn durable(&self) -> Point {
        self.durable
    }

    /// Continues after log write `last`, which recovery found to be the end of the log.
    pub(crate) fn continue_after(&mut self, last: u64) {
        self.next = last + 1;
    }

    /// Begins a new epoch. Everything that recovery found is durable by now.
    pub(crate) fn begin_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
        // Stamps and positions start from 0 in each life; everything from earlier lives is covered.
        let last = Point::before(self.next - 1);
        (self.composed, self.settled, self.durable) = (last, last, last);
    }

    /// Notes that the root or log write just written names `listed` superpages of the free queue.
    pub(crate) fn root_names(&mut self, listed: u32) {
        self.names = Names { listed, left: listed };
    }

    /// Counts `count` named superpages that were taken from the free queue.
    pub(crate) fn take_names(&mut self, count: u32) {
        assert!(count <= self.names.left, "only a named superpage is taken");
        self.names.left -= count;
    }

    /// Notes that the superpage with `stamp` was listed.
    pub(crate) fn seal(&mut self, stamp: u64) {
        assert!(stamp > self.sealed, "superpages are listed in the order of stamps");
        self.sealed = stamp;
    }

    /// Completes a flush that was sent when `settled` was the last settled log write.
    pub(crate) fn flushed(&mut self, settled: Point) {
        assert!(settled.seq >= self.durable.seq, "the durable position only advances");
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

    /// Returns whether anything was appended since the last log write.
    pub(crate) fn has_entries(&self) -> bool {
        let open = self.open.as_ref().expect("the log has an open buffer");
        self.page > 0 || log_used(&open.pages()[0]) > 0
    }

    /// Returns the number of pages that a log write would have now.
    pub(crate) fn pages_used(&self) -> u32 {
        self.page as u32 + 1
    }

    /// Returns the maximum number of pages in a log write.
    pub(crate) fn max_pages(&self) -> u32 {
        self.pages
    }

    /// Returns whether a log write can be composed, which takes a second buffer for later entries.
    pub(crate) fn can_compose(&self) -> bool {
        self.spare.is_some()
    }

    /// Returns whether the listing of a superpage with `fill` sectors fits in any case.
    pub(crate) fn fits(&self, fill: u32) -> bool {
        let open = self.open.as_ref().expect("the log has an open buffer");
        // In the worst case each sector is a run of its own, and each page repeats the listing's
        // head.
        let here = LOG_BYTES - log_used(&open.pages()[self.page]);
        let per_page = LOG_BYTES - ENTRY - RUN;
        let later = (self.pages as usize - 1 - self.page) * per_page;
        here.saturating_sub(ENTRY + RUN) + later >= fill as usize * RUN
    }

    /// Moves to the next page if `bytes` don't fit into the current one.
    fn room_for(&mut self, bytes: usize) {
        let page = self.page;
        if log_used(&self.buffer().pages()[page]) + bytes > LOG_BYTES {
            self.page += 1;
            let page = self.page;
            clear_log(&mut self.buffer().pages_mut()[page]);
        }
    }

    /// Lists the sectors of a superpage. The caller has checked [`Log::fits`].
    pub(crate) fn list(&mut self, listing: &Listing, runs: impl Iterator<Item = Run>) {
        let mut begun = None;
        for run in runs {
            // A listing that continues on another page gets a head of its own there.
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

    /// Lists sectors that read as errors from now on. The caller has checked [`Log::fits`].
    pub(crate) fn lose(&mut self, listing: &Listing, runs: impl Iterator<Item = Run>) {
        self.list(listing, runs);
        // A loss changes the map without a stage, like a trim.
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

    /// Returns whether a trim fits.
    pub(crate) fn fits_trim(&self) -> bool {
        self.fits(1)
    }

    /// Returns whether a trim fits, followed by `listings` superpages with `fill` sectors each.
    pub(crate) fn fits_trim_and(&self, listings: u32, fill: u32) -> bool {
        let heads = ENTRY.div_ceil(RUN) as u32;
        self.fits(1 + if listings > 0 { heads } else { 0 } + listings * (fill + heads))
    }

    /// Records that a range now reads as zeros.
    pub(crate) fn trim(&mut self, lsn: u64, len: u32) {
        self.room_for(ENTRY);
        let page = self.page;
        push_trim(&mut self.buffer().pages_mut()[page], lsn, len);
        self.pos += 1;
        self.trimmed = self.pos;
    }

    /// Records that slots were replaced in place, and returns the position of the entry. The caller
    /// has checked [`Log::fits_trim`].
    pub(crate) fn kill(&mut self, vsn: u64, len: u32) -> u64 {
        self.room_for(ENTRY);
        let page = self.page;
        push_kill(&mut self.buffer().pages_mut()[page], vsn, len);
        self.pos += 1;
        self.pos
    }

    /// Records that superpages are only homes, and returns the position of the entry. The caller
    /// has checked [`Log::fits_trim`].
    pub(crate) fn end_loan(&mut self, vsp: u32, count: u32) -> u64 {
        self.room_for(ENTRY);
        let page = self.page;
        push_loan(&mut self.buffer().pages_mut()[page], vsp, count);
        self.pos += 1;
        self.pos
    }

    /// Seals the appended entries as a log write in superpage `vsp`, its first page at sector `at`.
    /// `queued` and `free` are the superpages that may hold the next log write. Returns the buffer,
    /// its number of pages, and the point of the log write.
    pub(crate) fn compose(
        &mut self,
        vsp: u32,
        at: u64,
        queued: impl ExactSizeIterator<Item = u32> + Clone,
        free: impl ExactSizeIterator<Item = u32> + Clone,
    ) -> (MetaBuf, u32, Point) {
        let pages = self.pages_used();
        self.root_names(free.len().min(CANDIDATES - queued.len()) as u32);
        // Writes in place don't wait for the log, so every log write covers all of them.
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
            // Replay finds a log write by its last page, so only that one needs the names.
            let names = if index + 1 == pages { CANDIDATES } else { 0 };
            let list = queued.clone().chain(free.clone()).take(names);
            let page = &mut self.buffer().pages_mut()[index as usize];
            seal_log(page, &head, list, uuid, at + u64::from(index) * 8);
        }
        let spare = self.spare.take().expect("a log write is composed when a buffer is spare");
        let buf = self.open.replace(spare).expect("the log has an open buffer");
        self.begin();
        self.next += 1;
        self.composed = point;
        (buf, pages, point)
    }

    /// Takes back the buffer of a log write.
    pub(crate) fn give_back(&mut self, buf: MetaBuf) {
        assert!(self.spare.is_none(), "there are two log buffers");
        self.spare = Some(buf);
    }

    /// Registers a program in the order of sending, and returns its serial number. `log` is the log
    /// write that it carries, if any.
    pub(crate) fn sent(&mut self, log: Option<Point>) -> u64 {
        self.programs.push_back(Program { over: false, log });
        self.first_program + self.programs.len() as u64 - 1
    }

    /// Completes a program, and settles log writes.
    pub(crate) fn programmed(&mut self, serial: u64) {
        let program = &mut self.programs[(serial - self.first_program) as usize];
        program.over = true;
        if let Some(point) = program.log.filter(|_| planted(Bug::RecordBeforeData)) {
            self.settled = point;
        }
        // Programs end in any order; a log write settles only after all that were sent before it.
        while self.programs.front().is_some_and(|program| program.over) {
            let program = self.programs.pop_front().expect("the entry exists");
            self.first_program += 1;
            if let Some(point) = program.log {
                self.settled = point;
            }
        }
    }

    /// Lends the spare buffer to recovery for reading log pages.
    pub(crate) fn lend_spare(&mut self) -> MetaBuf {
        self.spare.take().expect("recovery has the spare log buffer")
    }
}
