//! A volume of two devices of different sizes: a small fast one before a large slow one.

use std::fs::File;

use hostftl_layers::{LayerConfig, LayerKind};
use hostftl_volume::{CreateSpec, StartOptions, check, create, open};

use crate::common::{Client, MIB, Place};

fn spec(place: &Place) -> CreateSpec {
    for (name, size) in [("fast", 8 * MIB), ("slow", 64 * MIB)] {
        File::create(place.path(name)).unwrap().set_len(size).unwrap();
    }
    let devices = vec![place.name("fast"), place.name("slow")];
    CreateSpec { devices, size: None, ..place.spec(LayerKind::Tier) }
}

#[test]
fn data_larger_than_the_fast_device_survives_stop_and_start() {
    let place = Place::new();
    let created = create(&spec(&place)).unwrap();
    assert_eq!(created.exported_bytes, 62 * MIB - 16_384, "the slow device but for the ledger");
    let path = place.path("v.toml");
    let content = |at: u64, round: u64| vec![(at / MIB * 7 + round) as u8; 65_536];
    for round in 1..3 {
        let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
        let client = Client::new(port);
        for at in (0..60 * MIB).step_by(MIB as usize / 2) {
            if round > 1 {
                assert_eq!(client.read(at, 65_536), content(at, round - 1));
            }
            client.write(at, &content(at, round), false).unwrap();
        }
        client.flush();
        let last = running.stop().unwrap();
        assert!(!last.degraded && last.lost_ranges.is_empty());
        assert!(last.devices.iter().all(|device| device.written_bytes > MIB), "both are written");
    }
    assert_eq!(check(&path).unwrap().problems, Vec::<String>::new());
}

#[test]
fn a_tier_without_its_fast_device_names_the_lost_data() {
    let place = Place::new();
    create(&spec(&place)).unwrap();
    let path = place.path("v.toml");
    let why = |name: &str, away: &str| {
        std::fs::rename(place.path(name), place.path(away)).unwrap();
        let why = open(&path).unwrap_err().to_string();
        std::fs::rename(place.path(away), place.path(name)).unwrap();
        why
    };
    assert!(why("fast", "away").contains("all flushed data is also on the slow device"));
    let (running, port) = open(&path).unwrap().start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    client.write(5 * MIB, &[5; 65_536], false).unwrap();
    client.write(60 * MIB, &[9; 4096], true).unwrap();
    running.stop().unwrap();
    let lost = why("fast", "away");
    assert!(lost.contains("the fast device of the tier is missing"), "{lost}");
    assert!(lost.contains(&place.name("fast")), "{lost}");
    let ranges = format!("{} bytes: {MIB} at {}, {MIB} at {}", 2 * MIB, 5 * MIB, 60 * MIB);
    assert!(lost.contains(&ranges), "{lost}");
    assert!(why("slow", "away").contains("the slow device of the tier is missing"));
    drop(open(&path).expect("both are here again"));
}

#[test]
fn a_single_device_is_refused() {
    let place = Place::new();
    let two = spec(&place);
    let one = CreateSpec { devices: vec![place.name("slow")], ..two.clone() };
    let why = create(&one).unwrap_err().to_string();
    assert!(why.contains("two devices; name the fast one first"), "{why}");
    let text = "tier:page=32k:policy=after-3:free=20";
    assert_eq!(LayerConfig::parse(text).unwrap().to_text(), text);
}
