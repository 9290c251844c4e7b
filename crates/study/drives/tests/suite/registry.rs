//! Registrations of all kinds of devices, those of the laboratory included: described keys and
//! ranges are the accepted ones.

use std::collections::{BTreeMap, BTreeSet};

use hostftl_drives::DeviceSpec;

/// Returns a built-in device of each kind and its name.
fn devices() -> impl Iterator<Item = (&'static str, DeviceSpec)> {
    hostftl_lab_devices::register();
    DeviceSpec::names().map(|name| (name, DeviceSpec::find(name).expect("it is built in")))
}

/// Returns the keys that the reader of a built-in device's file accepts, taken from its error for
/// an unknown key.
fn known(device: &str) -> BTreeSet<String> {
    let error = DeviceSpec::find(&format!("{device}:unknown=1")).expect_err("no such key");
    let words = error.to_string();
    let (_, list) = words.split_once("expected one of ").expect("it lists the keys");
    list.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn exactly_the_valid_keys_are_described() {
    // All flash kinds share one reader, so each of its keys is described by at least one of them.
    let mut described: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    let reader = |it: &DeviceSpec| if it.is_flash() { "flash" } else { it.kind() };
    for (_, device) in devices() {
        let keys = device.keys().map(|it| it.key.to_owned());
        described.entry(reader(&device)).or_default().extend(keys);
    }
    assert!(described.len() > 1, "{described:?}");
    for (name, device) in devices() {
        assert_eq!(described[reader(&device)], known(name), "{name}");
    }
}

/// A value beyond the range of a key is refused, and the error names the range.
#[test]
fn described_ranges_match_the_checks() {
    let mut tried = 0;
    let mut kinds = BTreeSet::new();
    for (name, device) in devices().filter(|(_, it)| kinds.insert(it.kind())) {
        for it in device.keys() {
            let Some((_, most)) = it.values.split_once("..=") else { continue };
            let Ok(most) = most.parse::<f64>() else { continue };
            if most >= f64::from(u32::MAX) {
                continue;
            }
            let asked = format!("{name}:{}={}", it.key, most + 1.0);
            let error = DeviceSpec::find(&asked).expect_err(&asked).to_string();
            let range = it.values.replace("..=", " to ");
            let exact = format!("{} must be from {range}", it.key);
            let or = error.contains("exclude each other") || error.contains("invalid value");
            assert!(or || error.contains(&exact), "{asked}: {error}");
            tried += 1;
        }
    }
    assert!(tried > 50, "only {tried} ranges");
}

#[test]
fn devices_have_the_kind_of_their_registration() {
    let all: Vec<_> = devices().collect();
    for (name, device) in &all {
        assert_eq!(device.flash().is_some(), device.is_flash());
        let kind = device.parameters().into_iter().find(|(key, _)| key == "kind");
        assert_eq!(kind.map_or("block".into(), |(_, kind)| kind), device.kind(), "{name}");
        assert_eq!(all.iter().filter(|(_, it)| it == device).count(), 1, "{name}");
    }
}

#[test]
fn kinds_are_registered_once() {
    let before = devices().count();
    assert_eq!(devices().count(), before);
}
