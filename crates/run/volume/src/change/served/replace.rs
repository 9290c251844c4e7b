//! Another device, which holds nothing, comes in the place of one that is lost, or is left out now.

use std::sync::Arc;

use hostftl_core::{SECTOR, Verb};
use hostftl_format::superblock::Superblock;
use hostftl_io::Device;
use uuid::Uuid;

use super::{Look, Seats, lock};
use crate::change::replace::{ReplaceSpec, Replaced, new_name};
use crate::metadata::storage::is_same;
use crate::metadata::{claims, storage};
use crate::open::machine::plan;
use crate::open::names::DeviceId;
use crate::open::take::Taken;
use crate::open::take::clear::cleared;
use crate::open::take::take_with_room;
use crate::running::copying::Copying;
use crate::running::superblock_writer::Has;
use crate::util::error::{AdminError, device};
use crate::util::events::Level;

impl Seats {
    /// Puts another device in the place of one.
    ///
    /// # Errors
    /// Why it is not there, in words.
    pub(crate) fn replace(
        self: &Arc<Self>,
        spec: &ReplaceSpec,
    ) -> Result<(Replaced, Option<Arc<Copying>>), AdminError> {
        let _changes = self.begin()?;
        let config = self.config();
        let index = usize::from(self.find(&spec.old)?);
        let new = new_name(&config, index, &spec.new)?;
        if self.is_journal(index as u8) {
            return Ok((self.replace_journal(spec, (index as u8, new))?, None));
        }
        let look = self.to_replace(index as u8, &new)?;
        let file = self.file()?;
        let force = spec.force || file.pending.contains(&new);
        let taken = take_with_room((&spec.new, &new), &look.beside, look.length(), force);
        let Taken { device, undo, held } = taken?;
        self.would_fit(&look, &device)?;
        let (old, was_lost) = (self.id(look.index), look.was_lost);
        let mut notes = self.notes_on(look.index);
        notes.extend(held.map(|held| format!("{new} held {held}")));
        let copying = self.can_copy(&look, Some(&device))?;
        let (index, copied, lacks, served) = (look.index, false, !copying, true);
        let new = DeviceId { number: index, uuid: String::new(), path: new };
        let mut replaced = Replaced { old, new, was_lost, copied, copying, lacks, served, notes };
        if spec.rehearse {
            return Ok((replaced, None));
        }
        file.announce_at(index, &spec.path, &replaced.new.path)?;
        if copying {
            let begun = self.begin_copy(&look, (device, undo));
            let copying = begun.inspect_err(|_| drop(file.publish_again(&spec.path)))?;
            return Ok((replaced, Some(copying)));
        }
        let cleared = cleared(device).map_err(AdminError::from);
        let cleared = cleared.and_then(|device| self.leave_out(&look).map(|()| device));
        if cleared.is_err() {
            file.publish_again(&spec.path).ok();
        } else {
            // A superblock may say that it is a member.
            undo.keep();
        }
        match cleared.and_then(|device| self.seat(&look, device)) {
            Ok(warning) => replaced.notes.extend(warning),
            Err(why) if was_lost => return Err(why),
            Err(why) => {
                return Err(why.reword(|why| format!("{why}; device {index} is left out now")));
            }
        }
        replaced.new = self.id(index);
        let Replaced { new, old, .. } = &replaced;
        let text = format!(
            "{} is in the place of device {index} ({}); what it lacks is made from the others",
            new.path, old.path
        );
        self.live.watched.events.tell_of(index, Level::Info, "device-replaced", text);
        Ok((replaced, None))
    }

    /// Examines a member that is to be replaced by the device `new`.
    fn to_replace(&self, index: u8, new: &str) -> Result<Look, AdminError> {
        let (look, old) = (self.seen(index)?, self.id(index).path);
        if !look.was_lost && (is_same(new, &old) || storage::is_shared(new, &old)) {
            return Err(device(new, format!("is device {index} of this volume already")).into());
        }
        let Superblock { missing, out, spare, .. } = look.newest;
        if self.rehearsal.is_some() && look.was_lost && (missing | spare) >> index & 1 == 0 {
            // Nobody has agreed yet to do without it: nothing may be lost with it.
            let lacking = look.newest.fresh | look.lacking;
            let away = missing & !out | lacking | 1 << index;
            if away.count_ones() > self.layer().tolerates() {
                return Err(self.needed_by(index, lacking & !(missing | 1 << index)));
            }
        }
        if self.layer().tolerates() > 0 {
            return self.look(index);
        }
        self.can_copy(&look, None)?;
        Ok(look)
    }

    /// Whether the volume would be laid out with the new device as it is.
    pub(super) fn would_fit(&self, look: &Look, device: &Device) -> Result<(), AdminError> {
        let mut infos = look.infos.clone();
        infos[usize::from(look.index)] = device.info();
        let mut layer = self.layer_now(look);
        layer.members.missing.remove(look.index);
        let planned = plan(&layer, &infos)?;
        match planned.limits.exported == look.newest.exported {
            true => Ok(()),
            false => Err(AdminError::refused(format!(
                "{} is not one on which the volume would be laid out as it is",
                device.name()
            ))),
        }
    }

    /// Writes down that the device is in its place, and puts it there. Returns a warning if the
    /// volume's file could not be written.
    pub(super) fn seat(&self, look: &Look, device: Device) -> Result<Option<String>, AdminError> {
        let (index, name) = (look.index, device.name().to_owned());
        claims::make(&device, &look.newest)?;
        let (sectors, discard) = (device.bytes() / SECTOR as u64, device.info().discard);
        let was = Uuid::from_bytes(look.newest.members[usize::from(index)]);
        let written = self.write_down(index, &device, Has::Nothing(sectors));
        lock(&self.config).offline.remove(&was);
        let warning = written.is_ok().then(|| self.publish(index, &name)).flatten();
        let verb = Verb::Replaced { device: index, discard };
        self.end(index, written.and_then(|()| self.exchange(index, device, verb)))?;
        lock(&self.live.news).rename(index, name.clone());
        lock(&self.config).devices[usize::from(index)] = name;
        Ok(warning)
    }

    /// Makes the volume's file, which may have been changed since the start, name another device as
    /// member `index`. Returns a warning when it can't be written.
    pub(super) fn publish(&self, index: u8, name: &str) -> Option<String> {
        let mut file = match self.file() {
            Ok(file) => file,
            Err(why) => return Some(format!("warning: the device has changed, but {why}")),
        };
        file.pending.retain(|pending| pending != name);
        let old = std::mem::replace(&mut file.devices[usize::from(index)], name.into());
        if old != name {
            file.deadlines.remove(&old);
        }
        let served = self.config();
        file.offline.retain(|device| served.offline.contains(device));
        self.conclude(&file)
    }
}
