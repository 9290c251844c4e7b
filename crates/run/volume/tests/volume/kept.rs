//! Writes acknowledged with `--ack memfd` survive the death of the server, and never overwrite
//! newer data.

use std::fs;
use std::path::PathBuf;

use crate::common::{Client, MIB, Place, layers};
use hostftl_layers::LayerKind;
use hostftl_volume::front::JobOp;
use hostftl_volume::{
    Acks, Config, OpenOptions, Reach, Running, Service, StartOptions, check, create, delete, open,
    open_with, status,
};

const BLOCK: u64 = 4096;

fn options(acks: Acks) -> StartOptions {
    let service = Some(Service { reach: Reach::Machine, reuse_export_name: false });
    StartOptions { service, acks, ..StartOptions::default() }
}

fn start(place: &Place, acks: Acks) -> (Running, Client) {
    let (running, port) = open(&place.path("v.toml")).unwrap().start(&options(acks)).unwrap();
    (running, Client::new(port))
}

/// Returns the acknowledgement logs of the volume in all possible folders.
fn stashes(place: &Place) -> Vec<PathBuf> {
    let uuid = Config::load(&place.path("v.toml")).unwrap().uuid.simple().to_string();
    let user = fs::metadata("/proc/self").map(|it| std::os::unix::fs::MetadataExt::uid(&it));
    let user = user.unwrap();
    let folders = [
        "/run/hostftl".to_owned(),
        format!("/run/user/{user}/hostftl"),
        format!("/dev/shm/hostftl-{user}"),
    ];
    let entries = folders.iter().filter_map(|folder| fs::read_dir(folder).ok()).flatten();
    let paths = entries.map(|entry| entry.unwrap().path());
    let ours = |path: &PathBuf| {
        let name = path.file_name().unwrap().to_string_lossy();
        name.starts_with(&uuid) && name.ends_with(".stash")
    };
    paths.filter(ours).collect()
}

/// Returns whether this machine supports `--ack memfd`.
fn has_memory() -> bool {
    let mounts = fs::read_to_string("/proc/mounts").unwrap();
    let has = mounts.lines().any(|line| {
        let words: Vec<_> = line.split(' ').collect();
        words[1] == "/dev/shm" && words[2] == "tmpfs"
    });
    if !has {
        hostftl_test_skip::skipped("/dev/shm is no tmpfs");
    }
    has
}

/// Calls `act` on a served volume, and leaves the devices and the memory as after a `kill -9` then.
fn die(place: &Place, acks: Acks, act: impl FnOnce(&Client)) {
    let (running, client) = start(place, acks);
    act(&client);
    fs::copy(place.path("d0"), place.path("then")).unwrap();
    let left: Vec<_> = stashes(place).into_iter().map(|it| (fs::read(&it).unwrap(), it)).collect();
    running.stop().unwrap();
    assert!(stashes(place).is_empty(), "a clean stop leaves nothing");
    fs::rename(place.path("then"), place.path("d0")).unwrap();
    left.iter().for_each(|(bytes, path)| fs::write(path, bytes).unwrap());
}

#[test]
fn acknowledged_writes_are_replayed_in_order_and_keep_the_name() {
    if !has_memory() {
        return;
    }
    layers().filter(|layer| !layer.takes_zones()).for_each(|layer| {
        let place = Place::new();
        create(&place.spec(layer)).unwrap();
        let mut model = vec![0_u8; 16 * BLOCK as usize];
        die(&place, Acks::Memfd, |client| {
            // Overwrites the same blocks repeatedly: the last write of each counts.
            for round in 1..60_u64 {
                let (at, sectors) = (round * 7 % 15 * 8, 1 + round % 9);
                let (from, bytes) = (at * 512, sectors * 512);
                let range = from as usize..(from + bytes) as usize;
                match round % 5 {
                    0 => {
                        client.ask(JobOp::Trim { fua: false }, from, bytes).unwrap();
                        model[range].fill(0);
                    }
                    1 => {
                        client.ask(JobOp::Zeroes { fua: false }, from, bytes).unwrap();
                        model[range].fill(0);
                    }
                    _ => {
                        let data = vec![round as u8; bytes as usize];
                        client.write(from, &data, round % 7 == 0).unwrap();
                        model[range].copy_from_slice(&data);
                    }
                }
                if round == 30 {
                    client.flush();
                }
            }
        });
        let seen = status(&place.path("v.toml")).unwrap();
        let waits =
            |note: &String| note.contains(".stash has") && note.contains("acknowledged writes");
        assert!(seen.unclean_shutdown && seen.notes.iter().any(waits), "{layer}: {:?}", seen.notes);
        let checked = check(&place.path("v.toml")).unwrap();
        assert!(checked.notes.iter().any(waits), "{layer}: {:?}", checked.notes);
        // A read-only start applies the entries in memory and keeps them; the next start has them
        // too, whatever its acknowledgement policy.
        let only_read = open_with(&place.path("v.toml"), &OpenOptions::read_only()).unwrap();
        let (running, port) = only_read.start(&options(Acks::Buffer)).unwrap();
        assert!(Client::new(port).read(0, 16 * BLOCK) == model, "{layer}: read-only");
        running.stop().unwrap();
        let (running, client) = start(&place, Acks::Buffer);
        assert!(client.read(0, 16 * BLOCK) == model, "{layer}");
        let export = client.port.export();
        assert_eq!((export.name.as_str(), export.forgot), ("v", false), "{layer}");
        assert!(running.status().notes.iter().any(|note| note.contains("no data is lost")));
        assert!(stashes(&place).is_empty(), "{layer}: it is durable, and this server keeps none");
        running.stop().unwrap();
    });
}

#[test]
fn stale_acknowledged_writes_are_never_replayed() {
    if !has_memory() {
        return;
    }
    let place = Place::new();
    create(&place.spec(LayerKind::Log)).unwrap();
    die(&place, Acks::Memfd, |client| client.write(0, &[1; 4096], false).unwrap());
    // Another machine has the devices and not the memory.
    let kept: Vec<_> = stashes(&place).into_iter().map(|it| (fs::read(&it).unwrap(), it)).collect();
    assert_eq!(kept.len(), 1);
    kept.iter().for_each(|(_, path)| fs::remove_file(path).unwrap());
    let (running, client) = start(&place, Acks::Buffer);
    let export = client.port.export();
    assert_eq!((export.name.as_str(), export.forgot), ("v@2", true), "what was answered is gone");
    client.write(0, &[2; 4096], false).unwrap();
    running.stop().unwrap();
    kept.iter().for_each(|(bytes, path)| fs::write(path, bytes).unwrap());
    let (running, client) = start(&place, Acks::Memfd);
    assert_eq!(client.read(0, 4096), [2; 4096], "the newer data stays");
    let events = running.events().since(0);
    assert!(events.iter().any(|it| it.text.contains("1 acknowledged write of an earlier run")));
    assert_eq!(stashes(&place).len(), 1, "only that of this run is left");
    running.stop().unwrap();
}

#[test]
fn an_interrupted_start_does_not_vouch_for_a_later_run() {
    if !has_memory() {
        return;
    }
    let place = Place::new();
    create(&place.spec(LayerKind::Hard)).unwrap();
    // A log exists, and the mark of its run was never written.
    fs::copy(place.path("d0"), place.path("before")).unwrap();
    let (running, _client) = start(&place, Acks::Memfd);
    let left: Vec<_> = stashes(&place).into_iter().map(|it| (fs::read(&it).unwrap(), it)).collect();
    running.stop().unwrap();
    fs::rename(place.path("before"), place.path("d0")).unwrap();
    left.iter().for_each(|(bytes, path)| fs::write(path, bytes).unwrap());
    assert_eq!(left.len(), 1);
    die(&place, Acks::Buffer, |client| client.write(0, &[1; 4096], false).unwrap());
    let (running, client) = start(&place, Acks::Buffer);
    assert_eq!(client.port.export().name, "v@2", "that run kept nothing of what it answered");
    running.stop().unwrap();
}

#[test]
fn older_copies_of_the_devices_are_refused_while_a_later_run_has_answered_writes() {
    if !has_memory() {
        return;
    }
    let place = Place::new();
    create(&place.spec(LayerKind::Hard)).unwrap();
    start(&place, Acks::Memfd).0.stop().unwrap();
    fs::copy(place.path("d0"), place.path("older")).unwrap();
    die(&place, Acks::Memfd, |client| client.write(0, &[1; 4096], false).unwrap());
    fs::copy(place.path("older"), place.path("d0")).unwrap();
    let volume = open(&place.path("v.toml")).unwrap();
    let why = volume.start(&options(Acks::Buffer)).unwrap_err().to_string();
    assert!(why.contains("1 acknowledged write of run 2") && why.contains("older copies"), "{why}");
    delete(&place.path("v.toml"), true, &mut |_, _| ()).unwrap();
}

#[test]
fn a_full_ack_log_is_flushed_automatically() {
    if !has_memory() {
        return;
    }
    let place = Place::with_volume("passthrough", 1, 160);
    let (running, client) = start(&place, Acks::Memfd);
    let data = vec![7; MIB as usize];
    for at in 0..150 {
        client.write(at * MIB, &data, false).unwrap();
    }
    assert!(client.read(149 * MIB, MIB) == data);
    assert_eq!(running.status().ack, "memfd");
    running.stop().unwrap();
    delete(&place.path("v.toml"), true, &mut |_, _| ()).unwrap();
}

#[test]
fn a_memory_volume_has_no_ack_log() {
    let place = Place::new();
    let mut spec = place.spec(LayerKind::Hard);
    (spec.devices, spec.size) = (vec!["mem:16M".into()], None);
    create(&spec).unwrap();
    let why = open(&place.path("v.toml")).unwrap().start(&options(Acks::Memfd)).unwrap_err();
    assert!(why.to_string().contains("--ack memfd"), "{why}");
}
