//! Backup file with the sound superblocks, session marks, claims and roots, copied bit for bit.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use hostftl_format::backup::{Backup, BackupFault, Saved};
use hostftl_format::superblock::Superblock;
use serde::Serialize;

use super::source::{NameKind, Source, Sources};
use super::{inspection, source};
use crate::util::error::{Error, file};
use crate::util::private::{new_private, sync_folder};

/// Result of a backup.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct BackedUp {
    /// Path of the backup.
    pub backup: String,
    /// UUID of the volume.
    pub volume: String,
    /// Devices in the backup.
    pub devices: Vec<String>,
    /// Length of the backup in bytes.
    pub bytes: u64,
    /// Omitted devices, with the reason.
    pub left_out: Vec<String>,
}

/// Saves the metadata of the devices of a volume file, or of the named devices, to the new file
/// `path`. A device without a sound superblock is omitted.
///
/// # Errors
/// When no device has a superblock, they belong to several volumes, or the file exists or can't be
/// written.
pub fn back_up(targets: &[String], path: &Path) -> Result<BackedUp, Error> {
    let sources = source::open(targets)?;
    if sources.made.is_some() {
        return Err(Error::Asked(format!("{} is already a backup; copy the file", targets[0])));
    }
    let inspections = inspection::all(&sources);
    let (mut pages, mut devices, mut left_out) = (Vec::new(), Vec::new(), Vec::new());
    let mut volume = sources.file.as_ref().map(|(_, config)| config.uuid.into_bytes());
    for inspection in inspections {
        let name = inspection.dump.name.clone();
        let Some(own) = inspection.newest().copied() else {
            let why = inspection.dump.trouble.clone();
            left_out.push(format!("{name}: {}", why.unwrap_or("no valid superblock".into())));
            continue;
        };
        if *volume.get_or_insert(own.volume) != own.volume {
            let why = "belongs to another volume; a backup covers one volume".to_owned();
            return Err(Error::Device { device: name, why });
        }
        let (index, device_sectors) = (own.index, own.device_sectors);
        let saved = |(at, page)| Saved { index, device_sectors, at, page: Box::new(page) };
        pages.extend(inspection.pages.into_iter().map(saved));
        devices.push(name);
    }
    let Some(volume) = volume.filter(|_| !devices.is_empty()) else {
        let why = left_out.join("; ");
        return Err(Error::Stack(format!("no valid superblock to back up: {why}")));
    };
    let made = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
    let bytes = Backup { volume, made, pages }.emit();
    if path.exists() {
        return Err(Error::Exists { path: path.into() });
    }
    let written = new_private(path).and_then(|mut out| {
        let written = out.write_all(&bytes).and_then(|()| out.sync_all());
        let written = written.and_then(|()| sync_folder(path));
        // An incomplete backup is useless.
        written.inspect_err(|_| drop(fs::remove_file(path)))
    });
    written.map_err(file(path, "write the backup"))?;
    let volume = uuid::Uuid::from_bytes(volume).to_string();
    let (backup, bytes) = (path.display().to_string(), bytes.len() as u64);
    Ok(BackedUp { backup, volume, devices, bytes, left_out })
}

/// Reads a backup.
fn load(path: &Path) -> Result<Backup, Error> {
    let wrong = |fault: BackupFault| Error::Backup { path: path.into(), why: fault.to_string() };
    // Check the type first: a device named by mistake must not be read to its end.
    if !matches!(NameKind::from_path(path)?, NameKind::Backup) {
        path.metadata().map_err(file(path, "read the backup"))?;
        return Err(wrong(BackupFault::Foreign));
    }
    let bytes = fs::read(path).map_err(file(path, "read the backup"))?;
    Backup::parse(&bytes).map_err(wrong)
}

/// Returns the content of a backup for each device, to be dumped.
pub(super) fn sources(path: &Path) -> Result<Sources, Error> {
    let backup = load(path)?;
    let mut devices: BTreeMap<u8, (u64, Vec<Saved>)> = BTreeMap::new();
    for saved in backup.pages {
        let (_, pages) = devices.entry(saved.index).or_insert((saved.device_sectors, Vec::new()));
        pages.push(saved);
    }
    let device = |(index, (sectors, pages))| Ok(Source::Saved { index, sectors, pages });
    let all = devices.into_iter().map(device).collect();
    Ok(Sources { file: None, made: Some(backup.made), all })
}

/// Returns the newest superblock of each device in a backup, by index.
pub(super) fn superblocks(path: &Path) -> Result<BTreeMap<u8, Superblock>, Error> {
    let backup = load(path)?;
    let mut all: BTreeMap<u8, Superblock> = BTreeMap::new();
    for saved in &backup.pages {
        let Ok(found) = Superblock::parse(&saved.page, saved.at) else { continue };
        if found.volume != backup.volume || found.index != saved.index {
            let why = "has a superblock that contradicts its entry".into();
            return Err(Error::Backup { path: path.into(), why });
        }
        let newest = all.entry(found.index).or_insert(found);
        if newest.generation < found.generation {
            *newest = found;
        }
    }
    if all.is_empty() {
        Err(Error::Backup { path: path.into(), why: "has no superblock".into() })
    } else {
        Ok(all)
    }
}
