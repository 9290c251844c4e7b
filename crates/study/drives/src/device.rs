//! A device of a stack in a study, of any kind.

use std::ops::Deref;
use std::sync::Arc;

use hostftl_core::SECTOR;

use crate::registration::{Description, SavedModel};
use crate::registry;
use crate::text::{DriveError, Key};

/// A modelled device; [`Description::device`] makes one.
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

    /// Returns the drive, memory or array `NAME[:KEY=VALUE]…`, as [`crate::DriveSpec::find`] reads
    /// it.
    ///
    /// # Errors
    /// When there is neither, or what is described is not possible.
    pub fn find(name: &str) -> Result<Self, DriveError> {
        registry::find(name).map(DeviceSpec)
    }

    /// Returns the settings in the text of the device, its options included: a word for each key;
    /// empty if the device was made without a text.
    pub fn parameters(&self) -> Vec<(String, String)> {
        registry::text(self.name()).map(|text| text.settings()).unwrap_or_default()
    }

    /// Returns the comment at the head of the device's file; empty if it has none, or if the device
    /// was made without a text.
    pub fn about(&self) -> String {
        self.head().0
    }

    /// Returns when to take the device, as the head of its file says behind `Use when`; empty as
    /// [`DeviceSpec::about`].
    pub fn use_when(&self) -> String {
        self.head().1
    }

    fn head(&self) -> (String, String) {
        registry::text(self.name()).map(|text| text.head()).unwrap_or_default()
    }

    /// Returns the bytes of RAM that the map of a drive of a terabyte takes in the drive: four for
    /// each map unit. `None` for devices that don't translate or are not flash.
    pub fn map_of_a_terabyte(&self) -> Option<u64> {
        let unit = u64::from(self.map_unit()) * SECTOR as u64;
        (self.is_flash() && !self.is_raw()).then(|| 4 * 1_000_000_000_000 / unit)
    }

    /// Returns the value of `kind` in its file.
    pub fn kind(&self) -> &'static str {
        self.registration().kind
    }

    /// Whether it is flash, which wears by the erase and whose energy is known.
    pub fn is_flash(&self) -> bool {
        self.registration().is_flash
    }

    /// Returns the keys that the file of a device of that kind may have.
    pub fn keys(&self) -> impl Iterator<Item = Key> {
        registry::keys(self.registration())
    }
}
