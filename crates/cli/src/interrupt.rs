//! Ctrl-C and SIGTERM ask the running command to end; a second one ends the process at once.

use std::sync::atomic::{AtomicBool, Ordering};

use crate::failure::{Failure, code};

static ASKED: AtomicBool = AtomicBool::new(false);

/// Listens for SIGINT, SIGTERM and SIGHUP from now on.
///
/// # Errors
/// When the system refuses.
pub fn install() -> Result<(), Failure> {
    let handler = || {
        if ASKED.swap(true, Ordering::SeqCst) {
            std::process::exit(code::INTERRUPTED.into());
        }
    };
    ctrlc::set_handler(handler)
        .map_err(|error| Failure::failed(format!("can't listen for signals: {error}")))
}

/// Whether the user wants the command to end.
pub fn asked() -> bool {
    ASKED.load(Ordering::SeqCst)
}
