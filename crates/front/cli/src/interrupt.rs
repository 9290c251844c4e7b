//! Signal handling.
//!
//! | signal | a command that runs once | `serve` |
//! |---|---|---|
//! | SIGINT, SIGTERM, SIGXCPU | ends with code 130 | stops the volumes |
//! | SIGHUP | the same, except under nohup | reloads the certificates |
//! | SIGXFSZ | the write fails with EFBIG | the same |
//! | those in [`IDLE`] | default action | ignored |
//!
//! A second signal, at least [`TWICE`] after the first, ends a command that runs once immediately.
//! `serve` always stops its volumes, regardless of the number of signals.
//!
//! Signals within [`TWICE`] of the first one count as the first one, because `timeout` and
//! supervisors signal a process and then its process group.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering::SeqCst};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use crate::ending;
use crate::failure::{Failure, code};

use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM, SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::{Handle, Signals};

type Action = Box<dyn FnOnce() + Send>;
type HangupAction = Box<dyn Fn() + Send>;

/// Time during which further signals count as the first one.
const TWICE: Duration = Duration::from_secs(1);
/// Time limit of a command that does not check [`asked`], before it is ended.
const GRACE: Duration = Duration::from_secs(2);
/// Additional time of a command that undoes its work.
const LONG_GRACE: Duration = Duration::from_secs(10);
/// Signals whose default action would end a server, and which have no meaning for it.
const IDLE: [i32; 6] = [SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO];

/// Time of the first signal.
static FIRST: OnceLock<Instant> = OnceLock::new();
/// Reaction of the command to a signal: [`ABRUPT`], [`UNDOING`] or [`ORDERLY`].
static WAY: AtomicU8 = AtomicU8::new(ABRUPT);
/// Whether the command is `serve`.
static SERVES: AtomicBool = AtomicBool::new(false);
/// Handle to which further signals can be added.
static MORE: OnceLock<Handle> = OnceLock::new();
/// Action for the first signal, in a command that can't check [`asked`] regularly.
static ACTION: Mutex<Option<Action>> = Mutex::new(None);
/// Action for each SIGHUP, in a command that continues.
static HANGUP: Mutex<Option<HangupAction>> = Mutex::new(None);

/// [`WAY`]: the process is ended after [`GRACE`].
const ABRUPT: u8 = 0;
/// [`WAY`]: the command undoes its work, and is ended after [`GRACE`] and [`LONG_GRACE`].
const UNDOING: u8 = 1;
/// [`WAY`]: the command checks [`asked`] and ends by itself.
const ORDERLY: u8 = 2;

/// Starts the thread that handles signals.
pub(crate) fn install() -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("cannot listen for signals: {error}"));
    let ignores_hangups = ignores_hangups();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGXCPU, SIGXFSZ]).map_err(failed)?;
    MORE.set(signals.handle()).unwrap_or_else(|_| unreachable!("it is installed once"));
    let listen = move || {
        for signal in signals.forever() {
            match signal {
                SIGHUP if hangup() || ignores_hangups => {}
                SIGINT | SIGTERM | SIGHUP => end(),
                SIGXCPU => {
                    // Sent every second, until the hard limit kills the process.
                    if !asked_before() {
                        ending::report("CPU time limit (RLIMIT_CPU) reached".into());
                    }
                    end();
                }
                _ => {}
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(listen).map(drop).map_err(failed)
}

/// Handles a signal that ends the command.
fn end() {
    let now = Instant::now();
    let first = *FIRST.get_or_init(|| now);
    if first == now {
        let serves = SERVES.load(SeqCst);
        if !serves {
            // Waits for a peer and long operations end with an error.
            hostftl_io::cancel::request();
        }
        act();
        if !serves {
            let limit = || {
                for (way, most) in [(ABRUPT, GRACE), (UNDOING, LONG_GRACE)] {
                    thread::sleep(most);
                    if WAY.load(SeqCst) <= way {
                        ending::by_signal();
                    }
                }
            };
            if thread::Builder::new().name("limit".into()).spawn(limit).is_err() {
                ending::by_signal();
            }
        }
    } else if !SERVES.load(SeqCst) && now - first >= TWICE {
        ending::by_signal();
    }
}

/// Returns whether SIGHUP is ignored, as nohup sets it. Must be called before a handler is
/// installed.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// Switches to the behaviour of `serve`: signals only run the action of [`then`], and SIGHUP does
/// nothing until [`at_hangup`] sets an action.
pub(crate) fn serve() {
    SERVES.store(true, SeqCst);
    at_hangup(|| {});
    let more = MORE.get().into_iter();
    // A signal that can't be added keeps its default action.
    more.for_each(|more| IDLE.iter().for_each(|signal| drop(more.add_signal(*signal))));
}

/// Announces that the command undoes its work after a signal, which may take longer.
pub(crate) fn undo() {
    WAY.store(UNDOING, SeqCst);
}

/// Runs `action` at each SIGHUP, which then no longer ends the command.
pub(crate) fn at_hangup(action: impl Fn() + Send + 'static) {
    *lock(&HANGUP) = Some(Box::new(action));
}

/// Runs the action for SIGHUP. Returns whether there is one.
fn hangup() -> bool {
    let action = lock(&HANGUP);
    action.iter().for_each(|action| action());
    action.is_some()
}

/// Returns whether a signal asked the command to end. The command must then end by itself; no time
/// limit applies after the first call.
pub(crate) fn asked() -> bool {
    WAY.store(ORDERLY, SeqCst);
    asked_before()
}

/// Returns whether a signal asked the command to end, without the promise of [`asked`].
pub(crate) fn asked_before() -> bool {
    FIRST.get().is_some()
}

/// Replaces the exit code of a failure after a signal, because the signal caused the failure.
pub(crate) fn explain(failure: Failure) -> Failure {
    if asked_before() && !SERVES.load(SeqCst) && failure.code == code::FAILED {
        Failure { code: code::INTERRUPTED, ..failure }
    } else {
        failure
    }
}

/// Runs `action` once at the first signal, or now if there was one already.
pub(crate) fn then(action: impl FnOnce() + Send + 'static) {
    *lock(&ACTION) = Some(Box::new(action));
    if asked_before() {
        act();
    }
}

/// Runs the action. It is removed first, because [`end`] and [`then`] may both get here.
fn act() {
    let action = lock(&ACTION).take();
    if let Some(action) = action {
        action();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
