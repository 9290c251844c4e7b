//! Adding devices to a served volume with a client.

use std::fs;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::common::{Client, Place, addition, serve, until, version};
use hostftl_volume::{
    AddSpec, Added, AdminRequest, CheckOptions, Config, Error, OpenOptions, StartOptions, Verdict,
    add, check_with, open_with, operate, set,
};

const BLOCKS: u64 = 400;

fn put(place: &Place, new: &[&str]) -> Result<Added, Error> {
    add(&addition(place, new))
}

fn write(client: &Client, turn: u64) {
    (0..BLOCKS).for_each(|at| client.write(at * 8192, &version(at, turn), at % 9 == 0).unwrap());
    client.flush();
}

fn verify(client: &Client, turn: u64) {
    for at in 0..BLOCKS {
        assert_eq!(client.read(at * 8192, 4096), version(at, turn), "block {at}");
    }
}

fn check(place: &Place) {
    let mut progress = |_: u64, _: u64| {};
    let options = CheckOptions { data: Some(&mut progress), ..CheckOptions::default() };
    assert_eq!(check_with(&place.path("v.toml"), options).unwrap().verdict, Verdict::Sound);
}

/// Sets a flag when it is dropped.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, SeqCst);
    }
}

/// Adds devices one after the other while a client writes and verifies, and checks that the export
/// grows.
fn grows(layer: &str, files: usize) {
    let place = Place::with_volume(layer, files, 48);
    let (running, port) = serve(&place, false);
    write(&Client::new(port.clone()), 0);
    let (over, first) = (AtomicBool::new(false), port.export().bytes);
    let turns = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            let client = Client::new(port.clone());
            let turn = |turn: &u64| {
                verify(&client, turn - 1);
                write(&client, *turn);
                !over.load(SeqCst)
            };
            (1..).take_while(turn).last()
        });
        // Also set the flag when this thread panics.
        let ends = Ends(&over);
        for more in 0..3 {
            let rehearsal = AddSpec { rehearse: true, ..addition(&place, &[&format!("n{more}")]) };
            let planned = add(&rehearsal).unwrap();
            let done = put(&place, &[&format!("n{more}")]).unwrap();
            assert_eq!((done.exported, done.served), (planned.exported, true));
            assert_eq!(usize::from(done.devices[0].number), files + more);
            assert_eq!(port.export().bytes, done.exported.1);
            assert_eq!(running.status().exported_bytes, done.exported.1);
            let joined = Some(more as u64 + 1);
            until(&running, |it| it.status().events.get("device-joined").copied() == joined);
            until(&running, |it| it.status().devices[files + more].written_bytes > 0);
        }
        drop(ends);
        writer.join().unwrap().unwrap_or(0) + 1
    });
    assert!(port.export().bytes > first * 3 / 2, "{first} became {}", port.export().bytes);
    let client = Client::new(port.clone());
    client.write(port.export().bytes - 4096, &version(1, 1), true).unwrap();
    verify(&client, turns);
    let now = running.status();
    assert_eq!((now.devices.len(), now.events["device-added"]), (files + 3, 3));
    assert!(now.devices.iter().all(|it| it.health == "online"), "{now:?}");
    running.stop().unwrap();
    let named = Config::load(&place.path("v.toml")).unwrap().devices;
    assert_eq!(named.len(), files + 3);
    check(&place);
    let (running, port) = serve(&place, false);
    let client = Client::new(port.clone());
    verify(&client, turns);
    assert_eq!(client.read(port.export().bytes - 4096, 4096), version(1, 1));
    running.stop().unwrap();
}

#[test]
fn an_array_grows_while_served() {
    grows("log:parity=yes:compress=none", 3);
}

#[test]
fn a_mirror_grows_into_an_array_while_served() {
    grows("log:parity=yes", 2);
}

#[test]
fn a_volume_without_parity_grows_while_served() {
    grows("log", 1);
}

/// A spare that was added while a client writes replaces a device that is lost later.
#[test]
fn a_spare_added_while_served_replaces_a_lost_device() {
    let place = Place::with_volume("log:parity=yes:compress=none", 3, 48);
    let (running, port) = serve(&place, false);
    let client = Client::new(port.clone());
    write(&client, 0);
    let before = port.export().bytes;
    set(&place.path("v.toml"), "rebuild-share", "60").unwrap();
    let done = add(&AddSpec { spare: true, ..addition(&place, &["s"]) }).unwrap();
    assert_eq!((done.exported, port.export().bytes), ((before, before), before));
    assert_eq!(running.status().devices[3].role, "spare");
    until(&running, |it| it.status().events.contains_key("device-joined"));
    running.stop().unwrap();
    fs::remove_file(place.path("d1")).unwrap();
    let how = OpenOptions { degraded: true, ..OpenOptions::default() };
    let opened = open_with(&place.path("v.toml"), &how).unwrap();
    let (running, port) = opened.start(&StartOptions::default()).unwrap();
    let client = Client::new(port.clone());
    write(&client, 1);
    until(&running, |it| it.status().events.contains_key("device-removed"));
    assert_eq!(running.status().space.unwrap().failures_tolerated, 1);
    verify(&client, 1);
    // After a device was removed, another one replaces the spare.
    put(&place, &["n"]).unwrap();
    write(&client, 2);
    running.stop().unwrap();
    let text = fs::read_to_string(place.path("v.toml")).unwrap();
    assert!(text.contains("rebuild-share = \"60\""), "{text}");
    let (running, port) = serve(&place, false);
    verify(&Client::new(port), 2);
    running.stop().unwrap();
}

/// After an added spare has replaced a device that was missing at the start, no note about that
/// device remains.
#[test]
fn a_device_replaced_by_a_spare_is_not_missing() {
    let place = Place::with_volume("log:parity=yes:compress=none", 2, 48);
    let (running, port) = serve(&place, false);
    write(&Client::new(port), 0);
    running.stop().unwrap();
    fs::remove_file(place.path("d0")).unwrap();
    let how = OpenOptions { degraded: true, ..OpenOptions::default() };
    let opened = open_with(&place.path("v.toml"), &how).unwrap();
    let (running, port) = opened.start(&StartOptions::default()).unwrap();
    until(&running, |it| it.status().degraded);
    let add_spare = || add(&AddSpec { spare: true, ..addition(&place, &["s"]) });
    // Retry until all superblocks exclude the lost device.
    until(&running, |_| add_spare().is_ok());
    until(&running, |it| it.status().events.contains_key("device-removed"));
    let now = running.status();
    assert!(!now.degraded, "{now:?}");
    assert!(!now.notes.iter().any(|note| note.starts_with("DEGRADED")), "{:?}", now.notes);
    assert!(now.problems.is_empty(), "{:?}", now.problems);
    verify(&Client::new(port), 0);
    running.stop().unwrap();
}

#[test]
fn a_scrub_continues_at_its_position() {
    let place = Place::with_volume("log:parity=yes:compress=none", 3, 48);
    let (running, port) = serve(&place, false);
    let client = Client::new(port);
    write(&client, 0);
    let request = |request| operate(&place.path("v.toml"), &request).unwrap().unwrap();
    assert!(request(AdminRequest::Scrub).is_new && request(AdminRequest::PauseScrub).is_new);
    put(&place, &["n"]).unwrap();
    let tasks = running.status().tasks;
    assert!(tasks.iter().any(|task| task.task == "scrub" && task.paused), "{tasks:?}");
    assert!(request(AdminRequest::ResumeScrub).is_new);
    until(&running, |it| it.status().events.contains_key("scrub-complete"));
    running.stop().unwrap();
    check(&place);
}

#[test]
fn obstacles_are_named_and_the_volume_keeps_serving() {
    let place = Place::with_volume("log:parity=yes", 3, 48);
    let (running, port) = serve(&place, false);
    let client = Client::new(port.clone());
    write(&client, 0);
    let (before, bytes) = (fs::read(place.path("v.toml")).unwrap(), port.export().bytes);
    let refused = |new: &[&str], why: &str| {
        let message = put(&place, new).unwrap_err().to_string();
        assert!(message.contains(why) && !message.contains('\n'), "{message}");
    };
    refused(&["d1"], "is already device 1 of this volume");
    refused(&["n", "n"], "is given twice");
    fs::File::create(place.path("small")).unwrap().set_len(3 << 20).unwrap();
    refused(&["small"], "less than 1/16 of the capacity of the others");
    assert!(!place.path("n").exists(), "nothing is left of what did not come");
    let names: Vec<_> = (0..14).map(|at| format!("n{at}")).collect();
    refused(&names.iter().map(String::as_str).collect::<Vec<_>>(), "at most 16 devices");
    verify(&client, 0);
    assert_eq!(fs::read(place.path("v.toml")).unwrap(), before);
    assert_eq!(port.export().bytes, bytes);
    assert!(!running.status().events.contains_key("device-added"));
    running.stop().unwrap();
    check(&place);
}

#[test]
fn an_edited_volume_file_does_not_stop_the_server() {
    let place = Place::with_volume("log:parity=yes", 3, 48);
    let (running, port) = serve(&place, false);
    let client = Client::new(port);
    write(&client, 0);
    let path = place.path("v.toml");
    let text = fs::read_to_string(&path).unwrap();
    let refused = |edited: &str, why: &str| {
        fs::write(&path, edited).unwrap();
        let message = put(&place, &["n"]).unwrap_err().to_string();
        assert!(message.contains(why) && !message.contains('\n'), "{message}");
        assert!(!place.path("n").exists(), "nothing is left of what did not come");
    };
    refused(
        &text.replace(&place.name("d2"), &place.name("d9")),
        "does not match the served volume",
    );
    let missing = text.replace(&place.name("d2"), "missing");
    refused(&missing, "does not match the served volume");
    refused(&text.replace("parity=yes", "parity=maybe"), "parity");
    refused("devices = [", "v.toml");
    fs::write(&path, &text).unwrap();
    verify(&client, 0);
    operate(&path, &AdminRequest::Offline("2".into())).unwrap();
    until(&running, |it| it.status().events.contains_key("degraded"));
    fs::write(&path, &missing).unwrap();
    // Until all other superblocks exclude it, `add` asks to try again.
    until(&running, |_| match put(&place, &["n"]) {
        Ok(_) => true,
        Err(why) => !why.to_string().ends_with("try again"),
    });
    assert!(running.status().events.contains_key("device-added"));
    verify(&client, 0);
    running.stop().unwrap();
}
