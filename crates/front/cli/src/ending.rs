//! How a serving process ends when it can't end as it should: at a panic in the driver, and when a
//! stop takes too long. It waits for nothing that may never come, such as a reader of its log.

use std::process;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::console::notice;
use crate::failure::code;

/// How long standard error is waited for: a pipe that nobody reads takes nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a stop may take. A device has two minutes to end its commands before it is given up,
/// and a stop waits for that at most twice: for what clients asked, and for what makes it durable.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// Whether the session mark of a device is *serving*.
static MUST_BE_CLEAN: Mutex<bool> = Mutex::new(false);

/// From now on a panic is told as one line that does not wait for its reader.
pub(crate) fn tell_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = thread::current();
        let thread = thread.name().unwrap_or("a client's thread");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let why = panic.payload_as_str().unwrap_or("no reason given");
        say(format!("bug in HostFTL ({thread}, {place}): {why}; please report this"));
    }));
}

/// Ends the process at once: the driver panicked, and what clients wait for never comes.
pub(crate) fn after_panic() -> ! {
    say("the driver panicked, so this process ends; the volume recovers at the next start".into());
    process::exit(code::PANIC.into())
}

/// Ends the process when the stop that begins now takes too long.
pub(crate) fn limit_stop() {
    let limit = || {
        thread::sleep(LIMIT);
        let seconds = LIMIT.as_secs();
        say(format!("the stop timed out after {seconds} s: unclean shutdown"));
        process::exit(code::FAILED.into());
    };
    // Without a thread the stop is as it would be without a limit.
    drop(thread::Builder::new().name("limit".into()).spawn(limit));
}

/// Ends the process at once: a signal asked for that, and the command does not end by itself.
pub(crate) fn by_signal() -> ! {
    say("interrupted by a signal".into());
    process::exit(code::INTERRUPTED.into())
}

/// Ends the process at once if no device has the session mark *serving* yet. Else it returns, and
/// the volumes are stopped as soon as all are there.
pub(crate) fn before_ready() {
    // A start that is about to write that waits for the lock, and so for the end of the process.
    let must_be_clean = MUST_BE_CLEAN.lock().unwrap_or_else(PoisonError::into_inner);
    if !*must_be_clean {
        say("interrupted by a signal before the volume was served".into());
        process::exit(code::INTERRUPTED.into())
    }
}

/// From now on an end without a stop would be an unclean one.
pub(crate) fn must_be_clean() {
    *MUST_BE_CLEAN.lock().unwrap_or_else(PoisonError::into_inner) = true;
}

/// A line on standard error, if somebody takes it.
pub(crate) fn say(text: String) {
    let (done, wait) = channel();
    let line = text.clone();
    let write = move || {
        notice(line);
        let _ = done.send(());
    };
    match thread::Builder::new().spawn(write) {
        Ok(_) => drop(wait.recv_timeout(PATIENCE)),
        Err(_) => notice(text),
    }
}
