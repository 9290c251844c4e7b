//! The signals that a command answers.
//!
//! | signal | a command that runs once | `serve` |
//! |---|---|---|
//! | SIGINT, SIGTERM, SIGXCPU | ends with code 130 | stops the volumes |
//! | SIGHUP | the same, but for nohup | reads the certificates again |
//! | SIGXFSZ | a write fails with EFBIG | the same |
//! | those of [`IDLE`] | as the system has it | nothing |
//!
//! A command that runs once ends at once when the signal comes again after [`TWICE`]. `serve` stops
//! its volumes, however often the signal comes.
//!
//! One stop may arrive as several signals: `timeout` and supervisors signal a process and then its
//! group. So a second signal at once means no more than the first.

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
type Habit = Box<dyn Fn() + Send>;

/// For how long further signals count as the first one.
const TWICE: Duration = Duration::from_secs(1);
/// How long a command may take to end that does not check [`asked`], and one that undoes its
/// work.
const GRACE: Duration = Duration::from_secs(2);
const LONG_GRACE: Duration = Duration::from_secs(10);
/// Signals that would end a server, and mean nothing to it.
const IDLE: [i32; 6] = [SIGUSR1, SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGIO];

/// When the first signal came.
static FIRST: OnceLock<Instant> = OnceLock::new();
/// How the command ends.
static WAY: AtomicU8 = AtomicU8::new(ABRUPT);
/// Whether this is `serve`.
static SERVES: AtomicBool = AtomicBool::new(false);
/// Takes more signals.
static MORE: OnceLock<Handle> = OnceLock::new();
/// The reaction to the first signal of a command that cannot check [`asked`] regularly.
static ACTION: Mutex<Option<Action>> = Mutex::new(None);
/// What to do at each SIGHUP, for a command that goes on.
static HANGUP: Mutex<Option<Habit>> = Mutex::new(None);

/// [`WAY`]: it is ended after [`GRACE`].
const ABRUPT: u8 = 0;
/// It undoes its work, and is ended after [`LONG_GRACE`].
const UNDOING: u8 = 1;
/// It ends by itself.
const ORDERLY: u8 = 2;

/// Handles signals from now on.
pub(crate) fn install() -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("cannot listen for signals: {error}"));
    let ignores_hangups = ignores_hangups();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGXCPU, SIGXFSZ]).map_err(failed)?;
    MORE.set(signals.handle()).unwrap_or_else(|_| unreachable!("it is installed once"));
    let listen = move || {
        for signal in signals.forever() {
            match signal {
                SIGHUP if habit() || ignores_hangups => {}
                SIGINT | SIGTERM | SIGHUP => end(),
                SIGXCPU => {
                    // It comes every second from then on, until the hard limit kills the process.
                    if !asked_before() {
                        ending::say("CPU time limit (RLIMIT_CPU) reached".into());
                    }
                    end();
                }
                _ => {}
            }
        }
    };
    thread::Builder::new().name("signals".into()).spawn(listen).map(drop).map_err(failed)
}

/// A signal asks the command to end.
fn end() {
    let now = Instant::now();
    let first = *FIRST.get_or_init(|| now);
    if first == now {
        let serves = SERVES.load(SeqCst);
        if !serves {
            // Whatever waits for a peer, or takes long, ends with an error.
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

/// Whether SIGHUP was ignored when the process began.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// From now on only `action` of [`then`] ends this process, and SIGHUP does nothing.
pub(crate) fn serve() {
    SERVES.store(true, SeqCst);
    at_hangup(|| {});
    let more = MORE.get().into_iter();
    // Where the system refuses, the signal keeps its default action.
    more.for_each(|more| IDLE.iter().for_each(|signal| drop(more.add_signal(*signal))));
}

/// The command undoes its work when it is asked to end.
pub(crate) fn undo() {
    WAY.store(UNDOING, SeqCst);
}

/// From now on SIGHUP does `habit` and ends nothing.
pub(crate) fn at_hangup(habit: impl Fn() + Send + 'static) {
    *lock(&HANGUP) = Some(Box::new(habit));
}

/// Does what a server wants at SIGHUP; false when it wants nothing.
fn habit() -> bool {
    let habit = lock(&HANGUP);
    habit.iter().for_each(|habit| habit());
    habit.is_some()
}

/// Whether the user wants the command to end. A command that checks this ends by itself.
pub(crate) fn asked() -> bool {
    WAY.store(ORDERLY, SeqCst);
    asked_before()
}

/// Whether the user wanted the command to end, for one that is over.
pub(crate) fn asked_before() -> bool {
    FIRST.get().is_some()
}

/// The exit code of a failed command: after a signal the failure is the requested end.
pub(crate) fn explain(failure: Failure) -> Failure {
    if asked_before() && !SERVES.load(SeqCst) && failure.code == code::FAILED {
        Failure { code: code::INTERRUPTED, ..failure }
    } else {
        failure
    }
}

/// Does `action` once when the user wants the command to end, or now if that was already so.
pub(crate) fn then(action: impl FnOnce() + Send + 'static) {
    *lock(&ACTION) = Some(Box::new(action));
    if asked_before() {
        act();
    }
}

/// Takes the action out, so that it is done once whoever comes first, and does it.
fn act() {
    let action = lock(&ACTION).take();
    if let Some(action) = action {
        action();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
