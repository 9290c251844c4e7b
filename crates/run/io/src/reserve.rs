//! Pages outside a device's window, which hold superblocks, and access to two of them from another
//! thread than the driver's. Superblocks change while the layer runs.

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use hostftl_core::{BLOCK, Page, SECTOR};

use crate::device::{Device, Medium as On, no_head, system};
use crate::error::IoError;
use crate::nbd::Shared;
use crate::transfer::{Call, NO_FILE, Transfer};
use crate::writeback_errors::WritebackErrors;
use crate::zoned::{ClaimedZones, PagePlace, Zoned};

/// Two superblock pages of a device.
#[derive(Debug)]
pub struct Reserve {
    name: String,
    medium: Medium,
    writeback_errors: Arc<WritebackErrors>,
    /// Positions of the two pages.
    places: [PagePlace; 2],
}

/// Implementation of the transfers.
#[derive(Debug)]
enum Medium {
    /// System calls on a file or block device.
    File(File),
    /// Commands to an NBD server.
    Remote(Arc<Shared>),
    /// Memory or an absent device: writes fail.
    None,
}

impl Device {
    /// Sets the time limit of a command. Returns whether the device enforces it itself, as the
    /// client of an NBD server does; for other devices the driver's owner must enforce it.
    pub fn set_deadline(&self, most: Duration) -> bool {
        self.as_remote().map(|remote| remote.set_deadline(most)).is_some()
    }

    /// Returns the position of the page at sector `at` of the whole device.
    fn page_place(&self, at: u64) -> Result<PagePlace, IoError> {
        let at = at * SECTOR as u64;
        let Some(zoned) = self.zones() else { return Ok(PagePlace::Fixed(at)) };
        let why = "the device has no space outside its segments";
        let why = || system(self.name(), "examine it", io::Error::other(why));
        zoned.reserve(at).ok_or_else(why)
    }

    /// Reads one page at sector `at` of the whole device.
    ///
    /// # Errors
    /// Errors of the system or the server.
    pub fn read_page(&self, at: u64) -> Result<Page, IoError> {
        let mut page = Page::default();
        let read = match (self.medium(), self.page_place(at)?) {
            (On::File(file), PagePlace::Zones(pages, sector)) => {
                return pages
                    .read(sector, file)
                    .map_err(|error| system(self.name(), "read it", error));
            }
            (On::File(file), PagePlace::Fixed(offset)) => file.read_exact_at(&mut page.0, offset),
            (On::Remote(remote), PagePlace::Fixed(offset)) => {
                let mut transfer = Transfer::new(0, NO_FILE, Call::Read, offset, BLOCK as u64);
                transfer.push(page.0.as_mut_ptr(), BLOCK);
                remote.run(transfer)
            }
            _ => return Err(no_head(self.name())),
        };
        read.map_err(|error| system(self.name(), "read it", error))?;
        Ok(page)
    }

    /// Writes one page at sector `at` of the whole device; durable after [`Device::sync`].
    ///
    /// # Errors
    /// Errors of the system or the server.
    pub fn write_page(&self, at: u64, page: &Page) -> Result<(), IoError> {
        let written = match (self.medium(), self.page_place(at)?) {
            (On::File(file), PagePlace::Zones(pages, sector)) => pages.write(sector, page, file),
            (On::File(file), PagePlace::Fixed(offset)) => file.write_all_at(&page.0, offset),
            (On::Remote(remote), PagePlace::Fixed(offset)) => {
                let mut transfer = Transfer::new(0, NO_FILE, Call::Write, offset, BLOCK as u64);
                transfer.push(page.0.as_ptr().cast_mut(), BLOCK);
                let written = remote.run(transfer);
                // The client compares the head when it reconnects, so it must have the newest one.
                if at == 0 && written.is_ok() {
                    remote.set_head(page);
                }
                written
            }
            _ => return Err(no_head(self.name())),
        };
        written.map_err(|error| system(self.name(), "write to it", error))
    }

    /// Returns the zones of this part, in the numbering of the whole device.
    pub fn own_zones(&self) -> Option<Range<u32>> {
        self.zones().and_then(Zoned::own_zones)
    }

    /// Lists the parts of a zoned device, or of the device to which this part belongs, with their
    /// zones.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn taken(&self) -> Result<Vec<ClaimedZones>, IoError> {
        let (Some(zoned), Some(file)) = (self.zones(), self.as_file()) else { return Ok(vec![]) };
        zoned.taken(file).map_err(|error| system(self.name(), "read its zones", error))
    }

    /// Resets the zones that hold the pages outside the window, if these are in zones. The device
    /// must not be used in this process afterwards.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn free_reserves(&self) -> Result<(), IoError> {
        let (Some(zoned), Some(file)) = (self.zones(), self.as_file()) else { return Ok(()) };
        zoned.free_reserves(file).map_err(|error| system(self.name(), "reset its zones", error))
    }

    /// Returns access to two pages, at these sectors of the whole device, for another thread.
    ///
    /// # Errors
    /// Errors of the system.
    pub fn reserve(&self, at: [u64; 2]) -> Result<Reserve, IoError> {
        let (name, places) = (self.name(), [self.page_place(at[0])?, self.page_place(at[1])?]);
        // A duplicate, so that the writer's thread does not depend on the lifetime of the device.
        let medium = match (self.as_file(), self.as_remote()) {
            (Some(file), _) => Medium::File(file.try_clone().map_err(|source| {
                IoError::System { name: name.into(), action: "open it again", source }
            })?),
            (None, Some(remote)) => Medium::Remote(remote.share()),
            (None, None) => Medium::None,
        };
        Ok(Reserve {
            name: name.into(),
            medium,
            writeback_errors: self.writeback_errors().clone(),
            places,
        })
    }
}

impl Reserve {
    /// Writes the first or the second page durably.
    ///
    /// # Errors
    /// Errors of the system or the server.
    pub fn write(&self, place: usize, page: &Page) -> Result<(), IoError> {
        let failed = |action| {
            let name = self.name.clone();
            move |source| IoError::System { name, action, source }
        };
        match (&self.medium, &self.places[place]) {
            (Medium::File(file), spot) => {
                let written = match spot {
                    PagePlace::Fixed(offset) => file.write_all_at(&page.0, *offset),
                    PagePlace::Zones(pages, sector) => pages.write(*sector, page, file),
                };
                written.map_err(failed("write to it"))?;
                // The kernel reports a writeback error to one flush only, so all users of the
                // device share the result.
                self.writeback_errors.flush(|| file.sync_all()).map_err(failed("flush it"))
            }
            (Medium::Remote(remote), PagePlace::Fixed(offset)) => {
                let mut transfer = Transfer::new(0, NO_FILE, Call::Write, *offset, BLOCK as u64);
                transfer.push(page.0.as_ptr().cast_mut(), BLOCK);
                remote.run(transfer).map_err(failed("write to it"))?;
                if *offset == 0 {
                    remote.set_head(page);
                }
                remote.run(Transfer::sync(0, NO_FILE)).map_err(failed("flush it"))
            }
            _ => Err(failed("write to it")(io::Error::other("it does not exist"))),
        }
    }
}
