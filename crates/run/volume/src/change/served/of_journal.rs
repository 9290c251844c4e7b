//! A device comes in the place of the journal's of a volume that is served: another one, or the
//! journal's own, which was away. A layer that was closed clean needs nothing of its journal, so it
//! is closed, and opened again with the device, while clients wait. What the journal's own holds
//! still is of a life that is over, and not believed.
//!
//! The order is that of [`crate::change::replace`]: a new device is cleared beside the clients;
//! with the layer closed its superblock is written, those of the others, and the volume's file.
//! Until a superblock of the others is written the volume goes on as it was when something is
//! wrong. A cut later leaves a volume that was closed clean and misses its journal.

use std::time::Instant;

use hostftl_core::SECTOR;
use hostftl_format::roster::{Record, Standing};
use hostftl_format::superblock::Superblock;
use hostftl_io::{Access, Device, Driver};
use hostftl_layers::{AnyLayer, LayerConfig};

use super::{CLOSED, Look, Seats, lock};
use crate::change::replace::{ReplaceSpec, Replaced};
use crate::metadata::config::Config;
use crate::metadata::superblocks;
use crate::metadata::superblocks::describe;
use crate::open::names::DeviceId;
use crate::open::stack::{Member, open_member};
use crate::open::take::Taken;
use crate::open::take::clear::cleared;
use crate::open::take::take_with_room;
use crate::running::jobs::Jobs;
use crate::running::reopen::{self, Rest};
use crate::util::error::{AdminError, Error};
use crate::util::events::Level;

/// A device that is about to come.
struct Change {
    index: u8,
    device: Device,
    /// What it says of itself, if it was the journal's before.
    own: Option<Superblock>,
    /// The volume's file as it is then.
    file: Config,
    layer: LayerConfig,
}

/// A warning if the volume's file could not be written once the device was in its place, or why
/// nothing was changed.
type Seated = Result<Option<String>, Error>;

impl Seats {
    /// Puts another device in the place of the journal's, which is that with this number. The new
    /// one has this full name.
    ///
    /// # Errors
    /// Why it is not there, in words.
    pub(super) fn replace_journal(
        &self,
        spec: &ReplaceSpec,
        (index, new): (u8, String),
    ) -> Result<Replaced, AdminError> {
        let mut file = self.file()?;
        let before = file.clone();
        let force = spec.force || file.pending.contains(&new);
        let layer = file
            .layer_config()
            .map_err(|why| AdminError::from(Error::Config { path: spec.path.clone(), why }))?;
        self.may_be_closed()?;
        let look = self.seen(index)?;
        let taken = take_with_room((&spec.new, &new), &look.beside, look.length(), force);
        let Taken { device, undo, held } = taken?;
        self.would_fit(&look, &device)?;
        let was = std::mem::replace(&mut file.devices[usize::from(index)], new.clone());
        file.deadlines.remove(&was);
        let old = self.id(index);
        let notes = held.map(|held| format!("{new} held {held}")).into_iter().collect();
        let (was_lost, copied, copying) = (look.was_lost, false, false);
        let (lacks, served) = (false, true);
        let new = DeviceId { number: index, uuid: String::new(), path: new };
        let mut replaced = Replaced { old, new, was_lost, copied, copying, lacks, served, notes };
        if spec.rehearse {
            return Ok(replaced);
        }
        before.announce_at(index, &spec.path, &replaced.new.path)?;
        let withdraw = |error: AdminError| {
            before.publish_again(&spec.path).ok();
            error
        };
        let device = cleared(device).map_err(AdminError::from).map_err(withdraw)?;
        file.pending.retain(|name| *name != replaced.new.path);
        let change = Change { index, device, own: None, file, layer };
        let (seated, waited) = self.seat_journal(change);
        if !matches!(seated, Ok(Err(_))) {
            // A superblock may say that it is a member.
            undo.keep();
        }
        replaced.notes.extend(seated?.map_err(withdraw)?);
        replaced.new = self.id(index);
        let text = format!(
            "{} is in the place of device {index}, the journal's ({}); clients waited {waited} ms \
             for it",
            replaced.new.path, replaced.old.path
        );
        self.live.watched.events.tell_of(index, Level::Info, "device-replaced", text);
        Ok(replaced)
    }

    /// Takes the journal's own device back, which was away. Whether it was; else it belongs
    /// already.
    ///
    /// # Errors
    /// Why it is not there, in words.
    pub(super) fn journal_online(&self, index: u8) -> Result<bool, AdminError> {
        let look = self.seen(index)?;
        if !look.was_lost {
            return Ok(false);
        }
        let (file, layer) = (self.config(), self.layer());
        let name = file.devices[usize::from(index)].clone();
        self.may_be_closed()?;
        // What is open still may be what is gone.
        self.close(&look, &name)?;
        let Member { device, superblock, .. } = open_member(&name, Access::Full)?;
        refuse_stranger(&look, &name, &superblock)?;
        let change = Change { index, device, own: Some(superblock), file, layer };
        let (seated, waited) = self.seat_journal(change);
        seated??;
        let text = format!(
            "{name}, the journal's, is back as device {index}; clients waited {waited} ms for it"
        );
        self.live.watched.events.tell_of(index, Level::Info, "device-joined", text);
        Ok(true)
    }

    /// Puts a device in the journal's place, and says for how many milliseconds clients waited. The
    /// inner result is a warning if the volume's file could not be written, or why nothing was
    /// changed; the outer error is why the volume is over.
    fn seat_journal(
        &self,
        change: Change,
    ) -> (Result<Result<Option<String>, AdminError>, AdminError>, u128) {
        let begun = Instant::now();
        let renewed = self.port.renew(|driver, jobs| self.reopen_with(change, driver, jobs));
        let seated = renewed.unwrap_or_else(|| Err(CLOSED.into()));
        let seated = seated.map(|seated| seated.map_err(AdminError::from));
        (seated, begun.elapsed().as_millis())
    }

    /// Closes the layer and opens it with the device that comes, and whether the volume's file says
    /// so; or as it was, and why.
    fn reopen_with(
        &self,
        change: Change,
        driver: Driver<AnyLayer>,
        jobs: &mut Jobs,
    ) -> Result<(Driver<AnyLayer>, Seated), Error> {
        let mut rest = reopen::close(driver, jobs)?;
        let (mut config, count) = (self.config(), rest.devices.len());
        let Change { index, device, own, file, layer } = change;
        let at = usize::from(index);
        let written = self.write_journal(index, (&device, own), &rest);
        let seated = match written {
            Ok(record) => {
                rest.devices[at] = device;
                rest.lost &= !(1 << index);
                rest.roster.replace(index, record);
                rest.roster.settle(&rest.devices, Standing::of_lost(rest.lost))?;
                config.devices.clone_from(&file.devices);
                config.deadlines.clone_from(&file.deadlines);
                Ok(if own.is_none() { self.conclude(&file) } else { None })
            }
            Err(error) => Err(error),
        };
        let opened = reopen::open(rest, (&config, layer), (&self.port, &self.live), jobs)?;
        if seated.is_ok() {
            let device = &opened.driver.devices()[at];
            let uuid = jobs.said().map_or([0; 16], |said| said.members[at]);
            lock(&self.live.faces).replace(index, device, uuid, &self.live.watched.events);
            lock(&self.live.news).rename(index, device.name().to_owned());
        }
        self.show(&opened, &config, count, jobs);
        *lock(&self.layer) = opened.layer;
        *lock(&self.config) = config;
        Ok((opened.driver, seated))
    }

    /// Writes the superblock of the device that comes, which lacks nothing, and how this run ends
    /// if it does not end well.
    fn write_journal(
        &self,
        index: u8,
        (device, own): (&Device, Option<Superblock>),
        rest: &Rest,
    ) -> Result<Record, Error> {
        let said = rest.roster.target().ok_or_else(|| Error::Failed(CLOSED.into()))?;
        let mut superblock = match own {
            None => superblocks::replacement(&said, index, device.bytes() / SECTOR as u64),
            Some(own) => superblocks::comeback(&said, &own),
        };
        (superblock.fresh, superblock.returning) = (said.fresh, said.returning);
        describe(device, &superblock)?;
        self.mark(&rest.devices, device)?;
        Ok(Record { superblock, sound: [true; 2] })
    }
}

/// Refuses a device that is not the journal's of this volume.
fn refuse_stranger(look: &Look, name: &str, own: &Superblock) -> Result<(), AdminError> {
    let wanted = look.newest.members[usize::from(look.index)];
    match own.volume == look.newest.volume && own.device == wanted {
        true => Ok(()),
        false => Err(AdminError::refused(format!(
            "{name} is not the journal's device of this volume; `hostftl device replace` takes \
             another one in its place"
        ))),
    }
}
