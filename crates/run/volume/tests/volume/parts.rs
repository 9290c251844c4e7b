//! Volumes on parts of one zoned file: created, served concurrently, refused, deleted.

use std::fs;

use hostftl_layers::LayerConfig;
use hostftl_volume::{
    CreateSpec, Error, OpenOptions, Running, StartOptions, check, create, delete, import, open,
    open_with, status,
};

use crate::common::{Client, MIB, Place};

/// A file of 125 MiB of zones of 512 KiB, on five units, of which 40 may be open.
const SHAPE: &str = "?zone=512k&units=5&open=40";

fn spec(place: &Place, name: &str, part: &str, layer: &str) -> CreateSpec {
    let exists = place.path("zones").exists();
    CreateSpec {
        allocate: false,
        path: place.path(&format!("{name}.toml")),
        devices: vec![format!("zoned:{}{SHAPE}{part}", place.name("zones"))],
        size: (!exists).then_some(128 * MIB),
        layer: LayerConfig::parse(layer).unwrap(),
        label: name.into(),
        force: false,
    }
}

fn why(spec: &CreateSpec) -> String {
    create(spec).unwrap_err().to_string()
}

/// A served volume, its exported capacity, and its client.
struct Served {
    running: Running,
    client: Client,
    space: u64,
}

impl Served {
    fn start(spec: &CreateSpec, space: u64) -> Self {
        let volume = open(&spec.path).unwrap_or_else(|why| panic!("{why}"));
        let (running, port) = volume.start(&StartOptions::default()).unwrap();
        Served { running, client: Client::new(port), space }
    }

    fn write(&self, mib: u64, byte: u8) {
        self.client.write(mib * MIB, &vec![byte; MIB as usize], false).unwrap();
    }

    fn reads(&self, byte: u8) {
        for mib in 0..self.space {
            assert!(self.client.read(mib * MIB, MIB) == vec![byte; MIB as usize], "MiB {mib}");
        }
    }

    fn stop(self) {
        drop(self.client);
        self.running.stop().unwrap();
    }
}

#[test]
fn three_volumes_share_a_device_in_parts() {
    let place = Place::new();
    let parts = [
        ("pblk", "#units=0-1", "pblk:superpage=16k:spare=30"),
        ("rrpc", "#zones=100-149", "rrpc:superpage=16k:spare=30"),
        ("log", "#units=3-4", "log:compress=none"),
    ];
    let mut specs = Vec::new();
    for (name, part, layer) in parts {
        let spec = spec(&place, name, part, layer);
        let created = create(&spec).unwrap_or_else(|why| panic!("{name}: {why}"));
        let named = format!("zoned:{}{part}", place.name("zones"));
        assert_eq!(created.config.devices, [named]);
        specs.push((spec, created.exported_bytes / MIB));
    }
    let served: Vec<_> = specs.iter().map(|(spec, space)| Served::start(spec, *space)).collect();
    // In turn, twice the exported capacity of each: zones are reset and written again.
    for round in 1..=2 {
        for mib in 0..served.iter().map(|it| it.space).max().unwrap() {
            for (at, it) in served.iter().enumerate().filter(|(_, it)| mib < it.space) {
                it.write(mib, round * 10 + at as u8);
            }
            served[mib as usize % 3].client.flush();
        }
    }
    for (at, it) in served.iter().enumerate() {
        it.client.flush();
        it.reads(20 + at as u8);
    }
    let busy = open(&specs[0].0.path).unwrap_err();
    assert!(matches!(busy, Error::Busy { .. }), "{busy}");
    served.into_iter().for_each(Served::stop);
    for (spec, _) in &specs {
        assert_eq!(check(&spec.path).unwrap().problems, Vec::<String>::new());
    }
    // One is deleted and created again; the others are unaffected.
    delete(&specs[0].0.path, true, &mut |_, _| ()).unwrap();
    assert!(!specs[0].0.path.exists());
    let again = CreateSpec { size: None, ..specs[0].0.clone() };
    create(&again).unwrap_or_else(|why| panic!("zones are blank after a delete: {why}"));
    Served::start(&again, specs[0].1).stop();
    for (at, (spec, space)) in specs.iter().enumerate().skip(1) {
        let it = Served::start(spec, *space);
        it.reads(20 + at as u8);
        it.stop();
    }
    let other = place.path("again.toml");
    let named = format!("zoned:{}#zones=100-149", place.name("zones"));
    assert_eq!(import(&[named], &other).unwrap().config.label, "rrpc");
}

#[test]
fn overlapping_parts_are_refused_and_named() {
    let place = Place::new();
    let first = spec(&place, "first", "#units=1-2", "pblk:superpage=16k");
    create(&first).unwrap();
    let named = ["zones 50 to 149 belong to volume first", "hostftl delete"];
    for (part, ours) in [
        ("#units=2-3", "zones 100 to 199"),
        ("#zones=60-80", "zones 60 to 80"),
        ("#zones=0-249", "zones 0 to 249"),
        ("", "all of them"),
    ] {
        for force in [false, true] {
            let other = CreateSpec { force, ..spec(&place, "other", part, "pblk") };
            let why = why(&other);
            let all = named.iter().chain([&ours]);
            assert!(all.clone().all(|word| why.contains(word)), "{part}: {why}");
            assert!(!other.path.exists() && place.path("zones").exists());
        }
    }
    let same = why(&spec(&place, "other", "#zones=50-149", "pblk"));
    assert!(same.contains("holds a member of a HostFTL volume; --force"), "{same}");
    // While it is served the locks refuse first, with the process that holds them.
    let it = Served::start(&first, 1);
    let busy = why(&spec(&place, "other", "#zones=60-80", "pblk"));
    assert!(busy.contains("#zones=60-80 is in use by process"), "{busy}");
    assert!(busy.contains("which has its zones 50 to 149"), "{busy}");
    let whole = why(&spec(&place, "other", "", "pblk"));
    assert!(whole.contains("in use by process"), "{whole}");
    let refused = delete(&first.path, true, &mut |_, _| ()).unwrap_err();
    assert!(matches!(refused, Error::Busy { .. }), "{refused}");
    create(&spec(&place, "beside", "#units=0", "pblk:superpage=16k")).unwrap();
    it.stop();
    // A volume on a whole device leaves no space for a part.
    let alone = Place::new();
    create(&spec(&alone, "all", "", "pblk:superpage=16k")).unwrap();
    let refused = why(&spec(&alone, "part", "#units=0", "pblk"));
    assert!(refused.contains("zones 0 to 249 belong to volume all"), "{refused}");
}

#[test]
fn a_volume_file_with_other_zones_is_refused() {
    let place = Place::new();
    let spec = spec(&place, "v", "#units=1-2", "pblk:superpage=16k");
    create(&spec).unwrap();
    let text = fs::read_to_string(&spec.path).unwrap();
    for (part, part_of_why) in [
        ("#zones=50-199", "volume v ("),
        ("#zones=50-99", "has zones 50 to 149 of the device; give these"),
        ("#units=2-3", "no HostFTL superblock"),
        ("", "no HostFTL superblock"),
    ] {
        fs::write(&spec.path, text.replace("#units=1-2", part)).unwrap();
        let why = open(&spec.path).unwrap_err().to_string();
        assert!(why.contains(part_of_why), "{part}: {why}");
    }
    fs::write(&spec.path, &text).unwrap();
    let report = status(&spec.path).unwrap();
    assert!(report.devices[0].name.ends_with("zones#units=1-2"), "{}", report.devices[0].name);
    // A read-only process conflicts only with a writer.
    let looks = open_with(&spec.path, &OpenOptions::read_only()).unwrap();
    drop(looks);
}

#[test]
fn invalid_parts_are_refused_and_leave_no_files() {
    let place = Place::new();
    let of = |part: &str| why(&spec(&place, "v", part, "pblk:superpage=16k"));
    for (part, word) in [
        ("#zones=200-250", "beyond the end of the device (zones 0 to 249"),
        ("#units=5", "beyond the end of the device (parallel units 0 to 4"),
        ("#zones=9-8", "is empty"),
        ("#zones=", "is not a part"),
        ("#zones=40-60", "splits a parallel unit"),
        ("#zones=4-5", "too few"),
        ("#zones=4-8", "too few"),
    ] {
        let why = of(part);
        assert!(why.contains(word), "{part}: {why}");
        assert_eq!(
            fs::read_dir(place.folder.path()).unwrap().count(),
            0,
            "{part}: nothing is left"
        );
    }
    // A device with few open zones has no share for a small part.
    let few = CreateSpec {
        devices: vec![format!("zoned:{}?zone=1m&open=4#zones=0-20", place.name("zones"))],
        ..spec(&place, "v", "", "pblk")
    };
    assert!(why(&few).contains("and 21 of"), "{}", why(&few));
    fs::File::create(place.path("plain")).unwrap().set_len(64 * MIB).unwrap();
    for (name, word) in [
        (format!("zoned:{}#zones=0-20", place.name("plain")), "not a zoned file"),
        (format!("{}#zones=0-20", place.name("plain")), "only zoned devices have parts"),
        ("zoned:mem:64m#zones=0-20".into(), "memory devices have no parts"),
    ] {
        let plain = CreateSpec { devices: vec![name], size: None, ..spec(&place, "v", "", "pblk") };
        let why = why(&plain);
        assert!(why.contains(word), "{why}");
    }
    assert_eq!(fs::read_dir(place.folder.path()).unwrap().count(), 1);
}

#[test]
fn deletion_by_any_device_spares_other_volumes() {
    for layer in ["passthrough", "log"] {
        let place = Place::with_volume(layer, 1, 64);
        let (path, copy) = (place.path("v.toml"), place.path("copy"));
        let text = fs::read_to_string(&path).unwrap();
        delete(&path, true, &mut |_, _| ()).unwrap();
        let why = import(&[place.name("d0")], &path).unwrap_err().to_string();
        assert!(why.contains("no HostFTL superblock"), "{why}");
        // As after an interruption before the last step.
        fs::write(&path, &text).unwrap();
        delete(&path, true, &mut |_, _| ()).unwrap();
        let spec = CreateSpec {
            path: path.clone(),
            devices: vec![place.name("d0")],
            layer: LayerConfig::parse(layer).unwrap(),
            label: String::new(),
            size: None,
            allocate: false,
            force: false,
        };
        let made = create(&spec).unwrap_or_else(|why| panic!("{layer}: {why}"));
        fs::write(&copy, text).unwrap();
        let why = delete(&copy, true, &mut |_, _| ()).unwrap_err().to_string();
        assert!(why.contains(&format!("holds volume {}", made.config.uuid)), "{why}");
        assert!(copy.exists() && check(&path).unwrap().problems.is_empty());
    }
}
