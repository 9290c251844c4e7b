//! Persistent name of a block device, independent of its number: /dev/hostftl/NAME.
//!
//! Invariants
//! - A name that refers to a device in use is never taken over.
//! - The directory is locked while names are created or removed.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Directory of the names.
pub(super) const FOLDER: &str = "/dev/hostftl";

/// Symbolic link that this server created.
#[derive(Debug)]
pub(super) struct DeviceLink {
    path: PathBuf,
    to: PathBuf,
}

impl DeviceLink {
    /// Creates `name` as a link to the block device `to`. Returns `None` if it refers to another
    /// device in use.
    pub(super) fn make(name: &str, to: &str) -> io::Result<Option<Self>> {
        DeviceLink::make_in(Path::new(FOLDER), name, Path::new(to))
    }

    fn make_in(folder: &Path, name: &str, to: &Path) -> io::Result<Option<Self>> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            let text = format!("{name:?} is not a valid file name; change the label of the volume");
            return Err(io::Error::other(text));
        }
        fs::create_dir_all(folder)?;
        let lock = File::open(folder)?;
        lock.lock()?;
        let path = folder.join(name);
        // A device that had this number ended without removing its name.
        for other in fs::read_dir(folder)?.flatten().map(|entry| entry.path()) {
            if other != path && fs::read_link(&other).is_ok_and(|leads| leads == to) {
                fs::remove_file(&other)?;
            }
        }
        let leads = fs::read_link(&path).ok();
        if leads.is_some_and(|leads| leads != to) && is_in_use(&path) {
            return Ok(None);
        }
        let new = folder.join(format!(".{name}.new"));
        fs::remove_file(&new).ok();
        symlink(to, &new)?;
        fs::rename(&new, &path)?;
        Ok(Some(DeviceLink { path, to: to.into() }))
    }

    /// Returns the path of the link.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes the link, unless it refers to another device by now.
    pub(super) fn remove(self) -> io::Result<()> {
        let lock = File::open(self.path.parent().expect("the link has a folder"))?;
        lock.lock()?;
        if fs::read_link(&self.path)? == self.to { fs::remove_file(&self.path) } else { Ok(()) }
    }
}

/// Returns whether a name refers to a device with a length. Devices of the kernel's NBD client
/// always exist, with length 0 while unused.
fn is_in_use(path: &Path) -> bool {
    let Ok(device) = fs::canonicalize(path) else { return false };
    let sysfs = Path::new("/sys/class/block").join(device.file_name().unwrap_or_default());
    fs::read_to_string(sysfs.join("size")).map_or(true, |size| size.trim_end() != "0")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a directory with the files `one` and `two`, which stand for devices.
    fn devices() -> (tempfile::TempDir, PathBuf, [PathBuf; 2]) {
        let folder = tempfile::tempdir().unwrap();
        let devices = ["one", "two"].map(|name| folder.path().join(name));
        devices.iter().for_each(|device| fs::write(device, "").unwrap());
        let names = folder.path().join("names");
        (folder, names, devices)
    }

    #[test]
    fn a_name_belongs_to_the_first_of_two_devices() {
        let (_folder, names, [one, two]) = devices();
        let make = |name: &str, to: &Path| DeviceLink::make_in(&names, name, to).unwrap();
        let first = make("v", &one).unwrap();
        assert!(make("v", &two).is_none());
        let second = make("v-2", &two).unwrap();
        assert_eq!(fs::read_link(first.path()).unwrap(), one);
        second.remove().unwrap();
        assert_eq!(fs::read_link(first.path()).unwrap(), one, "the other's name survives");
        // A server that takes the device over gets its name again.
        make("v", &one).unwrap();
        first.remove().unwrap();
        assert_eq!(fs::read_dir(names).unwrap().count(), 0);
    }

    #[test]
    fn a_stale_name_is_taken_over() {
        let (_folder, names, [one, two]) = devices();
        let make = |name: &str, to: &Path| DeviceLink::make_in(&names, name, to).unwrap();
        let gone = make("v", &one).unwrap();
        fs::remove_file(&one).unwrap();
        let new = make("v", &two).unwrap();
        gone.remove().unwrap();
        assert_eq!(fs::read_link(new.path()).unwrap(), two);
        // The number of a device that ended without removing its name now belongs to another one.
        let other = make("w", &two).unwrap();
        assert!(!new.path().exists() && other.path().exists());
    }

    #[test]
    fn invalid_file_names_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["", ".", "..", "a/b", ".hidden"] {
            assert!(
                DeviceLink::make_in(folder.path(), name, Path::new("/dev/null")).is_err(),
                "{name}"
            );
        }
    }
}
