//! Packs the touched parts of an address space densely, in the order of their first touch.
//!
//! The grain is 1 MiB, so that what lies together stays together: what a drive sees of a write does
//! not change. Memory: about 40 bytes for each MiB that the trace touches.
//!
//! A record that crosses into a granule which lies elsewhere becomes two, and so on: counts and
//! sizes of requests are then not those of the trace, and [`Compact::split`] says by how many.

use std::collections::HashMap;

use hostftl_core::SECTOR;

use crate::error::TraceError;
use crate::record::{Op, Record};

/// Sectors that stay together: 1 MiB.
pub const GRANULE: u64 = (1 << 20) / SECTOR as u64;

/// Moves the addresses of `inner` together; several devices come to lie side by side.
pub struct Compact<I> {
    inner: I,
    dense: HashMap<(u32, u64), u64>,
    rest: Option<Record>,
    split: u64,
}

impl<I> Compact<I> {
    /// An adapter with an empty table.
    pub fn new(inner: I) -> Self {
        Compact { inner, dense: HashMap::new(), rest: None, split: 0 }
    }

    /// What is packed.
    pub fn inner(&self) -> &I {
        &self.inner
    }

    /// Records so far beyond those of the inner iterator.
    pub fn split(&self) -> u64 {
        self.split
    }

    /// Sectors of the dense address space so far.
    pub fn sectors(&self) -> u64 {
        self.dense.len() as u64 * GRANULE
    }

    /// Where granule `index` of `dev` lies; a new one goes to the end.
    fn place(&mut self, dev: u32, index: u64) -> u64 {
        let next = self.dense.len() as u64;
        *self.dense.entry((dev, index)).or_insert(next) * GRANULE
    }

    /// The longest front of `record` that is contiguous in the dense space; keeps the rest.
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
