//! What an operator wants of a volume, from the command line to its layer and back.
//!
//! A [`Wish`] goes as JSON to the process that serves the volume, whose [`Operator`] makes a verb
//! of it. When nobody serves the volume, this process opens it, without clients, and asks itself.

use std::path::{Path, PathBuf};

use hostftl_core::{Answer, Refusal, Scrub, Verb};
use serde::{Deserialize, Serialize};

use crate::config::Config;
use crate::control;
use crate::error::Error;
use crate::front::Port;
use crate::gather::OpenOptions;
use crate::open::open_with;
use crate::running::{Running, StartOptions};
use crate::set;
use crate::watch::Watched;

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
#[derive(Clone, Debug)]
pub(crate) struct Operator {
    port: Port,
    watched: Watched,
    /// The volume's file, and what it has.
    path: PathBuf,
    config: Config,
}

impl Operator {
    /// The one of a volume that takes jobs at `port`, and is `watched`.
    pub fn new(port: Port, watched: &Watched, path: &Path, config: &Config) -> Self {
        Operator { port, watched: watched.clone(), path: path.into(), config: config.clone() }
    }

    /// Does what somebody wants.
    ///
    /// # Errors
    /// Why nothing was changed, in words.
    pub fn act(&self, wish: &Wish) -> Result<Outcome, String> {
        let device = |name: &String| self.config.find_device(name).map(|at| at as u8);
        let verb = match wish {
            Wish::Offline(name) => Verb::Offline(device(name)?),
            Wish::Online(name) => Verb::Online(device(name)?),
            Wish::Remove(name) => Verb::Remove(device(name)?),
            Wish::MayRemove(name) => Verb::MayRemove(device(name)?),
            Wish::Cancel(name) => Verb::Cancel(device(name)?),
            Wish::Scrub => Verb::Scrub(Scrub::Start(0)),
            Wish::PauseScrub => Verb::Scrub(Scrub::Pause),
            Wish::ResumeScrub => Verb::Scrub(Scrub::Resume),
            Wish::StopScrub => Verb::Scrub(Scrub::Stop),
            Wish::Set { key, value } => {
                self.ask(set::verb(&self.config, key, value)?)?;
                // The lock stays on the file that was replaced; that of the volume's UUID holds.
                let kept = set::keep(&self.path, key, value).map_err(|error| error.to_string());
                return kept.map(|is_new| Outcome { is_new });
            }
        };
        self.ask(verb)
    }

    fn ask(&self, verb: Verb) -> Result<Outcome, String> {
        match self.port.operate(verb) {
            Ok(answer) => {
                // What is promised goes on after a crash.
                self.watched.look();
                Ok(Outcome { is_new: answer == Answer::Begun })
            }
            Err(Refusal::Unable) => {
                Err(format!("layer {} can't do that", self.config.layer_name()))
            }
            Err(Refusal::Because(why)) => Err(why.into()),
            Err(Refusal::Full(bytes)) => Err(format!(
                "{bytes} bytes of what is live would have no room without it: trim as much, or add \
                 a device first"
            )),
        }
    }
}

/// Does what somebody wants with the process that serves the volume; none when nobody does.
///
/// # Errors
/// When there is no such volume, or why nothing was changed.
pub fn operate(path: &Path, wish: &Wish) -> Result<Option<Outcome>, Error> {
    let config = Config::load(path)?;
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
    let config = volume.config.clone();
    let (running, port) = volume.start(&StartOptions::default())?;
    match Operator::new(port, running.watched(), path, &config).act(wish) {
        Ok(outcome) => Ok((running, outcome)),
        Err(why) => {
            running.stop()?;
            Err(Error::Refused { path: path.into(), why })
        }
    }
}
