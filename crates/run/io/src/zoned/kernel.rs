//! Zones of a block device, through the kernel's ioctls.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::MetadataExt;

use hostftl_core::{DeviceError, Page, SECTOR, Segments, Verdict};
use hostftl_format::superblock::RESERVE;

use super::pages;
use super::part::Part;
use super::zone_order::{Segment, ZoneOrder};

/// `_IOWR(0x12, 130, struct blk_zone_report)`.
const BLKREPORTZONE: libc::c_ulong = ioctl(3, 130, 16);
/// `_IOW(0x12, 131, struct blk_zone_range)`.
const BLKRESETZONE: libc::c_ulong = ioctl(1, 131, 16);
/// `_IOR(0x12, 132, __u32)`.
const BLKGETZONESZ: libc::c_ulong = ioctl(2, 132, 4);
/// `_IOR(0x12, 133, __u32)`.
const BLKGETNRZONES: libc::c_ulong = ioctl(2, 133, 4);

/// Bytes of `struct blk_zone_report` without zones, and of `struct blk_zone`.
const HEAD: usize = 16;
const ZONE: usize = 64;
/// Zones requested at once.
const BATCH: u32 = 1024;
/// Flag of a report whose zones have a capacity.
const HAS_CAPACITY: u32 = 1;

const fn ioctl(direction: u64, number: u64, size: u64) -> libc::c_ulong {
    (direction << 30 | size << 16 | 0x12 << 8 | number) as libc::c_ulong
}

/// Zone in the kernel's report, in sectors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KernelZone {
    pub start: u64,
    pub len: u64,
    pub capacity: u64,
    pub pointer: u64,
    /// Whether its sectors can be written in any order.
    pub conventional: bool,
    /// Whether it cannot be written.
    pub offline: bool,
}

/// Parses a report of the kernel.
fn parse(report: &[u8]) -> Vec<KernelZone> {
    let u64_at = |at: usize| u64::from_ne_bytes(report[at..at + 8].try_into().expect("8 bytes"));
    let u32_at = |at: usize| u32::from_ne_bytes(report[at..at + 4].try_into().expect("4 bytes"));
    let (count, has_capacity) = (u32_at(8) as usize, u32_at(12) & HAS_CAPACITY != 0);
    let zone = |index: usize| {
        let at = HEAD + ZONE * index;
        let (start, len, pointer) = (u64_at(at), u64_at(at + 8), u64_at(at + 16));
        let (kind, condition) = (report[at + 24], report[at + 25]);
        let capacity = if has_capacity { u64_at(at + 32) } else { len };
        let pointer = match condition {
            // Empty or offline.
            1 | 15 => 0,
            // Read-only or full.
            13 | 14 => capacity,
            _ => pointer.saturating_sub(start),
        };
        let (conventional, offline) = (kind == 1, matches!(condition, 13 | 15));
        KernelZone { start, len, capacity, pointer, conventional, offline }
    };
    (0..count).map(zone).collect()
}

/// Returns the number of zones of a block device; 0 if it is not zoned.
pub(super) fn count(file: &File) -> u32 {
    number(file.as_raw_fd(), BLKGETNRZONES).unwrap_or(0)
}

fn number(fd: RawFd, request: libc::c_ulong) -> io::Result<u32> {
    let mut number = 0u32;
    // SAFETY: these requests write one u32.
    let result = unsafe { libc::ioctl(fd, request as _, &mut number) };
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(number) }
}

/// Returns all zones of a device.
fn zones(file: &File, count: u32) -> io::Result<Vec<KernelZone>> {
    let mut zones: Vec<KernelZone> = Vec::with_capacity(count as usize);
    while zones.len() < count as usize {
        let mut report = vec![0u8; HEAD + ZONE * BATCH as usize];
        let from = zones.last().map_or(0, |zone| zone.start + zone.len);
        report[..8].copy_from_slice(&from.to_ne_bytes());
        report[8..12].copy_from_slice(&BATCH.to_ne_bytes());
        // SAFETY: the buffer has space for the number of zones in its head.
        let result =
            unsafe { libc::ioctl(file.as_raw_fd(), BLKREPORTZONE as _, report.as_mut_ptr()) };
        if result < 0 {
            return Err(io::Error::last_os_error());
        }
        let more = parse(&report);
        if more.is_empty() {
            return Err(io::Error::other("its zone report is truncated"));
        }
        zones.extend(more);
    }
    Ok(zones)
}

/// Geometry of a zoned block device.
#[derive(Debug)]
pub(super) struct ZonedGeometry {
    /// Segments: the writable part of each zone.
    pub zone_order: ZoneOrder,
    /// Sector of the first segment. Sectors before it can be written in any order.
    pub start: u64,
    /// Distance between zones in sectors. It exceeds a segment if zones have a smaller capacity.
    pub stride: u64,
    /// Zones for superblocks, two at each end, of a device without other writable space.
    pub kept: Option<[[pages::Zone; 2]; 2]>,
}

/// Maximum number of zones that are open for superblocks: one of each pair, and one that is being
/// taken.
const OPEN_FOR_PAGES: u32 = 3;
/// Minimum number of segments of a volume, in addition to those zones.
const FEWEST: usize = 4;

/// Zones that are kept for superblocks at each end of a part, or of a device without other writable
/// space.
const KEPT: u32 = 2;

/// Returns all zones of a zoned block device as segments, and the number of zones that a part keeps
/// at each end.
pub(super) fn all(file: &File) -> io::Result<(Segments, u32)> {
    let zones = zones(file, there(file)?)?;
    let size = zones.iter().find(|zone| !zone.conventional).map_or(0, |zone| zone.capacity);
    let (write_unit, max_open) = limits(file)?;
    let all = Segments {
        size: u32::try_from(size).unwrap_or(0),
        write_unit,
        write_best: write_unit,
        unreadable: 0,
        max_open,
        count: zones.len() as u32,
        units: 1,
    };
    Ok((all, KEPT))
}

/// Returns the number of zones of a device.
fn there(file: &File) -> io::Result<u32> {
    match count(file) {
        0 => Err(io::Error::other("it is not a zoned block device")),
        count => Ok(count),
    }
}

/// Returns the write unit in sectors, and the maximum number of open zones; 0 means all.
fn limits(file: &File) -> io::Result<(u32, u32)> {
    let rdev = file.metadata()?.rdev();
    let queue = |name: &str| -> u32 {
        let path =
            format!("/sys/dev/block/{}:{}/queue/{name}", libc::major(rdev), libc::minor(rdev));
        let text = fs::read_to_string(path).unwrap_or_default();
        text.trim().parse().unwrap_or(0)
    };
    // The layers write whole pages of 4 KiB.
    let unit = queue("zone_write_granularity").max(queue("physical_block_size")).max(4096);
    let open = [queue("max_open_zones"), queue("max_active_zones")];
    let open = open.into_iter().filter(|most| *most > 0).min().unwrap_or(0);
    Ok((unit / SECTOR as u32, open))
}

/// Returns the pages in each zone of a zoned block device, by the sector that they represent.
pub(super) fn pages(file: &File) -> io::Result<Vec<BTreeMap<u64, Box<Page>>>> {
    let (write_unit, _) = limits(file)?;
    let mut found = Vec::new();
    for zone in zones(file, there(file)?)? {
        if !zone.conventional && zone.pointer > 0 {
            let lengths = (zone.len, zone.capacity, u64::from(write_unit));
            let zone = pages::Zone { start: zone.start, pointer: zone.pointer };
            found.push(pages::pages_in(zone, lengths, file)?);
        }
    }
    Ok(found)
}

/// Opens the zones of a zoned block device, or those of a part.
pub(super) fn open(file: &File, part: Option<&Part>) -> io::Result<ZonedGeometry> {
    let zones = zones(file, there(file)?)?;
    let stride = u64::from(number(file.as_raw_fd(), BLKGETZONESZ)?);
    let (write_unit, most) = limits(file)?;
    let Some(part) = part else { return found(&zones, stride, write_unit, most, false) };
    let own = &zones[part.zones.start as usize..part.zones.end as usize];
    if own.iter().any(|zone| zone.conventional || zone.len != stride) {
        return Err(io::Error::other("some of these zones are conventional or shorter"));
    }
    found(own, stride, write_unit, part.shape.max_open, true)
}

/// Converts `zones` into segments, without leading conventional zones. If those have no space for
/// superblocks, or the zones are a part, two zones at each end are kept for superblocks.
fn found(
    zones: &[KernelZone],
    stride: u64,
    write_unit: u32,
    max_open: u32,
    is_part: bool,
) -> io::Result<ZonedGeometry> {
    let wrong = |why: &str| io::Error::other(why.to_owned());
    let first = zones.iter().position(|zone| !zone.conventional);
    let first = first.ok_or_else(|| wrong("all of its zones are conventional"))?;
    let rest = &zones[first..];
    let possible = |zone: &KernelZone| zone.len <= stride && zone.capacity <= zone.len;
    if rest.iter().any(|zone| zone.conventional || !possible(zone)) {
        return Err(wrong("its zone layout is not supported"));
    }
    // A shorter last zone is not used.
    let whole = rest.iter().take_while(|zone| zone.len == stride);
    let usable = whole.clone().filter(|zone| !zone.offline).map(|zone| zone.capacity);
    let size = usable.clone().min().ok_or_else(|| wrong("none of its zones is writable"))?;
    if usable.max() != Some(size) {
        return Err(wrong("its zones have different capacities"));
    }
    // Segments must be whole MiB. A zone with an unusable rest is never written to its end, and
    // would count as open for ever.
    if !size.is_multiple_of(RESERVE) {
        return Err(wrong("its zone capacity is not a multiple of 1 MiB"));
    }
    let size = u32::try_from(size).map_err(|_| wrong("its zones are longer than 2 TiB"))?;
    let segment =
        |zone: &KernelZone| Segment::new(size, (zone.pointer as u32).min(size), 0, zone.offline);
    let mut list: Vec<KernelZone> = whole.copied().collect();
    let (kept, max_open) = if is_part || rest[0].start < 2 * RESERVE {
        (Some(keep(&mut list)?), with_room(max_open)?)
    } else {
        (None, max_open)
    };
    let start = list[0].start;
    let list: Vec<Segment> = list.iter().map(segment).collect();
    let shape = Segments {
        size,
        write_unit,
        write_best: write_unit,
        unreadable: 0,
        max_open,
        count: list.len() as u32,
        units: 1,
    };
    Ok(ZonedGeometry { zone_order: ZoneOrder::new(shape, list), start, stride, kept })
}

/// Takes two zones from each end.
fn keep(list: &mut Vec<KernelZone>) -> io::Result<[[pages::Zone; 2]; 2]> {
    if list.len() < 4 + FEWEST {
        let why = "it has too few zones; four are reserved for superblocks";
        return Err(io::Error::other(why));
    }
    let tail = list.split_off(list.len() - KEPT as usize);
    let head: Vec<KernelZone> = list.drain(..KEPT as usize).collect();
    let page_zone = |zone: &KernelZone| pages::Zone { start: zone.start, pointer: zone.pointer };
    let pairs = [head, tail].map(|pair| [page_zone(&pair[0]), page_zone(&pair[1])]);
    Ok(pairs)
}

/// Returns the number of zones that may be open in addition to those for superblocks; 0 means all.
fn with_room(max_open: u32) -> io::Result<u32> {
    match max_open {
        0 => Ok(0),
        some if some > OPEN_FOR_PAGES => Ok(some - OPEN_FOR_PAGES),
        some => {
            let why = format!("it allows {some} open zones, but superblocks need three");
            Err(io::Error::other(why))
        }
    }
}

/// Resets the zone at byte `offset`.
pub(super) fn reset(fd: RawFd, offset: u64, len: u64) -> Result<Verdict, DeviceError> {
    let range = [offset / SECTOR as u64, len / SECTOR as u64];
    // SAFETY: the request reads a range of two u64.
    let result = unsafe { libc::ioctl(fd, BLKRESETZONE as _, range.as_ptr()) };
    if result < 0 { Err(DeviceError::Media) } else { Ok(Verdict::default()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_have_the_kernel_s_numbers() {
        assert_eq!((BLKREPORTZONE, BLKRESETZONE), (0xc010_1282, 0x4010_1283));
        assert_eq!((BLKGETZONESZ, BLKGETNRZONES), (0x8004_1284, 0x8004_1285));
    }

    /// Returns a zone of 4096 sectors with the capacity `capacity`.
    fn zone(start: u64, pointer: u64, (kind, condition): (u8, u8), capacity: u64) -> [u8; ZONE] {
        let mut bytes = [0; ZONE];
        bytes[..8].copy_from_slice(&start.to_ne_bytes());
        bytes[8..16].copy_from_slice(&4096u64.to_ne_bytes());
        bytes[16..24].copy_from_slice(&pointer.to_ne_bytes());
        (bytes[24], bytes[25]) = (kind, condition);
        bytes[32..40].copy_from_slice(&capacity.to_ne_bytes());
        bytes
    }

    fn report(zones: &[[u8; ZONE]]) -> Vec<u8> {
        let mut bytes = vec![0; 8];
        bytes.extend((zones.len() as u32).to_ne_bytes());
        bytes.extend(HAS_CAPACITY.to_ne_bytes());
        zones.iter().for_each(|zone| bytes.extend(zone));
        bytes.extend([0xff; ZONE]);
        bytes
    }

    #[test]
    fn a_report_of_the_kernel_becomes_segments() {
        let zones = parse(&report(&[
            zone(0, u64::MAX, (1, 0), 4096),
            zone(4096, 4096, (2, 1), 2048),
            zone(8192, 8200, (2, 2), 2048),
            zone(12_288, 16_384, (2, 14), 2048),
            zone(16_384, 0, (2, 15), 0),
            zone(20_480, 0, (2, 13), 2048),
        ]));
        let ZonedGeometry { zone_order, start, stride, kept } =
            found(&zones[..], 4096, 8, 14, false).unwrap();
        assert!(kept.is_none(), "superblocks are in the conventional zone");
        assert_eq!((start, stride, zone_order.shape.size), (4096, 4096, 2048));
        assert_eq!((zone_order.shape.count, zone_order.shape.max_open), (5, 14));
        let found: Vec<_> = zone_order.list.iter().map(|it| (it.pointer, it.offline)).collect();
        assert_eq!(found, [(0, false), (8, false), (2048, false), (0, true), (2048, true)]);
        assert!(zone_order.list.iter().all(|segment| segment.len == 2048));
    }

    #[test]
    fn without_conventional_zones_four_are_kept_for_superblocks() {
        let of = |index: u64, written: u64| {
            let start = index * 4096;
            zone(start, start + written, (2, if written > 0 { 2 } else { 1 }), 2048)
        };
        let all: Vec<_> = (0..10).map(|index| of(index, u64::from(index == 1) * 16)).collect();
        let ZonedGeometry { zone_order, start, kept, .. } =
            found(&parse(&report(&all)), 4096, 8, 14, false).unwrap();
        assert_eq!((start, zone_order.shape.count, zone_order.shape.max_open), (2 * 4096, 6, 11));
        let [[first, second], [third, fourth]] = kept.unwrap();
        let starts = [first, second, third, fourth].map(|zone| zone.start / 4096);
        assert_eq!((starts, second.pointer), ([0, 1, 8, 9], 16));
        let refused = |zones: &[[u8; ZONE]], most| {
            found(&parse(&report(zones)), 4096, 8, most, false).unwrap_err().to_string()
        };
        assert!(refused(&all[..7], 14).contains("too few zones"));
        assert!(refused(&all, 3).contains("superblocks need three"));
    }

    #[test]
    fn a_part_keeps_its_superblocks_in_its_own_zones() {
        let of = |index: u64| zone(index * 4096, index * 4096, (2, 1), 2048);
        let all = parse(&report(&(0..20).map(of).collect::<Vec<_>>()));
        let part = found(&all[10..18], 4096, 8, 6, true).unwrap();
        assert_eq!((part.start, part.zone_order.shape.count), (12 * 4096, 4));
        assert_eq!(part.zone_order.shape.max_open, 3, "three of its share are for superblocks");
        let kept = part.kept.unwrap().map(|pair| pair.map(|zone| zone.start / 4096));
        assert_eq!(kept, [[10, 11], [16, 17]]);
        let few = found(&all[10..17], 4096, 8, 6, true).unwrap_err().to_string();
        assert!(few.contains("too few zones"), "{few}");
    }

    #[test]
    fn unusable_zones_are_refused() {
        let refused = |zones: &[[u8; ZONE]]| {
            found(&parse(&report(zones)), 4096, 8, 0, false).unwrap_err().to_string()
        };
        let of = |start: u64, capacity: u64| zone(start, start, (2, 1), capacity);
        let loose = |start: u64| zone(start, 0, (1, 0), 4096);
        for (zones, part) in [
            (&[of(0, 4096), loose(4096)][..], "layout"),
            (&[loose(4096)][..], "conventional"),
            (&[of(0, 4096), of(4096, 2048)][..], "different capacities"),
            (&[of(0, 4000), of(4096, 4000)][..], "not a multiple of 1 MiB"),
            (&[zone(0, 0, (2, 15), 0)][..], "none of its zones"),
        ] {
            let why = refused(zones);
            assert!(why.contains(part), "{why}");
        }
    }
}
