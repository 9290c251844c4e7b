//! Status and events of a volume, from the process that serves it or from its devices.

pub(crate) mod list;

use std::path::Path;

use crate::admin::control::client;
use crate::metadata::config::Config;
use crate::open::cut::InterruptedChange;
use crate::open::gather::OpenOptions;
use crate::open::session;
use crate::open::volume::open_with;
use crate::running::status::drive::Drives;
use crate::running::status::{DeviceStatus, Status, VolumeFile};
use crate::util::error::{Error, file};
use crate::util::events::{Event, Events, file_path};

/// Returns the status of a volume from the process that serves it, or else from its devices.
///
/// # Errors
/// When there is no such volume, the process that serves it does not answer, or another process has
/// the volume open and does not serve it.
pub fn status(path: &Path) -> Result<Status, Error> {
    let config = Config::load(path)?;
    let answer =
        client::ask(config.uuid).map_err(|error| error.at(path))?.map(|answer| answer.status);
    let (here, there) = (VolumeFile::new(path), answer.as_ref().and_then(|it| it.file.clone()));
    let is_same = here.zip(there.as_ref()).is_some_and(|(here, there)| here.is(there));
    if let Some(status) = answer.filter(|_| is_same) {
        return Ok(status);
    }
    // A served copy with the same UUID is not this volume, so its own devices are inspected.
    let options = OpenOptions { degraded: true, ..OpenOptions::default() };
    let volume = open_with(path, &options).map_err(tells_nothing)?;
    let mut status = Status::at_rest(path, &volume.config, &volume.layer, &volume.plan);
    status.set_devices(&volume.devices, &volume.layer, &volume.config);
    status.set_ids(&volume.names);
    status.set_drives(Drives::ask_at_rest(&volume.devices));
    status.notes = volume.notes;
    status.notes.extend(volume.cut.as_ref().map(InterruptedChange::note));
    let unclean = session::unclean_end(&config, &volume.devices)?;
    status.unclean_shutdown = unclean.is_some();
    status.notes.extend(unclean);
    status.degraded |= status.devices.iter().any(DeviceStatus::is_away);
    let kept = Events::open(path, config.uuid).unwrap_or_default();
    status.notes.extend(kept.notes());
    status.set_problems(&kept);
    status.set_state(false);
    status.notes.extend(there.map(|there| {
        format!("{} with the same UUID is served; this is a copy or another part of it", there.path)
    }));
    Ok(status)
}

/// Adds the reason for the missing status if another process has the volume open.
fn tells_nothing(error: Error) -> Error {
    let Error::Busy { path, holder } = error else { return error };
    let why = format!(
        "{holder} has the volume open and does not report a status (starting, or \
                       changing it)"
    );
    Error::Refused { path, why: format!("{why}; try again later") }
}

/// Events of a volume.
#[derive(Clone, Debug, Default)]
pub struct EventList {
    /// Whether a process serves the volume.
    pub served: bool,
    /// Retained events, oldest first.
    pub events: Vec<Event>,
}

impl EventList {
    /// Returns the events since the last start of the volume.
    pub fn of_run(&self) -> &[Event] {
        let start = self.events.iter().rposition(|event| event.kind == "started");
        &self.events[start.unwrap_or(0)..]
    }
}

/// Returns the events of a volume, from the process that serves it, or else from the file beside
/// the volume file.
///
/// # Errors
/// When the volume file or the event file can't be read, or the process that serves the volume does
/// not answer.
pub fn events(path: &Path) -> Result<EventList, Error> {
    let config = Config::load(path)?;
    if let Some(answer) = client::ask(config.uuid).map_err(|error| error.at(path))? {
        return Ok(EventList { served: true, events: answer.events });
    }
    let kept = file_path(path);
    let found = Events::open(path, config.uuid);
    let events = found.map_err(file(&kept, "read the events of the volume"))?.all();
    Ok(EventList { served: false, events })
}
