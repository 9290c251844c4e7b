//! An older copy of one device is refused where every device is needed.

use std::fs;

use hostftl_layers::LayerKind;
use hostftl_volume::{CreateSpec, StartOptions, check, create, open};

use crate::common::{Client, MIB, Place};

/// Fills the volume with one byte value, and stops.
fn serve(place: &Place, byte: u8, mib: u64) {
    let (running, port) =
        open(&place.path("v.toml")).unwrap().start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    for at in 0..mib {
        client.write(at * MIB, &vec![byte; 64 << 10], false).unwrap();
    }
    client.flush();
    running.stop().unwrap();
}

/// Checks for each device in turn that its copy from before the last start is refused and not
/// written to, and that the device itself is accepted again.
fn older_copies_are_refused(kind: LayerKind, names: [&str; 2]) {
    let place = Place::new();
    let devices = names.iter().map(|name| place.name(name)).collect();
    let mut spec = CreateSpec { devices, ..place.spec(kind) };
    spec.size = Some(32 * MIB);
    create(&spec).unwrap();
    serve(&place, 1, 20);
    for (index, name) in names.iter().enumerate() {
        let device = place.path(name);
        let old = fs::read(&device).unwrap();
        serve(&place, 2 + index as u8, 20);
        let new = fs::read(&device).unwrap();
        fs::write(&device, &old).unwrap();
        let volume = open(&place.path("v.toml")).unwrap();
        let Err(why) = volume.start(&StartOptions::default()) else { panic!("it is older") };
        let why = why.to_string();
        let named = format!("({}) is an older copy", place.name(name));
        assert!(why.contains(&named) && why.contains("reconnect the device itself"), "{why}");
        assert!(fs::read(&device).unwrap() == old, "nothing is written to the copy");
        fs::write(&device, &new).unwrap();
        assert_eq!(check(&place.path("v.toml")).unwrap().problems, Vec::<String>::new());
        let (running, port) =
            open(&place.path("v.toml")).unwrap().start(&StartOptions::default()).unwrap();
        assert_eq!(Client::new(port).read(19 * MIB, 4096), vec![2 + index as u8; 4096]);
        running.stop().unwrap();
    }
}

#[test]
fn a_tier_refuses_an_older_copy_of_either_device() {
    older_copies_are_refused(LayerKind::Tier, ["fast", "slow"]);
}

#[test]
fn a_log_without_parity_refuses_an_older_copy_of_either_device() {
    older_copies_are_refused(LayerKind::Log, ["a", "b"]);
}
