//! Opening a file or block device for this process alone.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::time::{Duration, Instant};

use crate::error::IoError;
use crate::holder::holder_of;

/// How long a device that nobody living holds is waited for, and how often it is tried.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// What is done with a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// It is read and written.
    #[default]
    Full,
    /// It is only read: the kernel refuses everything else.
    ReadOnly,
}

/// Opens and locks a device with these flags. Tries again while it is held by nobody who lives:
/// after a kill the kernel holds it until the transfers of the dead process are over; or by a child
/// that is about to begin.
///
/// # Errors
/// When it can't be opened, or somebody has it.
pub fn open(name: &str, flags: i32, access: Access) -> Result<File, IoError> {
    let begun = Instant::now();
    loop {
        match try_open(name, flags, access) {
            Ok(file) => return Ok(file),
            Err((_, true)) if begun.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            Err((error, _)) => return Err(error),
        }
    }
}

/// Opens and locks a device; with an error, whether it may pass by itself.
fn try_open(name: &str, flags: i32, access: Access) -> Result<File, (IoError, bool)> {
    use std::fs::TryLockError::{Error, WouldBlock};
    let busy = |holder: String| IoError::Busy { name: name.into(), holder };
    let system = |what, source| IoError::System { name: name.into(), what, source };
    let (writes, what) = match access {
        Access::Full => (true, "open it for reading and writing"),
        Access::ReadOnly => (false, "open it for reading"),
    };
    let opened = OpenOptions::new().read(true).write(writes).custom_flags(flags).open(name);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => {
            (busy("the system (mounted, swap, or part of another device)".into()), true)
        }
        _ => (system(what, error), false),
    })?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(WouldBlock) => Err(match holder_of(&file) {
            Some(holder) => (busy(holder.name), holder.is_leaving),
            None => (busy("another process".into()), true),
        }),
        Err(Error(error)) => Err((system("lock it", error), false)),
    }
}
