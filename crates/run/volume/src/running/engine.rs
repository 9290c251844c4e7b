//! A driver and its host, which any thread may run: a thread that submits a job executes the driver
//! itself instead of waking another thread.
//!
//! # Invariants
//! - One thread at a time holds the core. A thread that finds it held may leave: the holder checks
//!   for jobs again after it released the core.
//! - One thread always waits for the devices: the driver's own thread, or a thread with a submitter
//!   that leads. A leader gives this up before it waits for anything else. With no commands in
//!   flight no wait for the devices is needed; a sleeping thread is woken when that changes.
//! - After the end only the driver's own thread uses the core.
//! - A panic in the core, on any thread, makes the driver's own thread panic, and its supervisor
//!   ends the process. The core is not used again until then.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use hostftl_core::{AdminCommand, AdminOutcome, Refusal};
use hostftl_io::polling::Polling;
use hostftl_io::{Driver, IoError, Pace, Waker};
use hostftl_layers::AnyLayer;

use crate::running::front::queue::Queue;
use crate::running::jobs::Jobs;
use crate::running::removed_devices;
use crate::util::error::{AdminError, Error};
use crate::util::lock;

/// Turns of the driver before replies are sent.
const TURNS: u32 = 16;
/// Maximum rounds of a helping thread before it leaves the rest to others.
const ROUNDS: u32 = 8;
/// Time value that is never reached.
const NEVER: u64 = u64::MAX;

/// Shared state of the threads that run a driver.
#[derive(Debug)]
pub(crate) struct Engine {
    core: Mutex<Core>,
    queue: Arc<Queue>,
    /// File descriptor that is readable when a command completes; negative for none.
    ring: AtomicI32,
    waker: Arc<Waker>,
    /// Whether a thread with a submitter waits for the devices.
    led: Mutex<bool>,
    parked: Condvar,
    over: AtomicBool,
    /// Whether a thread panicked while it held the core.
    broken: Arc<AtomicBool>,
    /// Time at which the layer needs a call, and time until which the waiting thread sleeps; in
    /// nanoseconds since `began`.
    wants: AtomicU64,
    sleeps: AtomicU64,
    /// Whether a request would be accepted.
    pulls: AtomicBool,
    /// Whether commands are in flight, and whether the waiting thread is notified of their
    /// completion. It is not notified if none are in flight, so that submitting a command that
    /// completes at once wakes no other thread.
    flying: AtomicBool,
    hears: AtomicBool,
    /// Measured durations of commands, compared with the time until a client sends its next
    /// request.
    polling: Polling,
    /// Number of times the core was held.
    turns: AtomicU64,
    /// Whether the driver is being replaced.
    renews: AtomicBool,
    began: Instant,
}

struct Core {
    parts: Option<(Driver<AnyLayer>, Jobs)>,
    /// Result of the driver.
    end: Option<Result<(), IoError>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Core, over: {}", self.end.is_some())
    }
}

impl Engine {
    /// Creates an engine for a driver that is ready, with jobs from `queue`.
    pub(crate) fn new(driver: Driver<AnyLayer>, jobs: Jobs, queue: Arc<Queue>) -> Arc<Self> {
        let (ring, waker) = (ring_fd(&driver), queue.waker().clone());
        let core = Mutex::new(Core { parts: Some((driver, jobs)), end: None });
        Arc::new(Engine {
            core,
            queue,
            ring: AtomicI32::new(ring),
            waker,
            led: Mutex::new(false),
            parked: Condvar::new(),
            over: AtomicBool::new(false),
            broken: Arc::default(),
            wants: AtomicU64::new(NEVER),
            sleeps: AtomicU64::new(NEVER),
            pulls: AtomicBool::new(true),
            flying: AtomicBool::new(false),
            hears: AtomicBool::new(false),
            polling: Polling::default(),
            turns: AtomicU64::new(0),
            renews: AtomicBool::new(false),
            began: Instant::now(),
        })
    }

    /// Runs the driver's own thread until the host ends, and returns the driver and its jobs.
    pub(crate) fn run(&self) -> Result<(Driver<AnyLayer>, Jobs), IoError> {
        loop {
            self.help();
            // The state of the core is unknown after a panic, so the process must end instead of
            // answering.
            assert!(!self.is_broken(), "the driver failed in another thread");
            let mut core = self.lock();
            if let Some(end) = core.end.take() {
                let parts = core.parts.take();
                return end.map(|()| parts.expect("a driver is over that is there"));
            }
            drop(core);
            let led = lock(&self.led);
            if !*led {
                drop(led);
                self.wait_once(None, None, None);
            } else if !self.over.load(SeqCst) {
                // The leader may not know the current sleep time yet.
                self.waker.ring();
                drop(self.parked.wait(led));
            }
        }
    }

    /// Makes the caller the leader, which waits for the devices. Returns false if there is one
    /// already.
    pub(crate) fn lead(&self) -> bool {
        let mut led = lock(&self.led);
        !std::mem::replace(&mut *led, true)
    }

    /// Ends the leadership of the caller.
    pub(crate) fn follow(&self) {
        *lock(&self.led) = false;
        self.parked.notify_all();
    }

    /// Executes the work that is possible at once, unless another thread does so.
    pub(crate) fn help(&self) {
        let _alarm = Alarm(self);
        for _ in 0..ROUNDS {
            let mut core = match self.core.try_lock() {
                Ok(core) => core,
                Err(TryLockError::WouldBlock) => return,
                // The thread that panicked has raised the alarm.
                Err(TryLockError::Poisoned(_)) => return,
            };
            let pace = core.advance();
            self.turns.fetch_add(1, Relaxed);
            let receivers =
                core.parts.as_mut().map(|(_, jobs)| jobs.receivers()).unwrap_or_default();
            let flying = core.parts.as_ref().is_some_and(|(driver, _)| driver.is_flying());
            // Stored before the core is released: a thread that goes to sleep afterwards must see
            // it.
            self.flying.store(flying, SeqCst);
            self.note(pace);
            drop(core);
            // Flush without the core, so that other threads can take it meanwhile.
            receivers.iter().for_each(|answers| answers.flush());
            // A job that arrived while this thread held the core would otherwise wait for the next
            // thread.
            match pace {
                None => return self.end(),
                Some(Pace::More) => {}
                Some(_) if !self.has_jobs() => return,
                Some(_) => {}
            }
        }
        self.waker.ring();
    }

    /// Stores the conditions for which the driver waits. The caller holds the core.
    fn note(&self, pace: Option<Pace>) {
        let (until, pulls) = match pace {
            Some(Pace::Rests { until, pulls }) => (until, pulls),
            _ => (None, true),
        };
        let wants = until.map_or(NEVER, |until| (self.began.elapsed() + until).as_nanos() as u64);
        self.wants.store(wants, SeqCst);
        self.pulls.store(pulls, SeqCst);
        let unheard = self.flying.load(SeqCst) && !self.hears.load(SeqCst);
        // The waiting thread ignores the devices, or would sleep past the deadline.
        if unheard || wants < self.sleeps.load(SeqCst) {
            self.waker.wake();
        }
    }

    /// Wakes the driver's own thread to detect the end.
    fn end(&self) {
        // Stored before the wake-up, or the driver's own thread could sleep again without seeing
        // the end.
        self.over.store(true, SeqCst);
        self.waker.ring();
        // That thread checks `over` under this lock before it parks, so it can't miss the
        // notification.
        drop(lock(&self.led));
        self.parked.notify_all();
    }

    /// Returns whether commands were in flight after the last turn.
    pub(crate) fn is_flying(&self) -> bool {
        self.flying.load(SeqCst)
    }

    /// Returns whether a thread panicked while it held the core: requests are no longer answered.
    fn is_broken(&self) -> bool {
        self.broken.load(SeqCst)
    }

    /// Returns the panic flag, which outlives the engine.
    pub(crate) fn broken(&self) -> Arc<AtomicBool> {
        self.broken.clone()
    }

    /// Passes an operator's command to the layer, between two of its steps.
    pub(crate) fn operate(&self, command: AdminCommand) -> Result<AdminOutcome, Refusal> {
        let closed = Err(Refusal::Because("the volume is being closed"));
        self.between(|driver, jobs| driver.operate(command, jobs)).unwrap_or(closed)
    }

    /// Calls `act` between two steps of the layer; `None` when the volume is being closed.
    pub(crate) fn between<T>(
        &self,
        act: impl FnOnce(&mut Driver<AnyLayer>, &mut Jobs) -> T,
    ) -> Option<T> {
        let _alarm = Alarm(self);
        let mut core = self.core.lock().ok()?;
        let is_over = core.end.is_some();
        let (driver, jobs) = core.parts.as_mut().filter(|_| !is_over)?;
        let done = act(driver, jobs);
        drop(core);
        self.help();
        self.waker.ring();
        Some(done)
    }

    /// Replaces the driver; see [`crate::front::Port::renew`].
    pub(crate) fn renew<T>(
        &self,
        act: impl FnOnce(Driver<AnyLayer>, &mut Jobs) -> Result<(Driver<AnyLayer>, T), Error>,
    ) -> Option<Result<T, AdminError>> {
        let _alarm = Alarm(self);
        let mut core = self.core.lock().ok()?;
        let is_over = core.end.is_some();
        let (driver, mut jobs) = core.parts.take_if(|_| !is_over)?;
        // Ignore jobs and timers meanwhile; otherwise waiting threads would spin.
        self.renews.store(true, SeqCst);
        self.pulls.store(false, SeqCst);
        self.wants.store(NEVER, SeqCst);
        let done = act(driver, &mut jobs).map(|(driver, done)| {
            self.ring.store(ring_fd(&driver), SeqCst);
            core.parts = Some((driver, jobs));
            done
        });
        let done = done.map_err(AdminError::from);
        // There is no driver any more, so the engine ends.
        if let Err(why) = &done {
            core.end = Some(Err(IoError::Changed(why.text.clone())));
        }
        self.renews.store(false, SeqCst);
        self.pulls.store(true, SeqCst);
        drop(core);
        match &done {
            Ok(_) => self.help(),
            Err(_) => self.end(),
        }
        self.waker.ring();
        Some(done)
    }

    /// Requests a turn, and returns their number. During a replacement of the driver each call
    /// counts as one, because the replacement may take as long as the devices' deadlines.
    pub(crate) fn pulse(&self) -> u64 {
        self.turns.fetch_add(u64::from(self.renews.load(Relaxed)), Relaxed);
        self.waker.ring();
        self.turns.load(Relaxed)
    }

    fn has_jobs(&self) -> bool {
        self.pulls.load(SeqCst) && self.queue.has_work()
    }

    /// Waits until `fd` is readable, `most` has passed, or this thread's own work made `done` true.
    /// Returns whether `fd` is readable. The caller leads. With `polling` it polls before each
    /// sleep, for a duration that adapts to earlier waits.
    pub(crate) fn wait_readable(
        &self,
        fd: RawFd,
        most: Option<Duration>,
        polling: Option<&Polling>,
        done: impl Fn() -> bool,
    ) -> bool {
        let until = most.map(|most| Instant::now() + most);
        loop {
            let left = until.map(|until| until.saturating_duration_since(Instant::now()));
            if self.wait_once(Some(fd), left, polling) {
                return true;
            }
            if done() || left.is_some_and(|left| left.is_zero()) {
                return false;
            }
        }
    }

    /// Sleeps once and executes the work that follows. Returns whether `fd` is readable.
    fn wait_once(
        &self,
        fd: Option<RawFd>,
        most: Option<Duration>,
        polling: Option<&Polling>,
    ) -> bool {
        let wants = self.wants.load(SeqCst);
        self.sleeps.store(wants, SeqCst);
        let timer = match wants {
            NEVER => None,
            at => Some(Duration::from_nanos(at).saturating_sub(self.began.elapsed())),
        };
        let most = timer.into_iter().chain(most).min();
        let hears = self.flying.load(SeqCst);
        self.hears.store(hears, SeqCst);
        let ring = self.ring().filter(|_| hears);
        let polling = if hears { polling.and(Some(&self.polling)) } else { polling };
        let [ring, readable] = self.waker.sleep_on([ring, fd], most, polling, || {
            // Checked once the waker is armed, so that no wake-up is lost.
            let unheard = !hears && self.flying.load(SeqCst);
            unheard || self.has_jobs() || self.wants.load(SeqCst) < wants
        });
        // While awake, the thread re-evaluates all conditions before its next sleep, so no wake-up
        // is needed.
        self.sleeps.store(0, SeqCst);
        self.hears.store(false, SeqCst);
        // Only the client sent data: the thread helps once it has read the request.
        if ring || !readable {
            self.help();
        }
        readable
    }

    fn ring(&self) -> Option<RawFd> {
        Some(self.ring.load(SeqCst)).filter(|fd| *fd >= 0)
    }

    fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().expect("the driver failed in another thread")
    }
}

/// Raises the alarm for the driver's own thread when this thread panics.
struct Alarm<'a>(&'a Engine);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        // A panic outside the core leaves the lock unpoisoned and does not affect the driver.
        if std::thread::panicking() && self.0.core.is_poisoned() {
            self.0.broken.store(true, SeqCst);
            self.0.end();
        }
    }
}

impl Core {
    /// Runs the driver for some turns; `None` at its end.
    fn advance(&mut self) -> Option<Pace> {
        let (driver, jobs) = self.parts.as_mut().filter(|_| self.end.is_none())?;
        let advanced = driver.advance(jobs, TURNS);
        // After each turn, because the layer may have lost a device in it.
        let most = jobs.keep(driver.layer());
        removed_devices::close(driver, jobs);
        let retries = jobs.retries();
        let end = match advanced {
            Ok(Pace::Rests { .. } | Pace::Over) if retries => return Some(Pace::More),
            // Answers about durability still wait for the superblocks, which no device event
            // announces.
            Ok(Pace::Over) if jobs.holds() => {
                return Some(Pace::Rests { until: most, pulls: false });
            }
            Ok(Pace::Over) => Ok(()),
            Ok(Pace::Rests { until, pulls }) => {
                return Some(Pace::Rests { until: until.into_iter().chain(most).min(), pulls });
            }
            Ok(pace) => return Some(pace),
            Err(error) => Err(error),
        };
        self.end = Some(end);
        None
    }
}

/// Returns the file descriptor that is readable when a command completes; negative for none.
fn ring_fd(driver: &Driver<AnyLayer>) -> RawFd {
    driver.ring_fd().unwrap_or(-1)
}
