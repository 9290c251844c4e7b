//! Listening unix socket that appears under its name complete with mode and group, and never
//! replaces the socket of a live server.
//!
//! Invariants
//! - The socket is bound, listening and complete in a private directory before it gets its name, by
//!   a link that fails when the name is taken.
//! - A stale socket is moved into the private directory and checked again there, so that only one
//!   of two servers that find it replaces it.
//! - At the end the server removes only the socket that it created.

use std::fs::{self, DirBuilder, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{DirBuilderExt, FileTypeExt, MetadataExt, PermissionsExt, chown};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};

use crate::error::ServeError;

/// Maximum path length of a unix socket in bytes (`sun_path` without its final zero).
const LONGEST: usize = 107;

/// Permissions of a unix socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SocketOwner {
    /// Permission bits; users with write permission may connect.
    pub mode: u32,
    /// Group; `None` keeps the group of the process.
    pub group: Option<u32>,
}

impl Default for SocketOwner {
    /// Permits only the user that runs the server.
    fn default() -> Self {
        SocketOwner { mode: 0o600, group: None }
    }
}

impl SocketOwner {
    /// Returns the number of a group, given its name or number.
    ///
    /// # Errors
    /// When `/etc/group` does not contain the name.
    pub fn find_group(name: &str) -> Result<u32, ServeError> {
        let groups = fs::read_to_string("/etc/group").unwrap_or_default();
        let number = |line: &str| {
            let mut fields = line.split(':');
            let found = fields.next() == Some(name);
            fields.nth(1).filter(|_| found)?.parse().ok()
        };
        let found = name.parse().ok().or_else(|| groups.lines().find_map(number));
        found.ok_or_else(|| ServeError::Group(name.into()))
    }
}

/// Listener with its name; dropping it removes the name.
#[derive(Debug)]
pub(crate) struct Bound {
    pub(crate) listener: UnixListener,
    path: PathBuf,
    /// Device and inode of the socket, to recognise it later.
    identity: (u64, u64),
}

impl Bound {
    /// Listens at `path` with the mode and group of `owner`.
    pub(crate) fn new(path: &Path, owner: &SocketOwner) -> Result<Self, ServeError> {
        let folder = PrivateFolder::beside(path)?;
        let born = folder.0.join("s");
        if born.as_os_str().as_bytes().len() > LONGEST || path.as_os_str().len() > LONGEST {
            return Err(ServeError::TooLong { path: path.into(), most: LONGEST });
        }
        let failed = |doing| move |error| ServeError::Io { path: path.into(), doing, error };
        let listener = UnixListener::bind(&born).map_err(failed("cannot create the socket"))?;
        // The directory is private, so no client can connect before mode and group are set.
        chown(&born, None, owner.group).map_err(failed("cannot change the group of the socket"))?;
        let mode = Permissions::from_mode(owner.mode);
        fs::set_permissions(&born, mode).map_err(failed("cannot set its mode"))?;
        let identity = identity(&born).map_err(failed("cannot examine the socket"))?;
        loop {
            match fs::hard_link(&born, path) {
                Ok(()) => return Ok(Bound { listener, path: path.into(), identity }),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    clear(path, &folder.0.join("old"))?;
                }
                Err(error) => return Err(failed("cannot name the socket")(error)),
            }
        }
    }
}

impl Bound {
    /// Returns its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        if identity(&self.path).is_ok_and(|found| found == self.identity) {
            fs::remove_file(&self.path).ok();
        }
    }
}

/// Moves a socket without a listener out of the way.
fn clear(path: &Path, aside: &Path) -> Result<(), ServeError> {
    let failed = |doing| move |error| ServeError::Io { path: path.into(), doing, error };
    match is_stale(path) {
        Ok(true) => {}
        Ok(false) => return Err(ServeError::InUse(path.into())),
        // Another process removed it in the meantime.
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        Err(error) if error.kind() == ErrorKind::InvalidInput => {
            return Err(ServeError::InTheWay(path.into()));
        }
        Err(error) => return Err(failed("cannot check whether the socket is in use")(error)),
    }
    match fs::rename(path, aside) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        other => other.map_err(failed("cannot replace the stale socket"))?,
    }
    let stale = is_stale(aside).map_err(failed("cannot examine the stale socket"))?;
    if !stale {
        // Another server replaced the stale socket first, and this is its live one: put it back.
        fs::hard_link(aside, path)
            .map_err(failed("cannot restore the socket of another server"))?;
        return Err(ServeError::InUse(path.into()));
    }
    fs::remove_file(aside).map_err(failed("cannot remove the stale socket"))
}

/// Returns whether no process listens on the socket; `InvalidInput` when the file is not a socket.
fn is_stale(path: &Path) -> io::Result<bool> {
    if !fs::symlink_metadata(path)?.file_type().is_socket() {
        return Err(ErrorKind::InvalidInput.into());
    }
    match UnixStream::connect(path) {
        Ok(_) => Ok(false),
        Err(error) if error.kind() == ErrorKind::ConnectionRefused => Ok(true),
        Err(error) => Err(error),
    }
}

fn identity(path: &Path) -> io::Result<(u64, u64)> {
    fs::symlink_metadata(path).map(|found| (found.dev(), found.ino()))
}

/// Private directory that is removed with its contents.
struct PrivateFolder(PathBuf);

impl PrivateFolder {
    fn beside(path: &Path) -> Result<Self, ServeError> {
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let parent = parent.unwrap_or(Path::new("."));
        for attempt in 0.. {
            let folder = parent.join(format!(".{:x}.{attempt}", std::process::id()));
            match DirBuilder::new().mode(0o700).create(&folder) {
                Ok(()) => return Ok(PrivateFolder(folder)),
                // A killed server left a directory behind, or another thread just created one.
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
                Err(error) => {
                    let doing = "cannot create the socket in its folder";
                    return Err(ServeError::Io { path: path.into(), doing, error });
                }
            }
        }
        unreachable!("a free name is found long before the numbers end")
    }
}

impl Drop for PrivateFolder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).unwrap();
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }

    #[test]
    fn a_socket_is_private_and_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let bound = Bound::new(&path, &SocketOwner::default()).unwrap();
        assert_eq!(fs::metadata(&path).unwrap().mode() & 0o777, 0o600);
        assert_eq!(names(folder.path()), ["a.sock"]);
        UnixStream::connect(&path).unwrap();
        drop(bound);
        assert!(names(folder.path()).is_empty());
    }

    #[test]
    fn a_live_socket_is_kept_and_a_stale_one_replaced() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let live = UnixListener::bind(&path).unwrap();
        assert!(matches!(Bound::new(&path, &SocketOwner::default()), Err(ServeError::InUse(_))));
        UnixStream::connect(&path).unwrap();
        drop(live);
        let bound = Bound::new(&path, &SocketOwner::default()).unwrap();
        UnixStream::connect(&path).unwrap();
        assert_eq!(names(folder.path()), ["a.sock"]);
        drop(bound);
    }

    #[test]
    fn a_file_at_the_path_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        fs::write(&path, "precious").unwrap();
        assert!(matches!(Bound::new(&path, &SocketOwner::default()), Err(ServeError::InTheWay(_))));
        assert_eq!(fs::read(&path).unwrap(), b"precious");
        assert_eq!(names(folder.path()), ["a.sock"]);
    }

    #[test]
    fn only_our_own_socket_is_removed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.sock");
        let bound = Bound::new(&path, &SocketOwner::default()).unwrap();
        fs::remove_file(&path).unwrap();
        let other = UnixListener::bind(&path).unwrap();
        drop(bound);
        UnixStream::connect(&path).unwrap();
        drop(other);
    }

    #[test]
    fn impossible_paths_are_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = Bound::new(&folder.path().join("no/a.sock"), &SocketOwner::default())
            .unwrap_err()
            .to_string();
        assert!(missing.contains("no/a.sock"), "{missing}");
        let long = folder.path().join("x".repeat(110));
        assert!(matches!(
            Bound::new(&long, &SocketOwner::default()),
            Err(ServeError::TooLong { most: 107, .. })
        ));
    }
}
