//! Zoned devices: segments in a file, in memory, or those of a zoned block device.
//!
//! A zoned file has a head ([`hostftl_format::zonefile`]), and behind it what the device shows: a
//! reserve for superblocks, the segments, a reserve. Its pointers are kept with each flush and each
//! reset, behind the data: after a crash they are those of the last flush, and all before them is
//! intact.
//!
//! A part of a device ([`part`]) has its reserves in its own zones.

mod claims;
#[cfg(test)]
mod conform;
mod gate;
mod kernel;
mod name;
mod pages;
mod part;
mod table;

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
pub use claims::Taken;
pub(crate) use gate::{Gate, Turn};
pub(crate) use name::{PREFIX, ZonedName};
use pages::Pages;
pub(crate) use part::{Part, split as split_part};
pub(crate) use table::{Settling, Table, Wait};

/// Bytes of a reserve.
const RESERVE_BYTES: u64 = RESERVE * SECTOR as u64;

/// Where the pointers are kept.
#[derive(Debug)]
pub(crate) enum Keeper {
    /// Nowhere.
    Memory,
    /// In the file's head.
    Table(Table),
    /// The device knows them itself.
    Kernel,
}

/// Where the pages of both reserves are.
#[derive(Debug)]
enum Home {
    /// Where these bytes of the file begin.
    Fixed([u64; 2]),
    /// In zones of their own.
    Zones(Arc<Pages>),
}

/// Where a page of a reserve is.
#[derive(Debug)]
pub(crate) enum Spot {
    /// At this byte.
    Fixed(u64),
    /// Among the pages of zones, under this sector.
    Zones(Arc<Pages>, u64),
}

/// The zoned side of a device. Places are in bytes on the file.
#[derive(Debug)]
pub(crate) struct Zoned {
    pub gate: Gate,
    pub keeper: Keeper,
    home: Home,
    part: Part,
    /// Where zone 0 begins, in the numbers of the part.
    first: u64,
    /// From one zone to the next: zones may be longer than what can be written of them.
    stride: u64,
}

impl Zoned {
    /// Segments in memory of `bytes` bytes.
    pub(crate) fn memory(name: &ZonedName, bytes: u64) -> Result<Self, String> {
        let shape = name.fit(bytes, false)?;
        let segment = |_| gate::Segment::new(shape.size, 0, 0, false);
        let gate = Gate::new(shape, (0..shape.count).map(segment).collect());
        Ok(Self::behind(0, gate, (Part::whole(&shape), shape.count), Keeper::Memory))
    }

    /// All segments of a file or block device, and how many zones a part keeps at each end.
    pub(crate) fn all(file: &File, is_block: bool) -> io::Result<(Segments, u32)> {
        if is_block {
            return kernel::all(file);
        }
        let all = Table::shape(file)?;
        Ok((all, RESERVE.div_ceil(all.size.into()) as u32))
    }

    /// What the head of a zoned file says of all segments, or of a part.
    pub(crate) fn file(file: &File, part: Option<Part>) -> io::Result<Self> {
        let all = Table::shape(file)?;
        let part = part.unwrap_or_else(|| Part::whole(&all));
        let (table, gate) = Table::load(file, &all, &part)?;
        let head = zonefile::head_sectors(all.count) * SECTOR as u64;
        Ok(Self::behind(head, gate, (part, all.count), Keeper::Table(table)))
    }

    /// The zones of a block device, or a part of them. Superblocks lie in its first conventional
    /// zones, and where it has none, as in a part, in two of its zones at each end.
    pub(crate) fn block(file: &File, part: Option<Part>) -> io::Result<Self> {
        let kernel::Found { gate, start, stride, kept } = kernel::open(file, part.as_ref())?;
        let part = part.map(|part| Part { shape: gate.shape, ..part });
        let first = if part.is_some() { 0 } else { start * SECTOR as u64 };
        let mut zoned = Zoned {
            part: part.unwrap_or_else(|| Part::whole(&gate.shape)),
            gate,
            keeper: Keeper::Kernel,
            home: Home::Fixed([0, RESERVE_BYTES]),
            first,
            stride: stride * SECTOR as u64,
        };
        if let Some(kept) = kept {
            let shape = zoned.gate.shape;
            let tail = (zoned.bytes() - RESERVE_BYTES) / SECTOR as u64;
            let lengths = (stride, shape.size.into(), shape.write_unit.into());
            zoned.home = Home::Zones(Arc::new(Pages::new(kept, lengths, tail)));
        }
        Ok(zoned)
    }

    /// Finds the pages that zones hold; before that they read as zeros.
    pub(crate) fn load(&self, file: &File) -> io::Result<()> {
        match &self.home {
            Home::Fixed(_) => Ok(()),
            Home::Zones(pages) => pages.load(file),
        }
    }

    /// A part of `all` zones that lie between two reserves, behind `head` bytes.
    fn behind(head: u64, gate: Gate, (part, all): (Part, u32), keeper: Keeper) -> Self {
        let first = head + RESERVE_BYTES;
        let stride = u64::from(gate.shape.size) * SECTOR as u64;
        let zone = |zone: u32| first + stride * u64::from(zone);
        let home = if part.is_whole() {
            [head, zone(all)]
        } else {
            [zone(part.zones.start), zone(part.zones.end - part.kept)]
        };
        Zoned { gate, keeper, home: Home::Fixed(home), part, first, stride }
    }

    /// The zones that are its own, when others may have others.
    pub(crate) fn own_zones(&self) -> Option<Range<u32>> {
        (!self.part.is_whole()).then(|| self.part.zones.clone())
    }

    /// The length that the device shows, in bytes: both reserves and the segments.
    pub(crate) fn bytes(&self) -> u64 {
        2 * RESERVE_BYTES + self.sectors() * SECTOR as u64
    }

    /// Sectors of all segments.
    pub(crate) fn sectors(&self) -> u64 {
        u64::from(self.gate.shape.size) * u64::from(self.gate.shape.count)
    }

    /// Where sector `lba` of the segments is.
    pub(crate) fn place(&self, lba: u64) -> u64 {
        let size = u64::from(self.gate.shape.size);
        let zone = self.part.zone((lba / size) as u32);
        self.first + u64::from(zone) * self.stride + lba % size * SECTOR as u64
    }

    /// The bytes from one segment to the next.
    pub(crate) fn stride(&self) -> u64 {
        self.stride
    }

    /// Where byte `at` of what the device shows is, if it can be written at any time.
    pub(crate) fn reserve(&self, at: u64) -> Option<Spot> {
        let tail = self.bytes() - RESERVE_BYTES;
        if (RESERVE_BYTES..tail).contains(&at) {
            return None;
        }
        Some(match &self.home {
            Home::Zones(pages) => Spot::Zones(pages.clone(), at / SECTOR as u64),
            Home::Fixed([first, _]) if at < RESERVE_BYTES => Spot::Fixed(first + at),
            Home::Fixed([_, last]) => Spot::Fixed(last + at - tail),
        })
    }

    /// Lays segments of a device in memory further apart, fewer of them, as if zones were longer.
    #[cfg(test)]
    pub(crate) fn spread(&mut self) {
        let shape = self.gate.shape;
        let count = shape.count / 2 / shape.units * shape.units;
        let segment = |_| gate::Segment::new(shape.size, 0, 0, false);
        let list = (0..count).map(segment).collect();
        self.gate = Gate::new(Segments { count, ..shape }, list);
        self.part = Part::whole(&self.gate.shape);
        self.stride *= 2;
    }

    /// Leaves nothing in the zones that are kept for the reserves, if they lie in zones.
    pub(crate) fn free_reserves(&self, file: &File) -> io::Result<()> {
        match &self.home {
            Home::Fixed(_) => Ok(()),
            Home::Zones(pages) => pages.free(file),
        }
    }

    /// Frees all segments durably, for a device that is not used any more in this process.
    pub(crate) fn clear(&self, file: &File) -> io::Result<()> {
        let shape = self.gate.shape;
        match &self.keeper {
            Keeper::Memory => Ok(()),
            Keeper::Table(_) if self.part.is_whole() => Table::make(file, &shape),
            Keeper::Table(table) => table.free(file),
            Keeper::Kernel => (0..shape.count).try_for_each(|index| {
                let at = self.place(u64::from(index) * u64::from(shape.size));
                let done = kernel::reset(file.as_raw_fd(), at, self.stride);
                done.map(|_| ()).map_err(|error| io::Error::other(error.to_string()))
            }),
        }
    }

    /// What a kernel does to reset a zone.
    pub(crate) fn reset_by_kernel(
        fd: RawFd,
        offset: u64,
        len: u64,
    ) -> Result<Verdict, DeviceError> {
        kernel::reset(fd, offset, len)
    }
}

/// Makes the file of a zoned device, `bytes` long, with zones like those of another if the name
/// says nothing of them. Returns the file.
///
/// # Errors
/// When it exists, or so few bytes do not do.
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
    make().map_err(|source| IoError::System { name: name.into(), what: "make it", source })
}

/// The path of a zoned device that is a file or a block device.
///
/// # Errors
/// When the name makes no sense.
pub fn path_of(name: &str) -> Option<Result<String, IoError>> {
    let zoned = ZonedName::parse(name)?;
    let zoned = zoned.map_err(|why| IoError::Name { name: name.into(), why });
    match zoned {
        Ok(zoned) if zoned.memory().is_some() => None,
        Ok(zoned) => Some(Ok(zoned.medium)),
        Err(error) => Some(Err(error)),
    }
}

/// The one way to write the name of a zoned device: what a file says of itself is left out, and a
/// part stays.
pub(crate) fn full_name(name: &str) -> Result<String, IoError> {
    let Some(path) = path_of(name) else { return Ok(name.into()) };
    let path = path?;
    let part = ZonedName::parse(name).and_then(Result::ok).and_then(|zoned| zoned.part);
    let part = part.map_or(String::new(), |part| format!("#{part}"));
    let full = std::path::absolute(Path::new(&path));
    let full =
        full.map_err(|source| IoError::System { name: name.into(), what: "find it", source })?;
    let why = "it is not UTF-8; rename it";
    let full = full.to_str().ok_or_else(|| IoError::Name { name: name.into(), why: why.into() })?;
    Ok(format!("{PREFIX}{full}{part}"))
}
