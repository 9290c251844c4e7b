//! Who belongs to a volume: what the superblocks say, and how they are changed.
//!
//! Invariants
//! - Before a request is taken without a member, the superblocks of all others say so, durably. Not
//!   earlier: a volume that can't be recovered without it must find it welcome when it is back.
//! - Which copy is written when is decided by `hostftl_format::roster`.

use std::time::{SystemTime, UNIX_EPOCH};

use hostftl_core::{Layer, Page, SECTOR};
use hostftl_format::roster::{Record, Roster as Pure, Stamp, Standing, Write};
use hostftl_format::superblock::{Superblock, places};
use hostftl_io::{Device, IoError, cuts};
use uuid::Uuid;

/// The superblocks of a volume's members, by index; `None` for one that is not there.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pure: Pure,
    /// The sectors of each device; 0 for one that is not there.
    sectors: Vec<u64>,
}

impl Roster {
    /// Of a volume that was just assembled.
    pub(crate) fn new(records: Vec<Option<Record>>) -> Self {
        let sectors = records.iter().map(|it| it.map_or(0, |it| it.superblock.device_sectors));
        Roster { sectors: sectors.collect(), pure: Pure::new(records) }
    }

    /// Whether there are no superblocks at all: the volume is in memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.sectors.is_empty()
    }

    /// The sectors of each device, by index; 0 for one that is not there.
    pub(crate) fn sectors(&self) -> impl Iterator<Item = u64> {
        self.sectors.iter().copied()
    }

    /// See [`Pure::next`].
    pub(crate) fn next(&mut self, standing: Standing) -> Option<Write> {
        self.pure.next(standing, stamp)
    }

    /// See [`Pure::replace`].
    pub(crate) fn replace(&mut self, index: u8, record: Record) {
        self.sectors[usize::from(index)] = record.superblock.device_sectors;
        self.pure.replace(index, record);
    }

    /// See [`Pure::add`].
    pub(crate) fn add(&mut self, records: &[Record]) {
        self.sectors.extend(records.iter().map(|it| it.superblock.device_sectors));
        self.pure.add(records.iter().copied());
    }

    /// See [`Pure::target`].
    pub(crate) fn target(&self) -> Option<Superblock> {
        self.pure.target()
    }

    /// See [`Pure::may_promise`].
    pub(crate) fn may_promise(&self, lost: u16) -> bool {
        self.pure.may_promise(lost)
    }

    /// A copy is durable.
    pub(crate) fn wrote(&mut self, write: &Write) {
        self.pure.wrote(write);
    }

    /// A copy could not be written.
    pub(crate) fn failed(&mut self, write: &Write) {
        self.pure.failed(write);
    }

    /// Makes the superblocks say how the members stand. Those that a change which was cut off left
    /// behind are brought up to date first.
    ///
    /// # Errors
    /// When a member can't be written.
    pub(crate) fn settle(&mut self, devices: &[Device], standing: Standing) -> Result<(), IoError> {
        while let Some(write) = self.next(standing) {
            let device = &devices[usize::from(write.member)];
            let (at, page) = page_of(&write);
            let written = device.write_page(at, &page).and_then(|()| device.sync());
            match written {
                Ok(()) => {
                    cuts::step();
                    self.wrote(&write);
                }
                Err(error) => {
                    self.failed(&write);
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// What a layer says of the members, of which those of `fresh` came in the place of others.
pub(crate) fn standing(layer: &impl Layer, fresh: u16) -> Standing {
    let members = layer.members();
    let lost = members.lost();
    Standing {
        lost,
        out: Some(members.rebuilt()),
        joined: fresh & !members.coming() & !lost,
        gone: members.removed(),
        leaving: Some(members.leaving()),
        spare: Some(members.spares()),
    }
}

/// What a write of one copy is on its device: the sector, and the page.
pub(crate) fn page_of(write: &Write) -> (u64, Page) {
    let at = places(write.superblock.device_sectors)[write.copy];
    (at, write.superblock.emit(at))
}

/// What a change that is made now is called.
pub(crate) fn stamp() -> Stamp {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let change = Uuid::new_v4().as_u64_pair().0;
    // A UUID of version 4 is never zero; a clock that was never set may be.
    Stamp { change, at: at.max(1) }
}

/// Writes the places of both superblocks of a device of `sectors` sectors, one after the other,
/// durably.
///
/// # Errors
/// When the device can't be written.
pub(crate) fn write_ends(
    one: &Device,
    sectors: u64,
    page: impl Fn(u64) -> Page,
) -> Result<(), IoError> {
    for at in places(sectors) {
        one.write_page(at, &page(at))?;
        one.sync()?;
        cuts::step();
    }
    Ok(())
}

/// Leaves no superblock on a device.
pub(crate) fn clear_ends(one: &Device) -> Result<(), IoError> {
    write_ends(one, one.bytes() / SECTOR as u64, |_| Page::default())
}
