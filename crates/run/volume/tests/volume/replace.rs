//! A volume after the loss of a device: rebuilt without a spare, lost again, and with replacements
//! of lost devices.

use std::fs::{self, File};
use std::time::{Duration, Instant};

use crate::common::{Client, MIB, Place, content, is_sound, noise, replacement, until};
use crate::cuts::cut_off;
use hostftl_layers::{LayerConfig, LayerKind};
use hostftl_volume::front::JobOp;
use hostftl_volume::{
    CheckOptions, CreateSpec, Error, OpenOptions, ReplaceSpec, Replaced, Space, StartOptions,
    Verdict, check, check_with, create, online, open_with, replace, status,
};

const BLOCKS: u64 = 600;
/// Longest wait for a rebuild.
const PATIENCE: Duration = Duration::from_secs(300);

fn put(spec: &ReplaceSpec) -> Result<Replaced, Error> {
    replace(spec, &mut |_, _| {})
}

/// Serves the volume until it is fully redundant, and reads everything. Returns the space.
fn heal(place: &Place, write: bool) -> Space {
    heal_until(place, write, 1)
}

/// Serves until the volume tolerates `lose` further losses; with 0 some data remains without
/// redundancy.
fn heal_until(place: &Place, write: bool, lose: u32) -> Space {
    let how = OpenOptions { degraded: true, ..OpenOptions::default() };
    let (running, port) =
        open_with(&place.path("v.toml"), &how).unwrap().start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    if write {
        (0..BLOCKS).for_each(|at| client.write(at * 8192, &content(at), false).unwrap());
        client.flush();
    }
    let begun = Instant::now();
    let healed = loop {
        let space = running.status().space.unwrap();
        if (lose == 0 || space.degraded_bytes == 0) && space.failures_tolerated == lose {
            break space;
        }
        assert!(begun.elapsed() < PATIENCE, "{space:?}");
        std::thread::sleep(Duration::from_millis(10));
    };
    (0..BLOCKS).for_each(|at| assert_eq!(client.read(at * 8192, 4096), content(at), "block {at}"));
    running.stop().unwrap();
    healed
}

#[test]
fn devices_are_replaced_one_after_the_other() {
    let place = Place::with_volume("log:parity=yes:compress=none", 4, 48);
    heal(&place, true);
    fs::remove_file(place.path("d1")).unwrap();
    heal(&place, false);
    fs::remove_file(place.path("d2")).unwrap();
    heal(&place, false);
    let done = put(&replacement(&place, "1", "n1")).unwrap();
    assert_eq!((done.old.number, done.was_lost), (1, true));
    heal(&place, false);
    put(&replacement(&place, &place.name("d2"), "n2")).unwrap();
    heal(&place, false);
    assert!(is_sound(&place), "all devices are there");
    assert!(status(&place.path("v.toml")).unwrap().devices.iter().all(|it| it.health == "online"));
    // The devices from before the losses are gone: the replacements hold the needed data.
    fs::remove_file(place.path("d0")).unwrap();
    heal(&place, false);
}

/// Returns a volume whose device 2 was lost, and whose replacement `n2` lacks most of its chunks:
/// the rebuild takes longer than the volume is open.
fn lacks_most() -> Place {
    let place = Place::with_volume("log:parity=yes:compress=none", 3, 48);
    heal(&place, true);
    let begin = (BLOCKS * 8192).div_ceil(1 << 16);
    write_pieces(&place, begin..begin + 480, 1 << 16);
    fs::remove_file(place.path("d2")).unwrap();
    put(&replacement(&place, "2", "n2")).unwrap();
    // The whole map is written to it.
    write_pieces(&place, (begin..begin + 480).step_by(16), 4096);
    place
}

fn write_pieces(place: &Place, pieces: impl Iterator<Item = u64>, bytes: usize) {
    let opened = open_with(&place.path("v.toml"), &OpenOptions::default()).unwrap();
    let (running, port) = opened.start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    pieces.for_each(|at| client.write(at << 16, &noise(at, 1 << 16)[..bytes], false).unwrap());
    client.flush();
    running.stop().unwrap();
}

/// Checks that device 0 is needed, whether it is present or not.
fn is_refused(place: &Place, newcomer: &str, gone: bool) {
    let away = |from: &str, to: &str| fs::rename(place.path(from), place.path(to)).unwrap();
    gone.then(|| away("d0", "away"));
    let why = put(&replacement(place, "0", "n0")).expect_err("it is needed").to_string();
    let later = format!("{newcomer} joined later");
    assert!(why.contains(&later) && why.contains("hostftl wait"), "{why}");
    assert!(!place.path("n0").exists(), "nothing was made");
    gone.then(|| away("away", "d0"));
}

#[test]
fn a_device_needed_by_a_joined_one_is_not_replaced() {
    let place = lacks_most();
    is_refused(&place, "n2", true);
    is_refused(&place, "n2", false);
    heal(&place, false);
    put(&replacement(&place, "0", "n0")).unwrap();
    heal(&place, false);
    assert!(is_sound(&place));
}

#[test]
fn a_device_needed_by_a_joining_one_is_not_replaced() {
    let place = Place::with_volume("log:parity=yes:compress=none", 3, 48);
    heal(&place, true);
    fs::remove_file(place.path("d1")).unwrap();
    // The process is interrupted when all superblocks list the replacement: two writes on each of
    // the others for the loss, the volume file, two on the new device when it is cleared, and two
    // on each of the three.
    assert!(!cut_off(&place, "replace", false, 4 + 1 + 2 + 6), "it ends later");
    let found = check(&place.path("v.toml")).unwrap();
    assert!(found.notes.iter().any(|note| note.contains("n is device 1, completed")), "{found:?}");
    is_refused(&place, "n", true);
    heal(&place, false);
    assert!(is_sound(&place));
}

#[test]
fn a_rebuild_of_a_full_volume_writes_only_the_new_device() {
    let place = Place::with_volume("log:parity=yes:compress=none", 4, 48);
    let start = || {
        let opened = open_with(&place.path("v.toml"), &OpenOptions::default()).unwrap();
        opened.start(&StartOptions::default()).unwrap()
    };
    let (running, port) = start();
    let client = Client::new(port);
    let pieces = running.status().exported_bytes >> 16;
    (0..pieces).for_each(|at| client.write(at << 16, &noise(at, 1 << 16), false).unwrap());
    client.flush();
    running.stop().unwrap();
    fs::remove_file(place.path("d1")).unwrap();
    put(&replacement(&place, "1", "n1")).unwrap();
    let (running, port) = start();
    let client = Client::new(port);
    let begun = Instant::now();
    while running.status().space.unwrap().degraded_bytes > 0 {
        assert!(begun.elapsed() < PATIENCE, "{:?}", running.status().space);
        std::thread::sleep(Duration::from_millis(10));
    }
    let sent: Vec<u64> = running.status().devices.iter().map(|it| it.written_bytes).collect();
    assert!([0, 2, 3].iter().all(|other| sent[*other] * 20 < sent[1]), "{sent:?}");
    let live = running.status().space.unwrap().physical_bytes;
    assert!(sent[1] * 3 <= live + live / 4, "a third of the live blocks: {sent:?} of {live}");
    (0..pieces)
        .for_each(|at| assert_eq!(client.read(at << 16, 1 << 16), noise(at, 1 << 16), "{at}"));
    running.stop().unwrap();
    assert!(is_sound(&place));
    // It has all of its chunks.
    fs::remove_file(place.path("d2")).unwrap();
    let how = OpenOptions { degraded: true, ..OpenOptions::default() };
    let opened = open_with(&place.path("v.toml"), &how).unwrap();
    let (running, port) = opened.start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    (0..pieces)
        .for_each(|at| assert_eq!(client.read(at << 16, 1 << 16), noise(at, 1 << 16), "{at}"));
    running.stop().unwrap();
}

/// A volume with virtual hot capacity, full of data that does not compress, becomes redundant
/// again after the loss of any one device.
#[test]
fn virtual_hot_capacity_replaces_any_one_device() {
    let cases: [(&str, &[u64]); 4] = [
        ("parity=yes", &[96, 96, 96]),
        ("parity=yes", &[96, 96, 160, 128, 128]),
        ("parity=2", &[96, 96, 96, 96, 96]),
        ("parity=yes:separation=lifetime", &[96, 96, 96, 96]),
    ];
    for (at, (layer, sizes)) in cases.into_iter().enumerate() {
        // One case has one device of each length lost, the others any.
        for lost in [at, sizes.len() - 1] {
            loses_one(layer, sizes, lost % sizes.len());
        }
    }
}

fn loses_one(layer: &str, sizes: &[u64], lost: usize) {
    let place = Place::new();
    let devices: Vec<String> = (0..sizes.len()).map(|at| place.name(&format!("d{at}"))).collect();
    for (name, megabytes) in devices.iter().zip(sizes) {
        File::create(name).unwrap().set_len(megabytes * MIB).unwrap();
    }
    let layer = LayerConfig::parse(&format!("log:compress=none:{layer}")).unwrap();
    let mut spec = CreateSpec { devices, layer, size: None, ..place.spec(LayerKind::Log) };
    let parities = u32::from(spec.layer.log.parity);
    let export = spec.reserve_device().unwrap();
    assert_eq!(create(&spec).unwrap().exported_bytes, export);
    let start = || {
        let how = OpenOptions { degraded: true, ..OpenOptions::default() };
        let opened = open_with(&place.path("v.toml"), &how).unwrap();
        opened.start(&StartOptions::default()).unwrap()
    };
    let (running, port) = start();
    let client = Client::new(port);
    let pieces = export >> 16;
    let write = |at: u64| client.write(at << 16, &noise(at, 1 << 16), false).unwrap();
    // The second pass leaves invalid data between the valid.
    (0..pieces).chain((0..pieces).step_by(3)).for_each(write);
    client.flush();
    running.stop().unwrap();
    fs::remove_file(place.path(&format!("d{lost}"))).unwrap();
    let (running, port) = start();
    let client = Client::new(port);
    let begun = Instant::now();
    loop {
        let space = running.status().space.unwrap();
        if space.degraded_bytes == 0 && space.failures_tolerated == parities {
            break;
        }
        assert!(begun.elapsed() < PATIENCE, "{sizes:?} without {lost}: {space:?}");
        std::thread::sleep(Duration::from_millis(10));
    }
    // The volume is still full, and can be overwritten.
    (0..pieces)
        .step_by(7)
        .for_each(|at| client.write(at << 16, &noise(at, 1 << 16), false).unwrap());
    (0..pieces)
        .for_each(|at| assert_eq!(client.read(at << 16, 1 << 16), noise(at, 1 << 16), "{at}"));
    running.stop().unwrap();
}

#[test]
fn with_two_parities_two_devices_are_lost_at_once_and_replaced() {
    let place = Place::with_volume("log:parity=2:compress=none", 5, 48);
    heal_until(&place, true, 2);
    fs::remove_file(place.path("d1")).unwrap();
    fs::remove_file(place.path("d2")).unwrap();
    let notes = || status(&place.path("v.toml")).unwrap().notes.join("\n");
    let notes_of_two = notes();
    assert!(notes_of_two.contains("another device failure loses data"), "{notes_of_two}");
    heal_until(&place, false, 2);
    for (old, new) in [("1", "n1"), ("2", "n2")] {
        assert!(put(&replacement(&place, old, new)).unwrap().was_lost);
    }
    heal_until(&place, false, 2);
    assert!(is_sound(&place), "all devices are there");
    // One device is damaged, and another is absent: the chunks of both are rebuilt from the others.
    rot(&place, "d4");
    fs::remove_file(place.path("d0")).unwrap();
    let notes = notes();
    assert!(notes.contains("one more device can fail without data loss"), "{notes}");
    heal_until(&place, false, 2);
    fs::remove_file(place.path("d3")).unwrap();
    fs::remove_file(place.path("d4")).unwrap();
    heal_until(&place, false, 0);
}

/// Overwrites the middle of a device.
fn rot(place: &Place, device: &str) {
    use std::os::unix::fs::FileExt;
    let file = fs::OpenOptions::new().write(true).open(place.path(device)).unwrap();
    let (size, noise) = (file.metadata().unwrap().len(), [0xa5; 1 << 16]);
    let places = (size / 16..size / 16 * 15).step_by(1 << 20);
    places.into_iter().for_each(|at| file.write_all_at(&noise, at).unwrap());
}

#[test]
fn a_mirror_is_rebuilt_on_a_new_device() {
    let place = Place::with_volume("log:parity=yes", 2, 48);
    heal(&place, true);
    fs::remove_file(place.path("d0")).unwrap();
    put(&replacement(&place, "0", "n0")).unwrap();
    heal(&place, false);
    fs::remove_file(place.path("d1")).unwrap();
    put(&replacement(&place, "1", "n1")).unwrap();
    heal(&place, false);
    assert!(is_sound(&place));
}

#[test]
fn obstacles_to_a_replacement_are_named_and_change_nothing() {
    let place = Place::with_volume("log:parity=yes", 3, 48);
    heal(&place, true);
    let before = fs::read(place.path("v.toml")).unwrap();
    let refused = |old: &str, new: &str, why: &str| {
        let message = put(&replacement(&place, old, new)).unwrap_err().to_string();
        assert!(message.contains(why), "{message}");
        assert!(!message.contains('\n'), "one line: {message}");
    };
    refused("7", "n", "7 is not a device of the volume; its devices are device 0 (");
    refused("0", "d1", "is already device 1 of this volume");
    File::create(place.path("small")).unwrap().set_len(8 * MIB).unwrap();
    refused("0", "small", "and the volume needs");
    let other = Place::with_volume("log:parity=yes", 2, 48);
    fs::copy(other.path("d0"), place.path("foreign")).unwrap();
    refused("0", "foreign", "--force overwrites it");
    fs::remove_file(place.path("d1")).unwrap();
    refused("0", "n", "device 1 (");
    assert!(!place.path("n").exists(), "the new file is removed");
    let rehearsal = ReplaceSpec { rehearse: true, ..replacement(&place, "1", "n") };
    assert_eq!(put(&rehearsal).unwrap().old.number, 1);
    assert!(!place.path("n").exists());
    assert_eq!(fs::read(place.path("v.toml")).unwrap(), before);
}

#[test]
fn a_replaced_device_is_excluded() {
    let place = Place::with_volume("log:parity=yes", 3, 48);
    heal(&place, true);
    fs::rename(place.path("d1"), place.path("old")).unwrap();
    put(&replacement(&place, "1", "n1")).unwrap();
    heal(&place, false);
    // The old device replaces the new one.
    fs::remove_file(place.path("n1")).unwrap();
    fs::rename(place.path("old"), place.path("n1")).unwrap();
    heal(&place, false);
    let again = replacement(&place, "1", "n1");
    assert!(put(&again).unwrap_err().to_string().contains("--force"));
    put(&ReplaceSpec { force: true, ..again }).unwrap();
    heal(&place, false);
    assert!(is_sound(&place));
}

/// Returns the number of unreadable blocks.
fn lost_blocks(client: &Client) -> usize {
    let read = |at: &u64| client.ask(JobOp::Read(client.port.buffer(4096)), at * 8192, 4096);
    (0..BLOCKS + 480 * 8).filter(|at| read(at).is_err()).count()
}

#[test]
fn data_on_a_lost_device_only_is_unreadable_until_it_returns() {
    let place = lacks_most();
    fs::rename(place.path("d0"), place.path("away")).unwrap();
    let how = OpenOptions { degraded: true, ..OpenOptions::default() };
    let checked = check_with(
        &place.path("v.toml"),
        CheckOptions { degraded: true, ..CheckOptions::default() },
    );
    let checked = checked.unwrap();
    assert_eq!(checked.verdict, Verdict::Damaged, "{:?}", checked.problems);
    let opened = open_with(&place.path("v.toml"), &how).unwrap();
    let (running, port) = opened.start(&StartOptions::default()).unwrap();
    let client = Client::new(port);
    let now = running.status();
    assert!(lost_blocks(&client) > 0, "two of three chunks are not there");
    let event = running.events().since(0).into_iter().find(|it| it.kind == "degraded").unwrap();
    for note in [&now.notes[0], &now.problems[1], &event.text] {
        assert!(note.contains("bytes are unreadable") && note.contains("device online"), "{note}");
        assert!(!note.contains("all data is available"), "{note}");
    }
    running.stop().unwrap();
    fs::rename(place.path("away"), place.path("d0")).unwrap();
    assert!(online(&place.path("v.toml"), &place.name("d0")).unwrap().is_new);
    // All devices are present again, and data that GC could not read before is retried.
    heal(&place, false);
    assert!(is_sound(&place));
}

#[test]
fn the_reported_redundancy_is_current() {
    let place = Place::with_volume("log:parity=yes:compress=none", 4, 48);
    heal(&place, true);
    fs::remove_file(place.path("d3")).unwrap();
    let how = OpenOptions { degraded: true, ..OpenOptions::default() };
    let opened = open_with(&place.path("v.toml"), &how).unwrap();
    let (running, _port) = opened.start(&StartOptions::default()).unwrap();
    let event = running.events().since(0).into_iter().find(|it| it.kind == "degraded").unwrap();
    assert!(event.text.contains("another device failure loses data"), "{}", event.text);
    until(&running, |running| running.status().space.unwrap().failures_tolerated == 1);
    let note = running.status().notes.swap_remove(0);
    assert!(note.contains("one more device can fail without data loss"), "{note}");
    running.stop().unwrap();
}
