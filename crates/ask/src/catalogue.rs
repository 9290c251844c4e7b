//! What there is to choose from, as JSON: layers with their parameters, and devices.

use hostftl_core::SECTOR;
use hostftl_drives::DeviceSpec;
use hostftl_layers::{LayerConfig, LayerKind, Registration};
use hostftl_sim::Stack;
use serde_json::{Value, json};

/// What a layer is: its name, what it is for, the devices it works on, the version of its format,
/// and its parameters with their defaults.
pub fn layer(kind: LayerKind) -> Value {
    let Registration { name, about, devices, parameters, format, .. } = kind.registration();
    let config = LayerConfig::new(kind);
    let parameters: Vec<_> = parameters
        .iter()
        .map(|it| {
            json!({
                "key": it.key,
                "value": it.value,
                "about": it.about,
                "default": (it.get)(&config),
            })
        })
        .collect();
    json!({
        "layer": name,
        "about": about,
        "devices": devices.to_string(),
        "format": format,
        "parameters": parameters,
    })
}

/// What a stack is made of. `exported_bytes` is what the host sees of a device by itself.
pub fn stack(stack: &Stack) -> Value {
    let bytes = |sectors: u64| sectors * SECTOR as u64;
    let device = |spec: &DeviceSpec| {
        json!({
            "name": spec.name(),
            "exported_bytes": bytes(spec.exported()),
            "physical_bytes": bytes(spec.sectors()),
            "map_unit_bytes": bytes(spec.map_unit().into()),
            "dies": spec.dies(),
            "cycles": spec.cycles(),
            "raw": spec.is_raw(),
            "flash": spec.is_flash(),
            "model_bytes": spec.memory(),
        })
    };
    json!({
        "name": stack.name,
        "exported_bytes": bytes(stack.sectors()),
        "devices": stack.devices.iter().map(device).collect::<Vec<_>>(),
    })
}
