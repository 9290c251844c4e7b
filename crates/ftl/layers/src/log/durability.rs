//! What is durable: the numbers of rows, how far they are written and flushed, and what somebody
//! waits for.
//!
//! A row has a stamp from when it is opened, and a number from when it is sealed. What the host
//! published is durable when every row with the host's data up to its stamp is, and every row with
//! a lower number: recovery ends before the first row that is not whole.
//!
//! Invariants
//! - `durable <= settled < next`, and none of the three ever goes back.
//! - A flush covers the rows that were written when it began, and no other.
//! - What is wanted only grows, so that what was closed for it stays closed.

use alloc::collections::VecDeque;

/// Rows between device flushes that nobody asked for: this bounds what recovery must verify.
pub(super) const WINDOW: u64 = 64;

/// A row that has its number, and is not durable.
#[derive(Clone, Copy, Debug)]
struct Sealed {
    seq: u64,
    stamp: u64,
    of_host: bool,
    written: bool,
}

/// A flush of all devices.
#[derive(Clone, Copy, Debug)]
struct Flush {
    /// Rows up to this number are durable when it is over,
    seq: u64,
    /// and so is what the host published in rows up to this stamp.
    host: u64,
    /// Devices that have yet to answer.
    left: u8,
}

/// What a flush was weighed with: rows written and sealed, how many may wait, and what is wanted.
type Weighed = (u64, u64, u64, (u64, u64));

/// The rows that are not sealed and have something: the lowest stamp of those with the host's data,
/// and of any.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unsealed {
    /// Of those with the host's data.
    pub host: Option<u64>,
    /// Of any.
    pub any: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Durability {
    /// The number of the next row.
    next: u64,
    /// All rows up to this number are written.
    settled: u64,
    /// All rows up to this number are durable.
    durable: u64,
    list: VecDeque<Sealed>,
    /// The lowest stamp of these.
    lowest: Option<u64>,
    /// The stamp of the row that was opened last.
    opened: u64,
    /// The youngest row in which something of the host's was published.
    host: u64,
    /// All of the host's rows up to this stamp are durable.
    host_durable: u64,
    /// All rows up to this stamp are.
    all_durable: u64,
    /// The host's rows, and all rows, that must become durable soon: up to these stamps.
    wanted: (u64, u64),
    /// What of that all rows were closed for.
    closed: (u64, u64),
    flush: Option<Flush>,
    /// When no flush was due last.
    weighed: Weighed,
}

impl Durability {
    /// The next row is number `next`; one was opened.
    pub(super) fn new(next: u64) -> Self {
        Durability {
            next,
            settled: next - 1,
            durable: next - 1,
            list: VecDeque::with_capacity(2 * WINDOW as usize + 16),
            lowest: None,
            opened: 1,
            host: 0,
            host_durable: 0,
            all_durable: 0,
            wanted: (0, 0),
            closed: (0, 0),
            flush: None,
            weighed: Weighed::default(),
        }
    }

    /// Recovery goes on behind row number `last`, before anything was sealed.
    pub(super) fn go_on_behind(&mut self, last: u64) {
        assert!(
            self.list.is_empty() && self.flush.is_none(),
            "rows are found before any is sealed"
        );
        (self.next, self.settled, self.durable) = (last + 1, last, last);
    }

    /// The number of the next row.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// All rows up to this number are durable.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// The stamp of the row that was opened last.
    pub(super) fn opened(&self) -> u64 {
        self.opened
    }

    /// A row is opened: its stamp.
    pub(super) fn open(&mut self) -> u64 {
        self.opened += 1;
        self.opened
    }

    /// Something of the host's was published in the row with this stamp.
    pub(super) fn host_published(&mut self, stamp: u64) {
        assert!(stamp <= self.opened, "what is published is in a row that was opened");
        self.host = self.host.max(stamp);
    }

    /// What the host published so far, as a mark for [`Durability::has_host`].
    pub(super) fn host(&self) -> u64 {
        self.host
    }

    /// Whether what the host had published at `mark` is durable in rows.
    pub(super) fn has_host(&self, mark: u64) -> bool {
        mark <= self.host_durable
    }

    /// What the host published up to `mark` must become durable soon.
    pub(super) fn want_host(&mut self, mark: u64) {
        self.wanted.0 = self.wanted.0.max(mark);
    }

    /// All rows up to `stamp` must become durable soon. Whether that is new.
    pub(super) fn want_all(&mut self, stamp: u64) -> bool {
        let grows = stamp > self.wanted.1;
        self.wanted.1 = self.wanted.1.max(stamp);
        grows
    }

    /// Whether a row with a stamp must become durable soon.
    pub(super) fn wants(&self, stamp: u64, of_host: bool) -> bool {
        stamp <= self.wanted.0 && of_host || stamp <= self.wanted.1
    }

    /// Whether all rows are closed that must become durable. Rows that were opened since are
    /// younger.
    pub(super) fn all_closed(&self) -> bool {
        self.closed == self.wanted
    }

    /// All rows are closed that must become durable.
    pub(super) fn set_closed(&mut self) {
        self.closed = self.wanted;
    }

    /// Whether one more row may be sealed: recovery verifies what is not known to be durable.
    pub(super) fn may_seal(&self) -> bool {
        self.next <= self.durable + 2 * WINDOW
    }

    /// A row takes the next number.
    pub(super) fn seal(&mut self, stamp: u64, of_host: bool) -> u64 {
        assert!(stamp <= self.opened, "a row is sealed after it was opened");
        let seq = self.next;
        self.next += 1;
        self.list.push_back(Sealed { seq, stamp, of_host, written: false });
        self.lowest = Some(self.lowest.map_or(stamp, |lowest| lowest.min(stamp)));
        // A row with only copies may be opened before, and sealed after, all were durable.
        self.all_durable = self.all_durable.min(stamp - 1);
        seq
    }

    /// As [`Durability::seal`], for a row of images, which shows all that is published.
    pub(super) fn seal_images(&mut self) -> u64 {
        self.seal(self.opened, false)
    }

    /// Row number `seq` is written.
    pub(super) fn written(&mut self, seq: u64) {
        let first = self.list.front().expect("a row that is not durable").seq;
        let it = &mut self.list[(seq - first) as usize];
        assert!(!it.written, "a row is written once");
        it.written = true;
        let open = self.list.iter().find(|it| !it.written).map(|it| it.seq);
        self.settled = open.unwrap_or(self.next) - 1;
    }

    /// The lowest stamp of a row beyond number `seq`, with or without the host's data.
    fn first_beyond(&self, seq: u64, of_host: bool) -> Option<u64> {
        let beyond = |it: &&Sealed| it.seq > seq && (it.of_host || !of_host);
        self.list.iter().filter(beyond).map(|it| it.stamp).min()
    }

    /// The stamp up to which every row that was opened is durable.
    pub(super) fn all_up_to(&self, unsealed: Unsealed) -> u64 {
        let sealed = self.lowest.unwrap_or(u64::MAX);
        unsealed.any.unwrap_or(u64::MAX).min(sealed) - 1
    }

    /// Whether every row that was opened up to `stamp` is durable.
    pub(super) fn has_all(&self, stamp: u64, unsealed: Unsealed) -> bool {
        stamp <= self.all_up_to(unsealed)
    }

    /// Whether a flush can make nothing durable, or one is under way, or nothing changed since none
    /// was due.
    pub(super) fn is_flush_futile(&self, window: u64) -> bool {
        let weighed = (self.settled, self.next, window, self.wanted);
        self.flush.is_some() || self.settled == self.durable || self.weighed == weighed
    }

    /// Whether a flush is due, when up to `window` rows may wait: somebody waits for one that
    /// covers what they want, or many rows are written.
    pub(super) fn is_flush_due(&mut self, window: u64, unsealed: Unsealed) -> bool {
        let covers = |stamp: u64, of_host: bool| {
            let first = if of_host { unsealed.host } else { unsealed.any };
            let sealed = self.first_beyond(self.settled, of_host);
            first.is_none_or(|first| first > stamp) && sealed.is_none_or(|first| first > stamp)
        };
        let (host, all) = self.wanted;
        let due = host > self.host_durable && covers(host, true)
            || all > self.all_durable && covers(all, false)
            || self.settled >= self.durable + window;
        if !due {
            self.weighed = (self.settled, self.next, window, self.wanted);
        }
        due
    }

    /// A flush of so many devices begins. `filling` is the lowest stamp of the host's rows that are
    /// not sealed, also of one that has nothing yet: it may get more, and is not covered.
    pub(super) fn begin_flush(&mut self, devices: u8, filling: Option<u64>) {
        assert!(self.flush.is_none(), "one flush is under way at a time");
        let sealed = self.first_beyond(self.settled, true).unwrap_or(u64::MAX);
        let host = filling.unwrap_or(u64::MAX).min(sealed).min(self.opened + 1) - 1;
        self.flush = Some(Flush { seq: self.settled, host, left: devices });
    }

    /// A device has flushed, or is gone. Whether it was the last.
    pub(super) fn device_flushed(&mut self) -> bool {
        let flush = self.flush.as_mut().expect("a flush is under way");
        flush.left -= 1;
        flush.left == 0
    }

    /// The flush is over; when it went well, what it covered is durable.
    pub(super) fn end_flush(&mut self, well: bool, unsealed: Unsealed) {
        let Flush { seq, host, left } = self.flush.take().expect("a flush is under way");
        assert!(left == 0 && seq >= self.durable, "a flush ends when all devices have flushed");
        if !well {
            return;
        }
        self.durable = seq;
        while self.list.front().is_some_and(|it| it.seq <= seq) {
            self.list.pop_front();
        }
        self.lowest = self.list.iter().map(|it| it.stamp).min();
        if self.has_all(self.wanted.1, unsealed) {
            self.all_durable = self.wanted.1;
        }
        self.host_durable = self.host_durable.max(host);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: Unsealed = Unsealed { host: None, any: None };

    /// A row of the host's that is opened and sealed.
    fn row(it: &mut Durability) -> (u64, u64) {
        let stamp = it.open();
        it.host_published(stamp);
        (stamp, it.seal(stamp, true))
    }

    fn flush(it: &mut Durability, unsealed: Unsealed) {
        it.begin_flush(2, unsealed.host);
        assert!(!it.device_flushed() && it.device_flushed());
        it.end_flush(true, unsealed);
    }

    #[test]
    fn a_flush_covers_rows_in_the_order_of_their_numbers() {
        let mut it = Durability::new(1);
        let rows = [row(&mut it), row(&mut it)];
        let mark = it.host();
        it.want_host(mark);
        it.written(rows[1].1);
        assert!(it.is_flush_futile(WINDOW), "the first row is not written");
        it.written(rows[0].1);
        assert!(!it.is_flush_futile(WINDOW) && it.is_flush_due(WINDOW, NONE));
        flush(&mut it, NONE);
        assert!(it.has_host(mark));
        assert_eq!((it.durable(), it.next()), (2, 3));
    }

    #[test]
    fn what_is_written_while_a_flush_is_under_way_is_not_covered() {
        let mut it = Durability::new(1);
        let first = row(&mut it);
        it.written(first.1);
        it.begin_flush(1, None);
        let second = row(&mut it);
        it.written(second.1);
        assert!(it.device_flushed());
        it.end_flush(true, NONE);
        assert!(it.has_host(first.0) && !it.has_host(second.0));
    }

    #[test]
    fn a_row_that_is_filled_is_not_covered() {
        let mut it = Durability::new(1);
        let filling = it.open();
        it.host_published(filling);
        let (_, seq) = row(&mut it);
        it.written(seq);
        let unsealed = Unsealed { host: Some(filling), any: Some(filling) };
        it.want_host(it.host());
        assert!(!it.is_flush_due(WINDOW, unsealed), "the flush would not cover what is wanted");
        assert!(it.is_flush_futile(WINDOW), "nothing changed since");
        flush(&mut it, unsealed);
        assert!(!it.has_host(filling) && !it.has_all(filling, unsealed));
        assert!(it.has_all(filling - 1, unsealed));
    }

    #[test]
    fn a_flush_that_failed_makes_nothing_durable() {
        let mut it = Durability::new(1);
        let (stamp, seq) = row(&mut it);
        it.written(seq);
        it.begin_flush(1, None);
        assert!(it.device_flushed());
        it.end_flush(false, NONE);
        assert!(!it.has_host(stamp) && it.durable() == 0);
    }

    #[test]
    fn rows_are_closed_for_what_is_wanted_then() {
        let mut it = Durability::new(1);
        let (stamp, _) = row(&mut it);
        it.want_host(stamp);
        assert!(!it.all_closed() && it.wants(stamp, true) && !it.wants(stamp, false));
        it.set_closed();
        assert!(it.all_closed());
        assert!(it.want_all(stamp) && !it.want_all(stamp), "that is wanted already");
        assert!(!it.all_closed() && it.wants(stamp, false));
    }

    #[test]
    #[should_panic(expected = "one flush is under way at a time")]
    fn one_flush_is_under_way_at_a_time() {
        let mut it = Durability::new(1);
        it.begin_flush(1, None);
        it.begin_flush(1, None);
    }
}
