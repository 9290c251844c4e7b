//! Parameters of a layer that may change after the creation of a volume.

use hostftl_layers::LayerConfig;

/// Parameters that can change. All others determine the location of data.
const CHANGEABLE: [&str; 3] = ["gc", "rebuild-share", "fault-after"];

/// Changes a parameter of a configuration.
pub(crate) fn change(layer: &mut LayerConfig, key: &str, value: &str) -> Result<(), String> {
    let registration = layer.kind.registration();
    let parameter = registration.parameter(key).ok_or_else(|| {
        format!("layer {} has no parameter {key}; see `hostftl layers {0}`", registration.name)
    })?;
    if !CHANGEABLE.contains(&key) {
        let changeable = CHANGEABLE.join(", ");
        return Err(format!("cannot change {key} after creation; only {changeable} can change"));
    }
    (parameter.set)(layer, value).map_err(|right| format!("{key}={value}: use {right}"))
}
