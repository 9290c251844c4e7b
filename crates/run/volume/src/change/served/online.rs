//! A device that was lost comes back, and keeps what it has.

use hostftl_core::{Layer, MetaBuf, SECTORS_PER_BLOCK, Verb};
use hostftl_format::superblock::Superblock;
use hostftl_io::{Access, Device, zoned_path};
use uuid::Uuid;

use super::{CLOSED, Look, PATIENCE, Seats, lock, put};
use crate::open::stack::{Member, open_member};
use crate::open::take::clear::cleared;
use crate::running::superblock_writer::Has;
use crate::util::error::{AdminError, Error, device};

impl Seats {
    /// Takes a device back that the volume does without. Whether it was out; else it belongs
    /// already.
    ///
    /// # Errors
    /// Why it is not there, in words.
    pub(crate) fn online(&self, index: u8) -> Result<bool, AdminError> {
        let _changes = self.begin()?;
        if self.is_journal(index) {
            return self.journal_online(index);
        }
        if !self.seen(index)?.was_lost {
            return Ok(false);
        }
        let look = self.look(index)?;
        let name = self.config().devices[usize::from(index)].clone();
        if zoned_path(&name).is_some() {
            self.refuse_to_erase(&name)?;
        }
        self.leave_out(&look)?;
        let look = self.look(index)?;
        // What is open still may be what is gone; it is opened again when it is there.
        self.close(&look, &name)?;
        let member = open_member(&name, Access::Full)?;
        let own = verify(&member, &look.newest, index.into())?;
        let Member { device, .. } = member;
        if device.is_zoned() {
            // What is in zones can't be gone on with: all of it is made anew.
            self.note_offline(index, false)?;
            let device = cleared(device)?;
            return self.seat(&look, device).map(|_| true);
        }
        let has = self.last_on(&look, &device, &own)?;
        // A volume file that can't be written is found before a superblock is written.
        self.note_offline(index, false)?;
        let written = self.write_down(index, &device, Has::AllUpTo(Box::new(own)));
        let verb = Verb::Returned { device: index, has };
        lock(&self.live.news).rename(index, name);
        self.end(index, written.and_then(|()| self.exchange(index, device, verb)))?;
        Ok(true)
    }

    /// Refuses to make a device with zones anew that may have the only copy of something.
    fn refuse_to_erase(&self, name: &str) -> Result<(), AdminError> {
        let gauges = self.port.between(|driver, _| driver.layer().gauges()).ok_or(CLOSED)?;
        match gauges.map_or(0, |gauges| gauges.unreadable) {
            0 => Ok(()),
            bytes => Err(AdminError::refused(format!(
                "{name} has zones, which are erased when it comes back, and {bytes} bytes can't be \
                 read from the others: it may have the only copy. `hostftl device replace` takes \
                 another device instead, and leaves {name} as it is"
            ))),
        }
    }

    /// Closes a device that the layer does without: both ways to it.
    pub(super) fn close(&self, look: &Look, name: &str) -> Result<(), AdminError> {
        let (index, absent) = (look.index, Device::absent(name, look.length()));
        let nothing = absent.reserve([0, 0])?;
        let closed = self.port.between(|driver, jobs| {
            let old = put(driver, index, absent)?;
            Ok::<_, AdminError>((old, jobs.close_device(index, nothing)))
        });
        let (old, hears) = closed.ok_or(CLOSED)??;
        drop(old);
        hears.map_or(Ok(()), |hears| hears.recv_timeout(PATIENCE)).map_err(|_| CLOSED.into())
    }

    /// The last of what the layer wrote that the device has for sure.
    fn last_on(&self, look: &Look, device: &Device, own: &Superblock) -> Result<u64, AdminError> {
        let layer = self.layer_now(look);
        let roots = layer.kind.registration().promises.roots;
        let last_on = roots.ok_or("a device never comes back to such a layer")?.last_on;
        let mut read = |lba: u64, buf: &mut MetaBuf| {
            let from = own.data_start + lba;
            buf.pages_mut()
                .iter_mut()
                .zip((from..).step_by(SECTORS_PER_BLOCK as usize))
                .all(|(page, at)| device.read_page(at).map(|read| *page = read).is_ok())
        };
        last_on(&layer, &look.infos, look.index, &mut read)
            .map_err(|why| AdminError::refused(why.to_string()))
    }
}

/// Returns the superblock of a device that is to come back in place `index`. It must be the device
/// that was lost.
fn verify(own: &Member, newest: &Superblock, index: usize) -> Result<Superblock, Error> {
    let said = own.superblock;
    let is_it = said.volume == newest.volume
        && said.device == newest.members[index]
        && said.generation < newest.generation;
    if is_it {
        return Ok(said);
    }
    if said.device == newest.members[index] && said.volume == newest.volume {
        let why = "is as new as the others: it was not lost, or they are older copies";
        return Err(device(own.device.name(), why));
    }
    let (was, is) = (newest.members[index], said.device);
    let why = format!(
        "is not the device that was lost ({}) but {}; `hostftl device replace` takes it as a new \
         one",
        Uuid::from_bytes(was),
        Uuid::from_bytes(is)
    );
    Err(device(own.device.name(), why))
}
