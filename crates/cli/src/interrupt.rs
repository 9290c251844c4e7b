//! Ctrl-C and SIGTERM ask the running command to end; a second one ends the process at once. SIGHUP
//! asks a server to read its certificates again, and any other command to end, unless whoever
//! started it (nohup) wants it ignored.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use crate::failure::{Failure, code};

use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;

type Action = Box<dyn FnOnce() + Send>;
type Habit = Box<dyn Fn() + Send>;

static ASKED: AtomicBool = AtomicBool::new(false);
/// What to do at the first signal, for a command that can't look at [`asked`] now and then.
static ACTION: Mutex<Option<Action>> = Mutex::new(None);
/// What to do at each SIGHUP, for a command that goes on.
static HANGUP: Mutex<Option<Habit>> = Mutex::new(None);

/// Listens for SIGINT, SIGTERM and SIGHUP from now on.
///
/// # Errors
/// When the system refuses.
pub fn install() -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("can't listen for signals: {error}"));
    let deaf = ignores_hangups();
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).map_err(failed)?;
    let listen = move || {
        for signal in signals.forever() {
            if signal == SIGHUP && (habit() || deaf) {
                continue;
            }
            if ASKED.swap(true, Ordering::SeqCst) {
                std::process::exit(code::INTERRUPTED.into());
            }
            act();
        }
    };
    thread::Builder::new().name("signals".into()).spawn(listen).map(drop).map_err(failed)
}

/// Whether SIGHUP was ignored when the process began.
fn ignores_hangups() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_some_and(|mask| mask >> (SIGHUP - 1) & 1 == 1)
}

/// From now on SIGHUP does `habit` and ends nothing.
pub fn at_hangup(habit: impl Fn() + Send + 'static) {
    *lock(&HANGUP) = Some(Box::new(habit));
}

/// Does what a server wants at SIGHUP; false when it wants nothing.
fn habit() -> bool {
    let habit = lock(&HANGUP);
    habit.iter().for_each(|habit| habit());
    habit.is_some()
}

/// Whether the user wants the command to end.
pub fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}

/// Does `action` once when the user wants the command to end, or now if that was already so.
pub fn then(action: impl FnOnce() + Send + 'static) {
    *lock(&ACTION) = Some(Box::new(action));
    if asked() {
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
