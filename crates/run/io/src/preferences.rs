//! Sizes that a device prefers: from the identify data of an NVMe drive and the limits of the
//! kernel.
//!
//! Values of one logical block or of 4 KiB are ignored: they are the defaults of devices and of the
//! kernel, and say nothing about the map of the drive.

use std::fs;
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::{Path, PathBuf};

use hostftl_core::SECTOR;
use hostftl_nvme::{Facts, Fdp, Namespace};

use crate::nvme::NvmeDrive;

/// Minimum of a size that is used.
const LEAST: u64 = 4096;
/// Maximum of a unit of writes.
const MOST: u64 = 1 << 20;

/// A size in bytes with its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preferred {
    /// Size in bytes.
    pub bytes: u64,
    /// Field or file that states it.
    pub source: &'static str,
}

/// Limits of a block device in the kernel, in bytes; 0 if unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueLimits {
    /// `minimum_io_size`: the smallest write without a penalty.
    pub minimum_io: u64,
    /// `optimal_io_size`: the best length of writes.
    pub optimal_io: u64,
    /// `discard_granularity`.
    pub discard: u64,
    /// Offset of the first unit boundary from the start of the disk.
    pub alignment_offset: u64,
    /// Start of a partition on its disk.
    pub start: u64,
}

impl QueueLimits {
    /// Reads the limits from a folder of `/sys/dev/block`. A partition has those of its disk.
    pub fn read(folder: &Path) -> Self {
        let number = |path: PathBuf| -> u64 {
            let text = fs::read_to_string(path).unwrap_or_default();
            text.trim().parse().unwrap_or(0)
        };
        let is_part = folder.join("partition").exists();
        let disk = if is_part { folder.join("..") } else { folder.to_path_buf() };
        let queue = |name: &str| number(disk.join("queue").join(name));
        QueueLimits {
            minimum_io: queue("minimum_io_size"),
            optimal_io: queue("optimal_io_size"),
            discard: queue("discard_granularity"),
            alignment_offset: number(disk.join("alignment_offset")),
            start: if is_part { number(folder.join("start")) * SECTOR as u64 } else { 0 },
        }
    }

    /// Returns the limits of a block device; unknown ones for other files.
    fn of(path: &Path) -> io::Result<Self> {
        let file = fs::metadata(path)?;
        if !file.file_type().is_block_device() {
            return Ok(QueueLimits::default());
        }
        let (major, minor) = (libc::major(file.rdev()), libc::minor(file.rdev()));
        let folder = fs::canonicalize(format!("/sys/dev/block/{major}:{minor}"))?;
        Ok(Self::read(&folder))
    }
}

/// Sizes that a device prefers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Preferences {
    /// Unit that the device writes as a whole; `None` if unknown.
    pub unit: Option<Preferred>,
    /// Best length of writes, a multiple of the unit; `None` if unknown.
    pub best_write: Option<Preferred>,
    /// Amount that the device erases as a whole; `None` if unknown.
    pub reclaim_unit: Option<Preferred>,
    /// Bytes by which the start of the device misses a unit boundary.
    pub misaligned: u64,
}

impl Preferences {
    /// Returns the preferences of a device; unknown ones if it is not a block device or cannot be
    /// queried.
    pub fn query(device: &str) -> Self {
        let path = Path::new(device);
        let facts: Option<Facts> = NvmeDrive::open(path).ok().and_then(|it| it.facts().ok());
        let namespace = facts.as_ref().and_then(|facts| facts.namespace.as_ref());
        let fdp = facts.as_ref().and_then(|facts| facts.fdp.as_ref());
        Self::new(namespace, fdp, QueueLimits::of(path).unwrap_or_default())
    }

    /// Combines what a drive and the kernel report.
    ///
    /// The unit is the largest of NPWG and NPWA. A drive that does not report them may report the
    /// granularity of deallocation, and other devices have limits in the kernel.
    pub fn new(namespace: Option<&Namespace>, fdp: Option<&Fdp>, queue: QueueLimits) -> Self {
        let reported = |bytes: Option<u64>, source| {
            bytes.filter(|it| is_usable(*it)).map(|bytes| Preferred { bytes, source })
        };
        let field = |get: fn(&Namespace) -> Option<u64>| namespace.and_then(get);
        let written = [
            reported(field(|it| it.write_align), "NPWA"),
            reported(field(|it| it.write_grain), "NPWG"),
        ];
        // The last of equal sizes is taken.
        let written = written.into_iter().flatten().max_by_key(|it| it.bytes);
        let unit = written
            .or_else(|| reported(field(|it| it.discard_grain), "NPDG"))
            .or_else(|| reported(Some(queue.minimum_io), "queue/minimum_io_size"))
            .or_else(|| reported(Some(queue.discard), "queue/discard_granularity"));
        let is_multiple = |it: &Preferred| {
            unit.is_none_or(|unit| it.bytes > unit.bytes && it.bytes.is_multiple_of(unit.bytes))
        };
        let best_write = reported(field(|it| it.best_write), "NOWS")
            .or_else(|| reported(Some(queue.optimal_io), "queue/optimal_io_size"))
            .filter(is_multiple);
        let reclaim_unit = fdp.filter(|fdp| fdp.on).map(|fdp| fdp.configuration.unit_bytes);
        let reclaim_unit = reclaim_unit.filter(|it| *it > 0 && it.is_multiple_of(LEAST));
        let boundary = unit.map_or(1, |unit| unit.bytes);
        let offset = (boundary - queue.alignment_offset % boundary) % boundary;
        Preferences {
            unit,
            best_write,
            reclaim_unit: reclaim_unit.map(|bytes| Preferred { bytes, source: "FDP" }),
            misaligned: (queue.start + offset) % boundary,
        }
    }

    /// Returns the smallest multiple of the unit, or of the best length of writes, that has at
    /// least `least` bytes; `None` if nothing is known or the multiple exceeds 1 MiB.
    pub fn superpage(&self, least: u64) -> Option<Preferred> {
        let base = self.best_write.or(self.unit)?;
        let bytes = least.next_multiple_of(base.bytes);
        (bytes <= MOST).then_some(Preferred { bytes, ..base })
    }
}

fn is_usable(bytes: u64) -> bool {
    bytes > LEAST && bytes <= MOST && bytes.is_power_of_two()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Writes a sysfs tree with a disk and a partition that starts at `start` sectors.
    fn tree(limits: [u64; 3], start: u64) -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str, number: u64| {
            let path = folder.path().join("nvme0n1").join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, format!("{number}\n")).unwrap();
        };
        let [minimum, optimal, discard] = limits;
        put("queue/minimum_io_size", minimum);
        put("queue/optimal_io_size", optimal);
        put("queue/discard_granularity", discard);
        put("alignment_offset", 0);
        put("nvme0n1p1/partition", 1);
        put("nvme0n1p1/start", start);
        put("nvme0n1p1/alignment_offset", 0);
        folder
    }

    fn preferred(bytes: u64, source: &'static str) -> Option<Preferred> {
        Some(Preferred { bytes, source })
    }

    /// Values of a drive with blocks of 4 KiB: NPWG, NPWA, NPDG and NOWS in KiB.
    fn namespace(kib: [u64; 4]) -> Namespace {
        let [grain, align, discard, best] = kib.map(|kib| Some(kib << 10));
        Namespace {
            block_bytes: 4096,
            write_grain: grain,
            write_align: align,
            discard_grain: discard,
            best_write: best,
            ..Namespace::default()
        }
    }

    #[test]
    fn a_drive_states_its_unit() {
        let of = |kib| Preferences::new(Some(&namespace(kib)), None, QueueLimits::default());
        let found = of([16, 4, 4, 128]);
        assert_eq!(
            (found.unit, found.best_write),
            (preferred(16384, "NPWG"), preferred(131_072, "NOWS"))
        );
        assert_eq!(found.superpage(65536), preferred(131_072, "NOWS"));
        assert_eq!(of([4, 64, 4, 4]).unit, preferred(65536, "NPWA"));
        assert_eq!(of([4, 4, 16, 4]).unit, preferred(16384, "NPDG"), "as QEMU's drive");
        assert_eq!(of([64, 64, 1 << 20, 64]).superpage(4096), preferred(65536, "NPWG"));
        assert_eq!(of([16, 16, 16, 24]).best_write, None, "not a multiple");
        assert_eq!(of([4, 4, 4, 4]), Preferences::default(), "the defaults say nothing");
        assert_eq!(of([24, 4, 4, 4]).unit, None, "not a power of two");
    }

    #[test]
    fn the_kernel_has_limits_of_other_devices() {
        let tree = tree([65536, 262_144, 4096], 2048);
        let disk = tree.path().join("nvme0n1");
        let found = Preferences::new(None, None, QueueLimits::read(&disk));
        assert_eq!(found.unit, preferred(65536, "queue/minimum_io_size"));
        assert_eq!(found.superpage(65536), preferred(262_144, "queue/optimal_io_size"));
        assert_eq!(found.misaligned, 0);
        let part = Preferences::new(None, None, QueueLimits::read(&disk.join("nvme0n1p1")));
        assert_eq!((part.unit, part.misaligned), (found.unit, 0));
        // The drive is believed before the kernel.
        let both =
            Preferences::new(Some(&namespace([16, 4, 4, 4])), None, QueueLimits::read(&disk));
        assert_eq!(both.unit, preferred(16384, "NPWG"));
        let missing = QueueLimits::read(&tree.path().join("sda"));
        assert_eq!(Preferences::new(None, None, missing), Preferences::default());
    }

    #[test]
    fn a_partition_between_two_units_is_noticed() {
        let tree = tree([65536, 0, 0], 63);
        let limits = QueueLimits::read(&tree.path().join("nvme0n1/nvme0n1p1"));
        assert_eq!(Preferences::new(None, None, limits).misaligned, 63 * 512);
    }

    #[test]
    fn only_active_placement_has_reclaim_units() {
        let mut fdp = Fdp { on: true, ..Fdp::default() };
        fdp.configuration.unit_bytes = 16 << 20;
        let of = |fdp: &Fdp| Preferences::new(None, Some(fdp), QueueLimits::default()).reclaim_unit;
        assert_eq!(of(&fdp), preferred(16 << 20, "FDP"));
        assert_eq!(of(&Fdp { on: false, ..fdp }), None);
    }
}
