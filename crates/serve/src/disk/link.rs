//! The name of a block device that stays the same whatever its number is: /dev/hostftl/NAME.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

/// Where the names are.
pub(super) const FOLDER: &str = "/dev/hostftl";

/// A name that was made.
#[derive(Debug)]
pub(super) struct Link {
    path: PathBuf,
    to: PathBuf,
}

impl Link {
    /// Makes `name` mean the block device `to`, in the place of what it meant.
    ///
    /// # Errors
    /// When it can't be a file's name, or the folder can't be written.
    pub(super) fn make(name: &str, to: &str) -> io::Result<Self> {
        Link::make_in(Path::new(FOLDER), name, Path::new(to))
    }

    fn make_in(folder: &Path, name: &str, to: &Path) -> io::Result<Self> {
        if name.is_empty() || name.starts_with('.') || name.contains(['/', '\0']) {
            let text = format!("{name:?} is no name for a file; give the volume another label");
            return Err(io::Error::other(text));
        }
        fs::create_dir_all(folder)?;
        let (path, new) = (folder.join(name), folder.join(format!(".{name}.new")));
        fs::remove_file(&new).ok();
        symlink(to, &new)?;
        fs::rename(&new, &path)?;
        Ok(Link { path, to: to.into() })
    }

    /// Where it is.
    pub(super) fn path(&self) -> &Path {
        &self.path
    }

    /// Removes it, unless it means another device by now.
    ///
    /// # Errors
    /// When it can't be removed.
    pub(super) fn remove(self) -> io::Result<()> {
        match fs::read_link(&self.path)? == self.to {
            true => fs::remove_file(&self.path),
            false => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_means_the_newest_device_and_goes_with_it() {
        let folder = tempfile::tempdir().unwrap();
        let make = |to: &str| Link::make_in(folder.path(), "v", Path::new(to)).unwrap();
        let (old, new) = (make("/dev/ublkb0"), make("/dev/ublkb1"));
        old.remove().unwrap();
        assert_eq!(fs::read_link(new.path()).unwrap(), Path::new("/dev/ublkb1"));
        new.remove().unwrap();
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_is_no_file_name_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["", ".", "..", "a/b", ".hidden"] {
            assert!(Link::make_in(folder.path(), name, Path::new("/dev/null")).is_err(), "{name}");
        }
    }
}
