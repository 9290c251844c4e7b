//! The ways to the volumes that are served: the NBD server, and block devices of this machine.

use std::io::Write;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use hostftl_serve::{Detached, Disk, DiskOptions, Served, Server, Stopper};
use hostftl_volume::{Acks, Level};

use crate::console::Console;
use crate::ending;
use crate::failure::Failure;
use crate::interrupt;

use super::manager::{self, Pulse};
use super::ready::Ready;
use super::volumes::Live;
use super::{Args, LOOK, OnFailure};

/// Makes a block device for each volume, if that is wanted; if not, no volume has one that waits.
pub(super) fn attach(args: &Args, live: &[Live]) -> Result<Vec<Disk>, Failure> {
    let mut disks = Vec::new();
    if !args.ublk {
        // Who only reads puts nothing in the way of what waits.
        let all = if args.read_only { &[] } else { live };
        for one in all {
            let volume = one.exported(args).port.export().volume;
            if !hostftl_serve::refuse_beside_waiting(volume).map_err(Failure::failed)? {
                let text = "ublk devices exist, and one may hold older writes of this volume; \
                            check `hostftl ublk list` as root before clients write";
                one.events().report(Level::Warning, "note", text);
            }
        }
        return Ok(disks);
    }
    let recovers = args.acks() != Acks::Buffer || args.read_only;
    let options = DiskOptions { queues: args.queues, recovers, force: args.force };
    for one in live {
        match Disk::attach(&one.exported(args), &options) {
            Ok(disk) => {
                if disk.was_taken_over() {
                    let text = format!("{} is connected to this server again", disk.path());
                    one.events().report(Level::Info, "note", text);
                }
                disks.push(disk);
            }
            Err(error) => {
                disks.into_iter().for_each(|disk| drop(disk.detach()));
                return Err(Failure::failed(error));
            }
        }
    }
    Ok(disks)
}

/// Ends what is served.
#[derive(Clone)]
struct Stop(Arc<(Mutex<bool>, Condvar)>, Option<Stopper>);

impl Stop {
    fn now(&self) {
        *self.stopped() = true;
        self.0.1.notify_all();
        self.1.iter().for_each(Stopper::stop);
    }

    /// Waits for the end.
    fn wait(&self) {
        let mut stopped = self.stopped();
        while !*stopped {
            stopped = self.0.1.wait(stopped).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn stopped(&self) -> MutexGuard<'_, bool> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Serves until a signal comes, a volume's driver ends, a block device is deleted, or a layer has
/// failed for good.
pub(super) fn serve(
    server: Option<Server>,
    disks: Vec<Disk>,
    live: &[Live],
    on_failure: OnFailure,
    console: &mut Console,
) -> Result<Served, Failure> {
    let over = AtomicBool::new(false);
    let stop = Stop(Arc::default(), server.as_ref().map(Server::stopper));
    let by_signal = stop.clone();
    interrupt::then(move || {
        ending::limit_stop();
        manager::stopping();
        by_signal.now();
    });
    let served = thread::scope(|scope| {
        let watch = || {
            let mut pulse = Pulse::of(live);
            while !over.load(Ordering::SeqCst) {
                thread::park_timeout(LOOK);
                pulse.look();
                disks.iter().for_each(Disk::follow_length);
                if disks.iter().any(Disk::has_panicked) {
                    ending::after_panic();
                }
                if disks.iter().any(Disk::is_over) || is_failed(live, on_failure) {
                    stop.now();
                }
            }
        };
        let watcher = thread::Builder::new().name("watch".into()).spawn_scoped(scope, watch);
        let watcher =
            watcher.map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
        let served = run(server, &disks, live, &stop, console);
        over.store(true, Ordering::SeqCst);
        watcher.thread().unpark();
        served
    });
    let detached = detach(disks, live);
    let (mut served, requests) = (served?, detached?);
    served.requests += requests;
    Ok(served)
}

/// Whether a volume gives a reason to end; a panic ends the process.
fn is_failed(live: &[Live], on_failure: OnFailure) -> bool {
    live.iter().any(|Live { running, .. }| {
        if running.has_panicked() {
            ending::after_panic();
        }
        let failed = on_failure == OnFailure::Exit && running.failure().is_some();
        failed || !running.is_alive()
    })
}

/// Says that clients can come, and serves them.
fn run(
    server: Option<Server>,
    disks: &[Disk],
    live: &[Live],
    stop: &Stop,
    console: &mut Console,
) -> Result<Served, Failure> {
    let mut ready = Ready::new(console, live);
    disks.iter().try_for_each(|disk| writeln!(ready, "ready {}", disk.path()))?;
    if let Some(server) = server {
        return server.run(&mut ready).map_err(Failure::failed);
    }
    ready.flush()?;
    stop.wait();
    Ok(Served { connections: 0, requests: 0 })
}

/// Ends the block devices; how many requests they had.
fn detach(disks: Vec<Disk>, live: &[Live]) -> Result<u64, Failure> {
    let (mut all, mut failure) = (0, None);
    for (disk, one) in disks.into_iter().zip(live) {
        let path = disk.path();
        match disk.detach() {
            Ok((left, requests)) => {
                all += requests;
                if left == Detached::Waits {
                    let text = format!(
                        "{path} is in use and stays; its requests wait until this volume is served \
                         with --ublk again, or until `hostftl ublk delete {path}`"
                    );
                    one.events().report(Level::Warning, "note", text);
                }
            }
            Err(error) => failure = failure.or(Some(Failure::failed(error))),
        }
    }
    failure.map_or(Ok(all), Err)
}
