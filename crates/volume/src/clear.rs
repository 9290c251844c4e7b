//! Acknowledging events: repairs and failed commands that an operator has seen.
//!
//! The acknowledgement is an event itself, so that it outlives a restart in the file of events.

use std::path::Path;

use crate::config::Config;
use crate::error::Error;
use crate::events::Events;
use crate::open::lock;
use crate::operate::{Wish, operate};
use crate::sole::Sole;

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
    let found = device.map(|name| config.find_device(name)).transpose().map_err(refused)?;
    let _lock = lock(path)?;
    let _sole = Sole::take(config.uuid, path)?;
    let events = Events::kept(path, config.uuid)
        .map_err(|error| refused(format!("cannot write its events: {error}")))?;
    let name = found.map_or("", |at| config.devices[at].as_str());
    events.clear(found.map(|at| at as u8), name).map_err(refused)
}
