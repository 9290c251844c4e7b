//! A read-only volume: no byte of its devices changes.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};

use crate::common::{Client, MIB, Place, layers};
use hostftl_core::HostError;
use hostftl_layers::{LayerConfig, LayerKind};
use hostftl_volume::front::JobOp;
use hostftl_volume::{
    CreateSpec, OpenOptions, Reach, Running, Service, StartOptions, create, open, open_with,
};

const LOCAL: Service = Service { reach: Reach::Machine, reuse_export_name: false };

fn served() -> StartOptions {
    StartOptions { service: Some(LOCAL), ..StartOptions::default() }
}

fn read_only(place: &Place, degraded: bool) -> Result<(Running, Client), String> {
    let options = OpenOptions { degraded, ..OpenOptions::read_only() };
    let volume = open_with(&place.path("v.toml"), &options).map_err(|error| error.to_string())?;
    let (running, port) = volume.start(&served()).map_err(|error| error.to_string())?;
    Ok((running, Client::new(port)))
}

/// Writes, flushes, writes more, and leaves the devices as after a `kill -9` then.
fn die(place: &Place, devices: &[&str]) {
    let (running, port) = open(&place.path("v.toml")).unwrap().start(&served()).unwrap();
    let client = Client::new(port);
    for at in 0..64 {
        client.write(at * 12_288, &[at as u8 + 1; 4096], false).unwrap();
    }
    client.flush();
    client.write(8192, &[99; 512], false).unwrap();
    for name in devices {
        fs::copy(place.path(name), place.path(&format!("{name}.then"))).unwrap();
    }
    running.stop().unwrap();
    for name in devices {
        fs::rename(place.path(&format!("{name}.then")), place.path(name)).unwrap();
    }
}

/// Returns the content of a device, and the time of its last write.
fn state(place: &Place, device: &str) -> (Vec<u8>, i64, i64) {
    let found = fs::metadata(place.path(device)).unwrap();
    (fs::read(place.path(device)).unwrap(), found.mtime(), found.mtime_nsec())
}

fn look(client: &Client) {
    for at in 0..64 {
        assert_eq!(client.read(at * 12_288, 4096), vec![at as u8 + 1; 4096], "write {at}");
    }
    let refused = Err(HostError::ReadOnly);
    assert_eq!(client.write(0, &[7; 4096], true), refused.clone().map(drop));
    for op in [JobOp::Trim { fua: false }, JobOp::Zeroes { fua: true }] {
        assert_eq!(client.ask(op, 0, 4096), refused);
    }
    client.flush();
    assert_eq!(client.read(0, 4096), vec![1; 4096], "what was refused is not there");
}

#[test]
fn a_read_only_run_after_a_death_changes_no_byte_of_any_device() {
    // Drive models record that they were opened.
    for layer in layers().filter(|layer| !layer.needs_hint()) {
        let place = Place::new();
        create(&place.spec(layer)).unwrap();
        die(&place, &["d0"]);
        let before = state(&place, "d0");
        // Even root can't write to a file through a read-only descriptor.
        fs::set_permissions(place.path("d0"), fs::Permissions::from_mode(0o400)).unwrap();
        for _ in 0..2 {
            let (running, client) = read_only(&place, false).unwrap_or_else(|why| {
                panic!("{layer}: {why}");
            });
            assert!(client.port.export().read_only);
            assert_eq!(client.port.export().name, "v@2", "{layer}: the mark decides the name");
            look(&client);
            assert!(running.failure().is_none());
            let status = running.stop().unwrap();
            assert!(status.read_only && status.unclean_shutdown, "{layer}");
            assert!(status.notes.iter().any(|note| note.starts_with("read-only")));
            assert!(before == state(&place, "d0"), "{layer}: something was written");
        }
        // The next writable start is unaffected.
        fs::set_permissions(place.path("d0"), fs::Permissions::from_mode(0o600)).unwrap();
        let (running, port) = open(&place.path("v.toml")).unwrap().start(&served()).unwrap();
        assert_eq!(port.export().name, "v@2", "{layer}");
        let client = Client::new(port);
        assert_eq!(client.read(0, 4096), vec![1; 4096], "{layer}");
        client.write(0, &[8; 4096], true).unwrap();
        running.stop().unwrap();
    }
}

#[test]
fn a_degraded_read_only_run_writes_no_superblocks() {
    let place = Place::new();
    let devices = ["d0", "d1", "d2"];
    create(&CreateSpec {
        devices: devices.map(|name| place.name(name)).into(),
        size: Some(32 * MIB),
        layer: LayerConfig::parse("log:parity=yes").unwrap(),
        ..place.spec(LayerKind::Log)
    })
    .unwrap();
    die(&place, &devices);
    fs::rename(place.path("d1"), place.path("away")).unwrap();
    let before = ["d0", "d2"].map(|name| state(&place, name));
    let refusal = read_only(&place, false).err().unwrap();
    assert!(refusal.contains("serve --read-only --degraded"), "{refusal}");
    let (running, client) = read_only(&place, true).unwrap();
    look(&client);
    let status = running.stop().unwrap();
    assert!(status.degraded && status.read_only);
    assert!(before == ["d0", "d2"].map(|name| state(&place, name)), "something was written");
    // The superblocks do not exclude it, so its return needs no consent.
    fs::rename(place.path("away"), place.path("d1")).unwrap();
    let (running, _) = open(&place.path("v.toml")).unwrap().start(&served()).unwrap();
    assert!(!running.stop().unwrap().degraded);
}

#[test]
fn memory_and_model_devices_are_refused_with_a_reason() {
    let place = Place::new();
    let devices = vec!["mem:64m".into()];
    create(&CreateSpec { devices, size: None, ..place.spec(LayerKind::Hard) }).unwrap();
    let why = read_only(&place, false).err().unwrap();
    assert!(why.contains("empty at each start"), "{why}");
    let place = Place::new();
    create(&place.spec(LayerKind::Scrambler)).unwrap();
    let why = read_only(&place, false).err().unwrap();
    assert!(why.contains("is a drive model"), "{why}");
}
