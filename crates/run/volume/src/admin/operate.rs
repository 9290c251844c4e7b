//! Operator commands to a volume, carried out by the serving process or by this one.
//!
//! If no process serves the volume, this process opens it without clients and carries out the
//! command.

use std::path::Path;

use crate::admin::control::client;
use crate::admin::request::{AdminRequest, Outcome, keep, setting};
use crate::admin::serve::Running;
use crate::metadata::config::Config;
use crate::open::gather::OpenOptions;
use crate::open::names::{Names, complete};
use crate::open::options::StartOptions;
use crate::open::volume::{lock, open_with};
use crate::util::error::{AdminError, AdminErrorKind, Error};
use crate::util::events::Events;
use crate::util::volume_lock::VolumeLock;
use hostftl_core::DeviceSet;

/// Sends a request to the process that serves the volume; `None` when no process does.
///
/// # Errors
/// When there is no such volume, or the request was refused.
pub fn operate(path: &Path, request: &AdminRequest) -> Result<Option<Outcome>, Error> {
    let config = Config::load(path)?;
    client::refuse_elsewhere(path, config.uuid)?;
    let done = client::send(config.uuid, &request.completed(&config)?);
    done.transpose().map_err(|error| error.at(path))
}

/// Opens a volume that is not served, without clients, and carries out a request. Background work
/// that it starts continues until the volume is stopped.
///
/// # Errors
/// When the volume can't be opened, or the request was refused.
pub fn operate_here(path: &Path, request: &AdminRequest) -> Result<(Running, Outcome), Error> {
    let request = request.completed(&Config::load(path)?)?;
    let volume = open_with(path, &OpenOptions::default())?;
    let (running, _) = volume.start(&StartOptions::default())?;
    let done = running.admin().act(&request);
    match done {
        Ok(outcome) => Ok((running, outcome)),
        Err(error) => {
            // A stop, not a drop: errors of the last writes must be reported.
            running.stop()?;
            Err(error.at(path))
        }
    }
}

/// Sets a parameter of a volume, through the process that serves it if there is one. The
/// superblocks keep the parameters of the creation; the volume file has the changed ones.
///
/// # Errors
/// When there is no such volume or parameter, or it can't be changed.
pub fn set(path: &Path, key: &str, value: &str) -> Result<Outcome, Error> {
    let config = Config::load(path)?;
    // Checked first, so that a wrong value is the same usage error for served and other volumes.
    setting(&config, key, value).map_err(|error| error.at(path))?;
    let request = AdminRequest::Set { key: key.into(), value: value.into() };
    if let Some(outcome) = operate(path, &request)? {
        return Ok(outcome);
    }
    let _lock = lock(path)?;
    let _volume_lock = VolumeLock::take(config.uuid, path)?;
    keep(path, key, value).map(Outcome::for_volume)
}

/// Durably acknowledges the events of a volume so far, or those of one device, through the process
/// that serves the volume if there is one. The acknowledgement is an event itself, so it survives a
/// restart.
///
/// # Errors
/// When there is no such volume or device, or the event file can't be written.
pub fn clear(path: &Path, device: Option<&str>) -> Result<(), Error> {
    let config = Config::load(path)?;
    if operate(path, &AdminRequest::Clear(device.map(String::from)))?.is_some() {
        return Ok(());
    }
    let wanted = device.map(|name| complete(name, &config)).transpose()?;
    let _lock = lock(path)?;
    let _volume_lock = VolumeLock::take(config.uuid, path)?;
    // Under the lock, so that no change of the members is in progress.
    let names = Names::read(&config);
    let found = wanted.map(|name| names.resolve(&name, DeviceSet::EMPTY)).transpose();
    let found = found.map_err(|error| error.at(path))?;
    let failed = |text| AdminError::new(AdminErrorKind::Failed, text).at(path);
    let events = Events::kept(path, config.uuid)
        .map_err(|error| failed(format!("cannot write its events: {error}")))?;
    let name = found.map_or(String::new(), |index| names.id(index).path);
    events.clear(found, &name).map_err(failed)
}
