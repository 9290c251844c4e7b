//! Front ends of served volumes: the NBD server, and ublk devices of this machine.

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
use super::volumes::ServedVolume;
use super::{Args, OnFailure, POLL};

/// Creates or takes over the ublk device of each volume with `--ublk`. Otherwise fails if a volume
/// has one that waits for a server, because writes waiting there would be applied later, over newer
/// writes of clients.
pub(super) fn attach(args: &Args, all: &[ServedVolume]) -> Result<Vec<Disk>, Failure> {
    let mut disks = Vec::new();
    if !args.ublk {
        // Without writes of clients there is nothing newer to overwrite.
        let writable = if args.read_only { &[] } else { all };
        for one in writable {
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
    for one in all {
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

/// Request to stop serving: a flag, and the NBD server if there is one.
#[derive(Clone)]
struct Stop(Arc<(Mutex<bool>, Condvar)>, Option<Stopper>);

impl Stop {
    fn now(&self) {
        *self.stopped() = true;
        self.0.1.notify_all();
        self.1.iter().for_each(Stopper::stop);
    }

    /// Waits for the request.
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

/// Serves until a signal, the end of a driver, the deletion of a ublk device, or, with
/// [`OnFailure::Exit`], the permanent failure of a layer.
pub(super) fn serve(
    server: Option<Server>,
    disks: Vec<Disk>,
    all: &[ServedVolume],
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
            let mut pulse = Pulse::new(all);
            while !over.load(Ordering::SeqCst) {
                thread::park_timeout(POLL);
                pulse.send();
                disks.iter().for_each(Disk::follow_length);
                if disks.iter().any(Disk::has_panicked) {
                    ending::after_panic();
                }
                if disks.iter().any(Disk::is_over) || is_failed(all, on_failure) {
                    stop.now();
                }
            }
        };
        let watcher = thread::Builder::new().name("watch".into()).spawn_scoped(scope, watch);
        let watcher =
            watcher.map_err(|error| Failure::failed(format!("cannot start a thread: {error}")))?;
        let served = run(server, &disks, all, &stop, console);
        over.store(true, Ordering::SeqCst);
        watcher.thread().unpark();
        served
    });
    let detached = detach(disks, all);
    let (mut served, requests) = (served?, detached?);
    served.requests += requests;
    Ok(served)
}

/// Returns whether the failure of a volume ends the service. A panic of a driver ends the process.
fn is_failed(all: &[ServedVolume], on_failure: OnFailure) -> bool {
    all.iter().any(|ServedVolume { running, .. }| {
        if running.has_panicked() {
            ending::after_panic();
        }
        let failed = on_failure == OnFailure::Exit && running.failure().is_some();
        failed || !running.is_alive()
    })
}

/// Prints the `ready` lines and serves clients until [`Stop`].
fn run(
    server: Option<Server>,
    disks: &[Disk],
    all: &[ServedVolume],
    stop: &Stop,
    console: &mut Console,
) -> Result<Served, Failure> {
    let mut ready = Ready::new(console, all);
    disks.iter().try_for_each(|disk| writeln!(ready, "ready {}", disk.path()))?;
    if let Some(server) = server {
        return server.run(&mut ready).map_err(Failure::failed);
    }
    ready.flush()?;
    stop.wait();
    Ok(Served { connections: 0, requests: 0 })
}

/// Detaches the ublk devices. Returns the number of their requests.
fn detach(disks: Vec<Disk>, all: &[ServedVolume]) -> Result<u64, Failure> {
    let (mut sum, mut failure) = (0, None);
    for (disk, one) in disks.into_iter().zip(all) {
        let path = disk.path();
        match disk.detach() {
            Ok((left, requests)) => {
                sum += requests;
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
    failure.map_or(Ok(sum), Err)
}
