//! Who belongs to a volume: what the superblocks say, and how they are changed.
//!
//! Invariants
//! - Before a request is taken without a member, the superblocks of all others say so, durably. Not
//!   earlier: a volume that can't be recovered without it must find it welcome when it is back.
//! - Of the two copies on a device one is always whole: the second is written when the first is
//!   durable.

use hostftl_core::Page;
use hostftl_format::superblock::{Superblock, places};
use hostftl_io::{Device, IoError};

/// The superblocks of a volume's members, by index; `None` for one that is not there.
#[derive(Debug, Default)]
pub struct Roster(Vec<Option<Superblock>>);

impl Roster {
    /// Of a volume that was just assembled.
    pub fn new(superblocks: Vec<Option<Superblock>>) -> Self {
        Roster(superblocks)
    }

    /// Makes the superblocks say that the members `lost`, a set of bits, do not belong any more.
    /// Those that a change which was cut off left behind are brought up to date first.
    ///
    /// # Errors
    /// When a member can't be written.
    pub fn settle(&mut self, devices: &[Device], lost: u16) -> Result<(), IoError> {
        let newest = self.0.iter().flatten().max_by_key(|one| one.generation).copied();
        let Some(newest) = newest else { return Ok(()) };
        self.write(devices, lost, newest.generation, newest.missing)?;
        let missing = newest.missing | lost;
        match missing == newest.missing {
            true => Ok(()),
            false => self.write(devices, missing, newest.generation + 1, missing),
        }
    }

    /// Writes the superblocks that are not like this, but for those of `lost` members.
    fn write(
        &mut self,
        devices: &[Device],
        lost: u16,
        generation: u64,
        missing: u16,
    ) -> Result<(), IoError> {
        for (one, device) in self.0.iter_mut().zip(devices) {
            let Some(one) = one else { continue };
            let wanted = Superblock { generation, missing, ..*one };
            if *one != wanted && lost >> one.index & 1 == 0 {
                write_ends(device, one.device_sectors, |at| wanted.emit(at))?;
                *one = wanted;
            }
        }
        Ok(())
    }
}

/// Writes the places of both superblocks of a device of `sectors` sectors, one after the other,
/// durably.
///
/// # Errors
/// When the device can't be written.
pub fn write_ends(one: &Device, sectors: u64, page: impl Fn(u64) -> Page) -> Result<(), IoError> {
    for at in places(sectors) {
        one.write_page(at, &page(at))?;
        one.sync()?;
    }
    Ok(())
}
