//! Access to a layer's roots without serving the volume.

use hostftl_core::{DeviceInfo, MetaBuf};

use crate::config::LayerConfig;
use crate::plan::PlanError;

/// Positions of the roots on each device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RootPlaces {
    /// Number of devices with roots: those of lower index.
    pub devices: u8,
    /// The first sector of each copy: both slots, followed by the second copies of both.
    pub at: [u64; 4],
    /// Maximum length of a copy in pages.
    pub pages: u32,
    /// Number of pages of counts that a root refers to.
    pub counts: u32,
}

/// Function that returns the positions of roots.
pub(crate) type RootsAt = fn(&LayerConfig, &[DeviceInfo]) -> Result<RootPlaces, PlanError>;

/// Function that returns the last stripe up to which a returning device has everything, according
/// to its newest root; 0 if it has none. The callback reads metadata pages from a sector of the
/// device, and returns whether it could. See [`hostftl_core::AdminCommand`].
pub(crate) type LastOn = fn(
    &LayerConfig,
    &[DeviceInfo],
    u8,
    &mut dyn FnMut(u64, &mut MetaBuf) -> bool,
) -> Result<u64, PlanError>;

/// Functions that examine roots without serving the volume.
#[derive(Clone, Copy, Debug)]
pub struct Roots {
    /// Returns the positions of roots.
    pub at: RootsAt,
    /// Returns the last stripe up to which a returning device is complete.
    pub last_on: LastOn,
}
