//! Events: derived from states, one for each device and cause, and preserved over restarts.

use std::fs::{self, File};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::time::{Duration, Instant};

use hostftl_core::SECTOR;
use hostftl_format::superblock::data_window;
use hostftl_volume::{
    AdminRequest, Event, EventList, OpenOptions, StartOptions, Status, clear, events, open_with,
    operate, status,
};

use crate::common::{MIB, Place, noise, start, until};

/// Returns a stopped volume over four devices with parity and data.
fn filled() -> Place {
    let place = Place::with_volume("log:parity=yes:compress=none", 4, 48);
    let (running, client) = start(&place.path("v.toml"), false);
    (0..300).for_each(|at| client.write(at * 65536, &noise(at, 1 << 16), false).unwrap());
    client.flush();
    running.stop().unwrap();
    place
}

/// Damages one byte in each of many chunks of a device, without its superblocks and roots.
fn damage(path: &Path, device: &str) {
    let file = File::options().read(true).write(true).open(path.with_file_name(device)).unwrap();
    for at in (8 * MIB..40 * MIB).step_by(40_000) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    }
}

fn kinds<'a>(events: &'a [Event], kind: &str) -> Vec<&'a Event> {
    events.iter().filter(|event| event.kind == kind).collect()
}

#[test]
fn a_device_excluded_by_recovery_is_reported_as_lost() {
    let place = filled();
    let path = place.path("v.toml");
    // Destroys all roots and no superblocks.
    let device = File::options().write(true).open(place.path("d2")).unwrap();
    let from = data_window(48 * MIB / SECTOR as u64).0 * SECTOR as u64;
    device.write_all_at(&vec![0; 4 * MIB as usize], from).unwrap();
    let (running, _client) = start(&path, false);
    let recorded = running.events().since(0);
    let lost = kinds(&recorded, "device-lost");
    assert_eq!(lost.len(), 1, "{recorded:?}");
    assert!(lost[0].device == Some(2) && lost[0].text.contains("stale at recovery"), "{lost:?}");
    let now = running.status();
    assert!(now.degraded && now.events["device-lost"] == 1, "{now:?}");
    until(&running, |running| running.events().total("rebuilt") == 1);
    running.stop().unwrap();
    let options = OpenOptions { degraded: true, ..OpenOptions::default() };
    let (running, _) = open_with(&path, &options).unwrap().start(&StartOptions::default()).unwrap();
    assert_eq!(running.events().total("device-lost"), 0, "it is known by now");
    running.stop().unwrap();
    let EventList { served, events: kept } = events(&path).unwrap();
    assert!(!served && kinds(&kept, "device-lost").len() == 1, "{kept:?}");
}

fn repair_notes(status: &Status) -> usize {
    status.notes.iter().filter(|note| note.contains("rebuilt from the other devices")).count()
}

#[test]
fn repairs_of_a_device_are_one_event_until_cleared() {
    let place = filled();
    let path = place.path("v.toml");
    damage(&path, "d1");
    let (running, _client) = start(&path, false);
    operate(&path, &AdminRequest::Scrub).unwrap().unwrap();
    until(&running, |running| running.events().total("scrub-complete") == 1);
    let recorded = running.events().since(0);
    let (repairs, ends) = (kinds(&recorded, "repaired"), kinds(&recorded, "scrub-complete"));
    assert_eq!((repairs.len(), repairs[0].device), (1, Some(1)), "{repairs:?}");
    let count = repairs[0].count;
    assert!(count > 1 && repairs[0].first_unix_ms <= repairs[0].unix_ms, "{repairs:?}");
    assert!(ends[0].text.contains("stripes repaired"), "{ends:?}");
    assert_eq!(repair_notes(&running.status()), 1, "{:?}", running.status().notes);
    // A crash now would lose no event: the file has it.
    let begun = Instant::now();
    let is_kept = || {
        let text = fs::read_to_string(place.path("v.toml.events")).unwrap_or_default();
        text.contains(&format!("\"count\":{count},")) && text.contains("scrub complete")
    };
    while !is_kept() {
        assert!(begun.elapsed() < Duration::from_secs(300), "it is written soon");
        std::thread::sleep(Duration::from_millis(10));
    }
    running.stop().unwrap();
    assert_eq!(repair_notes(&status(&path).unwrap()), 1, "a restart acknowledges nothing");
    let (running, _client) = start(&path, false);
    assert_eq!(repair_notes(&running.status()), 1);
    clear(&path, Some("2")).unwrap();
    assert_eq!(repair_notes(&running.status()), 1, "that is another device");
    clear(&path, Some(&place.name("d1"))).unwrap();
    assert_eq!(repair_notes(&running.status()), 0);
    assert!(clear(&path, Some("nobody")).is_err());
    running.stop().unwrap();
    assert_eq!(repair_notes(&status(&path).unwrap()), 0, "an acknowledgement is durable");
    assert_eq!(kinds(&events(&path).unwrap().events, "repaired").len(), 1, "the event stays");
    clear(&path, None).unwrap();
    assert_eq!(kinds(&events(&path).unwrap().events, "cleared").len(), 3);
}

#[test]
fn unrepaired_damage_is_a_problem_across_restarts_until_cleared() {
    let place = filled();
    let path = place.path("v.toml");
    damage(&path, "d0");
    damage(&path, "d1");
    let (running, _client) = start(&path, false);
    operate(&path, &AdminRequest::Scrub).unwrap().unwrap();
    until(&running, |running| running.events().total("scrub-damage") == 1);
    assert!(running.status().notes.len() < 100, "{:?}", running.status().notes);
    running.stop().unwrap();
    let needs = |status: Status| status.problems.iter().any(|it| it.contains("cannot be rebuilt"));
    let (running, _client) = start(&path, false);
    assert!(needs(running.status()), "{:?}", running.status().problems);
    running.stop().unwrap();
    assert!(needs(status(&path).unwrap()));
    clear(&path, None).unwrap();
    assert!(!needs(status(&path).unwrap()));
}
