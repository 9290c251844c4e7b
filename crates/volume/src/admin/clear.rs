//! Acknowledging events: repairs and failed commands that an operator has seen.
//!
//! The acknowledgement is an event itself, so that it outlives a restart in the file of events.

use std::path::Path;

use crate::admin::operate::{Wish, operate};
use crate::metadata::config::Config;
use crate::open::names::{Names, complete};
use crate::open::volume::lock;
use crate::util::error::Error;
use crate::util::events::Events;
use crate::util::volume_lock::Sole;

/// Acknowledges the events of a volume so far, or those of one device, durably; with the process
/// that serves the volume, if one does.
///
/// # Errors
/// When there is no such volume or device, or the file of events can't be written.
pub fn clear(path: &Path, device: Option<&str>) -> Result<(), Error> {
    let refused = |why| Error::Refused { path: path.into(), why };
    let config = Config::load(path)?;
    if operate(path, &Wish::Clear(device.map(String::from)))?.is_some() {
        return Ok(());
    }
    let wanted = device.map(|name| complete(name, &config)).transpose()?;
    let _lock = lock(path)?;
    let _sole = Sole::take(config.uuid, path)?;
    let names = Names::read(&config);
    let found = wanted.map(|name| names.resolve(&name, 0)).transpose().map_err(refused)?;
    let events = Events::kept(path, config.uuid)
        .map_err(|error| refused(format!("cannot write its events: {error}")))?;
    let name = found.map_or(String::new(), |index| names.id(index).path);
    events.clear(found, &name).map_err(refused)
}
