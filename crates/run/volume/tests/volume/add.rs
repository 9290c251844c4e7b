//! Adding devices to a volume.

use std::fs::{self, File};

use crate::common::{Client, MIB, Place, addition, content, is_sound, start, until};
use crate::cuts::cut_off;
use hostftl_layers::LayerKind;
use hostftl_volume::{
    AddSpec, Config, OpenOptions, ReplaceSpec, StartOptions, add, check, create, delete, open_with,
    replace, status,
};

/// Serves the volume: writes the blocks of `write`, waits until `lose` devices may fail, and reads
/// the blocks of `read`.
pub(crate) fn serve(
    place: &Place,
    write: core::ops::Range<u64>,
    read: core::ops::Range<u64>,
    lose: u32,
) {
    let (running, client) = start(&place.path("v.toml"), true);
    until(&running, |it| {
        let space = it.status().space.unwrap();
        space.degraded_bytes == 0 && space.failures_tolerated == lose
    });
    write.for_each(|at| client.write(at * 4096, &content(at), false).unwrap());
    client.flush();
    read.for_each(|at| assert_eq!(client.read(at * 4096, 4096), content(at), "block {at}"));
    running.stop().unwrap();
}

pub(crate) fn blocks(place: &Place) -> u64 {
    status(&place.path("v.toml")).unwrap().exported_bytes / 4096
}

#[test]
fn a_full_volume_grows_by_the_rehearsed_size() {
    let place = Place::with_volume("log:parity=yes:compress=none:spare=20", 3, 40);
    let before = blocks(&place);
    serve(&place, 0..before, 0..before, 1);
    let rehearsed = add(&AddSpec { rehearse: true, ..addition(&place, &["d3"]) }).unwrap();
    assert!(!place.path("d3").exists() && blocks(&place) == before);
    let done = add(&addition(&place, &["d3"])).unwrap();
    assert_eq!(done.exported, rehearsed.exported);
    let after = blocks(&place);
    assert_eq!((before * 4096, after * 4096), done.exported);
    assert!(after > before * 7 / 5, "{before} to {after}: a third data device of the same size");
    // The new capacity is writable up to its end, and old data is unchanged.
    serve(&place, before..after, 0..after, 1);
    assert!(is_sound(&place));
    fs::remove_file(place.path("d1")).unwrap();
    let how = OpenOptions { degraded: true, ..OpenOptions::default() };
    let running = open_with(&place.path("v.toml"), &how).unwrap().start(&StartOptions::default());
    let (running, port) = running.unwrap();
    let client = Client::new(port);
    (0..after).for_each(|at| assert_eq!(client.read(at * 4096, 4096), content(at), "block {at}"));
    running.stop().unwrap();
    replace(
        &ReplaceSpec {
            path: place.path("v.toml"),
            old: "1".into(),
            new: place.name("n1"),
            force: false,
            rehearse: false,
        },
        &mut |_, _| {},
    )
    .unwrap();
    serve(&place, 0..0, 0..after, 1);
    assert!(is_sound(&place));
}

#[test]
fn one_device_grows_to_three() {
    let place = Place::with_volume("log:compress=none", 1, 40);
    let before = blocks(&place);
    serve(&place, 0..before, 0..before, 0);
    let done = add(&addition(&place, &["d1", "d2"])).unwrap();
    assert_eq!(done.devices.iter().map(|it| it.number).collect::<Vec<_>>(), [1, 2]);
    let after = blocks(&place);
    assert!(after > 5 * before / 2, "{before} to {after}");
    serve(&place, before..after, 0..after, 0);
    assert!(is_sound(&place));
}

#[test]
fn a_cut_is_ended_by_the_same_command_or_by_the_next_start() {
    let whole = Place::with_volume("log:parity=yes", 3, 40);
    add(&addition(&whole, &["n"])).unwrap();
    let size = blocks(&whole);
    // Cuts after the new device was listed as pending, cleared, and given both superblocks: no
    // other superblock lists it then, or one does, or all do.
    let cut = |steps| {
        let place = Place::with_volume("log:parity=yes", 3, 40);
        serve(&place, 0..100, 0..100, 1);
        assert!(!cut_off(&place, "add", false, steps), "it ends later");
        assert_eq!(Config::load(&place.path("v.toml")).unwrap().pending, [place.name("n")]);
        place
    };
    for steps in [5, 7, 11] {
        let place = cut(steps);
        let file = fs::read(place.path("v.toml")).unwrap();
        let found = check(&place.path("v.toml")).unwrap();
        assert!(found.notes.iter().any(|note| note.contains("n is device 3")), "{found:?}");
        assert_eq!(fs::read(place.path("v.toml")).unwrap(), file, "a check writes nothing");
        let done = add(&addition(&place, &["n"])).unwrap();
        assert_eq!((done.devices[0].number, blocks(&place)), (3, size));
        let known = add(&addition(&place, &["n"])).unwrap_err().to_string();
        assert!(known.contains("is already device 3 of this volume"), "{known}");
        let place = cut(steps);
        serve(&place, 100..200, 0..200, 1);
        let file = Config::load(&place.path("v.toml")).unwrap();
        assert_eq!((file.devices.len(), file.pending.len(), blocks(&place)), (4, 0, size));
        assert!(is_sound(&place));
    }
    let place = cut(7);
    delete(&place.path("v.toml"), true, &mut |_, _| {}).unwrap();
    let held = fs::read(place.path("n")).unwrap();
    assert_eq!(held[..4096], [0; 4096], "a pending member is deleted too");
}

#[test]
fn obstacles_to_an_addition_are_named_and_change_nothing() {
    let place = Place::with_volume("log:parity=yes", 2, 40);
    let before = fs::read(place.path("v.toml")).unwrap();
    let refused = |spec: AddSpec, why: &str| {
        let message = add(&spec).unwrap_err().to_string();
        assert!(message.contains(why), "{message}");
        assert!(!message.contains('\n'), "one line: {message}");
    };
    refused(addition(&place, &["d1"]), "is already device 1 of this volume");
    refused(addition(&place, &["n", "n"]), "is given twice");
    File::create(place.path("small")).unwrap().set_len(3 * MIB).unwrap();
    refused(addition(&place, &["small"]), "less than 1/16 of the capacity of the others");
    let other = Place::with_volume("log:parity=yes", 2, 40);
    fs::copy(other.path("d0"), place.path("foreign")).unwrap();
    refused(addition(&place, &["foreign"]), "--force overwrites it");
    let many: Vec<String> = (0..15).map(|at| format!("n{at}")).collect();
    let many: Vec<&str> = many.iter().map(String::as_str).collect();
    refused(addition(&place, &many), "at most 16 devices, and this one would have 17");
    fs::rename(place.path("d1"), place.path("away")).unwrap();
    refused(addition(&place, &["n"]), "device 1 (");
    fs::rename(place.path("away"), place.path("d1")).unwrap();
    assert!(!place.path("n").exists(), "the new file is removed");
    assert_eq!(fs::read(place.path("v.toml")).unwrap(), before);
    let plain = Place::new();
    create(&plain.spec(LayerKind::Hard)).unwrap();
    refused(addition(&plain, &["n"]), "cannot add devices to layer hard of this volume");
    let journal = Place::with_volume("log:journal=yes", 2, 40);
    fs::rename(journal.path("d1"), journal.path("away")).unwrap();
    refused(addition(&journal, &["n"]), "v.toml 1 NEW`)");
}

#[test]
fn a_spare_replaces_a_lost_device_automatically() {
    let place = Place::with_volume("log:parity=yes:compress=none", 3, 40);
    serve(&place, 0..2000, 0..2000, 1);
    let size = blocks(&place);
    let done = add(&AddSpec { spare: true, ..addition(&place, &["s"]) }).unwrap();
    assert_eq!((done.exported.0, blocks(&place)), (done.exported.1, size), "it adds no room");
    serve(&place, 2000..2100, 0..2100, 1);
    let role = |at: usize| status(&place.path("v.toml")).unwrap().devices[at].role.clone();
    assert_eq!(role(3), "spare");
    fs::remove_file(place.path("d1")).unwrap();
    serve(&place, 2100..2200, 0..2200, 1);
    let now = status(&place.path("v.toml")).unwrap();
    assert_eq!((now.devices[1].health.as_str(), now.degraded), ("removed", false));
    assert_eq!((role(3).as_str(), blocks(&place)), ("", size));
    // The former spare is an ordinary member: the loss of another one is tolerated.
    fs::remove_file(place.path("d0")).unwrap();
    let how = OpenOptions { degraded: true, ..OpenOptions::default() };
    let running = open_with(&place.path("v.toml"), &how).unwrap().start(&StartOptions::default());
    let (running, port) = running.unwrap();
    let client = Client::new(port);
    (0..2200).for_each(|at| assert_eq!(client.read(at * 4096, 4096), content(at), "block {at}"));
    running.stop().unwrap();
    let plain = Place::with_volume("log", 2, 40);
    let refused =
        add(&AddSpec { spare: true, ..addition(&plain, &["s"]) }).unwrap_err().to_string();
    assert!(refused.contains("a spare needs parity or a mirror"), "{refused}");
}
