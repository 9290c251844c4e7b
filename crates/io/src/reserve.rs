//! The pages beside a device's window, for another thread than the driver's: superblocks change
//! while the layer works.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::time::Duration;

use hostftl_core::{BLOCK, Page};

use crate::device::Device;
use crate::error::IoError;
use crate::nbd::Shared;
use crate::transfer::{Call, NO_FILE, Transfer};
use crate::trust::Trust;

/// The two places of a device at which superblocks lie.
#[derive(Debug)]
pub struct Reserve {
    name: String,
    medium: Medium,
    trust: Arc<Trust>,
    /// Where the places begin, in bytes.
    places: [u64; 2],
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
        let offset = self.places[place];
        let failed = |what| {
            let name = self.name.clone();
            move |source| IoError::System { name, what, source }
        };
        match &self.medium {
            Medium::File(file) => {
                file.write_all_at(&page.0, offset).map_err(failed("write to it"))?;
                self.trust.flush(|| file.sync_all()).map_err(failed("flush it"))
            }
            Medium::Remote(remote) => {
                let mut transfer = Transfer::new(0, NO_FILE, Call::Write, offset, BLOCK as u64);
                transfer.push(page.0.as_ptr().cast_mut(), BLOCK);
                remote.run(transfer).map_err(failed("write to it"))?;
                if offset == 0 {
                    remote.set_head(page);
                }
                remote.run(Transfer::sync(0, NO_FILE)).map_err(failed("flush it"))
            }
            Medium::None => Err(failed("write to it")(io::Error::other("it is not there"))),
        }
    }
}
