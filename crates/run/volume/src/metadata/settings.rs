//! Parameters of a layer that can change after the volume was made.

use hostftl_layers::LayerConfig;

/// The parameters that can change: all others say where things lie.
const LIVE: [&str; 3] = ["gc", "rebuild-share", "fault-after"];

/// Changes a parameter of a configuration, if it is one that can change.
///
/// # Errors
/// In words, when it is not, or the value makes no sense.
pub(crate) fn change(layer: &mut LayerConfig, key: &str, value: &str) -> Result<(), String> {
    let registration = layer.kind.registration();
    let parameter = registration.parameter(key).ok_or_else(|| {
        format!("layer {} has no parameter {key}: see `hostftl layers {0}`", registration.name)
    })?;
    if !LIVE.contains(&key) {
        let live = LIVE.join(", ");
        return Err(format!("{key} stays as the volume was made: only {live} can change"));
    }
    (parameter.set)(layer, value).map_err(|right| format!("{key}={value}: use {right}"))
}
