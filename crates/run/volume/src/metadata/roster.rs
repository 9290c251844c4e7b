//! Member list of a volume: its record in the superblocks, and changes of it.
//!
//! # Invariants
//! - Before the volume serves a request without a member, the superblocks of all others durably
//!   exclude it. They do so no earlier: if the volume can't be recovered without the member, the
//!   member must still be accepted when it returns.
//! - `hostftl_format::roster` decides the order in which copies are written.

use std::time::{SystemTime, UNIX_EPOCH};

use hostftl_core::{DeviceSet, Layer, Page, SECTOR};
use hostftl_format::roster::{Record, Roster as Pure, Stamp, Standing, Write};
use hostftl_format::superblock::{Superblock, places};
use hostftl_io::{Device, IoError, cuts};
use uuid::Uuid;

/// Superblocks of a volume's members, by index; `None` for an absent member.
#[derive(Debug, Default)]
pub(crate) struct Roster {
    pure: Pure,
    /// Length of each device in sectors; 0 for an absent device.
    sectors: Vec<u64>,
}

impl Roster {
    /// Creates the roster of a volume that was just assembled.
    pub(crate) fn new(records: Vec<Option<Record>>) -> Self {
        let sectors = records.iter().map(|it| it.map_or(0, |it| it.superblock.device_sectors));
        Roster { sectors: sectors.collect(), pure: Pure::new(records) }
    }

    /// Returns whether there are no superblocks: the volume is in memory.
    pub(crate) fn is_empty(&self) -> bool {
        self.sectors.is_empty()
    }

    /// Returns the length of each device in sectors, by index; 0 for an absent device.
    pub(crate) fn sectors(&self) -> impl Iterator<Item = u64> {
        self.sectors.iter().copied()
    }

    /// Replaces the record of a member; see [`Pure::replace`].
    pub(crate) fn replace(&mut self, index: u8, record: Record) {
        self.sectors[usize::from(index)] = record.superblock.device_sectors;
        self.pure.replace(index, record);
    }

    /// Writes the superblock of a device that replaces a member; see [`Pure::install`].
    pub(crate) fn install(
        &mut self,
        superblock: Superblock,
        write: impl FnMut(&Write) -> Result<(), IoError>,
    ) -> Result<(), IoError> {
        self.pure.install(superblock, write)?;
        self.sectors[usize::from(superblock.index)] = superblock.device_sectors;
        Ok(())
    }

    /// Adds new members; see [`Pure::add`].
    pub(crate) fn add(&mut self, records: &[Record]) {
        self.sectors.extend(records.iter().map(|it| it.superblock.device_sectors));
        self.pure.add(records.iter().copied());
    }

    /// Returns the superblock that the members should have; see [`Pure::target`].
    pub(crate) fn target(&self) -> Option<Superblock> {
        self.pure.target()
    }

    /// Returns the devices that hold no data, because it was rebuilt on the others.
    pub(crate) fn rebuilt(&self) -> DeviceSet {
        DeviceSet::from_bits(self.target().map_or(0, |target| target.out))
    }

    /// Returns whether requests may be served without `lost`; see [`Pure::may_promise`].
    pub(crate) fn may_promise(&self, lost: DeviceSet) -> bool {
        self.pure.may_promise(lost.to_bits())
    }

    /// Updates the superblocks to the states of the members; see [`Pure::settle`].
    pub(crate) fn settle_with(
        &mut self,
        standing: Standing,
        write: impl FnMut(&Write) -> Result<(), IoError>,
    ) -> Result<(), (u8, IoError)> {
        self.pure.settle(standing, stamp, write)
    }

    /// Updates the superblocks on these devices like [`Roster::settle_with`].
    pub(crate) fn settle(&mut self, devices: &[Device], standing: Standing) -> Result<(), IoError> {
        let written = self.settle_with(standing, |write| {
            let device = &devices[usize::from(write.member)];
            let (at, page) = encode_page(write);
            // Each copy must be durable before the next one is chosen.
            device.write_page(at, &page)?;
            device.sync()?;
            cuts::step();
            Ok(())
        });
        written.map_err(|(_, error)| error)
    }
}

/// Returns the member states of a layer; members of `fresh` have replaced others.
pub(crate) fn standing(layer: &impl Layer, fresh: DeviceSet) -> Standing {
    let members = layer.members();
    let lost = members.lost();
    Standing {
        lost: lost.to_bits(),
        out: Some(members.rebuilt().to_bits()),
        // A replacement has joined once no chunk is missing and it was not lost meanwhile.
        joined: (fresh - members.coming() - lost).to_bits(),
        removed: members.removed().to_bits(),
        leaving: Some(members.leaving().to_bits()),
        spare: Some(members.spares().to_bits()),
    }
}

/// Returns the sector and the page of a superblock write.
pub(crate) fn encode_page(write: &Write) -> (u64, Page) {
    let at = places(write.superblock.device_sectors)[write.copy];
    (at, write.superblock.emit(at))
}

/// Returns an identifier and the time for a new change.
pub(crate) fn stamp() -> Stamp {
    let at = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let change = Uuid::new_v4().as_u64_pair().0;
    // A UUID of version 4 is never zero, but a clock that was never set may be.
    Stamp { change, at: at.max(1) }
}

/// Writes both superblock copies of a device of `sectors` sectors, one after the other, durably.
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

/// Clears both superblock copies of a device.
pub(crate) fn clear_ends(one: &Device) -> Result<(), IoError> {
    write_ends(one, one.bytes() / SECTOR as u64, |_| Page::default())
}
