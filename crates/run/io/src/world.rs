//! Everything below a layer: devices, memory and engine. It executes commands and reports their
//! completions.
//!
//! Invariants
//! - A command in flight stays complete in its flight until its [`Done`] is taken out. Its buffers
//!   therefore do not move while the engine uses them.
//! - Completions are always collected from `finished`. They never call back into the layer.

use std::collections::VecDeque;
use std::io;
use std::os::fd::RawFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hostftl_core::{Command, DeviceError, Done, Token, Verdict};

use crate::compute::{Compute, INLINE};
use crate::copy::Uncopied;
use crate::device::{Backing, Device};
use crate::engine::EngineKind;
use crate::error::IoError;
use crate::memory::Memory;
use crate::nbd::Remote;
use crate::overlay::Overlay;
use crate::placed::PlacedWrites;
use crate::planted::{Bug, planted};
use crate::pool::{Finished, Pool, Task};
use crate::ring::Ring;
use crate::stats::{DeviceStats, Stats};
use crate::transfer::{self, Call, Transfer};
use crate::waker::Waker;
use crate::zoned::PointerStorage;
use copied::DeferredCommands;
use lanes::{threads, threads_for};

mod copied;
mod lanes;
mod transfers;
mod zoned;

/// Maximum number of compute threads.
const THREADS: usize = 2;
/// How long to wait at the end for commands that the layer abandoned or did not wait for.
const PATIENCE: Duration = Duration::from_secs(5);
/// Minimum number of short compute jobs that is lent to the workers. The driver takes back jobs
/// that are not started when it has nothing else to do.
const WORTH_LENDING: usize = 8;

pub(crate) struct World {
    // The engines come first: when dropped, they stop using the memory of the other fields.
    ring: Option<Ring>,
    /// Reason why there is no ring although one was requested.
    refusal: Option<io::Error>,
    pool: Pool,
    /// Threads of each device, used if the ring does not execute all of its calls. A device that
    /// hangs blocks only its own threads.
    lanes: Vec<Pool>,
    /// Commands in progress; the index is the slot.
    flights: Vec<Option<(Token, Command)>>,
    free: Vec<u32>,
    finished: VecDeque<Finished>,
    /// Short compute jobs that are not started. The driver runs them when nothing is finished.
    later: VecDeque<(u32, Compute)>,
    devices: Vec<Device>,
    /// For each device that takes placements, the interface that passes them.
    placed: Vec<Option<Arc<PlacedWrites>>>,
    memory: Memory,
    waker: Arc<Waker>,
    patience: Duration,
    pub stats: Stats,
    /// Writes to each device in a read-only run; empty otherwise.
    overlays: Vec<Overlay>,
    /// Whether a read-only run uses the engine for reads of data that only the device has.
    reads_past_overlay: bool,
    /// The device that is being copied, and the chunks that the copy is missing.
    copied: Option<(usize, Arc<Uncopied>)>,
    /// The device whose commands are deferred.
    held: Option<DeferredCommands>,
}

impl World {
    pub(crate) fn new(
        devices: Vec<Device>,
        memory: Memory,
        waker: Arc<Waker>,
        engine: EngineKind,
    ) -> Result<Self, IoError> {
        let (ring, refusal) = match engine {
            EngineKind::Uring => (Some(Ring::new(&memory).map_err(IoError::Refused)?), None),
            EngineKind::Pread => (None, None),
            EngineKind::Best => match Ring::new(&memory) {
                Ok(ring) => (Some(ring), None),
                Err(error) => (None, Some(error)),
            },
        };
        let threads = |count: usize| threads(count, &waker);
        // One processor is reserved for the driver.
        let others = std::thread::available_parallelism().map_or(1, |all| all.get() - 1);
        let pool = threads(others.clamp(1, THREADS))?;
        let placed: Vec<_> = devices.iter().map(PlacedWrites::from_device).collect();
        let calls = |(device, placed): (&Device, &Option<_>)| {
            threads(threads_for(device, placed.is_some(), ring.is_some()))
        };
        let lanes = devices.iter().zip(&placed).map(calls).collect::<Result<_, _>>()?;
        let stats =
            Stats { devices: vec![DeviceStats::default(); devices.len()], ..Stats::default() };
        let (flights, free) = (Vec::new(), Vec::new());
        let (finished, later) = (VecDeque::new(), VecDeque::new());
        let patience = PATIENCE;
        for remote in devices.iter().filter_map(Device::as_remote) {
            remote.listen(waker.clone());
        }
        Ok(World {
            ring,
            refusal,
            pool,
            lanes,
            flights,
            free,
            finished,
            later,
            devices,
            placed,
            memory,
            waker,
            patience,
            stats,
            overlays: Vec::new(),
            reads_past_overlay: false,
            copied: None,
            held: None,
        })
    }

    /// Returns the devices, in the order of the stack.
    pub(crate) fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// Takes the devices out when no command is in flight.
    pub(crate) fn take_devices(&mut self) -> Vec<Device> {
        assert_eq!(self.flying(), 0, "commands of devices are in progress");
        self.lanes.clear();
        self.placed.clear();
        std::mem::take(&mut self.devices)
    }

    /// Returns the engine's name and a remark about it.
    pub(crate) fn engine(&self) -> (&'static str, Option<String>) {
        let placed = self.devices.iter().zip(&self.placed).find_map(|(device, placed)| {
            let count = placed.as_ref()?.count();
            Some(format!("{}: using {count} placements (FDP)", device.name()))
        });
        match (&self.ring, &self.refusal) {
            (Some(ring), _) if ring.is_registered() => ("io_uring", placed),
            (Some(_), _) => ("io_uring", Some("cannot register buffers: raise `ulimit -l`".into())),
            (None, Some(error)) => {
                ("pread", Some(format!("cannot use io_uring ({error}); using threads")))
            }
            (None, None) => ("pread", None),
        }
    }

    /// Returns the descriptor of the ring, which becomes readable when a command ends.
    pub(crate) fn ring_fd(&self) -> Option<RawFd> {
        self.ring.as_ref().map(Ring::fd)
    }

    /// Returns the number of commands in flight.
    pub(crate) fn flying(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Starts a command.
    pub(crate) fn submit(&mut self, token: Token, mut command: Command) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() as u32 - 1
        });
        self.stats.count(&command);
        match &mut self.held {
            // A deferred command stays in its flight like one that has started.
            Some(held) if command.device().map(usize::from) == Some(held.device) => {
                held.slots.push(slot);
            }
            _ => self.begin(slot, &mut command),
        }
        self.flights[slot as usize] = Some((token, command));
    }

    /// Starts a command that is in its flight, or ends it at once.
    fn begin(&mut self, slot: u32, command: &mut Command) {
        match command.device() {
            Some(device) if self.devices[usize::from(device)].backing() == Backing::Absent => {
                self.finished.push_back(Finished { slot, result: Err(DeviceError::Removed) });
            }
            Some(device) if self.is_lost(device, command) => {
                self.finished.push_back(Finished { slot, result: Err(DeviceError::Media) });
            }
            Some(device) if self.devices[usize::from(device)].is_zoned() => {
                self.submit_zoned(slot, usize::from(device), command);
            }
            Some(device) => match self.follow(usize::from(device), command) {
                Some(result) => self.finished.push_back(Finished { slot, result }),
                None => {
                    let transfer = self.transfer(slot, command);
                    let placement = match command {
                        Command::Program { placement, .. } => Some(*placement),
                        _ => None,
                    };
                    self.start(transfer, usize::from(device), placement);
                }
            },
            None => {
                let compute = Compute::new(command, &self.memory);
                if compute.bytes() <= INLINE {
                    self.later.push_back((slot, compute))
                } else {
                    self.pool.put(Task::Compute(slot, compute))
                }
            }
        }
    }

    /// Returns whether the command is a flush of a device whose flushes are no longer reliable.
    fn is_lost(&self, device: u8, command: &Command) -> bool {
        let writeback_errors = self.devices[usize::from(device)].writeback_errors();
        matches!(command, Command::Flush { .. }) && writeback_errors.is_lost()
    }

    /// Passes a command to the model of a device: see [`Device::follow`]. A read-only run does not
    /// change a model.
    fn follow(
        &mut self,
        device: usize,
        command: &mut Command,
    ) -> Option<Result<Verdict, DeviceError>> {
        let is_ignored = !self.overlays.is_empty() && !matches!(command, Command::Report { .. });
        if is_ignored { None } else { self.devices[device].follow(command) }
    }

    /// Keeps all writes in memory from now on, so that no device is changed.
    pub(crate) fn discard_writes(&mut self, past: bool) {
        self.reads_past_overlay = past;
        self.overlays = self.devices.iter().map(|_| Overlay::default()).collect();
        // The write pointers on the medium must not change either.
        for zoned in self.devices.iter_mut().filter_map(Device::as_zoned) {
            zoned.pointer_storage = PointerStorage::Memory;
        }
    }

    /// Returns whether a write of a read-only run exceeded the memory for it.
    pub(crate) fn is_overlay_full(&self) -> bool {
        self.overlays.iter().any(Overlay::is_full)
    }

    fn start(&mut self, transfer: Transfer, index: usize, placement: Option<u8>) {
        let device = &self.devices[index];
        if let Some(overlay) = self.overlays.get_mut(index)
            && !(self.reads_past_overlay && overlay.leaves(&transfer))
        {
            let result = overlay.run(&transfer, device).map(|()| Verdict::default());
            return self.finished.push_back(Finished { slot: transfer.slot, result });
        }
        if let Some(remote) = device.as_remote() {
            if transfer.call() == Call::Sync && planted(Bug::ServerFlush) {
                let result = Ok(Verdict::default());
                return self.finished.push_back(Finished { slot: transfer.slot, result });
            }
            return remote.put(transfer);
        }
        if let Some(memory) = device.as_memory() {
            // Copied at once, however long it is, because only one thread at a time may use the
            // memory.
            let result = transfer::copy(&transfer, memory).map(|()| Verdict::default());
            return self.finished.push_back(Finished { slot: transfer.slot, result });
        }
        if let (Some(placed), Some(placement)) = (&self.placed[index], placement)
            && placed.takes(&transfer)
        {
            return self.call(index, Task::Place(transfer, placed.clone(), placement));
        }
        match &mut self.ring {
            Some(ring) => ring.start(transfer),
            None => self.call(index, Task::Transfer(transfer)),
        }
    }

    /// Passes a task with calls to a device to one of its threads.
    fn call(&self, device: usize, task: Task) {
        let lane = Some(&self.lanes[device]).filter(|lane| !lane.is_empty());
        lane.unwrap_or(&self.pool).put(task);
    }

    /// Submits queued transfers to the kernel and collects completions.
    pub(crate) fn poll(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.flush();
            ring.collect(&mut self.finished);
        }
        for pool in std::iter::once(&self.pool).chain(&self.lanes) {
            pool.collect(&mut self.finished);
        }
        for remote in self.devices.iter().filter_map(Device::as_remote) {
            remote.collect(&mut self.finished);
        }
        if self.later.len() >= WORTH_LENDING {
            self.pool.lend(&mut self.later);
        }
    }

    /// Returns the NBD devices.
    fn remotes(&self) -> impl Iterator<Item = &Remote> {
        self.devices.iter().filter_map(Device::as_remote)
    }

    /// Returns a completed command. If none is finished, it first runs a compute job that is not
    /// started.
    pub(crate) fn take_done(&mut self) -> Option<Done> {
        if self.finished.is_empty() {
            self.pool.collect(&mut self.finished);
        }
        let Finished { slot, mut result } = match self.finished.pop_front() {
            Some(finished) => finished,
            None => {
                // Instead of waiting for a worker, the driver takes back work that none has
                // started.
                if self.later.is_empty() {
                    self.pool.take_back(&mut self.later);
                }
                let (slot, compute) = self.later.pop_front()?;
                Finished { slot, result: compute.run() }
            }
        };
        let (token, command) =
            self.flights[slot as usize].take().expect("a command completes once");
        if let Command::Flush { device, .. } = command {
            // Another flush may have failed meanwhile, and the kernel reports an error only once.
            result = self.devices[usize::from(device)].writeback_errors().record(result);
        }
        self.zoned_over(slot, &command, result);
        self.note_change(&command);
        self.free.push(slot);
        if let (Err(_), Some(device)) = (result, command.device()) {
            self.stats.devices[usize::from(device)].errors += 1;
        }
        Some(Done { token, command, result })
    }

    /// Sleeps until a command may have finished, the waker wakes, or `most` has passed.
    pub(crate) fn sleep(&mut self, most: Option<Duration>, has_work: impl FnOnce() -> bool) {
        let (pool, lanes, devices) = (&self.pool, &self.lanes, &self.devices);
        let has_finished = || {
            let is_finished =
                |device: &Device| device.as_remote().is_some_and(Remote::has_finished);
            pool.has_finished()
                || lanes.iter().any(Pool::has_finished)
                || devices.iter().any(is_finished)
        };
        match &mut self.ring {
            None => self.waker.sleep(most, || has_finished() || has_work()),
            Some(ring) => {
                self.waker.fall_asleep();
                if !has_finished() && !has_work() {
                    ring.sleep(&self.waker, most);
                }
                self.waker.get_up();
            }
        }
    }

    /// Waits for the engine and drops every command, as a power loss would. Returns false if some
    /// did not end in time; their memory must then never be freed.
    pub(crate) fn power_off(&mut self) -> bool {
        // Unlike the kernel, a server that never answers does not use memory of this process.
        self.remotes().for_each(Remote::close);
        self.drop_held();
        let ends = Instant::now() + self.patience;
        while self.flying() > 0 {
            self.poll();
            let left = ends.saturating_duration_since(Instant::now());
            match self.take_done() {
                Some(done) => done.command.void(),
                None if left.is_zero() => {
                    // The drop calls this again. It must not wait a second time.
                    self.patience = Duration::ZERO;
                    return false;
                }
                None => self.sleep(Some(left), || false),
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::{About, MetaBuf};

    use super::*;
    use crate::arena::{Arena, Class};
    use crate::pool::WORTH_WAKING;

    /// Files and block devices provide no reports.
    #[test]
    fn a_report_is_refused() {
        let class = Class { bytes: 4096, count: 1 };
        let arena = Arena::new(&[class], class).unwrap();
        let devices = vec![Device::open("mem:1M").unwrap()];
        let waker = Arc::new(Waker::new().unwrap());
        let mut world = World::new(devices, arena.into(), waker, EngineKind::Pread).unwrap();
        let (about, into) = (About::Collectible, MetaBuf::new(1));
        world.submit(Token(7), Command::Report { device: 0, about, into });
        let done = world.take_done().expect("it is over at once");
        assert_eq!((done.token, done.result), (Token(7), Err(DeviceError::Unsupported)));
        assert_eq!(world.flying(), 0);
    }

    /// Short jobs shared by two threads come back once each, with the results of a single thread.
    #[test]
    fn shared_work_completes_once() {
        let class = Class { bytes: 4096, count: 4 * WORTH_WAKING as u32 };
        let arena = Arena::new(&[class], Class { bytes: 4096, count: 0 }).unwrap();
        let waker = Arc::new(Waker::new().unwrap());
        let mut world =
            World::new(Vec::new(), arena.clone().into(), waker, EngineKind::Pread).unwrap();
        let mut shares = 0;
        let mut payloads = Vec::new();
        for number in 0..4 * WORTH_WAKING as u32 {
            let mut data = arena.lease(4096);
            data.fill(number as u8);
            let mut payload = data.into_payload();
            let command = Command::Digest { from: payload.view(0, 4096), seed: number.into() };
            payloads.push(payload);
            world.submit(Token(number.into()), command);
        }
        let mut over = vec![false; payloads.len()];
        while world.flying() > 0 {
            let before = world.later.len();
            world.poll();
            shares += usize::from(world.later.len() < before);
            let Some(done) = world.take_done() else { continue };
            let Command::Digest { from, seed } = done.command else {
                panic!("a digest comes back")
            };
            let crc = hostftl_format::page::crc32c(seed, &[seed as u8; 4096]);
            let wanted = Verdict { bytes: 0, crc };
            assert_eq!((done.token, done.result), (Token(seed), Ok(wanted)));
            assert!(!std::mem::replace(&mut over[seed as usize], true), "{seed} is over twice");
            payloads[seed as usize].repay(from);
        }
        assert!(shares > 0 && over.iter().all(|over| *over));
        payloads.into_iter().for_each(|payload| drop(arena.adopt(payload)));
    }
}
