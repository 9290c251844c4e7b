//! A log volume with a journal device for flushes.

use std::fs;
use std::process::Command;

use hostftl_layers::{LayerConfig, LayerKind};
use hostftl_volume::{
    AddSpec, CreateSpec, OpenOptions, ReplaceSpec, StartOptions, Status, add, check, create,
    import, online, open, open_with, replace, status,
};

use crate::common::{Client, MIB, Place, until};

fn spec(place: &Place) -> CreateSpec {
    let mut layer = LayerConfig::new(LayerKind::Log);
    layer.log.journal = true;
    let devices = vec![place.name("d0"), place.name("journal")];
    // Longer than the journal file that `create` makes.
    CreateSpec { devices, layer, size: Some(96 * MIB), ..place.spec(LayerKind::Log) }
}

fn step(status: &Status, name: &str) -> u64 {
    let steps = &status.traffic.as_ref().expect("it is served").write_path;
    steps.iter().find(|step| step.step == name).and_then(|step| step.bytes).expect("a step")
}

/// Copies the devices while the volume is served: the state that a killed process leaves.
fn killed(place: &Place, names: &[&str]) {
    for name in names {
        let to = place.path(&format!("{name}.killed"));
        let mut copy = Command::new("cp");
        copy.arg("--sparse=always").arg(place.path(name)).arg(to);
        assert!(copy.status().unwrap().success());
    }
}

fn bring(place: &Place, names: &[&str]) {
    for name in names {
        let from = place.path(&format!("{name}.killed"));
        std::fs::rename(from, place.path(name)).unwrap();
    }
}

#[test]
fn flushed_data_survives_a_kill() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    let path = place.path("v.toml");
    assert_eq!(std::fs::metadata(place.path("journal")).unwrap().len(), 64 * MIB);
    let content = |round: u64, at: u64| vec![(round * 31 + at) as u8 | 1; 8192];
    for round in 0..3 {
        let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
        let client = Client::new(port);
        for at in 0..40 {
            if round > 0 {
                assert_eq!(client.read(at * 65_536, 8192), content(round - 1, at));
            }
            client.write(at * 65_536, &content(round, at), at % 2 == 0).unwrap();
            client.flush();
        }
        killed(&place, &["d0", "journal"]);
        let status = running.stop().unwrap();
        assert_eq!(
            step(&status, "journal"),
            4096 + 40 * 8192,
            "the first record, and one for each write; both blocks are packed"
        );
        assert_eq!(status.devices[1].role, "journal");
        bring(&place, &["d0", "journal"]);
    }
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    (0..40).for_each(|at| assert_eq!(client.read(at * 65_536, 8192), content(2, at)));
    running.stop().unwrap();
    assert_eq!(check(&path).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_volume_without_its_journal_opens_only_after_a_clean_stop() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    let path = place.path("v.toml");
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    client.write(0, &[7; 4096], true).unwrap();
    killed(&place, &["d0", "journal"]);
    running.stop().unwrap();
    std::fs::rename(place.path("journal"), place.path("away")).unwrap();
    let volume = open(&path).unwrap();
    let (running, port) = volume.start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    assert_eq!(client.read(0, 4096), [7; 4096]);
    client.write(4096, &[8; 4096], true).unwrap();
    let status = running.stop().unwrap();
    let is_noted = status.notes.iter().any(|note| note.contains("the journal is absent"));
    assert!(status.degraded && is_noted);
    std::fs::rename(place.path("away"), place.path("journal")).unwrap();
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    assert_eq!(Client::new(port).read(0, 8192), [[7; 4096], [8; 4096]].concat(), "it is welcome");
    assert!(!running.stop().unwrap().degraded);
    // Restore the state at the kill.
    bring(&place, &["d0"]);
    std::fs::remove_file(place.path("journal")).unwrap();
    let why = open(&path).unwrap().start(&StartOptions::default()).unwrap_err().to_string();
    assert!(why.contains("the journal device is missing"), "{why}");
    // An absent device can't be copied, so no command is suggested.
    let hand = hostftl_volume::status(&path).unwrap().problems.swap_remove(0);
    assert!(hand.contains(&place.name("journal")) && hand.contains("reconnect it"), "{hand}");
    assert!(!hand.contains("replace"), "{hand}");
    bring(&place, &["journal"]);
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    assert_eq!(Client::new(port).read(0, 4096), [7; 4096]);
    running.stop().unwrap();
}

#[test]
fn the_journal_is_recognised_in_any_order() {
    let place = Place::new();
    let made = create(&spec(&place)).unwrap();
    assert!(made.config.layer.contains(":journal=yes"));
    let path = place.path("v.toml");
    std::fs::remove_file(&path).unwrap();
    let found = import(&[place.name("journal"), place.name("d0")], &path).unwrap().config;
    assert_eq!(found, made.config);
    drop(open(&path).unwrap());
    let rows = std::slice::from_ref(&made.config.devices[0]);
    let other = place.path("w.toml");
    assert_eq!(import(rows, &other).unwrap().config.devices[1], "missing");
    let journal = &made.config.devices[1..];
    assert!(import(journal, &place.path("x.toml")).is_err(), "nothing is without its rows");
}

/// Creates a log with parity over three files, and a journal.
fn array() -> Place {
    let place = Place::new();
    let layer = LayerConfig::parse("log:parity=yes:compress=none:journal=yes").unwrap();
    let devices = ["d0", "d1", "d2", "journal"].map(|name| place.name(name)).to_vec();
    let size = Some(40 * MIB);
    create(&CreateSpec { devices, layer, size, ..place.spec(LayerKind::Log) }).unwrap();
    place
}

fn block(at: u64) -> Vec<u8> {
    (0..4096).map(|byte| (at * 43 + byte / 7) as u8).collect()
}

/// Serves it without absent devices: reads the blocks below `read`, writes those up to `write`,
/// each with a flush, and waits until the devices are healthy.
fn serve(place: &Place, read: u64, write: u64) -> Status {
    let how = OpenOptions { degraded: true, ..OpenOptions::default() };
    let opened = open_with(&place.path("v.toml"), &how).unwrap();
    let (running, port) = opened.start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    (0..read).for_each(|at| assert_eq!(client.read(at * 4096, 4096), block(at), "block {at}"));
    for at in read..write {
        client.write(at * 4096, &block(at), false).unwrap();
        client.flush();
    }
    until(&running, |it| it.status().space.unwrap().degraded_bytes == 0);
    running.stop().unwrap()
}

fn healths(place: &Place) -> Vec<String> {
    let devices = status(&place.path("v.toml")).unwrap().devices;
    devices.into_iter().map(|it| format!("{} {}", it.role, it.health)).collect()
}

#[test]
fn a_volume_with_a_journal_takes_more_devices_served_or_not() {
    let place = array();
    let path = place.path("v.toml");
    let more = |name: &str| {
        let new = vec![place.name(name)];
        AddSpec { path: path.clone(), new, force: false, spare: false, rehearse: false }
    };
    let before = serve(&place, 0, 100).exported_bytes;
    let added = add(&more("d4")).unwrap();
    let come = &added.devices[0];
    assert!(come.number == 4 && come.path == place.name("d4"));
    assert!(added.devices.len() == 1 && added.exported.1 > before * 5 / 4);
    assert_eq!(serve(&place, 100, 200).exported_bytes, added.exported.1);
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    let wider = add(&more("d5")).unwrap();
    assert!(wider.served && wider.exported.1 > added.exported.1, "{wider:?}");
    for at in 200..300 {
        client.write(at * 4096, &block(at), false).unwrap();
        client.flush();
    }
    // Only the journal has the flushes since the last full stripe.
    killed(&place, &["d0", "d1", "d2", "d4", "d5", "journal"]);
    running.stop().unwrap();
    bring(&place, &["d0", "d1", "d2", "d4", "d5", "journal"]);
    fs::remove_file(place.path("d1")).unwrap();
    let status = serve(&place, 300, 310);
    assert!(status.degraded && step(&status, "journal") > 0);
    assert_eq!(healths(&place)[3..5], ["journal online", " online"]);
}

#[test]
fn a_journal_absent_during_a_device_loss_is_accepted() {
    let place = array();
    serve(&place, 0, 100);
    let away = |from: &str, to: &str| fs::rename(place.path(from), place.path(to)).unwrap();
    away("journal", "away");
    away("d2", "lost");
    assert_eq!(step(&serve(&place, 100, 200), "journal"), 0);
    away("away", "journal");
    let status = serve(&place, 200, 300);
    assert!(status.degraded && step(&status, "journal") > 0, "{:?}", status.notes);
    assert_eq!(healths(&place)[2..], [" missing", "journal online"]);
    // The journal is replaced although another device is lost.
    let (path, old, new) = (place.path("v.toml"), place.name("journal"), place.name("k"));
    let spec = ReplaceSpec { path, old, new, force: false, rehearse: false };
    let done = replace(&spec, &mut |_, _| {}).unwrap();
    assert!(!done.was_lost && !done.lacks, "{done:?}");
    assert!(step(&serve(&place, 300, 310), "journal") > 0);
}

#[test]
fn a_lost_and_unneeded_journal_is_replaced() {
    let place = array();
    serve(&place, 0, 100);
    let (running, port) =
        open(&place.path("v.toml")).unwrap().start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    for at in 100..120 {
        client.write(at * 4096, &block(at), false).unwrap();
        client.flush();
    }
    killed(&place, &["d0", "d1", "d2", "journal"]);
    running.stop().unwrap();
    bring(&place, &["d0", "d1", "d2", "journal"]);
    let replaces = |old: &str, new: &str| {
        let (path, old, new) = (place.path("v.toml"), place.name(old), place.name(new));
        let spec = ReplaceSpec { path, old, new, force: false, rehearse: false };
        replace(&spec, &mut |_, _| {})
    };
    fs::rename(place.path("journal"), place.path("away")).unwrap();
    let needed = replaces("journal", "j").unwrap_err().to_string();
    assert!(needed.contains("nothing was changed") && !place.path("j").exists(), "{needed}");
    fs::rename(place.path("away"), place.path("journal")).unwrap();
    serve(&place, 120, 130);
    fs::remove_file(place.path("journal")).unwrap();
    let done = replaces("journal", "j").unwrap();
    assert!(done.was_lost && !done.copied && !done.lacks, "{done:?}");
    let status = serve(&place, 130, 200);
    assert!(!status.degraded && step(&status, "journal") > 0, "{:?}", status.notes);
    // Replacing a present journal moves its flushes to stripes first.
    let done = replaces("j", "k").unwrap();
    assert!(!done.was_lost && !done.copied && !done.lacks, "{done:?}");
    serve(&place, 200, 210);
}

#[test]
fn a_journal_is_replaced_while_served() {
    let place = array();
    let path = place.path("v.toml");
    let replaces = |old: &str, new: &str| {
        let (old, new) = (place.name(old), place.name(new));
        replace(
            &ReplaceSpec { path: path.clone(), old, new, force: false, rehearse: false },
            &mut |_, _| {},
        )
    };
    let start = || {
        let how = OpenOptions { degraded: true, ..OpenOptions::default() };
        let opened = open_with(&path, &how).unwrap();
        opened.start(&StartOptions::default()).unwrap()
    };
    let write = |client: &Client, blocks: core::ops::Range<u64>| {
        for at in blocks {
            client.write(at * 4096, &block(at), false).unwrap();
            client.flush();
        }
    };
    let is_well = |status: &Status, name: &str| {
        let (device, before) = (&status.devices[3], step(status, "journal"));
        assert!(!status.degraded && device.name == place.name(name), "{:?}", status.notes);
        assert_eq!((device.role.as_str(), device.health.as_str()), ("journal", "online"));
        before
    };
    let (running, port) = start();
    let client = Client::new(port.clone());
    write(&client, 0..100);
    let short = place.path("short");
    fs::File::create(&short).unwrap().set_len(4 * MIB).unwrap();
    let refused = replaces("journal", "short").unwrap_err().to_string();
    assert!(refused.contains("and the volume needs"), "{refused}");
    let done = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&Client::new(port.clone()), 100..200));
        let done = replaces("journal", "j").unwrap();
        writer.join().unwrap();
        done
    });
    assert!(done.served && !done.was_lost && !done.copied && !done.lacks, "{done:?}");
    assert_eq!(done.old.number, 3);
    fs::remove_file(place.path("journal")).unwrap();
    let before = is_well(&running.status(), "j");
    write(&client, 200..250);
    assert!(is_well(&running.status(), "j") > before, "flushes go to the new one");
    // Only the new journal has the flushes since the last full stripe.
    killed(&place, &["d0", "d1", "d2", "j"]);
    running.stop().unwrap();
    bring(&place, &["d0", "d1", "d2", "j"]);
    serve(&place, 250, 260);
    fs::remove_file(place.path("j")).unwrap();
    let (running, port) = start();
    let client = Client::new(port);
    write(&client, 260..270);
    assert!(running.status().degraded);
    let done = replaces("j", "k").unwrap();
    assert!(done.served && done.was_lost, "{done:?}");
    let before = is_well(&running.status(), "k");
    write(&client, 270..280);
    assert!(is_well(&running.status(), "k") > before);
    running.stop().unwrap();
    serve(&place, 280, 290);
    assert_eq!(healths(&place)[3], "journal online");
}

#[test]
fn the_journal_returns_while_served() {
    let place = array();
    let path = place.path("v.toml");
    serve(&place, 0, 20);
    fs::rename(place.path("journal"), place.path("away")).unwrap();
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let client = Client::new(port.clone());
    let write = |client: &Client, blocks: core::ops::Range<u64>| {
        for at in blocks {
            client.write(at * 4096, &block(at), false).unwrap();
            client.flush();
        }
    };
    write(&client, 20..40);
    let back = || online(&path, "3").map_err(|error| error.to_string());
    let why = back().unwrap_err();
    assert!(why.contains("journal") && why.contains("No such file"), "{why}");
    // A device of another volume under its name.
    let other = Place::new();
    create(&spec(&other)).unwrap();
    fs::copy(other.path("journal"), place.path("journal")).unwrap();
    let why = back().unwrap_err();
    assert!(why.contains("is not the journal of this volume"), "{why}");
    let hand = running.status().problems;
    assert!(hand.iter().any(|hand| hand.contains("device online")), "{hand:?}");
    fs::rename(place.path("away"), place.path("journal")).unwrap();
    let done = std::thread::scope(|scope| {
        let writer = scope.spawn(|| write(&Client::new(port.clone()), 40..140));
        let done = back().unwrap();
        writer.join().unwrap();
        done
    });
    assert!(done.is_new && done.served, "{done:?}");
    assert!(!back().unwrap().is_new, "it belongs already");
    let status = running.status();
    assert!(!status.degraded && status.devices[3].health == "online", "{:?}", status.notes);
    let stale = |note: &String| note.contains("the journal is absent") || note.contains("left out");
    assert!(!status.notes.iter().any(stale), "{:?}", status.notes);
    let before = step(&status, "journal");
    write(&client, 140..200);
    assert!(step(&running.status(), "journal") > before, "flushes go to it");
    // Only the returned journal has the flushes since the last full stripe.
    killed(&place, &["d0", "d1", "d2", "journal"]);
    running.stop().unwrap();
    bring(&place, &["d0", "d1", "d2", "journal"]);
    serve(&place, 200, 210);
    assert_eq!(healths(&place)[3], "journal online");
}

#[test]
fn a_journal_is_not_replaced_while_the_volume_file_is_unwritable() {
    let place = array();
    let path = place.path("v.toml");
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    // The draft of the volume file has this name.
    let draft = place.path(&format!("v.toml.{}.new", std::process::id()));
    fs::create_dir(&draft).unwrap();
    let (old, new) = (place.name("journal"), place.name("j"));
    let (asked, path) = (old.clone(), path.clone());
    let spec = ReplaceSpec { path, old: asked, new: new.clone(), force: false, rehearse: false };
    let error = replace(&spec, &mut |_, _| {}).unwrap_err().to_string();
    assert!(error.contains("v.toml: cannot write the volume file"), "{error}");
    assert!(!place.path("j").exists());
    fs::remove_dir(&draft).unwrap();
    let before = fs::read_to_string(&spec.path).unwrap();
    replace(&spec, &mut |_, _| {}).unwrap();
    let client = Client::new(port);
    for at in 0..20 {
        client.write(at * 4096, &block(at), false).unwrap();
        client.flush();
    }
    let journal = &running.status().devices[3];
    assert_eq!((journal.name.as_str(), journal.health.as_str()), (new.as_str(), "online"));
    // Only the new device has the flushes, so the file that was created for it must not be removed.
    killed(&place, &["d0", "d1", "d2", "j"]);
    running.stop().unwrap();
    bring(&place, &["d0", "d1", "d2", "j"]);
    // The volume file lists the old one, as after a kill before its last update.
    assert!(before.contains(&old));
    place.cut_off(&before, &["j"]);
    serve(&place, 20, 30);
}
