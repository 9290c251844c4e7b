//! Rewritable pages on a drive without conventional zones. Two pairs of zones, one for each end of
//! the visible device, each hold a log of pages ([`hostftl_format::zonepages`]).
//!
//! Invariants
//! - The zone in use has all valid pages. The other one of its pair is free, or is being taken.
//! - The zone in use is abandoned only after the other one has all valid pages durably.
//! - Nothing is appended after an incomplete record.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, IoSlice};
use std::os::fd::AsRawFd;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, MutexGuard};

use hostftl_core::{Page, SECTOR, SECTORS_PER_BLOCK};
use hostftl_format::superblock::RESERVE;
use hostftl_format::zonepages::Head;

use super::kernel;

/// Number of records after which the other zone is taken. It limits the reads of a start.
const MOST: u64 = 512;

/// Zone of a pair, in sectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zone {
    /// Start on the medium.
    pub start: u64,
    /// Written length.
    pub pointer: u64,
}

/// Medium of the zone pairs. Positions are in sectors, and pages are aligned.
pub(crate) trait PageMedium {
    /// Fills `pages` from position `at`.
    fn read(&self, at: u64, pages: &mut [Page]) -> io::Result<()>;
    /// Writes `pages` at `at`, the write pointer of a zone.
    fn append(&self, at: u64, pages: &[Page]) -> io::Result<()>;
    /// Resets the zone of `len` sectors that starts at `at`.
    fn reset(&self, at: u64, len: u64) -> io::Result<()>;
    /// Makes completed writes durable.
    fn sync(&self) -> io::Result<()>;
}

impl PageMedium for File {
    fn read(&self, at: u64, pages: &mut [Page]) -> io::Result<()> {
        let step = u64::from(SECTORS_PER_BLOCK);
        (at..)
            .step_by(step as usize)
            .zip(pages)
            .try_for_each(|(at, page)| self.read_exact_at(&mut page.0, at * SECTOR as u64))
    }

    fn append(&self, at: u64, pages: &[Page]) -> io::Result<()> {
        let slices: Vec<_> = pages.iter().map(|page| IoSlice::new(&page.0)).collect();
        let written = rustix::io::pwritev(self, &slices, at * SECTOR as u64)?;
        if written == size_of_val(pages) {
            Ok(())
        } else {
            Err(io::Error::other("a record was written in part"))
        }
    }

    fn reset(&self, at: u64, len: u64) -> io::Result<()> {
        let (at, len) = (at * SECTOR as u64, len * SECTOR as u64);
        let done = kernel::reset(self.as_raw_fd(), at, len);
        done.map(|_| ()).map_err(|error| io::Error::other(error.to_string()))
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_all()
    }
}

#[derive(Debug)]
pub(crate) struct Pages {
    pairs: [Mutex<Pair>; 2],
    /// First sector of the second reserve of the visible device.
    tail: u64,
}

impl Pages {
    /// Creates two pairs of zones of `len` sectors with the capacity `capacity`, written in
    /// multiples of `unit`; `tail` is the first sector of the range that the second pair
    /// represents.
    pub(crate) fn new(
        zones: [[Zone; 2]; 2],
        (len, capacity, unit): (u64, u64, u64),
        tail: u64,
    ) -> Self {
        let record = (2 * u64::from(SECTORS_PER_BLOCK)).next_multiple_of(unit);
        let pairs = zones.map(|zones| {
            let (pages, used) = (BTreeMap::new(), None);
            Mutex::new(Pair { zones, len, capacity, record, used, pages, foreign: None })
        });
        Pages { pairs, tail }
    }

    /// Loads the pages in the zones.
    pub(crate) fn load(&self, medium: &impl PageMedium) -> io::Result<()> {
        self.pairs.iter().try_for_each(|pair| lock(pair).load(medium))
    }

    /// Reads the page of `sector`: zeros before it was written.
    pub(crate) fn read(&self, sector: u64, medium: &impl PageMedium) -> io::Result<Page> {
        lock(&self.pairs[self.pair_index(sector)]).read(sector, sector % RESERVE, medium)
    }

    /// Writes the page of `sector`; durable after a sync.
    pub(crate) fn write(
        &self,
        sector: u64,
        page: &Page,
        medium: &impl PageMedium,
    ) -> io::Result<()> {
        lock(&self.pairs[self.pair_index(sector)]).write(sector, page, medium)
    }

    /// Resets all of the zones: every page then reads as zeros.
    pub(crate) fn free(&self, medium: &impl PageMedium) -> io::Result<()> {
        for pair in &self.pairs {
            let mut pair = lock(pair);
            (pair.used, pair.foreign) = (None, None);
            pair.pages.clear();
            (0..2).try_for_each(|zone| pair.free(zone, medium))?;
        }
        medium.sync()
    }

    fn pair_index(&self, sector: u64) -> usize {
        usize::from(sector >= self.tail)
    }
}

/// Returns all valid pages in a zone about which nothing else is known, and none if it holds no log
/// of pages. Lengths are those of [`Pages::new`].
pub(super) fn pages_in(
    zone: Zone,
    (len, capacity, unit): (u64, u64, u64),
    medium: &impl PageMedium,
) -> io::Result<BTreeMap<u64, Box<Page>>> {
    let pages = Pages::new([[zone; 2]; 2], (len, capacity, unit), 0);
    let (used, found) = lock(&pages.pairs[0]).scan(0, medium)?;
    Ok(if used.is_some() { found } else { BTreeMap::new() })
}

/// Zone of a pair in use, and its extent.
#[derive(Clone, Copy, Debug)]
struct Used {
    zone: usize,
    generation: u64,
    /// Complete records.
    records: u64,
    /// Whether nothing follows them.
    ends_there: bool,
}

#[derive(Debug)]
struct Pair {
    zones: [Zone; 2],
    len: u64,
    capacity: u64,
    /// Sectors of a record.
    record: u64,
    used: Option<Used>,
    /// Valid pages that are not zeros, by sector.
    pages: BTreeMap<u64, Box<Page>>,
    /// Zone with foreign data, which is not a log of pages.
    foreign: Option<usize>,
}

impl Pair {
    fn load(&mut self, medium: &impl PageMedium) -> io::Result<()> {
        self.used = None;
        for zone in 0..2 {
            let (used, pages) = self.scan(zone, medium)?;
            let Some(used) = used else { continue };
            if self.used.is_none_or(|best| best.generation < used.generation) {
                (self.used, self.pages) = (Some(used), pages);
            }
        }
        // Only without a valid log can a zone hold foreign data.
        for zone in (0..2).rev().filter(|_| self.used.is_none()) {
            if self.is_foreign(zone, medium)? {
                self.foreign = Some(zone);
            }
        }
        Ok(())
    }

    /// Returns whether a zone holds something other than a log of pages, even one with only a torn
    /// first record.
    fn is_foreign(&self, zone: usize, medium: &impl PageMedium) -> io::Result<bool> {
        let Zone { start, pointer } = self.zones[zone];
        let mut first = vec![Page::default()];
        if pointer == 0 {
            return Ok(false);
        }
        medium.read(start, &mut first)?;
        Ok(Head::parse(&first[0], start).is_err())
    }

    /// Reads the log in a zone. Returns `None` for the zone if its log is incomplete.
    #[allow(clippy::type_complexity, reason = "two parts that are created together")]
    fn scan(
        &self,
        zone: usize,
        medium: &impl PageMedium,
    ) -> io::Result<(Option<Used>, BTreeMap<u64, Box<Page>>)> {
        let Zone { start, pointer } = self.zones[zone];
        let (mut pages, mut records, mut begun) = (BTreeMap::new(), 0, None);
        let mut both = vec![Page::default(); 2];
        while (records + 1) * self.record <= pointer {
            let at = start + records * self.record;
            medium.read(at, &mut both)?;
            let Ok(head) = Head::parse(&both[0], at) else { break };
            // All records of a zone have the generation of the first.
            let (generation, _) = *begun.get_or_insert((head.generation, head.first));
            if head.index != records || head.generation != generation || !head.is_of(&both[1]) {
                break;
            }
            keep(&mut pages, head.sector, &both[1]);
            records += 1;
        }
        let ends_there = records * self.record == pointer;
        // A zone is valid only with all records that it began with.
        let used = begun.filter(|(_, first)| records >= u64::from(*first) && records > 0);
        let used = used.map(|(generation, _)| Used { zone, generation, records, ends_there });
        Ok((used, pages))
    }

    fn read(&self, sector: u64, at: u64, medium: &impl PageMedium) -> io::Result<Page> {
        let mut page = vec![Page::default()];
        match self.pages.get(&sector) {
            Some(known) => page[0] = (**known).clone(),
            // Foreign data stays visible, so that a caller can detect other contents.
            None => {
                let foreign = self.foreign.map(|zone| self.zones[zone]);
                if let Some(zone) = foreign.filter(|zone| at < zone.pointer) {
                    medium.read(zone.start + at, &mut page)?;
                }
            }
        }
        Ok(page.swap_remove(0))
    }

    fn write(&mut self, sector: u64, page: &Page, medium: &impl PageMedium) -> io::Result<()> {
        let most = MOST.min(self.capacity / self.record);
        match self.used {
            Some(used) if used.ends_there && used.records < most => {
                let head = Head::new(page, (used.records, used.generation), sector, 0);
                self.append(used, head, page, medium)?;
            }
            _ => self.take_other(sector, page, medium)?,
        }
        keep(&mut self.pages, sector, page);
        Ok(())
    }

    /// Appends a record to the zone in use.
    fn append(
        &mut self,
        used: Used,
        head: Head,
        page: &Page,
        medium: &impl PageMedium,
    ) -> io::Result<()> {
        // Until the record is known to be complete, nothing may be appended after it.
        self.used = Some(Used { ends_there: false, ..used });
        self.put(used.zone, used.records, head, page, medium)?;
        self.used = Some(Used { records: used.records + 1, ..used });
        Ok(())
    }

    /// Takes the other zone with all valid pages and the new one, and resets the previous zone.
    fn take_other(&mut self, sector: u64, page: &Page, medium: &impl PageMedium) -> io::Result<()> {
        let before = self.used;
        let zone = before.map_or(0, |used| 1 - used.zone);
        let generation = before.map_or(1, |used| used.generation + 1);
        // The zone may hold an incomplete record or foreign data.
        self.free(zone, medium)?;
        let mut all: Vec<(u64, Box<Page>)> =
            self.pages.iter().map(|(sector, page)| (*sector, page.clone())).collect();
        all.retain(|(other, _)| *other != sector);
        all.push((sector, Box::new(page.clone())));
        let first = all.len() as u32;
        assert!(u64::from(first) * self.record <= self.capacity, "the pages fit into a zone");
        for (index, (sector, page)) in (0..).zip(&all) {
            let head = Head::new(page, (index, generation), *sector, first);
            self.put(zone, index, head, page, medium)?;
        }
        // The new zone must be durable before the previous one is reset.
        medium.sync()?;
        let records = u64::from(first);
        (self.used, self.foreign) =
            (Some(Used { zone, generation, records, ends_there: true }), None);
        // The previous zone has a lower generation, so it does no harm if it cannot be reset.
        self.free(1 - zone, medium).ok();
        Ok(())
    }

    fn free(&mut self, zone: usize, medium: &impl PageMedium) -> io::Result<()> {
        let Zone { start, pointer } = self.zones[zone];
        if pointer > 0 {
            medium.reset(start, self.len)?;
            self.zones[zone].pointer = 0;
        }
        Ok(())
    }

    /// Writes record `index` of a zone.
    fn put(
        &mut self,
        zone: usize,
        index: u64,
        head: Head,
        page: &Page,
        medium: &impl PageMedium,
    ) -> io::Result<()> {
        let at = self.zones[zone].start + index * self.record;
        let pages = self.record / u64::from(SECTORS_PER_BLOCK);
        let mut record = vec![Page::default(); pages as usize];
        (record[0], record[1]) = (head.emit(at), page.clone());
        // Set before the write: even after an error the zone may not be free any more.
        self.zones[zone].pointer = (index + 1) * self.record;
        medium.append(at, &record)
    }
}

fn keep(pages: &mut BTreeMap<u64, Box<Page>>, sector: u64, page: &Page) {
    if page.0.iter().all(|byte| *byte == 0) {
        pages.remove(&sector)
    } else {
        pages.insert(sector, Box::new(page.clone()))
    };
}

fn lock(pair: &Mutex<Pair>) -> MutexGuard<'_, Pair> {
    pair.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}

#[cfg(test)]
#[path = "pages_tests.rs"]
mod tests;
