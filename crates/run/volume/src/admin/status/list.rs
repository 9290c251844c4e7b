//! The volumes that processes of this user serve on this machine.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use uuid::Uuid;

use crate::admin::control::client;
use crate::running::status::Status;
use crate::util::error::{AdminError, Error, file};
use crate::util::runtime_dir;

/// A control socket of the runtime directory and the answer on it.
#[derive(Debug)]
pub struct Listed {
    /// UUID of the volume.
    pub uuid: Uuid,
    /// Its status, or the reason why the process that serves it does not answer.
    pub status: Result<Status, AdminError>,
}

/// Lists the volumes that are served from the runtime directory of this user, by volume file.
///
/// # Errors
/// When the runtime directory cannot be read.
pub fn list() -> Result<Vec<Listed>, Error> {
    let folder = runtime_dir::folder();
    let entries = match fs::read_dir(&folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(file(&folder, "read the runtime directory"))?,
    };
    let sockets = entries.filter_map(|entry| parse_uuid(&entry.ok()?.path()));
    let mut volumes: Vec<Listed> = sockets.filter_map(ask).collect();
    let name = |it: &Listed| it.status.as_ref().map(|it| it.volume.clone()).unwrap_or_default();
    volumes.sort_by_key(|it| (name(it), it.uuid));
    Ok(volumes)
}

/// Returns the UUID in the name of a control socket.
fn parse_uuid(path: &Path) -> Option<Uuid> {
    let name = path.file_name()?.to_str()?.strip_suffix(".sock")?;
    Uuid::try_parse(name).ok()
}

/// Asks for the status; `None` for a socket whose process has ended.
fn ask(uuid: Uuid) -> Option<Listed> {
    let status = client::ask(uuid).map(|report| report.map(|it| it.status)).transpose()?;
    Some(Listed { uuid, status })
}
