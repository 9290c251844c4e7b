//! Changes of the members of a volume: the process that serves it makes them, or this one, when no
//! process does.

use std::path::Path;

use crate::admin::control::client;
use crate::admin::operate::operate_here;
use crate::admin::operator::{Outcome, Wish};
use crate::change;
use crate::change::add::{AddSpec, Added};
use crate::change::replace::{ReplaceSpec, Replaced};
use crate::metadata::config::Config;
use crate::metadata::modelled;
use crate::open::names::{DeviceId, complete};
use crate::open::volume::lock;
use crate::util::error::Error;
use crate::util::volume_lock::Sole;

/// Adds devices to a volume.
///
/// # Errors
/// When the volume is of a layer that takes none, or misses some of its own; when a new
/// device stands in the way. Nothing was changed then.
pub fn add(spec: &AddSpec) -> Result<Added, Error> {
    let config = Config::load(&spec.path)?;
    client::refuse_elsewhere(&spec.path, config.uuid)?;
    // The process that serves it may have another working directory.
    let full = spec.new.iter().map(|name| modelled::full_name(name)).collect::<Result<_, _>>()?;
    if let Some(done) = client::add(config.uuid, &AddSpec { new: full, ..spec.clone() }) {
        return done.map_err(|error| error.at(&spec.path));
    }
    let _lock = lock(&spec.path)?;
    let _sole = Sole::take(config.uuid, &spec.path)?;
    change::add::add(spec, config)
}

/// Puts a device in the place of another. Data that can't be rebuilt is copied: `tell` hears how
/// many bytes are, and of how many.
///
/// # Errors
/// When the volume misses others too, the old device has to be copied and can't be
/// read, or the new one stands in the way. Nothing was changed then.
pub fn replace(spec: &ReplaceSpec, tell: &mut dyn FnMut(u64, u64)) -> Result<Replaced, Error> {
    let config = Config::load(&spec.path)?;
    client::refuse_elsewhere(&spec.path, config.uuid)?;
    let (old, new) = (complete(&spec.old, &config)?, modelled::full_name(&spec.new)?);
    let full = ReplaceSpec { old, new, ..spec.clone() };
    if let Some(done) = client::replace(config.uuid, &full) {
        return done.map_err(|error| error.at(&spec.path));
    }
    let opened = lock(&spec.path)?;
    let _sole = Sole::take(config.uuid, &spec.path)?;
    change::replace::replace((spec, &full), config, &opened, tell)
}

/// A device that is back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Back {
    /// The device.
    pub device: DeviceId,
    /// Whether it was out; else it belonged already.
    pub is_new: bool,
    /// Whether the volume is served, and its missing data is rebuilt from then on.
    pub served: bool,
    /// Facts that the operator should know.
    pub notes: Vec<String>,
}

impl Back {
    fn of(done: Outcome, served: bool) -> Self {
        let Outcome { is_new, device, notes } = done;
        Back { device: device.unwrap_or_default(), is_new, served, notes }
    }
}

/// Takes back a device that was left out.
///
/// # Errors
/// When another member is missing, or the device is not the one that was lost. It stays out then.
pub fn online(path: &Path, wanted: &str) -> Result<Back, Error> {
    let config = Config::load(path)?;
    client::refuse_elsewhere(path, config.uuid)?;
    let wanted = complete(wanted, &config)?;
    if let Some(done) = client::online(config.uuid, &wanted) {
        return done.map(|done| Back::of(done, true)).map_err(|error| error.at(path));
    }
    let (running, done) = operate_here(path, &Wish::Online(wanted))?;
    running.stop()?;
    Ok(Back::of(done, false))
}
