//! Runtime directory for control sockets and locks, which exist as long as a process.
//!
//! Root uses `/run/hostftl`. Other users have `hostftl` in `/run/user/UID`, which the system
//! creates at login, else in `$XDG_RUNTIME_DIR`, else `/tmp/hostftl-UID`. Only its user can write
//! in it, so other users can't take a lock or replace a socket.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::util::error::{Error, file};

/// Returns the path of a volume's file with this suffix; the directory may not exist yet.
pub(crate) fn path(volume: Uuid, ending: &str) -> PathBuf {
    folder().join(format!("{}.{ending}", volume.simple()))
}

/// Creates the directory if it is missing, and checks that only this user can write in it.
pub(crate) fn prepare() -> Result<(), Error> {
    own(&folder())
}

/// Creates `folder` if it is missing, and checks that only this user can write in it.
pub(crate) fn own(folder: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(folder)
        .map_err(file(folder, "create the runtime directory"))?;
    // Not through a link: in /tmp another user may have placed one under this name.
    let found = fs::symlink_metadata(folder).map_err(file(folder, "examine the directory"))?;
    let why = match found {
        _ if !found.is_dir() => "it is not a directory; remove it",
        _ if found.uid() != user() => "it belongs to another user; remove it",
        _ if found.mode() & 0o022 != 0 => "other users can write to it; set its mode to 0700",
        _ => return Ok(()),
    };
    Err(file(folder, "use the runtime directory")(io::Error::other(why)))
}

/// Returns directories that may be in memory, the preferred one first: the runtime directory, and
/// one of this user in `/dev/shm`, the memory file system of nearly every Linux.
pub(crate) fn in_memory() -> [PathBuf; 2] {
    [folder(), format!("/dev/shm/hostftl-{}", user()).into()]
}

/// Returns the runtime directory of this user; it may not exist.
pub(crate) fn folder() -> PathBuf {
    let user = user();
    if user == 0 {
        return "/run/hostftl".into();
    }
    let ours = |folder: &Path| fs::metadata(folder).is_ok_and(|found| found.uid() == user);
    let login = PathBuf::from(format!("/run/user/{user}"));
    if ours(&login) {
        return login.join("hostftl");
    }
    match std::env::var_os("XDG_RUNTIME_DIR").filter(|folder| !folder.is_empty()) {
        Some(folder) => PathBuf::from(folder).join("hostftl"),
        None => format!("/tmp/hostftl-{user}").into(),
    }
}

/// Returns the user ID of this process.
fn user() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |meta| meta.uid())
}
