//! Writing a volume file again from the devices alone.

use std::path::Path;

use hostftl_io::Device;
use uuid::Uuid;

use crate::config::Config;
use crate::error::{Error, device};
use crate::stack::{open_member, order};

/// Writes the volume file `path` from `devices`, which may be named in any order.
///
/// # Errors
/// When they are not exactly one whole volume, are in use, or `path` exists.
pub fn import(devices: &[String], path: &Path) -> Result<Config, Error> {
    if let Some(name) = devices.iter().find(|name| name.starts_with("mem:")) {
        return Err(device(name, "is memory, which holds nothing to import"));
    }
    let members = devices.iter().map(|name| open_member(&Device::full_name(name)?));
    let members = order(members.collect::<Result<_, _>>()?)?;
    let superblock = members[0].superblock;
    let config = Config {
        uuid: Uuid::from_bytes(superblock.volume),
        label: superblock.label.as_str().into(),
        layer: superblock.layer.as_str().into(),
        devices: members.iter().map(|member| member.device.name().into()).collect(),
    };
    let known = config.layer_config();
    known.map_err(|why| Error::Config { path: path.into(), why })?;
    config.draft(path)?.publish()?;
    Ok(config)
}
