//! A place for a thread that hands jobs in.

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::Arc;
use std::time::Duration;

use hostftl_io::polling::{Polling, Wait, wait_readable};

use super::Port;
use crate::running::engine::Engine;
use crate::running::front::job::Job;

/// After so many waits in a row with nothing under way the devices are of the kind that is done
/// with a command at once: there is nothing to lead.
const IDLE: u32 = 64;
/// After so many waits for one job each the client is one that waits for each answer. Who has
/// several requests under way does not gain by polling: a sleep lets more of them come together.
const SINGLE: u32 = 64;

/// Where one thread hands jobs in, and does them itself when nobody else does: that saves waking
/// another thread for each. While it waits for its client it may also wait for the devices.
#[derive(Debug)]
pub struct Seat {
    port: Port,
    /// Whether the devices are this thread's care.
    leads: bool,
    /// Jobs since the thread waited.
    pushed: u32,
    /// After how many waits in a row there was one job.
    single: u32,
    polling: Polling,
    /// How often in a row nothing was under way when the thread was about to wait.
    idle: u32,
}

impl Seat {
    pub(super) fn at(port: Port) -> Self {
        Seat { port, leads: false, pushed: 0, single: 0, polling: Polling::default(), idle: 0 }
    }

    /// Hands a job over. It is done at the latest when the thread waits, leaves, or helps.
    pub fn push(&mut self, job: Job) {
        self.pushed += 1;
        self.port.queue().push(job);
    }

    /// Does what is to be done and not done by another thread, without waiting.
    pub fn help(&self) {
        match self.engine() {
            Some(engine) => engine.help(),
            None => self.port.queue().waker().wake(),
        }
    }

    /// Helps; whether the thread has nothing to wait for but its client, because whatever is under
    /// way is another's care, or nothing is.
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

    /// The thread waits for its client alone now, as [`Seat::is_free`] allows: how it looks before
    /// it sleeps, if it should.
    pub fn polls(&mut self) -> Option<Wait<'_>> {
        self.polling().map(Polling::begin)
    }

    /// What a wait that begins now does before a sleep.
    fn polling(&mut self) -> Option<&Polling> {
        self.single = match std::mem::take(&mut self.pushed) {
            0 => self.single,
            1 => self.single + u32::from(self.single < SINGLE),
            _ => 0,
        };
        (self.single == SINGLE).then_some(&self.polling)
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
            return wait_readable(fd.as_raw_fd(), most, self.polling());
        };
        self.leads = self.leads || engine.lead();
        let (leads, polling) = (self.leads, self.polling());
        match leads {
            true => engine.wait_readable(fd.as_raw_fd(), most, polling, done),
            false => wait_readable(fd.as_raw_fd(), most, polling),
        }
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        self.port.engine()
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.leave();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_for_a_client_that_waits_for_each_answer_a_thread_polls() {
        let mut seat = crate::ram_port("ram", 1 << 20).seat();
        let mut waits = |pushed, count| {
            let wait = |_| {
                seat.pushed = pushed;
                seat.polls().is_some()
            };
            (0..count).map(wait).last() == Some(true)
        };
        assert!(!waits(1, SINGLE - 1) && waits(1, 1));
        assert!(waits(0, 3), "a wait that nothing came of says nothing");
        assert!(!waits(2, 1) && !waits(0, 1) && !waits(1, SINGLE - 1) && waits(1, 3));
    }
}
