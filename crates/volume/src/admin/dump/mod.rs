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
use std::path::Path;

use serde::Serialize;
use uuid::Uuid;

use crate::admin::control::client;
use crate::metadata::config::Config;
use crate::open::stack::time;
use crate::util::error::Error;
pub use restore::{RestoreSpec, Restored, restore};
pub use saved::{BackedUp, back_up};
pub use texts::{ClaimText, Found, MarkText, RootText, SuperblockText};

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

/// What a volume's file has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct FileText {
    /// Its path.
    pub path: String,
    /// The volume's UUID.
    pub volume: String,
    /// What its owner calls it.
    pub label: String,
    /// The layer with its parameters.
    pub layer: String,
}

/// What a device says.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DeviceDump {
    /// Its name.
    pub name: String,
    /// Its length; none when it can't be opened.
    pub bytes: Option<u64>,
    /// Why there is no more to be said of it.
    pub trouble: Option<String>,
    /// Both copies of the superblock.
    pub superblocks: Vec<Found<SuperblockText>>,
    /// Both places of the session mark.
    pub sessions: Vec<Found<MarkText>>,
    /// Both copies of the claim on a part of a zoned device.
    pub claims: Vec<Found<ClaimText>>,
    /// The copies of both roots.
    pub roots: Vec<Found<RootText>>,
    /// Why roots are not shown.
    pub no_roots: Option<String>,
}

impl DeviceDump {
    /// The superblock that counts.
    pub fn superblock(&self) -> Option<&SuperblockText> {
        let sound = self.superblocks.iter().find(|it| it.state == "sound");
        sound.and_then(|it| it.says.as_ref())
    }
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

impl FileText {
    fn of(path: &Path, config: &Config) -> Self {
        FileText {
            path: path.display().to_string(),
            volume: config.uuid.to_string(),
            label: config.label.clone(),
            layer: config.layer.clone(),
        }
    }
}
