//! Packs the touched parts of an address space densely, in the order of their first touch.
//!
//! The granule is 1 MiB, so neighbouring addresses stay together and a write looks the same to a
//! drive. The table takes about 40 bytes for each MiB that the trace touches.
//!
//! A record that crosses into a granule with another position is split, possibly more than once.
//! Counts and sizes of requests then differ from the trace, and [`Compact::split`] returns the
//! number of additional records.

use std::collections::HashMap;

use hostftl_core::SECTOR;

use crate::error::TraceError;
use crate::record::{Op, Record};

/// Sectors that stay together: 1 MiB.
pub const GRANULE: u64 = (1 << 20) / SECTOR as u64;

/// An adapter that packs the addresses of `inner`. The granules of several devices share one
/// address space.
pub struct Compact<I> {
    inner: I,
    dense: HashMap<(u32, u64), u64>,
    rest: Option<Record>,
    split: u64,
}

impl<I> Compact<I> {
    /// Makes an adapter with an empty table.
    pub fn new(inner: I) -> Self {
        Compact { inner, dense: HashMap::new(), rest: None, split: 0 }
    }

    /// Returns the inner iterator.
    pub fn inner(&self) -> &I {
        &self.inner
    }

    /// Returns the number of additional records so far that are due to splits.
    pub fn split(&self) -> u64 {
        self.split
    }

    /// Returns the sectors of the dense address space so far.
    pub fn sectors(&self) -> u64 {
        self.dense.len() as u64 * GRANULE
    }

    /// Returns the first sector of granule `index` of `dev`. A new granule is appended.
    fn place(&mut self, dev: u32, index: u64) -> u64 {
        let next = self.dense.len() as u64;
        *self.dense.entry((dev, index)).or_insert(next) * GRANULE
    }

    /// Returns the longest prefix of `record` that is contiguous in the dense space, and keeps the
    /// rest.
    fn cut(&mut self, record: Record) -> Record {
        if record.op == Op::Flush {
            return Record { dev: 0, ..record };
        }
        let first = record.lba / GRANULE;
        let base = self.place(record.dev, first);
        let mut index = first;
        let mut end = (first + 1) * GRANULE;
        while end < record.end()
            && self.place(record.dev, index + 1) == base + end - first * GRANULE
        {
            index += 1;
            end = (index + 1) * GRANULE;
        }
        let sectors = end.min(record.end()) - record.lba;
        if sectors < record.sectors {
            let (lba, sectors) = (record.lba + sectors, record.sectors - sectors);
            self.rest = Some(Record { lba, sectors, ..record });
            self.split += 1;
        }
        Record { dev: 0, lba: base + record.lba % GRANULE, sectors, ..record }
    }
}

impl<I: Iterator<Item = Result<Record, TraceError>>> Iterator for Compact<I> {
    type Item = Result<Record, TraceError>;

    fn next(&mut self) -> Option<Self::Item> {
        let record = match self.rest.take() {
            Some(rest) => rest,
            None => match self.inner.next()? {
                Ok(record) => record,
                Err(error) => return Some(Err(error)),
            },
        };
        Some(Ok(self.cut(record)))
    }
}
