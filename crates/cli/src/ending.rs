//! How a serving process ends when it can't end as it should: at a panic in the driver, and when a
//! stop takes too long. It waits for nothing that may never come, such as a reader of its log.

use std::io::{self, Write};
use std::process;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use crate::failure::code;

/// How long standard error is waited for: a pipe that nobody reads takes nothing.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a stop may take. A device has two minutes to end its commands before it is given up,
/// and a stop waits for that at most twice: for what clients asked, and for what makes it durable.
pub const LIMIT: Duration = Duration::from_secs(300);

/// From now on a panic is told as one line that does not wait for its reader.
pub fn tell_panics() {
    std::panic::set_hook(Box::new(|panic| {
        let thread = thread::current();
        let thread = thread.name().unwrap_or("a client's thread");
        let place = panic.location().map(ToString::to_string).unwrap_or_default();
        let why = panic.payload_as_str().unwrap_or("no reason was given").replace('\n', " ");
        say(format!("a fault of HostFTL itself ({thread}, {place}): {why}; please report this"));
    }));
}

/// Ends the process at once: the driver panicked, and what clients wait for never comes.
pub fn after_panic() -> ! {
    say("the driver is lost, so this process ends; the volume opens again as after a crash".into());
    process::exit(code::PANIC.into())
}

/// Ends the process when the stop that begins now takes too long.
pub fn limit_stop() {
    let limit = || {
        thread::sleep(LIMIT);
        let seconds = LIMIT.as_secs();
        say(format!("the stop was not done after {seconds} s; the end is not a clean one"));
        process::exit(code::FAILED.into());
    };
    // Without a thread the stop is as it would be without a limit.
    drop(thread::Builder::new().name("limit".into()).spawn(limit));
}

/// Ends the process at once: it was told to end before any client was let in.
pub fn before_ready() -> ! {
    say("ended by a signal before the volume was served".into());
    process::exit(code::INTERRUPTED.into())
}

/// A line on standard error, if somebody takes it.
fn say(text: String) {
    let (done, wait) = channel();
    let write = move || {
        let _ = writeln!(io::stderr(), "hostftl: {text}");
        let _ = done.send(());
    };
    if thread::Builder::new().spawn(write).is_ok() {
        let _ = wait.recv_timeout(PATIENCE);
    }
}
