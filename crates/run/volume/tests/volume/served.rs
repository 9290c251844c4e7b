//! Replacing and taking back devices of a served volume with a client.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::common::{Client, Place, heal, is_sound, put, serve, until, version};
use hostftl_volume::{
    AdminRequest, Config, ReplaceSpec, Running, online, operate, replace, set, status,
};

const BLOCKS: u64 = 500;
fn write(client: &Client, turn: u64) {
    (0..BLOCKS).for_each(|at| client.write(at * 8192, &version(at, turn), false).unwrap());
    client.flush();
}

fn verify(client: &Client, turn: u64) {
    for at in 0..BLOCKS {
        assert_eq!(client.read(at * 8192, 4096), version(at, turn), "block {at}");
    }
}

/// Replaces all devices of a volume, one after the other, while a client writes.
fn all_are_replaced(layer: &str, files: usize) {
    let place = Place::with_volume(layer, files, 48);
    let (running, port) = serve(&place, true);
    write(&Client::new(port.clone()), 0);
    let over = AtomicBool::new(false);
    let turns = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let client = Client::new(port.clone());
            (1..)
                .take_while(|turn| {
                    verify(&client, turn - 1);
                    write(&client, *turn);
                    !over.load(SeqCst)
                })
                .last()
        });
        for index in 0..files {
            let done = put(&place, &index.to_string(), &format!("n{index}")).unwrap();
            assert_eq!(
                (usize::from(done.old.number), done.was_lost, done.served),
                (index, false, true)
            );
            // If the data was rebuilt on the others already, nothing lacks redundancy in between.
            until(&running, |it| {
                it.status().events.get("device-joined") == Some(&(index as u64 + 1))
            });
            heal(&running);
        }
        over.store(true, SeqCst);
        writer.join().unwrap().unwrap_or(0) + 1
    });
    let now = running.status();
    let names: Vec<_> = (0..files).map(|index| place.name(&format!("n{index}"))).collect();
    assert!(now.devices.iter().map(|it| &it.name).eq(&names) && !now.degraded);
    assert!(now.devices.iter().all(|it| it.health == "online" && it.written_bytes > 0), "{now:?}");
    assert_eq!(
        (now.events["device-replaced"], now.events["device-joined"]),
        (files as u64, files as u64)
    );
    running.stop().unwrap();
    assert_eq!(Config::load(&place.path("v.toml")).unwrap().devices, names);
    (0..files).for_each(|index| fs::remove_file(place.path(&format!("d{index}"))).unwrap());
    assert!(is_sound(&place));
    fs::remove_file(place.path("n1")).unwrap();
    let (running, port) = serve(&place, true);
    verify(&Client::new(port), turns);
    running.stop().unwrap();
}

#[test]
fn all_devices_of_an_array_are_replaced_while_served() {
    all_are_replaced("log:parity=yes:compress=none", 4);
}

#[test]
fn both_devices_of_a_mirror_are_replaced_while_served() {
    all_are_replaced("log:parity=yes", 2);
}

#[test]
fn a_lost_device_is_replaced_and_another_may_be_lost_then() {
    let place = Place::with_volume("log:parity=yes", 3, 48);
    let (running, port) = serve(&place, true);
    let client = Client::new(port);
    write(&client, 0);
    operate(&place.path("v.toml"), &AdminRequest::Offline("2".into())).unwrap().unwrap();
    write(&client, 1);
    set(&place.path("v.toml"), "rebuild-share", "55").unwrap();
    let done = put(&place, "2", "n2").unwrap();
    assert!(done.was_lost && done.served && !done.copied);
    until(&running, |it| it.status().events.contains_key("device-joined"));
    heal(&running);
    put(&place, "0", "n0").unwrap();
    heal(&running);
    verify(&client, 1);
    let file = fs::read_to_string(place.path("v.toml")).unwrap();
    assert!(file.contains("rebuild-share = \"55\""), "what was set meanwhile stays: {file}");
    running.stop().unwrap();
    assert!(is_sound(&place));
    assert!(status(&place.path("v.toml")).unwrap().devices.iter().all(|it| it.health == "online"));
}

#[test]
fn a_device_missing_at_the_start_is_replaced() {
    let place = Place::with_volume("log:parity=yes", 3, 48);
    let (running, port) = serve(&place, true);
    write(&Client::new(port), 0);
    running.stop().unwrap();
    fs::remove_file(place.path("d0")).unwrap();
    let (running, port) = serve(&place, true);
    assert!(running.status().degraded);
    put(&place, "0", "n0").unwrap();
    heal(&running);
    let now = running.status();
    assert!(!now.degraded && now.problems.is_empty(), "{now:?}");
    assert!(!now.notes.iter().any(|note| note.starts_with("DEGRADED")), "{:?}", now.notes);
    verify(&Client::new(port), 0);
    running.stop().unwrap();
    assert!(is_sound(&place));
}

#[test]
fn obstacles_while_served_are_named_and_change_nothing() {
    let place = Place::with_volume("log:parity=yes", 3, 48);
    let (running, port) = serve(&place, true);
    write(&Client::new(port.clone()), 0);
    let before = fs::read(place.path("v.toml")).unwrap();
    let refused = |old: &str, new: &str, why: &str| {
        let message = put(&place, old, new).unwrap_err().to_string();
        assert!(message.contains(why) && !message.contains('\n'), "{message}");
    };
    refused("7", "n", "7 is not a device of the volume; its devices are device 0 (");
    refused("0", "d1", "is already device 1 of this volume");
    fs::File::create(place.path("small")).unwrap().set_len(8 << 20).unwrap();
    refused("0", "small", "and the volume needs");
    let other = Place::with_volume("log:parity=yes", 2, 48);
    fs::copy(other.path("d0"), place.path("foreign")).unwrap();
    refused("0", "foreign", "--force overwrites it");
    let (path, old, new) = (place.path("v.toml"), "1".into(), place.name("n"));
    let rehearsal = ReplaceSpec { path, old, new, force: false, rehearse: true };
    assert_eq!(replace(&rehearsal, &mut |_, _| {}).unwrap().old.number, 1);
    assert!(!place.path("n").exists());
    assert_eq!(running.status().space.unwrap().failures_tolerated, 1, "no device is left out");
    assert_eq!(fs::read(place.path("v.toml")).unwrap(), before);
    fs::copy(place.path("v.toml"), place.path("copy.toml")).unwrap();
    let copy = ReplaceSpec { path: place.path("copy.toml"), ..rehearsal };
    let of_copy = [
        replace(&copy, &mut |_, _| {}).map(drop).unwrap_err(),
        online(&copy.path, "1").map(drop).unwrap_err(),
        operate(&copy.path, &AdminRequest::Offline("1".into())).map(drop).unwrap_err(),
    ];
    for why in of_copy.map(|error| error.to_string()) {
        assert!(why.contains("v.toml with the same UUID is served"), "{why}");
    }
    running.stop().unwrap();
}

/// A device that was excluded returns, and only data written meanwhile is written to it.
#[test]
fn a_device_returns_with_its_data_while_served() {
    let place = Place::with_volume("log:parity=yes:compress=none", 4, 48);
    let path = place.path("v.toml");
    let (running, port) = serve(&place, true);
    let client = Client::new(port);
    (0..8).for_each(|turn| write(&client, turn));
    assert!(!online(&path, "1").unwrap().is_new, "it belongs");
    operate(&path, &AdminRequest::Offline("1".into())).unwrap().unwrap();
    let event = |it: &Running| it.events().since(0).into_iter().find(|it| it.kind == "degraded");
    until(&running, |it| event(it).is_some_and(|it| it.text.contains("offline by command")));
    assert!(!running.status().events.contains_key("device-lost"), "no operator is called");
    client.write(0, &version(0, 7), false).unwrap();
    client.flush();
    assert!(online(&path, "1").unwrap().is_new);
    until(&running, |it| it.status().events.contains_key("device-joined"));
    heal(&running);
    let now = running.status();
    let sent = now.devices[1].written_bytes;
    assert!(now.devices.iter().all(|it| it.health == "online") && !now.degraded, "{now:?}");
    assert!(sent < BLOCKS * 4096 / 2, "{sent} bytes are more than what was written meanwhile");
    verify(&client, 7);
    running.stop().unwrap();
    assert!(is_sound(&place));
    fs::remove_file(place.path("d3")).unwrap();
    let (running, port) = serve(&place, true);
    verify(&Client::new(port), 7);
    running.stop().unwrap();
}

#[test]
fn a_device_missing_at_the_start_returns() {
    let place = Place::with_volume("log:parity=yes", 3, 48);
    let path = place.path("v.toml");
    let (running, port) = serve(&place, true);
    write(&Client::new(port), 0);
    running.stop().unwrap();
    fs::rename(place.path("d0"), place.path("away")).unwrap();
    let (running, port) = serve(&place, true);
    let client = Client::new(port);
    write(&client, 1);
    let refused = |why: &str| {
        let message = online(&path, "0").unwrap_err().to_string();
        assert!(message.contains(why) && !message.contains('\n'), "{message}");
    };
    refused("No such file");
    let other = Place::with_volume("log:parity=yes", 3, 48);
    fs::copy(other.path("d0"), place.path("d0")).unwrap();
    refused("is not the lost device");
    fs::rename(place.path("away"), place.path("d0")).unwrap();
    assert!(online(&path, "0").unwrap().is_new);
    until(&running, |it| it.status().events.contains_key("device-joined"));
    heal(&running);
    let notes = running.status().notes;
    assert!(!notes.iter().any(|note| note.contains("left out") || note.contains("DEGRADED")));
    verify(&client, 1);
    running.stop().unwrap();
    assert!(is_sound(&place));
}
