//! Devices that behave like a drive model: `drive:DRIVE@FILE`. For evaluation.
//!
//! The file has the drive's content at its own addresses, followed by a side region from which the
//! model's map is restored. The data of clients thus never depends on the model.

mod flash;
mod side;

use std::fs::File;
use std::path::Path;

use hostftl_core::SECTOR;
use hostftl_drives::{DriveError, DriveSpec};
use hostftl_io::{Access, Device, IoError};

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

fn spec(name: &str, drive: &str) -> Result<DriveSpec, Error> {
    let mut spec = DriveSpec::find(drive).map_err(|why| match why {
        DriveError::Unknown { .. } | DriveError::Option { .. } => {
            Error::Io(IoError::Name { name: name.into(), why: why.to_string() })
        }
        _ => device(name, why.to_string()),
    })?;
    spec.hint = true;
    Ok(spec)
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
    let (has, needs) = (opened.bytes(), Side::end(&spec));
    if has < needs {
        let why = format!(
            "has {has} bytes, but the drive model needs {needs}; let `create` make \
                           the file"
        );
        return Err(device(name, why));
    }
    let flash = Flash::open(&spec, drive, Path::new(path)).map_err(|why| device(name, why))?;
    opened.attach(name, spec.exported * SECTOR as u64, Box::new(flash));
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
    made.set_len(Side::end(&spec)).map_err(file(path, "set its size"))?;
    sync_folder(path).map_err(file(path, "sync its directory"))?;
    Ok(Some(made))
}
