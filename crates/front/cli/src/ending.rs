//! Abnormal end of the process: a panic of the driver, a stop that takes too long, or a signal.
//!
//! Nothing here blocks without a limit. In particular, standard error may be a pipe whose reader
//! has stopped reading.

use std::process;
use std::sync::mpsc::channel;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use crate::console::notice;
use crate::failure::code;

/// Maximum time to wait for a line to reach standard error.
const PATIENCE: Duration = Duration::from_secs(1);
/// Time limit of a stop. With the default command timeout of 120 s per device, a stop waits for at
/// most two timeouts: one for the requests of clients, one for the writes that make them durable.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

/// Whether the session mark of a device may be *serving*, so that only an orderly stop is clean.
static MUST_BE_CLEAN: Mutex<bool> = Mutex::new(false);

/// Installs a panic hook that reports a panic in one line, without blocking on the reader.
pub(crate) fn report_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = thread::current();
        let thread = thread.name().unwrap_or("client thread");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let why = panic.payload_as_str().unwrap_or("no reason given");
        report(format!("bug in HostFTL ({thread}, {place}): {why}; please report this"));
    }));
}

/// Ends the process immediately after a panic of the driver, because the requests of clients would
/// never complete.
pub(crate) fn after_panic() -> ! {
    report("the driver panicked; this process ends, and the next start recovers the volume".into());
    process::exit(code::PANIC.into())
}

/// Starts the time limit of a stop, after which the process ends.
pub(crate) fn limit_stop() {
    let limit = || {
        thread::sleep(LIMIT);
        let seconds = LIMIT.as_secs();
        report(format!("the stop timed out after {seconds} s: unclean shutdown"));
        process::exit(code::FAILED.into());
    };
    // If the thread can't be started, the stop has no limit.
    drop(thread::Builder::new().name("limit".into()).spawn(limit));
}

/// Ends the process immediately after a signal, for a command that does not end by itself.
pub(crate) fn by_signal() -> ! {
    report("interrupted by a signal".into());
    process::exit(code::INTERRUPTED.into())
}

/// Ends the process immediately if no device has the session mark *serving* yet. Otherwise returns,
/// and the volumes are stopped after the start.
pub(crate) fn before_ready() {
    // The lock is held until the process ends, so that a start can't write the mark meanwhile.
    let must_be_clean = MUST_BE_CLEAN.lock().unwrap_or_else(PoisonError::into_inner);
    if !*must_be_clean {
        report("interrupted by a signal before the volume was served".into());
        process::exit(code::INTERRUPTED.into())
    }
}

/// Records that a session mark is about to become *serving*: from now on the process must stop its
/// volumes before it ends.
pub(crate) fn must_be_clean() {
    *MUST_BE_CLEAN.lock().unwrap_or_else(PoisonError::into_inner) = true;
}

/// Prints one line on standard error, and waits at most [`PATIENCE`] for it.
pub(crate) fn report(text: String) {
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
