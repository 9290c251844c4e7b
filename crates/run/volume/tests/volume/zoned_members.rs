//! Zoned devices that join a volume, leave it, are lost and return. All missing chunks are rebuilt
//! on a new device, whatever its zones contain.

use std::fs::{self, File};
use std::ops::Range;

use crate::common::{Client, MIB, Place, until, version};
use crate::zoned::zoned_log;
use hostftl_volume::{
    AddSpec, AdminRequest, CreateSpec, Error, OpenOptions, ReplaceSpec, Replaced, Running,
    StartOptions, Verdict, add, check, create, online, open_with, operate, replace, status,
};

/// Number of blocks written: more than a tenth of the exported capacity.
const BLOCKS: u64 = 3000;

/// Creates a volume with one parity on `files` zoned files.
fn made(files: usize) -> Place {
    let place = Place::new();
    let layer = "log:parity=yes:compress=none";
    let name = |at| format!("zoned:{}?zone=256k&open=12", place.name(&format!("d{at}")));
    let devices = (0..files).map(name).collect();
    create(&CreateSpec { devices, ..zoned_log(&place, layer) }).unwrap();
    place
}

struct Served {
    running: Running,
    client: Client,
}

impl Served {
    fn start(place: &Place) -> Self {
        let how = OpenOptions { degraded: true, ..OpenOptions::default() };
        let opened = open_with(&place.path("v.toml"), &how).unwrap();
        let (running, port) = opened.start(&StartOptions::default()).unwrap();
        Served { running, client: Client::new(port) }
    }

    fn write(&self, blocks: Range<u64>, turn: u64) {
        blocks.for_each(|at| self.client.write(at * 4096, &version(at, turn), false).unwrap());
        self.client.flush();
    }

    fn reads(&self, blocks: Range<u64>, turn: u64) {
        for at in blocks {
            assert_eq!(self.client.read(at * 4096, 4096), version(at, turn), "block {at}");
        }
    }

    /// Waits until redundancy is complete and a loss is tolerated.
    fn heals(&self) {
        let is = |space: hostftl_volume::Space| {
            space.degraded_bytes == 0 && space.failures_tolerated == 1
        };
        until(&self.running, |it| it.status().space.is_some_and(is));
    }

    fn stop(self) {
        drop(self.client);
        self.running.stop().unwrap();
    }
}

fn put(place: &Place, old: &str, new: &str) -> Result<Replaced, Error> {
    let spec = ReplaceSpec {
        path: place.path("v.toml"),
        old: old.into(),
        new: new.into(),
        force: false,
        rehearse: false,
    };
    replace(&spec, &mut |_, _| {})
}

fn comes(place: &Place, new: &str, spare: bool) -> Result<hostftl_volume::Added, Error> {
    let new = vec![format!("zoned:{}", place.name(new))];
    add(&AddSpec { path: place.path("v.toml"), new, force: false, spare, rehearse: false })
}

fn zoned(place: &Place, name: &str) -> String {
    format!("zoned:{}", place.name(name))
}

fn is_sound(place: &Place) {
    let found = check(&place.path("v.toml")).unwrap();
    assert!(found.verdict == Verdict::Sound, "{found:?}");
}

#[test]
fn each_zoned_device_is_replaced_served_and_unserved() {
    let place = made(3);
    let it = Served::start(&place);
    it.write(0..BLOCKS, 0);
    for index in 0..3 {
        // The parameters of the zones are omitted: they are taken from the other devices.
        let done = put(&place, &index.to_string(), &zoned(&place, &format!("n{index}"))).unwrap();
        assert!(done.served && !done.was_lost);
        it.write(0..BLOCKS / 2, index + 1);
        it.heals();
    }
    it.reads(0..BLOCKS / 2, 3);
    it.reads(BLOCKS / 2..BLOCKS, 0);
    it.stop();
    (0..3).for_each(|index| fs::remove_file(place.path(&format!("d{index}"))).unwrap());
    is_sound(&place);
    for index in 0..3 {
        let old = format!("n{index}");
        fs::rename(place.path(&old), place.path("away")).unwrap();
        let done = put(&place, &index.to_string(), &zoned(&place, &format!("m{index}"))).unwrap();
        assert!(!done.served);
        let it = Served::start(&place);
        it.heals();
        it.reads(0..BLOCKS / 2, 3);
        it.reads(BLOCKS / 2..BLOCKS, 0);
        it.stop();
    }
    is_sound(&place);
}

#[test]
fn a_device_with_other_zones_is_refused_and_changes_nothing() {
    let place = made(3);
    Served::start(&place).stop();
    fs::remove_file(place.path("d1")).unwrap();
    let why = |new: &str| put(&place, "1", new).unwrap_err().to_string();
    let other = format!("{}?zone=512k", zoned(&place, "other"));
    assert!(why(&other).contains("zones of the same size and kind"), "{}", why(&other));
    File::create(place.path("plain")).unwrap().set_len(64 * MIB).unwrap();
    let plain = place.name("plain");
    assert!(
        why(&plain).contains("either block devices or zoned devices in one volume"),
        "{}",
        why(&plain)
    );
    let small = Place::new();
    let spec = zoned_log(&small, "log:parity=yes");
    create(&CreateSpec { size: Some(32 * MIB), ..spec }).unwrap();
    hostftl_volume::delete(&small.path("v.toml"), true, &mut |_, _| ()).unwrap();
    let short = zoned(&small, "d0");
    assert!(why(&short).contains("and the volume needs"), "{}", why(&short));
    assert!(!place.path("other").exists(), "what was made goes again");
    let it = Served::start(&place);
    it.write(0..100, 0);
    it.stop();
    put(&place, "1", &zoned(&place, "n1")).unwrap();
    let it = Served::start(&place);
    it.heals();
    it.reads(0..100, 0);
    it.stop();
}

#[test]
fn a_returning_zoned_device_is_rebuilt() {
    let place = made(3);
    let it = Served::start(&place);
    it.write(0..BLOCKS, 0);
    let path = place.path("v.toml");
    assert!(operate(&path, &AdminRequest::Offline("2".into())).unwrap().unwrap().is_new);
    it.write(0..BLOCKS / 2, 1);
    assert!(online(&path, "2").unwrap().is_new);
    it.heals();
    it.reads(0..BLOCKS / 2, 1);
    it.stop();
    fs::rename(place.path("d0"), place.path("away")).unwrap();
    let it = Served::start(&place);
    it.write(BLOCKS / 2..BLOCKS, 2);
    it.stop();
    fs::rename(place.path("away"), place.path("d0")).unwrap();
    let back = online(&path, "0").unwrap();
    assert!(back.is_new && !back.served);
    let it = Served::start(&place);
    it.heals();
    it.stop();
    is_sound(&place);
    fs::remove_file(place.path("d1")).unwrap();
    let it = Served::start(&place);
    it.reads(0..BLOCKS / 2, 1);
    it.reads(BLOCKS / 2..BLOCKS, 2);
    it.stop();
}

#[test]
fn a_zoned_device_with_the_only_copy_is_not_erased() {
    let place = made(3);
    let it = Served::start(&place);
    it.write(0..BLOCKS, 0);
    it.stop();
    put(&place, "1", &zoned(&place, "n1")).unwrap();
    // It is a member then, and lacks most of its chunks, whose rebuild needs the device that is
    // lost next.
    Served::start(&place).stop();
    fs::rename(place.path("d0"), place.path("away")).unwrap();
    let it = Served::start(&place);
    assert!(it.running.status().space.unwrap().unreadable_bytes > 0);
    fs::rename(place.path("away"), place.path("d0")).unwrap();
    let before = fs::read(place.path("d0")).unwrap();
    let refused = online(&place.path("v.toml"), "0").unwrap_err().to_string();
    assert!(refused.contains("may have the only copy"), "{refused}");
    assert!(fs::read(place.path("d0")).unwrap() == before, "it is as it was");
    it.stop();
}

#[test]
fn zoned_devices_are_added_and_removed_and_a_spare_replaces_a_lost_one() {
    let place = made(4);
    let it = Served::start(&place);
    it.write(0..BLOCKS, 0);
    let before = it.running.status().exported_bytes;
    let path = place.path("v.toml");
    assert!(operate(&path, &AdminRequest::Remove("1".into())).unwrap().unwrap().is_new);
    until(&it.running, |it| it.status().devices[1].health == "removed");
    let added = comes(&place, "d4", false).unwrap();
    assert_eq!(added.exported, (before, before), "roots have no room for a larger map");
    assert!(added.notes.iter().any(|note| note.contains("over-provisioning")), "{:?}", added.notes);
    it.heals();
    it.stop();
    let come = comes(&place, "d5", true).unwrap().devices;
    assert_eq!((come[0].number, &come[0].path), (5, &zoned(&place, "d5")));
    fs::remove_file(place.path("d1")).unwrap();
    fs::remove_file(place.path("d0")).unwrap();
    let it = Served::start(&place);
    until(&it.running, |it| it.status().devices[0].health == "removed");
    it.heals();
    it.write(0..BLOCKS / 2, 1);
    it.reads(0..BLOCKS / 2, 1);
    it.reads(BLOCKS / 2..BLOCKS, 0);
    it.stop();
    assert_eq!(status(&path).unwrap().exported_bytes, before);
    is_sound(&place);
}
