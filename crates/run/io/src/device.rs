//! A device below a layer: a regular file, a block device, memory, or the export of an NBD server.
//! The first three can also be zoned.
//!
//! Invariants
//! - A device is open only once: files are locked, block devices are also opened with `O_EXCL`, and
//!   exports are claimed, as far as this machine can detect.
//! - Sector 0 of a layer is the first sector of the window. The layer cannot access sectors outside
//!   the window.

use std::fs::File;
use std::io::{self, Seek, SeekFrom};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::path::Path;
use std::sync::Arc;

use hostftl_core::{BLOCK, Command, DeviceError, DeviceInfo, DeviceKind, SECTOR, Verdict};
use hostftl_format::superblock::RESERVE;

use crate::direct::{self, Direct};
use crate::error::IoError;
use crate::exclusive_open::{self, Access, Hold};
use crate::model::{self, Model};
use crate::nbd::{LinkWatch, Remote, Uri};
use crate::nvme::writes_zeros;
use crate::queue::{gains_from_discard, has_no_volatile_cache};
use crate::region::Region;
use crate::size::memory_bytes;
use crate::transfer::{NO_FILE, Transfer};
use crate::writeback_errors::{self, WritebackErrors};
use crate::zoned::{self, Part, Zoned, ZonedName};

/// Kind of a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Backing {
    /// A regular file.
    File,
    /// A block device.
    Block,
    /// Memory that exists while the device is open.
    Memory,
    /// Export of an NBD server.
    Nbd,
    /// Placeholder for a missing member of a stack.
    Absent,
}

impl Backing {
    /// Returns the name used in reports.
    pub const fn name(self) -> &'static str {
        match self {
            Backing::File => "file",
            Backing::Block => "block device",
            Backing::Memory => "memory",
            Backing::Nbd => "NBD export",
            Backing::Absent => "missing",
        }
    }
}

/// Open device with the window that a layer uses.
#[derive(Debug)]
pub struct Device {
    name: String,
    medium: Medium,
    backing: Backing,
    direct: Direct,
    /// Unit of direct transfers in bytes.
    unit: usize,
    /// Whether discards help the device.
    discard: bool,
    /// Whether completed writes can be lost until a flush.
    volatile_cache: bool,
    /// Size of the whole device in bytes.
    bytes: u64,
    /// Start and length of the window in bytes.
    base: u64,
    len: u64,
    writeback_errors: Arc<WritebackErrors>,
    zoned: Option<Zoned>,
    model: Option<Box<dyn Model>>,
}

/// Implementation of the transfers.
#[derive(Debug)]
pub(crate) enum Medium {
    /// System calls.
    File(File),
    /// Memory copies.
    Memory(Region),
    /// Commands to a server.
    Remote(Remote),
    /// None; every command ends with `DeviceError::Removed`.
    Absent,
}

impl Device {
    /// Opens a path, `mem:SIZE` for memory, or the URI of an NBD export, exclusively for this
    /// process. The window is the whole device. `zoned:` before a path or memory, with optional
    /// parameters such as `?zone=4M&units=4`, opens a zoned device, and the window is its segments.
    /// `#zones=0-63` or `#units=0-3` at the end opens a part; other volumes may open other parts.
    ///
    /// # Errors
    /// When the device is missing, is not a file or block device, is in use, or cannot be read and
    /// written.
    pub fn open(name: &str) -> Result<Self, IoError> {
        Self::open_as(name, Access::Full)
    }

    /// Opens a device like [`Device::open`]. With read-only access the device need not be writable;
    /// a server is not informed of the access.
    ///
    /// # Errors
    /// Those of [`Device::open`].
    pub fn open_as(name: &str, access: Access) -> Result<Self, IoError> {
        if let Some(zoned) = ZonedName::parse(name) {
            let zoned = zoned.map_err(|why| IoError::Name { name: name.into(), why })?;
            return Self::zoned(name, &zoned, access);
        }
        match name.strip_prefix("mem:") {
            Some(size) => Self::memory(name, size),
            None if Uri::is_meant(name) => Self::remote(name),
            None => Self::path(name, access, Hold::Whole),
        }
    }

    /// Returns a placeholder for a missing member of `sectors` sectors. Every command to it fails.
    pub fn absent(name: &str, sectors: u64) -> Self {
        let direct = Direct::No("it does not exist");
        let device = Self::new(name, Medium::Absent, Backing::Absent, direct, 0);
        Device { len: sectors * SECTOR as u64, ..device }
    }

    /// Returns a device whose window is all of its `bytes` bytes. Discards do not help it, and its
    /// cache is volatile.
    fn new(name: &str, medium: Medium, backing: Backing, direct: Direct, bytes: u64) -> Self {
        Device {
            name: name.into(),
            medium,
            backing,
            direct,
            unit: SECTOR,
            discard: false,
            volatile_cache: true,
            bytes,
            base: 0,
            len: bytes,
            writeback_errors: Arc::default(),
            zoned: None,
            model: None,
        }
    }

    /// Returns the canonical name of a device, which is valid in any directory: paths become
    /// absolute, and URIs complete.
    ///
    /// # Errors
    /// When a URI is invalid, or a path is not UTF-8.
    pub fn full_name(name: &str) -> Result<String, IoError> {
        if name.starts_with(zoned::PREFIX) {
            return zoned::full_name(name);
        }
        if let Some(size) = name.strip_prefix("mem:") {
            memory_bytes(name, size)?;
            return Ok(name.into());
        }
        if Uri::is_meant(name) {
            return uri(name).map(|uri| uri.to_string());
        }
        if zoned::split_part(name).is_some() && !Path::new(name).exists() {
            let why = "only zoned devices have parts; write zoned:PATH#zones=FIRST-LAST";
            return Err(IoError::Name { name: name.into(), why: why.into() });
        }
        let path = std::path::absolute(name).map_err(|error| system(name, "find it", error))?;
        let why = "it is not UTF-8; rename it";
        let wrong = || IoError::Name { name: name.into(), why: why.into() };
        path.to_str().map(String::from).ok_or_else(wrong)
    }

    /// Returns whether a name denotes memory, which ends with its process.
    pub fn is_memory(name: &str) -> bool {
        name.strip_prefix(zoned::PREFIX).unwrap_or(name).starts_with("mem:")
    }

    fn zoned(name: &str, zoned: &ZonedName, access: Access) -> Result<Self, IoError> {
        let wrong = |why: String| IoError::Name { name: name.into(), why };
        let mut device = match zoned.part {
            Some(_) => Self::path(&zoned.medium, access, Hold::Part)?,
            None => Self::open_as(&zoned.medium, access)?,
        };
        // The zones are locked before their state is read.
        let part = device.take_part(name, zoned, access)?;
        let found =
            match &device.medium {
                Medium::Memory(_) => Zoned::memory(zoned, device.bytes).map_err(wrong)?,
                Medium::File(file) if device.backing == Backing::Block => Zoned::block(file, part)
                    .map_err(|error| system(name, "use its zones", error))?,
                Medium::File(file) => Zoned::file(file, part)
                    .map_err(|error| system(name, "read its header", error))?,
                Medium::Remote(_) | Medium::Absent => {
                    return Err(wrong("it cannot be a zoned device".into()));
                }
            };
        if let (Medium::File(file), Backing::Block) = (&device.medium, device.backing) {
            // The page cache would write to the zones in its own order.
            let most = found.zone_order.shape.write_unit as usize * SECTOR;
            device.unit = direct::insist(file, most.min(BLOCK))
                .map_err(|error| system(name, "use its zones", error))?;
            (device.direct, device.writeback_errors) = (Direct::Yes, WritebackErrors::new(false));
            found.load(file).map_err(|error| system(name, "read its superblocks", error))?;
        }
        (device.name, device.bytes) = (name.into(), found.bytes());
        let sectors = found.sectors();
        device.zoned = Some(found);
        device.set_window(RESERVE, sectors);
        Ok(device)
    }

    /// Locks the part in the name, if there is one.
    fn take_part(
        &self,
        name: &str,
        zoned: &ZonedName,
        access: Access,
    ) -> Result<Option<Part>, IoError> {
        let (Some(part), Some(file)) = (&zoned.part, self.as_file()) else { return Ok(None) };
        let all = Zoned::all(file, self.backing == Backing::Block);
        let (all, kept) = all.map_err(|error| system(name, "read its header", error))?;
        let wrong = |why: String| IoError::Part { name: name.into(), why };
        let part = Part::from_name(part, &all, kept).map_err(wrong)?;
        exclusive_open::take(file, name, &part.zones, access)?;
        Ok(Some(part))
    }

    fn remote(name: &str) -> Result<Self, IoError> {
        let remote = Remote::open(name, uri(name)?)?;
        let (bytes, medium) = (remote.bytes(), Medium::Remote(remote));
        // The medium of the server is unknown, and so is the benefit of discards.
        Ok(Self::new(name, medium, Backing::Nbd, Direct::No("the server decides"), bytes))
    }

    fn memory(name: &str, size: &str) -> Result<Self, IoError> {
        let bytes = memory_bytes(name, size)?;
        let size = usize::try_from(bytes).map_err(|_| IoError::Name {
            name: name.into(),
            why: "more than the address space".into(),
        })?;
        let memory =
            Region::new(size).map_err(|error| system(name, "reserve that memory", error))?;
        let direct = Direct::No("memory");
        Ok(Self::new(name, Medium::Memory(memory), Backing::Memory, direct, bytes))
    }

    fn path(name: &str, access: Access, hold: Hold) -> Result<Self, IoError> {
        let meta = Path::new(name).metadata().map_err(|error| system(name, "open it", error))?;
        let backing = if meta.file_type().is_file() {
            Backing::File
        } else if meta.file_type().is_block_device() {
            Backing::Block
        } else {
            return Err(IoError::Kind { name: name.into() });
        };
        let file = exclusive_open::open(name, backing == Backing::Block, access, hold)?;
        let bytes = length(&file).map_err(|error| system(name, "measure it", error))?;
        let direct = direct::turn_on(&file, backing == Backing::Block);
        let writeback_errors = WritebackErrors::new(!direct.is_on());
        // Cached pages may differ from the medium after an earlier write-back error.
        if !direct.is_on() && access != Access::Inspect {
            writeback_errors::drop_cache(&file, backing == Backing::Block)
                .map_err(|error| system(name, "flush the page cache of it", error))?;
        }
        let is_block = backing == Backing::Block;
        // Discards would only fragment a regular file.
        let discard = is_block && gains_from_discard(meta.rdev()) && !writes_zeros(&file);
        // The page cache is volatile whatever the device has.
        let volatile_cache = !(is_block && direct.is_on() && has_no_volatile_cache(meta.rdev()));
        let device = Self::new(name, Medium::File(file), backing, direct, bytes);
        Ok(Device { discard, volatile_cache, writeback_errors, ..device })
    }

    /// Sets the window of a layer: `sectors` sectors from `base`.
    ///
    /// # Panics
    /// When the device is shorter.
    pub fn set_window(&mut self, base: u64, sectors: u64) {
        let size = self.bytes / SECTOR as u64;
        assert!(base.checked_add(sectors).is_some_and(|end| end <= size), "a window past the end");
        if let Some(zoned) = &self.zoned {
            assert_eq!(base, RESERVE, "segments are one window");
            assert!(sectors <= zoned.sectors(), "a window beyond the last segment");
        }
        self.base = base * SECTOR as u64;
        self.len = sectors * SECTOR as u64;
    }

    /// Makes the device represent a drive called `name`, with a model unless it has no state of its
    /// own. The drive has only the first `bytes` bytes of the device.
    ///
    /// # Panics
    /// When the device is shorter.
    pub fn attach(&mut self, name: &str, bytes: u64, model: Option<Box<dyn Model>>) {
        assert!(bytes <= self.bytes, "a drive longer than its file");
        (self.name, self.bytes, self.base, self.len) = (name.into(), bytes, 0, bytes);
        self.model = model;
    }

    /// Passes a command to the model: see [`model::follow`].
    pub(crate) fn follow(&mut self, command: &mut Command) -> Option<Result<Verdict, DeviceError>> {
        let window = (self.base / SECTOR as u64, self.len / SECTOR as u64);
        model::follow(self.model.as_deref_mut(), command, window)
    }

    /// Returns the description of the window for a layer.
    pub fn info(&self) -> DeviceInfo {
        let (sectors, model) = (self.len / SECTOR as u64, self.model.as_ref());
        let block = DeviceInfo::block(sectors, model.map_or(1, |model| model.map_unit()));
        // Zones are written in whole write units, which replace the indirection unit.
        if let Some(Zoned { zone_order, .. }) = &self.zoned {
            let (map_unit, kind) =
                (zone_order.shape.write_unit, DeviceKind::Zoned(zone_order.shape));
            return DeviceInfo { iu_sectors: map_unit, kind, ..block };
        }
        // A drive model profits from discards and gives collection hints, in contrast to its file.
        let (discard, collection_hint) = (self.discard || model.is_some(), model.is_some());
        // A drive without a volatile cache acknowledges a write once it is in a protected buffer,
        // where it joins the rest of its indirection unit.
        let volatile_cache = self.volatile_cache || model.is_some();
        let merges = !volatile_cache;
        DeviceInfo { discard, collection_hint, volatile_cache, merges, ..block }
    }

    /// Returns the path, URI or `mem:SIZE`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the kind of the device.
    pub fn backing(&self) -> Backing {
        self.backing
    }

    /// Returns the length of the whole device in bytes, independent of the window.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns whether transfers bypass the page cache, and the reason if not.
    pub fn direct(&self) -> &Direct {
        &self.direct
    }

    /// Returns the unit of direct transfers in bytes.
    pub(crate) fn unit(&self) -> usize {
        self.unit
    }

    /// Makes completed writes durable.
    ///
    /// # Errors
    /// Errors of the system or the server.
    pub fn sync(&self) -> Result<(), IoError> {
        match &self.medium {
            Medium::File(file) => self.writeback_errors.flush(|| file.sync_all()),
            Medium::Remote(remote) => remote.run(Transfer::sync(0, NO_FILE)),
            Medium::Memory(_) | Medium::Absent => Ok(()),
        }
        .map_err(|error| system(&self.name, "flush it", error))
    }

    /// Returns an observer of the connection to the server; `None` for a device without one.
    pub fn watch(&self) -> Option<LinkWatch> {
        self.as_remote().map(Remote::watch)
    }

    pub(crate) fn as_zoned(&mut self) -> Option<&mut Zoned> {
        self.zoned.as_mut()
    }

    /// Returns whether the device is zoned.
    pub fn is_zoned(&self) -> bool {
        self.zoned.is_some()
    }

    /// Returns whether a segment of a zoned device is written, according to its write pointer.
    pub fn has_written_segments(&self) -> bool {
        let zoned = self.zones().map(|zoned| &zoned.zone_order.list);
        zoned.is_some_and(|list| list.iter().any(|segment| segment.pointer > 0))
    }

    pub(crate) fn zones(&self) -> Option<&Zoned> {
        self.zoned.as_ref()
    }

    /// Returns the window in bytes of the whole device.
    pub(crate) fn window(&self) -> std::ops::Range<u64> {
        self.base..self.base + self.len
    }

    /// Returns the start of the window in bytes.
    pub(crate) fn window_start(&self) -> u64 {
        self.base
    }

    pub(crate) fn medium(&self) -> &Medium {
        &self.medium
    }

    pub(crate) fn as_remote(&self) -> Option<&Remote> {
        match &self.medium {
            Medium::Remote(remote) => Some(remote),
            _ => None,
        }
    }

    /// Allocates all of a memory device now, so that no command waits for the kernel later.
    pub fn populate(&self) {
        if let Some(memory) = self.as_memory() {
            memory.populate();
        }
    }

    pub(crate) fn as_memory(&self) -> Option<&Region> {
        match &self.medium {
            Medium::Memory(memory) => Some(memory),
            _ => None,
        }
    }

    pub(crate) fn as_file(&self) -> Option<&File> {
        if let Medium::File(file) = &self.medium { Some(file) } else { None }
    }

    pub(crate) fn writeback_errors(&self) -> &Arc<WritebackErrors> {
        &self.writeback_errors
    }

    pub(crate) fn fd(&self) -> RawFd {
        match &self.medium {
            Medium::File(file) => file.as_raw_fd(),
            Medium::Remote(_) | Medium::Memory(_) | Medium::Absent => NO_FILE,
        }
    }

    /// Returns the byte offset of sector `lba` of the window on the whole device.
    pub(crate) fn place(&self, lba: u64, sectors: u64) -> u64 {
        let (from, len) = (lba * SECTOR as u64, sectors * SECTOR as u64);
        assert!(from + len <= self.len, "{}: sectors {lba}+{sectors} past the window", self.name);
        // Zones may be longer than their segments, so positions are not linear there.
        self.zoned.as_ref().map_or(self.base + from, |zoned| zoned.place(lba))
    }
}

/// Returns the error for memory and absent devices, which have no superblocks.
pub(crate) fn no_head(name: &str) -> IoError {
    system(name, "examine it", io::Error::other("it has no persistent data"))
}

fn uri(name: &str) -> Result<Uri, IoError> {
    Uri::parse(name).map_err(|why| IoError::Name { name: name.into(), why })
}

fn length(file: &File) -> io::Result<u64> {
    let mut file = file;
    file.seek(SeekFrom::End(0))
}

pub(crate) fn system(name: &str, action: &'static str, source: io::Error) -> IoError {
    IoError::System { name: name.into(), action, source }
}
