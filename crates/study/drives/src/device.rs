//! A device of any kind in a stack of a study.

use std::ops::Deref;
use std::sync::Arc;

use hostftl_core::SECTOR;

use crate::models::{Model, Origin};
use crate::registration::{Description, SavedModel};
use crate::registry;
use crate::text::{DriveError, Key, split};

/// A modelled device, made by [`Description::device`].
pub type Device = Box<dyn SavedModel>;

/// The description of a device of any kind.
#[derive(Clone, Debug)]
pub struct DeviceSpec(Arc<dyn Description>);

impl<T: Description> From<T> for DeviceSpec {
    fn from(description: T) -> Self {
        DeviceSpec(Arc::new(description))
    }
}

impl Deref for DeviceSpec {
    type Target = dyn Description;

    fn deref(&self) -> &Self::Target {
        &*self.0
    }
}

impl PartialEq for DeviceSpec {
    fn eq(&self, other: &Self) -> bool {
        self.0.is_equal(&*other.0)
    }
}

impl DeviceSpec {
    /// Returns the names of the built-in drives, memories and arrays of chips.
    pub fn names() -> impl Iterator<Item = &'static str> {
        registry::names()
    }

    /// Returns the drive, memory or array of chips named `NAME[:KEY=VALUE]…`, with the syntax of
    /// [`crate::DriveSpec::find`].
    ///
    /// # Errors
    /// When no built-in device and no file has that name, or the description is invalid.
    pub fn find(name: &str) -> Result<Self, DriveError> {
        registry::find(name).map(DeviceSpec)
    }

    /// Returns the settings in the device's text and its options, as pairs of key and value. The
    /// list is empty if the device was made without a text.
    pub fn parameters(&self) -> Vec<(String, String)> {
        registry::text(self.name()).map(|text| text.settings()).unwrap_or_default()
    }

    /// Returns the comment at the head of the device's file; empty if it has none, or if the device
    /// was made without a text.
    pub fn about(&self) -> String {
        self.head().0
    }

    /// Returns the sentence after `Use when` in the comment at the head of the device's file. It is
    /// empty if the file has none, or if the device was made without a text.
    pub fn use_when(&self) -> String {
        self.head().1
    }

    /// Returns the commercial drive, of which this is the model; `None` for other devices.
    pub fn model(&self) -> Option<&'static Model> {
        Model::find(split(self.name()).0)
    }

    /// Returns the source of `value`, the value of a key in the device's text. It is `None` if the
    /// device is no model of a commercial drive, or if the value is that of an option.
    pub fn origin(&self, key: &str, value: &str) -> Option<&'static Origin> {
        let setting = self.model()?.drive().iter().find(|it| it.key == key)?;
        (setting.word() == value).then_some(&setting.origin)
    }

    fn head(&self) -> (String, String) {
        registry::text(self.name()).map(|text| text.head()).unwrap_or_default()
    }

    /// Returns the size in bytes of the map of a 1 TB drive with this map unit: four bytes per map
    /// unit. Returns `None` for devices that do not translate and for devices that are not flash.
    pub fn map_of_a_terabyte(&self) -> Option<u64> {
        let unit = u64::from(self.map_unit()) * SECTOR as u64;
        (self.is_flash() && !self.is_raw()).then(|| 4 * 1_000_000_000_000 / unit)
    }

    /// Returns the value of the key `kind` in the device's file.
    pub fn kind(&self) -> &'static str {
        self.registration().kind
    }

    /// Returns whether the device is flash. Only flash wears with each erase and has a known
    /// energy.
    pub fn is_flash(&self) -> bool {
        self.registration().is_flash
    }

    /// Returns the keys that are valid in the file of a device of this kind.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        registry::keys(self.registration())
    }
}
