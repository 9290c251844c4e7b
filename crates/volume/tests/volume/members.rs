//! The members of a stack with parity: named in any order, missing, stale, copied, foreign.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::common::{Client, MIB, Place};
use hostftl_layers::LayerConfig;
use hostftl_volume::{Config, CreateSpec, StartOptions, check, create, import, open};

const FILES: [&str; 3] = ["d0", "d1", "d2"];

/// What makes `v.toml` over three files.
fn spec(place: &Place) -> CreateSpec {
    CreateSpec {
        path: place.path("v.toml"),
        devices: FILES.map(|name| place.name(name)).into(),
        size: Some(48 * MIB),
        layer: LayerConfig::parse("log:parity=yes").unwrap(),
        label: String::new(),
        force: false,
    }
}

/// Serves it and writes `byte` into each block of a range, durably; the notes.
fn write(place: &Place, byte: u8) -> Vec<String> {
    let (running, port) = open(&place.path("v.toml")).unwrap().start(&options()).unwrap();
    let client = Client::new(port);
    for block in 0..64 {
        client.write(block * 8192, &[byte; 4096], false).unwrap();
    }
    client.flush();
    let notes = running.notes().to_vec();
    running.stop().unwrap();
    notes
}

/// Serves it and expects what [`write`] wrote; the notes.
fn expect(place: &Place, byte: u8) -> Vec<String> {
    let (running, port) = open(&place.path("v.toml")).unwrap().start(&options()).unwrap();
    let client = Client::new(port);
    for block in 0..64 {
        assert!(client.read(block * 8192, 4096) == [byte; 4096], "block {block}");
    }
    let notes = running.notes().to_vec();
    running.stop().unwrap();
    notes
}

fn options() -> StartOptions {
    StartOptions::default()
}

fn refusal(place: &Place) -> String {
    open(&place.path("v.toml")).unwrap_err().to_string()
}

#[test]
fn any_order_and_a_volume_file_that_is_lost() {
    let place = Place::new();
    let created = create(&spec(&place)).unwrap();
    write(&place, 3);
    let text = fs::read_to_string(place.path("v.toml")).unwrap();
    let turned = text.replace("d0\"", "\0").replace("d2\"", "d0\"").replace('\0', "d2\"");
    assert_ne!(text, turned);
    fs::write(place.path("v.toml"), turned).unwrap();
    assert_eq!(expect(&place, 3), Vec::<String>::new());
    fs::remove_file(place.path("v.toml")).unwrap();
    let names = ["d2", "d0", "d1"].map(|name| place.name(name));
    assert_eq!(import(&names, &place.path("v.toml")).unwrap(), created.config);
    expect(&place, 3);
}

#[test]
fn a_missing_device_is_said_loudly_and_everything_is_served() {
    for gone in FILES {
        let place = Place::new();
        create(&spec(&place)).unwrap();
        write(&place, 1);
        fs::remove_file(place.path(gone)).unwrap();
        let notes = expect(&place, 1);
        assert!(notes[0].starts_with("DEGRADED: the volume runs without device"), "{notes:?}");
        assert!(notes[1].contains(&place.name(gone)), "{notes:?}");
        write(&place, 2);
        expect(&place, 2);
        let problems = check(&place.path("v.toml")).unwrap().problems;
        assert!(problems[0].starts_with("DEGRADED") && problems.len() == 2, "{problems:?}");
    }
}

#[test]
fn a_device_that_comes_back_after_it_missed_writes_is_left_out() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    write(&place, 1);
    fs::rename(place.path("d1"), place.path("away")).unwrap();
    write(&place, 2);
    fs::rename(place.path("away"), place.path("d1")).unwrap();
    let before = fs::read(place.path("d1")).unwrap();
    let notes = expect(&place, 2);
    assert!(notes[1].contains("d1: it missed writes"), "{notes:?}");
    assert!(fs::read(place.path("d1")).unwrap() == before, "it was written to");
    fs::remove_file(place.path("d2")).unwrap();
    let message = refusal(&place);
    assert!(message.contains("d1 missed changes of the volume: it is stale"), "{message}");
    assert!(message.contains("d2"), "{message}");
}

#[test]
fn what_is_too_short_or_blank_is_left_out() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    write(&place, 1);
    File::options().write(true).open(place.path("d0")).unwrap().set_len(20 * MIB).unwrap();
    let notes = expect(&place, 1);
    assert!(notes[1].contains("d0: has 20971520 bytes, but the volume needs 50331648"));
    File::create(place.path("d0")).unwrap().set_len(48 * MIB).unwrap();
    let notes = expect(&place, 1);
    assert!(notes[1].contains("d0: has no HostFTL superblock"), "{notes:?}");
    fs::remove_file(place.path("d1")).unwrap();
    let message = refusal(&place);
    assert!(message.starts_with("the volume has 3 devices; number 0, 1 is not here"), "{message}");
}

#[test]
fn copies_and_devices_of_other_volumes_are_refused() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    fs::copy(place.path("d0"), place.path("copy")).unwrap();
    let text = fs::read_to_string(place.path("v.toml")).unwrap();
    fs::write(place.path("v.toml"), text.replace("d1\"", "copy\"")).unwrap();
    let message = refusal(&place);
    assert!(message.contains("are copies of one device; name one"), "{message}");
    let other = CreateSpec {
        path: place.path("w.toml"),
        devices: ["e0", "e1", "e2"].map(|name| place.name(name)).into(),
        label: "another".into(),
        ..spec(&place)
    };
    create(&other).unwrap();
    fs::write(place.path("v.toml"), text.replace("d1\"", "e1\"")).unwrap();
    let message = refusal(&place);
    assert!(message.contains("e1 belongs to another volume (another)"), "{message}");
}

#[test]
fn a_volume_is_imported_without_a_device_that_it_can_do_without() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    write(&place, 1);
    fs::remove_file(place.path("v.toml")).unwrap();
    let two = [place.name("d2"), place.name("d0")];
    let config = import(&two, &place.path("v.toml")).unwrap();
    assert_eq!(config.devices, [place.name("d0"), "missing".into(), place.name("d2")]);
    assert_eq!(Config::load(&place.path("v.toml")).unwrap(), config);
    let notes = expect(&place, 1);
    assert!(notes[1].contains("missing: the volume file names no device in this place"));
    let one = import(&two[..1], &place.path("w.toml")).unwrap_err().to_string();
    assert!(one.contains("the volume has 3 devices; number 0, 1 is not here"), "{one}");
}

#[test]
fn a_smallest_device_that_is_lost_does_not_change_where_things_lie() {
    let place = Place::new();
    File::create(place.path("d1")).unwrap().set_len(40 * MIB).unwrap();
    for name in ["d0", "d2"] {
        File::create(place.path(name)).unwrap().set_len(48 * MIB).unwrap();
    }
    create(&CreateSpec { size: None, ..spec(&place) }).unwrap();
    write(&place, 5);
    fs::remove_file(place.path("d1")).unwrap();
    expect(&place, 5);
}

#[test]
fn a_change_of_members_that_was_cut_off_is_finished() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    write(&place, 1);
    fs::copy(place.path("d2"), place.path("before")).unwrap();
    fs::remove_file(place.path("d1")).unwrap();
    write(&place, 2);
    // The superblocks of d2 are as they were before d1 was given up; the rest of it is not.
    let (old, new) = (File::open(place.path("before")).unwrap(), place.path("d2"));
    let new = File::options().write(true).open(new).unwrap();
    for at in [0, 48 * MIB - 4096] {
        let mut page = [0; 4096];
        old.read_exact_at(&mut page, at).unwrap();
        new.write_all_at(&page, at).unwrap();
    }
    expect(&place, 2);
    let mut page = [0; 4096];
    File::open(place.path("d2")).unwrap().read_exact_at(&mut page, 0).unwrap();
    assert_eq!((page[24], page[46]), (2, 0b10), "its superblock is up to date again");
}
