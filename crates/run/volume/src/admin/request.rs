//! Operator requests to a served volume, and their outcomes.
//!
//! An [`AdminRequest`] goes as JSON to the process that serves the volume, whose [`Admin`]
//! translates it to a command of the layer.

use std::path::Path;
use std::sync::Arc;

use hostftl_core::{AdminCommand, AdminOutcome, Scrub, Setting};
use serde::{Deserialize, Serialize};

use crate::change::add::{AddSpec, Added};
use crate::change::changer::Changer;
use crate::change::replace::{ReplaceSpec, Replaced};
use crate::metadata::config::Config;
use crate::metadata::settings::change;
use crate::open::names::{DeviceId, complete};
use crate::running::copying::Copying;
use crate::util::error::{AdminError, AdminErrorKind, Error};

/// Request of an operator. A device is named by a path to it, its member number or its UUID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AdminRequest {
    /// Stop using a device.
    Offline(String),
    /// Take a device back.
    Online(String),
    /// Move the data of a device to the others, then remove it.
    Remove(String),
    /// Check whether a removal would start.
    MayRemove(String),
    /// Cancel the change of a device that is in progress.
    Cancel(String),
    /// Start a scrub, or resume a paused one.
    Scrub,
    /// Pause the scrub.
    PauseScrub,
    /// Resume the scrub.
    ResumeScrub,
    /// Stop the scrub at its current position.
    StopScrub,
    /// Acknowledge the events so far, or those of a device.
    Clear(Option<String>),
    /// Change a parameter.
    Set {
        /// Name of the parameter.
        key: String,
        /// Value, in the syntax of `create --layer`.
        value: String,
    },
}

/// Outcome of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether something was changed or started; otherwise the state was as requested already.
    pub is_new: bool,
    /// The device concerned, if any.
    #[serde(default)]
    pub device: Option<DeviceId>,
    /// Warnings, such as that the device is healthy.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Outcome {
    /// Returns the outcome of a command that concerns no device.
    pub(crate) fn for_volume(is_new: bool) -> Self {
        Outcome { is_new, device: None, notes: Vec::new() }
    }
}

impl AdminRequest {
    /// Returns the request with the complete name of its device; see [`complete`].
    pub(crate) fn completed(&self, config: &Config) -> Result<Self, Error> {
        let whole = |name: &String| complete(name, config);
        Ok(match self {
            AdminRequest::Offline(name) => AdminRequest::Offline(whole(name)?),
            AdminRequest::Online(name) => AdminRequest::Online(whole(name)?),
            AdminRequest::Remove(name) => AdminRequest::Remove(whole(name)?),
            AdminRequest::MayRemove(name) => AdminRequest::MayRemove(whole(name)?),
            AdminRequest::Cancel(name) => AdminRequest::Cancel(whole(name)?),
            AdminRequest::Clear(Some(name)) => AdminRequest::Clear(Some(whole(name)?)),
            other => other.clone(),
        })
    }
}

/// Carries out requests in the process that serves a volume.
#[derive(Debug)]
pub(crate) struct Admin {
    /// Devices and the layer over them.
    changer: Arc<Changer>,
}

impl Admin {
    /// Creates the operator of the volume with these devices.
    pub(crate) fn new(changer: Changer) -> Self {
        Admin { changer: Arc::new(changer) }
    }

    /// Replaces a device of the served volume.
    pub(crate) fn replace(&self, spec: &ReplaceSpec) -> Result<Replaced, AdminError> {
        self.begin_to_replace(spec).map(|(replaced, _)| replaced)
    }

    /// Replaces a device, and returns the copy if one was started.
    pub(crate) fn begin_to_replace(
        &self,
        spec: &ReplaceSpec,
    ) -> Result<(Replaced, Option<Arc<Copying>>), AdminError> {
        self.changer.replace(&ReplaceSpec { path: self.changer.path().into(), ..spec.clone() })
    }

    /// Adds devices to the served volume.
    pub(crate) fn add(&self, spec: &AddSpec) -> Result<Added, AdminError> {
        self.changer.add(&AddSpec { path: self.changer.path().into(), ..spec.clone() })
    }

    /// Ends the copy of a device, if one is in progress, because the volume is being closed.
    pub(crate) fn end_copy(&self) {
        self.changer.end_copy();
    }

    /// Carries out a request.
    pub(crate) fn act(&self, request: &AdminRequest) -> Result<Outcome, AdminError> {
        let command = match request {
            AdminRequest::Offline(name) => {
                self.changer.refuse_while_copying()?;
                let index = self.changer.find(name)?;
                let mut notes = self.changer.notes_on(index);
                // Before the exclusion, so that less data must be resilvered when the device
                // returns.
                self.changer.settle();
                let is_new = self.changer.offline(index)?;
                notes.extend(self.notes_offline(index));
                return Ok(self.for_device(index, is_new, notes));
            }
            AdminRequest::Online(name) => {
                let index = self.changer.find(name)?;
                // For a device that is being copied, `online` means to keep it.
                if let Some(new) = self.changer.cancel_copy(index)? {
                    let notes = vec![format!("the copy to {new} was cancelled")];
                    return Ok(self.for_device(index, true, notes));
                }
                let is_new = self.changer.online(index)?;
                return Ok(self.for_device(index, is_new, Vec::new()));
            }
            AdminRequest::Remove(name) => return self.set_leaving(name, true),
            AdminRequest::MayRemove(name) => {
                let index = self.changer.find(name)?;
                let notes = self.changer.notes_on(index);
                let answer = self.changer.ask(AdminCommand::MayRemove(index))?;
                return Ok(self.for_device(index, answer == AdminOutcome::Started, notes));
            }
            AdminRequest::Cancel(name) => return self.set_leaving(name, false),
            AdminRequest::Scrub => AdminCommand::Scrub(Scrub::Start(0)),
            AdminRequest::PauseScrub => AdminCommand::Scrub(Scrub::Pause),
            AdminRequest::ResumeScrub => AdminCommand::Scrub(Scrub::Resume),
            AdminRequest::StopScrub => AdminCommand::Scrub(Scrub::Stop),
            AdminRequest::Clear(name) => {
                let device = name.as_ref().map(|name| self.changer.find(name)).transpose()?;
                return self.changer.clear(device).map(|()| Outcome::for_volume(true));
            }
            AdminRequest::Set { key, value } => {
                // The layer comes first: a value that it refuses must not reach the volume file.
                self.changer.ask(setting(&self.changer.config(), key, value)?)?;
                // The lock stays on the inode that was replaced; the lock of the volume's UUID
                // remains in effect.
                let kept = keep(self.changer.path(), key, value).map_err(AdminError::from);
                return kept.map(Outcome::for_volume);
            }
        };
        let answer = self.changer.ask(command)?;
        Ok(Outcome::for_volume(answer == AdminOutcome::Started))
    }

    /// Marks the named device as leaving, or cancels that.
    fn set_leaving(&self, name: &str, leaves: bool) -> Result<Outcome, AdminError> {
        let index = self.changer.find(name)?;
        // A cancellation is permitted during a copy, because it changes no device.
        if leaves {
            self.changer.refuse_while_copying()?;
        }
        let notes = if leaves { self.changer.notes_on(index) } else { Vec::new() };
        let is_new = self.changer.set_leaving(index, leaves)?;
        Ok(self.for_device(index, is_new, notes))
    }

    /// Keeps the member slot of a device that was taken offline by command. Returns a warning.
    fn notes_offline(&self, index: u8) -> Vec<String> {
        let spares: Vec<String> = self.changer.spares().iter().map(ToString::to_string).collect();
        let stays = (!spares.is_empty()).then(|| {
            format!("the spare is not used: {}; run `hostftl device replace`", spares.join(", "))
        });
        let save_error = self
            .changer
            .note_offline(index, true)
            .err()
            .map(|why| format!("a spare may replace it after a restart, because {why}"));
        stays.into_iter().chain(save_error).collect()
    }

    fn for_device(&self, index: u8, is_new: bool, notes: Vec<String>) -> Outcome {
        Outcome { is_new, device: Some(self.changer.id(index)), notes }
    }
}

/// Returns the layer command for a new value of a parameter.
pub(crate) fn setting(config: &Config, key: &str, value: &str) -> Result<AdminCommand, AdminError> {
    let wrong = |text| AdminError::new(AdminErrorKind::Usage, text);
    let mut layer = config.layer_config().map_err(wrong)?;
    change(&mut layer, key, value).map_err(wrong)?;
    Ok(AdminCommand::Set(match key {
        "gc" => Setting::Gc(layer.log.gc.to_number()),
        "fault-after" => Setting::FaultAfter(layer.log.fault_after),
        _ => Setting::RebuildShare(layer.log.rebuild_share),
    }))
}

/// Writes a parameter to the volume file; returns whether the value changed.
pub(crate) fn keep(path: &Path, key: &str, value: &str) -> Result<bool, Error> {
    let mut config = Config::load(path)?;
    let was = config.settings.insert(key.into(), value.into());
    let is_new = was.as_deref() != Some(value);
    if is_new {
        config.publish_again(path)?;
    }
    Ok(is_new)
}
