//! Exclusive opening of files and block devices.

use std::fs::{self, File, Metadata, OpenOptions};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::time::{Duration, Instant};

use crate::error::IoError;
use crate::holder::{find_holder, find_range_holder};
use crate::ofd::{self, LockedRange};

/// How long to retry when no living process holds the device, and the pause between attempts.
const PATIENCE: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(20);

/// Intended use of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// The device is read and written.
    #[default]
    Full,
    /// The device is only read; the kernel refuses writes.
    ReadOnly,
    /// The device is only read and not locked: another process may use it at the same time.
    Inspect,
}

/// Extent of exclusive access to a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold {
    /// The whole device.
    Whole,
    /// A part, which [`take`] locks; other volumes may use other parts.
    Part,
}

/// Opens and locks a device. Retries while no living process holds it: after a kill the kernel
/// keeps it until the transfers of the dead process have ended, and a forked child keeps it until
/// it executes its program.
pub(crate) fn open(
    name: &str,
    is_block: bool,
    access: Access,
    hold: Hold,
) -> Result<File, IoError> {
    let exclusive = if is_block && access != Access::Inspect { libc::O_EXCL } else { 0 };
    match hold {
        Hold::Whole => open_with(name, exclusive, access, hold),
        Hold::Part => {
            // O_EXCL admits only one descriptor of a block device, and other parts need their own.
            // It is only used to check that nothing else, such as a mount, uses the device.
            drop(open_with(name, exclusive, access, hold)?);
            open_with(name, 0, access, hold)
        }
    }
}

fn open_with(name: &str, flags: i32, access: Access, hold: Hold) -> Result<File, IoError> {
    let begun = Instant::now();
    loop {
        match try_open(name, flags, access, hold) {
            Ok(file) => return Ok(file),
            Err((_, true)) if begun.elapsed() < PATIENCE => std::thread::sleep(PAUSE),
            Err((error, _)) => return Err(error),
        }
    }
}

/// Opens and locks a device. An error carries the information whether it may be temporary.
fn try_open(name: &str, flags: i32, access: Access, hold: Hold) -> Result<File, (IoError, bool)> {
    use std::fs::TryLockError::{Error, WouldBlock};
    let busy = |holder: String| IoError::Busy { name: name.into(), holder };
    let system = |action, source| IoError::System { name: name.into(), action, source };
    let (writes, action) = match access {
        Access::Full => (true, "open it for reading and writing"),
        Access::ReadOnly | Access::Inspect => (false, "open it for reading"),
    };
    let opened = OpenOptions::new().read(true).write(writes).custom_flags(flags).open(name);
    let file = opened.map_err(|error| match error.raw_os_error() {
        Some(libc::EBUSY) => {
            (busy("the system (mounted, swap, or part of another device)".into()), true)
        }
        _ => (system(action, error), false),
    })?;
    let locked = match (access, hold) {
        (Access::Inspect, _) => return Ok(file),
        (_, Hold::Whole) => file.try_lock(),
        (_, Hold::Part) => file.try_lock_shared(),
    };
    match locked {
        // The process that created the file may have removed it before it released the lock.
        Ok(()) if !is_named(&file, name) => Err((system(action, ErrorKind::NotFound.into()), true)),
        Ok(()) => Ok(file),
        Err(WouldBlock) => Err(match find_holder(&file) {
            Some(holder) => (busy(holder.name), holder.is_leaving),
            None => (busy("another process".into()), true),
        }),
        Err(Error(error)) => Err((system("lock it", error), false)),
    }
}

/// Returns whether the path `name` still refers to `file`.
fn is_named(file: &File, name: &str) -> bool {
    let node = |meta: Metadata| (meta.dev(), meta.ino());
    let opened = file.metadata().map(node);
    fs::metadata(name).is_ok_and(|named| opened.is_ok_and(|opened| opened == node(named)))
}

/// Locks zones of a device that was opened with [`Hold::Part`], with the same retries.
pub(crate) fn take(
    file: &File,
    name: &str,
    zones: &Range<u32>,
    access: Access,
) -> Result<(), IoError> {
    if access == Access::Inspect {
        return Ok(());
    }
    let system = |source| IoError::System { name: name.into(), action: "lock its zones", source };
    let (what, begun) = (LockedRange::Zones(zones.clone()), Instant::now());
    loop {
        // A read-only descriptor cannot take a write lock, so it takes a shared one.
        let other = ofd::try_lock(file.as_raw_fd(), &what, access == Access::Full);
        let Some(other) = other.map_err(system)? else { return Ok(()) };
        let holder = find_range_holder(file, other);
        if holder.is_some() || begun.elapsed() > PATIENCE {
            let holder = holder.map_or_else(|| "another process".into(), |it| it.name);
            let (first, last) = ofd::zones(other);
            let holder = format!("{holder}, which has its zones {first} to {last}");
            return Err(IoError::Busy { name: name.into(), holder });
        }
        std::thread::sleep(PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_replaced_file_is_distinguished_from_its_successor() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d");
        let (name, file) = (path.to_str().unwrap(), File::create(&path).unwrap());
        assert!(is_named(&file, name));
        fs::remove_file(&path).unwrap();
        assert!(!is_named(&file, name));
        let other = File::create(&path).unwrap();
        assert!(!is_named(&file, name) && is_named(&other, name));
    }
}
