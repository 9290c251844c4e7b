//! The available layers with their parameters, and devices, as JSON.

use std::collections::BTreeMap;

use hostftl_core::SECTOR;
use hostftl_drives::DeviceSpec;
use hostftl_drives::models::{Compared, Measured, Model, Origin, Rate};
use hostftl_layers::{LayerConfig, LayerKind, Registration};
use hostftl_sim::{ARRAY, Array, Stack};
use serde_json::{Value, json};

use crate::usual::memory_of_a_terabyte;

/// Describes a layer: name, function, purpose, limits, memory of map and metadata per terabyte,
/// supported devices, version of the format, and parameters with their defaults.
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
        "about": about.does,
        "pays": about.pays,
        "limits": about.limits,
        "memory_bytes_per_tb": memory_of_a_terabyte(kind),
        "devices": devices.to_string(),
        "format": format,
        "parameters": parameters,
    })
}

/// Describes every layer, and then the array that studies compare them with.
pub fn layers() -> Vec<Value> {
    LayerKind::ALL.iter().map(|kind| layer(*kind)).chain([array()]).collect()
}

/// Describes the array that studies compare layers with, like [`layer`]. It can't be used for
/// volumes.
pub fn array() -> Value {
    let Array { name, does, pays, devices, limits, parameter: (key, value, default, about) } =
        ARRAY;
    json!({
        "layer": name,
        "about": does,
        "pays": pays,
        "limits": limits,
        "memory_bytes_per_tb": 0,
        "devices": devices,
        "format": 0,
        "parameters": [{ "key": key, "value": value, "about": about, "default": default }],
    })
}

/// Describes a device: its text, its figures, and each possible key of its file with the value in
/// this file.
pub fn drive(spec: &DeviceSpec) -> Value {
    let set = spec.parameters();
    let here = |key: &str| set.iter().find(|(name, _)| name == key).map(|(_, value)| value);
    let origin = |key: &str| spec.origin(key, here(key)?);
    let keys: Vec<_> = spec
        .keys()
        .map(|it| {
            json!({
                "key": it.key,
                "values": it.values,
                "default": it.default,
                "about": it.about,
                "here": here(it.key),
                "origin": origin(it.key).map(Origin::word),
                "source": origin(it.key).map(Origin::text),
            })
        })
        .collect();
    let mut all = device(spec);
    all["about"] = spec.about().into();
    all["use_when"] = spec.use_when().into();
    all["map_bytes_of_a_terabyte"] = spec.map_of_a_terabyte().into();
    all["kind"] = spec.kind().into();
    all["keys"] = keys.into();
    all["sheet"] = spec.model().map(sheet).into();
    all
}

/// Describes the data sheet of a commercial drive.
fn sheet(model: &Model) -> Value {
    let settings = model.sheet().iter().map(|it| {
        json!({
            "key": it.key,
            "value": it.word(),
            "origin": it.origin.word(),
            "source": it.origin.text(),
        })
    });
    let misses = Rate::ALL.iter().filter_map(|rate| Some((rate.key(), model.miss(*rate)?)));
    json!({
        "capacity_bytes": model.capacity_bytes(),
        "figures": settings.collect::<Vec<_>>(),
        "misses": misses.collect::<BTreeMap<_, _>>(),
    })
}

/// Compares a model with the data sheet of its drive.
pub fn comparison(model: &Model, measured: &Measured) -> Value {
    let line = |it: Compared| {
        json!({
            "figure": it.figure.key(),
            "stated": it.stated,
            "model": it.model,
            "difference": it.difference(),
            "is_met": it.is_met(),
        })
    };
    let lines = model.compare(measured).into_iter().map(line);
    Value::Array(lines.collect())
}

/// Returns the figures of a device. `exported_bytes` is its own exported capacity, without a layer.
fn device(spec: &DeviceSpec) -> Value {
    let info = spec.device_info();
    json!({
        "name": spec.name(),
        "exported_bytes": bytes(spec.exported()),
        "physical_bytes": bytes(spec.sectors()),
        "nominal_bytes": spec.flash().and_then(|flash| flash.nominal).map(bytes),
        "map_unit_bytes": bytes(spec.map_unit().into()),
        "reclaim_unit_bytes": bytes(info.reclaim_unit),
        "placements": info.placements,
        "dies": spec.dies(),
        "cycles": spec.cycles(),
        "raw": spec.is_raw(),
        "flash": spec.is_flash(),
        "model_bytes": spec.memory(),
    })
}

fn bytes(sectors: u64) -> u64 {
    sectors * SECTOR as u64
}

/// Describes a stack. `exported_bytes` of a device is its own exported capacity, without a layer.
pub fn stack(stack: &Stack) -> Value {
    json!({
        "name": stack.name,
        "exported_bytes": bytes(stack.sectors()),
        "devices": stack.devices.iter().map(device).collect::<Vec<_>>(),
    })
}
