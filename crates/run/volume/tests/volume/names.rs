//! Devices named by path, number and UUID, in volume files of any order.

use std::fs;
use std::os::unix::fs::symlink;

use crate::common::{Client, Place, heal, is_sound, put, serve, until};
use hostftl_volume::front::Port;
use hostftl_volume::{
    AddSpec, AdminRequest, Config, Error, OpenOptions, Running, Status, add, online, open_with,
    operate, operate_here, status,
};

/// Lists the devices `order` of a volume in its file, in this order.
fn permute(place: &Place, order: &[&str]) {
    let path = place.path("v.toml");
    let mut config = Config::load(&path).unwrap();
    config.devices = order.iter().map(|name| place.name(name)).collect();
    let text = fs::read_to_string(&path).unwrap();
    let line = text.lines().find(|line| line.starts_with("devices")).unwrap();
    let list: Vec<String> = config.devices.iter().map(|name| format!("{name:?}")).collect();
    fs::write(&path, text.replace(line, &format!("devices = [{}]", list.join(", ")))).unwrap();
    assert_eq!(Config::load(&path).unwrap(), config);
}

/// Returns a volume over five files whose volume file lists them in another order.
fn permuted() -> Place {
    let place = Place::with_volume("log:parity=yes:compress=none", 5, 48);
    permute(&place, &["d4", "d2", "d0", "d1", "d3"]);
    place
}

fn write(port: &Port) {
    let client = Client::new(port.clone());
    (0..200).for_each(|at| client.write(at * 8192, &[at as u8; 4096], false).unwrap());
    client.flush();
}

fn verify(port: &Port) {
    let client = Client::new(port.clone());
    (0..200).for_each(|at| assert_eq!(client.read(at * 8192, 4096), [at as u8; 4096], "{at}"));
}

/// Waits until `count` devices have joined and redundancy is complete.
fn joined(running: &Running, count: u64) {
    until(running, |it| it.status().events.get("device-joined") == Some(&count));
    heal(running);
}

/// Returns the files of the devices with this health.
fn with_health(status: &Status, health: &str) -> Vec<String> {
    let some = status.devices.iter().filter(|device| device.health == health);
    some.map(|device| device.name.rsplit('/').next().unwrap().into()).collect()
}

#[test]
fn commands_act_on_the_named_device_after_a_start() {
    let place = permuted();
    let (path, names) = (place.path("v.toml"), ["d0", "d1", "d2", "d3", "d4"]);
    let before = status(&path).unwrap();
    let all: Vec<_> = before.devices.iter().map(|it| (usize::from(it.number), &it.name)).collect();
    let wanted: Vec<_> = names.iter().map(|name| place.name(name)).collect();
    assert_eq!(all, wanted.iter().enumerate().collect::<Vec<_>>());
    let (running, port) = serve(&place, false);
    assert_eq!(Config::load(&path).unwrap().devices, wanted);
    assert!(running.status().notes[0].contains("listed by number"), "{:?}", running.status().notes);
    write(&port);
    let reply = operate(&path, &AdminRequest::Offline(place.name("d3"))).unwrap().unwrap();
    let device = reply.device.unwrap();
    assert_eq!((device.number, &device.path), (3, &place.name("d3")));
    assert_eq!(device.uuid, before.devices[3].uuid);
    assert!(reply.notes[0].contains("device 3") && reply.notes[0].contains("is healthy"));
    until(&running, |it| with_health(&it.status(), "lost") == ["d3"]);
    let done = put(&place, &place.name("d3"), "n3").unwrap();
    assert_eq!((done.old.number, done.old.path, done.was_lost), (3, place.name("d3"), true));
    assert!(done.new.uuid.len() == 36 && done.new.uuid != before.devices[3].uuid);
    until(&running, |it| it.status().devices[3].uuid == done.new.uuid);
    joined(&running, 1);
    // A UUID and a symbolic link denote the same device.
    symlink(place.path("d1"), place.path("link")).unwrap();
    let by_link = AdminRequest::MayRemove(place.name("link"));
    assert_eq!(operate(&path, &by_link).unwrap().unwrap().device.unwrap().number, 1);
    let by_uuid = AdminRequest::MayRemove(before.devices[2].uuid.clone());
    assert_eq!(operate(&path, &by_uuid).unwrap().unwrap().device.unwrap().number, 2);
    operate(&path, &AdminRequest::Remove(place.name("d0"))).unwrap().unwrap();
    until(&running, |it| with_health(&it.status(), "removed") == ["d0"]);
    running.stop().unwrap();
    let devices = Config::load(&path).unwrap().devices;
    assert_eq!(devices, ["d0", "d1", "d2", "n3", "d4"].map(|name| place.name(name)));
    fs::remove_file(place.path("d3")).unwrap();
    let (running, port) = serve(&place, false);
    verify(&port);
    running.stop().unwrap();
}

#[test]
fn offline_commands_act_on_the_named_device() {
    let place = permuted();
    let path = place.path("v.toml");
    let (running, port) = serve(&place, false);
    write(&port);
    running.stop().unwrap();
    permute(&place, &["d4", "d2", "d0", "d1", "d3"]);
    assert_eq!(put(&place, &place.name("d2"), "n2").unwrap().old.number, 2);
    let devices = Config::load(&path).unwrap().devices;
    assert_eq!(devices, ["d0", "d1", "n2", "d3", "d4"].map(|name| place.name(name)));
    let (running, port) = serve(&place, false);
    heal(&running);
    verify(&port);
    running.stop().unwrap();
    permute(&place, &["n2", "d4", "d3", "d0", "d1"]);
    let (running, done) = operate_here(&path, &AdminRequest::Offline(place.name("d4"))).unwrap();
    assert_eq!(done.device.unwrap().number, 4);
    running.stop().unwrap();
    permute(&place, &["n2", "d4", "d3", "d0", "d1"]);
    assert_eq!(with_health(&status(&path).unwrap(), "missing"), ["d4"]);
    let back = online(&path, &place.name("d4")).unwrap();
    assert_eq!((back.device.number, back.is_new), (4, true));
    permute(&place, &["n2", "d4", "d3", "d0", "d1"]);
    let (path_too, new) = (path.clone(), vec![place.name("d5")]);
    let spec = AddSpec { path: path_too, new, force: false, spare: false, rehearse: false };
    assert_eq!(add(&spec).unwrap().devices[0].number, 5);
    assert!(Config::load(&path).unwrap().devices.ends_with(&[place.name("d5")]));
    let (running, port) = serve(&place, false);
    heal(&running);
    verify(&port);
    running.stop().unwrap();
    assert!(is_sound(&place));
}

/// Editing the file while the volume is served does not change the names.
#[test]
fn permuting_the_volume_file_while_served_changes_nothing() {
    let place = permuted();
    let path = place.path("v.toml");
    let (running, port) = serve(&place, false);
    write(&port);
    permute(&place, &["d1", "d0", "d4", "d3", "d2"]);
    assert_eq!(put(&place, &place.name("d0"), "n0").unwrap().old.number, 0);
    joined(&running, 1);
    permute(&place, &["d1", "n0", "d4", "d3", "d2"]);
    let (spec_path, new) = (path.clone(), vec![place.name("d5")]);
    let spec = AddSpec { path: spec_path, new, force: false, spare: false, rehearse: false };
    assert_eq!(add(&spec).unwrap().devices[0].number, 5);
    joined(&running, 2);
    let done = operate(&path, &AdminRequest::MayRemove(place.name("d2"))).unwrap().unwrap();
    assert_eq!(done.device.unwrap().number, 2);
    verify(&port);
    running.stop().unwrap();
    let names = ["n0", "d1", "d2", "d3", "d4", "d5"].map(|name| place.name(name));
    assert_eq!(Config::load(&path).unwrap().devices, names);
    assert!(is_sound(&place));
}

#[test]
fn a_tier_copies_the_named_device() {
    let place = Place::new();
    fs::File::create(place.path("a")).unwrap().set_len(32 << 20).unwrap();
    fs::File::create(place.path("b")).unwrap().set_len(96 << 20).unwrap();
    hostftl_volume::create(&hostftl_volume::CreateSpec {
        allocate: false,
        path: place.path("v.toml"),
        devices: ["a", "b"].map(|name| place.name(name)).into(),
        size: None,
        layer: hostftl_layers::LayerConfig::parse("tier").unwrap(),
        label: String::new(),
        force: false,
    })
    .unwrap();
    let (running, port) = serve(&place, false);
    write(&port);
    running.stop().unwrap();
    permute(&place, &["b", "a"]);
    let done = put(&place, &place.name("b"), "nb").unwrap();
    assert_eq!((done.old.number, done.copied), (1, true));
    assert_eq!(fs::metadata(place.path("nb")).unwrap().len(), 96 << 20);
    let devices = Config::load(&place.path("v.toml")).unwrap().devices;
    assert_eq!(devices, ["a", "nb"].map(|name| place.name(name)));
    let (running, port) = serve(&place, false);
    verify(&port);
    assert_eq!(running.status().devices[1].name, place.name("nb"));
    running.stop().unwrap();
}

#[test]
fn an_ambiguous_name_is_refused() {
    let place = Place::with_volume("log:parity=2:compress=none", 5, 48);
    let path = place.path("v.toml");
    permute(&place, &["d4", "d2", "d0", "d1", "d3"]);
    let why = |old: &str| put(&place, old, "n").unwrap_err().to_string();
    for (file, to) in [("d2", "away2"), ("d1", "away1")] {
        fs::rename(place.path(file), place.path(to)).unwrap();
    }
    let refused = why(&place.name("d2"));
    assert!(refused.contains("d2 cannot be read, and devices 1, 2 were not found"), "{refused}");
    assert!(why("7").contains("7 is not a device of the volume; its devices are device 0 ("));
    // A device without data of the volume is not a member.
    fs::rename(place.path("away1"), place.path("d1")).unwrap();
    fs::File::create(place.path("d2")).unwrap().set_len(48 << 20).unwrap();
    let refused = why(&place.name("d2"));
    assert!(refused.contains("d2 has no superblock of this volume, and device 2 was"), "{refused}");
    fs::copy(place.path("d3"), place.path("copy")).unwrap();
    let refused = why(&place.name("copy"));
    assert!(refused.contains("copy is device 3 ("), "{refused}");
    assert!(!place.path("n").exists(), "nothing was made");
    // A number is certain, and so is the only remaining path of an absent device.
    fs::remove_file(place.path("d2")).unwrap();
    assert_eq!(put(&place, &place.name("d2"), "n2").unwrap().old.number, 2);
    assert_eq!(put(&place, "1", "n1").unwrap().old.path, place.name("d1"));
    let devices = Config::load(&path).unwrap().devices;
    assert_eq!(devices, ["d0", "n1", "n2", "d3", "d4"].map(|name| place.name(name)));
}

/// A deadline may name a device by any path.
#[test]
fn a_deadline_applies_to_the_target_of_a_link() {
    let place = permuted();
    symlink(place.path("d3"), place.path("link")).unwrap();
    let deadlines = vec![(place.name("link"), 7)];
    let how = OpenOptions { deadlines, ..OpenOptions::default() };
    open_with(&place.path("v.toml"), &how).unwrap();
    let how = OpenOptions { deadlines: vec![(place.name("none"), 7)], ..OpenOptions::default() };
    let why = open_with(&place.path("v.toml"), &how).unwrap_err().to_string();
    assert!(why.contains("which is not a device of the volume"), "{why}");
}

/// An older copy of a device, which recovery drops, is taken back at the first attempt.
#[test]
fn an_older_copy_is_taken_back_at_once_and_the_volume_stops_clean() {
    let place = Place::with_volume("log:parity=yes:compress=none", 4, 48);
    let path = place.path("v.toml");
    let turn = |byte: u8| {
        let (running, port) = serve(&place, false);
        let client = Client::new(port);
        (0..300).for_each(|at| client.write(at * 8192, &[byte; 4096], false).unwrap());
        client.flush();
        running.stop().unwrap();
    };
    turn(1);
    fs::copy(place.path("d1"), place.path("old")).unwrap();
    turn(2);
    fs::rename(place.path("old"), place.path("d1")).unwrap();
    let (running, port) = serve(&place, false);
    assert_eq!(with_health(&running.status(), "lost"), ["d1"]);
    assert!(online(&path, "1").unwrap().is_new);
    heal(&running);
    let client = Client::new(port);
    (0..300).for_each(|at| assert_eq!(client.read(at * 8192, 4096), [2; 4096]));
    running.stop().unwrap();
    assert!(is_sound(&place));
}

/// A start does not require a spare, and takes it again when it returns.
#[test]
fn a_spare_may_be_absent_and_a_short_one_is_refused() {
    let place = Place::with_volume("log:parity=yes:compress=none", 4, 48);
    let path = place.path("v.toml");
    let spare = |name: &str| {
        let new = vec![place.name(name)];
        add(&AddSpec { path: path.clone(), new, force: false, spare: true, rehearse: false })
    };
    fs::File::create(place.path("short")).unwrap().set_len(40 << 20).unwrap();
    let refused = |why: Error| {
        let why = why.to_string();
        assert!(why.contains("too small for a spare") && why.contains("50331648"), "{why}");
    };
    refused(spare("short").unwrap_err());
    let (running, port) = serve(&place, false);
    write(&port);
    refused(spare("short").unwrap_err());
    assert_eq!(spare("s").unwrap().devices[0].number, 4);
    running.stop().unwrap();
    fs::rename(place.path("s"), place.path("away")).unwrap();
    let (running, port) = serve(&place, false);
    let now = running.status();
    assert!(!now.degraded && now.devices[4].health == "missing", "{now:?}");
    let need = &now.problems[0];
    assert!(need.contains("device 4") && need.contains("hostftl device spare"), "{need}");
    verify(&port);
    running.stop().unwrap();
    fs::rename(place.path("away"), place.path("s")).unwrap();
    let (running, port) = serve(&place, false);
    assert!(online(&path, "4").unwrap().is_new);
    joined(&running, 1);
    let now = running.status();
    assert!(now.devices[4].health == "online" && now.devices[4].role == "spare", "{now:?}");
    // A device that an operator took offline keeps its slot, also over a restart.
    let reply = operate(&path, &AdminRequest::Offline("1".into())).unwrap().unwrap();
    assert!(reply.notes.iter().any(|note| note.contains("the spare is not used")), "{reply:?}");
    heal(&running);
    running.stop().unwrap();
    let (running, port_again) = serve(&place, false);
    drop(port);
    heal(&running);
    let now = running.status();
    assert_eq!(
        (now.devices[1].health.as_str(), now.devices[4].role.as_str()),
        ("missing", "spare")
    );
    assert!(online(&path, "1").unwrap().is_new);
    joined(&running, 1);
    assert!(Config::load(&path).unwrap().offline.is_empty());
    verify(&port_again);
    running.stop().unwrap();
    assert!(is_sound(&place));
}
