//! Everything under a layer: devices, memory and engine. It does commands and says when they end.
//!
//! Invariants
//! - A command in flight sits in its flight, whole, until its [`Done`] is taken out; so its buffers
//!   stay where they are while the engine uses them.
//! - A command's end is always found in `finished`, never by a call back into the layer.

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
use crate::placed::Placed;
use crate::planted::{Bug, planted};
use crate::pool::{Finished, Pool, Task};
use crate::ring::Ring;
use crate::stats::{DeviceStats, Stats};
use crate::transfer::{self, Call, Transfer};
use crate::waker::Waker;
use crate::zoned::Keeper;
use copied::Held;
use lanes::{threads, threads_for};

mod copied;
mod lanes;
mod transfers;
mod zoned;

/// The most threads that compute.
const THREADS: usize = 2;
/// How long to wait at the end for commands that the layer has given up, or did not wait for.
const PATIENCE: Duration = Duration::from_secs(5);
/// So much short work is lent to the workers; the driver does what they have not begun when nothing
/// else is to be done.
const WORTH_LENDING: usize = 8;

pub(crate) struct World {
    // The engines come first: they stop using the memory of the rest when they are dropped.
    ring: Option<Ring>,
    /// Why there is no ring although one was wanted.
    refusal: Option<io::Error>,
    pool: Pool,
    /// The threads of each device, where a ring does not make all of its calls; one that hangs
    /// keeps only its own.
    lanes: Vec<Pool>,
    flights: Vec<Option<(Token, Command)>>,
    free: Vec<u32>,
    finished: VecDeque<Finished>,
    /// Short work that nobody has begun: it is done when nothing is finished.
    later: VecDeque<(u32, Compute)>,
    devices: Vec<Device>,
    /// For each device that takes placements, the way that names them.
    placed: Vec<Option<Arc<Placed>>>,
    memory: Memory,
    waker: Arc<Waker>,
    patience: Duration,
    pub stats: Stats,
    /// What a look would write to each device; empty unless this is one.
    overlays: Vec<Overlay>,
    /// Whether a look reads what only the device has as usual, and not one after the other.
    looks_past: bool,
    /// The device that is being copied, and the chunks that the copy lacks.
    copied: Option<(usize, Arc<Uncopied>)>,
    /// The device whose commands are held back.
    held: Option<Held>,
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
        // One processor is the driver's.
        let others = std::thread::available_parallelism().map_or(1, |all| all.get() - 1);
        let pool = threads(others.clamp(1, THREADS))?;
        let placed: Vec<_> = devices.iter().map(Placed::of).collect();
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
            looks_past: false,
            copied: None,
            held: None,
        })
    }

    /// The devices, in the order of the stack.
    pub(crate) fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The devices, when nothing is under way any more.
    pub(crate) fn take_devices(&mut self) -> Vec<Device> {
        assert_eq!(self.flying(), 0, "commands of devices are under way");
        self.lanes.clear();
        self.placed.clear();
        std::mem::take(&mut self.devices)
    }

    /// The engine's name and what is to be said of it.
    pub(crate) fn engine(&self) -> (&'static str, Option<String>) {
        let placed = self.devices.iter().zip(&self.placed).find_map(|(device, placed)| {
            let count = placed.as_ref()?.count();
            Some(format!("{}: writes name one of {count} placements (FDP)", device.name()))
        });
        match (&self.ring, &self.refusal) {
            (Some(ring), _) if ring.is_registered() => ("io_uring", placed),
            (Some(_), _) => {
                ("io_uring", Some("buffers are not registered: raise `ulimit -l`".into()))
            }
            (None, Some(error)) => {
                ("pread", Some(format!("io_uring is refused ({error}): using threads instead")))
            }
            (None, None) => ("pread", None),
        }
    }

    /// What is readable when a command is over, beside the waker's own.
    pub(crate) fn ring_fd(&self) -> Option<RawFd> {
        self.ring.as_ref().map(Ring::fd)
    }

    /// Commands in flight.
    pub(crate) fn flying(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Begins a command.
    pub(crate) fn submit(&mut self, token: Token, mut command: Command) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() as u32 - 1
        });
        self.stats.count(&command);
        match &mut self.held {
            Some(held) if command.device().map(usize::from) == Some(held.device) => {
                held.slots.push(slot);
            }
            _ => self.begin(slot, &mut command),
        }
        self.flights[slot as usize] = Some((token, command));
    }

    fn begin(&mut self, slot: u32, command: &mut Command) {
        match command.device() {
            Some(device) if self.devices[usize::from(device)].backing() == Backing::Absent => {
                self.finished.push_back(Finished { slot, result: Err(DeviceError::Gone) });
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

    /// Whether a flush of a device can't be believed any more.
    fn is_lost(&self, device: u8, command: &Command) -> bool {
        let trust = self.devices[usize::from(device)].trust();
        matches!(command, Command::Flush { .. }) && trust.is_lost()
    }

    /// See [`Device::follow`]. A model learns nothing from a look.
    fn follow(
        &mut self,
        device: usize,
        command: &mut Command,
    ) -> Option<Result<Verdict, DeviceError>> {
        let silent = !self.overlays.is_empty() && !matches!(command, Command::Report { .. });
        if silent { None } else { self.devices[device].follow(command) }
    }

    /// From now on nothing is written to any device: what would be stays in memory.
    pub(crate) fn look_only(&mut self, past: bool) {
        self.looks_past = past;
        self.overlays = self.devices.iter().map(|_| Overlay::default()).collect();
        for zoned in self.devices.iter_mut().filter_map(Device::as_zoned) {
            zoned.keeper = Keeper::Memory;
        }
    }

    /// Whether what a look would write had more than the memory that there is for it.
    pub(crate) fn is_look_full(&self) -> bool {
        self.overlays.iter().any(Overlay::is_full)
    }

    fn start(&mut self, transfer: Transfer, index: usize, placement: Option<u8>) {
        let device = &self.devices[index];
        if let Some(overlay) = self.overlays.get_mut(index)
            && !(self.looks_past && overlay.leaves(&transfer))
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
            // Here and now, whatever the length, because the memory is for one thread at a time.
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

    /// Lets a thread make the calls of a task to a device.
    fn call(&self, device: usize, task: Task) {
        let lane = Some(&self.lanes[device]).filter(|lane| !lane.is_empty());
        lane.unwrap_or(&self.pool).put(task);
    }

    /// Hands what was begun to the kernel and looks for what is finished.
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

    /// The connections of devices that are behind servers.
    fn remotes(&self) -> impl Iterator<Item = &Remote> {
        self.devices.iter().filter_map(Device::as_remote)
    }

    /// A command that is over, if need be because it is done now.
    pub(crate) fn take_done(&mut self) -> Option<Done> {
        if self.finished.is_empty() {
            self.pool.collect(&mut self.finished);
        }
        let Finished { slot, mut result } = match self.finished.pop_front() {
            Some(finished) => finished,
            None => {
                if self.later.is_empty() {
                    self.pool.take_back(&mut self.later);
                }
                let (slot, compute) = self.later.pop_front()?;
                Finished { slot, result: compute.run() }
            }
        };
        let (token, command) = self.flights[slot as usize].take().expect("a flight ends once");
        if let Command::Flush { device, .. } = command {
            result = self.devices[usize::from(device)].trust().heard(result);
        }
        self.zoned_over(slot, &command, result);
        self.note_change(&command);
        self.free.push(slot);
        if let (Err(_), Some(device)) = (result, command.device()) {
            self.stats.devices[usize::from(device)].errors += 1;
        }
        Some(Done { token, command, result })
    }

    /// Sleeps until something may have finished, the waker wakes, or `most` is over.
    pub(crate) fn sleep(&mut self, most: Option<Duration>, has_work: impl FnOnce() -> bool) {
        let (pool, lanes, devices) = (&self.pool, &self.lanes, &self.devices);
        let has_finished = || {
            let of_remote = |device: &Device| device.as_remote().is_some_and(Remote::has_finished);
            pool.has_finished()
                || lanes.iter().any(Pool::has_finished)
                || devices.iter().any(of_remote)
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

    /// The power is off: waits for the engine and forgets every command. False when some did not
    /// end in good time; what they use must then never be freed.
    pub(crate) fn power_off(&mut self) -> bool {
        // Unlike a kernel, a server that never answers keeps no memory of ours.
        self.remotes().for_each(Remote::close);
        self.drop_held();
        let ends = Instant::now() + self.patience;
        while self.flying() > 0 {
            self.poll();
            let left = ends.saturating_duration_since(Instant::now());
            match self.take_done() {
                Some(done) => done.command.void(),
                None if left.is_zero() => {
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

    /// Files and block devices tell nothing of themselves.
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

    /// Much short work comes back from two threads: all of it, once, and as one thread does it.
    #[test]
    fn shared_work_comes_back_once() {
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
