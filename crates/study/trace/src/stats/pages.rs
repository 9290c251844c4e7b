//! Counters of reads and writes per page.
//!
//! The counters take 4 bytes for each page of every 256 KiB that the trace touches.

use std::collections::{BTreeMap, HashMap};

use crate::record::{Op, Record};

/// Sectors of a page of 4 KiB.
pub(super) const PAGE: u64 = 8;
/// Pages whose counters are stored together.
const CHUNK: u64 = 64;
/// Bit of a counter for a page that was read. The other bits count writes.
const READ: u32 = 1 << 31;

/// Counters of pages.
#[derive(Debug, Default)]
pub(super) struct Pages {
    index: HashMap<(u32, u64), usize>,
    chunks: Vec<[u32; CHUNK as usize]>,
    /// Chunk of the last access, which the next request often touches too.
    last: Option<((u32, u64), usize)>,
}

/// Number of pages by kind of access.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Touched {
    /// Read or written.
    pub all: u64,
    /// Read.
    pub read: u64,
    /// Written.
    pub written: u64,
    /// Number of pages for each number of writes.
    pub writes: BTreeMap<u64, u64>,
}

impl Pages {
    /// Counts the pages that `record` reads or writes.
    pub(super) fn count(&mut self, record: &Record) {
        if record.sectors == 0 || !matches!(record.op, Op::Read | Op::Write) {
            return;
        }
        let (first, last) = (record.lba / PAGE, (record.end() - 1) / PAGE);
        let mut page = first;
        while page <= last {
            let chunk = page / CHUNK;
            let end = last.min(chunk * CHUNK + CHUNK - 1);
            let counters = self.chunk((record.dev, chunk));
            for counter in &mut counters[(page % CHUNK) as usize..=(end % CHUNK) as usize] {
                match record.op {
                    Op::Read => *counter |= READ,
                    _ => *counter += u32::from(*counter & !READ < !READ),
                }
            }
            page = end + 1;
        }
    }

    fn chunk(&mut self, key: (u32, u64)) -> &mut [u32; CHUNK as usize] {
        let at = match self.last {
            Some((last, at)) if last == key => at,
            _ => {
                let next = self.chunks.len();
                let at = *self.index.entry(key).or_insert(next);
                if at == next {
                    self.chunks.push([0; CHUNK as usize]);
                }
                at
            }
        };
        self.last = Some((key, at));
        &mut self.chunks[at]
    }

    /// Sums up the counters.
    pub(super) fn touched(&self) -> Touched {
        let mut touched = Touched::default();
        for counter in self.chunks.iter().flatten().filter(|counter| **counter > 0) {
            let writes = u64::from(counter & !READ);
            touched.all += 1;
            touched.read += u64::from(counter & READ != 0);
            touched.written += u64::from(writes > 0);
            if writes > 0 {
                *touched.writes.entry(writes).or_default() += 1;
            }
        }
        touched
    }
}
