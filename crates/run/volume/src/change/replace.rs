//! The request to replace a device, and its outcome.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::metadata::config::Config;
use crate::metadata::storage::is_same;
use crate::metadata::{modelled, storage};
use crate::open::names::DeviceId;
use crate::util::error::{Error, device};

/// What is wanted.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct ReplaceSpec {
    /// The volume file.
    pub path: PathBuf,
    /// The device that goes: a path to it, its member number or its UUID.
    pub old: String,
    /// The device that comes; a file that does not exist is made, as large as is needed.
    pub new: String,
    /// Whether the new device may hold something. What is in use is refused all the same.
    pub force: bool,
    /// Whether nothing is written.
    pub rehearse: bool,
}

/// What was done, or would be.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Replaced {
    /// The device that went, with the member number that the new one has too.
    pub old: DeviceId,
    /// The new one; without a UUID while nothing is written.
    pub new: DeviceId,
    /// Whether the volume had to do without the old one already.
    pub was_lost: bool,
    /// Whether the new one has all that the old one had.
    pub copied: bool,
    /// Whether the old one is being copied to it: it takes its place when that is done.
    #[serde(default)]
    pub copying: bool,
    /// Whether it lacks something, which is made while the volume is served. A journal's device
    /// that was not copied is empty, and lacks nothing.
    pub lacks: bool,
    /// Whether the volume is served, and made what the new one lacks from then on.
    pub served: bool,
    /// What should be known.
    pub notes: Vec<String>,
}

/// The full name of what comes in place `index`.
pub(crate) fn new_name(config: &Config, index: usize, asked: &str) -> Result<String, Error> {
    let new = modelled::full_name(asked)?;
    let mut others = config.devices.iter().enumerate().filter(|(at, _)| *at != index);
    match others.find(|(_, name)| is_same(name, &new) || storage::is_shared(name, &new)) {
        Some((at, _)) => Err(device(asked, format!("is device {at} of this volume already"))),
        None => Ok(new),
    }
}
