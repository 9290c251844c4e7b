//! Layers on slices of drives: devices that stand for larger ones in a study.

use hostftl_core::DeviceInfo;

use crate::config::LayerConfig;
use crate::kind::LayerKind;
use crate::shatl;

/// Reduces the areas and tables of a configuration for `whole` to those for a slice of it, which is
/// smaller by `factor`. The layer then behaves on the slice as on the whole. A configuration that
/// is impossible on `whole` remains as it is.
///
/// # Panics
/// If the factor is less than 1.
pub fn slice(config: &mut LayerConfig, whole: &DeviceInfo, factor: f64) {
    assert!(factor >= 1.0, "a slice is smaller than its drive");
    match config.kind {
        LayerKind::Mhatl => config.mhatl.slice(factor),
        LayerKind::Shatl => config.shatl.slice(factor),
        LayerKind::HatlAuto => shatl::slice(config, whole, factor),
        _ => {}
    }
}
