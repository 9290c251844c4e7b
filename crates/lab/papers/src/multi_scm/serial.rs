//! An independent model of the SSD: a controller without parallelism.
//!
//! It shares no code with the layer and the memories of the experiment, and implements only the
//! description in the paper. The duration of a request is the sum of its parts: fetching the page
//! from S and filling it into M, writing the evicted dirty page back, copying a page for wear
//! levelling, and accessing its own sectors in M. Write-backs therefore never overlap with the next
//! request, as they do in the experiment.

use std::collections::VecDeque;

use hostftl_core::Nanos;
use hostftl_trace::Op;

use super::loads::Load;
use super::stack::{Figures, Setup};
use crate::Error;

/// Sectors per page.
const PAGE: u32 = 32;
/// Marks a page that is not in M, and the end of the list by recency.
const NOWHERE: u32 = u32::MAX;
/// Number of requests between two checks for cancellation.
const LOOK: u64 = 1 << 16;

/// One memory and its total work.
#[derive(Debug)]
struct Memory {
    /// Duration per sector in ns.
    sector: Nanos,
    /// Writes between two moves of a page; 0 = never.
    interval: u32,
    free: VecDeque<u32>,
    /// Writes of each sector.
    counts: Vec<u32>,
    /// Number of writes at which each page moves.
    thresholds: Vec<u32>,
    worked: Nanos,
}

impl Memory {
    /// Creates a memory of `pages` pages, of which those from `held` on are free.
    fn new(pages: u32, held: u32, sector: Nanos, interval: u32) -> Self {
        Memory {
            sector,
            interval,
            free: (held..pages).collect(),
            counts: vec![0; pages as usize * PAGE as usize],
            thresholds: vec![interval; pages as usize],
            worked: 0,
        }
    }

    fn works(&mut self, sectors: u32) {
        self.worked += Nanos::from(sectors) * self.sector;
    }

    /// Writes a part of a page.
    fn count(&mut self, page: u32, from: u32, sectors: u32) {
        let first = (page * PAGE + from) as usize;
        self.counts[first..first + sectors as usize].iter_mut().for_each(|count| *count += 1);
        self.works(sectors);
    }

    fn most(&self, page: u32) -> u32 {
        let first = (page * PAGE) as usize;
        let sectors = &self.counts[first..first + PAGE as usize];
        sectors.iter().copied().fold(0, u32::max)
    }

    /// Fills a free page. This is not an overwrite, so it does not count towards the move of the
    /// page.
    fn fill(&mut self) -> u32 {
        let page = self.free.pop_front().expect("a page is evicted before another is fetched");
        self.thresholds[page as usize] += 1;
        self.count(page, 0, PAGE);
        page
    }

    /// Overwrites a part of a page, after moving the page if it is due. Returns its place.
    fn overwrite(&mut self, page: u32, from: u32, sectors: u32) -> u32 {
        let turn = self.interval > 0 && self.most(page) >= self.thresholds[page as usize];
        let moves_to = if turn { self.free.pop_front() } else { None };
        if let Some(to) = moves_to {
            self.works(PAGE);
            self.count(to, 0, PAGE);
            self.thresholds[page as usize] += self.interval;
            self.free.push_back(page);
        }
        let page = moves_to.unwrap_or(page);
        self.count(page, from, sectors);
        page
    }
}

/// A page of user data.
#[derive(Clone, Copy, Debug)]
struct Data {
    in_m: u32,
    in_s: u32,
    dirty: bool,
    /// Neighbours in the list by recency.
    newer: u32,
    older: u32,
}

/// The SSD.
#[derive(Debug)]
struct Ssd {
    m: Memory,
    s: Memory,
    data: Vec<Data>,
    newest: u32,
    oldest: u32,
    /// Number of pages in M, and its maximum: a tenth of M stays free.
    cached: u32,
    most: u32,
}

impl Ssd {
    fn new(setup: &Setup, user: u32) -> Self {
        let all = user + user / 4;
        let fast = (all * setup.share / 1000).max(40);
        let slow = all.saturating_sub(fast).max(user + 2);
        let page =
            |in_s| Data { in_m: NOWHERE, in_s, dirty: false, newer: NOWHERE, older: NOWHERE };
        let [in_m, in_s] = setup.intervals;
        Ssd {
            m: Memory::new(fast, 0, 580, in_m),
            s: Memory::new(slow, user, 1480, in_s),
            data: (0..user).map(page).collect(),
            newest: NOWHERE,
            oldest: NOWHERE,
            cached: 0,
            most: fast - fast / 10,
        }
    }

    fn access(&mut self, page: u32, from: u32, sectors: u32, is_write: bool) {
        let comes = self.data[page as usize].in_m == NOWHERE;
        if comes {
            self.fetch(page, is_write && sectors == PAGE);
        } else {
            self.unlink(page);
        }
        self.link(page);
        let data = &mut self.data[page as usize];
        if !is_write {
            self.m.works(sectors);
        } else if !comes || sectors < PAGE {
            data.in_m = self.m.overwrite(data.in_m, from, sectors);
        }
        data.dirty |= is_write;
    }

    /// Brings a page to M. A page that is written as a whole is not read from S.
    fn fetch(&mut self, page: u32, is_whole: bool) {
        if self.cached == self.most {
            self.evict();
        }
        if !is_whole {
            self.s.works(PAGE);
        }
        self.data[page as usize].in_m = self.m.fill();
        self.cached += 1;
    }

    /// Evicts the least recently used page from M.
    fn evict(&mut self) {
        let page = self.oldest;
        self.unlink(page);
        self.cached -= 1;
        let data = &mut self.data[page as usize];
        self.m.free.push_back(std::mem::replace(&mut data.in_m, NOWHERE));
        if std::mem::take(&mut data.dirty) {
            self.m.works(PAGE);
            data.in_s = self.s.overwrite(data.in_s, 0, PAGE);
        }
    }

    fn link(&mut self, page: u32) {
        let older = std::mem::replace(&mut self.newest, page);
        match self.data.get_mut(older as usize) {
            Some(data) => data.newer = page,
            None => self.oldest = page,
        }
        let data = &mut self.data[page as usize];
        (data.newer, data.older) = (NOWHERE, older);
    }

    fn unlink(&mut self, page: u32) {
        let Data { newer, older, .. } = self.data[page as usize];
        match self.data.get_mut(newer as usize) {
            Some(data) => data.older = older,
            None => self.newest = older,
        }
        match self.data.get_mut(older as usize) {
            Some(data) => data.newer = newer,
            None => self.oldest = newer,
        }
    }
}

/// Plays a workload. Returns `None` when cancelled.
pub(super) fn play(
    setup: &Setup,
    load: &Load,
    seed: u64,
    stop: &dyn Fn() -> bool,
) -> Result<Option<Figures>, Error> {
    let mut ssd = Ssd::new(setup, load.pages);
    let mut requests = 0;
    for record in load.open(seed)? {
        let record = record.map_err(|why| Error::Failed(why.to_string()))?;
        let (mut at, end) = (record.lba, record.end());
        while at < end {
            let from = (at % u64::from(PAGE)) as u32;
            let sectors = u64::from(PAGE - from).min(end - at) as u32;
            ssd.access((at / u64::from(PAGE)) as u32, from, sectors, record.op == Op::Write);
            at += u64::from(sectors);
        }
        requests += 1;
        if requests % LOOK == 0 && stop() {
            return Ok(None);
        }
    }
    let most = |memory: &Memory| memory.counts.iter().copied().fold(0, u32::max);
    let iops = requests as f64 * 1e9 / (ssd.m.worked + ssd.s.worked) as f64;
    Ok(Some(Figures { iops, most: [most(&ssd.m), most(&ssd.s)] }))
}

#[cfg(test)]
mod tests {
    use super::*;

    const M: u64 = 580;
    const S: u64 = 1480;

    /// Creates an SSD for 640 pages, with 40 pages of M, 36 of them for the cache.
    fn ssd(case: usize) -> Ssd {
        Ssd::new(&Setup::case(case), 640)
    }

    fn took(ssd: &mut Ssd, page: u32, sectors: u32, is_write: bool) -> u64 {
        let before = ssd.m.worked + ssd.s.worked;
        ssd.access(page, 0, sectors, is_write);
        ssd.m.worked + ssd.s.worked - before
    }

    #[test]
    fn a_request_takes_the_time_of_all_its_effects() {
        let mut ssd = ssd(4);
        assert_eq!(took(&mut ssd, 0, 8, false), 32 * (S + M) + 8 * M, "it is fetched");
        assert_eq!(took(&mut ssd, 0, 8, false), 8 * M);
        assert_eq!(took(&mut ssd, 0, 8, true), 8 * M);
        assert_eq!(took(&mut ssd, 1, 32, true), 32 * M, "a whole page is not fetched");
        (2..36).for_each(|page| ssd.access(page, 0, 8, false));
        let writes_back = took(&mut ssd, 36, 8, false) - 32 * (S + M) - 8 * M;
        assert_eq!(writes_back, 32 * (M + S), "page 0 is dirty and the oldest");
        ssd.access(1, 0, 8, false);
        assert_eq!(took(&mut ssd, 37, 8, false), 32 * (S + M) + 8 * M, "page 2 is clean");
    }

    #[test]
    fn a_workload_of_a_few_pages_has_memories_too() {
        let mut ssd = Ssd::new(&Setup::case(1), 8);
        (0..800).for_each(|page| ssd.access(page % 8, 0, 8, true));
        assert_eq!(ssd.s.worked, 8 * 32 * S, "each page is fetched once");
    }

    #[test]
    fn the_sixth_overwrite_moves_a_levelled_page() {
        for (case, copies) in [(1, 64 * M), (3, 0)] {
            let mut ssd = ssd(case);
            ssd.access(0, 0, 8, false);
            let times: Vec<u64> = (0..6).map(|_| took(&mut ssd, 0, 8, true)).collect();
            assert_eq!(times[..5], [8 * M; 5]);
            assert_eq!(times[5], 8 * M + copies, "case {case}");
        }
    }

    #[test]
    fn write_backs_wear_the_storage_memory() {
        for (case, most) in [(1, 20), (2, 41)] {
            let mut ssd = ssd(case);
            for page in 0..36 * 41 {
                ssd.access(page % 37, 0, 32, true);
            }
            let worn = ssd.s.counts.iter().copied().max().unwrap();
            assert!(worn <= most && worn * 2 > most, "case {case}: {worn}");
        }
    }
}
