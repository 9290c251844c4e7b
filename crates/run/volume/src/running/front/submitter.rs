//! Access of a thread that submits jobs.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use hostftl_io::polling::{Polling, Wait, wait_readable};

use super::Port;
use crate::running::engine::Engine;
use crate::running::front::job::Job;

/// Number of consecutive waits without commands in flight after which the devices are considered to
/// complete commands at once, so that no leader is needed.
const IDLE: u32 = 64;
/// Number of consecutive waits with one job each after which the client is considered to wait for
/// each answer. A client with several requests in flight gains nothing from polling: a sleep
/// batches more of them.
const SINGLE: u32 = 64;

/// Submits the jobs of one thread, and executes them unless another thread does so, which saves
/// waking one. While the thread waits for its client it may also wait for the devices.
#[derive(Debug)]
pub struct Submitter {
    port: Port,
    /// Whether this thread waits for the devices.
    leads: bool,
    /// Jobs since the last wait.
    pushed: u32,
    /// Number of consecutive waits with one job.
    single: u32,
    polling: Polling,
    /// Number of consecutive waits without commands in flight.
    idle: u32,
}

impl Submitter {
    pub(super) fn at(port: Port) -> Self {
        Submitter { port, leads: false, pushed: 0, single: 0, polling: Polling::default(), idle: 0 }
    }

    /// Submits a job. It is executed when the thread waits, leaves or helps, or earlier by another
    /// thread.
    pub fn push(&mut self, job: Job) {
        self.pushed += 1;
        self.port.queue().push(job);
    }

    /// Executes pending work that no other thread executes, without waiting.
    pub fn help(&self) {
        match self.engine() {
            Some(engine) => engine.help(),
            None => self.port.queue().waker().wake(),
        }
    }

    /// Helps, and returns whether the thread has to wait only for its client, because another
    /// thread waits for the devices or no commands are in flight.
    pub fn is_free(&mut self) -> bool {
        self.help();
        if self.engine().is_some_and(|engine| engine.is_flying()) {
            self.idle = 0;
            return false;
        }
        self.idle += 1;
        if self.leads && self.idle >= IDLE {
            self.leave();
        }
        !self.leads
    }

    /// Returns how to poll before the sleep, if polling pays. The thread waits only for its client
    /// now, as [`Submitter::is_free`] permits.
    pub fn polls(&mut self) -> Option<Wait<'_>> {
        self.polling().map(Polling::begin)
    }

    /// Returns the polling for a wait that starts now.
    fn polling(&mut self) -> Option<&Polling> {
        self.single = match std::mem::take(&mut self.pushed) {
            0 => self.single,
            1 => self.single + u32::from(self.single < SINGLE),
            _ => 0,
        };
        (self.single == SINGLE).then_some(&self.polling)
    }

    /// Helps, and gives up the wait for the devices. Required before the thread waits for anything
    /// other than [`Submitter::wait_readable`].
    pub fn leave(&mut self) {
        self.help();
        if std::mem::take(&mut self.leads)
            && let Some(engine) = self.engine()
        {
            engine.follow();
        }
    }

    /// Waits until `fd` is readable, for at most `most`. Returns whether it is.
    pub fn wait_readable(&mut self, fd: BorrowedFd<'_>, most: Option<Duration>) -> bool {
        self.wait_until(fd, most, || false)
    }

    /// Waits like [`Submitter::wait_readable`], and also stops when this thread's own work made
    /// `done` true. Work of other threads must make `fd` readable.
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
            return wait_readable(fd.as_raw_fd(), most, self.polling());
        };
        // While this thread waits for its client it can also wait for the devices, unless another
        // one does.
        self.leads = self.leads || engine.lead();
        let (leads, polling) = (self.leads, self.polling());
        if leads {
            engine.wait_readable(fd.as_raw_fd(), most, polling, done)
        } else {
            wait_readable(fd.as_raw_fd(), most, polling)
        }
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        self.port.engine()
    }
}

impl Drop for Submitter {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_polls_only_for_synchronous_clients() {
        let mut submitter = crate::ram_port("ram", 1 << 20).submitter();
        let mut waits = |pushed, count| {
            let wait = |_| {
                submitter.pushed = pushed;
                submitter.polls().is_some()
            };
            (0..count).map(wait).last() == Some(true)
        };
        assert!(!waits(1, SINGLE - 1) && waits(1, 1));
        assert!(waits(0, 3), "a wait without a result reports nothing");
        assert!(!waits(2, 1) && !waits(0, 1) && !waits(1, SINGLE - 1) && waits(1, 3));
    }
}
