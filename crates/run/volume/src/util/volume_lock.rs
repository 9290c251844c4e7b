//! Lock that ensures that only one process serves a volume, identified by its UUID.
//!
//! A copy of a volume, and the other half of a mirror, have their own files and devices with their
//! own locks. This lock is common to all of them. It is an advisory lock (`flock`) on a file in the
//! folder of [`crate::util::runtime_dir`], so it disappears with the process, and other users can't
//! take it.
//!
//! # Invariants
//! - The lock is on the file that currently has the name: a file that was removed between opening
//!   and locking is reopened.
//! - Only the holder of the lock removes the file.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, Read, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hostftl_io::{Holder, find_holder};
use uuid::Uuid;

use crate::util::error::{Error, file};
use crate::util::runtime_dir;

/// Longest wait for a lock without a known holder.
const PATIENCE: Duration = Duration::from_secs(5);
/// Interval of the attempts.
const AGAIN: Duration = Duration::from_millis(20);
/// Maximum length of the text in the file, in bytes.
const LONGEST: u64 = 8192;

/// Exclusive right to serve a volume, until it is dropped.
#[derive(Debug)]
pub(crate) struct VolumeLock {
    path: PathBuf,
    file: File,
}

impl VolumeLock {
    /// Takes the lock of `volume` for the volume file `of`.
    pub(crate) fn take(volume: Uuid, file_path: &Path) -> Result<Self, Error> {
        runtime_dir::prepare()?;
        let path = runtime_dir::path(volume, "lock");
        let begun = Instant::now();
        loop {
            let mut options = OpenOptions::new();
            options.read(true).write(true).create(true).truncate(false).mode(0o600);
            let mut opened = options.open(&path).map_err(file(&path, "open the lock"))?;
            let holder = match opened.try_lock() {
                Ok(()) if is_named(&opened) => {
                    // Written under the lock, so a refused process reads the owner or nothing.
                    sign(&mut opened, file_path).map_err(file(&path, "write the lock owner"))?;
                    return Ok(VolumeLock { path, file: opened });
                }
                // The previous owner removed the file between opening and locking.
                Ok(()) => continue,
                Err(TryLockError::Error(error)) => return Err(file(&path, "lock it")(error)),
                Err(TryLockError::WouldBlock) => find_holder(&opened),
            };
            // Without a known holder, the lock belongs to a process that is ending or starting:
            // retry.
            let stays = holder.as_ref().is_some_and(|it| !it.is_leaving);
            if stays || begun.elapsed() > PATIENCE {
                return Err(refusal(volume, file_path, holder, &mut opened));
            }
            std::thread::sleep(AGAIN);
        }
    }
}

impl Drop for VolumeLock {
    fn drop(&mut self) {
        // If the name was removed before, the name may belong to another process now.
        if is_named(&self.file) {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Returns whether the file still has its name since it was opened.
fn is_named(opened: &File) -> bool {
    opened.metadata().is_ok_and(|found| found.nlink() > 0)
}

/// Writes the path of the volume file into the lock file.
fn sign(opened: &mut File, file_path: &Path) -> io::Result<()> {
    let full = fs::canonicalize(file_path).unwrap_or_else(|_| file_path.to_owned());
    // A killed owner may have left its text.
    opened.set_len(0)?;
    opened.write_all(full.as_os_str().as_bytes())
}

fn refusal(volume: Uuid, file_path: &Path, holder: Option<Holder>, opened: &mut File) -> Error {
    let mut text = Vec::new();
    // Without the text only the process is named.
    opened.take(LONGEST).read_to_end(&mut text).ok();
    let theirs = String::from_utf8_lossy(&text).into_owned();
    let holder = holder.map_or_else(|| "another process".into(), |it| it.name);
    if fs::canonicalize(file_path).is_ok_and(|full| full == Path::new(&theirs)) {
        return Error::Busy { path: file_path.into(), holder };
    }
    Error::Served { path: file_path.into(), volume, holder, theirs }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_volume_lock_is_exclusive_and_released_with_its_owner() {
        let volume = Uuid::new_v4();
        let first = VolumeLock::take(volume, Path::new("/etc/a.toml")).unwrap();
        let refused = VolumeLock::take(volume, Path::new("/etc/b.toml")).unwrap_err().to_string();
        assert!(refused.contains("/etc/b.toml"), "{refused}");
        assert!(refused.contains("/etc/a.toml"), "{refused}");
        let me = format!("process {}", std::process::id());
        assert!(refused.contains(&me), "{refused}");
        let other = VolumeLock::take(Uuid::new_v4(), Path::new("/etc/b.toml")).unwrap();
        let path = first.path.clone();
        drop(first);
        assert!(!path.exists(), "nothing is left behind");
        drop(VolumeLock::take(volume, Path::new("/etc/b.toml")).unwrap());
        drop(other);
    }

    #[test]
    fn the_original_volume_file_is_not_a_copy() {
        let (volume, folder) = (Uuid::new_v4(), tempfile::tempdir().unwrap());
        let (path, copy) = (folder.path().join("a.toml"), folder.path().join("b.toml"));
        fs::write(&path, "").unwrap();
        fs::write(&copy, "").unwrap();
        let _first = VolumeLock::take(volume, &path).unwrap();
        // The file was replaced: the new one is not locked.
        fs::remove_file(&path).unwrap();
        fs::write(&path, "").unwrap();
        let why = |path: &Path| VolumeLock::take(volume, path).unwrap_err().to_string();
        assert!(!why(&path).contains("copy") && why(&path).contains("stop it first"));
        assert!(why(&copy).contains("this is a copy"));
    }

    #[test]
    fn a_stale_lock_is_taken_over() {
        let volume = Uuid::new_v4();
        runtime_dir::prepare().unwrap();
        let path = runtime_dir::path(volume, "lock");
        fs::write(&path, "/etc/long-gone.toml, which is longer than the next one").unwrap();
        let volume_lock = VolumeLock::take(volume, Path::new("/etc/a.toml")).unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "/etc/a.toml");
        drop(volume_lock);
    }
}
