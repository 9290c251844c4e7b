//! Roots of a layer, for who reads them without serving the volume.

use hostftl_core::{DeviceInfo, MetaBuf};

use crate::config::LayerConfig;
use crate::plan::PlanError;

/// Where the roots lie on each device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootPlaces {
    /// The devices that have them: those of lower index.
    pub devices: u8,
    /// The first sector of each copy: both slots, and then the second copies of both.
    pub at: [u64; 4],
    /// Pages of a copy at the most.
    pub pages: u32,
    /// Pages of counts that a root points at.
    pub counts: u32,
}

/// Finds out where roots lie.
pub(crate) type RootsAt = fn(&LayerConfig, &[DeviceInfo]) -> Result<RootPlaces, PlanError>;

/// Finds the last of what a layer wrote that a device has for sure that was done without and is
/// back, for [`hostftl_core::Verb`]: the function that it is given reads pages of the device from a
/// sector on, and says whether they could be read.
pub(crate) type LastOn = fn(
    &LayerConfig,
    &[DeviceInfo],
    u8,
    &mut dyn FnMut(u64, &mut MetaBuf) -> bool,
) -> Result<u64, PlanError>;

/// See the module text.
#[derive(Clone, Copy, Debug)]
pub struct Roots {
    /// Where they lie.
    pub at: RootsAt,
    /// What a device has by them.
    pub last_on: LastOn,
}
