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

use hostftl_core::{Command, DeviceError, Done, Gather, Piece, SECTOR, Target, Token, Verdict};

use crate::arena::Arena;
use crate::compute::{Compute, INLINE};
use crate::device::{Backing, Device};
use crate::engine::EngineKind;
use crate::error::IoError;
use crate::nbd::Remote;
use crate::pool::{Finished, Pool, Task};
use crate::ring::Ring;
use crate::stats::{DeviceStats, Stats};
use crate::transfer::{self, Call, Transfer};
use crate::waker::Waker;

mod zoned;

/// Threads where io_uring does the transfers, and where threads do.
const THREADS: usize = 2;
const THREADS_WITHOUT_RING: usize = 8;
/// How long to wait at the end for commands that the layer has given up, or did not wait for.
const PATIENCE: Duration = Duration::from_secs(5);

/// See the module text.
pub struct World {
    // The engines come first: they stop using the memory of the rest when they are dropped.
    ring: Option<Ring>,
    /// Why there is no ring although one was wanted.
    refusal: Option<io::Error>,
    pool: Pool,
    flights: Vec<Option<(Token, Command)>>,
    free: Vec<u32>,
    finished: VecDeque<Finished>,
    devices: Vec<Device>,
    arena: Arc<Arena>,
    waker: Arc<Waker>,
    patience: Duration,
    pub stats: Stats,
}

impl World {
    pub fn new(
        devices: Vec<Device>,
        arena: Arc<Arena>,
        waker: Arc<Waker>,
        engine: EngineKind,
    ) -> Result<Self, IoError> {
        let (ring, refusal) = match engine {
            EngineKind::Uring => (Some(Ring::new(&arena).map_err(IoError::Refused)?), None),
            EngineKind::Pread => (None, None),
            EngineKind::Best => match Ring::new(&arena) {
                Ok(ring) => (Some(ring), None),
                Err(error) => (None, Some(error)),
            },
        };
        let threads = if ring.is_some() { THREADS } else { THREADS_WITHOUT_RING };
        let pool = Pool::new(threads, waker.clone()).map_err(IoError::Start)?;
        let stats =
            Stats { devices: vec![DeviceStats::default(); devices.len()], ..Stats::default() };
        let (flights, free, finished) = (Vec::new(), Vec::new(), VecDeque::new());
        let patience = PATIENCE;
        for remote in devices.iter().filter_map(Device::as_remote) {
            remote.listen(waker.clone());
        }
        Ok(World {
            ring,
            refusal,
            pool,
            flights,
            free,
            finished,
            devices,
            arena,
            waker,
            patience,
            stats,
        })
    }

    /// The devices, in the order of the stack.
    pub fn devices(&self) -> &[Device] {
        &self.devices
    }

    /// The engine's name and what is to be said of it.
    pub fn engine(&self) -> (&'static str, Option<String>) {
        match (&self.ring, &self.refusal) {
            (Some(ring), _) if ring.is_registered() => ("io_uring", None),
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
    pub fn ring_fd(&self) -> Option<RawFd> {
        self.ring.as_ref().map(Ring::fd)
    }

    /// Commands in flight.
    pub fn flying(&self) -> usize {
        self.flights.len() - self.free.len()
    }

    /// Begins a command.
    pub fn submit(&mut self, token: Token, mut command: Command) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.flights.push(None);
            self.flights.len() as u32 - 1
        });
        self.stats.count(&command);
        match command.device() {
            Some(device) if self.devices[usize::from(device)].backing() == Backing::Absent => {
                self.finished.push_back(Finished { slot, result: Err(DeviceError::Gone) });
            }
            Some(device) if self.devices[usize::from(device)].is_zoned() => {
                self.submit_zoned(slot, usize::from(device), &mut command);
            }
            Some(device) => match self.devices[usize::from(device)].follow(&mut command) {
                Some(result) => self.finished.push_back(Finished { slot, result }),
                None => {
                    let transfer = self.transfer(slot, &command);
                    self.start(transfer, usize::from(device));
                }
            },
            None => {
                let compute = Compute::new(&command, &self.arena);
                let short = compute.bytes() <= INLINE;
                let task = Task::Compute(slot, compute);
                self.put(task, short);
            }
        }
        self.flights[slot as usize] = Some((token, command));
    }

    fn start(&mut self, transfer: Transfer, device: usize) {
        let device = &self.devices[device];
        if let Some(remote) = device.as_remote() {
            return remote.put(transfer);
        }
        if let Some(memory) = device.as_memory() {
            // Here and now, whatever the length, because the memory is for one thread at a time.
            let result = transfer::copy(&transfer, memory).map(|()| Verdict::default());
            return self.finished.push_back(Finished { slot: transfer.slot, result });
        }
        match &mut self.ring {
            Some(ring) => ring.start(transfer),
            None => self.pool.put(Task::Transfer(transfer)),
        }
    }

    /// Does a short task now and a long one in another thread.
    fn put(&mut self, task: Task, short: bool) {
        if short {
            self.finished.push_back(task.run());
        } else {
            self.pool.put(task);
        }
    }

    fn transfer(&self, slot: u32, command: &Command) -> Transfer {
        let device = &self.devices[usize::from(command.device().expect("it goes to a device"))];
        let fd = device.fd();
        let mut transfer = match command {
            Command::Read { lba, into, .. } => {
                let bytes = u64::from(into.sectors()) * SECTOR as u64;
                let offset = device.place(*lba, into.sectors().into());
                let mut transfer = Transfer::new(slot, fd, Call::Read, offset, bytes);
                self.push_target(into, &mut transfer);
                transfer
            }
            Command::Program { lba, gather, tally, .. } => {
                let bytes = gather.iter().map(|piece| u64::from(piece.bytes())).sum::<u64>();
                assert_eq!(
                    bytes,
                    u64::from(tally.total()) * SECTOR as u64,
                    "a tally is as long as its program"
                );
                let offset = device.place(*lba, tally.total().into());
                let mut transfer = Transfer::new(slot, fd, Call::Write, offset, bytes);
                self.push_gather(gather, &mut transfer);
                transfer
            }
            Command::Reset { lba, sectors, .. } => {
                Transfer::reset(slot, fd, device.place(*lba, *sectors), sectors * SECTOR as u64)
            }
            _ => Transfer::sync(slot, fd),
        };
        if device.direct().is_on() {
            transfer.align();
        }
        transfer
    }

    fn push_target(&self, into: &Target, transfer: &mut Transfer) {
        match into {
            Target::Data(view) => {
                let start = self.arena.address(view.id(), view.from(), view.bytes());
                transfer.push(start, view.bytes() as usize);
            }
            Target::Meta { buf, pages } => {
                let pages = &buf.pages()[..*pages as usize];
                transfer.push(pages.as_ptr().cast_mut().cast(), size_of_val(pages));
            }
        }
    }

    fn push_gather(&self, gather: &Gather, transfer: &mut Transfer) {
        for piece in gather.iter() {
            match piece {
                Piece::Data(view) => {
                    let start = self.arena.address(view.id(), view.from(), view.bytes());
                    transfer.push(start, view.bytes() as usize);
                }
                Piece::Meta { buf, pages } => {
                    let pages = &buf.pages()[..*pages as usize];
                    transfer.push(pages.as_ptr().cast_mut().cast(), size_of_val(pages));
                }
                Piece::Zeros(bytes) => transfer.push_zeros(*bytes as usize),
            }
        }
    }

    /// Hands what was begun to the kernel and looks for what is finished.
    pub fn poll(&mut self) {
        if let Some(ring) = &mut self.ring {
            ring.flush();
            ring.collect(&mut self.finished);
        }
        self.pool.collect(&mut self.finished);
        for remote in self.devices.iter().filter_map(Device::as_remote) {
            remote.collect(&mut self.finished);
        }
    }

    /// The connections of devices that are behind servers.
    fn remotes(&self) -> impl Iterator<Item = &Remote> {
        self.devices.iter().filter_map(Device::as_remote)
    }

    /// A command that is over.
    pub fn take_done(&mut self) -> Option<Done> {
        let Finished { slot, result } = self.finished.pop_front()?;
        let (token, command) = self.flights[slot as usize].take().expect("a flight ends once");
        self.zoned_over(slot, &command, result);
        self.free.push(slot);
        if let (Err(_), Some(device)) = (result, command.device()) {
            self.stats.devices[usize::from(device)].errors += 1;
        }
        Some(Done { token, command, result })
    }

    /// Sleeps until something may have finished, the waker wakes, or `most` is over.
    pub fn sleep(&mut self, most: Option<Duration>, has_work: impl FnOnce() -> bool) {
        let (pool, devices) = (&self.pool, &self.devices);
        let mut remotes = devices.iter().filter_map(Device::as_remote);
        let mut has_finished = || pool.has_finished() || remotes.any(Remote::has_finished);
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
    pub fn power_off(&mut self) -> bool {
        // Unlike a kernel, a server that never answers keeps no memory of ours.
        self.remotes().for_each(Remote::close);
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

    /// The devices that still have commands, each with how many.
    pub fn unanswered(&self) -> Vec<(&str, usize)> {
        let count = |device: usize| {
            let on =
                |flight: &&(Token, Command)| flight.1.device().map(usize::from) == Some(device);
            self.flights.iter().flatten().filter(on).count()
        };
        let names = self.devices.iter().map(Device::name).enumerate();
        names.map(|(index, name)| (name, count(index))).filter(|(_, count)| *count > 0).collect()
    }
}

#[cfg(test)]
mod tests {
    use hostftl_core::{About, MetaBuf};

    use super::*;
    use crate::arena::Class;

    /// Files and block devices tell nothing of themselves.
    #[test]
    fn a_report_is_refused() {
        let class = Class { bytes: 4096, count: 1 };
        let arena = Arena::new(&[class], class).unwrap();
        let devices = vec![Device::open("mem:1M").unwrap()];
        let waker = Arc::new(Waker::new().unwrap());
        let mut world = World::new(devices, arena, waker, EngineKind::Pread).unwrap();
        let (about, into) = (About::Collectible, MetaBuf::new(1));
        world.submit(Token(7), Command::Report { device: 0, about, into });
        let done = world.take_done().expect("it is over at once");
        assert_eq!((done.token, done.result), (Token(7), Err(DeviceError::Unsupported)));
        assert_eq!(world.flying(), 0);
    }
}
