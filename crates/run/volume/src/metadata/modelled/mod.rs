//! Devices that behave like a drive model: `drive:DRIVE@FILE`. For evaluation.
//!
//! The file has the drive's content at its own addresses. That of a flash drive is followed by a
//! side region from which the model's map is restored. The data of clients thus never depends on
//! the model. A memory has no map, so its file has nothing but the content.

mod flash;
mod side;

use std::fs::File;
use std::path::Path;

use hostftl_core::SECTOR;
use hostftl_drives::{DeviceSpec, DriveError};
use hostftl_io::{Access, Device, IoError, Model};

use crate::util::error::{Error, device, file};
use crate::util::private::{new_private, sync_folder};
use flash::Flash;
use side::Side;

/// Returns the drive and the file in the name of a modelled device.
fn parts(name: &str) -> Option<(&str, &str)> {
    name.strip_prefix("drive:")?.split_once('@')
}

/// Returns the file of a modelled device.
pub(crate) fn backing(name: &str) -> Option<&str> {
    parts(name).map(|(_, path)| path)
}

fn spec(name: &str, drive: &str) -> Result<DeviceSpec, Error> {
    let spec = DeviceSpec::find(drive).map_err(|why| match why {
        DriveError::Unknown { .. } | DriveError::Option { .. } => {
            Error::Io(IoError::Name { name: name.into(), why: why.to_string() })
        }
        _ => device(name, why.to_string()),
    })?;
    if spec.is_raw() {
        return Err(device(name, "is a raw drive model; use zoned:PATH"));
    }
    Ok(spec)
}

/// Returns the minimum length of a model's file in bytes.
fn end(spec: &DeviceSpec) -> u64 {
    spec.flash().map_or(spec.exported() * SECTOR as u64, Side::end)
}

/// Returns the full name of a device like [`Device::full_name`], also for drive models.
pub(crate) fn full_name(name: &str) -> Result<String, Error> {
    match parts(name) {
        Some((drive, path)) => Ok(format!("drive:{drive}@{}", Device::full_name(path)?)),
        None => Ok(Device::full_name(name)?),
    }
}

/// Opens a device like [`Device::open`], also a drive model.
pub(crate) fn open(name: &str) -> Result<Device, Error> {
    open_as(name, Access::Full)
}

/// Opens a device like [`Device::open_as`], also a drive model.
pub(crate) fn open_as(name: &str, access: Access) -> Result<Device, Error> {
    let Some((drive, path)) = parts(name) else { return Ok(Device::open_as(name, access)?) };
    if access != Access::Full {
        let why = "is a drive model, which records each opening; it cannot be read-only";
        return Err(device(name, why));
    }
    let spec = spec(name, drive)?;
    let mut opened = Device::open(path)?;
    let (has, needs) = (opened.bytes(), end(&spec));
    if has < needs {
        let why = format!(
            "has {has} bytes, but the drive model needs {needs}; let `create` make \
                           the file"
        );
        return Err(device(name, why));
    }
    let flash = spec.flash().map(|flash| Flash::open(flash, drive, Path::new(path)));
    let flash = flash.transpose().map_err(|why| device(name, why))?;
    let model = flash.map(|flash| Box::new(flash) as Box<dyn Model>);
    opened.attach(name, spec.exported() * SECTOR as u64, model);
    Ok(opened)
}

/// Creates the file of a drive model and returns it, unless it exists.
pub(crate) fn make(name: &str) -> Result<Option<File>, Error> {
    let Some((drive, path)) = parts(name) else { return Ok(None) };
    let spec = spec(name, drive)?;
    let path = Path::new(path);
    if path.exists() {
        return Ok(None);
    }
    let made = new_private(path).map_err(file(path, "create the file"))?;
    made.set_len(end(&spec)).map_err(file(path, "set its size"))?;
    sync_folder(path).map_err(file(path, "sync its directory"))?;
    Ok(Some(made))
}
