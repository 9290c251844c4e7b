//! State of the copy of a working device to its replacement, shared between threads.
//!
//! # Invariants
//! - The old device is the member until the copy takes over; afterwards the new one is.
//! - A cancelled copy never takes over.

use std::sync::atomic::{AtomicU8, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use hostftl_io::Uncopied;

use crate::open::names::DeviceId;
use crate::running::status::Status;
use crate::running::status::tasks::{COPY, TaskStatus};
use crate::util::error::AdminError;
use crate::util::lock;

/// The copy in progress, if any.
pub(crate) type CopySlot = Arc<Mutex<Option<Arc<Copying>>>>;

const RUNS: u8 = 0;
const CANCELLED: u8 = 1;
const STOPPED: u8 = 2;
const TAKES_OVER: u8 = 3;

/// Whether the new device, which is the member now, has all data; or the reason why the old one
/// remains.
type Outcome = Result<bool, AdminError>;

/// A copy of a device.
#[derive(Debug)]
pub(crate) struct Copying {
    /// Member that is replaced.
    pub index: u8,
    /// Device that is copied.
    pub old: DeviceId,
    /// Name of the target device.
    pub new: String,
    /// Chunks that the new device lacks.
    pub uncopied: Arc<Uncopied>,
    /// Length of the window in bytes.
    all: u64,
    begun: Instant,
    state: AtomicU8,
    outcome: Mutex<Option<Outcome>>,
    ends: Condvar,
}

impl Copying {
    /// Creates a copy that starts now.
    pub(crate) fn new(index: u8, old: DeviceId, new: String, uncopied: Arc<Uncopied>) -> Self {
        let (all, begun, state) = (uncopied.bytes(), Instant::now(), AtomicU8::new(RUNS));
        let (outcome, ends) = (Mutex::default(), Condvar::new());
        Copying { index, old, new, uncopied, all, begun, state, outcome, ends }
    }

    /// Cancels the copy, unless the new device takes over already. Returns whether it is cancelled.
    pub(crate) fn cancel(&self) -> bool {
        self.leave(CANCELLED)
    }

    /// Cancels the copy because the volume is being closed.
    pub(crate) fn stop(&self) {
        self.leave(STOPPED);
    }

    /// Decides that the new device takes over. Returns false for a cancelled copy.
    pub(crate) fn take_over(&self) -> bool {
        self.leave(TAKES_OVER)
    }

    fn leave(&self, next: u8) -> bool {
        // One atomic step, so that a cancellation and the switch exclude each other.
        let was = self.state.compare_exchange(RUNS, next, SeqCst, SeqCst);
        // The first decision counts; repeating it succeeds.
        was.is_ok() || was == Err(next)
    }

    /// Returns why the copy was cancelled, if it was.
    pub(crate) fn is_cancelled(&self) -> Option<&'static str> {
        match self.state.load(SeqCst) {
            CANCELLED => Some("cancelled by command"),
            STOPPED => Some("the volume was stopped"),
            _ => None,
        }
    }

    /// Records the outcome once no work of the copy remains.
    pub(crate) fn end(&self, outcome: Outcome) {
        *lock(&self.outcome) = Some(outcome);
        self.ends.notify_all();
    }

    /// Waits for the outcome, for at most `most`.
    pub(crate) fn wait(&self, most: Duration) -> Option<Outcome> {
        let outcome = lock(&self.outcome);
        let waited = self.ends.wait_timeout_while(outcome, most, |outcome| outcome.is_none());
        waited
            // The outcome is a single value, which is valid even if another thread panicked.
            .map_or_else(|poisoned| poisoned.into_inner().0.clone(), |(outcome, _)| outcome.clone())
    }

    /// Returns the number of copied bytes and the length of the device.
    pub(crate) fn progress(&self) -> (u64, u64) {
        (self.all.saturating_sub(self.uncopied.bytes()), self.all)
    }

    /// Adds the copy to a status.
    pub(crate) fn show(&self, status: &mut Status) {
        let (done, all) = self.progress();
        let left = all - done;
        let rate = (done as f64 / self.begun.elapsed().as_secs_f64()) as u64;
        let rate = Some(rate).filter(|rate| *rate > 0);
        status.tasks.push(TaskStatus {
            task: COPY.into(),
            done_bytes: done,
            remaining_bytes: left,
            bytes_per_second: rate,
            eta_seconds: rate.map(|rate| left.div_ceil(rate)),
            ..TaskStatus::default()
        });
        if let Some(device) = status.devices.get_mut(usize::from(self.index)) {
            device.replacement = Some(self.new.clone());
        }
        status.notes.push(format!(
            "device {} ({}) is being copied to {}, which replaces it afterwards; `hostftl device \
             online` cancels the copy",
            self.index, self.old.path, self.new
        ));
    }
}
