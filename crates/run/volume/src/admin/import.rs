//! Reconstruction of a volume file from the devices alone.

use std::path::Path;

use hostftl_io::{Access, Device};
use hostftl_layers::LayerConfig;

use crate::metadata::config::Config;
use crate::metadata::config::MISSING;
use crate::metadata::modelled;
use crate::open::stack::{Assembly, Member, Redundancy, open_member, order};
use crate::util::error::{Error, device};

/// Result of an import.
#[derive(Debug)]
pub struct Imported {
    /// Content of the new file.
    pub config: Config,
    /// Whether a member was omitted, so that an operator has to agree before the volume is served.
    pub needs_consent: bool,
}

/// Writes the volume file `path` from `devices`, which may be named in any order. A device that the
/// redundancy of the volume replaces may be omitted; the file then has `missing` in its place.
///
/// # Errors
/// When they are not exactly one complete volume, are in use, or `path` exists.
pub fn import(devices: &[String], path: &Path) -> Result<Imported, Error> {
    if let Some(name) = devices.iter().find(|name| Device::is_memory(name)) {
        return Err(device(name, "is in memory and has no metadata to import"));
    }
    let members = devices.iter().map(|name| open_member(&modelled::full_name(name)?, Access::Full));
    let members = members.collect::<Result<Vec<_>, _>>()?;
    let layer = members.first().map(|member| LayerConfig::parse(member.superblock.layer.as_str()));
    // The redundancy of an unknown layer is unknown too, so all devices must be present.
    let redundancy = match layer.and_then(Result::ok) {
        Some(layer) => Redundancy { devices: layer.tolerates(), journal: layer.log.journal },
        None => Redundancy { devices: 0, journal: false },
    };
    let found = order(members, Vec::new(), redundancy)?;
    let Assembly { members, superblock, unrecorded, .. } = found;
    let name = |member: &Option<Member>| match member {
        Some(member) => member.device.name().into(),
        None => String::from(MISSING),
    };
    let config = Config::from_superblock(&superblock, members.iter().map(name).collect());
    // A volume file that no command could load must not be written.
    let known = config.layer_config();
    known.map_err(|why| Error::Config { path: path.into(), why })?;
    config.draft(path)?.publish()?;
    Ok(Imported { config, needs_consent: !unrecorded.is_empty() })
}
