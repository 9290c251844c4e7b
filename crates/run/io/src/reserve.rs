//! The pages beside a device's window, which have superblocks, and the way to two of them for
//! another thread than the driver's: superblocks change while the layer works.

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
use crate::trust::Trust;
use crate::zoned::{Spot, Taken, Zoned};

/// The two places of a device at which superblocks lie.
#[derive(Debug)]
pub struct Reserve {
    name: String,
    medium: Medium,
    trust: Arc<Trust>,
    /// Where the places are.
    places: [Spot; 2],
}

/// What does the transfers.
#[derive(Debug)]
enum Medium {
    /// The kernel.
    File(File),
    /// A server.
    Remote(Arc<Shared>),
    /// Nothing can be written.
    None,
}

impl Device {
    /// A command may take so long from now on. Whether the device sees to that itself, so that
    /// nobody else has to: a server's client does, and whoever drives the device does for others.
    pub fn set_deadline(&self, most: Duration) -> bool {
        self.as_remote().map(|remote| remote.set_deadline(most)).is_some()
    }

    /// Where a page at sector `at` of the whole device lies.
    fn page_place(&self, at: u64) -> Result<Spot, IoError> {
        let at = at * SECTOR as u64;
        let Some(zoned) = self.zones() else { return Ok(Spot::Fixed(at)) };
        let why = "there is no place beside its segments";
        let why = || system(self.name(), "look at it", io::Error::other(why));
        zoned.reserve(at).ok_or_else(why)
    }

    /// Reads one page at sector `at` of the whole device.
    ///
    /// # Errors
    /// What the system or the server says.
    pub fn read_page(&self, at: u64) -> Result<Page, IoError> {
        let mut page = Page::default();
        let read = match (self.medium(), self.page_place(at)?) {
            (On::File(file), Spot::Zones(pages, sector)) => {
                return pages
                    .read(sector, file)
                    .map_err(|error| system(self.name(), "read it", error));
            }
            (On::File(file), Spot::Fixed(offset)) => file.read_exact_at(&mut page.0, offset),
            (On::Remote(remote), Spot::Fixed(offset)) => {
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
    /// What the system or the server says.
    pub fn write_page(&self, at: u64, page: &Page) -> Result<(), IoError> {
        let written = match (self.medium(), self.page_place(at)?) {
            (On::File(file), Spot::Zones(pages, sector)) => pages.write(sector, page, file),
            (On::File(file), Spot::Fixed(offset)) => file.write_all_at(&page.0, offset),
            (On::Remote(remote), Spot::Fixed(offset)) => {
                let mut transfer = Transfer::new(0, NO_FILE, Call::Write, offset, BLOCK as u64);
                transfer.push(page.0.as_ptr().cast_mut(), BLOCK);
                let written = remote.run(transfer);
                if at == 0 && written.is_ok() {
                    remote.set_head(page);
                }
                written
            }
            _ => return Err(no_head(self.name())),
        };
        written.map_err(|error| system(self.name(), "write to it", error))
    }

    /// The zones that are its own, in the numbers of the device of which it is a part.
    pub fn own_zones(&self) -> Option<Range<u32>> {
        self.zones().and_then(Zoned::own_zones)
    }

    /// Who has which zones of a zoned device, or of the one of which it is a part.
    ///
    /// # Errors
    /// What the system says.
    pub fn taken(&self) -> Result<Vec<Taken>, IoError> {
        let (Some(zoned), Some(file)) = (self.zones(), self.as_file()) else { return Ok(vec![]) };
        zoned.taken(file).map_err(|error| system(self.name(), "read its zones", error))
    }

    /// Resets the zones in which the pages beside its window lie, if they lie in zones, for a
    /// device that is not used any more in this process.
    ///
    /// # Errors
    /// What the system says.
    pub fn free_reserves(&self) -> Result<(), IoError> {
        let (Some(zoned), Some(file)) = (self.zones(), self.as_file()) else { return Ok(()) };
        zoned.free_reserves(file).map_err(|error| system(self.name(), "reset its zones", error))
    }

    /// The places of two pages, at these sectors of the whole device, for another thread.
    ///
    /// # Errors
    /// What the system says.
    pub fn reserve(&self, at: [u64; 2]) -> Result<Reserve, IoError> {
        let (name, places) = (self.name(), [self.page_place(at[0])?, self.page_place(at[1])?]);
        let medium = match (self.as_file(), self.as_remote()) {
            (Some(file), _) => Medium::File(file.try_clone().map_err(|source| {
                IoError::System { name: name.into(), what: "open it again", source }
            })?),
            (None, Some(remote)) => Medium::Remote(remote.share()),
            (None, None) => Medium::None,
        };
        Ok(Reserve { name: name.into(), medium, trust: self.trust().clone(), places })
    }
}

impl Reserve {
    /// Writes the page at the first or the second place, durably.
    ///
    /// # Errors
    /// What the system or the server says.
    pub fn write(&self, place: usize, page: &Page) -> Result<(), IoError> {
        let failed = |what| {
            let name = self.name.clone();
            move |source| IoError::System { name, what, source }
        };
        match (&self.medium, &self.places[place]) {
            (Medium::File(file), spot) => {
                let written = match spot {
                    Spot::Fixed(offset) => file.write_all_at(&page.0, *offset),
                    Spot::Zones(pages, sector) => pages.write(*sector, page, file),
                };
                written.map_err(failed("write to it"))?;
                self.trust.flush(|| file.sync_all()).map_err(failed("flush it"))
            }
            (Medium::Remote(remote), Spot::Fixed(offset)) => {
                let mut transfer = Transfer::new(0, NO_FILE, Call::Write, *offset, BLOCK as u64);
                transfer.push(page.0.as_ptr().cast_mut(), BLOCK);
                remote.run(transfer).map_err(failed("write to it"))?;
                if *offset == 0 {
                    remote.set_head(page);
                }
                remote.run(Transfer::sync(0, NO_FILE)).map_err(failed("flush it"))
            }
            _ => Err(failed("write to it")(io::Error::other("it is not there"))),
        }
    }
}
