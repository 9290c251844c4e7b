//! Volumes whose devices differ in length.

use std::fs::{self, File};

use crate::add::{blocks, serve};
use crate::common::{Client, MIB, Place, addition, content, is_sound};
use hostftl_layers::LayerConfig;
use hostftl_volume::{
    CreateSpec, OpenOptions, ReplaceSpec, StartOptions, add, create, open_with, replace,
};

/// Creates a volume with parity on files of these sizes in MiB; returns its number of blocks too.
fn made(mib: &[u64]) -> (Place, u64) {
    let place = Place::new();
    let devices = (0..mib.len()).map(|at| place.name(&format!("d{at}")));
    let devices = devices.collect::<Vec<_>>();
    for (name, mib) in devices.iter().zip(mib) {
        File::create(name).unwrap().set_len(mib * MIB).unwrap();
    }
    let spec = CreateSpec {
        allocate: false,
        path: place.path("v.toml"),
        devices,
        size: None,
        layer: LayerConfig::parse("log:parity=yes:compress=none:map-memory=0").unwrap(),
        label: String::new(),
        force: false,
    };
    create(&spec).unwrap();
    let blocks = blocks(&place);
    (place, blocks)
}

fn replacement(place: &Place, old: &str, new: &str) -> ReplaceSpec {
    let (path, new) = (place.path("v.toml"), place.name(new));
    ReplaceSpec { path, old: old.into(), new, force: false, rehearse: false }
}

/// Reads everything without a device.
fn reads_without(place: &Place, name: &str, all: u64) {
    fs::rename(place.path(name), place.path("away")).unwrap();
    let how = OpenOptions { degraded: true, ..OpenOptions::default() };
    let volume = open_with(&place.path("v.toml"), &how).unwrap();
    let (running, port) = volume.start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    (0..all).for_each(|at| assert_eq!(client.read(at * 4096, 4096), content(at), "block {at}"));
    running.stop().unwrap();
}

#[test]
fn longer_devices_are_used_completely_and_any_one_may_be_lost() {
    let (place, all) = made(&[20, 20, 40, 40]);
    let (even, of_short) = made(&[20; 4]);
    assert!(all > of_short * 6 / 5, "{all} blocks, {of_short} on devices as short as the first");
    drop(even);
    serve(&place, 0..all, 0..all, 1);
    assert!(is_sound(&place));
    for (device, name) in [(3, "d3"), (0, "d0")] {
        reads_without(&place, name, all);
        let new = format!("n{device}");
        replace(&replacement(&place, &device.to_string(), &new), &mut |_, _| {}).unwrap();
        serve(&place, 0..0, 0..all, 1);
        assert!(is_sound(&place), "with {new}");
    }
    reads_without(&place, "d2", all);
}

#[test]
fn a_replacement_must_be_long_enough() {
    let (place, all) = made(&[20, 20, 40, 40]);
    serve(&place, 0..100, 0..100, 1);
    File::create(place.path("short")).unwrap().set_len(20 * MIB).unwrap();
    let refused = replace(&replacement(&place, "2", "short"), &mut |_, _| {}).unwrap_err();
    let refused = refused.to_string();
    assert!(refused.contains("and the volume needs"), "{refused}");
    replace(&replacement(&place, "0", "short"), &mut |_, _| {}).unwrap();
    serve(&place, 100..all, 0..all, 1);
    assert!(is_sound(&place));
}

#[test]
fn devices_of_other_lengths_are_added() {
    let (place, before) = made(&[32; 3]);
    serve(&place, 0..before, 0..before, 1);
    for (name, mib) in [("short", 20), ("long", 48)] {
        File::create(place.path(name)).unwrap().set_len(mib * MIB).unwrap();
        let old = blocks(&place);
        add(&addition(&place, &[name])).unwrap();
        assert!(blocks(&place) > old, "{name}");
    }
    let all = blocks(&place);
    serve(&place, before..all, 0..all, 1);
    assert!(is_sound(&place));
    reads_without(&place, "short", all);
}
