//! Refusals of `create`, `open` and `import`, which leave everything unchanged.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;

use crate::common::{Client, MIB, Place};
use hostftl_layers::LayerConfig;
use hostftl_layers::LayerKind::{Hard, Passthrough};
use hostftl_volume::{Config, CreateSpec, StartOptions, check, create, import, open};

/// Expects that a creation is refused and the folder is unchanged; returns the message.
fn refused(place: &Place, spec: &CreateSpec) -> String {
    let look = || {
        let entries = fs::read_dir(place.folder.path()).unwrap().map(|entry| entry.unwrap().path());
        let mut list: Vec<_> = entries.map(|path| (fs::read(&path).unwrap(), path)).collect();
        list.sort();
        list
    };
    let before = look();
    let message = create(spec).unwrap_err().to_string();
    assert!(look() == before, "the refusal changed something: {message}");
    assert_eq!(message.lines().count(), 1, "{message}");
    message
}

fn sized(path: &Path, bytes: u64) {
    File::create(path).unwrap().set_len(bytes).unwrap();
}

#[test]
fn unsuitable_files_are_refused() {
    let place = Place::new();
    let spec = place.spec(Passthrough);
    let missing = CreateSpec { size: None, ..spec.clone() };
    assert!(refused(&place, &missing).contains("d0: does not exist; add --size"));
    let tiny = CreateSpec { size: Some(2 * MIB), ..spec.clone() };
    assert!(refused(&place, &tiny).contains("needs at least 3145728"));
    sized(&place.path("d0"), 0);
    assert!(refused(&place, &missing).contains("d0: is empty"));
    sized(&place.path("d0"), 8 * MIB);
    assert!(refused(&place, &spec).contains("exists with 8388608 bytes, not 67108864"));
    let folder = CreateSpec { devices: vec!["/tmp".into()], ..missing.clone() };
    assert!(refused(&place, &folder).contains("/tmp is neither a regular file"));
    let twice = CreateSpec { devices: vec![place.name("d0"), place.name("d0")], ..missing.clone() };
    assert!(refused(&place, &twice).contains("is given twice"));
    let none = CreateSpec { devices: Vec::new(), ..missing.clone() };
    assert!(refused(&place, &none).contains("1 to 16 devices, not 0"));
    let mixed = vec![place.name("d0"), "mem:8M".into()];
    assert!(
        refused(&place, &CreateSpec { devices: mixed, ..missing })
            .contains("cannot mix mem: and other devices")
    );
}

#[test]
fn devices_with_data_are_refused() {
    let place = Place::new();
    sized(&place.path("d0"), 64 * MIB);
    let device = File::options().write(true).open(place.path("d0")).unwrap();
    device.write_all_at(&[0x53, 0xef], 0x438).unwrap();
    let spec = CreateSpec { size: None, ..place.spec(Passthrough) };
    assert!(
        refused(&place, &spec).contains("d0: holds an ext2, ext3 or ext4 file system; --force")
    );
    create(&CreateSpec { force: true, ..spec.clone() }).unwrap();
    let other = CreateSpec { path: place.path("w.toml"), ..spec };
    assert!(refused(&place, &other).contains("d0: holds a member of a HostFTL volume"));
    let again = CreateSpec { force: true, layer: LayerConfig::new(Hard), ..other };
    create(&again).unwrap();
    let message = open(&place.path("v.toml")).unwrap_err().to_string();
    assert!(message.contains("d0: holds volume"), "{message}");
    assert!(check(&again.path).unwrap().problems.is_empty());
}

#[test]
fn existing_volume_files_and_missing_folders_are_refused() {
    let place = Place::new();
    let spec = place.spec(Passthrough);
    fs::write(&spec.path, "mine").unwrap();
    assert!(refused(&place, &spec).ends_with("v.toml exists; remove it or choose another name"));
    // An absent device is reported first, regardless of its position.
    let log = |devices: &[&str], journal: &str| CreateSpec {
        devices: devices.iter().map(|name| place.name(name)).collect(),
        layer: LayerConfig::parse(&format!("log{journal}")).unwrap(),
        size: None,
        ..spec.clone()
    };
    for name in ["d0", "d1", "d2"] {
        sized(&place.path(name), 64 * MIB);
    }
    for (devices, journal) in [
        (&["typo"][..], ""),
        (&["d0", "typo"], ":parity=yes"),
        (&["d0", "d1", "typo"], ":parity=yes"),
        (&["d0", "d1", "d2", "typo"], ":parity=yes:journal=yes"),
    ] {
        let message = refused(&place, &log(devices, journal));
        assert!(message.contains("typo: does not exist"), "{message}");
    }
    let there = log(&["d0", "d1"], ":parity=yes");
    assert!(refused(&place, &there).contains("v.toml exists"));
    let no_size = CreateSpec { devices: vec!["mem:64X".into()], ..there };
    assert!(refused(&place, &no_size).contains("mem:64X"));
    let nowhere = CreateSpec { path: place.path("no/v.toml"), ..spec };
    assert!(refused(&place, &nowhere).contains("cannot write the volume file"));
}

#[test]
fn a_device_in_use() {
    let place = Place::new();
    sized(&place.path("d0"), 64 * MIB);
    let held = File::open(place.path("d0")).unwrap();
    held.try_lock().unwrap();
    let spec = CreateSpec { size: None, force: true, ..place.spec(Passthrough) };
    let message = refused(&place, &spec);
    assert!(message.contains("d0 is in use by process"), "{message}");
}

#[test]
fn shortened_and_changed_devices_are_refused() {
    let place = Place::new();
    let spec = place.spec(Passthrough);
    create(&spec).unwrap();
    let device = File::options().write(true).open(place.path("d0")).unwrap();
    device.set_len(32 * MIB).unwrap();
    let message = open(&spec.path).unwrap_err().to_string();
    let expected = "d0: has 33554432 bytes, but the volume needs 67108864";
    assert!(message.contains(expected), "{message}");
    device.set_len(64 * MIB).unwrap();
    let checked = check(&spec.path).unwrap();
    assert!(checked.problems[0].contains("one of its two superblocks is no HostFTL superblock"));
    device.write_all_at(&[0; 4096], 0).unwrap();
    let message = open(&spec.path).unwrap_err().to_string();
    assert!(message.contains("d0: has no HostFTL superblock"), "{message}");
}

#[test]
fn one_sound_superblock_suffices() {
    for at in [100, 64 * MIB - 1000] {
        let place = Place::new();
        let spec = place.spec(Hard);
        create(&spec).unwrap();
        let device = File::options().write(true).open(place.path("d0")).unwrap();
        device.write_all_at(&[0xaa], at).unwrap();
        let (running, port) = open(&spec.path).unwrap().start(&StartOptions::default()).unwrap();
        Client::new(port).write(0, &[1; 512], true).unwrap();
        assert!(
            running.status().notes[0].contains("a damaged superblock"),
            "{:?}",
            running.status().notes
        );
        running.stop().unwrap();
    }
}

#[test]
fn a_longer_device_keeps_its_volume() {
    let place = Place::new();
    let spec = place.spec(Hard);
    create(&spec).unwrap();
    let device = File::options().write(true).open(place.path("d0")).unwrap();
    device.set_len(80 * MIB).unwrap();
    assert!(check(&spec.path).unwrap().problems.is_empty());
}

#[test]
fn import_writes_the_same_file_again() {
    let place = Place::new();
    let spec = CreateSpec { label: "my label".into(), ..place.spec(Hard) };
    let created = create(&spec).unwrap();
    let before = fs::read(&spec.path).unwrap();
    let exists = import(&spec.devices, &spec.path).unwrap_err().to_string();
    assert!(exists.contains("exists"), "{exists}");
    fs::remove_file(&spec.path).unwrap();
    assert_eq!(import(&spec.devices, &spec.path).unwrap().config, created.config);
    assert_eq!(fs::read(&spec.path).unwrap(), before);
    assert!(check(&spec.path).unwrap().problems.is_empty());
    sized(&place.path("blank"), 8 * MIB);
    let blank = import(&[place.name("blank")], &place.path("x")).unwrap_err().to_string();
    assert!(blank.contains("blank: has no HostFTL superblock"), "{blank}");
    fs::copy(place.path("d0"), place.path("copy")).unwrap();
    let both = [place.name("d0"), place.name("copy")];
    let copies = import(&both, &place.path("x")).unwrap_err().to_string();
    assert!(copies.contains("are copies of one device"), "{copies}");
}

#[test]
fn wrong_volume_files_are_refused() {
    let place = Place::new();
    let spec = place.spec(Hard);
    create(&spec).unwrap();
    let text = fs::read_to_string(&spec.path).unwrap();
    fs::write(&spec.path, text.replace("superpage=64k", "superpage=32k")).unwrap();
    let message = open(&spec.path).unwrap_err().to_string();
    assert!(
        message.contains("does not match its devices; rewrite it with `hostftl import`"),
        "{message}"
    );
    assert!(Config::load(&place.path("none")).unwrap_err().to_string().contains("No such file"));
}

#[test]
fn a_volume_can_be_moved_with_its_files() {
    for (layer, count) in [("passthrough", 1), ("log:parity=yes", 3)] {
        let place = Place::with_volume(layer, count, 64);
        let moved = place.path("moved to");
        fs::create_dir(&moved).unwrap();
        for name in ["v.toml", "d0", "d1", "d2"] {
            fs::rename(place.path(name), moved.join(name)).ok();
        }
        let path = moved.join("v.toml");
        let message = open(&path).unwrap_err().to_string();
        let devices = (0..count).map(|at| moved.join(format!("d{at}")).display().to_string());
        let devices: Vec<String> = devices.collect();
        let list: Vec<String> = devices.iter().map(|name| format!("'{name}'")).collect();
        let command = format!("hostftl import {} --output '{}'", list.join(" "), path.display());
        assert!(message.contains(&command), "{message}");
        fs::rename(&path, moved.join("v.toml.old")).unwrap();
        import(&devices, &path).unwrap();
        assert_eq!(check(&path).unwrap().problems, Vec::<String>::new());
        // A file of that name that is not a member is not suggested.
        fs::rename(moved.join("d0"), moved.join("away")).unwrap();
        sized(&moved.join("d0"), 64 * MIB);
        assert!(!open(&path).unwrap_err().to_string().contains("hostftl import"));
    }
}
