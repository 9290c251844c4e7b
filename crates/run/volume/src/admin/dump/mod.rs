//! What stands on the devices beside the data: superblocks, session marks, claims, and the roots of
//! a layer that tells where they lie. Nothing is changed, nothing is locked, and whoever has the
//! devices goes on.

mod look;
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

/// See the module text.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Dump {
    /// The volume's file and what it has; none when devices were named.
    pub file: Option<FileText>,
    /// When the backup was made that is shown; none of devices.
    pub backup_of: Option<String>,
    /// The processes that serve what is shown.
    pub served_by: Vec<u32>,
    /// The devices, in the order in which they are named.
    pub devices: Vec<DeviceDump>,
}

/// Shows what the devices of a volume's file say, or the devices that are named, or a backup.
///
/// # Errors
/// When the volume's file or the backup can't be read.
pub fn dump(targets: &[String]) -> Result<Dump, Error> {
    let sources = source::open(targets)?;
    let looks = look::all(&sources);
    let volumes: BTreeSet<[u8; 16]> =
        looks.iter().filter_map(|it| Some(it.newest()?.volume)).collect();
    // A process that does not answer is not named; the devices are shown all the same.
    let told =
        |volume: &[u8; 16]| client::ask(Uuid::from_bytes(*volume)).ok().flatten()?.status.served_by;
    let served_by = match sources.made {
        None => volumes.iter().filter_map(told).collect(),
        Some(_) => Vec::new(),
    };
    let file = sources.file.as_ref().map(|(path, config)| FileText::of(path, config));
    let backup_of = sources.made.and_then(time);
    let devices = looks.into_iter().map(|look| look.dump).collect();
    Ok(Dump { file, backup_of, served_by, devices })
}
