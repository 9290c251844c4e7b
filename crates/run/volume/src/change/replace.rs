//! Replaces a device by a copy of it, or by an empty one that is rebuilt from the others.

use std::path::PathBuf;
use std::sync::Arc;

use hostftl_core::DeviceSet;
use hostftl_format::steps::{ADD, REBUILD};
use hostftl_format::superblock::Superblock;
use hostftl_io::Device;
use serde::{Deserialize, Serialize};

use super::changer::{Changer, Finding};
use super::effects::{Change, Place};
use crate::metadata::config::Config;
use crate::metadata::storage::is_same;
use crate::metadata::{modelled, storage};
use crate::open::machine::plan;
use crate::open::names::DeviceId;
use crate::open::take::take_with_room;
use crate::running::copying::Copying;
use crate::util::error::{AdminError, Error, device};
use crate::util::events::Level;

/// Request to replace a device.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplaceSpec {
    /// The volume file.
    pub path: PathBuf,
    /// The old device: its path, member number or UUID.
    pub old: String,
    /// The new device. A file that does not exist is created with the required size.
    pub new: String,
    /// Whether existing data may be overwritten. Devices in use are always refused.
    pub force: bool,
    /// Whether the change is only checked and nothing is written.
    pub rehearse: bool,
}

/// Result of a replacement, or of its rehearsal.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Replaced {
    /// The old device. The new one has the same member number.
    pub old: DeviceId,
    /// The new device, without a UUID after a rehearsal.
    pub new: DeviceId,
    /// Whether the old device was already lost.
    pub was_lost: bool,
    /// Whether the new device is a complete copy.
    pub copied: bool,
    /// Whether the copy is in progress. The old device is replaced when it ends.
    #[serde(default)]
    pub copying: bool,
    /// Whether data of the new device must be rebuilt, which happens while the volume is served.
    /// False for a journal, which starts empty.
    pub lacks: bool,
    /// Whether the volume is served, so that the rebuild has started.
    pub served: bool,
    /// Facts that the administrator should know.
    pub notes: Vec<String>,
}

impl Changer {
    /// Replaces a device. Returns the copy if one was started.
    pub(crate) fn replace(
        self: &Arc<Self>,
        spec: &ReplaceSpec,
    ) -> Result<(Replaced, Option<Arc<Copying>>), AdminError> {
        let _changes = self.begin()?;
        let index = self.find(&spec.old)?;
        let (old, new) = (self.id(index), new_name(&self.config(), index.into(), &spec.new)?);
        let is_journal = self.is_journal(index);
        let finding = self.may_replace(index)?;
        let was_lost = finding.was_lost;
        if !was_lost && (is_same(&new, &old.path) || storage::is_shared(&new, &old.path)) {
            let why = format!("is already device {index} of this volume");
            return Err(device(&spec.new, why).into());
        }
        // An interrupted replacement may have written to its device; repeating it needs no consent.
        let force = spec.force || self.file()?.pending.contains(&new);
        let taken = take_with_room((&spec.new, &new), &finding.peers, finding.length(), force)?;
        // Before the first write, so that an unsuitable device keeps its content.
        self.would_fit(&finding, &taken.device)?;
        let copying = !is_journal && self.can_copy(&finding, Some(&taken.device))?;
        let mut change = Change::new(self, Place::Member(Box::new(finding)), vec![new.clone()]);
        if !is_journal {
            change.notes = self.notes_on(index);
        }
        change.take(taken);
        let new = DeviceId { number: index, uuid: String::new(), path: new };
        let lacks = !copying && !is_journal;
        let notes = change.notes.clone();
        let mut replaced =
            Replaced { old, new, was_lost, copied: false, copying, lacks, served: true, notes };
        if spec.rehearse {
            return Ok((replaced, None));
        }
        if copying {
            return Ok((replaced, Some(change.begin_copy()?)));
        }
        let done = change.run(if is_journal { ADD } else { REBUILD }, 0);
        done.map_err(|why| change.explain(why, lacks && !was_lost))?;
        (replaced.new, replaced.notes) = (self.id(index), change.notes.clone());
        let (new, old) = (&replaced.new.path, &replaced.old.path);
        let rest = if lacks { "; its missing data is rebuilt from the others" } else { "" };
        let text = format!("{new} replaced device {index} ({old}){rest}");
        self.sources.samples.events.report_device(index, Level::Info, "device-replaced", text);
        Ok((replaced, None))
    }

    /// Checks whether member `index` can be replaced, and returns its state.
    fn may_replace(&self, index: u8) -> Result<Finding, AdminError> {
        if self.is_journal(index) {
            self.may_be_closed()?;
            return self.find_member(index);
        }
        let finding = self.find_member(index)?;
        let Superblock { missing, out, fresh, spare, .. } = finding.newest;
        let [missing, out, fresh, spare] = [missing, out, fresh, spare].map(DeviceSet::from_bits);
        let is_known = (missing | spare).contains(index);
        if self.is_rehearsal() && finding.was_lost && !is_known {
            // The loss is not accepted yet, so it must not exceed the redundancy.
            let lacking = fresh | finding.lacking;
            let away = ((missing - out) | lacking).with(index);
            if away.len() > self.layer().tolerates() {
                return Err(self.needed_by(index, (lacking - missing).without(index)));
            }
        }
        if self.layer().tolerates() > 0 {
            return self.examine(index);
        }
        self.can_copy(&finding, None)?;
        Ok(finding)
    }

    /// Checks that the layout stays the same with the new device.
    fn would_fit(&self, finding: &Finding, device: &Device) -> Result<(), AdminError> {
        let mut infos = finding.infos.clone();
        infos[usize::from(finding.index)] = device.info();
        let mut layer = self.layer_now(finding);
        // The layout is that with the new device present.
        layer.members.missing.remove(finding.index);
        let planned = plan(&layer, &infos)?;
        if planned.limits.exported == finding.newest.exported {
            Ok(())
        } else {
            Err(AdminError::refused(format!(
                "{} does not fit the layout of the volume",
                device.name()
            )))
        }
    }
}

/// Returns the full name of the new device for member `index`.
fn new_name(config: &Config, index: usize, asked: &str) -> Result<String, Error> {
    let new = modelled::full_name(asked)?;
    let mut others = config.devices.iter().enumerate().filter(|(at, _)| *at != index);
    match others.find(|(_, name)| is_same(name, &new) || storage::is_shared(name, &new)) {
        Some((at, _)) => Err(device(asked, format!("is already device {at} of this volume"))),
        None => Ok(new),
    }
}
