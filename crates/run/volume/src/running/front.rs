//! Interface of a served volume for front ends (NBD, ublk).

pub(crate) mod job;
pub(crate) mod queue;
pub(crate) mod ram;
mod submitter;

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use hostftl_core::{AdminCommand, Refusal};
use hostftl_io::{Arena, Driver, Waker};
use hostftl_layers::AnyLayer;

use crate::running::engine::Engine;
use crate::running::jobs::Jobs;
use crate::util::error::{AdminError, Error};

use self::queue::Queue;

pub use self::job::{Answer, Answers, Buffer, Export, Extent, Job, JobOp, MAX_EXTENTS};
pub use self::queue::{Inbox, NextJob};
pub use self::submitter::Submitter;

/// Memory limit of all clients of a volume together in bytes, without the volume's buffers: the
/// length of the longest read.
pub const CLIENTS_BYTES: u64 = 32 << 20;

/// Waits until `fd` is readable, for at most `most`.
pub fn wait_readable(fd: BorrowedFd<'_>, most: Duration) {
    hostftl_io::wait_readable(fd.as_raw_fd(), Some(most));
}

/// Waits until `fd` is writable, for at most `most`.
pub fn wait_writable(fd: BorrowedFd<'_>, most: Duration) {
    hostftl_io::wait_writable(fd.as_raw_fd(), most);
}

/// Returns whether the peer has closed the connection or its sending half.
pub fn is_hung_up(fd: BorrowedFd<'_>) -> bool {
    hostftl_io::is_hung_up(fd.as_raw_fd())
}

/// Requests a send buffer of `bytes` bytes for a socket. The kernel may grant less.
pub fn set_send_room(fd: BorrowedFd<'_>, bytes: u32) {
    hostftl_io::set_send_room(fd.as_raw_fd(), bytes);
}

/// Entry for jobs. Clones are the same port.
#[derive(Clone, Debug)]
pub struct Port {
    queue: Arc<Queue>,
    /// Engine that executes the jobs, if any thread may run it.
    engine: Arc<OnceLock<Weak<Engine>>>,
}

impl Port {
    /// Creates a port over `arena` whose jobs go to an [`Inbox`]; `waker` wakes the thread of the
    /// inbox.
    pub fn new(export: Export, arena: Arc<Arena>, waker: Arc<Waker>) -> (Port, Inbox) {
        let (queue, inbox) = Queue::new(export, arena, waker);
        (Port { queue, engine: Arc::default() }, inbox)
    }

    /// Returns the current block device behind the port.
    pub fn export(&self) -> Arc<Export> {
        self.queue.export()
    }

    /// Changes the length of the block device.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.queue.set_bytes(bytes);
    }

    /// Returns the buffers of the jobs, and the waker of the thread that executes them.
    pub(crate) fn means(&self) -> (&Arc<Arena>, &Arc<Waker>) {
        (self.queue.arena(), self.queue.waker())
    }

    /// Returns a buffer of `bytes` bytes. Waits until the arena has space, which is the
    /// back-pressure.
    pub fn buffer(&self, bytes: u32) -> Buffer {
        Buffer(self.queue.arena().lease(bytes))
    }

    /// Returns a buffer of `bytes` bytes, or `None` if the arena has no space.
    pub fn try_buffer(&self, bytes: u32) -> Option<Buffer> {
        self.queue.arena().try_lease(bytes).map(Buffer)
    }

    /// Creates a submitter for one thread.
    pub fn submitter(&self) -> Submitter {
        Submitter::at(self.clone())
    }

    /// Submits a job and returns at once. The answer is an error if the range is not whole sectors
    /// of the export, or the volume has stopped.
    pub fn submit(&self, job: Job) {
        self.queue.push(job);
        self.queue.waker().wake();
    }

    /// Returns the queue of jobs that the layer does not have yet.
    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Requests a turn of the driver and returns the number of turns; 0 when the driver has ended.
    pub(crate) fn pulse(&self) -> u64 {
        let engine = self.engine();
        engine.map_or(0, |engine| engine.pulse())
    }

    /// Passes an operator's command to the layer.
    pub(crate) fn operate(
        &self,
        command: AdminCommand,
    ) -> Result<hostftl_core::AdminOutcome, Refusal> {
        let engine = self.engine();
        let closed = Err(Refusal::Because("the volume is being closed"));
        engine.map_or(closed, |engine| engine.operate(command))
    }

    /// Calls `act` between two steps of the layer; `None` when the volume is being closed.
    pub(crate) fn between<T>(
        &self,
        act: impl FnOnce(&mut Driver<AnyLayer>, &mut Jobs) -> T,
    ) -> Option<T> {
        self.engine()?.between(act)
    }

    /// Replaces the driver while requests wait; `None` when the volume is being closed.
    pub(crate) fn renew<T>(
        &self,
        act: impl FnOnce(Driver<AnyLayer>, &mut Jobs) -> Result<(Driver<AnyLayer>, T), Error>,
    ) -> Option<Result<T, AdminError>> {
        self.engine()?.renew(act)
    }

    /// Sets the engine that submitting threads run.
    pub(crate) fn set_engine(&self, engine: &Arc<Engine>) {
        let set = self.engine.set(Arc::downgrade(engine));
        assert!(set.is_ok(), "a port has one engine");
    }

    /// Accepts no more jobs; queued ones are completed.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.get().and_then(Weak::upgrade)
    }
}
