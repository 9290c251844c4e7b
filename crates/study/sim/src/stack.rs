//! The devices under a layer in a study: one or several.
//!
//! The text is `[N*]DRIVE[+[N*]DRIVE]…`, as in `4*tlc:capacity=2g` and `slc-1g + qlc-64k`. It can
//! also be the path of a TOML file with such texts, and with layers for them:
//!
//! ```toml
//! devices = ["slc-1g", "qlc-64k"]
//! layers = ["tier", "tier:policy=writes"]
//! ```

use std::path::Path;

use hostftl_core::DeviceInfo;
use hostftl_drives::{DeviceSpec, DriveError, DriveSpec};
use serde::Deserialize;
use thiserror::Error;

use crate::layer_spec::LayerSpec;

/// Maximum number of devices, without the journal.
const MOST: usize = 16;

/// The devices under a layer.
#[derive(Clone, Debug, PartialEq)]
pub struct Stack {
    /// Name in rows.
    pub name: String,
    /// Devices in the order of the layer; at least one.
    pub devices: Vec<DeviceSpec>,
    /// Layers named in the stack's file.
    pub layers: Vec<LayerSpec>,
    /// Drive of which the only device is a slice.
    pub whole: Option<Whole>,
}

/// A drive that is studied on a slice of it.
#[derive(Clone, Debug, PartialEq)]
pub struct Whole {
    /// Sectors that the whole drive exports.
    pub sectors: u64,
    /// Options of `hostftl compare` that select the slice; none if the name of the slice suffices.
    pub options: Vec<(&'static str, String)>,
}

/// Error of a stack's text or file.
#[derive(Debug, Error)]
pub enum StackError {
    /// A drive is invalid.
    #[error(transparent)]
    Drive(#[from] DriveError),
    /// The text is invalid.
    #[error("{0}")]
    Text(String),
    /// The file is invalid or can't be read.
    #[error("{0}")]
    File(String),
}

/// Contents of a stack's file.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    devices: Vec<String>,
    #[serde(default)]
    layers: Vec<String>,
}

impl From<DriveSpec> for Stack {
    fn from(spec: DriveSpec) -> Self {
        let (name, devices) = (spec.name.clone(), vec![spec.into()]);
        Stack { name, whole: whole(&devices), devices, layers: Vec::new() }
    }
}

impl Stack {
    /// Parses a stack's text, or reads the file that it names.
    ///
    /// # Errors
    /// The reason and its position.
    pub fn find(text: &str) -> Result<Self, StackError> {
        let (text, name) = (text.trim(), text.trim().replace(' ', ""));
        if let Some(file) = file(text)? {
            return file.stack(text);
        }
        let devices = devices(text)?;
        Ok(Stack { name, whole: whole(&devices), devices, layers: Vec::new() })
    }

    /// Returns the descriptions of the devices for the layer.
    pub fn infos(&self) -> Vec<DeviceInfo> {
        self.devices.iter().map(|it| it.device_info()).collect()
    }

    /// Returns the largest indirection unit of the devices, in sectors.
    pub fn map_unit(&self) -> u32 {
        self.devices.iter().map(|it| it.map_unit()).max().unwrap_or(1)
    }

    /// Returns whether all devices are raw drives.
    pub fn is_raw(&self) -> bool {
        self.devices.iter().all(|it| it.is_raw())
    }

    /// Returns the sectors for data, of which a share is exported. With two devices these are the
    /// sectors of the larger, because the other is its cache or its mirror. With more, one device
    /// is for parity.
    pub fn sectors(&self) -> u64 {
        let sizes = self.devices.iter().map(|it| it.exported());
        match self.devices.len() {
            1 | 2 => sizes.max().unwrap_or(0),
            all => sizes.min().unwrap_or(0) * (all as u64 - 1),
        }
    }

    /// Returns the size of the whole drive relative to the stack; 1 if the stack is not a slice.
    pub fn factor(&self) -> f64 {
        let whole = self.whole.as_ref().map_or(0, |whole| whole.sectors);
        (whole as f64 / self.sectors() as f64).max(1.0)
    }

    /// Returns the descriptions of the devices with `factor` times their capacity.
    pub fn scaled(&self, factor: f64) -> Vec<DeviceInfo> {
        let grown = |spec: &DeviceSpec| {
            let (info, unit) = (spec.device_info(), u64::from(spec.map_unit()));
            let sectors = (spec.exported() as f64 * factor).round() as u64 / unit * unit;
            DeviceInfo { sectors, ..info }
        };
        self.devices.iter().map(grown).collect()
    }
}

/// Returns the real drive of which the only device is a slice.
fn whole(devices: &[DeviceSpec]) -> Option<Whole> {
    let [device] = devices else { return None };
    let nominal = device.flash()?.nominal.filter(|nominal| *nominal > device.exported());
    nominal.map(|sectors| Whole { sectors, options: Vec::new() })
}

/// Parses the devices of a text.
fn devices(text: &str) -> Result<Vec<DeviceSpec>, StackError> {
    let mut all = Vec::new();
    // A file name with a plus sign is one drive.
    let parts = if Path::new(text).exists() { vec![text] } else { text.split('+').collect() };
    for part in parts.into_iter().map(str::trim) {
        let (count, name) = match part.split_once('*') {
            None => (1, part),
            Some((count, name)) => {
                let count = count.trim().parse::<usize>().ok();
                let count = count.filter(|count| (1..=MOST).contains(count)).ok_or_else(|| {
                    let why = "the number before the star must be from 1 to 16, as in 4*tlc";
                    StackError::Text(format!("{part}: {why}"))
                })?;
                (count, name.trim())
            }
        };
        let spec = DeviceSpec::find(name)?;
        all.extend(std::iter::repeat_n(spec, count));
    }
    match all.len() {
        1..=MOST => Ok(all),
        more => {
            Err(StackError::Text(format!("{text}: {more} devices; at most {MOST} are supported")))
        }
    }
}

/// Reads a stack's file. Returns `None` if the name is that of a drive's file, or of no file.
fn file(text: &str) -> Result<Option<File>, StackError> {
    let path = Path::new(text);
    if path.extension().is_none_or(|it| it != "toml") || !path.is_file() {
        return Ok(None);
    }
    let read = hostftl_core::files::read_text(path);
    let read = read.map_err(|why| StackError::File(format!("cannot read {text}: {why}")))?;
    let is_stack = |table: toml::Table| table.contains_key("devices");
    if !read.parse::<toml::Table>().is_ok_and(is_stack) {
        return Ok(None);
    }
    toml::from_str(&read).map(Some).map_err(|error| {
        let line = error.span().map_or(1, |span| 1 + read[..span.start].matches('\n').count());
        StackError::File(format!("{text}:{line}: {}", error.message().replace('\n', " ")))
    })
}

impl File {
    fn stack(&self, name: &str) -> Result<Stack, StackError> {
        let about = |why: String| StackError::File(format!("{name}: {why}"));
        let layers = self.layers.iter().map(|text| LayerSpec::parse(text)).collect();
        let layers: Result<Vec<_>, _> = layers;
        let layers = layers.map_err(about)?;
        if self.devices.is_empty() {
            return Err(about("devices is empty; name at least one drive".into()));
        }
        let devices = devices(&self.devices.join("+")).map_err(|why| about(why.to_string()))?;
        Ok(Stack { name: name.to_owned(), whole: whole(&devices), devices, layers })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_names_one_or_several_devices() {
        hostftl_lab_devices::register();
        let names = |text: &str| {
            let stack = Stack::find(text).unwrap_or_else(|why| panic!("{why}"));
            let names = stack.devices.iter().map(|it| it.name().to_owned());
            (names.collect::<Vec<_>>().join(" "), stack.name)
        };
        assert_eq!(names("tlc").0, "tlc");
        assert_eq!(names("2*hatl-1g").0, "hatl-1g hatl-1g");
        let tier = names("slc-1g:capacity=256m + qlc-64k:capacity=1g");
        assert_eq!(tier.0, "slc-1g:capacity=256m qlc-64k:capacity=1g");
        assert_eq!(tier.1, "slc-1g:capacity=256m+qlc-64k:capacity=1g");
        assert_eq!(names("scm-m+scm-s").0, "scm-m scm-s");
        for (text, part) in [
            ("0*tlc", "from 1 to 16"),
            ("17*tlc", "from 1 to 16"),
            ("12*tlc+5*tlc", "17 devices"),
            ("tlc+", "no drive ''"),
            ("tlc+nosuch", "no drive 'nosuch'"),
            ("scm-m:capacity=100", "whole number of pages"),
            ("scm-m:planes=2", "unknown field"),
        ] {
            let why = Stack::find(text).expect_err(text).to_string();
            assert!(why.contains(part), "{text}: {why}");
        }
    }

    #[test]
    fn the_export_excludes_parity_and_cache() {
        let sectors = |text: &str| Stack::find(text).expect("a stack").sectors() >> 21;
        assert_eq!(sectors("hatl-2g"), 2);
        assert_eq!(sectors("4*hatl-2g"), 6);
        assert_eq!(sectors("slc-1g+hatl-2g"), 2);
        assert_eq!(sectors("2*hatl-2g"), 2);
    }
}
