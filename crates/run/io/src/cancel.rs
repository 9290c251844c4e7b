//! Cancellation of the current work of this process, as Ctrl-C requests it of a command.
//!
//! Opening a device, and other long steps before a volume runs, check for it and end with
//! [`IoError::Interrupted`]. The devices of a running volume do not check: the volume needs them in
//! order to stop.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::error::IoError;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Requests cancellation, for the rest of the process.
pub fn request() {
    REQUESTED.store(true, SeqCst);
}

/// Returns whether cancellation was requested.
pub fn is_requested() -> bool {
    REQUESTED.load(SeqCst)
}

/// Returns an error that names the device or file in use if cancellation was requested.
///
/// # Errors
/// [`IoError::Interrupted`].
pub fn check(name: &str) -> Result<(), IoError> {
    if is_requested() { Err(IoError::Interrupted { name: name.into() }) } else { Ok(()) }
}
