//! Storage-class memory: written in place and worn by the sector, moved by the page.
//!
//! Commands are served one at a time, in the order of submission. Each sector takes its latency and
//! its time on the bus. Source of the figures: Kinoshita et al., the multi-SCM SSD.
//!
//! Invariants
//! - The writes of all sectors are the writes of the host plus the copies of wear levelling.

mod level;
pub(crate) mod register;
mod saved;

use std::collections::VecDeque;

use hostftl_core::{Cause, Command, DeviceError, DeviceInfo, Nanos};

use crate::plain::{Counts, range};
use crate::queue::Queue;
use hostftl_drives::DriveWork;
use hostftl_drives::{Clock, Ended, Model};
use level::Level;

/// Parameters of a memory. Lengths are in sectors, times in ns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScmSpec {
    /// Name that the user gave.
    pub name: String,
    /// Pages that the host sees.
    pub pages: u32,
    /// Free pages for wear levelling.
    pub spare: u32,
    /// Sectors of a page.
    pub page: u32,
    /// Time to read or write a sector.
    pub latency: Nanos,
    /// Time to transfer a sector over the bus.
    pub bus: Nanos,
    /// Writes of a sector between two moves of its page; 0 turns moves off.
    pub interval: u32,
    /// Whether only overwrites count for wear levelling. A write that consists of a layer's copies
    /// only, which fills a page of a cache, then causes wear and leaves the distance to the next
    /// move unchanged.
    pub overwrites_only: bool,
    /// Writes that a sector survives.
    pub endurance: u64,
}

impl ScmSpec {
    /// Returns the memory-type SCM: 100 ns, 10⁹ writes, an 8-bit bus at 1066 MHz, levelled every 5
    /// writes.
    pub fn memory_type(pages: u32, spare: u32) -> Self {
        ScmSpec {
            name: "m-scm".into(),
            pages,
            spare,
            page: 32,
            latency: 100,
            bus: 480,
            interval: 5,
            overwrites_only: false,
            endurance: 1_000_000_000,
        }
    }

    /// Returns the storage-type SCM: 1 µs, 10⁵ writes, otherwise like the memory type.
    pub fn storage_type(pages: u32, spare: u32) -> Self {
        let latency = 1_000;
        let endurance = 100_000;
        let memory = ScmSpec::memory_type(pages, spare);
        ScmSpec { name: "s-scm".into(), latency, endurance, ..memory }
    }

    /// Returns the sectors that the host sees.
    pub fn sectors(&self) -> u64 {
        u64::from(self.pages) * u64::from(self.page)
    }

    /// Returns the memory's interface as the host sees it.
    pub fn device_info(&self) -> DeviceInfo {
        DeviceInfo { volatile_cache: false, ..DeviceInfo::block(self.sectors(), 1) }
    }

    /// Returns the time of a sector: latency and bus.
    pub fn sector(&self) -> Nanos {
        self.latency + self.bus
    }
}

/// Wear of a memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wear {
    /// Writes of the sector that was written most.
    pub most: u32,
    /// Writes of all sectors.
    pub total: u64,
    /// The part of `total` written by the host.
    pub host: u64,
    /// The part of `total` copied by wear levelling.
    pub copied: u64,
}

/// A modelled storage-class memory.
#[derive(Debug)]
pub struct Scm {
    spec: ScmSpec,
    level: Level,
    queue: Queue,
    busy_until: Nanos,
    timed: bool,
    counts: Counts,
}

impl Scm {
    /// Makes a new memory.
    pub fn new(spec: &ScmSpec) -> Self {
        Scm {
            level: Level::new(spec),
            spec: spec.clone(),
            queue: Queue::default(),
            busy_until: 0,
            timed: true,
            counts: Counts::default(),
        }
    }

    /// Returns the parameters.
    pub fn spec(&self) -> &ScmSpec {
        &self.spec
    }

    /// Returns the wear.
    pub fn wear(&self) -> Wear {
        self.level.wear()
    }

    /// Returns the busy time of reads, writes and copies of wear levelling, in ns.
    pub fn worked(&self) -> Nanos {
        let busy = &self.counts.busy;
        busy.programs + busy.reads.iter().sum::<Nanos>()
    }

    /// Checks every invariant, including the counters of every sector.
    ///
    /// # Errors
    /// The first invariant that does not hold.
    pub fn check(&self) -> Result<(), &'static str> {
        if self.wear().total == self.counts.written() {
            self.level.check()
        } else {
            Err("scm: the writes of all sectors differ from those of all causes")
        }
    }

    /// Reserves the memory for `sectors` sectors from `now` on. Returns the start and the end.
    fn serve(&mut self, now: Nanos, sectors: u64) -> (Nanos, Nanos) {
        let begin = now.max(self.busy_until);
        self.busy_until = begin + sectors * self.spec.sector();
        self.counts.busy.bus += sectors * self.spec.bus;
        (begin, self.busy_until)
    }
}

impl Model for Scm {
    fn info(&self) -> DeviceInfo {
        self.spec.device_info()
    }

    fn submit(
        &mut self,
        now: Nanos,
        slot: u32,
        command: &Command,
    ) -> Option<Result<(), DeviceError>> {
        let (lba, sectors) = match range(command, self.spec.sectors()) {
            Ok(range) => range,
            Err(answer) => return Some(answer),
        };
        self.counts.note(command);
        let mut moved = u64::from(sectors);
        let mut copied = 0;
        let clocked = u64::from(self.timed) * self.spec.sector();
        let Counts { reads, sectors: written, busy } = &mut self.counts;
        match command {
            Command::Read { cause, .. } => {
                busy.reads[*cause as usize] += u64::from(sectors) * clocked;
            }
            Command::Program { tally, .. } => {
                let fills = tally.get(Cause::Gc) == tally.total();
                let overwrites = !(self.spec.overwrites_only && fills);
                // A copy is a read and a write of each sector.
                copied = self.level.write(lba, sectors, overwrites);
                moved += 2 * copied;
                written[Cause::DriveGc as usize] += copied;
                busy.programs += (u64::from(sectors) + copied) * clocked;
                busy.reads[Cause::DriveGc as usize] += copied * clocked;
            }
            other => unreachable!("{other:?} has no range"),
        }
        reads[Cause::DriveGc as usize] += copied;
        if !self.timed {
            return Some(Ok(()));
        }
        let (begin, end) = self.serve(now, moved);
        self.queue.push(end, slot, begin - now, end - begin);
        None
    }

    fn next_at(&self) -> Option<Nanos> {
        self.queue.next_at()
    }

    fn advance(&mut self, _limit: Nanos, ended: &mut VecDeque<Ended>) -> Nanos {
        self.queue.advance(ended)
    }

    fn idle(&self) -> bool {
        self.queue.is_empty()
    }

    fn set_clock(&mut self, clock: Clock) {
        assert!(self.idle(), "the clock changes only when the drive is idle");
        self.timed = clock == Clock::Timed;
    }

    fn work(&self) -> DriveWork {
        self.counts.work()
    }

    fn worn(&self) -> Vec<u32> {
        self.level.counts().to_vec()
    }

    fn check(&self) -> Result<(), &'static str> {
        Scm::check(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hostftl_core::{Gather, Piece, Tally};

    fn program(scm: &mut Scm, now: Nanos, lba: u64, sectors: u32) -> Nanos {
        let gather = Gather::from_iter([Piece::zero_sectors(sectors)]);
        let tally = Tally::single(Cause::Host, sectors);
        let command = Command::Program { device: 0, lba, gather, tally, placement: 0 };
        assert_eq!(scm.submit(now, 0, &command), None);
        let mut ended = VecDeque::new();
        scm.advance(Nanos::MAX, &mut ended)
    }

    #[test]
    fn a_sector_takes_its_latency_and_its_time_on_the_bus() {
        let mut fast = Scm::new(&ScmSpec::memory_type(10, 2));
        assert_eq!(program(&mut fast, 1000, 0, 1), 1580);
        assert_eq!(program(&mut fast, 1000, 32, 10), 1580 + 5800, "one after the other");
        let mut slow = Scm::new(&ScmSpec::storage_type(10, 2));
        assert_eq!(program(&mut slow, 0, 0, 32), 32 * 1480);
    }

    #[test]
    fn cache_fills_cause_no_levelling_moves() {
        let spec = ScmSpec { overwrites_only: true, ..ScmSpec::memory_type(10, 2) };
        let mut scm = Scm::new(&spec);
        let mut write = |cause: Cause| {
            let gather = Gather::from_iter([Piece::zero_sectors(1)]);
            let tally = Tally::single(cause, 1);
            let command = Command::Program { device: 0, lba: 3, gather, tally, placement: 0 };
            assert_eq!(scm.submit(0, 0, &command), None);
            scm.advance(Nanos::MAX, &mut VecDeque::new());
            scm.wear().copied
        };
        let fills: u64 = (0..50).map(|_| write(Cause::Gc)).sum();
        assert_eq!(fills, 0);
        let host: Vec<u64> = (0..6).map(|_| write(Cause::Host)).collect();
        assert_eq!(host, [0, 0, 0, 0, 0, 32], "the sixth overwrite, whatever was filled before");
        assert_eq!(scm.check(), Ok(()));
    }

    #[test]
    fn the_sixth_overwrite_moves_the_page_first() {
        let mut scm = Scm::new(&ScmSpec::memory_type(10, 2));
        let mut now = 0;
        for write in 1..=5 {
            now = program(&mut scm, now, 3, 1);
            assert_eq!(now, write * 580);
        }
        assert_eq!(program(&mut scm, now, 3, 1) - now, (1 + 64) * 580);
        assert_eq!(scm.wear(), Wear { most: 5, total: 38, host: 6, copied: 32 });
        assert_eq!(scm.check(), Ok(()));
    }
}
