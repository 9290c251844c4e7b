//! Files that hold a volume's data or its location, readable only by their owner.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, OFlags, RenameFlags, renameat_with};
use rustix::io::Errno;

/// Resolves symbolic links.
pub(crate) fn target(path: &Path) -> PathBuf {
    fs::canonicalize(path).unwrap_or_else(|_| path.into())
}

/// Returns the path of the file beside the volume file `volume` with the suffix `ending`. It does
/// not depend on the link through which the volume file is named.
pub(crate) fn beside(volume: &Path, ending: &str) -> PathBuf {
    let volume = target(volume);
    let mut name = volume.file_name().unwrap_or_default().to_os_string();
    name.push(ending);
    volume.with_file_name(name)
}

/// Creates the file `path`, which must not exist, for reading and writing with mode 0600.
pub(crate) fn new_private(path: &Path) -> io::Result<File> {
    File::options().read(true).write(true).create_new(true).mode(0o600).open(path)
}

/// Replaces `path` with a file of this content and mode 0600, durably. Returns the file, open for
/// appending. Symbolic links are replaced, never followed.
pub(crate) fn replace_private(path: &Path, content: &[u8]) -> io::Result<File> {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(".new");
    let new = path.with_file_name(name);
    // A killed process may have left its draft.
    match fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = new_private(&new)?;
    let written = file
        .write_all(content)
        // Before the rename: a power cut must leave the old content or the new one, never an empty
        // file.
        .and_then(|()| file.sync_all())
        .and_then(|()| fs::rename(&new, path))
        .and_then(|()| sync_folder(path));
    match written {
        Ok(()) => Ok(file),
        Err(error) => {
            fs::remove_file(&new).ok();
            Err(error)
        }
    }
}

/// Renames `from` to `to`, which must not exist.
pub(crate) fn rename_new(from: &Path, to: &Path) -> io::Result<()> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // NFS, for example, lacks this call. A hard link never replaces a file either.
        Err(Errno::INVAL | Errno::NOSYS) => {
            fs::hard_link(from, to)?;
            fs::remove_file(from)
        }
        other => Ok(other?),
    }
}

/// Makes the creation or removal of `path` durable.
pub(crate) fn sync_folder(path: &Path) -> io::Result<()> {
    // The parent of a bare file name is the empty path.
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

/// Opens a regular file for reading. Symbolic links, devices and pipes are refused.
pub(crate) fn open_plain(path: &Path) -> io::Result<File> {
    // Without NONBLOCK, opening a named pipe would wait for a writer.
    let flags = (OFlags::NOFOLLOW | OFlags::NONBLOCK).bits();
    let file = File::options().read(true).custom_flags(flags as i32).open(path)?;
    if file.metadata()?.is_file() {
        Ok(file)
    } else {
        Err(io::Error::other("it is not a regular file"))
    }
}
