//! Properties of a block device's queue in `/sys`.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns whether discards help the block device with number `rdev`. They help a flash drive, or a
/// similar device, that frees a range and makes it read as zeros without writing.
pub(crate) fn gains_from_discard(rdev: u64) -> bool {
    gains(&queue_folder(&device_folder(rdev)))
}

/// Returns whether the block device with number `rdev` reports that completed writes are durable.
/// The kernel sends such a device no flushes.
pub(crate) fn has_no_volatile_cache(rdev: u64) -> bool {
    writes_through(&queue_folder(&device_folder(rdev)))
}

fn device_folder(rdev: u64) -> PathBuf {
    format!("/sys/dev/block/{}:{}", libc::major(rdev), libc::minor(rdev)).into()
}

fn writes_through(queue: &Path) -> bool {
    fs::read_to_string(queue.join("write_cache")).is_ok_and(|it| it.trim() == "write through")
}

/// Returns the directory of the queue. A partition has no queue of its own, but its disk does,
/// whose directory contains that of the partition.
fn queue_folder(device: &Path) -> PathBuf {
    let disk = if device.join("partition").exists() { device.join("..") } else { device.into() };
    disk.join("queue")
}

/// Reads the properties. A device without cheap zeroing would write the zeros, which costs more
/// than it gains.
fn gains(queue: &Path) -> bool {
    let number =
        |name| -> Option<u64> { fs::read_to_string(queue.join(name)).ok()?.trim().parse().ok() };
    let some = |name| number(name).is_some_and(|bytes| bytes > 0);
    number("rotational") == Some(0) && some("discard_max_bytes") && some("write_zeroes_max_bytes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flash_drives_with_discard_benefit() {
        let folder = tempfile::tempdir().unwrap();
        let (disk, part) = (folder.path().join("disk"), folder.path().join("disk/part"));
        fs::create_dir_all(disk.join("queue")).unwrap();
        fs::create_dir(&part).unwrap();
        fs::write(part.join("partition"), "1\n").unwrap();
        // The partition is reached through a symbolic link, so the parent of the link is not the
        // disk.
        let link = folder.path().join("8:1");
        std::os::unix::fs::symlink(&part, &link).unwrap();
        let cases = [
            (["0", "4096", "4096"], true),
            (["1", "4096", "4096"], false),
            (["0", "0", "4096"], false),
            (["0", "4096", "0"], false),
        ];
        for (values, expected) in cases {
            let names = ["rotational", "discard_max_bytes", "write_zeroes_max_bytes"];
            for (name, value) in names.iter().zip(values) {
                fs::write(disk.join("queue").join(name), format!("{value}\n")).unwrap();
            }
            assert_eq!(gains(&queue_folder(&disk)), expected, "{values:?}");
            assert_eq!(gains(&queue_folder(&link)), expected, "a partition, {values:?}");
        }
    }

    #[test]
    fn only_write_through_means_no_volatile_cache() {
        let queue = tempfile::tempdir().unwrap();
        assert!(!writes_through(queue.path()), "unknown");
        for (text, expected) in [("write back\n", false), ("write through\n", true), ("", false)] {
            fs::write(queue.path().join("write_cache"), text).unwrap();
            assert_eq!(writes_through(queue.path()), expected, "{text:?}");
        }
    }

    #[test]
    fn missing_devices_do_not_benefit() {
        assert!(!gains_from_discard(u64::MAX));
    }
}
