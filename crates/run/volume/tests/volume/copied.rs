//! Replacing a device that only a copy can replace.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;

use crate::common::{Client, MIB, Place, content, replacement};
use hostftl_layers::LayerKind;
use hostftl_volume::{
    CheckOptions, Error, ReplaceSpec, Replaced, StartOptions, Verdict, check_with, create, open,
    replace,
};

const BLOCKS: u64 = 300;

fn put(place: &Place, old: &str, new: &str) -> Result<Replaced, Error> {
    let mut last = 0;
    let replaced = replace(&replacement(place, old, new), &mut |done, all| {
        assert!(last < done && done <= all, "{done} of {all} after {last}");
        last = done;
    });
    assert_eq!(replaced.as_ref().is_ok_and(|it| it.copied), last > 0);
    replaced
}

fn serve(place: &Place, act: impl Fn(&Client)) {
    let (running, port) =
        open(&place.path("v.toml")).unwrap().start(&StartOptions::default()).unwrap();
    act(&Client::new(port));
    running.stop().unwrap();
}

fn fill(place: &Place) {
    serve(place, |client| {
        (0..BLOCKS).for_each(|at| client.write(at * 12288, &content(at), false).unwrap());
        client.flush();
    });
}

fn is_whole(place: &Place) {
    let mut progress = |_: u64, _: u64| {};
    let options = CheckOptions { data: Some(&mut progress), ..CheckOptions::default() };
    assert_eq!(check_with(&place.path("v.toml"), options).unwrap().verdict, Verdict::Sound);
    serve(place, |client| {
        (0..BLOCKS).for_each(|at| {
            assert_eq!(client.read(at * 12288, 4096), content(at), "block {at}");
        });
    });
}

#[test]
fn single_device_volumes_move_to_a_larger_device() {
    for layer in ["passthrough", "hard", "mhatl", "shatl", "hatl-auto"] {
        let place = Place::with_volume(layer, 1, 64);
        fill(&place);
        File::create(place.path("large")).unwrap().set_len(80 * MIB).unwrap();
        let done = put(&place, "0", "large").unwrap();
        assert!(done.copied && !done.was_lost, "{layer}");
        fs::remove_file(place.path("d0")).unwrap();
        is_whole(&place);
    }
}

#[test]
fn each_device_of_a_volume_without_parity_can_be_copied() {
    for (layer, files) in
        [("log", 3), ("tier", 2), ("log:journal=yes", 3), ("log:parity=yes:journal=yes", 3)]
    {
        let place = Place::with_volume(layer, files, 64);
        fill(&place);
        let first = if layer.contains("parity") { files - 1 } else { 0 };
        for at in first..files {
            put(&place, &at.to_string(), &format!("n{at}")).unwrap();
            fs::remove_file(place.path(&format!("d{at}"))).unwrap();
            is_whole(&place);
        }
    }
}

#[test]
fn an_interrupted_copy_is_completed_by_the_same_command() {
    let place = Place::with_volume("log", 2, 64);
    fill(&place);
    let before = fs::read_to_string(place.path("v.toml")).unwrap();
    put(&place, "1", "n1").unwrap();
    // All superblocks list the new device, and the volume file does not yet.
    place.cut_off(&before, &["n1"]);
    let done = put(&place, "1", "n1").unwrap();
    assert_eq!(done.notes, ["a change that was cut off is finished"]);
    is_whole(&place);
}

#[test]
fn a_formerly_replaced_device_is_not_mistaken_for_the_copy() {
    let place = Place::with_volume("hard", 1, 64);
    put(&place, "0", "n0").unwrap();
    fill(&place);
    let message = put(&place, "0", "d0").unwrap_err().to_string();
    assert!(message.contains("--force overwrites it"), "{message}");
    // Refused even when the newer device is absent.
    fs::rename(place.path("n0"), place.path("away")).unwrap();
    let message = put(&place, "0", "d0").unwrap_err().to_string();
    assert!(message.contains("n0: cannot open it"), "{message}");
    fs::rename(place.path("away"), place.path("n0")).unwrap();
    let forced = ReplaceSpec { force: true, ..replacement(&place, "0", "d0") };
    assert!(replace(&forced, &mut |_, _| {}).unwrap().copied);
    fs::remove_file(place.path("n0")).unwrap();
    is_whole(&place);
}

/// Returns both superblocks of a device.
fn superblocks(place: &Place, name: &str) -> [Vec<u8>; 2] {
    let bytes = fs::read(place.path(name)).unwrap();
    [bytes[..4096].into(), bytes[bytes.len() - 4096..].into()]
}

fn set_superblocks(place: &Place, name: &str, [head, tail]: &[Vec<u8>; 2]) {
    let file = File::options().write(true).open(place.path(name)).unwrap();
    let end = file.metadata().unwrap().len();
    file.write_all_at(head, 0).unwrap();
    file.write_all_at(tail, end - 4096).unwrap();
}

#[test]
fn a_copy_interrupted_at_its_end_is_finished_by_the_next_start() {
    for (layer, files) in [("hard", 1), ("log", 2)] {
        let place = Place::with_volume(layer, files, 64);
        let others = (files > 1).then(|| superblocks(&place, "d1"));
        let before = fs::read_to_string(place.path("v.toml")).unwrap();
        put(&place, "0", "n0").unwrap();
        // Cut after the new device had its superblocks and before any other one was updated.
        place.cut_off(&before, &["n0"]);
        others.into_iter().for_each(|pages| set_superblocks(&place, "d1", &pages));
        fill(&place);
        let message = put(&place, "0", "n0").unwrap_err().to_string();
        assert!(message.contains("is already device 0 of this volume"), "{message}");
        fs::remove_file(place.path("d0")).unwrap();
        is_whole(&place);
    }
}

#[test]
fn obstacles_to_a_copy_are_named_and_change_nothing() {
    let place = Place::with_volume("log", 2, 64);
    fill(&place);
    let before = fs::read(place.path("v.toml")).unwrap();
    let refused = |old: &str, new: &str, why: &str| {
        let message = put(&place, old, new).unwrap_err().to_string();
        assert!(message.contains(why) && !message.contains('\n'), "{message}");
    };
    refused("0", "d0", "is already device 0 of this volume");
    refused("0", "d1", "is already device 1 of this volume");
    File::create(place.path("small")).unwrap().set_len(8 * MIB).unwrap();
    refused("0", "small", "and the volume needs");
    refused("0", "no/such/folder", "No such file or directory");
    fs::rename(place.path("d1"), place.path("away")).unwrap();
    refused("0", "n", "cannot open it: No such file or directory");
    refused("1", "n", "cannot open it: No such file or directory");
    fs::rename(place.path("away"), place.path("d1")).unwrap();
    assert!(!place.path("n").exists(), "the new file is removed");
    assert_eq!(fs::read(place.path("v.toml")).unwrap(), before);
    is_whole(&place);
    let zoned = Place::new();
    create(&zoned.spec(LayerKind::Pblk)).unwrap();
    let message = put(&zoned, "0", "n").unwrap_err().to_string();
    assert!(message.contains("is zoned, and copying zoned devices is not supported"), "{message}");
}
