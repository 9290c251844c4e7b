//! What a front end (NBD, ublk) sees of a volume that is being served.

pub(crate) mod job;
pub(crate) mod queue;
pub(crate) mod ram;
mod seat;

use std::os::fd::{AsRawFd, BorrowedFd};
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use hostftl_core::{Refusal, Verb};
use hostftl_io::{Arena, Driver, Waker};
use hostftl_layers::AnyLayer;

use crate::running::engine::Engine;
use crate::running::jobs::Jobs;
use crate::util::error::{AdminError, Error};

use self::queue::Queue;

pub use self::job::{Answer, Answers, Buffer, Export, Extent, Job, JobOp, MAX_EXTENTS};
pub use self::queue::{Inbox, Taken};
pub use self::seat::Seat;

/// What all clients of a volume may take of memory together, beside the volume's buffers, in bytes:
/// as much as the longest read.
pub const CLIENTS_BYTES: u64 = 32 << 20;

/// Waits until `fd` has something to read, or for `most` at the longest.
pub fn wait_readable(fd: BorrowedFd<'_>, most: Duration) {
    hostftl_io::wait_readable(fd.as_raw_fd(), Some(most));
}

/// Waits until `fd` takes something, or for `most` at the longest.
pub fn wait_writable(fd: BorrowedFd<'_>, most: Duration) {
    hostftl_io::wait_writable(fd.as_raw_fd(), most);
}

/// Whether the peer has closed the connection, or the half of it on which it sends.
pub fn is_hung_up(fd: BorrowedFd<'_>) -> bool {
    hostftl_io::is_hung_up(fd.as_raw_fd())
}

/// Asks for room for `bytes` bytes of what was sent on a socket and not received yet. The kernel
/// gives what it allows.
pub fn set_send_room(fd: BorrowedFd<'_>, bytes: u32) {
    hostftl_io::set_send_room(fd.as_raw_fd(), bytes);
}

/// Where jobs go in. Clones are the same port.
#[derive(Clone, Debug)]
pub struct Port {
    queue: Arc<Queue>,
    /// Does the jobs, if any thread may do them.
    engine: Arc<OnceLock<Weak<Engine>>>,
}

impl Port {
    /// A port over `arena` whose jobs an [`Inbox`] takes out; `waker` wakes the thread that has it.
    pub fn new(export: Export, arena: Arc<Arena>, waker: Arc<Waker>) -> (Port, Inbox) {
        let (queue, inbox) = Queue::new(export, arena, waker);
        (Port { queue, engine: Arc::default() }, inbox)
    }

    /// The block device behind the port, as it is now.
    pub fn export(&self) -> Arc<Export> {
        self.queue.export()
    }

    /// The block device has this length from now on.
    pub(crate) fn set_bytes(&self, bytes: u64) {
        self.queue.set_bytes(bytes);
    }

    /// The buffers of the jobs, and what wakes who does them.
    pub(crate) fn means(&self) -> (&Arc<Arena>, &Arc<Waker>) {
        (self.queue.arena(), self.queue.waker())
    }

    /// A buffer of `bytes` bytes. Waits until the arena has room: this is the back-pressure.
    pub fn buffer(&self, bytes: u32) -> Buffer {
        Buffer(self.queue.arena().lease(bytes))
    }

    /// As [`Port::buffer`], but says `None` rather than wait.
    pub fn try_buffer(&self, bytes: u32) -> Option<Buffer> {
        self.queue.arena().try_lease(bytes).map(Buffer)
    }

    /// A place for a thread that submits jobs, each place for one thread.
    pub fn seat(&self) -> Seat {
        Seat::at(self.clone())
    }

    /// Hands a job over and returns at once. The answer is an error when the range is not whole
    /// sectors of the export, or the volume has stopped.
    pub fn submit(&self, job: Job) {
        self.queue.push(job);
        self.queue.waker().wake();
    }

    /// The jobs that no layer has yet.
    pub(crate) fn queue(&self) -> &Arc<Queue> {
        &self.queue
    }

    /// Asks whoever drives the volume for a turn, and says how many there were; 0 when it is over.
    pub(crate) fn pulse(&self) -> u64 {
        let engine = self.engine();
        engine.map_or(0, |engine| engine.pulse())
    }

    /// Lets the layer do what an operator wants.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub(crate) fn operate(&self, verb: Verb) -> Result<hostftl_core::Answer, Refusal> {
        let engine = self.engine();
        let closed = Err(Refusal::Because("the volume is being closed"));
        engine.map_or(closed, |engine| engine.operate(verb))
    }

    /// Does something between two steps of the layer; none when the volume is being closed.
    pub(crate) fn between<T>(
        &self,
        act: impl FnOnce(&mut Driver<AnyLayer>, &mut Jobs) -> T,
    ) -> Option<T> {
        self.engine()?.between(act)
    }

    /// Another driver comes in the place of the one that there is, while whoever asks for something
    /// waits; none when the volume is being closed.
    ///
    /// # Errors
    /// When there is none any more: then the volume is over.
    pub(crate) fn renew<T>(
        &self,
        act: impl FnOnce(Driver<AnyLayer>, &mut Jobs) -> Result<(Driver<AnyLayer>, T), Error>,
    ) -> Option<Result<T, AdminError>> {
        self.engine()?.renew(act)
    }

    /// From now on whoever has a seat helps `engine`.
    pub(crate) fn set_engine(&self, engine: &Arc<Engine>) {
        let set = self.engine.set(Arc::downgrade(engine));
        assert!(set.is_ok(), "a port has one engine");
    }

    /// Takes no more jobs; what is queued will still be done.
    pub(crate) fn close(&self) {
        self.queue.close();
    }

    fn engine(&self) -> Option<Arc<Engine>> {
        self.engine.get().and_then(Weak::upgrade)
    }
}
