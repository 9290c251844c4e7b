//! Dump of the metadata on devices: superblocks, session marks, claims, and the roots of layers
//! that report their location. A dump changes and locks nothing, so a serving process is not
//! disturbed.

mod inspection;
mod rehearse;
mod restore;
mod saved;
mod source;
mod texts;

use std::collections::BTreeSet;

use serde::Serialize;
use uuid::Uuid;

use crate::admin::control::client;
use crate::open::stack::time;
use crate::util::error::Error;
pub use restore::{RestoreSpec, Restored, restore};
pub use saved::{BackedUp, back_up};
pub use texts::{ClaimText, DeviceDump, Found, MarkText, RootText, SuperblockText};

use texts::FileText;

/// Metadata of the devices of a volume or of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dump {
    /// Content of the volume file; `None` when devices were named.
    pub file: Option<FileText>,
    /// Creation time of the backup; `None` for devices.
    pub backup_of: Option<String>,
    /// Processes that serve the volumes.
    pub served_by: Vec<u32>,
    /// Devices in the order of the command line or of the volume file.
    pub devices: Vec<DeviceDump>,
}

/// Dumps the metadata of the devices of a volume file, of named devices, or of a backup.
///
/// # Errors
/// When the volume file or the backup can't be read.
pub fn dump(targets: &[String]) -> Result<Dump, Error> {
    let sources = source::open(targets)?;
    let inspections = inspection::all(&sources);
    let volumes: BTreeSet<[u8; 16]> =
        inspections.iter().filter_map(|it| Some(it.newest()?.volume)).collect();
    // A process that does not answer is omitted; the devices are shown regardless.
    let outcome =
        |volume: &[u8; 16]| client::ask(Uuid::from_bytes(*volume)).ok().flatten()?.status.served_by;
    let served_by = match sources.made {
        None => volumes.iter().filter_map(outcome).collect(),
        Some(_) => Vec::new(),
    };
    let file = sources.file.as_ref().map(|(path, config)| FileText::new(path, config));
    let backup_of = sources.made.and_then(time);
    let devices = inspections.into_iter().map(|inspection| inspection.dump).collect();
    Ok(Dump { file, backup_of, served_by, devices })
}
