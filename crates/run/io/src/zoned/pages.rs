//! Pages that can be written at any time on a drive whose zones can't: two pairs of zones, one for
//! each end of what the device shows, each a log of pages ([`hostftl_format::zonepages`]).
//!
//! Invariants
//! - The zone that is in use has all pages that count; the other one of its pair is free, or is
//!   just being taken.
//! - The zone in use is left only after the other one has all pages that count, durably.
//! - Nothing is written behind what is not whole.

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

/// Records of a zone before the other one is taken: what a start has to read.
const MOST: u64 = 512;

/// A zone of a pair; in sectors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Zone {
    /// Where it begins on the medium.
    pub start: u64,
    /// What is written of it.
    pub pointer: u64,
}

/// What the pairs lie on. Places are in sectors, pages are aligned.
pub(crate) trait Medium {
    /// Fills `pages` from what lies at `at`.
    fn read(&self, at: u64, pages: &mut [Page]) -> io::Result<()>;
    /// Writes `pages` at `at`, the write pointer of a zone.
    fn append(&self, at: u64, pages: &[Page]) -> io::Result<()>;
    /// Frees the zone of `len` sectors that begins at `at`.
    fn reset(&self, at: u64, len: u64) -> io::Result<()>;
    /// Makes everything durable.
    fn sync(&self) -> io::Result<()>;
}

impl Medium for File {
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
    /// The first sector of the second reserve, as the device shows itself.
    tail: u64,
}

impl Pages {
    /// Two pairs of zones of `len` sectors, of which `capacity` can be written in multiples of
    /// `unit`; `tail` is the first sector of what the second pair stands for.
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

    /// Finds what the zones hold.
    pub(crate) fn load(&self, medium: &impl Medium) -> io::Result<()> {
        self.pairs.iter().try_for_each(|pair| lock(pair).load(medium))
    }

    /// The page that stands for `sector`: zeros before it was written.
    pub(crate) fn read(&self, sector: u64, medium: &impl Medium) -> io::Result<Page> {
        lock(&self.pairs[self.pair_of(sector)]).read(sector, sector % RESERVE, medium)
    }

    /// Writes the page that stands for `sector`; durable after a sync.
    pub(crate) fn write(&self, sector: u64, page: &Page, medium: &impl Medium) -> io::Result<()> {
        lock(&self.pairs[self.pair_of(sector)]).write(sector, page, medium)
    }

    /// Frees all of the zones: every page is zeros then.
    pub(crate) fn free(&self, medium: &impl Medium) -> io::Result<()> {
        for pair in &self.pairs {
            let mut pair = lock(pair);
            (pair.used, pair.foreign) = (None, None);
            pair.pages.clear();
            (0..2).try_for_each(|zone| pair.free(zone, medium))?;
        }
        medium.sync()
    }

    fn pair_of(&self, sector: u64) -> usize {
        usize::from(sector >= self.tail)
    }
}

/// All pages that count in a zone of which nothing else is known; none where it holds something
/// else. Lengths as for [`Pages::new`].
pub(super) fn pages_in(
    zone: Zone,
    (len, capacity, unit): (u64, u64, u64),
    medium: &impl Medium,
) -> io::Result<BTreeMap<u64, Box<Page>>> {
    let pages = Pages::new([[zone; 2]; 2], (len, capacity, unit), 0);
    let (used, found) = lock(&pages.pairs[0]).scan(0, medium)?;
    Ok(if used.is_some() { found } else { BTreeMap::new() })
}

/// Which zone of a pair is in use, and how far.
#[derive(Clone, Copy, Debug)]
struct Used {
    zone: usize,
    generation: u64,
    /// Whole records.
    records: u64,
    /// Whether nothing lies behind them.
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
    /// All pages that count and are not zeros, by sector.
    pages: BTreeMap<u64, Box<Page>>,
    /// The zone that holds something else.
    foreign: Option<usize>,
}

impl Pair {
    fn load(&mut self, medium: &impl Medium) -> io::Result<()> {
        self.used = None;
        for zone in 0..2 {
            let (used, pages) = self.scan(zone, medium)?;
            let Some(used) = used else { continue };
            if self.used.is_none_or(|best| best.generation < used.generation) {
                (self.used, self.pages) = (Some(used), pages);
            }
        }
        for zone in (0..2).rev().filter(|_| self.used.is_none()) {
            if self.is_foreign(zone, medium)? {
                self.foreign = Some(zone);
            }
        }
        Ok(())
    }

    /// Whether a zone holds what is no log of pages; not even one whose first record was cut off.
    fn is_foreign(&self, zone: usize, medium: &impl Medium) -> io::Result<bool> {
        let Zone { start, pointer } = self.zones[zone];
        let mut first = vec![Page::default()];
        if pointer == 0 {
            return Ok(false);
        }
        medium.read(start, &mut first)?;
        Ok(Head::parse(&first[0], start).is_err())
    }

    /// What a zone holds; none where that does not count.
    #[allow(clippy::type_complexity, reason = "two things that are made together")]
    fn scan(
        &self,
        zone: usize,
        medium: &impl Medium,
    ) -> io::Result<(Option<Used>, BTreeMap<u64, Box<Page>>)> {
        let Zone { start, pointer } = self.zones[zone];
        let (mut pages, mut records, mut begun) = (BTreeMap::new(), 0, None);
        let mut both = vec![Page::default(); 2];
        while (records + 1) * self.record <= pointer {
            let at = start + records * self.record;
            medium.read(at, &mut both)?;
            let Ok(head) = Head::parse(&both[0], at) else { break };
            let (generation, _) = *begun.get_or_insert((head.generation, head.first));
            if head.index != records || head.generation != generation || !head.is_of(&both[1]) {
                break;
            }
            keep(&mut pages, head.sector, &both[1]);
            records += 1;
        }
        let ends_there = records * self.record == pointer;
        let used = begun.filter(|(_, first)| records >= u64::from(*first) && records > 0);
        let used = used.map(|(generation, _)| Used { zone, generation, records, ends_there });
        Ok((used, pages))
    }

    fn read(&self, sector: u64, at: u64, medium: &impl Medium) -> io::Result<Page> {
        let mut page = vec![Page::default()];
        match self.pages.get(&sector) {
            Some(known) => page[0] = (**known).clone(),
            // Whoever asks what is there sees the beginning of that zone.
            None => {
                let foreign = self.foreign.map(|zone| self.zones[zone]);
                if let Some(zone) = foreign.filter(|zone| at < zone.pointer) {
                    medium.read(zone.start + at, &mut page)?;
                }
            }
        }
        Ok(page.swap_remove(0))
    }

    fn write(&mut self, sector: u64, page: &Page, medium: &impl Medium) -> io::Result<()> {
        let most = MOST.min(self.capacity / self.record);
        match self.used {
            Some(used) if used.ends_there && used.records < most => {
                let head = Head::of(page, (used.records, used.generation), sector, 0);
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
        medium: &impl Medium,
    ) -> io::Result<()> {
        // Until it is known to be whole, nothing may be written behind it.
        self.used = Some(Used { ends_there: false, ..used });
        self.put(used.zone, used.records, head, page, medium)?;
        self.used = Some(Used { records: used.records + 1, ..used });
        Ok(())
    }

    /// Takes the other zone, with all pages that count and the new one, and frees the one of
    /// before.
    fn take_other(&mut self, sector: u64, page: &Page, medium: &impl Medium) -> io::Result<()> {
        let before = self.used;
        let zone = before.map_or(0, |used| 1 - used.zone);
        let generation = before.map_or(1, |used| used.generation + 1);
        self.free(zone, medium)?;
        let mut all: Vec<(u64, Box<Page>)> =
            self.pages.iter().map(|(sector, page)| (*sector, page.clone())).collect();
        all.retain(|(other, _)| *other != sector);
        all.push((sector, Box::new(page.clone())));
        let first = all.len() as u32;
        assert!(u64::from(first) * self.record <= self.capacity, "the pages fit into a zone");
        for (index, (sector, page)) in (0..).zip(&all) {
            let head = Head::of(page, (index, generation), *sector, first);
            self.put(zone, index, head, page, medium)?;
        }
        medium.sync()?;
        let records = u64::from(first);
        (self.used, self.foreign) =
            (Some(Used { zone, generation, records, ends_there: true }), None);
        // What stays in the other one has a lower generation: no harm is done when it can't be
        // freed.
        self.free(1 - zone, medium).ok();
        Ok(())
    }

    fn free(&mut self, zone: usize, medium: &impl Medium) -> io::Result<()> {
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
        medium: &impl Medium,
    ) -> io::Result<()> {
        let at = self.zones[zone].start + index * self.record;
        let pages = self.record / u64::from(SECTORS_PER_BLOCK);
        let mut record = vec![Page::default(); pages as usize];
        (record[0], record[1]) = (head.emit(at), page.clone());
        // Whatever comes of it, the zone is not free any more.
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
