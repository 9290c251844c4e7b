//! Storage below a device, as far as sysfs shows it: two loop devices of one file share storage,
//! and so do a partition and its disk, or a device mapper target and its disk.

use std::fs::{self, File, TryLockError};
use std::ops::Range;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use hostftl_io::zoned_path;

use crate::metadata::modelled;

/// Maximum depth of stacked devices.
const MOST_LEVELS: u32 = 16;
const SECTOR: u64 = 512;

/// A file, or a block device by its number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    File(u64, u64),
    Block(u64),
}

/// Byte range of a file or block device.
#[derive(Clone, Debug)]
struct Extent {
    node: Node,
    range: Range<u64>,
    /// Whether only an unknown part of the range is used.
    is_part: bool,
}

impl Extent {
    fn overlaps(&self, other: &Extent) -> bool {
        let both = !(self.is_part && other.is_part);
        let common = self.range.start < other.range.end && other.range.start < self.range.end;
        self.node == other.node && both && common
    }
}

/// Returns whether two devices certainly share storage. For two device mapper targets on one device
/// this is unknown, so the result is false.
pub(crate) fn is_shared(one: &str, other: &str) -> bool {
    let others = extents(other);
    extents(one).iter().any(|one| others.iter().any(|other| one.overlaps(other)))
}

/// Describes another user of the storage of the loop device `path`.
pub(crate) fn user_beside(path: &str) -> Option<String> {
    let all = extents(path);
    let (own, below) = all.split_first()?;
    let Extent { node: Node::Block(number), .. } = *own else { return None };
    let backing = backing_file(&sysfs(number))?;
    let locked = File::open(&backing).ok()?.try_lock();
    if matches!(locked, Err(TryLockError::WouldBlock)) {
        return Some(format!("its file {} is in use", backing.display()));
    }
    for entry in fs::read_dir("/sys/block").ok()?.flatten() {
        let other = format!("/dev/{}", entry.file_name().to_string_lossy());
        let others = extents(&other);
        let is_same = others.first().is_some_and(|it| it.node == own.node);
        let shares = below.iter().any(|one| others.iter().any(|it| it.overlaps(one)));
        let opened = || File::options().read(true).custom_flags(libc::O_EXCL).open(&other);
        let is_busy = |why: std::io::Error| why.raw_os_error() == Some(libc::EBUSY);
        if !is_same && shares && opened().is_err_and(is_busy) {
            return Some(format!("its file {} is in use through {other}", backing.display()));
        }
    }
    None
}

/// Returns the extents of a device, its own first.
fn extents(name: &str) -> Vec<Extent> {
    let zoned = zoned_path(name).and_then(Result::ok);
    // Only claims show the zones of a part.
    let is_part = zoned.is_some() && name.contains('#');
    let path = zoned.unwrap_or_else(|| modelled::backing(name).unwrap_or(name).into());
    let mut found = Vec::new();
    if path.starts_with('/') {
        follow_path(Path::new(&path), 0..u64::MAX, is_part, &mut found);
    }
    found
}

fn follow_path(path: &Path, range: Range<u64>, is_part: bool, found: &mut Vec<Extent>) {
    let Ok(meta) = path.metadata() else { return };
    if meta.file_type().is_block_device() {
        follow(meta.rdev(), range, is_part, found)
    } else {
        found.push(Extent { node: Node::File(meta.dev(), meta.ino()), range, is_part })
    }
}

/// Adds the range of a block device and of the devices below it.
fn follow(number: u64, range: Range<u64>, is_part: bool, found: &mut Vec<Extent>) {
    let folder = sysfs(number);
    let size = read(&folder, "size").map_or(u64::MAX, |sectors| sectors.saturating_mul(SECTOR));
    let range = range.start..range.end.min(size);
    found.push(Extent { node: Node::Block(number), range: range.clone(), is_part });
    if found.len() as u32 > MOST_LEVELS {
        return;
    }
    let moved = |by: u64| range.start.saturating_add(by)..range.end.saturating_add(by);
    if let Some(start) = read(&folder, "start") {
        // The sysfs folder of a partition is inside that of its disk.
        if let Some(disk) = fs::canonicalize(&folder).ok().and_then(|it| number_in(it.parent()?)) {
            follow(disk, moved(start.saturating_mul(SECTOR)), is_part, found);
        }
    } else if let Some(file) = backing_file(&folder) {
        follow_path(&file, moved(read(&folder, "loop/offset").unwrap_or(0)), is_part, found);
    } else {
        let below = fs::read_dir(folder.join("slaves")).into_iter().flatten().flatten();
        for number in below.filter_map(|entry| number_in(&entry.path())) {
            // The ranges of a device mapper target are not in sysfs.
            follow(number, 0..u64::MAX, true, found);
        }
    }
}

fn sysfs(number: u64) -> PathBuf {
    format!("/sys/dev/block/{}:{}", libc::major(number), libc::minor(number)).into()
}

/// Returns the number of the block device with this sysfs folder.
fn number_in(folder: &Path) -> Option<u64> {
    let text = fs::read_to_string(folder.join("dev")).ok()?;
    let (major, minor) = text.trim_end().split_once(':')?;
    Some(libc::makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// Returns the file behind a loop device.
fn backing_file(folder: &Path) -> Option<PathBuf> {
    let text = fs::read_to_string(folder.join("loop/backing_file")).ok()?;
    Some(text.strip_suffix('\n').unwrap_or(&text).into())
}

fn read(folder: &Path, name: &str) -> Option<u64> {
    fs::read_to_string(folder.join(name)).ok()?.trim_end().parse().ok()
}

/// Returns the index of a device in a volume file, by its name or by another path to the same
/// device.
pub(crate) fn find(names: &[String], wanted: &str) -> Option<usize> {
    let exact = names.iter().position(|name| name == wanted);
    exact.or_else(|| names.iter().position(|name| is_same(name, wanted)))
}

/// Returns whether two names denote the same device: equal text, or paths to one file or block
/// device.
pub(crate) fn is_same(one: &str, other: &str) -> bool {
    one == other || identity(one).is_some_and(|it| identity(other) == Some(it))
}

/// Returns the identity of a device with a path: the text before and after the path, and the file.
fn identity(name: &str) -> Option<(&str, &str, u64, u64)> {
    let (before, path, behind) = match (modelled::backing(name), name.strip_prefix("zoned:")) {
        (Some(path), _) => (&name[..name.len() - path.len()], path, ""),
        (None, Some(rest)) => {
            let (path, part) = rest.split_at(rest.find('#').unwrap_or(rest.len()));
            ("zoned:", path, part)
        }
        (None, None) => ("", name, ""),
    };
    let found = fs::metadata(path).ok().filter(|_| path.starts_with('/'))?;
    Some(if found.file_type().is_block_device() {
        // Several device nodes may denote one block device, so its number counts and not the inode.
        (before, behind, u64::MAX, found.rdev())
    } else {
        (before, behind, found.dev(), found.ino())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extent(node: Node, range: Range<u64>, is_part: bool) -> Extent {
        Extent { node, range, is_part }
    }

    #[test]
    fn unknown_parts_of_a_device_are_not_reported_as_shared() {
        let disk = Node::Block(8);
        let whole = extent(disk, 0..100, false);
        let (left, right) = (extent(disk, 0..50, false), extent(disk, 50..100, false));
        let mapped = extent(disk, 0..100, true);
        assert!(whole.overlaps(&left) && whole.overlaps(&mapped) && mapped.overlaps(&right));
        assert!(!left.overlaps(&right) && !mapped.overlaps(&mapped.clone()));
        assert!(!whole.overlaps(&extent(Node::Block(9), 0..100, false)));
    }

    #[test]
    fn aliases_of_a_file_are_shared_storage() {
        let folder = tempfile::tempdir().unwrap();
        let name = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        for file in ["a", "b"] {
            fs::write(name(file), "").unwrap();
        }
        fs::hard_link(name("a"), name("hard")).unwrap();
        std::os::unix::fs::symlink(name("a"), name("soft")).unwrap();
        assert!(is_shared(&name("a"), &name("hard")) && is_shared(&name("soft"), &name("a")));
        assert!(!is_shared(&name("a"), &name("b")) && !is_shared("mem:8M", "mem:8M"));
        let part = |zones| format!("zoned:{}#zones={zones}", name("a"));
        assert!(!is_shared(&part("0-3"), &part("4-7")));
        assert!(is_shared(&part("0-3"), &name("a")));
    }
}
