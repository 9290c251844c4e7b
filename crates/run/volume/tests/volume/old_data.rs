//! Former content of devices does not show through a volume.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use hostftl_layers::LayerKind::{self, Passthrough, Scrambler, Tier};
use hostftl_volume::{
    CreateSpec, ReplaceSpec, StartOptions, create, create_with, delete, open, replace,
};

use crate::common::{Client, MIB, Place};

/// Fills the first 64 MiB of a file, which is created if necessary.
fn fill(place: &Place, name: &str) {
    let file = File::options().write(true).create(true).truncate(false).open(place.path(name));
    let (file, data) = (file.unwrap(), vec![0xa5; MIB as usize]);
    (0..64).for_each(|at| file.write_all_at(&data, at * MIB).unwrap());
}

/// Creates a volume with `layer` over devices that are full of old data.
fn over_old_data(place: &Place, layer: LayerKind) -> CreateSpec {
    let mut spec = place.spec(layer);
    if layer == Scrambler {
        // The file of a drive model is longer than the drive's content.
        create(&spec).unwrap();
        fs::remove_file(&spec.path).unwrap();
    }
    fill(place, "d0");
    if layer == Tier {
        fill(place, "d1");
        spec.devices.push(place.name("d1"));
    }
    spec.size = None;
    spec
}

fn assert_zeros(place: &Place, what: &str) {
    let opened = open(&place.path("v.toml")).unwrap();
    let (running, port) = opened.start(&StartOptions::default()).unwrap();
    let bytes = port.export().bytes;
    let client = Client::new(port);
    for at in (0..bytes).step_by(MIB as usize) {
        let read = client.read(at, MIB.min(bytes - at));
        assert!(read.iter().all(|byte| *byte == 0), "{what}: old data at {at}");
    }
    running.stop().unwrap();
}

#[test]
fn a_new_volume_reads_zeros_with_every_layer() {
    for layer in LayerKind::block_layers().chain([Scrambler, Tier]) {
        let place = Place::new();
        let spec = over_old_data(&place, layer);
        let message = create(&spec).unwrap_err().to_string();
        assert!(message.contains("holds non-zero data"), "{layer}: {message}");
        create(&CreateSpec { force: true, ..spec }).unwrap();
        assert_zeros(&place, layer.name());
    }
}

#[test]
fn clearing_reports_progress() {
    let place = Place::new();
    let spec = CreateSpec { force: true, ..over_old_data(&place, Passthrough) };
    let mut steps = Vec::new();
    create_with(&spec, &mut |done, all| steps.push((done, all))).unwrap();
    assert_eq!(steps.last(), Some(&(62 * MIB, 62 * MIB)));
}

#[test]
fn data_anywhere_on_a_device_is_not_blank() {
    for at in [0, MIB + 512, 20 * MIB + 4096, 40 * MIB - 512, 64 * MIB - 1] {
        let place = Place::new();
        let file = File::create(place.path("d0")).unwrap();
        file.set_len(64 * MIB).unwrap();
        file.write_all_at(b"x", at).unwrap();
        let spec = CreateSpec { size: None, ..place.spec(Passthrough) };
        let message = create(&spec).unwrap_err().to_string();
        assert!(message.contains("holds non-zero data"), "{at}: {message}");
    }
}

#[test]
fn deletion_leaves_zeros() {
    for layer in ["passthrough", "log:parity=yes"] {
        let count = if layer == "passthrough" { 1 } else { 3 };
        let place = Place::with_volume(layer, count, 64);
        let opened = open(&place.path("v.toml")).unwrap();
        let (running, port) = opened.start(&StartOptions::default()).unwrap();
        Client::new(port).write(5 * MIB, &[0x5a; 1 << 20], true).unwrap();
        running.stop().unwrap();
        delete(&place.path("v.toml"), true, &mut |_, _| ()).unwrap();
        for at in 0..count {
            let left = fs::read(place.path(&format!("d{at}"))).unwrap();
            assert!(left.iter().all(|byte| *byte == 0), "{layer}: device {at}");
        }
    }
}

#[test]
fn another_device_at_the_path_of_a_member_is_not_cleared() {
    let place = Place::with_volume("log:parity=yes", 3, 64);
    fs::remove_file(place.path("d1")).unwrap();
    fill(&place, "d1");
    let before = fs::read(place.path("d1")).unwrap();
    delete(&place.path("v.toml"), true, &mut |_, _| ()).unwrap();
    assert!(fs::read(place.path("d1")).unwrap() == before, "it is no member");
    assert!(fs::read(place.path("d0")).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn an_interrupted_deletion_is_finished_by_the_same_command() {
    let place = Place::with_volume("passthrough", 1, 64);
    let opened = open(&place.path("v.toml")).unwrap();
    let (running, port) = opened.start(&StartOptions::default()).unwrap();
    Client::new(port).write(5 * MIB, &[0x5a; 4096], true).unwrap();
    running.stop().unwrap();
    let path = place.path("v.toml");
    let cut = std::panic::AssertUnwindSafe(|| {
        delete(&path, true, &mut |_, _| panic!("cut off")).unwrap();
    });
    std::panic::catch_unwind(cut).unwrap_err();
    assert!(open(&path).is_err(), "no superblock is left");
    // The power cut undoes the first part.
    let file = File::options().write(true).open(place.path("d0")).unwrap();
    file.write_all_at(&[0x5a; 4096], 6 * MIB).unwrap();
    delete(&path, true, &mut |_, _| ()).unwrap();
    assert!(fs::read(place.path("d0")).unwrap().iter().all(|byte| *byte == 0));
}

#[test]
fn a_replacement_does_not_expose_its_old_data() {
    let place = Place::with_volume("passthrough", 1, 64);
    fill(&place, "n");
    let spec = ReplaceSpec {
        path: place.path("v.toml"),
        old: place.name("d0"),
        new: place.name("n"),
        force: true,
        rehearse: false,
    };
    replace(&spec, &mut |_, _| ()).unwrap();
    assert_zeros(&place, "after the replacement");
}
