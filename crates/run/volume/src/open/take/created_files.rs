//! Files that a command creates for devices. They are removed again when the command fails.
//!
//! Another process may find such a file as soon as it has its name, and create a volume on it.
//!
//! # Invariants
//! - A file is removed only under its exclusive lock, and only if the path still leads to it.
//! - A file remains if it holds anything that this command did not write, or a superblock to which
//!   other members may refer.

use std::fs::{self, File, Metadata};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hostftl_core::SECTOR;
use hostftl_format::superblock::{is_ours, places};
use hostftl_io::{Access, Device, is_own_lock, zoned_path};
use rustix::fs::OFlags;
use uuid::Uuid;

use crate::metadata::modelled;
use crate::util::blank::find_content;
use crate::util::error::Error;

/// Removes the created files when it is dropped, unless they are kept or in use.
#[derive(Debug, Default)]
pub(crate) struct CreatedFiles {
    made: Vec<CreatedFile>,
    /// Volume that may have data on the files, since its formatting started.
    formatted: Option<Uuid>,
}

/// A file that was created.
#[derive(Debug)]
struct CreatedFile {
    path: PathBuf,
    /// Device that is opened to examine the contents of the file.
    device: String,
    /// Whether the file is of a drive model.
    is_model: bool,
    /// Device and inode number, to identify the file.
    node: (u64, u64),
}

impl CreatedFiles {
    /// Records that `file` was created at `path` for the device `name`.
    pub(crate) fn add(&mut self, name: &str, path: &Path, file: &File) {
        let backing = modelled::backing(name);
        // A part of a zoned file is examined together with the other parts.
        let whole = zoned_path(name).and_then(Result::ok).map(|path| format!("zoned:{path}"));
        let device = whole.unwrap_or_else(|| backing.unwrap_or(name).into());
        let is_model = backing.is_some();
        // A file whose node is unknown is never removed.
        if let Ok(node) = file.metadata().map(|meta| node(&meta)) {
            self.made.push(CreatedFile { path: path.into(), device, is_model, node });
        }
    }

    /// Returns the paths of the created files.
    pub(crate) fn paths(&self) -> impl Iterator<Item = &Path> {
        self.made.iter().map(|made| made.path.as_path())
    }

    /// Records that formatting writes data of `volume` to the files, and that no other device
    /// refers to them as members.
    pub(crate) fn formats(&mut self, volume: Uuid) {
        self.formatted = Some(volume);
    }

    /// Keeps the files.
    pub(crate) fn keep(mut self) {
        self.made.clear();
    }
}

impl Drop for CreatedFiles {
    fn drop(&mut self) {
        for made in &self.made {
            // The lock is held until the name is removed. A process that waits for it reopens the
            // path.
            let Some(_lock) = made.lock() else { continue };
            if made.is_unused(self.formatted).unwrap_or(false) {
                fs::remove_file(&made.path).ok();
            }
        }
    }
}

impl CreatedFile {
    /// Locks the file; `None` if another process uses it, or the path leads to another file.
    fn lock(&self) -> Option<File> {
        // A symbolic link at the path was not created here.
        let flags = OFlags::NOFOLLOW.bits() as i32;
        let file = File::options().read(true).custom_flags(flags).open(&self.path).ok()?;
        // A device of this process may still be open.
        if file.try_lock().is_err() && !is_own_lock(&file) {
            return None;
        }
        // Checked under the lock: the path may have been replaced before the lock was obtained.
        let named = fs::symlink_metadata(&self.path).ok()?;
        let opened = file.metadata().ok()?;
        (node(&opened) == self.node && node(&named) == self.node).then_some(file)
    }

    /// Returns whether the file holds only the data that the formatting of `formatted` wrote.
    fn is_unused(&self, formatted: Option<Uuid>) -> Result<bool, Error> {
        // Empty: the creation failed before the size was set.
        if self.path.metadata().is_ok_and(|meta| meta.len() == 0) {
            return Ok(true);
        }
        let device = Device::open_as(&self.device, Access::Inspect)?;
        if !device.taken()?.is_empty() {
            return Ok(false);
        }
        for at in places(device.bytes() / SECTOR as u64) {
            let page = device.read_page(at)?;
            // Another process may have created a volume on the file meanwhile.
            if is_ours(&page) && formatted.is_none_or(|own| page.0[8..24] != *own.as_bytes()) {
                return Ok(false);
            }
        }
        // A drive model has written its side region behind the drive's content.
        Ok(self.is_model || formatted.is_some() || find_content(&device)?.is_none())
    }
}

fn node(meta: &Metadata) -> (u64, u64) {
    (meta.dev(), meta.ino())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::util::private::new_private;
    use std::io::{BufRead, BufReader};
    use std::os::unix::fs::FileExt;
    use std::process::Stdio;

    /// Creates a file of 8 MiB in its own directory.
    fn made() -> (tempfile::TempDir, PathBuf, File, CreatedFiles) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("d");
        let file = new_private(&path).unwrap();
        file.set_len(8 << 20).unwrap();
        let mut undo = CreatedFiles::default();
        undo.add(path.to_str().unwrap(), &path, &file);
        (folder, path, file, undo)
    }

    /// Returns the head of a superblock of `volume`, as far as this module examines it.
    fn superblock(volume: Uuid) -> Vec<u8> {
        let mut page = vec![0; 4096];
        page[4..8].copy_from_slice(b"SUPR");
        page[8..24].copy_from_slice(volume.as_bytes());
        page[32..40].copy_from_slice(b"HostFTL\0");
        page
    }

    #[test]
    fn an_unused_created_file_is_removed() {
        let (_folder, path, _, undo) = made();
        drop(undo);
        assert!(!path.exists());
        let (_folder, path, file, undo) = made();
        file.set_len(0).unwrap();
        drop(undo);
        assert!(!path.exists(), "without a size");
    }

    #[test]
    fn a_file_locked_by_another_process_is_kept() {
        let (_folder, path, _, undo) = made();
        let mut flock = std::process::Command::new("flock");
        flock.arg(&path).args(["sh", "-c", "echo locked; read _"]);
        let mut child = flock.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "locked\n");
        drop(undo);
        assert!(path.exists());
        drop(child.stdin.take());
        child.wait().unwrap();
    }

    #[test]
    fn a_file_open_in_this_process_is_removed() {
        let (_folder, path, _, undo) = made();
        let _device = Device::open(path.to_str().unwrap()).unwrap();
        drop(undo);
        assert!(!path.exists());
    }

    #[test]
    fn a_file_at_the_same_path_is_kept() {
        let (folder, path, _file, undo) = made();
        fs::rename(&path, folder.path().join("moved")).unwrap();
        fs::write(&path, "").unwrap();
        drop(undo);
        assert!(path.exists());
    }

    #[test]
    fn foreign_data_is_kept() {
        let (_folder, path, file, undo) = made();
        file.write_all_at(b"data", 8192).unwrap();
        drop(undo);
        assert!(path.exists());
    }

    #[test]
    fn only_the_new_volume_may_be_removed() {
        let ours = Uuid::new_v4();
        for (volume, stays) in [(ours, false), (Uuid::new_v4(), true)] {
            let (_folder, path, file, mut undo) = made();
            file.write_all_at(&superblock(volume), 0).unwrap();
            undo.formats(ours);
            drop(undo);
            assert_eq!(path.exists(), stays);
        }
    }
}
