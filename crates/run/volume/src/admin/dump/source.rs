//! Sources of the dumped pages: a device, or its pages in a backup.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use hostftl_core::{Page, SECTOR};
use hostftl_format::backup::{Saved, is_meant};
use hostftl_io::{Access, Device};

use super::saved;
use crate::metadata::config::Config;
use crate::metadata::config::MISSING;
use crate::metadata::modelled;
use crate::util::error::{Error, file};

/// Maximum length of a volume file in bytes. Devices are longer.
const MOST_FILE: u64 = 1 << 20;

/// Everything that is to be dumped.
pub(super) struct Sources {
    /// Volume file, if it was named.
    pub file: Option<(PathBuf, Config)>,
    /// Creation time of the backup, if one was named.
    pub made: Option<u64>,
    /// Each device, or its name and the reason why it can't be read.
    pub all: Vec<Result<Source, (String, String)>>,
}

/// A device, or its pages in a backup.
pub(super) enum Source {
    Device(Box<Device>),
    Saved { index: u8, sectors: u64, pages: Vec<Saved> },
}

impl Source {
    pub(super) fn name(&self) -> String {
        match self {
            Source::Device(device) => device.name().into(),
            Source::Saved { index, .. } => format!("device {index} in the backup"),
        }
    }

    pub(super) fn sectors(&self) -> u64 {
        match self {
            Source::Device(device) => device.bytes() / SECTOR as u64,
            Source::Saved { sectors, .. } => *sectors,
        }
    }

    pub(super) fn is_zoned(&self) -> bool {
        matches!(self, Source::Device(device) if device.is_zoned())
    }

    /// Reads the page at a sector of the whole device. Pages that a backup lacks read as zeros.
    pub(super) fn read(&self, at: u64) -> Result<Page, String> {
        match self {
            Source::Device(device) => device.read_page(at).map_err(|error| error.to_string()),
            Source::Saved { pages, .. } => {
                let saved = pages.iter().find(|saved| saved.at == at);
                Ok(saved.map_or_else(Page::default, |saved| (*saved.page).clone()))
            }
        }
    }
}

/// Meaning of a name on the command line.
pub(super) enum NameKind {
    Backup,
    Volume,
    Device,
}

impl NameKind {
    /// Classifies a file by its first bytes or its length.
    pub(super) fn from_path(path: &Path) -> Result<Self, Error> {
        let Ok(found) = path.metadata() else { return Ok(NameKind::Device) };
        if !found.is_file() {
            return Ok(NameKind::Device);
        }
        let mut first = Page::default();
        let mut opened = File::open(path).map_err(file(path, "open it"))?;
        let is_backup = opened.read_exact(&mut first.0).is_ok() && is_meant(&first);
        Ok(match (is_backup, found.len() < MOST_FILE) {
            (true, _) => NameKind::Backup,
            (false, true) => NameKind::Volume,
            (false, false) => NameKind::Device,
        })
    }
}

/// Returns an error text without the name at its start.
fn without(name: &str, text: &str) -> String {
    let rest = text.strip_prefix(name).unwrap_or(text);
    rest.trim_start_matches([':', ' ']).into()
}

/// Opens everything that was named, for reading.
pub(super) fn open(targets: &[String]) -> Result<Sources, Error> {
    let inspection = |name: &String| match name.as_str() {
        MISSING => Err((name.clone(), "the volume file has no device for this number".into())),
        _ if Device::is_memory(name) => Err((name.clone(), "it is in memory".into())),
        _ => match modelled::open_as(name, Access::Inspect) {
            Ok(device) => Ok(Source::Device(Box::new(device))),
            Err(error) => Err((name.clone(), without(name, &error.to_string()))),
        },
    };
    // A single name may be a volume file or a backup; several names are devices.
    if let [only] = targets {
        match NameKind::from_path(Path::new(only))? {
            NameKind::Volume => {
                let path = PathBuf::from(only);
                let config = Config::load(&path)?;
                let all = config.devices.iter().map(inspection).collect();
                return Ok(Sources { file: Some((path, config)), made: None, all });
            }
            NameKind::Backup => return saved::sources(Path::new(only)),
            NameKind::Device => {}
        }
    }
    let full = targets.iter().map(|name| modelled::full_name(name));
    let all = full.collect::<Result<Vec<_>, _>>()?.iter().map(inspection).collect();
    Ok(Sources { file: None, made: None, all })
}
