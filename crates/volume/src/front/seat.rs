//! A place for a thread that hands jobs in.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use super::{Job, Port};
use crate::engine::Engine;

/// Where one thread hands jobs in, and does them itself when nobody else does: that saves waking
/// another thread for each. While it waits for its client it may also wait for the devices.
#[derive(Debug)]
pub struct Seat {
    port: Port,
    /// Whether the devices are this thread's care.
    leads: bool,
}

impl Seat {
    pub(super) fn at(port: Port) -> Self {
        Seat { port, leads: false }
    }

    /// Hands a job over. It is done at the latest when the thread waits, leaves, or helps.
    pub fn push(&self, job: Job) {
        self.port.push(job);
    }

    /// Does what is to be done and not done by another thread, without waiting.
    pub fn help(&self) {
        match self.engine() {
            Some(engine) => engine.help(),
            None => self.port.0.waker.wake(),
        }
    }

    /// Helps; whether the thread has nothing to wait for but its client, because whatever is under
    /// way is another's care, or nothing is.
    pub fn is_free(&self) -> bool {
        self.help();
        !self.leads && self.engine().is_none_or(|engine| !engine.is_flying())
    }

    /// Before the thread waits for anything else than [`Seat::wait_readable`]: helps, and leaves
    /// the devices to others.
    pub fn leave(&mut self) {
        self.help();
        if std::mem::take(&mut self.leads)
            && let Some(engine) = self.engine()
        {
            engine.follow();
        }
    }

    /// Waits until `fd` has something to read, or for `most` at the longest; whether it has.
    pub fn wait_readable(&mut self, fd: BorrowedFd<'_>, most: Option<Duration>) -> bool {
        self.wait_until(fd, most, || false)
    }

    /// As [`Seat::wait_readable`], and not after something that this thread did made `done` true.
    /// What others do must make `fd` readable.
    pub fn wait_until(
        &mut self,
        fd: BorrowedFd<'_>,
        most: Option<Duration>,
        done: impl Fn() -> bool,
    ) -> bool {
        self.help();
        if done() {
            return false;
        }
        let Some(engine) = self.engine() else {
            return hostftl_io::wait_readable(fd.as_raw_fd(), most);
        };
        self.leads = self.leads || engine.lead();
        match self.leads {
            true => engine.wait_readable(fd.as_raw_fd(), most, done),
            false => hostftl_io::wait_readable(fd.as_raw_fd(), most),
        }
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        self.port.0.engine.get()?.upgrade()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
    }
}
