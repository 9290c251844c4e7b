//! A request to end the current work of this process, as Ctrl-C makes to a command.
//!
//! Opening a device, and other long steps before a volume runs, check it and end with
//! [`IoError::Interrupted`]. The devices of a volume that runs do not: it is stopped, for which it
//! needs them.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::error::IoError;

static REQUESTED: AtomicBool = AtomicBool::new(false);

/// Makes the request. It holds for the rest of the process.
pub fn request() {
    REQUESTED.store(true, SeqCst);
}

/// Whether the request was made.
pub fn is_requested() -> bool {
    REQUESTED.load(SeqCst)
}

/// Returns an error that names the device or file in work if the request was made.
///
/// # Errors
/// [`IoError::Interrupted`].
pub fn check(name: &str) -> Result<(), IoError> {
    if is_requested() { Err(IoError::Interrupted { name: name.into() }) } else { Ok(()) }
}
