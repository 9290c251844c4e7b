//! The events of a volume that is served, or not.

use std::path::Path;

use crate::admin::control;
use crate::metadata::config::Config;
use crate::util::error::{Error, file};
use crate::util::events::{Event, Events, file_of};

/// The events of a volume.
#[derive(Clone, Debug, Default)]
pub struct EventList {
    /// Whether a process serves the volume.
    pub served: bool,
    /// Those that are kept, oldest first.
    pub events: Vec<Event>,
}

impl EventList {
    /// Those since the volume was started last.
    pub fn of_run(&self) -> &[Event] {
        let start = self.events.iter().rposition(|event| event.kind == "started");
        &self.events[start.unwrap_or(0)..]
    }
}

/// Returns the events of a volume: from the process that serves it, or else from the file beside
/// the volume file.
///
/// # Errors
/// When the volume file or the file of events can't be read, or the process that serves the volume
/// does not answer.
pub fn events(path: &Path) -> Result<EventList, Error> {
    let config = Config::load(path)?;
    let silent = |why| Error::Refused { path: path.into(), why };
    if let Some(told) = control::ask(config.uuid).map_err(silent)? {
        return Ok(EventList { served: true, events: told.events });
    }
    let kept = file_of(path);
    let found = Events::of_file(path, config.uuid);
    let events = found.map_err(file(&kept, "read the events of the volume"))?.all();
    Ok(EventList { served: false, events })
}
