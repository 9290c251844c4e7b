//! Advice for a real device: the drive model with its unit, scaled to its capacity.

use std::fs::{self, File};
use std::io::{Seek, SeekFrom};
use std::os::unix::fs::FileTypeExt;

use hostftl_frontend::units::bytes;
use hostftl_io::Preferences;

use crate::failure::Failure;

/// A model for a device.
#[derive(Debug)]
pub(in crate::commands) struct Model {
    pub name: &'static str,
    /// Capacity of the device in bytes.
    pub capacity: u64,
    /// Text for the user.
    pub note: String,
}

/// Returns the model for a block device; `None` if the text is not one.
pub(in crate::commands) fn model(drive: &str) -> Result<Option<Model>, Failure> {
    if !fs::metadata(drive).is_ok_and(|it| it.file_type().is_block_device()) {
        return Ok(None);
    }
    let failed = |why: std::io::Error| Failure::failed(format!("{drive}: {why}"));
    let mut file = File::open(drive).map_err(failed)?;
    let capacity = file.seek(SeekFrom::End(0)).map_err(failed)?;
    choose(drive, &Preferences::query(drive), capacity).map(Some)
}

/// Returns the model with the unit that the device reports.
fn choose(drive: &str, preferences: &Preferences, capacity: u64) -> Result<Model, Failure> {
    let (name, source) = match preferences.unit {
        None => ("tlc", "reports no unit above 4 KiB".to_owned()),
        Some(unit) => {
            let reported = format!("reports units of {} ({})", bytes(unit.bytes), unit.source);
            let name = match unit.bytes {
                16_384 => "qlc-16k",
                65_536 => "qlc-64k",
                _ => {
                    let why = "no built-in model has them; use --drive with a TOML file";
                    return Err(Failure::usage(format!("{drive} {reported}: {why}")));
                }
            };
            (name, reported)
        }
    };
    let note = format!(
        "{drive} {source}: the advice is for the model {name}, scaled to {}",
        bytes(capacity)
    );
    Ok(Model { name, capacity, note })
}

#[cfg(test)]
mod tests {
    use hostftl_io::Preferred;

    use super::*;

    #[test]
    fn the_reported_unit_selects_the_model() {
        let of = |bytes: u64| {
            let unit = (bytes > 0).then_some(Preferred { bytes, source: "NPWG" });
            choose("/dev/x", &Preferences { unit, ..Preferences::default() }, 1 << 40)
        };
        let name = |bytes| of(bytes).map(|it| it.name).map_err(|why| why.text);
        assert_eq!((name(0), name(16384), name(65536)), (Ok("tlc"), Ok("qlc-16k"), Ok("qlc-64k")));
        assert!(name(1 << 17).unwrap_err().contains("units of 128 KiB (NPWG)"));
        let model = of(16384).unwrap();
        assert_eq!(model.capacity, 1 << 40);
        let note = "/dev/x reports units of 16 KiB (NPWG): the advice is for the model qlc-16k, \
                    scaled to 1 TiB";
        assert_eq!(model.note, note);
        assert!(super::model("qlc-16k").is_ok_and(|it| it.is_none()));
    }
}
