//! Parameters of a layer that may change after the creation of a volume.

use hostftl_layers::LayerConfig;

/// Parameters that can change. All others determine the location of data.
const LIVE: [&str; 3] = ["gc", "rebuild-share", "fault-after"];

/// Changes a parameter of a configuration.
pub(crate) fn change(layer: &mut LayerConfig, key: &str, value: &str) -> Result<(), String> {
    let registration = layer.kind.registration();
    let parameter = registration.parameter(key).ok_or_else(|| {
        format!("layer {} has no parameter {key}; see `hostftl layers {0}`", registration.name)
    })?;
    if !LIVE.contains(&key) {
        let live = LIVE.join(", ");
        return Err(format!("cannot change {key} after creation; only {live} can change"));
    }
    (parameter.set)(layer, value).map_err(|right| format!("{key}={value}: use {right}"))
}
