//! Returns a lost device to the volume with its data.

use std::sync::Arc;

use hostftl_core::{Layer, MetaBuf, SECTORS_PER_BLOCK};
use hostftl_format::steps::{TAKE_BACK, TAKE_JOURNAL_BACK};
use hostftl_format::superblock::Superblock;
use hostftl_io::{Device, zoned_path};
use uuid::Uuid;

use super::changer::{CLOSED, Changer, Finding, PATIENCE, put};
use super::effects::{Change, Place};
use crate::open::stack::Member;
use crate::util::error::{AdminError, Error, device};
use crate::util::events::Level;

impl Changer {
    /// Returns an excluded device to the volume. Returns `false` if it is already a member.
    pub(crate) fn online(self: &Arc<Self>, index: u8) -> Result<bool, AdminError> {
        let _changes = self.begin()?;
        let finding = self.find_member(index)?;
        if !finding.was_lost {
            return Ok(false);
        }
        let name = self.config().devices[usize::from(index)].clone();
        if self.is_journal(index) {
            // A journal returns by a reopening, because the layer reads it only during recovery.
            self.may_be_closed()?;
            let mut change =
                Change::new(self, Place::Member(Box::new(finding)), vec![name.clone()]);
            change.run(TAKE_JOURNAL_BACK, 0)?;
            let text = format!("journal {name} returned as device {index}");
            self.sources.samples.events.report_device(index, Level::Info, "device-joined", text);
            return Ok(true);
        }
        // Examined again: the layer refuses while the device is needed to rebuild another one.
        let finding = self.examine(index)?;
        if zoned_path(&name).is_some() {
            self.refuse_to_erase(&name)?;
        }
        Change::new(self, Place::Member(Box::new(finding)), vec![name]).run(TAKE_BACK, 0)?;
        Ok(true)
    }

    /// Refuses to erase a zoned device that may hold the only copy of some data.
    fn refuse_to_erase(&self, name: &str) -> Result<(), AdminError> {
        let gauges = self.port.between(|driver, _| driver.layer().gauges()).ok_or(CLOSED)?;
        match gauges.map_or(0, |gauges| gauges.unreadable) {
            0 => Ok(()),
            bytes => Err(AdminError::refused(format!(
                "{name} has zones, which are erased when it returns, and it may have the only copy \
                 of {bytes} bytes that the others cannot supply; `hostftl device replace` uses \
                 another device and leaves {name} unchanged"
            ))),
        }
    }

    /// Closes an excluded device, both in the driver and in the superblock writer.
    pub(super) fn close(&self, finding: &Finding, name: &str) -> Result<(), AdminError> {
        let (index, absent) = (finding.index, Device::absent(name, finding.length()));
        let nothing = absent.reserve([0, 0])?;
        let closed = self.port.between(|driver, jobs| {
            let old = put(driver, index, absent)?;
            Ok::<_, AdminError>((old, jobs.close_device(index, nothing)))
        });
        let (old, receiver) = closed.ok_or(CLOSED)??;
        // Closed outside the pause of the driver, because closing may block.
        drop(old);
        receiver
            .map_or(Ok(()), |receiver| receiver.recv_timeout(PATIENCE))
            .map_err(|_| CLOSED.into())
    }

    /// Verifies that a device is the lost one. Returns its superblock and the last write of the
    /// layer that it certainly holds, or `None` for a zoned device, whose data can't be continued.
    pub(super) fn verify(
        &self,
        finding: &Finding,
        found: &Member,
    ) -> Result<Option<(Superblock, u64)>, AdminError> {
        if self.is_journal(finding.index) {
            refuse_stranger(finding, found)?;
            return Ok(Some((found.superblock, 0)));
        }
        let own = verify(found, &finding.newest, finding.index.into())?;
        if found.device.is_zoned() {
            return Ok(None);
        }
        Ok(Some((own, self.last_on(finding, &found.device, &own)?)))
    }

    /// Returns the last write of the layer that the device certainly holds.
    fn last_on(
        &self,
        finding: &Finding,
        device: &Device,
        own: &Superblock,
    ) -> Result<u64, AdminError> {
        let layer = self.layer_now(finding);
        let roots = layer.kind.registration().promises.roots;
        let last_on = roots.ok_or("devices cannot return to this layer")?.last_on;
        let mut read = |lba: u64, buf: &mut MetaBuf| {
            let from = own.data_start + lba;
            buf.pages_mut()
                .iter_mut()
                .zip((from..).step_by(SECTORS_PER_BLOCK as usize))
                .all(|(page, at)| device.read_page(at).map(|read| *page = read).is_ok())
        };
        last_on(&layer, &finding.infos, finding.index, &mut read)
            .map_err(|why| AdminError::refused(why.to_string()))
    }
}

/// Refuses a device that is not the journal of this volume.
fn refuse_stranger(finding: &Finding, found: &Member) -> Result<(), AdminError> {
    let own = &found.superblock;
    if own.volume == finding.newest.volume && own.device == finding.uuid() {
        return Ok(());
    }
    Err(AdminError::refused(format!(
        "{} is not the journal of this volume; use `hostftl device replace` for another device",
        found.device.name()
    )))
}

/// Returns the superblock of a device that is to return as member `index`. It must be the lost
/// device.
fn verify(own: &Member, newest: &Superblock, index: usize) -> Result<Superblock, Error> {
    let recorded = own.superblock;
    let is_it = recorded.volume == newest.volume
        && recorded.device == newest.members[index]
        // The survivors recorded the loss with a higher generation.
        && recorded.generation < newest.generation;
    if is_it {
        return Ok(recorded);
    }
    if recorded.device == newest.members[index] && recorded.volume == newest.volume {
        let why = "is as new as the others: it was not lost, or the others are older copies";
        return Err(device(own.device.name(), why));
    }
    let (was, is) = (newest.members[index], recorded.device);
    let why = format!(
        "is not the lost device ({}) but {}; use `hostftl device replace` to add it as a new one",
        Uuid::from_bytes(was),
        Uuid::from_bytes(is)
    );
    Err(device(own.device.name(), why))
}
