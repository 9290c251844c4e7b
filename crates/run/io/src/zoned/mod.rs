//! Zoned devices: segments in a file, in memory, or on a zoned block device.
//!
//! A zoned file has a head ([`hostftl_format::zonefile`]), followed by the visible device: a
//! reserve for superblocks, the segments, and a second reserve. The write pointers are stored with
//! each flush and each reset, after the data. After a crash they are those of the last flush, and
//! all data before them is intact.
//!
//! A part of a device ([`part`]) has its reserves in its own zones.

mod claims;
#[cfg(test)]
mod conform;
mod kernel;
mod name;
mod pages;
mod part;
mod table;
mod zone_order;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::Arc;

use hostftl_core::{DeviceError, SECTOR, Segments, Verdict};
use hostftl_format::superblock::RESERVE;
use hostftl_format::zonefile;

use crate::error::IoError;
pub use claims::ClaimedZones;
pub use name::name_of;
pub(crate) use name::{PREFIX, ZonedName};
use pages::Pages;
pub(crate) use part::{Part, split as split_part};
pub(crate) use table::{PendingFlush, Settling, Table};
pub(crate) use zone_order::{Turn, ZoneOrder};

/// Bytes of a reserve.
const RESERVE_BYTES: u64 = RESERVE * SECTOR as u64;

/// Storage of the write pointers.
#[derive(Debug)]
pub(crate) enum PointerStorage {
    /// None.
    Memory,
    /// Head of the file.
    Table(Table),
    /// The device itself.
    Kernel,
}

/// Location of the pages of both reserves.
#[derive(Debug)]
enum ReservePlaces {
    /// Byte offsets of the reserves on the file.
    Fixed([u64; 2]),
    /// Zones of their own.
    Zones(Arc<Pages>),
}

/// Location of a page of a reserve.
#[derive(Debug)]
pub(crate) enum PagePlace {
    /// Byte offset.
    Fixed(u64),
    /// Among the pages in zones, under this sector.
    Zones(Arc<Pages>, u64),
}

/// Zoned part of a device. Positions are in bytes of the file.
#[derive(Debug)]
pub(crate) struct Zoned {
    pub zone_order: ZoneOrder,
    pub pointer_storage: PointerStorage,
    home: ReservePlaces,
    part: Part,
    /// Start of zone 0, in the numbering of the part.
    first: u64,
    /// Distance between zones. A zone may be longer than its writable length.
    stride: u64,
}

impl Zoned {
    /// Creates segments in memory of `bytes` bytes.
    pub(crate) fn memory(name: &ZonedName, bytes: u64) -> Result<Self, String> {
        let shape = name.fit(bytes, false)?;
        let segment = |_| zone_order::Segment::new(shape.size, 0, 0, false);
        let zone_order = ZoneOrder::new(shape, (0..shape.count).map(segment).collect());
        Ok(Self::behind(0, zone_order, (Part::whole(&shape), shape.count), PointerStorage::Memory))
    }

    /// Returns all segments of a file or block device, and the number of zones that a part keeps at
    /// each end.
    pub(crate) fn all(file: &File, is_block: bool) -> io::Result<(Segments, u32)> {
        if is_block {
            return kernel::all(file);
        }
        let all = Table::shape(file)?;
        // The kept zones of a part of a file have at least the length of a reserve.
        Ok((all, RESERVE.div_ceil(all.size.into()) as u32))
    }

    /// Opens a zoned file, or a part of it, from its head.
    pub(crate) fn file(file: &File, part: Option<Part>) -> io::Result<Self> {
        let all = Table::shape(file)?;
        let part = part.unwrap_or_else(|| Part::whole(&all));
        let (table, zone_order) = Table::load(file, &all, &part)?;
        let head = zonefile::head_sectors(all.count) * SECTOR as u64;
        Ok(Self::behind(head, zone_order, (part, all.count), PointerStorage::Table(table)))
    }

    /// Opens the zones of a block device, or a part of them. Superblocks are in its first
    /// conventional zones. Without such zones, and in a part, they are in two sequential zones at
    /// each end.
    pub(crate) fn block(file: &File, part: Option<Part>) -> io::Result<Self> {
        let kernel::ZonedGeometry { zone_order, start, stride, kept } =
            kernel::open(file, part.as_ref())?;
        // The shape of a part excludes the zones that are kept for superblocks.
        let part = part.map(|part| Part { shape: zone_order.shape, ..part });
        let first = if part.is_some() { 0 } else { start * SECTOR as u64 };
        let mut zoned = Zoned {
            part: part.unwrap_or_else(|| Part::whole(&zone_order.shape)),
            zone_order,
            pointer_storage: PointerStorage::Kernel,
            home: ReservePlaces::Fixed([0, RESERVE_BYTES]),
            first,
            stride: stride * SECTOR as u64,
        };
        if let Some(kept) = kept {
            let shape = zoned.zone_order.shape;
            let tail = (zoned.bytes() - RESERVE_BYTES) / SECTOR as u64;
            let lengths = (stride, shape.size.into(), shape.write_unit.into());
            zoned.home = ReservePlaces::Zones(Arc::new(Pages::new(kept, lengths, tail)));
        }
        Ok(zoned)
    }

    /// Loads the pages in zones; before that they read as zeros.
    pub(crate) fn load(&self, file: &File) -> io::Result<()> {
        match &self.home {
            ReservePlaces::Fixed(_) => Ok(()),
            ReservePlaces::Zones(pages) => pages.load(file),
        }
    }

    /// Describes a part of `all` zones between two reserves, after `head` bytes.
    fn behind(
        head: u64,
        zone_order: ZoneOrder,
        (part, all): (Part, u32),
        pointer_storage: PointerStorage,
    ) -> Self {
        let first = head + RESERVE_BYTES;
        let stride = u64::from(zone_order.shape.size) * SECTOR as u64;
        let zone = |zone: u32| first + stride * u64::from(zone);
        // A part has its reserves in its own zones, the whole device has them outside.
        let home = if part.is_whole() {
            [head, zone(all)]
        } else {
            [zone(part.zones.start), zone(part.zones.end - part.kept)]
        };
        Zoned { zone_order, pointer_storage, home: ReservePlaces::Fixed(home), part, first, stride }
    }

    /// Returns the zones of this part, or `None` if it is the whole device.
    pub(crate) fn own_zones(&self) -> Option<Range<u32>> {
        (!self.part.is_whole()).then(|| self.part.zones.clone())
    }

    /// Returns the visible length in bytes: both reserves and the segments.
    pub(crate) fn bytes(&self) -> u64 {
        2 * RESERVE_BYTES + self.sectors() * SECTOR as u64
    }

    /// Returns the number of sectors of all segments.
    pub(crate) fn sectors(&self) -> u64 {
        u64::from(self.zone_order.shape.size) * u64::from(self.zone_order.shape.count)
    }

    /// Returns the byte offset of sector `lba` of the segments.
    pub(crate) fn place(&self, lba: u64) -> u64 {
        let size = u64::from(self.zone_order.shape.size);
        // A part leaves out the zones that are kept for superblocks.
        let zone = self.part.zone((lba / size) as u32);
        self.first + u64::from(zone) * self.stride + lba % size * SECTOR as u64
    }

    /// Returns the distance between segments in bytes.
    pub(crate) fn stride(&self) -> u64 {
        self.stride
    }

    /// Returns the location of visible byte `at` if it is in a reserve, and `None` in the segments.
    pub(crate) fn reserve(&self, at: u64) -> Option<PagePlace> {
        let tail = self.bytes() - RESERVE_BYTES;
        // Segments cannot be rewritten.
        if (RESERVE_BYTES..tail).contains(&at) {
            return None;
        }
        Some(match &self.home {
            ReservePlaces::Zones(pages) => PagePlace::Zones(pages.clone(), at / SECTOR as u64),
            ReservePlaces::Fixed([first, _]) if at < RESERVE_BYTES => PagePlace::Fixed(first + at),
            ReservePlaces::Fixed([_, last]) => PagePlace::Fixed(last + at - tail),
        })
    }

    /// Increases the distance between segments in memory, with fewer of them, as if zones were
    /// longer.
    #[cfg(test)]
    pub(crate) fn spread(&mut self) {
        let shape = self.zone_order.shape;
        let count = shape.count / 2 / shape.units * shape.units;
        let segment = |_| zone_order::Segment::new(shape.size, 0, 0, false);
        let list = (0..count).map(segment).collect();
        self.zone_order = ZoneOrder::new(Segments { count, ..shape }, list);
        self.part = Part::whole(&self.zone_order.shape);
        self.stride *= 2;
    }

    /// Clears the zones that are kept for the reserves, if these are in zones.
    pub(crate) fn free_reserves(&self, file: &File) -> io::Result<()> {
        match &self.home {
            ReservePlaces::Fixed(_) => Ok(()),
            ReservePlaces::Zones(pages) => pages.free(file),
        }
    }

    /// Frees all segments durably. The device must not be used in this process afterwards.
    pub(crate) fn clear(&self, file: &File) -> io::Result<()> {
        let shape = self.zone_order.shape;
        match &self.pointer_storage {
            PointerStorage::Memory => Ok(()),
            // A new head frees all segments at once.
            PointerStorage::Table(_) if self.part.is_whole() => Table::make(file, &shape),
            PointerStorage::Table(table) => table.free(file),
            PointerStorage::Kernel => (0..shape.count).try_for_each(|index| {
                let at = self.place(u64::from(index) * u64::from(shape.size));
                let done = kernel::reset(file.as_raw_fd(), at, self.stride);
                done.map(|_| ()).map_err(|error| io::Error::other(error.to_string()))
            }),
        }
    }

    /// Resets a zone by the kernel's request.
    pub(crate) fn reset_by_kernel(
        fd: RawFd,
        offset: u64,
        len: u64,
    ) -> Result<Verdict, DeviceError> {
        kernel::reset(fd, offset, len)
    }
}

/// Creates the file of a zoned device with `bytes` bytes. The zones are like those of `like` if the
/// name does not specify any. Returns the file.
///
/// # Errors
/// When the file exists, or is too small.
pub fn make_file(name: &str, bytes: u64, like: Option<Segments>) -> Result<File, IoError> {
    let wrong = |why: String| IoError::Name { name: name.into(), why };
    let zoned = ZonedName::parse(name).ok_or_else(|| wrong("it is not zoned".into()))?;
    let mut zoned = zoned.map_err(wrong)?;
    zoned.shape = zoned.shape.or(like);
    let shape = zoned.fit(bytes, true).map_err(wrong)?;
    let make = || -> io::Result<File> {
        let mut options = File::options();
        options.read(true).write(true).create_new(true).mode(0o600);
        let file = options.open(&zoned.medium)?;
        file.set_len(bytes)?;
        Table::make(&file, &shape)?;
        Ok(file)
    };
    make().map_err(|source| IoError::System { name: name.into(), action: "make it", source })
}

/// Returns the path of a zoned device that is a file or a block device.
///
/// # Errors
/// When the name is invalid.
pub fn split_path(name: &str) -> Option<Result<String, IoError>> {
    let zoned = ZonedName::parse(name)?;
    let zoned = zoned.map_err(|why| IoError::Name { name: name.into(), why });
    match zoned {
        Ok(zoned) if zoned.memory().is_some() => None,
        Ok(zoned) => Some(Ok(zoned.medium)),
        Err(error) => Some(Err(error)),
    }
}

/// Returns the canonical name of a zoned device. Options stored in the file are omitted; a part is
/// kept.
pub(crate) fn full_name(name: &str) -> Result<String, IoError> {
    let Some(path) = split_path(name) else { return Ok(name.into()) };
    let path = path?;
    let part = ZonedName::parse(name).and_then(Result::ok).and_then(|zoned| zoned.part);
    let part = part.map_or(String::new(), |part| format!("#{part}"));
    let full = std::path::absolute(Path::new(&path));
    let full =
        full.map_err(|source| IoError::System { name: name.into(), action: "find it", source })?;
    let why = "it is not UTF-8; rename it";
    let full = full.to_str().ok_or_else(|| IoError::Name { name: name.into(), why: why.into() })?;
    Ok(format!("{PREFIX}{full}{part}"))
}
