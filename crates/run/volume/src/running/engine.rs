//! A driver and its host, which whoever comes by may run: no thread is woken for what the one that
//! asks can do itself.
//!
//! Invariants
//! - One thread at a time has the core. Who finds it taken may go: whoever has it looks for jobs
//!   again after it gave it back.
//! - Somebody always waits for the devices: the driver's own thread, unless a thread with a seat
//!   has taken that over, which it gives back before it waits for anything else. With nothing under
//!   way there is nothing to hear of them; who sleeps then is woken when that changes.
//! - After the end nobody has the core but the driver's own thread.
//! - A panic in the core, on whichever thread, ends the driver's own thread with a panic: whoever
//!   looks after that ends the process. Until then nobody touches the core again.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, TryLockError};
use std::time::{Duration, Instant};

use hostftl_core::{Answer, Refusal, Verb};
use hostftl_io::polling::Polling;
use hostftl_io::{Driver, IoError, Pace, Waker};
use hostftl_layers::AnyLayer;

use crate::running::front::queue::Queue;
use crate::running::jobs::Jobs;
use crate::running::removed_devices;
use crate::util::error::{AdminError, Error};

/// Turns of the driver before answers go out.
const TURNS: u32 = 16;
/// How often a thread that helps goes on before it leaves the rest to others.
const ROUNDS: u32 = 8;
/// No time at all.
const NEVER: u64 = u64::MAX;

/// See the module text.
#[derive(Debug)]
pub(crate) struct Engine {
    core: Mutex<Core>,
    queue: Arc<Queue>,
    /// What is readable when a command is over; negative for none.
    ring: AtomicI32,
    waker: Arc<Waker>,
    /// Whether a thread with a seat waits for the devices.
    led: Mutex<bool>,
    parked: Condvar,
    over: AtomicBool,
    /// Whether a thread panicked while it had the core.
    broken: Arc<AtomicBool>,
    /// When the layer wants to be woken, and until when the one who waits sleeps; in nanoseconds
    /// since `began`.
    wants: AtomicU64,
    sleeps: AtomicU64,
    /// Whether a request would be taken.
    pulls: AtomicBool,
    /// Whether commands are under way, and whether the one who waits hears when they are over. With
    /// none under way nobody does: a thread that submits one which is over at once wakes no other.
    flying: AtomicBool,
    hears: AtomicBool,
    /// How long commands take to be over, beside how long clients take to speak.
    polling: Polling,
    /// How often somebody had the core.
    turns: AtomicU64,
    /// Whether another driver is on its way.
    renews: AtomicBool,
    began: Instant,
}

struct Core {
    parts: Option<(Driver<AnyLayer>, Jobs)>,
    /// How it ended.
    end: Option<Result<(), IoError>>,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Core, over: {}", self.end.is_some())
    }
}

impl Engine {
    /// An engine for a driver that is ready, whose jobs come from `queue`.
    pub(crate) fn new(driver: Driver<AnyLayer>, jobs: Jobs, queue: Arc<Queue>) -> Arc<Self> {
        let (ring, waker) = (ring_of(&driver), queue.waker().clone());
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

    /// The driver's own thread: runs until the host is over, and gives back what it had.
    ///
    /// # Errors
    /// When the layer stalls, or there is no driver any more.
    pub(crate) fn run(&self) -> Result<(Driver<AnyLayer>, Jobs), IoError> {
        loop {
            self.help();
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
                // Whoever leads may not have seen yet for how long it may sleep.
                self.waker.ring();
                drop(self.parked.wait(led));
            }
        }
    }

    /// The devices are the caller's care from now on; false when they are another's.
    pub(crate) fn lead(&self) -> bool {
        let mut led = lock(&self.led);
        !std::mem::replace(&mut *led, true)
    }

    /// The devices are not the caller's care any more.
    pub(crate) fn follow(&self) {
        *lock(&self.led) = false;
        self.parked.notify_all();
    }

    /// Does what can be done at once, unless another thread does.
    pub(crate) fn help(&self) {
        let _alarm = Alarm(self);
        for _ in 0..ROUNDS {
            let mut core = match self.core.try_lock() {
                Ok(core) => core,
                Err(TryLockError::WouldBlock) => return,
                // The one whose panic it was has said so.
                Err(TryLockError::Poisoned(_)) => return,
            };
            let pace = core.advance();
            self.turns.fetch_add(1, Relaxed);
            let told = core.parts.as_mut().map(|(_, jobs)| jobs.told()).unwrap_or_default();
            let flying = core.parts.as_ref().is_some_and(|(driver, _)| driver.is_flying());
            self.flying.store(flying, SeqCst);
            self.note(pace);
            drop(core);
            told.iter().for_each(|answers| answers.flush());
            match pace {
                None => return self.end(),
                Some(Pace::More) => {}
                Some(_) if !self.has_jobs() => return,
                Some(_) => {}
            }
        }
        self.waker.ring();
    }

    /// Remembers what the driver waits for; the core is taken.
    fn note(&self, pace: Option<Pace>) {
        let (until, pulls) = match pace {
            Some(Pace::Rests { until, pulls }) => (until, pulls),
            _ => (None, true),
        };
        let wants = until.map_or(NEVER, |until| (self.began.elapsed() + until).as_nanos() as u64);
        self.wants.store(wants, SeqCst);
        self.pulls.store(pulls, SeqCst);
        let unheard = self.flying.load(SeqCst) && !self.hears.load(SeqCst);
        if unheard || wants < self.sleeps.load(SeqCst) {
            self.waker.wake();
        }
    }

    /// Everything is over: the driver's own thread shall see it.
    fn end(&self) {
        self.over.store(true, SeqCst);
        self.waker.ring();
        // It looks before it parks, with this lock in its hands.
        drop(lock(&self.led));
        self.parked.notify_all();
    }

    /// Whether commands were under way after the last turn.
    pub(crate) fn is_flying(&self) -> bool {
        self.flying.load(SeqCst)
    }

    /// Whether a thread panicked while it had the core: nothing is answered any more.
    fn is_broken(&self) -> bool {
        self.broken.load(SeqCst)
    }

    /// What tells that, also when the engine is gone.
    pub(crate) fn broken(&self) -> Arc<AtomicBool> {
        self.broken.clone()
    }

    /// Lets the layer do what an operator wants, between two of its steps.
    ///
    /// # Errors
    /// Why nothing was changed.
    pub(crate) fn operate(&self, verb: Verb) -> Result<Answer, Refusal> {
        let closed = Err(Refusal::Because("the volume is being closed"));
        self.between(|driver, jobs| driver.operate(verb, jobs)).unwrap_or(closed)
    }

    /// Does something between two steps of the layer; none when the volume is being closed.
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

    /// As [`crate::front::Port::renew`].
    ///
    /// # Errors
    /// As there.
    pub(crate) fn renew<T>(
        &self,
        act: impl FnOnce(Driver<AnyLayer>, &mut Jobs) -> Result<(Driver<AnyLayer>, T), Error>,
    ) -> Option<Result<T, AdminError>> {
        let _alarm = Alarm(self);
        let mut core = self.core.lock().ok()?;
        let is_over = core.end.is_some();
        let (driver, mut jobs) = core.parts.take_if(|_| !is_over)?;
        // Nobody looks for jobs or at the time meanwhile, or all would wait without a rest.
        self.renews.store(true, SeqCst);
        self.pulls.store(false, SeqCst);
        self.wants.store(NEVER, SeqCst);
        let done = act(driver, &mut jobs).map(|(driver, done)| {
            self.ring.store(ring_of(&driver), SeqCst);
            core.parts = Some((driver, jobs));
            done
        });
        let done = done.map_err(AdminError::from);
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

    /// Asks for a turn, and says how many there were. While another driver is on its way each
    /// question counts: that takes as long as the devices may take.
    pub(crate) fn pulse(&self) -> u64 {
        self.turns.fetch_add(u64::from(self.renews.load(Relaxed)), Relaxed);
        self.waker.ring();
        self.turns.load(Relaxed)
    }

    fn has_jobs(&self) -> bool {
        self.pulls.load(SeqCst) && self.queue.has_work()
    }

    /// Waits until `fd` has something to read, or for `most`, and does what is to be done
    /// meanwhile, until that made `done` true; whether `fd` has something. The caller leads, and
    /// polls before each sleep by what `polling` learnt, if there is one.
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

    /// One sleep, and the work behind it; whether `fd` has something to read.
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
            let unheard = !hears && self.flying.load(SeqCst);
            unheard || self.has_jobs() || self.wants.load(SeqCst) < wants
        });
        self.sleeps.store(0, SeqCst);
        self.hears.store(false, SeqCst);
        // Only a client spoke: its own thread helps when it knows what it wants.
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

/// Tells the driver's own thread of a panic of the thread that has it.
struct Alarm<'a>(&'a Engine);

impl Drop for Alarm<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() && self.0.core.is_poisoned() {
            self.0.broken.store(true, SeqCst);
            self.0.end();
        }
    }
}

impl Core {
    /// Runs the driver for a while; none when it is over.
    fn advance(&mut self) -> Option<Pace> {
        let (driver, jobs) = self.parts.as_mut().filter(|_| self.end.is_none())?;
        let advanced = driver.advance(jobs, TURNS);
        let most = jobs.keep(driver.layer());
        removed_devices::close(driver, jobs);
        let retries = jobs.retries();
        let end = match advanced {
            Ok(Pace::Rests { .. } | Pace::Over) if retries => return Some(Pace::More),
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

/// What is readable when a command of a driver is over; negative for none.
fn ring_of(driver: &Driver<AnyLayer>) -> RawFd {
    driver.ring_fd().unwrap_or(-1)
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
}
