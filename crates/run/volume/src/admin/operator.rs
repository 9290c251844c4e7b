//! Requests of an operator to a volume that is served, and their outcomes.
//!
//! A [`Wish`] goes as JSON to the process that serves the volume, whose [`Operator`] makes a verb
//! of it.

use std::path::Path;
use std::sync::Arc;

use hostftl_core::{Answer, Scrub, Setting, Verb};
use serde::{Deserialize, Serialize};

use crate::change::add::{AddSpec, Added};
use crate::change::replace::{ReplaceSpec, Replaced};
use crate::change::served::Seats;
use crate::metadata::config::Config;
use crate::metadata::settings::change;
use crate::open::names::{DeviceId, complete};
use crate::running::copying::Copying;
use crate::util::error::{AdminError, AdminErrorKind, Error};

/// A command of an operator. A device is named by a path to it, its member number or its UUID.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wish {
    /// Do without a device from now on.
    Offline(String),
    /// Take a device back.
    Online(String),
    /// Move what lies on a device elsewhere, then do without it.
    Remove(String),
    /// Whether that would be begun.
    MayRemove(String),
    /// Leave off what was begun with a device.
    Cancel(String),
    /// Begin a scrub, or go on with one that rests.
    Scrub,
    /// Let the scrub rest.
    PauseScrub,
    /// Go on with the scrub.
    ResumeScrub,
    /// End the scrub where it is.
    StopScrub,
    /// Acknowledge the events so far, or those of a device.
    Clear(Option<String>),
    /// Another value of a parameter.
    Set {
        /// Its name.
        key: String,
        /// The value, as `create --layer` takes it.
        value: String,
    },
}

/// What came of a wish.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Outcome {
    /// Whether something was changed or begun; else it was so already.
    pub is_new: bool,
    /// The device that was meant, if one was.
    #[serde(default)]
    pub device: Option<DeviceId>,
    /// Warnings, such as that the device is healthy.
    #[serde(default)]
    pub notes: Vec<String>,
}

impl Outcome {
    /// The outcome of a command that concerns no device.
    pub(crate) fn of_volume(is_new: bool) -> Self {
        Outcome { is_new, device: None, notes: Vec::new() }
    }
}

impl Wish {
    /// The same with the complete name of its device: see [`complete`].
    pub(crate) fn completed(&self, config: &Config) -> Result<Self, Error> {
        let whole = |name: &String| complete(name, config);
        Ok(match self {
            Wish::Offline(name) => Wish::Offline(whole(name)?),
            Wish::Online(name) => Wish::Online(whole(name)?),
            Wish::Remove(name) => Wish::Remove(whole(name)?),
            Wish::MayRemove(name) => Wish::MayRemove(whole(name)?),
            Wish::Cancel(name) => Wish::Cancel(whole(name)?),
            Wish::Clear(Some(name)) => Wish::Clear(Some(whole(name)?)),
            other => other.clone(),
        })
    }
}

/// Makes verbs of wishes, for the process that serves a volume.
#[derive(Debug)]
pub(crate) struct Operator {
    /// The devices, and the layer over them.
    seats: Arc<Seats>,
}

impl Operator {
    /// The one of the volume that has these devices.
    pub(crate) fn new(seats: Seats) -> Self {
        Operator { seats: Arc::new(seats) }
    }

    /// As [`crate::replace()`], of the volume that is served.
    ///
    /// # Errors
    /// Why the new device is not in the place of the old one, in words.
    pub(crate) fn replace(&self, spec: &ReplaceSpec) -> Result<Replaced, AdminError> {
        self.begin_to_replace(spec).map(|(replaced, _)| replaced)
    }

    /// Replaces a device, and returns the copy that was begun, if one was.
    pub(crate) fn begin_to_replace(
        &self,
        spec: &ReplaceSpec,
    ) -> Result<(Replaced, Option<Arc<Copying>>), AdminError> {
        self.seats.replace(&ReplaceSpec { path: self.seats.path().into(), ..spec.clone() })
    }

    /// As [`crate::add()`], of the volume that is served.
    ///
    /// # Errors
    /// Why the devices did not come, in words.
    pub(crate) fn add(&self, spec: &AddSpec) -> Result<Added, AdminError> {
        self.seats.add(&AddSpec { path: self.seats.path().into(), ..spec.clone() })
    }

    /// Ends the copy of a device, if one is under way, because the volume is being closed.
    pub(crate) fn end_copy(&self) {
        self.seats.end_copy();
    }

    /// Does what somebody wants.
    ///
    /// # Errors
    /// Why nothing was changed, in words.
    pub(crate) fn act(&self, wish: &Wish) -> Result<Outcome, AdminError> {
        let verb = match wish {
            Wish::Offline(name) => {
                self.seats.refuse_while_copying()?;
                let index = self.seats.find(name)?;
                let mut notes = self.seats.notes_on(index);
                self.seats.settle();
                let is_new = self.seats.offline(index)?;
                notes.extend(self.notes_offline(index));
                return Ok(self.of_device(index, is_new, notes));
            }
            Wish::Online(name) => {
                let index = self.seats.find(name)?;
                if let Some(new) = self.seats.cancel_copy(index)? {
                    let notes = vec![format!("the copy to {new} was cancelled")];
                    return Ok(self.of_device(index, true, notes));
                }
                let is_new = self.seats.online(index)?;
                return Ok(self.of_device(index, is_new, Vec::new()));
            }
            Wish::Remove(name) => return self.set_leaving(name, true),
            Wish::MayRemove(name) => {
                let index = self.seats.find(name)?;
                let notes = self.seats.notes_on(index);
                let answer = self.seats.ask(Verb::MayRemove(index))?;
                return Ok(self.of_device(index, answer == Answer::Begun, notes));
            }
            Wish::Cancel(name) => return self.set_leaving(name, false),
            Wish::Scrub => Verb::Scrub(Scrub::Start(0)),
            Wish::PauseScrub => Verb::Scrub(Scrub::Pause),
            Wish::ResumeScrub => Verb::Scrub(Scrub::Resume),
            Wish::StopScrub => Verb::Scrub(Scrub::Stop),
            Wish::Clear(name) => {
                let device = name.as_ref().map(|name| self.seats.find(name)).transpose()?;
                return self.seats.clear(device).map(|()| Outcome::of_volume(true));
            }
            Wish::Set { key, value } => {
                self.seats.ask(verb(&self.seats.config(), key, value)?)?;
                // The lock stays on the file that was replaced; that of the volume's UUID holds.
                let kept = keep(self.seats.path(), key, value).map_err(AdminError::from);
                return kept.map(Outcome::of_volume);
            }
        };
        let answer = self.seats.ask(verb)?;
        Ok(Outcome::of_volume(answer == Answer::Begun))
    }

    /// The device that is named is to leave, or stays after all.
    fn set_leaving(&self, name: &str, leaves: bool) -> Result<Outcome, AdminError> {
        let index = self.seats.find(name)?;
        if leaves {
            self.seats.refuse_while_copying()?;
        }
        let notes = if leaves { self.seats.notes_on(index) } else { Vec::new() };
        let is_new = self.seats.set_leaving(index, leaves)?;
        Ok(self.of_device(index, is_new, notes))
    }

    /// Keeps the place of a device that was left out by command. Returns a warning.
    fn notes_offline(&self, index: u8) -> Vec<String> {
        let spares: Vec<String> = self.seats.spares().iter().map(ToString::to_string).collect();
        let stays = (!spares.is_empty()).then(|| {
            format!(
                "the spare stays ready and does not take its place: {}; `hostftl device replace` \
                 puts another device there",
                spares.join(", ")
            )
        });
        let unkept = self
            .seats
            .note_offline(index, true)
            .err()
            .map(|why| format!("a spare may take its place after a restart, because {why}"));
        stays.into_iter().chain(unkept).collect()
    }

    fn of_device(&self, index: u8, is_new: bool, notes: Vec<String>) -> Outcome {
        Outcome { is_new, device: Some(self.seats.id(index)), notes }
    }
}

/// What a parameter's new value is to a layer.
///
/// # Errors
/// In words, when it can't be.
pub(crate) fn verb(config: &Config, key: &str, value: &str) -> Result<Verb, AdminError> {
    let wrong = |text| AdminError::new(AdminErrorKind::Usage, text);
    let mut layer = config.layer_config().map_err(wrong)?;
    change(&mut layer, key, value).map_err(wrong)?;
    Ok(Verb::Set(match key {
        "gc" => Setting::Gc(layer.log.gc.to_number()),
        "fault-after" => Setting::FaultAfter(layer.log.fault_after),
        _ => Setting::RebuildShare(layer.log.rebuild_share),
    }))
}

/// Writes a parameter into the volume file; whether that is new.
pub(crate) fn keep(path: &Path, key: &str, value: &str) -> Result<bool, Error> {
    let mut config = Config::load(path)?;
    let was = config.settings.insert(key.into(), value.into());
    let is_new = was.as_deref() != Some(value);
    if is_new {
        config.publish_again(path)?;
    }
    Ok(is_new)
}
