//! Late writes: writes without a reply when their connection was lost. The server may execute them
//! at a later time.
//!
//! Invariants
//! - A late write is kept as its range until a fixed time after the next connection began.
//! - The newest data of every byte that was completed over a late write is kept here.

use std::collections::BTreeMap;
use std::time::Instant;

use super::unflushed::{CompletedWrite, ENTRY, FULL_AT};

#[derive(Debug)]
struct LateWrite {
    offset: u64,
    len: u64,
    /// End of its time; `None` while there is no connection.
    until: Option<Instant>,
}

/// Expected data of a range; `None` means zeros.
#[derive(Debug)]
struct Newer {
    len: u64,
    bytes: Option<Box<[u8]>>,
}

#[derive(Debug, Default)]
pub(super) struct LateWrites {
    list: Vec<LateWrite>,
    newer: BTreeMap<u64, Newer>,
    cost: u64,
    /// Number of changes, and the number up to which they were compared with the server's data.
    changes: u64,
    checked: u64,
}

impl LateWrites {
    /// Returns whether there are no late writes.
    pub(super) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Adds the range of a write without a reply.
    pub(super) fn add(&mut self, offset: u64, len: u64) {
        match self.list.iter_mut().find(|late| (late.offset, late.len) == (offset, len)) {
            // The repeated write had no reply either, so its time starts again.
            Some(known) => known.until = None,
            None => self.list.push(LateWrite { offset, len, until: None }),
        }
    }

    /// Records that the connection was lost: ranges compared before may have changed.
    pub(super) fn doubt(&mut self) {
        self.changes += 1;
    }

    /// Sets the end of all late writes without one, after a reconnect.
    pub(super) fn end_at(&mut self, until: Instant) {
        self.list.iter_mut().for_each(|late| late.until = late.until.or(Some(until)));
    }

    /// Returns whether a write of this range must wait for memory.
    pub(super) fn is_full(&self, offset: u64, len: u64) -> bool {
        let meets = |late: &LateWrite| meet((late.offset, late.len), (offset, len)).is_some();
        self.cost >= FULL_AT && self.list.iter().any(meets)
    }

    /// Records a completed write.
    pub(super) fn note(&mut self, kept: &CompletedWrite) {
        let (offset, len) = match kept {
            CompletedWrite::Bytes { offset, bytes } => (*offset, bytes.len() as u64),
            CompletedWrite::Zeros { offset, len } => (*offset, *len),
        };
        let ranges =
            self.list.iter().filter_map(|late| meet((late.offset, late.len), (offset, len)));
        for (from, len) in ranges.collect::<Vec<_>>() {
            // Older data of the range is obsolete.
            self.cut(from, len);
            let bytes = match kept {
                CompletedWrite::Bytes { bytes, .. } => Some(part(bytes, from - offset, len)),
                CompletedWrite::Zeros { .. } => None,
            };
            self.insert(from, Newer { len, bytes });
            self.changes += 1;
        }
    }

    fn insert(&mut self, offset: u64, newer: Newer) {
        self.cost += newer.cost();
        self.newer.insert(offset, newer);
    }

    /// Removes the expected data of a range.
    fn cut(&mut self, from: u64, len: u64) {
        let known: Vec<u64> = self.within(from, len).map(|(offset, _)| offset).collect();
        for offset in known {
            let old = self.newer.remove(&offset).expect("the entry exists");
            self.cost -= old.cost();
            let end = offset + old.len;
            // The parts before and after the range remain.
            for (start, stop) in [(offset, from), (from + len, end)] {
                if start < stop {
                    let bytes =
                        old.bytes.as_ref().map(|all| part(all, start - offset, stop - start));
                    self.insert(start, Newer { len: stop - start, bytes });
                }
            }
        }
    }

    /// Returns the expected data that overlaps a range, in order.
    fn within(&self, from: u64, len: u64) -> impl Iterator<Item = (u64, &Newer)> {
        // Entries do not overlap, so only the last one before the range can reach into it.
        let before = self.newer.range(..from).next_back();
        let inside = self.newer.range(from..from + len);
        let all = before.into_iter().chain(inside).map(|(offset, newer)| (*offset, newer));
        all.filter(move |(offset, newer)| meet((*offset, newer.len), (from, len)).is_some())
    }

    /// Overwrites bytes that the server returned for `offset` with the expected data.
    pub(super) fn lay_over(&self, offset: u64, bytes: &mut [u8]) {
        for (start, newer) in self.within(offset, bytes.len() as u64) {
            let range = meet((start, newer.len), (offset, bytes.len() as u64));
            let (from, len) = range.expect("the index is in range");
            let to = &mut bytes[(from - offset) as usize..][..len as usize];
            match &newer.bytes {
                Some(all) => to.copy_from_slice(&all[(from - start) as usize..][..len as usize]),
                None => to.fill(0),
            }
        }
    }

    /// Returns the first range to compare from `from` on, of at most `most` bytes.
    pub(super) fn next(&self, from: u64, most: u64) -> Option<(u64, u64)> {
        let (offset, newer) = self.within(from, u64::MAX - from).next()?;
        let start = from.max(offset);
        Some((start, (offset + newer.len - start).min(most)))
    }

    /// Returns the write that corrects `offset`, if the server's bytes differ from the expected
    /// data.
    pub(super) fn repair(&self, offset: u64, bytes: &[u8]) -> Option<CompletedWrite> {
        let mut right: Box<[u8]> = bytes.into();
        self.lay_over(offset, &mut right);
        (*right != *bytes).then_some(CompletedWrite::Bytes { offset, bytes: right })
    }

    /// Returns whether a change was not compared.
    pub(super) fn is_unchecked(&self) -> bool {
        self.changes != self.checked && !self.newer.is_empty()
    }

    /// Returns the number of the last change.
    pub(super) fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns whether the time of a late write has passed.
    pub(super) fn has_ended(&self, now: Instant) -> bool {
        self.list.iter().any(|late| late.until.is_some_and(|until| until <= now))
    }

    /// Records a comparison of all changes up to `changes`, which started at `begun`.
    pub(super) fn compared(&mut self, changes: u64, begun: Instant) {
        self.checked = changes;
        // A late write that ended later may have written after the comparison.
        self.list.retain(|late| late.until.is_none_or(|until| until > begun));
        let LateWrites { list, newer, .. } = self;
        // Expected data is only needed where a late write remains.
        newer.retain(|offset, newer| {
            let range = (*offset, newer.len);
            list.iter().any(|late| meet((late.offset, late.len), range).is_some())
        });
        self.cost = self.newer.values().map(Newer::cost).sum();
    }
}

impl Newer {
    /// Returns the memory that the entry takes, in bytes.
    fn cost(&self) -> u64 {
        ENTRY + self.bytes.as_ref().map_or(0, |bytes| bytes.len() as u64)
    }
}

/// Returns the intersection of two ranges.
fn meet(a: (u64, u64), b: (u64, u64)) -> Option<(u64, u64)> {
    let from = a.0.max(b.0);
    let to = (a.0 + a.1).min(b.0 + b.1);
    (from < to).then(|| (from, to - from))
}

fn part(bytes: &[u8], from: u64, len: u64) -> Box<[u8]> {
    bytes[from as usize..][..len as usize].into()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn bytes(offset: u64, len: usize, value: u8) -> CompletedWrite {
        CompletedWrite::Bytes { offset, bytes: vec![value; len].into() }
    }

    #[test]
    fn the_newest_data_over_a_late_write_is_recorded() {
        let mut late_writes = LateWrites::default();
        late_writes.add(1000, 1000);
        late_writes.note(&bytes(0, 1000, 9));
        assert!(!late_writes.is_unchecked(), "beside the late write");
        late_writes.note(&bytes(0, 4000, 1));
        late_writes.note(&bytes(1200, 100, 2));
        late_writes.note(&CompletedWrite::Zeros { offset: 1250, len: 100 });
        let mut there = vec![7; 3000];
        late_writes.lay_over(500, &mut there);
        let mut right = vec![7; 3000];
        right[500..1500].fill(1);
        right[700..750].fill(2);
        right[750..850].fill(0);
        assert!(there == right);
        assert!(late_writes.repair(500, &right).is_none());
        let repaired = late_writes.repair(1100, &[1; 200]);
        let Some(CompletedWrite::Bytes { offset: 1100, bytes }) = repaired else {
            panic!("{repaired:?}")
        };
        assert!(*bytes == right[600..800]);
        assert_eq!(late_writes.next(0, 64), Some((1000, 64)));
        assert_eq!(late_writes.next(1064, 4096), Some((1064, 136)));
        assert_eq!(late_writes.next(2000, 4096), None);
    }

    #[test]
    fn an_expired_late_write_drops_its_records() {
        let mut late_writes = LateWrites::default();
        let begin = Instant::now();
        let end = begin + Duration::from_secs(1);
        late_writes.add(0, 512);
        late_writes.note(&bytes(0, 512, 1));
        assert!(!late_writes.has_ended(end), "there is no connection yet");
        late_writes.end_at(end);
        assert!(
            !late_writes.has_ended(begin)
                && late_writes.has_ended(end)
                && late_writes.is_unchecked()
        );
        late_writes.compared(late_writes.changes(), begin);
        assert!(!late_writes.is_empty() && !late_writes.is_unchecked());
        late_writes.doubt();
        assert!(late_writes.is_unchecked());
        late_writes.compared(late_writes.changes(), end);
        assert!(late_writes.is_empty() && late_writes.newer.is_empty() && late_writes.cost == 0);
    }

    #[test]
    fn only_writes_over_late_writes_wait_for_room() {
        let mut late_writes = LateWrites::default();
        late_writes.add(0, FULL_AT);
        late_writes.note(&bytes(0, FULL_AT as usize - 512, 1));
        assert!(!late_writes.is_full(0, 512));
        late_writes.note(&bytes(FULL_AT - 512, 512, 1));
        assert!(late_writes.is_full(0, 512) && !late_writes.is_full(FULL_AT, 512));
    }
}
