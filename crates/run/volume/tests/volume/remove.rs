//! Removing devices from a volume, served and not served.

use std::fs;
use std::time::Duration;

use crate::common::{Client, Place, content, is_sound, start, until};
use hostftl_volume::front::JobOp;
use hostftl_volume::{
    AddSpec, AdminRequest, CheckOptions, OpenOptions, Running, StartOptions, Verdict, add,
    check_with, import, online, open_with, operate, operate_here, status,
};

fn health(place: &Place) -> Vec<String> {
    status(&place.path("v.toml")).unwrap().devices.into_iter().map(|it| it.health).collect()
}

fn leaves(layer: &str, files: usize, lose: u32) {
    let place = Place::with_volume(layer, files, 40);
    let (running, client) = start(&place.path("v.toml"), false);
    (0..800).for_each(|at| client.write(at * 4096, &content(at), false).unwrap());
    client.flush();
    let path = place.path("v.toml");
    let exported = running.status().exported_bytes;
    assert!(operate(&path, &AdminRequest::MayRemove("1".into())).unwrap().unwrap().is_new);
    assert!(operate(&path, &AdminRequest::Remove("1".into())).unwrap().unwrap().is_new);
    assert!(
        !operate(&path, &AdminRequest::Remove("1".into())).unwrap().unwrap().is_new,
        "once is enough"
    );
    until(&running, |it| it.status().devices[1].health == "removed");
    assert_eq!(running.status().space.unwrap().failures_tolerated, lose);
    assert!(running.events().since(0).iter().any(|event| event.kind == "device-removed"));
    let late = operate(&path, &AdminRequest::Cancel("1".into())).unwrap_err().to_string();
    assert!(late.contains("it was removed"), "{late}");
    (800..900).for_each(|at| client.write(at * 4096, &content(at), false).unwrap());
    client.flush();
    running.stop().unwrap();
    fs::remove_file(place.path("d1")).unwrap();
    let (running, client) = start(&place.path("v.toml"), false);
    (0..900).for_each(|at| assert_eq!(client.read(at * 4096, 4096), content(at), "block {at}"));
    let now = running.status();
    assert_eq!((now.exported_bytes, now.degraded), (exported, false));
    running.stop().unwrap();
    assert_eq!(health(&place)[1], "removed");
    assert!(is_sound(&place));
    // The volume does not need it any more: no consent is required without it, and messages do not
    // ask for it.
    let all: Vec<String> = (0..files).map(|at| place.name(&format!("d{at}"))).collect();
    let others = [&all[..1], &all[2..]].concat();
    assert!(!import(&others, &place.path("w.toml")).unwrap().needs_consent);
    let alone = import(&others[..1], &place.path("x.toml")).unwrap_err().to_string();
    assert!(alone.contains("number 2") && !alone.contains("number 1"), "{alone}");
    // Its slot remains empty, and others may be added.
    let new = vec![place.name("n")];
    add(&AddSpec { path, new, force: false, spare: false, rehearse: false }).unwrap();
    let (running, client) = start(&place.path("v.toml"), false);
    until(&running, |it| it.status().space.unwrap().failures_tolerated == lose);
    (0..900).for_each(|at| assert_eq!(client.read(at * 4096, 4096), content(at), "block {at}"));
    running.stop().unwrap();
    assert!(is_sound(&place));
}

#[test]
fn a_device_is_removed_from_a_volume_with_parity() {
    leaves("log:parity=yes:compress=none", 4, 1);
}

#[test]
fn a_device_is_removed_from_a_volume_without_parity() {
    leaves("log:compress=none", 3, 0);
}

#[test]
fn a_removed_device_can_be_added_again_by_name() {
    for served in [true, false] {
        let place = Place::with_volume("log:parity=yes:compress=none", 4, 40);
        let (running, client) = start(&place.path("v.toml"), false);
        (0..800).for_each(|at| client.write(at * 4096, &content(at), false).unwrap());
        let path = place.path("v.toml");
        assert!(operate(&path, &AdminRequest::Remove("1".into())).unwrap().unwrap().is_new);
        let new = vec![place.name("d1")];
        let again = AddSpec { path, new, force: true, spare: false, rehearse: false };
        until(&running, |it| it.status().devices[1].health == "removed");
        let cautious = add(&AddSpec { force: false, ..again.clone() }).unwrap_err().to_string();
        assert!(cautious.contains("--force"), "{cautious}");
        let running = if served {
            running
        } else {
            drop(client);
            running.stop().unwrap();
            add(&again).unwrap();
            start(&place.path("v.toml"), false).0
        };
        served.then(|| add(&again).unwrap());
        until(&running, |it| it.status().devices.get(4).is_some_and(|it| it.health == "online"));
        let devices = running.status().devices;
        assert_eq!((devices[1].health.as_str(), &devices[4].name), ("removed", &place.name("d1")));
        running.stop().unwrap();
        assert_eq!(health(&place), ["online", "removed", "online", "online", "online"]);
        let (running, client) = start(&place.path("v.toml"), false);
        (0..800).for_each(|at| assert_eq!(client.read(at * 4096, 4096), content(at), "block {at}"));
        running.stop().unwrap();
        assert!(is_sound(&place));
    }
}

#[test]
fn a_removal_moves_data_that_fits_and_keeps_it() {
    let place = Place::with_volume("log:compress=none", 3, 40);
    let (running, client) = start(&place.path("v.toml"), false);
    let path = place.path("v.toml");
    assert!(operate(&path, &AdminRequest::Remove("1".into())).unwrap().unwrap().is_new);
    until(&running, |it| it.status().devices[1].health == "removed");
    let blocks = running.status().exported_bytes / 4096;
    let fill = |client: &Client, from: u64| {
        (from..blocks).find(|&at| client.write(at * 4096, &content(at), false).is_err())
    };
    let full = fill(&client, 0).expect("two devices of three have no room for all of it");
    assert!(full > blocks / 2, "{full} of {blocks}");
    client.flush();
    let most = running.status().space.unwrap().capacity_bytes;
    running.stop().unwrap();
    let (running, client) = start(&place.path("v.toml"), false);
    assert_eq!(running.status().space.unwrap().capacity_bytes, most, "a restart changes nothing");
    assert_eq!(fill(&client, full), Some(full), "nor makes it room");
    (0..full).for_each(|at| assert_eq!(client.read(at * 4096, 4096), content(at), "block {at}"));
    running.stop().unwrap();
    assert!(is_sound(&place));
}

#[test]
fn a_removal_continues_after_a_restart_and_can_be_cancelled() {
    let place = Place::with_volume("log:parity=yes:compress=none", 4, 40);
    let (running, client) = start(&place.path("v.toml"), false);
    (0..800).for_each(|at| client.write(at * 4096, &content(at), false).unwrap());
    running.stop().unwrap();
    let path = place.path("v.toml");
    let (running, outcome) = operate_here(&path, &AdminRequest::Remove("2".into())).unwrap();
    assert!(outcome.is_new);
    running.stop().unwrap();
    if health(&place)[2] != "removed" {
        match operate_here(&path, &AdminRequest::Cancel("2".into())) {
            Ok((running, outcome)) => {
                running.stop().unwrap();
                assert!(outcome.is_new, "the volume knows of it after a restart");
                let (running, outcome) =
                    operate_here(&path, &AdminRequest::Remove("2".into())).unwrap();
                assert!(outcome.is_new, "it stayed");
                running.stop().unwrap();
            }
            // The removal may be complete before the command reaches the layer.
            Err(error) => assert!(error.to_string().contains("it was removed"), "{error}"),
        }
    }
    let (running, client) = start(&place.path("v.toml"), false);
    until(&running, |it| it.status().devices[2].health == "removed");
    (0..800).for_each(|at| assert_eq!(client.read(at * 4096, 4096), content(at), "block {at}"));
    running.stop().unwrap();
    assert!(is_sound(&place));
}

#[test]
fn a_removal_without_space_is_refused_with_the_size() {
    let place = Place::with_volume("log:parity=yes:compress=none:spare=10", 3, 40);
    let blocks = status(&place.path("v.toml")).unwrap().exported_bytes / 4096;
    let (running, client) = start(&place.path("v.toml"), false);
    (0..blocks).for_each(|at| client.write(at * 4096, &content(at), false).unwrap());
    client.flush();
    let path = place.path("v.toml");
    let refused = |name: &str, why: &str| {
        let message = operate(&path, &AdminRequest::Remove(name.into())).unwrap_err().to_string();
        assert!(message.contains(why) && !message.contains('\n'), "{message}");
    };
    refused("0", "bytes of valid data do not fit on the other devices");
    refused("9", "9 is not a device of the volume");
    assert!(running.status().tasks.is_empty(), "nothing was begun");
    running.stop().unwrap();
    let mirror = Place::with_volume("log:parity=yes", 2, 40);
    let message =
        operate_here(&mirror.path("v.toml"), &AdminRequest::Remove("0".into())).unwrap_err();
    assert!(message.to_string().contains("too few devices would remain"), "{message}");
}

#[test]
fn a_returning_device_is_resilvered() {
    let place = Place::with_volume("log:parity=yes:compress=none:spare=20", 3, 40);
    let path = place.path("v.toml");
    let blocks = status(&path).unwrap().exported_bytes / 4096;
    let (running, client) = start(&place.path("v.toml"), false);
    (0..blocks).for_each(|at| client.write(at * 4096, &content(at), false).unwrap());
    client.flush();
    running.stop().unwrap();
    let (running, client) = start(&place.path("v.toml"), false);
    until(&running, |it| it.status().space.unwrap().failures_tolerated == 1);
    assert!(operate(&path, &AdminRequest::Offline("1".into())).unwrap().unwrap().is_new);
    until(&running, |it| it.status().devices[1].health == "lost");
    // The volume is full, so the data of the device is not rebuilt, and new writes lack its chunk.
    (0..40).for_each(|at| client.write(at * 4096, &content(at + 7), false).unwrap());
    client.flush();
    let refused = operate(&path, &AdminRequest::Offline("0".into())).unwrap_err().to_string();
    assert!(refused.contains("some segments are degraded"), "{refused}");
    nothing_goes_on(&running);
    running.stop().unwrap();
    assert!(online(&path, "1").unwrap().is_new && !online(&path, "1").unwrap().is_new);
    let (running, _client) = start(&place.path("v.toml"), false);
    let first = running.status().space.unwrap();
    until(&running, |it| it.status().space.unwrap().failures_tolerated == 1);
    let sent: u64 = running.status().devices.iter().map(|it| it.written_bytes).sum();
    assert!(
        sent < blocks * 4096 / 2,
        "{sent} bytes of {} were made anew: {first:?}",
        blocks * 4096
    );
    running.stop().unwrap();
    assert!(is_sound(&place));
    // Its old data and the data rebuilt on it are readable when another device is lost.
    fs::remove_file(place.path("d0")).unwrap();
    let how = OpenOptions { degraded: true, ..OpenOptions::default() };
    let opened = open_with(&path, &how).unwrap().start(&StartOptions::default());
    let (running, port) = opened.unwrap();
    let client = Client::new(port);
    for at in 0..blocks {
        let now = content(if at < 40 { at + 7 } else { at });
        assert_eq!(client.read(at * 4096, 4096), now, "block {at}");
    }
    running.stop().unwrap();
}

/// Checks that impossible work does not start: a wait for it, and a scrub behind it, would never
/// end.
fn nothing_goes_on(running: &Running) {
    until(running, |it| it.status().tasks.is_empty());
    std::thread::sleep(Duration::from_millis(100));
    let now = running.status();
    assert_eq!(now.tasks, [], "nothing begins later");
    assert!(now.space.unwrap().degraded_bytes > 0);
}

#[test]
fn removal_is_refused_below_the_minimum_for_parity() {
    for (layer, files, lost) in [("log:parity=yes", 2, 1), ("log:parity=2", 4, 2)] {
        let place = Place::with_volume(layer, files, 48);
        let (running, client) = start(&place.path("v.toml"), false);
        (0..200).for_each(|at| client.write(at * 4096, &content(at), false).unwrap());
        client.flush();
        let path = place.path("v.toml");
        for device in 0..lost {
            operate(&path, &AdminRequest::Offline(device.to_string())).unwrap();
            until(&running, |it| it.status().devices[device].health == "lost");
        }
        nothing_goes_on(&running);
        operate(&path, &AdminRequest::Scrub).unwrap();
        until(&running, |it| it.events().since(0).iter().any(|it| it.kind == "scrub-complete"));
        for device in 0..lost {
            // Each device returns only after the previous one has joined.
            until(&running, |_| online(&path, &device.to_string()).is_ok());
        }
        until(&running, |it| it.status().space.unwrap().failures_tolerated as usize == lost);
        (0..200).for_each(|at| assert_eq!(client.read(at * 4096, 4096), content(at), "{at}"));
        running.stop().unwrap();
        assert!(is_sound(&place));
    }
}

#[test]
fn the_reported_trim_size_suffices_after_several_losses() {
    let place = Place::with_volume("log:parity=yes:compress=none", 7, 40);
    let (running, client) = start(&place.path("v.toml"), false);
    let path = place.path("v.toml");
    let blocks = running.status().exported_bytes / 4096;
    (0..blocks).for_each(|at| client.write(at * 4096, &content(at), false).unwrap());
    client.flush();
    let (mut kept, mut trims) = (blocks, 0);
    for device in [3, 0, 5] {
        until(&running, |it| it.status().space.unwrap().failures_tolerated == 1);
        assert!(
            operate(&path, &AdminRequest::Offline(device.to_string())).unwrap().unwrap().is_new
        );
        until(&running, |it| it.status().devices[device].health == "lost");
        until(&running, |it| it.status().tasks.is_empty());
        let status = running.status();
        let excess = status.space.unwrap().trim_required_bytes;
        if excess > 0 {
            let need = format!("trim {excess} bytes");
            let says = |it: &String| it.contains(&need);
            assert!(status.problems.iter().any(says), "{:?}", status.problems);
            let trim = excess.div_ceil(4096);
            kept -= trim;
            client.ask(JobOp::Trim { fua: true }, kept * 4096, trim * 4096).unwrap();
            trims += 1;
        }
        until(&running, |it| it.status().space.unwrap().degraded_bytes == 0);
        assert_eq!(running.status().space.unwrap().trim_required_bytes, 0);
    }
    assert!(trims > 0 && kept > 0, "four devices of seven have less room");
    (0..kept).for_each(|at| assert_eq!(client.read(at * 4096, 4096), content(at), "block {at}"));
    running.stop().unwrap();
    let checked = check_with(&path, CheckOptions { degraded: true, ..CheckOptions::default() });
    assert_eq!(checked.unwrap().verdict, Verdict::Degraded);
}
