//! What an operator wants of a volume, from the command line to its layer and back.
//!
//! A [`Wish`] goes as JSON to the process that serves the volume, whose [`Operator`] makes a verb
//! of it. When nobody serves the volume, this process opens it, without clients, and asks itself.

use std::path::Path;

use hostftl_core::{Answer, Scrub, Verb};
use serde::{Deserialize, Serialize};

use crate::add::{AddSpec, Added};
use crate::config::Config;
use crate::control;
use crate::error::Error;
use crate::gather::OpenOptions;
use crate::open::open_with;
use crate::replace::{ReplaceSpec, Replaced};
use crate::running::{Running, StartOptions};
use crate::seats::Seats;
use crate::set;

/// What an operator wants. A device is named as in the volume file, or by its number there.
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
}

/// Makes verbs of wishes, for the process that serves a volume.
#[derive(Debug)]
pub(crate) struct Operator {
    /// The devices, and the layer over them.
    seats: Seats,
}

impl Operator {
    /// The one of the volume that has these devices.
    pub fn new(seats: Seats) -> Self {
        Operator { seats }
    }

    /// As [`crate::replace()`], of the volume that is served.
    ///
    /// # Errors
    /// Why the new device is not in the place of the old one, in words.
    pub fn replace(&self, spec: &ReplaceSpec) -> Result<Replaced, String> {
        self.seats.replace(&ReplaceSpec { path: self.seats.path().into(), ..spec.clone() })
    }

    /// As [`crate::add()`], of the volume that is served.
    ///
    /// # Errors
    /// Why the devices did not come, in words.
    pub fn add(&self, spec: &AddSpec) -> Result<Added, String> {
        self.seats.add(&AddSpec { path: self.seats.path().into(), ..spec.clone() })
    }

    /// Does what somebody wants.
    ///
    /// # Errors
    /// Why nothing was changed, in words.
    pub fn act(&self, wish: &Wish) -> Result<Outcome, String> {
        let config = self.seats.config();
        let device = |name: &String| config.find_device(name).map(|at| at as u8);
        let verb = match wish {
            Wish::Offline(name) => {
                self.seats.settle();
                return self.seats.offline(device(name)?).map(|is_new| Outcome { is_new });
            }
            Wish::Online(name) => {
                return self.seats.online(device(name)?).map(|is_new| Outcome { is_new });
            }
            Wish::Remove(name) => {
                let is_new = self.seats.set_leaving(device(name)?, true)?;
                return Ok(Outcome { is_new });
            }
            Wish::MayRemove(name) => Verb::MayRemove(device(name)?),
            Wish::Cancel(name) => {
                let is_new = self.seats.set_leaving(device(name)?, false)?;
                return Ok(Outcome { is_new });
            }
            Wish::Scrub => Verb::Scrub(Scrub::Start(0)),
            Wish::PauseScrub => Verb::Scrub(Scrub::Pause),
            Wish::ResumeScrub => Verb::Scrub(Scrub::Resume),
            Wish::StopScrub => Verb::Scrub(Scrub::Stop),
            Wish::Clear(name) => {
                let device = name.as_ref().map(device).transpose()?;
                return self.seats.clear(device).map(|()| Outcome { is_new: true });
            }
            Wish::Set { key, value } => {
                self.seats.ask(set::verb(&config, key, value)?)?;
                // The lock stays on the file that was replaced; that of the volume's UUID holds.
                let kept =
                    set::keep(self.seats.path(), key, value).map_err(|error| error.to_string());
                return kept.map(|is_new| Outcome { is_new });
            }
        };
        self.seats.ask(verb).map(|answer| Outcome { is_new: answer == Answer::Begun })
    }
}

/// Does what somebody wants with the process that serves the volume; none when nobody does.
///
/// # Errors
/// When there is no such volume, or why nothing was changed.
pub fn operate(path: &Path, wish: &Wish) -> Result<Option<Outcome>, Error> {
    let config = Config::load(path)?;
    control::refuse_elsewhere(path, config.uuid)?;
    let refused = |why| Error::Refused { path: path.into(), why };
    control::wish(config.uuid, wish).transpose().map_err(refused)
}

/// Opens a volume that nobody serves, without clients, and does what somebody wants. What goes on
/// in the background goes on until the volume is stopped.
///
/// # Errors
/// When the volume can't be opened, or why nothing was changed.
pub fn operate_here(path: &Path, wish: &Wish) -> Result<(Running, Outcome), Error> {
    let volume = open_with(path, &OpenOptions::default())?;
    let (running, _) = volume.start(&StartOptions::default())?;
    let done = running.operator().act(wish);
    match done {
        Ok(outcome) => Ok((running, outcome)),
        Err(why) => {
            running.stop()?;
            Err(Error::Refused { path: path.into(), why })
        }
    }
}
