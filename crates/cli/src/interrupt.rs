//! Ctrl-C and SIGTERM ask the running command to end; a second one ends the process at once.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Failure, code};

type Action = Box<dyn FnOnce() + Send>;

static ASKED: AtomicBool = AtomicBool::new(false);
/// What to do at the first signal, for a command that can't look at [`asked`] now and then.
static ACTION: Mutex<Option<Action>> = Mutex::new(None);

/// Listens for SIGINT, SIGTERM and SIGHUP from now on.
///
/// # Errors
/// When the system refuses.
pub fn install() -> Result<(), Failure> {
    let handler = || {
        if ASKED.swap(true, Ordering::SeqCst) {
            std::process::exit(code::INTERRUPTED.into());
        }
        act();
    };
    ctrlc::set_handler(handler)
        .map_err(|error| Failure::failed(format!("can't listen for signals: {error}")))
}

/// Whether the user wants the command to end.
pub fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}

/// Does `action` once when the user wants the command to end, or now if that was already so.
pub fn then(action: impl FnOnce() + Send + 'static) {
    *lock() = Some(Box::new(action));
    if asked() {
        act();
    }
}

/// Takes the action out, so that it is done once whoever comes first, and does it.
fn act() {
    let action = lock().take();
    if let Some(action) = action {
        action();
    }
}

fn lock() -> std::sync::MutexGuard<'static, Option<Action>> {
    ACTION.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
