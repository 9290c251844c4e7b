//! Resolution of a path to the kernel's device number.

use std::fs;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

/// A whole block device.
#[derive(Debug)]
pub(super) struct Device {
    /// Number as in the kernel's events: major × 2^20 + minor.
    pub number: u32,
}

impl Device {
    /// Returns the device at `path`, which must be a whole disk.
    pub(super) fn find(path: &Path) -> Result<Self, String> {
        let metadata = fs::metadata(path).map_err(|error| format!("no such device: {error}"))?;
        if !metadata.file_type().is_block_device() {
            return Err("not a block device; name one such as /dev/nvme0n1".to_owned());
        }
        let (major, minor) = split(metadata.rdev());
        let folder = sysfs(major, minor);
        // The kernel's events name whole disks, so a partition can't be filtered.
        if folder.join("partition").exists() {
            let whole = fs::canonicalize(&folder).ok();
            let disk = whole.as_deref().and_then(Path::parent).and_then(Path::file_name);
            let disk =
                disk.map_or("the whole disk".into(), |name| format!("/dev/{}", name.display()));
            return Err(format!(
                "this is a partition, but events of the kernel name whole disks; use {disk}"
            ));
        }
        Ok(Device { number: major << 20 | minor })
    }
}

/// Returns whether a file in `folder` would be stored on the block device at `device`, as far as
/// sysfs shows it.
pub fn lies_on(folder: &Path, device: &Path) -> bool {
    let (Ok(folder), Ok(device)) = (fs::metadata(folder), fs::metadata(device)) else {
        return false;
    };
    let place = |number| {
        let (major, minor) = split(number);
        fs::canonicalize(sysfs(major, minor)).ok()
    };
    match (place(folder.dev()), place(device.rdev())) {
        (Some(folder), Some(device)) => folder.starts_with(device),
        _ => false,
    }
}

fn sysfs(major: u32, minor: u32) -> PathBuf {
    PathBuf::from(format!("/sys/dev/block/{major}:{minor}"))
}

/// Returns the major and minor number of a `dev_t` of the C library.
fn split(number: u64) -> (u32, u32) {
    let major = number >> 8 & 0xfff | number >> 32 & !0xfff;
    let minor = number & 0xff | number >> 12 & !0xff;
    (major as u32, minor as u32)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_split_as_the_c_library_does() {
        assert_eq!(split(0x0800), (8, 0));
        // makedev(259, 0x12345)
        assert_eq!(split(0x1231_0345), (259, 0x1_2345));
    }

    #[test]
    fn files_that_are_no_disks_are_refused() {
        let why = |path: &str| Device::find(Path::new(path)).unwrap_err();
        assert!(why("/dev/null").starts_with("not a block device"));
        assert!(why("/dev/no-such-device").starts_with("no such device"));
        assert!(!lies_on(Path::new("/proc"), Path::new("/dev/null")));
    }
}
