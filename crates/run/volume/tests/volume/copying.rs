//! Copy of a working device to its replacement while the volume is served; it remains a member
//! until the copy is complete.

use std::env;
use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use crate::common::{Client, MIB, Place, heal, is_sound, put, serve, until, version};
use hostftl_io::cuts::{Copies, set_copies};
use hostftl_volume::front::Port;
use hostftl_volume::{
    AddSpec, AdminRequest, Config, OpenOptions, ReplaceSpec, Running, StartOptions, add, online,
    open_with, operate, replace,
};

const BLOCKS: u64 = 800;

fn write(client: &Client, turn: u64) {
    (0..BLOCKS).for_each(|at| client.write(at * 8192, &version(at, turn), false).unwrap());
    client.flush();
}

fn verify(client: &Client, turn: u64) {
    for at in 0..BLOCKS {
        assert_eq!(client.read(at * 8192, 4096), version(at, turn), "block {at}");
    }
}

fn has(running: &Running, kind: &str) -> bool {
    running.status().events.contains_key(kind)
}

fn text(running: &Running, kind: &str) -> String {
    running.events().since(0).into_iter().find(|it| it.kind == kind).unwrap().text
}

/// Returns a served volume whose device 1 is being copied to `n`, with the copy paused.
fn held(layer: &str, files: usize) -> (Place, Running, Port) {
    let place = Place::with_volume(layer, files, 48);
    let (running, port) = serve(&place, true);
    write(&Client::new(port.clone()), 0);
    set_copies(&place.name("n"), Copies::Wait);
    // The command returns although the copy waits, because it runs in the background.
    let report = put(&place, "1", &place.name("n")).unwrap();
    assert!(report.copying && report.served && !report.was_lost && !report.copied && !report.lacks);
    (place, running, port)
}

/// Checks that the devices are unchanged, and that no trace of the copy remains.
fn is_as_before(place: &Place, running: &Running) {
    let now = running.status();
    assert!(now.devices.iter().all(|it| it.health == "online"), "{now:?}");
    assert_eq!(
        (now.devices[1].name.clone(), now.space.unwrap().failures_tolerated),
        (place.name("d1"), 1)
    );
    assert!(now.tasks.is_empty() && now.devices[1].replacement.is_none(), "{:?}", now.tasks);
    let file = Config::load(&place.path("v.toml")).unwrap();
    assert_eq!((&file.devices[1], file.pending.len()), (&place.name("d1"), 0));
}

#[test]
fn no_redundancy_is_lost_while_a_device_is_copied() {
    let (place, running, port) = held("log:parity=yes:compress=none", 3);
    let client = Client::new(port);
    let now = running.status();
    assert_eq!((now.space.unwrap().failures_tolerated, now.degraded), (1, false));
    assert_eq!(now.devices[1].replacement, Some(place.name("n")));
    let task = now.tasks.iter().find(|it| it.task == "copy").unwrap();
    assert!(
        task.remaining_bytes > 0 && now.notes.iter().any(|it| it.contains("is being copied to"))
    );
    assert_eq!(Config::load(&place.path("v.toml")).unwrap().pending, [place.name("n")]);
    // Overwrite copied and uncopied chunks, while another device fails.
    write(&client, 1);
    File::options().write(true).open(place.path("d0")).unwrap().set_len(0).unwrap();
    verify(&client, 1);
    write(&client, 2);
    set_copies(&place.name("n"), Copies::Run);
    until(&running, |it| has(it, "device-replaced"));
    verify(&client, 2);
    write(&client, 3);
    assert_eq!(running.status().devices[1].name, place.name("n"));
    running.stop().unwrap();
    fs::remove_file(place.path("d1")).unwrap();
    fs::remove_file(place.path("d0")).unwrap();
    let (running, port) = serve(&place, true);
    verify(&Client::new(port), 3);
    running.stop().unwrap();
}

/// Copies a device under writes, then reads without each of the others and without the old one.
fn is_complete(layer: &str, files: usize) {
    let place = Place::with_volume(layer, files, 48);
    let (running, port) = serve(&place, true);
    write(&Client::new(port.clone()), 0);
    let over = AtomicBool::new(false);
    let turn = std::thread::scope(|scope| {
        // Overwrites during the copy force further rounds and the deferral of commands at the end.
        let writer = scope.spawn(|| {
            let client = Client::new(port.clone());
            let mut turn = 0;
            while !over.load(SeqCst) {
                turn += 1;
                write(&client, turn);
            }
            turn
        });
        assert!(put(&place, "1", &place.name("n")).unwrap().copying);
        until(&running, |it| has(it, "device-replaced"));
        // Writes continue until the switch, which must not lose any of them.
        over.store(true, SeqCst);
        writer.join().unwrap()
    });
    until(&running, |it| has(it, "device-joined"));
    assert!(!has(&running, "replace-rebuilds"));
    let now = running.status();
    assert!(now.devices.iter().all(|it| it.health == "online"), "{now:?}");
    assert!(now.tasks.iter().all(|it| it.task != "copy"));
    verify(&Client::new(port), turn);
    running.stop().unwrap();
    fs::remove_file(place.path("d1")).unwrap();
    assert!(is_sound(&place));
    let (running, port) = serve(&place, true);
    verify(&Client::new(port), turn);
    running.stop().unwrap();
    // Without another device, the data of the copy is needed.
    fs::rename(place.path("d2"), place.path("away")).unwrap();
    let (running, port) = serve(&place, true);
    verify(&Client::new(port), turn);
    running.stop().unwrap();
}

#[test]
fn a_copy_made_during_writes_is_complete() {
    is_complete("log:parity=yes:compress=none", 4);
}

#[test]
fn a_copy_of_a_device_with_two_parities_is_complete() {
    is_complete("log:parity=2", 5);
}

#[test]
fn a_device_without_redundancy_is_copied_during_writes() {
    let layers = [("passthrough", 1), ("hard", 1), ("mhatl", 1), ("shatl", 1), ("hatl-auto", 1)];
    for (layer, files) in layers.into_iter().chain([("tier", 2), ("log", 2)]) {
        let place = Place::with_volume(layer, files, 64);
        let (running, port) = serve(&place, true);
        let client = Client::new(port);
        write(&client, 0);
        let old = (files - 1).to_string();
        set_copies(&place.name("n"), Copies::Wait);
        assert!(put(&place, &old, &place.name("n")).unwrap().copying, "{layer}");
        write(&client, 1);
        assert!(online(&place.path("v.toml"), &old).unwrap().is_new, "{layer}: it is cancelled");
        // A cancelled copy removes the file that was created for it.
        assert!(!place.path("n").exists() && Config::load(&place.path("v.toml")).is_ok());
        put(&place, &old, &place.name("n")).unwrap();
        write(&client, 2);
        set_copies(&place.name("n"), Copies::Run);
        until(&running, |it| {
            (BLOCKS..BLOCKS + 8).for_each(|at| client.write(at * 8192, &[7; 4096], true).unwrap());
            has(it, "device-replaced")
        });
        write(&client, 3);
        verify(&client, 3);
        running.stop().unwrap();
        fs::remove_file(place.path(&format!("d{old}"))).unwrap();
        assert!(is_sound(&place), "{layer}");
        let (running, port) = serve(&place, true);
        verify(&Client::new(port), 3);
        running.stop().unwrap();
    }
}

#[test]
fn an_unreadable_device_without_redundancy_remains_a_member() {
    let place = Place::with_volume("passthrough", 1, 48);
    let (running, port) = serve(&place, true);
    let client = Client::new(port);
    write(&client, 0);
    set_copies(&place.name("n"), Copies::Wait);
    put(&place, "0", &place.name("n")).unwrap();
    let bytes = fs::read(place.path("d0")).unwrap();
    File::options().write(true).open(place.path("d0")).unwrap().set_len(0).unwrap();
    set_copies(&place.name("n"), Copies::Run);
    until(&running, |it| has(it, "replace-cancelled"));
    fs::write(place.path("d0"), bytes).unwrap();
    assert!(text(&running, "replace-cancelled").contains("no redundancy"));
    verify(&client, 0);
    assert_eq!(running.status().devices[0].name, place.name("d0"));
    running.stop().unwrap();
}

#[test]
fn a_cancelled_copy_keeps_the_old_device() {
    let (place, running, port) = held("log:parity=yes", 3);
    let path = place.path("v.toml");
    let client = Client::new(port);
    write(&client, 1);
    let new = vec![place.name("more")];
    let spec = AddSpec { path: path.clone(), new, force: false, spare: false, rehearse: false };
    let refused = [
        put(&place, "0", &place.name("other")).map(drop).unwrap_err(),
        add(&spec).map(drop).unwrap_err(),
        online(&path, "0").map(drop).unwrap_err(),
        operate(&path, &AdminRequest::Offline("2".into())).map(drop).unwrap_err(),
        operate(&path, &AdminRequest::Remove("2".into())).map(drop).unwrap_err(),
    ];
    for why in refused.map(|error| error.to_string()) {
        assert!(why.contains("device 1 is being copied to") && why.contains("wait"), "{why}");
    }
    assert!(!place.path("other").exists() && !place.path("more").exists());
    let report = online(&path, "1").unwrap();
    assert!(report.is_new && report.notes[0].contains("was cancelled"), "{:?}", report.notes);
    is_as_before(&place, &running);
    assert!(text(&running, "replace-cancelled").contains("cancelled by command"));
    assert!(!place.path("n").exists(), "the new file is removed");
    assert!(!online(&path, "1").unwrap().is_new, "nothing is left to be cancelled");
    write(&client, 2);
    set_copies(&place.name("n"), Copies::Run);
    put(&place, "1", &place.name("n")).unwrap();
    until(&running, |it| has(it, "device-replaced"));
    verify(&client, 2);
    running.stop().unwrap();
    assert!(is_sound(&place));
}

#[test]
fn a_stop_cancels_a_copy() {
    let (place, running, port) = held("log:parity=yes", 3);
    write(&Client::new(port), 1);
    running.stop().unwrap();
    assert!(!place.path("n").exists());
    assert_eq!(Config::load(&place.path("v.toml")).unwrap().pending, [""; 0]);
    let (running, port) = serve(&place, true);
    is_as_before(&place, &running);
    verify(&Client::new(port), 1);
    running.stop().unwrap();
    assert!(is_sound(&place));
}

#[test]
fn an_error_of_the_new_device_keeps_the_old_one() {
    let (place, running, port) = held("log:parity=yes", 3);
    let client = Client::new(port);
    let path = place.path("v.toml");
    assert!(online(&path, "1").unwrap().is_new);
    File::create(place.path("small")).unwrap().set_len(8 << 20).unwrap();
    let why = put(&place, "1", &place.name("small")).unwrap_err().to_string();
    assert!(why.contains("and the volume needs"), "{why}");
    // The new device fails after the copy started.
    put(&place, "1", &place.name("n")).unwrap();
    until(&running, |it| it.status().tasks.iter().any(|it| it.done_bytes > 0));
    set_copies(&place.name("n"), Copies::Fail);
    let fails = |it: &Running| it.status().events.get("replace-cancelled") == Some(&2);
    until(&running, fails);
    is_as_before(&place, &running);
    assert!(!place.path("n").exists(), "the partial copy is removed");
    write(&client, 1);
    running.stop().unwrap();
    assert!(is_sound(&place));
}

/// A device is not excluded when the others lack some of its data.
#[test]
fn an_unreadable_but_needed_device_remains_a_member() {
    let (place, running, port) = held("log:parity=yes:compress=none", 4);
    let client = Client::new(port);
    fs::write(place.path("d2"), vec![0xa5; (48 * MIB) as usize]).unwrap();
    verify(&client, 0);
    until(&running, |it| it.status().space.is_some_and(|it| it.damaged_devices == [2]));
    let old = fs::read(place.path("d1")).unwrap();
    File::options().write(true).open(place.path("d1")).unwrap().set_len(0).unwrap();
    set_copies(&place.name("n"), Copies::Run);
    until(&running, |it| has(it, "replace-cancelled"));
    let why = text(&running, "replace-cancelled");
    assert!(why.contains("read it") && why.contains("nor rebuilt from the others"), "{why}");
    fs::write(place.path("d1"), old).unwrap();
    assert_eq!(running.status().devices[1].name, place.name("d1"));
    verify(&client, 0);
    running.stop().unwrap();
}

#[test]
fn an_unreadable_device_is_rebuilt_from_the_others() {
    let (place, running, port) = held("log:parity=yes:compress=none", 4);
    File::options().write(true).open(place.path("d1")).unwrap().set_len(0).unwrap();
    set_copies(&place.name("n"), Copies::Run);
    until(&running, |it| has(it, "device-replaced"));
    assert!(text(&running, "replace-rebuilds").contains("read it"));
    until(&running, |it| has(it, "device-joined"));
    heal(&running);
    let now = running.status();
    assert!(now.devices.iter().all(|it| it.health == "online") && !now.degraded, "{now:?}");
    verify(&Client::new(port), 0);
    running.stop().unwrap();
    fs::remove_file(place.path("d1")).unwrap();
    assert!(is_sound(&place));
}

/// Variable with the volume file for the process that is killed during a copy.
const CHILD: &str = "HOSTFTL_TEST_KILLED_COPY";

#[test]
#[ignore = "another test runs it, in a process of its own"]
fn child_process_that_is_killed() {
    let Ok(path) = env::var(CHILD) else { return };
    let path = Path::new(&path);
    let new = path.with_file_name("n").to_str().unwrap().to_owned();
    let opened = open_with(path, &OpenOptions::default()).unwrap();
    let (running, port) = opened.start(&StartOptions::default()).unwrap();
    set_copies(&new, Copies::Wait);
    let spec =
        ReplaceSpec { path: path.into(), old: "1".into(), new, force: false, rehearse: false };
    replace(&spec, &mut |_, _| {}).unwrap();
    write(&Client::new(port), 1);
    assert_eq!(running.status().tasks.iter().filter(|it| it.task == "copy").count(), 1);
    std::process::abort();
}

#[test]
fn a_kill_during_a_copy_undoes_it() {
    let place = Place::with_volume("log:parity=yes", 3, 48);
    let path = place.path("v.toml");
    let mut child = Command::new(env::current_exe().unwrap());
    child.args(["--exact", "copying::child_process_that_is_killed", "--ignored", "--nocapture"]);
    let ended = child.env(CHILD, &path).output().unwrap();
    assert_eq!(ended.status.code(), None, "{}", String::from_utf8_lossy(&ended.stderr));
    assert_eq!(Config::load(&path).unwrap().pending, [place.name("n")]);
    let (running, port) = serve(&place, true);
    is_as_before(&place, &running);
    verify(&Client::new(port), 1);
    running.stop().unwrap();
    assert!(is_sound(&place));
}
