//! A host that reads all mapped data and collects the unreadable ranges.
//!
//! A failed request is repeated in small parts, so that the reported ranges are exact.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;

use hostftl_core::{
    Cause, Credits, Event, HostOp, Layer, Limits, Payload, Reply, Request, SECTOR, Tally, Ticket,
    next_cut,
};
use hostftl_io::{Arena, Driver, Host, IoError, Pull};
use hostftl_layers::AnyLayer;
use serde::Serialize;

use crate::open::event_host::EventHost;

/// Maximum length of a request in sectors: 1 MiB.
const LONGEST: u32 = 2048;
/// Length of the parts of a failed request in sectors.
const PART: u32 = 8;
/// Number of requests in flight.
const DEPTH: usize = 4;
/// Number of samples of a volume, and their length in sectors: 64 MiB in total.
const SAMPLES: u64 = 256;
const SAMPLE: u64 = 512;
/// Maximum number of reported ranges, and of failed requests that are repeated in parts.
const NAMED: usize = 64;

/// Called with the number of processed bytes and the length of the volume in bytes.
pub type Progress<'a> = &'a mut dyn FnMut(u64, u64);

/// Result of reading data.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct DataRead {
    /// Bytes that were read. Unmapped data is skipped.
    pub read_bytes: u64,
    /// Number of locations on devices whose damaged data was rebuilt from parity.
    pub mended: u64,
    /// Number of unreadable ranges.
    pub bad_count: u64,
    /// Total length of the unreadable ranges in bytes.
    pub bad_bytes: u64,
    /// The first unreadable ranges: offset and length in bytes.
    pub bad_ranges: Vec<(u64, u64)>,
}

/// State of the host.
pub(crate) struct Sweep<'a> {
    event_host: EventHost,
    arena: Arc<Arena>,
    limits: Limits,
    progress: Progress<'a>,
    /// Current range in sectors: the next sector, the end of the known mapped run, and the end.
    at: u64,
    known: u64,
    end: u64,
    /// Ranges to read next.
    queue: VecDeque<(u64, u64)>,
    longest: u32,
    far: u64,
    /// Ranges of the requests in flight.
    waiting: [Option<(u64, u64)>; DEPTH],
    failed: Vec<(u64, u64)>,
    read: u64,
    /// Device and sector of each repaired location. A set, because background work may find it
    /// again.
    mended: BTreeSet<(u8, u64)>,
}

impl<'a> Sweep<'a> {
    /// Reads everything that the layer of `driver` maps. Other events go to `event_host`, with
    /// which the driver was started.
    pub(crate) fn run(
        driver: &mut Driver<AnyLayer>,
        arena: Arc<Arena>,
        event_host: EventHost,
        progress: Progress<'a>,
    ) -> Result<(DataRead, EventHost), IoError> {
        let exported = driver.layer().limits().exported;
        Self::through(driver, (arena, event_host), [(0, exported)].into(), progress)
    }

    /// Reads samples from the whole volume.
    pub(crate) fn sample(
        driver: &mut Driver<AnyLayer>,
        arena: Arc<Arena>,
        event_host: EventHost,
    ) -> Result<(DataRead, EventHost), IoError> {
        let limits = driver.layer().limits();
        let ranges = samples(limits.exported, limits.align.into());
        Sweep::through(driver, (arena, event_host), ranges, &mut |_, _| {})
    }

    /// Reads the mapped data in `ranges` of sectors.
    fn through(
        driver: &mut Driver<AnyLayer>,
        (arena, event_host): (Arc<Arena>, EventHost),
        ranges: VecDeque<(u64, u64)>,
        progress: Progress<'a>,
    ) -> Result<(DataRead, EventHost), IoError> {
        let limits = driver.layer().limits();
        let most = |sectors: u32| {
            // A request must fit a buffer and be aligned, even if the alignment exceeds a part.
            sectors.min(limits.max_transfer).min(arena.longest() / SECTOR as u32).max(limits.align)
        };
        let (longest, part) = (most(LONGEST), most(PART));
        let mut sweep = Sweep {
            event_host,
            arena,
            limits,
            progress,
            at: 0,
            known: 0,
            end: 0,
            queue: ranges,
            longest: longest - longest % limits.align,
            far: 0,
            waiting: [None; DEPTH],
            failed: Vec::new(),
            read: 0,
            mended: BTreeSet::new(),
        };
        driver.serve(&mut sweep)?;
        let read_bytes = sweep.read * SECTOR as u64;
        let mut failed = std::mem::take(&mut sweep.failed);
        failed.sort_unstable();
        // Only the first ranges are reported, so only these are read again in parts.
        let rest = failed.split_off(failed.len().min(NAMED));
        (sweep.queue, sweep.longest) = (failed.into(), part);
        driver.serve(&mut sweep)?;
        sweep.failed.extend(rest);
        Ok((summary(read_bytes, sweep.mended.len() as u64, sweep.failed), sweep.event_host))
    }

    /// Reports the progress, which never goes back when parts are read again.
    fn report_progress(&mut self) {
        self.far = self.far.max(self.at);
        let bytes = |sectors: u64| sectors * SECTOR as u64;
        (self.progress)(bytes(self.far), bytes(self.limits.exported));
    }

    fn has_room(&self) -> bool {
        self.waiting.iter().any(Option::is_none)
    }

    /// Advances to the next queued range at the end of the current one; returns whether there is
    /// one.
    fn has_more(&mut self) -> bool {
        while self.at == self.end {
            let Some((at, end)) = self.queue.pop_front() else { return false };
            (self.at, self.known, self.end) = (at, at, end);
        }
        true
    }
}

/// Returns ranges from start to end of a volume of `exported` sectors: all of a small one.
fn samples(exported: u64, align: u64) -> VecDeque<(u64, u64)> {
    let step = (exported / SAMPLES).next_multiple_of(align).max(SAMPLE);
    let range = |at: u64| (at, (at + SAMPLE).next_multiple_of(align).min(exported));
    (0..exported).step_by(step as usize).map(range).collect()
}

/// Merges adjacent failed ranges into the result.
fn summary(read_bytes: u64, mended: u64, mut failed: Vec<(u64, u64)>) -> DataRead {
    failed.sort_unstable();
    let mut bad: Vec<(u64, u64)> = Vec::new();
    for (at, end) in failed {
        match bad.last_mut() {
            Some(last) if last.1 >= at => last.1 = last.1.max(end),
            _ => bad.push((at, end)),
        }
    }
    let bytes = |sectors: u64| sectors * SECTOR as u64;
    let ranges = bad.iter().map(|&(at, end)| (bytes(at), bytes(end - at)));
    DataRead {
        read_bytes,
        mended,
        bad_count: bad.len() as u64,
        bad_bytes: ranges.clone().map(|(_, length)| length).sum(),
        bad_ranges: ranges.take(NAMED).collect(),
    }
}

impl Host for Sweep<'_> {
    fn pull(&mut self, credits: Credits) -> Pull {
        if !self.has_more() {
            return Pull::Over;
        }
        // The next mapped run is not known yet: query the layer.
        if self.at == self.known {
            return Pull::Query;
        }
        let slot = self.waiting.iter().position(Option::is_none);
        let most = self.longest.min(credits.sectors - credits.sectors % self.limits.align);
        if most < self.limits.align {
            return Pull::TooLong;
        }
        let next = next_cut(self.at, self.known, most.into(), self.limits.align.into());
        let sectors = next - self.at;
        let lease = || self.arena.try_lease((sectors * SECTOR as u64) as u32);
        let Some((slot, lease)) = slot.and_then(|slot| Some((slot, lease()?))) else {
            return Pull::Nothing;
        };
        let lba = std::mem::replace(&mut self.at, next);
        self.waiting[slot] = Some((lba, next));
        let (ticket, op) = (Ticket::issue(slot as u64), HostOp::Read(lease.into_payload()));
        Pull::Request(Request {
            ticket,
            op,
            lba,
            sectors,
            tally: Tally::single(Cause::Host, 0),
            placement: 0,
        })
    }

    fn query(&mut self, layer: &dyn Layer) {
        let (mapped, run) = layer.mapped(self.at, self.end - self.at);
        self.known = self.at + run;
        if !mapped {
            self.at = self.known;
        }
        self.report_progress();
    }

    fn has_work(&self) -> bool {
        self.has_room() && (self.at < self.end || !self.queue.is_empty())
    }

    fn answer(&mut self, reply: Reply) {
        let Reply { ticket, data, result } = reply;
        let slot = ticket.close() as usize;
        let (lba, end) = self.waiting[slot].take().expect("one answer for each request");
        data.into_iter().for_each(|data| drop(self.arena.adopt(data)));
        match result {
            Ok(()) => self.read += end - lba,
            Err(_) => self.failed.push((lba, end)),
        }
        self.report_progress();
    }

    fn reclaim(&mut self, payload: Payload) {
        drop(self.arena.adopt(payload));
    }

    fn event(&mut self, event: Event) {
        match event {
            Event::Repaired { device, lba, .. } => {
                self.mended.insert((device, lba));
            }
            // The replies report the same damage.
            Event::Corrupt { .. } => {}
            other => self.event_host.event(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_from_everywhere_and_all_of_a_small_volume() {
        let small = samples(1000, 8);
        assert_eq!(small, [(0, 512), (512, 1000)]);
        let large = samples(1 << 33, 8);
        assert_eq!(large.len() as u64, SAMPLES);
        assert_eq!((large[0], large[1]), ((0, 512), (1 << 25, (1 << 25) + 512)));
        assert!(samples(0, 8).is_empty());
    }

    #[test]
    fn adjacent_ranges_are_merged_and_their_number_is_limited() {
        let found = summary(0, 0, vec![(16, 24), (0, 8), (8, 16), (32, 40)]);
        assert_eq!(found.bad_ranges, [(0, 12288), (16384, 4096)]);
        assert_eq!((found.bad_count, found.bad_bytes), (2, 16384));
        let many = (0..100).map(|at| (at * 16, at * 16 + 8)).collect();
        let found = summary(0, 0, many);
        assert_eq!((found.bad_count, found.bad_ranges.len()), (100, NAMED));
    }
}
