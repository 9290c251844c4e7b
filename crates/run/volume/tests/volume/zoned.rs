//! Volumes on zoned files: created, used, stopped and reopened.

use std::path::Path;

use hostftl_core::{BLOCK, Page, SECTOR};
use hostftl_format::superblock::is_ours;
use hostftl_layers::LayerConfig;
use hostftl_volume::{
    CreateSpec, OpenOptions, StartOptions, check, create, import, open, open_with,
};

use crate::common::{Client, MIB, Place};

fn spec(place: &Place, layer: &str) -> CreateSpec {
    let file = place.folder.path().join("segments");
    CreateSpec {
        allocate: false,
        path: place.folder.path().join("v.toml"),
        devices: vec![format!("zoned:{}?zone=256k&units=2&write=4k", file.display())],
        size: Some(64 * MIB),
        layer: LayerConfig::parse(layer).expect("there is such a layer"),
        label: String::new(),
        force: false,
    }
}

/// Overwrites every superblock in a file with zeros.
fn wipe_superblocks(path: &Path) {
    let mut bytes = std::fs::read(path).unwrap();
    let mut page = Page::default();
    for at in (0..=bytes.len() - BLOCK).step_by(SECTOR) {
        page.0.copy_from_slice(&bytes[at..at + BLOCK]);
        if is_ours(&page) {
            bytes[at..at + BLOCK].fill(0);
        }
    }
    std::fs::write(path, bytes).unwrap();
}

#[test]
fn a_zoned_device_with_written_zones_is_not_blank() {
    let place = Place::new();
    let spec = spec(&place, "log");
    create(&spec).unwrap();
    std::fs::remove_file(&spec.path).unwrap();
    wipe_superblocks(&place.path("segments"));
    let message = create(&spec).unwrap_err().to_string();
    assert!(message.contains("holds non-zero data"), "{message}");
    create(&CreateSpec { force: true, ..spec }).unwrap();
}

/// Returns the parameters of a volume with `layer` over three zoned files.
pub(crate) fn zoned_log(place: &Place, layer: &str) -> CreateSpec {
    let file = |name: &str| format!("zoned:{}?zone=256k&open=12", place.name(name));
    CreateSpec {
        path: place.path("v.toml"),
        devices: ["d0", "d1", "d2"].map(file).into(),
        ..spec(place, layer)
    }
}

#[test]
fn a_zoned_log_serves_without_one_device() {
    let place = Place::new();
    let spec = zoned_log(&place, "log:parity=yes:compress=none");
    let created = create(&spec).unwrap_or_else(|why| panic!("{why}"));
    let space = created.exported_bytes / MIB;
    let start = || open(&spec.path).unwrap().start(&StartOptions::default()).unwrap();
    let (running, port) = start();
    let client = Client::new(port);
    let byte = |round: u64, mib: u64| (round * 100 + mib % 100) as u8;
    // Twice the exported capacity: zones are reset and written again.
    for round in 1..=2 {
        for mib in 0..space {
            client.write(mib * MIB, &vec![byte(round, mib); MIB as usize], false).unwrap();
        }
    }
    client.flush();
    let reads_back = |client: &Client| {
        for mib in 0..space {
            let found = client.read(mib * MIB, MIB);
            assert!(found == vec![byte(2, mib); MIB as usize], "MiB {mib}");
        }
    };
    reads_back(&client);
    drop(client);
    running.stop().unwrap();
    assert_eq!(check(&spec.path).unwrap().problems, Vec::<String>::new());
    std::fs::rename(place.path("d1"), place.path("away")).unwrap();
    let degraded = OpenOptions { degraded: true, ..OpenOptions::default() };
    let volume = open_with(&spec.path, &degraded).unwrap();
    let (running, port) = volume.start(&StartOptions::default()).unwrap();
    reads_back(&Client::new(port));
    running.stop().unwrap();
}

#[test]
fn a_volume_on_a_zoned_file_is_created_and_reopened() {
    for layer in ["pblk", "rrpc", "log"] {
        let place = Place::new();
        let spec = spec(&place, layer);
        let created = create(&spec).unwrap_or_else(|why| panic!("{layer}: {why}"));
        assert_eq!(created.device_bytes, 63 * MIB, "{layer}: but for the head");
        let named = format!("zoned:{}", place.folder.path().join("segments").display());
        assert_eq!(created.config.devices, std::slice::from_ref(&named), "it knows its segments");
        drop(open(&spec.path).unwrap_or_else(|why| panic!("{layer}: {why}")));
        let other = place.folder.path().join("again.toml");
        assert_eq!(import(&[named], &other).unwrap().config.uuid, created.config.uuid);
        let why = create(&CreateSpec { path: place.folder.path().join("w"), size: None, ..spec });
        let why = why.unwrap_err().to_string();
        assert!(why.contains("holds a member of a HostFTL volume"), "{why}");
    }
}

#[test]
fn unsuitable_zoned_files_are_refused_and_leave_no_files() {
    let place = Place::new();
    let why = |spec: &CreateSpec| create(spec).unwrap_err().to_string();
    let passthrough = spec(&place, "passthrough");
    assert!(why(&passthrough).contains("needs a block device"));
    let small = CreateSpec { size: Some(2 * MIB), ..spec(&place, "pblk") };
    assert!(why(&small).contains("too few for these segments"), "{}", why(&small));
    let odd = vec![format!("zoned:{}?size=1m", place.folder.path().join("odd").display())];
    let odd = CreateSpec { devices: odd, ..spec(&place, "pblk") };
    assert!(why(&odd).contains("no option \"size\""), "{}", why(&odd));
    assert_eq!(std::fs::read_dir(place.folder.path()).unwrap().count(), 0, "nothing is left");
    let plain = place.folder.path().join("plain");
    std::fs::File::create(&plain).unwrap().set_len(64 * MIB).unwrap();
    let devices = vec![format!("zoned:{}", plain.display())];
    let plain = CreateSpec { devices, size: None, ..spec(&place, "pblk") };
    assert!(why(&plain).contains("not a zoned file"), "{}", why(&plain));
}
