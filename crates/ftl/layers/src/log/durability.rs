//! Durability of stripes: their numbers, their progress from sealed to written to flushed, and the
//! stripes that must become durable soon.
//!
//! A stripe gets a stamp when it is opened and a number when it is sealed. Published host data is
//! durable when two conditions hold: every stripe with host data up to its stamp is durable, and so
//! is every stripe with a lower number. The second follows from recovery, which stops before the
//! first incomplete stripe.
//!
//! Invariants
//! - `durable <= settled < next`, and none of the three ever decreases.
//! - A flush covers exactly the stripes that were written when it began.
//! - `wanted` only grows, so stripes that were closed for it stay closed.

use alloc::collections::VecDeque;

/// Number of stripes between device flushes that no request asked for. It bounds the number of
/// stripes that recovery must verify.
pub(super) const WINDOW: u64 = 64;

/// A sealed stripe that is not durable yet.
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
    /// Stripes up to this number are durable when the flush completes.
    seq: u64,
    /// Host data published in stripes up to this stamp is durable when the flush completes.
    host: u64,
    /// Devices whose flush has not completed.
    left: u8,
}

/// Inputs of the last evaluation of [`Durability::is_flush_due`]: stripes written, stripes sealed,
/// the window, and `wanted`.
type Weighed = (u64, u64, u64, (u64, u64));

/// Lowest stamps among the stripes that are not sealed and not empty.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Unsealed {
    /// Lowest stamp of a stripe with host data.
    pub host: Option<u64>,
    /// Lowest stamp of any stripe.
    pub any: Option<u64>,
}

#[derive(Debug)]
pub(super) struct Durability {
    /// Number of the next stripe to be sealed.
    next: u64,
    /// All stripes up to this number are written.
    settled: u64,
    /// All stripes up to this number are durable.
    durable: u64,
    list: VecDeque<Sealed>,
    /// Lowest stamp in `list`.
    lowest: Option<u64>,
    /// Stamp of the stripe that was opened last.
    opened: u64,
    /// Highest stamp of a stripe with published host data.
    host: u64,
    /// All stripes with host data up to this stamp are durable.
    host_durable: u64,
    /// All stripes up to this stamp are durable.
    all_durable: u64,
    /// Stamps up to which stripes must become durable soon: stripes with host data, and all
    /// stripes.
    wanted: (u64, u64),
    /// Part of `wanted` for which all open stripes have been closed.
    closed: (u64, u64),
    flush: Option<Flush>,
    /// Inputs of the last evaluation that found no flush due.
    weighed: Weighed,
}

impl Durability {
    /// Creates the state of a volume whose next stripe has number `next`; one stripe is open.
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

    /// Continues the numbers after stripe `last`, which recovery found, before any stripe is
    /// sealed.
    pub(super) fn continue_after(&mut self, last: u64) {
        assert!(
            self.list.is_empty() && self.flush.is_none(),
            "replay ends before a stripe is sealed"
        );
        (self.next, self.settled, self.durable) = (last + 1, last, last);
    }

    /// Returns the number of the next stripe to be sealed.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// Returns the number up to which all stripes are durable.
    pub(super) fn durable(&self) -> u64 {
        self.durable
    }

    /// Returns the stamp of the stripe that was opened last.
    pub(super) fn opened(&self) -> u64 {
        self.opened
    }

    /// Opens a stripe and returns its stamp.
    pub(super) fn open(&mut self) -> u64 {
        self.opened += 1;
        self.opened
    }

    /// Records that host data was published in the stripe with this stamp.
    pub(super) fn host_published(&mut self, stamp: u64) {
        assert!(stamp <= self.opened, "published blocks are in an opened stripe");
        self.host = self.host.max(stamp);
    }

    /// Returns a mark that covers all host data published so far, for [`Durability::has_host`].
    pub(super) fn host(&self) -> u64 {
        self.host
    }

    /// Returns whether the host data covered by `mark` is durable in stripes.
    pub(super) fn has_host(&self, mark: u64) -> bool {
        mark <= self.host_durable
    }

    /// Requests that the host data covered by `mark` becomes durable soon.
    pub(super) fn want_host(&mut self, mark: u64) {
        self.wanted.0 = self.wanted.0.max(mark);
    }

    /// Requests that all stripes up to `stamp` become durable soon. Returns whether the request is
    /// new.
    pub(super) fn want_all(&mut self, stamp: u64) -> bool {
        let grows = stamp > self.wanted.1;
        self.wanted.1 = self.wanted.1.max(stamp);
        grows
    }

    /// Returns whether a stripe with this stamp must become durable soon.
    pub(super) fn wants(&self, stamp: u64, of_host: bool) -> bool {
        stamp <= self.wanted.0 && of_host || stamp <= self.wanted.1
    }

    /// Returns whether all stripes that must become durable are closed. Stripes opened since have
    /// higher stamps and are not among them.
    pub(super) fn all_closed(&self) -> bool {
        self.closed == self.wanted
    }

    /// Records that all stripes that must become durable are closed.
    pub(super) fn set_closed(&mut self) {
        self.closed = self.wanted;
    }

    /// Returns whether one more stripe may be sealed. The limit exists because recovery verifies
    /// every stripe that may not be durable.
    pub(super) fn may_seal(&self) -> bool {
        self.next <= self.durable + 2 * WINDOW
    }

    /// Gives the next number to a stripe and returns it.
    pub(super) fn seal(&mut self, stamp: u64, of_host: bool) -> u64 {
        assert!(stamp <= self.opened, "an opened stripe is sealed");
        let seq = self.next;
        self.next += 1;
        self.list.push_back(Sealed { seq, stamp, of_host, written: false });
        self.lowest = Some(self.lowest.map_or(stamp, |lowest| lowest.min(stamp)));
        // An empty stripe is not part of `Unsealed`, so `all_durable` may already have passed the
        // stamp of this one.
        self.all_durable = self.all_durable.min(stamp - 1);
        seq
    }

    /// Seals a stripe of map images and returns its number. Images contain everything published so
    /// far, so the stripe takes the highest stamp.
    pub(super) fn seal_images(&mut self) -> u64 {
        self.seal(self.opened, false)
    }

    /// Records that stripe number `seq` is written.
    pub(super) fn written(&mut self, seq: u64) {
        let first = self.list.front().expect("a stripe that is not durable").seq;
        let it = &mut self.list[(seq - first) as usize];
        assert!(!it.written, "a stripe is written once");
        it.written = true;
        // Stripes may be written out of order: `settled` stops before the first that is not.
        let open = self.list.iter().find(|it| !it.written).map(|it| it.seq);
        self.settled = open.unwrap_or(self.next) - 1;
    }

    /// Returns the lowest stamp of a sealed stripe beyond number `seq`, of those with host data or
    /// of all.
    fn first_beyond(&self, seq: u64, of_host: bool) -> Option<u64> {
        let beyond = |it: &&Sealed| it.seq > seq && (it.of_host || !of_host);
        self.list.iter().filter(beyond).map(|it| it.stamp).min()
    }

    /// Returns the stamp up to which every opened stripe is durable.
    pub(super) fn all_up_to(&self, unsealed: Unsealed) -> u64 {
        let sealed = self.lowest.unwrap_or(u64::MAX);
        unsealed.any.unwrap_or(u64::MAX).min(sealed) - 1
    }

    /// Returns whether every opened stripe up to `stamp` is durable.
    pub(super) fn has_all(&self, stamp: u64, unsealed: Unsealed) -> bool {
        stamp <= self.all_up_to(unsealed)
    }

    /// Returns whether no flush can be due: one is in progress, no stripe was written since the
    /// last one, or nothing changed since [`Durability::is_flush_due`] found none due.
    pub(super) fn is_flush_futile(&self, window: u64) -> bool {
        let weighed = (self.settled, self.next, window, self.wanted);
        self.flush.is_some() || self.settled == self.durable || self.weighed == weighed
    }

    /// Returns whether a flush is due: it would cover all that is requested, or `window` stripes
    /// are written and not durable.
    pub(super) fn is_flush_due(&mut self, window: u64, unsealed: Unsealed) -> bool {
        // A flush that covers only part of a request would have to be repeated, so it waits.
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

    /// Begins a flush of `devices` devices. `filling` is the lowest stamp of the unsealed stripes
    /// for host data, including empty ones. These may still receive data and are not covered.
    pub(super) fn begin_flush(&mut self, devices: u8, filling: Option<u64>) {
        assert!(self.flush.is_none(), "one flush at a time");
        let sealed = self.first_beyond(self.settled, true).unwrap_or(u64::MAX);
        // Covers the stamps below the first stripe that is unsealed, or sealed but not written.
        let host = filling.unwrap_or(u64::MAX).min(sealed).min(self.opened + 1) - 1;
        self.flush = Some(Flush { seq: self.settled, host, left: devices });
    }

    /// Records that a device completed its flush or has failed. Returns whether it was the last.
    pub(super) fn device_flushed(&mut self) -> bool {
        let flush = self.flush.as_mut().expect("a flush is in progress");
        flush.left -= 1;
        flush.left == 0
    }

    /// Ends the flush. If it succeeded (`well`), the stripes that it covers become durable.
    pub(super) fn end_flush(&mut self, well: bool, unsealed: Unsealed) {
        let Flush { seq, host, left } = self.flush.take().expect("a flush is in progress");
        assert!(left == 0 && seq >= self.durable, "a flush ends after the flush of each device");
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

    /// Opens and seals a stripe with host data; returns its stamp and its number.
    fn stripe(it: &mut Durability) -> (u64, u64) {
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
    fn a_flush_covers_stripes_in_the_order_of_their_numbers() {
        let mut it = Durability::new(1);
        let stripes = [stripe(&mut it), stripe(&mut it)];
        let mark = it.host();
        it.want_host(mark);
        it.written(stripes[1].1);
        assert!(it.is_flush_futile(WINDOW), "the first stripe is not written");
        it.written(stripes[0].1);
        assert!(!it.is_flush_futile(WINDOW) && it.is_flush_due(WINDOW, NONE));
        flush(&mut it, NONE);
        assert!(it.has_host(mark));
        assert_eq!((it.durable(), it.next()), (2, 3));
    }

    #[test]
    fn a_flush_does_not_cover_later_writes() {
        let mut it = Durability::new(1);
        let first = stripe(&mut it);
        it.written(first.1);
        it.begin_flush(1, None);
        let second = stripe(&mut it);
        it.written(second.1);
        assert!(it.device_flushed());
        it.end_flush(true, NONE);
        assert!(it.has_host(first.0) && !it.has_host(second.0));
    }

    #[test]
    fn a_flush_does_not_cover_an_open_stripe() {
        let mut it = Durability::new(1);
        let filling = it.open();
        it.host_published(filling);
        let (_, seq) = stripe(&mut it);
        it.written(seq);
        let unsealed = Unsealed { host: Some(filling), any: Some(filling) };
        it.want_host(it.host());
        assert!(!it.is_flush_due(WINDOW, unsealed), "the flush would not cover the request");
        assert!(it.is_flush_futile(WINDOW), "nothing changed since");
        flush(&mut it, unsealed);
        assert!(!it.has_host(filling) && !it.has_all(filling, unsealed));
        assert!(it.has_all(filling - 1, unsealed));
    }

    #[test]
    fn a_failed_flush_makes_no_data_durable() {
        let mut it = Durability::new(1);
        let (stamp, seq) = stripe(&mut it);
        it.written(seq);
        it.begin_flush(1, None);
        assert!(it.device_flushed());
        it.end_flush(false, NONE);
        assert!(!it.has_host(stamp) && it.durable() == 0);
    }

    #[test]
    fn stripes_are_sealed_for_pending_flushes() {
        let mut it = Durability::new(1);
        let (stamp, _) = stripe(&mut it);
        it.want_host(stamp);
        assert!(!it.all_closed() && it.wants(stamp, true) && !it.wants(stamp, false));
        it.set_closed();
        assert!(it.all_closed());
        assert!(it.want_all(stamp) && !it.want_all(stamp), "that is wanted already");
        assert!(!it.all_closed() && it.wants(stamp, false));
    }

    #[test]
    #[should_panic(expected = "one flush at a time")]
    fn flushes_are_serialised() {
        let mut it = Durability::new(1);
        it.begin_flush(1, None);
        it.begin_flush(1, None);
    }
}
