//! The folder for what lives as long as a process: control sockets and locks.
//!
//! Root has `/run/hostftl`. Another user has `hostftl` in `/run/user/UID`, which the system makes
//! at the login, else in `$XDG_RUNTIME_DIR`, else `/tmp/hostftl-UID`. Nobody else may write in it:
//! so nobody else can take a lock, or put a socket in the place of ours.

use std::fs::{self, DirBuilder};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

use uuid::Uuid;

use crate::util::error::{Error, file};

/// The file with this ending for a volume; its folder may not be there yet.
pub(crate) fn of(volume: Uuid, ending: &str) -> PathBuf {
    folder().join(format!("{}.{ending}", volume.simple()))
}

/// Makes the folder, if it is not there, and sees to it that it is ours alone.
///
/// # Errors
/// When it can't be made, or others may write in it.
pub(crate) fn prepare() -> Result<(), Error> {
    own(&folder())
}

/// Makes `folder`, if it is not there, and sees to it that it is ours alone.
///
/// # Errors
/// As [`prepare`].
pub(crate) fn own(folder: &Path) -> Result<(), Error> {
    DirBuilder::new()
        .mode(0o700)
        .recursive(true)
        .create(folder)
        .map_err(file(folder, "make the folder for locks and control sockets"))?;
    let found = fs::symlink_metadata(folder).map_err(file(folder, "look at the folder"))?;
    let why = match found {
        _ if !found.is_dir() => "it is no folder; remove it",
        _ if found.uid() != user() => "it belongs to another user; remove it",
        _ if found.mode() & 0o022 != 0 => "others may write in it; set its mode to 0700",
        _ => return Ok(()),
    };
    Err(file(folder, "use the folder for locks and control sockets")(io::Error::other(why)))
}

/// The folders that may be in memory, the best first: that of the locks, and one of this user in
/// the memory file system that nearly every Linux has at `/dev/shm`.
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

/// The user that this process runs as.
fn user() -> u32 {
    fs::metadata("/proc/self").map_or(u32::MAX, |meta| meta.uid())
}
